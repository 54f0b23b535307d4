"""Subscribing at a hub: learnt, asked, confirmed, renewed, denied, left; on real stores."""

from __future__ import annotations

import datetime as dt
import random
from urllib.parse import parse_qs

import pytest

from app import create_app
from app.bootstrap.services import Services
from app.errors import FetchError
from app.feeds.websub import subscriber
from app.gateways.feeds.websubs import WebsubGateway
from app.models.accounts.actor import Actor
from app.models.feeds.fetched import Fetched
from app.models.feeds.websub import HubState, Mode
from app.models.jobs.jobs import Task
from tests.feeds.websub.conftest import ALICE, HUB, URL, Now, Reader

BOB = Actor(ALICE.user_id + 1)
CALLBACK = "http://localhost/websub/"


def due(services: Services, now: Now) -> list[tuple[Task, object]]:
    return [(job.task, next(iter(job.args.values()))) for job in services.websub.find_due_jobs(now(), 10)]


def ended(
    reader: Reader, status: int = 202, error: str | None = None, gateway: WebsubGateway | None = None
) -> None:
    """Ask the hub, and let it answer so."""
    gateway = gateway or reader.services.gateways.websubs
    ask = gateway.begin_request(reader.row.id, reader.now())
    assert ask is not None
    failed = FetchError(error) if error else None
    gateway.end_request(ask, Fetched(ask.request, status, HUB, error=failed), reader.now())


def test_a_pull_that_learns_of_a_hub_has_it_asked(alice: Reader, services: Services, now: Now) -> None:
    alice.poll("one")
    row = alice.row
    assert (row.hub, row.topic, row.state, row.tend_at) == (HUB, URL, HubState.PENDING, now())
    assert (alice.feed.hub, alice.feed.topic) == (HUB, URL)
    assert due(services, now) == [(Task.WEBSUB_TEND, row.id)]
    # 256 bits each, and never the same: nobody guesses a callback or a signature.
    assert len(row.token) == len(row.secret) == 43
    assert row.token != row.secret

    ask = services.gateways.websubs.begin_request(row.id, now())
    assert ask is not None
    form = parse_qs((ask.request.form or b"").decode())
    assert (ask.request.url, ask.request.referred_by) == (HUB, URL)
    assert form["hub.callback"] == [CALLBACK + row.token]
    assert (form["hub.mode"], form["hub.topic"], form["hub.secret"]) == (["subscribe"], [URL], [row.secret])
    assert due(services, now) == [], "it is in hand"
    assert services.gateways.websubs.begin_request(row.id, now()) is None, "and is not asked twice"


def test_a_feed_that_is_polled_again_is_subscribed_once(alice: Reader) -> None:
    alice.poll("one")
    first = alice.row
    alice.poll("two", "one")
    assert alice.row.token == first.token


def test_what_was_asked_for_is_confirmed_word_for_word(alice: Reader, now: Now) -> None:
    alice.poll("one")
    alice.ask()
    answer = alice.confirm(hub_challenge="Zq1-_~!", hub_lease_seconds="7200")
    assert (answer.status_code, answer.text) == (200, "Zq1-_~!")
    assert answer.headers["Content-Type"] == "text/plain; charset=utf-8"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert "Set-Cookie" not in answer.headers
    row = alice.row
    assert (row.state, row.since, row.lease_until) == (HubState.ACTIVE, now(), now() + dt.timedelta(hours=2))
    assert row.tend_at is not None
    assert dt.timedelta(minutes=71) < row.tend_at - now() < dt.timedelta(minutes=89)
    assert alice.confirm().status_code == 200, "the answer may have been lost: it may ask again"


def test_a_hub_may_confirm_before_it_answers_us(alice: Reader, services: Services, now: Now) -> None:
    alice.poll("one")
    gateway = services.gateways.websubs
    ask = gateway.begin_request(alice.row.id, now())
    assert ask is not None
    assert alice.confirm().status_code == 200
    planned = alice.row.tend_at
    gateway.end_request(ask, Fetched(ask.request, 0, HUB, error=FetchError("timeout")), now())
    assert (alice.row.state, alice.row.tend_at, alice.row.failures) == (HubState.ACTIVE, planned, 0)


@pytest.mark.parametrize(
    "changed",
    [
        {"hub_topic": URL + "?x"},
        {"hub_mode": "unsubscribe"},
        {"hub_mode": "publish"},
        {"hub_challenge": ""},
        {"hub_challenge": "<script>alert(1)</script> "},
        {"hub_challenge": "x" * 513},
        {"hub_lease_seconds": "-1"},
        {"hub_lease_seconds": "soon"},
        {"token": "x" * 43},
    ],
)
def test_what_was_not_asked_for_is_not_confirmed(alice: Reader, changed: dict[str, str]) -> None:
    alice.poll("one")
    alice.ask()
    answer = alice.confirm(**changed)
    assert answer.status_code == 404
    assert "alert(1)" not in answer.text
    assert alice.row.state is HubState.PENDING


def test_nothing_is_confirmed_before_it_was_asked_for_or_long_after(alice: Reader, now: Now) -> None:
    alice.poll("one")
    assert alice.confirm().status_code == 404
    alice.ask()
    now.go(hours=24)
    assert alice.confirm().status_code == 404
    assert alice.row.state is HubState.PENDING


def test_a_lease_is_renewed_in_time_under_the_same_callback(
    alice: Reader, services: Services, now: Now
) -> None:
    alice.subscribed()
    before = alice.row
    now.go(days=5)
    assert due(services, now) == []
    now.go(days=2.5)
    assert due(services, now) == [(Task.WEBSUB_TEND, before.id)]
    ended(alice)
    assert alice.row.state is HubState.ACTIVE, "the old lease runs on meanwhile"
    assert alice.confirm().status_code == 200
    after = alice.row
    assert (after.token, after.since) == (before.token, before.since)
    assert after.lease_until == now() + dt.timedelta(days=10)


def test_a_hub_that_fails_is_asked_again_and_later_each_time(alice: Reader, now: Now) -> None:
    alice.poll("one")
    waits = []
    for _ in range(6):
        ended(alice, 503, "http_503")
        row = alice.row
        assert row.tend_at is not None
        waits.append((row.tend_at - now()).total_seconds())
        now.at = row.tend_at
    assert waits == sorted(waits)
    assert 270 <= waits[0] <= 330
    assert waits[5] > 8000
    assert (alice.row.failures, alice.row.reason) == (6, "http_503")
    ended(alice)
    assert alice.confirm().status_code == 200
    assert (alice.row.failures, alice.row.reason) == (0, "")


class Chance(random.Random):
    """Draws always the same share of what is between two bounds."""

    def __init__(self, share: float) -> None:
        super().__init__()
        self._share = share

    def uniform(self, a: float, b: float) -> float:
        return a + (b - a) * self._share


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_a_hub_that_never_confirms_is_asked_less_and_less(alice: Reader, now: Now, share: float) -> None:
    alice.poll("one")
    gateway = WebsubGateway(alice.services.mappers.websubs, alice.services.settings, Chance(share))
    hours = []
    for failures in range(12):
        ended(alice, gateway=gateway)
        assert alice.row.failures == failures
        assert alice.row.tend_at is not None
        hours.append((alice.row.tend_at - now()) / dt.timedelta(hours=1))
        now.at = alice.row.tend_at
    jitter = 0.9 + 0.2 * share
    assert hours[:5] == [1] * 5, "an hour at least: it may confirm so long"
    assert hours[5:] == pytest.approx(
        [minutes / 60 * jitter for minutes in (80, 160, 320, 640, 1280, 2560, 5120)]
    )
    if share == 0.5:
        assert now() > alice.row.created + dt.timedelta(days=7)


def test_polls_return_when_the_lease_ends_unrenewed(alice: Reader, services: Services, now: Now) -> None:
    alice.subscribed().prove()
    lease_until = alice.row.lease_until
    assert lease_until is not None
    assert alice.feed.push_until == lease_until
    while now() < lease_until:
        assert alice.feed.push_until == lease_until
        if due(services, now):
            ended(alice, 0, "connect_failed")
        tend_at = alice.row.tend_at
        assert tend_at is not None
        assert tend_at <= lease_until, "the end of the lease is not slept through"
        now.at = tend_at
    ended(alice, 0, "connect_failed")
    row, feed = alice.row, alice.feed
    assert (row.state, row.lease_until, feed.push_until) == (HubState.PENDING, None, None)
    assert feed.next_check_at is not None
    assert feed.next_check_at <= now() + dt.timedelta(seconds=120)


def test_a_hub_may_refuse_at_any_time(alice: Reader, services: Services, now: Now) -> None:
    alice.subscribed().prove()
    answer = alice.confirm(hub_mode="denied", hub_reason="no\nmore " + "x" * 999)
    assert (answer.status_code, answer.text) == (200, "")
    row = alice.row
    assert (row.state, row.lease_until) == (HubState.DENIED, None)
    assert len(row.reason) <= 200
    assert "\n" not in row.reason
    assert alice.feed.push_until is None
    assert alice.feed.next_check_at is not None
    assert alice.feed.next_check_at <= now() + dt.timedelta(seconds=120)
    now.go(days=6)
    assert due(services, now) == []
    now.go(days=1)
    assert due(services, now) == [(Task.WEBSUB_TEND, row.id)]


def test_a_refusal_of_another_topic_counts_for_nothing(alice: Reader) -> None:
    alice.subscribed()
    assert alice.confirm(hub_mode="denied", hub_topic="https://other.example/").status_code == 404
    assert alice.row.state is HubState.ACTIVE


def test_when_the_last_reader_leaves_the_hub_is_told(alice: Reader, services: Services, now: Now) -> None:
    services.subscriptions.subscribe(BOB, URL)
    row = alice.subscribed().row
    services.subscriptions.unsubscribe(ALICE, alice.feed_id)
    assert alice.row.state is HubState.ACTIVE, "bob reads on"
    assert alice.confirm(hub_mode="unsubscribe").status_code == 404, "nobody asked for that"
    services.subscriptions.unsubscribe(BOB, alice.feed_id)
    assert alice.services.mappers.websubs.find_current([alice.feed_id]) == {}
    assert due(services, now) == [(Task.WEBSUB_TEND, row.id)]

    gateway = services.gateways.websubs
    ask = gateway.begin_request(row.id, now())
    assert ask is not None
    form = parse_qs((ask.request.form or b"").decode())
    assert form == {
        "hub.mode": ["unsubscribe"],
        "hub.topic": [URL],
        "hub.callback": [CALLBACK + row.token],
    }
    gateway.end_request(ask, Fetched(ask.request, 202, HUB), now())
    query = {"hub.mode": "unsubscribe", "hub.topic": URL, "hub.challenge": "bye"}
    for _ in range(2):
        answer = alice.client.get(f"/websub/{row.token}", query_string=query)
        assert (answer.status_code, answer.text) == (200, "bye")
    now.go(days=30)
    assert due(services, now) == []
    assert alice.client.post(f"/websub/{row.token}", data=b"x").status_code == 410


def test_a_hub_that_does_not_let_go_is_left_to_itself(alice: Reader, services: Services, now: Now) -> None:
    row = alice.subscribed().row
    services.subscriptions.unsubscribe(ALICE, alice.feed_id)
    gateway = services.gateways.websubs
    asked = 0
    while (stored := services.mappers.websubs.find(row.id)) is not None:
        assert stored.tend_at is not None
        now.at = stored.tend_at
        ask = gateway.begin_request(row.id, now())
        if ask is not None:
            asked += 1
            gateway.end_request(ask, Fetched(ask.request, 404, HUB, error=FetchError("http_404")), now())
    assert asked == subscriber.GOODBYES


def test_a_reader_who_comes_back_is_subscribed_anew(alice: Reader, services: Services) -> None:
    before = alice.subscribed().row
    services.subscriptions.unsubscribe(ALICE, alice.feed_id)
    services.subscriptions.subscribe(ALICE, URL)
    alice.poll("two", "one")
    assert alice.row.token != before.token
    left = services.mappers.websubs.find(before.id)
    assert left is not None
    assert left.state is HubState.LEAVING


def test_a_feed_that_changes_its_hub_is_followed_once_a_day(
    alice: Reader, services: Services, now: Now
) -> None:
    before = alice.subscribed().row
    other = "https://other.example/hub"
    alice.poll("two", "one", hub=other)
    assert alice.row.hub == HUB, "each change costs requests to hosts of the feed's choice"
    now.go(days=1)
    alice.poll("three", "two", "one", hub=other)
    assert alice.row.hub == other
    ask = services.gateways.websubs.begin_request(before.id, now())
    assert ask is not None
    assert (ask.mode, ask.request.url) == (Mode.UNSUBSCRIBE, HUB)


def test_a_feed_without_its_hub_is_polled_as_before(alice: Reader, now: Now) -> None:
    alice.subscribed().prove()
    alice.poll("other", hub=None)
    assert alice.services.mappers.websubs.find_current([alice.feed_id]) == {}
    assert (alice.feed.hub, alice.feed.topic, alice.feed.push_until) == (None, None, None)
    assert alice.feed.next_check_at is not None
    assert alice.feed.next_check_at <= now() + dt.timedelta(seconds=120)


def test_a_feed_that_nobody_reads_is_not_subscribed(services: Services, alice: Reader) -> None:
    services.subscriptions.unsubscribe(ALICE, alice.feed_id)
    alice.poll("one")
    assert services.mappers.websubs.find_current([alice.feed_id]) == {}


def test_switched_off_there_is_no_callback_and_nobody_is_asked(
    alice: Reader, switched_off: Services, now: Now
) -> None:
    alice.subscribed().prove()
    now.go(days=9)
    assert switched_off.websub.find_due_jobs(now(), 10) == []
    client = create_app(switched_off.settings, switched_off).test_client()
    assert client.get(f"/websub/{alice.row.token}").status_code == 404
    assert client.post(f"/websub/{alice.row.token}", data=b"x").status_code == 410
