"""Health checks of settings, disk, stores and processes, with remedies: for ``eventr doctor`` and admins."""

from __future__ import annotations

import contextlib
import datetime as dt
import shutil
import tempfile
from collections.abc import Collection, Iterable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pymongo
import redis
from pymongo.database import Database
from pymongo.errors import OperationFailure, PyMongoError
from redis.backoff import NoBackoff
from redis.exceptions import RedisError
from redis.retry import Retry

from app import clock, embedded
from app.config import Settings
from app.embedded import known_holes, programs
from app.errors import CellMismatchError, StartupError, StoreError
from app.feeds.websub import subscriber
from app.mappers.feeds.orphans import OrphanMapper
from app.mappers.feeds.retention_budget import RetentionBudgetMapper
from app.mappers.media.blobs import BlobMapper
from app.mappers.media.cleaning import DISK_WALK, CleaningMapper
from app.mappers.media.uploads import UploadMapper
from app.mappers.mongo import indexes, refusals
from app.mappers.mongo.cell_identity import read_identity, require_name, require_unused
from app.mappers.mongo.cell_store import compute_program
from app.mappers.mongo.cells import Cells
from app.mappers.mongo.migrations import table
from app.mappers.mongo.migrations.schema import SchemaMapper
from app.mappers.mongo.store import Store
from app.mappers.operations.disk_space import DiskSpaceMapper
from app.mappers.reading.index_queue import IndexQueueMapper
from app.models.feeds.feed import StandbyState
from app.models.jobs import redis_keys
from app.models.jobs.redis_address import is_sentinel_url
from app.models.media.cleaning import DiskCounts
from app.models.operations.cells import HOME, parse_cells
from app.models.operations.check_result import CheckResult, Severity
from app.models.operations.disk_space import DiskSpace
from app.models.transactions import ABANDONED_SECONDS, SERVER_PARAMETER
from app.runtime import redis_connections as connections
from app.runtime import redis_errors, sockets
from app.runtime.disk import measure_folder

#: Free space below which the result is a warning; MongoDB stops writing on a full disk.
_ROOM = 1 << 30
#: Size to which a test file must be able to grow, in bytes.
_PROBE = 1 << 20
_PROCESSES = ("manager", "controller", "updater")
_TIMEOUT_MS = 3000
#: Minutes after which a standby index that isn't updated, or is behind, is a warning.
_STANDBY_MINUTES = 10


def run_checks(settings: Settings) -> Iterator[CheckResult]:
    """Run all checks in order; no check changes anything. Stores get three seconds each."""
    yield from check_settings(settings)
    yield check_websub(settings)
    yield from check_disk(settings)
    yield from check_mongodb(settings)
    yield from check_redis(settings)
    yield from check_cache(settings)
    yield check_search(settings)
    yield check_pictures()
    yield from check_standby_indexes(settings)
    yield from check_cells(settings)
    yield from check_orphans(settings)


def check_settings(settings: Settings) -> Iterator[CheckResult]:
    """Check for settings that are valid alone but not together."""
    shared = not settings.base_url and settings.host not in ("127.0.0.1", "::1", "localhost")
    if shared:
        text = (
            "EVENTR_BASE_URL is empty, but other machines can reach this server. Set it to "
            "the server's public address."
        )
        yield CheckResult("settings", Severity.WARN, text)
    elif settings.base_url.startswith("http://") and "//127.0.0.1" not in settings.base_url:
        text = (
            "EVENTR_BASE_URL uses http, so passwords are sent unencrypted. Put a proxy with "
            "TLS in front of Eventr."
        )
        yield CheckResult("settings", Severity.WARN, text)
    else:
        yield CheckResult("settings", Severity.OK, "All settings are valid.")


def check_websub(settings: Settings) -> CheckResult:
    """Check whether feeds are subscribed at hubs, and whether hubs can reach us."""
    origin = settings.own_origin
    if settings.websub == "off":
        return CheckResult(
            "websub", Severity.OK, "WebSub is off (EVENTR_WEBSUB=off), so Eventr polls all feeds."
        )
    if subscriber.is_reachable(settings.base_url):
        text = f"WebSub is on. Hubs send updates to {origin}/websub/…."
        return CheckResult("websub", Severity.OK, text)
    if settings.websub == "on":
        text = (
            f"EVENTR_WEBSUB is on, but {origin} isn't an internet address. Only hubs on the "
            "local network can reach it."
        )
        return CheckResult("websub", Severity.WARN, text)
    text = (
        f"Hubs can't reach {origin}, so Eventr polls all feeds. To use WebSub, set "
        "EVENTR_BASE_URL to a public address."
    )
    return CheckResult("websub", Severity.OK, text)


def check_disk(settings: Settings) -> Iterator[CheckResult]:
    """Check the data folder: writable, and with enough free space."""
    there = home = embedded.Layout.from_settings(settings).home
    try:
        there = next(folder for folder in (home, *home.parents) if folder.exists())
        with tempfile.TemporaryFile(dir=there) as file:
            usage = shutil.disk_usage(there)
            file.write(bytes(_PROBE))
            file.flush()
    except OSError as e:
        text = (
            f"Can't write to {there} ({e.strerror}). Free up space, make the folder "
            "writable, or set EVENTR_HOME."
        )
        yield CheckResult("disk", Severity.FAIL, text)
        return
    space = measure_folder(home)
    if space and space.is_short(settings.disk_min_free):
        yield _short(settings, space, str(home))
        return
    word = Severity.OK if usage.free > max(_ROOM, usage.total // 50) else Severity.WARN
    advice = "" if word is Severity.OK else ". Free up space before the databases stop"
    yield CheckResult("disk", word, f"{usage.free / 1e9:.1f} GB free in {home}{advice}.")


def _short(settings: Settings, space: DiskSpace, where: str) -> CheckResult:
    text = (
        f"Only {space.shown_percent} % of the disk of {where} is free, so Eventr fetches and imports "
        f"nothing. Free up space: Eventr continues at {settings.disk_min_free:g} % (EVENTR_DISK_MIN_FREE)."
    )
    return CheckResult("disk", Severity.FAIL, text)


def check_search(settings: Settings) -> CheckResult:
    """Check the search: is its engine installed, and is the index complete?"""
    for package, name in (("tantivy", "tantivy"), ("pystemmer", "Stemmer")):
        if find_spec(name) is None:
            text = (
                f"The package {package} isn't installed, so the search doesn't work as it should. Everything "
                f"else works. Install it with 'pip install {package}'; some platforms have no build of it."
            )
            return CheckResult("search", Severity.WARN, text)
    try:
        with _open_index_queue(settings) as queue:
            state = queue.get_state()
    except (PyMongoError, StoreError, ValueError):
        return CheckResult("search", Severity.WARN, "The state of the search index is unknown.")
    if settings.search == "local" and state.holder and not _is_here(settings, state.holder):
        text = (
            "Another server has the search index. Set EVENTR_SEARCH to its address, or run "
            "'eventr search rebuild' if that server is gone."
        )
        return CheckResult("search", Severity.WARN, text)
    if state.total or state.wanted_at is not None:
        text = f"The search index is being rebuilt: {state.done} of {state.total} feeds."
        return CheckResult("search", Severity.WARN, text)
    if state.is_new:
        return CheckResult("search", Severity.OK, "There is no search index yet. The workers create it.")
    return CheckResult("search", Severity.OK, "The search index is complete.")


def check_pictures() -> CheckResult:
    """Check whether pictures can be drawn."""
    if find_spec("PIL") is None:
        text = (
            "The package pillow isn't installed, so people have no pictures of themselves, and posts can't "
            "have pictures. Pictures of other sites come from these sites. Install it with 'pip install "
            "pillow'."
        )
        return CheckResult("pictures", Severity.WARN, text)
    return CheckResult("pictures", Severity.OK, "Pictures can be drawn.")


def check_standby_indexes(settings: Settings) -> Iterator[CheckResult]:
    """Check each standby index: is it still updated, and does it have all news?"""
    now = clock.now()
    try:
        with _open_index_queue(settings) as queue:
            found = queue.find_standby_states(now)
    except (PyMongoError, StoreError, ValueError):
        return  # the check of the search has said it
    for state in found:
        yield _judge_standby(state, now)


def check_orphans(settings: Settings) -> Iterator[CheckResult]:
    """Report the feeds that nobody subscribes to."""
    try:
        with _open_home(settings) as store:
            count = OrphanMapper(Cells(store, {}, settings.mongodb_name)).count()
    except (PyMongoError, StoreError, ValueError):
        return  # the check of MongoDB has said it, or the one of its indexes
    then = (
        f"Eventr deletes each after {settings.orphan_days:g} days, if nobody marked or shared an entry of it."
        if settings.orphan_days
        else "Eventr keeps them (EVENTR_ORPHAN_DAYS)."
    )
    if count:
        text = (
            f"{count} feeds have no subscribers. {then}"
            if count > 1
            else f"1 feed has no subscribers. {then}"
        )
        yield CheckResult("feeds", Severity.OK, text)


def _judge_standby(state: StandbyState, now: dt.datetime) -> CheckResult:
    minutes = int((now - state.held_at) / dt.timedelta(minutes=1))
    if minutes >= _STANDBY_MINUTES:
        text = (
            f"The standby index of {state.holder} hasn't been updated for {minutes} minutes. Start "
            "'eventr search standby' there."
        )
        return CheckResult("standby", Severity.WARN, text)
    if state.is_building:
        return CheckResult("standby", Severity.WARN, f"The standby index of {state.holder} is being built.")
    if state.is_behind and state.complete_at is not None:
        behind = int((now - state.complete_at) / dt.timedelta(minutes=1))
        late = behind >= _STANDBY_MINUTES
        text = f"The standby index of {state.holder} is {behind} minutes behind."
        return CheckResult("standby", Severity.WARN if late else Severity.OK, text)
    return CheckResult("standby", Severity.OK, f"The standby index of {state.holder} is complete.")


@contextlib.contextmanager
def _open_index_queue(settings: Settings) -> Iterator[IndexQueueMapper]:
    with pymongo.MongoClient[dict[str, Any]](
        settings.mongodb_uri, tz_aware=True, serverSelectionTimeoutMS=_TIMEOUT_MS
    ) as client:
        yield IndexQueueMapper(client[settings.mongodb_name])


def _is_here(settings: Settings, holder: str) -> bool:
    try:
        path = embedded.Layout.from_settings(settings).home / "search_id"
        return path.read_text("ascii", "replace").strip() == holder
    except OSError:
        return False


def check_mongodb(settings: Settings) -> Iterator[CheckResult]:
    """Check MongoDB: is it responding, new enough and a replica set, and do the indexes exist?"""
    try:
        with pymongo.MongoClient[dict[str, Any]](
            settings.mongodb_uri, serverSelectionTimeoutMS=_TIMEOUT_MS
        ) as client:
            version = tuple(client.server_info()["versionArray"][:3])
            yield _version("mongodb", programs.MONGOD, version)
            yield from _mongodb_holes(client, version)
            _look_into(client, settings.mongodb_name)
            direct = client.topology_description.topology_type_name == "Single"
            yield _replica_set(client.admin.command("hello"), direct=direct)
            yield _transactions(client)
            space = DiskSpaceMapper(client[settings.mongodb_name]).measure()
            if space and space.is_short(settings.disk_min_free):
                yield _short(settings, space, "MongoDB")
            yield _schema(client[settings.mongodb_name])
            yield _indexes(settings, client)
            yield from _entry_budget(settings, client[settings.mongodb_name])
            yield from _media(client[settings.mongodb_name])
            yield from _homes(settings, client[settings.mongodb_name])
    except (PyMongoError, StoreError, ValueError) as e:
        text = (
            f"MongoDB isn't responding ({shorten_error(e)}). Start 'eventr up', or check EVENTR_MONGODB_URI."
        )
        yield CheckResult("mongodb", Severity.FAIL, refusals.describe_refusal(e) or text)


def check_cells(settings: Settings) -> Iterator[CheckResult]:
    """Check the replica sets of people's data: do they respond, and is each that has people configured?"""
    addresses = parse_cells(settings.cells)
    used = _find_used_cells(settings)
    for name, uri in addresses.items():
        try:
            with pymongo.MongoClient[dict[str, Any]](uri, serverSelectionTimeoutMS=_TIMEOUT_MS) as client:
                problem = refusals.find_problem(client.admin.command("hello"))
                _look_into(client, settings.mongodb_name)
                problem = problem or _find_cell_problem(client[settings.mongodb_name], name, used)
        except (PyMongoError, StoreError, ValueError) as e:
            problem = refusals.describe_refusal(e) or f"It isn't responding ({shorten_error(e)})."
        if problem is None:
            yield CheckResult("cells", Severity.OK, f"The cell {name} responds.")
        else:
            text = f"The cell {name} can't be used, so its people can't read. {problem}"
            yield CheckResult("cells", Severity.FAIL, text)
    with contextlib.suppress(PyMongoError, StoreError, ValueError), _open_home(settings) as store:
        for name, (people, _) in Cells(store, {}, settings.mongodb_name).places.count_people().items():
            if name != HOME and name not in addresses:
                text = (
                    f"The cell {name} has people ({people}), but EVENTR_CELLS doesn't name it. Add it again."
                )
                yield CheckResult("cells", Severity.FAIL, text)


def _find_used_cells(settings: Settings) -> list[str]:
    with contextlib.suppress(PyMongoError, StoreError, ValueError), _open_home(settings) as store:
        places = Cells(store, {}, settings.mongodb_name).places
        return [name for name in parse_cells(settings.cells) if places.is_used(name)]
    return []  # another check says that the home store isn't responding


def _find_cell_problem(database: Database[Any], name: str, used: Collection[str]) -> str | None:
    """Return why a cell that responds can't be used; None: it can."""
    found = read_identity(database)
    try:
        if found is None:
            require_unused(name, used.__contains__)
        else:
            require_name(found, name)
    except CellMismatchError as e:
        return e.message
    if found is not None and compute_program(table.CELL_MIGRATIONS) in found.prepared:
        return None
    return "It isn't prepared for this version of Eventr. Start the updater, or run 'eventr migrate'."


@contextlib.contextmanager
def _open_home(settings: Settings) -> Iterator[Store]:
    with (
        pymongo.timeout(_TIMEOUT_MS / 1000),
        contextlib.closing(Store(settings.mongodb_uri, settings.mongodb_name)) as store,
    ):
        yield store


def _entry_budget(settings: Settings, database: Database[Any]) -> Iterator[CheckResult]:
    """Compare the number of entries with their budget, if there is one."""
    if not (budget := settings.retention_total):
        return
    rows = RetentionBudgetMapper(database)
    count = rows.count_entries()
    text = f"{count:,} entries of at most {budget:,} (EVENTR_RETENTION_TOTAL)"
    if count <= budget:
        yield CheckResult("entries", Severity.OK, f"{text}.")
    elif rows.get_position().rests_until is None:
        yield CheckResult("entries", Severity.WARN, f"{text}. Eventr is deleting the oldest unopened ones.")
    else:
        yield CheckResult(
            "entries",
            Severity.WARN,
            f"{text}. The rest is new, starred, tagged or shared, or in feeds that were opened lately. "
            "Raise the limit, or lower EVENTR_RETENTION_ENTRIES.",
        )


def _media(database: Database[Any]) -> Iterator[CheckResult]:
    """Check for pictures and files that no store has, and for files that no document names."""
    if lost := BlobMapper(database).count_lost():
        text = (
            f"{lost} pictures or files are in no media store. Restore the store from a backup, then run "
            "'eventr media clean --disk --apply'."
        )
        yield CheckResult("media", Severity.WARN, text)
    last = CleaningMapper(database).find_last(DISK_WALK)
    counts = DiskCounts(*last[0]) if last else DiskCounts()
    if left := counts.strays - counts.deleted:
        text = (
            f"The media stores contain {left} old files that the database doesn't know. Delete them with "
            "'eventr media clean --disk --apply'."
        )
        yield CheckResult("media", Severity.WARN, text)


def _homes(settings: Settings, database: Database[Any]) -> Iterator[CheckResult]:
    """Check that no upload waits in the folder of another server that this one doesn't share."""
    path = settings.home / "media" / "home_id"
    own = path.read_text("ascii").strip() if path.exists() else None
    if UploadMapper(database).find_homes() - {own}:
        text = (
            "Uploads wait in another server's EVENTR_HOME/media. All servers must share this folder, or "
            "workers must run on the server that gets /uploads."
        )
        yield CheckResult("media", Severity.WARN, text)


def find_mongodb_problem(client: pymongo.MongoClient[Any], name: str) -> str | None:
    """Return why Eventr can't use this MongoDB, or None if it can.

    Args:
        name: name of the database.

    Raises:
        PyMongoError: MongoDB isn't responding, or rejects the login.
    """
    found = _version("mongodb", programs.MONGOD, tuple(client.server_info()["versionArray"][:3]))
    if found.word is Severity.FAIL:
        return f"MongoDB can't be used. {found.text}"
    _look_into(client, name)
    return refusals.find_problem(client.admin.command("hello"))


def _look_into(client: pymongo.MongoClient[Any], name: str) -> None:
    # A server that requires a login answers "ping" and "hello" without one.
    client[name]["feeds"].find_one({}, {"_id": 1})


def _version(check: str, wanted: programs.ProgramRequirement, version: programs.Version) -> CheckResult:
    if version < wanted.min_version:
        oldest = programs.format_version(wanted.min_version)
        text = f"Version {programs.format_version(version)} is too old. Eventr needs {oldest} or newer."
        return CheckResult(check, Severity.FAIL, text)
    return CheckResult(check, Severity.OK, f"{wanted.title} {programs.format_version(version)} is running.")


def _mongodb_holes(client: pymongo.MongoClient[Any], version: programs.Version) -> Iterator[CheckResult]:
    # The reply names what both sides can; a server with compression off names nothing.
    offered = client.admin.command({"hello": 1, "compression": ["zlib"]}).get("compression", ())
    yield from known_holes.check_version("mongodb", version, closed="zlib" not in offered)


def _replica_set(hello: dict[str, Any], *, direct: bool) -> CheckResult:
    if direct and len(hello.get("hosts", ())) > 1:
        text = (
            "Eventr always uses the same server of the replica set, even if it isn't the "
            "primary. Remove directConnection from EVENTR_MONGODB_URI."
        )
        return CheckResult("mongodb", Severity.WARN, text)
    if problem := refusals.find_problem(hello):
        return CheckResult("mongodb", Severity.FAIL, problem)
    return CheckResult("mongodb", Severity.OK, "MongoDB runs as a replica set or cluster.")


def _transactions(client: pymongo.MongoClient[Any]) -> CheckResult:
    wanted = f"start mongod with --setParameter {SERVER_PARAMETER}={ABANDONED_SECONDS}"
    try:
        seconds = int(client.admin.command({"getParameter": 1, SERVER_PARAMETER: 1})[SERVER_PARAMETER])
    except OperationFailure:
        # This user may not read it, or the server is a mongos, which doesn't have this parameter.
        text = f"Can't read how long MongoDB keeps abandoned transactions. To limit this, {wanted}."
        return CheckResult("mongodb", Severity.OK, text)
    if seconds <= ABANDONED_SECONDS:
        return CheckResult(
            "mongodb", Severity.OK, f"MongoDB ends the transactions of crashed processes after {seconds} s."
        )
    text = f"A crashed process can block a feed for {seconds * 3 // 2} s. To shorten this, {wanted}."
    return CheckResult("mongodb", Severity.WARN, text)


def _schema(database: Database[dict[str, Any]]) -> CheckResult:
    mapper = SchemaMapper(database)
    version = mapper.get_version()
    try:
        table.require_known(version)
    except StartupError as e:
        return CheckResult("schema", Severity.FAIL, e.message)
    if version == table.VERSION:
        text = f"The database is up to date (schema version {version})."
        return CheckResult("schema", Severity.OK, text)
    if version is None:
        text = "The database is new. The first start of 'eventr web' or 'eventr up' sets it up."
        return CheckResult("schema", Severity.OK, text)
    if holder := mapper.get_holder():
        text = f"{holder} is upgrading the database from schema version {version} to {table.VERSION}."
        return CheckResult("schema", Severity.WARN, text)
    text = (
        f"The database has schema version {version}, but Eventr needs {table.VERSION}. "
        "Stop all processes and run 'eventr migrate'."
    )
    return CheckResult("schema", Severity.WARN, text)


def _indexes(settings: Settings, client: pymongo.MongoClient[Any]) -> CheckResult:
    absent = indexes.find_missing_indexes(client[settings.mongodb_name])
    if not absent:
        return CheckResult("indexes", Severity.OK, "All indexes exist.")
    text = (
        f"Missing indexes: {', '.join(absent[:5])}. The next start of 'eventr web' or "
        "'eventr up' creates them."
    )
    return CheckResult("indexes", Severity.WARN, text)


def check_redis(settings: Settings) -> Iterator[CheckResult]:
    """Check Redis: is it responding, does it keep its data, are our processes running?"""
    try:
        with connections.connect(
            settings.redis_url,
            socket_timeout=_TIMEOUT_MS / 1000,
            retry=Retry(NoBackoff(), 0),
            decode_responses=True,
        ) as client:
            info = client.info()
            yield from _redis_version(settings.redis_url, info)
            yield _durability(info)
            yield from _replication(settings, info)
            yield from _spent_bytes(settings, client)
            refusal = _refusal(client)
            if refusal:
                yield refusal
            yield from _processes(client, mute=refusal is not None)
    except (RedisError, ValueError) as e:
        text = f"Redis isn't responding ({shorten_error(e)}). Start 'eventr up', or check EVENTR_REDIS_URL."
        yield CheckResult("redis", Severity.FAIL, redis_errors.describe_refusal(e) or text)


def _redis_version(url: str, info: dict[str, Any]) -> Iterator[CheckResult]:
    version = tuple(int(part) for part in str(info["redis_version"]).split(".")[:3])
    yield _version("redis", programs.REDIS, version)
    if version >= programs.REDIS.min_version:
        yield from known_holes.check_version("redis", version, closed=_is_only_ours(url, info))


def _is_only_ours(url: str, info: dict[str, Any]) -> bool:
    """Return whether only this user can connect to Redis: by a private socket, and no port."""
    address = urlsplit(url)
    if address.scheme != "unix" or info.get("tcp_port"):
        return False
    try:
        return sockets.is_private(Path(unquote(address.path)))
    except OSError:
        return False


#: Share of Redis's memory from which doctor warns.
_NEARLY_FULL = 0.9


def check_cache(settings: Settings) -> Iterator[CheckResult]:
    """Check the Redis of the change log if it isn't that of the jobs: is it responding, and is it full?"""
    if not settings.cache or not settings.cache_url:
        return
    try:
        with connections.connect(
            settings.cache_url, socket_timeout=_TIMEOUT_MS / 1000, retry=Retry(NoBackoff(), 0)
        ) as client:
            info: Any = client.info("memory")
    except (RedisError, ValueError) as e:
        text = (
            f"The cache's Redis isn't responding ({shorten_error(e)}), so MongoDB answers every read. "
            "Start it, or check EVENTR_CACHE_URL."
        )
        yield CheckResult("cache", Severity.WARN, text)
        return
    policy, limit = info.get("maxmemory_policy", "noeviction"), info.get("maxmemory", 0)
    is_evicting = policy.startswith("allkeys-")  # what the cache stores never expires
    if limit and not is_evicting and info["used_memory"] > _NEARLY_FULL * limit:
        text = (
            f"The cache's Redis is nearly full and evicts nothing of the cache (maxmemory-policy {policy}). "
            "Once it is full, MongoDB answers every read. Raise maxmemory, or let it evict (allkeys-lfu)."
        )
        yield CheckResult("cache", Severity.WARN, text)
        return
    text = "evicts keys when memory is low" if is_evicting else "evicts no keys"
    yield CheckResult("cache", Severity.OK, f"The cache's Redis is responding, and {text} ({policy}).")


def _durability(info: dict[str, Any]) -> CheckResult:
    if not info.get("aof_enabled"):
        text = (
            "Redis doesn't keep an append-only file, so a crash loses queued jobs until "
            "they're due again. Set appendonly yes."
        )
        return CheckResult("redis", Severity.WARN, text)
    if info.get("maxmemory_policy", "noeviction") != "noeviction":
        text = "Redis evicts keys when memory is low, which loses jobs. Set maxmemory-policy noeviction."
        return CheckResult("redis", Severity.FAIL, text)
    return CheckResult("redis", Severity.OK, "Redis keeps an append-only file and doesn't evict keys.")


def _replication(settings: Settings, info: dict[str, Any]) -> Iterator[CheckResult]:
    wanted, found = settings.redis_replicas, info.get("connected_slaves", 0)
    if found < wanted:
        text = (
            f"Redis has {found} replicas, but EVENTR_REDIS_REPLICAS={wanted}: no job can be queued. "
            "Start the replicas, or lower the setting."
        )
        yield CheckResult("redis_replicas", Severity.FAIL, text)
    elif is_sentinel_url(settings.redis_url) and not wanted:
        text = "A fail-over can lose the jobs of its last moments. Set EVENTR_REDIS_REPLICAS=1."
        yield CheckResult("redis_replicas", Severity.WARN, text)


def _spent_bytes(settings: Settings, client: redis.Redis) -> Iterator[CheckResult]:
    limit = settings.fetch_bytes_per_day
    spent: Any = client.hget(f"{redis_keys.BYTES}{clock.now().date().isoformat()}", "all")
    if limit and int(spent or 0) >= limit:
        text = (
            "This server has fetched EVENTR_FETCH_BYTES_PER_DAY today, so feeds rest until midnight UTC. "
            "Raise the setting if this happens often."
        )
        yield CheckResult("fetching", Severity.WARN, text)


def _refusal(client: redis.Redis) -> CheckResult | None:
    try:
        client.set(redis_keys.PROBE, "", xx=True)
    except redis.ResponseError as e:
        if redis_errors.describe_refusal(e):
            raise
        outage = redis_errors.describe_outage(e)
        text = f"Redis rejects writes ({outage}). Free up space on its disk, and check its log."
        return CheckResult("redis", Severity.FAIL, text)
    return None


def _processes(client: redis.Redis, *, mute: bool) -> Iterable[CheckResult]:
    for name in _PROCESSES:
        count = sum(1 for _ in client.scan_iter(match=redis_keys.make_alive_key(name, "*"), count=1000))
        if count:
            text = f"The {name} is running." if count == 1 else f"{count} {name}s are running."
            yield CheckResult("processes", Severity.OK, text)
        elif mute:
            text = f"Can't tell whether the {name} is running, because Redis rejects its heartbeats."
            yield CheckResult("processes", Severity.WARN, text)
        else:
            text = f"The {name} isn't running. Start it with 'eventr up' or 'eventr {name}'."
            yield CheckResult("processes", Severity.WARN, text)


def shorten_error(error: Exception) -> str:
    """Return the first part of a driver's message; the rest is its internal state."""
    if isinstance(error, ValueError):
        return "the address isn't valid"  # its own message may quote a password
    return str(error).split(",")[0].split(" (configured")[0][:200]
