"""Tags: names, counts, limits, what they keep, and what comes back; random histories against sets."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pymongo.database import Database

from app import clock
from app.bootstrap import services as bootstrap
from app.bootstrap.services import Services
from app.errors import ExistsError, InvalidError, NotFoundError, TooLargeError
from app.models.accounts.actor import Actor
from app.models.reading.stream import Sort, StreamKind, StreamQuery, StreamRef
from app.models.reading.tag import make_tag_key, normalise_tag
from tests.support.database import NOW, World


@pytest.fixture
def entries(world: World, alice: Actor) -> list[int]:
    """Five entries of a feed that alice reads, newest first."""
    world.services.subscriptions.subscribe(alice, "https://one.example.org/feed")
    world.publish(world.feed("one"), world.minutes(1, 2, 3, 4, 5))
    page = world.services.reading.load_page(alice, StreamQuery(StreamRef(StreamKind.ALL)))
    return [row.id for row in page.rows]


def names(services: Services, actor: Actor) -> dict[str, int]:
    return {tag.name: tag.count for tag in services.tags.list_tags(actor)}


def listed(services: Services, actor: Actor, tag_id: int) -> list[int]:
    query = StreamQuery(StreamRef(StreamKind.TAG, tag_id), Sort.NEWEST, limit=2)
    page = services.reading.load_page(actor, query)
    found = [row.id for row in page.rows]
    while page.cursor:
        page = services.reading.load_page(
            actor, dataclasses.replace(query, cursor=page.cursor, snapshot=page.snapshot)
        )
        found += [row.id for row in page.rows]
    return found


@given(st.text())
def test_names_are_normal(name: str) -> None:
    assert normalise_tag(normalise_tag(name)) == normalise_tag(name)
    assert make_tag_key(normalise_tag(name)) == make_tag_key(name)
    assert "," not in normalise_tag(name)


def test_one_tag_however_it_is_spelled(services: Services, alice: Actor, entries: list[int]) -> None:
    services.tags.change_tags(alice, entries[0], add=["  Café  Noir ", "CAFE\u0301 NOIR"])
    services.tags.change_tags(alice, entries[1], add=["café noir"])
    assert names(services, alice) == {"CAFÉ NOIR": 2}
    with pytest.raises(InvalidError):
        services.tags.change_tags(alice, entries[0], add=[" , "])
    with pytest.raises(InvalidError, match="64"):
        services.tags.change_tags(alice, entries[0], add=["x" * 65])


def test_a_tag_is_a_stream_in_the_order_of_tagging(
    services: Services, alice: Actor, entries: list[int]
) -> None:
    for n, entry in enumerate(entries):
        with clock.set_source(lambda n=n: NOW + dt.timedelta(seconds=n)):
            [tag] = services.tags.change_tags(alice, entry, add=["a"])
    assert listed(services, alice, tag.id) == entries[::-1]
    page = services.reading.load_page(alice, StreamQuery(StreamRef(StreamKind.TAG, tag.id)))
    assert page.rows[0].tags == (dataclasses.replace(tag, count=5),)
    marked = services.reading.mark_all(
        alice, page_ref := StreamRef(StreamKind.TAG, tag.id), snapshot=page.snapshot
    )
    assert marked.count == 5
    services.reading.undo_mass_mark(alice, marked.undo)
    assert services.reading.get_tree(alice).unread == 5
    assert page_ref.id == tag.id


def test_nobody_sees_or_changes_tags_of_others(
    services: Services, alice: Actor, bob: Actor, entries: list[int]
) -> None:
    [tag] = services.tags.change_tags(alice, entries[0], add=["mine"])
    assert services.tags.list_tags(bob) == []
    for call in (
        lambda: services.tags.change_tags(bob, entries[0], add=["his"]),
        lambda: services.tags.rename(bob, tag.id, "his"),
        lambda: services.tags.delete(bob, tag.id),
        lambda: services.tags.restore(bob, tag.id),
        lambda: services.reading.load_page(bob, StreamQuery(StreamRef(StreamKind.TAG, tag.id))),
    ):
        with pytest.raises(NotFoundError):
            call()


def test_tagged_entries_stay_when_their_feed_goes(
    world: World, alice: Actor, entries: list[int], db: Database[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    services, feed = world.services, world.feed("one")
    [tag] = services.tags.change_tags(alice, entries[-1], add=["keep"])
    services.reading.set_starred(alice, entries[-1], True)
    assert db.entries.find_one({"_id": entries[-1]})["stars"] == 1, "a mark counts once"
    services.subscriptions.unsubscribe(alice, feed)
    services.reading.set_starred(alice, entries[-1], False)
    monkeypatch.setattr(world.services.gateways.retention, "_keep", 1)
    world.services.gateways.retention.apply_retention(feed)
    assert listed(services, alice, tag.id) == [entries[-1]]
    assert services.reading.get_article(alice, entries[-1]).tags[0].name == "keep"
    services.tags.change_tags(alice, entries[-1], remove=[tag.id])
    world.services.gateways.retention.apply_retention(feed)
    assert db.entries.find_one({"_id": entries[-1]}) is None


def test_limits_are_told(settings: Any, world: World, alice: Actor, entries: list[int]) -> None:
    tight = bootstrap.build(dataclasses.replace(settings, tags_per_entry=2, tags_per_user=3, searches_max=1))
    tags = tight.tags
    tags.change_tags(alice, entries[0], add=["a", "b"])
    with pytest.raises(TooLargeError, match="at most 2 tags"):
        tags.change_tags(alice, entries[0], add=["c"])
    tags.change_tags(alice, entries[1], add=["c"])
    with pytest.raises(TooLargeError, match="3 tags"):
        tags.change_tags(alice, entries[1], add=["d"])
    assert names(tight, alice) == {"a": 1, "b": 1, "c": 1}, "nothing is done by halves"
    gone = tags.delete(alice, tags.list_tags(alice)[0].id)
    tags.change_tags(alice, entries[2], add=["e"])
    with pytest.raises(TooLargeError, match="3 tags"):
        tags.restore(alice, gone.id)
    assert names(tight, alice) == {"b": 1, "c": 1, "e": 1}
    tags.save_search(alice, "", "one")
    tags.save_search(alice, "one", "two")
    with pytest.raises(TooLargeError):
        tags.save_search(alice, "other", "three")
    tight.close()


def test_renamed_merged_deleted_and_back(services: Services, alice: Actor, entries: list[int]) -> None:
    tags = services.tags
    a, b = tags.change_tags(alice, entries[0], add=["a", "b"])
    tags.change_tags(alice, entries[1], add=["a"])
    with pytest.raises(ExistsError, match="Merge"):
        tags.rename(alice, a.id, "B")
    assert tags.rename(alice, a.id, "A").name == "A"
    tags.merge(alice, a.id, b.id)
    assert names(services, alice) == {"b": 2}
    assert set(listed(services, alice, b.id)) == {entries[0], entries[1]}
    tags.restore(alice, a.id)
    assert names(services, alice) == {"A": 2, "b": 1}
    assert listed(services, alice, b.id) == [entries[0]]
    tags.delete(alice, a.id)
    tags.change_tags(alice, entries[2], add=["a"])
    tags.restore(alice, a.id)
    assert names(services, alice) == {"A (2)": 2, "a": 1, "b": 1}
    with pytest.raises(NotFoundError):
        tags.restore(alice, a.id)


def test_a_merge_taken_back_counts_what_lost_the_tag_meanwhile_once(
    services: Services, alice: Actor, entries: list[int]
) -> None:
    tags = services.tags
    [a] = tags.change_tags(alice, entries[0], add=["a"])
    [b] = tags.change_tags(alice, entries[1], add=["b"])
    tags.merge(alice, a.id, b.id)
    tags.change_tags(alice, entries[0], remove=[b.id])
    tags.restore(alice, a.id)
    assert names(services, alice) == {"a": 1, "b": 1}


def test_what_cannot_come_back_any_more_is_gone(
    services: Services, alice: Actor, entries: list[int], db: Database[Any]
) -> None:
    a, b = services.tags.change_tags(alice, entries[0], add=["a", "b"])
    services.tags.change_tags(alice, entries[1], add=["a"])
    services.reading.set_starred(alice, entries[1], True)
    with clock.set_source(lambda: NOW):
        services.tags.delete(alice, a.id)
    later = NOW + dt.timedelta(days=2)
    with clock.set_source(lambda: later):
        services.tags.delete(alice, b.id)
    with pytest.raises(NotFoundError):
        services.tags.restore(alice, a.id)
    assert [m.get("tags") for m in db.marks.find().sort("entry_id")].count(None) == 1
    with clock.set_source(lambda: later + dt.timedelta(days=2)):
        services.gateways.tags.purge(alice.user_id, clock.now())
    assert db.marks.count_documents({}) == 1, "the star stays"
    assert {d["_id"]: d["stars"] for d in db.entries.find({"stars": {"$exists": True}})} == {
        entries[0]: 0,
        entries[1]: 1,
    }


def test_two_devices_that_take_a_merge_back_count_once(
    services: Services, alice: Actor, entries: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    tags = services.tags
    a, b = tags.change_tags(alice, entries[0], add=["a", "b"])
    tags.change_tags(alice, entries[1], add=["a"])
    tags.merge(alice, a.id, b.id)
    store, once = services.store, list[bool]()
    transaction = store.run_in_transaction

    def late(work: Any) -> Any:
        if not once:
            once.append(True)
            tags.restore(alice, a.id)  # the other device comes between looking and writing
        return transaction(work)

    monkeypatch.setattr(store, "run_in_transaction", late)
    with pytest.raises(NotFoundError):
        tags.restore(alice, a.id)
    assert names(services, alice) == {"a": 2, "b": 1}
    once.clear()
    monkeypatch.setattr(store, "run_in_transaction", transaction)
    tags.merge(alice, a.id, b.id)
    with pytest.raises(NotFoundError):
        tags.merge(alice, a.id, b.id)
    tags.restore(alice, a.id)
    assert names(services, alice) == {"a": 2, "b": 1}


def test_a_large_tag_goes_piece_by_piece(
    services: Services, alice: Actor, entries: list[int], monkeypatch: pytest.MonkeyPatch, db: Database[Any]
) -> None:
    monkeypatch.setattr("app.gateways.reading.tags.PURGED", 2)
    for entry in entries:
        [tag] = services.tags.change_tags(alice, entry, add=["a"])
    services.tags.delete(alice, tag.id)
    left, later = list[tuple[int, int]](), clock.now() + dt.timedelta(days=30)
    with clock.set_source(lambda: later):
        for _ in range(3):
            services.gateways.tags.purge(alice.user_id, clock.now())
            left.append((db.marks.count_documents({}), db.tags.count_documents({})))
            with pytest.raises(NotFoundError):  # half of it would come back, and count as whole
                services.tags.restore(alice, tag.id)
    assert left == [(3, 1), (1, 1), (0, 0)]


_STEP = st.tuples(
    st.sampled_from(["tag", "untag", "star", "unstar"]), st.integers(0, 2), st.sampled_from("abc")
)


@settings(max_examples=12, suppress_health_check=list(HealthCheck))
@given(steps=st.lists(_STEP, max_size=12))
def test_counts_and_marks_agree_with_sets(
    services: Services, alice: Actor, entries: list[int], db: Database[Any], steps: list[tuple[str, int, str]]
) -> None:
    for name in ("marks", "tags"):
        db[name].delete_many({})
    db.entries.update_many({}, {"$unset": {"stars": ""}})
    tags: dict[int, set[str]] = {n: set() for n in range(3)}
    stars: set[int] = set()
    for what, n, name in steps:
        ids = {t.name: t.id for t in services.tags.list_tags(alice)}
        if what == "tag":
            services.tags.change_tags(alice, entries[n], add=[name])
            tags[n].add(name)
        elif what == "untag" and name in ids:
            services.tags.change_tags(alice, entries[n], remove=[ids[name]])
            tags[n].discard(name)
        elif what in ("star", "unstar"):
            services.reading.set_starred(alice, entries[n], what == "star")
            (stars.add if what == "star" else stars.discard)(n)
    assert names(services, alice) == {
        name: sum(name in found for found in tags.values())
        for name in {t.name for t in services.tags.list_tags(alice)}
    }
    assert {d["entry_id"] for d in db.marks.find()} == {entries[n] for n in range(3) if tags[n] or n in stars}
    for n in range(3):
        article = services.reading.get_article(alice, entries[n])
        assert {t.name for t in article.tags} == tags[n]
        assert article.starred is (n in stars)
        assert article.entry.stars == int(bool(tags[n]) or n in stars)


def test_a_deleted_search_comes_back_beside_one_that_took_its_name(services: Services, alice: Actor) -> None:
    tags = services.tags
    tags.save_search(alice, "Mine", "rose")
    [first] = tags.list_searches(alice)
    token = tags.delete_search(alice, first.id)
    assert tags.delete_search(alice, first.id) is None
    assert token is not None
    tags.save_search(alice, "Mine", "tulip")
    assert tags.restore_search(alice, token).name == "Mine (2)"
    assert {(s.name, s.query) for s in tags.list_searches(alice)} == {("Mine", "tulip"), ("Mine (2)", "rose")}
    with pytest.raises(NotFoundError):
        tags.restore_search(alice, token)


def test_a_search_comes_back_once_to_whom_it_belongs_and_never_beyond_the_limit(
    services: Services, alice: Actor, bob: Actor
) -> None:
    tags, most = services.tags, services.settings.searches_max
    for number in range(most):
        tags.save_search(alice, f"Search {number:03}", "rose")
    token = tags.delete_search(alice, tags.list_searches(alice)[0].id)
    assert token is not None
    with pytest.raises(NotFoundError):
        tags.restore_search(bob, token)
    tags.save_search(alice, "Another", "rose")
    with pytest.raises(TooLargeError):
        tags.restore_search(alice, token)
    tags.delete_search(alice, tags.list_searches(alice)[0].id)
    with ThreadPoolExecutor(2) as pool:
        done = list(pool.map(lambda _: _tried(lambda: tags.restore_search(alice, token)), range(2)))
    assert sorted(done) == ["back", "not_found"]
    assert len(tags.list_searches(alice)) == most


def _tried(work: Callable[[], object]) -> str:
    try:
        work()
    except NotFoundError as e:
        return e.word
    return "back"


def test_a_tag_that_is_deleted_elsewhere_while_it_is_renamed_stays_deleted(
    services: Services, alice: Actor, entries: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    [tag] = services.tags.change_tags(alice, entries[0], add=["one"])
    mapper = services.mappers.tags
    real = mapper.set_name

    def late(*args: Any) -> Any:
        monkeypatch.setattr(mapper, "set_name", real)
        services.tags.delete(alice, tag.id)
        return real(*args)

    monkeypatch.setattr(mapper, "set_name", late)
    with pytest.raises(NotFoundError, match="don't have this tag"):
        services.tags.rename(alice, tag.id, "two")
    assert names(services, alice) == {}
    services.tags.restore(alice, tag.id)
    assert names(services, alice) == {"one": 1}
