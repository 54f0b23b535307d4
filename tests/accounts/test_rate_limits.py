"""Successes between failures buy no further tries (W06); a longer password is another one (W05)."""

from __future__ import annotations

import contextlib
import dataclasses
import threading
from concurrent.futures import ThreadPoolExecutor, as_completed

import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from app.adapters.redis.rate_limit import MemoryLimiter, RedisLimiter
from app.bootstrap.services import Services
from app.config import Settings
from app.errors import AuthRequiredError, RateLimitedError
from app.services.accounts.passwords import MAX_LENGTH, Hasher
from app.services.accounts.sign_in import Client, Device
from tests.conftest import Eventually
from tests.support.reader import PASSWORD, add_user

HERE = Client("192.0.2.7")


def _tries(services: Services, count: int) -> None:
    for _ in range(count):
        assert services.limiter.count_try(f"login:{HERE.network}", Settings().login_per_network, 900) == 0


def test_W06_an_account_of_ones_own_buys_no_tries_at_others(services: Services) -> None:
    add_user(services, "eve")
    _tries(services, Settings().login_per_network - 3)
    for number in range(3):
        services.sign_in.log_in("eve", PASSWORD, HERE)
        with pytest.raises(AuthRequiredError):
            services.sign_in.log_in(f"victim{number}", "wrong password", HERE)
    with pytest.raises(RateLimitedError):
        services.sign_in.log_in("victim", "wrong password", HERE)


def test_W06_log_ins_that_succeed_count_for_nothing(services: Services) -> None:
    add_user(services, "ann")
    _tries(services, Settings().login_per_network - 2)
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


# -- logins behind an address that others have used up
def _exhaust(services: Services, kind: str = "login") -> None:
    for _ in range(Settings().login_per_network):
        assert services.limiter.count_try(f"{kind}:{HERE.network}", Settings().login_per_network, 900) == 0
    assert services.limiter.count_try(f"{kind}:{HERE.network}", Settings().login_per_network, 900) > 0


def test_W06_a_right_password_passes_the_count_of_its_network(services: Services) -> None:
    add_user(services, "ann")
    _exhaust(services)
    for _ in range(3):
        assert services.sign_in.log_in("ann", PASSWORD, HERE)


def test_W06_beyond_the_count_of_a_network_each_account_has_one_guess(services: Services) -> None:
    add_user(services, "ann")
    _exhaust(services)
    with pytest.raises(RateLimitedError):
        services.sign_in.log_in("ann", "wrong password", HERE)
    with pytest.raises(RateLimitedError):
        services.sign_in.log_in("ann", PASSWORD, HERE)


def test_W06_a_known_browser_has_a_count_of_its_own(services: Services) -> None:
    ann, bob = add_user(services, "ann"), add_user(services, "bob")
    _exhaust(services)
    for _ in range(services.settings.login_failures):
        with pytest.raises((AuthRequiredError, RateLimitedError)):
            services.sign_in.log_in("ann", "wrong password", HERE)
    known = dataclasses.replace(HERE, device=Device(ann.user_id, "a" * 32))
    assert services.sign_in.log_in("ann", PASSWORD, known)
    other = dataclasses.replace(HERE, device=Device(bob.user_id, "b" * 32))
    with pytest.raises(RateLimitedError):
        services.sign_in.log_in("ann", PASSWORD, other)


def test_W06_a_known_browser_may_not_guess_forever(services: Services) -> None:
    ann = add_user(services, "ann")
    known = dataclasses.replace(HERE, device=Device(ann.user_id, "a" * 32))
    for _ in range(services.settings.login_failures):
        with pytest.raises(AuthRequiredError):
            services.sign_in.log_in("ann", "wrong password", known)
    with pytest.raises(RateLimitedError):
        services.sign_in.log_in("ann", PASSWORD, known)


def test_W06_an_app_with_its_password_passes_the_count_of_its_network(services: Services) -> None:
    ann = add_user(services, "ann")
    session = services.sign_in.resume(services.sign_in.log_in("ann", PASSWORD, HERE))
    assert session is not None
    _, secret = services.tokens.make_app_password(ann, session[0], "Phone")
    _exhaust(services, "app")
    assert services.tokens.log_in("ann", secret, HERE)
    with pytest.raises(RateLimitedError):
        services.tokens.log_in("ann", "wrong password", HERE)


# -- a flood of logins
def test_W05_a_flood_of_logins_leaves_threads_for_other_pages(
    settings: Settings, eventually: Eventually
) -> None:
    """Four of eight threads may hash or wait for it; further logins are refused at once."""
    hasher = Hasher(dataclasses.replace(settings, web_threads=8))
    busy, release = threading.Semaphore(0), threading.Event()
    verify = hasher._argon.verify

    class Slow:
        def verify(self, stored: str, password: str) -> bool:
            busy.release()
            release.wait()
            return verify(stored, password)

    stored = hasher.hash(PASSWORD)
    hasher._argon = Slow()  # type: ignore[assignment]
    with ThreadPoolExecutor(4) as pool, contextlib.ExitStack() as at_end:
        at_end.callback(release.set)
        tries = [pool.submit(hasher.verify, stored, PASSWORD) for _ in range(4)]
        given_up = as_completed(tries, timeout=30)
        for _ in range(2):
            assert busy.acquire(timeout=30)
        eventually(lambda: hasher._places._value == 0)  # two more wait
        with pytest.raises(RateLimitedError) as refused:
            hasher.verify(stored, PASSWORD)
        assert refused.value.ids["retry_after"] > 0
        # The two that wait give up, although no slot becomes free.
        for _ in range(2):
            assert isinstance(next(given_up).exception(), RateLimitedError)
    outcomes = [type(one.exception()) for one in tries]
    assert (outcomes.count(RateLimitedError), outcomes.count(type(None))) == (2, 2)
    hasher._argon = type(hasher)(settings)._argon
    assert hasher.verify(stored, PASSWORD), "all slots are free again"


def test_W05_a_login_that_found_no_slot_is_no_failure(
    services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_user(services, "ann")
    with monkeypatch.context() as patch:
        patch.setattr(services.hasher, "_places", threading.Semaphore(0))
        for _ in range(services.settings.login_failures + 1):
            with pytest.raises(RateLimitedError, match="Many people are logging in"):
                services.sign_in.log_in("ann", PASSWORD, HERE)
    assert services.sign_in.log_in("ann", PASSWORD, HERE)
