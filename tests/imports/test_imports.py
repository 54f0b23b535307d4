"""Imports: what a file becomes, and that a run ends complete whatever happens to it."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import datetime as dt
import gzip
import json
import threading
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import redis
from rq.job import Job as RqJob
from rq.serializers import JSONSerializer

from app import clock
from app.bootstrap import services as bootstrap
from app.bootstrap.services import Services
from app.errors import (
    ConflictError,
    EventrError,
    FetchError,
    InvalidError,
    NoSpaceError,
    NotFoundError,
    RateLimitedError,
    TooLargeError,
    get_feed_message,
)
from app.feeds.opml import opml
from app.gateways.imports.imports import TRIES
from app.gateways.privacy.erasure import STRAGGLERS
from app.models.accounts.actor import Actor
from app.models.accounts.user import NewUser
from app.models.feeds.fetched import Fetched, FetchRequest
from app.models.imports.imports import Import, ImportState, ItemState
from app.models.imports.opml import Outline
from app.models.jobs import redis_keys
from app.models.jobs.jobs import Outcome, Queue, Ticket
from app.models.sharing.sharing import Audience
from app.models.subscriptions.folder import FolderEditMode
from app.services import free_space
from app.services.feeds.pull import PullService
from tests.support import corpus
from tests.support.reader import Canned, rss
from tests.support.small_disk import mount_small_disk, with_mounts

HOST = "https://feeds.example"


def listed(*outlines: tuple[str, tuple[str, ...]], title: str = "Mine") -> bytes:
    """Return an OPML file of (name of the feed, folders)."""
    return opml.write(title, [Outline(f"{HOST}/{name}", name, None, path) for name, path in outlines])


class Pulling:
    """Runs the pulls that an import has queued, in the place of the workers; feeds answer from memory."""

    def __init__(self, services: Services, bodies: Mapping[str, bytes | FetchError]) -> None:
        self._services = services
        self._client = services.jobs._client
        self.pull = PullService(services.gateways.feeds, services.gateways.retention, services.settings)
        self.answers = _Answers(bodies)
        self.pulled: list[int] = []

    async def await_many(self, tickets: Sequence[Ticket], timeout: float) -> AsyncIterator[Outcome]:
        for ticket in tickets:
            job = RqJob.fetch(ticket.id, connection=self._client, serializer=JSONSerializer)
            self._client.lrem(redis_keys.make_queue_key(Queue.PULL), 0, ticket.id)
            self._client.delete(redis_keys.make_job_key(ticket.id))
            self.pulled += job.kwargs["feed_ids"]
            await self.pull.pull(job.kwargs["feed_ids"], self.answers)
            yield Outcome(ticket.id)


class _Answers(Canned):
    """What is not among the bodies is not there."""

    async def stream_fetches(self, requests: Iterable[FetchRequest]) -> AsyncIterator[Fetched]:
        for request in requests:
            body = self._bodies.get(request.url, FetchError("http_404"))
            if isinstance(body, bytes):
                yield Fetched(request, 200, request.url, body=body, wire_bytes=1)
            else:
                yield Fetched(request, 404, request.url, error=body)


def run(services: Services, one: Import, waiter: Any, name: str = "run") -> dict[str, Any]:
    return asyncio.run(services.import_runner.run(one.user_id, one.id, name, waiter))


def feeds(*names: str) -> dict[str, bytes]:
    return {f"{HOST}/{name}": rss(f"Feed {name}", [(f"{name} 1", "x")]) for name in names}


def test_corpus_files_are_previewed_with_the_counts_of_the_manifest(services: Services, alice: Actor) -> None:
    lost = {f"opml/{n}.opml": 1 for n in ("plenaryapp-Russia", "plenaryapp-Tech", "spacecowboy-Programming")}
    roomy = dataclasses.replace(services.settings, imports_per_hour=1000)
    services.imports._settings = roomy
    wrong = []
    for row in corpus.rows("opml"):
        said = row.data["reference"]
        try:
            found = services.imports.preview(alice, row.read(), row.path)
        except EventrError as e:
            wrong.append(f"{row}: {e.message}")
            continue
        more = lost.get(row.path, 0)
        if found.total != said["feeds"] + more:
            wrong.append(f"{row}: {found.total} feeds, not {said['feeds']}")
        firsts = found.total - found.count_items(ItemState.DOUBLE)
        if firsts > said["distinct_feed_urls"] + more:
            wrong.append(f"{row}: {firsts} different feeds")
        if len(services.imports.list_items(alice, found.id)) != found.total:
            wrong.append(f"{row}: outlines are missing")
    assert not wrong, "\n".join(wrong)


def test_an_import_subscribes_fetches_and_counts(services: Services, alice: Actor) -> None:
    services.subscriptions.subscribe(alice, f"{HOST}/known")
    body = listed(
        ("known", ("News",)),
        ("one", ("News", "World")),
        ("two", ()),
        ("one", ("Tech",)),
        ("missing", ("Tech",)),
    )
    kept = services.imports.preview(alice, body, "mine.opml")
    assert kept.counts == {"waiting": 3, "already": 1, "double": 1}
    started = services.imports.start(alice, kept.id)
    assert (started.state, started.goal) == (ImportState.QUEUED, 3)
    run(services, started, Pulling(services, feeds("one", "two")))

    done = services.imports.get(alice, kept.id)
    assert done.state is ImportState.DONE
    assert done.counts == {"added": 2, "already": 1, "double": 1, "failed": 1}
    (failed,) = services.imports.list_failures(alice, kept.id)
    assert (failed.url, failed.error) == (f"{HOST}/missing", "http_404")
    tree = services.reading.get_tree(alice)
    names = {folder.name: [f.name for f in folder.folders] for folder in tree.folders}
    assert names == {"News": ["World"], "Tech": []}
    one = next(f for f in tree.folders if f.name == "Tech").feeds
    assert {f.title for f in one} == {"one", "missing"}, "names of the file stay; a feed lies in two folders"
    export = services.imports.export_failures(alice, kept.id, lambda item: f"Why -- {item.error}")
    assert b"<!-- Why - http_404 -->" in export
    assert opml.read(export).feeds[0].folders == ("Tech",)


def test_what_failed_is_tried_again_and_then_added(services: Services, alice: Actor) -> None:
    kept = services.imports.preview(alice, listed(("a", ()), ("b", ())), "x")
    run(services, services.imports.start(alice, kept.id), Pulling(services, feeds("a")))
    again = services.imports.retry(alice, kept.id)
    assert again.goal == 1
    run(services, again, Pulling(services, {}), "second")
    assert services.imports.get(alice, kept.id).counts == {"added": 1, "failed": 1}
    run(services, services.imports.retry(alice, kept.id, 1), Pulling(services, feeds("b")), "third")
    assert services.imports.get(alice, kept.id).counts == {"added": 2}
    with pytest.raises(NotFoundError):
        services.imports.retry(alice, kept.id)


class Killed(Exception):
    """The worker is gone."""


@pytest.mark.parametrize("after", range(4))
def test_a_run_that_was_killed_is_finished_by_the_next(services: Services, alice: Actor, after: int) -> None:
    names = [f"n{number}" for number in range(100)]
    kept = services.imports.preview(alice, listed(*((name, ("F",)) for name in names)), "x")
    started = services.imports.start(alice, kept.id)

    class Dying(Pulling):
        left = after

        async def await_many(self, tickets: Sequence[Ticket], timeout: float) -> AsyncIterator[Outcome]:
            async for outcome in super().await_many(tickets, timeout):
                if not self.left:
                    raise Killed
                type(self).left -= 1
                yield outcome

    with pytest.raises(Killed):
        run(services, started, Dying(services, feeds(*names)))
    services.jobs._client.flushall()
    (job,) = _late(services)
    assert job.args == {"user_id": alice.user_id, "import_id": kept.id}
    run(services, started, Pulling(services, feeds(*names)), "next")
    assert services.imports.get(alice, kept.id).counts == {"added": 100}
    assert len(services.gateways.subscriptions.find_feed_ids(alice.user_id)) == 100
    assert len(services.folders.list_folders(alice)) == 1


def _late(services: Services) -> Any:
    """Return the jobs that are due when nobody has worked for a while."""
    later = clock.now() + dt.timedelta(minutes=1)
    with clock.set_source(lambda: later):
        return services.import_runner.find_due_jobs()


def test_a_cancelled_import_stops_and_can_go_on(services: Services, alice: Actor) -> None:
    names = [f"n{number}" for number in range(90)]
    kept = services.imports.preview(alice, listed(*((name, ()) for name in names)), "x")
    started = services.imports.start(alice, kept.id)

    class Cancelling(Pulling):
        async def await_many(self, tickets: Sequence[Ticket], timeout: float) -> AsyncIterator[Outcome]:
            async for outcome in super().await_many(tickets, timeout):
                yield outcome
            if services.imports.get(alice, kept.id).is_active:
                services.imports.cancel(alice, kept.id)

    run(services, started, Cancelling(services, feeds(*names)))
    assert services.imports.get(alice, kept.id).state is ImportState.CANCELLED
    assert 0 < len(services.gateways.subscriptions.find_feed_ids(alice.user_id)) < 90
    assert services.mappers.imports.find_slots() == {}
    with pytest.raises(ConflictError):
        services.imports.cancel(alice, kept.id)
    run(services, services.imports.resume(alice, kept.id), Pulling(services, feeds(*names)), "again")
    assert services.imports.get(alice, kept.id).counts == {"added": 90}


def test_a_cancelled_import_is_taken_back_whole(services: Services, alice: Actor) -> None:
    names = [f"n{number}" for number in range(90)]
    kept = services.imports.preview(alice, listed(*((name, ()) for name in names)), "x")
    started = services.imports.start(alice, kept.id)

    class Cancelling(Pulling):
        async def await_many(self, tickets: Sequence[Ticket], timeout: float) -> AsyncIterator[Outcome]:
            # Before any of them is fetched, so that the next step is the one that finds out.
            if services.imports.get(alice, kept.id).is_active:
                services.imports.cancel(alice, kept.id)
            async for outcome in super().await_many(tickets, timeout):
                yield outcome

    run(services, started, Cancelling(services, feeds(*names)))
    mine = services.gateways.subscriptions.find_feed_ids
    assert len(mine(alice.user_id)) == 80, "two steps"
    cancelled = services.imports.get(alice, kept.id)
    assert cancelled.counts == {"added": 80, "waiting": 10}, "what is being fetched comes by itself"
    assert (cancelled.done, cancelled.goal) == (80, 90)
    assert services.imports.unsubscribe(alice, kept.id)[1] == 80
    assert list(mine(alice.user_id)) == []
    run(services, services.imports.resume(alice, kept.id), Pulling(services, feeds(*names)), "again")
    assert services.imports.get(alice, kept.id).counts == {"added": 90}
    assert len(mine(alice.user_id)) == 10, "what was left stays so"


def test_a_cancel_tells_failures_from_the_rest_and_the_next_run_counts_its_own(
    services: Services, alice: Actor
) -> None:
    names = [f"n{number}" for number in range(90)]
    kept = services.imports.preview(alice, listed(*((name, ()) for name in names)), "x")
    started = services.imports.start(alice, kept.id)

    class Cancelling(Pulling):
        async def await_many(self, tickets: Sequence[Ticket], timeout: float) -> AsyncIterator[Outcome]:
            async for _ in super().await_many(tickets, timeout):
                pass  # all were fetched, and nobody has heard of it
            services.imports.cancel(alice, kept.id)
            return
            yield

    run(services, started, Cancelling(services, feeds(*names[4:])))
    found = services.imports.get(alice, kept.id)
    assert found.counts == {"added": 76, "failed": 4, "waiting": 10}
    assert sum(found.count_items(s) for s in (ItemState.ADDED, ItemState.FAILED)) == len(
        services.gateways.subscriptions.find_feed_ids(alice.user_id)
    )
    assert (found.done, found.failed) == (80, 4)
    again = services.imports.resume(alice, kept.id)
    assert (again.done, again.goal, again.failed) == (0, 10, 0)
    run(services, again, Pulling(services, feeds(*names[4:-1])), "again")
    done = services.imports.get(alice, kept.id)
    assert done.counts == {"added": 85, "failed": 5}
    assert (done.done, done.failed) == (10, 1)
    again = services.imports.retry(alice, kept.id, 0)
    assert (again.done, again.goal, again.failed) == (0, 1, 0)
    services.imports.cancel(alice, kept.id)
    assert services.imports.get(alice, kept.id).counts == {"added": 85, "failed": 5}


def test_what_a_run_does_after_a_cancel_that_was_taken_back_is_its_imports(
    services: Services, alice: Actor
) -> None:
    names = [f"n{number}" for number in range(90)]
    kept = services.imports.preview(alice, listed(*((name, ()) for name in names)), "x")
    started = services.imports.start(alice, kept.id)

    class Wavering(Pulling):
        async def await_many(self, tickets: Sequence[Ticket], timeout: float) -> AsyncIterator[Outcome]:
            services.imports.cancel(alice, kept.id)
            services.imports.resume(alice, kept.id)
            async for outcome in super().await_many(tickets, timeout):
                yield outcome

    run(services, started, Wavering(services, feeds(*names)))
    waits = services.imports.get(alice, kept.id)
    assert (waits.state, waits.left) == (ImportState.QUEUED, 50)
    run(services, waits, Pulling(services, feeds(*names)), "again")
    assert services.imports.get(alice, kept.id).counts == {"added": 90}


def test_what_a_run_had_no_time_to_write_counts_when_it_is_cancelled(
    services: Services, alice: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    services.subscriptions.subscribe(alice, f"{HOST}/other")
    names = [f"n{number}" for number in range(50)]
    kept = services.imports.preview(alice, listed(*((name, ()) for name in names)), "x")
    started = services.imports.start(alice, kept.id)

    def killed(*_: Any) -> Any:
        raise Killed

    monkeypatch.setattr(services.jobs, "enqueue_many", killed)
    with pytest.raises(Killed):
        run(services, started, Pulling(services, {}))
    assert services.imports.get(alice, kept.id).counts == {"waiting": 50}
    assert services.imports.cancel(alice, kept.id).counts == {"added": 40, "waiting": 10}
    assert services.imports.unsubscribe(alice, kept.id)[1] == 40


def test_two_addresses_of_one_feed_count_as_added_when_a_run_is_cancelled_before_it_saves(
    services: Services, alice: Actor, bob: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = services.gateways.feeds.get_or_create(f"{HOST}/old", now=clock.now()).id
    services.subscriptions.subscribe(bob, f"{HOST}/new")
    services.gateways.feeds.move(old, f"{HOST}/new")
    kept = services.imports.preview(alice, listed(("old", ()), ("new", ())), "x")
    started = services.imports.start(alice, kept.id)

    def killed(*_: Any) -> Any:
        raise Killed

    monkeypatch.setattr(services.jobs, "enqueue_many", killed)
    with pytest.raises(Killed):
        run(services, started, Pulling(services, {}))
    assert services.imports.get(alice, kept.id).counts == {"waiting": 2}
    assert services.imports.cancel(alice, kept.id).counts == {"added": 2}
    feed_ids = {item.feed_id for item in services.imports.list_items(alice, kept.id)}
    assert feed_ids == set(services.gateways.subscriptions.find_feed_ids(alice.user_id)) != {old}
    assert services.imports.unsubscribe(alice, kept.id)[1] == 1


def test_an_import_that_is_given_up_leaves_nothing_under_way(services: Services, alice: Actor) -> None:
    names = [f"n{number}" for number in range(50)]
    kept = services.imports.preview(alice, listed(*((name, ()) for name in names)), "x")
    started = services.imports.start(alice, kept.id)

    class Dying(Pulling):
        async def await_many(self, tickets: Sequence[Ticket], timeout: float) -> AsyncIterator[Outcome]:
            raise Killed
            yield

    with pytest.raises(Killed):
        run(services, started, Dying(services, {}))
    for turn in range(TRIES + 1):
        services.gateways.imports.begin_run(alice.user_id, kept.id, f"run {turn}", clock.now())
    given_up = services.imports.get(alice, kept.id)
    assert (given_up.state, given_up.counts) == (ImportState.DONE, {"added": 40, "waiting": 10})


def test_an_import_is_taken_back_with_what_its_feeds_were_merged_into(
    services: Services, alice: Actor
) -> None:
    ids = [
        services.gateways.feeds.get_or_create(f"{HOST}/{name}", now=clock.now()).id
        for name in ("a", "b", "c", "other", "mine", "last")
    ]
    a, b, c, other, mine, last = ids
    services.subscriptions.subscribe(alice, f"{HOST}/mine")
    for name in ("other", "last"):
        services.subscriptions.subscribe(Actor(alice.user_id + 1), f"{HOST}/{name}")
    kept = services.imports.preview(alice, listed(("a", ()), ("b", ()), ("c", ())), "x")
    run(services, services.imports.start(alice, kept.id), Pulling(services, feeds("a", "b", "c")))
    move = services.gateways.feeds.move
    move(b, f"{HOST}/other")
    move(other, f"{HOST}/last")
    move(c, f"{HOST}/mine")
    assert set(services.gateways.subscriptions.find_feed_ids(alice.user_id)) == {a, mine, last}
    assert services.imports.find_imported_feeds(alice, kept.id) == ((a, last), frozenset())
    services.imports.unsubscribe(alice, kept.id)
    assert list(services.gateways.subscriptions.find_feed_ids(alice.user_id)) == [mine]
    assert services.imports.find_imported_feeds(alice, kept.id) == ((), {a, b})


def test_ten_imports_run_at_once_and_the_others_wait_for_their_turn(services: Services) -> None:
    people = [Actor(1_700_000_000_000_100 + n) for n in range(12)]
    gateway, now = services.gateways.imports, clock.now()
    started = []
    for who in people:
        kept = services.imports.preview(who, listed(("a", ())), "x")
        started.append(services.imports.start(who, kept.id))
    begun = [gateway.begin_run(one.user_id, one.id, "run", now) for one in started]
    assert [one is not None for one in begun] == [True] * 10 + [False] * 2
    assert [job.args["import_id"] for job in services.import_runner.find_due_jobs()] == []
    gateway.end_run(begun[3] or started[3], "run", now)
    assert [job.args["import_id"] for job in services.import_runner.find_due_jobs()] == [started[10].id]


def test_who_waits_with_many_imports_holds_nobody_up(services: Services, alice: Actor, bob: Actor) -> None:
    gateway, now = services.gateways.imports, clock.now()

    def started(who: Actor) -> Import:
        return services.imports.start(who, services.imports.preview(who, listed(("a", ())), "x").id)

    many = [started(alice) for _ in range(14)]
    late = started(bob)
    for one in many[:9]:
        assert gateway.begin_run(one.user_id, one.id, "run", now)
    assert [job.args["import_id"] for job in services.import_runner.find_due_jobs()] == [late.id]
    services.imports.cancel(bob, late.id)
    assert [job.args["import_id"] for job in services.import_runner.find_due_jobs()] == [many[9].id]


def test_a_feed_that_was_left_since_is_not_tried_again(services: Services, alice: Actor) -> None:
    kept = services.imports.preview(alice, listed(("a", ()), ("b", ())), "x")
    run(services, services.imports.start(alice, kept.id), Pulling(services, {}))
    left = services.imports.list_failures(alice, kept.id)[0].feed_id
    assert left is not None
    services.subscriptions.unsubscribe(alice, left)
    waiter = Pulling(services, feeds("a", "b"))
    run(services, services.imports.retry(alice, kept.id), waiter, "second")
    assert left not in waiter.pulled
    assert services.imports.get(alice, kept.id).counts == {"added": 1, "skipped": 1}
    assert left not in services.gateways.subscriptions.find_feed_ids(alice.user_id)


def test_what_failed_and_was_merged_meanwhile_is_tried_again_there(services: Services, alice: Actor) -> None:
    services.subscriptions.subscribe(Actor(alice.user_id + 1), f"{HOST}/there")
    kept = services.imports.preview(alice, listed(("a", ())), "x")
    run(services, services.imports.start(alice, kept.id), Pulling(services, {}))
    failed = services.imports.list_failures(alice, kept.id)[0].feed_id
    assert failed is not None
    services.gateways.feeds.move(failed, f"{HOST}/there")
    run(services, services.imports.retry(alice, kept.id), Pulling(services, feeds("there")), "second")
    assert services.imports.get(alice, kept.id).counts == {"added": 1}
    brought = services.imports.find_imported_feeds(alice, kept.id).feeds
    assert list(brought) == list(services.gateways.subscriptions.find_feed_ids(alice.user_id)) != [failed]


def test_two_addresses_of_one_feed_both_come_to_an_end(services: Services, alice: Actor) -> None:
    ids = [services.gateways.feeds.get_or_create(f"{HOST}/{n}", now=clock.now()).id for n in "abc"]
    services.subscriptions.subscribe(Actor(alice.user_id + 1), f"{HOST}/b")
    services.subscriptions.subscribe(Actor(alice.user_id + 1), f"{HOST}/c")
    services.gateways.feeds.move(ids[0], f"{HOST}/b")
    services.gateways.feeds.move(ids[1], f"{HOST}/c")
    body = listed(("a", ("News",)), ("c", ("Tech",)))
    kept = services.imports.preview(alice, body, "x")
    run(services, services.imports.start(alice, kept.id), Pulling(services, feeds("c")))
    assert services.imports.get(alice, kept.id).counts == {"added": 2}
    [mine] = services.gateways.subscriptions.find_by_user(alice.user_id)
    assert (mine.feed_id, len(mine.folder_ids)) == (ids[2], 2)
    assert services.imports.preview(alice, body, "again").counts == {"already": 2}


def test_W22_H13_an_address_of_a_file_leaves_its_tracking_there(services: Services, alice: Actor) -> None:
    kept = services.imports.preview(alice, listed(("a?utm_campaign=alice", ("News",))), "x")
    pulling = Pulling(services, feeds("a"))
    run(services, services.imports.start(alice, kept.id), pulling)
    assert services.imports.get(alice, kept.id).counts == {"added": 1}
    assert [services.gateways.feeds.get(feed_id).url for feed_id in pulling.pulled] == [f"{HOST}/a"]


def test_a_feed_that_is_moved_while_an_import_adds_folders_stays_moved(
    services: Services, alice: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, subscriptions = services.folders.create(alice, "Old"), services.gateways.subscriptions
    feed = services.subscriptions.subscribe(alice, f"{HOST}/a", folder_id=old.id).subscription.feed_id
    kept = services.imports.preview(alice, listed(("a", ("News",))), "x")
    services.imports.choose_items(alice, kept.id, 0, [0])
    get = subscriptions.get

    def moved(user_id: int, feed_id: int) -> Any:
        found = get(user_id, feed_id)
        monkeypatch.setattr(subscriptions, "get", get)
        services.folders.place_feeds(alice, [feed], [old.id], FolderEditMode.REMOVE)
        return found

    monkeypatch.setattr(subscriptions, "get", moved)
    run(services, services.imports.start(alice, kept.id), Pulling(services, feeds("a")))
    names = {folder.id: folder.name for folder in services.folders.list_folders(alice)}
    assert [names[folder] for folder in get(alice.user_id, feed).folder_ids] == ["News"]


def test_trying_again_brings_no_deleted_folder_back(services: Services, alice: Actor) -> None:
    body = opml.write("Mine", [Outline(f"{HOST}/a", "a", None, ("News",))], [("Empty",)])
    kept = services.imports.preview(alice, body, "x")
    run(services, services.imports.start(alice, kept.id), Pulling(services, {}))
    made = services.folders.list_folders(alice)
    assert {folder.name for folder in made} == {"News", "Empty"}
    for folder in made:
        services.folders.delete(alice, folder.id)
    run(services, services.imports.retry(alice, kept.id), Pulling(services, feeds("a")), "second")
    assert services.imports.get(alice, kept.id).counts == {"added": 1}
    assert services.folders.list_folders(alice) == []


def test_ticks_of_a_preview_decide_what_is_imported(services: Services, alice: Actor) -> None:
    body = listed(*((f"n{number}", ("F",)) for number in range(1200)))
    kept = services.imports.preview(alice, body, "x")
    services.imports.choose_all(alice, kept.id, False)
    with pytest.raises(InvalidError):
        services.imports.start(alice, kept.id)
    services.imports.choose_items(alice, kept.id, 2, [1000, 1199])
    found = services.imports.start(alice, kept.id, keep_folders=False, into="All of it")
    assert (found.goal, found.count_items(ItemState.SKIPPED)) == (2, 1198)
    run(services, found, Pulling(services, feeds("n1000", "n1199")))
    (folder,) = services.reading.get_tree(alice).folders
    assert (folder.name, len(folder.feeds)) == ("All of it", 2)


def test_a_choice_that_comes_while_it_is_started_is_kept_or_refused(
    services: Services, alice: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    mapper = services.mappers.imports
    kept = services.imports.preview(alice, listed(("a", ()), ("b", ()), ("c", ())), "x")

    def meanwhile(name: str, other: Callable[[], object], *, first: bool) -> None:
        real = getattr(mapper, name)

        def both(*args: Any, **named: Any) -> Any:
            monkeypatch.setattr(mapper, name, real)
            if first:
                other()
            done = real(*args, **named)
            if not first:
                other()
            return done

        monkeypatch.setattr(mapper, name, both)

    # The start has read the outlines, and then some are unticked.
    meanwhile("find_items", lambda: services.imports.choose_items(alice, kept.id, 0, [0, 1]), first=False)
    assert services.imports.start(alice, kept.id).goal == 2
    assert services.imports.get(alice, kept.id).counts == {"waiting": 2, "skipped": 1}

    # A choice was allowed, and then another device starts.
    kept = services.imports.preview(alice, listed(("a", ()), ("b", ()), ("c", ())), "x")
    meanwhile("update_items", lambda: services.imports.start(alice, kept.id), first=True)
    with pytest.raises(ConflictError, match="already been started"):
        services.imports.choose_items(alice, kept.id, 0, [2])
    assert [item.state for item in services.imports.list_items(alice, kept.id)] == [ItemState.WAITING] * 3
    assert services.imports.get(alice, kept.id).counts == {"waiting": 3}


def test_what_is_started_twice_at_once_starts_once(services: Services, alice: Actor) -> None:
    kept = services.imports.preview(alice, listed(("a", ()), ("b", ())), "x")
    both = threading.Barrier(2)

    def start(_: int) -> str:
        both.wait()
        try:
            return services.imports.start(alice, kept.id).state.value
        except ConflictError as e:
            return e.word

    with ThreadPoolExecutor(2) as pool:
        assert sorted(pool.map(start, range(2))) == ["conflict", "queued"]


def test_a_refused_going_on_leaves_the_end_of_an_import_alone(
    services: Services, alice: Actor, db: Any
) -> None:
    kept = services.imports.preview(alice, listed(("a", ())), "x")
    run(services, services.imports.start(alice, kept.id), Pulling(services, feeds("a")))
    with pytest.raises(ConflictError):
        services.imports.resume(alice, kept.id)
    assert db.imports.find_one({"_id": kept.id})["expires"] is not None
    assert db.import_parts.find_one({"import_id": kept.id})["expires"] is not None


def test_ten_thousand_outlines_fit_and_are_changed_a_few_at_a_time(services: Services, alice: Actor) -> None:
    count = 10_000
    long = "x" * 60
    body = listed(*((f"{n}/{long}", (f"Folder {n % 50}",)) for n in range(count)))
    kept = services.imports.preview(alice, body, "big.opml")
    assert kept.counts == {"waiting": count}
    database = services.store.database
    assert database["import_parts"].count_documents({}) == count // 250
    biggest = database["import_parts"].aggregate([{"$project": {"size": {"$bsonSize": "$$ROOT"}}}])
    assert max(row["size"] for row in biggest) < 1 << 20


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "empty"),
        (b"  \n ", "empty"),
        (b"\x89PNG\r\n\x1a\n123", "image"),
        (b"PK\x03\x04zip", "archive is incomplete or damaged"),
        (b"\x1f\x8b\x08broken", "compressed with gzip, but it's damaged"),
        (b'\n\n{"a": 1}', "Line 3: this is a JSON file without a list of feeds"),
        (
            b"<!doctype html>\n<html><body>Log in</body></html>",
            "Line 2: this is a web page .*not an OPML file",
        ),
        (b"<?xml version='1.0'?>\n<rss version='2.0'></rss>", "Line 2: this is a feed, not a list of feeds"),
        (b"<svg xmlns='http://www.w3.org/2000/svg'/>", "starts with <svg>"),
        (b"just words", "doesn't contain any XML"),
        (b"<opml><body>\n<outline text='a' xmlUrl='b'\n</body></opml>", "Line 3"),
    ],
    ids=["empty", "blank", "png", "zip", "gzip", "json", "html", "rss", "svg", "text", "broken"],
)
def test_wrong_files_are_refused_with_the_line_and_a_sentence(
    services: Services, alice: Actor, body: bytes, words: str
) -> None:
    with pytest.raises(InvalidError, match=words):
        services.imports.preview(alice, body, "x")
    assert services.imports.list_recent(alice) == []


def test_pack_that_came_in_another_form_is_stored_as_opml(services: Services) -> None:
    for number, body in enumerate((gzip.compress(listed(("a", ("News",)))), b'["https://a.example/f"]')):
        pack = services.packs._packs.add(f"Pack {number}", "", body)
        assert b"<opml" in pack.body
        assert len(services.packs._packs.read(pack).feeds) == 1
    plain = listed(("b", ()))
    assert services.packs._packs.add("Plain", "", plain).body == plain


def test_X10_a_list_beyond_the_limits_is_refused(services: Services, alice: Actor) -> None:
    many = b"<opml><body>" + b"<outline xmlUrl='http://a.example/'/>" * 20_001 + b"</body></opml>"
    deep = b"<opml><body>" + b"<outline text='a'>" * 40 + b"</outline>" * 40 + b"</body></opml>"
    bomb = b'<!DOCTYPE o [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]><opml><body><outline text="&b;" xmlUrl="http://a.example/"/></body></opml>'
    for body in (many, deep, b"<opml>" + b" " * (6 << 20)):
        with pytest.raises(TooLargeError):
            services.imports.preview(alice, body, "x")
    assert "aaaa" not in json.dumps([i.title for i in _items(services, alice, bomb)])


def _items(services: Services, alice: Actor, body: bytes) -> Any:
    return services.imports.list_items(alice, services.imports.preview(alice, body, "x").id)


def test_X02_an_outline_of_very_many_attributes_or_of_one_long_address_is_read_at_once(
    services: Services, alice: Actor
) -> None:
    many = b" ".join(b'a%d="1"' % number for number in range(300_000))
    url = f"{HOST}/{'%41' * 500_000}".encode()
    for outline in (b'<outline text="x" xmlUrl="https://a.example/f" %s/>' % many,
                    b'<outline text="x" xmlUrl="%s"/>' % url):  # fmt: skip
        body = b'<opml version="2.0"><body>%s</body></opml>' % outline
        assert services.imports.preview(alice, body, "x.opml").total == 1


def test_files_per_hour_are_limited(services: Services, alice: Actor) -> None:
    services.imports._settings = dataclasses.replace(services.settings, imports_per_hour=2)
    for _ in range(2):
        services.imports.preview(alice, listed(("a", ())), "x")
    with pytest.raises(RateLimitedError):
        services.imports.preview(alice, listed(("a", ())), "x")


def test_who_has_all_folders_he_may_have_gets_the_feeds(
    services: Services, alice: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.gateways.subscriptions.folders.MOST", 1)
    body = listed(("a", ("One", "Two")), ("b", ("Three",)))
    one = services.imports.preview(alice, body, "x.opml")
    services.imports.start(alice, one.id)
    assert run(services, one, Pulling(services, feeds("a", "b")))["added"] == 2
    [folder] = services.folders.list_folders(alice)
    placed = {s.folder_ids for s in services.gateways.subscriptions.find_by_user(alice.user_id)}
    assert placed == {(folder.id,), ()}


def test_W22_what_a_file_calls_a_feed_is_shown_to_nobody_else(
    services: Services, alice: Actor, bob: Actor
) -> None:
    body = opml.write("x", [Outline(f"{HOST}/{n}", f"My {n}", None, ()) for n in "ab"])
    body = body.replace(b"My a", b"Feed a")
    one = services.imports.preview(alice, body, "x.opml")
    services.imports.start(alice, one.id)
    run(services, one, Pulling(services, feeds("a")))
    for name in "ab":
        services.subscriptions.subscribe(bob, f"{HOST}/{name}")
    assert {f.title for f in services.reading.get_tree(alice).feeds} == {"Feed a", "My b"}
    assert {f.title for f in services.reading.get_tree(bob).feeds} == {"Feed a", f"{HOST}/b"}
    mine = services.gateways.subscriptions.find_by_user(alice.user_id)
    assert sorted(s.title for s in mine) == ["", "My b"], "the first goes by the feed's own name"


def test_G02_of_who_leaves_during_an_import_nothing_is_left(
    services: Services, alice: Actor, db: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    erasing = services.gateways.erasure
    one = services.imports.preview(alice, listed(("a", ("News",)), ("b", ())), "x.opml")
    services.imports.start(alice, one.id)
    account = {
        "_id": alice.user_id,
        "name": "alice",
        "email": "a@b.c",
        "role": "user",
        "created": clock.now(),
    }
    db.users.insert_one(account)
    subscriptions = services.gateways.subscriptions
    add = subscriptions.add_many

    def late(*args: Any) -> Any:
        if erasing.is_begun(alice.user_id):
            return add(*args)
        erasing.begin(alice.user_id, clock.now() - STRAGGLERS)
        erasing.finish(alice.user_id, clock.now())
        return add(*args)

    monkeypatch.setattr(subscriptions, "add_many", late)
    assert run(services, one, Pulling(services, feeds("a", "b")))["state"] == "left"
    for name in ("users", "subscriptions", "folders", "imports", "import_parts", "removals"):
        assert not db[name].count_documents({}), name
    assert {f["subscribers"] for f in db.feeds.find()} == {0}


def test_addresses_that_can_never_be_fetched_fail_at_once(services: Services, alice: Actor) -> None:
    urls = [
        "http://127.0.0.1/x",
        "ftp://a.example/",
        "javascript:alert(1)",
        "https://a.example/" + "x" * 3000,
    ]
    kept = services.imports.preview(alice, opml.write("x", [Outline(url) for url in urls]), "x")
    assert kept.counts == {"failed": 4}
    words = [item.error for item in services.imports.list_failures(alice, kept.id)]
    assert words == ["unreachable", "invalid_url", "invalid_url", "invalid_url"], "S13"
    with pytest.raises(InvalidError):
        services.imports.start(alice, kept.id)


def test_addresses_without_the_scheme_of_the_web_are_read_as_if_they_were_typed(
    services: Services, alice: Actor
) -> None:
    urls = {
        "feed://feeds.example/a": "http://feeds.example/a",
        "feed:https://feeds.example/b": f"{HOST}/b",
        "feeds.example/c": "http://feeds.example/c",
        f"{HOST}/a": f"{HOST}/a",
        f"{HOST}/Feeds_(all)": f"{HOST}/Feeds_(all)",
        "gopher://feeds.example/d": "gopher://feeds.example/d",
        "feed://127.0.0.1/e": "http://127.0.0.1/e",
    }
    kept = services.imports.preview(alice, opml.write("x", [Outline(url) for url in urls]), "x")
    items = services.imports.list_items(alice, kept.id)
    assert {i.url for i in items} == set(urls.values())
    assert kept.counts == {"waiting": 4, "double": 1, "failed": 2}
    words = [item.error for item in services.imports.list_failures(alice, kept.id)]
    assert words == ["invalid_url", "unreachable"], "S13"


def test_what_is_exported_can_be_imported_and_is_the_same(
    services: Services, alice: Actor, bob: Actor
) -> None:
    folders, subscriptions = services.folders, services.subscriptions
    news = folders.create(alice, "News & <more>")
    world = folders.create(alice, "World", parent=news.id)
    folders.create(alice, "Empty")
    for name, title, places in (
        ("a", "My “own” name", [news.id, world.id]),
        ("b", "", [world.id]),
        ("c", "日本語", []),
    ):
        feed = subscriptions.subscribe(alice, f"{HOST}/{name}?x=1&y=2").subscription.feed_id
        subscriptions.update(alice, feed, title=title, folder_ids=places)
    first = services.imports.export(alice)
    kept = services.imports.preview(bob, first, "x")
    bodies = {f"{HOST}/{n}?x=1&y=2": rss(n, [("t", "x")]) for n in "abc"}
    run(services, services.imports.start(bob, kept.id), Pulling(services, bodies))
    assert services.imports.get(bob, kept.id).counts == {"added": 3, "double": 1}

    def seen(body: bytes) -> Any:
        found = opml.read(body)
        return sorted((f.url, f.folders) for f in found.feeds), set(found.folders)

    second = services.imports.export(bob)
    assert seen(second) == seen(first)
    assert "Empty" in {folder.name for folder in folders.list_folders(bob)}
    titles = {f.url: f.title for f in opml.read(second).feeds}
    assert titles[f"{HOST}/a?x=1&y=2"] == "My “own” name"
    assert titles[f"{HOST}/c?x=1&y=2"] == "日本語"


def test_what_is_exported_stands_in_the_order_of_the_tree(services: Services, alice: Actor) -> None:
    zoo, music, books = (services.folders.create(alice, name).id for name in ("Zoo", "Music", "Books"))
    for name, parent in (("Apes", zoo), ("Live", music), ("Live", books), ("Early", music)):
        services.folders.create(alice, name, parent=parent)
    paths = [("Books",), ("Books", "Live"), ("Music",), ("Music", "Early"), ("Music", "Live")]
    found = opml.read(services.imports.export(alice)).folders
    assert found == (*paths, ("Zoo",), ("Zoo", "Apes"))
    services.folders.move_folder(alice, zoo, parent=None, after=0)
    assert opml.read(services.imports.export(alice)).folders == (("Zoo",), ("Zoo", "Apes"), *paths)


def test_people_of_this_server_are_followed_not_fetched(services: Services) -> None:
    own = services.settings.own_origin
    alice, bob, carl = (
        services.gateways.accounts.add_user(NewUser(f"{n}@example.org", n, "$argon2id$none")).actor
        for n in ("alice", "bob", "carl")
    )
    for who, audience in ((bob, Audience.PUBLIC), (carl, Audience.FOLLOWERS)):
        services.following.update_profile(
            who, display="", bio="", links=(), audience=audience, listed=False, open_lists=False
        )
    name = services.following.preview_profile(bob).handle
    urls = [f"{own}/@{name}/atom.xml", f"{own}/@carl/feed.json", f"{own}/@nobody/atom.xml", f"{own}/login"]
    body = opml.write("Mine", [Outline(url, "", None, ("Friends",)) for url in urls])
    pulling = Pulling(services, {})
    for last in (ItemState.ADDED, ItemState.ALREADY):
        one = services.imports.preview(alice, body, "mine.opml")
        run(services, services.imports.start(alice, one.id), pulling)
        items = {i.url: (i.state, i.error) for i in services.imports.list_items(alice, one.id)}
        assert [items[url] for url in urls] == [
            (last, None),
            (ItemState.ADDED, None),
            (ItemState.FAILED, "not_found"),
            (ItemState.FAILED, "invalid_url"),
        ]
    assert services.following.get_person(alice, name).tie.follows
    assert services.following.get_person(alice, "carl").tie.requested
    (mine,) = services.gateways.subscriptions.find_by_user(alice.user_id)
    (folder,) = services.folders.list_folders(alice)
    assert (mine.person, mine.folder_ids) == (True, (folder.id,))
    assert pulling.pulled == []
    assert services.store.database["feeds"].count_documents({"kind": "web"}) == 0


def test_people_beyond_the_hours_most_are_tried_again(
    services: Services, alice: Actor, redis_client: redis.Redis
) -> None:
    for name in ("bob", "carl"):
        who = services.gateways.accounts.add_user(
            NewUser(f"{name}@example.org", name, "$argon2id$none")
        ).actor
        services.following.update_profile(
            who, display="", bio="", links=(), audience=Audience.PUBLIC, listed=False, open_lists=False
        )
    own = services.settings.own_origin
    body = opml.write("Mine", [Outline(f"{own}/@{name}/atom.xml") for name in ("bob", "carl", "nobody")])
    one = services.imports.preview(alice, body, "mine.opml")
    with contextlib.closing(
        bootstrap.build(dataclasses.replace(services.settings, follows_per_hour=1))
    ) as strict:
        run(strict, services.imports.start(alice, one.id), Pulling(strict, {}))
    failed = services.imports.list_failures(alice, one.id)
    assert [(i.error, i.can_retry) for i in failed] == [("rate_limited", True), ("not_found", False)]
    assert [get_feed_message(i.error or "") for i in failed] == [
        RateLimitedError.default,
        NotFoundError.default,
    ]
    redis_client.flushdb()  # an hour later
    again = services.imports.retry(alice, one.id)
    assert again.counts == {"added": 1, "failed": 1, "waiting": 1}
    run(services, again, Pulling(services, {}))
    assert services.imports.get(alice, one.id).counts == {"added": 2, "failed": 1}
    assert services.following.get_person(alice, "carl").tie.follows


def test_what_found_no_room_says_so_and_is_tried_again(services: Services, alice: Actor) -> None:
    kept = services.imports.preview(alice, listed(("a", ()), ("b", ()), ("c", ("News",))), "x")
    full = dataclasses.replace(services.settings, subscriptions_max=2)
    with contextlib.closing(bootstrap.build(full)) as strict:
        run(strict, services.imports.start(alice, kept.id), Pulling(strict, feeds("a", "b", "c")))
    [failed] = services.imports.list_failures(alice, kept.id)
    assert get_feed_message(failed.error or "") == "You can have at most 2 subscriptions."
    assert failed.can_retry
    run(services, services.imports.retry(alice, kept.id), Pulling(services, feeds("c")), "second")
    assert services.imports.get(alice, kept.id).counts == {"added": 3}
    [news] = services.folders.list_folders(alice)
    feed_id = services.imports.find_imported_feeds(alice, kept.id).feeds[-1]
    assert services.subscriptions.get(alice, feed_id).folder_ids == (news.id,)


def test_finished_imports_are_kept_for_thirty_days(services: Services, alice: Actor, db: Any) -> None:
    kept = services.imports.preview(alice, listed(("a", ())), "x")
    started = services.imports.start(alice, kept.id)
    assert db.imports.find_one({"_id": kept.id})["expires"] is None
    run(services, started, Pulling(services, feeds("a")))
    doc = db.imports.find_one({"_id": kept.id})
    assert (doc["expires"] - doc["ended"]).days == 30
    assert db.import_parts.find_one({"import_id": kept.id})["expires"] == doc["expires"]


@with_mounts
def test_F09_an_import_waits_for_disk_space(
    services: Services, alice: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(free_space, "KEPT", 0.0)
    with mount_small_disk(8 << 20) as disk:
        own = dataclasses.replace(services.settings, home=disk.folder, disk_min_free=5.0)
        with contextlib.closing(bootstrap.build(own)) as here:
            one = here.imports.preview(alice, listed(("a", ()), ("b", ())), "mine.opml")
            one = here.imports.start(alice, one.id)
            disk.fill()
            waiter = Pulling(here, feeds("a", "b"))
            assert run(here, one, waiter) == {"state": "left"}
            assert here.import_runner.find_due_jobs() == []
            assert here.gateways.subscriptions.find_web_feed_ids(alice.user_id) == []
            with pytest.raises(NoSpaceError):
                here.imports.preview(alice, listed(("c", ())), "mine.opml")
            disk.clear()
            assert len(here.import_runner.find_due_jobs()) == 1
            assert run(here, one, waiter)["added"] == 2
