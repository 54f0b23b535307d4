"""Tags: on an entry, in the tree, and the page to rename, merge and delete them."""

from __future__ import annotations

import dataclasses

from flask import Blueprint, Response, jsonify, make_response, redirect, request
from flask_babel import gettext as _

from app.errors import ExistsError, InvalidError, TooLargeError
from app.models.accounts.user import Notice
from app.web import forms
from app.web.context import get_actor, get_services, get_session
from app.web.errors import is_json_wanted
from app.web.forms import declare_text
from app.web.security.redirects import get_safe_next
from app.web.view import i18n
from app.web.view.render import render_page

bp = Blueprint("tags", __name__)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """``add``: names separated by commas; ``remove``: ids."""

    entry: int
    add: str = declare_text(max=1024, default="")
    remove: tuple[int, ...] = ()
    next: str = declare_text(max=2048, default="")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Name:
    name: str = declare_text(max=256)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Into:
    into: int


@bp.post("/entries/tag")
def change_tags() -> Response:
    """Add tags to an entry or remove tags."""
    form = forms.read_form(request, Change)
    names = [name for name in form.add.split(",") if name.strip()]
    try:
        tags = get_services().tags.change_tags(get_actor(), form.entry, add=names, remove=form.remove)
    except (InvalidError, TooLargeError) as e:
        if is_json_wanted():
            raise
        return _back(i18n.translate_error(e), get_safe_next(form.next))
    if is_json_wanted():
        return jsonify(tags=[{"id": tag.id, "name": tag.name} for tag in tags])
    return make_response(redirect(get_safe_next(form.next), 303))


@bp.get("/entries/<int:entry_id>/tags")
def show_entry_tags(entry_id: int) -> str:
    """Show an entry's tags, as part of its article."""
    article = get_services().reading.get_article(get_actor(), entry_id)
    return render_page(
        "parts/tags.html", article=article, my_tags=get_services().tags.list_tags(get_actor()), next=""
    )


@bp.get("/tags")
def show_tags() -> str:
    """Show all tags."""
    return _page()


def _page(error: Exception | None = None) -> str:
    return render_page("pages/tags.html", tags=get_services().tags.list_tags(get_actor()), error=error)


@bp.get("/tags/tree")
def show_tree() -> str:
    """Show tags and saved searches, as part of the tree."""
    return render_page(
        "parts/labels.html",
        my_tags=get_services().tags.list_tags(get_actor()),
        searches=get_services().tags.list_searches(get_actor()),
        current="",
    )


@bp.post("/tags/<int:tag_id>/rename")
def rename(tag_id: int) -> Response | tuple[str, int]:
    """Rename a tag."""
    form = forms.read_form(request, Name)
    try:
        tag = get_services().tags.rename(get_actor(), tag_id, form.name)
    except (ExistsError, InvalidError) as e:
        return _page(e), e.http_status
    return _back(_("Renamed to “%(name)s”", name=tag.name))


@bp.post("/tags/<int:tag_id>/merge")
def merge(tag_id: int) -> Response | tuple[str, int]:
    """Merge a tag into another."""
    form = forms.read_form(request, Into)
    try:
        source, target = get_services().tags.merge(get_actor(), tag_id, form.into)
    except InvalidError as e:
        return _page(e), e.http_status
    words = _("Merged “%(name)s” into “%(into)s”", name=source.name, into=target.name)
    return _back(words, undo=f"tag.{tag_id}")


@bp.post("/tags/<int:tag_id>/delete")
def delete(tag_id: int) -> Response:
    """Delete a tag; its entries stay."""
    forms.read_form(request, forms.Empty)
    tag = get_services().tags.delete(get_actor(), tag_id)
    return _back(_("Tag “%(name)s” deleted", name=tag.name), undo=f"tag.{tag_id}")


def _back(words: str, to: str = "/tags", undo: str | None = None) -> Response:
    get_services().accounts.add_notice(get_actor(), get_session(), Notice(words, undo))
    return make_response(redirect(to, 303))
