"""Store checks at the start of a process: are the stores responding? Errors name the setting."""

from __future__ import annotations

import pymongo
import redis
from pymongo.errors import PyMongoError
from redis.backoff import NoBackoff
from redis.exceptions import RedisError
from redis.retry import Retry

from app import embedded
from app.config import Settings
from app.errors import StartupError
from app.monitoring.health import shorten_error

_PATIENCE = 5.0


def require_stores(given: Settings) -> Settings:
    """Return the settings with the addresses of responding stores.

    Raises:
        StartupError: a store isn't responding; the message says what to start or which setting to check.
    """
    running = embedded.EmbeddedServers(given)
    for server in running.servers:
        if not server.is_responding():
            title, setting = server.requirement.title, server.requirement.setting
            raise StartupError(f"{title} isn't running. Start everything with 'eventr up', or set {setting}.")
    require_external_stores(given)
    return running.settings


def require_external_stores(settings: Settings) -> None:
    """Check the external stores, the ones with an address in the settings.

    Raises:
        StartupError: as in :func:`require_stores`.
    """
    if settings.mongodb_uri:
        _require_mongodb(settings.mongodb_uri)
    if settings.redis_url:
        _require_redis(settings.redis_url)


def _require_mongodb(uri: str) -> None:
    try:
        with pymongo.MongoClient[dict[str, object]](
            uri, serverSelectionTimeoutMS=int(_PATIENCE * 1000)
        ) as client:
            client.admin.command("ping")
    except (PyMongoError, ValueError) as e:
        raise StartupError(f"MongoDB isn't responding ({shorten_error(e)}). Check EVENTR_MONGODB_URI.") from e


def _require_redis(url: str) -> None:
    try:
        with redis.Redis.from_url(url, socket_timeout=_PATIENCE, retry=Retry(NoBackoff(), 0)) as client:
            client.ping()
    except redis.ResponseError as e:
        raise StartupError(f"Redis reports an error ({shorten_error(e)}). Check the Redis log.") from e
    except (RedisError, ValueError) as e:
        raise StartupError(f"Redis isn't responding ({shorten_error(e)}). Check EVENTR_REDIS_URL.") from e
