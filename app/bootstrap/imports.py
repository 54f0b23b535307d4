"""Builds the services of imports."""

from __future__ import annotations

from app.bootstrap.reading import ReadingServices
from app.bootstrap.sharing import SharingServices
from app.bootstrap.subscriptions import SubscriptionServices
from app.runtime.lazy import lazy
from app.services.imports.archives import READ, ArchiveService, make_read_job
from app.services.imports.choices import ChoiceService
from app.services.imports.followed_lists import FollowedListService
from app.services.imports.imports import ImportService
from app.services.imports.packs import PackService
from app.services.imports.pulls import PULL, PulledImportService, make_pull_job
from app.services.imports.runner import ImportRunner
from app.services.later import LaterKind


class ImportServices(SubscriptionServices, SharingServices, ReadingServices):
    """The services of imports."""

    @lazy
    def imports(self) -> ImportService:
        """Previews, imports, exports."""
        g, s = self.gateways, self.settings
        return ImportService(
            imports=g.imports,
            archives=g.archives,
            exports=g.exports,
            feeds=g.feeds,
            bulk_edit=self.bulk_edit,
            jobs=self.jobs,
            events=self.events,
            limiter=self.limiter,
            free_space=self.free_space,
            fetch_budget=self.fetch_budget,
            settings=s,
        )

    @lazy
    def archives(self) -> ArchiveService:
        """Uploaded archives that are read in the background; for workers, too."""
        return ArchiveService(
            self.gateways.archives,
            self.jobs,
            self.events,
            self.limiter,
            free_space=self.free_space,
            settings=self.settings,
        )

    @lazy
    def pulled_imports(self) -> PulledImportService:
        """Imports from other readers' servers; for workers, too."""
        return PulledImportService(
            self.gateways.pulled_imports,
            self.gateways.accounts,
            self.jobs,
            self.later,
            self.events,
            imports=self.gateways.imports,
            limiter=self.limiter,
            budget=self.budget,
            fetch_budget=self.fetch_budget,
            free_space=self.free_space,
            settings=self.settings,
        )

    @property
    def archive_kinds(self) -> tuple[LaterKind, ...]:
        """The delayed tasks of archives and of other servers."""
        return (
            LaterKind(READ, make_read_job, lambda now: self.archives.find_pending(now)),
            LaterKind(PULL, make_pull_job, lambda now: self.pulled_imports.find_pending()),
        )

    @lazy
    def imported_choices(self) -> ChoiceService:
        """Saved searches, rules and settings of feeds in Eventr's own archives."""
        return ChoiceService(
            tags=self.tags, rules=self.rules, subscriptions=self.subscriptions, sharing=self.sharing
        )

    @lazy
    def import_runner(self) -> ImportRunner:
        """Running imports; for workers and the updater."""
        g, s = self.gateways, self.settings
        return ImportRunner(
            imports=g.imports,
            archives=g.archives,
            subscriptions=g.subscriptions,
            feeds=g.feeds,
            accounts=g.accounts,
            erasure=g.erasure,
            notifier=self.notifier,
            following=self.following,
            choices=self.imported_choices,
            jobs=self.jobs,
            events=self.events,
            free_space=self.free_space,
            settings=s,
        )

    @lazy
    def followed_lists(self) -> FollowedListService:
        """OPML files on the web that users follow; for workers and the updater, too."""
        g = self.gateways
        return FollowedListService(
            g.followed_lists,
            g.accounts,
            self.bulk_edit,
            self.jobs,
            limiter=self.limiter,
            budget=self.budget,
            fetch_budget=self.fetch_budget,
            free_space=self.free_space,
        )

    @lazy
    def packs(self) -> PackService:
        """Starter packs."""
        return PackService(self.gateways.packs, self.gateways.feed_search, self.imports)
