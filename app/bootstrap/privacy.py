"""Builds the services of privacy."""

from __future__ import annotations

from app.bootstrap.accounts import AccountServices
from app.bootstrap.media import MediaServices
from app.bootstrap.notifications import NotificationServices
from app.runtime.lazy import lazy
from app.services.privacy.erasure import ErasureService
from app.services.privacy.export import PersonalExportService


class PrivacyServices(AccountServices, NotificationServices, MediaServices):
    """The services of privacy."""

    @lazy
    def erasure(self) -> ErasureService:
        """Deletion of accounts; for workers and the updater."""
        return ErasureService(self.gateways.erasure, self.uploads)

    @lazy
    def personal_exports(self) -> PersonalExportService:
        """Files with all of a user's own data."""
        g, notifier = self.gateways, self.notifier
        return PersonalExportService(
            exports=g.personal_exports,
            accounts=g.accounts,
            people=self.admin_accounts,
            notifier=notifier,
            jobs=self.jobs,
            limiter=self.limiter,
            free_space=self.free_space,
            settings=self.settings,
        )
