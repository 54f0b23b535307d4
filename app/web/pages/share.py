"""Sharing: of an entry, of something of one's own. Each works as a form and as a script's call."""

from __future__ import annotations

import dataclasses

from flask import Blueprint, Response, jsonify, make_response, redirect, request
from flask_babel import gettext as _

from app.errors import EventrError
from app.models.accounts.user import Notice
from app.models.reading.stream import Article
from app.models.sharing.sharing import Audience, Share
from app.web import forms
from app.web.context import actor, services, session
from app.web.errors import wants_json
from app.web.forms import text
from app.web.security.redirects import safe_next
from app.web.view import i18n
from app.web.view.render import template

bp = Blueprint("share", __name__)

AUDIENCES = ("", *(a.value for a in Audience))
#: Characters of a form's text; how many a note may have is a setting.
LONG = 100_000


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class New:
    entry: int
    note: str = text(max=LONG, default="")
    audience: str = text(max=16, default="", one_of=AUDIENCES)
    next: str = text(max=2048, default="")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    share: int
    note: str = text(max=LONG, default="")
    audience: str = text(max=16, default="", one_of=AUDIENCES)
    next: str = text(max=2048, default="")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Gone:
    share: int
    next: str = text(max=2048, default="")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Post:
    title: str = text(max=LONG, default="")
    note: str = text(max=LONG)
    audience: str = text(max=16, default="", one_of=AUDIENCES)


@bp.post("/entries/share")
def share() -> Response:
    """Share an entry; twice is the same as once."""
    form = forms.form(request, New)
    done = services().sharing.share(actor(), form.entry, note=form.note, audience=_audience(form.audience))
    words = _("You shared this already") if done.existed else said(done.share)
    return _done(words, form.next, share=done.share.id, existed=done.existed)


@bp.post("/shares/edit")
def edit() -> Response:
    """Change a share's note, or for whom it is."""
    form = forms.form(request, Edit)
    changed = services().sharing.edit(actor(), form.share, note=form.note, audience=_audience(form.audience))
    return _done(_("Saved"), form.next, share=changed.id)


@bp.post("/shares/remove")
def remove() -> Response:
    """Take a share back; can be undone for a day."""
    form = forms.form(request, Gone)
    undo = f"share.{services().sharing.remove(actor(), form.share)}"
    return _done(_("No longer shared"), form.next, undo=undo)


@bp.get("/entries/<int:entry_id>/share")
def box(entry_id: int) -> str:
    """Who shared an entry, and the box to share it, as a part of its article."""
    article = services().reading.article(actor(), entry_id)
    return template("parts/share.html", article=article, next=f"/entries/{entry_id}", **box_of(article))


def box_of(article: Article) -> dict[str, object]:
    """Return what the box of an article needs: its shares, what is said to them, and what one likes."""
    entry, talk = article.entry, services().talk
    found = services().sharing.box(actor(), entry)
    talks = talk.talks(actor(), article.shares)
    own = entry.id not in talks and bool(talk.liked(actor(), [entry.id]))
    return {"share": found, "talks": talks, "liked": own or (entry.id in talks and talks[entry.id].liked)}


@bp.get("/me")
def me() -> Response:
    """The own page, as others see it; before there is one, where it is made."""
    profile = services().following.card(actor())
    return make_response(redirect(f"/@{profile.handle}" if profile.feed_id else "/settings/sharing", 303))


@bp.get("/compose")
def compose() -> str:
    """A field for something of one's own."""
    return template("pages/compose.html", title="", note="", audience=services().sharing.audience(actor()))


@bp.post("/compose")
def publish() -> Response | tuple[str, int]:
    """Publish something of one's own; what was typed comes back with what is wrong about it."""
    form = forms.form(request, Post)
    try:
        post = services().sharing.post(actor(), form.title, form.note, audience=_audience(form.audience))
    except EventrError as e:
        typed = {"title": form.title, "note": form.note, "audience": _audience(form.audience)}
        return template("pages/compose.html", error=i18n.said(e), **typed), e.http_status
    services().accounts.notify(actor(), session(), Notice(said(post)))
    return make_response(redirect("/read/shares", 303))


def said(share: Share) -> str:
    """Return the sentence that tells for whom something was shared."""
    match share.audience:
        case Audience.PUBLIC:
            return str(_("Shared with everybody"))
        case Audience.FOLLOWERS:
            return str(_("Shared with your followers"))
        case _:
            return str(_("Kept for yourself"))


def _audience(word: str) -> Audience | None:
    return Audience(word) if word else None


def _done(words: str, goal: str, **answer: object) -> Response:
    if wants_json():
        return jsonify(text=words, **answer)
    undo = answer.get("undo")
    services().accounts.notify(actor(), session(), Notice(words, str(undo) if undo else None))
    return make_response(redirect(safe_next(goal), 303))
