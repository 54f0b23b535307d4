"""A person's list as Atom 1.0 (RFC 4287) and JSON Feed 1.1, for other readers and programs.

Like other published feeds these have no language of their own, so nothing here is translated.
"""

from __future__ import annotations

import datetime as dt
import json
from html import escape
from typing import Any

from lxml import etree

from app.feeds.html import text
from app.feeds.websub import atom
from app.feeds.websub.atom import LANGUAGE, add_author, add_element, add_link, format_time
from app.models.feeds.chain import make_tag_uri
from app.models.feeds.parsed import Enclosure
from app.models.reading.stream import EntryRow
from app.models.sharing.stream_feeds import StreamFeed

_NAMESPACES: dict[str, str] = {None: atom.NAMESPACE}  # type: ignore[dict-item]  # not in the stubs
_TITLE = 80


def render_atom(feed: StreamFeed, origin: str) -> bytes:
    """Return an Atom feed.

    Args:
        origin: this server's own address, without a trailing slash; a part of all ids.
    """
    root = etree.Element(f"{{{atom.NAMESPACE}}}feed", nsmap=_NAMESPACES)
    began = dt.datetime.fromtimestamp(feed.token_id / 1e6, dt.UTC)
    add_element(root, "id", make_tag_uri(origin, "list", feed.token_id))
    add_element(root, "title", feed.title)
    add_element(root, "updated", format_time(max((row.at for row in feed.rows), default=began)))
    add_link(root, "self", feed.url, "application/atom+xml")
    add_link(root, "alternate", feed.home, "text/html")
    for row in feed.rows:
        _add_entry(etree.SubElement(root, f"{{{atom.NAMESPACE}}}entry"), row, origin)
    return etree.tostring(root, xml_declaration=True, encoding="utf-8")


def _add_entry(node: etree._Element, row: EntryRow, origin: str) -> None:
    add_element(node, "id", make_tag_uri(origin, "entry", row.id))
    add_element(node, "title", _title(row))
    add_element(node, "published", format_time(row.published or row.at))
    add_element(node, "updated", format_time(row.published or row.at))
    add_author(node, row.author or row.feed_title)
    add_link(node, "alternate", _url(row, origin), "text/html")
    for file in _files(row):
        length = {"length": str(file.length)} if file.length else {}
        add_link(node, "enclosure", file.url, file.type or "", **length)
    content = add_element(node, "content", _html(row), type="html")
    if row.language:
        content.set(LANGUAGE, row.language)
    source = etree.SubElement(node, f"{{{atom.NAMESPACE}}}source")
    add_element(source, "title", row.feed_title)


def render_json_feed(feed: StreamFeed, origin: str) -> bytes:
    """Return a JSON Feed; arguments as for :func:`render_atom`."""
    document = {
        "version": "https://jsonfeed.org/version/1.1",
        "title": feed.title,
        "home_page_url": feed.home,
        "feed_url": feed.url,
        "items": [_item(row, origin) for row in feed.rows],
    }
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


def _item(row: EntryRow, origin: str) -> dict[str, Any]:
    files = [
        {
            "url": file.url,
            "mime_type": file.type or "application/octet-stream",
            **({"size_in_bytes": file.length} if file.length else {}),
            **({"duration_in_seconds": file.duration} if file.duration else {}),
        }
        for file in _files(row)
    ]
    return {
        "id": make_tag_uri(origin, "entry", row.id),
        "url": _url(row, origin),
        "title": _title(row),
        "content_html": _html(row),
        **({"image": row.image} if row.image else {}),
        "date_published": format_time(row.published or row.at),
        "authors": [{"name": row.author or row.feed_title}],
        **({"language": row.language} if row.language else {}),
        **({"attachments": files} if files else {}),
    }


def _title(row: EntryRow) -> str:
    """Return the title; without one the beginning of the text, because every reader shows a title."""
    return row.title or text.make_excerpt(row.html or row.excerpt, _TITLE) or row.feed_title


def _url(row: EntryRow, origin: str) -> str:
    """Return the address of the entry's page, else of the entry in Eventr."""
    url = row.url or ""
    return url if url.startswith(("https://", "http://")) else f"{origin}/entries/{row.id}"


def _html(row: EntryRow) -> str:
    """Return the text; of one that is too long for a list, the beginning."""
    return f"<p>{escape(row.excerpt)}</p>" if row.html is None else row.html


def _files(row: EntryRow) -> list[Enclosure]:
    return [file for file in row.enclosures if file.url.startswith(("https://", "http://"))]
