"""A run of an import: what it waits for and how long, what becomes of each feed, whom it notifies."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
from collections.abc import AsyncIterator, Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
import redis
from rq.job import Job as RqJob
from rq.serializers import JSONSerializer

from app import clock
from app.bootstrap import services as bootstrap
from app.bootstrap.services import Services
from app.errors import NotFoundError, StoreError
from app.feeds.opml import opml
from app.gateways.feeds.digest import CUT
from app.models.accounts.actor import Actor
from app.models.accounts.user import NewUser
from app.models.imports.imports import Import, ImportState
from app.models.imports.opml import Outline
from app.models.jobs import redis_keys
from app.models.jobs.jobs import Outcome, Queue, Ticket
from app.models.sharing.sharing import Audience
from tests.imports.test_imports import HOST, Killed, Pulling, feeds, listed, run

#: Seconds: the settings of :func:`time`.
PATIENCE, PAUSE = 70, 5.0


class Time:
    """The clock by which a run waits: it moves only while the run sleeps or awaits jobs."""

    def __init__(self) -> None:
        self.now = 0.0
        self.naps: list[float] = []

    def monotonic(self) -> float:
        return 1000 + self.now

    async def sleep(self, seconds: float) -> None:
        self.naps.append(seconds)
        self.now += seconds
        assert len(self.naps) < 1000, "the run doesn't end"
        await asyncio.sleep(0)


@pytest.fixture
def time(services: Services, monkeypatch: pytest.MonkeyPatch) -> Time:
    made = Time()
    parts = SimpleNamespace(to_thread=asyncio.to_thread, sleep=made.sleep)
    monkeypatch.setattr("app.services.imports.runner.asyncio", parts)
    monkeypatch.setattr("app.services.imports.runner.time", made)
    monkeypatch.setattr("app.services.imports.runner.PAUSE", PAUSE)
    runner = services.import_runner
    runner._settings = dataclasses.replace(services.settings, import_patience=PATIENCE)
    return made


class Workers(Pulling):
    """Workers that postpone some feeds for their hosts, and lose or keep silent about some jobs."""

    def __init__(self, services: Services, time: Time, *names: str) -> None:
        super().__init__(services, feeds(*names))
        self.time = time
        #: How many requests for a feed are answered without fetching it.
        self.postponed = 0
        #: How many jobs vanish, and whether no job's end is reported.
        self.lost, self.silent = 0, False
        self.looks: list[Callable[[], object]] = []
        self.requests: list[tuple[float, list[int]]] = []
        #: Jobs awaited at each look.
        self.awaited: list[int] = []

    async def await_many(self, tickets: Sequence[Ticket], timeout: float) -> AsyncIterator[Outcome]:
        self.awaited.append(len(tickets))
        ended = []
        for ticket in tickets:
            if self._client.exists(redis_keys.make_job_key(ticket.id)):
                ended += await self._work_off(ticket)
        for look in self.looks:
            await asyncio.to_thread(look)
        if tickets and not ended:
            self.time.now += timeout
            assert self.time.now < 10_000, "the run doesn't end"
        for outcome in ended:
            yield outcome

    async def _work_off(self, ticket: Ticket) -> list[Outcome]:
        job = RqJob.fetch(ticket.id, connection=self._client, serializer=JSONSerializer)
        self._client.lrem(redis_keys.make_queue_key(Queue.PULL), 0, ticket.id)
        self._client.delete(redis_keys.make_job_key(ticket.id))
        feed_ids = job.kwargs["feed_ids"]
        self.requests.append((self.time.now, feed_ids))
        if self.lost:
            self.lost -= 1
            return []
        if self.postponed:
            self.postponed -= 1
        else:
            await self.pull.pull(feed_ids, self.answers)
        return [] if self.silent else [Outcome(ticket.id)]

    @property
    def times(self) -> list[float]:
        return [moment for moment, _ in self.requests]


def _started(services: Services, who: Actor, *names: str) -> Import:
    return services.imports.start(
        who, services.imports.preview(who, listed(*((n, ()) for n in names)), "x").id
    )


def _counts(services: Services, one: Import) -> dict[str, int]:
    return dict(services.gateways.imports.get(one.user_id, one.id).counts)


def _failed(services: Services, who: Actor, name: str) -> Import:
    """Return an import that is done and whose feed couldn't be found."""
    one = _started(services, who, name)
    run(services, one, Pulling(services, {}))
    assert _counts(services, one) == {"failed": 1}
    return one


def test_a_run_out_of_turn_does_nothing(services: Services, alice: Actor) -> None:
    kept = services.imports.preview(alice, listed(("a", ())), "x")
    assert run(services, kept, Pulling(services, feeds("a"))) == {"state": "waits"}
    assert services.imports.get(alice, kept.id).state is ImportState.PREVIEW
    assert list(services.gateways.subscriptions.find_feed_ids(alice.user_id)) == []


# -- waiting for feeds


def test_a_feed_that_is_postponed_for_its_host_is_awaited_and_then_left_to_the_updater(
    services: Services, alice: Actor, time: Time
) -> None:
    one, workers = _started(services, alice, "a"), Workers(services, time)
    workers.postponed = 99
    seen = []
    workers.looks.append(lambda: seen.append(_counts(services, one)))
    assert run(services, one, workers) == {"state": "done", "added": 1}
    assert seen == [{"fetching": 1}] * len(seen)
    assert workers.times == [0, 30, 60], "queued again every 30 seconds"
    assert (time.now, set(time.naps)) == (PATIENCE, {PAUSE})


def test_a_run_that_has_more_to_subscribe_to_does_not_pause(
    services: Services, alice: Actor, time: Time, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.services.imports.runner.STEP", 1)
    services.subscriptions.subscribe(Actor(alice.user_id + 1), f"{HOST}/a")
    feed = services.gateways.feeds.get_or_create(f"{HOST}/a", now=clock.now()).id
    workers = Workers(services, time, "a", "b")
    asyncio.run(workers.pull.pull([feed], workers.answers))
    one = _started(services, alice, "a", "b")
    assert run(services, one, workers)["added"] == 2
    assert set(time.naps) <= {0}


def test_a_result_is_found_in_the_store_if_its_job_never_reports(
    services: Services, alice: Actor, time: Time, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.services.imports.runner.PAUSE", 1.0)
    one, workers = _started(services, alice, "a"), Workers(services, time, "a")
    workers.silent = True
    assert run(services, one, workers)["added"] == 1
    assert (workers.times, time.now) == ([0], 3), "all feeds are checked every three seconds"


def test_a_job_that_ends_after_its_feed_was_settled_changes_nothing(
    services: Services, alice: Actor, time: Time, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.services.imports.runner.BATCH", 1)
    monkeypatch.setattr("app.services.imports.runner.PAUSE", 1.0)

    class Slow(Workers):
        """One worker: reports the end of the first job a second late, and then runs the second."""

        async def await_many(self, tickets: Sequence[Ticket], timeout: float) -> AsyncIterator[Outcome]:
            self.silent = True
            async for outcome in super().await_many(tickets[:1], timeout):
                yield outcome
            if len(self.awaited) == 4:
                yield Outcome(tickets[0].id)

    one, workers = _started(services, alice, "a", "b"), Slow(services, time, "a", "b")
    assert run(services, one, workers)["added"] == 2
    assert [moment for moment, _ in workers.requests] == [0, 4]


def test_a_lost_job_is_replaced_by_one_for_the_feeds_that_still_have_no_result(
    services: Services, alice: Actor, time: Time
) -> None:
    one, workers = _started(services, alice, "a", "b"), Workers(services, time, "a", "b")
    workers.lost = 1

    def fetch_first() -> None:
        if len(workers.awaited) == 1:
            first = workers.requests[0][1][:1]
            asyncio.run(workers.pull.pull(first, workers.answers))

    workers.looks.append(fetch_first)
    assert run(services, one, workers)["added"] == 2
    [(_, both), (again, rest)] = workers.requests
    assert (again, rest) == (30, both[1:])
    assert set(workers.awaited) == {1}, "the lost job is awaited no longer"


@pytest.mark.parametrize(("names", "became"), [((), "failed"), (("a",), "added")])
def test_a_feed_that_failed_for_others_is_judged_by_its_next_fetch(
    services: Services, alice: Actor, bob: Actor, time: Time, names: Sequence[str], became: str
) -> None:
    feed = services.subscriptions.subscribe(bob, f"{HOST}/a").subscription.feed_id
    missing = Pulling(services, {})
    asyncio.run(missing.pull.pull([feed], missing.answers))
    one, workers = _started(services, alice, "a"), Workers(services, time, *names)
    workers.postponed = 1
    run(services, one, workers)
    assert (_counts(services, one), time.now) == ({became: 1}, 30)


def test_a_feed_that_failed_after_an_earlier_run_had_queued_it_has_failed(
    services: Services, alice: Actor, time: Time
) -> None:
    one, workers = _started(services, alice, "a"), Workers(services, time)

    def die() -> None:
        raise Killed

    workers.looks.append(die)
    with pytest.raises(Killed):
        run(services, one, workers)
    workers.looks.clear()
    workers.postponed = 99
    assert run(services, one, workers, "next")["failed"] == 1
    assert time.now == 0


def test_a_feed_that_an_earlier_run_queued_is_awaited_until_it_is_fetched(
    services: Services, alice: Actor, time: Time
) -> None:
    one, workers = _started(services, alice, "a"), Workers(services, time, "a")
    workers.postponed = 2

    def die() -> None:
        raise Killed

    workers.looks.append(die)
    with pytest.raises(Killed):
        run(services, one, workers)
    workers.looks.clear()
    assert run(services, one, workers, "next")["added"] == 1
    assert (workers.times, time.now) == ([0, 0, 30], 30)


@pytest.mark.parametrize(
    ("names", "postponed", "became", "seconds"),
    [
        ((), 0, {"failed": 1}, 0),
        ((), 99, {"failed": 1}, PATIENCE),
        (("a",), 0, {"added": 1}, 0),
        (("a",), 1, {"added": 1}, 30),
    ],
    ids=["fails again", "is never fetched", "is found", "is found later"],
)
def test_a_retried_feed_is_judged_by_its_next_fetch(
    services: Services,
    alice: Actor,
    time: Time,
    *,
    names: Sequence[str],
    postponed: int,
    became: dict[str, int],
    seconds: float,
) -> None:
    one, workers = _failed(services, alice, "a"), Workers(services, time, *names)
    workers.postponed = postponed
    seen = []
    workers.looks.append(lambda: seen.append(_counts(services, one)))
    run(services, services.imports.retry(alice, one.id), workers, "again")
    assert seen[0] == {"retry": 1}
    assert (_counts(services, one), time.now) == (became, seconds)
    errors = [item.error for item in services.imports.list_failures(alice, one.id)]
    assert errors == ["http_404"] * became.get("failed", 0)


def test_a_retry_fetches_a_feed_again_that_has_recovered_meanwhile(
    services: Services, alice: Actor, time: Time
) -> None:
    one, workers = _failed(services, alice, "a"), Workers(services, time, "a")
    feeds_of = list(services.gateways.subscriptions.find_feed_ids(alice.user_id))
    asyncio.run(workers.pull.pull(feeds_of, workers.answers))
    workers.postponed = 1
    run(services, services.imports.retry(alice, one.id), workers, "again")
    assert (_counts(services, one), workers.times, time.now) == ({"added": 1}, [0, 30], 30)


def test_a_feed_that_is_deleted_while_it_is_awaited_is_gone(
    services: Services, alice: Actor, time: Time
) -> None:
    one, workers = _started(services, alice, "a"), Workers(services, time)
    workers.postponed = 99
    workers.looks.append(lambda: services.store.database["feeds"].delete_many({}))
    run(services, one, workers)
    [failed] = services.imports.list_failures(alice, one.id)
    assert (failed.error, failed.feed_id is not None, time.now) == ("gone", True, 0)


@pytest.mark.parametrize("retried", [False, True])
def test_a_feed_whose_answer_was_cut_off_is_added_with_its_complete_entries(
    services: Services, alice: Actor, time: Time, retried: bool
) -> None:
    one = _failed(services, alice, "a") if retried else _started(services, alice, "a")
    workers = Workers(services, time)
    workers.postponed = 99
    cut = {"$set": {"error": CUT, "errors": 1, "title": "a"}}
    workers.looks.append(lambda: services.store.database["feeds"].update_many({}, cut))
    run(services, services.imports.retry(alice, one.id) if retried else one, workers, "again")
    assert (_counts(services, one), time.now) == ({"added": 1}, 0)
    [mine] = services.gateways.subscriptions.find_by_user(alice.user_id)
    assert mine.title == ("a" if retried else ""), "a retry leaves the user's title alone"


def test_an_import_fetches_no_more_feeds_at_once_than_its_window_and_in_the_order_of_the_file(
    services: Services, alice: Actor, time: Time
) -> None:
    runner = services.import_runner
    runner._settings = dataclasses.replace(runner._settings, import_window=2)
    names = "abcde"
    one, workers = _started(services, alice, *names), Workers(services, time, *names)
    assert run(services, one, workers)["added"] == 5
    ids = {
        name: services.gateways.feeds.get_or_create(f"{HOST}/{name}", now=clock.now()).id for name in names
    }
    assert [found for _, found in workers.requests] == [
        [ids[name] for name in part] for part in ("ab", "cd", "e")
    ]


def test_a_full_window_waits_by_the_clock(services: Services, alice: Actor, time: Time) -> None:
    runner = services.import_runner
    runner._settings = dataclasses.replace(runner._settings, import_window=1)
    one, workers = _started(services, alice, "a", "b"), Workers(services, time, "a", "b")
    workers.postponed = 1
    assert run(services, one, workers)["added"] == 2
    assert (workers.times, set(time.naps)) == ([0, 30, 30], {PAUSE})


def test_a_pull_job_of_an_import_has_ten_feeds_at_most_and_each_feed_once(
    services: Services, alice: Actor, time: Time
) -> None:
    names = [f"n{number}" for number in range(23)]
    workers = Workers(services, time, *names)
    run(services, _started(services, alice, *names), workers)
    assert [len(found) for _, found in workers.requests] == [10, 10, 3]
    ids = [services.gateways.feeds.get_or_create(f"{HOST}/{n}", now=clock.now()).id for n in "ab"]
    services.subscriptions.subscribe(Actor(alice.user_id + 1), f"{HOST}/b")
    services.gateways.feeds.move(ids[0], f"{HOST}/b")
    workers = Workers(services, time, "b")
    assert run(services, _started(services, alice, "a", "b"), workers)["added"] == 2
    assert [found for _, found in workers.requests] == [[ids[1]]]


# -- what each outline becomes


def test_a_feed_that_has_entries_already_is_added_without_a_fetch(
    services: Services, alice: Actor, bob: Actor, time: Time
) -> None:
    known = services.subscriptions.subscribe(bob, f"{HOST}/a").subscription.feed_id
    workers = Workers(services, time, "a", "b")
    asyncio.run(workers.pull.pull([known], workers.answers))
    one, seen = _started(services, alice, "a", "b"), []
    workers.looks.append(lambda: seen.append(_counts(services, one)))
    run(services, one, workers)
    assert seen[0] == {"added": 1, "fetching": 1}
    assert _counts(services, one) == {"added": 2}
    [(_, fetched)] = workers.requests
    assert (len(fetched), known in fetched) == (1, False)


def test_a_feed_that_was_subscribed_to_between_preview_and_run_counts_as_such(
    services: Services, alice: Actor
) -> None:
    one = _started(services, alice, "a", "b")
    services.subscriptions.subscribe(alice, f"{HOST}/a")
    run(services, one, Pulling(services, feeds("a", "b")))
    assert _counts(services, one) == {"already": 1, "added": 1}
    assert services.imports.unsubscribe(alice, one.id)[1] == 1, "only the feed that the import brought"


def test_a_retried_title_that_equals_the_feeds_own_stays_the_users(services: Services, alice: Actor) -> None:
    one = _failed(services, alice, "a")
    body = feeds("a")[f"{HOST}/a"].replace(b"Feed a", b"a")
    run(services, services.imports.retry(alice, one.id), Pulling(services, {f"{HOST}/a": body}), "again")
    [mine] = services.gateways.subscriptions.find_by_user(alice.user_id)
    assert mine.title == "a"


def test_a_retried_outline_that_is_refused_keeps_its_feed_and_a_new_one_has_none(
    services: Services, alice: Actor
) -> None:
    """The server moved to the host of the feed, so its address isn't fetched anymore."""
    one = _failed(services, alice, "a")
    [feed] = services.gateways.subscriptions.find_feed_ids(alice.user_id)
    older = services.subscriptions.subscribe(alice, f"{HOST}/b").subscription.feed_id
    other = services.imports.preview(alice, listed(("b", ()), ("c", ())), "x")
    services.imports.choose_items(alice, other.id, 0, [0, 1])
    ready = [services.imports.retry(alice, one.id), services.imports.start(alice, other.id)]
    with contextlib.closing(bootstrap.build(dataclasses.replace(services.settings, base_url=HOST))) as moved:
        for each in ready:
            run(moved, each, Pulling(moved, feeds("a", "b", "c")), "again")
    found = [services.imports.list_failures(alice, each.id) for each in ready]
    assert [[(item.error, item.feed_id) for item in items] for items in found] == [
        [("invalid", feed)],
        [("invalid", None)] * 2,
    ]
    assert services.imports.find_imported_feeds(alice, other.id).feeds == (), "one is an older subscription"
    assert older in services.gateways.subscriptions.find_feed_ids(alice.user_id)
    assert services.imports.unsubscribe(alice, one.id)[1] == 1


@pytest.mark.parametrize("together", [True, False], ids=["together", "one by one"])
def test_a_run_that_loses_the_store_leaves_its_outlines_to_the_next(
    services: Services, alice: Actor, monkeypatch: pytest.MonkeyPatch, together: bool
) -> None:
    one, subscriptions = _started(services, alice, "a"), services.gateways.subscriptions

    def unreachable(*_: Any) -> Any:
        raise StoreError

    def refused(*_: Any) -> Any:
        raise NotFoundError

    with monkeypatch.context() as patched:
        patched.setattr(subscriptions, "add_many", unreachable if together else refused)
        if not together:
            patched.setattr(subscriptions, "add", unreachable)
        with pytest.raises(StoreError):
            run(services, one, Pulling(services, feeds("a")))
    assert _counts(services, one) == {"waiting": 1}
    run(services, one, Pulling(services, feeds("a")), "next")
    assert _counts(services, one) == {"added": 1}


def test_a_person_who_was_followed_before_is_put_into_the_folder_of_the_file(services: Services) -> None:
    alice, bob = (
        services.gateways.accounts.add_user(NewUser(f"{n}@example.org", n, "$argon2id$none")).actor
        for n in ("alice", "bob")
    )
    services.following.update_profile(
        bob, display="", bio="", links=(), audience=Audience.PUBLIC, listed=False, open_lists=False
    )
    services.following.follow(alice, "bob")
    url = f"{services.settings.own_origin}/@bob/atom.xml"
    outlines = [Outline(url, "", None, ("Friends",)), Outline(f"{HOST}/a", "a", None, ("News",))]
    kept = services.imports.preview(alice, opml.write("Mine", outlines), "x")
    run(services, services.imports.start(alice, kept.id), Pulling(services, feeds("a")))
    assert _counts(services, kept) == {"already": 1, "added": 1}
    folders = {folder.name: folder.id for folder in services.folders.list_folders(alice)}
    found = services.gateways.subscriptions.find_by_user(alice.user_id)
    assert {mine.person: mine.folder_ids for mine in found} == {
        True: (folders["Friends"],),
        False: (folders["News"],),
    }


# -- progress


def _events(client: redis.Redis) -> list[tuple[str, dict[str, Any]]]:
    rows: Any = client.xrange(redis_keys.PEOPLE)
    return [(row[b"kind"].decode(), json.loads(row.get(b"data", b"{}"))) for _, row in rows]


def test_a_run_reports_what_it_added_its_progress_once_a_second_and_its_end(
    services: Services, alice: Actor, time: Time, redis_client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.services.imports.runner.STEP", 1)
    services.subscriptions.subscribe(alice, f"{HOST}/a")
    kept = services.imports.preview(alice, listed(("a", ()), ("b", ()), ("c", ())), "x")
    services.imports.choose_items(alice, kept.id, 0, [0, 1, 2])
    one = services.imports.start(alice, kept.id)
    redis_client.delete(redis_keys.PEOPLE)
    workers = Workers(services, time, "b", "c")

    def half_a_second() -> None:
        time.now += 0.5

    workers.looks.append(half_a_second)
    run(services, one, workers)
    events = _events(redis_client)
    [b, c] = (services.gateways.feeds.get_or_create(f"{HOST}/{n}", now=clock.now()).id for n in "bc")
    assert [data["added"] for kind, data in events if kind == "follows"] == [[b], [c]]
    told = [(d["state"], d["done"], d["fetching"]) for kind, d in events if kind == "import"]
    assert told == [("running", 2, 1), ("done", 3, 0)]
    assert [kind for kind, _ in events][-2:] == ["import", "counts"]


def test_the_last_step_of_a_cancelled_run_is_reported(
    services: Services, alice: Actor, redis_client: redis.Redis
) -> None:
    one = _started(services, alice, "a")

    class Cancelling(Pulling):
        async def await_many(self, tickets: Sequence[Ticket], timeout: float) -> AsyncIterator[Outcome]:
            async for outcome in super().await_many(tickets, timeout):
                yield outcome
            services.imports.cancel(alice, one.id)
            self._client.delete(redis_keys.PEOPLE)

    assert run(services, one, Cancelling(services, feeds("a"))) == {"state": "left"}
    assert [(kind, data["state"], data["added"]) for kind, data in _events(redis_client)] == [
        ("import", "cancelled", 1)
    ]


def test_an_import_that_is_removed_while_it_runs_leaves_its_owners_data_alone(
    services: Services, redis_client: redis.Redis
) -> None:
    alice = services.gateways.accounts.add_user(NewUser("a@b.c", "alice", "$argon2id$none")).actor
    one = _started(services, alice, "a")

    class Removing(Pulling):
        async def await_many(self, tickets: Sequence[Ticket], timeout: float) -> AsyncIterator[Outcome]:
            async for outcome in super().await_many(tickets, timeout):
                yield outcome
            services.imports.cancel(alice, one.id)
            services.imports.remove(alice, one.id)

    assert run(services, one, Removing(services, feeds("a"))) == {"state": "left"}
    assert len(services.gateways.subscriptions.find_feed_ids(alice.user_id)) == 1
    assert services.store.database["users"].count_documents({"_id": alice.user_id}) == 1


def test_a_run_that_is_cancelled_at_its_very_end_ends_nothing(
    services: Services, alice: Actor, redis_client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, gateway = _started(services, alice, "a"), services.gateways.imports
    end_run = gateway.end_run

    def late(*args: Any) -> Any:
        services.imports.cancel(alice, one.id)
        redis_client.delete(redis_keys.PEOPLE)
        return end_run(*args)

    monkeypatch.setattr(gateway, "end_run", late)
    assert run(services, one, Pulling(services, feeds("a"))) == {"state": "left"}
    assert services.imports.get(alice, one.id).state is ImportState.CANCELLED
    assert _events(redis_client) == []
    assert services.store.database["notifications"].count_documents({}) == 0


def test_the_end_of_an_import_is_notified_and_the_next_import_is_queued(
    services: Services, redis_client: redis.Redis
) -> None:
    alice = services.gateways.accounts.add_user(NewUser("a@b.c", "alice", "$argon2id$none")).actor
    places = services.settings.imports_at_once
    ones = [_started(services, alice, "a") for _ in range(places + 1)]
    for one in ones[1:places]:
        assert services.gateways.imports.begin_run(alice.user_id, one.id, "run", clock.now())
    redis_client.flushdb()
    run(services, ones[0], Pulling(services, feeds("a")))
    queued: Any = redis_client.lrange(redis_keys.make_queue_key(Queue.IMPORT), 0, -1)
    jobs = [RqJob.fetch(i.decode(), connection=redis_client, serializer=JSONSerializer) for i in queued]
    assert [job.kwargs for job in jobs] == [{"user_id": alice.user_id, "import_id": ones[-1].id}]
    [note] = services.store.database["notifications"].find({"user_id": alice.user_id})
    assert (note["kind"], note["subject"]) == ("import", ones[0].id)


def _tries(services: Services, one: Import) -> int:
    return services.gateways.imports.get(one.user_id, one.id).tries


def test_only_a_run_that_moves_an_outline_on_counts_as_progress(
    services: Services, alice: Actor, time: Time
) -> None:
    one, workers = _started(services, alice, "a", "b"), Workers(services, time, "a")
    workers.postponed = 99

    def die() -> None:
        raise Killed

    workers.looks.append(die)
    tries = []
    for name in ("first", "second", "third"):
        with pytest.raises(Killed):
            run(services, one, workers, name)
        tries.append(_tries(services, one))
    assert tries == [0, 1, 2], "the first run subscribed, the others only awaited the same feeds"
    workers.postponed = 0
    with pytest.raises(Killed):
        run(services, one, workers, "fourth")
    assert _tries(services, one) == 3
    workers.looks.clear()
    run(services, one, workers, "fifth")
    assert (_counts(services, one), _tries(services, one)) == ({"added": 1, "failed": 1}, 0)
