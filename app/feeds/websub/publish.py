"""Published streams: shared streams as Atom 1.0 (RFC 4287) and JSON Feed 1.1, with each share's chain.

docs/sharing-feeds.md specifies the extension that carries chains: another server can rebuild the chains
from it alone. Published feeds have no user and no language, so nothing here is translated.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Sequence
from html import escape
from typing import Any, Final
from urllib.parse import quote

from lxml import etree

from app.feeds.html import text
from app.feeds.websub import atom
from app.feeds.websub.atom import LANGUAGE, add_author, add_element, add_link, clean_text, format_time
from app.models.feeds.chain import (
    JSON_NAME,
    NAMESPACE,
    PREFIX,
    Chain,
    Hop,
    make_share_id,
    make_tag_uri,
    to_json,
    to_xml,
)
from app.models.media.attachment import Attachment
from app.models.reading.anchors import scope_anchors
from app.models.sharing.pages import Hop as Passed
from app.models.sharing.pages import Publication, SharedItem
from app.models.sharing.sharing import Profile, Sharer, ShareVisibility

#: The version of the output: increase it with each change, so that readers fetch their feeds again.
VERSION: Final = 2
_NAMESPACES: dict[str, str] = {None: atom.NAMESPACE, PREFIX: NAMESPACE}  # type: ignore[dict-item]  # not in the stubs
_TITLE = 80


def build_page_url(origin: str, handle: str, share_id: int | None = None) -> str:
    """Return the address of someone's page, or of a share on it."""
    whole = f"{origin}/@{quote(handle)}"
    return whole if share_id is None else f"{whole}/{share_id}"


def find_last_modified(profile: Profile, items: Sequence[SharedItem]) -> dt.datetime:
    """Return when the newest of these items was shared or edited, to the second."""
    began = dt.datetime.fromtimestamp(profile.feed_id / 1e6, dt.UTC)
    return max((i.changed for i in items), default=began).replace(microsecond=0)


def render_atom(publication: Publication) -> bytes:
    """Return an Atom feed."""
    who, here = publication.profile, build_page_url(publication.origin, publication.profile.handle)
    feed = etree.Element(f"{{{atom.NAMESPACE}}}feed", nsmap=_NAMESPACES)
    add_element(feed, "id", make_tag_uri(publication.origin, "stream", who.feed_id))
    add_element(feed, "title", who.name)
    if who.bio:
        add_element(feed, "subtitle", who.bio)
    add_element(feed, "updated", format_time(find_last_modified(who, publication.items)))
    add_author(feed, who.name, here)
    add_link(feed, "self", f"{here}/atom.xml", "application/atom+xml")
    add_link(feed, "alternate", here, "text/html")
    if publication.hub:
        add_link(feed, "hub", publication.hub)
    for item in publication.items:
        _entry(etree.SubElement(feed, f"{{{atom.NAMESPACE}}}entry"), publication, item)
    return etree.tostring(feed, xml_declaration=True, encoding="utf-8")


def _entry(node: etree._Element, what: Publication, item: SharedItem) -> None:
    here, original = build_page_url(what.origin, item.by.handle, item.id), _original(item)
    add_element(node, "id", make_share_id(what.origin, item.id))
    add_element(node, "title", _title(item))
    add_element(node, "published", format_time(item.share.at))
    add_element(node, "updated", format_time(item.changed))
    if author := _written_by(item):
        add_author(node, author)
    add_link(node, "alternate", original or here, "text/html")
    if original:
        add_link(node, "related", here, "text/html")
    for address in _via(what.origin, item):
        add_link(node, "via", address)
    for url, kind, one in _files(what.origin, item):
        size = {} if one.is_picture else {"length": str(one.size)}
        add_link(node, "enclosure", url, kind, title=one.alt or one.name, **size)
    html = _content(what, item) + _render_pictures(what.origin, item)
    content = add_element(node, "content", html, type="html")
    if item.language:
        content.set(LANGUAGE, item.language)
    node.append(
        etree.fromstring(f'<x xmlns:{PREFIX}="{NAMESPACE}">{to_xml(build_chain(what.origin, item))}</x>')[0]
    )


def render_json_feed(publication: Publication) -> bytes:
    """Return a JSON Feed."""
    who, here = publication.profile, build_page_url(publication.origin, publication.profile.handle)
    feed = {
        "version": "https://jsonfeed.org/version/1.1",
        "title": who.name,
        "home_page_url": here,
        "feed_url": f"{here}/feed.json",
        **({"description": who.bio} if who.bio else {}),
        "authors": [{"name": who.name, "url": here}],
        **({"hubs": [{"type": "WebSub", "url": publication.hub}]} if publication.hub else {}),
        "items": [_item(publication, item) for item in publication.items],
    }
    return json.dumps(feed, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


def _item(what: Publication, item: SharedItem) -> dict[str, Any]:
    author, original, files = _written_by(item), _original(item), _files(what.origin, item)
    return {
        "id": make_share_id(what.origin, item.id),
        "url": build_page_url(what.origin, item.by.handle, item.id),
        **({"external_url": original} if original else {}),
        "title": _title(item),
        "content_html": _content(what, item) + _render_pictures(what.origin, item),
        **({"image": image} if (image := _image(what, item)) else {}),
        "date_published": format_time(item.share.at),
        "date_modified": format_time(item.changed),
        **({"authors": [{"name": author}]} if author else {}),
        **({"language": item.language} if item.language else {}),
        **({"attachments": [_attachment(*found) for found in files]} if files else {}),
        JSON_NAME: to_json(build_chain(what.origin, item), NAMESPACE),
    }


def build_chain(origin: str, item: SharedItem) -> Chain:
    """Return the chain of a share from the root, over other servers and this one, the share itself last."""
    hops = [*reversed(item.way), Passed(ShareVisibility.SEEN, item.by)]
    here = tuple(_hop(origin, h.by) if h.by else Hop(state=h.link.value) for h in hops)
    if remote := item.entry.remote:
        return remote._replace(hops=(*remote.hops, *here))
    # A post is its own first share.
    return Chain(here, _original(item) or here[0].url, item.entry.title)


def _hop(origin: str, by: Sharer) -> Hop:
    return Hop(
        make_share_id(origin, by.share_id), by.name, build_page_url(origin, by.handle, by.share_id), by.at
    )


def _via(origin: str, item: SharedItem) -> list[str]:
    """Return where the share came from: its source share and the root entry."""
    source = item.way[0].by if item.way else None
    found = [build_page_url(origin, source.handle, source.share_id)] if source else []
    return [*found, *filter(None, [_original(item)])]


def _original(item: SharedItem) -> str | None:
    return _web(item.entry.url)


def _web(url: str | None) -> str | None:
    """Return the address if it is a web address, else None."""
    return url if url and url.startswith(("http://", "https://")) else None


def _title(item: SharedItem) -> str:
    """Return the title; without one the beginning of the text, because every reader shows a title."""
    words = item.entry.title or text.make_excerpt(_join_texts(item), _TITLE)
    return words or (f"({item.entry.lost} share)" if item.entry.lost else item.by.name)


def _written_by(item: SharedItem) -> str:
    """Return the author of the shared entry; "" if unknown or the same as the sharer."""
    return "" if item.share.is_post else item.entry.author or item.blog.title


def _content(what: Publication, item: SharedItem) -> str:
    """Return the text of an item, with the pictures where this server shows them."""
    words = _join_texts(item)
    return what.pictures.sign_html(words, item.entry.url) if what.pictures else words


def _image(what: Publication, item: SharedItem) -> str | None:
    image = _web(item.entry.image)
    return what.pictures.sign_url(image, item.entry.url) if what.pictures else image


def _join_texts(item: SharedItem) -> str:
    """Return the root entry's text below the sharer's note; both are sanitized."""
    body = scope_anchors(item.entry.content or item.entry.summary, item.id)
    if item.share.is_post or not item.note:
        return body
    return f"<blockquote>{item.note}</blockquote>{body}"


def _files(origin: str, item: SharedItem) -> list[tuple[str, str, Attachment]]:
    """Return address and media type of each file that the sharer added; a picture is one that Eventr drew."""
    return [
        (f"{origin}/m/{one.file_id}/get", "image/webp" if one.is_picture else one.type, one)
        for one in item.share.files
    ]


def _attachment(url: str, kind: str, one: Attachment) -> dict[str, Any]:
    size = {} if one.is_picture else {"size_in_bytes": one.size}
    return {"url": url, "mime_type": kind, "title": one.alt or one.name, **size}


def _render_pictures(origin: str, item: SharedItem) -> str:
    return "".join(
        f'<p><img src="{origin}/m/{one.file_id}/w1280" alt="{escape(clean_text(one.alt))}"'
        f' width="{one.width}" height="{one.height}"></p>'
        for one in item.share.files
        if one.is_picture
    )
