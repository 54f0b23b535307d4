"""Profiles, follows, follow requests, mutes and blocks."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime as dt
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

from app import clock, logs
from app.errors import ForbiddenError, InvalidError, NotFoundError, TooLargeError
from app.gateways.accounts.accounts import AccountGateway
from app.gateways.reading.changes import ChangeGateway
from app.gateways.sharing.follows import FollowGateway
from app.gateways.sharing.profiles import ProfileGateway
from app.gateways.sharing.visibility import VisibilityGateway
from app.models.accounts.actor import Actor, Permission
from app.models.accounts.user import User
from app.models.sharing.sharing import Audience, Profile, Relationship
from app.ports import EventPort
from app.services.access import Limiter, require_permission, throttle
from app.services.notifications.notifier import Notifier
from app.services.validation import check_text, check_words

log = logs.get(__name__)

NAME_MAX, BIO_MAX, LINKS_MAX, LINK_MAX = 64, 500, 5, 2048
#: People on a page of followers; follow requests on a page.
ROWS = 100
#: Follow requests accepted when a stream becomes public; the remaining people can then follow on their own.
LET_IN = 500


@dataclasses.dataclass(frozen=True, slots=True)
class Person:
    """A person's profile, as the viewer sees it."""

    profile: Profile
    tie: Relationship
    followers: int


class FollowingService:
    """Manages the actor's profile, and their relationships with other people.

    Args:
        per_hour: people whom one user may start to follow per hour.
        undo_ttl: seconds for which an unfollow can be undone.
    """

    def __init__(
        self,
        *,
        follows: FollowGateway,
        profiles: ProfileGateway,
        visibility: VisibilityGateway,
        accounts: AccountGateway,
        changes: ChangeGateway,
        notifier: Notifier,
        events: EventPort,
        limiter: Limiter,
        per_hour: int,
        undo_ttl: float,
    ) -> None:
        self._follows, self._profiles, self._sight = follows, profiles, visibility
        self._accounts, self._changes = accounts, changes
        self._events, self._limiter = events, limiter
        self._notifier = notifier
        self._per_hour = per_hour
        self._undo_ttl = dt.timedelta(seconds=undo_ttl)

    def get_person(self, actor: Actor | None, handle: str) -> Person:
        """Return a person's profile.

        Raises:
            NotFoundError: there is no such person, or the viewer may not see them.
        """
        profile = self._profiles.get_by_name(handle)
        tie = self._sight.find_relationship(actor.user_id if actor else None, profile)
        if not profile.has_page(tie):
            raise NotFoundError(handle=handle[:64])
        return Person(profile, tie, self._follows.count_followers([profile]).get(profile.user_id, 0))

    def resolve_person(self, actor: Actor | None, handle: str) -> Person:
        """Return the profile that a name leads to: the person who has the name now, or had it recently.

        Raises:
            NotFoundError: as for :meth:`get_person`.
        """
        try:
            return self.get_person(actor, handle)
        except NotFoundError:
            owner = (
                None if self._accounts.find_by_name(handle) else self._accounts.find_by_former_name(handle)
            )
            name = self._accounts.find_names([owner]).get(owner) if owner is not None else None
            if name is None:
                raise
            return self.get_person(actor, name)

    def preview_profile(self, actor: Actor) -> Profile:
        """Return the actor's own profile, or the one that would be created; stores nothing."""
        require_permission(actor, Permission.SHARE_EDIT)
        return self._profiles.preview_profile(self._user(actor))

    def find_feed_owner(self, actor: Actor, feed_id: int) -> str | None:
        """Return the name of a shared feed's owner; None: a web feed, or an owner hidden from the actor."""
        require_permission(actor, Permission.FEED_SEE)
        owner = self._profiles.find_owner(feed_id)
        profile = self._profiles.find(owner) if owner is not None else None
        if profile is None or not profile.has_page(self._sight.find_relationship(actor.user_id, profile)):
            return None
        return profile.handle

    def get_or_create_profile(self, actor: Actor) -> Profile:
        """Return the actor's own profile, creating it if needed."""
        require_permission(actor, Permission.SHARE_EDIT)
        return self._profiles.get_or_create_profile(self._user(actor), clock.now())

    def _user(self, actor: Actor) -> User:
        user = self._accounts.find_user(actor.user_id)
        if user is None:
            raise NotFoundError(user_id=actor.user_id)
        return user

    def update_profile(
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
        """Change the actor's profile; None leaves a field as it is, even if another request changes it.

        Raises:
            InvalidError: a text is too long, or a link isn't a web address.
        """
        require_permission(actor, Permission.SHARE_EDIT)
        given: dict[str, Any] = {
            "display": None
            if display is None
            else check_text(display, "display", limit=NAME_MAX, empty=True),
            "bio": None if bio is None else check_words(bio, "bio", limit=BIO_MAX),
            "links": None if links is None else _links(links),
            "audience": None if audience is None else audience.value,
            "listed": listed,
            "open_lists": open_lists,
            "similar": similar,
        }
        before = self.get_or_create_profile(actor)
        changed = self._profiles.update(before, {name: v for name, v in given.items() if v is not None})
        if audience is not None and changed.audience is not before.audience:
            self._events.notify_new_entries({changed.feed_id: 0})
        if audience is Audience.PUBLIC:
            self._let_all_in(changed)
        return changed

    def _let_all_in(self, mine: Profile) -> None:
        """Accept the pending follow requests of a stream that is now public; safe to run again."""
        asking = self._follows.list_requests(mine.user_id, LET_IN)
        # Checked after reading the requests, so that none made after a new restriction is accepted.
        if self._profiles.get_audience(mine.user_id) is not Audience.PUBLIC:
            return
        known = self._accounts.find_names(asking)
        for asker in asking:
            # The person was just blocked, or has too many subscriptions; then the request stays.
            with contextlib.suppress(NotFoundError, TooLargeError):
                if asker in known:
                    self._answer(mine, asker, True)

    def follow(self, actor: Actor, handle: str) -> Relationship:
        """Follow a person, or send a follow request; return the relationship after that.

        Raises:
            NotFoundError: there is no such person to follow.
            ForbiddenError: the person is the actor, or blocked by the actor.
            RateLimitedError: too many follows within the hour.
            TooLargeError: the actor has the maximum number of subscriptions.
        """
        require_permission(actor, Permission.SUBSCRIPTION_EDIT)
        whom = self._profiles.get_by_name(handle)
        throttle(self._limiter, f"follow:{actor.user_id}", limit=self._per_hour, window=clock.HOUR)
        was = self._sight.find_relationship(actor.user_id, whom)
        tie = self._follows.follow(actor.user_id, whom, clock.now())
        if tie.follows:
            self._events.notify_follows(actor.user_id, added=[whom.feed_id])
        self._events.notify_counts(whom.user_id)
        self._notifier.notify_followed(actor.user_id, whom.user_id, was, tie)
        log.info("followed", user_id=actor.user_id, whom=whom.user_id, requested=tie.requested)
        return tie

    def unfollow(self, actor: Actor, handle: str) -> str | None:
        """Unfollow a person, or withdraw a request; return the undo token, None: nothing to undo.

        Raises:
            NotFoundError: there is no such person, or the actor may not see them.
        """
        require_permission(actor, Permission.SUBSCRIPTION_EDIT)
        whom = self._profiles.get_by_name(handle)
        now = clock.now()
        token = self._follows.unfollow(actor.user_id, whom, now, now + self._undo_ttl)
        if token is None:
            self.get_person(actor, handle)
        if token:
            self._events.notify_follows(actor.user_id, removed=[whom.feed_id])
            log.info("unfollowed", user_id=actor.user_id, whom=whom.user_id)
        return token or None

    def answer_request(self, actor: Actor, handle: str, yes: bool) -> bool:
        """Accept or decline a follow request; return False if there is no such request anymore.

        Raises:
            NotFoundError: there is no such person.
            TooLargeError: the follower has the maximum number of subscriptions; the request stays.
        """
        require_permission(actor, Permission.SHARE_EDIT)
        asker, mine = self._account(handle), self.get_or_create_profile(actor)
        try:
            return self._answer(mine, asker, yes)
        except TooLargeError as e:
            raise TooLargeError(handle=handle[:64]) from e  # its message is for the follower

    def _answer(self, mine: Profile, asker: int, yes: bool) -> bool:
        done = self._follows.answer_request(mine, asker, yes, clock.now())
        if done and yes:
            self._events.notify_follows(asker, added=[mine.feed_id])
        return done

    def set_muted(self, actor: Actor, handle: str, on: bool) -> None:
        """Leave a person out of the actor's list of all entries, or include them again.

        Raises:
            NotFoundError: there is no such person, or the actor may not see them.
            ForbiddenError: the person is the actor.
        """
        require_permission(actor, Permission.SUBSCRIPTION_EDIT)
        whom = self.get_person(actor, handle).profile if on else self._profiles.get_by_name(handle)
        if whom.user_id == actor.user_id:
            raise ForbiddenError("This is you.")
        self._follows.set_muted(actor.user_id, whom, on, clock.now())
        if actor.synced and not on:  # after the change, as in ReadingService.set_starred
            self._changes.record_feed(actor.user_id, whom.feed_id)
        self._events.notify_counts(actor.user_id)

    def block(self, actor: Actor, handle: str) -> None:
        """Block a person: neither sees the other from now on.

        Raises:
            NotFoundError: there is no such person.
            ForbiddenError: the person is the actor.
        """
        require_permission(actor, Permission.SUBSCRIPTION_EDIT)
        whom = self._account(handle)
        if whom == actor.user_id:
            raise ForbiddenError("This is you.")
        left = self._follows.block(actor.user_id, whom, clock.now())
        for user_id in (actor.user_id, whom):
            self._events.notify_follows(user_id, removed=left)
        log.info("blocked", user_id=actor.user_id, whom=whom)

    def unblock(self, actor: Actor, handle: str) -> bool:
        """Unblock a person; return False if they were not blocked."""
        require_permission(actor, Permission.SUBSCRIPTION_EDIT)
        return self._follows.unblock(actor.user_id, self._account(handle))

    def remove_follower(self, actor: Actor, handle: str) -> bool:
        """Remove a follower; return False if the person didn't follow."""
        require_permission(actor, Permission.SHARE_EDIT)
        reader, mine = self._account(handle), self.get_or_create_profile(actor)
        gone = self._follows.remove_follower(mine, reader, clock.now())
        if gone:
            self._events.notify_follows(reader, removed=[mine.feed_id])
        return gone

    def list_requests(self, actor: Actor) -> list[str]:
        """Return the names of people with a pending request to follow the actor."""
        require_permission(actor, Permission.SHARE_EDIT)
        return self._names(self._follows.list_requests(actor.user_id, ROWS))

    def _names(self, user_ids: Sequence[int]) -> list[str]:
        names = self._accounts.find_names(user_ids)
        return [names[u] for u in user_ids if u in names]

    def _account(self, handle: str) -> int:
        found = self._accounts.find_by_name(handle)
        if found is None:
            raise NotFoundError(handle=handle[:64])
        return found


def _links(links: Sequence[str]) -> list[str]:
    kept = [check_text(link, "links", limit=LINK_MAX) for link in links if link.strip()]
    if len(kept) > LINKS_MAX:
        raise InvalidError("You can have at most %(most)s links.", field="links", most=LINKS_MAX)
    for link in kept:
        if not link.startswith(("https://", "http://")) or any(c in link for c in ' "<>'):
            raise InvalidError(
                "Links must start with https:// or http:// and can't contain spaces, quotation marks "
                "or angle brackets.",
                field="links",
            )
        if "@" in urlsplit(link).netloc:
            raise InvalidError("Links can't contain a user name or password before an @ sign.", field="links")
    return kept
