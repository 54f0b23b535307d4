"""The admin pages; for everyone else, ``/admin`` doesn't exist."""

from __future__ import annotations

from flask import Blueprint

from app.errors import NotFoundError
from app.models.accounts.actor import Permission
from app.web.context import get_actor, get_services
from app.web.pages.admin import cells, feeds, jobs, machine, media, moderation, overview, texts, users

bp = Blueprint("admin", __name__, url_prefix="/admin")


@bp.before_request
def _admins_only() -> None:
    # Not 403, which would reveal the pages. Each service also checks permissions itself.
    if not get_actor().has_permission(Permission.ADMIN_SEE):
        raise NotFoundError


@bp.context_processor
def _find_cells() -> dict[str, bool]:
    """Tell the bar of tabs whether there is more than the home cell."""
    return {"has_cells": get_services().cells.is_spread}


for part in (overview, feeds, users, moderation, jobs, media, texts, cells, machine):
    bp.register_blueprint(part.bp)
