"""Reports, and what administrators decide on them; every decision is in the log (W20)."""

from __future__ import annotations

from app import clock, logs
from app.errors import InvalidError, NotFoundError
from app.gateways.discussion import moderation
from app.gateways.discussion.comments import TalkGateway
from app.gateways.discussion.moderation import ModerationGateway
from app.gateways.reading.changes import ChangeGateway
from app.gateways.sharing.profiles import ProfileGateway
from app.gateways.sharing.shares import SharingGateway
from app.models.accounts.actor import Actor, Permission
from app.models.accounts.user import Session
from app.models.discussion.moderation import About, Cases, Reason, Report, Reported
from app.ports import EventPort
from app.services.access import Limiter, require, throttle
from app.services.accounts.admin_accounts import PeopleService
from app.services.sharing.following import FollowingService
from app.services.validation import an_id, some_words

log = logs.get(__name__)

HOUR = 3600
TEXT_MAX, QUOTE_MAX = 2000, 1000
#: Reports on the screen at once; suspended people.
ROWS = 100


class ModerationService:
    """Report, dismiss, remove, suspend.

    Args:
        per_hour: reports of one user.
    """

    def __init__(
        self,
        reports: ModerationGateway,
        profiles: ProfileGateway,
        sharing: SharingGateway,
        talk: TalkGateway,
        following: FollowingService,
        people: PeopleService,
        changes: ChangeGateway,
        events: EventPort,
        limiter: Limiter,
        *,
        per_hour: int,
    ) -> None:
        self._reports, self._profiles, self._sharing = reports, profiles, sharing
        self._talk, self._following, self._people = talk, following, people
        self._changes = changes
        self._events, self._limiter, self._per_hour = events, limiter, per_hour

    # -- for everybody
    def share(self, actor: Actor, share_id: int) -> Reported:
        """Return a share as the one sees it who is about to report it.

        Raises, as :meth:`person`:
            NotFoundError: there is none, or it is not for him.
            InvalidError: it is his own.
        """
        require(actor, Permission.REPORT_MAKE)
        share = self._sharing.get(actor.user_id, an_id(share_id, "share"))
        _others(actor, share.user_id)
        profile = self._profiles.some([share.user_id])[share.user_id]
        return self._reports.shown(profile, share, share.id, actor.user_id)

    def comment(self, actor: Actor, comment_id: int) -> Reported:
        """Return a comment as the one sees it who is about to report it."""
        require(actor, Permission.REPORT_MAKE)
        found, _ = self._talk.get(actor.user_id, an_id(comment_id, "comment"))
        if found.user_id is None or not self._talk.hears(actor.user_id, found):
            raise NotFoundError(comment_id=comment_id)
        _others(actor, found.user_id)
        return self._reports.said(self._reports.author(found.user_id), found, found.id, actor.user_id)

    def person(self, actor: Actor, handle: str) -> Reported:
        """Return somebody as the one sees him who is about to report him."""
        require(actor, Permission.REPORT_MAKE)
        found = self._following.person(actor, handle).profile
        _others(actor, found.user_id)
        return moderation.person(found)

    def report(self, actor: Actor, thing: Reported, reason: Reason, text: str) -> None:
        """Tell administrators of something.

        Raises:
            ExistsError: he has, and it is not decided yet.
            InvalidError: the text is too long, or missing where the reason says nothing.
            RateLimitedError: too many within the hour.
        """
        require(actor, Permission.REPORT_MAKE)
        text = some_words(text, "text", most=TEXT_MAX)
        if reason is Reason.OTHER and not text:
            raise InvalidError("Say in a few words what is wrong.", field="text")
        throttle(self._limiter, f"report:{actor.user_id}", limit=self._per_hour, window=HOUR)
        report = Report(
            id=0,
            user_id=actor.user_id,
            about=thing.about,
            thing=thing.thing,
            whom=thing.profile.user_id,
            reason=reason,
            text=text,
            quote=thing.quote[:QUOTE_MAX],
            at=clock.now(),
        )
        self._reports.add(report)
        log.info("reported", user_id=actor.user_id, about=thing.about.value, thing=thing.thing)

    # -- for administrators
    def cases(self, actor: Actor) -> Cases:
        """Return what is to be decided, also about what is for few; and who is suspended."""
        require(actor, Permission.REPORT_MANAGE)
        cases, more = self._reports.cases(ROWS)
        suspended = self._reports.suspended(self._profiles.suspended(ROWS))
        return Cases(tuple(cases), more, tuple(suspended))

    def dismiss(self, actor: Actor, about: About, thing: int) -> int:
        """Let something be as it is; return how many reports that closes.

        What was taken away meanwhile stays away: else it could come back when nobody looks any more.

        Raises:
            NotFoundError: there is no such share, or nothing is said about such a comment.
        """
        require(actor, Permission.REPORT_MANAGE)
        thing = an_id(thing, "thing")
        match about:
            case About.PERSON:
                whom = thing
            case About.SHARE:
                whom = self._reports.share(thing).user_id
                self._sharing.settle(whom, thing)
            case About.COMMENT:  # it may be gone, with all of its place
                whom = self._reports.whom(about, thing)
                self._talk.settle(whom, thing)
        count = self._reports.close(whom, about, thing)
        log.info("reports_dismissed", about=about.value, thing=thing, count=count, by=actor.user_id)
        return count

    def remove(self, actor: Actor, share_id: int) -> None:
        """Take somebody's share back for good; what others made of it stays.

        Raises:
            NotFoundError: there is none, or it was taken back already.
        """
        require(actor, Permission.REPORT_MANAGE)
        share, now = self._reports.share(an_id(share_id, "share")), clock.now()
        owner = self._reports.user(share.user_id)
        self._sharing.remove(owner.id, share.id, now, now)  # nothing that could bring it back
        if owner.synced:
            self._changes.note(owner.id, {}, {share.of.entry_id})
        self._reports.close(share.user_id, About.SHARE, share.id)
        self._events.new({share.feed_id: 0})
        self._events.counts(share.user_id)
        log.info("share_removed", share_id=share.id, user_id=share.user_id, by=actor.user_id)

    def remove_comment(self, actor: Actor, comment_id: int) -> None:
        """Take somebody's comment away for good; where it was answered its place stays.

        Raises:
            NotFoundError: there is none, or it was removed already.
        """
        require(actor, Permission.REPORT_MANAGE)
        found, now = self._reports.comment(an_id(comment_id, "comment")), clock.now()
        self._talk.remove(actor.user_id, found.id, now, now)  # nothing that could bring it back
        author = found.user_id or 0
        self._reports.close(author, About.COMMENT, found.id)
        self._events.counts(self._reports.share(found.share_id).user_id)
        log.info("comment_taken", comment_id=found.id, user_id=author, by=actor.user_id)

    def suspend(self, actor: Actor, session: Session, user_id: int, proof: str = "") -> None:
        """Close somebody's account and hide all that he shares, at once.

        Raises, as :meth:`lift`:
            InvalidError: it is the actor himself, or his password is wanted and wrong.
            NotFoundError: there is no such account.
            ConflictError: nobody would be left who may change anything.
        """
        require(actor, Permission.REPORT_MANAGE)
        self._people.set_disabled(actor, session, user_id, True, proof)
        # Who only comments has no profile yet; with one he is suspended like anybody else.
        self._profiles.ensure(self._reports.user(user_id), clock.now())
        hidden = self._profiles.suspend(user_id, True)
        closed = self._reports.close(user_id)
        self._events.new({hidden.feed_id: 0})
        log.info("person_suspended", user_id=user_id, reports=closed, by=actor.user_id)

    def lift(self, actor: Actor, session: Session, user_id: int, proof: str = "") -> None:
        """Take a suspension back; what he shares is seen again by those for whom he shares it."""
        require(actor, Permission.REPORT_MANAGE)
        self._people.set_disabled(actor, session, user_id, False, proof)
        shown = self._profiles.suspend(user_id, False)
        self._events.new({shown.feed_id: 0})
        log.info("suspension_lifted", user_id=user_id, by=actor.user_id)


def _others(actor: Actor, owner: int) -> None:
    if actor.user_id == owner:
        raise InvalidError("This is your own.")
