"""Cells: where people's data is, and people who are being moved."""

from __future__ import annotations

import dataclasses

from flask import Blueprint, Response, make_response, redirect, request
from flask_babel import gettext as _

from app.errors import ConflictError, EventrError, InvalidError, NotFoundError
from app.models.accounts.user import Notice
from app.web import forms
from app.web.context import get_actor, get_services, get_session
from app.web.forms import declare_text
from app.web.view.render import render_page

bp = Blueprint("cells", __name__)

#: Errors that the page shows above its form.
_SHOWN = (ConflictError, InvalidError, NotFoundError)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    name: str = declare_text(max=64)
    cell: str = declare_text(max=31)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Cancel:
    name: str = declare_text(max=64)


@bp.get("/cells")
def show_cells() -> str:
    """Show the cells with their people, and the moves in progress."""
    return _page()


def _page(error: EventrError | None = None, filled: Move | None = None) -> str:
    moves = get_services().moves
    return render_page(
        "pages/admin/cells.html",
        cells=moves.list_cells(get_actor()),
        moves=moves.list_moves(get_actor()),
        error=error,
        filled=filled,
    )


@bp.post("/cells/move")
def move() -> Response | tuple[str, int]:
    """Begin to move a person."""
    form = forms.read_form(request, Move)
    try:
        started = get_services().moves.start(get_actor(), form.name, form.cell)
    except _SHOWN as e:
        return _page(e, form), e.http_status
    return _done(
        _("Moving %(name)s", name=form.name) if started else _("%(name)s is already there", name=form.name)
    )


@bp.post("/cells/cancel")
def cancel() -> Response | tuple[str, int]:
    """Cancel the move of a person."""
    form = forms.read_form(request, Cancel)
    try:
        get_services().moves.cancel(get_actor(), form.name)
    except _SHOWN as e:
        return _page(e), e.http_status
    return _done(_("Move cancelled"))


def _done(text: str) -> Response:
    get_services().accounts.add_notice(get_actor(), get_session(), Notice(text))
    return make_response(redirect("/admin/cells", 303))
