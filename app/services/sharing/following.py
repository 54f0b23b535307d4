"""People: following them, and being followed; muting, blocking; profiles."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime as dt
from collections.abc import Sequence
from typing import Any

from app import clock, logs
from app.errors import ForbiddenError, InvalidError, NotFoundError, TooLargeError
from app.gateways.accounts.accounts import AccountGateway
from app.gateways.reading.changes import ChangeGateway
from app.gateways.sharing.follows import FollowGateway
from app.gateways.sharing.profiles import ProfileGateway
from app.gateways.sharing.visibility import Known, SightGateway
from app.models.accounts.actor import Actor, Permission
from app.models.accounts.user import User
from app.models.sharing.sharing import Audience, Profile, Tie
from app.ports import EventPort
from app.services.access import Limiter, require, throttle
from app.services.notifications.notifier import Notifier
from app.services.validation import a_text, some_words

log = logs.get(__name__)

HOUR = 3600
NAME_MAX, BIO_MAX, LINKS_MAX, LINK_MAX = 64, 500, 5, 2048
#: People on a page of followers; asks that are shown at once.
ROWS = 100
#: Requests that become follows when a stream opens; whoever is left is free to follow by himself.
LET_IN = 500


@dataclasses.dataclass(frozen=True, slots=True)
class Person:
    """Somebody's profile, as one who looks at it sees it."""

    profile: Profile
    tie: Tie
    followers: int


class FollowingService:
    """What the actor is to others.

    Args:
        per_hour: people whom one user may begin to follow. undo_ttl: seconds.
    """

    def __init__(
        self,
        follows: FollowGateway,
        profiles: ProfileGateway,
        sight: SightGateway,
        accounts: AccountGateway,
        changes: ChangeGateway,
        notifier: Notifier,
        events: EventPort,
        limiter: Limiter,
        *,
        per_hour: int,
        undo_ttl: float,
    ) -> None:
        self._follows, self._profiles, self._sight = follows, profiles, sight
        self._accounts, self._changes = accounts, changes
        self._events, self._limiter = events, limiter
        self._notifier = notifier
        self._per_hour = per_hour
        self._undo_ttl = dt.timedelta(seconds=undo_ttl)

    def person(self, actor: Actor | None, handle: str, known: Known | None = None) -> Person:
        """Return somebody's profile.

        Args:
            known: what was read of people for the same answer, with this one from then on.

        Raises:
            NotFoundError: there is none of this name, or it is not for this viewer.
        """
        profile = self._profiles.named(handle)
        tie = self._sight.tie(actor.user_id if actor else None, profile, known)
        if not profile.has_page(tie):
            raise NotFoundError(handle=handle[:64])
        return Person(profile, tie, self._follows.counts([profile]).get(profile.user_id, 0))

    def at_name(self, actor: Actor | None, handle: str, known: Known | None = None) -> Person:
        """Return the profile that a name leads to: of who has it, or had it not long ago.

        Args:
            known: as for :meth:`person`.

        Raises:
            NotFoundError: as for :meth:`person`.
        """
        try:
            return self.person(actor, handle, known)
        except NotFoundError:
            owner = None if self._accounts.named(handle) else self._accounts.once_named(handle)
            name = self._accounts.names([owner]).get(owner) if owner is not None else None
            if name is None:
                raise
            return self.person(actor, name, known)

    def card(self, actor: Actor) -> Profile:
        """Return the actor's own profile, or what it would be; nothing is made."""
        require(actor, Permission.SHARE_EDIT)
        return self._profiles.plan(self._user(actor))

    def of_feed(self, actor: Actor, feed_id: int) -> str | None:
        """Return whose stream a feed is, by name; None: it is of the web, or of nobody he may see."""
        require(actor, Permission.FEED_SEE)
        owner = self._profiles.owner(feed_id)
        profile = self._profiles.get(owner) if owner is not None else None
        if profile is None or not profile.has_page(self._sight.tie(actor.user_id, profile)):
            return None
        return profile.handle

    def own(self, actor: Actor) -> Profile:
        """Return the actor's own profile, which is made where he has none yet."""
        require(actor, Permission.SHARE_EDIT)
        return self._profiles.ensure(self._user(actor), clock.now())

    def _user(self, actor: Actor) -> User:
        user = self._accounts.user(actor.user_id)
        if user is None:
            raise NotFoundError(user_id=actor.user_id)
        return user

    def edit(
        self,
        actor: Actor,
        *,
        display: str | None = None,
        bio: str | None = None,
        links: Sequence[str] | None = None,
        audience: Audience | None = None,
        listed: bool | None = None,
        open_lists: bool | None = None,
        similar: bool | None = None,
    ) -> Profile:
        """Change the actor's profile; None: that stays as it is, whatever others make of it meanwhile.

        Raises:
            InvalidError: a text is too long, or a link is no web address.
        """
        require(actor, Permission.SHARE_EDIT)
        given: dict[str, Any] = {
            "display": None if display is None else a_text(display, "display", most=NAME_MAX, empty=True),
            "bio": None if bio is None else some_words(bio, "bio", most=BIO_MAX),
            "links": None if links is None else _links(links),
            "audience": None if audience is None else audience.value,
            "listed": listed,
            "open_lists": open_lists,
            "similar": similar,
        }
        before = self.own(actor)
        changed = self._profiles.change(before, {name: v for name, v in given.items() if v is not None})
        if audience is not None and changed.audience is not before.audience:
            self._events.new({changed.feed_id: 0})
        if audience is Audience.PUBLIC:
            self._let_all_in(changed)
        return changed

    def _let_all_in(self, mine: Profile) -> None:
        """Let those follow who have asked to, where nobody has to ask any more; safe to run again."""
        asking = self._follows.requests(mine.user_id, LET_IN)
        # Looked at after the asks: who asks once it has been narrowed again is not among them.
        if self._profiles.audience(mine.user_id) is not Audience.PUBLIC:
            return
        known = self._accounts.names(asking)
        for asker in asking:
            # Blocked just now; or he has as many subscriptions as he may, and goes on asking.
            with contextlib.suppress(NotFoundError, TooLargeError):
                if asker in known:
                    self._answer(mine, asker, True)

    def follow(self, actor: Actor, handle: str) -> Tie:
        """Follow somebody, or ask to; return what they are then.

        Raises:
            NotFoundError: there is nobody of this name to follow.
            ForbiddenError: it is himself, or somebody he blocks.
            RateLimitedError: too many within the hour.
            TooLargeError: he has as many subscriptions as he may.
        """
        require(actor, Permission.SUBSCRIPTION_EDIT)
        whom = self._profiles.named(handle)
        throttle(self._limiter, f"follow:{actor.user_id}", limit=self._per_hour, window=HOUR)
        was = self._sight.tie(actor.user_id, whom)
        tie = self._follows.follow(actor.user_id, whom, clock.now())
        if tie.follows:
            self._events.follows(actor.user_id, added=[whom.feed_id])
        self._events.counts(whom.user_id)
        self._notifier.followed(actor.user_id, whom.user_id, was, tie)
        log.info("followed", user_id=actor.user_id, whom=whom.user_id, requested=tie.requested)
        return tie

    def unfollow(self, actor: Actor, handle: str) -> str | None:
        """Stop following, or asking; return the token that takes it back, None: there is nothing to.

        Raises:
            NotFoundError: there is nobody of this name, or nobody whom the actor may see.
        """
        require(actor, Permission.SUBSCRIPTION_EDIT)
        whom = self._profiles.named(handle)
        token = self._follows.unfollow(actor.user_id, whom, clock.now() + self._undo_ttl)
        if token is None:
            self.person(actor, handle)
        if token:
            self._events.follows(actor.user_id, removed=[whom.feed_id])
            log.info("unfollowed", user_id=actor.user_id, whom=whom.user_id)
        return token or None

    def answer(self, actor: Actor, handle: str, yes: bool) -> bool:
        """Let somebody follow who asked to, or not; False: he does not ask any more.

        Raises:
            NotFoundError: there is nobody of this name.
            TooLargeError: that one has as many subscriptions as he may, and goes on asking.
        """
        require(actor, Permission.SHARE_EDIT)
        asker, mine = self._account(handle), self.own(actor)
        try:
            return self._answer(mine, asker, yes)
        except TooLargeError as e:
            raise TooLargeError(handle=handle[:64]) from e  # its words are for who has too many

    def _answer(self, mine: Profile, asker: int, yes: bool) -> bool:
        done = self._follows.answer(mine, asker, yes, clock.now())
        if done and yes:
            self._events.follows(asker, added=[mine.feed_id])
        return done

    def mute(self, actor: Actor, handle: str, on: bool) -> None:
        """Leave somebody out of what one's list of all shows, or take him in again.

        Raises:
            NotFoundError: there is nobody of this name, or nobody whom the actor may see.
            ForbiddenError: it is himself.
        """
        require(actor, Permission.SUBSCRIPTION_EDIT)
        whom = self.person(actor, handle).profile if on else self._profiles.named(handle)
        if whom.user_id == actor.user_id:
            raise ForbiddenError("This is you.")
        self._follows.mute(actor.user_id, whom, on, clock.now())
        if actor.synced and not on:  # not before, as in ReadingService.star
            self._changes.note_feed(actor.user_id, whom.feed_id)
        self._events.counts(actor.user_id)

    def block(self, actor: Actor, handle: str) -> None:
        """Neither sees the other from now on.

        Raises:
            NotFoundError: there is nobody of this name.
            ForbiddenError: it is himself.
        """
        require(actor, Permission.SUBSCRIPTION_EDIT)
        whom = self._account(handle)
        if whom == actor.user_id:
            raise ForbiddenError("This is you.")
        left = self._follows.block(actor.user_id, whom, clock.now())
        for user_id in (actor.user_id, whom):
            self._events.follows(user_id, removed=left)
        log.info("blocked", user_id=actor.user_id, whom=whom)

    def unblock(self, actor: Actor, handle: str) -> bool:
        """Let somebody see again what everybody sees; False: he was not blocked."""
        require(actor, Permission.SUBSCRIPTION_EDIT)
        return self._follows.unblock(actor.user_id, self._account(handle))

    def dismiss(self, actor: Actor, handle: str) -> bool:
        """Take a follower away; False: he was none."""
        require(actor, Permission.SHARE_EDIT)
        reader, mine = self._account(handle), self.own(actor)
        gone = self._follows.dismiss(mine, reader, clock.now())
        if gone:
            self._events.follows(reader, removed=[mine.feed_id])
        return gone

    def requests(self, actor: Actor) -> list[str]:
        """Return the names of those who ask to follow the actor."""
        require(actor, Permission.SHARE_EDIT)
        return self._names(self._follows.requests(actor.user_id, ROWS))

    def _names(self, user_ids: Sequence[int]) -> list[str]:
        names = self._accounts.names(user_ids)
        return [names[u] for u in user_ids if u in names]

    def _account(self, handle: str) -> int:
        found = self._accounts.named(handle)
        if found is None:
            raise NotFoundError(handle=handle[:64])
        return found


def _links(links: Sequence[str]) -> list[str]:
    kept = [a_text(link, "links", most=LINK_MAX) for link in links if link.strip()]
    if len(kept) > LINKS_MAX:
        raise InvalidError("At most %(most)s links.", field="links", most=LINKS_MAX)
    for link in kept:
        if not link.startswith(("https://", "http://")) or any(c in link for c in ' "<>'):
            raise InvalidError("A link begins with https:// or http://.", field="links")
    return kept
