"""What a discovery looks at and what it finds."""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
from typing import Any, Self


class Source(enum.StrEnum):
    """Where a candidate came from, the surest first."""

    SITE = "site"
    LINK = "link"
    ANCHOR = "anchor"
    GUESS = "guess"


@dataclasses.dataclass(frozen=True, slots=True)
class Candidate:
    """An address that may be a feed.

    Attributes:
        title: what the page calls it, else empty.
        type: ``rss``, ``atom``, ``rdf`` or ``json`` as the page announces it; None when it does not.
    """

    url: str
    title: str
    type: str | None
    source: Source


@dataclasses.dataclass(frozen=True, slots=True)
class FoundFeed:
    """A feed that was fetched and read.

    Attributes:
        url: where it answered in the end.
        format: a word of :class:`app.models.feeds.parsed.Format`; None for a feed that is stored already.
        entries: how many entries it shows now.
        last_published: of its newest entry, None when it gives no dates.
        per_week: entries a week since the oldest one shown, or of late for a feed that is stored already;
            None when it cannot be told.
        feed_id: the stored feed, when it is known here already.
        readers: how many read it here; mine: whether who asks is one of them. Known in answers only.
    """

    url: str
    title: str
    site_url: str | None
    format: str | None
    entries: int
    last_published: dt.datetime | None
    per_week: float | None
    feed_id: int | None = None
    readers: int = 0
    mine: bool = False

    def to_json(self) -> dict[str, Any]:
        """Return it with JSON values only; the time as RFC 3339."""
        data = dataclasses.asdict(self)
        return data | {"last_published": self.last_published and self.last_published.isoformat()}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        """Return what :meth:`to_json` wrote."""
        last = data["last_published"]
        return cls(**data | {"last_published": dt.datetime.fromisoformat(last) if last else None})


@dataclasses.dataclass(frozen=True, slots=True)
class Discovered:
    """The end of a discovery: feeds, best first, or an error word of ``app.errors.FEED_MESSAGES``.

    Attributes:
        more: there were more candidates than are fetched.
    """

    address: str
    feeds: tuple[FoundFeed, ...] = ()
    error: str | None = None
    more: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class StoredDiscovery:
    """A search as it is stored: ``result`` is None as long as nothing was found out."""

    key: int
    address: str
    result: Discovered | None


@dataclasses.dataclass(frozen=True, slots=True)
class Discovery:
    """A discovery as the person who asked for it sees it.

    Attributes:
        key: its number; ask again with it while ``wait`` is true.
        wait: it still runs; ``step`` says in words what it is at.
        error, message: the error word and its sentence, when it ended without a feed.
        more: there were more candidates than are fetched.
    """

    key: int
    address: str
    wait: bool = False
    step: str = ""
    feeds: tuple[FoundFeed, ...] = ()
    error: str | None = None
    message: str | None = None
    more: bool = False

    def to_json(self) -> dict[str, Any]:
        """Return what a client is told: ``{"wait": true, …}``, feeds, or an error with its sentence."""
        if self.wait:
            return {"key": self.key, "wait": True, "step": self.step}
        if self.error:
            return {"key": self.key, "error": self.error, "message": self.message}
        return {"key": self.key, "feeds": [feed.to_json() for feed in self.feeds]}
