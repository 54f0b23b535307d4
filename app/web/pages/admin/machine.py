"""The server itself: whether all is well, versions, settings."""

from __future__ import annotations

from urllib.parse import urlsplit

from flask import Blueprint

from app.web.context import actor, services, web
from app.web.security.headers import LOOPBACK
from app.web.view.render import template

bp = Blueprint("machine", __name__)


@bp.get("/settings")
def page() -> str:
    """Findings, versions, settings; secrets are not shown."""
    machine = services().machine
    return template(
        "pages/admin/machine.html",
        findings=machine.findings(actor()),
        versions=machine.versions(actor()),
        rows=machine.settings(actor()),
        is_plain=is_plain,
    )


def is_plain() -> bool:
    """Whether people come by plain HTTP under a name: browsers then keep much from pages (ux.md §2.4)."""
    return not web().secure and urlsplit(web().base_url).hostname not in LOOPBACK
