"""Builds mappers and gateways: one of each on one store, and who knows whom.

Of :mod:`app.bootstrap.services` alone; services are built there, when they are first asked for.
"""

from __future__ import annotations

import datetime as dt

from app.config import Settings
from app.feeds.parse import Limits
from app.feeds.websub import hub, subscriber
from app.gateways.accounts.accounts import AccountGateway
from app.gateways.accounts.admin_accounts import PeopleGateway
from app.gateways.accounts.tokens import TokenGateway
from app.gateways.discussion.comments import TalkGateway
from app.gateways.discussion.moderation import ModerationGateway
from app.gateways.feeds import entry_bodies
from app.gateways.feeds.discoveries import DiscoveryGateway
from app.gateways.feeds.entry_writer import EntryWriter
from app.gateways.feeds.feed_merge import FeedMerger
from app.gateways.feeds.feeds import FeedGateway
from app.gateways.feeds.websubs import WebsubGateway
from app.gateways.imports.exports import ExportGateway
from app.gateways.imports.imports import ImportGateway
from app.gateways.imports.packs import PackGateway
from app.gateways.notifications.devices import DeviceGateway
from app.gateways.notifications.notifications import NoteGateway
from app.gateways.operations.feed_lists import FeedListGateway
from app.gateways.privacy.erasure import ErasingGateway
from app.gateways.privacy.exports import PersonalExportGateway
from app.gateways.privacy.personal_data import BelongingsGateway
from app.gateways.reading.changes import ChangeGateway
from app.gateways.reading.entries import EntryGateway
from app.gateways.reading.grouping import GatheringGateway
from app.gateways.reading.indexing import IndexingGateway
from app.gateways.reading.read_marks import ReadGateway
from app.gateways.reading.search_engine import TextSearch
from app.gateways.reading.stream_merge import KeyMerger
from app.gateways.reading.stream_views import StreamViewGateway
from app.gateways.reading.streams import StreamGateway
from app.gateways.reading.tags import TagGateway, TagLimits
from app.gateways.reading.undo_history import UndoGateway
from app.gateways.sharing.chains import ChainGateway
from app.gateways.sharing.follows import FollowGateway
from app.gateways.sharing.pages import SharedGateway
from app.gateways.sharing.profiles import ProfileGateway
from app.gateways.sharing.shares import SharingGateway
from app.gateways.sharing.trends import TrendGateway
from app.gateways.sharing.visibility import SightGateway
from app.gateways.subscriptions.folders import FolderGateway
from app.gateways.subscriptions.ordering import PlaceGateway
from app.gateways.subscriptions.subscriptions import SubscriptionGateway
from app.gateways.sync.idempotency import IdempotencyGateway
from app.gateways.sync.items import SyncItemGateway
from app.gateways.sync.streams import SyncGateway
from app.mappers.accounts.admin_accounts import PeopleMapper
from app.mappers.accounts.invites import InviteMapper
from app.mappers.accounts.resets import ResetMapper
from app.mappers.accounts.sessions import SessionMapper
from app.mappers.accounts.tokens import TokenMapper
from app.mappers.accounts.users import UserMapper
from app.mappers.discussion.abuse_reports import ReportMapper
from app.mappers.discussion.comments import CommentMapper, LikeMapper
from app.mappers.feeds.discoveries import DiscoveryMapper
from app.mappers.feeds.entries import EntryMapper
from app.mappers.feeds.feeds import FeedMapper
from app.mappers.feeds.fetches import FetchMapper
from app.mappers.feeds.poll_results import FeedEndMapper
from app.mappers.feeds.websubs import WebsubMapper
from app.mappers.imports.imports import ImportMapper
from app.mappers.imports.packs import PackMapper
from app.mappers.mongo.store import Store
from app.mappers.notifications.devices import DeviceMapper
from app.mappers.notifications.notifications import NoteMapper
from app.mappers.operations.feed_lists import FeedListMapper
from app.mappers.privacy.erasure import ErasureMapper
from app.mappers.privacy.exports import PersonalExportMapper
from app.mappers.privacy.personal_data import BelongingsMapper
from app.mappers.reading.arrivals import ArrivalMapper
from app.mappers.reading.changes import ChangeMapper
from app.mappers.reading.entry_keys import EntryKeyMapper
from app.mappers.reading.index_queue import IndexMarkMapper
from app.mappers.reading.marks import MarkMapper
from app.mappers.reading.search_index import SearchableMapper
from app.mappers.reading.snapshots import SnapshotMapper, UndoMapper
from app.mappers.reading.stream_views import StreamViewMapper
from app.mappers.reading.tags import SavedSearchMapper, TagMapper
from app.mappers.sharing.hubs import HubMapper
from app.mappers.sharing.profiles import ProfileMapper, TieMapper
from app.mappers.sharing.shared_feeds import SharedFeedMapper
from app.mappers.sharing.shares import ShareMapper
from app.mappers.sharing.trends import TrendMapper
from app.mappers.subscriptions.folders import FolderMapper
from app.mappers.subscriptions.subscriptions import SubscriptionMapper
from app.mappers.subscriptions.undo import RemovalMapper
from app.mappers.sync.idempotency import IdempotencyMapper
from app.models.sharing.sharing import Audience
from app.models.subscriptions.subscription import StartRule


class Mappers:
    """One of each, on one database."""

    def __init__(self, store: Store, settings: Settings) -> None:
        database = store.database
        self.feeds = FeedMapper(database)
        self.fetches = FetchMapper(database)
        self.entries = EntryMapper(database)
        self.keys = EntryKeyMapper(database)
        self.arrivals = ArrivalMapper(database)
        self.changes = ChangeMapper(database)
        self.subscriptions = SubscriptionMapper(database)
        self.folders = FolderMapper(database)
        self.marks = MarkMapper(database)
        self.tags = TagMapper(database)
        self.searches = SavedSearchMapper(database)
        self.searchables = SearchableMapper(database, words_most=settings.search_words)
        self.index_marks = IndexMarkMapper(database)
        self.snapshots = SnapshotMapper(database)
        self.streamviews = StreamViewMapper(database)
        self.undos = UndoMapper(database)
        self.removals = RemovalMapper(database)
        self.users = UserMapper(database)
        self.sessions = SessionMapper(database)
        self.invites = InviteMapper(database)
        self.erasure = ErasureMapper(database)
        self.discoveries = DiscoveryMapper(database)
        self.websubs = WebsubMapper(database)
        self.hubs = HubMapper(database)
        self.feed_ends = FeedEndMapper(database)
        self.imports = ImportMapper(database)
        self.packs = PackMapper(database)
        self.feedlists = FeedListMapper(database)
        self.people = PeopleMapper(database)
        self.profiles = ProfileMapper(database)
        self.ties = TieMapper(database)
        self.shares = ShareMapper(database)
        self.trends = TrendMapper(database, dt.timedelta(seconds=settings.trend_half_life))
        self.shared_feeds = SharedFeedMapper(database)
        self.reports = ReportMapper(database)
        self.resets = ResetMapper(database)
        self.likes = LikeMapper(database)
        self.comments = CommentMapper(database)
        self.notes = NoteMapper(database)
        self.devices = DeviceMapper(database)
        self.tokens = TokenMapper(database)
        self.idempotency = IdempotencyMapper(database)
        self.belongings = BelongingsMapper(database)
        self.personal_exports = PersonalExportMapper(database)


class Gateways:
    """One of each, over the mappers."""

    def __init__(self, store: Store, mappers: Mappers, settings: Settings) -> None:
        m = mappers
        start = StartRule(dt.timedelta(days=settings.unread_days), settings.unread_min, settings.unread_max)
        keep = settings.retention_entries
        writer = EntryWriter(store, m.feeds, m.entries, m.subscriptions, start=start, keep=keep)
        merger = FeedMerger(store, m.feeds, m.entries, m.subscriptions)
        self.websubs = WebsubGateway(m.websubs, settings)
        hubs = self.websubs if subscriber.is_on(settings) else None
        self.feeds = FeedGateway(m.feeds, m.entries, m.fetches, writer, merger, keep=keep, hubs=hubs)
        self.sight = SightGateway(m.profiles, m.ties, m.shares, m.subscriptions)
        self.subscriptions = SubscriptionGateway(
            store,
            m.feeds,
            m.entries,
            m.subscriptions,
            m.removals,
            m.ties,
            self.sight,
            merger,
            start=start,
            most=settings.subscriptions_max,
        )
        self.reads = ReadGateway(m.feeds, m.subscriptions, m.undos)
        self.folders = FolderGateway(m.folders, m.subscriptions, m.removals)
        self.places = PlaceGateway(store, m.feeds, m.folders, m.subscriptions, m.removals)
        self.entries = EntryGateway(
            store, m.entries, m.keys, m.marks, m.subscriptions, self.sight, entry_bodies.sanitizer(settings)
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
            store,
            self.profiles,
            self.sight,
            m.shared_feeds,
            m.shares,
            m.entries,
            m.searchables,
            m.removals,
            m.trends,
            depth=settings.chain_depth,
            trend_age=dt.timedelta(days=settings.trend_days),
        )
        self.follows = FollowGateway(
            self.subscriptions, m.subscriptions, m.feeds, m.users, m.profiles, m.ties, self.sight
        )
        self.moderation = ModerationGateway(
            m.reports, m.profiles, m.shares, m.comments, m.entries, m.users, self.sight
        )
        self.chains = ChainGateway(
            m.shares,
            self.sight,
            self.profiles,
            m.entries,
            rows=settings.chain_rows,
            most=settings.chain_count_max,
        )
        self.trends = TrendGateway(
            m.trends,
            m.shares,
            self.entries,
            self.sight,
            m.profiles,
            m.subscriptions,
            rows=settings.trend_rows,
            people=settings.similar_people,
            most=settings.chain_count_max,
        )
        self.shared = SharedGateway(
            m.shares,
            m.entries,
            m.feeds,
            self.entries,
            self.sight,
            rows=settings.shared_rows,
            passed_most=settings.reshares_counted,
            counted=settings.chain_count_max,
            origin=settings.own_origin,
            hub=hub.address(settings),
        )
        self.gathering = GatheringGateway(
            m.subscriptions, m.profiles, m.shares, m.entries, m.keys, self.sight
        )
        self.accounts = AccountGateway(store, m.users, m.sessions, m.invites, m.resets, settings)
        self.devices = DeviceGateway(m.devices, self.accounts, settings)
        self.tokens = TokenGateway(m.tokens, m.users)
        self.idempotency = IdempotencyGateway(
            m.idempotency,
            ttl=dt.timedelta(seconds=settings.idempotency_ttl),
            lease=dt.timedelta(seconds=settings.idempotency_lease),
        )
        self.people = PeopleGateway(
            store, m.people, m.users, m.sessions, m.invites, m.resets, reset_ttl=settings.reset_ttl
        )
        self.talk = TalkGateway(
            store,
            m.shares,
            m.likes,
            m.comments,
            m.notes,
            self.sight,
            depth=settings.comment_depth,
            rows=settings.comment_rows,
            most=settings.talk_count_max,
        )
        self.notes = NoteGateway(
            m.notes,
            m.likes,
            m.comments,
            m.shares,
            m.ties,
            m.users,
            m.subscriptions,
            m.feeds,
            m.feedlists,
            self.entries,
            self.sight,
            keep=dt.timedelta(days=settings.notifications_days),
            most=settings.notifications_max,
            rows=settings.notification_rows,
            broken=dt.timedelta(days=settings.feed_broken_days),
            likes_most=settings.talk_count_max,
        )
        self.erasing = ErasingGateway(
            store,
            self.people,
            self.subscriptions,
            self.websubs,
            m.marks,
            m.entries,
            m.erasure,
            self.sharing,
            self.talk,
        )
        self.feedlists = FeedListGateway(m.feedlists)
        self.discoveries = DiscoveryGateway(m.discoveries, Limits.of(settings))
        self.imports = ImportGateway(store, m.imports, m.feed_ends, m.subscriptions, self.folders, settings)
        self.exports = ExportGateway(m.subscriptions, m.feeds, self.folders, self.profiles)
        self.packs = PackGateway(m.packs, settings)
        merged = KeyMerger(m.keys)
        self.streams = StreamGateway(m.feeds, m.entries, m.marks, m.snapshots, merged)
        self.tags = TagGateway(
            store,
            m.tags,
            m.marks,
            m.entries,
            m.searches,
            m.removals,
            limits=TagLimits(settings.tags_per_entry, settings.tags_per_user),
            searches_most=settings.searches_max,
            undo_ttl=dt.timedelta(seconds=settings.undo_ttl),
        )
        self.sync = SyncGateway(
            merged,
            m.keys,
            m.arrivals,
            m.changes,
            m.entries,
            m.marks,
            m.shares,
            m.likes,
            m.comments,
            self.sight,
            settings,
        )
        self.sync_items = SyncItemGateway(
            self.entries, self.streams, self.subscriptions, self.tags, self.sight, m.keys, m.shares, m.likes
        )
        self.indexing = IndexingGateway(m.index_marks, m.entries, text_most=settings.search_text)
        # The engine: another one takes its place here.
        self.search = TextSearch(m.searchables)
        self.changes = ChangeGateway(m.changes, m.undos, m.feeds, settings)
        self.undos = UndoGateway(m.undos, m.removals, m.feeds)
        self.streamviews = StreamViewGateway(m.streamviews, most=settings.stream_views_max)
        belongings = BelongingsGateway(
            m.belongings,
            m.shares,
            self.accounts,
            self.profiles,
            self.exports,
            self.subscriptions,
            self.feeds,
            self.folders,
            self.entries,
            self.tags,
            self.follows,
            self.sight,
            self.notes,
        )
        self.personal = PersonalExportGateway(m.personal_exports, belongings, settings)
