"""Builds the services that work on single entries, for readers and for jobs."""

from __future__ import annotations

from app.bootstrap.base import Base
from app.runtime.lazy import lazy
from app.services.reading.full_texts import FullTextService
from app.services.reading.sending import SendingService
from app.services.reading.text_rules import TextRuleService


class EntryServices(Base):
    """The services of single entries."""

    @lazy
    def full_texts(self) -> FullTextService:
        """Full texts of entries; for workers, too."""
        return FullTextService(
            self.gateways.full_texts,
            self.gateways.robots,
            self.gateways.entries,
            self.jobs,
            limiter=self.limiter,
            budget=self.budget,
            fetch_budget=self.fetch_budget,
            settings=self.settings,
        )

    @lazy
    def sending(self) -> SendingService:
        """Services of readers that entries are sent to; for workers and the updater, too."""
        return SendingService(
            self.gateways.targets,
            self.gateways.entries,
            self.jobs,
            limiter=self.limiter,
            budget=self.budget,
            settings=self.settings,
        )

    @lazy
    def text_rules(self) -> TextRuleService:
        """Rules of the admins for full texts; for workers, too."""
        return TextRuleService(self.gateways.text_rules, self.jobs)
