"""Likes and comments, as pages and as script calls. Visitors can read the comments on public shares."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from flask import Blueprint, Response, jsonify, make_response, redirect, request
from flask_babel import gettext as _

from app.errors import InvalidError
from app.models.accounts.user import Notice
from app.models.discussion.comments import Comment, CommentThread, CommentView, ShareReactions
from app.models.media.attachment import NewAttachment
from app.web import forms
from app.web.context import find_user, get_actor, get_services, get_session, get_web
from app.web.errors import is_json_wanted
from app.web.forms import declare_text
from app.web.security.redirects import get_safe_next
from app.web.security.sessions import allow_strangers
from app.web.view.attached import FileFields
from app.web.view.render import get_fragment_id, render_page

bp = Blueprint("talk", __name__)

#: Larger than any setting allows; the service reports texts that are too long.
TEXT_MAX = 1 << 16


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    cursor: str = declare_text(max=4096, default="")
    at: int | None = None
    answer: int | None = None
    edit: int | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Likes:
    after: str = declare_text(max=64, default="")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Like:
    next: str = declare_text(max=2048, default="")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class LikeEntry(Like):
    entry: int
    on: bool


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class CommentForm(FileFields):
    text: str = declare_text(max=TEXT_MAX)
    parent: int | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class EditForm(FileFields):
    text: str = declare_text(max=TEXT_MAX)


# -- likes
@bp.post("/shares/<int:share_id>/like", defaults={"on": True})
@bp.post("/shares/<int:share_id>/unlike", defaults={"on": False})
def like(share_id: int, on: bool) -> Response:
    """Like or unlike a share."""
    form = forms.read_form(request, Like)
    done = get_services().discussion.set_share_liked(get_actor(), share_id, on)
    if is_json_wanted():
        return jsonify(liked=done.liked, count=done.likes.number, more=done.likes.more)
    return _to(get_safe_next(form.next, f"/shares/{share_id}/comments"))


@bp.post("/entries/like")
def like_entry() -> Response:
    """Like any entry: visible on a share, private on any other entry."""
    form = forms.read_form(request, LikeEntry)
    get_services().discussion.set_liked(get_actor(), form.entry, form.on)
    return jsonify(liked=form.on) if is_json_wanted() else _to(get_safe_next(form.next))


@bp.get("/shares/<int:share_id>/likes")
def show_likes(share_id: int) -> str:
    """Show the sharer who likes a share."""
    asked, actor, talk = forms.read_query(request, Likes), get_actor(), get_services().discussion
    found, next_page = talk.list_likers(actor, share_id, asked.after)
    topic = talk.get_commented_share(actor, share_id)
    # With the sharer's relationship to each of them, for the “Follow” beside their names.
    people = get_services().people_lists.find_contacts(actor, [one.user_id for one in found])
    return render_page(
        "pages/likes.html",
        topic=topic,
        likes=talk.get_reactions(actor, topic.share).likes,
        people=[*people.values()],
        after=asked.after,
        next=next_page,
    )


# -- comments
@bp.get("/shares/<int:share_id>/comments")
@allow_strangers
def show_comments(share_id: int) -> str:
    """Show a share with its comments; for a script, only the requested part."""
    asked = forms.read_query(request, Query)
    return _page(share_id, asked)


def _page(
    share_id: int,
    asked: Query,
    *,
    error: InvalidError | None = None,
    typed: str = "",
    files: Sequence[NewAttachment] = (),
) -> str:
    current = find_user()
    viewer = current.actor if current else None
    topic = get_services().discussion.get_commented_share(viewer, share_id)
    # This comes first because it reads all authors of comments in one query.
    talk: ShareReactions = get_services().discussion.get_reactions(viewer, topic.share)
    thread = get_services().discussion.get_thread(
        viewer, topic.share, cursor=asked.cursor or None, at=asked.at
    )
    changed = get_services().discussion.get_own_comment(viewer, asked.edit) if viewer and asked.edit else None
    values = {
        "topic": topic,
        "thread": thread,
        "talk": talk,
        "mine": viewer is not None and topic.share.user_id == viewer.user_id,
        "answered": _among(thread, asked.answer),
        "changed": changed,
        "text_typed": typed or (changed.text if changed else ""),
        "longest": get_web().settings.comment_length,
        "files": get_services().attachments.find_own(viewer, files)
        if viewer and error
        else (changed.files if changed else ()),
        "most_files": get_web().settings.attachments_max,
        "error": error,
    }
    match get_fragment_id():
        case "comments":
            return render_page("parts/talk.html", **values)
        case "talk":
            return render_page("parts/talk_pane.html", **values)
    return render_page("pages/talk.html", layout="sheet.html" if viewer else "outside.html", **values)


def _among(thread: CommentThread, comment_id: int | None) -> CommentView | None:
    return next((c for c in thread.comments if c.by and c.id == comment_id), None)


@bp.post("/shares/<int:share_id>/comments")
def add_comment(share_id: int) -> Response:
    """Add a comment."""
    form = forms.read_form(request, CommentForm)
    try:
        done = get_services().discussion.comment(
            get_actor(), share_id, form.text, form.parent, files=form.files
        )
    except InvalidError as e:
        if is_json_wanted():
            raise
        asked = Query(at=form.parent, answer=form.parent)
        return make_response(
            _page(share_id, asked, error=e, typed=form.text, files=form.files), e.http_status
        )
    return _said(done)


@bp.post("/comments/<int:comment_id>/edit")
def update_comment(comment_id: int) -> Response:
    """Edit the user's comment."""
    form = forms.read_form(request, EditForm)
    was = get_services().discussion.get_own_comment(get_actor(), comment_id)
    try:
        done = get_services().discussion.update_comment(
            get_actor(), comment_id, form.text, files=form.changed_files
        )
    except InvalidError as e:
        if is_json_wanted():
            raise
        asked = Query(at=comment_id, edit=comment_id)
        return make_response(
            _page(was.share_id, asked, error=e, typed=form.text, files=form.files), e.http_status
        )
    return _said(done)


@bp.post("/comments/<int:comment_id>/remove")
def remove_comment(comment_id: int) -> Response:
    """Remove the user's comment, or a comment on the user's share; undo is possible while it is visible."""
    forms.read_form(request, forms.Empty)
    was, token = get_services().discussion.remove_comment(get_actor(), comment_id)
    words, undo = _("Comment removed"), f"comment.{token}" if token else None
    if is_json_wanted():
        return jsonify(text=words, undo=undo)
    get_services().accounts.add_notice(get_actor(), get_session(), Notice(words, undo))
    # Without access to the share anymore, its page would be "not found".
    return _to(f"/shares/{was.share_id}/comments" if undo else get_safe_next(None))


def _said(done: Comment) -> Response:
    if is_json_wanted():
        return jsonify(id=done.id, share=done.share_id)
    return _to(f"/shares/{done.share_id}/comments?at={done.id}#c{done.id}")


def _to(target: str) -> Response:
    return make_response(redirect(target, 303))
