"""A user with real feeds: bodies of the corpus go through the real pull, only the network is left out."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from typing import Any, TypeVar

from app.bootstrap.services import Services
from app.models.accounts.actor import Actor, Role
from app.models.feeds.fetched import Fetched, FetchRequest
from app.services.feeds.pull import PullService
from tests.support import corpus

T = TypeVar("T")

#: Feeds that show what the reader must cope with: long and short texts, pictures, code, other scripts.
SAMPLE = (
    "feeds/rss/spoon-tamago.com-d94f47.xml",
    "feeds/rss/restofworld.org-e04770.xml",
    "feeds/atom/daringfireball.net-df410e.xml",
    "feeds/rss/zerokspot.com-71d236.xml",
    "feeds/atom/youtube.com-9cf7d9.xml",
    "feeds/rss/bbcurdu.com-ace121.xml",
    "feeds/rss/markgreville.ie-d8f87a.xml",
    "feeds/rss/themoscowtimes.com-eef534.xml",
)
PASSWORD = "a quiet place 17"


class Canned:
    """Answers a pull from memory, in the place of the network."""

    def __init__(self, bodies: Mapping[str, bytes]) -> None:
        self._bodies = bodies

    async def stream_fetches(self, requests: Iterable[FetchRequest]) -> AsyncIterator[Fetched]:
        for request in requests:
            yield Fetched(request, 200, request.url, body=self._bodies[request.url], wire_bytes=1)


def elsewhere(work: Callable[[], T]) -> T:
    """Run something in a thread of its own: Playwright's thread counts as one with an event loop."""
    box: list[T] = []
    thread = threading.Thread(target=lambda: box.append(work()))
    thread.start()
    thread.join()
    return box[0]


def pull(services: Services, feed_ids: list[int], bodies: Mapping[str, bytes]) -> None:
    """Pull feeds once, their answers taken from ``bodies`` by address."""
    service = PullService(
        services.gateways.feeds,
        services.gateways.retention,
        services.settings,
        events=services.events,
        secrets=services.gateways.fetch_secrets,
    )
    elsewhere(lambda: asyncio.run(service.pull(feed_ids, Canned(bodies))))


def follow(
    services: Services, actor: Actor, paths: Iterable[str] = SAMPLE, *, folder_id: int | None = None
) -> list[int]:
    """Subscribe an actor to feeds of the corpus and pull them; return their ids."""
    rows = {row.path: row for row in corpus.genuine_feeds()}
    bodies = {f"https://feeds.example/{path}": rows[path].read() for path in paths}
    done = [services.subscriptions.subscribe(actor, url, folder_id=folder_id) for url in bodies]
    feed_ids = [d.subscription.feed_id for d in done]
    pull(services, feed_ids, bodies)
    return feed_ids


def rss(title: str, items: Iterable[tuple[str, str]]) -> bytes:
    """Return a small feed of (title, HTML) items."""
    from xml.sax.saxutils import escape

    parts = "".join(
        f"<item><title>{escape(name)}</title><guid>{escape(name)}</guid>"
        f"<link>https://site.example/{number}</link><description>{escape(html)}</description></item>"
        for number, (name, html) in enumerate(items)
    )
    return f"<rss version='2.0'><channel><title>{escape(title)}</title>{parts}</channel></rss>".encode()


def add_user(services: Services, name: str = "ann", role: Role = Role.USER) -> Actor:
    """Create a user with :data:`PASSWORD`."""
    admin = Actor(1, Role.ADMIN)
    return services.accounts.create_user(admin, f"{name}@example.org", name, PASSWORD, role).actor


def document_count(database: Any) -> dict[str, int]:
    """Return how many documents each collection has."""
    return {name: database[name].count_documents({}) for name in database.list_collection_names()}
