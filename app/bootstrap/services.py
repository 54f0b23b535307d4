"""Service wiring: the only place that builds clients → mappers → gateways → services, in all processes.

    services = bootstrap.build(settings)
    services.migrate()
    tree = services.reading.tree(actor)
    services.close()

Parts are built on first access, and nothing connects before its first use. So a process
builds only what it needs, and building before a fork is safe.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import metadata

import redis

from app import embedded
from app.adapters.apprise import AppriseNotifier
from app.adapters.redis.events import RedisEvents
from app.adapters.redis.host_budget import RedisBudget
from app.adapters.redis.job_engine import RedisEngine
from app.adapters.redis.jobs import RedisJobs
from app.adapters.redis.rate_limit import RedisLimiter
from app.adapters.redis.stats import RedisStats
from app.bootstrap.stores import Gateways, Mappers
from app.config import Settings
from app.feeds.fetch.fetcher import Fetcher
from app.feeds.websub import hub, subscriber
from app.gateways.sharing.hub import HubGateway
from app.mappers.mongo.migrations.migrator import Migrator, Upgrade
from app.mappers.mongo.migrations.table import is_current
from app.mappers.mongo.store import Store
from app.models.sharing.hub import Document
from app.monitoring.health import run_checks
from app.runtime.lazy import lazy
from app.services.accounts.accounts import AccountService
from app.services.accounts.admin_accounts import AdminAccountService
from app.services.accounts.passwords import Hasher
from app.services.accounts.sign_in import SignInService
from app.services.accounts.tokens import TokenService
from app.services.discussion.comments import DiscussionService
from app.services.discussion.moderation import ModerationService
from app.services.feeds.discovery import DiscoveryService
from app.services.feeds.pull import PullService
from app.services.feeds.refresh_requests import RefreshRequests
from app.services.feeds.websub import WebsubService
from app.services.imports.imports import ImportService
from app.services.imports.packs import PackService
from app.services.imports.runner import ImportRunner
from app.services.notifications import texts
from app.services.notifications.event_passes import EventPassService
from app.services.notifications.notifications import NotificationService
from app.services.notifications.notifier import Notifier
from app.services.notifications.push import PushService
from app.services.operations.feed_lists import FeedListService
from app.services.operations.hourly_report import ReportService
from app.services.operations.operations import OperationsService
from app.services.operations.readiness import Readiness
from app.services.operations.server_info import ServerInfoService
from app.services.privacy.erasure import ErasureService
from app.services.privacy.export import PersonalExportService
from app.services.reading.indexing import IndexService
from app.services.reading.marking import MarkingService
from app.services.reading.mass_marks import MassMarks
from app.services.reading.reading import ReadingService
from app.services.reading.search import EntrySearch
from app.services.reading.stream_views import StreamViewService
from app.services.reading.tags import TagService
from app.services.sharing.following import FollowingService
from app.services.sharing.hub import HubService
from app.services.sharing.pages import SharedService
from app.services.sharing.people_lists import PeopleListService
from app.services.sharing.sharing import SharingService
from app.services.sharing.trends import TrendService
from app.services.subscriptions.bulk_edit import BulkEditService
from app.services.subscriptions.folders import FolderService
from app.services.subscriptions.subscriptions import SubscriptionService
from app.services.sync.idempotency import IdempotencyService
from app.services.sync.marks import SyncMarkService
from app.services.sync.reading import SyncService
from app.services.sync.scope import SyncScopeBuilder


class Services:
    """All services of a process; see :func:`build`."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    # -- stores
    @lazy
    def store(self) -> Store:
        """The connection to MongoDB."""
        return Store(self.settings.mongodb_uri, self.settings.mongodb_name)

    @lazy
    def jobs(self) -> RedisJobs:
        """The port through which jobs are enqueued and awaited."""
        return RedisJobs(self.settings)

    @lazy
    def events(self) -> RedisEvents:
        """The port that sends live events to people's browsers."""
        return RedisEvents(self.settings)

    @lazy
    def mappers(self) -> Mappers:
        """For gateways only."""
        return Mappers(self.store, self.settings)

    @lazy
    def gateways(self) -> Gateways:
        """For services and tests only."""
        return Gateways(self.store, self.mappers, self.settings)

    # -- reading
    @lazy
    def finder(self) -> EntrySearch:
        """Searches, listed like streams."""
        g, patience = self.gateways, self.settings.search_patience
        return EntrySearch(g.search, g.subscriptions, g.streams, g.folders, g.tags, time_limit=patience)

    @lazy
    def reading(self) -> ReadingService:
        """Counts, streams, articles, marks."""
        g, s = self.gateways, self.settings
        return ReadingService(
            g.subscriptions,
            g.read_marks,
            g.feeds,
            g.folders,
            g.entries,
            g.streams,
            g.tags,
            self.finder,
            g.grouping,
            self.mass_marks,
            g.changes,
            self.events,
            page_size=s.page_size,
            whole_size=s.whole_page_size,
            whole_max=s.whole_text_max,
            snapshot_ttl=s.snapshot_ttl,
        )

    @lazy
    def mass_marks(self) -> MassMarks:
        """Marks of many entries at once, and their undo."""
        g = self.gateways
        return MassMarks(
            g.read_marks,
            g.feeds,
            g.changes,
            g.undo_history,
            self.events,
            undo_ttl=self.settings.undo_ttl,
        )

    @lazy
    def marking(self) -> MarkingService:
        """Marks above and below an entry, and the history of actions that can be undone."""
        g, s = self.gateways, self.settings
        return MarkingService(
            self.mass_marks,
            g.streams,
            self.finder,
            g.entries,
            g.undo_history,
            limit=s.mark_range_max,
            history_rows=s.history_rows,
            undo_ttl=s.undo_ttl,
        )

    @lazy
    def sync(self) -> SyncService:
        """Reading through native apps."""
        g = self.gateways
        return SyncService(
            self._sync_scopes,
            g.subscriptions,
            g.feeds,
            g.accounts,
            g.folders,
            g.tags,
            g.streams,
            g.grouping,
            g.sync,
            g.sync_items,
        )

    @lazy
    def sync_marks(self) -> SyncMarkService:
        """Marks by native apps, up to a time."""
        g = self.gateways
        return SyncMarkService(self._sync_scopes, g.subscriptions, g.folders, g.sync, self.mass_marks)

    @lazy
    def _sync_scopes(self) -> SyncScopeBuilder:
        g = self.gateways
        return SyncScopeBuilder(g.subscriptions, g.folders, g.tags, g.streams, g.grouping, g.visibility)

    @lazy
    def stream_views(self) -> StreamViewService:
        """The view of each stream."""
        return StreamViewService(self.gateways.stream_views)

    @lazy
    def refresh_requests(self) -> RefreshRequests:
        """Pulls that users request."""
        return RefreshRequests(self.gateways.feeds, self.jobs, self.limiter, self.settings.pulls_per_minute)

    @lazy
    def subscriptions(self) -> SubscriptionService:
        """Subscribe, edit, refresh, unsubscribe."""
        g, s = self.gateways, self.settings
        return SubscriptionService(
            g.subscriptions,
            g.feeds,
            g.folders,
            self.refresh_requests,
            self.events,
            g.websubs,
            self.notifier,
            self.limiter,
            self.budget,
            undo_ttl=s.undo_ttl,
            addresses_per_hour=s.addresses_per_hour,
        )

    @lazy
    def event_passes(self) -> EventPassService:
        """Passes to the stream of events."""
        g = self.gateways
        return EventPassService(g.subscriptions, g.sessions, g.tokens, self.events)

    @lazy
    def folders(self) -> FolderService:
        """Folders."""
        g = self.gateways
        return FolderService(g.folders, g.ordering, self.events, undo_ttl=self.settings.undo_ttl)

    @lazy
    def bulk_edit(self) -> BulkEditService:
        """Bulk edits of subscriptions."""
        g, undo_ttl = self.gateways, self.settings.undo_ttl
        return BulkEditService(
            g.subscriptions,
            g.feeds,
            g.folders,
            g.streams,
            g.websubs,
            self.refresh_requests,
            self.events,
            self.notifier,
            undo_ttl=undo_ttl,
        )

    # -- people
    @lazy
    def sharing(self) -> SharingService:
        """Shares, posts, chains."""
        g, s = self.gateways, self.settings
        return SharingService(
            g.sharing,
            g.profiles,
            g.chains,
            g.entries,
            g.feeds,
            g.accounts,
            g.changes,
            self.notifier,
            self.events,
            self.hub,
            self.limiter,
            note_length=s.note_length,
            per_hour=s.shares_per_hour,
            undo_ttl=s.undo_ttl,
        )

    @lazy
    def following(self) -> FollowingService:
        """Profiles, and the relationships between people."""
        g, s = self.gateways, self.settings
        return FollowingService(
            g.follows,
            g.profiles,
            g.visibility,
            g.accounts,
            g.changes,
            self.notifier,
            self.events,
            self.limiter,
            per_hour=s.follows_per_hour,
            undo_ttl=s.undo_ttl,
        )

    @lazy
    def trends(self) -> TrendService:
        """Trends and similar readers."""
        return TrendService(self.gateways.trends, self.gateways.subscriptions)

    @lazy
    def public_pages(self) -> SharedService:
        """People's public pages and feeds."""
        return SharedService(self.gateways.public_pages, self.gateways.chains, self.following)

    @lazy
    def people_lists(self) -> PeopleListService:
        """Lists of people."""
        g = self.gateways
        return PeopleListService(self.following, g.follows, g.profiles, g.visibility, g.accounts)

    @lazy
    def moderation(self) -> ModerationService:
        """Reports, and the decisions of administrators."""
        g, per_hour = self.gateways, self.settings.reports_per_hour
        return ModerationService(
            g.moderation,
            g.profiles,
            g.sharing,
            g.discussion,
            self.following,
            self.admin_accounts,
            g.changes,
            self.events,
            self.limiter,
            per_hour=per_hour,
        )

    @lazy
    def hub(self) -> HubService:
        """The subscribers of public streams, and pushes to them."""
        g, s = self.gateways, self.settings
        gateway = HubGateway(self.mappers.hubs, g.profiles, g.accounts, self._served, s)
        return HubService(
            gateway,
            self.jobs,
            self.limiter,
            enabled=hub.is_enabled(s),
            per_hour=s.hub_per_hour,
            timeout=s.hub_timeout,
        )

    def _served(self, topic: str) -> Document | None:
        """Return the public document at the address of a feed of ours; the hub pushes it."""
        return self.public_pages.find_document(topic)  # late, because this service builds on the gateways

    @lazy
    def discussion(self) -> DiscussionService:
        """Likes and comments."""
        g, s = self.gateways, self.settings
        return DiscussionService(
            g.discussion,
            g.entries,
            g.changes,
            self.notifier,
            self.limiter,
            length=s.comment_length,
            per_hour=s.comments_per_hour,
            likes_per_hour=s.likes_per_hour,
            undo_ttl=s.undo_ttl,
        )

    @lazy
    def notifier(self) -> Notifier:
        """Notifications about other people's actions."""
        return Notifier(self.gateways.notifications, self.events, self.push)

    @lazy
    def push(self) -> PushService:
        """Push notifications to devices; for the web and workers."""
        g = self.gateways
        return PushService(
            g.devices,
            g.notifications,
            self.notifications,
            texts.build_message,
            texts.build_test_message,
            self.jobs,
            self.limiter,
            self.settings,
        )

    @lazy
    def notifications(self) -> NotificationService:
        """The notifications page."""
        return NotificationService(self.gateways.notifications, self.events)

    # -- subscriptions as files
    @lazy
    def imports(self) -> ImportService:
        """Previews, imports, exports."""
        g, s = self.gateways, self.settings
        return ImportService(g.imports, g.exports, self.bulk_edit, self.jobs, self.events, self.limiter, s)

    @lazy
    def import_runner(self) -> ImportRunner:
        """Running imports; for workers and the updater."""
        g, s = self.gateways, self.settings
        return ImportRunner(
            g.imports,
            g.subscriptions,
            g.feeds,
            g.erasure,
            self.notifier,
            self.following,
            self.jobs,
            self.events,
            s,
        )

    @lazy
    def packs(self) -> PackService:
        """Starter packs."""
        return PackService(self.gateways.packs, self.imports)

    @lazy
    def tags(self) -> TagService:
        """Tags and saved searches."""
        g, s = self.gateways, self.settings
        return TagService(g.tags, g.entries, g.changes, self.events, max_length=s.tag_length)

    @lazy
    def indexing(self) -> IndexService:
        """Updates of the search index; for workers and the updater."""
        return IndexService(self.gateways.indexing, self.gateways.search)

    # -- feeds
    @lazy
    def pull(self) -> PullService:
        """Due feeds, and pulling them; for workers and the updater."""
        return PullService(
            self.gateways.feeds,
            self.gateways.retention,
            self.settings,
            budget=self.budget,
            events=self.events,
        )

    @lazy
    def websub(self) -> WebsubService:
        """WebSub subscriptions: callbacks, requests to hubs, and fetches for pushes."""
        return WebsubService(
            self.gateways.websubs, self.pull, self.jobs, enabled=subscriber.is_enabled(self.settings)
        )

    @lazy
    def budget(self) -> RedisBudget:
        """The rate limit of each host."""
        return RedisBudget(self.settings)

    @lazy
    def discovery(self) -> DiscoveryService:
        """Discovery of the feeds behind an address."""
        g = self.gateways
        return DiscoveryService(g.discoveries, g.feeds, g.subscriptions, self.jobs, self.settings)

    # -- accounts
    @lazy
    def hasher(self) -> Hasher:
        """Password hashes; one per process, because it limits their memory."""
        return Hasher(self.settings)

    @lazy
    def limiter(self) -> RedisLimiter:
        """Rate limits for attempts."""
        # A short timeout: without Redis, a log-in falls back to this process's own count at once.
        client = redis.Redis.from_url(self.settings.redis_url, socket_connect_timeout=1, socket_timeout=1)
        return RedisLimiter(client)

    @lazy
    def sign_in(self) -> SignInService:
        """Sign up, log in, resume a session, log out."""
        g = self.gateways
        return SignInService(g.accounts, g.sessions, self.events, self.hasher, self.limiter, self.settings)

    @lazy
    def accounts(self) -> AccountService:
        """Password, sessions, invites, messages for the next page."""
        g = self.gateways
        return AccountService(
            g.accounts,
            g.sessions,
            g.erasure,
            g.profiles,
            g.tokens,
            self.jobs,
            self.events,
            self.hasher,
            self.limiter,
        )

    @lazy
    def tokens(self) -> TokenService:
        """App passwords and access tokens."""
        g = self.gateways
        return TokenService(
            g.tokens, g.accounts, self.admin_accounts, self.events, self.limiter, self.settings
        )

    @lazy
    def idempotency(self) -> IdempotencyService:
        """Repeated API requests that must run only once."""
        return IdempotencyService(self.gateways.idempotency)

    @lazy
    def erasure(self) -> ErasureService:
        """Deletion of accounts; for workers and the updater."""
        return ErasureService(self.gateways.erasure)

    @lazy
    def personal_exports(self) -> PersonalExportService:
        """Files with all of a user's own data."""
        g, notifier = self.gateways, self.notifier
        return PersonalExportService(
            g.personal_exports,
            g.accounts,
            self.admin_accounts,
            notifier,
            self.jobs,
            self.limiter,
            self.settings,
        )

    # -- administration
    @lazy
    def engine(self) -> RedisEngine:
        """The port that inspects and controls the job engine."""
        return RedisEngine(self.settings)

    @lazy
    def operations(self) -> OperationsService:
        """Queues, workers, throughput, dead tasks."""
        return OperationsService(self.engine)

    @lazy
    def feed_lists(self) -> FeedListService:
        """The health of all feeds."""
        return FeedListService(self.gateways.feed_lists, self.engine, self.jobs)

    @lazy
    def admin_accounts(self) -> AdminAccountService:
        """Other people's accounts, invites."""
        g = self.gateways
        return AdminAccountService(
            g.admin_accounts,
            g.accounts,
            g.sessions,
            g.profiles,
            g.tokens,
            self.events,
            self.hasher,
            self.limiter,
            self.settings,
        )

    @lazy
    def server_info(self) -> ServerInfoService:
        """Settings, versions, checks."""
        return ServerInfoService(self.settings, run_checks)

    # -- the whole process
    def migrate(self, cancelled: Callable[[], bool] = lambda: False) -> Upgrade:
        """Upgrade the database to this program's schema and create all indexes; see :class:`Migrator`.

        Safe to repeat, and to call from several processes at once.
        """
        return Migrator(self.store, metadata.version("eventr"), cancelled=cancelled).run()

    def require_schema(self, seconds: float) -> bool:
        """Return whether the database is new or has this program's schema; False: its schema is older.

        Args:
            seconds: time limit for MongoDB's reply.

        Raises:
            StartupError: a newer program has upgraded the database.
            StoreError: MongoDB isn't responding.
        """
        return is_current(self.store.database, seconds)

    @lazy
    def figures(self) -> RedisStats:
        """Counters and queue lengths."""
        return RedisStats(self.settings)

    @lazy
    def report(self) -> ReportService:
        """The hourly report."""
        return ReportService(self.figures, AppriseNotifier(self.settings), self.settings)

    @lazy
    def readiness(self) -> Readiness:
        """Readiness: whether the stores respond."""
        return Readiness({"mongodb": self.store.ping, "redis": self.jobs.ping})

    def close(self) -> None:
        """Close the connections that were opened."""
        for name in ("limiter", "budget", "figures", "engine", "events", "jobs", "store"):
            if (part := self.__dict__.get(name)) is not None:
                part.close()


def build(settings: Settings) -> Services:
    """Return the services for these settings; unset addresses mean the embedded servers."""
    return Services(embedded.resolve_addresses(settings))


def build_fetcher(settings: Settings) -> Fetcher:
    """Return the fetcher of a worker process; a context manager."""
    return Fetcher(settings)
