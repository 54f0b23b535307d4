"""Finding the feeds behind an address."""

from __future__ import annotations

import datetime as dt
from typing import Annotated

from msgspec import Meta

from app.errors import InvalidError
from app.models.accounts.actor import Actor
from app.models.accounts.token import Scope
from app.models.feeds.discovery import Discovery as Stored
from app.web.api.rest.shapes import DISCOVERY, FEED, FEED_URL, Body, Id, Id0, Shape
from app.web.api.rest.table import Reply, add_example, add_operation
from app.web.context import get_services
from app.web.view import i18n
from app.web.view.own_addresses import parse_own_handle
from app.web.view.present import keep_http_url

TAG = "Subscriptions"


class NewDiscovery(Body, frozen=True):
    """The address of a site, web page or feed, as typed by a person."""

    address: Annotated[str, Meta(min_length=1, max_length=2048)]


class FoundFeed(Shape, frozen=True):
    """A feed found.

    `feed_id`: its ID if this server already has it. `readers`: its subscribers here, 0 if fewer than five.
    `mine`: you subscribe to it. `rests_until`: its site limits requests until then.
    `headlines`: its newest entries, up to three, the newest first.
    """

    url: str
    title: str
    site_url: str | None
    entries: int
    last_published: dt.datetime | None
    per_week: float | None
    feed_id: Id | None
    readers: int
    mine: bool
    rests_until: dt.datetime | None
    headlines: tuple[str, ...]


class Discovery(Shape, frozen=True):
    """The results so far.

    `wait`: the search is still running; request its `id` again. `id` is 0 if the search ended at once.
    `more`: the site lists more addresses than were checked. An `error` is remembered for one minute.
    """

    id: Id0
    wait: bool
    step: str
    feeds: tuple[FoundFeed, ...]
    more: bool
    error: str | None
    message: str | None


add_example(NewDiscovery(address=FEED_URL))
_FOUND = add_example(
    FoundFeed(
        url=FEED_URL,
        title="blog",
        site_url="https://blog.example.org/",
        entries=20,
        last_published=dt.datetime(2026, 11, 1, 8, 30, tzinfo=dt.UTC),
        per_week=3.5,
        feed_id=FEED,
        readers=12,
        mine=True,
        rests_until=None,
        headlines=("A day at the sea", "What I read in October"),
    )
)
add_example(
    Discovery(id=DISCOVERY, wait=False, step="", feeds=(_FOUND,), more=False, error=None, message=None)
)


@add_operation("POST", "/discoveries", "Find feeds", scope=Scope.SUBSCRIBE, tag=TAG, status=(200, 202))
def find_feeds(actor: Actor, body: NewDiscovery) -> Reply[Discovery]:
    """Returns 202 if the search takes longer: request `Location` again after a second.

    Searching for the same address again joins the running search. Addresses of people on this server are
    rejected; follow people by user name instead.
    """
    if parse_own_handle(body.address):
        raise InvalidError("This person is on this server. Follow them by user name.", field="address")
    return _reply(get_services().discovery.discover(actor, body.address, wait=0))


@add_operation("GET", "/discoveries/{discovery_id}", "Get the results of a search", scope=Scope.SUBSCRIBE,
               tag=TAG, status=(200, 202))  # fmt: skip
def get_discovery(actor: Actor, discovery_id: int) -> Reply[Discovery]:
    """Returns 202 while the search is running."""
    return _reply(get_services().discovery.get_progress(actor, discovery_id))


def _reply(found: Stored) -> Reply[Discovery]:
    feeds = tuple(
        FoundFeed(
            url=f.url,
            title=f.title,
            site_url=keep_http_url(f.site_url) or None,
            entries=f.entries,
            last_published=f.last_published,
            per_week=f.per_week,
            feed_id=f.feed_id,
            readers=f.readers,
            mine=f.mine,
            rests_until=f.rests_until,
            headlines=f.headlines,
        )
        for f in found.feeds
    )
    message = i18n.translate_search_error(found.error) if found.error else None
    answer = Discovery(
        id=found.key,
        wait=found.wait,
        step=found.step,
        feeds=feeds,
        more=found.more,
        error=found.error,
        message=message,
    )
    return Reply(answer, 202 if found.wait else 200, f"/discoveries/{found.key}" if found.key else "")
