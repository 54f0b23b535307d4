"""A feed's page: health, title, folders, address, pause, refresh, unsubscribe."""

from __future__ import annotations

import dataclasses
import datetime as dt
from typing import Any, BinaryIO, cast
from urllib.parse import quote, urlencode

from flask import Blueprint, Response, jsonify, make_response, redirect, request
from flask_babel import gettext as _

from app import clock
from app.errors import (
    ExistsError,
    FeedError,
    InvalidError,
    NoSpaceError,
    NotFoundError,
    PictureError,
    PicturesUnsupportedError,
    RateLimitedError,
)
from app.models.accounts.actor import Permission
from app.models.accounts.page_save import PageSave
from app.models.accounts.user import Notice
from app.models.feeds.feed import count_shown_readers
from app.models.feeds.fetch_options import FetchOptions
from app.models.reading.stream import REF_MAX, StreamKind, StreamRef
from app.models.reading.stream_view import EXPANDED, LIST, PANES
from app.models.subscriptions.muting import is_hidden_site
from app.web import forms
from app.web.context import get_actor, get_services, get_session, get_user, get_web
from app.web.errors import is_json_wanted
from app.web.forms import declare_text
from app.web.saving import SelfSaving, take_changes
from app.web.security.redirects import get_safe_next
from app.web.security.sessions import takes_file
from app.web.view import chart, i18n
from app.web.view.lookup import find_lookup_address, find_page_of
from app.web.view.present import describe_check
from app.web.view.render import get_fragment_id, render_page

bp = Blueprint("feeds", __name__)

#: If the first fetch is planned for later than this, the page doesn't promise it soon.
SOON = dt.timedelta(minutes=5)
#: Days after which entries may be marked as read.
READ_AFTER_DAYS = (1, 2, 3, 7, 14, 30, 90)
#: Choices for how many of the newest entries lists show.
KEEP_NUMBERS = (5, 10, 25, 50, 100, 250, 1000)
#: The views of a feed's list that its settings offer.
VIEWS = (PANES, LIST, EXPANDED)
#: Errors of an uploaded icon that the page shows above its form.
_ICON_ERRORS = (InvalidError, NoSpaceError, PictureError, PicturesUnsupportedError, RateLimitedError)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Edit(SelfSaving):
    title: str = declare_text(max=512, default="")
    folder: tuple[int, ...] = ()
    #: The script sends what was ticked and unticked instead, so that another page's folders stay.
    folder_add: tuple[int, ...] = ()
    folder_remove: tuple[int, ...] = ()
    #: Refused alone if it is too long.
    new_folder: str = declare_text(max=1024, default="")
    view: str = declare_text(max=16, default="", one_of=("", *VIEWS))
    hidden: bool = False
    original: bool = False
    notify: bool = False
    full_text: bool = False
    reopen: bool = False
    read_after: int = 0
    keep_newest: int = 0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Rename:
    name: str = declare_text(max=512, default="")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    url: str = declare_text(max=4096)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Fetching:
    """Empty secrets keep the stored ones; a password goes with its user name."""

    login: str = declare_text(max=200, default="")
    password: str = declare_text(max=400, default="")
    token: str = declare_text(max=1000, default="")
    no_token: bool = False
    cookie: str = declare_text(max=1000, default="")
    no_cookie: bool = False
    user_agent: str = declare_text(max=300, default="")
    headers: str = declare_text(max=4096, default="")
    time_limit: int | None = None
    min_minutes: int | None = None
    max_minutes: int | None = None

    def build_options(self, before: FetchOptions) -> FetchOptions:
        """Return the options, with the secrets from before that weren't changed."""
        login = self.login.strip()
        return FetchOptions(
            login=login,
            password=self.password or (before.password if login and login == before.login else ""),
            token="" if self.no_token else self.token.strip() or before.token,
            cookie="" if self.no_cookie else self.cookie.strip() or before.cookie,
            user_agent=self.user_agent.strip(),
            headers=before.fill_headers(self.headers),
            time_limit=self.time_limit,
            min_minutes=self.min_minutes,
            max_minutes=self.max_minutes,
        )


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    paused: bool


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Private:
    private: bool


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Refresh:
    stream: str = declare_text(max=REF_MAX)
    next: str = declare_text(max=2048, default="")


@bp.get("/feeds/<int:feed_id>")
def show_feed(feed_id: int) -> str | Response:
    """Show a feed's health with its latest fetches; for a person's feed, redirect to the person's page."""
    try:
        mine = get_services().subscriptions.get(get_actor(), feed_id)
    except NotFoundError:
        if heir := get_services().subscriptions.find_successor(get_actor(), feed_id):
            return make_response(redirect(f"/feeds/{heir}", 303))
        raise
    if mine.person:
        handle = get_services().following.find_feed_owner(get_actor(), feed_id)
        return make_response(redirect(f"/@{quote(handle)}" if handle else "/people", 303))
    return _page(feed_id)


def _page(feed_id: int, **values: object) -> str:
    return render_page("pages/feed.html", **(_load(feed_id) | values))


def _load(feed_id: int) -> dict[str, Any]:
    """Return the values of the feed page."""
    health, now = get_services().subscriptions.get_health(get_actor(), feed_id), clock.now()
    zone, feed = i18n.get_timezone(), health.feed
    ref = StreamRef(StreamKind.FEED, feed_id)
    mine = get_services().subscriptions.get(get_actor(), feed_id)
    return {
        "options": (stored := get_services().subscriptions.open_fetch_options(get_actor(), feed)),
        "stored": stored,
        "headers": stored.mask_headers(),
        "is_hidden": is_hidden_site(mine),
        "health": health,
        "feed": feed,
        "readers": count_shown_readers(
            feed.subscribers, admin=get_actor().has_permission(Permission.ADMIN_SEE)
        ),
        "mine": mine,
        "folders": get_services().folders.list_folders(get_actor()),
        "day": chart.draw_day(health.log, health.forecast, health.next_check_at, now, zone),
        "days": chart.draw_days(health.log, now),
        "zone": str(zone),
        "later": health.next_check_at is not None and health.next_check_at > now + SOON,
        "url": feed.url,
        "can_upload_icon": get_actor().has_permission(Permission.FEED_MANAGE)
        and get_services().feed_icons.is_supported,
        "icon_max": get_web().settings.fetch_max_icon,
        "view": get_services().stream_views.get(get_actor(), ref, get_user().preferences).view,
        "has_gain": not mine.full_text or get_services().full_texts.has_gain(get_actor(), feed.id),
        "keep_numbers": sorted({*KEEP_NUMBERS, mine.keep_newest} - {0}),
        "read_after_days": sorted({*READ_AFTER_DAYS, mine.read_after} - {0}),
        "look_at": find_lookup_address(feed.url, feed.error, feed.site_url),
        "page_of": find_page_of(feed.url),
    }


@bp.post("/feeds/<int:feed_id>/edit")
def update_feed(feed_id: int) -> str | Response:
    """Change a feed's title, folders or view; on its page, each change is saved at once."""
    form, actor, services = forms.read_form(request, Edit), get_actor(), get_services()
    services.subscriptions.get(actor, feed_id)  # no folder for a feed that isn't theirs
    changes, save = take_changes(form)
    view, name = changes.pop("view", ""), changes.pop("new_folder", "")
    changes["add_folders"] = changes.pop("folder_add", ())
    changes["remove_folders"] = changes.pop("folder_remove", ())
    if "folder" in changes:
        changes["folder_ids"] = tuple(dict.fromkeys(changes.pop("folder")))
    services.subscriptions.update(actor, feed_id, **changes, save=save)
    ref, preferences = StreamRef(StreamKind.FEED, feed_id), get_user().preferences
    # A script names the view only if it was changed, and what is stored may be changed at this moment, too.
    if view and (save or view != services.stream_views.get(actor, ref, preferences).view):
        services.stream_views.set(actor, ref, preferences, {"view": view}, save)
    # Last: a refused change leaves no new folder, and a refused folder prevents no other change.
    known = {folder.id for folder in services.folders.list_folders(actor)}
    added = _add_folder(feed_id, name, save)
    if get_fragment_id() != "saved":
        return _here(feed_id, _("Saved"))
    return render_page(
        "parts/feed_saved.html",
        mine=services.subscriptions.get(actor, feed_id),
        feed=services.subscriptions.get_feed(actor, feed_id),
        folders=services.folders.list_folders(actor),
        added=added,
        is_new_folder=added not in known,
    )


def _add_folder(feed_id: int, name: str, save: PageSave | None) -> int | None:
    """Put a feed into a folder that may be new, and return its id."""
    if not name.strip():
        return None
    try:
        folder = get_services().folders.get_or_create(get_actor(), name)
        get_services().subscriptions.update(get_actor(), feed_id, add_folders=(folder.id,), save=save)
    except (InvalidError, ExistsError) as e:
        e.ids["field"] = "new_folder"
        raise
    return folder.id


@bp.post("/feeds/<int:feed_id>/find")
def find_replacement(feed_id: int) -> str | Response | tuple[str, int]:
    """Look for another feed on the site of a feed that fails, to take its place."""
    forms.read_form(request, forms.Empty)
    services, is_part = get_services(), get_fragment_id() == "found"
    values = {} if is_part else _load(feed_id)  # first, because a search makes what was read before stale
    feed = values.get("feed") or services.subscriptions.get_feed(get_actor(), feed_id)
    if page := find_page_of(feed.url):
        target = f"/add/page?{urlencode({'address': page, 'feed': feed_id}, safe='/')}"
        return Response(headers={"HX-Redirect": target}) if is_part else make_response(redirect(target, 303))
    address = find_lookup_address(feed.url, feed.error, feed.site_url)
    values |= {"feed": feed, "look_at": address}
    status = 200
    try:
        wait = get_web().settings.discovery_wait
        values["found"] = services.discovery.discover(get_actor(), address or feed.url, wait=wait)
    except (FeedError, InvalidError, RateLimitedError) as e:
        values["find_error"], status = e, e.http_status
    if is_part:
        return render_page("parts/replacement.html", **values)
    return render_page("pages/feed.html", **values), status


@bp.post("/feeds/<int:feed_id>/icon")
def look_for_icon(feed_id: int) -> Response:
    """Look for a feed's icon again."""
    forms.read_form(request, forms.Empty)
    get_services().subscriptions.get(get_actor(), feed_id)
    get_services().icons.look_again(get_actor(), feed_id)
    return _here(feed_id, _("Looking for the icon. This takes a few seconds."))


@bp.post("/feeds/<int:feed_id>/icon/upload")
@takes_file("fetch_max_icon")
def upload_icon(feed_id: int) -> Response | tuple[str, int]:
    """Accept an administrator's icon for a feed, and wait a moment until it is drawn."""
    forms.read_form(request, forms.Empty)
    get_services().subscriptions.get(get_actor(), feed_id)
    file = request.files.get("file")
    try:
        if file is None or not file.filename:
            raise InvalidError("Choose a picture first.", field="file")
        is_done = get_services().feed_icons.upload(get_actor(), feed_id, cast(BinaryIO, file.stream))
    except _ICON_ERRORS as e:
        return _page(feed_id, icon_error=e), e.http_status
    return _here(feed_id, _("Saved") if is_done else _("Eventr is preparing the icon. It appears soon."))


@bp.post("/feeds/<int:feed_id>/icon/remove")
def remove_icon(feed_id: int) -> Response:
    """Use the icon of the feed's site again."""
    forms.read_form(request, forms.Empty)
    get_services().subscriptions.get(get_actor(), feed_id)
    get_services().feed_icons.remove(get_actor(), feed_id)
    return _here(feed_id, _("Looking for the icon. This takes a few seconds."))


@bp.post("/feeds/<int:feed_id>/rename")
def rename(feed_id: int) -> Response:
    """Rename a feed; an empty name restores the feed's own title."""
    form = forms.read_form(request, Rename)
    before = get_services().subscriptions.get(get_actor(), feed_id).title
    get_services().subscriptions.update(get_actor(), feed_id, title=form.name)
    feed = get_services().subscriptions.get_health(get_actor(), feed_id).feed
    name = form.name.strip() or feed.title or feed.url
    if is_json_wanted():
        return jsonify(text=_("Renamed to “%(name)s”", name=name), name=name, before=before)
    return _here(feed_id, _("Saved"))


@bp.post("/feeds/<int:feed_id>/address")
def change_address(feed_id: int) -> Response | tuple[str, int]:
    """Change the address of a feed."""
    form = forms.read_form(request, Address)
    try:
        done = get_services().subscriptions.change_address(get_actor(), feed_id, form.url)
    except (InvalidError, ExistsError, RateLimitedError) as e:
        if get_services().subscriptions.get(get_actor(), feed_id).person:
            raise
        return _page(feed_id, error=e, url=form.url), e.http_status
    if not done.undo:
        return _here(done.feed_id, _("Eventr is trying this address now."))
    words = (
        _("Address changed. Read entries stay read.")
        if done.was_known
        else _("Address changed. Eventr is fetching the feed from there now.")
    )
    return _here(done.feed_id, words, f"feed.{done.undo}")


@bp.post("/feeds/<int:feed_id>/fetch")
def set_fetching(feed_id: int) -> Response | tuple[str, int]:
    """Set the login, cookie, user agent and interval limits with which a feed is fetched."""
    form, services = forms.read_form(request, Fetching), get_services()
    try:
        done = services.subscriptions.change_fetch_options(get_actor(), feed_id, form.build_options)
    except (InvalidError, ExistsError, RateLimitedError) as e:
        if services.subscriptions.get(get_actor(), feed_id).person:
            raise
        typed = form.build_options(FetchOptions())
        return _page(feed_id, fetch_error=e, options=typed, headers=form.headers), e.http_status
    if done.undo:
        words = (
            _("Saved. You read your own copy of this feed now.")
            if done.is_own_copy
            else _("Saved. You read the shared feed again.")
        )
        return _here(done.feed_id, words, f"feed.{done.undo}")
    return _here(done.feed_id, _("Saved"))


@bp.post("/feeds/<int:feed_id>/pause")
def pause(feed_id: int) -> Response:
    """Pause or resume a feed."""
    form = forms.read_form(request, Pause)
    get_services().subscriptions.set_paused(get_actor(), feed_id, form.paused)
    return _here(feed_id, _("Paused") if form.paused else _("Resumed"))


@bp.post("/feeds/<int:feed_id>/private")
def set_private(feed_id: int) -> Response:
    """Keep a feed private, or not anymore."""
    form = forms.read_form(request, Private)
    get_services().sharing.set_feed_private(get_actor(), feed_id, form.private)
    return _here(feed_id, _("The feed is private now") if form.private else _("You can share entries again"))


@bp.post("/feeds/<int:feed_id>/unsubscribe")
def unsubscribe(feed_id: int) -> Response:
    """End a subscription."""
    forms.read_form(request, forms.Empty)
    token = get_services().subscriptions.unsubscribe(get_actor(), feed_id)
    if is_json_wanted():
        return jsonify(text=_("Unsubscribed"), undo=f"feed.{token}")
    _notify(_("Unsubscribed"), f"feed.{token}")
    return make_response(redirect("/read/all", 303))


@bp.post("/refresh")
def refresh() -> Response:
    """Check one feed, or all feeds, for new entries now."""
    form = forms.read_form(request, Refresh)
    ref = StreamRef.parse(form.stream)
    one = ref.id if ref.kind is StreamKind.FEED else None
    count = get_services().subscriptions.refresh(get_actor(), one).count
    rests = get_services().subscriptions.list_rest_ends(get_actor(), None if one is None else (one,))
    words = describe_check(count, rests)
    if is_json_wanted():
        return jsonify(text=words, count=count)
    _notify(words)
    return make_response(redirect(get_safe_next(form.next), 303))


def _here(feed_id: int, words: str, undo: str | None = None) -> Response:
    _notify(words, undo)
    return make_response(redirect(f"/feeds/{feed_id}", 303))


def _notify(words: str, undo: str | None = None) -> None:
    get_services().accounts.add_notice(get_actor(), get_session(), Notice(words, undo))
