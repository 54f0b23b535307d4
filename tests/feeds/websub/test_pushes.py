"""Pushes: signed or ignored, pulled at once and not too often, none lost, and trusted by their proofs."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime as dt
import io
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import redis

from app.bootstrap import services as bootstrap
from app.bootstrap.services import Services
from app.gateways.feeds.digest import Digester
from app.models.feeds.fetched import Fetched, FetchRequest
from app.models.feeds.websub import PushPullOutcome
from app.models.jobs import redis_keys
from app.models.jobs.jobs import Queue, Task
from tests.feeds.websub.conftest import Now, Reader, feed_body

SOON = dt.timedelta(seconds=120)


def queued(client: redis.Redis) -> int:
    """Return how many pulls wait, and forget them as if they had been taken and ended."""
    waiting: Any = client.lrange(redis_keys.make_queue_key(Queue.PULL_SYSTEM), 0, -1)
    for job_id in waiting:
        client.delete(redis_keys.make_job_key(job_id.decode()))
    client.delete(redis_keys.make_queue_key(Queue.PULL_SYSTEM))
    return len(waiting)


def due_pulls(services: Services, now: Now) -> list[object]:
    return [j.args["feed_id"] for j in services.websub.find_due_jobs(now(), 10) if j.task is Task.WEBSUB_PULL]


def test_a_push_has_its_feed_pulled_at_once(alice: Reader, redis_client: redis.Redis, now: Now) -> None:
    alice.subscribed()
    queued(redis_client)
    now.go(minutes=5)
    assert alice.push() == 202
    assert queued(redis_client) == 1
    assert alice.pull_pushed("two", "one")["new"] == 1
    row = alice.row
    assert (row.pushes, row.proofs, row.pull_at, row.last_push_at) == (1, 1, None, now())
    assert alice.pull_pushed("two", "one") == {"feeds": 0}, "nothing waits any more"


@pytest.mark.parametrize(
    "header", ["", "sha256=" + "0" * 64, "sha1=" + "0" * 40, "md5=" + "0" * 32, "sha256=é", "nonsense"]
)
def test_a_push_with_a_wrong_signature_is_answered_and_ignored(
    alice: Reader, redis_client: redis.Redis, header: str
) -> None:
    """§7.1: it must be ignored, and may be acknowledged, so that nobody can guess at signatures."""
    alice.subscribed()
    queued(redis_client)
    headers = {"X-Hub-Signature": header.encode().decode("latin-1")} if header else {}
    answer = alice.client.post(f"/websub/{alice.row.token}", data=b"<feed/>", headers=headers)
    assert (answer.status_code, answer.data) == (202, b"")
    assert alice.push(secret="another") == 202
    assert queued(redis_client) == 0
    row = alice.row
    assert (row.forged, row.pushes, row.pull_at) == (2, 0, None)


def test_a_signature_is_of_the_very_bytes(alice: Reader, redis_client: redis.Redis) -> None:
    alice.subscribed()
    queued(redis_client)
    body = b"\x1f\x8b\x00hub.mode=publish&a=%20\r\n\xff"
    for kind in (
        "application/atom+xml",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=b",
    ):
        assert alice.push(body, Content_Type=kind, Content_Encoding="gzip") == 202
    assert alice.row.pushes == 3


def test_a_push_for_nobody_is_sent_away(alice: Reader) -> None:
    alice.subscribed()
    assert alice.client.post("/websub/" + "x" * 43, data=b"<feed/>").status_code == 410


def test_W16_a_push_is_read_up_to_its_own_limit(alice: Reader, services: Services) -> None:
    alice.subscribed()
    limit = services.settings.websub_max_bytes
    assert limit > services.settings.max_request_bytes
    assert alice.push(b"x" * limit) == 202
    assert alice.push(b"x" * (limit + 1)) == 413
    assert alice.row.pushes == 1


def test_W16_a_push_in_pieces_is_read_up_to_the_same_limit(alice: Reader, services: Services) -> None:
    alice.subscribed()
    limit = services.settings.websub_max_bytes
    for size in (limit, limit + 1, 2 * limit):
        body = io.BytesIO(b"x" * size)
        answer = alice.client.post(
            f"/websub/{alice.row.token}",
            input_stream=body,
            headers={"Transfer-Encoding": "chunked", "X-Hub-Signature": alice.sign(body.getvalue())},
            environ_overrides={"wsgi.input_terminated": True},
        )
        assert answer.status_code == 202
        assert body.tell() == limit, "the rest is not read, and the signature does not fit what was"
    assert (alice.row.pushes, alice.row.forged) == (1, 2)


def test_a_thousand_pushes_a_minute_cause_a_pull_each_half_minute(
    alice: Reader, services: Services, redis_client: redis.Redis, now: Now
) -> None:
    alice.subscribed()
    queued(redis_client)
    pulls: list[dt.datetime] = []
    for number in range(1000):
        now.go(milliseconds=60)
        assert alice.push() == 202
        if queued(redis_client) or due_pulls(services, now):
            alice.pull_pushed(f"entry {number}", "one")
            pulls.append(now())
    assert len(pulls) == 2
    assert alice.row.pushes == 1000
    # The last one is not lost: half a minute after the last pull its own is due.
    now.at = pulls[-1] + dt.timedelta(seconds=30)
    assert due_pulls(services, now) == [alice.feed_id]
    assert alice.pull_pushed("the last", "one")["new"] == 1
    now.go(hours=1)
    assert due_pulls(services, now) == []


def test_F16_twenty_equal_pushes_at_once_are_one_pull(
    alice: Reader, services: Services, redis_client: redis.Redis
) -> None:
    alice.subscribed()
    queued(redis_client)
    token = alice.row.token
    signature = alice.sign(b"<feed/>", "sha1")
    with ThreadPoolExecutor(20) as threads:
        list(
            threads.map(
                lambda _: services.websub.accept_push(token, signature, lambda: b"<feed/>"), range(20)
            )
        )
    assert queued(redis_client) == 1
    assert alice.row.pushes == 20
    assert alice.pull_pushed("two", "one")["new"] == 1
    assert alice.pull_pushed("two", "one") == {"feeds": 0}


def test_a_push_that_comes_while_its_feed_is_pulled_is_not_lost(
    alice: Reader, services: Services, now: Now
) -> None:
    alice.subscribed()
    alice.push()
    gateway = services.gateways.websubs
    begun = gateway.begin_pull(alice.feed_id, now())
    assert begun is not None
    now.go(seconds=2)
    assert alice.push() == 202
    now.go(seconds=1)
    gateway.end_pull(begun, PushPullOutcome.DONE, now())
    assert due_pulls(services, now) == []
    now.go(seconds=27)
    assert due_pulls(services, now) == [alice.feed_id]


def test_a_pull_whose_worker_was_lost_is_due_again(alice: Reader, services: Services, now: Now) -> None:
    alice.subscribed()
    alice.push()
    assert services.gateways.websubs.begin_pull(alice.feed_id, now()) is not None
    now.go(minutes=2)
    assert due_pulls(services, now) == []
    now.go(minutes=1)
    assert due_pulls(services, now) == [alice.feed_id]


def test_a_feed_that_crashes_workers_is_not_pulled_for_ever(
    alice: Reader, services: Services, now: Now
) -> None:
    alice.subscribed()
    alice.push()
    assert services.gateways.websubs.begin_pull(alice.feed_id, now(), last=True) is not None
    now.go(days=1)
    assert due_pulls(services, now) == []


def test_a_feed_behind_a_cache_is_pulled_again_until_the_entry_is_there(
    alice: Reader, services: Services, now: Now
) -> None:
    alice.subscribed()
    now.go(minutes=10)
    alice.push()
    assert alice.pull_pushed("one")["new"] == 0
    now.go(seconds=60)
    assert due_pulls(services, now) == [alice.feed_id]
    assert alice.pull_pushed("two", "one")["new"] == 1
    assert (alice.row.proofs, alice.row.pull_at) == (1, None)
    # A push for nothing is given up after three looks.
    now.go(minutes=10)
    alice.push()
    looks = 0
    for _ in range(60):
        if due_pulls(services, now):
            alice.pull_pushed("two", "one")
            looks += 1
        now.go(seconds=30)
    assert looks == 3


def test_a_feed_that_somebody_holds_is_pulled_later(alice: Reader, services: Services, now: Now) -> None:
    alice.subscribed()
    alice.push()
    assert services.gateways.feeds.claim([alice.feed_id], "somebody", now(), 20)
    assert alice.pull_pushed("two", "one")["skipped"] == 1
    now.go(seconds=30)
    assert due_pulls(services, now) == [alice.feed_id]
    assert alice.pull_pushed("two", "one")["new"] == 1


def test_without_redis_a_push_is_kept_for_the_updater(alice: Reader, services: Services, now: Now) -> None:
    alice.subscribed()
    away = dataclasses.replace(services.settings, redis_url="unix:///nowhere/redis.sock")
    with contextlib.closing(bootstrap.build(away)) as others:
        others.websub.accept_push(alice.row.token, alice.sign(b"x", "sha512"), lambda: b"x")
    assert due_pulls(services, now) == [alice.feed_id]


# -- trust


def test_three_pushes_that_came_first_let_polls_rest_six_hours(alice: Reader, now: Now) -> None:
    alice.subscribed()
    for number in range(3):
        assert alice.feed.push_until is None
        now.go(minutes=10)
        alice.push()
        alice.pull_pushed(*(f"entry {n}" for n in range(number + 1)))
    assert alice.feed.push_until == alice.row.lease_until
    now.go(minutes=10)
    alice.push()
    alice.pull_pushed("entry 3")
    rest = (alice.feed.next_check_at or now()) - now()
    assert dt.timedelta(hours=5.3) < rest < dt.timedelta(hours=6.7)


def test_an_unchanged_poll_of_a_pushed_feed_rests_six_hours_too(
    alice: Reader, services: Services, now: Now
) -> None:
    alice.subscribed().prove()
    (poll,) = services.gateways.feeds.find_polls([alice.feed_id])
    unchanged = Fetched(FetchRequest(poll.url), 304, poll.url, unchanged=True, validators=poll.validators)
    rest = Digester(services.settings).calculate_rest(poll, unchanged, now())
    assert rest is not None
    assert rest > dt.timedelta(hours=5.3)
    off = dataclasses.replace(services.settings, websub="off")
    rest = Digester(off).calculate_rest(poll, unchanged, now())
    assert rest is not None
    assert rest <= dt.timedelta(hours=1)


def test_a_poll_that_finds_what_no_push_announced_brings_polls_back(alice: Reader, now: Now) -> None:
    alice.subscribed().prove()
    now.go(hours=6)
    alice.poll("unannounced")
    feed = alice.feed
    assert feed.push_until is None
    assert feed.next_check_at is not None
    assert feed.next_check_at <= now() + SOON
    # … by the hour table from then on, until three pushes in a row came first again.
    now.go(minutes=2)
    alice.poll("unannounced")
    assert alice.feed.next_check_at is not None
    assert alice.feed.next_check_at <= now() + dt.timedelta(hours=1)
    now.go(minutes=10)
    alice.push()
    alice.pull_pushed("announced", "unannounced")
    assert (alice.row.proofs, alice.row.missed_at, alice.feed.push_until) == (1, None, None)


@pytest.mark.parametrize(("minutes", "trusted"), [(4, True), (6, False)])
def test_a_push_soon_after_a_poll_was_late_and_no_miss(
    alice: Reader, now: Now, minutes: int, trusted: bool
) -> None:
    alice.subscribed().prove()
    now.go(hours=6)
    alice.poll("found by a poll")
    assert alice.feed.push_until is None
    now.go(minutes=minutes)
    alice.push()
    assert (alice.feed.push_until is not None) is trusted


def test_a_poll_between_a_push_and_its_pull_is_no_miss(alice: Reader, now: Now) -> None:
    alice.subscribed().prove()
    now.go(hours=1)
    alice.push()
    alice.poll("announced, and polled by chance")
    assert alice.feed.push_until is not None
    assert alice.row.missed_at is None


def test_a_renewal_prolongs_the_trust(alice: Reader, now: Now) -> None:
    alice.subscribed().prove()
    now.go(days=8)
    alice.ask()
    assert alice.confirm().status_code == 200
    assert alice.feed.push_until == now() + dt.timedelta(days=10)


def test_pushed_bodies_are_never_read(alice: Reader, now: Now) -> None:
    """What a hub sends is no entry: only what the feed itself says is."""
    alice.subscribed()
    now.go(minutes=1)
    assert alice.push(feed_body("forged by the hub")) == 202
    assert alice.pull_pushed("one")["new"] == 0
    assert alice.feed.last_seq == 1


def test_a_push_does_not_spend_what_a_host_has_left_for_people(
    alice: Reader, services: Services, now: Now
) -> None:
    slow = dataclasses.replace(services.settings, fetch_host_rate=0.001, fetch_host_burst=1)
    alice.subscribed()
    alice.push()
    with contextlib.closing(bootstrap.build(slow)) as others:
        assert others.budget.take_tokens(["blog.example"]) == [0]
        here, alice.services = alice.services, others
        assert alice.pull_pushed("two", "one")["put_off"] == 1
        alice.services = here
        assert others.budget.take_tokens(["blog.example"], urgent=True) == [0]
    now.go(seconds=30)
    assert due_pulls(services, now) == [alice.feed_id], "it is tried again"
