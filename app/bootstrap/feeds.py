"""Builds the services of feeds."""

from __future__ import annotations

from app import clock
from app.bootstrap.base import Base
from app.feeds.websub import subscriber
from app.runtime.lazy import lazy
from app.services.feeds.discovery import DiscoveryService
from app.services.feeds.orphans import OrphanService
from app.services.feeds.pull import PullService
from app.services.feeds.refresh_requests import RefreshRequests
from app.services.feeds.websub import WebsubService


class FeedServices(Base):
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
            apply_secrecy=self._apply_secrecy,
            free_space=self.free_space,
            fetch_budget=self.fetch_budget,
        )

    def _apply_secrecy(self, feed_id: int) -> None:
        """Close or open the shares of a feed that became secret, or that isn't secret anymore."""
        for was, share in self.gateways.secrecy.apply(feed_id, clock.now()):
            self.events.notify_new_entries({was.feed_id: 0, share.feed_id: 0})

    @lazy
    def orphans(self) -> OrphanService:
        """Deletion of feeds that nobody reads; for workers and the updater."""
        return OrphanService(self.gateways.orphans, self.settings)

    @lazy
    def websub(self) -> WebsubService:
        """WebSub subscriptions: callbacks, requests to hubs, and fetches for pushes."""
        return WebsubService(
            self.gateways.websubs, self.pull, self.jobs, enabled=subscriber.is_enabled(self.settings)
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
        )
