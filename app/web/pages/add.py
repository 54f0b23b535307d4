"""Adding a feed: discovery from any address, choosing a feed, subscribing."""

from __future__ import annotations

import contextlib
import dataclasses
from typing import TypedDict

from flask import Blueprint, Response, make_response, redirect, request
from flask_babel import gettext as _

from app.errors import (
    N_,
    SPACE_IN_ADDRESS,
    FeedError,
    InvalidError,
    NotFoundError,
    RateLimitedError,
    TooLargeError,
)
from app.models.accounts.user import Notice
from app.models.feeds.feed_search import FoundByWords
from app.models.feeds.fetch_options import FetchOptions
from app.models.sharing.trends import FoundPerson
from app.web import forms
from app.web.context import get_actor, get_services, get_session, get_web
from app.web.forms import declare_text
from app.web.view.i18n import get_language
from app.web.view.lookup import remove_login
from app.web.view.own_addresses import parse_own_handle
from app.web.view.render import get_fragment_id, render_page

bp = Blueprint("add", __name__)
bp.add_app_template_global(remove_login, "without_login")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    address: str = declare_text(max=2048, default="")
    first: bool = False
    added: int | None = None


#: Characters of the longest text that is searched for words; a longer one is an address.
WORDS_MAX = 200
_NOTHING = N_("No feed has these words. Try other words, or enter a site's address, such as example.org.")
#: Errors that the user can fix.
_SHOWN = (FeedError, InvalidError, TooLargeError, RateLimitedError)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Find:
    address: str = declare_text(max=2048)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    url: str = declare_text(max=2048)
    folder_name: str = declare_text(max=300, default="")
    private: bool = False
    login: str = declare_text(max=200, default="")
    password: str = declare_text(max=400, default="")
    then: str = declare_text(max=8, default="", one_of=("", "add", "discover"))


@bp.get("/add")
def show_add() -> str:
    """Show the field for an address or words, with the feeds that have the words typed so far."""
    asked = forms.read_query(request, Query)
    words = _match(asked.address) if asked.address.strip() else {}
    if get_fragment_id() == "matches":
        return render_page("parts/matches.html", address=asked.address, **words)
    added = None
    if asked.added is not None:
        with contextlib.suppress(NotFoundError):
            added = get_services().subscriptions.get_feed(get_actor(), asked.added)
    packs = get_services().packs.list_packs(get_actor(), get_language())
    return render_page(
        "pages/add.html", address=asked.address, first=asked.first, added=added, packs=packs, **words
    )


@bp.post("/add")
def find_feeds() -> str | tuple[str, int]:
    """Look for the feeds behind an address; if this takes long, answer "wait" and let the page retry.

    Words that aren't an address, or behind which there is no feed, are looked for in the known feeds.
    """
    form = forms.read_form(request, Find)
    wait = get_web().settings.discovery_wait
    try:
        if handle := parse_own_handle(form.address):
            return _found(form.address, person=get_services().following.get_person(get_actor(), handle))
        found = get_services().discovery.discover(get_actor(), form.address, wait=wait)
    except NotFoundError:
        # Stop here: an address of this server is never fetched.
        nobody = NotFoundError("Nobody with this user name shares anything on this server.")
        return _found(form.address, error=nobody), nobody.http_status if not get_fragment_id() else 200
    except InvalidError as e:
        words = _match(form.address)
        if any(words.values()):
            return _found(form.address, **words)
        error = e if e.args[0] == SPACE_IN_ADDRESS else InvalidError(_NOTHING, field="address")
        return _found(form.address, error=error), e.http_status if not get_fragment_id() else 200
    except FeedError as e:
        return _found(form.address, error=e), e.http_status if not get_fragment_id() else 200
    words = {} if found.wait or found.feeds else _match(form.address)
    return _found(form.address, found=found, **words)


class _Words(TypedDict, total=False):
    matches: list[FoundByWords]
    people: list[FoundPerson]


def _match(text: str) -> _Words:
    """Return the feeds and people that have the words of a text."""
    if len(text) > WORDS_MAX:
        return {}
    services = get_services()
    people = services.trends.find_people(get_actor(), text)
    return {"matches": services.feed_search.find(get_actor(), text), "people": people}


def _found(address: str, **values: object) -> str:
    is_part = get_fragment_id() == "found"
    if is_part and not values.keys() & {"found", "error", "person"}:
        return ""  # the page has loaded the matches already, while they were typed
    page = "parts/found.html" if is_part else "pages/add.html"
    return render_page(
        page, address=address, folders=get_services().folders.list_folders(get_actor()), **values
    )


@bp.post("/subscribe")
def subscribe() -> Response | tuple[str, int]:
    """Subscribe to a feed and show its list; its first entries appear automatically.

    If the address or the login is refused, all that was typed stays, except the password of a whole page.
    """
    form = forms.read_form(request, Choice)
    try:
        return _subscribe(form)
    except _SHOWN as e:
        if get_fragment_id() == "refused":
            return render_page("parts/refused.html", error=e), 200
        folders = get_services().folders.list_folders(get_actor())
        page = render_page("pages/add.html", address=form.url, asked=form, refused=e, folders=folders)
        return page, e.http_status


def _subscribe(form: Choice) -> Response:
    if handle := parse_own_handle(form.url):
        get_services().following.follow(get_actor(), handle)
        return _to("/people")
    options = FetchOptions(login=form.login.strip(), password=form.password)
    done = get_services().subscriptions.subscribe(
        get_actor(), form.url, private=form.private, options=options
    )
    feed_id = done.subscription.feed_id
    if done.existed:
        get_services().accounts.add_notice(
            get_actor(), get_session(), Notice(_("You're already subscribed to this feed"))
        )
    elif form.folder_name.strip():
        # Only now: a rejected or existing subscription must not leave an empty folder behind.
        folder = get_services().folders.get_or_create(get_actor(), form.folder_name)
        get_services().subscriptions.update(get_actor(), feed_id, folder_ids=[folder.id])
    if form.then == "discover":
        if not done.existed:
            title = get_services().subscriptions.get_feed(get_actor(), feed_id).title or form.url
            words = _("You're subscribed to “%(name)s”.", name=title[:80])
            get_services().accounts.add_notice(get_actor(), get_session(), Notice(words))
        return _to("/discover")
    return _to(f"/add?added={feed_id}" if form.then else f"/read/feed/{feed_id}")


def _to(target: str) -> Response:
    if get_fragment_id():
        return Response(headers={"HX-Redirect": target})
    return make_response(redirect(target, 303))
