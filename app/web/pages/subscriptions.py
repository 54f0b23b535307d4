"""The subscriptions manager: a table of all feeds, and bulk actions on them."""

from __future__ import annotations

import dataclasses
from urllib.parse import urlencode

from flask import Blueprint, Response, make_response, redirect, request
from flask_babel import gettext as _
from flask_babel import lazy_gettext, ngettext

from app.errors import InvalidError
from app.models.accounts.user import Notice
from app.models.subscriptions.bulk_edit import BulkEditQuery, Condition, Order
from app.models.subscriptions.folder import FolderEditMode
from app.web import forms
from app.web.context import get_actor, get_services, get_session
from app.web.forms import declare_text
from app.web.view.present import describe_check
from app.web.view.render import render_page

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
    Order.NEWEST: lazy_gettext("Latest entry"),
    Order.RATE: lazy_gettext("Frequency"),
    Order.UNREAD: lazy_gettext("Unread"),
}
DEEDS = ("move", "add", "remove", "read", "refresh", "pause", "resume", "unsubscribe")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    q: str = declare_text(max=200, default="")
    show: str = declare_text(max=16, default="all", one_of=tuple(c.value for c in Condition))
    folder: int | None = None
    sort: str = declare_text(max=16, default="name", one_of=tuple(o.value for o in Order))
    after: str = declare_text(max=130, default="")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Bulk:
    do: str = declare_text(max=16, one_of=DEEDS)
    feed: tuple[int, ...] = ()
    whole: bool = False
    into: int | None = None
    q: str = declare_text(max=200, default="")
    show: str = declare_text(max=16, default="all", one_of=tuple(c.value for c in Condition))
    folder: int | None = None
    sort: str = declare_text(max=16, default="name", one_of=tuple(o.value for o in Order))
    after: str = declare_text(max=130, default="")


@bp.get("/subscriptions")
def show_subscriptions() -> str:
    """Show all subscriptions, or those that match the filters."""
    asked = forms.read_query(request, Query)
    return render_manager(asked)


def render_manager(asked: Query | Bulk, error: Exception | None = None) -> str:
    """Return the page; ``error`` appears at its top, with what was selected in a refused form."""
    get_services().page_frame.prefetch_counts(get_actor(), with_folders=True)
    found = get_services().bulk_edit.load_page(get_actor(), _query(asked, asked.after))
    return render_page(
        "pages/subscriptions.html",
        page=found,
        asked=asked,
        chosen=asked if isinstance(asked, Bulk) else None,
        address=build_address,
        names={folder.id: folder.name for folder in found.folders},
        conditions=CONDITIONS,
        orders=ORDERS,
        error=error,
    )


def _query(asked: Query | Bulk, after: str = "") -> BulkEditQuery:
    return BulkEditQuery(asked.q, Condition(asked.show), asked.folder, Order(asked.sort), after)


def build_address(asked: Query | Bulk, **changes: object) -> str:
    """Return the address of the table with changed filters, without default values."""
    fields = {name: getattr(asked, name) for name in ("q", "show", "folder", "sort")} | changes
    usual = {"q": "", "show": "all", "folder": None, "sort": "name", "after": ""}
    query = urlencode({name: value for name, value in fields.items() if value != usual[name]})
    return f"/subscriptions?{query}" if query else "/subscriptions"


@bp.post("/subscriptions")
def run_bulk() -> Response | tuple[str, int]:
    """Apply an action to the selected feeds, or to all that match the filters."""
    form = forms.read_form(request, Bulk)
    feed_ids = (
        get_services().bulk_edit.find_feed_ids(get_actor(), _query(form)) if form.whole else list(form.feed)
    )
    try:
        if not feed_ids:
            raise InvalidError("Select at least one feed first.")
        notice = _do(form, feed_ids)
    except InvalidError as e:
        return render_manager(form, e), e.http_status
    get_services().accounts.add_notice(get_actor(), get_session(), notice)
    return make_response(redirect(build_address(form), 303))


def _do(form: Bulk, feed_ids: list[int]) -> Notice:
    manager = get_services().bulk_edit
    match form.do:
        case "read":
            done = get_services().marking.mark_feeds(get_actor(), feed_ids)
            words = ngettext("%(num)s entry marked as read", "%(num)s entries marked as read", done.count)
            return Notice(words, done.undo) if done.count else Notice(_("No unread entries"))
        case "refresh":
            count = manager.refresh(get_actor(), feed_ids)
            return Notice(
                describe_check(count, get_services().subscriptions.list_rest_ends(get_actor(), feed_ids))
            )
        case "pause":
            count = manager.set_paused(get_actor(), feed_ids, True)
            return Notice(ngettext("%(num)s feed paused", "%(num)s feeds paused", count))
        case "resume":
            count = manager.set_paused(get_actor(), feed_ids, False)
            words = ngettext("Checks of %(num)s feed resumed", "Checks of %(num)s feeds resumed", count)
            return Notice(words)
        case "unsubscribe":
            token, count = manager.unsubscribe(get_actor(), feed_ids)
            words = ngettext("Unsubscribed from %(num)s feed", "Unsubscribed from %(num)s feeds", count)
            return Notice(words, f"feeds.{token}")
        case _:
            return _place(form, feed_ids)


def _place(form: Bulk, feed_ids: list[int]) -> Notice:
    # 0 is for no folder, to which feeds can only be moved.
    mode, folder_ids = FolderEditMode(form.do), [form.into] if form.into else []
    if not folder_ids and (mode is not FolderEditMode.MOVE or form.into is None):
        raise InvalidError("Choose a folder first.", field="into")
    token, count = get_services().folders.place_feeds(get_actor(), feed_ids, folder_ids, mode)
    words = {
        FolderEditMode.ADD: ngettext(
            "%(num)s feed added to the folder", "%(num)s feeds added to the folder", count
        ),
        FolderEditMode.REMOVE: ngettext(
            "%(num)s feed removed from the folder", "%(num)s feeds removed from the folder", count
        ),
        FolderEditMode.MOVE: ngettext("%(num)s feed moved", "%(num)s feeds moved", count),
    }[mode]
    return Notice(words, f"place.{token}")
