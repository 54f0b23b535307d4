"""Discovery by people: what is shared most, and who reads the same."""

from __future__ import annotations

from flask import Blueprint

from app.web.context import get_actor, get_services
from app.web.view.render import render_page

bp = Blueprint("discover", __name__)


@bp.get("/discover")
def show_discover() -> str:
    """What is shared most at the moment, and people who read alike."""
    found = get_services().trends
    mine = get_services().following.preview_profile(get_actor())
    return render_page(
        "pages/discover.html",
        trends=found.list_top(get_actor()),
        alike=found.list_similar_readers(get_actor()),
        similar=mine.similar,
    )
