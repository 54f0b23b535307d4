"""The server itself: health checks, versions, settings."""

from __future__ import annotations

from urllib.parse import urlsplit

from flask import Blueprint

from app.web.context import get_actor, get_services, get_web
from app.web.security.headers import LOOPBACK
from app.web.view.render import render_page

bp = Blueprint("machine", __name__)


@bp.get("/settings")
def show_server() -> str:
    """Show health checks, versions and settings; secrets are hidden."""
    machine = get_services().server_info
    return render_page(
        "pages/admin/machine.html",
        findings=machine.run_checks(get_actor()),
        versions=machine.list_versions(get_actor()),
        conflicts=machine.find_write_conflicts(get_actor()),
        crawls=get_services().crawls.get_figures(get_actor()),
        rows=machine.list_settings(get_actor()),
        is_plain=is_plain_http,
    )


def is_plain_http() -> bool:
    """Return whether users connect to a host name by plain HTTP, where browsers limit pages (ux.md §2.4)."""
    return not get_web().secure and urlsplit(get_web().base_url).hostname not in LOOPBACK
