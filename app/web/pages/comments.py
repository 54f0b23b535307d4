"""Likes and comments, as pages and as calls of scripts. Strangers read what is said to public shares."""

from __future__ import annotations

import dataclasses

from flask import Blueprint, Response, jsonify, make_response, redirect, request
from flask_babel import gettext as _

from app.errors import InvalidError
from app.models.accounts.user import Notice
from app.models.discussion.comments import Comment, Spoken, Talk, Thread
from app.web import forms
from app.web.context import actor, services, session, user, web
from app.web.errors import wants_json
from app.web.forms import text
from app.web.security.redirects import safe_next
from app.web.security.sessions import public
from app.web.view.render import fragment_for, template

bp = Blueprint("talk", __name__)

#: More than any setting allows; the service says what is too long.
TEXT_MAX = 1 << 16


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    cursor: str = text(max=4096, default="")
    at: int | None = None
    answer: int | None = None
    edit: int | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Likes:
    after: str = text(max=64, default="")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Like:
    next: str = text(max=2048, default="")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class LikeEntry(Like):
    entry: int
    on: bool


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    text: str = text(max=TEXT_MAX)
    parent: int | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Changed:
    text: str = text(max=TEXT_MAX)


# -- likes
@bp.post("/shares/<int:share_id>/like", defaults={"on": True})
@bp.post("/shares/<int:share_id>/unlike", defaults={"on": False})
def like(share_id: int, on: bool) -> Response:
    """Like a share, or no more."""
    form = forms.form(request, Like)
    done = services().talk.like_share(actor(), share_id, on)
    if wants_json():
        return jsonify(liked=done.liked, count=done.likes.number, more=done.likes.more)
    return _to(safe_next(form.next, f"/shares/{share_id}/comments"))


@bp.post("/entries/like")
def like_entry() -> Response:
    """Like any entry: a share for all who see it, another one for oneself."""
    form = forms.form(request, LikeEntry)
    services().talk.like(actor(), form.entry, form.on)
    return jsonify(liked=form.on) if wants_json() else _to(safe_next(form.next))


@bp.get("/shares/<int:share_id>/likes")
def likes(share_id: int) -> str:
    """Who likes it, for the sharer."""
    asked = forms.query(request, Likes)
    people, after = services().talk.likers(actor(), share_id, asked.after)
    topic = services().talk.topic(actor(), share_id)
    return template("pages/likes.html", topic=topic, people=people, after=after)


# -- comments
@bp.get("/shares/<int:share_id>/comments")
@public
def comments(share_id: int) -> str:
    """A share with what is said to it; a part of a page where a script asks for that."""
    asked = forms.query(request, Query)
    return _page(share_id, asked)


def _page(share_id: int, asked: Query, *, error: InvalidError | None = None, typed: str = "") -> str:
    current = user()
    viewer = current.actor if current else None
    topic = services().talk.topic(viewer, share_id)
    thread = services().talk.thread(viewer, topic.share, cursor=asked.cursor or None, at=asked.at)
    talk: Talk = services().talk.of(viewer, topic.share)
    changed = services().talk.mine(viewer, asked.edit) if viewer and asked.edit else None
    values = {
        "topic": topic,
        "thread": thread,
        "talk": talk,
        "mine": viewer is not None and topic.share.user_id == viewer.user_id,
        "answered": _among(thread, asked.answer),
        "changed": changed,
        "text_typed": typed or (changed.text if changed else ""),
        "longest": web().settings.comment_length,
        "error": error,
    }
    if fragment_for() == "comments":
        return template("parts/talk.html", **values)
    return template("pages/talk.html", layout="sheet.html" if viewer else "open.html", **values)


def _among(thread: Thread, comment_id: int | None) -> Spoken | None:
    return next((c for c in thread.comments if c.by and c.id == comment_id), None)


@bp.post("/shares/<int:share_id>/comments")
def comment(share_id: int) -> Response:
    """Say something."""
    form = forms.form(request, Said)
    try:
        done = services().talk.comment(actor(), share_id, form.text, form.parent)
    except InvalidError as e:
        if wants_json():
            raise
        asked = Query(at=form.parent, answer=form.parent)
        return make_response(_page(share_id, asked, error=e, typed=form.text), e.http_status)
    return _said(done)


@bp.post("/comments/<int:comment_id>/edit")
def edit(comment_id: int) -> Response:
    """Change what one said."""
    form = forms.form(request, Changed)
    was = services().talk.mine(actor(), comment_id)
    try:
        done = services().talk.edit(actor(), comment_id, form.text)
    except InvalidError as e:
        if wants_json():
            raise
        asked = Query(at=comment_id, edit=comment_id)
        return make_response(_page(was.share_id, asked, error=e, typed=form.text), e.http_status)
    return _said(done)


@bp.post("/comments/<int:comment_id>/remove")
def remove(comment_id: int) -> Response:
    """Remove what one said, or what is said to one's own share; can be undone for a day where one sees it."""
    forms.form(request, forms.Empty)
    was, token = services().talk.remove(actor(), comment_id)
    words, undo = _("Comment removed"), f"comment.{token}" if token else None
    if wants_json():
        return jsonify(text=words, undo=undo)
    services().accounts.notify(actor(), session(), Notice(words, undo))
    # Who may not see the share any more would find nothing at its page.
    return _to(f"/shares/{was.share_id}/comments" if undo else safe_next(None))


def _said(done: Comment) -> Response:
    if wants_json():
        return jsonify(id=done.id, share=done.share_id)
    return _to(f"/shares/{done.share_id}/comments?at={done.id}#c{done.id}")


def _to(goal: str) -> Response:
    return make_response(redirect(goal, 303))
