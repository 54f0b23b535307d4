"""What other projects' test suites expect of the corpus, in the terms of our parser.

Each row's ``expect`` becomes claims (field, our value, their value). A claim that does not hold must be
explained in ``corpus_exceptions.toml``: by a rule, whose predicate here is checked against the very
claim, or by path and field. What is listed there and explains nothing fails the tests too.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import functools
import html
import re
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from app.feeds.html.text import extract_plain_text
from app.feeds.parse.dates import parse_date
from app.models.feeds.parsed import ParsedEntry, ParsedFeed
from tests.support.corpus import Row

URL = "http://example.org/dir/feed.xml"


@dataclasses.dataclass(frozen=True)
class Claim:
    """``field`` is as the suite names it, in lower case; feed fields begin with ``feed.``."""

    row: Row
    field: str
    ours: Any
    theirs: Any
    entry: ParsedEntry | None = None

    @property
    def holds(self) -> bool:
        theirs = parse_date(str(self.theirs)) if isinstance(self.ours, dt.datetime) else self.theirs
        return _norm(self.ours) == _norm(theirs)

    def __str__(self) -> str:
        return f"{self.row.path} {self.field}: {str(self.ours)[:80]!r}, expected {str(self.theirs)[:80]!r}"


UNREAD = object()


def _norm(value: Any) -> Any:
    if value is None or value == 0:
        return ""
    if isinstance(value, dt.datetime):
        return value.replace(microsecond=0)
    text = " ".join(str(value).split())
    return text[:-1] if re.fullmatch(r"https?://[^/]+/", text) else text


def _body(markup: str | None) -> str:
    """Return the text of some HTML without white space: what two parsers have to agree on."""
    return re.sub(r"\s+", "", extract_plain_text(re.sub(r"<[^>]*>", " ", markup or "")))


# -- asserts: field by field, in the names of Miniflux, feedjira, CodeHollow, rubycocos and NetNewsWire

FEED_FIELDS: dict[str, Callable[[ParsedFeed], Any]] = {
    **dict.fromkeys(["title", "title.strip"], lambda f: f.title),
    **dict.fromkeys(["siteurl", "link", "url", "homepageurl"], lambda f: f.site_url),
    **dict.fromkeys(["feedurl", "feed_url"], lambda f: f.self_url),
    **dict.fromkeys(["description", "subtitle", "summary"], lambda f: f.description),
    **dict.fromkeys(["iconurl", "favicon", "image.url"], lambda f: f.icon),
    **dict.fromkeys(["language", "dc.language"], lambda f: (f.language or "").lower()),
    "ttl": lambda f: f.ttl_minutes,
    "hubs.count": lambda f: int(f.hub is not None),
    "hubs.first": lambda f: f.hub,
    "entries.length": lambda f: len(f.entries),
    "format": lambda f: f.format.value,
}
_FORMATS = {"rss 2.0": {"rss20"}, "rss": {"rss20", "rss10", "rss09x"}, "atom": {"atom10", "atom03"}}

ENTRY_FIELDS: dict[str, Callable[[ParsedEntry], Any]] = {
    "title": lambda e: e.title,
    "title.length": lambda e: len(e.title),
    **dict.fromkeys(["url", "link"], lambda e: e.url),
    **dict.fromkeys(["author", "author.name", "dc.creator", "itunes_author"], lambda e: e.author),
    "authors.size": lambda e: len(e.author.split(", ")),
    "content": lambda e: html.unescape(e.content or e.summary),
    "description": lambda e: e.summary,
    "enclosures.length": lambda e: len(e.enclosures),
    **dict.fromkeys(["tags.length", "categories.count"], lambda e: len(e.categories)),
    "date": lambda e: e.published or e.updated,
    **dict.fromkeys(
        ["published", "publishingdatestring", "publisheddatestring", "dc.datestring"], lambda e: e.published
    ),
    **dict.fromkeys(["updated", "updateddatestring"], lambda e: e.updated),
    **dict.fromkeys(["id", "guid", "entry_id", "about", "id.strip"], lambda e: e.guid),
    **dict.fromkeys(["itunes_image", "media_thumbnail_url"], lambda e: e.image),
    "description.length": lambda e: len(e.summary),
    "dc.subject": lambda e: e.categories[0],
    "enclosure_url": lambda e: e.enclosures[0].url,
    "enclosure_type": lambda e: e.enclosures[0].type,
    "enclosure_length": lambda e: e.enclosures[0].length,
}
_ENTRY = re.compile(r"entries\[(-?\d+)\]\.(.+)")
_FILE = re.compile(r"enclosures\[(\d+)\]\.(url|mimetype|size)")
_PERSON = re.compile(r"authors\[(\d+)\]\.name")
_FILE_FIELDS = {"url": "url", "mimetype": "type", "size": "length"}


def asserted(row: Row, feed: ParsedFeed) -> Iterator[Claim]:
    """Yield the claims of a row of style ``asserts``."""
    for claim in row.data["expect"]["asserts"]:
        path = (
            claim["path"]
            .lower()
            .replace("entries.first", "entries[0]")
            .replace("entries.last", "entries[-1]")
        )
        theirs = claim["value"]
        inside = _ENTRY.fullmatch(path)
        if inside:
            yield _entry_claim(row, feed, inside, theirs)
            continue
        field = path.removeprefix("feed.")
        ours = FEED_FIELDS[field](feed) if field in FEED_FIELDS else UNREAD
        if field == "format" and ours in _FORMATS.get(theirs, {theirs, "json10", "json11"}):
            theirs = ours
        yield Claim(row, f"feed.{field}", ours, theirs.lower() if "language" in field else theirs)


def _entry_claim(row: Row, feed: ParsedFeed, inside: re.Match[str], theirs: Any) -> Claim:
    entry, field = feed.entries[int(inside[1])], inside[2]
    ours: Any = UNREAD
    if found := _FILE.fullmatch(field):
        ours = getattr(entry.enclosures[int(found[1])], _FILE_FIELDS[found[2]])
    elif found := _PERSON.fullmatch(field):
        ours = entry.author.split(", ")[int(found[1])]
    elif field in ENTRY_FIELDS:
        ours = ENTRY_FIELDS[field](entry)
    return Claim(row, field, ours, html.unescape(theirs) if field == "content" else theirs, entry)


# -- podcastparser's JSON


def podcast(row: Row, feed: ParsedFeed) -> Iterator[Claim]:
    """Yield the claims of a row of style ``podcastparser-json``."""
    value = row.data["expect"]["value"]
    known: dict[str, Any] = {
        "title": feed.title,
        "link": feed.site_url,
        "description": feed.description,
        "cover_url": feed.icon,
        "language": feed.language,
    }
    for key, theirs in value.items():
        if key != "episodes":
            yield Claim(row, f"feed.{key}", known.get(key, UNREAD), theirs)
    yield Claim(row, "feed.episodes", len(feed.entries), len(value["episodes"]))
    for entry, episode in zip(feed.entries, value["episodes"], strict=False):
        for key, theirs in episode.items():
            yield _episode_claim(row, entry, key, theirs)


def _episode_claim(row: Row, entry: ParsedEntry, key: str, theirs: Any) -> Claim:
    when = entry.published or entry.updated
    known: dict[str, Any] = {
        "title": entry.title,
        "link": entry.url,
        "guid": entry.guid,
        "published": int(when.timestamp()) if when else 0,
        "description": _body(entry.summary or entry.content),
        "description_html": _body(entry.content or entry.summary),
        "episode_art_url": entry.image,
        "itunes_author": entry.author,
        "enclosures": [
            (f.url, f.type or "application/octet-stream", f.length or -1)
            for f in entry.enclosures
            if f.role is None  # it keeps transcripts and chapters in fields of their own
        ],
    }
    if key.startswith("description"):
        theirs = _body(theirs)
    elif key == "enclosures":
        theirs = [(f["url"], f["mime_type"], f["file_size"]) for f in theirs]
    return Claim(row, key, known.get(key, UNREAD), theirs, entry)


# -- feed-rs' serialised model


def feed_rs(row: Row, feed: ParsedFeed) -> Iterator[Claim]:
    """Yield the claims of a row of style ``feed-rs-serde``."""
    value = row.data["expect"]["value"]
    icon = value["icon"] or value["logo"] or {}
    known = {
        "title": (feed.title, extract_plain_text(_content(value["title"]))),
        "description": (_body(feed.description), _body(_content(value["description"]))),
        "language": ((feed.language or "").lower(), value["language"]),
        "ttl": (feed.ttl_minutes, value["ttl"]),
        "link": (feed.site_url, _alternate(value["links"])),
        "icon": (feed.icon, icon.get("uri")),
        "entries": (len(feed.entries), len(value["entries"])),
    }
    for field, (ours, theirs) in known.items():
        yield Claim(row, f"feed.{field}", ours, theirs)
    for entry, item in zip(feed.entries, value["entries"], strict=False):
        yield from _item_claims(row, entry, item)


def _item_claims(row: Row, entry: ParsedEntry, item: dict[str, Any]) -> Iterator[Claim]:
    authors = ", ".join(a["name"] for a in item["authors"])
    tags = dict.fromkeys(t["label"] or t["term"] for t in item["categories"])
    known = {
        "id": (entry.guid, item["id"]),
        "title": (entry.title, extract_plain_text(_content(item["title"]))),
        "link": (entry.url, _alternate(item["links"])),
        "published": (entry.published, item["published"]),
        "updated": (entry.updated, item["updated"]),
        "content": (_body(entry.content), _body((item["content"] or {}).get("body"))),
        "summary": (_body(entry.summary), _body(_content(item["summary"]))),
        "author": (entry.author, authors),
        "categories": (sorted(entry.categories), sorted(tags)),
    }
    for field, (ours, theirs) in known.items():
        yield Claim(row, field, ours or "", theirs or "", entry)


def _content(text: dict[str, Any] | None) -> str:
    return str((text or {}).get("content") or "")


def _alternate(links: list[dict[str, Any]]) -> str | None:
    return next((link["href"] for link in links if link["rel"] in (None, "alternate")), None)


STYLES = {"asserts": asserted, "podcastparser-json": podcast, "feed-rs-serde": feed_rs}

# -- why a claim may fail


def _address(value: Any) -> str:
    """Return an address, or that of the first of several enclosures."""
    return str(value[0][0]) if isinstance(value, list) and value else str(value)


def _tail(value: Any) -> str:
    return _address(value).rpartition("/")[2]


def _is_local(value: Any) -> bool:
    return _address(value).startswith("file://")


def _is_updated_like_published(claim: Claim) -> bool:
    published = claim.entry.published if claim.entry else None
    return claim.field == "updated" and not claim.ours and parse_date(claim.theirs) == published


def _is_raw_guid(claim: Claim) -> bool:
    found = str(claim.ours or "").strip("/")
    return claim.field == "guid" and str(claim.theirs).rstrip("/").endswith(found)


def _has_media(claim: Claim) -> bool:
    return claim.field == "enclosures.length" and claim.ours < claim.theirs and b"<media:" in claim.row.read()


def _is_original(claim: Claim) -> bool:
    return "feedproxy.google.com" in str(claim.theirs) and str(claim.ours).encode() in claim.row.read()


_MADE_ID = re.compile(r"[0-9a-f]{31,32}|[0-9a-f-]{36}")


PREDICATES: dict[str, Callable[[Claim], bool]] = {
    "unread": lambda c: c.ours is UNREAD,
    "untitled": lambda c: c.field.endswith("title") and c.ours == "" and c.theirs != "",
    "fetched_url": lambda c: c.field in ("feed.siteurl", "feed.feedurl") and c.ours is None,
    "markup_in_title": lambda c: (
        c.field.endswith("title") and extract_plain_text(html.unescape(str(c.theirs))) == c.ours
    ),
    "original_link": _is_original,
    "no_inheritance": lambda c: c.field == "tags.length" and c.ours < c.theirs,
    "media_pictures": _has_media,
    "resolved": lambda c: str(c.ours).startswith("http") and str(c.ours).endswith(str(c.theirs).lstrip("/")),
    "document_base": lambda c: (
        "url" in c.field and bool(c.ours) and urlsplit(c.ours).path == urlsplit(c.theirs).path
    ),
    "raw_guid": _is_raw_guid,
    "file_url": lambda c: _is_local(c.theirs) and (not c.ours or _tail(c.ours) == _tail(c.theirs)),
    "made_id": lambda c: c.field == "id" and _MADE_ID.fullmatch(c.theirs) is not None,
    "updated_is_published": _is_updated_like_published,
    "feed_author": lambda c: c.field == "author" and bool(c.ours) and c.theirs == "",
}


@dataclasses.dataclass(frozen=True)
class Reason:
    """One entry of the exceptions file: a rule for a style, or one claim of one row."""

    why: str
    style: str = ""
    rule: str = ""
    fields: tuple[str, ...] = ()
    path: str = ""

    def explains(self, claim: Claim) -> bool:
        style = claim.row.data["expect"]["style"]
        if (self.style and self.style != style) or (self.path and self.path != claim.row.path):
            return False
        if self.fields and claim.field not in self.fields:
            return False
        return not self.rule or PREDICATES[self.rule](claim)


@functools.cache
def reasons() -> tuple[Reason, ...]:
    """Return all listed reasons."""
    text = Path(__file__).with_name("corpus_exceptions.toml").read_text("utf-8")
    return tuple(Reason(**{**r, "fields": tuple(r.get("fields", ()))}) for r in tomllib.loads(text)["reason"])
