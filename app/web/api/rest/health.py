"""The health of a feed: its latest fetches and errors."""

from __future__ import annotations

import datetime as dt

from app.models.accounts.actor import Actor
from app.models.accounts.token import Scope
from app.models.feeds.feed import FetchRecord
from app.web.api.rest.shapes import FEED, FEED_URL, Id, Shape
from app.web.api.rest.subscriptions import TAG, get_visible_word
from app.web.api.rest.table import add_example, add_operation
from app.web.context import get_services
from app.web.view import i18n
from app.web.view.present import keep_http_url


class Fetch(Shape, frozen=True):
    """One fetch. `status`, `ms` and `bytes` are null if they would reveal details of a private network."""

    at: dt.datetime
    status: int | None
    ms: int | None
    bytes: int | None
    new: int
    error: str | None


class Health(Shape, frozen=True):
    """The health of a feed; `checked_at`: its last successful check; `pushed`: its hub pushes new entries;
    `rests_until`: its site limits requests until then.
    """

    feed_id: Id
    url: str
    title: str
    site_url: str | None
    error: str | None
    message: str | None
    checked_at: dt.datetime | None
    next_check_at: dt.datetime | None
    rests_until: dt.datetime | None
    per_week: float
    pushed: bool
    fetches: tuple[Fetch, ...]


_AT = dt.datetime(2026, 11, 1, 8, 30, tzinfo=dt.UTC)
_FETCH = add_example(Fetch(at=_AT, status=200, ms=120, bytes=5_210, new=2, error=None))
add_example(
    Health(
        feed_id=FEED,
        url=FEED_URL,
        title="blog",
        site_url="https://blog.example.org/",
        error=None,
        message=None,
        checked_at=_AT,
        next_check_at=_AT,
        rests_until=None,
        per_week=3.5,
        pushed=False,
        fetches=(_FETCH,),
    )
)


@add_operation("GET", "/subscriptions/{feed_id}/health", "Get a feed's health", scope=Scope.READ, tag=TAG)
def get_health(actor: Actor, feed_id: int) -> Health:
    """Returns the feed's current error and latest fetches."""
    found = get_services().subscriptions.get_health(actor, feed_id)
    feed, error = found.feed, get_visible_word(actor, found.feed.error)
    return Health(
        feed_id=feed_id,
        url=feed.url,
        title=feed.title,
        site_url=keep_http_url(feed.site_url) or None,
        error=error,
        message=i18n.translate_feed_error(error) if error else None,
        checked_at=feed.checked_at,
        next_check_at=found.next_check_at,
        rests_until=found.rests_until,
        per_week=round(found.per_week, 2),
        pushed=found.pushed_by is not None,
        fetches=tuple(_fetch(actor, fetch) for fetch in found.log.fetches),
    )


def _fetch(who: Actor, fetch: FetchRecord) -> Fetch:
    # Timings would reveal as much as the error code that is hidden (S13).
    word = get_visible_word(who, fetch.error)
    shown = word == fetch.error
    return Fetch(
        at=fetch.at,
        status=fetch.status if shown else None,
        ms=fetch.ms if shown else None,
        bytes=fetch.bytes if shown else None,
        new=fetch.new,
        error=word,
    )
