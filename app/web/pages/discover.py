"""Discovery: the most shared entries, and similar readers."""

from __future__ import annotations

from flask import Blueprint

from app.web.context import get_actor, get_services
from app.web.view import pictures
from app.web.view.i18n import get_language
from app.web.view.render import render_page

bp = Blueprint("discover", __name__)


@bp.get("/discover")
def show_discover() -> str:
    """Show the entries that are shared most right now, and similar readers."""
    found = get_services().trends
    mine = get_services().following.preview_profile(get_actor())
    trends = found.list_with_rows(get_actor())
    pictures.collect_rows([one.row for one in trends], thumbs=True)
    return render_page(
        "pages/discover.html",
        trends=trends,
        packs=get_services().packs.list_packs(get_actor(), get_language()),
        alike=found.list_similar_readers(get_actor()),
        similar=mine.similar,
    )
