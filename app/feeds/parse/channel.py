"""Channel elements: handlers for a feed's own fields, and the walk from each format's root to its entries."""

from __future__ import annotations

import copy
from collections.abc import Callable
from itertools import islice
from typing import TypeAlias

import xxhash
from lxml.etree import _Element

from app.errors import ParseError
from app.feeds.html.text import parse_language_tag
from app.feeds.parse import entry as entries
from app.feeds.parse.draft import EntryDraft, FeedDraft
from app.feeds.parse.markup import get_text, read_text_construct
from app.feeds.parse.names import (
    ATOM,
    ATOM_10,
    RDF_RESOURCE,
    RSS,
    RSS_10,
    RSS_11,
    XML_BASE,
    XML_LANG,
    HandlerTable,
    canonicalise_tag,
    is_known_namespace,
    split,
)
from app.models.feeds.parsed import Format

Handler: TypeAlias = Callable[[FeedDraft, _Element], None]

_PERIODS = {"hourly": 60, "daily": 1440, "weekly": 10080, "monthly": 43200, "yearly": 525600}
_LONGEST_TTL = 525600
#: Elements whose prefix is that of the format, and the children of the root that are searched for them.
_STRUCTURE = frozenset(("rss", "channel", "feed", "entry", "item"))
_STRUCTURE_DEPTH = 32
#: Raised when entries are parsed differently than before; then all entries are parsed again.
_EDITION = 3


class Reader:
    """The two tables for one family of formats (RSS or Atom)."""

    def __init__(self, home: str, root_space: str = "", root_prefix: str = "") -> None:
        self._root = home, root_space, root_prefix
        self.feed: HandlerTable[Handler] = HandlerTable(HANDLERS, *self._root)
        self.entry: HandlerTable[entries.Handler] = HandlerTable(entries.HANDLERS, *self._root)

    def canonicalise_name(self, el: _Element) -> str:
        return canonicalise_tag(el.tag, *self._root)

    def read(self, draft: FeedDraft, el: _Element) -> None:
        """Read a channel or feed element with all its entries."""
        draft.base = draft.ctx.resolve_url(draft.base, el.get(XML_BASE)) or draft.base
        draft.language = draft.language or parse_language_tag(el.get(XML_LANG, ""))
        table, left_out = self.feed, self._left_out(draft, el)
        for child in el:
            handler = table[child.tag]
            if handler is None:
                continue
            if handler is _item:
                if left_out:
                    left_out -= 1
                else:
                    self.read_item(draft, child)
            elif handler is _items:
                self.read_items(draft, child)
            else:
                handler(draft, child)

    def read_item(self, draft: FeedDraft, el: _Element) -> None:
        """Read one entry, unless the limit is reached."""
        if draft.is_full():
            return
        if not draft.entries:
            draft.setting = _setting(draft, el)
        found = self._entry(draft, el)
        if not found.author_rank and draft.author:
            found.author = draft.author
        draft.entries.append(found.finish())

    def read_items(self, draft: FeedDraft, parent: _Element) -> None:
        """Read the entries that are children of an element."""
        items = [child for child in parent if self.feed[child.tag] is _item]
        for child in items[self._left_out(draft, parent) :]:
            self.read_item(draft, child)

    def _entry(self, draft: FeedDraft, el: _Element) -> EntryDraft:
        base = draft.base
        if draft.ctx.has_bases:
            base = draft.ctx.resolve_url(base, el.get(XML_BASE)) or base
        return entries.read_entry(EntryDraft(draft.ctx, base), el, self.entry)

    def _left_out(self, draft: FeedDraft, parent: _Element) -> int:
        if len(parent) <= draft.ctx.limits.items:
            return 0
        items = [child for child in parent if self.feed[child.tag] is _item]
        # on a copy, because reading moves inline markup out of an element
        return draft.count_skipped(items, lambda el: self._entry(draft, copy.deepcopy(el)))


def read_root(draft: FeedDraft, root: _Element) -> None:
    """Determine the format from the root element and read everything below it.

    Raises:
        ParseError: ``html_page``, ``not_a_feed`` or ``broken_feed``.
    """
    space, local = split(root.tag)
    local = local.lower()
    name = local.rpartition(":")[2]
    draft.base = draft.ctx.base
    if name == "feed":
        draft.format = _atom_format(space, root.get("version"))
        _reader(ATOM, space, root).read(draft, root)
    elif name == "entry":
        draft.format = _atom_format(space, root.get("version"))
        _reader(ATOM, space, root).read_item(draft, root)
    elif name in ("rss", "rdf", "channel"):
        _read_rss(draft, root, space, name)
    elif name == "html":
        raise ParseError("html_page", "the root element is html")
    else:
        raise ParseError("not_a_feed", f"the root element is {local[:40]}")


def _read_rss(draft: FeedDraft, root: _Element, space: str, name: str) -> None:
    reader = _reader(RSS, space if name != "rdf" else "", root)
    if name == "channel":
        draft.format = Format.RSS11 if space == RSS_11 else Format.RSS20
        reader.read(draft, root)
        return
    draft.format = _rdf_format(root) if name == "rdf" else _rss_format(root.get("version"))
    draft.base = draft.ctx.resolve_url(draft.base, root.get(XML_BASE)) or draft.base
    draft.language = parse_language_tag(root.get(XML_LANG, ""))
    channels = 0
    for child in root:
        found = reader.canonicalise_name(child)
        if found == "channel":
            channels += 1
            reader.read(draft, child)
        elif found == "image":
            _image(draft, child)
    if name == "rdf" or not draft.entries:
        reader.read_items(draft, root)
    if not channels and not draft.entries:
        raise ParseError("broken_feed", f"{name} without channel and items")


def _setting(draft: FeedDraft, el: _Element) -> bytes:
    """Hash everything outside an entry's element that its fields depend on."""
    ctx, limits, parent = draft.ctx, draft.ctx.limits, el.getparent()
    spaces = () if parent is None else tuple(parent.nsmap.items())
    outer = [ancestor.tag for ancestor in el.iterancestors()]
    mend = ctx.repair_text.__name__ if ctx.repair_text else ""
    parts = (_EDITION, ctx.base, draft.base, draft.author, mend, outer, spaces)
    around = repr((*parts, limits.html, limits.title, limits.depth))
    return xxhash.xxh3_64_digest(around.encode("utf-8", "surrogatepass"))


def _rss_format(version: str | None) -> Format:
    return Format.RSS09X if (version or "").strip().startswith("0.9") else Format.RSS20


def _rdf_format(root: _Element) -> Format:
    spaces = {split(child.tag)[0] for child in islice(root, 64)}
    return Format.RSS10 if RSS_10 in spaces or not any("netscape" in s for s in spaces) else Format.RSS09X


def _atom_format(space: str, version: str | None) -> Format:
    if space == ATOM_10:
        return Format.ATOM10
    return Format.ATOM10 if not version and space == "" else Format.ATOM03


def _reader(home: str, space: str, root: _Element) -> Reader:
    prefix = _find_undeclared_prefix(root)
    if prefix or (space and not is_known_namespace(space)):
        return Reader(home, space, prefix)
    return _READERS[home]


def _find_undeclared_prefix(root: _Element) -> str:
    """Return the prefix of the feed's structure if nothing declares its namespace, else ""."""
    for el in (root, *islice(root, _STRUCTURE_DEPTH)):
        tag = el.tag
        if ":" in tag and tag[0] != "{":
            prefix, _, name = tag.lower().partition(":")
            if name in _STRUCTURE:
                return prefix
    return ""


# -- handlers


def _item(draft: FeedDraft, el: _Element) -> None:
    """Mark entries in the table; the reader handles them itself."""


def _items(draft: FeedDraft, el: _Element) -> None:
    """Mark RSS 1.1's list of items in the table; the reader handles it itself."""


def _title(draft: FeedDraft, el: _Element) -> None:
    draft.offer_title(9, get_text(el))


def _weak_title(draft: FeedDraft, el: _Element) -> None:
    draft.offer_title(5, get_text(el))


def _atom_title(draft: FeedDraft, el: _Element) -> None:
    draft.offer_title(8, read_text_construct(el)[0])


def _link(draft: FeedDraft, el: _Element) -> None:
    draft.offer_link(9, el.text or el.get("href") or el.get(RDF_RESOURCE))


def _atom_link(draft: FeedDraft, el: _Element) -> None:
    href = el.get("href")
    rel = (el.get("rel") or "alternate").strip().lower().rpartition("/")[2]
    if rel == "alternate":
        kind = el.get("type") or "text/html"
        draft.offer_link(8 if "html" in kind else 6, href)
    elif rel == "self":
        draft.self_url = draft.self_url or draft.ctx.resolve_url(draft.base, href)
    elif rel == "hub":
        draft.hub = draft.hub or draft.ctx.resolve_url(draft.base, href)


def _description(draft: FeedDraft, el: _Element) -> None:
    draft.offer_description(9, get_text(el))


def _weak_description(draft: FeedDraft, el: _Element) -> None:
    draft.offer_description(5, get_text(el))


def _atom_subtitle(draft: FeedDraft, el: _Element) -> None:
    draft.offer_description(8, read_text_construct(el)[0])


def _language_element(draft: FeedDraft, el: _Element) -> None:
    draft.language = parse_language_tag(el.text or "") or draft.language


def _author(draft: FeedDraft, el: _Element) -> None:
    if not draft.author:
        draft.author = draft.ctx.clean_person((entries.find_person_name(el) if len(el) else el.text) or "")


def _atom_author(draft: FeedDraft, el: _Element) -> None:
    name = draft.ctx.clean_person(entries.find_person_name(el) or "")
    draft.author = draft.ctx.append_name(draft.author, name)


def _ttl(draft: FeedDraft, el: _Element) -> None:
    text = (el.text or "").strip()
    if text.isascii() and text.isdecimal() and len(text) < 10 and int(text) > 0:
        draft.ttl = min(int(text), _LONGEST_TTL)


def _period(draft: FeedDraft, el: _Element) -> None:
    draft.period = _PERIODS.get((el.text or "").strip().lower())


def _frequency(draft: FeedDraft, el: _Element) -> None:
    text = (el.text or "").strip()
    if text.isascii() and text.isdecimal() and len(text) < 6:
        draft.frequency = max(1, int(text))


def _skip_hours(draft: FeedDraft, el: _Element) -> None:
    texts = [(child.text or "").strip() for child in islice(el, 64)]
    # UserLand counts 1–24, Netscape 0–23: both midnights are hour 0
    hours = {int(t) % 24 for t in texts if t.isascii() and t.isdecimal() and len(t) < 3 and int(t) <= 24}
    draft.skip_hours = draft.skip_hours | hours


def _image(draft: FeedDraft, el: _Element) -> None:
    for child in el:
        if canonicalise_tag(child.tag, RSS) == "url":
            draft.offer_icon(6, child.text)


def _attribute_icon(draft: FeedDraft, el: _Element) -> None:
    draft.offer_icon(4, el.get("href") or el.get("url") or el.text)


def _icon(draft: FeedDraft, el: _Element) -> None:
    draft.offer_icon(9, el.text)


def _logo(draft: FeedDraft, el: _Element) -> None:
    draft.offer_icon(5, el.text)


def _block(draft: FeedDraft, el: _Element) -> None:
    if not el.get("id"):  # of the Podcast Namespace: in this one directory
        draft.block(el.text)


def _new_url(draft: FeedDraft, el: _Element) -> None:
    draft.offer_new_url(el.text)


HANDLERS: dict[str, Handler] = {
    "item": _item,
    "items": _items,
    "title": _title,
    "link": _link,
    "description": _description,
    "tagline": _weak_description,
    "subtitle": _weak_description,
    "language": _language_element,
    "managingeditor": _author,
    "author": _author,
    "ttl": _ttl,
    "skiphours": _skip_hours,
    "image": _image,
    "dc:title": _weak_title,
    "dc:description": _weak_description,
    "dc:language": _language_element,
    "dc:creator": _author,
    "sy:updateperiod": _period,
    "sy:updatefrequency": _frequency,
    "itunes:author": _author,
    "itunes:summary": _weak_description,
    "itunes:subtitle": _weak_description,
    "itunes:image": _attribute_icon,
    "itunes:block": _block,
    "googleplay:block": _block,
    "podcast:block": _block,
    "itunes:new-feed-url": _new_url,
    "googleplay:image": _attribute_icon,
    "media:thumbnail": _attribute_icon,
    "webfeeds:icon": _icon,
    "webfeeds:logo": _logo,
    "atom:entry": _item,
    "atom:title": _atom_title,
    "atom:link": _atom_link,
    "atom:subtitle": _atom_subtitle,
    "atom:tagline": _atom_subtitle,
    "atom:author": _atom_author,
    "atom:icon": _icon,
    "atom:logo": _logo,
}
_READERS = {home: Reader(home) for home in (RSS, ATOM)}
