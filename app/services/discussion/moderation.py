"""Reports of abuse, and the decisions of administrators; every decision is logged (W20)."""

from __future__ import annotations

from app import clock, logs
from app.errors import InvalidError, NotFoundError
from app.gateways.discussion import moderation
from app.gateways.discussion.comments import DiscussionGateway
from app.gateways.discussion.moderation import ModerationGateway
from app.gateways.reading.changes import ChangeGateway
from app.gateways.sharing.profiles import ProfileGateway
from app.gateways.sharing.shares import SharingGateway
from app.models.accounts.actor import Actor, Permission
from app.models.accounts.user import Session
from app.models.discussion.moderation import Cases, Reason, Report, ReportedItem, ReportSubject
from app.ports import EventPort
from app.services.access import Limiter, require_permission, throttle
from app.services.accounts.admin_accounts import AdminAccountService
from app.services.sharing.following import FollowingService
from app.services.validation import check_id, check_words

log = logs.get(__name__)

TEXT_MAX, QUOTE_MAX = 2000, 1000
#: Cases, and suspended people, on one page.
ROWS = 100


class ModerationService:
    """Makes reports, and dismisses them, removes reported things or suspends their authors.

    Args:
        per_hour: reports of one user per hour.
    """

    def __init__(
        self,
        *,
        reports: ModerationGateway,
        profiles: ProfileGateway,
        sharing: SharingGateway,
        talk: DiscussionGateway,
        following: FollowingService,
        people: AdminAccountService,
        changes: ChangeGateway,
        events: EventPort,
        limiter: Limiter,
        per_hour: int,
    ) -> None:
        self._reports, self._profiles, self._sharing = reports, profiles, sharing
        self._talk, self._following, self._people = talk, following, people
        self._changes = changes
        self._events, self._limiter, self._per_hour = events, limiter, per_hour

    # -- for everyone
    def describe_share(self, actor: Actor, share_id: int) -> ReportedItem:
        """Return a share as the person who is about to report it sees it.

        Raises, like :meth:`describe_comment` and :meth:`describe_person`: NotFoundError: there is no such
            share, or the actor may not see it. InvalidError: the share is the actor's own.
        """
        require_permission(actor, Permission.REPORT_MAKE)
        share = self._sharing.get_share(actor.user_id, check_id(share_id, "share"))
        _others(actor, share.user_id)
        profile = self._profiles.find_many([share.user_id])[share.user_id]
        return self._reports.describe_share(profile, share, share.id, actor.user_id)

    def describe_comment(self, actor: Actor, comment_id: int) -> ReportedItem:
        """Return a comment as the person who is about to report it sees it."""
        require_permission(actor, Permission.REPORT_MAKE)
        found, _ = self._talk.get_comment(actor.user_id, check_id(comment_id, "comment"))
        if found.user_id is None or not self._talk.can_see_author(actor.user_id, found):
            raise NotFoundError(comment_id=comment_id)
        _others(actor, found.user_id)
        return self._reports.describe_comment(
            self._reports.get_author(found.user_id), found, found.id, actor.user_id
        )

    def describe_person(self, actor: Actor, handle: str) -> ReportedItem:
        """Return a person as the person who is about to report them sees them."""
        require_permission(actor, Permission.REPORT_MAKE)
        found = self._following.get_person(actor, handle).profile
        _others(actor, found.user_id)
        return moderation.describe_person(found)

    def report(self, actor: Actor, thing: ReportedItem, reason: Reason, text: str) -> None:
        """Report a share, a comment or a person to the administrators.

        Raises:
            ExistsError: the actor has an open report about the same thing.
            InvalidError: the text is too long, or missing although the reason is "other".
            RateLimitedError: too many reports within the hour.
        """
        require_permission(actor, Permission.REPORT_MAKE)
        text = check_words(text, "text", limit=TEXT_MAX)
        if reason is Reason.OTHER and not text:
            raise InvalidError("Briefly describe what's wrong.", field="text")
        throttle(self._limiter, f"report:{actor.user_id}", limit=self._per_hour, window=clock.HOUR)
        report = Report(
            id=0,
            user_id=actor.user_id,
            about=thing.about,
            thing_id=thing.thing,
            accused_id=thing.profile.user_id,
            reason=reason,
            text=text,
            quote=thing.quote[:QUOTE_MAX],
            at=clock.now(),
        )
        self._reports.add(report)
        log.info("reported", user_id=actor.user_id, about=thing.about.value, thing=thing.thing)

    # -- for administrators
    def list_cases(self, actor: Actor) -> Cases:
        """Return the open cases, including those about restricted shares, and the suspended people."""
        require_permission(actor, Permission.REPORT_MANAGE)
        cases, more = self._reports.list_cases(ROWS)
        suspended = self._reports.find_profiles(self._profiles.find_suspended(ROWS))
        return Cases(tuple(cases), more, tuple(suspended))

    def dismiss(self, actor: Actor, about: ReportSubject, thing: int) -> int:
        """Dismiss the reports about a thing; return how many reports that closes.

        A share or comment that its author removed meanwhile loses its undo: otherwise it could come back when
        nobody checks it anymore.

        Raises:
            NotFoundError: there is no such share, or no report about such a comment.
        """
        require_permission(actor, Permission.REPORT_MANAGE)
        thing = check_id(thing, "thing")
        match about:
            case ReportSubject.PERSON:
                whom = thing
            case ReportSubject.SHARE:
                whom = self._reports.get_share(thing).user_id
                self._sharing.remove_undo(whom, thing)
            case ReportSubject.COMMENT:  # the comment may be gone, placeholder included
                whom = self._reports.get_accused(about, thing)
                self._talk.remove_undo(whom, thing)
        count = self._reports.close(whom, about, thing)
        log.info("reports_dismissed", about=about.value, thing=thing, count=count, by=actor.user_id)
        return count

    def remove_share(self, actor: Actor, share_id: int) -> None:
        """Unshare a user's share permanently; re-shares by other people stay.

        Raises:
            NotFoundError: there is no such share, or it was unshared already.
        """
        require_permission(actor, Permission.REPORT_MANAGE)
        share, now = self._reports.get_share(check_id(share_id, "share")), clock.now()
        owner = self._reports.get_user(share.user_id)
        self._sharing.remove_share(owner.id, share.id, now, now)  # expires now: no undo
        if owner.synced:
            self._changes.record_changes(owner.id, {}, {share.of.entry_id})
        self._reports.close(share.user_id, ReportSubject.SHARE, share.id)
        self._events.notify_new_entries({share.feed_id: 0})
        self._events.notify_counts(share.user_id)
        log.info("share_removed", share_id=share.id, user_id=share.user_id, by=actor.user_id)

    def remove_comment(self, actor: Actor, comment_id: int) -> None:
        """Remove a user's comment permanently; a comment with answers leaves a placeholder.

        Raises:
            NotFoundError: there is no such comment, or it was removed already.
        """
        require_permission(actor, Permission.REPORT_MANAGE)
        found, now = self._reports.get_comment(check_id(comment_id, "comment")), clock.now()
        self._talk.remove_comment(actor.user_id, found.id, now, now)  # expires now: no undo
        author = found.user_id or 0
        self._reports.close(author, ReportSubject.COMMENT, found.id)
        self._events.notify_counts(self._reports.get_share(found.share_id).user_id)
        log.info("comment_taken", comment_id=found.id, user_id=author, by=actor.user_id)

    def suspend(self, actor: Actor, session: Session, user_id: int, proof: str = "") -> None:
        """Close an account and hide all its shares immediately.

        Raises, like :meth:`lift_suspension`: InvalidError: the account is the actor's own, or the password is
            required and wrong. NotFoundError: there is no such account. ConflictError: the server would have
            no admin left.
        """
        require_permission(actor, Permission.REPORT_MANAGE)
        self._people.set_disabled(actor, session, user_id, True, proof)
        # A person who only comments has no profile yet, and the suspension is stored there.
        self._profiles.get_or_create_profile(self._reports.get_user(user_id), clock.now())
        hidden = self._profiles.set_suspended(user_id, True)
        closed = self._reports.close(user_id)
        self._events.notify_new_entries({hidden.feed_id: 0})
        log.info("person_suspended", user_id=user_id, reports=closed, by=actor.user_id)

    def lift_suspension(self, actor: Actor, session: Session, user_id: int, proof: str = "") -> None:
        """Lift a suspension: the person's shares are visible to their audience again."""
        require_permission(actor, Permission.REPORT_MANAGE)
        self._people.set_disabled(actor, session, user_id, False, proof)
        shown = self._profiles.set_suspended(user_id, False)
        self._events.notify_new_entries({shown.feed_id: 0})
        log.info("suspension_lifted", user_id=user_id, by=actor.user_id)


def _others(actor: Actor, owner: int) -> None:
    if actor.user_id == owner:
        raise InvalidError("You can't report yourself or your own content.")
