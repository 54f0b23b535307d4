"""Builds the services of sharing."""

from __future__ import annotations

from app.bootstrap.entries import EntryServices
from app.bootstrap.notifications import NotificationServices
from app.feeds.websub import hub
from app.gateways.sharing.hub import HubGateway
from app.models.sharing.hub import Document
from app.runtime.lazy import lazy
from app.services.media.attachments import AttachmentLimits
from app.services.sharing.following import FollowingService
from app.services.sharing.hub import HubService
from app.services.sharing.pages import SharedService
from app.services.sharing.people_lists import PeopleListService
from app.services.sharing.sharing import SharingService
from app.services.sharing.trends import TrendService


class SharingServices(EntryServices, NotificationServices):
    """The services of sharing."""

    @lazy
    def sharing(self) -> SharingService:
        """Shares, posts, chains."""
        g, s = self.gateways, self.settings
        return SharingService(
            sharing=g.sharing,
            secrecy=g.secrecy,
            profiles=g.profiles,
            chains=g.chains,
            entries=g.entries,
            saved_pages=g.saved_pages,
            accounts=g.accounts,
            changes=g.changes,
            notifier=self.notifier,
            events=self.events,
            hub=self.hub,
            limiter=self.limiter,
            note_length=s.note_length,
            attachment_limits=AttachmentLimits(s.attachments_max, s.attachment_alt_length),
            per_hour=s.shares_per_hour,
            undo_ttl=s.undo_ttl,
            statistics=g.statistics,
            sending=self.sending,
        )

    @lazy
    def following(self) -> FollowingService:
        """Profiles, and the relationships between people."""
        g, s = self.gateways, self.settings
        return FollowingService(
            follows=g.follows,
            profiles=g.profiles,
            visibility=g.visibility,
            accounts=g.accounts,
            changes=g.changes,
            notifier=self.notifier,
            events=self.events,
            limiter=self.limiter,
            per_hour=s.follows_per_hour,
            undo_ttl=s.undo_ttl,
        )

    @lazy
    def trends(self) -> TrendService:
        """Trends and similar readers."""
        g = self.gateways
        return TrendService(g.trends, g.subscriptions, g.streams, g.tags)

    @lazy
    def public_pages(self) -> SharedService:
        """People's public pages and feeds."""
        return SharedService(self.gateways.public_pages, self.gateways.chains, self.following)

    @lazy
    def people_lists(self) -> PeopleListService:
        """Lists of people."""
        g = self.gateways
        return PeopleListService(self.following, g.follows, g.profiles, g.visibility, g.accounts)

    @lazy
    def hub(self) -> HubService:
        """The subscribers of public streams, and pushes to them."""
        g, s = self.gateways, self.settings
        gateway = HubGateway(
            hubs=self.mappers.hubs,
            profiles=g.profiles,
            accounts=g.accounts,
            find_document=self._served,
            settings=s,
        )
        return HubService(
            gateway,
            self.jobs,
            self.limiter,
            enabled=hub.is_enabled(s),
            per_hour=s.hub_per_hour,
            timeout=s.hub_timeout,
        )

    def _served(self, topic: str) -> Document | None:
        """Return the public document at the address of a feed of ours; the hub pushes it."""
        return self.public_pages.find_document(topic)  # late, because this service builds on the gateways
