"""Starter packs of feeds; admins create and edit them."""

from __future__ import annotations

import dataclasses

from flask import Blueprint, Response, make_response, redirect, request
from flask_babel import gettext as _

from app.errors import EventrError, ExistsError, InvalidError, RateLimitedError, TooLargeError
from app.models.accounts.actor import Permission
from app.models.accounts.user import Notice
from app.web import forms
from app.web.context import get_actor, get_services, get_session
from app.web.forms import declare_text
from app.web.security.sessions import takes_file
from app.web.view.i18n import get_language
from app.web.view.render import get_fragment_id, render_page

bp = Blueprint("packs", __name__)
#: Feeds of a pack that its page shows.
_SHOWN = 500


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    q: str = declare_text(max=100, default="")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    pick: tuple[int, ...] = ()
    all: bool = False


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Topics:
    topic: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    title: str = declare_text(max=80)
    about: str = declare_text(max=400, default="")


@bp.get("/packs")
def show_packs() -> str:
    """Show all packs as cards, or those that a search finds."""
    return _page(query=forms.read_query(request, Query).q)


def _page(error: EventrError | None = None, query: str = "") -> str:
    may_edit = get_actor().has_permission(Permission.PACK_EDIT)
    packs = get_services().packs.list_packs(get_actor(), get_language(), query)
    icons = get_services().packs.find_icons(get_actor(), [one for view in packs for one in view.samples])
    name = "parts/packs.html" if get_fragment_id() == "packs" else "pages/packs.html"
    return render_page(name, packs=packs, icons=icons, may_edit=may_edit, error=error, query=query)


@bp.get("/packs/<slug>")
def show_pack(slug: str) -> str:
    """Show one pack with all its feeds."""
    return _show(slug)


def _show(slug: str, error: EventrError | None = None) -> str:
    view = get_services().packs.get(get_actor(), slug)
    return render_page(
        "pages/pack.html",
        view=view,
        known=get_services().packs.find_known(get_actor(), view.feeds[:_SHOWN]),
        shown=_SHOWN,
        may_edit=get_actor().has_permission(Permission.PACK_EDIT),
        error=error,
    )


@bp.post("/packs/subscribe")
def subscribe_topics() -> Response | tuple[str, int]:
    """Subscribe to all feeds of the selected packs."""
    form = forms.read_form(request, Topics)
    try:
        found = get_services().packs.subscribe_all(get_actor(), form.topic)
    except (InvalidError, RateLimitedError) as e:
        return _page(e), e.http_status
    return make_response(redirect(f"/imports/{found.id}", 303))


@bp.post("/packs/<slug>/subscribe")
def subscribe(slug: str) -> Response | tuple[str, int]:
    """Subscribe to all feeds of a pack or to the selected ones."""
    form = forms.read_form(request, Choice)
    try:
        found = get_services().packs.subscribe(get_actor(), slug, None if form.all else form.pick)
    except (InvalidError, RateLimitedError) as e:
        return _show(slug, e), e.http_status
    return make_response(redirect(f"/imports/{found.id}", 303))


@bp.post("/packs")
@takes_file("opml_max_bytes")
def add() -> Response | tuple[str, int]:
    """Create a pack from an OPML file."""
    form = forms.read_form(request, Edit)
    try:
        get_services().packs.add(get_actor(), form.title, form.about, _body() or b"")
    except (InvalidError, TooLargeError, ExistsError) as e:
        return _page(e), e.http_status
    return _back(_("Topic “%(title)s” created", title=form.title))


@bp.post("/packs/<slug>")
@takes_file("opml_max_bytes")
def update_pack(slug: str) -> Response | tuple[str, int]:
    """Change a pack's title, description or feeds."""
    form = forms.read_form(request, Edit)
    try:
        get_services().packs.update(get_actor(), slug, form.title, form.about, _body())
    except (InvalidError, TooLargeError) as e:
        return _show(slug, e), e.http_status
    return _back(_("Topic saved"))


@bp.post("/packs/<slug>/remove")
def remove(slug: str) -> Response:
    """Delete a pack."""
    forms.read_form(request, forms.Empty)
    get_services().packs.remove(get_actor(), slug)
    return _back(_("Topic deleted. People who subscribed to its feeds keep them."))


def _body() -> bytes | None:
    file = request.files.get("file")
    return (file.read() or None) if file else None


def _back(words: str) -> Response:
    get_services().accounts.add_notice(get_actor(), get_session(), Notice(words))
    return make_response(redirect("/packs", 303))
