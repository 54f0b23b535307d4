"""Store wiring: builds all mappers and gateways on one store, and connects them.

Only :mod:`app.bootstrap.services` uses it; services are built there, on first access.
"""

from __future__ import annotations

import datetime as dt

from app.config import Settings
from app.feeds.fetch.address_policy import Policy
from app.feeds.parse import Limits
from app.feeds.websub import hub, subscriber
from app.gateways.accounts.accounts import AccountGateway
from app.gateways.accounts.admin_accounts import AdminAccountGateway
from app.gateways.accounts.sessions import SessionGateway
from app.gateways.accounts.tokens import TokenGateway
from app.gateways.discussion.comments import DiscussionGateway
from app.gateways.discussion.moderation import ModerationGateway
from app.gateways.feeds import entry_bodies
from app.gateways.feeds.chapters import ChapterGateway
from app.gateways.feeds.crawls import CrawlGateway
from app.gateways.feeds.discoveries import DiscoveryGateway
from app.gateways.feeds.entry_writer import EntryWriter
from app.gateways.feeds.feed_merge import FeedMerger
from app.gateways.feeds.feed_search import FeedSearchGateway
from app.gateways.feeds.feeds import FeedGateway
from app.gateways.feeds.fetch_secrets import FetchSecrets
from app.gateways.feeds.orphans import OrphanGateway
from app.gateways.feeds.page_lists import PageListGateway
from app.gateways.feeds.retention import RetentionGateway
from app.gateways.feeds.retention_budget import RetentionBudgetGateway
from app.gateways.feeds.robots import RobotsGateway
from app.gateways.feeds.websubs import WebsubGateway
from app.gateways.imports.archives import ArchiveGateway
from app.gateways.imports.exports import ExportGateway
from app.gateways.imports.followed_lists import FollowedListGateway
from app.gateways.imports.imports import ImportGateway
from app.gateways.imports.packs import PackGateway
from app.gateways.imports.pulls import PulledImportGateway
from app.gateways.media.attachments import AttachmentGateway
from app.gateways.media.blobs import BlobGateway
from app.gateways.media.card_readers import CardReaderGateway
from app.gateways.media.cleaning import CleaningGateway
from app.gateways.media.files import FileGateway
from app.gateways.media.icons import IconGateway
from app.gateways.media.quota import QuotaGateway
from app.gateways.media.sources import SourceGateway
from app.gateways.media.uploads import UploadGateway
from app.gateways.notifications.devices import DeviceGateway
from app.gateways.notifications.notifications import NotificationGateway
from app.gateways.notifications.page_frame import PageFrameGateway
from app.gateways.operations.feed_lists import FeedListGateway
from app.gateways.operations.outbox import OutboxGateway
from app.gateways.privacy.erasure import ErasureGateway
from app.gateways.privacy.exports import PersonalExportGateway
from app.gateways.privacy.personal_data import PersonalDataGateway
from app.gateways.reading.arrival_order import ArrivalOrder
from app.gateways.reading.auto_read import AutoReadGateway
from app.gateways.reading.changes import ChangeGateway
from app.gateways.reading.entries import EntryGateway
from app.gateways.reading.full_texts import FullTextGateway
from app.gateways.reading.grouping import GroupingGateway
from app.gateways.reading.hiding import HidingGateway
from app.gateways.reading.indexing import IndexingGateway
from app.gateways.reading.late_copies import LateCopyGateway
from app.gateways.reading.notes import NoteGateway
from app.gateways.reading.playback import PlaybackGateway
from app.gateways.reading.ranking import RankingGateway
from app.gateways.reading.read_marks import ReadMarkGateway
from app.gateways.reading.recent_reads import RecentReadGateway
from app.gateways.reading.reopening import ReopenGateway
from app.gateways.reading.rule_runs import RuleRunGateway
from app.gateways.reading.rules import RuleGateway
from app.gateways.reading.saved_pages import SavedPageGateway
from app.gateways.reading.search_engine import OldSearchEngine
from app.gateways.reading.standby import StandbyGateway
from app.gateways.reading.statistics import StatisticsGateway
from app.gateways.reading.stories import StoryGateway
from app.gateways.reading.stream_merge import KeyMerger
from app.gateways.reading.stream_views import StreamViewGateway
from app.gateways.reading.streams import StreamGateway
from app.gateways.reading.tags import TagGateway, TagLimits
from app.gateways.reading.targets import TargetGateway
from app.gateways.reading.text_rules import TextRuleGateway
from app.gateways.reading.undo_history import UndoHistoryGateway
from app.gateways.sharing.chains import ChainGateway
from app.gateways.sharing.follows import FollowGateway
from app.gateways.sharing.pages import SharedGateway
from app.gateways.sharing.profiles import ProfileGateway
from app.gateways.sharing.secrecy import SecrecyGateway
from app.gateways.sharing.shares import SharingGateway
from app.gateways.sharing.stream_feeds import StreamFeedGateway
from app.gateways.sharing.trends import TrendGateway
from app.gateways.sharing.visibility import VisibilityGateway
from app.gateways.subscriptions.folders import FolderGateway
from app.gateways.subscriptions.ordering import OrderingGateway
from app.gateways.subscriptions.subscriptions import SubscriptionGateway
from app.gateways.sync.idempotency import IdempotencyGateway
from app.gateways.sync.items import SyncItemGateway
from app.gateways.sync.short_ids import ShortIdGateway
from app.gateways.sync.streams import SyncStreamGateway
from app.mappers.accounts.admin_accounts import AdminAccountMapper
from app.mappers.accounts.invites import InviteMapper
from app.mappers.accounts.resets import ResetMapper
from app.mappers.accounts.sessions import SessionMapper
from app.mappers.accounts.tokens import TokenMapper
from app.mappers.accounts.users import UserMapper
from app.mappers.discussion.abuse_reports import ReportMapper
from app.mappers.discussion.comments import CommentMapper
from app.mappers.discussion.likes import LikeMapper
from app.mappers.discussion.reactions import ReactionMapper
from app.mappers.feeds.chapters import ChapterMapper
from app.mappers.feeds.crawls import CrawlMapper
from app.mappers.feeds.discoveries import DiscoveryMapper
from app.mappers.feeds.entries import EntryMapper
from app.mappers.feeds.feed_words import FeedWordsMapper
from app.mappers.feeds.feeds import FeedMapper
from app.mappers.feeds.orphans import OrphanMapper
from app.mappers.feeds.page_lists import PageListMapper
from app.mappers.feeds.poll_results import PollResultMapper
from app.mappers.feeds.retention_budget import RetentionBudgetMapper
from app.mappers.feeds.robots import RobotsMapper
from app.mappers.feeds.websubs import WebsubMapper
from app.mappers.imports.followed_lists import FollowedListMapper
from app.mappers.imports.imports import ImportMapper
from app.mappers.imports.packs import PackMapper
from app.mappers.media.blobs import BlobMapper
from app.mappers.media.card_readers import CardReaderMapper
from app.mappers.media.cleaning import CleaningMapper
from app.mappers.media.files import FileMapper
from app.mappers.media.icons import IconMapper
from app.mappers.media.mending import MendingMapper
from app.mappers.media.references import ReferenceMapper
from app.mappers.media.sources import SourceMapper
from app.mappers.media.uploads import UploadMapper
from app.mappers.media.usage import UsageMapper
from app.mappers.mongo.cells import Cells
from app.mappers.mongo.store import Store
from app.mappers.notifications.devices import DeviceMapper
from app.mappers.notifications.notifications import NotificationMapper
from app.mappers.operations.dead_letters import DeadLetterMapper
from app.mappers.operations.disk_space import DiskSpaceMapper
from app.mappers.operations.feed_lists import FeedListMapper
from app.mappers.operations.moves import MoveMapper
from app.mappers.operations.outbox import OutboxMapper
from app.mappers.operations.write_conflicts import WriteConflictMapper
from app.mappers.privacy.erasure import ErasureMapper
from app.mappers.privacy.exports import PersonalExportMapper
from app.mappers.privacy.personal_data import PersonalDataMapper
from app.mappers.reading.arrivals import ArrivalMapper
from app.mappers.reading.auto_read import AutoReadMapper
from app.mappers.reading.changes import ChangeMapper
from app.mappers.reading.entry_keys import EntryKeyMapper
from app.mappers.reading.index_queue import IndexQueueMapper
from app.mappers.reading.marks import MarkMapper
from app.mappers.reading.playback import PlaybackMapper
from app.mappers.reading.recent_reads import RecentReadMapper
from app.mappers.reading.reopening import ReopenMapper
from app.mappers.reading.rules import RuleMapper
from app.mappers.reading.saved_pages import SavedPageMapper
from app.mappers.reading.search_index import SearchIndexMapper
from app.mappers.reading.snapshots import SnapshotMapper, UndoMapper
from app.mappers.reading.statistics import StatisticsMapper
from app.mappers.reading.stream_views import StreamViewMapper
from app.mappers.reading.tags import SavedSearchMapper, TagMapper
from app.mappers.reading.targets import TargetMapper
from app.mappers.reading.text_rules import TextRuleMapper
from app.mappers.reading.twins import TwinMapper
from app.mappers.sharing.hubs import HubMapper
from app.mappers.sharing.profiles import ProfileMapper, RelationshipMapper
from app.mappers.sharing.secrecy_marks import SecrecyMarkMapper
from app.mappers.sharing.shared_feeds import SharedFeedMapper
from app.mappers.sharing.shares import ShareMapper
from app.mappers.sharing.trends import TrendMapper
from app.mappers.subscriptions.folders import FolderMapper
from app.mappers.subscriptions.subscriptions import SubscriptionMapper
from app.mappers.subscriptions.undo import RemovalMapper
from app.mappers.sync.idempotency import IdempotencyMapper
from app.mappers.sync.short_ids import ShortIdMapper
from app.models.media.addresses import MediaKeys
from app.models.media.signing import PictureSigner
from app.models.sharing.sharing import Audience
from app.models.subscriptions.subscription import StartRule
from app.ports import MediaStores


def build_picture_signer(settings: Settings) -> PictureSigner:
    """Return what makes the addresses of pictures for programs.

    Without a key, pictures keep the addresses of their sites.
    """
    has_key = settings.is_picture_proxy and (settings.media_keys or settings.secret_key)
    keys = MediaKeys.create(settings.media_keys, settings.secret_key) if has_key else None
    return PictureSigner(settings.own_origin, keys)


class Mappers:
    """One mapper of each kind, on the home store or on the cells."""

    def __init__(self, store: Store, cells: Cells, settings: Settings) -> None:
        database = store.database
        self.places = cells.places
        self.moves = MoveMapper(database)
        self.outbox = OutboxMapper(cells)
        self.feeds = FeedMapper(database, store.cache)
        self.entries = EntryMapper(database)
        self.orphans = OrphanMapper(cells)
        self.retention_budget = RetentionBudgetMapper(database)
        self.secrecy_marks = SecrecyMarkMapper(database)
        self.entry_keys = EntryKeyMapper(database)
        self.arrivals = ArrivalMapper(database)
        self.changes = ChangeMapper(cells)
        self.subscriptions = SubscriptionMapper(cells)
        self.folders = FolderMapper(cells)
        self.marks = MarkMapper(cells)
        self.tags = TagMapper(cells)
        self.searches = SavedSearchMapper(cells)
        self.rules = RuleMapper(cells)
        self.search_index = SearchIndexMapper(database)
        self.twins = TwinMapper(database)
        self.index_marks = IndexQueueMapper(database)
        self.snapshots = SnapshotMapper(cells, repeats_max=10_000 if store.cache else 0)
        self.stream_views = StreamViewMapper(cells)
        self.targets = TargetMapper(cells)
        self.text_rules = TextRuleMapper(database)
        self.playback = PlaybackMapper(cells)
        self.statistics = StatisticsMapper(cells)
        self.followed_lists = FollowedListMapper(cells)
        self.recent_reads = RecentReadMapper(cells)
        self.auto_read = AutoReadMapper(cells)
        self.reopening = ReopenMapper(cells)
        self.undos = UndoMapper(cells)
        self.removals = RemovalMapper(cells)
        self.users = UserMapper(database)
        self.sessions = SessionMapper(database)
        self.invites = InviteMapper(database)
        self.erasure = ErasureMapper(cells)
        self.chapters = ChapterMapper(database)
        self.robots = RobotsMapper(database)
        self.feed_words = FeedWordsMapper(cells)
        self.page_lists = PageListMapper(database)
        self.crawls = CrawlMapper(database)
        self.discoveries = DiscoveryMapper(database)
        self.websubs = WebsubMapper(database)
        self.hubs = HubMapper(database)
        self.poll_results = PollResultMapper(database)
        self.imports = ImportMapper(cells)
        self.packs = PackMapper(database)
        self.uploads = UploadMapper(database)
        self.usage = UsageMapper(database)
        self.media_mending = MendingMapper(database)
        self.feed_lists = FeedListMapper(database)
        self.admin_accounts = AdminAccountMapper(cells)
        self.profiles = ProfileMapper(database)
        self.ties = RelationshipMapper(database)
        self.shares = ShareMapper(database)
        self.trends = TrendMapper(database, dt.timedelta(seconds=settings.trend_half_life))
        self.shared_feeds = SharedFeedMapper(database)
        self.saved_pages = SavedPageMapper(database)
        self.reports = ReportMapper(database)
        self.resets = ResetMapper(database)
        self.likes = LikeMapper(database)
        self.comments = CommentMapper(database)
        self.reactions = ReactionMapper(database)
        self.notifications = NotificationMapper(cells)
        self.devices = DeviceMapper(database)
        self.tokens = TokenMapper(database)
        self.idempotency = IdempotencyMapper(cells)
        self.short_ids = ShortIdMapper(cells)
        self.disk_space = DiskSpaceMapper(database)
        self.blobs = BlobMapper(database)
        self.files = FileMapper(database)
        self.media_references = ReferenceMapper(database)
        self.media_cleaning = CleaningMapper(database)
        self.dead_letters = DeadLetterMapper(database)
        self.write_conflicts = WriteConflictMapper(database)
        self.sources = SourceMapper(database)
        self.icons = IconMapper(database)
        self.card_readers = CardReaderMapper(cells)
        self.personal_data = PersonalDataMapper(cells)
        self.personal_exports = PersonalExportMapper(cells)


class Gateways:
    """One gateway of each kind, over the mappers and the media stores."""

    def __init__(
        self, store: Store, cells: Cells, mappers: Mappers, media: MediaStores, settings: Settings
    ) -> None:
        m = mappers
        start = StartRule(dt.timedelta(days=settings.unread_days), settings.unread_min, settings.unread_max)
        keep, keep_bytes = settings.retention_entries, settings.retention_bytes
        writer = EntryWriter(
            store, m.feeds, m.entries, m.subscriptions, start=start, keep=keep, keep_bytes=keep_bytes
        )
        merger = FeedMerger(store, cells, m.feeds, m.entries, m.subscriptions, icons=m.icons, files=m.files)
        self.blobs = BlobGateway(store, m.blobs, media)
        self.icons = IconGateway(m.icons, m.sources, self.blobs, m.discoveries)
        self.sources = SourceGateway(
            store, m.sources, m.icons, self.blobs, window=dt.timedelta(days=settings.media_window)
        )
        self.card_readers = CardReaderGateway(m.card_readers, m.subscriptions, m.feeds)
        self.files = FileGateway(store, m.files, m.usage, self.blobs)
        self.attachments = AttachmentGateway(self.files, self.blobs)
        self.media_cleaning = CleaningGateway(
            store=store,
            blobs=m.blobs,
            references=m.media_references,
            progress=m.media_cleaning,
            files=self.files,
            content=self.blobs,
            icons=m.icons,
            sources=m.sources,
            stores=media,
            users=m.users,
            quota=settings.quota,
            window=dt.timedelta(days=settings.media_window),
            idle=dt.timedelta(seconds=settings.media_idle),
            budget=settings.media_cache_bytes,
            age=dt.timedelta(hours=settings.media_stray_age),
        )
        self.websubs = WebsubGateway(m.websubs, settings)
        hubs = self.websubs if subscriber.is_enabled(settings) else None
        self.feeds = FeedGateway(m.feeds, m.entries, writer, merger, hubs=hubs)
        self.fetch_secrets = FetchSecrets(settings.secret_key)
        self.retention = RetentionGateway(m.feeds, m.entries, m.outbox, keep=keep, keep_bytes=keep_bytes)
        self.retention_budget = RetentionBudgetGateway(
            m.retention_budget, m.entries, m.outbox, budget=settings.retention_total
        )
        self.orphans = OrphanGateway(store, m.orphans, m.index_marks, m.files)
        self.visibility = VisibilityGateway(m.profiles, m.ties, m.shares, m.subscriptions)
        self.subscriptions = SubscriptionGateway(
            cells=cells,
            feeds=m.feeds,
            entries=m.entries,
            subscriptions=m.subscriptions,
            removals=m.removals,
            relationships=m.ties,
            visibility=self.visibility,
            merger=merger,
            start=start,
            limit=settings.subscriptions_max,
        )
        self.outbox = OutboxGateway(
            cells=cells,
            outbox=m.outbox,
            feeds=m.feeds,
            entries=m.entries,
            subscriptions=m.subscriptions,
            subscribing=self.subscriptions,
            merger=merger,
        )
        self.changes = ChangeGateway(m.changes, m.undos, m.feeds, settings)
        self.read_marks = ReadMarkGateway(m.feeds, m.subscriptions, m.undos, self.changes)
        self.folders = FolderGateway(m.folders, m.subscriptions, m.removals)
        self.ordering = OrderingGateway(cells, m.feeds, m.folders, m.subscriptions, m.removals)
        self.entries = EntryGateway(
            cells=cells,
            entries=m.entries,
            keys=m.entry_keys,
            marks=m.marks,
            subscriptions=m.subscriptions,
            shares=m.shares,
            visibility=self.visibility,
            sanitize=entry_bodies.make_sanitizer(settings),
        )
        self.profiles = ProfileGateway(
            store,
            m.profiles,
            m.shared_feeds,
            m.shares,
            origin=settings.own_origin,
            audience=Audience(settings.shares_audience),
        )
        self.sharing = SharingGateway(
            store=store,
            cells=cells,
            attachments=self.attachments,
            profiles=self.profiles,
            visibility=self.visibility,
            feeds=m.shared_feeds,
            shares=m.shares,
            entries=m.entries,
            index_queue=m.index_marks,
            removals=m.removals,
            trends=m.trends,
            depth=settings.chain_depth,
            trend_age=dt.timedelta(days=settings.trend_days),
        )
        self.secrecy = SecrecyGateway(
            feeds=self.feeds,
            subscriptions=m.subscriptions,
            shares=m.shares,
            sharing=self.sharing,
            profiles=self.profiles,
            marks=m.secrecy_marks,
        )
        self.follows = FollowGateway(
            store=store,
            subscriptions=self.subscriptions,
            mapper=m.subscriptions,
            feeds=m.feeds,
            users=m.users,
            profiles=m.profiles,
            relationships=m.ties,
            visibility=self.visibility,
        )
        self.moderation = ModerationGateway(
            reports=m.reports,
            profiles=m.profiles,
            shares=m.shares,
            comments=m.comments,
            entries=m.entries,
            users=m.users,
            feeds=m.feeds,
            visibility=self.visibility,
        )
        self.chains = ChainGateway(
            m.shares,
            self.visibility,
            self.profiles,
            m.entries,
            rows=settings.chain_rows,
            limit=settings.chain_count_max,
        )
        self.trends = TrendGateway(
            trends=m.trends,
            shares=m.shares,
            entries=self.entries,
            visibility=self.visibility,
            profiles=m.profiles,
            subscriptions=m.subscriptions,
            rows=settings.trend_rows,
            people=settings.similar_people,
            limit=settings.chain_count_max,
        )
        self.public_pages = SharedGateway(
            m.shares,
            m.entries,
            m.feeds,
            self.entries,
            self.visibility,
            rows=settings.shared_rows,
            passed_limit=settings.reshares_counted,
            counted=settings.chain_count_max,
            origin=settings.own_origin,
            hub=hub.get_hub_url(settings),
            pictures=build_picture_signer(settings),
        )
        self.stream_feeds = StreamFeedGateway(settings.own_origin, build_picture_signer(settings))
        self.stories = StoryGateway(m.twins)
        self.grouping = GroupingGateway(
            subscriptions=m.subscriptions,
            profiles=m.profiles,
            shares=m.shares,
            entries=m.entries,
            keys=m.entry_keys,
            visibility=self.visibility,
            stories=self.stories,
            late_copies=LateCopyGateway(m.subscriptions, m.rules),
            marks=m.marks,
        )
        self.accounts = AccountGateway(store, m.users, m.invites, m.resets, settings, cells=cells)
        self.sessions = SessionGateway(m.sessions, m.users, settings)
        self.devices = DeviceGateway(m.devices, self.accounts, self.sessions, settings)
        self.tokens = TokenGateway(m.tokens, m.users)
        self.short_ids = ShortIdGateway(m.short_ids, m.feeds)
        self.idempotency = IdempotencyGateway(
            m.idempotency,
            ttl=dt.timedelta(seconds=settings.idempotency_ttl),
            lease=dt.timedelta(seconds=min(3 * settings.idempotency_renewal, settings.idempotency_lease)),
        )
        self.admin_accounts = AdminAccountGateway(
            store=store,
            people=m.admin_accounts,
            users=m.users,
            sessions=m.sessions,
            invites=m.invites,
            resets=m.resets,
            reset_ttl=settings.reset_ttl,
        )
        self.discussion = DiscussionGateway(
            store=store,
            attachments=self.attachments,
            shares=m.shares,
            likes=m.likes,
            comments=m.comments,
            reactions=m.reactions,
            notes=m.notifications,
            visibility=self.visibility,
            depth=settings.comment_depth,
            rows=settings.comment_rows,
            limit=settings.talk_count_max,
        )
        self.notifications = NotificationGateway(
            notes=m.notifications,
            reactions=m.reactions,
            comments=m.comments,
            shares=m.shares,
            relationships=m.ties,
            users=m.users,
            subscriptions=m.subscriptions,
            feeds=m.feeds,
            lists=m.feed_lists,
            imports=m.imports,
            crawls=m.crawls,
            searches=m.searches,
            entries=self.entries,
            visibility=self.visibility,
            outbox=m.outbox,
            keep_for=dt.timedelta(days=settings.notifications_days),
            limit=settings.notifications_max,
            rows=settings.notification_rows,
            failing_after=dt.timedelta(days=settings.feed_broken_days),
            likes_limit=settings.talk_count_max,
        )
        self.erasure = ErasureGateway(
            cells=cells,
            people=self.admin_accounts,
            subscriptions=self.subscriptions,
            websubs=self.websubs,
            marks=m.marks,
            entries=m.entries,
            erasure=m.erasure,
            sharing=self.sharing,
            talk=self.discussion,
            files=self.files,
        )
        self.feed_lists = FeedListGateway(m.feed_lists)
        self.chapters = ChapterGateway(m.chapters)
        self.notes = NoteGateway(cells=cells, marks=m.marks, entries=m.entries, removals=m.removals)
        self.saved_pages = SavedPageGateway(
            store=store,
            cells=cells,
            pages=m.saved_pages,
            feeds=m.feeds,
            entries=m.entries,
            subscriptions=self.subscriptions,
            index_queue=m.index_marks,
            removals=m.removals,
            marks=m.marks,
            tags=m.tags,
            sanitize=entry_bodies.make_sanitizer(settings),
            origin=settings.own_origin,
            limit=settings.saved_pages_max,
        )
        self.full_texts = FullTextGateway(
            entries=m.entries,
            feeds=m.feeds,
            subscriptions=m.subscriptions,
            sanitize=entry_bodies.make_sanitizer(settings),
            saved=self.saved_pages,
            store=store,
            rules=m.text_rules,
        )
        self.text_rules = TextRuleGateway(m.text_rules, Policy(settings), limit=settings.text_rules_max)
        self.robots = RobotsGateway(m.robots)
        self.crawls = CrawlGateway(m.crawls, self.robots, Limits.from_settings(settings))
        self.page_lists = PageListGateway(m.page_lists, Limits.from_settings(settings))
        self.feed_search = FeedSearchGateway(
            m.feed_words, m.subscriptions, min_readers=settings.findable_readers
        )
        self.discoveries = DiscoveryGateway(
            m.discoveries, Limits.from_settings(settings), settings.discovery_requests
        )
        self.imports = ImportGateway(
            cells=cells,
            imports=m.imports,
            poll_results=m.poll_results,
            subscriptions=m.subscriptions,
            folders=self.folders,
            settings=settings,
        )
        self.uploads = UploadGateway(
            store=store,
            uploads=m.uploads,
            usage=m.usage,
            files=self.files,
            blobs=self.blobs,
            quota=settings.quota,
            open_max=settings.uploads_open,
        )
        self.quota = QuotaGateway(
            store=store,
            usage=m.usage,
            uploads=m.uploads,
            stored=m.files,
            files=self.files,
            blobs=self.blobs,
            progress=m.media_cleaning,
            quota=settings.quota,
        )
        self.exports = ExportGateway(m.subscriptions, m.feeds, self.folders, self.profiles)
        self.packs = PackGateway(m.packs, m.feeds, settings)
        self.reopening = ReopenGateway(m.reopening, m.subscriptions, m.arrivals, m.feeds, self.read_marks)
        self.auto_read = AutoReadGateway(m.auto_read, m.subscriptions, m.entries)
        self.recent_reads = RecentReadGateway(
            m.recent_reads, m.entry_keys, m.subscriptions, limit=settings.recent_reads_max
        )
        key_merger = KeyMerger(m.entry_keys)
        self.ranking = RankingGateway(
            merger=key_merger, keys=m.entry_keys, entries=m.entries, shares=m.shares, trends=m.trends
        )
        self.streams = StreamGateway(
            m.feeds,
            m.entries,
            m.marks,
            m.snapshots,
            merger=key_merger,
            recent_reads=self.recent_reads,
            feeds_max=settings.tree_cache,
        )
        self.tags = TagGateway(
            cells=cells,
            tags=m.tags,
            marks=m.marks,
            entries=m.entries,
            searches=m.searches,
            removals=m.removals,
            rules=m.rules,
            limits=TagLimits(settings.tags_per_entry, settings.tags_per_user),
            max_searches=settings.searches_max,
            undo_ttl=dt.timedelta(seconds=settings.undo_ttl),
        )
        self.hiding = HidingGateway(m.subscriptions, m.undos, self.read_marks)
        self.archives = ArchiveGateway(
            store=store,
            cells=cells,
            imports=self.imports,
            import_mapper=m.imports,
            entry_mapper=m.entries,
            feeds=m.feeds,
            entries=self.entries,
            tags=self.tags,
            read_marks=self.read_marks,
            changes=self.changes,
            files=self.files,
            blobs=self.blobs,
            saved_pages=self.saved_pages,
            notes=self.notes,
            hiding=self.hiding,
            settings=settings,
        )
        self.pulled_imports = PulledImportGateway(
            cells=cells,
            imports=self.imports,
            import_mapper=m.imports,
            archives=self.archives,
            settings=settings,
        )
        self.sync = SyncStreamGateway(
            arrived=ArrivalOrder(m.arrivals, m.entry_keys),
            keys=m.entry_keys,
            arrivals=m.arrivals,
            changes=m.changes,
            feeds=m.feeds,
            entries=m.entries,
            marks=m.marks,
            shares=m.shares,
            likes=m.likes,
            comments=m.comments,
            visibility=self.visibility,
            settings=settings,
        )
        self.sync_items = SyncItemGateway(
            entries=self.entries,
            streams=self.streams,
            subscriptions=self.subscriptions,
            tags=self.tags,
            visibility=self.visibility,
            keys=m.entry_keys,
            shares=m.shares,
            likes=m.likes,
            full_texts=self.full_texts,
        )
        self.indexing = IndexingGateway(store, m.entries, self.stories, max_text=settings.search_text)
        self.standby = StandbyGateway(store, m.entries, max_text=settings.search_text)
        self.old_search = OldSearchEngine(m.search_index)
        self.undo_history = UndoHistoryGateway(m.undos, m.removals, m.feeds)
        self.stream_views = StreamViewGateway(m.stream_views, limit=settings.stream_views_max)
        self.followed_lists = FollowedListGateway(
            m.followed_lists, self.imports, m.subscriptions, m.feeds, settings, cells=cells
        )
        self.statistics = StatisticsGateway(m.statistics, m.users, days=settings.statistics_days)
        self.playback = PlaybackGateway(m.playback, limit=settings.playback_max, days=settings.playback_days)
        self.targets = TargetGateway(
            targets=m.targets,
            users=m.users,
            subscriptions=m.subscriptions,
            entries=self.entries,
            feeds=m.feeds,
            tags=self.tags,
            settings=settings,
        )
        self.rules = RuleGateway(
            cells=cells,
            users=m.users,
            changes=self.changes,
            subscriptions=m.subscriptions,
            feeds=m.feeds,
            folders=m.folders,
            stored=m.entries,
            entries=self.entries,
            tags=self.tags,
            searches=m.searches,
            targets=m.targets,
            streams=self.streams,
            merger=key_merger,
            indexing=self.indexing,
            limit=settings.rules_max,
            preview_entries=settings.rule_preview_entries,
            preview_rows=settings.rule_preview_rows,
            texts=settings.rule_full_texts,
        )
        self.rule_runs = RuleRunGateway(
            cells=cells,
            rules=self.rules,
            subscriptions=m.subscriptions,
            stored=m.entries,
            entries=self.entries,
            tags=self.tags,
            undo_ttl=dt.timedelta(seconds=settings.undo_ttl),
        )
        self.page_frame = PageFrameGateway(
            folders=m.folders,
            tags=m.tags,
            searches=m.searches,
            stream_views=m.stream_views,
            imports=m.imports,
            notifications=m.notifications,
            cache=store.cache,
        )
        belongings = PersonalDataGateway(
            personal_data=m.personal_data,
            shares=m.shares,
            sessions=self.sessions,
            profiles=self.profiles,
            exports=self.exports,
            subscriptions=self.subscriptions,
            feeds=self.feeds,
            secrets=self.fetch_secrets,
            folders=self.folders,
            entries=self.entries,
            tags=self.tags,
            follows=self.follows,
            visibility=self.visibility,
            notes=self.notifications,
            files=self.files,
            blobs=self.blobs,
            recent_reads=self.recent_reads,
            rules=self.rules,
            saved_pages=self.saved_pages,
            full_texts=self.full_texts,
            statistics=self.statistics,
            entry_notes=self.notes,
            targets=m.targets,
            followed_lists=self.followed_lists,
            entry_mapper=m.entries,
        )
        self.personal_exports = PersonalExportGateway(m.personal_exports, belongings, settings)
