"""Successes between failures buy no further tries (W06); a longer password is another one (W05)."""

from __future__ import annotations

import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from app.adapters.redis.rate_limit import MemoryLimiter, RedisLimiter
from app.bootstrap.services import Services
from app.config import Settings
from app.errors import AuthRequiredError, RateLimitedError
from app.services.accounts.passwords import MAX_LENGTH, Hasher
from app.services.accounts.sign_in import PER_NETWORK, Client
from tests.support.reader import PASSWORD, add_user

HERE = Client("192.0.2.7")


def _tries(services: Services, count: int) -> None:
    for _ in range(count):
        assert services.limiter.count_try(f"login:{HERE.network}", PER_NETWORK, 900) == 0


def test_W06_an_account_of_ones_own_buys_no_tries_at_others(services: Services) -> None:
    add_user(services, "eve")
    _tries(services, PER_NETWORK - 3)
    for number in range(3):
        services.sign_in.log_in("eve", PASSWORD, HERE)
        with pytest.raises(AuthRequiredError):
            services.sign_in.log_in(f"victim{number}", "wrong password", HERE)
    with pytest.raises(RateLimitedError):
        services.sign_in.log_in("victim", "wrong password", HERE)


def test_W06_log_ins_that_succeed_count_for_nothing(services: Services) -> None:
    add_user(services, "ann")
    _tries(services, PER_NETWORK - 2)
    for _ in range(4):
        assert services.sign_in.log_in("ann", PASSWORD, HERE)


@pytest.mark.parametrize("kind", ["redis", "memory"])
def test_W06_what_is_taken_back_opens_no_gate_of_failures(kind: str, redis_client: redis.Redis) -> None:
    limiter = RedisLimiter(redis_client) if kind == "redis" else MemoryLimiter()
    limiter.refund("x", 3)
    for _ in range(5):
        assert limiter.count_try("x", 3, 900) == 0
        limiter.refund("x", 3)
    assert [limiter.count_try("x", 3, 900) for _ in range(3)] == [0, 0, 0]
    assert limiter.count_try("x", 3, 900) > 0
    limiter.refund("x", 3)
    assert [limiter.count_try("x", 3, 900) for _ in range(2)] == [0, 15]


@pytest.mark.parametrize("kind", ["redis", "memory", "away"])
def test_W16_an_attempt_returns_how_many_are_left(kind: str, redis_client: redis.Redis) -> None:
    nobody = redis.Redis(unix_socket_path="nowhere.sock", retry=Retry(NoBackoff(), 0))
    clients = {"redis": redis_client, "away": nobody}
    limiter = MemoryLimiter() if kind == "memory" else RedisLimiter(clients[kind])
    for left in (2, 1, 0):
        counted = limiter.count_request("x", 3, 60)
        assert (counted.wait, counted.left) == (0, left)
        assert 0 < counted.reset <= 60
    refused = limiter.count_request("x", 3, 60)
    assert refused.wait > 0
    assert refused.left == 0


def test_W05_what_is_beyond_the_longest_password_counts_too(settings: Settings) -> None:
    hasher = Hasher(settings)
    longest = "pw" * (MAX_LENGTH // 2)
    stored = hasher.hash(longest)
    assert hasher.verify(stored, longest)
    assert not hasher.verify(stored, longest + "x")
