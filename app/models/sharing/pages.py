"""Shared streams for viewers: pages, single shares, and published feeds."""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
from collections.abc import Mapping
from typing import NamedTuple

from app.models.media.signing import PictureSigner
from app.models.reading.entry import Entry
from app.models.sharing.sharing import ChainPage, Profile, Share, Sharer, ShareVisibility


class Hop(NamedTuple):
    """A share in the chain of another; ``by`` is None unless the viewer may see it."""

    link: ShareVisibility
    by: Sharer | None = None


class OriginFeed(NamedTuple):
    """The feed of a root entry; both fields are empty if a person wrote the root here."""

    title: str = ""
    url: str = ""


class ShareCount(NamedTuple):
    """A number of shares; ``more``: there is at least one more than counted."""

    number: int = 0
    more: bool = False


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SharedItem:
    """A share as a page or feed shows it.

    Attributes:
        entry: the shared entry, with the share's id and position.
        note: the sharer's note, as HTML; for a post, its text. cut: only the beginning.
        way: the shares it came through, from its source back to the first share of the root.
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
        """When the sharer last changed it."""
        return self.share.edited or self.share.at


class SharedPart(NamedTuple):
    """A part of a stream; ``cursor`` is the share after which the next part begins, None at the end."""

    items: tuple[SharedItem, ...]
    cursor: int | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ChainView:
    """A page of a chain.

    Attributes:
        item: the share from which it was opened.
        notes: each sharer's note, as HTML, by share; long ones are cut.
    """

    item: SharedItem
    page: ChainPage
    notes: Mapping[int, str]


class FeedFormat(enum.StrEnum):
    """The formats in which a stream is published."""

    ATOM = "atom"
    JSON = "json"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Publication:
    """The data of a published feed.

    Attributes:
        origin: this server's own address, without a trailing slash. hub: the address of its hub, if any.
        pictures: makes the addresses of its pictures; None: they keep those of their sites.
    """

    origin: str
    profile: Profile
    items: tuple[SharedItem, ...]
    hub: str | None = None
    pictures: PictureSigner | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FeedDocument:
    """A feed as it is published.

    Attributes:
        profile: of its owner.
        tag: changes with the content, and with nothing else. modified: of its newest item.
        body: None if the client already has it.
    """

    profile: Profile
    tag: str
    modified: dt.datetime
    body: bytes | None = None
