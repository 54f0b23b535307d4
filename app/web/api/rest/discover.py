"""What others read: what is shared most, people who read alike, and packs to begin with."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from app.models.accounts.actor import Actor
from app.models.accounts.token import Scope
from app.services.imports.packs import PackView
from app.web.api.rest.imports import Import, import_shape
from app.web.api.rest.shapes import ENTRY, FEED_URL, PACK, PERSON, UNSET, Body, Id, Shape, UnsetType
from app.web.api.rest.streams import Sharer, sharer
from app.web.api.rest.table import EXAMPLES, Reply, example, operation
from app.web.context import services
from app.web.view.present import http_only

TAG = "Discover"


class Trend(Shape, frozen=True):
    """An entry that is shared much; `total`: how many share it with everybody."""

    entry_id: Id
    title: str
    url: str
    excerpt: str
    shared_by: tuple[Sharer, ...]
    total: int


class TrendList(Shape, frozen=True):
    """What is shared most, as far as you may see it."""

    items: tuple[Trend, ...]


class Alike(Shape, frozen=True):
    """Somebody who reads so many feeds that you read too."""

    name: str
    display: str
    common: int


class AlikeList(Shape, frozen=True):
    """Only people who want to be found; none where you do not."""

    items: tuple[Alike, ...]


class PackFeed(Shape, frozen=True):
    """A feed of a pack."""

    url: str
    title: str


class Pack(Shape, frozen=True):
    """Feeds to begin with."""

    slug: str
    title: str
    about: str
    feeds: tuple[PackFeed, ...]


class PackList(Shape, frozen=True):
    """All packs by title."""

    items: tuple[Pack, ...]


class PackChoice(Body, frozen=True):
    """Its feeds by their places, from 0; left out: all."""

    chosen: (
        Annotated[tuple[Annotated[int, Meta(ge=0, le=100_000)], ...], Meta(max_length=10_000)] | UnsetType
    ) = UNSET


_TREND = example(
    Trend(
        entry_id=ENTRY,
        title="A quiet day",
        url="https://blog.example.org/1",
        excerpt="Nothing happened.",
        shared_by=(EXAMPLES[Sharer],),
        total=3,
    )
)
example(TrendList(items=(_TREND,)))
_ALIKE = example(Alike(name=PERSON, display="Cleo", common=12))
example(AlikeList(items=(_ALIKE,)))
_FEED = example(PackFeed(url=FEED_URL, title="blog"))
_PACK = example(Pack(slug=PACK, title="Science", about="What is found out.", feeds=(_FEED,)))
example(PackList(items=(_PACK,)))
example(PackChoice(chosen=(0,)))


@operation("GET", "/trends", "What is shared most", scope=Scope.READ, tag=TAG)
def list_trends(who: Actor) -> TrendList:
    """At the moment; newer shares count for more."""
    found = services().trends.top(who)
    return TrendList(
        items=tuple(
            Trend(
                entry_id=each.entry.id,
                title=each.entry.title,
                url=http_only(each.entry.url),
                excerpt=each.entry.excerpt,
                shared_by=tuple(map(sharer, each.sharers)),
                total=each.total,
            )
            for each in found
        )
    )


@operation("GET", "/alike", "People who read alike", scope=Scope.READ, tag=TAG)
def list_alike(who: Actor) -> AlikeList:
    """Those with the most feeds in common."""
    people = services().trends.alike(who)
    return AlikeList(
        items=tuple(Alike(name=p.profile.handle, display=p.profile.name, common=p.common) for p in people)
    )


@operation("GET", "/packs", "List packs", scope=Scope.READ, tag=TAG)
def list_packs(who: Actor) -> PackList:
    """Collections of feeds, made by whoever runs this server."""
    return PackList(items=tuple(map(_pack, services().packs.all(who))))


def _pack(view: PackView) -> Pack:
    pack = view.pack
    feeds = tuple(PackFeed(url=feed.url, title=feed.title) for feed in view.feeds)
    return Pack(slug=pack.slug, title=pack.title, about=pack.about, feeds=feeds)


@operation("GET", "/packs/{slug}", "Get a pack", scope=Scope.READ, tag=TAG)
def get_pack(who: Actor, slug: str) -> Pack:
    """With its feeds."""
    return _pack(services().packs.get(who, slug))


@operation(
    "POST", "/packs/{slug}/subscribe", "Subscribe to a pack", scope=Scope.SUBSCRIBE, tag=TAG, status=202
)
def subscribe_pack(who: Actor, slug: str, body: PackChoice) -> Reply[Import]:
    """An import, which has begun."""
    chosen = None if body.chosen is UNSET else body.chosen
    begun = services().packs.subscribe(who, slug, chosen)
    return Reply(import_shape(begun), 202, f"/imports/{begun.id}")
