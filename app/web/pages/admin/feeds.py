"""The health of all feeds: lists by problem, and actions on a feed."""

from __future__ import annotations

import dataclasses

from flask import Blueprint, Response, make_response, redirect, request
from flask_babel import gettext as _
from flask_babel import lazy_gettext

from app.models.accounts.user import Notice
from app.models.operations.feed_list import SLOW_MS, FeedFilter, FeedOrder, FeedQuery
from app.web import forms
from app.web.context import get_actor, get_services, get_session
from app.web.forms import declare_text
from app.web.security.redirects import get_safe_next
from app.web.view.render import render_page

bp = Blueprint("feeds", __name__)

#: Filter → its label.
FILTERS = {
    FeedFilter.ALL: lazy_gettext("All"),
    FeedFilter.ERRORS: lazy_gettext("With errors"),
    FeedFilter.DEAD: lazy_gettext("No longer checked"),
    FeedFilter.NEVER: lazy_gettext("Never fetched"),
    FeedFilter.PAUSED: lazy_gettext("Paused"),
    FeedFilter.ORPHANED: lazy_gettext("Without subscribers"),
}
#: Order → its label.
ORDERS = {
    FeedOrder.NEWEST: lazy_gettext("Newest first"),
    FeedOrder.SUBSCRIBERS: lazy_gettext("Most subscribers first"),
    FeedOrder.SLOWEST: lazy_gettext("Slowest first"),
}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    show: str = declare_text(max=16, default="all", one_of=tuple(map(str, FeedFilter)))
    sort: str = declare_text(max=16, default="newest", one_of=tuple(map(str, FeedOrder)))
    word: str = declare_text(max=64, default="")
    q: str = declare_text(max=256, default="")
    after: str = declare_text(max=40, default="")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Back:
    next: str = declare_text(max=2048, default="")


@bp.get("/feeds")
def show_feeds() -> str:
    """Show a list of feeds."""
    asked = forms.read_query(request, Query)
    query = FeedQuery(FeedFilter(asked.show), asked.word, asked.q, asked.after, FeedOrder(asked.sort))
    return render_page(
        "pages/admin/feeds.html",
        asked=asked,
        filters=FILTERS,
        orders=ORDERS,
        slow_seconds=SLOW_MS // 1000,
        found=get_services().feed_lists.list_feeds(get_actor(), query),
        counts=get_services().feed_lists.count_feeds(get_actor()),
        here=request.full_path.rstrip("?"),
    )


@bp.get("/feeds/<int:feed_id>")
def show_feed(feed_id: int) -> str:
    """Show a feed with its latest fetches, without secret parts of its address."""
    feed, log = get_services().feed_lists.get_feed(get_actor(), feed_id)
    return render_page("pages/admin/feed.html", feed=feed, log=log, here=f"/admin/feeds/{feed_id}")


@bp.post("/feeds/<int:feed_id>/<any(check, pause, resume, clear):act>")
def change_feed(feed_id: int, act: str) -> Response:
    """Check a feed now, pause or resume its polls, or clear its errors."""
    form = forms.read_form(request, Back)
    do = get_services().feed_lists
    if act == "check":
        do.check_now(get_actor(), feed_id)
        words = _("Checking the feed")
    elif act == "pause":
        do.pause(get_actor(), feed_id)
        words = _("Feed paused")
    elif act == "resume":
        do.resume(get_actor(), feed_id)
        words = _("Feed resumed")
    else:
        do.clear(get_actor(), feed_id)
        words = _("Error cleared. Checking the feed now.")
    get_services().accounts.add_notice(get_actor(), get_session(), Notice(words))
    return make_response(redirect(get_safe_next(form.next, "/admin/feeds"), 303))
