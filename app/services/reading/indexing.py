"""Updates of the search index, as a job separate from pulls. There is no actor.

The mark that a feed has news is stored together with the news, so a crash loses nothing. The mark is removed
when all news is indexed, unless more has arrived since.
"""

from __future__ import annotations

import datetime as dt
import time

from app import logs
from app.errors import StoreError
from app.gateways.reading.indexing import IndexingGateway
from app.models.feeds.feed import UnindexedFeed
from app.models.jobs.jobs import Job, Queue, Task
from app.ports import SearchPort

log = logs.get(__name__)

#: Delay before a feed that could not be indexed is retried.
LATER = dt.timedelta(hours=1)
#: Feeds read per batch.
FEEDS = 50


class IndexService:
    """Finds feeds with news, and passes their entries to the search engine."""

    def __init__(self, gateway: IndexingGateway, engine: SearchPort) -> None:
        self._gateway = gateway
        self._search = engine

    def find_due_jobs(self, now: dt.datetime) -> list[Job]:
        """Return the job that indexes new entries, if there are any; it always has the same identity."""
        return [Job(Task.INDEX, {}, Queue.MAINTENANCE)] if self._gateway.find_unindexed(now, 1) else []

    def run(self, now: dt.datetime, seconds: float) -> dict[str, int]:
        """Index new entries for at most ``seconds``; the next run indexes the rest."""
        end, done = time.monotonic() + seconds, {"feeds": 0, "entries": 0}
        while feeds := self._gateway.find_unindexed(now, FEEDS):
            for feed in feeds:
                done["entries"] += self._index(feed, now)
                done["feeds"] += 1
                if time.monotonic() >= end:
                    return done
        log.info("indexed", **done)
        return done

    def _index(self, feed: UnindexedFeed, now: dt.datetime) -> int:
        number = 0
        try:
            for batch in self._gateway.read_entries(feed):
                self._search.index(batch)
                number += len(batch)
            self._search.remove(feed.id, feed.first_seq, self._gateway.find_kept_below(feed))
            self._gateway.mark_indexed(feed)
        except StoreError:
            raise
        except Exception:  # a bug of ours; the feeds behind this one must not wait
            log.error("index_failed", feed_id=feed.id, exc_info=True)
            self._gateway.postpone_indexing(feed, now + LATER)
        return number

    def rebuild(self, now: dt.datetime) -> int:
        """Schedule a new index of all feeds; return their number."""
        return self._gateway.unindex_all(now)
