"""Builds the services of sync."""

from __future__ import annotations

from app.bootstrap.reading import ReadingServices
from app.runtime.lazy import lazy
from app.services.sync.idempotency import IdempotencyService
from app.services.sync.marks import SyncMarkService
from app.services.sync.reading import SyncService
from app.services.sync.scope import SyncScopeBuilder
from app.services.sync.short_ids import ShortIdService


class SyncServices(ReadingServices):
    """The services of sync."""

    @lazy
    def sync(self) -> SyncService:
        """Reading through native apps."""
        g = self.gateways
        return SyncService(
            scopes=self._sync_scopes,
            subscriptions=g.subscriptions,
            feeds=g.feeds,
            accounts=g.accounts,
            folders=g.folders,
            tags=g.tags,
            streams=g.streams,
            grouping=g.grouping,
            sync=g.sync,
            items=g.sync_items,
            hold_back=self.settings.sync_hold_back,
        )

    @lazy
    def sync_marks(self) -> SyncMarkService:
        """Marks by native apps, up to a time."""
        g = self.gateways
        return SyncMarkService(self._sync_scopes, g.subscriptions, g.folders, g.sync, self.mass_marks)

    @lazy
    def short_ids(self) -> ShortIdService:
        """Small numbers of feeds and folders, for the Fever API."""
        return ShortIdService(self.gateways.short_ids)

    @lazy
    def _sync_scopes(self) -> SyncScopeBuilder:
        g = self.gateways
        return SyncScopeBuilder(
            subscriptions=g.subscriptions,
            folders=g.folders,
            tags=g.tags,
            streams=g.streams,
            grouping=g.grouping,
            visibility=g.visibility,
        )

    @lazy
    def idempotency(self) -> IdempotencyService:
        """Repeated API requests that must run only once."""
        return IdempotencyService(
            self.gateways.idempotency,
            renewal=self.settings.idempotency_renewal,
            longest=self.settings.idempotency_lease,
        )
