"""Followed lists: OPML files on the web whose new feeds are added to a folder."""

from __future__ import annotations

import dataclasses

from flask import Blueprint, Response, make_response, redirect, request
from flask_babel import gettext as _
from flask_babel import ngettext

from app.errors import EventrError, ExistsError, InvalidError, RateLimitedError, TooLargeError
from app.models.accounts.user import Notice
from app.web import forms
from app.web.context import get_actor, get_services, get_session
from app.web.forms import declare_text
from app.web.view.render import render_page

bp = Blueprint("lists", __name__)

PAGE = "/imports/lists"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class NewList:
    url: str = declare_text(max=4096, default="")
    name: str = declare_text(max=512, default="")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    unsubscribe: bool = False


@bp.get(PAGE)
def show_lists() -> str:
    """Show the lists that the user follows."""
    return _page()


def _page(error: EventrError | None = None, typed: NewList | None = None) -> str:
    lists = get_services().followed_lists.list_lists(get_actor())
    return render_page("pages/lists.html", lists=lists, error=error, typed=typed or NewList())


@bp.post(PAGE)
def add() -> Response | tuple[str, int]:
    """Follow a list."""
    form = forms.read_form(request, NewList)
    try:
        get_services().followed_lists.add(get_actor(), form.url, form.name)
    except (InvalidError, ExistsError, TooLargeError, RateLimitedError) as e:
        return _page(e, form), e.http_status
    return _back(_("Eventr is fetching the list. Its feeds appear in their folder."))


@bp.post("/imports/lists/<int:list_id>/check")
def check(list_id: int) -> Response | tuple[str, int]:
    """Check a list now."""
    forms.read_form(request, forms.Empty)
    try:
        get_services().followed_lists.check(get_actor(), list_id)
    except RateLimitedError as e:
        return _page(e), e.http_status
    return _back(_("Eventr is checking the list"))


@bp.post("/imports/lists/<int:list_id>/answer")
def answer(list_id: int) -> Response:
    """Unsubscribe from the feeds that are no longer in a list, or keep them."""
    form = forms.read_form(request, Answer)
    token, count = get_services().followed_lists.answer(get_actor(), list_id, unsubscribe=form.unsubscribe)
    if not token:
        return _back(_("The feeds stay"))
    words = ngettext("Unsubscribed from %(num)s feed", "Unsubscribed from %(num)s feeds", count)
    return _back(words, f"feeds.{token}")


@bp.post("/imports/lists/<int:list_id>/delete")
def remove(list_id: int) -> Response:
    """Follow a list no longer."""
    forms.read_form(request, forms.Empty)
    get_services().followed_lists.remove(get_actor(), list_id)
    return _back(_("You don't follow this list anymore. Its feeds stay."))


def _back(words: str, undo: str | None = None) -> Response:
    get_services().accounts.add_notice(get_actor(), get_session(), Notice(words, undo))
    return make_response(redirect(PAGE, 303))
