"""How an attempt ends: pure decisions over what the task returned or raised."""

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

#: Longest result, JSON bytes: results are counts and ids, what is large lives in MongoDB.
RESULT_MAX = 256 << 10
_FRAMES = 12
RETRY, RETURNED = "retry", "returned"


class JobTimeoutError(EventrError):
    """A task ran longer than it may; it is tried again."""

    code = "timeout"
    http_status = 503
    default = "The job took too long and was stopped."


class BadJobError(EventrError):
    """A job that cannot be run at all, see ``Taken.problem``; never tried again."""

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
        kind: ``finished``, ``failed`` (for good), ``retry`` or ``returned`` (uncounted, to the front).
        seconds: how long result or failure is kept; of a retry the delay.
        body: result or report as RQ's result streams hold it: base64, reports compressed.
        where: type and places of the error for the job's history, empty when nothing went wrong.
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
    """What a running task tells about its progress: a small JSON object."""

    job: ClaimedJob
    data: dict[str, Any]


def return_job(job: ClaimedJob) -> AttemptOutcome:
    """The job goes back to the front of its queue; nothing is counted."""
    return AttemptOutcome(job, RETURNED)


def finish_job(job: ClaimedJob, value: Any, settings: Settings) -> AttemptOutcome:
    """The task returned ``value``; something that JSON cannot hold is a failure for good."""
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
    """The task raised: try again later, or give up."""
    again = is_temporary(error) and job.failures + 1 < settings.job_retries
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
    """Whether another try can help: not after an answer like "no such feed" or "not a feed"."""
    if isinstance(error, StoreError | UnsentError | JobTimeoutError):
        return True
    return not isinstance(error, EventrError)


def compute_backoff(failures: int, settings: Settings, rng: random.Random | None = None) -> float:
    """Seconds until the next try: longer with each failure up to a limit, then spread by the jitter."""
    # The exponent has a limit too: no number may grow out of bounds on the way to it.
    wait = settings.job_backoff * settings.job_backoff_factor ** min(failures, 64)
    jitter = settings.job_backoff_jitter
    return float(min(wait, settings.job_backoff_most)) * (rng or random).uniform(1 - jitter, 1 + jitter)


def describe_error(error: BaseException) -> str:
    """Return type and places of an error without its text, which may hold what must not be kept (J06)."""
    frames = traceback.extract_tb(error.__traceback__)[-_FRAMES:]
    places = [f"{frame.filename.rsplit('/', 1)[-1]}:{frame.lineno} {frame.name}" for frame in frames]
    return " < ".join([type(error).__name__, *reversed(places)])
