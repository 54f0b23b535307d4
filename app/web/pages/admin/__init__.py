"""The screens of administrators; whoever is none finds nothing below ``/admin``."""

from __future__ import annotations

from flask import Blueprint

from app.errors import NotFoundError
from app.models.accounts.actor import Permission
from app.web.context import get_actor
from app.web.pages.admin import feeds, jobs, machine, moderation, overview, users

bp = Blueprint("admin", __name__, url_prefix="/admin")


@bp.before_request
def _admins_only() -> None:
    # Not "forbidden": that would say that there is something. Each service asks for itself too.
    if not get_actor().has_permission(Permission.ADMIN_SEE):
        raise NotFoundError


for part in (overview, feeds, users, moderation, jobs, machine):
    bp.register_blueprint(part.bp)
