"""A step of an import: its outlines are subscribed in one transaction, or one by one where that's refused."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

import pytest

from app import clock
from app.bootstrap.services import Services
from app.errors import EventrError, ExistsError, NotFoundError, TooLargeError
from app.mappers.mongo import ids
from app.models.accounts.actor import Actor
from app.models.imports.imports import Import
from app.models.subscriptions.subscription import Subscription
from app.services.imports.runner import LEFT_ALONE
from tests.imports.test_imports import HOST, Killed, Pulling, feeds, listed, run
from tests.support.database import NOW, World

NAMES = ("a", "b", "c")


def _start(services: Services, actor: Actor, *outlines: tuple[str, tuple[str, ...]]) -> Import:
    kept = services.imports.preview(actor, listed(*outlines), "x")
    return services.imports.start(actor, kept.id)


def _start_names(services: Services, actor: Actor, *names: str) -> Import:
    return _start(services, actor, *((name, ()) for name in names))


def _kill_once(monkeypatch: pytest.MonkeyPatch, target: Any, name: str, *, after: bool) -> None:
    """Let the worker die at its first call of a method, before or after the call's effect."""
    real: Callable[..., Any] = getattr(target, name)

    def die(*args: Any, **kwargs: Any) -> Any:
        monkeypatch.setattr(target, name, real)
        if after:
            real(*args, **kwargs)
        raise Killed

    monkeypatch.setattr(target, name, die)


def _subscribers(services: Services) -> dict[str, int]:
    feeds = services.store.database["feeds"].find({"subscribers": {"$ne": 0}})
    return {doc["url"].removeprefix(f"{HOST}/"): doc["subscribers"] for doc in feeds}


def _counts(services: Services, one: Import) -> dict[str, int]:
    return dict(services.gateways.imports.get(one.user_id, one.id).counts)


KILLS = {
    "before the feeds": ("mappers.feeds", "add_many", False),
    "after the feeds": ("mappers.feeds", "add_many", True),
    "after the counts": ("mappers.feeds", "add_subscriber_to_many", True),
    "after the subscriptions": ("mappers.subscriptions", "add_many", True),
    "after the transaction": ("gateways.subscriptions", "add_many", True),
}


@pytest.mark.parametrize("step", KILLS)
def test_killed_step_subscribes_all_or_nothing_and_the_next_run_completes_it(
    services: Services, alice: Actor, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    path, name, after = KILLS[step]
    target: Any = services
    for part in path.split("."):
        target = getattr(target, part)
    one = _start_names(services, alice, *NAMES)
    _kill_once(monkeypatch, target, name, after=after)
    with pytest.raises(Killed):
        run(services, one, Pulling(services, feeds(*NAMES)))
    done = step == "after the transaction"
    assert _subscribers(services) == (dict.fromkeys(NAMES, 1) if done else {})
    assert len(services.gateways.subscriptions.find_feed_ids(alice.user_id)) == (3 if done else 0)

    run(services, one, Pulling(services, feeds(*NAMES)), "second")
    assert _counts(services, one) == {"added": 3}
    assert _subscribers(services) == dict.fromkeys(NAMES, 1)


def test_known_feeds_do_not_split_a_step(
    services: Services, alice: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = _start_names(services, alice, *NAMES)
    known = services.subscriptions.subscribe(alice, f"{HOST}/b").subscription.feed_id
    subscriptions, alone = services.gateways.subscriptions, list[int]()
    add = subscriptions.add

    def note(wanted: Subscription, *rest: Any) -> Subscription:
        alone.append(wanted.feed_id)
        return add(wanted, *rest)

    monkeypatch.setattr(subscriptions, "add", note)
    run(services, one, Pulling(services, feeds(*NAMES)))
    assert _counts(services, one) == {"added": 2, "already": 1}
    assert alone == [known]


def test_feed_that_is_subscribed_meanwhile_is_counted_once(
    services: Services, alice: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = _start(services, alice, ("a", ()), ("b", ("News",)), ("c", ()))
    subscriptions = services.gateways.subscriptions
    add_many = subscriptions.add_many
    refused: list[EventrError] = []

    def beaten(*args: Any) -> Any:
        services.subscriptions.subscribe(alice, f"{HOST}/b")
        try:
            return add_many(*args)
        except ExistsError as e:
            refused.append(e)
            raise

    monkeypatch.setattr(subscriptions, "add_many", beaten)
    run(services, one, Pulling(services, feeds(*NAMES)))
    assert refused, "the race didn't happen"
    assert _counts(services, one) == {"added": 3}
    assert _subscribers(services) == dict.fromkeys(NAMES, 1)
    tree = services.reading.get_tree(alice)
    assert [[f.title for f in folder.feeds] for folder in tree.folders] == [["Feed b"]]


def test_outlines_of_one_merged_feed_are_one_subscription_in_all_their_folders(
    services: Services, alice: Actor, bob: Actor
) -> None:
    old, new = (services.subscriptions.subscribe(bob, f"{HOST}/{n}").subscription.feed_id for n in "ab")
    gateway = services.gateways.feeds
    assert gateway.move(old, f"{HOST}/b") == new
    one = _start(services, alice, ("a", ("News",)), ("b", ("Tech",)), ("c", ()))
    run(services, one, Pulling(services, feeds("b", "c")))
    assert _counts(services, one) == {"added": 3}
    mine = services.gateways.subscriptions.find_by_user(alice.user_id)
    assert len(mine) == 2
    names = {folder.id: folder.name for folder in services.folders.list_folders(alice)}
    folders = {one.feed_id: {names[folder] for folder in one.folder_ids} for one in mine}
    assert folders[new] == {"News", "Tech"}
    assert gateway.get(new).subscribers == 2


def test_feed_that_is_merged_meanwhile_is_followed_to_its_successor(
    services: Services, alice: Actor, bob: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = (services.subscriptions.subscribe(bob, f"{HOST}/{n}").subscription.feed_id for n in "ab")
    one = _start_names(services, alice, "a", "c")
    subscriptions = services.gateways.subscriptions
    add_many = subscriptions.add_many

    def late(*args: Any) -> Any:
        services.gateways.feeds.move(old, f"{HOST}/b")
        return add_many(*args)

    monkeypatch.setattr(subscriptions, "add_many", late)
    run(services, one, Pulling(services, feeds("b", "c")))
    assert _counts(services, one) == {"added": 2}
    assert new in subscriptions.find_feed_ids(alice.user_id)
    assert services.gateways.feeds.get(new).subscribers == 2
    assert services.gateways.feeds.get(old).subscribers == 0


def test_retried_feed_that_has_moved_is_not_subscribed_a_second_time(
    services: Services, alice: Actor
) -> None:
    one = _start_names(services, alice, "a")
    run(services, one, Pulling(services, {}))
    [feed_id] = services.gateways.subscriptions.find_feed_ids(alice.user_id)
    assert services.gateways.feeds.move(feed_id, f"{HOST}/b") == feed_id
    run(services, services.imports.retry(alice, one.id), Pulling(services, feeds("b")), "second")
    assert _counts(services, one) == {"added": 1}
    assert services.gateways.subscriptions.find_feed_ids(alice.user_id) == [feed_id]


def test_new_feeds_are_left_to_their_import_for_a_minute(services: Services, alice: Actor) -> None:
    one = _start_names(services, alice, *NAMES)
    begun = clock.now()

    class Dying(Pulling):
        def await_many(self, *_: Any) -> Any:
            raise Killed

    with pytest.raises(Killed):
        run(services, one, Dying(services, {}))
    mine = set(services.gateways.subscriptions.find_feed_ids(alice.user_id))
    assert len(mine) == 3
    assert services.pull.find_due(clock.now(), 10) == []
    late = clock.now() + LEFT_ALONE
    assert {feed.id for feed in services.pull.find_due(late, 10)} == mine, "a dead import loses none"
    assert services.pull.find_due(begun + LEFT_ALONE - dt.timedelta(seconds=1), 10) == []


# -- the gateway


def _wanted(services: Services, actor: Actor, *feed_ids: int) -> list[tuple[Subscription, Any]]:
    found = [services.gateways.feeds.get(feed_id) for feed_id in feed_ids]
    return [(Subscription(0, actor.user_id, feed.id), feed) for feed in found]


def test_many_subscriptions_start_like_single_ones(
    services: Services, alice: Actor, bob: Actor, world: World
) -> None:
    subscriptions = services.gateways.subscriptions
    empty, full = world.feed(), world.feed()
    world.publish(full, world.minutes(*range(1, 400)))
    wanted = _wanted(services, alice, empty, full)
    made = subscriptions.add_many(alice.user_id, wanted, NOW)
    assert [one.feed_id for one in made] == [empty, full]
    assert [one.id for one in made] == [subscriptions.get(alice.user_id, one.feed_id).id for one in made]
    for one, feed in _wanted(services, bob, empty, full):
        subscriptions.add(one, feed, NOW)
    found = services.store.database["subscriptions"].find({}, {"_id": 0})
    by_user: dict[int, list[Any]] = {}
    for doc in found.sort("feed_id"):
        by_user.setdefault(doc.pop("user_id"), []).append(doc)
    assert by_user[alice.user_id] == by_user[bob.user_id]
    assert [doc.get("pending") for doc in by_user[alice.user_id]] == [True, None]
    assert [services.gateways.feeds.get(f).subscribers for f in (empty, full)] == [2, 2]


def test_rested_feeds_are_due_for_a_new_subscriber_but_failing_ones_are_not(
    services: Services, alice: Actor, world: World
) -> None:
    hour, later = dt.timedelta(hours=1), NOW + dt.timedelta(hours=9)
    checked = {"rested": NOW - hour, "fresh": NOW - hour / 2, "failing": NOW - hour}
    known = {name: world.feed(name) for name in checked}
    gateway = services.gateways.feeds
    for name, at in checked.items():
        values = {"checked_at": at, "next_check_at": later, "errors": int(name == "failing")}
        services.store.database["feeds"].update_one({"_id": known[name]}, {"$set": values})
    wanted = _wanted(services, alice, *known.values())
    services.gateways.subscriptions.add_many(alice.user_id, wanted, NOW)
    due = {name: gateway.get(feed_id).next_check_at for name, feed_id in known.items()}
    assert due == {"rested": NOW, "fresh": later, "failing": later}
    assert {gateway.get(feed_id).read_at for feed_id in known.values()} == {NOW}


@pytest.mark.parametrize("reason", ["subscribed", "merged", "full"])
def test_refused_feed_leaves_all_others_unchanged(
    services: Services, alice: Actor, bob: Actor, world: World, reason: str
) -> None:
    subscriptions, gateway = services.gateways.subscriptions, services.gateways.feeds
    first, second, third = (world.feed() for _ in range(3))
    wanted = _wanted(services, alice, first, second)
    error: type[EventrError] = ExistsError
    if reason == "subscribed":
        subscriptions.add(*_wanted(services, alice, second)[0], NOW)
    elif reason == "merged":
        for feed_id in (second, third):
            subscriptions.add(*_wanted(services, bob, feed_id)[0], NOW)
        gateway.move(second, gateway.get(third).url)
        error = NotFoundError
    else:
        subscriptions._most = 1
        error = TooLargeError
    before = [gateway.get(feed_id) for feed_id in (first, second)], subscriptions.find_feed_ids(alice.user_id)
    with pytest.raises(error):
        subscriptions.add_many(alice.user_id, wanted, NOW)
    after = [gateway.get(feed_id) for feed_id in (first, second)], subscriptions.find_feed_ids(alice.user_id)
    assert after == before


def test_feeds_are_found_or_created_in_order(services: Services, world: World) -> None:
    gateway = services.gateways.feeds
    known = gateway.get_or_create(f"{HOST}/known", now=NOW)
    later = NOW + dt.timedelta(minutes=1)
    urls = [f"{HOST}/new?utm_source=x", f"{HOST}/known", f"{HOST}/new"]
    new, same, again = gateway.get_or_create_many(urls, now=NOW, due=later)
    assert (same.id, same.next_check_at) == (known.id, NOW)
    assert again == new
    assert gateway.get_or_create_many(urls, now=later, due=later) == [new, same, again]
    merged = gateway.get_or_create(f"{HOST}/merged", now=NOW)
    services.store.database["feeds"].update_one({"_id": known.id}, {"$set": {"subscribers": 1}})
    assert gateway.move(merged.id, f"{HOST}/known") == known.id
    assert gateway.get_or_create_many([f"{HOST}/merged"], now=NOW, due=NOW) == [gateway.get(known.id)]
    assert (new.url, new.created, new.next_check_at) == (f"{HOST}/new", NOW, later)


def test_feeds_that_another_request_creates_meanwhile_are_found(
    services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    gateway, mapper = services.gateways.feeds, services.mappers.feeds
    add, add_many = mapper.add, mapper.add_many
    made, alone = [], list[str]()

    def beaten(*args: Any) -> None:
        made.append(gateway.get_or_create(f"{HOST}/b", now=NOW))
        add_many(*args)

    def note(url: str, *rest: Any) -> Any:
        alone.append(url)
        return add(url, *rest)

    monkeypatch.setattr(mapper, "add_many", beaten)
    monkeypatch.setattr(mapper, "add", note)
    found = gateway.get_or_create_many([f"{HOST}/{name}" for name in NAMES], now=NOW, due=NOW)
    assert [feed.url for feed in found] == [f"{HOST}/{name}" for name in NAMES]
    assert found[1] == made[0]
    assert alone == [f"{HOST}/b"], "the others were created together"


def test_feed_whose_id_was_taken_is_created_with_another(
    services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    gateway = services.gateways.feeds
    taken = gateway.get_or_create(f"{HOST}/taken", now=NOW)
    reserve = ids.reserve_ids

    def collide(count: int = 1) -> int:
        return taken.id if count > 1 else reserve()

    monkeypatch.setattr(ids, "reserve_ids", collide)
    found = gateway.get_or_create_many([f"{HOST}/{name}" for name in NAMES], now=NOW, due=NOW)
    assert [feed.url for feed in found] == [f"{HOST}/{name}" for name in NAMES]
    assert taken.id not in {feed.id for feed in found}
