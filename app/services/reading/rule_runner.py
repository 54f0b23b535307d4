"""Tries the rules of all users on new entries, as a job. There is no actor.

A pull stores nothing for rules. The job follows the times of the feeds' news, and each subscription of a user
with rules holds the number up to which they were tried. So trying them again changes nothing.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from app import logs
from app.errors import CellError, MovingError
from app.gateways.reading.rules import Judged, ReaderRules, RuleGateway
from app.models.jobs.jobs import Job, Queue, Task
from app.models.reading.entry import EntryKey
from app.models.reading.rules import FeedNews, RuledReader, RuleEntry
from app.models.reading.targets import Occasion, Wanted
from app.ports import EventPort

log = logs.get(__name__)

#: Feeds with news that are read at once.
FEEDS = 200
#: Pulls store their news a little after its time, so the last news is looked through again.
OVERLAP = dt.timedelta(minutes=2)
#: CPU time that the rules of one user may take in a run, and more per entry. Entries above it are passed.
USER_SECONDS, ENTRY_SECONDS = 2.0, 0.02
#: Called with user, feed, number of entries, the time of the news, and the number after which they begin.
Notify = Callable[[int, int, int, dt.datetime, int], None]


#: Called with entries whose full texts rules want.
RequestTexts = Callable[[int, Sequence[EntryKey]], None]


class NotifySearch(Protocol):
    """Notifies a user of entries of a feed that a saved search finds."""

    def __call__(
        self, user_id: int, search_id: int, feed_id: int, count: int, now: dt.datetime, *, begin: int
    ) -> None: ...


@dataclasses.dataclass
class _Round:
    """One round over feeds with news.

    Attributes:
        rules: by user. titles: by feed.
        done: counts of feeds, entries and matches.
        is_missed: whether some readers were out of reach.
        is_over: whether the round must end; it does after the next reader.
        is_begun: a reader's rules were tried, so the next run goes on from another place.
        open_feed: the feed at which the round ended before its last reader.
        left: by user, the seconds that their rules may still take.
    """

    now: dt.datetime
    done: dict[str, int]
    is_over: Callable[[], bool] = lambda: False
    is_begun: bool = False
    open_feed: FeedNews | None = None
    left: dict[int, float] = dataclasses.field(default_factory=dict)
    rules: Mapping[int, ReaderRules] = dataclasses.field(default_factory=dict)
    titles: Mapping[int, str] = dataclasses.field(default_factory=dict)
    is_missed: bool = False

    def take_missed(self) -> bool:
        """Return whether readers were out of reach since the last call."""
        was, self.is_missed = self.is_missed, False
        return was


class RuleRunner:
    """Finds feeds with news, and tries the rules of their readers.

    Args:
        notify: notifies a user of new entries of a feed; repeated with the same place, it adds what is new.
        notify_search: the same for entries of a feed that a saved search finds.
        request_texts: lets the pages of entries be fetched for a user; a repeat fetches none again.
        send: lets entries be sent to targets of a user; a repeat changes nothing.
    """

    def __init__(
        self,
        gateway: RuleGateway,
        events: EventPort,
        notify: Notify,
        notify_search: NotifySearch,
        *,
        request_texts: RequestTexts,
        send: Callable[[int, Sequence[Wanted]], None],
    ) -> None:
        self._gateway, self._events, self._request_texts = gateway, events, request_texts
        self._send = send
        self._notify, self._notify_search = notify, notify_search

    def find_due_jobs(self, now: dt.datetime) -> list[Job]:
        """Return the job that tries rules, if there is news since its last run."""
        is_due = self._gateway.has_news(now, OVERLAP)
        return [Job(Task.RULES, {}, Queue.PULL_SYSTEM)] if is_due else []

    def run(
        self, now: dt.datetime, seconds: float, is_stopping: Callable[[], bool] = lambda: False
    ) -> dict[str, int]:
        """Try rules on news for at most ``seconds``; the next run continues."""
        end = time.monotonic() + seconds
        work = _Round(now, {"feeds": 0, "entries": 0, "matches": 0})
        work.is_over = lambda: time.monotonic() >= end or is_stopping()
        found = self._gateway.get_place()
        place, missed_at = (found.at, found.missed_at) if found else (now, None)
        since, after = place - OVERLAP, 0
        while news := self._gateway.find_news(since, after, FEEDS):
            self._try_feeds(news, work)
            if work.open_feed is not None:
                # The next run finds this feed again, and the readers who are left.
                at, is_missed = work.open_feed.at, work.take_missed() or work.open_feed.at <= place
                self._gateway.record_place(
                    at - dt.timedelta(milliseconds=1), now, news[0].at if is_missed else None
                )
                break
            since, after = news[-1].at, news[-1].id
            self._gateway.record_place(since, now, news[0].at if work.take_missed() else None)
            if work.is_over():
                break
        else:
            self._gateway.record_place(max(since, place), now)
            if missed_at is not None:
                self._try_missed(missed_at, work)
        log.info("rules_tried", **work.done)
        return work.done

    def _try_missed(self, missed_at: dt.datetime, work: _Round) -> None:
        """Try rules again on news that readers missed, because they were moved or their cell was down."""
        since, after, left, are_all_up = missed_at, 0, None, True
        while are_all_up and (news := self._gateway.find_news(since, after, FEEDS)):
            are_all_up = self._try_feeds(news, work)
            if work.take_missed():
                left = left or news[0].at
            since, after = news[-1].at, news[-1].id
            if work.open_feed is not None or work.is_over():
                left = left or (work.open_feed.at if work.open_feed else since)
                break
        self._gateway.settle_missed(missed_at, left)

    def _try_feeds(self, news: Sequence[FeedNews], work: _Round) -> bool:
        """Try rules on news; return whether all cells are responding."""
        readers, are_all_up = self._gateway.find_readers(news)
        work.is_missed |= not are_all_up
        if not readers:
            return are_all_up
        work.rules = self._gateway.compile_rules({one.user_id for some in readers.values() for one in some})
        work.titles = self._gateway.find_titles(list(readers))
        for feed in news:
            if feed.id in readers:
                work.done["feeds"] += 1
                if not self._try_feed(feed, readers[feed.id], work):
                    work.open_feed = feed
                    break
        return are_all_up

    def _try_feed(self, feed: FeedNews, readers: Sequence[RuledReader], work: _Round) -> bool:
        """Try the rules of a feed's readers; return whether there was time for all of them."""
        left, is_done = list(readers), True
        for entries in self._gateway.read_entries(feed, min(one.ruled for one in readers)):
            work.done["entries"] += len(entries)
            left, is_done = self._try_entries(feed, entries, left, work)
            if not is_done:
                return False
        # Numbers without an entry: those of removed ones.
        behind = [(one, feed.last_seq) for one in left if one.ruled < feed.last_seq]
        work.is_missed |= bool(self._gateway.pass_entries(behind))
        return True

    def _try_entries(
        self,
        feed: FeedNews,
        entries: Sequence[tuple[EntryKey, RuleEntry]],
        readers: list[RuledReader],
        work: _Round,
    ) -> tuple[list[RuledReader], bool]:
        """Try the rules of a feed's readers on some of its entries.

        Returns:
            The readers that are left, and whether there was time for all; a run tries at least one.
        """
        upto, passed, left = entries[-1][0].seq, list[tuple[RuledReader, int]](), list[RuledReader]()
        is_cut = False
        for reader in readers:
            if reader.ruled >= upto:
                left.append(reader)
                continue
            if work.is_begun and work.is_over():
                is_cut = True
                break
            work.is_begun = True
            found = self._judge(entries, reader, work)
            try:
                if found:
                    work.done["matches"] += len(found)
                    self._want_texts(reader.user_id, found)
                    self._apply(feed, reader, upto, found, work.now)
                else:
                    passed.append((reader, upto))
            except (MovingError, CellError):
                work.is_missed = True
                continue  # a later run tries again
            left.append(reader._replace(ruled=upto))
        # What the same run finds in later entries can't be recorded then, either: all is tried again.
        work.is_missed |= bool(self._gateway.pass_entries(passed))
        return left, not is_cut

    def _judge(
        self, entries: Sequence[tuple[EntryKey, RuleEntry]], reader: RuledReader, work: _Round
    ) -> list[Judged]:
        """Return the entries that a reader's rules match, as far as the user's time allows."""
        mine = work.rules[reader.user_id]
        feed = mine.make_feed(reader, reader.title or work.titles.get(reader.feed_id, ""))
        if not mine.compiled.has_any(feed):
            return []
        new = [(key, entry) for key, entry in entries if key.seq > reader.ruled]
        judged, left = list[Judged](), work.left.get(reader.user_id, USER_SECONDS)
        for number, (key, entry) in enumerate(new):
            if left < 0:
                log.warning(
                    "rules_too_slow", user_id=reader.user_id, feed_id=reader.feed_id, passed=len(new) - number
                )
                break
            start = time.thread_time()
            judged.append(Judged(key, mine.compiled.judge_entry(entry, feed)))
            left += ENTRY_SECONDS - (time.thread_time() - start)
        work.left[reader.user_id] = min(left, USER_SECONDS)
        return [one for one in judged if not one.verdict.is_empty]

    def _want_texts(self, user_id: int, found: Sequence[Judged]) -> None:
        """Request the full texts of a user's entries."""
        if wanted := [one.key for one in found if "full_text" in one.verdict.actions]:
            self._request_texts(user_id, wanted)

    def _apply(
        self, feed: FeedNews, reader: RuledReader, upto: int, found: Sequence[Judged], now: dt.datetime
    ) -> None:
        notified = sum("notify" in one.verdict.actions for one in found)
        # A repeat after a crash may find more news, but begins at the same place.
        at, begin = feed.at, reader.ruled
        for search_id, count in Counter(i for one in found for i in one.verdict.alerts).items():
            self._notify_search(reader.user_id, search_id, feed.id, count, at, begin=begin)
        if notified and not reader.is_notified:
            self._notify(reader.user_id, feed.id, notified, at, begin)
        wanted = [Wanted(i, one.key.id, Occasion.RULE.value) for one in found for i in one.verdict.sends]
        if wanted:
            self._send(reader.user_id, wanted)
        if self._gateway.apply_rules(reader, upto, found, now):
            self._events.notify_counts(reader.user_id)
