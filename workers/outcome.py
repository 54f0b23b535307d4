"""The outcome of an attempt: pure decisions about what the task returned or raised."""

from __future__ import annotations

import base64
import dataclasses
import json
import random
import traceback
import zlib
from typing import Any

from app.config import Settings
from app.errors import EventrError, LaterError, StoreError, UnsentError
from app.models.jobs.jobs import State
from workers.job import ClaimedJob

#: Longest result, JSON bytes: results are counts and ids; large data belongs in MongoDB.
RESULT_MAX = 256 << 10
_FRAMES = 12
RETRY, RETURNED = "retry", "returned"


class JobTimeoutError(EventrError):
    """A task exceeded its time limit; it is retried."""

    code = "timeout"
    http_status = 503
    default = "The job took too long and was stopped."


class BadJobError(EventrError):
    """A job that can't run at all, see ``ClaimedJob.problem``; never retried."""

    code = "bad_job"

    def __init__(self, word: str, message: str) -> None:
        super().__init__(message)
        self._word = word

    @property
    def word(self) -> str:
        return self._word


@dataclasses.dataclass(frozen=True, slots=True)
class AttemptOutcome:
    """The end of one attempt.

    Attributes:
        kind: ``finished``, ``failed`` (permanently), ``retry`` or ``returned`` (uncounted, to the front).
        seconds: How long to keep the result or failure; for a retry, the delay.
        body: Result or report as RQ's result streams hold it: base64, reports compressed.
        where: Type and places of the error for the job's history; empty without an error.
    """

    job: ClaimedJob
    kind: str
    seconds: float = 0
    body: str = ""
    error: str = ""
    message: str = ""
    where: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class ProgressReport:
    """The progress report of a running task: a small JSON object."""

    job: ClaimedJob
    data: dict[str, Any]


def return_job(job: ClaimedJob) -> AttemptOutcome:
    """Return the job to the front of its queue without counting an attempt as failed."""
    return AttemptOutcome(job, RETURNED)


def finish_job(job: ClaimedJob, value: Any, settings: Settings) -> AttemptOutcome:
    """Return the outcome for a task's return value; a value that isn't JSON is a permanent failure."""
    try:
        text = json.dumps(value, allow_nan=False)
    except (TypeError, ValueError) as e:
        return fail_job(
            job, BadJobError("bad_result", f"The task's result can't be stored as JSON: {e}."), settings
        )
    if len(text) > RESULT_MAX:
        return fail_job(job, BadJobError("bad_result", "The task's result is too large."), settings)
    return AttemptOutcome(job, State.FINISHED, settings.result_ttl, base64.b64encode(text.encode()).decode())


def fail_job(
    job: ClaimedJob, error: BaseException, settings: Settings, rng: random.Random | None = None
) -> AttemptOutcome:
    """Return the outcome for an exception: retry later, or give up."""
    # A job that waited for a store may have failed often, and isn't given up at its first time-out.
    before = job.timeouts if isinstance(error, JobTimeoutError) else job.failures
    again = is_temporary(error) and before + 1 < settings.job_retries
    word = error.word if isinstance(error, EventrError) else "unexpected"
    message = error.message if isinstance(error, EventrError) else EventrError.default
    place = describe_error(error)
    if isinstance(error, LaterError):
        return AttemptOutcome(job, RETRY, error.seconds, error=word, message=message, where=place)
    if again:
        delay = compute_backoff(job.failures, settings, rng)
        return AttemptOutcome(job, RETRY, delay, error=word, message=message, where=place)
    body = base64.b64encode(zlib.compress(f"{word}: {message}\n{place}".encode())).decode()
    return AttemptOutcome(job, State.FAILED, settings.failure_ttl, body, word, message, place)


def is_temporary(error: BaseException) -> bool:
    """Return whether a retry can help: not after answers like "no such feed" or "not a feed"."""
    if isinstance(error, StoreError | UnsentError | JobTimeoutError):
        return True
    return not isinstance(error, EventrError)


def compute_backoff(failures: int, settings: Settings, rng: random.Random | None = None) -> float:
    """Return the seconds until the next attempt: growing with each failure up to a limit, with jitter."""
    # The exponent has a limit, since the intermediate result would overflow.
    wait = settings.job_backoff * settings.job_backoff_factor ** min(failures, 64)
    jitter = settings.job_backoff_jitter
    return float(min(wait, settings.job_backoff_most)) * (rng or random).uniform(1 - jitter, 1 + jitter)


def describe_error(error: BaseException) -> str:
    """Return type and places of an error without its text, which may contain private data (J06)."""
    frames = traceback.extract_tb(error.__traceback__)[-_FRAMES:]
    places = [f"{frame.filename.rsplit('/', 1)[-1]}:{frame.lineno} {frame.name}" for frame in frames]
    return " < ".join([type(error).__name__, *reversed(places)])
