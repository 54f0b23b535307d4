"""Imports from another reader's server: requests, and the job that reads it page by page at its own pace."""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
from collections.abc import Generator, Iterable, Mapping
from typing import Any, Final, TypeVar

from app import clock, logs
from app.config import Settings
from app.errors import InvalidError, RateLimitedError, StoreError, TooLargeError
from app.gateways.accounts.accounts import AccountGateway
from app.gateways.imports.pulls import PulledImportGateway
from app.models.accounts.actor import Actor, Permission
from app.models.feeds.fetched import Fetched, FetchRequest
from app.models.feeds.hosts import parse_host
from app.models.imports.imports import Import
from app.models.imports.opml import SubscriptionList
from app.models.imports.pulls import (
    ADDRESS_MAX,
    END,
    NAME_MAX,
    SECRET_MAX,
    Login,
    PageTooLargeError,
    PassingError,
    PullKind,
)
from app.models.jobs.jobs import Job, Queue, Task
from app.models.jobs.later import PendingTask
from app.ports import EventPort, FetchStreamer, HostBudget, JobPort, LaterPort
from app.services.access import Limiter, require_permission, throttle
from app.services.fetch_budget import FetchBudget
from app.services.free_space import FreeSpace
from app.services.validation import check_text

log = logs.get(__name__)

T = TypeVar("T")
#: Kind of the delayed task that goes on with a server.
PULL: Final = "import.pull"
#: Seconds that a run waits for the rate limit of a host; for longer ones it ends, and a later run goes on.
PATIENCE: Final = 60.0
#: Seconds after the first failed try; each further one waits twice as long, up to the longest.
BACKOFF, BACKOFF_MAX = 30.0, 3600.0
#: Seconds after which a run ends and another one goes on.
LONGEST: Final = 3000.0


class PulledImportService:
    """Reads an account on another server into an import with a preview."""

    def __init__(
        self,
        pulls: PulledImportGateway,
        accounts: AccountGateway,
        jobs: JobPort,
        later: LaterPort,
        events: EventPort,
        *,
        limiter: Limiter,
        budget: HostBudget,
        fetch_budget: FetchBudget,
        free_space: FreeSpace,
        settings: Settings,
    ) -> None:
        self._pulls, self._accounts, self._jobs, self._later = pulls, accounts, jobs, later
        self._events, self._limiter, self._budget = events, limiter, budget
        self._fetch_budget, self._free_space, self._settings = fetch_budget, free_space, settings

    def request_pull(
        self, actor: Actor, kind: PullKind, address: str, *, name: str = "", secret: str = ""
    ) -> Import:
        """Let a job read the actor's account on another server; it becomes an import with a preview.

        Args:
            name: of the user there; Miniflux's own interface needs none.
            secret: the password for apps, or the token. It is stored encrypted until the import ends.

        Raises:
            InvalidError: a field is missing or wrong.
            RateLimitedError: too many imports within the hour, or the day's bytes are spent.
            NoSpaceError: a disk is almost full.
        """
        require_permission(actor, Permission.SUBSCRIPTION_EDIT)
        self._free_space.require_space()
        self._fetch_budget.require_budget(actor)
        address = check_text(address, "address", limit=ADDRESS_MAX, empty=True)
        name = check_text(name, "name", limit=NAME_MAX, empty=True)
        if kind is not PullKind.MINIFLUX and not name:
            raise InvalidError("Enter your user name on the other server.", field="name")
        if not secret or len(secret) > SECRET_MAX or not secret.isprintable():
            raise InvalidError("Enter the password or the token of your account there.", field="secret")
        limit = self._settings.imports_per_hour
        throttle(self._limiter, f"import:{actor.user_id}", limit=limit, window=clock.HOUR)
        found = self._pulls.add(actor.user_id, kind, address, Login(name, secret), clock.now())
        log.info("import_requested", user_id=actor.user_id, import_id=found.id, kind=kind.value)
        with contextlib.suppress(StoreError):  # found again in the database, see find_pending
            self._jobs.enqueue(make_pull_job({"user_id": actor.user_id, "import_id": found.id}))
        return found

    def find_pending(self) -> Iterable[PendingTask]:
        """Yield the servers that are still to be read, as delayed tasks."""
        for one, due in self._pulls.find_pulling():
            yield PendingTask(str(one.id), {"user_id": one.user_id, "import_id": one.id}, due)

    async def run(self, user_id: int, import_id: int, run: str, fetcher: FetchStreamer) -> dict[str, Any]:
        """Go on reading a server; safe to run twice, and to be killed anywhere.

        Args:
            run: unique name of this attempt.

        Raises:
            StoreError: a store isn't responding; a later run goes on.
        """
        begun = await asyncio.to_thread(self._pulls.begin_run, user_id, import_id, run, clock.now())
        if begun is None:
            return {"state": "ended"}
        reading = _Reading(begun, fetcher)
        try:
            done = await self._read(reading)
        except PassingError as e:
            return await asyncio.to_thread(self._put_off, reading.one, e.word, e.wait)
        except RateLimitedError as e:
            return await asyncio.to_thread(
                self._put_off, reading.one, "", float(e.ids.get("retry_after") or 0)
            )
        except PageTooLargeError:
            error = TooLargeError("The other server's answers are larger than this server accepts.")
            done = await asyncio.to_thread(self._pulls.give_up, reading.one, error, clock.now())
        except (InvalidError, TooLargeError) as e:
            done = await asyncio.to_thread(self._pulls.give_up, reading.one, e, clock.now())
        if done is None:
            return {"state": "left"}
        self._events.notify_progress(user_id, import_id, done.build_report(clock.now()))
        log.info("import_pulled", user_id=user_id, import_id=import_id, state=done.state.value)
        return {"state": done.state.value}

    async def _read(self, reading: _Reading) -> Import | None:
        """Read all stages; return the preview, None if this run has lost the import.

        Raises:
            PassingError, PageTooLargeError, InvalidError, TooLargeError, RateLimitedError
        """
        reader = await asyncio.to_thread(self._pulls.open_reader, reading.one)
        subscriptions: SubscriptionList = await self._drive(reading, reader.connect())
        size, until = self._settings.import_pull_page, asyncio.get_running_loop().time() + LONGEST
        while (stage := reading.find_stage(reader.stages)) != END:
            try:
                page = await self._drive(reading, reader.read_page(stage, reading.pull.cursor, size))
            except PageTooLargeError:
                if size == 1:
                    raise
                size = max(1, size // 4)
                continue
            following = (stage, page.cursor) if page.cursor else (_find_next(reader.stages, stage), "")
            if reading.pull.entries + len(page.entries) > self._settings.archive_entries_max:
                following = END, ""  # the report counts what is beyond the limit
            stored = await asyncio.to_thread(
                self._pulls.store_page, reading.one, page, *following, clock.now()
            )
            if stored is None:
                return None
            reading.one = stored
            self._events.notify_progress(stored.user_id, stored.id, stored.build_report(clock.now()))
            if asyncio.get_running_loop().time() > until:
                raise PassingError("")
        return await asyncio.to_thread(self._pulls.finish, reading.one, subscriptions, clock.now())

    async def _drive(self, reading: _Reading, steps: Generator[FetchRequest, Fetched, T]) -> T:
        """Send the requests of steps, one after the other; return what the steps found."""
        request, result = await asyncio.to_thread(_advance, steps, None)
        while request is not None:
            fetched = await self._fetch(reading, request)
            request, result = await asyncio.to_thread(_advance, steps, fetched)
        return result  # type: ignore[return-value]  # the steps have ended

    async def _fetch(self, reading: _Reading, request: FetchRequest) -> Fetched:
        host, user_id = parse_host(request.url), reading.one.user_id
        await asyncio.to_thread(self._require_budget, user_id)
        while wait := await asyncio.to_thread(self._find_wait, host):
            if wait > PATIENCE:
                raise PassingError("http_429", wait)
            await asyncio.sleep(wait)
        async for fetched in reading.fetcher.stream_fetches([request]):
            await asyncio.to_thread(self._fetch_budget.charge_user, user_id, fetched.wire_bytes)
            return fetched
        raise PassingError("cut_off")

    def _require_budget(self, user_id: int) -> None:
        user = self._accounts.find_user(user_id)
        if user is not None:  # else the account is being deleted, and the run loses the import
            self._fetch_budget.require_budget(user.actor)

    def _find_wait(self, host: str) -> float:
        """Return the seconds until the host may be asked, 0 if it may be now."""
        paused = max(self._budget.find_pauses([host]))
        return paused or max(self._budget.take_tokens([host], urgent=True))

    def _put_off(self, one: Import, word: str, wait: float) -> dict[str, Any]:
        """Let a later run go on: after the time that the server asked for, else after a growing pause."""
        failures, now = one.pull.failures if one.pull else 0, clock.now()
        if word and failures + 1 >= self._settings.import_pull_tries:
            error = InvalidError(
                "%(host)s didn't answer for too long. Start the import once more.", host=one.name
            )
            done = self._pulls.give_up(one, error, now)
            if done is not None:
                self._events.notify_progress(one.user_id, one.id, done.build_report(now))
            return {"state": "given_up"}
        pause = wait or (min(BACKOFF * 2**failures, BACKOFF_MAX) if word else 0.0)
        self._pulls.put_off(one, word, now + dt.timedelta(seconds=pause), now)
        args = {"user_id": one.user_id, "import_id": one.id}
        with contextlib.suppress(StoreError):  # found again in the database
            self._later.touch(PULL, str(one.id), args, delay=pause + 1, limit=pause + 1)
        log.info("import_put_off", import_id=one.id, error=word, seconds=pause)
        return {"state": "waits"}


class _Reading:
    """A run: the import as it is, and what fetches."""

    def __init__(self, one: Import, fetcher: FetchStreamer) -> None:
        self.one, self.fetcher = one, fetcher

    @property
    def pull(self) -> Any:
        return self.one.pull

    def find_stage(self, stages: Iterable[str]) -> str:
        """Return the stage to go on with; one that is gone there begins anew with the first."""
        known = [*stages, END]
        return self.pull.stage if self.pull.stage in known else known[0]


def _find_next(stages: Iterable[str], stage: str) -> str:
    known = [*stages, END]
    return known[known.index(stage) + 1]


def _advance(
    steps: Generator[FetchRequest, Fetched, T], fetched: Fetched | None
) -> tuple[FetchRequest | None, T | None]:
    """Return the next request of steps, or what they found at their end."""
    try:
        return (next(steps) if fetched is None else steps.send(fetched)), None
    except StopIteration as end:
        return None, end.value


def make_pull_job(args: Mapping[str, Any]) -> Job:
    """Return the job that goes on reading a server."""
    return Job(
        Task.PULL_IMPORT,
        {"user_id": int(args["user_id"]), "import_id": int(args["import_id"])},
        Queue.IMPORT,
    )
