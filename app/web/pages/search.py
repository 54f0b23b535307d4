"""Search: the field with its tips, and saved searches. The results are a stream (``read``)."""

from __future__ import annotations

import dataclasses

from flask import Blueprint, Response, make_response, redirect, request
from flask_babel import gettext as _

from app.models.accounts.user import Notice
from app.models.reading.search import QUERY_MAX, normalise_query, parse_query
from app.models.reading.stream import Sort, StreamKind, StreamQuery, StreamRef
from app.web import forms
from app.web.context import get_actor, get_services, get_session
from app.web.forms import declare_text
from app.web.security.redirects import get_safe_next
from app.web.view.render import render_page

bp = Blueprint("search", __name__)

#: Results that are shown while someone types.
TYPED_ROWS = 8


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    q: str = declare_text(max=4 * QUERY_MAX, default="")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Saved:
    query: str = declare_text(max=4 * QUERY_MAX)
    name: str = declare_text(max=128, default="")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Notify:
    notify: bool = False
    next: str = declare_text(max=2048, default="")


@bp.get("/search")
def show_search() -> Response | str:
    """Show the search field and its syntax; with a query, redirect to its results."""
    query = normalise_query(forms.read_query(request, Query).q)
    if query:
        return make_response(redirect(build_address(query), 303))
    services = get_services()
    searches, index = services.tags.list_searches(get_actor()), services.indexing.get_state()
    return render_page("pages/search.html", searches=searches, index=index)


@bp.get("/search/typed")
def show_typed() -> str:
    """Show what a query that is being typed finds: its first results, and names that fit its last part."""
    typed = forms.read_query(request, Query).q
    actor, services, query = get_actor(), get_services(), normalise_query(typed)
    page = None
    if not parse_query(query).is_empty:
        ref = StreamRef(StreamKind.SEARCH, query=query)
        page = services.reading.load_page(actor, StreamQuery(ref, Sort.NEWEST, limit=TYPED_ROWS, once=True))
    names = services.search_suggestions.find_completions(actor, typed)
    near = () if names else services.search_suggestions.find_corrections(actor, query)
    return render_page("parts/typed.html", query=query, page=page, names=names, near=near)


def build_address(query: str) -> str:
    """Return the address of a query's stream."""
    return f"/read/{StreamRef(StreamKind.SEARCH, query=query)}"


@bp.post("/searches")
def save() -> Response:
    """Save a search to the tree."""
    form = forms.read_form(request, Saved)
    get_services().tags.save_search(get_actor(), form.name, form.query)
    get_services().accounts.add_notice(get_actor(), get_session(), Notice(_("Search saved")))
    return make_response(redirect(build_address(normalise_query(form.query)), 303))


@bp.post("/searches/<int:search_id>/notify")
def set_notify(search_id: int) -> Response:
    """Switch the notifications of a saved search, and return to its results."""
    form = forms.read_form(request, Notify)
    search = get_services().tags.set_search_notify(get_actor(), search_id, form.notify)
    on, off = _("You'll be notified of new results"), _("You won't be notified of new results anymore")
    told = on if form.notify else off
    get_services().accounts.add_notice(get_actor(), get_session(), Notice(told))
    return make_response(redirect(get_safe_next(form.next, build_address(search.query)), 303))


@bp.post("/searches/<int:search_id>/delete")
def forget(search_id: int) -> Response:
    """Delete a saved search."""
    forms.read_form(request, forms.Empty)
    token = get_services().tags.delete_search(get_actor(), search_id)
    undo = f"search.{token}" if token else None
    get_services().accounts.add_notice(get_actor(), get_session(), Notice(_("Saved search deleted"), undo))
    return make_response(redirect("/search", 303))
