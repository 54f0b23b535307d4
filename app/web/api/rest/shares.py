"""Shares and posts, their chains, likes, and abuse reports."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Annotated

from msgspec import Meta

from app.errors import InvalidError
from app.models.accounts.actor import Actor
from app.models.accounts.token import Scope
from app.models.discussion.comments import ShareReactions
from app.models.discussion.moderation import Reason
from app.models.sharing.sharing import Audience, ShareVisibility
from app.models.sharing.sharing import Share as Stored
from app.web.api.rest.attached import AttachedFile, NewFile, build_files, read_files
from app.web.api.rest.shapes import (
    ENTRY,
    PERSON,
    SHARE,
    UNDO,
    UNSET,
    Body,
    CursorQuery,
    Id,
    Name,
    Shape,
    Undo,
    UnsetType,
)
from app.web.api.rest.table import Reply, add_example, add_operation
from app.web.context import get_services
from app.web.view.present import keep_http_url

TAG = "Shares"
Note = Annotated[
    str, Meta(max_length=1_000_000, description="Plain text. The server's settings limit its length.")
]


class Share(Shape, frozen=True):
    """A share of an entry by one person. `of`: the entry shared first; for a post, the post itself.

    `source`: the share that was re-shared, if you can see it. `files`: pictures and files of the note.
    """

    id: Id
    of: Id
    at: dt.datetime
    note: str
    audience: Audience
    edited: dt.datetime | None
    source: Id | None
    files: tuple[AttachedFile, ...]


class Reception(Shape, frozen=True):
    """Likes and comments of a share; `more`: there are more than were counted."""

    likes: int
    comments: int
    more: bool
    liked: bool


class ShareView(Shape, frozen=True):
    """A share with its author, its entry, and its likes and comments."""

    share: Share
    name: str
    display: str
    title: str
    url: str
    reception: Reception


class NewShare(Body, frozen=True):
    """A note and an audience; null: the audience of your stream."""

    note: Note = ""
    audience: Audience | None = None
    files: tuple[NewFile, ...] = ()


class NewPost(Body, frozen=True):
    """A post to publish."""

    note: Note
    title: Annotated[str, Meta(max_length=256)] = ""
    audience: Audience | None = None
    files: tuple[NewFile, ...] = ()


class ShareChange(Body, frozen=True):
    """Omitted fields stay unchanged."""

    note: Note | UnsetType = UNSET
    audience: Audience | UnsetType = UNSET
    files: tuple[NewFile, ...] | UnsetType = UNSET


class ChainNode(Shape, frozen=True):
    """A share in the chain of an entry. `name` and `display` are null unless `link` is `seen`."""

    share_id: Id
    depth: int
    link: ShareVisibility
    name: str | None
    display: str | None
    note: str


class Chain(Shape, frozen=True):
    """One page of the chain, in the order of a nested list; `total`: number of shares that you can see."""

    of: Id
    items: tuple[ChainNode, ...]
    next: str | None
    total: int
    more: bool


class Liker(Shape, frozen=True):
    """A person who likes the share."""

    name: str
    display: str


class Likers(Shape, frozen=True):
    """People who like your share, most recent first."""

    items: tuple[Liker, ...]
    next: str | None


class Report(Body, frozen=True):
    """A report to the server's admins. Send exactly one of `share_id`, `comment_id` and `name`."""

    reason: Reason
    share_id: Id | None = None
    comment_id: Id | None = None
    name: Name | None = None
    text: Annotated[str, Meta(max_length=4096)] = ""


_AT = dt.datetime(2026, 11, 1, 8, 30, tzinfo=dt.UTC)
_SHARE = add_example(
    Share(
        id=SHARE,
        of=ENTRY,
        at=_AT,
        note="Worth reading.",
        audience=Audience.PUBLIC,
        edited=None,
        source=None,
        files=(),
    )
)
_RECEIVED = add_example(Reception(likes=2, comments=1, more=False, liked=False))
add_example(
    ShareView(
        share=_SHARE,
        name=PERSON,
        display="Cleo",
        title="A quiet day",
        url="https://blog.example.org/1",
        reception=_RECEIVED,
    )
)
add_example(NewShare(note="Worth reading.", audience=Audience.FOLLOWERS))
add_example(NewPost(note="Good morning.", title="A post"))
add_example(ShareChange(note="Well worth reading."))
_NODE = add_example(
    ChainNode(
        share_id=SHARE, depth=0, link=ShareVisibility.SEEN, name=PERSON, display="Cleo", note="Worth reading."
    )
)
add_example(Chain(of=ENTRY, items=(_NODE,), next=None, total=1, more=False))
_LIKER = add_example(Liker(name=PERSON, display="Cleo"))
add_example(Likers(items=(_LIKER,), next=None))
add_example(Report(reason=Reason.SPAM, share_id=SHARE))
add_example(Undo(undo=UNDO))


def build_shares(actor: Actor, shares: Sequence[Stored]) -> list[Share]:
    """Return shares as the API shows them to this person."""
    sources = get_services().sharing.find_sources(actor, shares)
    return [_shape(actor, share, sources.get(share.id)) for share in shares]


def _one(who: Actor, share: Stored) -> Share:
    (found,) = build_shares(who, [share])
    return found


def _shape(actor: Actor, share: Stored, source: int | None) -> Share:
    return Share(
        id=share.id,
        of=share.of.entry_id,
        at=share.at,
        note=share.note,
        audience=share.audience,
        edited=share.edited,
        source=source,
        files=build_files(actor, share.files),
    )


def _received(talk: ShareReactions) -> Reception:
    return Reception(
        likes=talk.likes.number,
        comments=talk.comments.number,
        more=talk.likes.more or talk.comments.more,
        liked=talk.liked,
    )


@add_operation("POST", "/entries/{entry_id}/share", "Share an entry", scope=Scope.SHARE, tag=TAG,
           status=(201, 200))  # fmt: skip
def share_entry(actor: Actor, entry_id: int, body: NewShare) -> Reply[Share]:
    """If you've already shared the entry, returns the existing share unchanged (200)."""
    done = get_services().sharing.share(
        actor, entry_id, note=body.note, audience=body.audience, files=read_files(body.files)
    )
    return Reply(_one(actor, done.share), 200 if done.existed else 201, f"/shares/{done.share.id}")


@add_operation("POST", "/posts", "Publish a post", scope=Scope.SHARE, tag=TAG, status=201)
def make_post(actor: Actor, body: NewPost) -> Reply[Share]:
    """The post appears as an entry in your followers' streams."""
    made = get_services().sharing.publish_post(
        actor, body.title, body.note, audience=body.audience, files=read_files(body.files)
    )
    return Reply(_one(actor, made), 201, f"/shares/{made.id}")


@add_operation("GET", "/shares/{share_id}", "Get a share", scope=Scope.READ, tag=TAG)
def get_share(actor: Actor, share_id: int) -> ShareView:
    """Returns your own share, or a share that you can see."""
    topic = get_services().discussion.get_commented_share(actor, share_id)
    return ShareView(
        share=_one(actor, topic.share),
        name=topic.by.handle,
        display=topic.by.name,
        title=topic.title,
        url=keep_http_url(topic.url),
        reception=_received(get_services().discussion.get_reactions(actor, topic.share)),
    )


@add_operation("PATCH", "/shares/{share_id}", "Edit a share", scope=Scope.SHARE, tag=TAG, errors=(409,))
def change_share(actor: Actor, share_id: int, body: ShareChange) -> Share:
    """Readers see that the share was edited."""
    note = None if body.note is UNSET else body.note
    audience = None if body.audience is UNSET else body.audience
    files = None if body.files is UNSET else read_files(body.files)
    changed = get_services().sharing.update_share(actor, share_id, note=note, audience=audience, files=files)
    return _one(actor, changed)


@add_operation("DELETE", "/shares/{share_id}", "Delete a share", scope=Scope.SHARE, tag=TAG)
def delete_share(actor: Actor, share_id: int) -> Undo:
    """Other people's re-shares stay."""
    return Undo(undo=f"share.{get_services().sharing.remove_share(actor, share_id)}")


@add_operation("GET", "/shares/{share_id}/chain", "Get a share's chain", scope=Scope.READ, tag=TAG)
def get_chain(actor: Actor, share_id: int, query: CursorQuery) -> Chain:
    """Returns the tree of shares and re-shares of the entry, as far as you can see them."""
    page = get_services().sharing.list_chain(actor, share_id, query.cursor or None)
    nodes = tuple(
        ChainNode(
            share_id=node.share_id,
            depth=node.depth,
            link=node.link,
            name=node.by.handle if node.by else None,
            display=node.by.name if node.by else None,
            note=node.by.note if node.by else "",
        )
        for node in page.nodes
    )
    return Chain(of=page.origin.entry_id, items=nodes, next=page.cursor, total=page.total, more=page.more)


@add_operation("PUT", "/shares/{share_id}/like", "Like a share", scope=Scope.MARK, tag=TAG)
def like_share(actor: Actor, share_id: int) -> Reception:
    """The person who shared the entry is notified."""
    return _received(get_services().discussion.set_share_liked(actor, share_id, True))


@add_operation("DELETE", "/shares/{share_id}/like", "Unlike a share", scope=Scope.MARK, tag=TAG)
def unlike_share(actor: Actor, share_id: int) -> Reception:
    """Repeating the request has no further effect."""
    return _received(get_services().discussion.set_share_liked(actor, share_id, False))


@add_operation("GET", "/shares/{share_id}/likes", "List likes of your share", scope=Scope.READ, tag=TAG)
def list_likes(actor: Actor, share_id: int, query: CursorQuery) -> Likers:
    """Works only for your own shares."""
    people, after = get_services().discussion.list_likers(actor, share_id, query.cursor)
    return Likers(items=tuple(Liker(name=f.handle, display=f.name) for f in people), next=after)


@add_operation(
    "POST",
    "/reports",
    "Report a share, comment or person",
    scope=Scope.SHARE,
    tag=TAG,
    status=204,
    errors=(404, 409),
)
def report(actor: Actor, body: Report) -> None:
    """Reports abuse to the server's admins. The reason `other` requires a `text`."""
    named = [name for name in ("share_id", "comment_id", "name") if getattr(body, name) is not None]
    if len(named) != 1:
        raise InvalidError(
            "Specify exactly one share, comment or person.", field=named[1] if named else "share_id"
        )
    find = get_services().moderation
    if body.share_id is not None:
        thing = find.describe_share(actor, body.share_id)
    elif body.comment_id is not None:
        thing = find.describe_comment(actor, body.comment_id)
    else:
        thing = find.describe_person(actor, body.name or "")
    find.report(actor, thing, body.reason, body.text)
