"""People: lists, follow, follow requests, mute, block. Each works as a form and as a script call."""

from __future__ import annotations

import dataclasses
from urllib.parse import quote

from flask import Blueprint, Response, jsonify, make_response, redirect, request
from flask_babel import gettext as _

from app.errors import (
    EventrError,
    ForbiddenError,
    InvalidError,
    NotFoundError,
    RateLimitedError,
    TooLargeError,
)
from app.models.accounts.user import Notice
from app.models.sharing.sharing import Relationship
from app.web import forms
from app.web.context import find_user, get_actor, get_services, get_session, get_web
from app.web.errors import is_json_wanted
from app.web.forms import declare_text
from app.web.pages.add import WORDS_MAX
from app.web.security.redirects import get_safe_next
from app.web.security.sessions import allow_strangers
from app.web.view.own_addresses import parse_own_handle
from app.web.view.render import get_fragment_id, render_page

bp = Blueprint("people", __name__)

HERE = "/people"
#: Errors that the page shows above its form.
_SHOWN = (ForbiddenError, InvalidError, NotFoundError, RateLimitedError, TooLargeError)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    name: str = declare_text(max=2048, default="")
    following: int = 0
    followers: int = 0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class After:
    after: int = 0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PersonForm:
    name: str = declare_text(max=2048)
    next: str = declare_text(max=2048, default=HERE)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Answer(PersonForm):
    yes: bool


@bp.get("/people")
def show_people() -> str:
    """Show followed people, followers, follow requests, muted and blocked people.

    ``name``: the start of a name, typed so far; a fragment shows the people found.
    """
    if get_fragment_id() == "matches":
        name = forms.read_query(request, Query).name
        people = get_services().trends.find_people(get_actor(), name) if len(name) <= WORDS_MAX else []
        return render_page("parts/matches.html", address=name, matches=[], people=people)
    return _page()


def _page(error: EventrError | None = None, typed: str = "") -> str:
    asked = forms.read_query(request, Query)
    circle = get_services().people_lists.list_circle(get_actor(), asked.following, asked.followers)
    profile = get_services().following.preview_profile(get_actor())
    return render_page(
        "pages/people.html",
        circle=circle,
        mine=profile,
        base=get_web().base_url,
        error=error,
        typed=typed,
        asked=asked,
    )


@bp.post("/people/follow")
def follow() -> Response | tuple[str, int]:
    """Follow a person or send a follow request, by user name or by the address of their page."""
    form = forms.read_form(request, PersonForm)
    try:
        handle = _handle(form.name)
        tie = _follow(handle)
    except _SHOWN as e:
        if is_json_wanted() or not form.next.startswith(HERE):
            raise
        return _page(e, form.name), e.http_status
    words = (
        _("You're now following %(name)s", name=handle)
        if tie.follows
        else _("Follow request sent to %(name)s", name=handle)
    )
    return _done(form, words, follows=tie.follows, requested=tie.requested)


def _handle(typed: str) -> str:
    """Return the user name in the typed text, which may be the address of a page."""
    found = parse_own_handle(typed)
    if found is None and any(mark in typed for mark in "/:@"):
        raise InvalidError(
            "This isn't an address on this server. To follow a site, use “Add a feed”.", field="name"
        )
    return found or typed.strip()


def _follow(handle: str) -> Relationship:
    try:
        return get_services().following.follow(get_actor(), handle)
    except NotFoundError as e:
        raise NotFoundError("Nobody with this user name shares anything on this server.") from e


@bp.post("/people/unfollow")
def unfollow() -> Response:
    """Unfollow a person or cancel the follow request; undo is possible for a day."""
    form = forms.read_form(request, PersonForm)
    token = get_services().following.unfollow(get_actor(), form.name)
    words = _("You unfollowed %(name)s", name=form.name)
    return _done(form, words, f"feed.{token}" if token else None, follows=False, requested=False)


@bp.post("/people/answer")
def answer() -> Response:
    """Accept or decline a follow request."""
    form = forms.read_form(request, Answer)
    done = get_services().following.answer_request(get_actor(), form.name, form.yes)
    if not done:
        return _done(
            form, _("The follow request from %(name)s isn't pending anymore", name=form.name), done=False
        )
    words = _("%(name)s now follows you", name=form.name) if form.yes else _("Request declined")
    return _done(form, words, done=True)


@bp.post("/people/mute", defaults={"on": True})
@bp.post("/people/unmute", defaults={"on": False})
def mute(on: bool) -> Response:
    """Mute or unmute a person: hide their shares from lists of all entries, or show them again."""
    form = forms.read_form(request, PersonForm)
    get_services().following.set_muted(get_actor(), form.name, on)
    words = (
        _(
            "%(name)s is muted. Their shares are hidden from “All entries” but stay in the feed list.",
            name=form.name,
        )
        if on
        else _("%(name)s is unmuted", name=form.name)
    )
    return _done(form, words, muted=on)


@bp.post("/people/block")
def block() -> Response:
    """Block a person, so that neither sees the other."""
    form = forms.read_form(request, PersonForm)
    get_services().following.block(get_actor(), form.name)
    return _done(
        form, _("%(name)s is blocked. You can't see each other's shares.", name=form.name), blocks=True
    )


@bp.post("/people/unblock")
def unblock() -> Response:
    """Unblock a person."""
    form = forms.read_form(request, PersonForm)
    get_services().following.unblock(get_actor(), form.name)
    return _done(form, _("%(name)s is unblocked", name=form.name), blocks=False)


@bp.post("/people/dismiss")
def dismiss() -> Response:
    """Remove a follower without notifying them."""
    form = forms.read_form(request, PersonForm)
    get_services().following.remove_follower(get_actor(), form.name)
    return _done(form, _("%(name)s no longer follows you", name=form.name))


def _done(form: PersonForm, words: str, undo: str | None = None, **answer: object) -> Response:
    if is_json_wanted():
        return jsonify(text=words, undo=undo, **answer)
    get_services().accounts.add_notice(get_actor(), get_session(), Notice(words, undo))
    return make_response(redirect(get_safe_next(form.next, HERE), 303))


@bp.get("/@<name>/followers", defaults={"which": "followers"})
@bp.get("/@<name>/following", defaults={"which": "following"})
@allow_strangers
def show_contacts(name: str, which: str) -> Response:
    """Show a person's followers or the people they follow; to others only if the person allows it."""
    current, asked = find_user(), forms.read_query(request, After)
    lists = get_services().people_lists
    find = lists.list_followers if which == "followers" else lists.list_following
    found = find(current.actor if current else None, name, asked.after)
    if found.owner and found.owner.handle != name:  # different case, or a former user name
        return make_response(redirect(f"/@{quote(found.owner.handle)}/{which}", 301))
    page = render_page("pages/contacts.html", which=which, found=found, owner=found.owner, after=asked.after)
    response = make_response(page)
    # Search engines must not index who knows whom.
    response.headers["X-Robots-Tag"] = "noindex"
    return response
