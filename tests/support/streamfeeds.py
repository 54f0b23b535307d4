"""Public streams as feeds, written as plainly as can be: what the hub pushes in its own tests."""

from __future__ import annotations

import json
from collections.abc import Callable
from html import escape
from urllib.parse import quote, unquote

from app.bootstrap import Services
from app.models import chain
from app.models.entry import Entry
from app.models.hub import Document
from app.models.sharing import STRANGER, Audience, Profile, Share

ABOUT = "https://eventr.example/sharing-feeds"


def serving(services: Services) -> Callable[[str], Document | None]:
    """Return what tells the hub of these services what is served at an address."""
    return lambda topic: served(services, topic)


def served(services: Services, topic: str) -> Document | None:
    """Return a public stream as Atom or JSON Feed."""
    start, _, end = topic.rpartition("/")
    profile = services.gateways.profiles.named(unquote(start.rpartition("@")[2]))
    rows = [
        (share, entry)
        for share in services.mappers.shares.of_user(profile.user_id, 100)
        if profile.lets_see(share.audience, STRANGER) and share.audience is Audience.PUBLIC
        if (entry := services.mappers.entries.find(share.id, [share.feed_id]))
    ]
    rows.sort(key=lambda row: -row[0].id)
    if end == "feed.json":
        return Document(_json(services, topic, profile, rows), "application/feed+json")
    return Document(_atom(services, topic, profile, rows), "application/atom+xml; charset=utf-8")


def _atom(services: Services, topic: str, profile: Profile, rows: list[tuple[Share, Entry]]) -> bytes:
    origin = services.settings.own_origin
    entries = "".join(
        f"<entry><id>{chain.share_id(origin, share.id)}</id><title>{escape(entry.title)}</title>"
        f'<link href="{origin}/@{quote(profile.handle)}/{share.id}"/>'
        f"<updated>{(share.edited or share.at).isoformat()}</updated>"
        f'<content type="html">{escape(entry.content)}</content>'
        f"{chain.to_xml(services.sharing.way(None, share))}</entry>"
        for share, entry in rows
    )
    return (
        f'<feed xmlns="http://www.w3.org/2005/Atom" xmlns:ev="{chain.NAMESPACE}">'
        f"<title>{escape(profile.name)}</title><id>{topic}</id>"
        f'<link rel="self" href="{topic}"/><link rel="hub" href="{services.hub.address}"/>{entries}</feed>'
    ).encode()


def _json(services: Services, topic: str, profile: Profile, rows: list[tuple[Share, Entry]]) -> bytes:
    origin = services.settings.own_origin
    items = [
        {
            "id": chain.share_id(origin, share.id),
            "title": entry.title,
            "content_html": entry.content,
            chain.JSON_NAME: chain.to_json(services.sharing.way(None, share), ABOUT),
        }
        for share, entry in rows
    ]
    head = {"version": "https://jsonfeed.org/version/1.1", "title": profile.name, "feed_url": topic}
    return json.dumps(
        {**head, "hubs": [{"type": "WebSub", "url": services.hub.address}], "items": items}
    ).encode()
