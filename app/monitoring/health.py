"""Whether settings, disk, stores and processes are well, and if not, what to do: for doctor and admins."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterable, Iterator
from typing import Any

import pymongo
import redis
from pymongo.errors import OperationFailure, PyMongoError
from redis.backoff import NoBackoff
from redis.exceptions import RedisError
from redis.retry import Retry

from app import embedded
from app.config import Settings
from app.embedded import programs
from app.feeds.websub import subscriber
from app.mappers.mongo import indexes
from app.models.jobs import redis_keys
from app.models.operations.check_result import CheckResult, Severity
from app.models.transactions import ABANDONED_SECONDS, SERVER_PARAMETER
from app.runtime import redis_errors

#: Below so much free space the word is "warn"; MongoDB stops writing when there is none.
_ROOM = 1 << 30
#: First releases in which a script cannot run foreign code (CVE-2025-49844), by line of releases.
_REDIS_MENDED: dict[programs.Version, int] = {(6, 2): 20, (7, 2): 11, (7, 4): 6, (8, 0): 4, (8, 2): 2}
#: What an empty file must be able to grow to, in bytes.
_PROBE = 1 << 20
_PROCESSES = ("manager", "controller", "updater")
_TIMEOUT_MS = 3000


def run_checks(settings: Settings) -> Iterator[CheckResult]:
    """Run all checks one after the other; none of them changes anything. Stores get three seconds each."""
    yield from check_settings(settings)
    yield check_websub(settings)
    yield from check_disk(settings)
    yield from check_mongodb(settings)
    yield from check_redis(settings)


def check_settings(settings: Settings) -> Iterator[CheckResult]:
    """Look for settings that fit each by itself and not together."""
    shared = not settings.base_url and settings.host not in ("127.0.0.1", "::1", "localhost")
    if shared:
        text = "EVENTR_BASE_URL is empty although others can reach this server: set its public address."
        yield CheckResult("settings", Severity.WARN, text)
    elif settings.base_url.startswith("http://") and "//127.0.0.1" not in settings.base_url:
        text = "EVENTR_BASE_URL is http: passwords travel in the open; put a proxy with TLS in front."
        yield CheckResult("settings", Severity.WARN, text)
    else:
        yield CheckResult("settings", Severity.OK, "All settings fit.")


def check_websub(settings: Settings) -> CheckResult:
    """Say whether feeds are subscribed at hubs, and whether hubs can answer."""
    origin = settings.own_origin
    if settings.websub == "off":
        return CheckResult("websub", Severity.OK, "Feeds are polled only (EVENTR_WEBSUB=off).")
    if subscriber.is_reachable(settings.base_url):
        text = f"Feeds are subscribed at their hubs, which call {origin}/websub/…."
        return CheckResult("websub", Severity.OK, text)
    if settings.websub == "on":
        text = f"EVENTR_WEBSUB is on, but {origin} is not of the internet: only hubs beside it can call it."
        return CheckResult("websub", Severity.WARN, text)
    text = f"Hubs cannot reach {origin}, so feeds are polled only; EVENTR_BASE_URL names a public address."
    return CheckResult("websub", Severity.OK, text)


def check_disk(settings: Settings) -> Iterator[CheckResult]:
    """Look at the home: writable, and room on its disk."""
    there = home = embedded.Layout.from_settings(settings).home
    try:
        there = next(folder for folder in (home, *home.parents) if folder.exists())
        with tempfile.TemporaryFile(dir=there) as file:
            usage = shutil.disk_usage(there)
            file.write(bytes(_PROBE))
            file.flush()
    except OSError as e:
        text = (
            f"{there} cannot be written to ({e.strerror}): make room, make it writable, or set EVENTR_HOME."
        )
        yield CheckResult("disk", Severity.FAIL, text)
        return
    word = Severity.OK if usage.free > max(_ROOM, usage.total // 50) else Severity.WARN
    advice = "" if word is Severity.OK else ": make room before the stores stop"
    yield CheckResult("disk", word, f"{usage.free / (1 << 30):.1f} GiB free at {home}{advice}.")


def check_mongodb(settings: Settings) -> Iterator[CheckResult]:
    """Look at MongoDB: does it answer, is it new enough and a replica set, are the indexes there?"""
    try:
        with pymongo.MongoClient[dict[str, Any]](
            settings.mongodb_uri, serverSelectionTimeoutMS=_TIMEOUT_MS
        ) as client:
            version = tuple(client.server_info()["versionArray"][:3])
            yield _version("mongodb", programs.MONGOD, version)
            direct = client.topology_description.topology_type_name == "Single"
            yield _replica_set(client.admin.command("hello"), direct=direct)
            yield _transactions(client)
            yield _indexes(settings, client)
    except (PyMongoError, ValueError) as e:
        text = f"It does not answer ({shorten_error(e)}): start 'eventr up', or check EVENTR_MONGODB_URI."
        yield CheckResult("mongodb", Severity.FAIL, text)


def _version(check: str, wanted: programs.ProgramRequirement, version: programs.Version) -> CheckResult:
    if version < wanted.min_version:
        oldest = programs.format_version(wanted.min_version)
        text = f"Version {programs.format_version(version)} is too old: {oldest} is the oldest."
        return CheckResult(check, Severity.FAIL, text)
    return CheckResult(check, Severity.OK, f"{wanted.title} {programs.format_version(version)} answers.")


def _replica_set(hello: dict[str, Any], *, direct: bool) -> CheckResult:
    if direct and len(hello.get("hosts", ())) > 1:
        text = "One server of the set is asked whoever leads it: take directConnection out of the address."
        return CheckResult("mongodb", Severity.WARN, text)
    if "setName" in hello or hello.get("msg") == "isdbgrid":
        return CheckResult("mongodb", Severity.OK, "It is a replica set or cluster.")
    text = "It is a lone server: transactions need a replica set (mongod --replSet, then rs.initiate())."
    return CheckResult("mongodb", Severity.FAIL, text)


def _transactions(client: pymongo.MongoClient[Any]) -> CheckResult:
    wanted = f"start mongod with --setParameter {SERVER_PARAMETER}={ABANDONED_SECONDS}"
    try:
        seconds = int(client.admin.command({"getParameter": 1, SERVER_PARAMETER: 1})[SERVER_PARAMETER])
    except OperationFailure:
        # This user may not ask, or it is a mongos, which has no such parameter.
        text = f"How long dead transactions live cannot be seen from here: {wanted}."
        return CheckResult("mongodb", Severity.OK, text)
    if seconds <= ABANDONED_SECONDS:
        return CheckResult("mongodb", Severity.OK, f"Transactions of dead processes end after {seconds} s.")
    text = f"A process that dies can hold a feed for {seconds * 3 // 2} s: {wanted}."
    return CheckResult("mongodb", Severity.WARN, text)


def _indexes(settings: Settings, client: pymongo.MongoClient[Any]) -> CheckResult:
    absent = indexes.find_missing_indexes(client[settings.mongodb_name])
    if not absent:
        return CheckResult("indexes", Severity.OK, "All indexes are there.")
    text = f"Missing: {', '.join(absent[:5])}; the next start of 'eventr web' or 'eventr up' makes them."
    return CheckResult("indexes", Severity.WARN, text)


def check_redis(settings: Settings) -> Iterator[CheckResult]:
    """Look at Redis: does it answer, does it keep what it is given, do our processes live?"""
    try:
        with redis.Redis.from_url(
            settings.redis_url,
            socket_timeout=_TIMEOUT_MS / 1000,
            retry=Retry(NoBackoff(), 0),
            decode_responses=True,
        ) as client:
            info = client.info()
            yield _redis_version(info)
            yield _durability(info)
            refusal = _refusal(client)
            if refusal:
                yield refusal
            yield from _processes(client, mute=refusal is not None)
    except (RedisError, ValueError) as e:
        text = f"It does not answer ({shorten_error(e)}): start 'eventr up', or check EVENTR_REDIS_URL."
        yield CheckResult("redis", Severity.FAIL, text)


def _redis_version(info: dict[str, Any]) -> CheckResult:
    version = tuple(int(part) for part in str(info["redis_version"]).split(".")[:3])
    line, patch = version[:2], version[2]
    if (
        version < programs.REDIS.min_version
        or line > max(_REDIS_MENDED)
        or patch >= _REDIS_MENDED.get(line, 1 << 16)
    ):
        return _version("redis", programs.REDIS, version)
    text = (
        f"Redis {programs.format_version(version)} answers; scripts of whoever may connect could break out "
        "of it (CVE-2025-49844): let nobody else connect, or use a newer one."
    )
    return CheckResult("redis", Severity.WARN, text)


def _durability(info: dict[str, Any]) -> CheckResult:
    if not info.get("aof_enabled"):
        text = (
            "It keeps no append-only file: a crash loses queued work until it is due again (appendonly yes)."
        )
        return CheckResult("redis", Severity.WARN, text)
    if info.get("maxmemory_policy", "noeviction") != "noeviction":
        text = "It evicts keys when memory is short, and so loses jobs: set maxmemory-policy noeviction."
        return CheckResult("redis", Severity.FAIL, text)
    return CheckResult("redis", Severity.OK, "It keeps an append-only file and evicts nothing.")


def _refusal(client: redis.Redis) -> CheckResult | None:
    try:
        client.set(redis_keys.PROBE, "", xx=True)
    except redis.ResponseError as e:
        outage = redis_errors.describe_outage(e)
        text = f"It refuses to write ({outage}): make room on its disk, its log says more."
        return CheckResult("redis", Severity.FAIL, text)
    return None


def _processes(client: redis.Redis, *, mute: bool) -> Iterable[CheckResult]:
    for name in _PROCESSES:
        count = sum(1 for _ in client.scan_iter(match=redis_keys.make_alive_key(name, "*"), count=1000))
        if count:
            yield CheckResult("processes", Severity.OK, f"{name} lives ({count}).")
        elif mute:
            text = f"Whether a {name} lives cannot be told: it signs in Redis, which refuses to write."
            yield CheckResult("processes", Severity.WARN, text)
        else:
            text = f"No {name} gives a sign of life: start 'eventr up' or 'eventr {name}'."
            yield CheckResult("processes", Severity.WARN, text)


def shorten_error(error: Exception) -> str:
    """Return the first part of a driver's message; the rest is its own state."""
    if isinstance(error, ValueError):
        return "the address cannot be read"  # its own words quote what may be a password
    return str(error).split(",")[0].split(" (configured")[0][:200]
