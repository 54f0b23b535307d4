"""The subscriptions manager: a table of all feeds, and what is done to many of them at once."""

from __future__ import annotations

import dataclasses
from urllib.parse import urlencode

from flask import Blueprint, Response, make_response, redirect, request
from flask_babel import gettext as _
from flask_babel import lazy_gettext, ngettext

from app.errors import InvalidError
from app.models.accounts.user import Notice
from app.models.subscriptions.bulk_edit import Condition, ManagerQuery, Order
from app.models.subscriptions.folder import PlaceMode
from app.web import forms
from app.web.context import actor, services, session
from app.web.forms import text
from app.web.view.present import checking
from app.web.view.render import template

bp = Blueprint("subscriptions", __name__)

CONDITIONS = {
    Condition.ALL: lazy_gettext("All"),
    Condition.UNREAD: lazy_gettext("Unread"),
    Condition.ERROR: lazy_gettext("With errors"),
    Condition.QUIET: lazy_gettext("Quiet"),
    Condition.DEAD: lazy_gettext("Dead"),
    Condition.PAUSED: lazy_gettext("Paused"),
}
ORDERS = {
    Order.NAME: lazy_gettext("Name"),
    Order.NEWEST: lazy_gettext("Last entry"),
    Order.RATE: lazy_gettext("Entries a week"),
    Order.UNREAD: lazy_gettext("Unread"),
}
DEEDS = ("move", "add", "remove", "read", "refresh", "unsubscribe")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    q: str = text(max=200, default="")
    show: str = text(max=16, default="all", one_of=tuple(c.value for c in Condition))
    folder: int | None = None
    sort: str = text(max=16, default="name", one_of=tuple(o.value for o in Order))
    after: str = text(max=130, default="")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Bulk:
    do: str = text(max=16, one_of=DEEDS)
    feed: tuple[int, ...] = ()
    whole: bool = False
    into: int | None = None
    q: str = text(max=200, default="")
    show: str = text(max=16, default="all", one_of=tuple(c.value for c in Condition))
    folder: int | None = None
    sort: str = text(max=16, default="name", one_of=tuple(o.value for o in Order))


@bp.get("/subscriptions")
def page() -> str:
    """All subscriptions, or those that were asked for."""
    asked = forms.query(request, Query)
    return manager(asked)


def manager(asked: Query, error: Exception | None = None) -> str:
    """Return the screen; ``error`` stands above it."""
    found = services().manager.page(actor(), _query(asked, asked.after))
    return template(
        "pages/subscriptions.html",
        page=found,
        asked=asked,
        address=address,
        names={folder.id: folder.name for folder in found.folders},
        conditions=CONDITIONS,
        orders=ORDERS,
        error=error,
    )


def _query(asked: Query | Bulk, after: str = "") -> ManagerQuery:
    return ManagerQuery(asked.q, Condition(asked.show), asked.folder, Order(asked.sort), after)


def address(asked: Query | Bulk, **changes: object) -> str:
    """Return the address of the table with other filters; what is as always is left out."""
    fields = {name: getattr(asked, name) for name in ("q", "show", "folder", "sort")} | changes
    usual = {"q": "", "show": "all", "folder": None, "sort": "name", "after": ""}
    query = urlencode({name: value for name, value in fields.items() if value != usual[name]})
    return f"/subscriptions?{query}" if query else "/subscriptions"


@bp.post("/subscriptions")
def bulk() -> Response | tuple[str, int]:
    """Do one thing to the chosen feeds, or to all that the filter finds."""
    form = forms.form(request, Bulk)
    feed_ids = services().manager.found(actor(), _query(form)) if form.whole else list(form.feed)
    try:
        if not feed_ids:
            raise InvalidError("Choose at least one feed first.")
        notice = _do(form, feed_ids)
    except InvalidError as e:
        return manager(Query(q=form.q, show=form.show, folder=form.folder, sort=form.sort), e), e.http_status
    services().accounts.notify(actor(), session(), notice)
    return make_response(redirect(address(form), 303))


def _do(form: Bulk, feed_ids: list[int]) -> Notice:
    manager = services().manager
    match form.do:
        case "read":
            done = manager.mark_read(actor(), feed_ids)
            words = ngettext("%(num)s entry marked as read", "%(num)s entries marked as read", done.count)
            return Notice(words, done.undo) if done.count else Notice(_("Nothing was unread"))
        case "refresh":
            count = manager.refresh(actor(), feed_ids)
            return Notice(checking(count, services().subscriptions.resting(actor(), feed_ids)))
        case "unsubscribe":
            token, count = manager.unsubscribe(actor(), feed_ids)
            words = ngettext("Unsubscribed from %(num)s feed", "Unsubscribed from %(num)s feeds", count)
            return Notice(words, f"feeds.{token}")
        case _:
            return _place(form, feed_ids)


def _place(form: Bulk, feed_ids: list[int]) -> Notice:
    mode, folder_ids = PlaceMode(form.do), [form.into] if form.into else []
    if mode is not PlaceMode.MOVE and not folder_ids:
        raise InvalidError("Choose a folder first.", field="into")
    token, count = services().folders.place(actor(), feed_ids, folder_ids, mode)
    words = {
        PlaceMode.ADD: ngettext("%(num)s feed added", "%(num)s feeds added", count),
        PlaceMode.REMOVE: ngettext("%(num)s feed taken out", "%(num)s feeds taken out", count),
        PlaceMode.MOVE: ngettext("%(num)s feed moved", "%(num)s feeds moved", count),
    }[mode]
    return Notice(words, f"place.{token}")
