"""Jobs outside the workers: a task name, JSON arguments, a ticket to await."""

from __future__ import annotations

import dataclasses
import enum
from typing import Any


class Queue(enum.StrEnum):
    """Queues in order of priority; user queues come before system queues."""

    DISCOVERY = "discovery"
    PULL = "feed-pull"
    IMPORT = "import"
    ARTICLES = "articles"
    ARTICLES_SYSTEM = "articles-sys"
    PICTURES = "media-fetch"
    PULL_SYSTEM = "feed-pull-sys"
    PICTURES_SYSTEM = "media-fetch-sys"
    INDEX = "index"
    MEDIA = "media"
    MEDIA_SYSTEM = "media-sys"
    MAINTENANCE = "maintenance"
    SUSPECTS = "suspects"


#: Queues whose jobs a person waits for; the others may only use some of a worker's slots.
USER_QUEUES = frozenset(
    {Queue.DISCOVERY, Queue.PULL, Queue.IMPORT, Queue.ARTICLES, Queue.PICTURES, Queue.MEDIA}
)


class Task(enum.StrEnum):
    """Names of all tasks that workers run; nothing else can be run (J01)."""

    DISCOVER = "feeds.discover"
    CHAPTERS = "feeds.chapters"
    PAGE_LISTS = "feeds.page_lists"
    CRAWL = "feeds.crawl"
    FULL_TEXT = "reading.full_text"
    TRY_TEXT = "reading.try_text"
    PULL = "feeds.pull"
    PULL_SYSTEM = "feeds.pull_system"
    IMPORT = "import.run"
    READ_ARCHIVE = "import.read"
    PULL_IMPORT = "import.pull"
    LIST = "import.list"
    SEAL = "media.seal"
    TEND_UPLOADS = "media.tend"
    FLUSH_USAGE = "usage.flush"
    RETAIN = "maintenance.retain"
    TRIM = "maintenance.trim"
    REOPEN = "reading.reopen"
    AUTO_READ = "maintenance.auto_read"
    MARK_COPIES = "reading.mark_copies"
    FEED_WORDS = "maintenance.feed_words"
    COLLECT = "maintenance.collect"
    SECRECY = "maintenance.secrecy"
    REPORT = "maintenance.report"
    MEND = "media.mend"
    INDEX = "search.index"
    RULES = "rules.apply"
    RULE_RUN = "rules.run"
    OLD_INDEX = "maintenance.index"  # queued by an earlier version
    ERASE = "maintenance.erase"
    EXPORT = "maintenance.export"
    MOVE = "places.move"
    MEDIA_CLEAN = "media.clean"
    DRAW = "media.draw"
    DRAW_AVATAR = "media.draw_avatar"
    DRAW_ICON = "media.draw_icon"
    HUB_VERIFY = "hub.verify"
    HUB_PUSH = "hub.push"
    NOTIFY = "notifications.entries"
    PUSH_RING = "push.ring"
    PUSH_SEND = "push.send"
    SEND = "sending.send"
    WEBSUB_PULL = "websub.pull"
    WEBSUB_TEND = "websub.tend"
    MEDIA_AHEAD = "media.ahead"
    MEDIA_FETCH = "media.fetch"
    MEDIA_ICONS = "media.icons"
    MEDIA_THUMBS = "media.thumbs"
    SLEEP = "selftest.sleep"  # for the engine's own tests and `eventr doctor`
    NAP = "selftest.nap"
    CRASH = "selftest.crash"
    ECHO = "selftest.echo"
    EFFECT = "selftest.effect"


class State(enum.StrEnum):
    """States of a job, in RQ's words; MISSING: never enqueued, or ended and expired."""

    QUEUED = "queued"
    STARTED = "started"
    SCHEDULED = "scheduled"
    FINISHED = "finished"
    FAILED = "failed"
    MISSING = "missing"


@dataclasses.dataclass(frozen=True, slots=True)
class Job:
    """A job to run: a task name, JSON arguments that hold ids only (J06), and the queue."""

    task: Task
    args: dict[str, Any]
    queue: Queue


@dataclasses.dataclass(frozen=True, slots=True)
class Ticket:
    """A queued or already running job.

    Attributes:
        id: hash of task and arguments; the same task never gets a second id.
        since_ms: earliest possible Redis time of this run's result; older results belong to earlier runs.
        fresh: False if the job was already queued or running.
    """

    id: str
    since_ms: int
    fresh: bool = True


@dataclasses.dataclass(frozen=True, slots=True)
class RefreshResult:
    """How many feeds are being fetched, and the jobs of those that don't wait for the updater."""

    count: int
    tickets: list[Ticket]


@dataclasses.dataclass(frozen=True, slots=True)
class Outcome:
    """The end of a job as a waiter sees it.

    Attributes:
        id: job id.
        value: the task's return value, None on failure.
        error: error word, None on success; ``lost`` if its record is gone.
        message: the error's sentence for people.
    """

    id: str
    value: Any = None
    error: str | None = None
    message: str | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class JobView:
    """A job as it is now, for pages that show progress.

    Attributes:
        progress: the task's last report, a small JSON object.
        error: word of the last failure, even while the job is retried.
    """

    id: str
    state: State
    progress: dict[str, Any] = dataclasses.field(default_factory=dict)
    error: str | None = None
    failures: int = 0
    crashes: int = 0
