"""Store checks at the start of a process: are the stores responding? Errors name the setting."""

from __future__ import annotations

import contextlib

import pymongo
import redis
from pymongo.errors import PyMongoError
from redis.backoff import NoBackoff
from redis.exceptions import RedisError
from redis.retry import Retry

from app import embedded
from app.config import Settings
from app.errors import StartupError
from app.mappers.mongo.cells import Cells
from app.mappers.mongo.refusals import describe_refusal
from app.mappers.mongo.store import Store
from app.models.jobs import redis_keys
from app.models.operations.cells import parse_cells
from app.monitoring import health
from app.monitoring.health import shorten_error
from app.runtime import redis_connections as connections
from app.runtime import redis_errors

_PATIENCE = 5.0


def require_stores(given: Settings) -> Settings:
    """Return the settings with the addresses of responding stores.

    Raises:
        StartupError: a store isn't responding, Eventr can't use it, or EVENTR_CELLS is wrong. The message
            says what to do.
    """
    running = embedded.EmbeddedServers(given)
    for server in running.servers:
        if not server.is_responding():
            title, setting = server.requirement.title, server.requirement.setting
            raise StartupError(f"{title} isn't running. Start everything with 'eventr up', or set {setting}.")
    require_external_stores(given)
    _require_cells(running.settings)
    return running.settings


def require_external_stores(settings: Settings) -> None:
    """Check the external stores, the ones with an address in the settings.

    Raises:
        StartupError: as in :func:`require_stores`.
    """
    if settings.mongodb_uri:
        _require_mongodb(settings.mongodb_uri, settings.mongodb_name)
    if settings.redis_url:
        _require_redis(settings.redis_url)


def _require_cells(settings: Settings) -> None:
    addresses = parse_cells(settings.cells)
    with (
        contextlib.closing(Store(settings.mongodb_uri, settings.mongodb_name)) as store,
        contextlib.closing(Cells(store, addresses, settings.mongodb_name)) as cells,
    ):
        cells.check_start()


def _require_mongodb(uri: str, name: str) -> None:
    try:
        with pymongo.MongoClient[dict[str, object]](
            uri, serverSelectionTimeoutMS=int(_PATIENCE * 1000)
        ) as client:
            problem = health.find_mongodb_problem(client, name)
    except (PyMongoError, ValueError) as e:
        problem = describe_refusal(e)
        if problem is None:
            text = f"MongoDB isn't responding ({shorten_error(e)}). Check EVENTR_MONGODB_URI."
            raise StartupError(text) from e
        raise StartupError(problem) from e
    if problem is not None:
        raise StartupError(problem)


def _require_redis(url: str) -> None:
    try:
        with connections.connect(url, socket_timeout=_PATIENCE, retry=Retry(NoBackoff(), 0)) as client:
            client.ping()
            client.exists(redis_keys.PROBE)  # a user may have no right to the data
    except (RedisError, ValueError) as e:
        if problem := redis_errors.describe_refusal(e):
            raise StartupError(problem) from e
        if isinstance(e, redis.ResponseError):
            raise StartupError(f"Redis reports an error ({shorten_error(e)}). Check the Redis log.") from e
        raise StartupError(f"Redis isn't responding ({shorten_error(e)}). Check EVENTR_REDIS_URL.") from e
