"""Lists of people: followed people, followers, requests, mutes and blocks."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from app.errors import NotFoundError
from app.gateways.accounts.accounts import AccountGateway
from app.gateways.sharing.follows import FollowGateway
from app.gateways.sharing.profiles import ProfileGateway
from app.gateways.sharing.visibility import VisibilityGateway
from app.models.accounts.actor import Actor, Permission
from app.models.sharing.sharing import STRANGER, Audience, Profile, Relationship, RelationshipKind
from app.services.access import require_permission
from app.services.sharing.following import ROWS, FollowingService, Person


@dataclasses.dataclass(frozen=True, slots=True)
class Contact:
    """A person in a list; ``name`` is their display name.

    ``open``: the viewer may open this person's page. ``avatar``: the version of their picture. ``bio``: what
    they say of themselves, if the viewer may open their page.
    """

    handle: str
    name: str
    tie: Relationship = STRANGER
    open: bool = False
    avatar: str = ""
    bio: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Contacts:
    """A page of people; ``next`` is where the next page starts, None at the end.

    ``owner``: the person whose list this is; None: the viewer. ``hidden``: how many people of this page the
    viewer may not see, and ``total`` counts. ``other_total``: the length of the owner's other list.
    """

    people: tuple[Contact, ...]
    next: int | None
    total: int
    owner: Profile | None = None
    hidden: int = 0
    other_total: int = 0


@dataclasses.dataclass(frozen=True, slots=True)
class Circle:
    """The actor's lists of people, as one page shows them."""

    following: Contacts
    followers: Contacts
    requests: tuple[Contact, ...]
    asked: tuple[Contact, ...]
    muted: tuple[Contact, ...]
    blocked: tuple[Contact, ...]


class PeopleListService:
    """Lists people, each list as far as the viewer may see it."""

    def __init__(
        self,
        people: FollowingService,
        follows: FollowGateway,
        profiles: ProfileGateway,
        visibility: VisibilityGateway,
        accounts: AccountGateway,
    ) -> None:
        self._people = people
        self._follows, self._profiles, self._sight = follows, profiles, visibility
        self._accounts = accounts

    def list_followers(self, actor: Actor | None, handle: str, after: int = 0) -> Contacts:
        """Return a page of a person's followers.

        Raises:
            NotFoundError: there is no such person, or they hide their followers.
        """
        person = self._shown(actor, handle)
        found = self._followers(actor, person.profile, after, all=person.tie.own)
        others = self._following(actor, person.profile.user_id, 0, all=person.tie.own)
        return dataclasses.replace(found, other_total=others.total)

    def list_following(self, actor: Actor | None, handle: str, after: int = 0) -> Contacts:
        """Return a page of the people whom a person follows; ``after`` is the number to skip.

        Raises:
            NotFoundError: there is no such person, or they hide this list.
        """
        person = self._shown(actor, handle)
        found = self._following(actor, person.profile.user_id, after, all=person.tie.own)
        others = self._follows.count_followers([person.profile]).get(person.profile.user_id, 0)
        return dataclasses.replace(found, owner=person.profile, other_total=others)

    def list_circle(self, actor: Actor, following: int = 0, followers: int = 0) -> Circle:
        """Return the actor's lists; the two numbers say where a page of each list starts."""
        require_permission(actor, Permission.SUBSCRIPTION_SEE)
        me, mine = actor.user_id, self._people.preview_profile(actor)
        readers = self._followers(actor, mine, followers, all=True) if mine.feed_id else Contacts((), None, 0)
        return Circle(
            following=self._following(actor, me, following, all=True),
            followers=readers,
            requests=self._contacts(actor, self._follows.list_requests(me, ROWS), all=True),
            asked=self._laid(actor, RelationshipKind.REQUEST),
            muted=self._laid(actor, RelationshipKind.MUTE),
            blocked=self._laid(actor, RelationshipKind.BLOCK),
        )

    def list_by_kind(self, actor: Actor, kind: RelationshipKind) -> tuple[Contact, ...]:
        """Return the first hundred people whom the actor mutes, blocks or has asked to follow."""
        require_permission(actor, Permission.SUBSCRIPTION_SEE)
        return self._laid(actor, kind)

    def find_contacts(self, actor: Actor, user_ids: Sequence[int]) -> dict[int, Contact]:
        """Return people with the actor's relationship to them, by user id; unknown ones are left out."""
        require_permission(actor, Permission.SUBSCRIPTION_SEE)
        return self._find_contacts(actor, user_ids, all=True) if user_ids else {}

    def _shown(self, actor: Actor | None, handle: str) -> Person:
        person = self._people.resolve_person(actor, handle)
        if not (person.tie.own or person.profile.open_lists):
            raise NotFoundError(handle=handle[:64])
        return person

    def _followers(self, actor: Actor | None, recipient: Profile, after: int, *, all: bool) -> Contacts:
        found = self._follows.list_followers(recipient, after, ROWS + 1)
        removed = set(self._follows.list_removed_followers(recipient.user_id, ROWS))
        shown = [user_id for _, user_id in found[:ROWS] if user_id not in removed]
        people = self._contacts(actor, shown, all=all)
        total = self._follows.count_followers([recipient]).get(recipient.user_id, 0)
        end = found[ROWS - 1][0] if len(found) > ROWS else None
        return Contacts(people, end, total, recipient, hidden=len(shown) - len(people))

    def _following(self, actor: Actor | None, user_id: int, after: int, *, all: bool) -> Contacts:
        owners = self._profiles.find_owners([s.feed_id for s in self._follows.find_followed(user_id)])
        people = sorted(
            self._contacts(actor, list(owners.values()), all=all), key=lambda c: c.name.casefold()
        )
        end = after + ROWS
        return Contacts(tuple(people[after:end]), end if len(people) > end else None, len(people))

    def _laid(self, actor: Actor, kind: RelationshipKind) -> tuple[Contact, ...]:
        return self._contacts(actor, self._follows.list_by_kind(actor.user_id, kind, ROWS), all=True)

    def _contacts(self, actor: Actor | None, user_ids: Sequence[int], *, all: bool) -> tuple[Contact, ...]:
        """Return people in this order; with ``all``, even people without a page."""
        return tuple(self._find_contacts(actor, user_ids, all=all).values())

    def _find_contacts(
        self, actor: Actor | None, user_ids: Sequence[int], *, all: bool
    ) -> dict[int, Contact]:
        profiles = self._profiles.find_many(user_ids)
        ties = self._sight.find_relationships(actor.user_id if actor else None, profiles.values())
        names = self._accounts.find_names([u for u in user_ids if u not in profiles]) if all else {}
        found: dict[int, Contact] = {}
        for user_id in user_ids:
            if profile := profiles.get(user_id):
                tie = ties[user_id]
                seen = profile.has_page(tie)
                if all or (seen and profile.allows_view(Audience.PUBLIC, tie)):
                    # Only the page shows display name and picture; the account's name is known already.
                    name, avatar = (profile.name, profile.avatar) if seen else (profile.handle, "")
                    bio = profile.bio if seen else ""
                    found[user_id] = Contact(profile.handle, name, tie, open=seen, avatar=avatar, bio=bio)
            elif user_id in names:
                found[user_id] = Contact(names[user_id], names[user_id])
        return found
