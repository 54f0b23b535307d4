"""Imports in each state, made without feeds and workers: for screens."""

from __future__ import annotations

import datetime as dt
import zlib
from collections import Counter

from app import clock
from app.bootstrap.services import Services
from app.errors import InvalidError
from app.feeds.opml import opml
from app.models.accounts.actor import Actor
from app.models.imports.imports import Import, ItemChange, ItemState
from app.models.imports.opml import Outline
from app.models.imports.pulls import Login, PulledPage, PullKind

_NAMES = {
    (): ("A List Apart", "kottke.org"),
    ("News",): ("BBC News", "The Guardian", "Al Jazeera English", "Deutsche Welle"),
    ("News", "Science"): ("Quanta Magazine", "Nature", "BBC News", "ScienceDaily"),
    ("Technology",): ("Ars Technica", "LWN.net", "The Old Blog", "Closed Garden", "IEEE Spectrum"),
    ("مدوّنات",): ("مدوّنة التصميم", "أخبار العلوم"),
}
_FATES = {"The Old Blog": "http_404", "Closed Garden": "http_403", "LWN.net": "timeout"}


def document() -> bytes:
    """Return a list as another reader exports it: two levels, a double, an address that is none."""
    feeds = [
        Outline(f"https://{zlib.crc32(name.encode()) % 997}.example/feed.xml", name, None, path)
        for path, names in _NAMES.items()
        for name in names
    ]
    return opml.write("Feedly", [*feeds, Outline("gopher://old.example/", "Before the web")])


def previewed(services: Services, who: Actor) -> Import:
    """Return an import that waits for the person's choice."""
    return services.imports.preview(who, document(), "feedly.opml")


def running(services: Services, who: Actor, done: int = 9) -> Import:
    """Return an import that is under way, so many of its outlines at their end."""
    kept = previewed(services, who)
    services.imports.start(who, kept.id)
    begun = services.gateways.imports.begin_run(who.user_id, kept.id, "demo", clock.now())
    assert begun is not None
    items = [i for i in services.imports.list_items(who, kept.id) if i.state is ItemState.WAITING]
    # The user's subscriptions, as after an import; without any, an id that leads nowhere.
    mine = services.gateways.subscriptions.find_feed_ids(who.user_id) or [1_700_000_000_000_000]
    # Each feed is added once; the person already had the rest.
    changes = {
        i.index: _fate(i.title, mine[n % len(mine)], ItemState.ADDED if n < len(mine) else ItemState.ALREADY)
        for n, i in enumerate(items[:done])
    }
    states = {i.index: i.state for i in services.imports.list_items(who, kept.id)}
    states |= {index: change.state for index, change in changes.items()}
    counts = Counter(state.value for state in states.values())
    noted = services.gateways.imports.save_progress(
        begun, "demo", counts, changes, clock.now(), has_progressed=True
    )
    assert noted is not None
    return noted


def ended(services: Services, who: Actor) -> Import:
    """Return an import that is done, with failures of several kinds."""
    found = running(services, who, done=100)
    done = services.gateways.imports.end_run(found, "demo", clock.now())
    assert done is not None
    return done


def noted(services: Services, who: Actor) -> Import:
    """Return an import of an archive with notes and highlights that is done."""
    done = ended(services, who)
    marks = {"starred": 214, "tagged": 38, "noted": 17, "read": 5120, "missing": 9, "pages": 12, "cut": 3}
    services.store.database["imports"].update_one({"_id": done.id}, {"$set": {"marks": marks}})
    return services.imports.get(who, done.id)


def reading(services: Services, who: Actor) -> Import:
    """Return an import that has read a part of an account on another server, which isn't answering now."""
    pulls = services.gateways.pulled_imports
    address, login = "https://rss.example.org", Login("ann", "correct horse")
    new = pulls.add(who.user_id, PullKind.GREADER, address, login, clock.now())
    begun = pulls.begin_run(who.user_id, new.id, "demo", clock.now())
    assert begun is not None
    page = PulledPage((), "7", 0)
    read = pulls.store_page(begun, page, "starred", "7", clock.now(), limit=1000)
    assert read is not None
    pulls.put_off(read, "timeout", clock.now() + dt.timedelta(days=1), clock.now())
    return services.imports.get(who, new.id)


def unreadable(services: Services, who: Actor) -> Import:
    """Return an import from another server that can't be read anymore."""
    done = services.gateways.pulled_imports.give_up(
        reading(services, who),
        InvalidError(
            "Eventr can no longer read the login you stored for this server. "
            "Enter it again to restart the import."
        ),
        clock.now(),
    )
    assert done is not None
    return done


def pulled(services: Services, who: Actor) -> Import:
    """Return an import from another server that is read, and waits for the person's choice."""
    read = services.gateways.imports.read_file(document())
    done = services.gateways.pulled_imports.finish(reading(services, who), read, clock.now())
    assert done is not None
    marks = {"waiting": 5400}
    services.store.database["imports"].update_one({"_id": done.id}, {"$set": {"marks": marks}})
    return services.imports.get(who, done.id)


def _fate(title: str, feed_id: int, good: ItemState) -> ItemChange:
    word = _FATES.get(title)
    return ItemChange(ItemState.FAILED if word else good, word, feed_id)
