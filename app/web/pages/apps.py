"""App passwords, access tokens of the API, feed addresses of lists, and settings for reading apps."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from flask import Blueprint, Response, make_response, redirect, request
from flask_babel import gettext as _

from app.errors import N_, EventrError, InvalidError, RateLimitedError, TooLargeError
from app.models.accounts.token import Scope, Token
from app.models.accounts.user import Notice
from app.models.reading.stream import REF_MAX, StreamKind, StreamRef
from app.models.sharing.pages import FeedFormat
from app.services.accounts.tokens import DAYS, NAME
from app.services.sharing.stream_feeds import build_path
from app.web import forms
from app.web.context import get_actor, get_services, get_session, get_web
from app.web.forms import declare_text
from app.web.pages.settings import render_section
from app.web.view.qr_code import is_reachable_by_phones
from app.web.view.reader_apps import BY_SLUG, Protocol, sort_apps
from app.web.view.render import render_page
from app.web.view.views import build_head, iter_folders

bp = Blueprint("apps", __name__, url_prefix="/settings/apps")

#: Errors that a form shows itself; all others lead to an error page.
Shown = (InvalidError, RateLimitedError, TooLargeError)
#: Lists that everyone has.
MIXED = frozenset(
    {
        *(StreamKind.TODAY, StreamKind.ALL, StreamKind.STARRED, StreamKind.NOTES, StreamKind.RECENT),
        *(StreamKind.FOLLOWING, StreamKind.SHARES),
    }
)
#: The names of the formats of feeds, the same in all languages.
FEED_FORMATS = {FeedFormat.ATOM.value: "Atom", FeedFormat.JSON.value: "JSON Feed"}
BEARER = "Authorization: Bearer evt_…"
#: Scope → its short label, and its description.
SCOPES = {
    Scope.READ: (N_("read"), N_("View your feeds, folders and entries")),
    Scope.MARK: (N_("mark"), N_("Mark entries as read, and star, like and tag them")),
    Scope.SUBSCRIBE: (
        N_("subscribe"),
        N_("Add and remove feeds and folders, and follow, mute and block people"),
    ),
    Scope.SHARE: (N_("share"), N_("Share, comment and report in your name, and choose who can follow you")),
    Scope.SETTINGS: (N_("settings"), N_("Change your view settings, keyboard shortcuts and notifications")),
    Scope.FILES: (N_("files"), N_("Upload files, and list, download and delete them")),
}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class AppQuery:
    """``app``: the slug of a known app. ``stream``: the list to make a feed address for."""

    app: str = declare_text(max=64, default="")
    stream: str = declare_text(max=REF_MAX, default="")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class NewPassword:
    name: str = declare_text(max=256, default="")
    fever: bool = False
    app: str = declare_text(max=64, default="")
    proof: str = declare_text(max=2048, default="")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class NewToken:
    name: str = declare_text(max=256, default="")
    read: bool = False
    mark: bool = False
    subscribe: bool = False
    share: bool = False
    settings: bool = False
    files: bool = False
    days: int | None = None
    proof: str = declare_text(max=2048, default="")

    @property
    def scopes(self) -> list[str]:
        """The names of the selected scopes."""
        return [scope.value for scope in Scope if getattr(self, scope.value)]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class NewAddress:
    name: str = declare_text(max=256, default="")
    stream: str = declare_text(max=REF_MAX, default="all")
    proof: str = declare_text(max=2048, default="")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class OneToken:
    token: int


@bp.get("")
def show_apps() -> str:
    """Show all tokens; ``?app=`` and ``?stream=`` fill the forms for a known app and for a list."""
    wanted = forms.read_query(request, AppQuery)
    known = BY_SLUG.get(wanted.app)
    form = NewPassword(name=known.name, fever=known.needs_fever, app=known.slug) if known else NewPassword()
    return _page(form=form, address=NewAddress(stream=wanted.stream or "all"))


def _page(wrong: str = "", error: EventrError | None = None, **values: object) -> str:
    """Render the page; ``wrong`` is the form that ``error`` belongs to."""
    given: dict[str, object] = {"form": NewPassword(), "wish": NewToken(read=True, days=90)}
    given |= {"proved": get_services().tokens.is_proved(get_session()), "address": NewAddress(), **values}
    address = given["address"]
    lists = _list_streams(address.stream if isinstance(address, NewAddress) else "")
    return render_section(
        "apps",
        wrong=wrong,
        error=error,
        tokens=get_services().tokens.list_tokens(get_actor()),
        scopes=SCOPES,
        lists=lists,
        titles={ref: title for group in lists for ref, title in group.streams},
        days=DAYS,
        base=get_web().base_url,
        reachable=is_reachable_by_phones(get_web().base_url),
        bearer=BEARER,
        fever=Protocol.FEVER.value,
        feed_formats=FEED_FORMATS,
        **given,
    )


class _Group(NamedTuple):
    """Lists to choose from: their text forms and titles."""

    title: str
    streams: list[tuple[str, str]]


def _list_streams(chosen: str) -> list[_Group]:
    """Return the actor's lists; of single feeds only the chosen one, because there may be thousands."""
    actor, services = get_actor(), get_services()
    tree, tags = services.reading.get_tree(actor), services.tags.list_tags(actor)
    kinds = [StreamRef(kind) for kind in StreamKind if kind in MIXED]
    folders = [StreamRef(StreamKind.FOLDER, one.id) for one in iter_folders(tree)]
    tagged = [StreamRef(StreamKind.TAG, tag.id) for tag in tags]
    searches = [
        (str(StreamRef(StreamKind.SEARCH, query=one.query)), one.name)
        for one in services.tags.list_searches(actor)
    ]
    single = [StreamRef.parse(chosen)] if chosen.startswith(("feed/", "search/")) else []
    if single and str(single[0]) in dict(searches):
        single = []

    def list_titles(refs: Iterable[StreamRef]) -> list[tuple[str, str]]:
        return [(str(ref), head.title) for ref in refs if (head := build_head(tree, ref, tags))]

    groups = [
        _Group(_("This list"), list_titles(single)),
        _Group(_("Lists"), list_titles(kinds)),
        _Group(_("Folders"), list_titles(folders)),
        _Group(_("Tags"), list_titles(tagged)),
        _Group(_("Saved searches"), searches),
    ]
    return [group for group in groups if group.streams]


def _made(made: Token, secret: str, slug: str = "", paths: Mapping[str, str] | None = None) -> Response:
    """Show a new secret once: only in this answer, which nothing stores (W08)."""
    response = make_response(
        _page(made=made, secret=secret, known=BY_SLUG.get(slug), proved=True, paths=paths)
    )
    response.headers["Cache-Control"] = "no-store"
    return response


@bp.post("/password")
def make_password() -> Response | tuple[str, int]:
    """Create an app password."""
    form = forms.read_form(request, NewPassword)
    try:
        made, secret = get_services().tokens.make_app_password(
            get_actor(), get_session(), form.name, fever=form.fever, proof=form.proof
        )
    except Shown as e:
        return _page("password", e, form=form), e.http_status
    return _made(made, secret, form.app)


@bp.post("/token")
def make_token() -> Response | tuple[str, int]:
    """Create an access token for the API."""
    form = forms.read_form(request, NewToken)
    try:
        made, secret = get_services().tokens.make_api_token(
            get_actor(), get_session(), form.name, form.scopes, days=form.days, proof=form.proof
        )
    except Shown as e:
        return _page("token", e, wish=form), e.http_status
    return _made(made, secret)


@bp.post("/feed")
def make_address() -> Response | tuple[str, int]:
    """Create the feed address of a list."""
    form = forms.read_form(request, NewAddress)
    titles = {ref: title for group in _list_streams(form.stream) for ref, title in group.streams}
    name = form.name.strip() or titles.get(form.stream, "")[:NAME]
    try:
        made, secret = get_services().stream_feeds.make_address(
            get_actor(), get_session(), name, form.stream, proof=form.proof
        )
    except Shown as e:
        return _page("feed", e, address=form), e.http_status
    paths = {feed_format.value: build_path(secret, feed_format) for feed_format in FeedFormat}
    return _made(made, secret, paths=paths)


@bp.post("/revoke")
def revoke() -> Response:
    """Revoke an app password or access token."""
    get_services().tokens.revoke(get_actor(), forms.read_form(request, OneToken).token)
    get_services().accounts.add_notice(get_actor(), get_session(), Notice(_("Revoked")))
    return make_response(redirect("/settings/apps", 303))


@bp.get("/clients")
def show_clients() -> str:
    """Show the settings for each reading app."""
    return render_page(
        "pages/settings/clients.html",
        section="apps",
        apps=sort_apps(request.user_agent.string),
        base=get_web().base_url,
    )
