"""The server itself: health checks, versions, settings."""

from __future__ import annotations

import dataclasses
from urllib.parse import urlsplit

from flask import Blueprint, request
from flask_babel import gettext as _

from app.errors import N_
from app.models.operations.check_result import CheckResult, Severity
from app.web import forms
from app.web.context import get_actor, get_services, get_web
from app.web.forms import declare_text
from app.web.security.headers import LOOPBACK
from app.web.view.render import get_fragment_id, render_page

bp = Blueprint("machine", __name__)
CHANGED = "changed"
#: Which settings are shown.
FILTERS = {"": N_("All settings"), CHANGED: N_("Changed from default")}
ROWS_ID = "found-rows"
#: What needs attention is first.
_ORDER = (Severity.FAIL, Severity.WARN, Severity.OK)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    q: str = declare_text(max=100, default="")
    show: str = declare_text(max=8, one_of=("", CHANGED), default="")


@bp.get("/settings")
def show_server() -> str:
    """Show health checks, versions and settings, or those that a filter finds; secrets are hidden."""
    machine = get_services().server_info
    asked = forms.read_query(request, Query)
    rows = machine.list_settings(get_actor(), asked.q, only_changed=asked.show == CHANGED)
    if get_fragment_id() == ROWS_ID:
        # While someone types, the stores aren't checked each time.
        return render_page("parts/server_settings.html", rows=rows)
    return render_page(
        "pages/admin/machine.html",
        findings=sorted(machine.run_checks(get_actor()), key=_rank),
        versions=machine.list_versions(get_actor()),
        conflicts=machine.find_write_conflicts(get_actor()),
        crawls=get_services().crawls.get_figures(get_actor()),
        rows=rows,
        asked=asked,
        filters={value: _(words) for value, words in FILTERS.items()},
        is_plain=is_plain_http,
    )


def _rank(found: CheckResult) -> tuple[int, str]:
    return _ORDER.index(found.word), found.check


def is_plain_http() -> bool:
    """Return whether users connect to a host name by plain HTTP, where browsers limit pages (ux.md §2.4)."""
    return not get_web().secure and urlsplit(get_web().base_url).hostname not in LOOPBACK
