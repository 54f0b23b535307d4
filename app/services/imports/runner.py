"""The worker's side of an import: subscribes outline by outline, and awaits the first fetches of the feeds.

All state is in the store: finished outlines, subscriptions, and the last poll of each feed. So a run can end
anywhere, by a kill or an emptied Redis, and the next run continues. Jobs and their results only say when to
look at the store.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import datetime as dt
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from typing import Any, Protocol

from app import clock, logs
from app.config import Settings
from app.errors import NO_ROOM, EventrError, FeedError, StoreError, TooLargeError, write_refusal
from app.gateways.accounts.accounts import AccountGateway
from app.gateways.feeds.digest import PARTIAL
from app.gateways.feeds.feeds import FeedGateway
from app.gateways.imports.archives import ArchiveGateway
from app.gateways.imports.imports import ImportGateway
from app.gateways.imports.rules import settle_item
from app.gateways.privacy.erasure import ErasureGateway
from app.gateways.subscriptions.subscriptions import SubscriptionGateway
from app.models.accounts.actor import Actor
from app.models.feeds.feed import Feed
from app.models.imports.choices import ChoiceKind
from app.models.imports.imports import Import, ImportItem, ItemChange, ItemState, PollResult
from app.models.jobs.jobs import Job, Outcome, Queue, Task, Ticket
from app.models.sharing import own_addresses
from app.models.subscriptions.subscription import Subscription
from app.ports import EventPort, JobPort
from app.services.free_space import FreeSpace
from app.services.imports.choices import ChoiceService
from app.services.notifications import texts
from app.services.notifications.notifier import Notifier
from app.services.sharing.following import FollowingService
from app.services.subscriptions.adding import add_at_address

log = logs.get(__name__)

#: Outlines subscribed together, between two checks of the fetched feeds.
STEP = 40
#: Feeds in one pull job: few, so that a slow feed delays few others.
BATCH = 10
#: Longest wait for job results before the next step, seconds.
PAUSE = 0.5
#: Saved pages whose texts are requested after an import; those of older ones are fetched when opened.
PAGE_TEXTS = 2000
#: Seconds between checks of all pending feeds, and until a feed without a result is queued again.
LOOK, AGAIN = 3.0, 30.0
#: The updater leaves new feeds to their import for this time.
LEFT_ALONE = dt.timedelta(seconds=60)
#: Shortest time between two progress events, seconds.
TELL = 1.0


class Waiter(Protocol):
    """Awaits jobs; ``controller.client.AsyncResultReader``."""

    def await_many(self, tickets: Sequence[Ticket], timeout: float) -> AsyncIterator[Outcome]:
        """Yield outcomes as they arrive."""
        ...


@dataclasses.dataclass(frozen=True, slots=True)
class _Asked:
    """An outline whose feed is being fetched; ``before`` is the feed's last poll before that."""

    item: ImportItem
    feed_id: int
    before: PollResult
    since: float


class ImportRunner:
    """Finds the imports that are due, and runs them."""

    def __init__(
        self,
        *,
        imports: ImportGateway,
        archives: ArchiveGateway,
        subscriptions: SubscriptionGateway,
        feeds: FeedGateway,
        accounts: AccountGateway,
        erasure: ErasureGateway,
        notifier: Notifier,
        following: FollowingService,
        choices: ChoiceService,
        jobs: JobPort,
        events: EventPort,
        free_space: FreeSpace,
        settings: Settings,
    ) -> None:
        self._imports, self._archives = imports, archives
        self._subscriptions = subscriptions
        self._feeds, self._accounts = feeds, accounts
        self._erasing = erasure
        self._notifier, self._following, self._choices = notifier, following, choices
        self._jobs = jobs
        self._events = events
        self._free_space = free_space
        self._settings = settings

    def find_due_jobs(self) -> list[Job]:
        """Return the jobs of imports that should run and have no live run; none while a disk is short."""
        if self._free_space.find_shortage():
            return []
        return [make_import_job(found.user_id, found.id) for found in self._imports.find_due(clock.now())]

    async def run(self, user_id: int, import_id: int, run: str, waiter: Waiter) -> dict[str, Any]:
        """Run an import until it ends, and return its counts.

        While a disk is almost full, a run leaves the rest to a later one. Safe to run twice and to be killed
        anywhere. All store calls run in threads.

        Args:
            run: unique name of this attempt.

        Raises:
            StoreError: the store did not answer; the import waits for the next run.
        """
        if await asyncio.to_thread(self._free_space.find_shortage):
            return {"state": "left"}
        begun = await asyncio.to_thread(self._imports.begin_run, user_id, import_id, run, clock.now())
        if begun is None:
            return {"state": "waits"}
        log.info("import_begun", import_id=import_id, user_id=user_id, left=begun.left)
        work = await asyncio.to_thread(self._work, begun, run)
        while await asyncio.to_thread(work.run_step):
            if await asyncio.to_thread(self._free_space.find_shortage):
                return {"state": "left"}
            tickets, ended = work.tickets, set[str]()
            async for outcome in waiter.await_many(tickets, PAUSE):
                ended.add(outcome.id)
            work.note_ended_jobs(ended)
            if not tickets:  # no job ends while hosts are rate-limited: wait by the clock
                await asyncio.sleep(PAUSE if work.waits else 0)
        if begun.waiting_marks and not work.lost:
            await asyncio.to_thread(self._apply_marks, work)
        if begun.has_waiting_choices and not work.lost:
            await asyncio.to_thread(self._apply_choices, work)
        done = await asyncio.to_thread(self._end, work)
        await asyncio.to_thread(self._next)
        return {"state": done.state.value if done else "left", **(done.counts if done else {})}

    def _apply_marks(self, work: _Work) -> None:
        """Mark the entries of an archive, now that its feeds are fetched. A lost run ends early."""
        feeds = self._archives.find_feeds(work.running)
        added = frozenset(self._imports.find_imported_feeds(work.running).feeds)
        name = self._name_pages(work.running.user_id)
        while self._archives.apply_next(
            work.running, work.run, feeds, clock.now(), added=added, page_feed=name
        ):
            self._events.notify_counts(work.running.user_id)
        self._request_texts(work.running)

    def _apply_choices(self, work: _Work) -> None:
        """Take over searches, rules and settings from an archive of Eventr. A lost run ends early."""
        one = work.running
        added = set(self._imports.find_imported_feeds(one).feeds)
        items = self._imports.find_items(one.user_id, one.id)
        feeds = {item.url: item.feed_id for item in items if item.feed_id in added}
        found = self._imports.find_choices(one)
        # The permissions were checked at the start, see ``choice_kinds``.
        taken = self._choices.apply(Actor(one.user_id), found, one.choice_kinds, feeds, work.check_alive)
        if taken is not None and not self._imports.end_choices(one, work.run, taken):
            work.lost = True

    def _name_pages(self, user_id: int) -> str:
        """Return the name of a person's feed of saved pages, in their language."""
        user = self._accounts.find_user(user_id)
        return texts.name_saved_pages(user.preferences.language if user else "en")

    def _request_texts(self, one: Import) -> None:
        """Let the texts of imported pages be fetched, where the sites allow it, as opening a page does."""
        pages = self._archives.find_textless(one.user_id, one.created, PAGE_TEXTS)
        with contextlib.suppress(StoreError):
            self._jobs.enqueue_many(
                [
                    Job(
                        Task.FULL_TEXT,
                        {"feed_id": feed_id, "entry_id": entry_id, "ahead": True},
                        Queue.ARTICLES_SYSTEM,
                    )
                    for feed_id, entry_id in pages
                ]
            )

    def _next(self) -> None:
        self._jobs.enqueue_many(self.find_due_jobs())

    def _work(self, begun: Import, run: str) -> _Work:
        return _Work(
            imports=self._imports,
            subscriptions=self._subscriptions,
            feeds=self._feeds,
            following=self._following,
            jobs=self._jobs,
            events=self._events,
            running=begun,
            run=run,
            own_host=own_addresses.get_own_host(self._settings.own_origin),
            window=self._settings.import_window,
            patience=self._settings.import_patience,
        )

    def _end(self, work: _Work) -> Import | None:
        if work.lost:
            user_id = work.running.user_id
            if not self._imports.is_stored(work.running) and self._erasing.is_begun(user_id):
                # This run may have written data after the account was deleted (G02).
                self._erasing.finish(user_id, clock.now())
            return None
        done = self._imports.end_run(work.running, work.run, clock.now())
        if done is not None:
            self._events.notify_progress(done.user_id, done.id, done.build_report(clock.now()))
            self._events.notify_counts(done.user_id)
            self._notifier.notify_import_finished(done.user_id, done.id)
            log.info("import_ended", import_id=done.id, **done.counts)
        return done


def make_import_job(user_id: int, import_id: int) -> Job:
    """Return the job that runs an import."""
    return Job(Task.IMPORT, {"user_id": user_id, "import_id": import_id}, Queue.IMPORT)


class _Work:
    """The state of one run: the outlines that wait, and those being fetched."""

    def __init__(
        self,
        *,
        imports: ImportGateway,
        subscriptions: SubscriptionGateway,
        feeds: FeedGateway,
        following: FollowingService,
        jobs: JobPort,
        events: EventPort,
        running: Import,
        run: str,
        own_host: str,
        window: int,
        patience: float,
    ) -> None:
        self._imports, self._subscriptions, self._feeds = imports, subscriptions, feeds
        self._jobs, self._events = jobs, events
        self._following, self._own = following, own_host
        self.running, self.run, self.lost = running, run, False
        self._window, self._patience = window, patience
        items = imports.find_items(running.user_id, running.id)
        self._states = {item.index: item.state for item in items}
        open_states = (ItemState.WAITING, ItemState.RETRY, ItemState.FETCHING)
        self._queue = [item for item in items if item.state in open_states][::-1]
        # A retried feed stays where its reader put it; they may have deleted the folders of the file.
        fresh = [item for item in self._queue if item.state is not ItemState.RETRY]
        used = {place for item in fresh for place in item.folders}
        self._folders = imports.get_or_create_folders(running, used) if fresh else {}
        self._asked: dict[int, _Asked] = {}
        self._jobs_of: dict[str, tuple[Ticket, list[int]]] = {}
        self._pulled: dict[int, float] = {}
        self._looked = self._told = time.monotonic()
        self._heard: set[int] = set()
        self._needless: dict[int, str] = {}
        is_wanted = running.has_waiting_choices and ChoiceKind.FEEDS in running.choice_kinds
        settings = imports.find_choices(running).get(ChoiceKind.FEEDS, ()) if is_wanted else ()
        #: Addresses of feeds that are private from their first moment.
        self._private = {address for address, _, is_private in settings if is_private}

    @property
    def tickets(self) -> list[Ticket]:
        """Jobs that have not ended."""
        return [ticket for ticket, _ in self._jobs_of.values()]

    @property
    def waits(self) -> bool:
        """Whether the run can only wait for feeds."""
        return not self._queue or len(self._asked) >= self._window

    def note_ended_jobs(self, ended: Iterable[str]) -> None:
        """Record which jobs have ended."""
        for job_id in ended:
            self._heard.update(self._jobs_of.pop(job_id)[1])

    def run_step(self) -> bool:
        """Settle fetched feeds, subscribe to the next few and save; return False if nothing is left."""
        changes = self._settle()
        room = min(STEP, self._window - len(self._asked))
        changes |= self._subscribe([self._queue.pop() for _ in range(min(room, len(self._queue)))])
        self._write(changes)
        return not self.lost and bool(self._queue or self._asked)

    def check_alive(self) -> bool:
        """Show that this run is alive, and return whether it still owns the import."""
        self._write({})
        return not self.lost

    # -- subscribing

    def _subscribe(self, items: Sequence[ImportItem]) -> dict[int, ItemChange]:
        changes: dict[int, ItemChange] = {}
        fresh: list[tuple[int, ImportItem]] = []
        added: list[int] = []
        items = self._merged(items)
        left = self._left(items)
        together = self._follow_together([item for item in items if item.feed_id not in left])
        for item in items:
            if item.feed_id in left:
                changes[item.index] = ItemChange(ItemState.SKIPPED, None, item.feed_id)
                continue
            try:
                if item.index in together:
                    feed_id, new = together[item.index], True
                elif handle := own_addresses.parse_handle(item.url, (self._own,)):
                    changes[item.index] = self._follow_person(item, handle)
                    continue
                else:
                    feed_id, new = self._follow(item)
            except StoreError:
                raise
            except EventrError as e:
                # In any other state, the feed id is of an older subscription.
                known = item.feed_id if item.state is ItemState.RETRY else None
                changes[item.index] = ItemChange(ItemState.FAILED, _word(e), known, _detail(e))
                continue
            added += [feed_id] if new else []
            if item.state is ItemState.WAITING and not new and self._had(feed_id):
                changes[item.index] = ItemChange(ItemState.ALREADY, None, feed_id)
            else:
                fresh.append((feed_id, item))
        if added:
            self._events.notify_follows(self.running.user_id, added=added)
        return changes | self._ask(fresh)

    def _had(self, feed_id: int) -> bool:
        """Return whether the user followed a feed before this import began.

        Feeds that an earlier run of this import added don't count.
        """
        mine, since = self._subscriptions.get(self.running.user_id, feed_id), self.running.started
        return since is not None and mine.id < since.timestamp() * 1_000_000

    def _merged(self, items: Sequence[ImportItem]) -> list[ImportItem]:
        """Replace the feeds of retried outlines that were merged into other feeds meanwhile."""
        again = [item.feed_id for item in items if item.state is ItemState.RETRY and item.feed_id]
        into = self._imports.find_successors(again) if again else {}
        return [dataclasses.replace(one, feed_id=into.get(one.feed_id or 0, one.feed_id)) for one in items]

    def _left(self, items: Sequence[ImportItem]) -> set[int]:
        """Return the feeds of retried outlines that the user has unsubscribed from since."""
        again = [item.feed_id for item in items if item.state is ItemState.RETRY and item.feed_id]
        mine = self._subscriptions.find_by_user(self.running.user_id, again) if again else []
        return set(again) - {one.feed_id for one in mine}

    def _follow_together(self, items: Sequence[ImportItem]) -> dict[int, int]:
        """Subscribe to the feeds of outlines in one transaction; return outline → feed.

        Only feeds that the user doesn't have are in it, each for its first outline. If one of them is
        refused, none is subscribed. :meth:`_follow` handles all outlines that are left out.
        """
        user_id, now = self.running.user_id, clock.now()
        fresh = [item for item in items if not _is_known(item) and not self._is_person(item)]
        try:
            feeds = self._feeds.get_or_create_many(
                [item.url for item in fresh], now=now, due=now + LEFT_ALONE
            )
            firsts = dict[int, tuple[ImportItem, Feed]]()
            for item, feed in zip(fresh, feeds, strict=True):
                firsts.setdefault(feed.id, (item, feed))
            mine = {one.feed_id for one in self._subscriptions.find_by_user(user_id, list(firsts))}
            new = {feed_id: both for feed_id, both in firsts.items() if feed_id not in mine}
            wanted = [(self._wanted(item, feed), feed) for item, feed in new.values()]
            self._subscriptions.add_many(user_id, wanted, now)
        except StoreError:
            raise
        except EventrError as e:
            log.info("import_step_split", import_id=self.running.id, error=e.word)
            return {}
        return {item.index: feed.id for item, feed in new.values()}

    def _is_person(self, item: ImportItem) -> bool:
        """Return whether an outline names a person of this server, or nobody."""
        try:
            return own_addresses.parse_handle(item.url, (self._own,)) is not None
        except EventrError:
            return True

    def _wanted(self, item: ImportItem, feed: Feed) -> Subscription:
        # The title in the user's file is private: other subscribers of the feed never see it (V08, W22).
        name = "" if item.title in (feed.title, item.url) else item.title
        folders, is_private = self._folders_of(item), item.url in self._private
        return Subscription(0, self.running.user_id, feed.id, name, folders, private=is_private)

    def _follow(self, item: ImportItem) -> tuple[int, bool]:
        """Subscribe to an outline's feed; twice is the same as once."""
        now = clock.now()
        if item.feed_id and _is_known(item):
            return item.feed_id, False
        feed, added = add_at_address(
            self._feeds, self._subscriptions, item.url, lambda feed: self._wanted(item, feed), now=now
        )
        if added is None:
            self._add_folders(feed.id, self._folders_of(item))
        return feed.id, added is not None

    def _follow_person(self, item: ImportItem, handle: str) -> ItemChange:
        """Follow the local person whose feed an outline names, or send a follow request.

        The result is the same as if the user had typed the address.

        Raises:
            EventrError: as :meth:`FollowingService.follow`.
        """
        actor = Actor(self.running.user_id)
        whom = self._following.get_person(actor, handle)
        feed_id = whom.profile.feed_id
        if not (whom.tie.follows or self._following.follow(actor, handle).follows):
            return ItemChange(ItemState.ADDED, None, None)  # a follow request is pending
        self._add_folders(feed_id, self._folders_of(item))
        return ItemChange(ItemState.ALREADY if self._had(feed_id) else ItemState.ADDED, None, feed_id)

    def _folders_of(self, item: ImportItem) -> tuple[int, ...]:
        if not self.running.keep_folders:
            return tuple(self._folders.values())
        places = [place for place in item.folders if place in self._folders]
        return tuple(dict.fromkeys(self._folders[place] for place in places))

    def _add_folders(self, feed_id: int, folder_ids: Sequence[int]) -> None:
        if folder_ids:
            self._subscriptions.update_folders(self.running.user_id, feed_id, folder_ids)

    # -- fetching

    def _ask(self, items: Sequence[tuple[int, ImportItem]]) -> dict[int, ItemChange]:
        """Queue the first fetches of these feeds; feeds that already have entries need none.

        Several outlines may have the same feed, if their addresses in the file differ only in form.
        """
        ends = self._imports.find_poll_results([feed_id for feed_id, _ in items])
        changes: dict[int, ItemChange] = {}
        asked: list[int] = []
        for feed_id, item in items:
            end = ends[feed_id]
            if end.has_succeeded and item.state is not ItemState.RETRY:
                changes[item.index] = self._added(item, feed_id, end)
                continue
            state = item.state if item.state is ItemState.RETRY else ItemState.FETCHING
            changes[item.index] = ItemChange(state, None, feed_id)
            self._asked[item.index] = _Asked(item, feed_id, end, time.monotonic())
            asked.append(item.index)
        self._pull(asked)
        self._clear_titles()
        return changes

    def _pull(self, indexes: Sequence[int]) -> None:
        batches = [list(indexes[start : start + BATCH]) for start in range(0, len(indexes), BATCH)]
        feeds = [dict.fromkeys(self._asked[index].feed_id for index in batch) for batch in batches]
        args = [{"feed_ids": list(some)} for some in feeds]
        tickets = self._jobs.enqueue_many([Job(Task.PULL, arg, Queue.PULL) for arg in args])
        for ticket, batch in zip(tickets, batches, strict=True):
            self._jobs_of[ticket.id] = (ticket, batch)
            self._pulled |= dict.fromkeys(batch, time.monotonic())

    def _settle(self) -> dict[int, ItemChange]:
        """Check the feeds whose jobs have ended, and every :data:`LOOK` seconds all pending feeds."""
        now = time.monotonic()
        every = now - self._looked >= LOOK
        wanted = list(self._asked) if every else [i for i in self._heard if i in self._asked]
        self._heard.clear()
        if every:
            self._looked = now
        ends = self._imports.find_poll_results([self._asked[index].feed_id for index in wanted])
        changes = {i: c for i in wanted if (c := self._judge(self._asked[i], ends, now)) is not None}
        for index in changes:
            del self._asked[index]
        self._clear_titles()
        if every:
            self._ask_again(now)
        return changes

    def _judge(self, asked: _Asked, poll_results: Mapping[int, PollResult], now: float) -> ItemChange | None:
        """Return the result of a pending feed, or None while there is no result."""
        end = poll_results.get(asked.feed_id)
        if end is None:
            return ItemChange(ItemState.FAILED, "gone", asked.feed_id)
        if end.error in PARTIAL:
            return self._added(asked.item, asked.feed_id, end)  # its complete entries are stored
        if end.error and (end.errors != asked.before.errors or asked.item.state is ItemState.FETCHING):
            return settle_item(asked.feed_id, end)
        if (
            end.has_succeeded
            and not end.error
            and (not asked.before.has_succeeded or end.checked_at != asked.before.checked_at)
        ):
            return self._added(asked.item, asked.feed_id, end)
        if now - asked.since < self._patience:
            return None
        # The host is rate-limited or paused: the updater fetches the feed later.
        return settle_item(asked.feed_id, end)

    def _ask_again(self, now: float) -> None:
        """Queue feeds without a result again: their job was lost, or postponed for their host."""
        late = {i for i in self._asked if now - self._pulled[i] >= AGAIN}
        lost = [job for job, (_, batch) in self._jobs_of.items() if late.intersection(batch)]
        for job in lost:
            del self._jobs_of[job]
        self._pull(sorted(late))

    def _added(self, item: ImportItem, feed_id: int, end: PollResult) -> ItemChange:
        if item.title and item.title == end.title and item.state is not ItemState.RETRY:
            self._needless[feed_id] = item.title
        return ItemChange(ItemState.ADDED, None, feed_id)

    def _clear_titles(self) -> None:
        """Clear the user's titles of feeds that equal the feeds' own titles, which are known now."""
        self._subscriptions.clear_titles(self.running.user_id, self._needless)
        self._needless = {}

    # -- writing

    def _write(self, changes: Mapping[int, ItemChange]) -> None:
        """Save the progress, and find out whether this run still owns the import.

        To await the feeds of an earlier run again isn't progress.
        """
        moved = any(change.state is not self._states[index] for index, change in changes.items())
        self._states |= {index: change.state for index, change in changes.items()}
        counts = Counter(state.value for state in self._states.values())
        found = self._imports.save_progress(
            self.running, self.run, counts, changes, clock.now(), has_progressed=moved
        )
        if found is None:
            self.lost = True
            if found := self._imports.save_late_progress(self.running, self.run, changes, clock.now()):
                self._events.notify_progress(found.user_id, found.id, found.build_report(clock.now()))
            return
        if changes and time.monotonic() - self._told >= TELL:
            self._told = time.monotonic()
            self._events.notify_progress(found.user_id, found.id, found.build_report(clock.now()))


def _is_known(item: ImportItem) -> bool:
    """Return whether an outline is a retry of a feed that was subscribed before."""
    return item.state is ItemState.RETRY and bool(item.feed_id)


def _word(error: EventrError) -> str:
    """Return the error code of a failed outline; a full list gets its own code with the limit."""
    limit = error.ids.get("limit") if isinstance(error, TooLargeError) else None
    return error.word if limit is None else f"{NO_ROOM}{limit}"


def _detail(error: EventrError) -> str:
    """Return what exactly happened: of a foreign site's fault, its detail, else the sentence."""
    return error.detail if isinstance(error, FeedError) else write_refusal(error)
