"""The rules of a subscriber as data: what is announced, confirmed, signed, trusted, and tried again."""

from __future__ import annotations

import dataclasses
import datetime as dt
import hashlib
import hmac
import random
import time
from typing import Any
from urllib.parse import parse_qs

import pytest

from app.config import Settings
from app.feeds.websub import subscriber
from app.models.feeds.websub import HubState, HubSubscription, Intent, Mode, PushPullOutcome

NOW = dt.datetime(2026, 3, 1, 12, tzinfo=dt.UTC)
URL = "https://blog.example/feed"
HUB, TOPIC = "https://hub.example/", "https://blog.example/atom.xml"
DAY, MINUTE = dt.timedelta(days=1), dt.timedelta(minutes=1)


def row(**fields: Any) -> HubSubscription:
    made = HubSubscription(
        id=1,
        feed_id=2,
        hub=HUB,
        topic=TOPIC,
        token="t",
        secret="s3cret",
        created=NOW - DAY,
        asked=Mode.SUBSCRIBE,
    )
    return dataclasses.replace(made, asked_at=NOW - MINUTE, **fields)


# -- discovery


@pytest.mark.parametrize(
    ("link", "hub", "self_url", "found"),
    [
        # §4: headers first, whatever the feed says.
        (
            f'<{HUB}>; rel="hub", <{TOPIC}>; rel="self"',
            "https://b.example/",
            "https://c.example/",
            (HUB, TOPIC),
        ),
        (f"<{HUB}>;rel=hub,<{TOPIC}>;rel=self", None, None, (HUB, TOPIC)),
        (f'<{TOPIC}>; rel="self", <{HUB}>; title="a, b; c"; REL="Hub"', None, None, (HUB, TOPIC)),
        (f'<{HUB}>; rel="hub", <https://second.example/>; rel="hub"', None, TOPIC, (HUB, TOPIC)),
        (f'<{HUB}>; rel="preconnect hub"', None, None, (HUB, URL)),
        # Else the feed's own links; what either leaves out comes from the other.
        ("", HUB, TOPIC, (HUB, TOPIC)),
        ("", HUB, None, (HUB, URL)),
        (f'<{TOPIC}>; rel="self"', HUB, "https://c.example/", (HUB, TOPIC)),
        ('</atom.xml>; rel="self", <//hub.example/>; rel=hub', None, None, (HUB, TOPIC)),
        # A topic may be on another site: the hub decides, and the feed is pulled from its own address.
        ("", HUB, "https://feeds.proxy.example/x", (HUB, "https://feeds.proxy.example/x")),
        # No hub, or none that can be asked.
        (f'<{TOPIC}>; rel="self"', None, TOPIC, (None, None)),
        ('<javascript:alert(1)>; rel="hub"', None, None, (None, None)),
        ('<https://a b.example/>; rel="hub"', None, None, (None, None)),
        ("", "ftp://hub.example/", None, (None, None)),
        ("", "https://hub.example/" + "x" * 2048, None, (None, None)),
        (f"{HUB}; rel=hub", None, None, (None, None)),
        (f'<{HUB}>; rev="hub"', None, None, (None, None)),
    ],
)
def test_hub_and_topic_as_they_are_announced(
    link: str, hub: str | None, self_url: str | None, found: tuple[str | None, str | None]
) -> None:
    assert (
        subscriber.find_announced_hub({"link": link} if link else {}, URL, hub=hub, self_url=self_url)
        == found
    )


@pytest.mark.parametrize(
    "piece", ["<", "<a>", "<a>;", "<a>; rel", '<a>; rel="', "<a>" + " " * 50, "; rel=hub", "\t;", "<a>;a=b"]
)
def test_X08_a_hostile_link_header_takes_no_time(piece: str) -> None:
    header = piece * (100_000 // len(piece))
    start = time.process_time()
    subscriber.find_announced_hub({"link": header}, URL, hub=None, self_url=None)
    assert time.process_time() - start < 1


@pytest.mark.parametrize(
    ("base_url", "reachable"),
    [
        ("https://reader.example.org", True),
        ("http://8.8.8.8:8080", True),
        ("https://[2606:4700:4700::1111]", True),
        ("", False),
        ("http://localhost:8080", False),
        ("http://127.0.0.1:8080", False),
        ("http://192.168.1.5", False),
        ("http://[fd00::5]", False),
        ("http://nas", False),
        ("http://nas.local", False),
        ("https://reader.home.arpa", False),
    ],
)
def test_hubs_are_asked_where_they_can_answer(base_url: str, reachable: bool) -> None:
    assert subscriber.is_enabled(Settings(base_url=base_url)) is reachable
    assert subscriber.is_enabled(Settings(base_url=base_url, websub="on"))
    assert not subscriber.is_enabled(Settings(base_url=base_url, websub="off"))


def test_an_address_that_is_none_is_not_reached() -> None:
    assert not subscriber.is_reachable("https://[bad")


# -- asking and confirming


def test_what_a_hub_is_sent() -> None:
    callback = "https://reader.example/websub/abc"
    sent = parse_qs(subscriber.build_form(row(), Mode.SUBSCRIBE, callback).decode())
    assert sent == {
        "hub.mode": ["subscribe"],
        "hub.topic": [TOPIC],
        "hub.callback": [callback],
        "hub.lease_seconds": ["864000"],
        "hub.secret": ["s3cret"],
    }
    sent = parse_qs(subscriber.build_form(row(), Mode.UNSUBSCRIBE, callback).decode())
    assert sent == {"hub.mode": ["unsubscribe"], "hub.topic": [TOPIC], "hub.callback": [callback]}


GOOD = Intent("subscribe", TOPIC, "c" * 40, 864000)


def test_what_was_asked_for_is_confirmed() -> None:
    confirmed = subscriber.confirm(row(), GOOD, NOW)
    assert confirmed == subscriber.Confirmation(Mode.SUBSCRIBE, 10 * DAY)
    leaving = row(state=HubState.LEAVING, asked=Mode.UNSUBSCRIBE)
    assert subscriber.confirm(leaving, Intent("unsubscribe", TOPIC, "c"), NOW) is not None
    long = subscriber.confirm(row(), dataclasses.replace(GOOD, lease=10**11), NOW)
    assert long is not None
    assert long.lease == subscriber.LEASE_MOST


@pytest.mark.parametrize(
    ("subscription", "intent"),
    [
        (row(), dataclasses.replace(GOOD, topic=TOPIC + "/")),
        (row(), dataclasses.replace(GOOD, topic="")),
        (row(), dataclasses.replace(GOOD, mode="unsubscribe")),
        (row(), dataclasses.replace(GOOD, mode="publish")),
        (row(), dataclasses.replace(GOOD, mode="")),
        (row(), dataclasses.replace(GOOD, challenge="")),
        (row(), dataclasses.replace(GOOD, challenge="x" * 513)),
        (row(), dataclasses.replace(GOOD, challenge="two words")),
        (row(), dataclasses.replace(GOOD, challenge="line\nend")),
        (row(), dataclasses.replace(GOOD, lease=None)),
        (row(), dataclasses.replace(GOOD, lease=0)),
        (row(asked=None), GOOD),
        (row(asked=Mode.UNSUBSCRIBE, state=HubState.LEAVING), GOOD),
    ],
)
def test_what_was_not_asked_for_is_refused(subscription: HubSubscription, intent: Intent) -> None:
    assert subscriber.confirm(subscription, intent, NOW) is None


def test_what_was_asked_for_long_ago_is_refused() -> None:
    assert subscriber.confirm(row(), GOOD, NOW + subscriber.CONFIRM_WITHIN) is None


@pytest.mark.parametrize("method", ["sha1", "sha256", "sha384", "sha512"])
def test_each_method_of_the_recommendation_is_checked(method: str) -> None:
    body = b"\x00<feed/>\xff"
    made = hmac.new(b"s3cret", body, method).hexdigest()
    assert subscriber.is_signed(f"{method}={made}", "s3cret", body)
    assert subscriber.is_signed(f"{method}={made.upper()}", "s3cret", body)
    assert not subscriber.is_signed(f"{method}={made}", "other", body)
    assert not subscriber.is_signed(f"{method}={made}", "s3cret", body + b"\n")
    assert not subscriber.is_signed(f"{method}={made[:-1]}", "s3cret", body)
    assert not subscriber.is_signed(f"sha224={made}", "s3cret", body)


@pytest.mark.parametrize(
    "header", ["", "sha1", "sha1=", "=", "md5=" + hashlib.md5(b"").hexdigest(), "sha1=é", "sha1=" + "0" * 40]
)
def test_what_is_no_signature_fits_nothing(header: str) -> None:
    assert not subscriber.is_signed(header, "s3cret", b"")


# -- time


def test_a_lease_is_renewed_after_two_thirds_of_it() -> None:
    rng = random.Random(1)
    pauses = [subscriber.compute_renewal_delay(10 * DAY, rng) / (10 * DAY) for _ in range(1000)]
    assert 0.59 < min(pauses) < 0.61
    assert 0.72 < max(pauses) < 0.74
    assert subscriber.compute_renewal_delay(dt.timedelta(seconds=1), rng) == subscriber.RENEW_LEAST


def test_failures_wait_longer_each_time_up_to_a_week() -> None:
    rng = random.Random(1)
    pauses = [subscriber.compute_retry_delay(n, rng) for n in range(1, 40)]
    assert 4 * MINUTE < pauses[0] < 6 * MINUTE
    assert 9 * MINUTE < pauses[1] < 11 * MINUTE
    assert max(pauses) <= 1.1 * subscriber.RETRY_MOST
    assert pauses[-1] > 0.9 * subscriber.RETRY_MOST


def test_a_subscription_that_is_left_is_ended_while_it_runs_and_then_forgotten() -> None:
    left = row(state=HubState.LEAVING, lease_until=NOW + DAY)
    assert subscriber.choose_next_mode(left, NOW) is Mode.UNSUBSCRIBE
    assert subscriber.choose_next_mode(left, NOW + DAY) is None
    assert subscriber.choose_next_mode(dataclasses.replace(left, failures=subscriber.GOODBYES), NOW) is None
    assert subscriber.choose_next_mode(dataclasses.replace(left, lease_until=None), NOW) is None
    assert subscriber.choose_next_mode(row(), NOW) is Mode.SUBSCRIBE


def test_pushes_are_trusted_after_three_in_a_row_and_within_the_lease() -> None:
    proven = row(state=HubState.ACTIVE, lease_until=NOW + DAY, proofs=subscriber.PROOFS)
    assert subscriber.PROOFS == 3
    assert subscriber.is_proven(proven, NOW)
    assert not subscriber.is_proven(proven, NOW + DAY)
    changes: list[dict[str, Any]] = [
        {"proofs": 2},
        {"missed_at": NOW},
        {"state": HubState.DENIED},
        {"lease_until": None},
    ]
    for change in changes:
        assert not subscriber.is_proven(dataclasses.replace(proven, **change), NOW)


def test_a_feed_behind_a_cache_is_asked_a_few_times_more() -> None:
    def pauses(outcome: PushPullOutcome) -> list[float | None]:
        found = [
            subscriber.compute_recheck_delay(n, outcome, dt.timedelta(seconds=30)) for n in (1, 2, 3, 20)
        ]
        return [None if pause is None else pause.total_seconds() for pause in found]

    assert pauses(PushPullOutcome.NOTHING_NEW) == [60, 120, None, None]
    assert pauses(PushPullOutcome.DONE) == [None] * 4
    assert pauses(PushPullOutcome.NOT_ASKED) == [30, 60, 120, 3600]
