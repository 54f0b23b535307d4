"""Builds the services of imports."""

from __future__ import annotations

from app.bootstrap.sharing import SharingServices
from app.bootstrap.subscriptions import SubscriptionServices
from app.runtime.lazy import lazy
from app.services.imports.imports import ImportService
from app.services.imports.packs import PackService
from app.services.imports.runner import ImportRunner


class ImportServices(SubscriptionServices, SharingServices):
    """The services of imports."""

    @lazy
    def imports(self) -> ImportService:
        """Previews, imports, exports."""
        g, s = self.gateways, self.settings
        return ImportService(
            imports=g.imports,
            exports=g.exports,
            bulk_edit=self.bulk_edit,
            jobs=self.jobs,
            events=self.events,
            limiter=self.limiter,
            free_space=self.free_space,
            fetch_budget=self.fetch_budget,
            settings=s,
        )

    @lazy
    def import_runner(self) -> ImportRunner:
        """Running imports; for workers and the updater."""
        g, s = self.gateways, self.settings
        return ImportRunner(
            imports=g.imports,
            subscriptions=g.subscriptions,
            feeds=g.feeds,
            erasure=g.erasure,
            notifier=self.notifier,
            following=self.following,
            jobs=self.jobs,
            events=self.events,
            free_space=self.free_space,
            settings=s,
        )

    @lazy
    def packs(self) -> PackService:
        """Starter packs."""
        return PackService(self.gateways.packs, self.imports)
