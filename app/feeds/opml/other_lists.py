"""Lists of feeds in other forms than OPML: FOAF (Planet's ``foafroll.xml``), RSS and JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from lxml import etree

from app.feeds.discover.page import looks_like_feed
from app.feeds.html.text import extract_plain_text
from app.models.imports.opml import Outline

_RDF = "{http://www.w3.org/1999/02/22-rdf-syntax-ns#}"
_RSS1 = "{http://purl.org/rss/1.0/}"
_FOAF = "{http://xmlns.com/foaf/0.1/}"
_DC = "{http://purl.org/dc/elements/1.1/}"
_FEED_TYPES = ("application/rss+xml", "application/atom+xml", "application/feed+json")

#: Names of a JSON list inside an object, and of the fields of its rows, best first.
_LISTS = ("subscriptions", "feeds", "items")
_URLS = ("xmlUrl", "xml_url", "feed_url", "feedUrl", "feed", "url", "id")
_TITLES = ("title", "name", "text")
_SITES = ("htmlUrl", "html_url", "site_url", "siteUrl", "site", "link", "website")
_FOLDERS = ("folder", "category", "categories", "label", "tag")


def list_xml_feeds(root: etree._Element) -> Iterator[Outline]:
    """Return the feeds that a FOAF or RSS list names; nothing for a feed and for other documents."""
    name = etree.QName(root).localname.lower()
    if name == "rdf":
        return _list_foaf(root)
    return _list_rss(root) if name == "rss" else iter(())


def _list_foaf(root: etree._Element) -> Iterator[Outline]:
    if root.find(f"{_RSS1}item") is not None:
        return  # a feed: RSS 1.0
    for weblog in root.iter(f"{_FOAF}weblog"):
        channel = weblog.find(f".//{_RSS1}channel")
        document = weblog.find(f"{_FOAF}Document")
        site = _get_address(weblog if document is None else document)
        url = site if channel is None else _get_address(channel)
        title = "" if document is None else document.findtext(f"{_DC}title", "")
        person = weblog.getparent()
        if not title and person is not None:
            title = person.findtext(f"{_FOAF}name", "")
        if url:
            yield Outline(url, extract_plain_text(title), site, (), _line(weblog))


def _get_address(element: etree._Element) -> str | None:
    return element.get(f"{_RDF}about") or element.get(f"{_RDF}resource")


def _list_rss(root: etree._Element) -> Iterator[Outline]:
    """Return the feeds of a channel whose items all lead to feeds; any other channel is a feed itself."""
    found: list[Outline] = []
    for item in root.iterfind("channel/item"):
        link = item.findtext("link", "").strip()
        typed = (e.get("url") for e in item.iterfind("enclosure") if e.get("type") in _FEED_TYPES)
        url = next(typed, None) or (link if _is_feed_address(link) else None)
        if not url:
            return
        title = extract_plain_text(item.findtext("title", ""))
        found.append(Outline(url, title, link if link != url else None, (), _line(item)))
    yield from found


def _is_feed_address(url: str) -> bool:
    try:
        return looks_like_feed(url)
    except ValueError:
        return False


def list_json_feeds(text: bytes) -> Iterator[Outline]:
    """Return the feeds of a JSON list: an array of addresses or objects, alone or in an object.

    Raises:
        ValueError: the text isn't JSON, or is nested too deeply.
    """
    try:
        document = json.loads(text)
    except RecursionError as e:
        raise ValueError("nested too deeply") from e
    if isinstance(document, dict) and "jsonfeed.org" not in str(document.get("version", ""))[:100]:
        document = next((document[name] for name in _LISTS if isinstance(document.get(name), list)), None)
    for row in document if isinstance(document, list) else ():
        fields = row if isinstance(row, dict) else {"url": row}
        # Google Reader and programs like it put this before the address.
        url = _pick(fields, _URLS).removeprefix("feed/")
        if "." in url or "://" in url:
            title = extract_plain_text(_pick(fields, _TITLES))
            folder = extract_plain_text(_pick(fields, _FOLDERS))
            yield Outline(url, title, _pick(fields, _SITES) or None, (folder,) if folder else ())


def _pick(fields: Mapping[str, Any], names: tuple[str, ...]) -> str:
    """Return the first of these fields that is text, or is an object or a list of objects with a name."""
    for name in names:
        value = fields.get(name)
        if isinstance(value, list):
            value = value[0] if value else None
        if isinstance(value, dict):
            value = value.get("label") or value.get("title") or value.get("name")
        if isinstance(value, str) and value.strip():
            return value.strip()
    return ""


def _line(element: etree._Element) -> int:
    number: object = element.sourceline
    return number if isinstance(number, int) else 0
