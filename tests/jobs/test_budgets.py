"""Budgets of hosts: tokens in Redis, shared by all; on the real Redis, its clock moved by hand."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import redis

from app.adapters.redis.host_budget import SEVERAL, RedisBudget
from app.config import Settings
from app.errors import SettingsError
from app.models.feeds.hosts import HostRate, HostRates
from app.models.jobs import redis_keys


@pytest.fixture
def settings(settings: Settings) -> Settings:
    # So slow that no token comes back while a test runs.
    return dataclasses.replace(
        settings,
        fetch_host_rate=0.01,
        fetch_host_burst=3,
        fetch_host_rates=("*.big.example=0.02", "free.example=0", "quick.example=200", "*.six.example=0.06"),
    )


@pytest.fixture
def budget(settings: Settings, redis_client: redis.Redis) -> Iterator[RedisBudget]:
    with contextlib.closing(RedisBudget(settings)) as made:
        yield made


def _about(seconds: float) -> Any:
    """Compare with a wait that is measured some moments later; a token takes a hundred seconds."""
    return pytest.approx(seconds, abs=30)


def _pause(budget: RedisBudget, host: str, seconds: float) -> None:
    """Let as many feeds of a host ask for a pause as it takes."""
    for number in range(SEVERAL):
        budget.pause_host(host, seconds, f"https://{host}/{number}")


def _age(client: redis.Redis, key: str, seconds: float) -> None:
    """Let a bucket or a stop be so many seconds older."""
    text: Any = client.get(key)
    client.set(key, " ".join(f"{float(part) - seconds * 1000:.3f}" for part in text.split()))


def test_a_burst_goes_at_once_and_the_rest_one_after_the_other(budget: RedisBudget) -> None:
    waits = budget.take_tokens(["a.example"] * 6)
    assert waits[:3] == [0, 0, 0]
    assert waits[3:] == [pytest.approx(100 * n, abs=1) for n in (1, 2, 3)]
    # Whoever comes next is put behind them: nobody comes back at the same time.
    assert budget.take_tokens(["a.example"]) == [_about(400)]
    assert budget.take_tokens(["b.example"]) == [0]


def test_tokens_come_back_at_the_rate(budget: RedisBudget, redis_client: redis.Redis) -> None:
    budget.take_tokens(["a.example"] * 4)
    _age(redis_client, redis_keys.HOST_RATE + "a.example", 101)
    assert [bool(wait) for wait in budget.take_tokens(["a.example"] * 2)] == [False, True]
    _age(redis_client, redis_keys.HOST_RATE + "a.example", 10_000)
    # Never more than a burst, however long the pause was.
    assert [bool(wait) for wait in budget.take_tokens(["a.example"] * 4)] == [False, False, False, True]


def test_answers_keep_the_order_of_what_was_asked(budget: RedisBudget) -> None:
    hosts = ["a.example", "b.example"] * 5
    waits = budget.take_tokens(hosts)
    for host in set(hosts):
        own = [wait for name, wait in zip(hosts, waits, strict=True) if name == host]
        assert own == sorted(own)
        assert own.count(0) == 3
    assert budget.take_tokens([]) == []


@pytest.mark.parametrize(
    ("hosts", "waits"),
    [
        (["a.example"] * 4 + ["free.example"], [0, 0, 0, _about(100), 0]),
        (["free.example"] + ["a.example"] * 4, [0, 0, 0, 0, _about(100)]),
    ],
)
def test_each_host_of_a_call_has_its_own_rate_and_answer(
    budget: RedisBudget, hosts: list[str], waits: list[Any]
) -> None:
    assert budget.take_tokens(hosts) == waits
    assert budget.take_tokens(["a.example"]) == [_about(200)], "the tokens were taken"


def test_a_rate_that_is_not_a_whole_number_of_milliseconds_loses_no_token(budget: RedisBudget) -> None:
    # A token takes 16,666.67 ms, which is rounded after each of these hosts; the burst is 18.
    *burst, late = budget.take_tokens([f"{n}.six.example" for n in range(19)])
    assert burst == [0] * 18
    assert 1 / 0.06 <= late < 1 / 0.06 + 1, "not before the token is there"


def test_promised_times_are_remembered_longer_than_the_burst(
    budget: RedisBudget, redis_client: redis.Redis
) -> None:
    assert budget.take_tokens(["a.example"] * 13)[-1] == _about(1000)
    ms: Any = redis_client.pttl(redis_keys.HOST_RATE + "a.example")
    assert ms > 900_000


def test_hosts_of_a_row_share_its_rate(budget: RedisBudget) -> None:
    # Twice the rate: a burst of six for all of them together.
    waits = budget.take_tokens([f"{n}.big.example" for n in range(7)])
    assert [bool(wait) for wait in waits] == [False] * 6 + [True]
    assert budget.take_tokens(["big.example"])[0] > 0
    assert budget.take_tokens(["verybig.example"]) == [0]


def test_a_host_without_a_rate_is_asked_as_often_as_one_likes(budget: RedisBudget) -> None:
    assert not any(budget.take_tokens(["free.example"] * 1000))
    assert not any(budget.take_tokens(["127.0.0.1"] * 1000))


def test_people_run_ahead_and_the_updater_pays_back(budget: RedisBudget) -> None:
    assert not any(budget.take_tokens(["a.example"] * 6, urgent=True))
    assert budget.take_tokens(["a.example"], urgent=True)[0] > 0
    assert budget.take_tokens(["a.example"])[0] > 0


def test_a_refused_request_pays_nothing_back(budget: RedisBudget) -> None:
    assert not any(budget.take_tokens(["a.example"] * 6, urgent=True))
    # Three tokens beyond the burst are owed, and the next is one more.
    assert [budget.take_tokens(["a.example"]) for _ in range(2)] == [[_about(400)], [_about(500)]]


def test_a_stopped_host_gets_nothing_until_then(budget: RedisBudget, redis_client: redis.Redis) -> None:
    _pause(budget, "a.example", 600)
    waits = budget.take_tokens(["a.example"] * 3)
    assert waits == [_about(600 + 100 * n) for n in range(3)]
    # One request of a person passes.
    assert budget.take_tokens(["a.example"] * 2, urgent=True) == [0, _about(900)]
    assert budget.take_tokens(["a.example"], urgent=True) == [_about(1000)]
    # So do those of feeds that have just answered, within the host's rate.
    waits = budget.take_tokens(["a.example"] * 5, unpaused=[False, True, True, True, True])
    assert waits == [_about(1100), 0, 0, 0, _about(100)]
    redis_client.delete(redis_keys.HOST_RATE + "a.example")
    # A shorter stop does not end a longer one, and other hosts go on.
    budget.pause_host("a.example", 1, "https://a.example/feed")
    assert budget.take_tokens(["a.example"])[0] > 600
    assert budget.take_tokens(["b.example"]) == [0]
    ms: Any = redis_client.pttl(redis_keys.HOST_STOP + "a.example")
    assert 570_000 < ms <= 600_000
    _age(redis_client, redis_keys.HOST_STOP + "a.example", 601)
    assert budget.take_tokens(["a.example"]) == [0]


def test_a_stop_holds_for_hosts_without_a_rate_and_spares_the_rest_of_a_group(budget: RedisBudget) -> None:
    _pause(budget, "free.example", 60)
    assert budget.take_tokens(["free.example"]) == [_about(60)]
    # Whoever runs one name below a shared one must not silence all the others.
    _pause(budget, "a.big.example", 60)
    assert budget.take_tokens(["a.big.example"]) == [_about(60)]
    assert budget.take_tokens(["b.big.example"]) == [0]


def test_V08_one_address_does_not_silence_its_host(budget: RedisBudget, redis_client: redis.Redis) -> None:
    """Whoever runs one path of a host that many share asks for a day, again and again."""
    for number in range(30):
        budget.pause_host("a.example", 86_400, f"https://a.example/mine/{number % (SEVERAL - 1)}")
    assert budget.find_pauses(["a.example"]) == [0]
    budget.pause_host("a.example", 86_400, "https://a.example/other")
    assert budget.find_pauses(["a.example"]) == [_about(900)]
    # A shorter wish of several is granted as it is.
    _pause(budget, "b.example", 60)
    assert budget.find_pauses(["b.example"]) == [_about(60)]


def test_V08_a_host_whose_feeds_all_ask_rests_for_a_day_at_most(
    budget: RedisBudget, redis_client: redis.Redis
) -> None:
    rests = []
    for n in range(30):
        budget.pause_host("a.example", 10**9, f"https://a.example/{n}")
        rests += budget.find_pauses(["a.example"])
    assert rests[:6] == [0, 0, _about(900), _about(1800), _about(3600), _about(7200)]
    assert rests[-1] == _about(86_400)
    assert redis_client.scard(redis_keys.HOST_ASKS + "a.example") == 20
    # It is forgotten when the rest that was asked for is over.
    assert redis_client.ttl(redis_keys.HOST_ASKS + "a.example") <= 86_400


def test_many_workers_get_together_what_one_would(budget: RedisBudget, settings: Settings) -> None:
    others = [RedisBudget(settings) for _ in range(4)]
    with ThreadPoolExecutor(8) as pool:
        asked = list(pool.map(lambda n: others[n % 4].take_tokens(["a.example"] * 2), range(40)))
    for other in others:
        other.close()
    waits = [wait for answer in asked for wait in answer]
    assert waits.count(0) == 3
    late = sorted(wait for wait in waits if wait)
    # No two of the others come back together.
    assert min(b - a for a, b in itertools.pairwise(late)) > 90


def test_buckets_vanish_when_they_are_full_again(budget: RedisBudget, redis_client: redis.Redis) -> None:
    budget.take_tokens(["quick.example"])
    ms: Any = redis_client.pttl(redis_keys.HOST_RATE + "quick.example")
    assert 0 <= ms <= 6 or ms == -2


def test_without_redis_everything_goes(settings: Settings) -> None:
    away = dataclasses.replace(settings, redis_url="redis://127.0.0.1:1")
    with contextlib.closing(RedisBudget(away)) as budget:
        assert budget.take_tokens(["a.example"] * 9) == [0] * 9
        assert budget.find_pauses(["a.example"]) == [0]
        budget.pause_host("a.example", 5, "https://a.example/feed")


def test_the_closest_row_counts() -> None:
    rates = HostRates(2, 20, ("*.a.example=10", "x.a.example=1", "*.y.a.example=4", "*.example=0"))
    found = {
        name: rates.get_rate(name)
        for name in ("a.example", "x.a.example", "z.y.a.example", "q.a.example", "b.example", "b.test")
    }
    assert found == {
        "a.example": HostRate("*.a.example", 10, 100),
        "x.a.example": HostRate("x.a.example", 1, 10),
        "z.y.a.example": HostRate("*.y.a.example", 4, 40),
        "q.a.example": HostRate("*.a.example", 10, 100),
        "b.example": HostRate("*.example", 0, 0),
        "b.test": HostRate("b.test", 2, 20),
    }


def test_own_hosts_have_no_rate_unless_a_row_names_them() -> None:
    rates = HostRates(2, 20, ("10.0.0.7=1",), ("10.0.0.0/8", "wiki.corp.example:8080"))
    assert rates.get_rate("10.1.2.3").rate == 0
    assert rates.get_rate("::1").rate == 0
    assert rates.get_rate("wiki.corp.example").rate == 0
    assert rates.get_rate("10.0.0.7").rate == 1
    assert rates.get_rate("8.8.8.8").rate == 2


@pytest.mark.parametrize("row", ["a.example", "=5", "a.example=", "a.example=-1", "a.example=x", "a=1e9"])
def test_a_row_that_cannot_be_read_is_refused(row: str) -> None:
    with pytest.raises(SettingsError, match="FETCH_HOST_RATES"):
        Settings(fetch_host_rates=(row,))


def test_the_default_rows_can_be_read() -> None:
    rates = HostRates.from_settings(Settings())
    assert rates.get_rate("some.wordpress.com") == HostRate("*.wordpress.com", 20, 200)
    assert rates.get_rate("www.youtube.com").group == "*.youtube.com"


def test_how_long_hosts_are_left_alone_is_told(budget: RedisBudget) -> None:
    _pause(budget, "a.example", 900)
    budget.take_tokens(["a.example", "b.example"])
    assert budget.find_pauses(["a.example", "b.example", "a.example"]) == [_about(900), 0, _about(900)]
    assert budget.find_pauses([]) == []
