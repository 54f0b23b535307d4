"""Keeping the search up to date, beside the pulls and never in their way. There is no actor: it is a job.

That a feed has news is written with the news itself, so nothing is lost by a crash; it is taken away
when all of it was indexed, unless there is more by then.
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

#: When a feed that could not be indexed is tried again.
LATER = dt.timedelta(hours=1)
#: Feeds looked up at once.
FEEDS = 50


class IndexService:
    """Finds feeds with news and gives their entries to the search engine."""

    def __init__(self, gateway: IndexingGateway, engine: SearchPort) -> None:
        self._gateway = gateway
        self._search = engine

    def find_due_jobs(self, now: dt.datetime) -> list[Job]:
        """Return the job that indexes what is new, if there is anything; however often asked, it is one."""
        return [Job(Task.INDEX, {}, Queue.MAINTENANCE)] if self._gateway.find_unindexed(now, 1) else []

    def run(self, now: dt.datetime, seconds: float) -> dict[str, int]:
        """Index what is new until there is no more, or time is up; what is left comes next time."""
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
        except Exception:  # a fault of ours; the feeds behind it in the line must not wait for it
            log.error("index_failed", feed_id=feed.id, exc_info=True)
            self._gateway.postpone_indexing(feed, now + LATER)
        return number

    def rebuild(self, now: dt.datetime) -> int:
        """Let everything be indexed anew; return of how many feeds."""
        return self._gateway.unindex_all(now)
