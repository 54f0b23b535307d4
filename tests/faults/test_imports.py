"""F01, F02, F04, F05, F14: an import ends complete, whatever is killed while it runs."""

from __future__ import annotations

import pytest

from app.feeds.opml import opml
from app.models.imports.imports import ImportState
from app.models.imports.opml import Outline
from app.models.jobs import redis_keys
from app.models.jobs.jobs import Queue
from tests.faults.system import System
from tests.support.rawserver import Reply

pytestmark = pytest.mark.timeout(3000)


def test_F14_an_import_ends_complete_over_kills_and_an_emptied_redis(system: System, scale: int) -> None:
    """Two people import the same list; every part dies once in the middle of it."""
    urls = system.farm.corpus(60 * scale)
    missing = system.farm.scripted("/missing/import", Reply(status=404, close=True))
    outlines = [Outline(url, folders=(f"Folder {n % 3}",)) for n, url in enumerate([*urls, missing])]
    body, imports = opml.write("Mine", outlines), system.services.imports
    people = [system.user(), system.user()]
    kept = [imports.preview(who, body, "mine.opml") for who in people]
    for who, one in zip(people, kept, strict=True):
        imports.start(who, one.id)
    for part in ("worker", "manager", "controller"):
        system.strike(part)
    system.empty_redis()

    def ended() -> bool:
        return all(imports.get(w, k.id).state is ImportState.DONE for w, k in zip(people, kept, strict=True))

    system.wait(ended, "both imports have ended")
    for who, one in zip(people, kept, strict=True):
        assert imports.get(who, one.id).counts == {"added": len(urls), "failed": 1}
        assert [item.url for item in imports.list_failures(who, one.id)] == [missing]
        assert len(system.services.folders.list_folders(who)) == 3
        # What the import told is a promise like any other: R01 holds for each of them.
        system.subscribe(who, urls)
    # Let go of after the import has ended, by its worker or by the next look of the updater.
    system.wait(lambda: not system.services.mappers.imports.find_slots(), "no turn is taken any more")


def test_F14_an_import_that_is_cut_off_goes_on_where_it_was(system: System) -> None:
    """Most pulls are held back until the blow, so that it hits the middle for sure; nothing is done twice."""
    known, others = system.farm.corpus(10), system.farm.growing(20)
    system.subscribe(system.user(), known)
    system.wait(lambda: system.stored(known), "an import need not wait for these")
    pulls = (str(Queue.PULL), str(Queue.PULL_SYSTEM))
    system.client.sadd(redis_keys.PAUSED, *pulls)
    try:
        urls = [*known, *others]
        imports, who = system.services.imports, system.user()
        kept = imports.preview(who, opml.write("Mine", [Outline(url) for url in urls]), "mine.opml")
        imports.start(who, kept.id)
        system.wait(lambda: imports.get(who, kept.id).counts.get("added", 0) > 0, "some are there")
        cut_off = imports.get(who, kept.id)
        system.kill_everything_below(Queue.DISCOVERY)
        assert imports.get(who, kept.id).is_active
    finally:
        system.client.srem(redis_keys.PAUSED, *pulls)
    system.wait(lambda: imports.get(who, kept.id).state is ImportState.DONE, "the import has ended")
    ended = imports.get(who, kept.id)
    assert ended.counts == {"added": len(urls)}
    assert ended.run != cut_off.run, "another run has gone on"
    system.subscribe(who, urls)
