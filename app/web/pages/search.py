"""Search: the field with its tips, and searches that are kept. What was found is a stream (``read``)."""

from __future__ import annotations

import dataclasses

from flask import Blueprint, Response, make_response, redirect, request
from flask_babel import gettext as _

from app.models.accounts.user import Notice
from app.models.reading.search import QUERY_MAX, tidy
from app.models.reading.stream import StreamKind, StreamRef
from app.web import forms
from app.web.context import actor, services, session
from app.web.forms import text
from app.web.view.render import template

bp = Blueprint("search", __name__)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    q: str = text(max=4 * QUERY_MAX, default="")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Saved:
    query: str = text(max=4 * QUERY_MAX)
    name: str = text(max=128, default="")


@bp.get("/search")
def page() -> Response | str:
    """The field and what can be typed; with a query on to the stream of what it finds."""
    query = tidy(forms.query(request, Query).q)
    if query:
        return make_response(redirect(address(query), 303))
    return template("pages/search.html", searches=services().tags.searches(actor()))


def address(query: str) -> str:
    """Return where the stream of a query is."""
    return f"/read/{StreamRef(StreamKind.SEARCH, query=query)}"


@bp.post("/searches")
def save() -> Response:
    """Keep a search in the tree."""
    form = forms.form(request, Saved)
    services().tags.save_search(actor(), form.name, form.query)
    services().accounts.notify(actor(), session(), Notice(_("Search saved")))
    return make_response(redirect(address(tidy(form.query)), 303))


@bp.post("/searches/<int:search_id>/delete")
def forget(search_id: int) -> Response:
    """Delete a saved search."""
    forms.form(request, forms.Empty)
    token = services().tags.forget_search(actor(), search_id)
    undo = f"search.{token}" if token else None
    services().accounts.notify(actor(), session(), Notice(_("Saved search deleted"), undo))
    return make_response(redirect("/search", 303))
