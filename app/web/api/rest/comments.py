"""What is said to shares."""

from __future__ import annotations

import datetime as dt
from typing import Annotated

from msgspec import Meta

from app.models.accounts.actor import Actor
from app.models.accounts.token import Scope
from app.models.discussion.comments import Comment as Stored
from app.models.discussion.comments import CommentView
from app.web.api.rest.shapes import COMMENT, PERSON, SHARE, Body, CursorQuery, Id, Shape, Undo
from app.web.api.rest.table import Reply, add_example, add_operation
from app.web.context import get_services

TAG = "Comments"
Text = Annotated[str, Meta(min_length=1, max_length=65536, description="Plain text.")]


class Comment(Shape, frozen=True):
    """What somebody says; `name` is null when it was removed and has answers. `mine`: you may change it."""

    id: Id
    depth: int
    name: str | None
    display: str | None
    text: str
    html: str
    at: dt.datetime | None
    edited: bool
    mine: bool


class CommentPage(Shape, frozen=True):
    """Some of the comments on a share, in the order of a nested list."""

    items: tuple[Comment, ...]
    next: str | None


class NewComment(Body, frozen=True):
    """`parent`: the comment that it answers."""

    text: Text
    parent: Id | None = None


class CommentChange(Body, frozen=True):
    """Its new text."""

    text: Text


class CommentKept(Shape, frozen=True):
    """A comment of yours."""

    id: Id
    share_id: Id
    parent: Id | None
    text: str
    at: dt.datetime
    edited: dt.datetime | None


_AT = dt.datetime(2026, 11, 1, 8, 30, tzinfo=dt.UTC)
_ONE = add_example(
    Comment(
        id=COMMENT,
        depth=0,
        name=PERSON,
        display="Cleo",
        text="So it is.",
        html="<p>So it is.</p>",
        at=_AT,
        edited=False,
        mine=False,
    )
)
add_example(CommentPage(items=(_ONE,), next=None))
add_example(NewComment(text="So it is."))
add_example(CommentChange(text="So it was."))
add_example(CommentKept(id=COMMENT, share_id=SHARE, parent=None, text="So it is.", at=_AT, edited=None))


@add_operation("GET", "/shares/{share_id}/comments", "List comments", scope=Scope.READ, tag=TAG)
def list_comments(actor: Actor, share_id: int, query: CursorQuery) -> CommentPage:
    """Of a share that you may see."""
    share = get_services().discussion.get_share(actor, share_id)
    thread = get_services().discussion.get_thread(actor, share, cursor=query.cursor or None)
    return CommentPage(items=tuple(map(_spoken, thread.comments)), next=thread.cursor)


def _spoken(one: CommentView) -> Comment:
    return Comment(
        id=one.id,
        depth=one.depth,
        name=one.by.handle if one.by else None,
        display=one.by.name if one.by else None,
        text=one.text,
        html=one.html,
        at=one.at,
        edited=one.edited,
        mine=one.mine,
    )


@add_operation("POST", "/shares/{share_id}/comments", "Say something", scope=Scope.SHARE, tag=TAG, status=201)
def make_comment(actor: Actor, share_id: int, body: NewComment) -> Reply[CommentKept]:
    """To a share, or to a comment on it; `@name` tells somebody."""
    return Reply(_kept(get_services().discussion.comment(actor, share_id, body.text, body.parent)), 201)


def _kept(one: Stored) -> CommentKept:
    return CommentKept(
        id=one.id, share_id=one.share_id, parent=one.parent, text=one.text, at=one.at, edited=one.edited
    )


@add_operation("PATCH", "/comments/{comment_id}", "Change a comment", scope=Scope.SHARE, tag=TAG)
def change_comment(actor: Actor, comment_id: int, body: CommentChange) -> CommentKept:
    """Yours; readers see that it was edited."""
    return _kept(get_services().discussion.update_comment(actor, comment_id, body.text))


@add_operation("DELETE", "/comments/{comment_id}", "Remove a comment", scope=Scope.SHARE, tag=TAG)
def delete_comment(actor: Actor, comment_id: int) -> Undo:
    """Yours, or one on a share of yours; where others answered, its place stays.

    Yours also where you do not see the share any more: then it cannot come back, and `undo` is null.
    """
    _was, token = get_services().discussion.remove_comment(actor, comment_id)
    return Undo(undo=f"comment.{token}" if token else None)
