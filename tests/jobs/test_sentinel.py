"""Redis by other ways than one plain server: Sentinels, fail-over, TLS."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from pathlib import Path
from typing import Any

import pytest
import redis

from app.adapters.redis.jobs import RedisJobs
from app.config import Settings
from app.errors import SettingsError, StoreError
from app.models.jobs import redis_keys
from app.models.jobs.jobs import Job, Queue, Task
from app.models.jobs.redis_address import SentinelSet, parse_sentinel_url
from app.models.operations.check_result import Severity
from app.monitoring import health
from app.runtime import redis_connections as connections
from tests.support import redis_set
from tests.support.redis_set import RedisSet

CERTIFICATE = Path(redis_set.__file__).parent / "tls" / "cert.pem"


@pytest.fixture
def settings(settings: Settings, redis_group: RedisSet) -> Settings:
    return dataclasses.replace(settings, redis_url=redis_group.url(), redis_replicas=1)


def _job(key: int) -> Job:
    return Job(Task.EFFECT, {"keys": [key]}, Queue.PULL)


def test_an_address_of_sentinels_is_read_whole() -> None:
    found = parse_sentinel_url(
        "rediss+sentinel://ann:p%40ss@a.example,[::1]:7000/main/3?sentinel_password=x&ssl_ca_certs=/ca.pem"
    )
    assert found == SentinelSet(
        (("a.example", 26379), ("::1", 7000)),
        "main",
        "rediss://ann:p%40ss@a.example/3?ssl_ca_certs=%2Fca.pem",
        {"password": "x"},
    )


@pytest.mark.parametrize(
    ("url", "word"),
    [
        ("redis+sentinel://a:1,b:2", "name of the set"),
        ("redis+sentinel://a:1/main/x", "a number"),
        ("redis+sentinel://:1,b:2/main", "host name"),
        ("sentinel://a/main", "must start with"),
    ],
)
def test_a_setting_says_what_an_address_lacks(url: str, word: str) -> None:
    with pytest.raises(SettingsError, match=word):
        Settings.from_env({"EVENTR_REDIS_URL": url})


def test_clients_follow_the_primary(redis_group: RedisSet) -> None:
    client = connections.connect(redis_group.url(), socket_timeout=2)
    client.set("a", "1")
    with redis_group.connect(redis_group.servers[0]) as first:
        assert first.get("a") == b"1"
        assert first.wait(2, 5000) == 2
    redis_group.fail_over()
    redis_set.wait_until(lambda: _try_get(client) == b"1")
    client.set("a", "2")

    async def read() -> Any:
        other = connections.connect_async(redis_group.url(), socket_timeout=2)
        try:
            return await other.get("a")
        finally:
            await other.aclose()

    assert asyncio.run(read()) == b"2"
    client.close()


def _try_get(client: redis.Redis) -> object:
    with contextlib.suppress(redis.RedisError):
        return client.get("a")
    return None


def test_a_primary_that_comes_back_as_a_replica_gets_no_writes(redis_group: RedisSet) -> None:
    old = redis_group.find_primary()
    client = connections.connect(redis_group.url(), socket_timeout=2)
    client.set("a", "1")
    redis_group.fail_over()
    redis_group.start(old)
    redis_set.wait_until(redis_group.is_whole)
    with redis_group.connect(old) as back:
        redis_set.wait_until(lambda: _try_set(client, "2"))
        redis_set.wait_until(lambda: back.get("a") == b"2")
    client.close()


def _try_set(client: redis.Redis, value: str) -> bool:
    with contextlib.suppress(redis.RedisError):
        return bool(client.set("a", value))
    return False


def test_a_job_counts_as_queued_when_a_replica_has_it(redis_group: RedisSet, settings: Settings) -> None:
    with contextlib.closing(RedisJobs(settings)) as jobs:
        ticket = jobs.enqueue(_job(1))
        with contextlib.ExitStack() as stack:
            replicas = [stack.enter_context(redis_group.connect(port)) for port in redis_group.servers[1:]]
            assert any(client.exists(redis_keys.make_job_key(ticket.id)) for client in replicas)
        for port in redis_group.servers[1:]:
            redis_group.stop(port)
        with pytest.raises(StoreError):
            jobs.enqueue(_job(2))
        loose = dataclasses.replace(settings, redis_replicas=0)
        with contextlib.closing(RedisJobs(loose)) as others:
            assert others.enqueue(_job(3)).fresh


def _quoted() -> str:
    return "a%20word%3A%20with%2Fsigns"


def test_the_doctor_counts_replicas(redis_group: RedisSet, settings: Settings) -> None:
    def ask(replicas: int) -> list[Severity]:
        asked = dataclasses.replace(settings, redis_replicas=replicas)
        return [found.word for found in health.check_redis(asked) if found.check == "redis_replicas"]

    assert (ask(0), ask(1), ask(2), ask(3)) == ([Severity.WARN], [], [], [Severity.FAIL])


def test_tls_is_checked(redis_group: RedisSet) -> None:
    with redis_set.tls_door(redis_group.servers[0]) as port:
        place = f"rediss://:{_quoted()}@127.0.0.1:{port}/0?ssl_check_hostname=false"
        with connections.connect(f"{place}&ssl_ca_certs={CERTIFICATE}", socket_timeout=5) as client:
            assert client.ping()
        with connections.connect(place, socket_timeout=5) as client, pytest.raises(redis.ConnectionError):
            client.ping()


def test_tls_holds_for_sentinels_and_servers(redis_group: RedisSet) -> None:
    with redis_set.tls_door(redis_group.sentinels[0]) as door:
        place = f"rediss+sentinel://:{_quoted()}@127.0.0.1:{door}/{redis_set.NAME}?ssl_check_hostname=false"
        secure = f"{place}&ssl_ca_certs={CERTIFICATE}&sentinel_password={_quoted()}"
        with connections.connect(secure, socket_timeout=2) as client:
            pool: Any = client.connection_pool
            # The Sentinel answers through TLS; the server, which it names, speaks none here.
            assert pool.get_master_address() == ("127.0.0.1", redis_group.servers[0])
            with pytest.raises((redis.ConnectionError, redis.TimeoutError)):
                client.ping()
