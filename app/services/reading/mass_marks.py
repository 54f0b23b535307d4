"""Marking many entries as read, and the undo: the single place for everything that such an action involves.

Every caller (a list, a selection of feeds, a row, an app) goes through here. So each action appears in the
undo history, reaches apps that sync, and counts as reading the feeds.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Collection, Mapping, Sequence

from app import clock, logs
from app.gateways.feeds.feeds import FeedGateway
from app.gateways.reading.changes import ChangeGateway
from app.gateways.reading.read_marks import ReadMarkGateway
from app.gateways.reading.undo_history import UndoHistoryGateway
from app.models.accounts.actor import Actor
from app.models.feeds.feed import FeedCard
from app.models.reading.entry import EntryKey
from app.models.reading.history import ActionKind, MassAction
from app.models.reading.stream import MassMarkResult, StreamRef
from app.ports import EventPort
from app.services.reading.copy_marks import CopyMarks
from app.services.reading.stories import StoryService

log = logs.get(__name__)


class MassMarks:
    """Marks entries in bulk and undoes that. The caller checks permissions and selects the entries.

    Args:
        undo_ttl: seconds for which a mark can be undone.
    """

    def __init__(
        self,
        read_marks: ReadMarkGateway,
        feeds: FeedGateway,
        changes: ChangeGateway,
        undos: UndoHistoryGateway,
        events: EventPort,
        *,
        stories: StoryService,
        copy_marks: CopyMarks,
        undo_ttl: float,
    ) -> None:
        self._reads, self._feeds = read_marks, feeds
        self._changes, self._undos, self._events = changes, undos, events
        self._stories, self._copies = stories, copy_marks
        self._undo_ttl = dt.timedelta(seconds=undo_ttl)

    def mark_feeds(
        self,
        actor: Actor,
        feed_ids: Sequence[int] | None,
        ref: StreamRef | None,
        kind: ActionKind = ActionKind.ALL,
        *,
        last_seqs: Mapping[int, int] | None = None,
        keep: Mapping[int, Collection[int]] | None = None,
    ) -> MassMarkResult:
        """Mark the entries of these feeds (None: of all of the actor's) as read, with their copies elsewhere.

        Args:
            ref: the list that the history shows; None: the mark wasn't made in a list.
            last_seqs: feed → last number to mark; other feeds are left out. None: all entries.
            keep: feed → numbers that stay as they are.
        """
        now, is_auto = clock.now(), kind is ActionKind.AUTO
        job_above = None if is_auto else self._copies.choose_limit(actor, feed_ids)
        done = self._reads.mark_all(
            *(actor.user_id, feed_ids, last_seqs, now + self._undo_ttl), keep=keep, job_above=job_above
        )
        if is_auto:
            # Nobody has read these feeds, and the days of one feed don't concern another one.
            return self._record(actor, ref, kind, marked=done.result, cards=[], now=now)
        copies = 0 if feed_ids is None or job_above is None else self._copies.mark(actor, done, feed_ids)
        marked = dataclasses.replace(done.result, count=done.result.count + copies)
        return self._record(actor, ref, kind, marked=marked, cards=done.cards, now=now)

    def mark_entries(
        self, actor: Actor, keys: Sequence[EntryKey], ref: StreamRef, kind: ActionKind = ActionKind.ALL
    ) -> MassMarkResult:
        """Mark these entries and their copies as read; the undo marks only what this changed as unread."""
        now, copies = clock.now(), self._stories.find_copies(actor, keys)
        marked, cards = self._reads.mark_entries(actor.user_id, [*keys, *copies], now + self._undo_ttl)
        return self._record(actor, ref, kind, marked=marked, cards=cards, now=now)

    def undo(self, actor: Actor, token: str) -> None:
        """Undo a mass mark; entries that were marked one by one since then stay read.

        Raises:
            NotFoundError: the token has expired, was used, or belongs to someone else.
            ConflictError: a later mass mark changed the same feeds.
        """
        # Before the undo, which deletes the record of the affected entries.
        if actor.synced:
            self._changes.record_mass_mark(actor.user_id, token)
        self._reads.undo_mass_mark(actor.user_id, token, clock.now())
        self._events.notify_counts(actor.user_id)
        log.info("mark_undone", user_id=actor.user_id)

    def _record(
        self,
        actor: Actor,
        ref: StreamRef | None,
        kind: ActionKind,
        *,
        marked: MassMarkResult,
        cards: Sequence[FeedCard],
        now: dt.datetime,
    ) -> MassMarkResult:
        # Skimming the titles and marking everything also counts as reading.
        self._feeds.touch(cards, now)
        about = "" if ref is None else str(ref)
        if marked.count:
            if actor.synced:
                self._changes.record_mass_mark(actor.user_id, marked.undo)
            action = MassAction(marked.undo, kind, about, marked.count, now)
            self._undos.record_action(actor.user_id, action)
        self._events.notify_counts(actor.user_id)
        log.info("mass_marked", user_id=actor.user_id, kind=kind.value, stream=about, count=marked.count)
        return marked
