"""A feed's own page: health, name, folders, address, pause, refresh, unsubscribe."""

from __future__ import annotations

import dataclasses
import datetime as dt
from urllib.parse import quote

from flask import Blueprint, Response, jsonify, make_response, redirect, request
from flask_babel import gettext as _

from app import clock
from app.errors import EventrError, ExistsError, InvalidError, NotFoundError, RateLimitedError
from app.models.accounts.user import Notice
from app.models.reading.stream import REF_MAX, StreamKind, StreamRef
from app.web import forms
from app.web.context import actor, services, session
from app.web.errors import wants_json
from app.web.forms import text
from app.web.security.redirects import safe_next
from app.web.view import chart, i18n
from app.web.view.present import checking
from app.web.view.render import template

bp = Blueprint("feeds", __name__)

#: A first fetch that is planned for later than so is not said to come in a moment.
SOON = dt.timedelta(minutes=5)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    title: str = text(max=512, default="")
    folder: tuple[int, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Rename:
    name: str = text(max=512, default="")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    url: str = text(max=4096)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    paused: bool


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Refresh:
    stream: str = text(max=REF_MAX)
    next: str = text(max=2048, default="")


@bp.get("/feeds/<int:feed_id>")
def page(feed_id: int) -> str | Response:
    """How a feed is doing, in words, with its last fetches; a person has a page of his own."""
    try:
        mine = services().subscriptions.get(actor(), feed_id)
    except NotFoundError:
        if heir := services().subscriptions.heir(actor(), feed_id):
            return make_response(redirect(f"/feeds/{heir}", 303))
        raise
    if mine.person:
        handle = services().following.of_feed(actor(), feed_id)
        return make_response(redirect(f"/@{quote(handle)}" if handle else "/people", 303))
    return _page(feed_id)


def _page(feed_id: int, error: EventrError | None = None, url: str = "") -> str:
    health, now = services().subscriptions.health(actor(), feed_id), clock.now()
    zone = i18n.timezone()
    return template(
        "pages/feed.html",
        health=health,
        feed=health.feed,
        mine=services().subscriptions.get(actor(), feed_id),
        folders=services().folders.list(actor()),
        day=chart.day(health.log, health.forecast, health.next_check_at, now, zone),
        days=chart.days(health.log, now, zone),
        zone=str(zone),
        later=health.next_check_at is not None and health.next_check_at > now + SOON,
        error=error,
        url=url or health.feed.url,
    )


@bp.post("/feeds/<int:feed_id>/edit")
def edit(feed_id: int) -> Response:
    """Give a feed another name or other folders."""
    form = forms.form(request, Edit)
    services().subscriptions.edit(actor(), feed_id, title=form.title, folder_ids=form.folder)
    return _here(feed_id, _("Saved"))


@bp.post("/feeds/<int:feed_id>/rename")
def rename(feed_id: int) -> Response:
    """Give a feed another name; an empty one is its own."""
    form = forms.form(request, Rename)
    before = services().subscriptions.get(actor(), feed_id).title
    services().subscriptions.edit(actor(), feed_id, title=form.name)
    feed = services().subscriptions.health(actor(), feed_id).feed
    name = form.name.strip() or feed.title or feed.url
    if wants_json():
        return jsonify(text=_("Renamed to “%(name)s”", name=name), name=name, before=before)
    return _here(feed_id, _("Saved"))


@bp.post("/feeds/<int:feed_id>/address")
def address(feed_id: int) -> Response | tuple[str, int]:
    """Read a feed at another address."""
    form = forms.form(request, Address)
    try:
        done = services().subscriptions.change_address(actor(), feed_id, form.url)
    except (InvalidError, ExistsError, RateLimitedError) as e:
        if services().subscriptions.get(actor(), feed_id).person:
            raise
        return _page(feed_id, e, form.url), e.http_status
    words = (
        _("Address changed. What you have read stays read")
        if done.known
        else _("Address changed. The feed is fetched from there now")
    )
    return _here(done.feed_id, words, f"feed.{done.undo}")


@bp.post("/feeds/<int:feed_id>/pause")
def pause(feed_id: int) -> Response:
    """Pause a feed, or let it go on."""
    form = forms.form(request, Pause)
    services().subscriptions.pause(actor(), feed_id, form.paused)
    return _here(feed_id, _("Paused") if form.paused else _("Checked again from now on"))


@bp.post("/feeds/<int:feed_id>/unsubscribe")
def unsubscribe(feed_id: int) -> Response:
    """End a subscription."""
    forms.form(request, forms.Empty)
    token = services().subscriptions.unsubscribe(actor(), feed_id)
    if wants_json():
        return jsonify(text=_("Unsubscribed"), undo=f"feed.{token}")
    _notify(_("Unsubscribed"), f"feed.{token}")
    return make_response(redirect("/read/all", 303))


@bp.post("/refresh")
def refresh() -> Response:
    """Check a feed, or all of them, for new entries now."""
    form = forms.form(request, Refresh)
    ref = StreamRef.parse(form.stream)
    one = ref.id if ref.kind is StreamKind.FEED else None
    count = services().subscriptions.refresh(actor(), one).count
    rests = services().subscriptions.resting(actor(), None if one is None else (one,))
    words = checking(count, rests)
    if wants_json():
        return jsonify(text=words, count=count)
    _notify(words)
    return make_response(redirect(safe_next(form.next), 303))


def _here(feed_id: int, words: str, undo: str | None = None) -> Response:
    _notify(words, undo)
    return make_response(redirect(f"/feeds/{feed_id}", 303))


def _notify(words: str, undo: str | None = None) -> None:
    services().accounts.notify(actor(), session(), Notice(words, undo))
