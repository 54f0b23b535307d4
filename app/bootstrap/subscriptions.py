"""Builds the services of subscriptions."""

from __future__ import annotations

from app.bootstrap.feeds import FeedServices
from app.runtime.lazy import lazy
from app.services.subscriptions.bulk_edit import BulkEditService
from app.services.subscriptions.folders import FolderService
from app.services.subscriptions.subscriptions import SubscriptionService


class SubscriptionServices(FeedServices):
    """The services of subscriptions."""

    @lazy
    def subscriptions(self) -> SubscriptionService:
        """Subscribe, edit, refresh, unsubscribe."""
        g, s = self.gateways, self.settings
        return SubscriptionService(
            subscriptions=g.subscriptions,
            feeds=g.feeds,
            folders=g.folders,
            secrets=g.fetch_secrets,
            refresh_requests=self.refresh_requests,
            events=self.events,
            websubs=g.websubs,
            notifier=self.notifier,
            limiter=self.limiter,
            budget=self.budget,
            undo_ttl=s.undo_ttl,
            addresses_per_hour=s.addresses_per_hour,
            subscriptions_per_hour=s.subscriptions_per_hour,
        )

    @lazy
    def folders(self) -> FolderService:
        """Folders."""
        g = self.gateways
        return FolderService(g.folders, g.ordering, g.accounts, self.events, undo_ttl=self.settings.undo_ttl)

    @lazy
    def bulk_edit(self) -> BulkEditService:
        """Bulk edits of subscriptions."""
        g, undo_ttl = self.gateways, self.settings.undo_ttl
        return BulkEditService(
            subscriptions=g.subscriptions,
            feeds=g.feeds,
            folders=g.folders,
            streams=g.streams,
            websubs=g.websubs,
            refresh_requests=self.refresh_requests,
            events=self.events,
            notifier=self.notifier,
            undo_ttl=undo_ttl,
        )
