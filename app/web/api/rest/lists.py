"""Followed lists: OPML files on the web whose new feeds are added to a folder."""

from __future__ import annotations

import datetime as dt
from typing import Annotated

from msgspec import Meta

from app.models.accounts.actor import Actor
from app.models.accounts.token import Scope
from app.models.imports.followed_lists import ListView
from app.web.api.rest.shapes import FEED, LIST, Body, Id, Shape
from app.web.api.rest.subscriptions import BulkDone
from app.web.api.rest.table import Reply, add_example, add_operation
from app.web.context import get_services

TAG = "Imports"


class GoneFeed(Shape, frozen=True):
    """A feed of yours that is no longer in the list."""

    feed_id: Id
    title: str


class FollowedList(Shape, frozen=True):
    """An OPML file on the web that you follow.

    `name`: of the folder for its feeds; empty until the first check. `feeds`: how many it has. `error`: of
    the last check; empty: it succeeded. `gone`: feeds about which you are asked.
    """

    id: Id
    url: str
    name: str
    feeds: int
    error: str
    checked_at: dt.datetime | None
    next_check_at: dt.datetime
    gone: tuple[GoneFeed, ...]


class FollowedLists(Shape, frozen=True):
    """All lists that you follow, the oldest first."""

    items: tuple[FollowedList, ...]


class NewList(Body, frozen=True):
    """The address of an OPML file. Without a name, its title becomes the name of the folder."""

    url: Annotated[str, Meta(min_length=1, max_length=2048)]
    name: Annotated[str, Meta(max_length=128)] = ""


class ListAnswer(Body, frozen=True):
    """Whether to unsubscribe from the feeds in `gone`, or to keep them."""

    unsubscribe: bool


_GONE = add_example(GoneFeed(feed_id=FEED, title="A blog"))
_LIST = add_example(
    FollowedList(
        id=LIST,
        url="https://example.org/feeds.opml",
        name="Colleagues",
        feeds=12,
        error="",
        checked_at=dt.datetime(2026, 11, 1, 8, 30, tzinfo=dt.UTC),
        next_check_at=dt.datetime(2026, 11, 1, 20, 30, tzinfo=dt.UTC),
        gone=(_GONE,),
    )
)
add_example(FollowedLists(items=(_LIST,)))
add_example(NewList(url="https://example.org/feeds.opml", name="Colleagues"))
add_example(ListAnswer(unsubscribe=False))


@add_operation("GET", "/lists", "List followed OPML files", scope=Scope.READ, tag=TAG)
def list_followed(actor: Actor) -> FollowedLists:
    """Eventr checks each of them twice a day."""
    found = get_services().followed_lists.list_lists(actor)
    return FollowedLists(items=tuple(map(_shape, found)))


def _shape(view: ListView) -> FollowedList:
    one = view.of
    return FollowedList(
        id=one.id,
        url=one.url,
        name=one.name,
        feeds=len(one.seen),
        error=one.error,
        checked_at=one.checked_at,
        next_check_at=one.next_check_at,
        gone=tuple(GoneFeed(feed_id=feed_id, title=title) for feed_id, title in view.gone),
    )


@add_operation(
    "POST",
    "/lists",
    "Follow an OPML file",
    scope=Scope.SUBSCRIBE,
    tag=TAG,
    status=201,
    errors=(409, 413, 429),
)
def follow_list(actor: Actor, body: NewList) -> Reply[FollowedList]:
    """New feeds become an import. Feeds that you unsubscribe from are not added again."""
    return Reply(_shape(ListView(get_services().followed_lists.add(actor, body.url, body.name))), 201)


@add_operation(
    "POST",
    "/lists/{list_id}/check",
    "Check a list now",
    scope=Scope.SUBSCRIBE,
    tag=TAG,
    status=204,
    errors=(429,),
)
def check_list(actor: Actor, list_id: int) -> None:
    """The check is queued."""
    get_services().followed_lists.check(actor, list_id)


@add_operation("POST", "/lists/{list_id}/answer", "Answer removals", scope=Scope.SUBSCRIBE, tag=TAG)
def answer_list(actor: Actor, list_id: int, body: ListAnswer) -> BulkDone:
    """Unsubscribes from the feeds in `gone`, or keeps them."""
    token, count = get_services().followed_lists.answer(actor, list_id, unsubscribe=body.unsubscribe)
    return BulkDone(count=count, undo=f"feeds.{token}" if count else None)


@add_operation("DELETE", "/lists/{list_id}", "Unfollow a list", scope=Scope.SUBSCRIBE, tag=TAG, status=204)
def unfollow_list(actor: Actor, list_id: int) -> None:
    """The feeds and their folder stay."""
    get_services().followed_lists.remove(actor, list_id)
