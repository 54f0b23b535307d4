"""People: profiles, who follows whom, following, asking, muting, blocking."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from app.errors import NotFoundError
from app.models.accounts.actor import Actor
from app.models.accounts.token import Scope
from app.models.sharing.sharing import Audience, Tie
from app.services.sharing.people_lists import Contact as Stored
from app.services.sharing.people_lists import Contacts
from app.web.api.rest.shapes import PERSON, Body, Id0, Query, Shape
from app.web.api.rest.table import example, operation
from app.web.context import services

TAG = "People"


class Relation(Shape, frozen=True):
    """What you are to somebody; `requested`: you have asked to follow. `blocked`: you block him."""

    own: bool
    follows: bool
    requested: bool
    muted: bool
    blocked: bool


class Person(Shape, frozen=True):
    """Somebody's profile. `audience`: of his stream; `followers`: how many."""

    name: str
    display: str
    bio: str
    links: tuple[str, ...]
    audience: Audience
    followers: int
    relation: Relation


class Contact(Shape, frozen=True):
    """Somebody in a list."""

    name: str
    display: str
    relation: Relation


class ContactPage(Shape, frozen=True):
    """Some of the people, and how many there are."""

    items: tuple[Contact, ...]
    next: str | None
    total: int


class NameList(Shape, frozen=True):
    """People by name."""

    items: tuple[str, ...]


class PageQuery(Query, frozen=True):
    """Which page: `next` of the one before."""

    cursor: Annotated[Id0, Meta(description="As it was answered; nothing is to be read from it.")] = 0


class Follows(Shape, frozen=True):
    """`requested`: he was asked and decides. `undo`: null where there is nothing to take back."""

    follows: bool
    requested: bool
    undo: str | None = None


class Decision(Body, frozen=True):
    """Whether he may follow you."""

    accept: bool


class Done(Shape, frozen=True):
    """Whether that changed anything."""

    done: bool


_NONE = example(Relation(own=False, follows=False, requested=False, muted=False, blocked=False))
example(
    Person(
        name=PERSON,
        display="Cleo",
        bio="Reads much.",
        links=("https://cleo.example.org/",),
        audience=Audience.PUBLIC,
        followers=3,
        relation=_NONE,
    )
)
_ONE = example(Contact(name=PERSON, display="Cleo", relation=_NONE))
example(ContactPage(items=(_ONE,), next=None, total=1))
example(NameList(items=("dora",)))
example(Follows(follows=True, requested=False))
example(Decision(accept=True))
example(Done(done=True))


def _relation(tie: Tie) -> Relation:
    # Who blocks whom is told to nobody but the one who does.
    return Relation(
        own=tie.own, follows=tie.follows, requested=tie.requested, muted=tie.muted, blocked=tie.blocks
    )


@operation("GET", "/people/{name}", "Get a profile", scope=Scope.READ, tag=TAG)
def get_person(who: Actor, name: str) -> Person:
    """Yours too; by a former name as well."""
    found = services().following.at_name(who, name)
    profile = found.profile
    return Person(
        name=profile.handle,
        display=profile.name,
        bio=profile.bio,
        links=profile.links,
        audience=profile.audience,
        followers=found.followers,
        relation=_relation(found.tie),
    )


def contact(one: Stored) -> Contact:
    """Return somebody in a list."""
    return Contact(name=one.handle, display=one.name, relation=_relation(one.tie))


def _page(found: Contacts) -> ContactPage:
    people = tuple(map(contact, found.people))
    return ContactPage(items=people, next=None if found.next is None else str(found.next), total=found.total)


@operation("GET", "/people/{name}/followers", "Who follows somebody", scope=Scope.READ, tag=TAG)
def list_followers(who: Actor, name: str, query: PageQuery) -> ContactPage:
    """Of others only where they show it."""
    return _page(services().contacts.followers(who, name, query.cursor))


@operation("GET", "/people/{name}/following", "Whom somebody follows", scope=Scope.READ, tag=TAG)
def list_following(who: Actor, name: str, query: PageQuery) -> ContactPage:
    """Of others only where they show it."""
    return _page(services().contacts.following(who, name, query.cursor))


@operation("PUT", "/people/{name}/follow", "Follow somebody", scope=Scope.SUBSCRIBE, tag=TAG, errors=(413,))
def follow(who: Actor, name: str) -> Follows:
    """Or ask him, where he wants to be asked."""
    tie = services().following.follow(who, name)
    return Follows(follows=tie.follows, requested=tie.requested)


@operation("DELETE", "/people/{name}/follow", "Stop following, or asking", scope=Scope.SUBSCRIBE, tag=TAG)
def unfollow(who: Actor, name: str) -> Follows:
    """Twice is the same as once."""
    token = services().following.unfollow(who, name)
    return Follows(follows=False, requested=False, undo=f"feed.{token}" if token else None)


@operation("PUT", "/people/{name}/mute", "Mute somebody", scope=Scope.SUBSCRIBE, tag=TAG, status=204)
def mute(who: Actor, name: str) -> None:
    """He stays out of the lists of all; he is not told."""
    services().following.mute(who, name, True)


@operation(
    "DELETE", "/people/{name}/mute", "Mute somebody no more", scope=Scope.SUBSCRIBE, tag=TAG, status=204
)
def unmute(who: Actor, name: str) -> None:
    """Twice is the same as once."""
    services().following.mute(who, name, False)


@operation("PUT", "/people/{name}/block", "Block somebody", scope=Scope.SUBSCRIBE, tag=TAG, status=204)
def block(who: Actor, name: str) -> None:
    """Neither of you sees the other from then on."""
    services().following.block(who, name)


@operation(
    "DELETE", "/people/{name}/block", "Block somebody no more", scope=Scope.SUBSCRIBE, tag=TAG, status=204
)
def unblock(who: Actor, name: str) -> None:
    """Twice is the same as once."""
    services().following.unblock(who, name)


@operation("GET", "/follow-requests", "Who asks to follow you", scope=Scope.SHARE, tag=TAG)
def list_follow_requests(who: Actor) -> NameList:
    """The first hundred."""
    return NameList(items=tuple(services().following.requests(who)))


@operation(
    "POST",
    "/follow-requests/{name}",
    "Answer who asks to follow you",
    scope=Scope.SHARE,
    tag=TAG,
    errors=(413,),
)
def answer_follow_request(who: Actor, name: str, body: Decision) -> Done:
    """`done` is false where he does not ask any more."""
    return Done(done=services().following.answer(who, name, body.accept))


@operation("DELETE", "/followers/{name}", "Take a follower away", scope=Scope.SHARE, tag=TAG, status=204)
def dismiss_follower(who: Actor, name: str) -> None:
    """He is not told."""
    if not services().following.dismiss(who, name):
        raise NotFoundError(handle=name[:64])
