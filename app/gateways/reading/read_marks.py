"""Read states of entries: single marks, mass marks and their undo."""

from __future__ import annotations

import dataclasses
import datetime as dt
import secrets
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from app import clock, logs
from app.errors import ConflictError, NotFoundError
from app.gateways.reading.changes import ChangeGateway
from app.mappers.feeds.feeds import FeedMapper
from app.mappers.reading.snapshots import ANY_MASS, FoundEntries, Undo, UndoMapper
from app.mappers.subscriptions.subscriptions import StateBefore, StateReplacement, SubscriptionMapper
from app.models.feeds.feed import FeedCard
from app.models.reading.entry import EntryKey
from app.models.reading.stream import MassMarkResult
from app.models.subscriptions.read_state import ReadState
from app.models.subscriptions.subscription import Subscription

log = logs.get(__name__)

#: Attempts to replace read states when concurrent single marks interfere.
ROUNDS = 20
#: Time after which a mass mark whose job marks no copies gets another job.
SILENT = dt.timedelta(minutes=10)
#: Time for which an undone mass mark is kept for the job that marks its copies.
UNDONE = dt.timedelta(days=1)


class ReadRange(NamedTuple):
    """The entries of a feed that became read: the unread ones of ``first`` … ``last`` except ``spared``."""

    before: ReadState
    first: int
    last: int
    spared: frozenset[int]

    def list_seqs(self) -> list[int]:
        """Return their numbers, ascending."""
        return [s for s in self.before.find_seqs(self.first, self.last) if s not in self.spared]


@dataclasses.dataclass(frozen=True, slots=True)
class FeedMarks:
    """The effect of marking feeds as read.

    Attributes:
        cards: of the feeds.
        ranges: feed → what became read.
        has_job: whether the copies are left to a job.
    """

    result: MassMarkResult
    cards: Sequence[FeedCard]
    ranges: Mapping[int, ReadRange]
    has_job: bool = False

    def list_seqs(self) -> dict[int, list[int]]:
        """Return the numbers of the entries that became read, by feed."""
        return {feed_id: found.list_seqs() for feed_id, found in self.ranges.items()}


class CopyWork(NamedTuple):
    """What a job for copies starts from: the numbers, by feed, that a mass mark read, and all its feeds."""

    seqs: Mapping[int, Sequence[int]]
    feed_ids: Collection[int]


NO_WORK = CopyWork({}, ())


class ReadMarkGateway:
    """Changes the read states of subscriptions, and stores the states before mass marks."""

    def __init__(
        self,
        feeds: FeedMapper,
        subscriptions: SubscriptionMapper,
        undos: UndoMapper,
        changes: ChangeGateway,
    ) -> None:
        self._feeds = feeds
        self._changes = changes
        self._subscriptions = subscriptions
        self._undos = undos

    def mark(
        self,
        user_id: int,
        seqs: Mapping[int, Sequence[int]],
        cards: Mapping[int, FeedCard],
        *,
        read: bool,
        synced: bool = False,
    ) -> dict[int, int]:
        """Mark entries (feed → numbers) as read or unread, and wait for the disk once.

        Args:
            cards: the cards of all these feeds.
            synced: record the marks for apps that sync. The record comes first: apps ask for the changes
                since a minute before their last request, so they find a mark that follows its record.

        Returns:
            The change of each feed's unread count; feeds without a subscription are left out.
        """
        before = self._write_marks(user_id, seqs, read=read, synced=synced)
        return {f: _count_change(state, cards[f], seqs[f], read=read) for f, state in before.items()}

    def _write_marks(
        self, user_id: int, seqs: Mapping[int, Sequence[int]], *, read: bool, synced: bool
    ) -> dict[int, StateBefore]:
        election = self._subscriptions.get_election(user_id)
        if election is not None and (synced or len(seqs) > 1):
            if synced:
                self._changes.record_changes(user_id, seqs, awaited=False)
            found = self._subscriptions.mark_together(user_id, seqs, read=read)
            if found is not None and self._subscriptions.get_election(user_id) == election:
                return found
            log.warning("marks_repeated", user_id=user_id)
        if synced:
            self._changes.record_changes(user_id, seqs)
        states = {f: self._subscriptions.mark(user_id, f, numbers, read=read) for f, numbers in seqs.items()}
        return {f: state for f, state in states.items() if state is not None}

    def find_read_states(self, user_id: int, keys: Sequence[EntryKey]) -> dict[int, bool]:
        """Return by id whether the user has read these entries; omit those not in the user's feeds."""
        feed_ids = list({key.feed_id for key in keys})
        mine = {s.feed_id: s for s in self._subscriptions.find_by_user(user_id, feed_ids)}
        cards = self._feeds.find_cards(list(mine))
        return {key.id: not _is_unread(key, cards, mine) for key in keys if key.feed_id in mine}

    def mark_all(
        self,
        user_id: int,
        feed_ids: Sequence[int] | None,
        last_seqs: Mapping[int, int] | None,
        expires: dt.datetime,
        *,
        keep: Mapping[int, Collection[int]] | None = None,
        job_above: int | None = None,
    ) -> FeedMarks:
        """Mark all entries of these feeds (None: all of the user's feeds) as read.

        The states before are stored first, so that even an interrupted action can be undone. So is whether
        the copies are left to a job: it is found again even if this process dies.

        Args:
            last_seqs: feed → last number to mark; other feeds are left out. None: all entries.
            keep: feed → numbers that stay as they are.
            job_above: entries above which a job marks the copies; None: copies aren't marked.
        """
        token = secrets.token_urlsafe(16)
        kept = self._subscriptions.find_by_user(user_id, feed_ids)
        cards = self._feeds.find_cards(
            [k.feed_id for k in kept if last_seqs is None or k.feed_id in last_seqs]
        )
        count, ranges, has_job = 0, dict[int, ReadRange](), False
        for place in range(ROUNDS):
            counts, found, replaces = _marked(kept, cards, last_seqs, token, keep or {})
            before = {r.was.feed_id: (r.was.state, r.was.mass) for r in replaces}
            if place == 0:
                has_job = job_above is not None and sum(counts.values()) > job_above
            job_at = clock.now() if has_job and place == 0 else None
            self._undos.add(Undo(token, user_id, before, job_at), expires)
            missed = self._replace(user_id, replaces, token)
            count += sum(counts.values()) - sum(counts[f] for f in missed)
            ranges.update((f, one) for f, one in found.items() if f not in missed)
            if not missed:
                return FeedMarks(MassMarkResult(token, count), list(cards.values()), ranges, has_job)
            kept = [k for k in self._subscriptions.find_by_user(user_id, list(missed)) if k.mass != token]
        raise ConflictError(user_id=user_id)

    def find_copy_work(self, user_id: int, token: str, now: dt.datetime) -> CopyWork | None:
        """Return what a mass mark has read, if its copies are left to a job; None: they aren't."""
        undo = self._undos.find(user_id, token, now)
        if undo is None or undo.job_at is None:
            return None
        mine = {s.feed_id: s for s in self._subscriptions.find_by_user(user_id, list(undo.before))}
        cards = self._feeds.find_cards(list(mine))
        found = {
            f: _list_unread(undo.before[f][0], card, mine[f].keep_newest, card.last_seq)
            for f, card in cards.items()
        }
        seqs = {f: read for f, s in found.items() if (read := list(filter(mine[f].state.is_read, s)))}
        return CopyWork(seqs, undo.before.keys())

    def find_waiting_copies(self, now: dt.datetime) -> list[tuple[int, str]]:
        """Return (user, token) of the mass marks whose copies no job has marked for ten minutes."""
        return self._undos.find_waiting(now - SILENT)

    def mark_copies(
        self, user_id: int, token: str, keys: Sequence[EntryKey], expires: dt.datetime
    ) -> dict[int, list[int]]:
        """Mark copies of the entries of a mass mark as read, as a part of it.

        Returns:
            The numbers, by feed, that this changed.
        """
        unread, cards, mine = self._find_unread(user_id, keys)
        if unread:
            self._undos.add_entries(user_id, token, _list_found(unread, mine), expires)
            self.mark(user_id, unread, cards, read=True)
        return unread

    def mark_copies_in_job(
        self, user_id: int, token: str, keys: Sequence[EntryKey], *, synced: bool
    ) -> dict[int, list[int]] | None:
        """Do the same in a job, unless the mass mark was undone or has expired: then return None.

        An undo after the record doesn't include the marks. So :meth:`end_copies` follows in any case.
        """
        unread, cards, mine = self._find_unread(user_id, keys)
        if unread:
            found = _list_found(unread, mine)
            if not self._undos.add_to_mass_mark(user_id, token, found, clock.now()):
                return None
            self.mark(user_id, unread, cards, read=True, synced=synced)
        return unread

    def end_copies(self, user_id: int, token: str, *, synced: bool) -> bool:
        """End the work of a job; undo its marks if the mass mark was undone, and return whether it was.

        Safe to repeat. Marks of a mass mark that has only expired stay.
        """
        if self._undos.end_job(user_id, token):
            return False
        found = self._undos.find_undone(user_id, token)
        if found:
            if synced:
                self._changes.record_changes(user_id, _join(found))
            self.take_back(user_id, found, clock.now())
        self._undos.remove_undone(user_id, token)
        return bool(found)

    def _find_unread(
        self, user_id: int, keys: Sequence[EntryKey]
    ) -> tuple[dict[int, list[int]], dict[int, FeedCard], dict[int, Subscription]]:
        """Return the numbers of the unread ones of these entries, all cards and subscriptions; by feed."""
        feed_ids = list({key.feed_id for key in keys})
        mine = {s.feed_id: s for s in self._subscriptions.find_by_user(user_id, feed_ids)}
        cards = self._feeds.find_cards(list(mine))
        unread: dict[int, list[int]] = {}
        for key in keys:
            if _is_unread(key, cards, mine):
                unread.setdefault(key.feed_id, []).append(key.seq)
        return unread, cards, mine

    def mark_entries(
        self, user_id: int, keys: Sequence[EntryKey], expires: dt.datetime
    ) -> tuple[MassMarkResult, list[FeedCard]]:
        """Mark these entries as read; :meth:`undo_mass_mark` reverts only those that this changed."""
        unread, cards, mine = self._find_unread(user_id, keys)
        token = secrets.token_urlsafe(16)
        self._undos.add_entries(user_id, token, _list_found(unread, mine), expires)
        deltas = self.mark(user_id, unread, cards, read=True)
        return MassMarkResult(token, -sum(deltas.values())), list(cards.values())

    def _replace(self, user_id: int, replaces: Sequence[StateReplacement], token: str) -> set[int]:
        """Write new states; return the feeds where a concurrent single mark prevented that."""
        if self._subscriptions.replace_states(user_id, replaces) == len(replaces):
            return set()
        now = self._subscriptions.find_by_user(user_id, [r.was.feed_id for r in replaces])
        return {k.feed_id for k in now if k.mass != token}

    def undo_mass_mark(self, user_id: int, token: str, now: dt.datetime) -> None:
        """Undo a mass mark; single marks made since then are kept.

        Subscriptions that a later mass mark changed stay as they are; the later mark must be undone first.
        Copies and single rows in them become unread with the undo of that mark.

        Raises:
            NotFoundError: the token has expired, was used, or isn't the user's.
            ConflictError: later mass marks changed all of the same feeds.
        """
        found, undo = self._undos.find_entries(user_id, token, now), self._undos.find(user_id, token, now)
        if undo is None and not found:
            raise NotFoundError("This can no longer be undone.", undo=token)
        if self._overtaken(undo) if undo else self._are_rows_overtaken(user_id, found, now):
            raise ConflictError("A later action changed the same feeds. Undo that action first.", undo=token)
        # First, because it can be repeated.
        self.take_back(user_id, found, now)
        if undo is None:
            return self._undos.remove(user_id, token)
        for _ in range(ROUNDS):
            kept = self._changed_by(undo)
            replaces = []
            for k in kept:
                before, mass = undo.before[k.feed_id]
                replaces.append(StateReplacement(k, k.state.undo_mass_mark(before), mass))
            if self._subscriptions.replace_states(user_id, replaces) == len(replaces):
                return self._end_undo(undo, now)
        raise ConflictError(user_id=user_id)

    def _end_undo(self, undo: Undo, now: dt.datetime) -> None:
        if undo.job_at is not None:
            if self._undos.leave_to_job(undo.user_id, undo.token, now + UNDONE):
                return
            # The job has just ended: it may have marked copies after they became unread.
            self.take_back(undo.user_id, self._undos.find_entries(undo.user_id, undo.token, now), now)
        self._undos.remove(undo.user_id, undo.token)

    def take_back(self, user_id: int, found: Sequence[FoundEntries], now: dt.datetime) -> None:
        """Mark entries as unread; entries that a later mass mark has read wait for the undo of that mark."""
        now_unread = list[FoundEntries]()
        for one, later in self._find_all_later(user_id, found, now):
            if later is None:
                now_unread.append(one)
            else:
                self._undos.add_to_mass_mark(user_id, later, [one._replace(mass=later)])
        for feed_id, seqs in _join(now_unread).items():
            self._subscriptions.mark(user_id, feed_id, seqs, read=False)

    def _find_all_later(
        self, user_id: int, found: Sequence[FoundEntries], now: dt.datetime
    ) -> list[tuple[FoundEntries, str | None]]:
        """Return the entries in feeds that the user still has, each with the later mark that covers it."""
        feed_ids = list({one.feed_id for one in found})
        masses = {s.feed_id: s.mass for s in self._subscriptions.find_by_user(user_id, feed_ids)}
        undos = dict[str, Undo | None]()
        return [
            (one, self._find_later(user_id, one, masses[one.feed_id], undos, now))
            for one in found
            if one.feed_id in masses
        ]

    def _find_later(
        self,
        user_id: int,
        one: FoundEntries,
        mass: str | None,
        undos: dict[str, Undo | None],
        now: dt.datetime,
    ) -> str | None:
        """Return the first mass mark of the feed after these entries were marked; None: there is none.

        Args:
            mass: the last mass mark of the feed.
            undos: those that were read already.
        """
        chain: list[tuple[str, ReadState]] = []  # from the last one back
        if one.mass == ANY_MASS:
            return None
        while mass is not None and mass != one.mass:
            if mass not in undos:
                undos[mass] = self._undos.find(user_id, mass, now)
            undo = undos[mass]
            if undo is None or one.feed_id not in undo.before:
                break
            state, earlier = undo.before[one.feed_id]
            chain.append((mass, state))
            mass = earlier
        if mass != one.mass:  # `one.mass` was undone or has expired; later marks found the entries read
            is_later = [any(map(state.is_read, one.seqs)) for _, state in chain]
            chain = chain[: [*is_later, False].index(False)]
        return chain[-1][0] if chain else None

    def _overtaken(self, undo: Undo) -> bool:
        """Return whether later mass marks changed every remaining subscription that this one changed.

        A new subscription to the same feed has no mass mark.
        """
        masses = {mine.mass for mine in self._subscriptions.find_by_user(undo.user_id, list(undo.before))}
        return bool(masses - {None}) and undo.token not in masses

    def _are_rows_overtaken(self, user_id: int, found: Sequence[FoundEntries], now: dt.datetime) -> bool:
        """Return whether later mass marks changed the feeds of all these entries."""
        later = [mark for _, mark in self._find_all_later(user_id, found, now)]
        return bool(later) and None not in later

    def _changed_by(self, undo: Undo) -> list[Subscription]:
        found = self._subscriptions.find_by_user(undo.user_id, list(undo.before))
        return [k for k in found if k.mass == undo.token]


def _list_found(seqs: Mapping[int, Sequence[int]], mine: Mapping[int, Subscription]) -> list[FoundEntries]:
    return [FoundEntries(feed_id, tuple(some), mine[feed_id].mass) for feed_id, some in seqs.items()]


def _join(found: Iterable[FoundEntries]) -> dict[int, list[int]]:
    """Return all numbers by feed."""
    seqs: dict[int, list[int]] = {}
    for one in found:
        seqs.setdefault(one.feed_id, []).extend(one.seqs)
    return seqs


def _count_change(before: StateBefore, card: FeedCard, seqs: Sequence[int], *, read: bool) -> int:
    first = card.find_first_seq(before.keep_newest)
    changed = sum(before.state.is_read(s) is not read for s in set(seqs) if first <= s <= card.last_seq)
    return -changed if read else changed


def _is_unread(
    key: EntryKey, cards: Mapping[int, FeedCard], subscriptions: Mapping[int, Subscription]
) -> bool:
    card, mine = cards.get(key.feed_id), subscriptions[key.feed_id]
    if card is None or mine.state.is_read(key.seq):
        return False
    return card.find_first_seq(mine.keep_newest) <= key.seq


def _marked(
    kept: Sequence[Subscription],
    cards: Mapping[int, FeedCard],
    seen: Mapping[int, int] | None,
    mass: str,
    keep: Mapping[int, Collection[int]],
) -> tuple[dict[int, int], dict[int, ReadRange], list[StateReplacement]]:
    """Return how many entries of each feed become read, which, and the new read states."""
    counts, ranges, replaces = {}, {}, []
    for mine in kept:
        feed_id = mine.feed_id
        if (card := cards.get(feed_id)) is None:
            continue
        before = mine.state.exclude_removed(card.removed)
        first, last = card.find_first_seq(mine.keep_newest), card.last_seq
        if not (count := before.count_unread(first, last)):
            continue
        upto = last if seen is None else min(last, seen[feed_id])
        spared = [s for s in keep.get(feed_id, ()) if s <= upto and not before.is_read(s)]
        # Based on ``mine.state``, so that unshared entries above ``upto`` are still unread if they return.
        after = mine.state.mark_upto(upto).mark_unread(spared)
        left = after.exclude_removed(card.removed).count_unread(first, last) if upto < last or spared else 0
        counts[feed_id] = count - left
        ranges[feed_id] = ReadRange(before, first, min(upto, last), frozenset(spared))
        replaces.append(StateReplacement(mine, after, mass))
    return counts, ranges, replaces


def _list_unread(state: ReadState, card: FeedCard, keep_newest: int, last: int) -> list[int]:
    """Return the numbers of a feed's entries that are unread in a state, up to ``last``."""
    return state.exclude_removed(card.removed).find_seqs(card.find_first_seq(keep_newest), last)
