"""People: profiles, who follows whom, following, asking, muting, blocking."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from app.errors import NotFoundError
from app.models.accounts.actor import Actor
from app.models.accounts.token import Scope
from app.models.sharing.sharing import Audience, Relationship
from app.services.sharing.people_lists import Contact as Stored
from app.services.sharing.people_lists import Contacts
from app.web.api.rest.shapes import PERSON, Body, Id0, Query, Shape
from app.web.api.rest.table import add_example, add_operation
from app.web.context import get_services

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


_NONE = add_example(Relation(own=False, follows=False, requested=False, muted=False, blocked=False))
add_example(
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
_ONE = add_example(Contact(name=PERSON, display="Cleo", relation=_NONE))
add_example(ContactPage(items=(_ONE,), next=None, total=1))
add_example(NameList(items=("dora",)))
add_example(Follows(follows=True, requested=False))
add_example(Decision(accept=True))
add_example(Done(done=True))


def _relation(tie: Relationship) -> Relation:
    # Who blocks whom is told to nobody but the one who does.
    return Relation(
        own=tie.own, follows=tie.follows, requested=tie.requested, muted=tie.muted, blocked=tie.blocks
    )


@add_operation("GET", "/people/{name}", "Get a profile", scope=Scope.READ, tag=TAG)
def get_person(actor: Actor, name: str) -> Person:
    """Yours too; by a former name as well."""
    found = get_services().following.resolve_person(actor, name)
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


def build_contact(found: Stored) -> Contact:
    """Return somebody in a list."""
    return Contact(name=found.handle, display=found.name, relation=_relation(found.tie))


def _page(found: Contacts) -> ContactPage:
    people = tuple(map(build_contact, found.people))
    return ContactPage(items=people, next=None if found.next is None else str(found.next), total=found.total)


@add_operation("GET", "/people/{name}/followers", "Who follows somebody", scope=Scope.READ, tag=TAG)
def list_followers(actor: Actor, name: str, query: PageQuery) -> ContactPage:
    """Of others only where they show it."""
    return _page(get_services().people_lists.list_followers(actor, name, query.cursor))


@add_operation("GET", "/people/{name}/following", "Whom somebody follows", scope=Scope.READ, tag=TAG)
def list_following(actor: Actor, name: str, query: PageQuery) -> ContactPage:
    """Of others only where they show it."""
    return _page(get_services().people_lists.list_following(actor, name, query.cursor))


@add_operation(
    "PUT", "/people/{name}/follow", "Follow somebody", scope=Scope.SUBSCRIBE, tag=TAG, errors=(413,)
)
def follow(actor: Actor, name: str) -> Follows:
    """Or ask him, where he wants to be asked."""
    tie = get_services().following.follow(actor, name)
    return Follows(follows=tie.follows, requested=tie.requested)


@add_operation("DELETE", "/people/{name}/follow", "Stop following, or asking", scope=Scope.SUBSCRIBE, tag=TAG)
def unfollow(actor: Actor, name: str) -> Follows:
    """Twice is the same as once."""
    token = get_services().following.unfollow(actor, name)
    return Follows(follows=False, requested=False, undo=f"feed.{token}" if token else None)


@add_operation("PUT", "/people/{name}/mute", "Mute somebody", scope=Scope.SUBSCRIBE, tag=TAG, status=204)
def mute(actor: Actor, name: str) -> None:
    """He stays out of the lists of all; he is not told."""
    get_services().following.set_muted(actor, name, True)


@add_operation(
    "DELETE", "/people/{name}/mute", "Mute somebody no more", scope=Scope.SUBSCRIBE, tag=TAG, status=204
)
def unmute(actor: Actor, name: str) -> None:
    """Twice is the same as once."""
    get_services().following.set_muted(actor, name, False)


@add_operation("PUT", "/people/{name}/block", "Block somebody", scope=Scope.SUBSCRIBE, tag=TAG, status=204)
def block(actor: Actor, name: str) -> None:
    """Neither of you sees the other from then on."""
    get_services().following.block(actor, name)


@add_operation(
    "DELETE", "/people/{name}/block", "Block somebody no more", scope=Scope.SUBSCRIBE, tag=TAG, status=204
)
def unblock(actor: Actor, name: str) -> None:
    """Twice is the same as once."""
    get_services().following.unblock(actor, name)


@add_operation("GET", "/follow-requests", "Who asks to follow you", scope=Scope.SHARE, tag=TAG)
def list_follow_requests(actor: Actor) -> NameList:
    """The first hundred."""
    return NameList(items=tuple(get_services().following.list_requests(actor)))


@add_operation(
    "POST",
    "/follow-requests/{name}",
    "Answer who asks to follow you",
    scope=Scope.SHARE,
    tag=TAG,
    errors=(413,),
)
def answer_follow_request(actor: Actor, name: str, body: Decision) -> Done:
    """`done` is false where he does not ask any more."""
    return Done(done=get_services().following.answer_request(actor, name, body.accept))


@add_operation("DELETE", "/followers/{name}", "Take a follower away", scope=Scope.SHARE, tag=TAG, status=204)
def dismiss_follower(actor: Actor, name: str) -> None:
    """He is not told."""
    if not get_services().following.remove_follower(actor, name):
        raise NotFoundError(handle=name[:64])
