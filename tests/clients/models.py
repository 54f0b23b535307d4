"""How apps decide what is new: each model syncs as its apps do, and keeps the ids that it has shown.

The Google Reader API has no exact "since": some apps stop at the first id that they know, some ask for what
arrived since a time, and some follow the continuation to the end. Fever apps go up from the last id, or down
from the largest one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

READING = "user/-/state/com.google/reading-list"
READ = "user/-/state/com.google/read"
#: Rows per page: few, so that a sync needs several pages.
PAGE = 6
Json = dict[str, Any]


class Api(Protocol):
    """The API as an app calls it."""

    def __call__(self, path: str, /, **query: Any) -> Json: ...


class Model:
    """An app with an empty store.

    Args:
        ask: calls the API.
        page_turned: called after each page, while the app goes on.
    """

    def __init__(self, ask: Api, page_turned: Callable[[], None]) -> None:
        self.ask, self.page_turned = ask, page_turned
        self.known: set[int] = set()

    def sync(self) -> None:
        """Fetch what is new, as the app understands it."""
        raise NotImplementedError

    def keep(self, ids: Sequence[int]) -> None:
        self.known.update(ids)

    def page_contents(self, **query: Any) -> list[Json]:
        """Return all items of a stream, page by page; no page repeats an item."""
        found: list[Json] = []
        while True:
            page = self.ask("stream/contents", n=PAGE, **query)
            found += page["items"]
            if "continuation" not in page:
                break
            query["c"] = page["continuation"]
            self.page_turned()
        ids = [item["id"] for item in found]
        assert len(ids) == len(set(ids)), "an item is on two pages"
        return found

    def page_ids(self, **query: Any) -> list[int]:
        """Return all ids of a stream, page by page; no page repeats an id."""
        found: list[int] = []
        while True:
            page = self.ask("stream/items/ids", s=READING, n=PAGE, **query)
            found += [int(ref["id"]) for ref in page["itemRefs"]]
            if "continuation" not in page:
                break
            query["c"] = page["continuation"]
            self.page_turned()
        assert len(found) == len(set(found)), "an id is on two pages"
        return found


def read_number(item: Json) -> int:
    """Return the number of an item with a long id."""
    return int(item["id"].rpartition("/")[2], 16)


class StopAtKnown(Model):
    """Pages through the contents, newest first, up to the newest item of the last sync (Fluent Reader)."""

    last = 0

    def sync(self) -> None:
        new: list[int] = []
        query: Json = {}
        while True:
            page = self.ask("stream/contents", n=PAGE, **self.limit(), **query)
            for item in page["items"]:
                if read_number(item) == self.last:
                    break
                new.append(read_number(item))
            else:
                if "continuation" in page:
                    query = {"c": page["continuation"]}
                    self.page_turned()
                    continue
            break
        self.last = new[0] if new else self.last
        self.keep(new)

    def limit(self) -> Json:
        return {}


class StopAtKnownSince(StopAtKnown):
    """The same with ``ot``: the time at which the newest known item was crawled (Fluent Reader 1.1)."""

    def limit(self) -> Json:
        return {"ot": self.last // 1_000_000} if self.last else {}


class SinceNewestItem(Model):
    """Asks for what arrived since the newest item that it has, by one of the items' own times."""

    field, per_second = "crawlTimeMsec", 1000
    since = 0

    def sync(self) -> None:
        found = self.page_contents(**({"ot": self.since} if self.since else {}))
        self.since = max([self.since, *(int(item[self.field]) // self.per_second for item in found)])
        self.keep([read_number(item) for item in found])


class SinceNewestTimestamp(SinceNewestItem):
    """The same by the field in microseconds."""

    field, per_second = "timestampUsec", 1_000_000


class SinceNewestOldestFirst(SinceNewestItem):
    """The same in the reverse order (``r=o``)."""

    def page_contents(self, **query: Any) -> list[Json]:
        found = super().page_contents(r="o", **query)
        assert [read_number(item) for item in found] == sorted(read_number(item) for item in found)
        return found


class SinceLastSync(Model):
    """Asks for the ids that arrived since its last sync, by the server's clock (NetNewsWire, Vienna)."""

    since = 0

    def sync(self) -> None:
        now = int(self.ask("stream/contents", n=1)["updated"])
        self.keep(self.page_ids(**({"ot": self.since} if self.since else {})))
        self.since = now


class AllUnread(Model):
    """Pages through all unread ids (RSS Guard, Capy Reader, Reeder)."""

    def sync(self) -> None:
        self.keep(self.page_ids(xt=READ))


class IdsThenContents(Model):
    """Lists all unread ids, then fetches the contents of those it lacks (Reeder, NetNewsWire, NewsFlash).

    It drops an item that has no title, or whose feed isn't among the subscriptions.
    """

    def sync(self) -> None:
        feeds = {feed["id"] for feed in self.ask("subscription/list")["subscriptions"] if feed["title"]}
        missing = [i for i in self.page_ids(xt=READ) if i not in self.known]
        for start in range(0, len(missing), PAGE):
            block = missing[start : start + PAGE]
            items = self.ask("stream/items/contents", i=[str(i) for i in block])["items"]
            self.keep([read_number(i) for i in items if i["title"] and i["origin"]["streamId"] in feeds])
            self.page_turned()


class UntilPageIsKnown(Model):
    """Pages through the unread items until it has all of a page (FeedMe)."""

    def sync(self) -> None:
        query: Json = {}
        while True:
            page = self.ask("stream/contents", n=PAGE, xt=READ, **query)
            ids = [read_number(item) for item in page["items"]]
            new = self.known.isdisjoint(ids) or not self.known.issuperset(ids)
            self.keep(ids)
            if not new or "continuation" not in page:
                return
            query = {"c": page["continuation"]}
            self.page_turned()


class FeverUp(Model):
    """Goes up from the last id (Reeder, Unread, ReadKit)."""

    since = 0

    def sync(self) -> None:
        while ids := [int(item["id"]) for item in self.ask("items", since_id=self.since)["items"]]:
            assert ids == sorted(ids)
            self.since = ids[-1]
            self.keep(ids)
            self.page_turned()


class FeverDown(Model):
    """Goes down from the largest id to what it knows (Fluent Reader)."""

    def sync(self) -> None:
        below = (1 << 53) - 1
        while ids := [int(item["id"]) for item in self.ask("items", max_id=below)["items"]]:
            assert ids == sorted(ids, reverse=True)
            new = not self.known.issuperset(ids)
            self.keep(ids)
            if not new:
                return
            below = ids[-1]
            self.page_turned()


class FeverNarrow(FeverUp):
    """Reads numbers of feeds and groups as 32-bit integers (Read You, Readrops).

    One number that doesn't fit fails the whole sync. It shows items with a title, of feeds in a known group.
    """

    def sync(self) -> None:
        groups = {read_narrow(group["id"]) for group in self.ask("groups", groups="")["groups"]}
        found = self.ask("feeds", feeds="")
        named = {read_narrow(feed["id"]) for feed in found["feeds"] if feed["title"]}
        members = {
            read_narrow(int(feed))
            for row in found["feeds_groups"]
            if read_narrow(row["group_id"]) in groups
            for feed in row["feed_ids"].split(",")
        }
        while items := self.ask("items", since_id=self.since)["items"]:
            self.since = int(items[-1]["id"])
            shown = [item for item in items if item["title"] and item["feed_id"] in named & members]
            self.keep([int(item["id"]) for item in shown])
            self.page_turned()


class FeverByIds(Model):
    """Lists all unread ids, then fetches those it lacks by id (FeedMe)."""

    def sync(self) -> None:
        unread = self.ask("unread_item_ids", unread_item_ids="")["unread_item_ids"]
        missing = [i for i in unread.split(",") if i and int(i) not in self.known]
        for start in range(0, len(missing), PAGE):
            items = self.ask("items", with_ids=",".join(missing[start : start + PAGE]))["items"]
            self.keep([int(item["id"]) for item in items])
            self.page_turned()


def read_narrow(number: int) -> int:
    """Return a number as an app with 32-bit integers reads it."""
    assert isinstance(number, int), number
    assert -(1 << 31) <= number < 1 << 31, number
    return number


READER: tuple[type[Model], ...] = (
    StopAtKnown,
    StopAtKnownSince,
    SinceNewestItem,
    SinceNewestTimestamp,
    SinceNewestOldestFirst,
    SinceLastSync,
    AllUnread,
    IdsThenContents,
    UntilPageIsKnown,
)
FEVER: tuple[type[Model], ...] = (FeverUp, FeverDown, FeverNarrow, FeverByIds)
