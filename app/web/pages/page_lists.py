"""Making a feed of a page that has none: its lists as previews, and selectors for experts."""

from __future__ import annotations

import dataclasses

from flask import Blueprint, Response, request

from app.errors import FeedError, InvalidError, RateLimitedError
from app.models.feeds.recipe import ADDRESS_MAX, SELECTOR_MAX, RecipeKind, split_recipe
from app.web import forms
from app.web.context import get_actor, get_services, get_web
from app.web.forms import declare_text
from app.web.view.render import get_fragment_id, render_page

bp = Blueprint("page_lists", __name__)

#: Errors that the user can fix.
_SHOWN = (FeedError, InvalidError, RateLimitedError)
_KINDS = tuple(kind.value for kind in RecipeKind)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    address: str = declare_text(max=ADDRESS_MAX, default="")
    feed: int = 0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PageKey:
    key: int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Lists:
    address: str = declare_text(max=ADDRESS_MAX)
    feed: int = 0
    kind: str = declare_text(max=8, default=RecipeKind.CSS.value, one_of=_KINDS)
    item: str = declare_text(max=SELECTOR_MAX, default="")
    title: str = declare_text(max=SELECTOR_MAX, default="")
    link: str = declare_text(max=SELECTOR_MAX, default="")
    date: str = declare_text(max=SELECTOR_MAX, default="")
    author: str = declare_text(max=SELECTOR_MAX, default="")
    body: str = declare_text(max=SELECTOR_MAX, default="")
    image: str = declare_text(max=SELECTOR_MAX, default="")

    @property
    def selectors(self) -> dict[str, str]:
        """The selectors by their names; empty ones mean the usual places."""
        names = ("item", "title", "link", "date", "author", "body", "image")
        return {name: getattr(self, name).strip() for name in names}


@bp.get("/add/page")
def show_page_lists() -> str:
    """Show the field for the address of a page; ``feed``: the feed that one of its lists replaces."""
    asked = forms.read_query(request, Query)
    form = Lists(address=asked.address, feed=asked.feed)
    return render_page("pages/page_lists.html", form=form, repaired=_find_repaired(asked.feed))


@bp.post("/add/page")
def find_page_lists() -> str | tuple[str, int]:
    """Read a page and show its lists; if this takes long, answer "wait" and let the page retry."""
    form = forms.read_form(request, Lists)
    repaired = _find_repaired(form.feed)
    is_part = get_fragment_id() == "lists"
    name = "parts/page_lists.html" if is_part else "pages/page_lists.html"
    try:
        found = get_services().page_lists.find_lists(
            get_actor(),
            form.address,
            form.selectors,
            kind=form.kind,
            wait=get_web().settings.discovery_wait,
        )
    except _SHOWN as e:
        return render_page(name, form=form, error=e, repaired=repaired), 200 if is_part else e.http_status
    page = split_recipe(found.address)[0]
    return render_page(name, form=dataclasses.replace(form, address=page), found=found, repaired=repaired)


def _find_repaired(feed_id: int) -> str:
    """Return the name of the feed that a list replaces; empty for a new feed."""
    if not feed_id:
        return ""
    mine = get_services().subscriptions.get(get_actor(), feed_id)
    feed = get_services().subscriptions.get_feed(get_actor(), feed_id)
    return mine.title or feed.title or feed.url


@bp.get("/add/page/outline")
def show_outline() -> Response:
    """Return what a page shows as a tree of texts, on which a person points at the parts of an entry."""
    body = get_services().page_lists.get_outline(get_actor(), forms.read_query(request, PageKey).key)
    return Response(body, content_type="application/json; charset=utf-8")
