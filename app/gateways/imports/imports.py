"""Imports: what a file becomes, what is chosen of it, where its folders go, and whose turn it is."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from app.config import Settings
from app.errors import ConflictError, ExistsError, InvalidError, NotFoundError, TooLargeError
from app.feeds.fetch.address_policy import Policy
from app.feeds.opml import opml
from app.feeds.opml.file_type import check_is_opml
from app.feeds.urls import hash_url
from app.gateways.imports.plan import NAME_MAX, TITLE_MAX, count_states, plan_import
from app.gateways.imports.rules import retry_item, settle_item, sort_by_turn, tick_item
from app.gateways.subscriptions.folders import DEPTH, MOST, FolderGateway
from app.mappers.feeds.poll_results import PollResultMapper
from app.mappers.imports.imports import ImportMapper
from app.mappers.mongo.store import Session, Store
from app.mappers.subscriptions.subscriptions import SubscriptionMapper
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

#: A preview that nobody starts goes by itself after so long.
PREVIEW_KEPT = dt.timedelta(days=7)
#: Jobs of imports that were begun so often without getting on are given up.
TRIES = 25
#: An import on which nobody worked for so long is queued again, seconds; workers write each second or two.
SILENT = 10.0
_AT_ONCE = 1000
_PREVIEW, _CANCELLED = (ImportState.PREVIEW,), (ImportState.CANCELLED,)
_STOPPED = (ImportState.CANCELLED, ImportState.QUEUED)


class ImportGateway:
    """Everything about imports but the subscribing itself.

    What a person chooses and what he starts are in one transaction each: it reads the outlines and writes
    the import, so of two at once the later one sees what the earlier one did.
    """

    def __init__(
        self,
        store: Store,
        imports: ImportMapper,
        poll_results: PollResultMapper,
        subscriptions: SubscriptionMapper,
        folders: FolderGateway,
        settings: Settings,
    ) -> None:
        self._store = store
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
        """Read a file.

        Raises:
            InvalidError: it is no OPML; the sentence says what it is and names the line.
            TooLargeError: longer, deeper or with more outlines or folders than may be.
        """
        check_is_opml(body)
        found = opml.read(body, self._limits)
        if len(found.folders) > MOST:
            raise TooLargeError(
                "The file has more than %(most)s folders. Split it into smaller files.", most=MOST
            )
        return found

    def add(self, user_id: int, subscription_list: SubscriptionList, name: str, now: dt.datetime) -> Import:
        """Keep what was found in a file, with what he has already and what is there twice marked."""
        new, items = plan_import(
            subscription_list, lambda keys: self._have(user_id, keys), self._policy, self._own
        )
        named = dataclasses.replace(new, user_id=user_id, name=to_one_line(name, TITLE_MAX), created=now)
        return self._imports.add(named, items, now + PREVIEW_KEPT)

    def _have(self, user_id: int, keys: list[str]) -> dict[str, int]:
        """Return address key → feed of those that he is subscribed to."""
        mine = set(self._subscriptions.find_feed_ids(user_id))
        found: dict[str, int] = {}
        for start in range(0, len(keys) if mine else 0, _AT_ONCE):
            known = self._ends.find_ids_by_keys(keys[start : start + _AT_ONCE])
            found |= {key: feed_id for key, feed_id in known.items() if feed_id in mine}
        return found

    def choose_items(
        self, user_id: int, import_id: int, first: int, count: int, chosen: Collection[int]
    ) -> Import:
        """Take in which of these outlines are ticked.

        Raises:
            NotFoundError: he has no such import.
            ConflictError: it has been started.
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

        return self._store.run_in_transaction(store_choice)

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
        self, user_id: int, import_id: int, *, keep_folders: bool, into: str, now: dt.datetime
    ) -> Import:
        """Let a preview wait for its turn.

        Raises:
            NotFoundError: he has no such import.
            ConflictError: it has been started.
            InvalidError: nothing is chosen.
        """
        refusal = ConflictError("This import has already been started.")

        def queue_preview(session: Session) -> Import:
            self._in_state((user_id, import_id), _PREVIEW, refusal, session)
            counts = count_states(self._imports.find_items(user_id, import_id, session=session))
            if not counts.get(ItemState.WAITING):
                raise InvalidError("Select at least one feed first.")
            values = {"keep_folders": keep_folders, "into": to_one_line(into, NAME_MAX), "counts": counts}
            return self._queue(user_id, import_id, _PREVIEW, values, now, session)

        return self._store.run_in_transaction(queue_preview)

    def _queue(
        self,
        user_id: int,
        import_id: int,
        states: Sequence[ImportState],
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

    # -- afterwards

    def get(self, user_id: int, import_id: int) -> Import:
        """Return a user's import.

        Raises:
            NotFoundError: he has no such import.
        """
        found = self._imports.find(user_id, import_id)
        if found is None:
            raise NotFoundError(import_id=import_id)
        return found

    def is_stored(self, one: Import) -> bool:
        """Return whether an import was not removed."""
        return self._imports.find(one.user_id, one.id) is not None

    def find_by_user(self, user_id: int, limit: int) -> list[Import]:
        """Return a user's newest imports."""
        return self._imports.find_by_user(user_id, limit)

    def find_active_by_user(self, user_id: int) -> Import | None:
        """Return the import of a user that runs or waits for its turn."""
        return self._imports.find_active_by_user(user_id)

    def find_items(
        self, user_id: int, import_id: int, first: int = 0, count: int | None = None
    ) -> list[ImportItem]:
        """Return outlines in their order."""
        return self._imports.find_items(user_id, import_id, first, count)

    def find_imported_feeds(self, one: Import) -> ImportedFeeds:
        """Return the feeds that its owner followed by it, fetched or not, as they are named now."""
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
        """Return those of these feeds that its owner followed before it."""
        since = one.created.timestamp() * 1_000_000
        mine = self._subscriptions.find_by_user(one.user_id, list(set(feed_ids)))
        return {subscription.feed_id for subscription in mine if subscription.id < since}

    def retry(self, user_id: int, import_id: int, index: int | None, now: dt.datetime) -> Import:
        """Let failed outlines be tried again: one, or all.

        Raises:
            NotFoundError: he has no such import, or there is no such failure in it.
            ConflictError: it has not ended.
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
            return self._queue(user_id, import_id, ENDED, {"counts": dict(+counts)}, now, session)

        return self._store.run_in_transaction(queue_failures)

    def resume(self, user_id: int, import_id: int, now: dt.datetime) -> Import:
        """Take back a cancel: what was left waits for its turn.

        Raises:
            NotFoundError: he has no such import.
            ConflictError: it was not cancelled.
        """
        refusal = ConflictError("This import has changed in the meantime. Reload the page.")

        def queue_cancelled(session: Session) -> Import:
            self._in_state((user_id, import_id), _CANCELLED, refusal, session)
            counts = count_states(self._imports.find_items(user_id, import_id, session=session))
            return self._queue(user_id, import_id, _CANCELLED, {"counts": counts}, now, session)

        return self._store.run_in_transaction(queue_cancelled)

    def cancel(self, user_id: int, import_id: int, now: dt.datetime) -> Import:
        """Stop an import; what is subscribed stays, and is fetched by itself.

        Raises:
            NotFoundError: he has no such import.
            ConflictError: it has ended.
        """

        def store_cancellation(session: Session) -> Import:
            values = {"state": ImportState.CANCELLED.value, "ended": now}
            found = self._set(user_id, import_id, ACTIVE, values, session)
            counts = self._settle(found, session)
            return self._set(user_id, import_id, _CANCELLED, {"counts": counts}, session)

        found = self._store.run_in_transaction(store_cancellation)
        self._let_go(found, now)
        return found

    def _settle(self, one: Import, session: Session) -> dict[str, int]:
        """Let what is under way end as its feeds stand now, and return the counts."""
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
        """Return outline → feed of what this run subscribed to in a step that it has not written (yet)."""
        if one.started is None:
            return {}
        since = one.started.timestamp() * 1_000_000
        new = {mine.feed_id for mine in self._subscriptions.find_by_user(one.user_id) if mine.id >= since}
        new.difference_update(item.feed_id for item in items if item.feed_id)
        waiting = {hash_url(i.url): i.index for i in items if i.state is ItemState.WAITING} if new else {}
        have = self._have(one.user_id, list(waiting))
        return {waiting[key]: feed_id for key, feed_id in have.items() if feed_id in new}

    def remove(self, user_id: int, import_id: int) -> None:
        """Forget a preview or an import that has ended.

        Raises:
            NotFoundError: he has no such import.
            ConflictError: it has not ended.
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
            self.get(user_id, import_id)
            raise ConflictError("This import has changed in the meantime. Reload the page.")
        return found

    # -- while it runs

    def find_due(self, now: dt.datetime) -> list[ActiveImport]:
        """Return the imports whose turn it is and on which nobody works."""
        active = self._imports.find_active(_AT_ONCE)
        slots = self._imports.find_slots()
        gone = set(slots.values()) - {found.id for found in active}
        if gone and len(active) < _AT_ONCE:
            self._imports.release_slots(list(gone))  # whoever had it died just before he let it go
        held = set(slots.values()) - gone
        late = now - dt.timedelta(seconds=SILENT)
        silent = [a for a in active if a.id in held and (a.touched is None or a.touched < late)]
        waiting = sort_by_turn(active, held)
        return silent + waiting[: max(0, self._places - len(held))]

    def begin_run(self, user_id: int, import_id: int, run: str, now: dt.datetime) -> Import | None:
        """Take an import over; None: it is not its turn, or it has ended.

        Whoever worked on it until now finds that out with his next :meth:`note`.
        """
        found = self._imports.find(user_id, import_id)
        if found is None or not found.is_active or not self._imports.claim_slot(import_id, self._places):
            return None
        values: dict[str, Any] = {"state": ImportState.RUNNING.value, "run": run, "touched": now}
        values["started"] = found.started or now
        found = self._imports.update(user_id, import_id, ACTIVE, values, begin=True)
        if found is None or found.tries > TRIES:
            # It has ended meanwhile; or it takes its workers down again and again.
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
        """Write how far it is and what came of outlines; None: it was cancelled, or is not his any more."""
        values: dict[str, Any] = {"counts": dict(counts), "touched": now}
        if has_progressed:
            values["tries"] = 0
        one = (running.user_id, running.id)

        def write_progress(session: Session) -> Import | None:
            found = self._imports.update(*one, (ImportState.RUNNING,), values, run=run, session=session)
            if found is not None:
                self._imports.update_items(*one, changes, session)
            return found

        return self._store.run_in_transaction(write_progress)

    def save_late_progress(
        self, running: Import, run: str, changes: Mapping[int, ItemChange], now: dt.datetime
    ) -> Import | None:
        """Write what the step did during which it was cancelled; None: somebody has begun it again."""
        one = (running.user_id, running.id)

        def write_late_progress(session: Session) -> Import | None:
            # Written first: of this and a run that begins meanwhile one has to wait for the other.
            found = self._imports.update(*one, _STOPPED, {"touched": now}, run=run, session=session)
            if found is None:
                return None
            self._imports.update_items(*one, changes, session)
            if found.state is ImportState.CANCELLED:
                counts = self._settle(found, session)
            else:  # it is to go on, and awaits what was asked for
                counts = count_states(self._imports.find_items(*one, session=session))
            return self._imports.update(*one, _STOPPED, {"counts": counts}, run=run, session=session)

        return self._store.run_in_transaction(write_late_progress)

    def end_run(self, running: Import, run: str, now: dt.datetime) -> Import | None:
        """Note that all is done, by what is stored of each outline; None: it is not his any more."""
        one = (running.user_id, running.id)

        def write_end(session: Session) -> Import | None:
            values = {"state": ImportState.DONE.value, "ended": now}
            found = self._imports.update(*one, (ImportState.RUNNING,), values, run=run, session=session)
            if found is None:
                return None
            counts = self._settle(found, session)  # who is given up may have left some under way
            return self._imports.update(*one, ENDED, {"counts": counts}, run=run, session=session)

        found = self._store.run_in_transaction(write_end)
        if found is not None:
            self._let_go(found, now)
        return found

    def _let_go(self, ended: Import, now: dt.datetime) -> None:
        self._imports.release_slots([ended.id])
        self._imports.set_expiry(ended.user_id, ended.id, now + self._kept)

    def find_successors(self, feed_ids: Sequence[int]) -> dict[int, int]:
        """Return feed → the one that it was merged into, for those that were."""
        return self._ends.find_successors(feed_ids)

    def find_poll_results(self, feed_ids: Sequence[int]) -> dict[int, PollResult]:
        """Return how the last polls of these feeds ended."""
        return self._ends.find_poll_results(feed_ids)

    def get_or_create_folders(self, running: Import, used: Iterable[int]) -> dict[int, int]:
        """Return place → folder of the user for these places and those of empty folders, made where missing.

        What lies deeper than folders may is put into the deepest that may be; where he has as many folders
        as he may, what would lie in a new one lies above it, and what would lie nowhere has no place here.
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
                # Made a moment ago, by him or by whoever worked on this before.
                mine |= {(f.parent, f.name.casefold()): f.id for f in self._folders.find_by_user(user_id)}
            except InvalidError:
                return parent  # he has as many as he may; his feeds come all the same
        return mine[key]
