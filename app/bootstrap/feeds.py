"""Builds the services of feeds."""

from __future__ import annotations

from collections.abc import Mapping

from app.bootstrap.entries import EntryServices
from app.bootstrap.media import MediaServices
from app.bootstrap.notifications import NotificationServices
from app.feeds.websub import subscriber
from app.runtime.lazy import lazy
from app.services.feeds.chapters import ChapterService
from app.services.feeds.crawls import CrawlService
from app.services.feeds.discovery import DiscoveryService
from app.services.feeds.feed_search import FeedSearchService
from app.services.feeds.orphans import OrphanService
from app.services.feeds.page_lists import PageListService
from app.services.feeds.pull import PullService
from app.services.feeds.refresh_requests import RefreshRequests
from app.services.feeds.retention_budget import RetentionBudgetService
from app.services.feeds.websub import WebsubService
from app.services.reading.reopening import ReopenService
from app.services.sharing.secrecy import SecrecyService


class FeedServices(EntryServices, NotificationServices, MediaServices):
    """The services of feeds."""

    @lazy
    def refresh_requests(self) -> RefreshRequests:
        """Pulls that users request."""
        return RefreshRequests(
            self.gateways.feeds,
            self.jobs,
            self.limiter,
            self.settings.pulls_per_minute,
            free_space=self.free_space,
            fetch_budget=self.fetch_budget,
        )

    @lazy
    def pull(self) -> PullService:
        """Due feeds, and pulling them; for workers and the updater."""
        return PullService(
            self.gateways.feeds,
            self.gateways.retention,
            self.settings,
            budget=self.budget,
            events=self.events,
            secrecy=self.secrecy,
            free_space=self.free_space,
            fetch_budget=self.fetch_budget,
            thumbs=self.thumbs.request_thumbs,
            notify=self._tell_new_entries,
            reopen=self.reopening.request_marks,
            secrets=self.gateways.fetch_secrets,
        )

    @lazy
    def reopening(self) -> ReopenService:
        """Changed entries that become unread again; for workers."""
        g = self.gateways
        return ReopenService(g.reopening, g.accounts, self.jobs, self.events)

    def _tell_new_entries(self, new: Mapping[int, int]) -> None:
        self.notifier.notify_new_entries(new)
        self.full_texts.request_ahead(new)

    @lazy
    def secrecy(self) -> SecrecyService:
        """Shares of secret feeds; for workers, the updater and the choices of subscribers."""
        return SecrecyService(self.gateways.secrecy, self.events)

    @lazy
    def orphans(self) -> OrphanService:
        """Deletion of feeds that nobody reads; for workers and the updater."""
        return OrphanService(self.gateways.orphans, self.settings)

    @lazy
    def retention_budget(self) -> RetentionBudgetService:
        """Deletion of entries beyond the installation's budget; for workers and the updater."""
        is_enabled = self.settings.retention_total > 0
        return RetentionBudgetService(self.gateways.retention_budget, is_enabled=is_enabled)

    @lazy
    def websub(self) -> WebsubService:
        """WebSub subscriptions: callbacks, requests to hubs, and fetches for pushes."""
        return WebsubService(
            self.gateways.websubs, self.pull, self.jobs, enabled=subscriber.is_enabled(self.settings)
        )

    @lazy
    def chapters(self) -> ChapterService:
        """Chapters of episodes; for workers, too."""
        g = self.gateways
        return ChapterService(
            g.chapters, g.entries, self.jobs, budget=self.budget, fetch_budget=self.fetch_budget
        )

    @lazy
    def discovery(self) -> DiscoveryService:
        """Discovery of the feeds behind an address."""
        g = self.gateways
        return DiscoveryService(
            g.discoveries,
            g.feeds,
            g.subscriptions,
            self.jobs,
            limiter=self.limiter,
            fetch_budget=self.fetch_budget,
            settings=self.settings,
            crawls=self.crawls,
        )

    @lazy
    def crawls(self) -> CrawlService:
        """Crawls of sites for feeds; for workers and the updater, too."""
        return CrawlService(
            self.gateways.crawls,
            self.jobs,
            self.notifier.notify_feed_found,
            running=self.settings.crawls_running,
        )

    @lazy
    def feed_search(self) -> FeedSearchService:
        """The search of feeds by words; for workers and the updater, too."""
        g = self.gateways
        return FeedSearchService(
            g.feed_search,
            g.packs.list_feeds,
            self.jobs,
            limiter=self.limiter,
            per_minute=self.settings.feed_searches_per_minute,
        )

    @lazy
    def page_lists(self) -> PageListService:
        """Feeds of pages that have none; for workers, too."""
        return PageListService(
            self.gateways.page_lists,
            self.jobs,
            limiter=self.limiter,
            fetch_budget=self.fetch_budget,
            settings=self.settings,
        )
