"""The Fever API, for older apps: one address, with all parameters in the query or the body.

Format: version 3 of Fever's public API document, as current apps use it. A mark sets a state and never
toggles it; one request may combine several questions.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from flask import Blueprint, Response, g, request
from flask_babel import gettext as _
from werkzeug.datastructures import MultiDict

from app import clock, logs
from app.errors import AuthRequiredError, EventrError, NotFoundError, RateLimitedError, StoreError
from app.models.accounts.actor import Actor
from app.models.media.icon import get_icon_number
from app.models.reading.stream import MAX_ID
from app.models.subscriptions.folder import build_folder_labels
from app.models.sync.short_ids import SHORT_MAX
from app.models.sync.sync import ReadLimit, SyncFeed, SyncItem, SyncStream, SyncStreamKind
from app.services.sync.marks import NO_FOLDER
from app.web.api import programs
from app.web.api.greader import shapes
from app.web.context import get_services
from app.web.security.sessions import for_programs, get_client
from app.web.view import i18n

log = logs.get(__name__)

VERSION: Final = 3
PAGE: Final = 50
#: Where apps look for the API; each address works with and without a trailing slash.
MOUNTS: Final = ("/fever", "/fever/fever", "/api/fever.php", "/api/fever.php/fever")
#: The icon of a feed without one: the image that Fever uses for it.
_ICON_ID, _ICON = 1, "image/gif;base64,R0lGODlhAQABAIAAAObm5gAAACH5BAEAAAAALAAAAAABAAEAAAICRAEAOw=="
#: Most icons of one answer, which holds them all as data.
ICONS_MAX: Final = 1000
_MICRO = 1_000_000
_ALL, _SPARKS = 0, -1
#: The group of the feeds outside of all folders: apps don't show feeds without a group.
_UNFILED = SHORT_MAX
_ID = re.compile(r"[0-9]{1,20}", re.ASCII)
_TIME = re.compile(r"([0-9]{1,16})(?:\.[0-9]{0,9})?", re.ASCII)
Json = dict[str, Any]


def build_blueprint() -> Blueprint:
    """Return the route, registered below each address that apps try."""
    made = Blueprint("fever", __name__)
    made.after_request(programs.allow_all_origins)
    made.register_error_handler(EventrError, _refused)
    for rule in MOUNTS:
        made.add_url_rule(
            rule,
            "answer",
            answer_request,
            methods=["GET", "POST", "OPTIONS"],
            provide_automatic_options=False,
            strict_slashes=False,
        )
    return made


@for_programs
def answer_request() -> Response:
    """Answer all questions of a request."""
    if request.method == "OPTIONS":
        return Response(status=204)
    programs.check_body(programs.get_body_limit())
    asked = programs.read_parameters()
    g.caller = get_services().tokens.get_fever_caller(asked.get("api_key", "").strip(), get_client())
    g.user = g.caller.user
    return _json(_Questions(g.caller.actor, asked).answer_all())


def _json(body: Json, status: int = 200) -> Response:
    text = json.dumps(body, ensure_ascii=False, separators=(",", ":"))
    return Response(text, status, content_type="application/json; charset=utf-8")


def _refused(error: Exception) -> Response:
    assert isinstance(error, EventrError)  # noqa: S101 — registered for this class only
    log.info("fever_refused", error=error.word, status=error.http_status, **error.logged_ids)
    if isinstance(error, AuthRequiredError):
        return _json({"api_version": VERSION, "auth": 0})
    response = _json(
        {"api_version": VERSION, "auth": 1, "error": i18n.translate_error(error)}, error.http_status
    )
    if isinstance(error, RateLimitedError | StoreError):
        response.headers["Retry-After"] = str(error.ids.get("retry_after", 10))
    return response


class _Questions:
    """The questions and marks of one request."""

    def __init__(self, actor: Actor, asked: MultiDict[str, str]) -> None:
        self._actor, self._asked = actor, asked
        self._sync, self._ids = get_services().sync, get_services().short_ids

    def answer_all(self) -> Json:
        """Apply the mark, then return the answers to all questions."""
        found: Json = {
            "api_version": VERSION,
            "auth": 1,
            "last_refreshed_on_time": int(clock.now().timestamp()),
        }
        marked = self._mark()
        asked = self._asked
        if "groups" in asked or "feeds" in asked:
            feeds = self._sync.list_feeds(self._actor)
            if "groups" in asked:
                folders = self._sync.list_folders(self._actor)
                numbers = self._ids.get_folder_numbers(self._actor, [f.id for f in folders])
                labels = build_folder_labels(folders)
                found["groups"] = [{"id": numbers[i], "title": label} for i, label in labels.items()]
                if any(not feed.labels for feed in feeds):
                    found["groups"].append({"id": _UNFILED, "title": _("No folder")})
            if "feeds" in asked:
                handles = self._sync.find_handles(self._actor, {f.card.owner for f in feeds if f.card.owner})
                found["feeds"] = self._list_feeds(feeds, handles)
            found["feeds_groups"] = self._list_members(feeds)
        if "favicons" in asked:
            found["favicons"] = self._list_icons()
        if "items" in asked:
            items = self._items()
            numbers = self._ids.get_feed_numbers(self._actor, [each.entry.feed_id for each in items])
            found["items"] = [_item(each, numbers[each.entry.feed_id]) for each in items]
            found["total_items"] = self._sync.count_all_entries(self._actor)
        if "links" in asked:
            found["links"] = []
        if "unread_item_ids" in asked or marked == "read":
            found["unread_item_ids"] = _list(self._sync.list_unread_ids(self._actor))
        if "saved_item_ids" in asked or marked == "saved":
            found["saved_item_ids"] = _list(self._sync.list_starred_ids(self._actor))
        return found

    def _list_icons(self) -> list[Json]:
        """Return the icons of all feeds, each once, as data."""
        paths = {feed.card.icon for feed in self._sync.list_feeds(self._actor) if feed.card.icon}
        icons = get_services().icons.read_icons(sorted(paths)[:ICONS_MAX])
        rows = {get_icon_number(path): _encode_icon(kind, body) for path, (kind, body) in icons.items()}
        return [{"id": _ICON_ID, "data": _ICON}, *({"id": i, "data": data} for i, data in rows.items())]

    # -- items
    def _items(self) -> list[SyncItem]:
        if self._asked.get("with_ids", "").strip():
            wanted = self._numbers("with_ids")
            return self._sync.load_items(self._actor, wanted[:PAGE], newest_first=False)
        feeds = self._feed_ids()
        below = self._number("max_id")
        if "max_id" in self._asked and below is not None:
            return self._sync.load_arrived(
                self._actor, below=below or None, limit=PAGE, newest_first=True, feed_ids=feeds
            )
        above = self._number("since_id") or 0
        return self._sync.load_arrived(self._actor, above=above, limit=PAGE, feed_ids=feeds)

    def _feed_ids(self) -> list[int] | None:
        """Return the feeds that the request names; None: all feeds."""
        if not (self._asked.get("feed_ids", "").strip() or self._asked.get("group_ids", "").strip()):
            return None
        groups = set(self._numbers("group_ids"))
        if _ALL in groups:
            return None
        folders = set(self._ids.resolve_folders(self._actor, list(groups - {_UNFILED})))
        inside = [
            f.card.id
            for f in (self._sync.list_feeds(self._actor) if groups else [])
            if not folders.isdisjoint(f.subscription.folder_ids) or (_UNFILED in groups and not f.labels)
        ]
        return [*self._ids.resolve_feeds(self._actor, self._numbers("feed_ids")), *inside]

    def _list_feeds(self, feeds: Sequence[SyncFeed], handles: Mapping[int, str]) -> list[Json]:
        ids = [feed.card.id for feed in feeds]
        numbers = self._ids.get_feed_numbers(self._actor, ids)
        checked = self._ids.find_check_times(self._actor, ids)
        return [
            _feed(f, handles.get(f.card.owner or 0), numbers[f.card.id], checked[f.card.id]) for f in feeds
        ]

    def _list_members(self, feeds: Sequence[SyncFeed]) -> list[Json]:
        numbers = self._ids.get_feed_numbers(self._actor, [feed.card.id for feed in feeds])
        mine = {folder.id for folder in self._sync.list_folders(self._actor)}
        folders = self._ids.get_folder_numbers(self._actor, mine)
        groups: dict[int, list[int]] = {}
        for feed in feeds:
            inside = [folders[f] for f in feed.subscription.folder_ids if f in folders]
            for group in inside or [_UNFILED]:
                groups.setdefault(group, []).append(numbers[feed.card.id])
        return [{"group_id": group, "feed_ids": _list(members)} for group, members in groups.items()]

    def _number(self, name: str) -> int | None:
        raw = self._asked.get(name, "").strip()
        # Fluent starts with JavaScript's largest safe integer, other apps with the largest 64-bit integer.
        return min(int(raw), MAX_ID) if _ID.fullmatch(raw) else None

    def _numbers(self, name: str) -> list[int]:
        parts = (part.strip() for part in self._asked.get(name, "").split(","))
        return [min(int(part), MAX_ID) for part in parts if _ID.fullmatch(part)]

    # -- marks
    def _mark(self) -> str | None:
        """Apply the mark; return the name of the list that changed, or None."""
        what, how = self._asked.get("mark", ""), self._asked.get("as", "")
        marks: dict[str, Callable[[str], str | None]] = {
            "item": self._mark_item,
            "feed": self._mark_feed,
            "group": self._mark_group,
        }
        if what not in marks:
            return None
        try:
            return marks[what](how)
        except NotFoundError:
            return (
                "saved" if how in ("saved", "unsaved") else "read"
            )  # the entry is gone meanwhile: nothing is left to mark

    def _mark_item(self, how: str) -> str | None:
        entry_id = self._number("id")
        if entry_id is None:
            return None
        if how in ("read", "unread"):
            get_services().reading.mark(self._actor, [entry_id], how == "read")
            return "read"
        if how in ("saved", "unsaved"):
            get_services().reading.set_starred(self._actor, entry_id, how == "saved")
            return "saved"
        return None

    def _mark_feed(self, how: str) -> str | None:
        number = self._number("id")
        if how != "read" or number is None or not self._has_time():
            return None
        (feed_id,) = self._ids.resolve_feeds(self._actor, [number]) or [0]
        get_services().sync_marks.mark_before(
            self._actor, SyncStream(SyncStreamKind.FEED, feed_id), self._before()
        )
        return "read"

    def _mark_group(self, how: str) -> str | None:
        raw = self._asked.get("id", "").strip()
        if how != "read" or not re.fullmatch(r"-?[0-9]{1,16}", raw, re.ASCII) or not self._has_time():
            return None
        if int(raw) == _ALL:
            get_services().sync_marks.mark_before(
                self._actor, SyncStream(SyncStreamKind.READING), self._before()
            )
        elif int(raw) == _UNFILED:
            get_services().sync_marks.mark_folder_before(self._actor, NO_FOLDER, self._before())
        elif int(raw) != _SPARKS:
            for folder_id in self._ids.resolve_folders(self._actor, [int(raw)]):
                get_services().sync_marks.mark_folder_before(self._actor, folder_id, self._before())
        return "read"

    def _has_time(self) -> bool:
        """Return whether ``before`` is a time or absent: a malformed time must not mark everything read."""
        raw = self._asked.get("before", "").strip()
        return not raw or _TIME.fullmatch(raw) is not None

    def _before(self) -> ReadLimit | None:
        """Return the time up to which entries are marked; None: all, for 0 and for out-of-range times too.

        The whole second counts: a time of arrival was cut to it. Fluent Reader sends the second after the
        date of the newest item that it shows.
        """
        found = _TIME.fullmatch(self._asked.get("before", "").strip())
        second = int(found[1]) if found else 0
        if not second or second > MAX_ID // _MICRO:
            return None
        return ReadLimit((second - 1) * _MICRO, (second + 1) * _MICRO - 1)


def _list(ids: Iterable[int]) -> str:
    """Return ids as Fever lists them: joined by commas, empty for none."""
    return ",".join(map(str, ids))


def _encode_icon(kind: str, body: bytes) -> str:
    return f"{kind};base64,{base64.b64encode(body).decode('ascii')}"


def _feed(feed: SyncFeed, handle: str | None, number: int, checked: int) -> Json:
    shape = shapes.build_subscription(feed, handle)
    return {
        "id": number,
        "favicon_id": get_icon_number(feed.card.icon) if feed.card.icon else _ICON_ID,
        "title": shape["title"],
        "url": shape["url"],
        "site_url": shape["htmlUrl"],
        "is_spark": 0,
        "last_updated_on_time": checked or feed.card.newest // 1000,
    }


def _item(found: SyncItem, feed_number: int) -> Json:
    entry = found.entry
    return {
        # As text, as in FreshRSS: it is too large for the integers of some apps.
        "id": str(entry.id),
        "feed_id": feed_number,
        "title": shapes.build_title(found),
        "author": entry.author,
        "html": shapes.render_content(found),
        "url": shapes.find_address(found),
        "is_saved": int(found.starred),
        "is_read": int(found.read),
        "created_on_time": shapes.to_epoch_seconds(entry.published or entry.at),
    }
