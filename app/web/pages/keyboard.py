"""Keys: the help, and the settings in which each of them can be another or none."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping

from flask import Blueprint, Response, jsonify, make_response, redirect, request
from flask_babel import gettext as _

from app.errors import InvalidError, NotFoundError
from app.models.accounts.user import Notice
from app.web import forms
from app.web.context import actor, services, session, user
from app.web.forms import text
from app.web.keyboard import names
from app.web.keyboard.keys import ROWS, Key
from app.web.pages.settings import section
from app.web.view.render import fragment_for, key_map, template

bp = Blueprint("keys", __name__)

#: The token that ``/undo`` takes for the last change of keys.
UNDO = "keys."


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    action: str = text(max=40)
    keys: str = text(max=100, default="")
    take: bool = False


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class One:
    action: str = text(max=40)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Switch:
    on: bool = False


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TextSize:
    size: int


@bp.get("/help/keys")
def help_page() -> str:
    """All keys in force: a page, or the inside of the dialog."""
    if fragment_for() == "help":
        return template("parts/help.html")
    return template("pages/help_keys.html")


@bp.get("/settings/keys")
def page() -> str:
    """All keys, each to be changed."""
    return _page()


def _page(change: Change | None = None, error: InvalidError | None = None) -> str:
    return section("keys", change=change, error=error)


@bp.post("/settings/keys")
def change() -> Response | tuple[str, int]:
    """Give an action other keys, or none."""
    form = forms.form(request, Change)
    return _set(form, lambda: names.read(form.keys))


@bp.post("/settings/keys/default")
def default() -> Response | tuple[str, int]:
    """Give an action the keys of the table."""
    form = forms.form(request, One)
    row = _row(form.action)
    return _set(Change(action=row.action, keys=" ".join(row.keys)), lambda: row.keys)


@bp.post("/settings/keys/reset")
def reset() -> Response:
    """Give all actions the keys of the table."""
    forms.form(request, forms.Empty)
    _store({})
    return _back(_("All keys are as they were at first"), undo=True)


@bp.post("/settings/keys/single")
def single() -> Response:
    """Switch all keys that are mere characters on or off (WCAG 2.1.4)."""
    form = forms.form(request, Switch)
    services().accounts.set_preferences(actor(), {"single_keys": form.on})
    return _back(_("Single keys are on") if form.on else _("Single keys are off"))


@bp.post("/settings/text-size")
def text_size() -> Response:
    """Keep the size of text that the keys chose."""
    form = forms.form(request, TextSize)
    services().accounts.set_preferences(actor(), {"text_size": form.size})
    return jsonify(size=form.size)


def _row(action: str) -> Key:
    if action not in ROWS:
        raise NotFoundError(action=action)
    return ROWS[action]


def _set(form: Change, keys: Callable[[], tuple[str, ...]]) -> Response | tuple[str, int]:
    row = _row(form.action)
    try:
        new = keys()
        changes = key_map().changed(row.action, new, take=form.take)
    except InvalidError as e:
        return _page(form, e), e.http_status
    _store(changes)
    values = {"action": row.text, "keys": ", ".join(map(names.shown, new))}
    said = _("“%(action)s”: %(keys)s", **values) if new else _("“%(action)s” has no key now", **values)
    return _back(said, undo=True, anchor=f"#key-{row.action}")


def _store(changes: Mapping[str, str]) -> None:
    person = user()
    before = person.preferences.keys if person else {}
    services().accounts.set_preferences(actor(), {"keys": changes, "keys_before": before})


def _back(words: str, *, undo: bool = False, anchor: str = "") -> Response:
    services().accounts.notify(actor(), session(), Notice(words, UNDO if undo else None))
    return make_response(redirect(f"/settings/keys{anchor}", 303))
