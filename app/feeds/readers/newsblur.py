"""NewsBlur's interface: feeds in folders, saved stories with tags, notes and highlights, and shared stories.

Shared stories get a tag, and their comments become notes: they were shared with other people than those here.
NewsBlur lists which stories are unread, but not which were read, so read states aren't taken over.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from app import clock
from app.errors import InvalidError
from app.feeds.archives.values import get_address, get_dict, get_list, get_markup, get_text, read_seconds
from app.feeds.readers.steps import Fields, Steps, ask, read_object
from app.models.feeds.fetched import FetchRequest
from app.models.imports.archives import SHARED_TAG, SavedEntry
from app.models.imports.opml import Outline, SubscriptionList
from app.models.imports.pulls import Login, PulledPage
from app.models.reading.notes import EXACT_MAX, NOTE_MAX, QUOTES_MAX, Color, Quote, squeeze_spaces

_SAVED, _SHARED = "starred", "shared"
#: Most stories that one request may name.
_STORIES_MAX: Final = 100
#: Stories that a cursor names. Longest name of a story, characters.
_ANCHORS, _HASH_MAX = 20, 100
#: Deepest nesting of folders.
_DEPTH: Final = 20
_SESSION = re.compile(r"(?:^|[,;]\s*)newsblur_sessionid=([A-Za-z0-9._-]{1,200})")


class NewsBlurReader:
    """Reads an account of NewsBlur."""

    def __init__(self, address: str, login: Login) -> None:
        self._base, self._login = address, login
        self._headers: Fields = ()
        self._feeds: Mapping[str, tuple[str, str]] = {}
        self._hashes: tuple[str, ...] = ()
        self._number = ""
        self.stages: tuple[str, ...] = (_SAVED,)

    def _ask(self, path: str, *fields: tuple[str, str]) -> FetchRequest:
        return ask(f"{self._base}/{path}", fields, headers=self._headers)

    def connect(self) -> Steps[SubscriptionList]:
        """Log in; return the subscriptions, and note which stories are saved."""
        form = (("username", self._login.name), ("password", self._login.secret))
        fetched = yield ask(f"{self._base}/api/login", form=form)
        session = _SESSION.search(fetched.headers.get("set-cookie", ""))
        if read_object(fetched).get("authenticated") is not True or session is None:
            raise InvalidError("NewsBlur refused this login. Check the name and the password.")
        self._headers = (("Cookie", f"newsblur_sessionid={session[1]}"),)
        answer = read_object((yield self._ask("reader/feeds", ("include_favicons", "false"))))
        self._feeds = _read_feeds(answer.get("feeds"))
        self._number = _read_number(get_dict(answer.get("social_profile")).get("user_id"))
        self.stages = (_SAVED, _SHARED) if self._number else (_SAVED,)
        placed = (
            (self._feeds.get(number, ("", "")), path) for path, number in _iter_folders(answer.get("folders"))
        )
        outlines = [Outline(url, title, folders=path) for (url, title), path in placed if url]
        answer = read_object((yield self._ask("reader/starred_story_hashes")))
        hashes = get_list(answer.get("starred_story_hashes"))
        # The oldest first, so that stories which are saved meanwhile come last.
        known = (one for one in map(get_text, hashes) if one and len(one) <= _HASH_MAX and "\n" not in one)
        self._hashes = tuple(dict.fromkeys(known))[::-1]
        paths = tuple(dict.fromkeys(feed.folders for feed in outlines if feed.folders))
        return SubscriptionList("NewsBlur", tuple(outlines), paths, len(outlines))

    def read_page(self, stage: str, cursor: str, size: int) -> Steps[PulledPage]:
        """Return the next saved or shared stories."""
        return self._read_shared(cursor, size) if stage == _SHARED else self._read_saved(cursor, size)

    def _read_shared(self, cursor: str, size: int) -> Steps[PulledPage]:
        """Return the next shared stories, the newest first.

        The cursor has the number of those before them, and the hash of the last page's first one.
        """
        before, _, first = cursor.partition("\n")
        offset = int(before) if before.isdecimal() else 0
        fields = (("offset", str(offset)), ("limit", str(min(size, _STORIES_MAX))))
        answer = read_object((yield self._ask(f"social/stories/{self._number}/", *fields)))
        rows = [get_dict(row) for row in get_list(answer.get("stories"))]
        feeds = {**_read_feeds(answer.get("feeds")), **self._feeds}
        entries = tuple(_read_shared_story(row, feeds, self._number) for row in rows)
        # A server may send fewer than requested, so only an empty page is the end, or the same one again.
        name = get_text(rows[0].get("story_hash"))[:_HASH_MAX] if rows else ""
        goes_on = bool(rows) and not (name and name == first)
        return PulledPage(entries, f"{offset + len(rows)}\n{name}" if goes_on else "", len(rows))

    def _read_saved(self, cursor: str, size: int) -> Steps[PulledPage]:
        """Return the next saved stories; the cursor has those before them, the last one first.

        A story may be un-saved at any time, so their number says nothing, and the last one may be gone.
        If all of them are, the list is read from its beginning; entries that came twice become one.
        """
        places = {one: place for place, one in enumerate(self._hashes)}
        start = next((places[one] + 1 for one in cursor.split("\n") if one in places), 0)
        wanted = self._hashes[start : start + min(size, _STORIES_MAX)]
        if not wanted:
            return PulledPage((), "", 0)
        answer = read_object((yield self._ask("reader/starred_stories", *(("h", one) for one in wanted))))
        feeds = {**_read_feeds(answer.get("feeds")), **self._feeds}  # the former aren't subscribed anymore
        entries = tuple(_read_story(get_dict(row), feeds) for row in get_list(answer.get("stories")))
        goes_on = start + len(wanted) < len(self._hashes)
        return PulledPage(entries, "\n".join(wanted[: -_ANCHORS - 1 : -1]) if goes_on else "", len(wanted))


def _read_feeds(value: object) -> dict[str, tuple[str, str]]:
    """Return number → (address, title), from an object or a list of feeds."""
    rows = value.values() if isinstance(value, dict) else get_list(value)
    return {
        str(row.get("id")): (get_address(row.get("feed_address")), get_text(row.get("feed_title")))
        for row in map(get_dict, rows)
    }


def _iter_folders(value: object, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield the path and the number of each feed: a list holds numbers, and objects of named lists."""
    for part in get_list(value):
        if isinstance(part, dict):
            if len(path) < _DEPTH:
                for name, inside in part.items():
                    yield from _iter_folders(inside, (*path, get_text(name) or "…"))
        else:
            yield path, str(part)


def _read_number(value: object) -> str:
    """Return the number of a user, empty if it is something else."""
    return str(value) if type(value) is int and value > 0 else ""


def _read_story(row: dict[str, Any], feeds: Mapping[str, tuple[str, str]]) -> SavedEntry:
    """Return a saved story."""
    starred = read_seconds(row.get("starred_timestamp"))
    return dataclasses.replace(
        _read_any_story(row, feeds),
        starred=starred or True,
        tags=tuple(filter(None, map(get_text, get_list(row.get("user_tags"))))),
        note=_read_note(row.get("user_notes")),
        quotes=tuple(_iter_quotes(row.get("highlights"), starred)),
    )


def _read_shared_story(row: dict[str, Any], feeds: Mapping[str, tuple[str, str]], number: str) -> SavedEntry:
    """Return a story that the user with this number shared."""
    comment = row.get("shared_comments")
    if not comment and _read_number(row.get("user_id")) == number:
        comment = row.get("comments")
    found = _read_any_story(row, feeds)
    return dataclasses.replace(found, tags=(SHARED_TAG,), note=_read_note(comment))


def _read_any_story(row: dict[str, Any], feeds: Mapping[str, tuple[str, str]]) -> SavedEntry:
    url, title = feeds.get(str(row.get("story_feed_id")), ("", ""))
    return SavedEntry(
        url,
        get_text(row.get("id")),
        get_address(row.get("story_permalink")),
        feed_title=title,
        title=get_text(row.get("story_title")),
        at=read_seconds(row.get("story_timestamp")),
        html=get_markup(row.get("story_content")),
    )


def _read_note(value: object) -> str:
    return value.strip()[:NOTE_MAX] if isinstance(value, str) else ""


def _iter_quotes(value: object, at: dt.datetime | None) -> Iterator[Quote]:
    for text in get_list(value)[:QUOTES_MAX]:
        exact = squeeze_spaces(text)[:EXACT_MAX] if isinstance(text, str) else ""
        if exact:
            yield Quote("", exact, "", "", Color.YELLOW, "", at or clock.now())
