"""Imports from another reader's server: requests, and the job that reads it page by page at its own pace."""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
from collections.abc import Generator, Iterable, Mapping
from typing import Any, Final, TypeVar

from app import clock, logs
from app.config import Settings
from app.errors import N_, ConflictError, InvalidError, RateLimitedError, StoreError, TooLargeError
from app.gateways.accounts.accounts import AccountGateway
from app.gateways.imports.imports import ImportGateway
from app.gateways.imports.pulls import TOO_LARGE, PulledImportGateway
from app.models.accounts.actor import Actor, Permission
from app.models.feeds.fetched import Fetched, FetchRequest
from app.models.feeds.hosts import parse_host
from app.models.imports.imports import Import
from app.models.imports.opml import SubscriptionList
from app.models.imports.pulls import (
    ADDRESS_MAX,
    END,
    NAME_MAX,
    OPEN_MAX,
    SECRET_MAX,
    Login,
    PageTooLargeError,
    PassingError,
    PullKind,
    shorten_stage,
)
from app.models.jobs.jobs import Job, Queue, Task
from app.models.jobs.later import PendingTask
from app.ports import EventPort, FetchStreamer, HostBudget, JobPort, LaterPort
from app.services.access import Limiter, require_permission, throttle
from app.services.fetch_budget import FetchBudget
from app.services.free_space import FreeSpace
from app.services.validation import check_id, check_text

log = logs.get(__name__)

T = TypeVar("T")
#: Kind of the delayed task that goes on with a server.
PULL: Final = "import.pull"
#: Seconds that a run waits for the rate limit of a host; for longer ones it ends, and a later run goes on.
PATIENCE: Final = 10.0
#: Seconds after the first failed try; each further one waits twice as long, up to the longest.
BACKOFF, BACKOFF_MAX = 30.0, 3600.0
#: Tries within the hour that a user can start by hand.
TRIES_NOW: Final = 20
#: Seconds after which a run ends and another one goes on, behind the jobs that wait.
LONGEST: Final = 180.0
#: Pages after which a size whose answer was too long is tried again.
GROW_AFTER: Final = 5
#: The error word of a server that gets too many requests.
TOO_MANY: Final = "http_429"
#: Most pages of a pull, and characters that all of them may have.
PAGES_MAX: Final = 20_000
STORED_MAX: Final = 128 << 20
_TOO_LONG: Final = N_("Reading %(host)s takes too long. Start the import once more.")


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
        imports: ImportGateway,
        limiter: Limiter,
        budget: HostBudget,
        fetch_budget: FetchBudget,
        free_space: FreeSpace,
        settings: Settings,
    ) -> None:
        self._pulls, self._imports, self._accounts = pulls, imports, accounts
        self._jobs, self._later = jobs, later
        self._events, self._limiter, self._budget = events, limiter, budget
        self._fetch_budget, self._free_space, self._settings = fetch_budget, free_space, settings

    def request_pull(
        self,
        actor: Actor,
        kind: PullKind,
        address: str,
        *,
        name: str = "",
        secret: str = "",
        instead_of: int = 0,
    ) -> Import:
        """Let a job read the actor's account on another server; it becomes an import with a preview.

        Args:
            address: of the server; NewsBlur has only one, and its address may be empty.
            name: of the user there; not used for Miniflux's own interface, which needs none.
            secret: the password for apps, or the token. It is stored encrypted until the import ends.
            instead_of: an import of the actor whose server isn't answering, which is deleted; 0: none.

        Raises:
            ConflictError: that import isn't waiting for its server anymore; nothing is stored.
            InvalidError: a field is missing or wrong.
            RateLimitedError: too many imports within the hour, or the day's bytes are spent.
            NoSpaceError: a disk is almost full.
        """
        require_permission(actor, Permission.SUBSCRIPTION_EDIT)
        self._free_space.require_space()
        self._fetch_budget.require_budget(actor)
        instead_of = check_id(instead_of, "instead") if instead_of else 0
        address = check_text(address, "address", limit=ADDRESS_MAX, empty=True)
        name = "" if kind is PullKind.MINIFLUX else check_text(name, "name", limit=NAME_MAX, empty=True)
        if kind is not PullKind.MINIFLUX and not name:
            raise InvalidError("Enter your user name on the other server.", field="name")
        if not secret or len(secret) > SECRET_MAX or not secret.isprintable():
            raise InvalidError("Enter the password or the token of your account there.", field="secret")
        limit = self._settings.imports_per_hour
        throttle(self._limiter, f"import:{actor.user_id}", limit=limit, window=clock.HOUR)
        login = Login(name, secret)
        found = self._pulls.add(actor.user_id, kind, address, login, clock.now(), instead_of=instead_of)
        log.info("import_requested", user_id=actor.user_id, import_id=found.id, kind=kind.value)
        self._enqueue(found)
        return found

    def try_now(self, actor: Actor, import_id: int) -> Import:
        """Try a server again that isn't answering, without waiting; a repeat changes nothing.

        The rate limit of its host still applies.

        Raises:
            NotFoundError: the actor has no such import.
            ConflictError: the import isn't reading a server, or the server asked to wait for longer.
            RateLimitedError: too many tries within the hour, or the day's bytes are spent.
        """
        require_permission(actor, Permission.SUBSCRIPTION_EDIT)
        import_id, now = check_id(import_id, "import_id"), clock.now()
        found = self._imports.get(actor.user_id, import_id)
        if found.pull is None:
            raise ConflictError("This import isn't waiting for another server.")
        if not found.pull.is_waiting(now):
            return found
        _require_consent(found, now)
        self._fetch_budget.require_budget(actor)
        throttle(self._limiter, f"import-try:{actor.user_id}", limit=TRIES_NOW, window=clock.HOUR)
        if self._pulls.mapper.make_pull_due(actor.user_id, import_id, now):
            log.info("import_tried_now", user_id=actor.user_id, import_id=import_id)
            self._enqueue(found)
        current = self._imports.get(actor.user_id, import_id)
        _require_consent(current, now)  # another try may have ended meanwhile
        return current

    def _enqueue(self, one: Import) -> None:
        with contextlib.suppress(StoreError):  # found again in the database, see find_pending
            self._jobs.enqueue(make_pull_job({"user_id": one.user_id, "import_id": one.id}))

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
        if await asyncio.to_thread(self._pulls.has_other_run, user_id, import_id, clock.now()):
            await asyncio.to_thread(self._touch, user_id, import_id, BACKOFF)
            return {"state": "waits"}
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
                self._put_off, reading.one, "", float(e.ids.get("retry_after") or BACKOFF)
            )
        except PageTooLargeError:
            error = TooLargeError(TOO_LARGE)
            done = await asyncio.to_thread(self._pulls.give_up, reading.one, error, clock.now())
        except (InvalidError, TooLargeError) as e:
            done = await asyncio.to_thread(self._pulls.give_up, reading.one, e, clock.now())
        except (ArithmeticError, LookupError, RecursionError, TypeError, ValueError) as e:
            # The answer has something that nobody expected; the next try would fail with it as well.
            log.error("import_answer_unexpected", exc_info=True, import_id=import_id, error=type(e).__name__)
            host = reading.one.name
            unread = InvalidError(
                "Eventr can't read the answer of %(host)s (%(word)s).", host=host, word=type(e).__name__
            )
            done = await asyncio.to_thread(self._pulls.give_up, reading.one, unread, clock.now())
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
        if clock.now() >= reading.one.created + OPEN_MAX:
            raise InvalidError(_TOO_LONG, host=reading.one.name)
        reader = await asyncio.to_thread(self._pulls.open_reader, reading.one)
        subscriptions: SubscriptionList = await self._drive(reading, reader.connect())
        size, until = _PageSize(self._settings.import_pull_page), asyncio.get_running_loop().time() + LONGEST
        while (stage := reading.find_stage(reader.stages)) != END:
            try:
                cursor = reading.pull.cursor if stage == reading.pull.stage else ""
                page = await self._drive(reading, reader.read_page(stage, cursor, size.now))
            except PageTooLargeError:
                if size.now == 1:
                    raise
                size.set_lower()
                continue
            following, pull = (stage, page.cursor), reading.pull
            if pull.asked + page.listed > self._settings.archive_entries_max or pull.pages + 1 >= PAGES_MAX:
                following = END, ""  # the report counts what is beyond the limit
            stored = await asyncio.to_thread(
                self._pulls.store_page, reading.one, page, *following, clock.now(), limit=STORED_MAX
            )
            if stored is None:
                return None
            reading.one = stored
            self._events.notify_progress(stored.user_id, stored.id, stored.build_report(clock.now()))
            size.set_higher()
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
                raise PassingError("", wait)  # the server has done nothing wrong
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
        pause = max(wait, min(BACKOFF * 2**failures, BACKOFF_MAX) if word else 0.0)
        # A server that gets too many requests asks for a pause even if it doesn't say for how long.
        asked = wait or pause if word == TOO_MANY else wait if word else 0
        asked_until = now + dt.timedelta(seconds=asked) if asked else None
        due = now + dt.timedelta(seconds=pause)
        if later := self._pulls.put_off(one, word, due, now, asked_until=asked_until):
            self._events.notify_progress(one.user_id, one.id, later.build_report(now))
        self._touch(one.user_id, one.id, pause)
        log.info("import_put_off", import_id=one.id, error=word, seconds=pause)
        return {"state": "waits"}

    def _touch(self, user_id: int, import_id: int, pause: float) -> None:
        args = {"user_id": user_id, "import_id": import_id}
        with contextlib.suppress(StoreError):  # found again in the database
            self._later.touch(PULL, str(import_id), args, delay=pause + 1, limit=pause + 1)


def _require_consent(one: Import, now: dt.datetime) -> None:
    """Check that the server of an import didn't ask to wait for longer.

    Raises:
        ConflictError: it did.
    """
    if one.pull is not None and one.pull.is_held(now):
        raise ConflictError(
            "%(host)s asked Eventr to wait. Eventr tries again automatically after that.", host=one.name
        )


class _PageSize:
    """How many entries a page may have: fewer after an answer that was too long, and more again after others.

    A size that was too long is tried again only after some pages, because its answer is fetched for nothing.
    """

    def __init__(self, limit: int) -> None:
        self.now, self._limit, self._too_many, self._good = limit, limit, limit + 1, 0

    def set_lower(self) -> None:
        """Take note that the answer was too long."""
        self._too_many, self._good, self.now = self.now, 0, max(1, self.now // 4)

    def set_higher(self) -> None:
        """Take note that a page was read."""
        self._good += 1
        if self._good >= GROW_AFTER:
            self._too_many = self._limit + 1
        larger = min(self.now * 2, self._limit)
        if larger < self._too_many:
            self.now = larger


class _Reading:
    """A run: the import as it is, and what fetches."""

    def __init__(self, one: Import, fetcher: FetchStreamer) -> None:
        self.one, self.fetcher = one, fetcher

    @property
    def pull(self) -> Any:
        return self.one.pull

    def find_stage(self, stages: Iterable[str]) -> str:
        """Return the stage to go on with; after it, and in place of one that is gone, the next unread one.

        Names of what is read tell it, because a server may list its tags in another order each time.
        """
        if self.pull.stage == END:
            return END
        left = [stage for stage in stages if shorten_stage(stage) not in self.pull.done]
        return self.pull.stage if self.pull.stage in left else next(iter(left), END)


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
