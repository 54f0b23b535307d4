"""Sharing an entry, and publishing posts. Each works as a form and as a script call."""

from __future__ import annotations

import dataclasses

from flask import Blueprint, Response, jsonify, make_response, redirect, request
from flask_babel import gettext as _

from app.errors import EventrError
from app.models.accounts.user import Notice
from app.models.reading.stream import Article, Page
from app.models.sharing.sharing import Audience, Share
from app.web import forms
from app.web.context import get_actor, get_services, get_session, get_web
from app.web.errors import is_json_wanted
from app.web.forms import declare_text
from app.web.security.redirects import get_safe_next
from app.web.view.attached import FileFields
from app.web.view.own_shares import ShareState
from app.web.view.render import get_fragment_id, render_page

bp = Blueprint("share", __name__)

AUDIENCES = ("", *(a.value for a in Audience))
#: Most characters of a form's text; a setting limits notes further.
LONG = 100_000


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ShareForm(FileFields):
    entry: int
    note: str = declare_text(max=LONG, default="")
    audience: str = declare_text(max=16, default="", one_of=AUDIENCES)
    next: str = declare_text(max=2048, default="")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Edit(FileFields):
    share: int
    note: str = declare_text(max=LONG, default="")
    audience: str = declare_text(max=16, default="", one_of=AUDIENCES)
    next: str = declare_text(max=2048, default="")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RemovalForm:
    share: int
    next: str = declare_text(max=2048, default="")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Post(FileFields):
    title: str = declare_text(max=LONG, default="")
    note: str = declare_text(max=LONG, default="")
    audience: str = declare_text(max=16, default="", one_of=AUDIENCES)


@bp.post("/entries/share")
def share_entry() -> Response:
    """Share an entry; repeating it changes nothing."""
    form = forms.read_form(request, ShareForm)
    done = get_services().sharing.share(
        get_actor(), form.entry, note=form.note, audience=_audience(form.audience), files=form.files
    )
    words = _("You've already shared this") if done.existed else describe_share(done.share)
    return _done(words, form.next, share=done.share.id, existed=done.existed)


@bp.post("/shares/edit")
def update_share() -> Response:
    """Change a share's note or audience."""
    form = forms.read_form(request, Edit)
    changed = get_services().sharing.update_share(
        get_actor(),
        form.share,
        note=form.note,
        audience=_audience(form.audience),
        files=form.changed_files,
    )
    return _done(_("Saved"), form.next, share=changed.id)


@bp.post("/shares/remove")
def remove_share() -> Response:
    """Unshare an entry; undo is possible for a day."""
    form = forms.read_form(request, RemovalForm)
    undo = f"share.{get_services().sharing.remove_share(get_actor(), form.share)}"
    return _done(_("No longer shared"), form.next, undo=undo)


@bp.get("/entries/<int:entry_id>/share")
def show_box(entry_id: int) -> str:
    """Show the part of an article that lists its shares and allows sharing."""
    article = get_services().reading.get_article(get_actor(), entry_id)
    values = {"article": article, "next": f"/entries/{entry_id}", **build_box(article)}
    # In a list of whole texts, a row gets all actions of an article once one of them is used.
    if get_fragment_id().startswith("acts-"):
        return render_page("parts/acts.html", my_tags=get_services().tags.list_tags(get_actor()), **values)
    return render_page("parts/share.html", swapped=True, **values)


def build_box(article: Article) -> dict[str, object]:
    """Return the values for an article's share box: its shares, their reactions, the user's like."""
    entry, talk = article.entry, get_services().discussion
    found = get_services().sharing.get_share_box(get_actor(), entry)
    talks = talk.count_reactions(get_actor(), article.shares)
    own = entry.id not in talks and bool(talk.find_liked(get_actor(), [entry.id]))
    return {"share": found, "talks": talks, "liked": own or (entry.id in talks and talks[entry.id].liked)}


def build_row_states(page: Page) -> dict[str, object]:
    """Return the values for the actions of rows with whole texts: what the user likes and has shared."""
    ids = [row.id for row in page.all_rows if not row.sharers]
    services, actor = get_services(), get_actor()
    liked = services.discussion.find_liked(actor, ids) if ids else set()
    feeds = list({row.feed_id for row in page.all_rows if not row.sharers})
    return {
        "liked_rows": liked,
        "own_shares": services.sharing.find_own_shares(actor, ids),
        "shareable": services.sharing.find_shareable_feeds(actor, feeds),
    }


def describe_shares(page: Page) -> dict[int, ShareState]:
    """Return who can see each of the user's shares and what came of it, by share id."""
    services, actor = get_services(), get_actor()
    shares = services.sharing.find_shares(actor, [row.id for row in page.all_rows])
    found = list(shares.values())
    reactions = services.discussion.count_reactions(actor, found)
    reshares = services.public_pages.count_reshares(actor, found)
    return {id: ShareState(share, reactions[id], reshares[id]) for id, share in shares.items()}


@bp.get("/me")
def show_own_page() -> Response:
    """Redirect to the user's public page, or to its settings if the page doesn't exist yet."""
    profile = get_services().following.preview_profile(get_actor())
    return make_response(redirect(f"/@{profile.handle}" if profile.feed_id else "/settings/sharing", 303))


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """``title`` and ``note`` fill the form: links of this server lead to it."""

    entry: int | None = None
    title: str = declare_text(max=2048, default="")
    note: str = declare_text(max=8192, default="")


@bp.get("/compose")
def compose() -> str:
    """Show the form for a post; for an entry, the form to share it, or to edit its share, with pictures."""
    asked = forms.read_query(request, Query)
    if asked.entry is None:
        audience = get_services().sharing.get_audience(get_actor())
        return _compose(audience=audience, title=asked.title, note=asked.note)
    article = get_services().reading.get_article(get_actor(), asked.entry)
    box = get_services().sharing.get_share_box(get_actor(), article.entry)
    mine = box.mine
    parts = (mine.note if mine else "", asked.note)
    return _compose(
        note="\n\n".join(part for part in parts if part),
        files=mine.files if mine else (),
        audience=mine.audience if mine else box.audience,
        entry=article.entry,
        box=box,
    )


def _compose(**values: object) -> str:
    most = get_web().settings.attachments_max
    return render_page("pages/compose.html", **{"title": "", "note": "", "files": (), "most": most, **values})


@bp.post("/compose")
def publish() -> Response | tuple[str, int]:
    """Publish a post; on errors, show the form with the typed text and the error."""
    form = forms.read_form(request, Post)
    try:
        post = get_services().sharing.publish_post(
            get_actor(), form.title, form.note, audience=_audience(form.audience), files=form.files
        )
    except EventrError as e:
        files = get_services().attachments.find_own(get_actor(), form.files)
        audience = _audience(form.audience)
        page = _compose(error=e, title=form.title, note=form.note, audience=audience, files=files)
        return page, e.http_status
    get_services().accounts.add_notice(get_actor(), get_session(), Notice(describe_share(post)))
    return make_response(redirect("/read/shares", 303))


def describe_share(share: Share) -> str:
    """Return the sentence about the audience of a share."""
    match share.audience:
        case Audience.PUBLIC:
            return str(_("Shared with everyone"))
        case Audience.FOLLOWERS:
            return str(_("Shared with your followers"))
        case _:
            return str(_("Visible only to you"))


def _audience(word: str) -> Audience | None:
    return Audience(word) if word else None


def _done(words: str, target: str, **answer: object) -> Response:
    if is_json_wanted():
        return jsonify(text=words, **answer)
    undo = answer.get("undo")
    get_services().accounts.add_notice(get_actor(), get_session(), Notice(words, str(undo) if undo else None))
    return make_response(redirect(get_safe_next(target), 303))
