"""Discovery: most shared entries, similar readers, and starter packs."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from app.models.accounts.actor import Actor
from app.models.accounts.token import Scope
from app.services.imports.packs import PackView
from app.web.api.rest.imports import Import, build_import
from app.web.api.rest.shapes import (
    ENTRY,
    FEED,
    FEED_URL,
    PACK,
    PERSON,
    UNSET,
    Body,
    Id,
    Query,
    Shape,
    UnsetType,
)
from app.web.api.rest.streams import Sharer, build_sharer
from app.web.api.rest.table import EXAMPLES, Reply, add_example, add_operation
from app.web.context import get_services
from app.web.view.present import keep_http_url

TAG = "Discover"


class Trend(Shape, frozen=True):
    """A frequently shared entry; `total`: number of public shares."""

    entry_id: Id
    title: str
    url: str
    excerpt: str
    shared_by: tuple[Sharer, ...]
    total: int


class TrendList(Shape, frozen=True):
    """The most shared entries that you can see."""

    items: tuple[Trend, ...]


class Alike(Shape, frozen=True):
    """A person who subscribes to the same feeds as you; `common`: number of feeds in common."""

    name: str
    display: str
    common: int


class AlikeList(Shape, frozen=True):
    """Discoverable people only; empty if you aren't discoverable yourself."""

    items: tuple[Alike, ...]


class PackFeed(Shape, frozen=True):
    """A feed in a starter pack. `about` describes it and may be empty."""

    url: str
    title: str
    about: str


class Pack(Shape, frozen=True):
    """A starter pack of feeds."""

    slug: str
    title: str
    about: str
    feeds: tuple[PackFeed, ...]


class PackList(Shape, frozen=True):
    """All starter packs, by title."""

    items: tuple[Pack, ...]


class FeedQuery(Query, frozen=True):
    """Words of a feed's title, host, description, last headlines or pack; the last one may be unfinished."""

    q: Annotated[str, Meta(max_length=200, description="Words; the last one may be unfinished.")] = ""


class FeedMatch(Shape, frozen=True):
    """A feed that has the words.

    `packs`: the titles of the starter packs that have it. `feed_id`: its ID if others subscribe to it here.
    `readers`: its subscribers here, 0 if fewer than five. `mine`: you subscribe to it.
    """

    url: str
    title: str
    site_url: str | None
    about: str
    packs: tuple[str, ...]
    feed_id: Id | None
    readers: int
    mine: bool


class FeedMatchList(Shape, frozen=True):
    """The best matches first, at most 20."""

    items: tuple[FeedMatch, ...]


class PackChoice(Body, frozen=True):
    """Positions of the feeds to subscribe to, starting from 0. Omit `chosen` to subscribe to all."""

    chosen: (
        Annotated[tuple[Annotated[int, Meta(ge=0, le=100_000)], ...], Meta(max_length=10_000)] | UnsetType
    ) = UNSET


_TREND = add_example(
    Trend(
        entry_id=ENTRY,
        title="A quiet day",
        url="https://blog.example.org/1",
        excerpt="Nothing happened.",
        shared_by=(EXAMPLES[Sharer],),
        total=3,
    )
)
add_example(TrendList(items=(_TREND,)))
_ALIKE = add_example(Alike(name=PERSON, display="Cleo", common=12))
add_example(AlikeList(items=(_ALIKE,)))
_MATCH = add_example(
    FeedMatch(
        url=FEED_URL,
        title="blog",
        site_url="https://blog.example.org/",
        about="Notes from the sea.",
        packs=("Science",),
        feed_id=FEED,
        readers=12,
        mine=True,
    )
)
add_example(FeedMatchList(items=(_MATCH,)))
_FEED = add_example(PackFeed(url=FEED_URL, title="blog", about="Notes from the sea."))
_PACK = add_example(Pack(slug=PACK, title="Science", about="News from science.", feeds=(_FEED,)))
add_example(PackList(items=(_PACK,)))
add_example(PackChoice(chosen=(0,)))


@add_operation("GET", "/trends", "List the most shared entries", scope=Scope.READ, tag=TAG)
def list_trends(actor: Actor) -> TrendList:
    """The most shared entries right now. Newer shares count more."""
    found = get_services().trends.list_top(actor)
    return TrendList(
        items=tuple(
            Trend(
                entry_id=each.entry.id,
                title=each.entry.title,
                url=keep_http_url(each.entry.url),
                excerpt=each.entry.excerpt,
                shared_by=tuple(map(build_sharer, each.sharers)),
                total=each.total,
            )
            for each in found
        )
    )


@add_operation("GET", "/alike", "List people with similar feeds", scope=Scope.READ, tag=TAG)
def list_alike(actor: Actor) -> AlikeList:
    """The people with the most feeds in common come first."""
    people = get_services().trends.list_similar_readers(actor)
    return AlikeList(
        items=tuple(Alike(name=p.profile.handle, display=p.profile.name, common=p.common) for p in people)
    )


@add_operation("GET", "/feeds", "Find feeds by words", scope=Scope.SUBSCRIBE, tag=TAG)
def search_feeds(actor: Actor, query: FeedQuery) -> FeedMatchList:
    """Finds feeds with several subscribers on this server, and feeds of starter packs.

    Private feeds and addresses that contain a key are never found. Without words, the list is empty.
    """
    found = get_services().feed_search.find(actor, query.q)
    return FeedMatchList(
        items=tuple(
            FeedMatch(
                url=one.url,
                title=one.title,
                site_url=keep_http_url(one.site_url) if one.site_url else None,
                about=one.about,
                packs=one.packs,
                feed_id=one.feed_id,
                readers=one.readers,
                mine=one.mine,
            )
            for one in found
        )
    )


@add_operation("GET", "/packs", "List starter packs", scope=Scope.READ, tag=TAG)
def list_packs(actor: Actor) -> PackList:
    """Collections of feeds chosen by the server's admins."""
    return PackList(items=tuple(map(_pack, get_services().packs.list_packs(actor))))


def _pack(view: PackView) -> Pack:
    pack = view.pack
    feeds = tuple(PackFeed(url=feed.url, title=feed.title, about=feed.about) for feed in view.feeds)
    return Pack(slug=pack.slug, title=pack.title, about=pack.about, feeds=feeds)


@add_operation("GET", "/packs/{slug}", "Get a starter pack", scope=Scope.READ, tag=TAG)
def get_pack(actor: Actor, slug: str) -> Pack:
    """Includes the feeds of the pack."""
    return _pack(get_services().packs.get(actor, slug))


@add_operation(
    "POST",
    "/packs/{slug}/subscribe",
    "Subscribe to a starter pack",
    scope=Scope.SUBSCRIBE,
    tag=TAG,
    status=202,
    needs_space=True,
)
def subscribe_pack(actor: Actor, slug: str, body: PackChoice) -> Reply[Import]:
    """Starts an import of the feeds and returns it."""
    chosen = None if body.chosen is UNSET else body.chosen
    begun = get_services().packs.subscribe(actor, slug, chosen)
    return Reply(build_import(begun), 202, f"/imports/{begun.id}")
