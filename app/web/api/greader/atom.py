"""Streams of the Google Reader API as Atom (RFC 4287), for newsboat and Liferea."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Sequence
from typing import Final

from lxml import etree

from app import clock
from app.models.sync.sync import SyncItem
from app.web.api.greader import names, shapes
from app.web.context import get_web
from app.web.view.pictures import sign_files

_ATOM: Final = "http://www.w3.org/2005/Atom"
_GR: Final = "http://www.google.com/schemas/reader/atom/"
_SCHEME: Final = "http://www.google.com/reader/"
_NAMESPACES: dict[str, str] = {None: _ATOM, "gr": _GR}  # type: ignore[dict-item]  # the stubs lack None as a key
_NO_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def render_stream(
    stream_id: str, title: str, items: Sequence[SyncItem], end: int | None, *, social: bool
) -> bytes:
    """Return a stream's page. An entry's id is its long item id, which apps send back unchanged."""
    feed = etree.Element(f"{{{_ATOM}}}feed", nsmap=_NAMESPACES)
    here = f"{get_web().base_url}/reader/atom/{stream_id}"
    _add(feed, "id", f"tag:google.com,2005:reader/{stream_id}")
    _add(feed, "title", title or stream_id)
    newest = max((item.entry.updated or item.entry.at for item in items), default=clock.now())
    _add(feed, "updated", _time(newest))
    _add(feed, "link", "", rel="self", href=here)
    _add(feed, "link", "", rel="alternate", href=get_web().base_url, type="text/html")
    if end is not None:
        etree.SubElement(feed, f"{{{_GR}}}continuation").text = names.format_continuation(end)
    for item in items:
        _entry(etree.SubElement(feed, f"{{{_ATOM}}}entry"), item, social=social)
    return etree.tostring(feed, xml_declaration=True, encoding="utf-8")


def _entry(node: etree._Element, item: SyncItem, *, social: bool) -> None:
    entry = item.entry
    node.set(f"{{{_GR}}}crawl-timestamp-msec", str(entry.id // 1000))
    published = entry.published or entry.at
    _add(node, "id", names.format_item_id(entry.id))
    # Titles are plain text. In a title of type "html", each "<" must be escaped twice.
    _add(node, "title", _escaped(shapes.build_title(item)), type="html")
    _add(node, "published", _time(published))
    _add(node, "updated", _time(max(published, entry.updated or published)))
    _add(node, "link", "", rel="alternate", href=shapes.find_address(item), type="text/html")
    for enclosure in sign_files(entry.enclosures, entry.url):
        more = {"length": str(enclosure.length)} if enclosure.length else {}
        _add(node, "link", "", rel="enclosure", href=enclosure.url, type=enclosure.type or "", **more)
    author = etree.SubElement(node, f"{{{_ATOM}}}author")
    _add(author, "name", entry.author or item.feed_title)
    _add(node, "content", shapes.render_content(item), type="html")
    source = etree.SubElement(node, f"{{{_ATOM}}}source")
    stream_id = shapes.get_origin_id(item, social=social)
    source.set(f"{{{_GR}}}stream-id", stream_id)
    _add(source, "id", f"tag:google.com,2005:reader/{stream_id}")
    _add(source, "title", item.feed_title)
    if item.site_url:
        _add(source, "link", "", rel="alternate", href=item.site_url, type="text/html")
    for category in shapes.list_categories(item):
        _add(node, "category", "", term=category, scheme=_SCHEME, label=_short(category))


def _short(category: str) -> str:
    """Return a category's short name. newsboat only looks at these: "read", "fresh", "kept-unread"."""
    if not category.startswith(names.LABEL):
        return category.rsplit("/", 1)[-1]
    name = category.removeprefix(names.LABEL)
    return f"label/{name}" if name in names.RESERVED else name


def _add(parent: etree._Element, tag: str, words: str, **attributes: str) -> None:
    clean = {name: _clean(value) for name, value in attributes.items()}
    node = etree.SubElement(parent, f"{{{_ATOM}}}{tag}", clean)
    if words:
        node.text = _clean(words)


def _escaped(words: str) -> str:
    return words.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _clean(words: str) -> str:
    return _NO_XML.sub("", words)


def _time(when: dt.datetime) -> str:
    return when.astimezone(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
