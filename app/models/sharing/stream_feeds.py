"""Feeds of a person's lists at secret addresses."""

from __future__ import annotations

import dataclasses

from app.models.reading.stream import EntryRow
from app.models.sharing.pages import FeedFormat


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class StreamFeed:
    """The data of such a feed.

    Attributes:
        token_id: of its address; it identifies the feed, whatever its name or list.
        title: its name.
        url: its own address. home: the list in Eventr.
        rows: its entries, the newest first, with their texts.
    """

    token_id: int
    title: str
    url: str
    home: str
    rows: tuple[EntryRow, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class StreamDocument:
    """A rendered feed.

    Attributes:
        tag: changes with the body.
        body: None if the client already has it.
    """

    form: FeedFormat
    tag: str
    body: bytes | None
