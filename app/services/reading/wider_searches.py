"""What a search that found nothing would find without one of its parts."""

from __future__ import annotations

import dataclasses
import itertools
import time

from app import logs
from app.errors import SearchUnavailableError
from app.models.accounts.actor import Actor, Permission
from app.models.reading.search import QUERY_MAX, Widening, find_widenings
from app.models.reading.stream import Sort, StreamKind, StreamQuery, StreamRef
from app.services.access import require_permission
from app.services.reading.reading import ReadingService
from app.services.validation import check_text

log = logs.get(__name__)

#: Most queries that are tried for one search that found nothing.
TRIES_MAX = 6
#: Most results that are counted of each.
COUNTED_MAX = 20
#: Seconds after which no further one is tried.
SECONDS_MAX = 1.0


@dataclasses.dataclass(frozen=True, slots=True)
class WiderSearch:
    """A query that finds more than another one.

    Attributes:
        without: the part that it leaves out, as typed; empty: it is a part of the other query alone.
        count: its results, at most :data:`COUNTED_MAX`. is_more: whether there are more.
    """

    without: str
    query: str
    count: int
    is_more: bool


class WiderSearches:
    """Tries what a search would find without its parts, one after the other."""

    def __init__(self, reading: ReadingService) -> None:
        self._reading = reading

    def find_wider(self, actor: Actor, text: str) -> list[WiderSearch]:
        """Return the queries with one part less than a query that found nothing, if they find anything.

        If none does, return those of its terms that find something alone. At most :data:`TRIES_MAX` searches
        run, and none begins after :data:`SECONDS_MAX`.

        Raises:
            InvalidError: the query is too long.
        """
        require_permission(actor, Permission.ENTRY_READ)
        query = check_text(text, "query", limit=4 * QUERY_MAX, empty=True)
        found: list[WiderSearch] = []
        end = time.monotonic() + SECONDS_MAX
        for one in itertools.islice(find_widenings(query), TRIES_MAX):
            if time.monotonic() >= end or (found and found[-1].without and not one.without):
                break
            if wider := self._try(actor, one):
                found.append(wider)
        return found

    def _try(self, actor: Actor, one: Widening) -> WiderSearch | None:
        ref = StreamRef(StreamKind.SEARCH, query=one.query)
        asked = StreamQuery(ref, Sort.NEWEST, limit=COUNTED_MAX, once=True)
        try:
            page = self._reading.load_page(actor, asked)
        except SearchUnavailableError:
            log.warning("wider_searches_unknown", user_id=actor.user_id)
            return None
        if not page.rows:
            return None
        return WiderSearch(one.without, one.query, len(page.rows), page.cursor is not None)
