"""Drafts: the fields that format readers fill in, and the one way to finish a feed or entry.

A draft collects candidates with ranks: the highest rank wins, the first of equal ones. Only the winners are
cleaned, so that the work per entry doesn't grow with the synonyms that a feed uses.
"""

from __future__ import annotations

import dataclasses
import html
import re
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TypeVar
from urllib.parse import urljoin, urlsplit

from app.feeds import media_targets
from app.feeds.html.text import extract_plain_text
from app.feeds.parse.dates import parse_date
from app.feeds.parse.limits import Limits
from app.feeds.parse.markup import escape_stray_brackets
from app.models.feeds.chain import Chain
from app.models.feeds.link_schemes import has_link_scheme
from app.models.feeds.parsed import (
    Enclosure,
    FileRole,
    Format,
    ParsedEntry,
    ParsedFeed,
    ParserPath,
    Replies,
    has_picture,
)

T = TypeVar("T")

_LONGEST_URL = 8192
_ABSOLUTE = re.compile(r"\s{0,100}https?://[^\s/?#]+\S*\s{0,100}", re.IGNORECASE)
_MOST_PARTS = 64
#: Entries whose dates show the order of a feed.
_SAMPLE = 31
#: Most chapters of a recording.
MOST_CHAPTERS = 200
_DURATION = re.compile(r"(?:(?:([0-9]{1,3}):)?([0-9]{1,4}):)?([0-9]{1,7})(?:[.,][0-9]{0,20})?")
#: Parts of media types of recordings ("x-audio/mp3"), their file name endings, and types of any file.
_PLAYED = ("audio", "video", "mpeg", "mp3", "mp4", "m4a")
_RECORDINGS = (
    *(".mp3", ".m4a", ".m4b", ".ogg", ".oga", ".opus", ".aac", ".flac", ".wav"),
    *(".mp4", ".m4v", ".ogv", ".webm", ".mov"),
)
_UNTOLD = {"application/octet-stream", "application/force-download", "application/x-download"}
#: In seconds; a longer duration is a mistake, usually in milliseconds.
_LONGEST_RECORDING = 864_000
#: Most cleaned names cached per document.
_MOST_NAMES = 256
_C1 = {
    n: bytes([n]).decode("cp1252", "replace")
    for n in range(0x80, 0xA0)
    if n not in (0x81, 0x8D, 0x8F, 0x90, 0x9D)
}


class Context:
    """The state of a whole document: addresses, limits, and whether something was cut."""

    def __init__(self, url: str, limits: Limits) -> None:
        self.base = url
        #: The feed's host as it appears in addresses.
        self.own = f"//{url.split('/', 3)[2]}/" if url.count("/") > 2 else url
        self.limits = limits
        self.has_bases = False
        self.repair_text: Callable[[str], str] | None = None
        self.truncated = False
        self.cut = False
        self._names: dict[str, str] = {}

    def resolve_url(self, base: str, address: str | None) -> str | None:
        """Return an absolute http(s) address, or None."""
        if not address:
            return None
        address = address.strip()
        if " " in address or not address.isprintable():
            address = "".join(address.replace(" ", "%20").split())
        if len(address) > _LONGEST_URL:
            return None
        if not address.startswith(("http://", "https://")):
            try:
                address = urljoin(base, address) if address else ""
            except ValueError:
                return None
            if address[:8].lower().startswith(("http://", "https://")):
                return address
            return None
        return address

    def may_load(self, url: str, *, any_port: bool = False) -> bool:
        """Return whether readers' browsers may load a file: it is public, or on the feed's own host."""
        return url.partition(":")[2].startswith(self.own) or media_targets.may_load(url, any_port=any_port)

    def clean_html(self, markup: str) -> str:
        """Return markup trimmed, repaired and within the limit."""
        markup = markup.strip()
        if markup.startswith("<![CDATA["):  # escaped although it was already wrapped
            markup = markup[9:].removesuffix("]]>")
        if self.repair_text:
            markup = self.repair_text(markup)
        if len(markup) > self.limits.html:
            self.truncated = True
            markup = markup[: self.limits.html]
            cut = markup.rfind("<")
            markup = markup[:cut] if cut > markup.rfind(">") else markup
        return escape_stray_brackets(markup)

    def clean_line(self, text: str) -> str:
        """Return the plain text of a title-like field, within the limit."""
        text = text.strip()
        # printable text has no control characters and no white space but the plain space
        if (
            text.isprintable()
            and "<" not in text
            and "&" not in text
            and "  " not in text
            and not self.repair_text
        ):
            return text if len(text) <= self.limits.title else self._cut(text)
        text = text[: 8 * self.limits.title]
        text = extract_plain_text(self.repair_text(text) if self.repair_text else text)
        return text if len(text) <= self.limits.title else self._cut(text)

    def _cut(self, text: str) -> str:
        return text[: self.limits.title - 1].rstrip() + "…"

    def clean_name(self, text: str) -> str:
        """Return :meth:`clean_line` of a text that entries share, a category or an author, with a cache."""
        found = self._names.get(text)
        if found is None:
            found = self.clean_line(text)
            if len(self._names) < _MOST_NAMES:
                self._names[text] = found
        return found

    def append_name(self, names: str, name: str) -> str:
        """Return the names with one more appended, unless it is among them or they are too long."""
        if not name or f", {name}, " in f", {names}, " or len(names) >= self.limits.title // 2:
            return names
        return f"{names}, {name}" if names else name

    def clean_person(self, text: str) -> str:
        """Return the name in ``mail (Name)`` or ``Name <mail>``, else the text."""
        text = self.clean_name(text)
        if "@" not in text or text[-1:] not in (")", ">"):
            return text
        before, bracket, inside = text[:-1].partition("(" if text[-1] == ")" else "<")
        if "@" not in before:
            before, bracket, inside = text[:-1].rpartition(bracket or "(")
        name = (before if "@" in inside else inside).strip()
        return name if bracket and name else text


class EntryDraft:
    """One entry under construction; class attributes hold the defaults, so that a new draft is cheap."""

    guid: str | None = None
    guid_rank = 0
    permalink = False
    link: str | None = None
    link_rank = 0
    original_link: str | None = None
    title = ""
    title_rank = 0
    title_is_text = False
    author = ""
    author_rank = 0
    published: str | None = None
    published_rank = 0
    updated: str | None = None
    updated_rank = 0
    content = ""
    content_rank = 0
    content_base: str | None = None
    summary = ""
    summary_rank = 0
    summary_base: str | None = None
    image: str | None = None
    image_rank = 0
    #: Of the entry's recording, as written.
    duration: str | None = None
    chain: Chain | None = None
    #: Of the comments at the entry's site, as written.
    reply_page: str | None = None
    reply_feed: str | None = None
    reply_count: str | int | None = None

    def __init__(self, ctx: Context, base: str) -> None:
        self.ctx = ctx
        self.base = base
        self.categories: dict[str, None] = {}
        self.enclosures: dict[str, Enclosure] = {}
        #: Chapters of the recording: seconds from its beginning, and title.
        self.chapters: list[tuple[int, str]] = []
        #: Only for a text without pictures: address, type, length, and a function that returns the caption.
        self.pictures: list[tuple[str, str, str | None, Callable[[], str]]] = []

    def offer_guid(self, rank: int, text: str | None) -> None:
        if rank > self.guid_rank and text and not text.isspace():
            self.guid, self.guid_rank = text.strip(), rank

    def offer_link(self, rank: int, address: str | None, base: str | None = None) -> None:
        if rank > self.link_rank and address and not address.isspace():
            self.link, self.link_rank = self.ctx.resolve_url(base or self.base, address), rank
            if self.link is None and has_link_scheme(address.strip()):
                self.add_enclosure(address, None, None)  # torrent feeds have magnet: links

    def offer_title(self, rank: int, text: str, is_text: bool = False) -> None:
        if rank > self.title_rank and text and not text.isspace():
            self.title, self.title_rank, self.title_is_text = text, rank, is_text

    def offer_author(self, rank: int, text: str | None) -> None:
        """Offer a name; names of equal rank are joined."""
        if not text or rank < self.author_rank or text.isspace():
            return
        name = self.ctx.clean_person(text)
        if rank > self.author_rank:
            self.author, self.author_rank = name, rank
        else:
            self.author = self.ctx.append_name(self.author, name)

    def offer_published(self, rank: int, text: str | None) -> None:
        if rank > self.published_rank and text and not text.isspace():
            self.published, self.published_rank = text, rank

    def offer_updated(self, rank: int, text: str | None) -> None:
        if rank > self.updated_rank and text and not text.isspace():
            self.updated, self.updated_rank = text, rank

    def offer_content(self, rank: int, markup: str, base: str | None = None) -> None:
        if rank > self.content_rank and markup and not markup.isspace():
            self.content, self.content_rank, self.content_base = markup, rank, base

    def offer_summary(self, rank: int, markup: str, base: str | None = None) -> None:
        if rank > self.summary_rank and markup and not markup.isspace():
            self.summary, self.summary_rank, self.summary_base = markup, rank, base

    def offer_image(self, rank: int, address: str | None) -> None:
        if rank > self.image_rank and address:
            found = self.ctx.resolve_url(self.base, address)
            if found and self.ctx.may_load(found):
                self.image, self.image_rank = found, rank

    def add_category(self, text: str | None) -> None:
        if text and len(self.categories) < _MOST_PARTS:
            name = self.ctx.clean_name(text)
            if name:
                self.categories[name] = None

    def add_picture(self, address: str, kind: str, length: str | None, text: Callable[[], str] = str) -> None:
        """Add a picture for a text without pictures; ``text`` returns its caption."""
        if address and len(self.pictures) < _MOST_PARTS:
            self.pictures.append((address, kind, length, text))

    def _show_pictures(self) -> None:
        for address, kind, length, text in self.pictures:
            url = self.ctx.resolve_url(self.base, address)
            if url and self.ctx.may_load(url):
                told = self.enclosures.get(url) or Enclosure(url)
                kind, size = kind.strip()[:100].lower() or "image/*", parse_length(length)
                words = self.ctx.clean_line(text())
                self.enclosures[url] = Enclosure(url, told.type or kind, told.length or size, words)

    def add_chapter(self, start: str | None, title: str | None) -> None:
        start = (start or "").strip()
        if _DURATION.fullmatch(start) and title and not title.isspace():
            # The first one begins at 0, which no recording lasts.
            self.chapters.append((parse_duration(start) or 0, self.ctx.clean_line(title)))

    def _list_chapters(self) -> None:
        """Add the chapters to the text, unless it names their times; so every app shows them."""
        text = self.content or self.summary
        rows = [(format_moment(second), title) for second, title in self.chapters]
        if any(moment in text for moment, _ in rows[1:]):
            return
        items = "".join(f"<li>{moment} {html.escape(title)}</li>" for moment, title in rows)
        if self.content or not self.summary:
            self.content += f"<ul>{items}</ul>"
        else:
            self.summary += f"<ul>{items}</ul>"

    def add_enclosure(
        self,
        address: str | None,
        kind: str | None,
        length: str | int | None,
        duration: str | float | None = None,
        *,
        role: FileRole | None = None,
        name: str | None = None,
    ) -> None:
        """Add a file; its type, length and duration may be missing or nonsense."""
        url = self.ctx.resolve_url(self.base, address) or _keep_app_link(address)
        if not url or len(self.enclosures) >= _MOST_PARTS:
            return
        kind = kind.strip()[:100].lower() if kind else None
        is_picture = Enclosure(url, kind).is_picture
        if url.startswith("http") and not self.ctx.may_load(url, any_port=not is_picture):
            return
        if url not in self.enclosures:
            name = self.ctx.clean_line(name) if name else ""
            self.enclosures[url] = Enclosure(url, kind or None, parse_length(length), name, role=role)
        if duration and (seconds := parse_duration(duration)):
            self.enclosures[url] = dataclasses.replace(self.enclosures[url], duration=seconds)
        if kind and kind.startswith("image/"):
            self.offer_image(30, url)

    def _time_recording(self, duration: str) -> None:
        """Give the entry's duration to its recording: the likeliest file, the first of equal ones."""
        file = max(self.enclosures.values(), key=_playing)
        if _playing(file) and file.duration is None:
            self.enclosures[file.url] = dataclasses.replace(file, duration=parse_duration(duration))

    def finish(self) -> ParsedEntry:
        """Clean the winning candidates and return the entry."""
        ctx = self.ctx
        link = self._link()
        if self.pictures and not has_picture(self.content or self.summary):
            self._show_pictures()
        if self.duration and self.enclosures:
            self._time_recording(self.duration)
        if self.chapters and self.enclosures:
            self._list_chapters()
        base = (self.content_base if self.content else self.summary_base) or self.base
        page = self._own_page(link) if link and self.guid else link
        return ParsedEntry(
            guid=self.guid,
            url=link,
            title=self._title(),
            author=self.author,
            published=parse_date(self.published) if self.published else None,
            updated=parse_date(self.updated) if self.updated else None,
            content=ctx.clean_html(self.content) if self.content else "",
            summary=ctx.clean_html(self.summary) if self.summary else "",
            base_url=page or ctx.base if base == ctx.base else self._base_told(base, page),
            categories=tuple(self.categories),
            enclosures=tuple(self.enclosures.values()),
            image=self.image,
            chain=self.chain,
            replies=self._replies() if self.reply_page or self.reply_feed else None,
        )

    def _replies(self) -> Replies | None:
        page, feed = self.reply_page, self.reply_feed
        if page:  # some feeds state the number
            page = None if page.strip().isdecimal() else self.ctx.resolve_url(self.base, page)
        feed = self.ctx.resolve_url(self.base, feed) if feed else None
        return Replies(page, feed, parse_length(self.reply_count)) if page or feed else None

    def _link(self) -> str | None:
        link = self.link
        if self.original_link and is_absolute(self.original_link):
            link = self.ctx.resolve_url(self.base, self.original_link) or link
        if link is None and self.guid and (self.permalink or self.guid[:4].lower() == "http"):
            link = self.ctx.resolve_url(self.base, self.guid)
        return link

    def _title(self) -> str:
        title, ctx = self.title, self.ctx
        if not title:
            return title
        if self.title_is_text and not ctx.repair_text and "&" not in title and "</" not in title:
            return " ".join(title.split())[: ctx.limits.title]
        return ctx.clean_line(title)

    def _own_page(self, link: str) -> str:
        """Return the page with the entry's text; the links of a link blog lead elsewhere."""
        own, guid = self.ctx.own, self.guid
        if guid is None or own in link or own not in guid or guid[:4].lower() != "http":
            return link
        return self.ctx.resolve_url(self.base, guid) or link

    def _base_told(self, base: str, link: str | None) -> str:
        """Return the base that xml:base gives for the addresses in the text."""
        text = self.content or self.summary
        # Footnotes are on the entry's page even then.
        if link and ('="#' in text or "='#" in text):
            return f"{base.partition('#')[0]}#{link}"
        return base


@dataclasses.dataclass(slots=True)
class FeedDraft:
    """One feed under construction; ranks as in :class:`EntryDraft`, ``setting`` as in :class:`ParsedFeed`."""

    ctx: Context
    format: Format = Format.RSS20
    title: str = ""
    title_rank: int = 0
    link: str | None = None
    link_rank: int = 0
    description: str = ""
    description_rank: int = 0
    language: str | None = None
    author: str = ""
    self_url: str | None = None
    hub: str | None = None
    ttl: int | None = None
    period: int | None = None
    frequency: int = 1
    skip_hours: frozenset[int] = frozenset()
    icon: str | None = None
    icon_rank: int = 0
    base: str = ""
    setting: bytes = b""
    unlisted: bool = False
    new_url: str | None = None
    entries: list[ParsedEntry] = dataclasses.field(default_factory=list)

    def offer_title(self, rank: int, text: str) -> None:
        if rank > self.title_rank and text and not text.isspace():
            self.title, self.title_rank = self.ctx.clean_line(text), rank

    def offer_link(self, rank: int, address: str | None) -> None:
        if rank > self.link_rank and address and not address.isspace():
            found = self.ctx.resolve_url(self.base, address)
            if found and _has_host(found):
                self.link, self.link_rank = found, rank

    def offer_description(self, rank: int, text: str) -> None:
        if rank > self.description_rank and text and not text.isspace():
            self.description, self.description_rank = self.ctx.clean_line(text), rank

    def offer_icon(self, rank: int, address: str | None) -> None:
        if rank > self.icon_rank and address:
            found = self.ctx.resolve_url(self.base, address)
            if found and self.ctx.may_load(found):
                self.icon, self.icon_rank = found, rank

    def offer_new_url(self, address: str | None) -> None:
        if address and self.new_url is None and is_absolute(address):
            self.new_url = self.ctx.resolve_url(self.base, address)

    def block(self, text: str | None) -> None:
        """Note that the feed is in no directory, if the text of ``itunes:block`` says so."""
        self.unlisted = self.unlisted or (text or "").strip().lower() in ("yes", "true", "1")

    def count_skipped(self, items: Sequence[T], read: Callable[[T], EntryDraft]) -> int:
        """Return how many leading entries to skip: those beyond the limit, if the newest come last."""
        over = len(items) - self.ctx.limits.items
        if over <= 0 or not _is_rising([read(item).finish() for item in _spread(items)]):
            return 0
        self.ctx.truncated = True
        return over

    def is_full(self) -> bool:
        """Return whether the limit of entries is reached, and then mark the feed as truncated."""
        if len(self.entries) < self.ctx.limits.items:
            return False
        self.ctx.truncated = True
        return True

    def finish(self, parser: ParserPath) -> ParsedFeed:
        """Return the feed with all its entries."""
        ttl = self.ttl
        if ttl is None and self.period is not None:
            ttl = max(1, self.period // max(1, self.frequency))
        return ParsedFeed(
            format=self.format,
            parser=parser,
            title=self.title,
            site_url=self.link,
            description=self.description,
            language=self.language,
            entries=tuple(self.entries),
            self_url=self.self_url,
            hub=self.hub,
            ttl_minutes=ttl,
            skip_hours=self.skip_hours,
            icon=self.icon,
            truncated=self.ctx.truncated,
            cut=self.ctx.cut,
            setting=self.setting,
            unlisted=self.unlisted,
            new_url=self.new_url,
        )


def _has_host(address: str) -> bool:
    """Return whether the host of an absolute address can be read."""
    if "[" not in address and "]" not in address and address.isascii():
        return True
    try:
        urlsplit(address)
    except ValueError:
        return False
    return True


def is_absolute(address: str) -> bool:
    """Return whether a text is an absolute http(s) address and nothing else."""
    return len(address) <= _LONGEST_URL and _ABSOLUTE.fullmatch(address) is not None


def _keep_app_link(address: str | None) -> str | None:
    """Return an address that opens another app, such as ``magnet:``, else None."""
    address = (address or "").strip()
    is_plain = address.isprintable() and " " not in address and len(address) <= _LONGEST_URL
    return address if is_plain and has_link_scheme(address) else None


def _spread(items: Sequence[T]) -> list[T]:
    """Return evenly spaced items of a sequence, in order."""
    most = min(_SAMPLE, len(items))
    return [items[at * (len(items) - 1) // max(1, most - 1)] for at in range(most)]


def _is_rising(sample: Sequence[ParsedEntry]) -> bool:
    """Return whether most entries have a later date than the one before.

    Pinned entries and wrong dates are exceptions. If unsure, assume that the newest come first.
    """
    dates = [when for entry in sample if (when := entry.published or entry.updated)]
    rising = sum(before < after for before, after in pairwise(dates))
    return 3 * rising > 2 * (len(sample) - 1)


def _playing(file: Enclosure) -> int:
    """Return how likely a file is a recording; 0 if it isn't one."""
    kind = file.type or "application/octet-stream"
    if file.role is not None:
        return 0
    if any(part in kind for part in _PLAYED):
        return 3
    if file.url.partition("?")[0].lower().endswith(_RECORDINGS):
        return 2
    return int(kind in _UNTOLD and not file.is_picture)


def format_moment(second: int) -> str:
    """Return a moment of a recording as show notes write it: "4:05", "1:02:33"."""
    minutes, rest = divmod(second, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def parse_duration(value: str | float) -> int | None:
    """Return a duration in whole seconds; None if invalid, zero, or longer than ten days.

    ``HH:MM:SS``, ``MM:SS`` or seconds (Apple's podcast RSS, ``itunes:duration``), with or without a fraction.
    """
    found = _DURATION.fullmatch(str(value).strip())
    if not found:
        return None
    hours, minutes, seconds = (int(part or 0) for part in found.groups())
    whole = 3600 * hours + 60 * minutes + seconds
    return whole if 0 < whole <= _LONGEST_RECORDING else None


def parse_length(value: str | int | float | None) -> int | None:
    """Return a size in bytes; None if invalid, negative or beyond 2**53."""
    if isinstance(value, str):
        value = value.strip()
        if not (value.isascii() and value.isdecimal() and len(value) <= 16):
            return None
    elif value is None or isinstance(value, bool) or not 0 <= value < 2**53:
        return None
    return int(value)
