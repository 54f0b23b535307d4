"""Keyboard shortcuts: the help, and the settings to change each shortcut."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping

from flask import Blueprint, Response, make_response, redirect, request
from flask_babel import gettext as _

from app.errors import InvalidError, NotFoundError
from app.models.accounts.user import Notice
from app.web import forms
from app.web.context import find_user, get_actor, get_services, get_session
from app.web.forms import declare_text
from app.web.keyboard import names
from app.web.keyboard.keys import ROWS, Key
from app.web.pages.settings import render_section
from app.web.view.render import get_fragment_id, get_key_map, render_page

bp = Blueprint("keys", __name__)

#: The ``/undo`` token for the last change of shortcuts.
UNDO = "keys."


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    action: str = declare_text(max=40)
    keys: str = declare_text(max=100, default="")
    take: bool = False


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class OneAction:
    action: str = declare_text(max=40)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Switch:
    on: bool = False


@bp.get("/help/keys")
def show_help() -> str:
    """Show all shortcuts in force, as a page or as the dialog's content."""
    if get_fragment_id() == "help":
        return render_page("parts/help.html")
    return render_page("pages/help_keys.html")


@bp.get("/settings/keys")
def show_keys() -> str:
    """Show the settings of all shortcuts."""
    return _page()


def _page(change: Change | None = None, error: InvalidError | None = None) -> str:
    return render_section("keys", change=change, error=error)


@bp.post("/settings/keys")
def change_keys() -> Response | tuple[str, int]:
    """Change or remove the shortcuts of an action."""
    form = forms.read_form(request, Change)
    return _set(form, lambda: names.parse_keys(form.keys))


@bp.post("/settings/keys/default")
def reset_action() -> Response | tuple[str, int]:
    """Reset the shortcuts of an action to the defaults."""
    form = forms.read_form(request, OneAction)
    row = _row(form.action)
    return _set(Change(action=row.action, keys=" ".join(row.keys)), lambda: row.keys)


@bp.post("/settings/keys/reset")
def reset() -> Response:
    """Reset all shortcuts to the defaults."""
    forms.read_form(request, forms.Empty)
    _store({})
    return _back(_("Shortcuts reset to defaults"), undo=True)


@bp.post("/settings/keys/single")
def switch_single_keys() -> Response:
    """Turn single-character shortcuts on or off (WCAG 2.1.4)."""
    form = forms.read_form(request, Switch)
    get_services().accounts.set_preferences(get_actor(), {"single_keys": form.on})
    return _back(_("Single-key shortcuts are on") if form.on else _("Single-key shortcuts are off"))


def _row(action: str) -> Key:
    if action not in ROWS:
        raise NotFoundError(action=action)
    return ROWS[action]


def _set(form: Change, keys: Callable[[], tuple[str, ...]]) -> Response | tuple[str, int]:
    row = _row(form.action)
    try:
        new = keys()
        changes = get_key_map().compute_changes(row.action, new, override=form.take)
    except InvalidError as e:
        return _page(form, e), e.http_status
    _store(changes)
    values = {"action": row.text, "keys": ", ".join(map(names.format_key, new))}
    said = (
        _("“%(action)s”: %(keys)s", **values)
        if new
        else _("“%(action)s” doesn't have a shortcut anymore", **values)
    )
    return _back(said, undo=True, anchor=f"#key-{row.action}")


def _store(changes: Mapping[str, str]) -> None:
    person = find_user()
    before = person.preferences.keys if person else {}
    get_services().accounts.set_preferences(get_actor(), {"keys": changes, "keys_before": before})


def _back(words: str, *, undo: bool = False, anchor: str = "") -> Response:
    get_services().accounts.add_notice(get_actor(), get_session(), Notice(words, UNDO if undo else None))
    return make_response(redirect(f"/settings/keys{anchor}", 303))
