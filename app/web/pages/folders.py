"""Folders: create, rename, move, delete; and the folders of feeds. Each works as a form and a script call."""

from __future__ import annotations

import dataclasses

from flask import Blueprint, Response, jsonify, make_response, redirect, request
from flask_babel import gettext as _

from app.errors import ExistsError, InvalidError
from app.models.accounts.user import Notice
from app.models.reading.stream import StreamRef
from app.models.subscriptions.folder import FolderEditMode
from app.web import forms
from app.web.context import get_actor, get_services, get_session
from app.web.errors import is_json_wanted
from app.web.forms import declare_text
from app.web.pages.subscriptions import Query, render_manager
from app.web.security.redirects import get_safe_next

bp = Blueprint("folders", __name__)

HOME = "/subscriptions"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Create:
    name: str = declare_text(max=128)
    parent: int | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Name:
    name: str = declare_text(max=128)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    feed: int
    folder: int | None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    feed: int
    source: int | None = None
    target: int | None = None
    after: int | None = None
    next: str = declare_text(max=2048, default="")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class MoveFolder:
    parent: int | None = None
    after: int | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    stream: str = declare_text(max=64)


@bp.get("/folders")
def show_folders() -> Response:
    """Redirect to the subscriptions manager, which replaced this page."""
    return make_response(redirect(f"{HOME}#folders", 303))


@bp.post("/folders")
def create() -> Response | tuple[str, int]:
    """Create a folder."""
    form = forms.read_form(request, Create)
    try:
        folder = get_services().folders.create(get_actor(), form.name, parent=form.parent)
    except (ExistsError, InvalidError) as e:
        return _refused(e)
    return _done(_("Folder “%(name)s” created", name=folder.name), id=folder.id)


@bp.post("/folders/<int:folder_id>/rename")
def rename(folder_id: int) -> Response | tuple[str, int]:
    """Rename a folder."""
    form = forms.read_form(request, Name)
    try:
        folder = get_services().folders.rename(get_actor(), folder_id, form.name)
    except (ExistsError, InvalidError) as e:
        return _refused(e)
    return _done(_("Renamed to “%(name)s”", name=folder.name), name=folder.name)


@bp.post("/folders/<int:folder_id>/delete")
def delete(folder_id: int) -> Response:
    """Delete a folder; its feeds stay."""
    forms.read_form(request, forms.Empty)
    token = get_services().folders.delete(get_actor(), folder_id)
    return _done(_("Folder deleted. Its feeds are kept."), f"folder.{token}")


@bp.post("/folders/<int:folder_id>/move")
def move_folder(folder_id: int) -> Response | tuple[str, int]:
    """Move a folder into another, to the top level, or to a new position."""
    form = forms.read_form(request, MoveFolder)
    try:
        token = get_services().folders.move_folder(
            get_actor(), folder_id, parent=form.parent, after=form.after
        )
    except (ExistsError, InvalidError) as e:
        return _refused(e)
    return _done(_("Folder moved"), f"place.{token}")


@bp.post("/folders/move")
def move() -> Response:
    """Put a feed into one folder only, or into none."""
    form = forms.read_form(request, Move)
    folder_ids = () if form.folder is None else (form.folder,)
    # Raises NotFoundError if the user doesn't have this feed.
    get_services().subscriptions.get(get_actor(), form.feed)
    token, _count = get_services().folders.place_feeds(
        get_actor(), [form.feed], folder_ids, FolderEditMode.MOVE
    )
    return _done(_("Feed moved"), f"place.{token}")


@bp.post("/folders/place")
def place_feed() -> Response:
    """Move a feed from one folder to another, after a given feed."""
    form = forms.read_form(request, Place)
    token = get_services().folders.move_feed(
        get_actor(), form.feed, source=form.source, target=form.target, after=form.after
    )
    return _done(_("Feed moved"), f"place.{token}", next=form.next)


@bp.post("/folders/read")
def mark_read() -> Response:
    """Mark all current entries of a feed or folder as read."""
    form = forms.read_form(request, Read)
    done = get_services().reading.mark_all(get_actor(), StreamRef.parse(form.stream))
    if not done.count:
        return _done(_("No unread entries"))
    return _done(_("All marked as read"), done.undo)


def _refused(error: ExistsError | InvalidError) -> tuple[str, int]:
    if is_json_wanted():
        raise error
    return render_manager(Query(), error), error.http_status


def _done(words: str, undo: str | None = None, *, next: str = "", **answer: object) -> Response:
    if is_json_wanted():
        return jsonify(text=words, undo=undo, **answer)
    get_services().accounts.add_notice(get_actor(), get_session(), Notice(words, undo))
    return make_response(redirect(get_safe_next(next, HOME), 303))
