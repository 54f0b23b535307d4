"""People: profiles, followers, follow requests, muting, blocking."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from app.errors import NotFoundError
from app.models.accounts.actor import Actor
from app.models.accounts.token import Scope
from app.models.accounts.user import build_avatar_path
from app.models.sharing.sharing import Audience, Relationship
from app.services.sharing.people_lists import Contact as Stored
from app.services.sharing.people_lists import Contacts
from app.web.api.rest.shapes import PERSON, Body, Id0, Query, Shape
from app.web.api.rest.table import add_example, add_operation
from app.web.context import get_services, get_web

TAG = "People"


class Relation(Shape, frozen=True):
    """Your relationship to a person. `requested`: you've asked to follow them. `blocked`: you block them."""

    own: bool
    follows: bool
    requested: bool
    muted: bool
    blocked: bool


class Person(Shape, frozen=True):
    """A person's profile. `audience`: the people who can see their stream. `followers`: their number.

    `avatar`: the address of their picture, 192 pixels wide; null without one.
    """

    name: str
    display: str
    avatar: str | None
    bio: str
    links: tuple[str, ...]
    audience: Audience
    followers: int
    relation: Relation


class Contact(Shape, frozen=True):
    """A person in a list. `avatar`: the address of their picture; null without one."""

    name: str
    display: str
    avatar: str | None
    relation: Relation


class ContactPage(Shape, frozen=True):
    """One page of people, and their total number."""

    items: tuple[Contact, ...]
    next: str | None
    total: int


class NameList(Shape, frozen=True):
    """User names."""

    items: tuple[str, ...]


class PageQuery(Query, frozen=True):
    """The page to return: `next` from the previous page."""

    cursor: Annotated[Id0, Meta(description="The value from the previous response. Don't interpret it.")] = 0


class Follows(Shape, frozen=True):
    """The result.

    `requested`: the person must approve the request first. `undo`: null if there's nothing to undo.
    """

    follows: bool
    requested: bool
    undo: str | None = None


class Decision(Body, frozen=True):
    """Whether to accept the follow request."""

    accept: bool


class Done(Shape, frozen=True):
    """Whether anything changed."""

    done: bool


AVATAR = f"https://reader.example.org/a/{PERSON}/a192?v=3a7bd3e2360a3d29"
_NONE = add_example(Relation(own=False, follows=False, requested=False, muted=False, blocked=False))
add_example(
    Person(
        name=PERSON,
        display="Cleo",
        avatar=AVATAR,
        bio="Reads a lot.",
        links=("https://cleo.example.org/",),
        audience=Audience.PUBLIC,
        followers=3,
        relation=_NONE,
    )
)
_ONE = add_example(Contact(name=PERSON, display="Cleo", avatar=AVATAR, relation=_NONE))
add_example(ContactPage(items=(_ONE,), next=None, total=1))
add_example(NameList(items=("dora",)))
add_example(Follows(follows=True, requested=False))
add_example(Decision(accept=True))
add_example(Done(done=True))


def build_avatar_url(handle: str, version: str) -> str | None:
    """Return the address of a person's picture; None without one."""
    return get_web().base_url + build_avatar_path(handle, version) if version else None


def _relation(tie: Relationship) -> Relation:
    # Only the person who blocks knows about it.
    return Relation(
        own=tie.own, follows=tie.follows, requested=tie.requested, muted=tie.muted, blocked=tie.blocks
    )


@add_operation("GET", "/people/{name}", "Get a profile", scope=Scope.READ, tag=TAG)
def get_person(actor: Actor, name: str) -> Person:
    """Also works for your own profile and for former user names."""
    found = get_services().following.resolve_person(actor, name)
    profile = found.profile
    return Person(
        name=profile.handle,
        display=profile.name,
        avatar=build_avatar_url(profile.handle, profile.avatar),
        bio=profile.bio,
        links=profile.links,
        audience=profile.audience,
        followers=found.followers,
        relation=_relation(found.tie),
    )


def build_contact(found: Stored) -> Contact:
    """Return a person in a list."""
    return Contact(
        name=found.handle,
        display=found.name,
        avatar=build_avatar_url(found.handle, found.avatar),
        relation=_relation(found.tie),
    )


def _page(found: Contacts) -> ContactPage:
    people = tuple(map(build_contact, found.people))
    return ContactPage(items=people, next=None if found.next is None else str(found.next), total=found.total)


@add_operation("GET", "/people/{name}/followers", "List a person's followers", scope=Scope.READ, tag=TAG)
def list_followers(actor: Actor, name: str, query: PageQuery) -> ContactPage:
    """Other people's lists are available only if they show them."""
    return _page(get_services().people_lists.list_followers(actor, name, query.cursor))


@add_operation("GET", "/people/{name}/following", "List who a person follows", scope=Scope.READ, tag=TAG)
def list_following(actor: Actor, name: str, query: PageQuery) -> ContactPage:
    """Other people's lists are available only if they show them."""
    return _page(get_services().people_lists.list_following(actor, name, query.cursor))


@add_operation(
    "PUT", "/people/{name}/follow", "Follow a person", scope=Scope.SUBSCRIBE, tag=TAG, errors=(413,)
)
def follow(actor: Actor, name: str) -> Follows:
    """Sends a follow request if the person approves followers."""
    tie = get_services().following.follow(actor, name)
    return Follows(follows=tie.follows, requested=tie.requested)


@add_operation("DELETE", "/people/{name}/follow", "Unfollow a person", scope=Scope.SUBSCRIBE, tag=TAG)
def unfollow(actor: Actor, name: str) -> Follows:
    """Repeating the request has no further effect."""
    token = get_services().following.unfollow(actor, name)
    return Follows(follows=False, requested=False, undo=f"feed.{token}" if token else None)


@add_operation("PUT", "/people/{name}/mute", "Mute a person", scope=Scope.SUBSCRIBE, tag=TAG, status=204)
def mute(actor: Actor, name: str) -> None:
    """The person's shares disappear from your lists. They aren't notified."""
    get_services().following.set_muted(actor, name, True)


@add_operation("DELETE", "/people/{name}/mute", "Unmute a person", scope=Scope.SUBSCRIBE, tag=TAG, status=204)
def unmute(actor: Actor, name: str) -> None:
    """Repeating the request has no further effect."""
    get_services().following.set_muted(actor, name, False)


@add_operation("PUT", "/people/{name}/block", "Block a person", scope=Scope.SUBSCRIBE, tag=TAG, status=204)
def block(actor: Actor, name: str) -> None:
    """You no longer see each other."""
    get_services().following.block(actor, name)


@add_operation(
    "DELETE", "/people/{name}/block", "Unblock a person", scope=Scope.SUBSCRIBE, tag=TAG, status=204
)
def unblock(actor: Actor, name: str) -> None:
    """Repeating the request has no further effect."""
    get_services().following.unblock(actor, name)


@add_operation("GET", "/follow-requests", "List follow requests", scope=Scope.SHARE, tag=TAG)
def list_follow_requests(actor: Actor) -> NameList:
    """Returns at most 100 requests."""
    return NameList(items=tuple(get_services().following.list_requests(actor)))


@add_operation(
    "POST",
    "/follow-requests/{name}",
    "Answer a follow request",
    scope=Scope.SHARE,
    tag=TAG,
    errors=(413,),
)
def answer_follow_request(actor: Actor, name: str, body: Decision) -> Done:
    """Accepts or declines the request. `done` is false if the request no longer exists."""
    return Done(done=get_services().following.answer_request(actor, name, body.accept))


@add_operation("DELETE", "/followers/{name}", "Remove a follower", scope=Scope.SHARE, tag=TAG, status=204)
def dismiss_follower(actor: Actor, name: str) -> None:
    """The follower isn't notified."""
    if not get_services().following.remove_follower(actor, name):
        raise NotFoundError(handle=name[:64])
