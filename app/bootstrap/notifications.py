"""Builds the services of notifications."""

from __future__ import annotations

from app.bootstrap.base import Base
from app.runtime.lazy import lazy
from app.services.notifications import texts
from app.services.notifications.event_passes import EventPassService
from app.services.notifications.notifications import NotificationService
from app.services.notifications.notifier import Notifier
from app.services.notifications.page_frame import PageFrameService
from app.services.notifications.push import PushService


class NotificationServices(Base):
    """The services of notifications."""

    @lazy
    def event_passes(self) -> EventPassService:
        """Passes to the stream of events."""
        g = self.gateways
        return EventPassService(g.subscriptions, g.sessions, g.tokens, self.events)

    @lazy
    def notifier(self) -> Notifier:
        """Notifications about other people's actions."""
        return Notifier(self.gateways.notifications, self.events, self.push, self.jobs)

    @lazy
    def push(self) -> PushService:
        """Push notifications to devices; for the web and workers."""
        g = self.gateways
        return PushService(
            devices=g.devices,
            notes=g.notifications,
            notifications=self.notifications,
            build_message=texts.build_message,
            build_test_message=texts.build_test_message,
            jobs=self.jobs,
            limiter=self.limiter,
            settings=self.settings,
        )

    @lazy
    def notifications(self) -> NotificationService:
        """The notifications page."""
        return NotificationService(self.gateways.notifications, self.events)

    @lazy
    def page_frame(self) -> PageFrameService:
        """The short lists around the content of every page."""
        return PageFrameService(self.gateways.page_frame)
