"""Shared streams as they are looked at: pages, single shares, and the feeds of them."""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
from collections.abc import Mapping
from typing import NamedTuple

from app.models.reading.entry import Entry
from app.models.sharing.sharing import ChainPage, Profile, Share, Sharer, ShareVisibility


class Hop(NamedTuple):
    """A share on the way of another; ``by`` is None unless the viewer sees it."""

    link: ShareVisibility
    by: Sharer | None = None


class OriginFeed(NamedTuple):
    """The feed of a root; both are empty where somebody wrote the root here."""

    title: str = ""
    url: str = ""


class ShareCount(NamedTuple):
    """How many shares there are of a kind; ``more``: at least one more than were counted."""

    number: int = 0
    more: bool = False


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SharedItem:
    """A share as one page or feed shows it.

    Attributes:
        entry: what was shared, at the share's own place.
        note: what the sharer says, as HTML; of a post, what he wrote. cut: it is only the beginning.
        way: the shares it came through, from the one it was taken from back to the root's first.
        blog: where the root was published. language: of its feed.
    """

    share: Share
    by: Sharer
    entry: Entry
    note: str
    cut: bool = False
    way: tuple[Hop, ...] = ()
    blog: OriginFeed = OriginFeed()
    language: str | None = None
    passed: ShareCount = ShareCount()

    @property
    def id(self) -> int:
        """The share's id."""
        return self.share.id

    @property
    def changed(self) -> dt.datetime:
        """When the sharer touched it last."""
        return self.share.edited or self.share.at


class SharedPart(NamedTuple):
    """A part of a stream; ``cursor`` is the share after which the next part begins, None at the end."""

    items: tuple[SharedItem, ...]
    cursor: int | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ChainView:
    """A page of a chain.

    Attributes:
        item: the share that it was opened from.
        notes: what each said, as HTML, by share; cut where it is long.
    """

    item: SharedItem
    page: ChainPage
    notes: Mapping[int, str]


class FeedFormat(enum.StrEnum):
    """As what a stream is published."""

    ATOM = "atom"
    JSON = "json"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Publication:
    """What a feed of somebody's stream is written from.

    Attributes:
        origin: this server's own address, without a slash at its end. hub: that of its hub, if it has one.
    """

    origin: str
    profile: Profile
    items: tuple[SharedItem, ...]
    hub: str | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FeedDocument:
    """A feed as it is published.

    Attributes:
        profile: whose it is.
        tag: changes with whatever is in it, and with nothing else. modified: of its newest item.
        body: None where the one who asks has it already.
    """

    profile: Profile
    tag: str
    modified: dt.datetime
    body: bytes | None = None
