"""What every domain builds on: settings, the database, Redis and the gateways."""

from __future__ import annotations

from app.adapters.media.building import build_stores
from app.adapters.media.store_set import StoreSet
from app.adapters.redis.byte_ledger import RedisByteLedger
from app.adapters.redis.change_log import RedisChangeLog
from app.adapters.redis.events import RedisEvents
from app.adapters.redis.host_budget import RedisBudget
from app.adapters.redis.job_engine import RedisEngine
from app.adapters.redis.jobs import RedisJobs
from app.adapters.redis.later import RedisLater
from app.adapters.redis.place_epoch import RedisPlaceEpoch
from app.adapters.redis.rate_limit import RedisLimiter
from app.adapters.redis.slot import RedisSlot
from app.adapters.redis.stats import RedisStats
from app.adapters.search.local import LocalSearch
from app.bootstrap.stores import Gateways, Mappers
from app.config import Settings
from app.errors import SettingsError
from app.gateways.reading.search_engine import FallbackSearch
from app.mappers.mongo.cells import Cells
from app.mappers.mongo.store import Store
from app.models.cache import CacheKind
from app.models.operations.cells import parse_cells
from app.ports import SearchPort
from app.runtime import redis_connections as connections
from app.runtime.lazy import lazy
from app.services.fetch_budget import FetchBudget
from app.services.free_space import FreeSpace


class Base:
    """The parts that no domain owns. Each is built at its first use; nothing connects before that."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    @lazy
    def store(self) -> Store:
        """The connection to MongoDB."""
        return Store(self.settings.mongodb_uri, self.settings.mongodb_name, self.change_log)

    @lazy
    def change_log(self) -> RedisChangeLog | None:
        """Where processes report what they write, if they keep what they read."""
        return RedisChangeLog(self.settings) if self.settings.cache else None

    @lazy
    def cells(self) -> Cells:
        """The replica sets of people's data; without EVENTR_CELLS, the home store alone."""
        settings = self.settings
        addresses = parse_cells(settings.cells)
        read_epoch = self.place_epoch.read if addresses else None
        get_slot = RedisSlot(settings.redis_url).get_slot if addresses else None
        patience = settings.cell_patience
        return Cells(self.store, addresses, settings.mongodb_name, read_epoch, get_slot, patience=patience)

    @lazy
    def place_epoch(self) -> RedisPlaceEpoch:
        """The number in Redis that tells all processes that a person's place has changed."""
        return RedisPlaceEpoch(self.settings.redis_url)

    def find_public_mark(self) -> object | None:
        """Return an object that is replaced when pages for everyone must change at once; None: unknown."""
        return self.store.cache.find_mark(CacheKind.PUBLIC, "profiles") if self.store.cache else None

    @lazy
    def jobs(self) -> RedisJobs:
        """The port through which jobs are enqueued and awaited."""
        return RedisJobs(self.settings)

    @lazy
    def later(self) -> RedisLater:
        """The port through which delayed tasks are requested."""
        return RedisLater(self.settings)

    @lazy
    def events(self) -> RedisEvents:
        """The port that sends live events to people's browsers."""
        return RedisEvents(self.settings)

    @lazy
    def mappers(self) -> Mappers:
        """For gateways only."""
        return Mappers(self.store, self.cells, self.settings)

    @lazy
    def gateways(self) -> Gateways:
        """For services and tests only."""
        return Gateways(self.store, self.cells, self.mappers, self.media_stores, self.settings)

    @lazy
    def free_space(self) -> FreeSpace:
        """The space on this machine's disk and on MongoDB's."""
        settings = self.settings
        return FreeSpace(settings.home, self.mappers.disk_space.measure, percent=settings.disk_min_free)

    @lazy
    def media_stores(self) -> StoreSet:
        """The stores of pictures and files."""
        return build_stores(self.settings)

    @lazy
    def fetch_budget(self) -> FetchBudget:
        """The bytes that may be fetched per day."""
        ledger = RedisByteLedger(self.settings.redis_url, self.settings.fetch_bytes_per_user)
        return FetchBudget(ledger, self.mappers.subscriptions.find_readers, self.settings)

    @lazy
    def search_index(self) -> LocalSearch:
        """The search index of this server."""
        return LocalSearch(self.settings.home, max_words=self.settings.search_words)

    @lazy
    def search(self) -> SearchPort:
        """The search engine: replace it here to use another one."""
        settings = self.settings
        if settings.search == "local":
            engine: SearchPort = self.search_index
        elif settings.secret_key:
            from app.adapters.search.remote import RemoteSearch  # with msgspec, which workers don't need

            engine = RemoteSearch(settings.search.split(), settings.secret_key)
        else:
            text = "EVENTR_SEARCH names another server. Set EVENTR_SECRET_KEY to the same value on both."
            raise SettingsError(text, setting="secret_key")
        return FallbackSearch(engine, self.gateways.old_search, self.mappers.index_marks)

    @lazy
    def limiter(self) -> RedisLimiter:
        """Rate limits for attempts."""
        # A short timeout: without Redis, a log-in falls back to this process's own count at once.
        client = connections.connect(self.settings.redis_url, socket_connect_timeout=1, socket_timeout=1)
        return RedisLimiter(client)

    @lazy
    def budget(self) -> RedisBudget:
        """The rate limit of each host."""
        return RedisBudget(self.settings)

    @lazy
    def engine(self) -> RedisEngine:
        """The port that inspects and controls the job engine."""
        return RedisEngine(self.settings)

    @lazy
    def figures(self) -> RedisStats:
        """Counters and queue lengths."""
        return RedisStats(self.settings)
