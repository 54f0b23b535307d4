"""Tags: on an entry, in the tree, and the page on which they are renamed, merged and deleted."""

from __future__ import annotations

import dataclasses

from flask import Blueprint, Response, jsonify, make_response, redirect, request
from flask_babel import gettext as _

from app.errors import ExistsError, InvalidError, TooLargeError
from app.models.accounts.user import Notice
from app.web import forms
from app.web.context import actor, services, session
from app.web.errors import wants_json
from app.web.forms import text
from app.web.security.redirects import safe_next
from app.web.view import i18n
from app.web.view.render import template

bp = Blueprint("tags", __name__)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """``add``: names, divided by commas; ``remove``: ids."""

    entry: int
    add: str = text(max=1024, default="")
    remove: tuple[int, ...] = ()
    next: str = text(max=2048, default="")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Name:
    name: str = text(max=256)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Into:
    into: int


@bp.post("/entries/tag")
def change() -> Response:
    """Add tags to an entry, or take some away."""
    form = forms.form(request, Change)
    names = [name for name in form.add.split(",") if name.strip()]
    try:
        tags = services().tags.change(actor(), form.entry, add=names, remove=form.remove)
    except (InvalidError, TooLargeError) as e:
        if wants_json():
            raise
        return _back(i18n.said(e), safe_next(form.next))
    if wants_json():
        return jsonify(tags=[{"id": tag.id, "name": tag.name} for tag in tags])
    return make_response(redirect(safe_next(form.next), 303))


@bp.get("/entries/<int:entry_id>/tags")
def of_entry(entry_id: int) -> str:
    """The tags of an entry, as a part of its article."""
    article = services().reading.article(actor(), entry_id)
    return template("parts/tags.html", article=article, my_tags=services().tags.all(actor()), next="")


@bp.get("/tags")
def page() -> str:
    """All tags."""
    return _page()


def _page(error: Exception | None = None) -> str:
    return template("pages/tags.html", tags=services().tags.all(actor()), error=error)


@bp.get("/tags/tree")
def tree() -> str:
    """Tags and saved searches, as a part of the tree."""
    return template(
        "parts/labels.html",
        my_tags=services().tags.all(actor()),
        searches=services().tags.searches(actor()),
        current="",
    )


@bp.post("/tags/<int:tag_id>/rename")
def rename(tag_id: int) -> Response | tuple[str, int]:
    """Give a tag another name."""
    form = forms.form(request, Name)
    try:
        tag = services().tags.rename(actor(), tag_id, form.name)
    except (ExistsError, InvalidError) as e:
        return _page(e), e.http_status
    return _back(_("Renamed to “%(name)s”", name=tag.name))


@bp.post("/tags/<int:tag_id>/merge")
def merge(tag_id: int) -> Response | tuple[str, int]:
    """Make one tag of two."""
    form = forms.form(request, Into)
    try:
        source, target = services().tags.merge(actor(), tag_id, form.into)
    except InvalidError as e:
        return _page(e), e.http_status
    words = _("“%(name)s” is now a part of “%(into)s”", name=source.name, into=target.name)
    return _back(words, undo=f"tag.{tag_id}")


@bp.post("/tags/<int:tag_id>/delete")
def delete(tag_id: int) -> Response:
    """Delete a tag; its entries stay where they are."""
    forms.form(request, forms.Empty)
    tag = services().tags.delete(actor(), tag_id)
    return _back(_("Tag “%(name)s” deleted", name=tag.name), undo=f"tag.{tag_id}")


def _back(words: str, to: str = "/tags", undo: str | None = None) -> Response:
    services().accounts.notify(actor(), session(), Notice(words, undo))
    return make_response(redirect(to, 303))
