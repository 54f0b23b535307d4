"""Sources on the real store: who may fetch and draw, and what happens to references."""

from __future__ import annotations

import dataclasses
import datetime as dt
from typing import Any

import pytest

from app import clock
from app.errors import ConflictError
from app.gateways.media.sources import ICON_WINDOW, SourceGateway, compute_wait, get_day
from app.models.media.blob import BlobKind, Content, Purpose
from app.models.media.source import Source, SourceState, derive_id
from app.services.media.fetching import build_request

HOUR, DAY = dt.timedelta(hours=1), dt.timedelta(days=1)


@pytest.fixture
def sources(services: Any) -> SourceGateway:
    return services.gateways.sources


def add(sources: SourceGateway, name: str = "1", purpose: Purpose = Purpose.PICTURE) -> Source:
    url = f"https://a.example/{name}.jpg"
    source = Source(
        id=derive_id(b"key", url),
        url=url,
        purpose=purpose,
        page="https://site.example/post",
        feed="https://site.example/feed",
    )
    sources.add([source], clock.now())
    return dataclasses.replace(source, used=get_day(clock.now()))


def get(sources: SourceGateway, source: Source) -> Source:
    return sources.find([source.id])[source.id]


def keep(services: Any, source: Source, token: str, content: bytes, now: dt.datetime) -> Source:
    blob = Content(
        id=content.ljust(32, b"."),
        kind=BlobKind.PICTURE,
        size=3,
        type="image/png",
        files={"i32": b"abc", "i64": b"d"},
    )
    found: Source = services.gateways.blobs.keep(
        blob,
        lambda session, blob_id: services.gateways.sources.finish(session, source.id, token, blob_id, now),
    )
    return found


def count(services: Any, content: bytes) -> int:
    found = services.gateways.blobs.find([content.ljust(32, b".")])
    return sum(blob.references for blob in found.values())


def test_a_source_is_stored_once(sources: SourceGateway) -> None:
    source = add(sources)
    sources.add(
        [source, Source(id=source.id, url="https://other.example/", purpose=Purpose.ICON)], clock.now()
    )
    assert get(sources, source) == source


def test_one_worker_at_a_time_fetches_a_source(sources: SourceGateway) -> None:
    source, now = add(sources), clock.now()
    assert [s.id for s in sources.claim([source.id], "a", now)] == [source.id]
    assert sources.claim([source.id], "b", now) == []
    assert [s.id for s in sources.claim([source.id], "b", now + dt.timedelta(minutes=4))] == [source.id]
    # The first one comes too late.
    sources.record_failure(source, "a", "timeout", now)
    assert get(sources, source).state is SourceState.WANTED


def test_nothing_is_fetched_twice_within_the_window(services: Any, sources: SourceGateway) -> None:
    source, now = add(sources), clock.now()
    sources.claim([source.id], "a", now)
    sources.record_fetched(source, "a", now)
    assert sources.claim([source.id], "b", now + dt.timedelta(minutes=59)) == []
    assert sources.claim_drawing(source.id, "b", now) is not None
    keep(services, source, "b", b"x", now)
    assert get(sources, source).state is SourceState.READY
    assert sources.claim([source.id], "c", now + 13.9 * DAY) == []
    assert len(sources.claim([source.id], "c", now + 14.1 * DAY)) == 1


def test_a_failure_waits_longer_each_time(sources: SourceGateway) -> None:
    source, now = add(sources), clock.now()
    for hours in (1, 4, 16, 64, 7 * 24, 7 * 24):
        (claimed,) = sources.claim([source.id], "a", now)
        failed = sources.record_failure(claimed, "a", "http_403", now)
        assert get(sources, source) == failed
        assert (failed.state, failed.error) == (SourceState.FAILED, "http_403")
        assert failed.next_at == now + hours * HOUR
        now = failed.next_at
    assert compute_wait(10**6) == 7 * DAY


def test_a_site_may_ask_for_a_longer_wait(sources: SourceGateway) -> None:
    source, now = add(sources), clock.now()
    (claimed,) = sources.claim([source.id], "a", now)
    assert sources.record_failure(claimed, "a", "http_429", now, 86400).next_at == now + DAY


def test_a_picture_that_was_there_stays_when_its_site_fails(services: Any, sources: SourceGateway) -> None:
    source, now = add(sources), clock.now()
    sources.claim([source.id], "a", now)
    keep(services, source, "a", b"x", now)
    now += 15 * DAY
    (claimed,) = sources.claim([source.id], "b", now)
    sources.record_failure(claimed, "b", "gone", now)
    found = get(sources, source)
    assert (found.state, found.blob, found.error) == (SourceState.READY, b"x".ljust(32, b"."), "gone")
    assert count(services, b"x") == 1


def test_a_drawing_that_is_repeated_counts_once(services: Any, sources: SourceGateway) -> None:
    source, now = add(sources), clock.now()
    sources.claim([source.id], "a", now)
    keep(services, source, "a", b"x", now)
    with pytest.raises(ConflictError):
        keep(services, source, "a", b"x", now)
    assert count(services, b"x") == 1


def test_a_new_picture_takes_the_reference_from_the_old_one(services: Any, sources: SourceGateway) -> None:
    source, now = add(sources), clock.now()
    for token, content in (("a", b"x"), ("b", b"y"), ("c", b"y")):
        sources.claim([source.id], token, now)
        keep(services, source, token, content, now)
        now += 15 * DAY
    assert (count(services, b"x"), count(services, b"y")) == (0, 1)


def test_a_removed_source_leaves_no_reference(services: Any, sources: SourceGateway) -> None:
    source, now = add(sources), clock.now()
    sources.claim([source.id], "a", now)
    keep(services, source, "a", b"x", now)
    remove = services.store.run_in_transaction
    assert remove(lambda session: sources.remove(session, source.id))
    assert not remove(lambda session: sources.remove(session, source.id))
    assert count(services, b"x") == 0
    assert sources.find([source.id]) == {}


def test_a_source_rots_when_nobody_has_seen_it_for_the_window(sources: SourceGateway) -> None:
    old, seen, now = add(sources, "old"), add(sources, "seen"), clock.now()
    assert sources.find_rotten(now + 14 * DAY, 10) == []
    sources.touch([seen.id], now + 10 * DAY)
    assert [s.id for s in sources.find_rotten(now + 15 * DAY, 10)] == [old.id]


def test_a_day_of_use_is_one_write(sources: SourceGateway, db: Any) -> None:
    source, now = add(sources), clock.now()
    before = db["sources"].find_one({"_id": source.id})
    sources.touch([source.id], now)
    assert db["sources"].find_one({"_id": source.id}) == before


def test_an_icon_is_looked_at_weekly(services: Any, sources: SourceGateway) -> None:
    source, now = add(sources, purpose=Purpose.ICON), clock.now()
    sources.claim([source.id], "a", now)
    assert keep(services, source, "a", b"x", now).next_at == now + ICON_WINDOW


def test_the_pictures_of_a_kept_entry_do_not_rot(sources: SourceGateway, db: Any) -> None:
    """Starring, tagging and sharing all count as stars of the entry."""
    now, later = clock.now(), clock.now() + 15 * DAY
    db["entries"].insert_many([{"_id": n, "stars": 2 - n, "guid_hash": b"%d" % n, "seq": n} for n in (1, 2)])
    urls = {
        1: "https://a.example/starred.jpg",
        2: "https://a.example/read.jpg",
        3: "https://a.example/gone.jpg",
    }
    ids = {entry: derive_id(b"key", url) for entry, url in urls.items()}
    made = [Source(id=ids[e], url=url, purpose=Purpose.PICTURE, entry=e) for e, url in urls.items()]
    sources.add(made, now)
    with clock.set_source(lambda: later):
        assert {source.id for source in sources.find_rotten(later, 10)} == {ids[2], ids[3]}
        assert sources.find([ids[1]])[ids[1]].used == get_day(later)
    db["entries"].update_one({"_id": 1}, {"$inc": {"stars": -1}})
    with clock.set_source(lambda: later + 15 * DAY):
        assert ids[1] in {source.id for source in sources.find_rotten(later + 15 * DAY, 10)}


@pytest.mark.parametrize(
    ("page", "referer"),
    [
        ("https://a.example/post/1?x=2", "https://a.example/"),
        ("https://me:secret@a.example/post", None),
        ("https://日本.example/post", None),
        (None, None),
    ],
)
def test_only_the_origin_of_a_page_is_told_to_a_picture_s_site(page: str | None, referer: str | None) -> None:
    source = Source(id=b"a" * 16, url="https://b.example/1.png", purpose=Purpose.PICTURE, page=page)
    assert dict(build_request(source).headers).get("Referer") == referer
