"""Stored pictures and files: how much there is, the state of the stores, and cleaning them up."""

from __future__ import annotations

import dataclasses

from flask import Blueprint, Response, make_response, redirect, request
from flask_babel import gettext as _

from app.models.accounts.user import Notice
from app.web import forms
from app.web.context import get_actor, get_services, get_session
from app.web.forms import declare_text
from app.web.view.render import render_page

bp = Blueprint("media", __name__)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    after: str = declare_text(max=64, default="")


@bp.get("/media")
def show_media() -> str:
    """Show sizes, stores and the storage of users; further pages only show users."""
    after, cleaning = forms.read_query(request, Query).after, get_services().media_cleaning
    stats, stores = (None, []) if after else cleaning.describe(get_actor())
    page = cleaning.list_storage(get_actor(), after)
    return render_page("pages/admin/media.html", stats=stats, stores=stores, page=page, after=after)


@bp.post("/media/clean")
def clean_media() -> Response:
    """Queue a run of the cleaner."""
    get_services().media_cleaning.request_run(get_actor())
    get_services().accounts.add_notice(get_actor(), get_session(), Notice(_("Cleaning up")))
    return make_response(redirect("/admin/media", 303))
