"""Runs of a rule over past entries: a job with progress, which can be undone for a day."""

from __future__ import annotations

import dataclasses
import datetime as dt
import itertools
import secrets
import time
from collections.abc import Callable

from app import clock, logs
from app.errors import ConflictError, NotFoundError
from app.gateways.reading.rule_runs import RuleRunGateway, RunFeed
from app.gateways.reading.rules import RuleGateway
from app.models.accounts.actor import Actor, Permission
from app.models.jobs.jobs import Job, Queue, Task
from app.models.reading.rules import RuleRun, RunPart, RunState
from app.ports import EventPort, JobPort, SearchPort
from app.services.access import require_permission
from app.services.reading.rule_runner import RequestTexts

log = logs.get(__name__)

#: Silence after which the updater queues a run again.
SILENT = dt.timedelta(seconds=15)
#: Above every number of an entry: the end of a feed.
END = 1 << 53


class RuleRunService:
    """Tries a rule on the user's past entries, and undoes that."""

    def __init__(
        self,
        runs: RuleRunGateway,
        rules: RuleGateway,
        jobs: JobPort,
        events: EventPort,
        engine: SearchPort,
        *,
        request_texts: RequestTexts,
    ) -> None:
        self._request_texts = request_texts
        self._runs, self._rules, self._jobs = runs, rules, jobs
        self._events, self._engine = events, engine

    def begin(self, actor: Actor, rule_id: int) -> RuleRun:
        """Begin to try a rule on all entries of its feeds; what the last run did can't be undone then.

        Raises:
            NotFoundError: the actor has no such rule.
            ConflictError: another run isn't over.
        """
        require_permission(actor, Permission.TAG_EDIT)
        rule = self._rules.find_by_user(actor.user_id).find(rule_id)
        if rule is None:
            raise NotFoundError("You don't have this rule.", rule_id=rule_id)
        total = len(self._runs.find_feeds(actor.user_id, rule))
        run = RuleRun(secrets.token_urlsafe(16), rule, RunState.RUNNING, clock.now(), total=total)
        if not self._runs.begin(actor.user_id, run):
            raise ConflictError("A rule is still being tried on past entries. Wait until that is done.")
        self._jobs.enqueue(_job(actor.user_id, run.id))
        log.info("rule_run_begun", user_id=actor.user_id, feeds=total)
        return run

    def find_run(self, actor: Actor) -> RuleRun | None:
        """Return the actor's last run; None: there was none within a day."""
        require_permission(actor, Permission.ENTRY_READ)
        return self._find_run(actor)

    def _find_run(self, actor: Actor) -> RuleRun | None:
        run = self._runs.find(actor.user_id)
        if run is None or (not run.state.is_active and run.started <= clock.now() - self._runs.undo_ttl):
            return None
        return run

    def undo(self, actor: Actor, run_id: str) -> None:
        """Undo a run, also one that isn't over; a job does it.

        Raises:
            NotFoundError: there is no such run, or it can't be undone anymore.
        """
        require_permission(actor, Permission.TAG_EDIT)
        self._request_undo(actor, run_id, self._find_run(actor))

    def _request_undo(self, actor: Actor, run_id: str, run: RuleRun | None) -> None:
        was = (RunState.RUNNING, RunState.DONE)
        if run is None or not self._runs.set_state(actor.user_id, run_id, was, RunState.UNDOING):
            raise NotFoundError("This can no longer be undone.", undo=run_id)
        self._jobs.enqueue(_job(actor.user_id, run_id))

    def undo_last(self, actor: Actor) -> None:
        """Undo the last run.

        Raises:
            NotFoundError: there is none that can be undone.
        """
        require_permission(actor, Permission.TAG_EDIT)
        run = self._find_run(actor)
        self._request_undo(actor, run.id if run else "", run)

    def find_due_jobs(self, now: dt.datetime) -> list[Job]:
        """Return the jobs of runs that have stopped before their end."""
        return [_job(*row) for row in self._runs.find_waiting(now - SILENT)]

    def continue_run(
        self, user_id: int, run_id: str, seconds: float, is_stopping: Callable[[], bool] = lambda: False
    ) -> dict[str, int]:
        """Continue a run or its undo for at most ``seconds``; safe to repeat."""
        end = time.monotonic() + seconds

        def is_over() -> bool:
            return time.monotonic() >= end or is_stopping()

        for work in (self._run, self._undo):  # someone may request the undo meanwhile
            run = self._runs.find(user_id)
            if run is None or run.id != run_id or is_over():
                break
            work(user_id, run, is_over)
        self._events.notify_counts(user_id)
        return {"changed": run.changed if run else 0}

    def _run(self, user_id: int, run: RuleRun, is_over: Callable[[], bool]) -> None:
        if run.state is not RunState.RUNNING:
            return
        if run.rule.full_text and (run.feed_id, run.after) == (0, 0):
            self._request_texts(user_id, self._rules.find_newest_matches(user_id, run.rule, self._engine))
        for feed in self._runs.find_feeds(user_id, run.rule):
            if feed.card.id < run.feed_id or (feed.card.id == run.feed_id and run.after == END):
                continue
            found = self._run_feed(user_id, run, feed, is_over)
            if found is None:
                return
            run = found
        self._runs.set_state(user_id, run.id, (RunState.RUNNING,), RunState.DONE)

    def _run_feed(
        self, user_id: int, run: RuleRun, feed: RunFeed, is_over: Callable[[], bool]
    ) -> RuleRun | None:
        """Try the rule on a feed; return the run at its new place; None: it stops here."""
        feed_id = feed.card.id
        start = run.after if run.feed_id == feed_id else 0
        # A part that was stored before a crash is made again, as it was.
        stored = self._runs.find_part(user_id, run.id, feed_id, start)
        later = self._runs.make_parts(user_id, run.rule, feed, stored.upto if stored else start, self._engine)
        for part in itertools.chain([stored] if stored else [], later):
            if is_over():
                return None
            if part.changed and part is not stored:
                self._runs.add_part(user_id, run.id, part, run.started + 2 * self._runs.undo_ttl)
            moved = self._apply(user_id, run, part)
            if moved is None:
                return None
            run = moved
        return self._advance(user_id, run, feed_id, END, done=run.done + 1)

    def _apply(self, user_id: int, run: RuleRun, part: RunPart) -> RuleRun | None:
        fresh = None
        if part.changed:
            now = self._runs.find(user_id)  # this worker may have stood still
            if now is None or (now.id, now.state) != (run.id, RunState.RUNNING):
                self._take_back(user_id, run, part, None)
                return None
            fresh = self._runs.apply_part(user_id, run.rule, part, clock.now())
        moved = self._advance(
            user_id,
            run,
            part.feed_id,
            part.upto,
            matches=run.matches + part.matches,
            changed=run.changed + part.changed,
        )
        if moved is None and part.changed:
            self._take_back(user_id, run, part, fresh)
        return moved

    def _take_back(self, user_id: int, run: RuleRun, part: RunPart, fresh: RunPart | None) -> None:
        """Undo what was done too late: while this worker stood still, another one undid the run.

        What another worker has done of a part is left to the undo, which needs the part as it is stored.

        Args:
            fresh: what this worker itself changed; None: nothing.
        """
        now = self._runs.find(user_id)
        is_undoing = now is not None and (now.id, now.state) == (run.id, RunState.UNDOING)
        is_undone = self._runs.is_undone(user_id, run.id)
        if fresh is not None and (is_undoing or is_undone):
            self._runs.undo_part(user_id, run.rule, fresh, clock.now())
        if is_undone or now is None or now.id != run.id:
            self._runs.remove_part(user_id, run.id, part)

    def _advance(self, user_id: int, run: RuleRun, feed_id: int, after: int, **counts: int) -> RuleRun | None:
        """Store the place of a run; None: it was undone meanwhile, or another worker has it."""
        moved = dataclasses.replace(run, feed_id=feed_id, after=after, **counts)  # type: ignore[arg-type]
        return moved if self._runs.set_place(user_id, run, moved, clock.now()) else None

    def _undo(self, user_id: int, run: RuleRun, is_over: Callable[[], bool]) -> None:
        if run.state is not RunState.UNDOING:
            return
        while part := self._runs.find_last_part(user_id, run.id):
            if is_over():
                return
            self._runs.undo_part(user_id, run.rule, part, clock.now())
            self._runs.remove_part(user_id, run.id, part)
        self._runs.set_state(user_id, run.id, (RunState.UNDOING,), RunState.UNDONE)


def _job(user_id: int, run_id: str) -> Job:
    return Job(Task.RULE_RUN, {"user_id": user_id, "run_id": run_id}, Queue.ARTICLES)
