"""Add a feed: one field for a site, a page or a feed; then choose, and read."""

from __future__ import annotations

import dataclasses

from flask import Blueprint, Response, make_response, redirect, request
from flask_babel import gettext as _

from app.errors import FeedError, InvalidError, NotFoundError
from app.models.accounts.user import Notice
from app.web import forms
from app.web.context import actor, services, session, web
from app.web.forms import text
from app.web.view.own_addresses import handle_in
from app.web.view.render import fragment_for, template

bp = Blueprint("add", __name__)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    address: str = text(max=2048, default="")
    first: bool = False


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Find:
    address: str = text(max=2048)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    url: str = text(max=2048)
    folder: int | None = None
    new_folder: str = text(max=128, default="")


@bp.get("/add")
def page() -> str:
    """The field."""
    asked = forms.query(request, Query)
    return template("pages/add.html", address=asked.address, first=asked.first)


@bp.post("/add")
def find() -> str | tuple[str, int]:
    """Look for the feeds behind an address; answers "wait" when that takes long, and is asked again."""
    form = forms.form(request, Find)
    wait = web().settings.discovery_wait
    try:
        if handle := handle_in(form.address):
            return _found(form.address, person=services().following.person(actor(), handle))
        found = services().discovery.discover(actor(), form.address, wait=wait)
    except NotFoundError:
        # Nothing else: of an address of this server nothing is fetched.
        error = NotFoundError("There is nobody of this name here who shares anything.")
        return _found(form.address, error=error), error.http_status if not fragment_for() else 200
    except (FeedError, InvalidError) as e:
        return _found(form.address, error=e), e.http_status if not fragment_for() else 200
    return _found(form.address, found=found)


def _found(address: str, **values: object) -> str:
    page = "parts/found.html" if fragment_for() == "found" else "pages/add.html"
    return template(page, address=address, folders=services().folders.list(actor()), **values)


@bp.post("/subscribe")
def subscribe() -> Response:
    """Subscribe to a feed and show its list; the first entries come by themselves."""
    form = forms.form(request, Choice)
    if handle := handle_in(form.url):
        services().following.follow(actor(), handle)
        return _to("/people")
    new_folder = " ".join(form.new_folder.split())
    done = services().subscriptions.subscribe(
        actor(), form.url, folder_id=None if new_folder else form.folder
    )
    feed_id = done.subscription.feed_id
    if done.existed:
        services().accounts.notify(actor(), session(), Notice(_("You have this feed already")))
    elif new_folder:
        # Only now: what is refused, or there already, leaves no empty folder behind.
        services().subscriptions.edit(actor(), feed_id, folder_ids=[_folder(new_folder)])
    return _to(f"/read/feed/{feed_id}")


def _to(target: str) -> Response:
    if fragment_for():
        return Response(headers={"HX-Redirect": target})
    return make_response(redirect(target, 303))


def _folder(name: str) -> int:
    """Return the folder of this name outside of all others, made where there is none."""
    mine = services().folders.list(actor())
    known = (folder.id for folder in mine if folder.parent is None and folder.name == name)
    return next(known, None) or services().folders.create(actor(), name).id
