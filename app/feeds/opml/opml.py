"""OPML subscription lists: read files of other readers, write OPML 2.0 (http://opml.org/spec2.opml).

A file that isn't well-formed is repaired where that loses nothing; otherwise it is refused with the line.
libxml2's recovery mode is never used. After the first error it drops every escaped ``&``, so an
import would subscribe to wrong addresses.
"""

from __future__ import annotations

import contextlib
import dataclasses
import re
import zlib
from collections.abc import Iterable, Sequence

from lxml import etree

from app.config import Settings
from app.errors import FetchError, InvalidError, TooLargeError
from app.feeds.fetch.address_policy import Policy
from app.feeds.html.text import extract_plain_text
from app.feeds.opml.other_lists import list_json_feeds, list_xml_feeds
from app.feeds.parse.charset import to_utf8
from app.feeds.parse.repair import repair, strip_prolog
from app.feeds.safe_xml import build_safe_parser
from app.feeds.urls import normalise_address
from app.models.imports.opml import (
    ABOUT_MAX,
    MINIFLUX,
    MINIFLUX_ROOT,
    AddressFault,
    Outline,
    SubscriptionList,
)

_OUTLINE = re.compile(rb"(<outline\b|</outline\b|</body\b)")
#: Root elements of feeds.
_FEED_ROOTS = frozenset(("rss", "feed", "rdf", "channel"))
_READ = ("text", "title", "description", "xmlurl", "htmlurl", "url", "type", "category")
#: Characters of a description as written that are looked at: markup and references take several each.
_ABOUT_RAW = 8 * ABOUT_MAX
#: Types of outlines whose ``url`` is the feed, where a program left out ``xmlUrl``.
_FEED_TYPES = frozenset(("rss", "rss1", "rss2", "atom", "feed", "rdf", "json"))
#: Folders of one outline that its ``category`` names; the rest is left out.
MAX_CATEGORIES = 8
_ADDRESSES = ("xmlurl", "htmlurl", "url")
#: Attributes that show that an outline isn't a folder.
_NO_FOLDER = frozenset((*_ADDRESSES, "type"))
_ATTRIBUTE = re.compile(
    rb"\s(text|title|description|type|xmlUrl|htmlUrl|url|language|version|category|created|comment)\s?=\s?\""
)


@dataclasses.dataclass(frozen=True, slots=True)
class Limits:
    """The bounds of a file (X10); see the settings ``opml_…``."""

    max_bytes: int = 5 << 20
    max_outlines: int = 20_000
    max_depth: int = 32
    max_folders: int = 1000  # the most folders per account; empty folders beyond it are left out

    @classmethod
    def from_settings(cls, settings: Settings) -> Limits:
        """Read the bounds from the settings."""
        return cls(settings.opml_max_bytes, settings.opml_max_outlines, settings.opml_max_depth)


def read(body: bytes, limits: Limits = Limits(), policy: Policy | None = None) -> SubscriptionList:
    """Read an OPML file of any version, or a list of feeds in FOAF, RSS or JSON; packed with gzip or not.

    An outline with an ``xmlUrl`` is a subscription; with outlines inside it is a folder as well. An outline
    without one is a subscription to its ``url`` if its type is that of a feed. Any other is a folder if it
    has outlines inside, or nothing but a name that includes a ``title``. Readers write empty folders with a
    ``title``; notes only have a ``text``; broken subscriptions have more. Outside of all folders,
    ``category`` names the folders of a subscription: ``/Tech/Linux,/News``.

    Args:
        body: the file as received.
        limits: bounds; a file beyond them is refused, never cut.
        policy: marks addresses that could never be fetched; None checks no address.

    Raises:
        TooLargeError: the file is longer, deeper or has more outlines than ``limits`` allow.
        InvalidError: the file is empty, not OPML, or beyond repair; the message names the line.
    """
    if len(body) > limits.max_bytes:
        raise _too_long(limits)
    body = _unpack(body, limits)
    if not body.strip():
        raise InvalidError("The file is empty.")
    text = to_utf8(body)[0]
    reader = _Reader(limits, policy)
    if text.lstrip()[:1] in (b"{", b"["):
        reader.read_json(text)
        return SubscriptionList("", tuple(reader.feeds), reader.list_folders(), reader.outlines)
    root, repaired = _tree(text, limits)
    if _name(root) == "opml":
        for part in root:
            if _name(part) == "body":
                reader.read_outlines(part)
    else:
        # libxml2 doesn't count the lines before the first element.
        cut = text[: len(text) - len(strip_prolog(text))].count(b"\n")
        reader.read_other_list(root, cut)
    found = SubscriptionList(
        _title(root), tuple(reader.feeds), reader.list_folders(), reader.outlines, repaired
    )
    return _drop_root(found) if found.title == MINIFLUX else found


def _drop_root(found: SubscriptionList) -> SubscriptionList:
    """Return a list of Miniflux without the folder of feeds that are in none."""
    root = (MINIFLUX_ROOT,)
    feeds = (dataclasses.replace(f, folders=()) if f.folders == root else f for f in found.feeds)
    folders = tuple(path for path in found.folders if path != root)
    return dataclasses.replace(found, feeds=tuple(feeds), folders=folders)


def _unpack(body: bytes, limits: Limits) -> bytes:
    """Return the body without its gzip packing, unpacked as far as the limit (X05)."""
    if not body.startswith(b"\x1f\x8b"):
        return body
    inflater = zlib.decompressobj(16 + zlib.MAX_WBITS)
    try:
        unpacked = inflater.decompress(body, limits.max_bytes + 1)
    except zlib.error as e:
        raise InvalidError(
            "This file is compressed with gzip, but it's damaged. Export your subscriptions again."
        ) from e
    if len(unpacked) > limits.max_bytes:
        raise _too_long(limits)
    return unpacked


def write(title: str, feeds: Sequence[Outline], folders: Iterable[tuple[str, ...]] = ()) -> bytes:
    """Return an OPML 2.0 document with nested folders, UTF-8.

    Args:
        title: of the list.
        feeds: subscriptions in the desired order; the problem of one is written as a comment before it.
        folders: paths of folders to write even when they are empty.
    """
    root = etree.Element("opml", version="2.0")
    etree.SubElement(etree.SubElement(root, "head"), "title").text = _legal(title)
    places: dict[tuple[str, ...], etree._Element] = {(): etree.SubElement(root, "body")}
    for path in folders:
        _place(places, path)
    for feed in feeds:
        name = _legal(feed.title or feed.url)
        fields = {"type": "rss", "text": name, "title": name, "xmlUrl": _legal(feed.url)}
        if feed.site_url:
            fields["htmlUrl"] = _legal(feed.site_url)
        if feed.about:
            fields["description"] = _legal(feed.about)
        place = _place(places, feed.folders)
        if feed.problem:
            place.append(etree.Comment(f" {_legal(feed.problem).replace('--', '-')} "))
        etree.SubElement(place, "outline", fields)
    document: bytes = etree.tostring(root, encoding="utf-8", xml_declaration=True, pretty_print=True)
    return document


def resolve_address(text: str, policy: Policy) -> tuple[str, AddressFault | None]:
    """Return the address that an outline names, and why it can never be fetched.

    Text that isn't a web address is read as if a person had typed it: ``feed://…``, or a bare host.
    A bare host gets http, because nothing tries twice here: nearly all sites redirect to https.
    """
    found, fault = [text], _find_fault(text, policy)
    if fault and not text.lower().startswith(("http:", "https:")):
        found = normalise_address(text) or found
        fault = _find_fault(found[-1], policy)
    return found[-1], fault


def _find_fault(url: str, policy: Policy) -> AddressFault | None:
    try:
        policy.check_url(url)
    except FetchError as e:
        return AddressFault(e.word, e.detail)
    return None


class _Reader:
    def __init__(self, limits: Limits, policy: Policy | None) -> None:
        self._limits = limits
        self._policy = policy
        self.feeds: list[Outline] = []
        self.folders: list[tuple[str, ...]] = []
        self.hollow: list[tuple[int, tuple[str, ...]]] = []
        self.telling: set[tuple[str, ...]] = set()
        self.outlines = 0

    def list_folders(self) -> tuple[tuple[str, ...], ...]:
        """Return the folders in document order; empty folders only as far as the limit allows.

        An outline whose inner outlines lack name and address isn't a folder: programs store settings so.
        """
        told = {path[:depth] for path in self.telling for depth in range(1, len(path) + 1)}
        room = max(self._limits.max_folders - sum(path in told for path in self.folders), 0)
        found = [path if path in told else None for path in self.folders]
        for place, path in reversed(self.hollow[:room]):
            found.insert(place, path)
        return tuple(path for path in found if path is not None)

    def read_other_list(self, root: etree._Element, cut: int) -> None:
        """Collect the feeds of a list that isn't OPML.

        Args:
            cut: lines of the file before the document.

        Raises:
            InvalidError: this isn't a list of feeds.
        """
        self._add_listed(list_xml_feeds(root))
        if not self.feeds and _name(root) in _FEED_ROOTS:
            raise InvalidError(
                "Line %(line)s: this is a feed, not a list of feeds. Add its address under “Add a feed”.",
                line=_line(root) + cut,
            )
        if not self.feeds:
            raise InvalidError(
                "This isn't an OPML file: it starts with <%(element)s> instead of <opml>. Export your "
                "subscriptions as OPML and upload that file.",
                element=_name(root),
            )

    def read_json(self, text: bytes) -> None:
        """Collect the feeds of a JSON list.

        Raises:
            InvalidError: the text isn't a JSON list of feeds.
        """
        with contextlib.suppress(ValueError):
            self._add_listed(list_json_feeds(text))
        if not self.feeds:
            raise InvalidError(
                "Line %(line)s: this is a JSON file without a list of feeds. Export your subscriptions as "
                "OPML and upload that file.",
                line=text[: len(text) - len(text.lstrip())].count(b"\n") + 1,
            )

    def _add_listed(self, listed: Iterable[Outline]) -> None:
        for outline in listed:
            self._count_outline()
            url, fault = outline.url, None
            if self._policy is not None:
                url, fault = resolve_address(url, self._policy)
            problem = FetchError(fault.word).message if fault else None
            self.feeds.append(dataclasses.replace(outline, url=url, problem=problem))
            if outline.folders and outline.folders not in self.telling:
                self.telling.add(outline.folders)
                self.folders.append(outline.folders)

    def _count_outline(self) -> None:
        self.outlines += 1
        if self.outlines > self._limits.max_outlines:
            most = self._limits.max_outlines
            raise TooLargeError(
                "The file has more than %(most)s outlines. Split it into smaller files.", most=most
            )

    def read_outlines(self, body: etree._Element) -> None:
        """Collect all outlines, in document order."""
        waiting: list[tuple[etree._Element, tuple[str, ...]]] = [(el, ()) for el in reversed(body)]
        while waiting:
            element, path = waiting.pop()
            if _name(element) != "outline":
                continue
            inside = self._outline(element, path)
            waiting += [(child, inside) for child in reversed(element)]

    def _outline(self, element: etree._Element, path: tuple[str, ...]) -> tuple[str, ...]:
        self._count_outline()
        fields = _fields(element)
        title = extract_plain_text(fields.get("text") or "") or extract_plain_text(fields.get("title") or "")
        url = fields.get("xmlurl", "").strip()
        if not url and fields.get("type", "").strip().lower() in _FEED_TYPES:
            url = fields.get("url", "").strip()
        if title or any(fields.get(name, "").strip() for name in _ADDRESSES):
            self.telling.add(path)
        if url:
            for folder in self._categories(fields.get("category", "")) if not path else [path]:
                self.feeds.append(self._feed(url, title, fields, folder, _line(element)))
        if not any(_name(child) == "outline" for child in element):
            told = {name for name, value in fields.items() if value.strip()}
            if title and "title" in told and not told & _NO_FOLDER:
                self.hollow.append((len(self.folders), (*path, title)))
            return path
        inside = (*path, title or url)
        if len(inside) > self._limits.max_depth:
            raise _too_deep(_line(element), self._limits.max_depth)
        if not url:
            self.folders.append(inside)
        return inside

    def _categories(self, category: str) -> list[tuple[str, ...]]:
        """Return the folders that a ``category`` names, or no folder if it names none."""
        found = dict[tuple[str, ...], None]()
        for part in category.split(",")[:MAX_CATEGORIES]:
            names = tuple(name for word in part.split("/") if (name := extract_plain_text(word).strip()))
            if names and len(names) <= self._limits.max_depth:
                found[names] = None
        for names in found:
            for depth in range(1, len(names) + 1):
                if names[:depth] not in self.telling:
                    self.telling.add(names[:depth])
                    self.folders.append(names[:depth])
        return list(found) or [()]

    def _feed(
        self, url: str, title: str, fields: dict[str, str], path: tuple[str, ...], line: int
    ) -> Outline:
        problem = None
        if self._policy is not None:
            url, fault = resolve_address(url, self._policy)
            problem = FetchError(fault.word).message if fault else None
        site = fields.get("htmlurl", "").strip() or None
        return Outline(url, title, site, path, line, problem, _cut_about(fields.get("description", "")))


def _tree(text: bytes, limits: Limits) -> tuple[etree._Element, str | None]:
    """Parse strictly; repair text that isn't well-formed, and return what was wrong as a sentence."""
    try:
        return _strict(strip_prolog(text)), None
    except etree.XMLSyntaxError as e:
        # Count the lines of the original file: text before the first element may be cut off.
        cut = text[: len(text) - len(strip_prolog(text))].count(b"\n")
        line = (e.lineno or 1) + cut
        if "Excessive depth" in (e.msg or ""):
            # libxml2 stops at 256, above every limit that can be configured.
            raise _too_deep(line, limits.max_depth) from e
        fault = f"Line {line}: {_sentence(e)}"
        mended = repair(text)
        if mended is None:
            raise InvalidError(
                "This isn't an OPML file: it doesn't contain any XML. Export your subscriptions as "
                "OPML and upload that file."
            ) from e
        for attempt in (mended, repair(_requoted(mended)) or b""):
            try:
                return _strict(attempt), fault
            except etree.XMLSyntaxError:
                continue
        if (root := _read_truncated(mended)) is not None:
            lost = "" if b"</body" in mended else " The file is cut off here. Later feeds are missing."
            return root, fault + lost
        raise InvalidError(
            "This file isn't well-formed XML. %(fault)s Fix that line, or export your subscriptions again.",
            fault=fault,
        ) from e


def _read_truncated(text: bytes) -> etree._Element | None:
    """Return the root of a document that lacks only its end; None if something else is wrong as well."""
    parser = etree.XMLPullParser(
        ("start",),
        resolve_entities=False,
        load_dtd=False,
        no_network=True,
        huge_tree=False,
        encoding="utf-8",
        remove_comments=True,
        remove_pis=True,
    )
    try:
        parser.feed(text)
        # Not close(): it reports the missing end.
        events = list(parser.read_events())
    except etree.XMLSyntaxError:
        return None
    root = events[0][1] if events else None
    return root if isinstance(root, etree._Element) else None


def _requoted(text: bytes) -> bytes:
    """Escape quotes and markup inside attribute values, which some writers copy unescaped.

    Only white space separates two outlines. So a tag ends at the last ``>`` before the next outline
    tag, and a value at the last quote before the next attribute.
    """
    parts = _OUTLINE.split(text)
    tags = (_requoted_tag(mark + rest) for mark, rest in zip(parts[1::2], parts[2::2], strict=True))
    return parts[0] + b"".join(tags)


def _requoted_tag(tag: bytes) -> bytes:
    end = tag.rfind(b">")
    if not tag.startswith(b"<outline") or end < 0:
        return tag
    close = end - 1 if tag[end - 1 : end] == b"/" else end
    pieces = _ATTRIBUTE.split(tag[:close])
    return pieces[0] + b"".join(map(_requoted_value, pieces[1::2], pieces[2::2])) + tag[close:]


def _requoted_value(name: bytes, rest: bytes) -> bytes:
    value, quote, after = rest.rpartition(b'"')
    if not quote:
        return b" " + name + b'="' + rest
    for raw, escaped in ((b"<", b"&lt;"), (b">", b"&gt;"), (b'"', b"&quot;")):
        value = value.replace(raw, escaped)
    return b" " + name + b'="' + value + b'"' + after


def _strict(text: bytes) -> etree._Element:
    return etree.fromstring(text, build_safe_parser())


def _too_long(limits: Limits) -> TooLargeError:
    return TooLargeError(
        "The file is larger than %(mb)s MB. Split it into smaller files.",
        mb=f"{limits.max_bytes / (1 << 20):.3g}",
    )


def _too_deep(line: int, limit: int) -> TooLargeError:
    return TooLargeError(
        "Line %(line)s: outlines can be nested at most %(most)s levels deep.", line=line, most=limit
    )


def _sentence(error: etree.XMLSyntaxError) -> str:
    return (error.msg or "it can't be read").rsplit(", line ", 1)[0].rstrip(".") + "."


def _name(element: etree._Element) -> str:
    return etree.QName(element).localname.lower()


def _fields(element: etree._Element) -> dict[str, str]:
    """Return the attributes that Eventr reads, by lower-case name.

    lxml searches all attributes for each value: reading all values of 400,000 would take half an hour.
    """
    names = {str(name).lower(): name for name in element.keys()}  # noqa: SIM118 — an element isn't a dict
    return {name: str(element.get(names[name]) or "") for name in _READ if name in names}


def _cut_about(markup: str) -> str:
    """Return a description as plain text, cut between words."""
    text = extract_plain_text(markup[:_ABOUT_RAW])
    return text if len(text) <= ABOUT_MAX else text[: ABOUT_MAX - 1].rsplit(" ", 1)[0] + "…"


def _line(element: etree._Element) -> int:
    number: object = element.sourceline
    return number if isinstance(number, int) else 0


def _title(root: etree._Element) -> str:
    found = root.find("{*}head/{*}title")
    found = root.find("channel/title") if found is None else found
    return extract_plain_text(found.text or "") if found is not None else ""


def _place(places: dict[tuple[str, ...], etree._Element], path: tuple[str, ...]) -> etree._Element:
    if path not in places:
        name = _legal(path[-1])
        places[path] = etree.SubElement(_place(places, path[:-1]), "outline", text=name, title=name)
    return places[path]


def _legal(text: str) -> str:
    """Return the text without characters that XML can't hold (XML 1.0 §2.2)."""
    return "".join(
        c for c in text if c in "\t\n\r" or " " <= c <= "\ud7ff" or "\ue000" <= c <= "\ufffd" or c > "\uffff"
    )
