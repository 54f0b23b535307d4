"""The hour table, hints and back-off, by properties that hold for every history."""

from __future__ import annotations

import datetime as dt
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.config import Settings
from app.errors import ParseError
from app.feeds import schedule
from app.feeds.parse import parse
from app.feeds.schedule import (
    DAYS,
    EMPTY,
    History,
    Limits,
    forecast_day,
    forecast_interval,
    plan,
    record_arrivals,
    seed,
)
from app.models.feeds.schedule import Hints
from tests.support import corpus

UTC = dt.UTC
NOW = dt.datetime(2026, 3, 14, 10, 0, tzinfo=UTC)
LIMITS = Limits()
HOUR = dt.timedelta(hours=1)
DAY = dt.timedelta(days=1)

moments = st.integers(60, 22 * 86_400).map(lambda seconds: NOW - dt.timedelta(seconds=seconds))
histories = st.lists(moments, max_size=400).map(lambda times: seed(times, NOW))
busy = st.builds(
    lambda hours, per_hour, days: posting(hours, per_hour, days),
    st.sets(st.integers(0, 23), max_size=24),
    st.integers(0, 40),
    st.integers(0, 12),
)
anything = st.one_of(histories, busy)
floors = st.one_of(st.none(), st.integers(0, 200_000))
hints = st.builds(
    Hints,
    max_age=floors,
    ttl_minutes=st.one_of(st.none(), st.integers(0, 3000)),
    skip_hours=st.frozensets(st.integers(0, 23)),
    retry_after=floors,
    errors=st.integers(0, 50),
    pushed=st.booleans(),
    unread_days=st.integers(0, 400),
)
now_times = st.integers(0, 86_399).map(lambda seconds: NOW + dt.timedelta(seconds=seconds))


class NoJitter(random.Random):
    """Chance that always falls in the middle."""

    def random(self) -> float:
        return 0.5


def posting(hours: set[int], per_hour: int, days: int, *, until: dt.datetime = NOW) -> History:
    """A feed that posted evenly in these hours (UTC) on each of the last days, today not included."""
    midnight = until.replace(hour=0, minute=0, second=0, microsecond=0)
    return seed(
        [
            midnight - back * DAY + hour * HOUR + n * HOUR / per_hour
            for back in range(1, days + 1)
            for hour in hours
            for n in range(per_hour)
        ],
        until,
    )


def delay(history: History, now: dt.datetime = NOW, *, luck: int = 1, **told: Any) -> float:
    answer = plan(history, now, Hints(**told), LIMITS, rng=random.Random(luck))
    return (answer.next_check_at - now).total_seconds()


def reason(history: History, **told: Any) -> str:
    return plan(history, NOW, Hints(**told), LIMITS, rng=random.Random(1)).reason


# -- the forecast


@given(anything, now_times)
def test_forecast_lies_between_two_minutes_and_an_hour(history: History, now: dt.datetime) -> None:
    assert all(119.99 <= seconds <= 3600 for seconds in forecast_day(history, now))


@given(anything)
def test_table_holds_the_forecast_of_each_hour_ahead(history: History) -> None:
    expected = {(NOW + n * HOUR).hour: forecast_interval(history, NOW + n * HOUR) for n in range(24)}
    assert forecast_day(history, NOW) == [expected[hour] for hour in range(24)]


def test_ttl_is_the_mean_gap_within_the_hour() -> None:
    """n entries cut an hour into n + 1 gaps; ten such days are needed for it to be the forecast."""
    for per_hour in (1, 2, 3, 5, 10, 20, 29):
        assert forecast_interval(posting({12}, per_hour, DAYS), NOW) == 3600
        assert forecast_interval(posting({12}, per_hour, DAYS), NOW + 2 * HOUR) == pytest.approx(
            3600 / (per_hour + 1)
        )


@given(st.integers(0, DAYS - 1), st.integers(1, 40))
def test_fast_poll_needs_ten_days_of_posting(days: int, per_hour: int) -> None:
    """One day missing of ten is one hour in the mean: five minutes and more instead of two."""
    assert forecast_interval(posting({12}, per_hour, days), NOW + 2 * HOUR) >= (9 * 120 + 3600) / 10 - 0.01


def test_ten_days_of_posting_earn_the_fast_poll() -> None:
    history = posting({12}, 30, DAYS)
    assert forecast_interval(history, NOW + 2 * HOUR) == pytest.approx(120)
    assert 120 <= delay(history, NOW + 2 * HOUR) <= 132


@given(st.integers(1, 60))
def test_a_burst_of_one_day_earns_nothing_much(per_hour: int) -> None:
    assert forecast_interval(posting({12}, per_hour, 1), NOW + 2 * HOUR) >= (9 * 3600 + 120) / 10 - 0.01


def test_entries_of_one_moment_are_one_arrival() -> None:
    at = NOW - DAY
    assert seed([at] * 500, NOW) == seed([at], NOW)


def test_night_drifts_back_to_hourly() -> None:
    """The feed stops: each day without entries moves every hour towards an hour, after ten it is there."""
    history = posting({12}, 30, DAYS)
    pace = [forecast_interval(history, NOW + 2 * HOUR + after * DAY) for after in range(DAYS + 2)]
    assert pace == sorted(pace)
    assert pace[0] == pytest.approx(120)
    assert pace[-2:] == [3600, 3600]
    assert len(set(pace)) == DAYS + 1


def test_night_is_hourly_while_the_day_is_fast() -> None:
    midnight = NOW.replace(hour=0)
    forecasts = forecast_day(posting(set(range(8, 20)), 30, DAYS), midnight)
    assert forecasts == pytest.approx([3600] * 8 + [120] * 12 + [3600] * 4)


def test_running_hour_is_recomputed_at_each_update() -> None:
    history, pace = posting({10}, 5, DAYS), []
    for minute in range(0, 60, 4):
        now = NOW + dt.timedelta(minutes=minute)
        history = record_arrivals(history, [now], now)
        pace.append(forecast_interval(history, now))
    assert pace == sorted(pace, reverse=True)
    assert pace[0] == pytest.approx(600)
    assert pace[-1] == pytest.approx((9 * 600 + 3600 / 16) / 10)


# -- the history


@given(anything, st.lists(moments, max_size=50), now_times)
def test_history_round_trip_and_size(history: History, more: list[dt.datetime], now: dt.datetime) -> None:
    found = record_arrivals(history, more, now)
    packed = found.pack()
    assert History.unpack(packed) == History.from_doc(packed) == found
    assert len(packed) <= 170
    document = found.to_doc()
    assert History.from_doc(document) == found
    assert all(isinstance(row, int) and row < 1 << 63 for row in document.get("rows", []))


def test_history_stays_small_when_it_is_full() -> None:
    history = posting(set(range(24)), 60, DAYS + 5)
    assert len(history.rows) <= DAYS + 1
    assert len(history.pack()) <= 170


@given(anything, now_times)
def test_nothing_new_changes_nothing(history: History, now: dt.datetime) -> None:
    assert record_arrivals(history, [], now) is history
    assert record_arrivals(history, [now - 20 * DAY, now - 400 * DAY], now) is history


@given(st.lists(moments, max_size=60, unique=True), st.integers(0, 60))
def test_seed_is_what_recording_would_have_made(times: list[dt.datetime], cut: int) -> None:
    """Hour by hour the same table, as long as no arrival is cut in two."""
    times = sorted({t.replace(minute=t.minute // 2 * 2, second=0, microsecond=0) for t in times})
    history = record_arrivals(seed(times[:cut], NOW), times[cut:], NOW)
    assert forecast_day(history, NOW) == forecast_day(seed(times, NOW), NOW)


def test_seed_leaves_out_what_is_older_than_ten_days_or_ahead() -> None:
    assert seed([NOW - 11 * DAY, NOW + DAY], NOW) == EMPTY
    assert seed([], NOW) == EMPTY
    assert EMPTY.to_doc() == {}
    assert History.from_doc(None) is EMPTY


def test_entry_from_the_future_arrived_now() -> None:
    assert record_arrivals(EMPTY, [NOW + 300 * DAY], NOW) == record_arrivals(EMPTY, [NOW], NOW)


def test_clock_set_back_keeps_the_history_usable() -> None:
    history = record_arrivals(EMPTY, [NOW], NOW)
    earlier = record_arrivals(history, [NOW - 2 * DAY], NOW - 2 * DAY)
    assert earlier.day == schedule.EMPTY.day + (NOW - 2 * DAY - dt.datetime(1970, 1, 1, tzinfo=UTC)).days
    assert forecast_interval(earlier, NOW - 2 * DAY) < 3600


def test_times_count_in_utc_whatever_their_offset() -> None:
    india = dt.timezone(dt.timedelta(hours=5, minutes=30))
    assert seed([(NOW - DAY).astimezone(india)], NOW.astimezone(india)) == seed([NOW - DAY], NOW)


# -- the plan


@given(anything, now_times, hints, st.integers())
def test_plan_is_never_in_the_past_and_never_for_good(
    history: History, now: dt.datetime, told: Hints, luck: int
) -> None:
    ahead = plan(history, now, told, LIMITS, rng=random.Random(luck)).next_check_at - now
    assert dt.timedelta(seconds=120) <= ahead <= dt.timedelta(hours=24) * 1.1


@given(anything, now_times, hints, st.integers())
def test_healthy_feed_is_asked_within_two_minutes_and_an_hour(
    history: History, now: dt.datetime, told: Hints, luck: int
) -> None:
    told = told._replace(errors=0, pushed=False, unread_days=29, retry_after=None)
    ahead = plan(history, now, told, LIMITS, rng=random.Random(luck)).next_check_at - now
    assert dt.timedelta(seconds=120) <= ahead <= HOUR


@given(anything, now_times, hints, hints, st.integers())
def test_hints_only_put_off(history: History, now: dt.datetime, told: Hints, more: Hints, luck: int) -> None:
    """With the same luck, a larger floor, more skipped hours or a longer rest never mean earlier."""
    told = told._replace(errors=0)
    larger = Hints(
        max_age=max(told.max_age or 0, more.max_age or 0),
        ttl_minutes=max(told.ttl_minutes or 0, more.ttl_minutes or 0),
        skip_hours=told.skip_hours | more.skip_hours,
        retry_after=max(told.retry_after or 0, more.retry_after or 0),
        pushed=told.pushed or more.pushed,
        unread_days=max(told.unread_days, more.unread_days),
    )
    first = plan(history, now, told, LIMITS, rng=random.Random(luck)).next_check_at
    assert plan(history, now, larger, LIMITS, rng=random.Random(luck)).next_check_at >= first


@given(anything, now_times)
def test_hour_borders_are_stepped_through(history: History, now: dt.datetime) -> None:
    """The wait is where the paces of the hours it crosses add up to one entry."""
    planned = plan(history, now, Hints(), LIMITS, rng=NoJitter()).next_check_at
    at, share = now, 0.0
    while at < planned:
        end = min(at.replace(minute=0, second=0, microsecond=0) + HOUR, planned)
        share += (end - at).total_seconds() / forecast_interval(history, at)
        at = end
    assert share == pytest.approx(1, abs=1e-6)


def test_fast_hour_ahead_is_not_slept_through() -> None:
    """At 11:50 of a silent hour the next look is minutes after 12:00, not at 12:50."""
    history = posting({12}, 30, DAYS)
    now = NOW + HOUR + dt.timedelta(minutes=50)
    assert 600 < delay(history, now) < 600 + 150


def test_slow_hour_ahead_stretches_the_rest_only() -> None:
    history = posting({12}, 30, DAYS)
    now = NOW + 2 * HOUR + dt.timedelta(minutes=59)
    assert 120 < delay(history, now) <= (60 + 1800) * 1.1


def test_jitter_is_at_most_a_tenth_and_spreads() -> None:
    history = posting({10, 11}, 5, DAYS)
    delays = [delay(history, luck=luck) for luck in range(300)]
    assert 540 <= min(delays) < 550
    assert 650 < max(delays) <= 660
    assert len(set(delays)) > 290


@pytest.mark.parametrize(
    ("told", "seconds", "why"),
    [
        ({}, (120, 132), "hour_table"),
        ({"max_age": 900}, (900, 990), "asked"),
        ({"ttl_minutes": 30}, (1800, 1980), "asked"),
        ({"max_age": 900, "ttl_minutes": 30}, (1800, 1980), "asked"),
        ({"max_age": 31_536_000}, (3600, 3600), "asked"),
        ({"max_age": 60}, (120, 132), "hour_table"),
        ({"skip_hours": frozenset({10})}, (3600, 3600), "skip_hours"),
        ({"skip_hours": frozenset({11})}, (120, 132), "hour_table"),
        ({"skip_hours": frozenset(range(24))}, (3600, 3600), "skip_hours"),
        ({"pushed": True}, (6 * 3600 * 0.9, 6 * 3600 * 1.1), "pushed"),
        ({"unread_days": 29}, (120, 132), "hour_table"),
        ({"unread_days": 30}, (24 * 3600 * 0.9, 24 * 3600 * 1.1), "unread"),
        ({"unread_days": 30, "pushed": True}, (24 * 3600 * 0.9, 24 * 3600 * 1.1), "unread"),
        ({"errors": 1}, (300, 330), "errors"),
        ({"errors": 1, "pushed": True}, (6 * 3600 * 0.9, 6 * 3600 * 1.1), "pushed"),
        ({"retry_after": 7200}, (7200, 7200), "retry_after"),
        ({"errors": 1, "retry_after": 7200}, (7200, 7200), "retry_after"),
        ({"errors": 6, "retry_after": 60}, (300 * 32 * 0.9, 300 * 32 * 1.1), "errors"),
        ({"retry_after": 10**9}, (86400, 86400), "retry_after"),
    ],
)  # fmt: skip
def test_what_each_hint_does(told: dict[str, Any], seconds: tuple[float, float], why: str) -> None:
    history = posting({9, 10, 11}, 30, DAYS)
    low, high = seconds
    assert all(low <= delay(history, luck=luck, **told) <= high for luck in range(50))
    assert reason(history, **told) == why


@given(st.integers(1, 10_000), st.integers())
def test_error_back_off_doubles_to_a_day(errors: int, luck: int) -> None:
    expected = 300 * 2 ** min(errors - 1, 20)
    waited = delay(EMPTY, luck=luck, errors=errors)
    assert max(300, min(0.9 * expected, 0.9 * 86400)) <= waited <= min(1.1 * expected, 86400)


def test_limits_come_from_the_settings() -> None:
    settings = Settings(poll_min=60, poll_max=600, error_backoff_min=10, poll_push=999, poll_unread=5000)
    limits = Limits.from_settings(settings)
    wait = plan(EMPTY, NOW, Hints(max_age=9999), limits, rng=random.Random(1)).next_check_at - NOW
    assert limits == Limits(60, 600, 999, 5000, 10, 86400)
    assert wait == dt.timedelta(minutes=10)


def test_longer_limit_lets_silent_hours_wait_longer() -> None:
    limits = Limits(poll_max=4 * 3600)
    history = posting({12}, 29, DAYS)
    assert plan(EMPTY, NOW, Hints(), limits, rng=random.Random(4)).next_check_at - NOW > 3 * HOUR
    assert plan(history, NOW, Hints(), limits, rng=random.Random(4)).next_check_at - NOW < 2.5 * HOUR


# -- the corpus


def test_every_dated_feed_of_the_corpus_gets_a_plan() -> None:
    """Real posting times, as the manifest's feeds publish them, at the moment of their last entry."""
    checked = 0
    for row in corpus.genuine_feeds():
        try:
            feed = parse(row.read(), url="http://example.org/feed")
        except ParseError:
            continue
        dates = [entry.published for entry in feed.entries if entry.published]
        if not dates:
            continue
        now = min(max(dates), NOW)
        history = seed(dates, now)
        assert all(120 <= seconds <= 3600 for seconds in forecast_day(history, now)), row
        assert 120 <= delay(history, now) <= 3600, row
        assert len(history.pack()) <= 170, row
        checked += 1
    assert checked > 100
