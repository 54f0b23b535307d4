"""Ranking of found feeds: remove duplicates, sort the best first, describe each."""

from __future__ import annotations

import dataclasses
import datetime as dt
import itertools
from collections.abc import Sequence
from urllib.parse import urlsplit

from app.feeds import urls
from app.feeds.discover.page import is_comment_feed
from app.feeds.html.text import make_excerpt
from app.models.feeds.discovery import HEADLINE, HEADLINES, Candidate, FoundFeed, Source
from app.models.feeds.parsed import Format, ParsedEntry, ParsedFeed

_ORDER = {Source.SITE: 0, Source.LINK: 1, Source.ANCHOR: 2, Source.GUESS: 3}
_ATOM = frozenset([Format.ATOM10, Format.ATOM03])
#: Two feeds are duplicates when they share this much of the entries of the smaller feed.
_TWINS = 0.6


@dataclasses.dataclass(frozen=True, slots=True)
class ProvenFeed:
    """A candidate that was fetched and is a feed; ``position`` is its place among the candidates."""

    url: str
    candidate: Candidate
    parsed: ParsedFeed
    position: int


def describe(proof: ProvenFeed, now: dt.datetime, page_title: str = "") -> FoundFeed:
    """Return the description of a feed for people; the feed's own title comes first."""
    parsed = proof.parsed
    dates = sorted(d for e in parsed.entries if (d := e.published or e.updated) and d <= now)
    host = (urlsplit(proof.url).hostname or "").removeprefix("www.")
    return FoundFeed(
        url=proof.url,
        title=parsed.title or proof.candidate.title or page_title or host,
        site_url=parsed.site_url,
        format=parsed.format.value,
        entries=len(parsed.entries),
        last_published=dates[-1] if dates else None,
        per_week=count_weekly_entries(dates, now),
        headlines=list_headlines(parsed.entries, now),
    )


def list_headlines(entries: Sequence[ParsedEntry], now: dt.datetime) -> tuple[str, ...]:
    """Return the headlines of the newest entries, the newest first; without dates, those at the beginning."""
    dated = [e for e in entries if (at := e.published or e.updated) and at <= now]
    newest = sorted(dated, key=lambda e: e.published or e.updated or now, reverse=True) or entries
    said = (e.title or make_excerpt(e.summary or e.content, HEADLINE) for e in newest)
    return tuple(itertools.islice((text[:HEADLINE] for text in said if text), HEADLINES))


def count_weekly_entries(dates: list[dt.datetime], now: dt.datetime) -> float | None:
    """Return the entries per week from the oldest of these dates until now; None for fewer than two."""
    if len(dates) < 2:
        return None
    days = max((now - dates[0]).total_seconds() / 86400, 1.0)
    return round(len(dates) / days * 7, 2)


def rank_best_first(proofs: list[ProvenFeed], now: dt.datetime) -> list[ProvenFeed]:
    """Return one feed of each set of duplicates, the one a person most likely wants first."""
    kept: list[ProvenFeed] = []
    for proof in sorted(proofs, key=_richness, reverse=True):
        if not any(_same(proof, other) for other in kept):
            kept.append(proof)
    return sorted(kept, key=lambda proof: _rank(proof, now))


def is_wanted(proof: ProvenFeed) -> bool:
    """Return whether this feed ends the search: it has entries and isn't a comment feed."""
    return bool(proof.parsed.entries) and not _comments(proof)


def _comments(proof: ProvenFeed) -> bool:
    return is_comment_feed(proof.url, proof.parsed.title) or is_comment_feed(
        proof.candidate.url, proof.candidate.title
    )


def _rank(proof: ProvenFeed, now: dt.datetime) -> tuple[bool, bool, int, bool, int]:
    dates = [d for e in proof.parsed.entries if (d := e.published or e.updated)]
    stale = bool(dates) and now - max(dates) > dt.timedelta(days=400)
    return (_comments(proof), not proof.parsed.entries, _ORDER[proof.candidate.source], stale, proof.position)


def _richness(proof: ProvenFeed) -> tuple[int, int, bool, bool, int]:
    """Return the sort key of duplicates: more entries and full texts first, then Atom, the feed's own address
    and page order.
    """
    entries = proof.parsed.entries
    text = sum(len(e.content) for e in entries) // max(len(entries), 1)
    # Steps, not exact numbers: a few more characters must not beat the better format.
    is_atom = proof.parsed.format in _ATOM
    return (len(entries) // 5, text.bit_length() // 2, is_atom, _is_own_address(proof), -proof.position)


def _is_own_address(proof: ProvenFeed) -> bool:
    own = proof.parsed.self_url
    return own is not None and urls.hash_url(own) == urls.hash_url(proof.url)


def _same(one: ProvenFeed, other: ProvenFeed) -> bool:
    if urls.hash_url(one.url) == urls.hash_url(other.url) or _is_copy(one.parsed, other.parsed):
        return True
    mine, theirs = _links(one), _links(other)
    if not mine or not theirs:
        return False
    return len(mine & theirs) >= _TWINS * min(len(mine), len(theirs)) and _comments(one) == _comments(other)


def _is_copy(one: ParsedFeed, other: ParsedFeed) -> bool:
    """Return whether two addresses gave one document: some servers answer each path with the same feed.

    Links don't count, because they may repeat the requested path.
    """
    if one.title != other.title or len(one.entries) != len(other.entries):
        return False
    if not one.entries:
        return one.site_url == other.site_url
    titles = [entry.title for entry in one.entries]
    return any(titles) and titles == [entry.title for entry in other.entries]


def _links(proof: ProvenFeed) -> set[str]:
    return {urls.hash_url(e.url) if e.url else e.title for e in proof.parsed.entries}
