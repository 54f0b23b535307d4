"""Comments on shares."""

from __future__ import annotations

import datetime as dt
from typing import Annotated

from msgspec import Meta

from app.models.accounts.actor import Actor
from app.models.accounts.token import Scope
from app.models.discussion.comments import Comment as Stored
from app.models.discussion.comments import CommentView
from app.web.api.rest.attached import AttachedFile, NewFile, build_files, read_files
from app.web.api.rest.shapes import COMMENT, PERSON, SHARE, Body, CursorQuery, Id, Shape, Undo
from app.web.api.rest.table import Reply, add_example, add_operation
from app.web.context import get_services

TAG = "Comments"
Text = Annotated[str, Meta(min_length=1, max_length=65536, description="Plain text.")]


class Comment(Shape, frozen=True):
    """A comment. `name` is null if the comment was deleted but has replies. `mine`: you can edit it."""

    id: Id
    depth: int
    name: str | None
    display: str | None
    text: str
    html: str
    at: dt.datetime | None
    edited: bool
    mine: bool
    files: tuple[AttachedFile, ...]


class CommentPage(Shape, frozen=True):
    """One page of the comments on a share, in the order of the threads."""

    items: tuple[Comment, ...]
    next: str | None


class NewComment(Body, frozen=True):
    """A new comment. `parent`: the comment to reply to."""

    text: Text
    parent: Id | None = None
    files: tuple[NewFile, ...] = ()


class CommentChange(Body, frozen=True):
    """The new text of a comment."""

    text: Text


class CommentKept(Shape, frozen=True):
    """Your comment."""

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
        text="Well said.",
        html="<p>Well said.</p>",
        at=_AT,
        edited=False,
        mine=False,
        files=(),
    )
)
add_example(CommentPage(items=(_ONE,), next=None))
add_example(NewComment(text="Well said."))
add_example(CommentChange(text="Very well said."))
add_example(CommentKept(id=COMMENT, share_id=SHARE, parent=None, text="Well said.", at=_AT, edited=None))


@add_operation("GET", "/shares/{share_id}/comments", "List comments", scope=Scope.READ, tag=TAG)
def list_comments(actor: Actor, share_id: int, query: CursorQuery) -> CommentPage:
    """Lists the comments on a share that you can see."""
    share = get_services().discussion.get_share(actor, share_id)
    thread = get_services().discussion.get_thread(actor, share, cursor=query.cursor or None)
    return CommentPage(items=tuple(_spoken(actor, one) for one in thread.comments), next=thread.cursor)


def _spoken(actor: Actor, one: CommentView) -> Comment:
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
        files=build_files(actor, one.files),
    )


@add_operation("POST", "/shares/{share_id}/comments", "Add a comment", scope=Scope.SHARE, tag=TAG, status=201)
def make_comment(actor: Actor, share_id: int, body: NewComment) -> Reply[CommentKept]:
    """Comments on a share, or replies to a comment on it. `@name` notifies that person."""
    made = get_services().discussion.comment(
        actor, share_id, body.text, body.parent, files=read_files(body.files)
    )
    return Reply(_kept(made), 201)


def _kept(one: Stored) -> CommentKept:
    return CommentKept(
        id=one.id, share_id=one.share_id, parent=one.parent, text=one.text, at=one.at, edited=one.edited
    )


@add_operation("PATCH", "/comments/{comment_id}", "Edit a comment", scope=Scope.SHARE, tag=TAG)
def change_comment(actor: Actor, comment_id: int, body: CommentChange) -> CommentKept:
    """You can edit your own comments. Readers see that a comment was edited."""
    return _kept(get_services().discussion.update_comment(actor, comment_id, body.text))


@add_operation("DELETE", "/comments/{comment_id}", "Delete a comment", scope=Scope.SHARE, tag=TAG)
def delete_comment(actor: Actor, comment_id: int) -> Undo:
    """You can delete your own comments, and any comment on your shares.

    A comment with replies keeps its place. You can also delete your own comment after losing access to the
    share. This can't be undone, so `undo` is null.
    """
    _was, token = get_services().discussion.remove_comment(actor, comment_id)
    return Undo(undo=f"comment.{token}" if token else None)
