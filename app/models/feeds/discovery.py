"""Feed discovery: candidates, found feeds and stored searches."""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
from typing import Any, Self

#: Headlines that show what a feed is about, and characters of one.
HEADLINES, HEADLINE = 3, 140


class Source(enum.StrEnum):
    """The source of a candidate, most certain first."""

    SITE = "site"
    LINK = "link"
    ANCHOR = "anchor"
    GUESS = "guess"


@dataclasses.dataclass(frozen=True, slots=True)
class Candidate:
    """An address that may be a feed.

    Attributes:
        title: the page's title for it, else empty.
        type: ``rss``, ``atom``, ``rdf`` or ``json`` as announced by the page; None if it doesn't say.
    """

    url: str
    title: str
    type: str | None
    source: Source


@dataclasses.dataclass(frozen=True, slots=True)
class FoundFeed:
    """A feed that was fetched and parsed.

    Attributes:
        url: the final address.
        format: a word of :class:`app.models.feeds.parsed.Format`; None for a feed that is already stored.
        entries: the number of entries in the feed now.
        last_published: date of its newest entry; None without dates.
        per_week: entries a week since the oldest listed one, or recently for a stored feed;
            None if unknown.
        feed_id: the stored feed, if this server already has it.
        readers: the number of its readers here, 0 if few; mine: whether the requester is one. Only set in
            responses.
        icon: path of its icon on this server, if it is stored; also only set in responses.
        rests_until: its site limits requests until then; also only set in responses.
        headlines: its newest entries, the newest first: their titles, or the beginnings of their texts.
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
    icon: str | None = None
    rests_until: dt.datetime | None = None
    headlines: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the feed with JSON values only; the time in RFC 3339 format."""
        data = dataclasses.asdict(self)
        times = (("last_published", self.last_published), ("rests_until", self.rests_until))
        return data | {name: time and time.isoformat() for name, time in times}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        """Return the feed that :meth:`to_json` wrote."""
        times = {name: data.get(name) for name in ("last_published", "rests_until")}
        data = data | {"headlines": tuple(data.get("headlines", ()))}
        return cls(**data | {name: time and dt.datetime.fromisoformat(time) for name, time in times.items()})


@dataclasses.dataclass(frozen=True, slots=True)
class Discovered:
    """The result of a discovery: feeds, best first, or an error word of ``app.errors.FEED_MESSAGES``.

    Attributes:
        more: there were more candidates than discovery fetches.
        detail: why an address was refused, for :mod:`app.web.view.reasons`.
        pages: keys of the addresses of the page that was read, before and after redirects.
        icons: the icons that this page announces, best first.
    """

    address: str
    feeds: tuple[FoundFeed, ...] = ()
    error: str | None = None
    more: bool = False
    pages: tuple[str, ...] = ()
    icons: tuple[str, ...] = ()
    detail: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class StoredDiscovery:
    """A search as stored; ``result`` is None until there is one."""

    key: int
    address: str
    result: Discovered | None


@dataclasses.dataclass(frozen=True, slots=True)
class Discovery:
    """A discovery as its requester sees it.

    Attributes:
        key: its number; use it to poll while ``wait`` is true.
        wait: whether it is still running; ``step`` describes the current step.
        error, message: the error word and its sentence, if it ended without a feed. detail: as in
            :class:`Discovered`; never part of an answer for programs.
        more: there were more candidates than discovery fetches.
        is_crawled: the whole site is being searched, and the requester is notified if a feed is found.
    """

    key: int
    address: str
    wait: bool = False
    step: str = ""
    feeds: tuple[FoundFeed, ...] = ()
    error: str | None = None
    message: str | None = None
    more: bool = False
    detail: str = ""
    is_crawled: bool = False

    def to_json(self) -> dict[str, Any]:
        """Return the response for clients: ``{"wait": true, …}``, feeds, or an error with its message."""
        if self.wait:
            return {"key": self.key, "wait": True, "step": self.step}
        if self.error:
            return {"key": self.key, "error": self.error, "message": self.message}
        return {"key": self.key, "feeds": [feed.to_json() for feed in self.feeds]}
