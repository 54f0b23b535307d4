"""A feed's own page: health, name, folders, refresh, unsubscribe."""

from __future__ import annotations

import dataclasses

from flask import Blueprint, Response, jsonify, make_response, redirect, request
from flask_babel import gettext as _
from flask_babel import ngettext

from app.models.stream import REF_MAX, StreamKind, StreamRef
from app.models.user import Notice
from app.web import chart, schemas
from app.web.context import actor, services, session
from app.web.errors import wants_json
from app.web.redirects import safe_next
from app.web.render import template
from app.web.schemas import text

bp = Blueprint("feeds", __name__)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    title: str = text(max=512, default="")
    folder: tuple[int, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Refresh:
    stream: str = text(max=REF_MAX)
    next: str = text(max=2048, default="")


@bp.get("/feeds/<int:feed_id>")
def page(feed_id: int) -> str:
    """How a feed is doing, in words, with its last fetches."""
    health = services().subscriptions.health(actor(), feed_id)
    return template(
        "pages/feed.html",
        health=health,
        feed=health.feed,
        mine=services().subscriptions.get(actor(), feed_id),
        folders=services().folders.list(actor()),
        day=chart.day(health.fetches),
    )


@bp.post("/feeds/<int:feed_id>/edit")
def edit(feed_id: int) -> Response:
    """Give a feed another name or other folders."""
    form = schemas.form(request, Edit)
    services().subscriptions.edit(actor(), feed_id, title=form.title, folder_ids=form.folder)
    _notify(_("Saved"))
    return make_response(redirect(f"/feeds/{feed_id}", 303))


@bp.post("/feeds/<int:feed_id>/unsubscribe")
def unsubscribe(feed_id: int) -> Response:
    """End a subscription."""
    schemas.form(request, schemas.Empty)
    token = services().subscriptions.unsubscribe(actor(), feed_id)
    _notify(_("Unsubscribed"), f"feed.{token}")
    return make_response(redirect("/read/all", 303))


@bp.post("/refresh")
def refresh() -> Response:
    """Check a feed, or all of them, for new entries now."""
    form = schemas.form(request, Refresh)
    ref = StreamRef.parse(form.stream)
    one = ref.id if ref.kind is StreamKind.FEED else None
    count = len(services().subscriptions.refresh(actor(), one))
    words = ngettext("Checking %(num)s feed", "Checking %(num)s feeds", count)
    if wants_json():
        return jsonify(text=words, count=count)
    _notify(words)
    return make_response(redirect(safe_next(form.next), 303))


def _notify(words: str, undo: str | None = None) -> None:
    services().accounts.notify(actor(), session(), Notice(words, undo))
