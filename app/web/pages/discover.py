"""Discovery by people: what is shared most, and who reads the same."""

from __future__ import annotations

from flask import Blueprint

from app.web.context import actor, services
from app.web.view.render import template

bp = Blueprint("discover", __name__)


@bp.get("/discover")
def page() -> str:
    """What is shared most at the moment, and people who read alike."""
    found = services().trends
    mine = services().following.card(actor())
    return template(
        "pages/discover.html", trends=found.top(actor()), alike=found.alike(actor()), similar=mine.similar
    )
