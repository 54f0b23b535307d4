"""Saving any page: the form that the bookmarklet opens, and removing saved pages."""

from __future__ import annotations

import dataclasses
from urllib.parse import quote

from flask import Blueprint, Response, jsonify, make_response, redirect, request
from flask_babel import gettext as _

from app.errors import EventrError
from app.models.accounts.user import Notice
from app.services.reading.saved_pages import FEED_TITLE, TEXT_MAX, URL_MAX
from app.web import forms
from app.web.context import get_actor, get_services, get_session, get_web
from app.web.errors import is_json_wanted
from app.web.forms import declare_text
from app.web.security.redirects import get_safe_next
from app.web.view.render import render_page

bp = Blueprint("saved", __name__)

#: The script of the bookmarklet: it opens the form with the address, title and selection of the page.
_SCRIPT = (
    "javascript:void(open('%s/save?url='+encodeURIComponent(location.href)"
    "+'&title='+encodeURIComponent(document.title)"
    "+'&text='+encodeURIComponent(String(getSelection()).slice(0,2000)),"
    "'eventr','width=520,height=600'))"
)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PageForm:
    """A page to save; ``done`` is the page that was just saved."""

    url: str = declare_text(max=URL_MAX, default="")
    title: str = declare_text(max=2048, default="")
    text: str = declare_text(max=TEXT_MAX, default="")
    done: int | None = None
    again: bool = False


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Removal:
    entry: int
    next: str = declare_text(max=2048, default="")


@bp.get("/saved")
def show_saved() -> Response:
    """Redirect to the list of saved pages, or to the form if there are none."""
    feed_id = get_services().saved_pages.find_feed(get_actor())
    return make_response(redirect(f"/read/feed/{feed_id}" if feed_id else "/save", 303))


@bp.get("/save")
def show_form() -> str:
    """Show the form that saves a page, filled in by the bookmarklet or another application."""
    return _show(forms.read_query(request, PageForm))


@bp.post("/save")
def save() -> Response | tuple[str, int]:
    """Save a page; on errors, show the form with the error."""
    form = forms.read_form(request, PageForm)
    try:
        saved = get_services().saved_pages.save(
            get_actor(), form.url, title=form.title, text=form.text, feed_title=_(FEED_TITLE)
        )
    except EventrError as e:
        return _show(form, error=e), e.http_status
    again = "&again=1" if saved.existed else ""
    return make_response(redirect(f"/save?done={saved.entry_id}{again}", 303))


@bp.post("/saved/remove")
def remove() -> Response:
    """Remove a saved page; undo is possible for a day."""
    form = forms.read_form(request, Removal)
    undo = f"page.{get_services().saved_pages.remove(get_actor(), form.entry)}"
    text = _("Page removed")
    if is_json_wanted():
        return jsonify(text=text, undo=undo)
    get_services().accounts.add_notice(get_actor(), get_session(), Notice(text, undo))
    return make_response(redirect(get_safe_next(form.next), 303))


def _show(form: PageForm, error: EventrError | None = None) -> str:
    article = None
    if form.done is not None:
        article = get_services().reading.get_article(get_actor(), form.done)
    return render_page(
        "pages/save.html",
        form=form,
        error=error,
        article=article,
        bookmarklet=make_bookmarklet(),
        text_max=TEXT_MAX,
    )


def make_bookmarklet() -> str:
    """Return the address of the bookmarklet for this server."""
    return _SCRIPT % quote(get_web().base_url, safe=":/@[]")
