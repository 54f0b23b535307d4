"""Google Reader's interface, as FreshRSS, Miniflux, The Old Reader, BazQux and Eventr have it.

Of its many forms these use what all of them have: ``ClientLogin``, ``subscription/list``, ``tag/list``,
``stream/items/ids`` page by page, and ``stream/items/contents`` by POST.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from app.errors import N_, InvalidError
from app.feeds.archives.formats import LABEL, normalise_category, read_google_item
from app.feeds.archives.values import get_address, get_dict, get_list, get_text
from app.feeds.fetch.address_policy import check_headers
from app.feeds.readers.steps import REFUSED, Fields, Steps, ask, check, drop_text, read_object
from app.models.feeds.fetched import FetchRequest
from app.models.imports.archives import SavedEntry
from app.models.imports.opml import MINIFLUX_ROOT, Outline, SubscriptionList
from app.models.imports.pulls import Login, PulledPage

_STARRED, _READING = "user/-/state/com.google/starred", "user/-/state/com.google/reading-list"
#: Where FreshRSS has the interface, below the address that people know.
_FRESHRSS: Final = "/api/greader.php"
#: What may stand behind the interface's address if it was copied from elsewhere.
_TAILS: Final = ("/accounts/ClientLogin", "/reader/api/0", "/reader")
_FEED: Final = "feed/"
#: An id in its long form, which all servers read alike. Miniflux 2.2 reads the short one as hexadecimal.
_LONG_ID: Final = "tag:google.com,2005:reader/item/%016x"
#: Most labels that are read one by one.
_LABELS_MAX: Final = 500
#: Last items of a page that a cursor names. Longest id of an item, and continuation, characters.
_ANCHORS, _ID_MAX, _CONTINUATION_MAX = 20, 100, 500
_NO_INTERFACE: Final = N_(
    "This address answers with something else than an interface for apps. Check the address."
)
#: Answers to a login that say that there is no such interface. FreshRSS answers 400 to an impossible name.
_ABSENT: Final = frozenset({"http_404", "http_405", "gone", "http_301", "http_302"})


class _List(NamedTuple):
    """Ids of items as a server lists them, and its continuation, empty at the end."""

    ids: tuple[str, ...]
    following: str


class GoogleReader:
    """Reads an account: the starred items, those with tags, then all, newest first."""

    def __init__(self, address: str, login: Login) -> None:
        for tail in _TAILS:
            address = address.removesuffix(tail)
        self._base, self._login = address, login
        self._headers: Fields = ()
        self._token = ""
        self._feeds: Mapping[str, str] = {}
        self._folders: Mapping[str, frozenset[str]] = {}
        self._list: tuple[tuple[str, str], _List] | None = None
        self.stages: Sequence[str] = (_STARRED, _READING)

    def _ask(self, path: str, *fields: tuple[str, str], form: Fields | None = None) -> FetchRequest:
        return ask(
            f"{self._base}/reader/api/0/{path}",
            (("output", "json"), *fields),
            headers=self._headers,
            form=form,
        )

    def connect(self) -> Steps[SubscriptionList]:
        """Log in, and return the subscriptions."""
        yield from self._log_in()
        rows = get_list(read_object((yield self._ask("subscription/list"))).get("subscriptions"))
        feeds, urls, folders = [], dict[str, str](), dict[str, frozenset[str]]()
        for row in map(get_dict, rows):
            stream = get_text(row.get("id"))
            url = get_address(row.get("url")) or get_address(stream.removeprefix(_FEED))
            categories = get_list(row.get("categories"))
            urls[stream], folders[stream] = url, frozenset(filter(None, map(_read_label, categories)))
            if url:
                names = [name for one in categories if not _is_no_folder(one) and (name := _read_label(one))]
                title = get_text(row.get("title"))
                feeds += [Outline(url, title, folders=(name,)) for name in names] or [Outline(url, title)]
        self._feeds, self._folders = urls, folders
        yield from self._find_tags(frozenset().union(*folders.values()))
        paths = tuple(dict.fromkeys(feed.folders for feed in feeds if feed.folders))
        return SubscriptionList("", tuple(feeds), paths, len(feeds))

    def _log_in(self) -> Steps[None]:
        form = (("Email", self._login.name), ("Passwd", self._login.secret), ("service", "reader"),
                ("accountType", "HOSTED_OR_GOOGLE"), ("client", "Eventr"), ("output", "text"))  # fmt: skip
        fetched = yield ask(f"{self._base}/accounts/ClientLogin", form=form)
        if fetched.error and fetched.error.word in _ABSENT and not self._base.endswith(_FRESHRSS):
            self._base += _FRESHRSS
            fetched = yield ask(f"{self._base}/accounts/ClientLogin", form=form)
        if fetched.error and fetched.error.word == "http_400":
            raise InvalidError(REFUSED, host=urlsplit(self._base).hostname or "")
        lines = check(fetched).decode("utf-8", "replace").splitlines()
        auth = next((line[5:].strip() for line in lines if line.startswith("Auth=")), "")
        if not auth:
            raise InvalidError(_NO_INTERFACE)
        try:
            self._headers = check_headers([("Authorization", f"GoogleLogin auth={auth}")])
        except InvalidError as e:
            raise InvalidError(_NO_INTERFACE) from e
        # Some servers take a POST only with this token.
        fetched = yield ask(f"{self._base}/reader/api/0/token", headers=self._headers)
        self._token = "" if fetched.error else check(fetched).decode("utf-8", "replace").strip()[:256]

    def _find_tags(self, folders: frozenset[str]) -> Steps[None]:
        """Find the labels that aren't folders: each of them is a list to read."""
        rows = map(get_dict, get_list(read_object((yield self._ask("tag/list"))).get("tags")))
        names = (_read_label(row) for row in rows if row.get("type") != "folder")
        tags = [name for name in dict.fromkeys(names) if name and name not in folders]
        self.stages = (_STARRED, *(LABEL + name for name in tags[:_LABELS_MAX]), _READING)

    def read_page(self, stage: str, cursor: str, size: int) -> Steps[PulledPage]:
        """Return the next items that the stage lists.

        A server may list more than the request names, even all. So the cursor has, line by line, where the
        list begins in the words of the server, and the ids before the next page, the last one first. If all
        of them are gone, the list is read from its beginning; entries that came twice become one.
        """
        begin, *before = cursor.split("\n")
        listed = yield from self._find_list(stage, begin, size)
        places = {one: place for place, one in enumerate(listed.ids)}
        start = next((places[one] + 1 for one in before if one in places), 0)
        ids = listed.ids[start : start + size]
        following = listed.following if listed.following != begin else ""
        if start + size < len(listed.ids):
            following = "\n".join((begin, *ids[: -_ANCHORS - 1 : -1]))
        if not ids:
            return PulledPage((), "", 0)
        form = [*(("i", _lengthen_id(one)) for one in ids), *([("T", self._token)] if self._token else [])]
        rows = get_list(read_object((yield self._ask("stream/items/contents", form=form))).get("items"))
        found = filter(None, (self._read(get_dict(row)) for row in rows))
        # What the person kept came with its text in an earlier stage.
        entries = tuple(drop_text(entry) if stage == _READING else entry for entry in found)
        return PulledPage(entries, following, len(ids))

    def _find_list(self, stage: str, begin: str, size: int) -> Steps[_List]:
        """Return the ids that a server lists from a continuation on; asked once for all pages of them."""
        name = stage, begin
        if self._list is None or self._list[0] != name:
            fields = [("s", stage), ("n", str(size)), *([("c", begin)] if begin else [])]
            page = read_object((yield self._ask("stream/items/ids", *fields)))
            found = (str(get_dict(row).get("id", ""))[:_ID_MAX] for row in get_list(page.get("itemRefs")))
            ids = tuple(dict.fromkeys(one for one in found if one and "\n" not in one))
            following = str(page.get("continuation") or "")[:_CONTINUATION_MAX].partition("\n")[0]
            self._list = name, _List(ids, following)
        return self._list[1]

    def _read(self, row: dict[str, Any]) -> SavedEntry | None:
        """Return an item with its feed's address and without its feed's folders; None: nobody kept it."""
        entry = read_google_item(row)
        stream = get_text(get_dict(row.get("origin")).get("streamId"))
        url = self._feeds.get(stream) or entry.feed_url or get_address(stream.removeprefix(_FEED))
        folders = self._folders.get(stream, frozenset())
        found = dataclasses.replace(
            entry,
            feed_url=url,
            # A state that isn't named doesn't hold.
            read=entry.read is True,
            tags=tuple(name for name in entry.tags if name not in folders),
        )
        return found if url or found.is_kept else None


def _is_no_folder(category: object) -> bool:
    """Return whether a category is the one of Miniflux for feeds in no folder; other servers name no type."""
    return get_dict(category).get("type") == "folder" and _read_label(category) == MINIFLUX_ROOT


def _lengthen_id(one: str) -> str:
    """Return the long form of an item's id; ids that aren't decimal numbers of 63 bits stay."""
    is_short = one.isascii() and one.isdecimal() and int(one) < 1 << 63
    return _LONG_ID % int(one) if is_short else one


def _read_label(category: object) -> str:
    """Return the name of the label that a category or tag is; empty: it is something else."""
    name = normalise_category(get_text(get_dict(category).get("id")))
    return name.removeprefix(LABEL) if name.startswith(LABEL) else ""
