"""Folders: create, rename, delete; and which feeds are in them."""

from __future__ import annotations

import dataclasses

from flask import Blueprint, Response, make_response, redirect, request
from flask_babel import gettext as _

from app.errors import ExistsError, InvalidError
from app.models.user import Notice
from app.web import schemas, views
from app.web.context import actor, services, session
from app.web.render import template
from app.web.schemas import text

bp = Blueprint("folders", __name__)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Name:
    name: str = text(max=128)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    feed: int
    folder: int | None


@bp.get("/folders")
def page() -> str:
    """All folders and feeds, each with its menu."""
    return _page()


def _page(error: Exception | None = None) -> str:
    tree = services().reading.tree(actor())
    feeds = sorted(views.feeds(tree), key=lambda f: f.title.casefold())
    return template("pages/folders.html", folders=list(views.folders(tree)), feeds=feeds, error=error)


@bp.post("/folders")
def create() -> Response | tuple[str, int]:
    """Make a folder."""
    form = schemas.form(request, Name)
    try:
        folder = services().folders.create(actor(), form.name)
    except (ExistsError, InvalidError) as e:
        return _page(e), e.http_status
    return _back(_("Folder “%(name)s” created", name=folder.name))


@bp.post("/folders/<int:folder_id>/rename")
def rename(folder_id: int) -> Response | tuple[str, int]:
    """Give a folder another name."""
    form = schemas.form(request, Name)
    try:
        folder = services().folders.rename(actor(), folder_id, form.name)
    except (ExistsError, InvalidError) as e:
        return _page(e), e.http_status
    return _back(_("Renamed to “%(name)s”", name=folder.name))


@bp.post("/folders/<int:folder_id>/delete")
def delete(folder_id: int) -> Response:
    """Delete a folder; its feeds stay."""
    schemas.form(request, schemas.Empty)
    token = services().folders.delete(actor(), folder_id)
    return _back(_("Folder deleted. Its feeds are still there"), f"folder.{token}")


@bp.post("/folders/move")
def move() -> Response:
    """Put a feed into one folder, or into none."""
    form = schemas.form(request, Move)
    folder_ids = () if form.folder is None else (form.folder,)
    services().subscriptions.edit(actor(), form.feed, folder_ids=folder_ids)
    return _back(_("Moved"))


def _back(words: str, undo: str | None = None) -> Response:
    services().accounts.notify(actor(), session(), Notice(words, undo))
    return make_response(redirect("/folders", 303))
