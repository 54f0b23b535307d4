"""JSON objects of the Google Reader API, with every field whose absence breaks some app."""

from __future__ import annotations

import datetime as dt
import functools
import html
import re
import unicodedata
from typing import Any
from urllib.parse import quote

from flask import g

from app import clock
from app.models.feeds.parsed import Enclosure
from app.models.reading.anchors import scope_anchors
from app.models.sharing.sharing import Sharer, ShareVisibility
from app.models.sync.sync import SyncFeed, SyncItem
from app.web.api.greader import names
from app.web.api.greader.wire import encode_json, is_newsflash
from app.web.context import get_web
from app.web.view.attached import render_signed
from app.web.view.pictures import sign_files, sign_pictures
from app.web.view.rows import truncate_text

_LOST = {ShareVisibility.REMOVED: "removed share", ShareVisibility.PRIVATE: "private share"}
#: Languages that are written from right to left (CLDR), or a language tag that names such a script.
_RTL = re.compile(
    r"(?:ar|arc|ckb|dv|fa|glk|he|iw|ji|ks|lrc|mzn|nqo|pnb|prs|ps|sd|syr|ug|ur|yi)(?![a-z])"
    r"|[a-z]{2,3}[-_](?:arab|hebr|nkoo|syrc|thaa)(?![a-z])",
    re.ASCII | re.IGNORECASE,
)
_STRONG = frozenset({"L", "R", "AL"})
#: Characters of a text that stands for a missing title.
TITLE = 100
_SubscriptionParts = tuple[int, str, str, str, str | None, tuple[str, ...], int]
#: The backslashes are part of the value.
_LIFEREA_READ = r"user\/-\/state\/com.google\/read"


def build_subscription(feed: SyncFeed, handle: str | None) -> dict[str, Any]:
    """Return a subscription; ``handle``: the person whose stream it is, None for a feed of the web."""
    return _build_subscription(_list_parts(feed, handle))


def encode_subscription(feed: SyncFeed, handle: str | None) -> bytes:
    """Return the JSON of :meth:`build_subscription`."""
    return _encode_subscription(_list_parts(feed, handle))


def _list_parts(feed: SyncFeed, handle: str | None) -> _SubscriptionParts:
    card = feed.card
    page = f"{get_web().base_url}/@{quote(handle)}" if handle else (card.site_url or card.url)
    title = feed.title or handle or card.url or "-"
    url = f"{page}/atom.xml" if handle else card.url
    # Null without an icon, as in FreshRSS: apps load an empty address as a picture.
    icon = f"{get_web().base_url}{card.icon}" if card.icon else "" if is_newsflash() else None
    return card.id, title, url, page, icon, feed.labels, feed.subscription.id


@functools.lru_cache(maxsize=16_384)
def _encode_subscription(parts: _SubscriptionParts) -> bytes:
    """Return the JSON of a subscription, with a cache: most of a user's subscriptions stay as they are."""
    return encode_json(_build_subscription(parts))


def _build_subscription(parts: _SubscriptionParts) -> dict[str, Any]:
    feed_id, title, url, page, icon, labels, subscription_id = parts
    return {
        "id": names.format_feed_id(feed_id),
        "title": title,
        "url": url,
        "htmlUrl": page,
        "iconUrl": icon,
        "categories": [{"id": names.format_label_id(name), "label": name} for name in labels],
        "sortid": f"{feed_id & 0xFFFFFFFF:08X}",
        "firstitemmsec": str(subscription_id // 1000),
    }


def build_item(found: SyncItem, *, social: bool) -> dict[str, Any]:
    """Return an item.

    Args:
        social: The item is requested as one of a person's shares, and names the sharer.
    """
    entry = found.entry
    published = to_epoch_seconds(entry.published or entry.at)
    link, title = find_address(found), build_title(found)
    shape: dict[str, Any] = {
        "id": names.format_item_id(entry.id),
        "crawlTimeMsec": str(entry.id // 1000),
        "timestampUsec": str(entry.id),
        "published": published,
        "updated": max(published, to_epoch_seconds(entry.updated)) if entry.updated else published,
        "title": title,
        "author": entry.author,
        "alternate": [{"href": link, "type": "text/html"}],
        "canonical": [{"href": link}],
        "categories": list_categories(found),
        "origin": {
            "streamId": get_origin_id(found, social=social),
            "title": found.feed_title or "-",
            "htmlUrl": found.site_url or link,
        },
        "summary": {
            "direction": find_direction(found.language, f"{title} {entry.excerpt[:TITLE]}"),
            "content": render_content(found),
        },
    }
    if files := sign_files(entry.enclosures, entry.url):
        shape["enclosure"] = [
            {"href": e.url, "type": e.type or "", **({"length": e.length} if e.length else {})} for e in files
        ]
    if found.by is not None:
        shape["likingUsers"] = [{"userId": str(i)} for i in found.likers]
        shape["comments"] = []
        shape["annotations"] = _annotations(found)
    return shape


def adapt_to_liferea(shape: dict[str, Any], found: SyncItem) -> dict[str, Any]:
    """Mark an item as read and starred in Liferea's own way.

    Liferea looks for a state with escaped slashes in the first category only, and for stars in a field that
    no other app uses (its google_source_feed.c). Without them it shows all items as unread and removes stars.
    """
    shape["marked"] = found.starred
    if found.read:
        shape["categories"].insert(0, _LIFEREA_READ)
    return shape


def to_epoch_seconds(at: dt.datetime) -> int:
    """Return whole seconds since the epoch, at least 1: some apps read them as unsigned."""
    return max(1, int(at.timestamp()))


def build_title(found: SyncItem) -> str:
    """Return an item's title: the site's, else the beginning of the text, else the item's address.

    Apps show nothing to click for an empty title, and some reject the item.
    """
    entry = found.entry
    return entry.title or _lost(found) or truncate_text(entry.excerpt, TITLE) or find_address(found)


def find_address(found: SyncItem) -> str:
    """Return the address to read an item at: the site's page, or else Eventr's."""
    entry = found.entry
    if entry.url and entry.url.startswith(("http://", "https://")):
        return entry.url
    if found.by is not None and found.by.handle:
        return f"{get_web().base_url}/@{quote(found.by.handle)}/{found.by.share_id}"
    return f"{get_web().base_url}/entries/{entry.id}"


def get_origin_id(found: SyncItem, *, social: bool) -> str:
    """Return the stream that an item belongs to.

    A share belongs to its sharer's stream if the request is for that stream, or if the user doesn't follow
    the sharer. Otherwise it belongs to the sharer's feed among the subscriptions, for apps without people.
    """
    if found.person is not None and (social or not found.subscribed):
        return names.format_person_id(found.person)
    return names.format_feed_id(found.entry.feed_id)


def list_categories(found: SyncItem) -> list[str]:
    """Return an item's states and labels; the reading list comes first, as Liferea requires."""
    states = [
        ("read", found.read),
        ("starred", found.starred),
        ("broadcast", found.shared),
        ("like", found.liked),
        ("fresh", not found.read),
    ]
    labels = dict.fromkeys((*found.labels, *found.tags))
    return [
        f"{names.STATE}reading-list",
        *(names.format_label_id(name) for name in labels),
        *(names.STATE + name for name, holds in states if holds),
    ]


def render_content(found: SyncItem) -> str:
    """Return an item's HTML, as its reader wants it; a share's begins with its chain and the sharer's note.

    Pictures that are attached to the entry come first, since apps show no attachments.
    """
    entry = found.entry
    shown = found.full or entry.content or entry.summary
    text = scope_anchors(shown, entry.id)
    body = sign_pictures("".join(map(_picture, entry.list_pictures(shown))) + text, entry.url)
    if found.by is None and found.entry.lost is None:
        return body
    head = _way(found)
    if found.entry.lost is not None:
        return f"{head}<p>{_lost(found)}</p>"
    note = found.by.html if found.by else ""
    # The text of a post is its note.
    said = f"<blockquote>{note}</blockquote>" if note and not _is_post(found) else ""
    files = render_signed(g.user.actor, found.by.files) if found.by and found.by.files else ""
    # The pictures of a note follow the note; those of a post follow its text.
    return f"{head}{body}{files}" if _is_post(found) else f"{head}{said}{files}{body}"


def _picture(file: Enclosure) -> str:
    return f'<p><img src="{html.escape(file.url)}" alt="{html.escape(file.text)}"></p>'


def _is_post(found: SyncItem) -> bool:
    return found.entry.of is not None and found.entry.of.entry_id == found.entry.id


def _lost(found: SyncItem) -> str:
    return "" if found.entry.lost is None else _LOST.get(found.entry.lost, "")


def _way(found: SyncItem) -> str:
    """Return the chain: the sharer, then the people through whom the share came."""
    if found.by is None:
        return ""
    hops = [found.by, *found.via]
    said = " ← ".join(_named(hop) for hop in hops)
    return f"<p>via {said}</p>"


def _named(by: Sharer | None) -> str:
    if by is None:
        return "…"
    page = f"{get_web().base_url}/@{quote(by.handle)}/{by.share_id}"
    return f'<a href="{html.escape(page)}">{html.escape(by.name)}</a>'


def _annotations(found: SyncItem) -> list[dict[str, str]]:
    by = found.by
    if by is None or not by.note:
        return []
    return [{"content": by.note, "author": by.name, "userId": str(found.person or ""), "profileId": ""}]


def find_direction(language: str | None, text: str) -> str:
    """Return ``rtl`` or ``ltr``: by the language, else by the first letter that has a direction."""
    if language:
        return "rtl" if _RTL.match(language) else "ltr"
    strong = next((d for d in map(unicodedata.bidirectional, text) if d in _STRONG), "L")
    return "ltr" if strong == "L" else "rtl"


def build_stream_head(stream_id: str, title: str, language: str | None = None) -> dict[str, Any]:
    """Return the fields above the items of a stream; ``language``: as its feed declares it."""
    return {
        "direction": find_direction(language, title),
        "id": stream_id,
        "title": title,
        "updated": int(clock.now().timestamp()),
    }
