"""Imports: reading files, selecting outlines, mapping folders, taking turns, and progress."""

from __future__ import annotations

import dataclasses
import datetime as dt
import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from app.config import Settings
from app.errors import ConflictError, ExistsError, InvalidError, NotFoundError, TooLargeError
from app.feeds.fetch.address_policy import Policy
from app.feeds.opml import opml
from app.feeds.opml.file_type import check_is_opml
from app.feeds.urls import hash_url
from app.gateways.feeds.feeds import derive_private_key
from app.gateways.imports.plan import NAME_MAX, TITLE_MAX, count_states, plan_import
from app.gateways.imports.rules import retry_item, settle_item, sort_by_turn, tick_item
from app.gateways.subscriptions.folders import DEPTH, MOST, FolderGateway
from app.mappers.feeds.poll_results import PollResultMapper
from app.mappers.imports.imports import ImportMapper
from app.mappers.mongo.cells import Cells
from app.mappers.mongo.store import Session
from app.mappers.subscriptions.subscriptions import SubscriptionMapper
from app.models.imports.choices import ChoiceKind
from app.models.imports.imports import (
    ACTIVE,
    ENDED,
    OPEN,
    UNDER_WAY,
    ActiveImport,
    Import,
    ImportedFeeds,
    ImportItem,
    ImportState,
    ItemChange,
    ItemState,
    PollResult,
    build_import_paths,
)
from app.models.imports.opml import SubscriptionList
from app.models.names import to_one_line
from app.models.sharing import own_addresses

#: A preview that isn't started expires after this time.
PREVIEW_KEPT = dt.timedelta(days=7)
#: An import is given up after so many runs without progress.
TRIES = 25
#: Seconds without progress after which an import is queued again; workers write every second or two.
SILENT = 10.0
_AT_ONCE = 1000
_PREVIEW, _CANCELLED = (ImportState.PREVIEW,), (ImportState.CANCELLED,)
_STOPPED = (ImportState.CANCELLED, ImportState.QUEUED)


class ImportGateway:
    """Manages imports, except for the subscribing itself.

    Selecting outlines and starting an import are one transaction each. It reads the outlines and writes the
    import, so of two concurrent requests the later one sees the changes of the earlier one.
    """

    def __init__(
        self,
        *,
        cells: Cells,
        imports: ImportMapper,
        poll_results: PollResultMapper,
        subscriptions: SubscriptionMapper,
        folders: FolderGateway,
        settings: Settings,
    ) -> None:
        self._cells = cells
        self._imports = imports
        self._ends = poll_results
        self._subscriptions = subscriptions
        self._folders = folders
        self._limits = opml.Limits.from_settings(settings)
        self._policy, self._own = Policy(settings), own_addresses.get_own_host(settings.own_origin)
        self._kept = dt.timedelta(days=settings.import_keep_days)
        self._places = settings.imports_at_once

    # -- before it starts

    def read_file(self, body: bytes) -> SubscriptionList:
        """Read an OPML file.

        Raises:
            InvalidError: the file isn't OPML; the message says what it is and names the line.
            TooLargeError: too long, too deep, or too many outlines or folders.
        """
        check_is_opml(body)
        found = opml.read(body, self._limits)
        if len(found.folders) > MOST:
            raise TooLargeError(
                "The file has more than %(most)s folders. Split it into smaller files.", most=MOST
            )
        return found

    def add(self, user_id: int, subscription_list: SubscriptionList, name: str, now: dt.datetime) -> Import:
        """Store the outlines of a file; mark duplicates, and feeds that the user already has."""
        new, items = self.plan(user_id, subscription_list)
        named = dataclasses.replace(new, user_id=user_id, name=to_one_line(name, TITLE_MAX), created=now)
        return self._imports.add(named, items, now + PREVIEW_KEPT)

    def plan(self, user_id: int, subscription_list: SubscriptionList) -> tuple[Import, list[ImportItem]]:
        """Return an import of a list, and its outlines; nothing is stored."""
        return plan_import(
            subscription_list, lambda keys: self.find_subscribed(user_id, keys), self._policy, self._own
        )

    def find_subscribed(self, user_id: int, keys: list[str]) -> dict[str, int]:
        """Return address key → feed id, for feeds that the user subscribes to, also as an own copy."""
        mine = set(self._subscriptions.find_feed_ids(user_id))
        found: dict[str, int] = {}
        own = {derive_private_key(key, user_id): key for key in keys}
        both = [*keys, *own]
        for start in range(0, len(both) if mine else 0, _AT_ONCE):
            known = self._ends.find_ids_by_keys(both[start : start + _AT_ONCE])
            found |= {own.get(key, key): feed_id for key, feed_id in known.items() if feed_id in mine}
        return found

    def choose_items(
        self, user_id: int, import_id: int, first: int, count: int, chosen: Collection[int]
    ) -> Import:
        """Store which of these outlines are selected.

        Raises:
            NotFoundError: the user has no such import.
            ConflictError: the import has already started.
        """
        refusal = ConflictError("This import has already been started.")

        def store_choice(session: Session) -> Import:
            found = self._in_state((user_id, import_id), _PREVIEW, refusal, session)
            items = self._imports.find_items(user_id, import_id, first, count, session)
            changes = {i.index: c for i in items if (c := tick_item(i, ticked=i.index in chosen))}
            self._imports.update_items(user_id, import_id, changes, session)
            before = Counter(item.state for item in items if item.index in changes)
            after = Counter(change.state for change in changes.values())
            counts = Counter(found.counts)
            counts.update({s.value: n for s, n in after.items()})
            counts.subtract({s.value: n for s, n in before.items()})
            values = {"counts": dict(+counts)}
            return self._set(user_id, import_id, _PREVIEW, values, session)

        return self._cells.run_in_transaction(user_id, store_choice)

    def _in_state(
        self, one: tuple[int, int], states: Sequence[ImportState], refusal: ConflictError, session: Session
    ) -> Import:
        user_id, import_id = one
        found = self._imports.find(user_id, import_id, session)
        if found is None:
            raise NotFoundError(import_id=import_id)
        if found.state not in states:
            raise refusal
        return found

    def start(
        self,
        user_id: int,
        import_id: int,
        *,
        keep_folders: bool,
        into: str,
        now: dt.datetime,
        choice_kinds: Collection[str] = (),
        also: Callable[[Session], None] = lambda _: None,
    ) -> Import:
        """Queue a preview for running.

        Args:
            choice_kinds: kinds of choices in an archive that are taken over; none: its choices are deleted.
            also: is called in the same transaction; it may run several times.

        Raises:
            NotFoundError: the user has no such import.
            ConflictError: the import has already started.
            InvalidError: nothing is selected.
        """
        refusal = ConflictError("This import has already been started.")

        def queue_preview(session: Session) -> Import:
            found = self._in_state((user_id, import_id), _PREVIEW, refusal, session)
            counts = count_states(self._imports.find_items(user_id, import_id, session=session))
            kinds = [kind for kind in choice_kinds if found.choice_counts.get(kind)]
            is_rest = bool(found.waiting_marks or {ChoiceKind.RULES, ChoiceKind.SEARCHES}.intersection(kinds))
            if not counts.get(ItemState.WAITING) and not is_rest:
                raise InvalidError("Select at least one feed first.")
            values = {"keep_folders": keep_folders, "into": to_one_line(into, NAME_MAX), "counts": counts}
            values["choice_kinds"] = kinds
            if not kinds:
                self._imports.remove_choices(user_id, import_id, session)
            also(session)
            return self._queue(user_id, import_id, _PREVIEW, values=values, now=now, session=session)

        return self._cells.run_in_transaction(user_id, queue_preview)

    def _queue(
        self,
        user_id: int,
        import_id: int,
        states: Sequence[ImportState],
        *,
        values: Mapping[str, Any],
        now: dt.datetime,
        session: Session,
    ) -> Import:
        counts = values["counts"]
        fresh = {"state": ImportState.QUEUED.value, "queued": now, "started": None, "touched": None}
        goal = sum(counts.get(s, 0) for s in OPEN)
        failed = counts.get(ItemState.FAILED, 0)
        self._imports.set_expiry(user_id, import_id, None, session)
        values = {**fresh, **values, "goal": goal, "failed_before": failed, "tries": 0, "ended": None}
        return self._set(user_id, import_id, states, values, session)

    # -- after the start

    def get(self, user_id: int, import_id: int) -> Import:
        """Return a user's import.

        Raises:
            NotFoundError: the user has no such import.
        """
        found = self._imports.find(user_id, import_id)
        if found is None:
            raise NotFoundError(import_id=import_id)
        return found

    def is_stored(self, one: Import) -> bool:
        """Return whether an import still exists."""
        return self._imports.find(one.user_id, one.id) is not None

    def find_by_user(self, user_id: int, limit: int) -> list[Import]:
        """Return a user's newest imports."""
        return self._imports.find_by_user(user_id, limit)

    def find_active_by_user(self, user_id: int) -> Import | None:
        """Return the user's import that is running or queued, if there is one."""
        return self._imports.find_active_by_user(user_id)

    def find_items(
        self, user_id: int, import_id: int, first: int = 0, count: int | None = None
    ) -> list[ImportItem]:
        """Return outlines in their order."""
        return self._imports.find_items(user_id, import_id, first, count)

    def find_imported_feeds(self, one: Import) -> ImportedFeeds:
        """Return the feeds that an import subscribed its owner to, fetched or not, after any merges."""
        own_addresses = (ItemState.ADDED, ItemState.FAILED, *UNDER_WAY)
        items = self._imports.find_items(one.user_id, one.id)
        wanted = [i.feed_id for i in items if i.state in own_addresses and i.feed_id]
        mine = set(self._subscriptions.find_feed_ids(one.user_id))
        into = self._ends.find_successors([feed_id for feed_id in wanted if feed_id not in mine])
        before = self._before(one, into.values())
        heirs = [into.get(feed_id, feed_id) for feed_id in wanted]
        feeds = dict.fromkeys(feed_id for feed_id in heirs if feed_id in mine - before)
        return ImportedFeeds(tuple(feeds), frozenset(f for f in wanted if into.get(f, f) not in mine))

    def _before(self, one: Import, feed_ids: Iterable[int]) -> set[int]:
        """Return which of these feeds the owner followed before the import."""
        since = one.created.timestamp() * 1_000_000
        mine = self._subscriptions.find_by_user(one.user_id, list(set(feed_ids)))
        return {subscription.feed_id for subscription in mine if subscription.id < since}

    def retry(self, user_id: int, import_id: int, index: int | None, now: dt.datetime) -> Import:
        """Queue failed outlines for a retry: one, or all if ``index`` is None.

        Raises:
            NotFoundError: the user has no such import, or it has no such failed outline.
            ConflictError: the import has not ended.
        """
        refusal = ConflictError("This import isn't finished yet.")

        def queue_failures(session: Session) -> Import:
            found = self._in_state((user_id, import_id), ENDED, refusal, session)
            items = self._imports.find_items(user_id, import_id, session=session)
            chosen = {i.index: retry_item(i) for i in items if i.can_retry and index in (None, i.index)}
            if not chosen:
                raise NotFoundError("There's nothing to retry.", import_id=import_id)
            self._imports.update_items(user_id, import_id, chosen, session)
            counts = Counter(found.counts)
            counts[ItemState.FAILED.value] -= len(chosen)
            counts.update(change.state.value for change in chosen.values())
            return self._queue(
                user_id, import_id, ENDED, values={"counts": dict(+counts)}, now=now, session=session
            )

        return self._cells.run_in_transaction(user_id, queue_failures)

    def resume(self, user_id: int, import_id: int, now: dt.datetime) -> Import:
        """Resume a canceled import: queue its remaining outlines.

        Raises:
            NotFoundError: the user has no such import.
            ConflictError: the import was not canceled.
        """
        refusal = ConflictError("This import has changed in the meantime. Reload the page.")

        def queue_cancelled(session: Session) -> Import:
            self._in_state((user_id, import_id), _CANCELLED, refusal, session)
            counts = count_states(self._imports.find_items(user_id, import_id, session=session))
            return self._queue(
                user_id, import_id, _CANCELLED, values={"counts": counts}, now=now, session=session
            )

        return self._cells.run_in_transaction(user_id, queue_cancelled)

    def cancel(self, user_id: int, import_id: int, now: dt.datetime) -> Import:
        """Cancel an import; subscriptions added so far stay, and the updater fetches their feeds.

        Raises:
            NotFoundError: the user has no such import.
            ConflictError: the import has ended.
        """

        def store_cancellation(session: Session) -> Import:
            values = {"state": ImportState.CANCELLED.value, "ended": now}
            found = self._set(user_id, import_id, ACTIVE, values, session)
            counts = self._settle(found, session)
            return self._set(user_id, import_id, _CANCELLED, {"counts": counts}, session)

        found = self._cells.run_in_transaction(user_id, store_cancellation)
        self._let_go(found, now)
        return found

    def _settle(self, one: Import, session: Session) -> dict[str, int]:
        """End all pending outlines by the current state of their feeds, and return the counts."""
        items = self._imports.find_items(one.user_id, one.id, session=session)
        asked = {i.index: i.feed_id for i in items if i.state in UNDER_WAY and i.feed_id}
        asked |= self._unnoted(one, items)
        ends = self.find_poll_results(list(asked.values()))
        changes = {index: settle_item(feed_id, ends.get(feed_id)) for index, feed_id in asked.items()}
        self._imports.update_items(one.user_id, one.id, changes, session)
        states = {item.index: item.state for item in items}
        states |= {index: change.state for index, change in changes.items()}
        return dict(Counter(state.value for state in states.values()))

    def _unnoted(self, one: Import, items: Sequence[ImportItem]) -> dict[int, int]:
        """Return outline → feed id for subscriptions of this run that it hasn't saved (yet)."""
        if one.started is None:
            return {}
        since = one.started.timestamp() * 1_000_000
        new = {mine.feed_id for mine in self._subscriptions.find_by_user(one.user_id) if mine.id >= since}
        new.difference_update(item.feed_id for item in items if item.feed_id)
        waiting = {hash_url(i.url): i.index for i in items if i.state is ItemState.WAITING} if new else {}
        have = self.find_subscribed(one.user_id, list(waiting))
        return {waiting[key]: feed_id for key, feed_id in have.items() if feed_id in new}

    def remove(self, user_id: int, import_id: int) -> None:
        """Delete a preview or an import that has ended.

        Raises:
            NotFoundError: the user has no such import.
            ConflictError: the import has not ended.
        """
        self.get(user_id, import_id)
        if not self._imports.remove(user_id, import_id):
            raise ConflictError("Cancel this import first.")

    def _set(
        self,
        user_id: int,
        import_id: int,
        states: Sequence[ImportState],
        values: Mapping[str, Any],
        session: Session | None = None,
    ) -> Import:
        found = self._imports.update(user_id, import_id, states, values, session=session)
        if found is None:
            if self._imports.find(user_id, import_id, session) is None:
                raise NotFoundError(import_id=import_id)
            raise ConflictError("This import has changed in the meantime. Reload the page.")
        return found

    # -- while it runs

    def find_due(self, now: dt.datetime) -> list[ActiveImport]:
        """Return the imports whose turn it is and that have no live run."""
        active = self._imports.find_active(_AT_ONCE)
        slots = self._imports.find_slots()
        gone = set(slots.values()) - {found.id for found in active}
        if gone and len(active) < _AT_ONCE:
            self._imports.release_slots(list(gone))  # their runs died before releasing them
        held = set(slots.values()) - gone
        late = now - dt.timedelta(seconds=SILENT)
        silent = [a for a in active if a.id in held and (a.touched is None or a.touched < late)]
        waiting = sort_by_turn(active, held)
        return silent + waiting[: max(0, self._places - len(held))]

    def begin_run(self, user_id: int, import_id: int, run: str, now: dt.datetime) -> Import | None:
        """Take over an import; return None if it isn't its turn, or if it has ended.

        A previous run notices that at its next :meth:`save_progress`.
        """
        found = self._imports.find(user_id, import_id)
        if found is None or not found.is_active or not self._imports.claim_slot(import_id, self._places):
            return None
        values: dict[str, Any] = {"state": ImportState.RUNNING.value, "run": run, "touched": now}
        values["started"] = found.started or now
        found = self._imports.update(user_id, import_id, ACTIVE, values, begin=True)
        if found is None or found.tries > TRIES:
            # It has ended meanwhile, or it repeatedly crashes its workers.
            if found is not None:
                self.end_run(found, run, now)
            self._imports.release_slots([import_id])
            return None
        return found

    def save_progress(
        self,
        running: Import,
        run: str,
        counts: Mapping[str, int],
        changes: Mapping[int, ItemChange],
        now: dt.datetime,
        *,
        has_progressed: bool,
    ) -> Import | None:
        """Save progress and results of outlines; return None if it was canceled or taken over."""
        values: dict[str, Any] = {"counts": dict(counts), "touched": now}
        if has_progressed:
            values["tries"] = 0
        one = (running.user_id, running.id)

        def write_progress(session: Session) -> Import | None:
            found = self._imports.update(*one, (ImportState.RUNNING,), values, run=run, session=session)
            if found is not None:
                self._imports.update_items(*one, changes, session)
            return found

        return self._cells.run_in_transaction(running.user_id, write_progress)

    def save_late_progress(
        self, running: Import, run: str, changes: Mapping[int, ItemChange], now: dt.datetime
    ) -> Import | None:
        """Save the step during which an import was canceled; return None if a new run has begun."""
        one = (running.user_id, running.id)

        def write_late_progress(session: Session) -> Import | None:
            # Written first, so that this and a run that begins meanwhile wait for each other.
            found = self._imports.update(*one, _STOPPED, {"touched": now}, run=run, session=session)
            if found is None:
                return None
            self._imports.update_items(*one, changes, session)
            if found.state is ImportState.CANCELLED:
                counts = self._settle(found, session)
            else:  # it was resumed, and awaits the pending fetches
                counts = count_states(self._imports.find_items(*one, session=session))
            return self._imports.update(*one, _STOPPED, {"counts": counts}, run=run, session=session)

        return self._cells.run_in_transaction(running.user_id, write_late_progress)

    def find_choices(self, one: Import) -> dict[str, list[Any]]:
        """Return the choices in an archive that weren't taken over yet, by kind."""
        text = self._imports.find_choices(one.user_id, one.id)
        found: dict[str, list[Any]] = json.loads(text) if text else {}
        return found

    def end_choices(self, one: Import, run: str, taken: Mapping[str, int]) -> bool:
        """Record that the choices were taken over, and delete them; return False if the run has lost."""

        def write_end(session: Session) -> bool:
            values = {"choices_taken": dict(taken)}
            running = (ImportState.RUNNING,)
            if not self._imports.update(one.user_id, one.id, running, values, run=run, session=session):
                return False
            self._imports.remove_choices(one.user_id, one.id, session)
            return True

        return self._cells.run_in_transaction(one.user_id, write_end)

    def end_run(self, running: Import, run: str, now: dt.datetime) -> Import | None:
        """Record that a run is done, by the stored outlines; return None if it was taken over."""
        one = (running.user_id, running.id)

        def write_end(session: Session) -> Import | None:
            values = {"state": ImportState.DONE.value, "ended": now}
            found = self._imports.update(*one, (ImportState.RUNNING,), values, run=run, session=session)
            if found is None:
                return None
            counts = self._settle(found, session)  # a run given up may leave some pending
            return self._imports.update(*one, ENDED, {"counts": counts}, run=run, session=session)

        found = self._cells.run_in_transaction(running.user_id, write_end)
        if found is not None:
            self._let_go(found, now)
        return found

    def _let_go(self, ended: Import, now: dt.datetime) -> None:
        self._imports.release_slots([ended.id])
        self._imports.set_expiry(ended.user_id, ended.id, now + self._kept)

    def find_successors(self, feed_ids: Sequence[int]) -> dict[int, int]:
        """Return feed → the feed that it was merged into, for merged feeds."""
        return self._ends.find_successors(feed_ids)

    def find_poll_results(self, feed_ids: Sequence[int]) -> dict[int, PollResult]:
        """Return the results of the last polls of these feeds."""
        return self._ends.find_poll_results(feed_ids)

    def get_or_create_folders(self, running: Import, used: Iterable[int]) -> dict[int, int]:
        """Return file folder → the user's folder, for the used and the empty file folders; create missing
        ones.

        A folder that is too deep becomes its deepest allowed ancestor. When the user has the maximum number
        of folders, a new folder is replaced by its parent, and left out if it has none.
        """
        if not running.keep_folders:
            return self._one_folder(running)
        wanted, above = build_import_paths(running.folders), {*used, *running.empty}
        mine = {(f.parent, f.name.casefold()): f.id for f in self._folders.find_by_user(running.user_id)}
        found: dict[tuple[str, ...], int | None] = {}
        for place in sorted(above):
            path = wanted[place][:DEPTH]
            for depth in range(1, len(path) + 1):
                if path[:depth] not in found:
                    parent = found.get(path[: depth - 1])
                    found[path[:depth]] = self._folder(running.user_id, path[depth - 1], parent, mine)
        places = {place: found[wanted[place][:DEPTH]] for place in above}
        return {place: folder for place, folder in places.items() if folder is not None}

    def _one_folder(self, running: Import) -> dict[int, int]:
        if not running.into:
            return {}
        mine = {(f.parent, f.name.casefold()): f.id for f in self._folders.find_by_user(running.user_id)}
        folder = self._folder(running.user_id, running.into, None, mine)
        return {} if folder is None else {-1: folder}

    def _folder(
        self, user_id: int, name: str, parent: int | None, mine: dict[tuple[int | None, str], int]
    ) -> int | None:
        key = (parent, name.casefold())
        if key not in mine:
            try:
                mine[key] = self._folders.add(user_id, name, parent).id
            except ExistsError:
                # Created a moment ago, by the user or by a previous run.
                mine |= {(f.parent, f.name.casefold()): f.id for f in self._folders.find_by_user(user_id)}
            except InvalidError:
                return parent  # too many folders; the feeds are still imported
        return mine[key]
