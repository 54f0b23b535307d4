"""OPML files on the web that users follow: new feeds come by themselves, removals are asked."""

from __future__ import annotations

import asyncio
import datetime as dt
import functools
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any

import pytest

from app import clock
from app.bootstrap.services import Services
from app.errors import ExistsError, FetchError, InvalidError, NotFoundError, StoreError, TooLargeError
from app.models.accounts.actor import Actor
from app.models.feeds.fetched import Fetched, FetchRequest, Validators
from app.models.imports.followed_lists import (
    EVERY,
    GONE_MAX,
    LONGEST,
    NO_LIST,
    PAST_MAX,
    RETRY,
    FollowedList,
    ListView,
)
from app.models.imports.imports import Import, ImportState
from app.models.jobs.jobs import Task
from tests.support.reader import add_user, elsewhere

URL = "https://lists.example/feeds.opml"


class Web:
    """Answers fetches of one list, in the place of the network."""

    def __init__(self, *feeds: str, title: str = "Colleagues", **answer: Any) -> None:
        outlines = "".join(
            f'<outline type="rss" text="{f}" xmlUrl="https://{f}.example/feed"/>' for f in feeds
        )
        head = f"<head><title>{title}</title></head>" if title else ""
        self.body = f'<opml version="2.0">{head}<body>{outlines}</body></opml>'.encode()
        self.answer, self.requests = answer, list[FetchRequest]()

    async def stream_fetches(self, requests: Iterable[FetchRequest]) -> AsyncIterator[Fetched]:
        for request in requests:
            self.requests.append(request)
            yield Fetched(request, 200, request.url, **{"body": self.body, "wire_bytes": 9, **self.answer})


@pytest.fixture
def ann(services: Services) -> Actor:
    return add_user(services, "ann")


def check(services: Services, web: Web, later: dt.timedelta = dt.timedelta(0)) -> list[dict[str, Any]]:
    """Run the jobs of all lists that are due after some time."""
    now = clock.now() + later
    with clock.set_source(lambda: now):
        jobs = services.followed_lists.find_due_jobs(now)
        return [elsewhere(lambda args=job.args: _run(services, args, web)) for job in jobs]  # type: ignore[misc]


def _run(services: Services, args: dict[str, Any], web: Web) -> dict[str, Any]:
    try:
        return asyncio.run(services.followed_lists.run(**args, fetcher=web))
    except StoreError:
        return {"state": "died"}


def add(services: Services, who: Actor, **fields: str) -> FollowedList:
    return services.followed_lists.add(who, fields.get("url", URL), fields.get("name", ""))


def view(services: Services, who: Actor) -> ListView:
    (found,) = services.followed_lists.list_lists(who)
    return found


def subscribe_all(services: Services, who: Actor) -> None:
    """Subscribe to everything in the imports that were begun, as their job does."""
    for one in services.imports.list_recent(who):
        if one.state is ImportState.QUEUED:
            for item in services.imports.list_items(who, one.id):
                services.subscriptions.subscribe(who, item.url)
            services.imports.cancel(who, one.id)


def begun(services: Services, who: Actor) -> list[list[str]]:
    """Return the feeds of each import that waits for its job."""
    return [
        [item.title for item in services.imports.list_items(who, one.id)]
        for one in services.imports.list_recent(who)
        if one.state is ImportState.QUEUED
    ]


def test_feeds_of_a_list_become_an_import_into_one_folder(services: Services, ann: Actor) -> None:
    assert add(services, ann).name == ""
    assert check(services, Web("one", "two")) == [{"state": "checked"}]
    (one,) = services.imports.list_recent(ann)
    assert (one.state, one.into, one.keep_folders) == (ImportState.QUEUED, "Colleagues", False)
    assert begun(services, ann) == [["one", "two"]]
    found = view(services, ann).of
    assert (found.name, len(found.seen), found.error, found.failures) == ("Colleagues", 2, "", 0)
    assert found.checked_at is not None
    assert found.next_check_at == found.checked_at + EVERY


def test_only_what_is_new_is_added_and_nothing_again(services: Services, ann: Actor) -> None:
    add(services, ann, name="Mine")
    check(services, Web("one", "two"))
    subscribe_all(services, ann)
    (feed_id, _) = sorted(services.gateways.subscriptions.find_feed_ids(ann.user_id))
    services.subscriptions.unsubscribe(ann, feed_id)
    assert check(services, Web("one", "two"), EVERY - dt.timedelta(minutes=1)) == []
    check(services, Web("one", "two", "three"), EVERY)
    assert begun(services, ann) == [["three"]]


def test_removals_are_asked_and_done_or_kept(services: Services, ann: Actor) -> None:
    one = add(services, ann)
    check(services, Web("one", "two", "three"))
    subscribe_all(services, ann)
    check(services, Web("three"), EVERY)
    assert sorted(title for _, title in view(services, ann).gone) == [
        "https://one.example/feed",
        "https://two.example/feed",
    ]
    assert len(services.gateways.subscriptions.find_feed_ids(ann.user_id)) == 3
    token, count = services.followed_lists.answer(ann, one.id, unsubscribe=True)
    assert (count, view(services, ann).gone) == (2, ())
    assert len(services.gateways.subscriptions.find_feed_ids(ann.user_id)) == 1
    services.bulk_edit.restore(ann, token)
    assert len(services.gateways.subscriptions.find_feed_ids(ann.user_id)) == 3
    # What returns is no longer asked about; what goes again is.
    check(services, Web("one", "three"), 3 * EVERY)
    check(services, Web("three"), 5 * EVERY)
    assert [title for _, title in view(services, ann).gone] == ["https://one.example/feed"]
    assert services.followed_lists.answer(ann, one.id, unsubscribe=False) == ("", 0)
    assert view(services, ann).gone == ()
    assert len(services.gateways.subscriptions.find_feed_ids(ann.user_id)) == 3


def test_an_unchanged_list_is_asked_with_its_validators(services: Services, ann: Actor) -> None:
    add(services, ann)
    check(services, Web("one", validators=Validators("tag", "Mon")))
    web = Web(unchanged=True, body=None)
    check(services, web, EVERY)
    assert web.requests[0].validators == Validators("tag", "Mon")
    found = view(services, ann)
    assert (len(found.of.seen), found.gone, found.of.error) == (1, (), "")


@pytest.mark.parametrize("body", [b"<html><body>No feeds</body></html>", b"", b"{}", b"%PDF-1.4"])
def test_what_is_no_list_changes_nothing_and_waits(services: Services, ann: Actor, body: bytes) -> None:
    add(services, ann)
    check(services, Web("one"))
    subscribe_all(services, ann)
    check(services, Web(body=body), EVERY)
    found = view(services, ann)
    assert (found.of.error, found.of.failures, len(found.of.seen), found.gone) == (NO_LIST, 1, 1, ())


def test_failures_wait_longer_each_time(services: Services, ann: Actor) -> None:
    now = clock.now()
    one = add(services, ann)
    waits = []
    for _ in range(9):
        one = one.note_failure("timeout", now)
        waits.append(one.next_check_at - now)
    assert waits[:3] == [RETRY, 2 * RETRY, 4 * RETRY]
    assert waits[-1] == LONGEST
    assert one.note_failure("http_429", now, dt.timedelta(days=5)).next_check_at == now + dt.timedelta(days=5)
    check(services, Web(error=FetchError("http_503"), body=None, retry_after=7200))
    found = view(services, ann).of
    assert (found.error, found.failures, found.checked_at) == ("http_503", 1, None)
    check(services, Web("one"), dt.timedelta(hours=3))
    assert (view(services, ann).of.error, view(services, ann).of.failures) == ("", 0)


def test_a_job_that_died_is_repeated_and_imports_nothing_twice(
    services: Services, ann: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(services, ann)

    def die(*_: object) -> bool:
        raise StoreError

    with monkeypatch.context() as patch:
        patch.setattr(services.gateways.followed_lists.lists, "save", die)
        assert check(services, Web("one")) == [{"state": "died"}]
    assert check(services, Web("one")) == []  # claimed
    assert begun(services, ann) == []
    check(services, Web("one"), dt.timedelta(hours=2))
    check(services, Web("one"), 2 * EVERY)
    assert begun(services, ann) == [["one"]]
    assert len(view(services, ann).of.seen) == 1


class Meanwhile(Web):
    """A list during whose fetch something else happens."""

    def __init__(self, act: Callable[[], object], *feeds: str) -> None:
        super().__init__(*feeds)
        self._act = act

    async def stream_fetches(self, requests: Iterable[FetchRequest]) -> AsyncIterator[Fetched]:
        async for fetched in super().stream_fetches(requests):
            await asyncio.to_thread(self._act)
            yield fetched


@pytest.mark.parametrize("answer", [{}, {"unchanged": True, "body": None}])
def test_an_answer_during_a_check_counts(services: Services, ann: Actor, answer: dict[str, Any]) -> None:
    one = add(services, ann)
    check(services, Web("one", "two"))
    subscribe_all(services, ann)
    check(services, Web("two"), EVERY)
    assert len(view(services, ann).gone) == 1
    keep = Meanwhile(lambda: services.followed_lists.answer(ann, one.id, unsubscribe=False), "two")
    keep.answer = answer
    check(services, keep, 3 * EVERY)
    assert (view(services, ann).gone, view(services, ann).of.gone) == ((), frozenset())


@pytest.mark.parametrize("fails", [False, True])
def test_a_check_that_is_asked_for_during_another_is_done(
    services: Services, ann: Actor, fails: bool
) -> None:
    one = add(services, ann)
    web = Meanwhile(lambda: services.followed_lists.check(ann, one.id), "one")
    if fails:
        web.answer = {"error": FetchError("http_503"), "body": None}
    check(services, web)
    assert view(services, ann).of.next_check_at <= clock.now()
    assert check(services, Web("one")) == [{"state": "checked"}]


def test_two_checks_at_once_import_what_is_new_once(services: Services, ann: Actor) -> None:
    add(services, ann)
    inner = Meanwhile(lambda: check(services, Web("one", "two"), dt.timedelta(hours=2)), "one", "two")
    check(services, inner)
    assert begun(services, ann) == [["one", "two"]]


def test_a_check_that_is_stored_while_another_is_begins_nothing_twice(
    services: Services, ann: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    imports = services.gateways.imports
    add_import, seen = imports.add, list[object]()

    def add_late(*args: Any) -> Import:
        if not seen:
            seen.append(args)
            check(services, Web("one", "two"), dt.timedelta(hours=2))
        return add_import(*args)

    monkeypatch.setattr(imports, "add", add_late)
    add(services, ann)
    check(services, Web("one", "two"))
    assert begun(services, ann) == [["one", "two"]]
    assert len(services.imports.list_recent(ann)) == 1


def test_a_list_removed_during_its_check_begins_nothing(services: Services, ann: Actor) -> None:
    one = add(services, ann)
    for error in ({}, {"error": FetchError("http_503"), "body": None}, {"unchanged": True, "body": None}):
        remove = functools.partial(services.followed_lists.remove, ann, one.id)
        web = Meanwhile(remove, "one")
        web.answer = error
        assert check(services, web) == [{"state": "checked"}]
        assert services.followed_lists.list_lists(ann) == []
        assert begun(services, ann) == []
        one = add(services, ann)


def test_a_feed_that_returns_is_not_subscribed_to_again(services: Services, ann: Actor) -> None:
    add(services, ann)
    check(services, Web("one", "two"))
    subscribe_all(services, ann)
    feed_id = min(services.gateways.subscriptions.find_feed_ids(ann.user_id))
    services.subscriptions.unsubscribe(ann, feed_id)
    check(services, Web("three"), EVERY)
    assert len(view(services, ann).of.gone) == 1  # of the other the user need not be asked
    check(services, Web("one", "two", "three"), 3 * EVERY)
    assert begun(services, ann) == [["three"]]


def test_what_left_a_list_is_remembered_within_limits(services: Services, ann: Actor) -> None:
    one = add(services, ann)
    for n in range(4):
        one = one.note_success([f"{n:08x}{i:024x}" for i in range(20_000)], clock.now())
    assert (len(one.seen), len(one.gone), len(one.past)) == (20_000, GONE_MAX, PAST_MAX)
    assert one.past[-1].startswith("00000002")
    services.gateways.followed_lists.lists.save(one)
    assert view(services, ann).of == one


def test_a_job_of_a_removed_list_does_nothing(services: Services, ann: Actor) -> None:
    one = add(services, ann)
    (job,) = services.followed_lists.find_due_jobs(clock.now())
    assert job.task is Task.LIST
    services.followed_lists.remove(ann, one.id)
    web = Web("one")
    done = elsewhere(lambda: asyncio.run(services.followed_lists.run(**job.args, fetcher=web)))
    assert (done, web.requests) == ({"state": "ended"}, [])


def test_lists_belong_to_their_user(services: Services, ann: Actor) -> None:
    one, ben = add(services, ann), add_user(services, "ben")
    assert services.followed_lists.list_lists(ben) == []
    for act in (services.followed_lists.remove, services.followed_lists.check):
        with pytest.raises(NotFoundError):
            act(ben, one.id)
    with pytest.raises(NotFoundError):
        services.followed_lists.answer(ben, one.id, unsubscribe=True)


@pytest.mark.parametrize("url", ["", "no address", "ftp://x.example/", "http://10.0.0.1/feeds.opml"])
def test_other_addresses_are_refused(services: Services, ann: Actor, url: str) -> None:
    with pytest.raises(InvalidError):
        add(services, ann, url=url)


def test_a_list_is_followed_once_and_only_so_many(services: Services, ann: Actor) -> None:
    add(services, ann)
    with pytest.raises(ExistsError):
        add(services, ann)
    for number in range(services.settings.followed_lists_max - 1):
        services.gateways.followed_lists.add(ann.user_id, f"{URL}?{number}", "", clock.now())
    with pytest.raises(TooLargeError):
        add(services, ann, url=f"{URL}?more")
