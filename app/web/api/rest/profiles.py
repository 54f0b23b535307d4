"""The user's own profile, people's shares, and the lists of muted and blocked people."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from app.models.accounts.actor import Actor
from app.models.accounts.token import Scope
from app.models.reading.anchors import scope_anchors
from app.models.sharing.pages import SharedItem as Stored
from app.models.sharing.sharing import Audience, Profile, RelationshipKind
from app.web.api.rest.people import (
    TAG,
    Contact,
    ContactPage,
    PageQuery,
    build_avatar_url,
    build_contact,
)
from app.web.api.rest.shapes import FILE, UNSET, Body, Id, Query, Shape, UnsetType
from app.web.api.rest.shares import Share, build_shares
from app.web.api.rest.table import EXAMPLES, add_example, add_operation
from app.web.context import get_services
from app.web.view.pictures import sign_pictures
from app.web.view.present import keep_http_url

Links = Annotated[tuple[Annotated[str, Meta(max_length=2048)], ...], Meta(max_length=5)]


class OwnProfile(Shape, frozen=True):
    """Your profile, and who can find it.

    `audience`: the people who can see your stream. `listed`: search engines may show your page. `open_lists`:
    others can see your followers and who you follow. `similar`: you're suggested to people with similar
    feeds.
    """

    name: str
    display: str
    avatar: str | None
    bio: str
    links: tuple[str, ...]
    audience: Audience
    listed: bool
    open_lists: bool
    similar: bool


class ProfileChange(Body, frozen=True):
    """Omitted fields stay unchanged."""

    display: Annotated[str, Meta(max_length=64)] | UnsetType = UNSET
    bio: Annotated[str, Meta(max_length=500)] | UnsetType = UNSET
    links: Links | UnsetType = UNSET
    audience: Audience | UnsetType = UNSET
    listed: bool | UnsetType = UNSET
    open_lists: bool | UnsetType = UNSET
    similar: bool | UnsetType = UNSET


class NewAvatar(Body, frozen=True):
    """One of your files that you uploaded with the purpose `avatar`."""

    file_id: Id


class SharedItem(Shape, frozen=True):
    """A share with its note and the text of the entry, both as sanitized HTML.

    `cut`: `html` has only the beginning of the text. `passed_on`: number of re-shares.
    """

    share: Share
    title: str
    url: str
    source: str
    note_html: str
    html: str
    cut: bool
    passed_on: int


class SharedPage(Shape, frozen=True):
    """One page of a person's shares that you can see, newest first."""

    items: tuple[SharedItem, ...]
    next: str | None
    total: int
    more: bool


class CircleQuery(Query, frozen=True):
    """Which people to list: those you mute, those you block, or those you've asked to follow."""

    which: Literal["muted", "blocked", "asked"]


_KINDS = {
    "muted": RelationshipKind.MUTE,
    "blocked": RelationshipKind.BLOCK,
    "asked": RelationshipKind.REQUEST,
}
add_example(
    OwnProfile(
        name="ann",
        display="Ann",
        avatar=None,
        bio="Reads a lot.",
        links=(),
        audience=Audience.FOLLOWERS,
        listed=False,
        open_lists=True,
        similar=False,
    )
)
add_example(NewAvatar(file_id=FILE))
add_example(ProfileChange(display="Ann", audience=Audience.FOLLOWERS))
_ITEM = add_example(
    SharedItem(
        share=EXAMPLES[Share],
        title="A quiet day",
        url="https://blog.example.org/1",
        source="blog",
        note_html="<p>Worth reading.</p>",
        html="<p>Nothing happened.</p>",
        cut=False,
        passed_on=0,
    )
)
add_example(SharedPage(items=(_ITEM,), next=None, total=1, more=False))
add_example(CircleQuery(which="muted"))


def _own(profile: Profile) -> OwnProfile:
    return OwnProfile(
        name=profile.handle,
        display=profile.display,
        avatar=build_avatar_url(profile.handle, profile.avatar),
        bio=profile.bio,
        links=profile.links,
        audience=profile.audience,
        listed=profile.listed,
        open_lists=profile.open_lists,
        similar=profile.similar,
    )


@add_operation("GET", "/me/profile", "Get your profile", scope=Scope.SHARE, tag=TAG)
def get_profile(actor: Actor) -> OwnProfile:
    """Returns the default profile if you haven't shared anything yet."""
    return _own(get_services().following.preview_profile(actor))


@add_operation("PATCH", "/me/profile", "Update your profile", scope=Scope.SHARE, tag=TAG, guarded=True)
def change_profile(actor: Actor, body: ProfileChange) -> OwnProfile:
    """Creates the profile if you don't have one yet."""
    return _own(
        get_services().following.update_profile(
            actor,
            display=None if body.display is UNSET else body.display,
            bio=None if body.bio is UNSET else body.bio,
            links=None if body.links is UNSET else body.links,
            audience=None if body.audience is UNSET else body.audience,
            listed=None if body.listed is UNSET else body.listed,
            open_lists=None if body.open_lists is UNSET else body.open_lists,
            similar=None if body.similar is UNSET else body.similar,
        )
    )


@add_operation("PUT", "/me/avatar", "Set your picture", scope=Scope.SHARE, tag=TAG, errors=(404,))
def set_avatar(actor: Actor, body: NewAvatar) -> OwnProfile:
    """Upload the file first. Everyone can see it."""
    get_services().avatars.adopt(actor, body.file_id)
    return get_profile(actor)


@add_operation("DELETE", "/me/avatar", "Remove your picture", scope=Scope.SHARE, tag=TAG)
def remove_avatar(actor: Actor) -> OwnProfile:
    """Repeating the request has no further effect."""
    get_services().avatars.remove(actor)
    return get_profile(actor)


@add_operation("GET", "/people", "List muted, blocked or requested people", scope=Scope.READ, tag=TAG)
def list_circle(actor: Actor, query: CircleQuery) -> ContactPage:
    """Returns at most 100 people.

    To list who you follow, use `/people/{name}/following` with your own name.
    """
    people: tuple[Contact, ...] = tuple(
        map(build_contact, get_services().people_lists.list_by_kind(actor, _KINDS[query.which]))
    )
    return ContactPage(items=people, next=None, total=len(people))


@add_operation("GET", "/people/{name}/shares", "List a person's shares", scope=Scope.READ, tag=TAG)
def list_shares(actor: Actor, name: str, query: PageQuery) -> SharedPage:
    """Works whether or not you follow the person."""
    page = get_services().public_pages.get_person_page(actor, name, query.cursor or None)
    items = page.part.items
    shares = build_shares(actor, [item.share for item in items])
    return SharedPage(
        items=tuple(map(_item, items, shares)),
        next=None if page.part.cursor is None else str(page.part.cursor),
        total=page.count.number,
        more=page.count.more,
    )


def _item(item: Stored, share: Share) -> SharedItem:
    return SharedItem(
        share=share,
        title=item.entry.title,
        url=keep_http_url(item.entry.url),
        source=item.blog.title,
        note_html=item.note,
        html=sign_pictures(scope_anchors(item.entry.content or item.entry.summary, item.id), item.entry.url),
        cut=item.cut,
        passed_on=item.passed.number,
    )
