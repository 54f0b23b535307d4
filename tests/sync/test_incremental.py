"""What programs are told that ask for what changed since a time, whatever a user's feeds look like."""

from __future__ import annotations

import datetime as dt
from email.utils import format_datetime

import pytest

from app import clock
from app.bootstrap.services import Services
from app.gateways.feeds.entry_writer import EntryWriter
from app.models.accounts.actor import Actor
from tests.support.reader import add_user, pull, rss
from tests.sync.conftest import READ, READING, STARRED, Connect, Reader

URL = "https://feeds.example/new"
HOUR = dt.timedelta(hours=1)


def _quiet(name: str, *, every: int, first: int) -> bytes:
    """A blog of ten posts, one in so many days."""
    now = clock.now()
    items = "".join(
        f"<item><title>{name}{i}</title><guid>{name}{i}</guid>"
        f"<pubDate>{format_datetime(now - dt.timedelta(days=first + i * every))}</pubDate></item>"
        for i in range(10)
    )
    return f"<rss version='2.0'><channel><title>{name}</title>{items}</channel></rss>".encode()


@pytest.mark.parametrize("every", [21, 300])
def test_many_quiet_feeds_can_be_synced(services: Services, connect: Connect, every: int) -> None:
    """A page that is larger than all there is was looked for in times before the year 1."""
    zoe = add_user(services, "zoe")
    bodies = {
        f"https://b{n}.example/rss": _quiet(f"b{n}", every=every, first=n * every // 26) for n in range(26)
    }
    feeds = [services.subscriptions.subscribe(zoe, url).subscription.feed_id for url in bodies]
    pull(services, feeds, bodies)
    reader = connect(zoe, "zoe")
    whole = reader.ids()
    assert len(whole) == 260
    for n in 20, 1000, 10_000, 200_000:
        found = reader.json("stream/items/ids", s=READING, n=n)["itemRefs"]
        assert [int(ref["id"]) for ref in found] == whole[:n]
        since = reader.json("stream/items/ids", s=READING, n=n, ot=int(clock.now().timestamp()) - 86_400)
        assert [int(ref["id"]) for ref in since["itemRefs"]] == whole[:n]
    assert reader.get("stream/items/count", s=READING, xt=STARRED).text == "260"
    assert len(reader.json("stream/contents", s=READING, n=50, ot=1)["items"]) == 50


def _later(monkeypatch: pytest.MonkeyPatch) -> int:
    """Let an hour pass; return when that is."""
    then = clock.now() + HOUR
    monkeypatch.setattr(clock, "now", lambda: then)
    return int(then.timestamp())


def test_what_a_dying_writer_left_is_told_when_it_can_be_seen(
    reader: Reader, services: Services, ann: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed = services.subscriptions.subscribe(ann, URL).subscription.feed_id
    stream = f"feed/{feed}"
    pull(services, [feed], {URL: rss("New", [("one", "1")])})
    (one,) = reader.ids(stream)

    both = {URL: rss("New", [("two", "2"), ("one", "1")])}
    with monkeypatch.context() as dying:
        # It is gone when the entries are in, before they are anybody's to see.
        dying.setattr(EntryWriter, "_finish", lambda *_: {})
        pull(services, [feed], both)
    assert reader.ids(stream) == [one]
    asked = _later(monkeypatch)
    assert reader.ids(ot=asked) == []
    _later(monkeypatch)
    pull(services, [feed], both)
    two, last = reader.ids(stream)
    assert last == one
    assert two in reader.ids(ot=asked)


def test_changes_of_what_is_starred_are_told_in_its_own_stream(
    reader: Reader, services: Services, ann: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed = services.subscriptions.subscribe(ann, URL).subscription.feed_id
    pull(services, [feed], {URL: rss("New", [("two", "2"), ("one", "1")])})
    first, second = reader.ids(f"feed/{feed}")
    for entry in first, second:
        reader.do("edit-tag", i=str(entry), a=STARRED)
    since = _later(monkeypatch)
    for query in {"s": STARRED}, {"s": READING, "it": STARRED}:
        assert reader.json("stream/items/ids", n=100, ot=since, **query)["itemRefs"] == []
    reader.do("edit-tag", i=str(first), a=READ)
    assert reader.ids(STARRED, ot=since) == reader.ids(it=STARRED, ot=since) == [first]
    changed = _later(monkeypatch)
    pull(services, [feed], {URL: rss("New", [("two", "2"), ("one", "1 and more")])})
    assert reader.ids(STARRED, ot=changed) == reader.ids(it=STARRED, ot=changed) == [second]
    assert reader.ids(STARRED, ot=since) == [first, second]


def test_nothing_is_left_where_all_is_left_out(reader: Reader) -> None:
    assert reader.ids(it=READ, xt=READING) == []
    assert reader.ids(xt=READING) == []
