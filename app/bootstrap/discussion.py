"""Builds the services of discussion."""

from __future__ import annotations

from app.bootstrap.accounts import AccountServices
from app.bootstrap.sharing import SharingServices
from app.gateways.discussion.attachments import AttachedFileGateway
from app.runtime.lazy import lazy
from app.services.discussion.attachments import AttachmentService
from app.services.discussion.comments import DiscussionService
from app.services.discussion.moderation import ModerationService
from app.services.media.attachments import AttachmentLimits


class DiscussionServices(AccountServices, SharingServices):
    """The services of discussion."""

    @lazy
    def moderation(self) -> ModerationService:
        """Reports, and the decisions of administrators."""
        g, per_hour = self.gateways, self.settings.reports_per_hour
        return ModerationService(
            reports=g.moderation,
            profiles=g.profiles,
            sharing=g.sharing,
            talk=g.discussion,
            following=self.following,
            people=self.admin_accounts,
            changes=g.changes,
            events=self.events,
            limiter=self.limiter,
            per_hour=per_hour,
        )

    @lazy
    def attachments(self) -> AttachmentService:
        """Pictures and files of posts, notes and comments."""
        m, g = self.mappers, self.gateways
        files = AttachedFileGateway(g.files, m.shares, m.comments, g.visibility)
        return AttachmentService(files, g.attachments, g.blobs, ttl=self.settings.attachment_token_ttl)

    @lazy
    def discussion(self) -> DiscussionService:
        """Likes and comments."""
        g, s = self.gateways, self.settings
        return DiscussionService(
            g.discussion,
            g.entries,
            g.changes,
            self.notifier,
            self.limiter,
            length=s.comment_length,
            attachment_limits=AttachmentLimits(s.attachments_max, s.attachment_alt_length),
            per_hour=s.comments_per_hour,
            likes_per_hour=s.likes_per_hour,
            undo_ttl=s.undo_ttl,
        )
