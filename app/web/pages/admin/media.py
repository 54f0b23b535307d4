"""Stored pictures and files: how much there is, the state of the stores, and cleaning them up."""

from __future__ import annotations

from flask import Blueprint, Response, make_response, redirect
from flask_babel import gettext as _

from app.models.accounts.user import Notice
from app.web.context import get_actor, get_services, get_session
from app.web.view.render import render_page

bp = Blueprint("media", __name__)


@bp.get("/media")
def show_media() -> str:
    """Show sizes, stores and the users who store most."""
    stats, stores, users = get_services().media_cleaning.describe(get_actor())
    return render_page("pages/admin/media.html", stats=stats, stores=stores, users=users)


@bp.post("/media/clean")
def clean_media() -> Response:
    """Queue a run of the cleaner."""
    get_services().media_cleaning.request_run(get_actor())
    get_services().accounts.add_notice(get_actor(), get_session(), Notice(_("Cleaning up")))
    return make_response(redirect("/admin/media", 303))
