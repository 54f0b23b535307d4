"""What a running system tells Prometheus, and that the documents name all of it."""

from __future__ import annotations

import dataclasses
import re
import signal
from collections.abc import Callable
from typing import Any

import pytest
import redis

from app.bootstrap.services import Services
from app.config import Settings
from app.models.accounts.actor import Actor
from app.models.jobs import redis_keys
from app.models.jobs.jobs import Job, Queue, Task
from app.monitoring import metrics
from tests.jobs import support
from tests.operations import ask
from tests.operations.ask import Scrape
from tests.support.conflicts import cause_conflict
from tests.support.imports import REPO
from tests.support.rawserver import RawServer, Reply, file_reply

Eventually = Callable[..., Any]
ITEM = b"<item><guid>1</guid><title>One</title></item>"
RSS = b"<rss version='2.0'><channel><title>Blog</title>%s</channel></rss>" % ITEM


def _ready(settings: Settings, process: str) -> Callable[[], bool]:
    return lambda: ask.get(settings, process, "/readyz").status == 200


def _pull(services: Services, feed_id: int) -> None:
    job = Job(Task.PULL, {"feed_ids": [feed_id]}, Queue.PULL)
    (outcome,) = services.jobs.await_many([services.jobs.enqueue(job)], 60)
    assert outcome.error is None, outcome


@pytest.mark.long
def test_the_figures_of_a_working_system(
    settings: Settings, services: Services, redis_client: redis.Redis, eventually: Eventually
) -> None:
    with RawServer(default=file_reply(RSS)) as server:
        settings = dataclasses.replace(settings, fetch_allow=("127.0.0.0/8",), fetch_ports=(server.port,))
        feed_id = services.subscriptions.subscribe(Actor(1), server.url("/f")).subscription.feed_id
        missing = services.subscriptions.subscribe(Actor(1), server.url("/missing")).subscription.feed_id
        server.set("/missing", Reply(status=404))
        redis_client.flushall()
        # Nobody takes from this one.
        redis_client.sadd(redis_keys.PAUSED, Queue.MAINTENANCE)
        services.jobs.enqueue(Job(Task.ECHO, {"key": 1}, Queue.MAINTENANCE))
        bad = [Job(Task.CRASH, {"how": "feed", "key": key}, Queue.DISCOVERY) for key in range(3)]
        with support.running("queue_manager.main", settings, "manager") as manager:
            eventually(_ready(settings, "manager"))
            for count in (1, 2, 3):  # read, then twice the answer 304
                _pull(services, feed_id)
                eventually(lambda n=count: ask.scrape(settings).one("eventr_feeds_pulled_total") == n)
            _pull(services, missing)
            assert len(list(services.jobs.await_many(services.jobs.enqueue_many(bad), 60))) == 3

            def counted() -> Scrape | None:
                found = ask.scrape(settings)
                # Starts, ends and failures are counted some time after they happened.
                return found if sum(found["eventr_jobs_total"].values()) == 7 else None

            found = eventually(counted)
            assert found["eventr_job_failures_total"] == {("not_a_feed",): 3}
            assert found["eventr_jobs_total"] == {
                ("finished", "feeds.pull"): 4,
                ("failed", "selftest.crash"): 3,
            }
            assert found.one("eventr_feeds_pulled_total") == 4
            assert found["eventr_feed_errors_total"] == {("http_4xx",): 1}
            assert found.one("eventr_polls_unmodified_total") == 2
            assert found.one("eventr_polls_unchanged_total") == 2
            assert found.one("eventr_entries_new_total") == 1
            assert found.one("eventr_dead_tasks") == 3
            assert found.one("eventr_managers") == 1
            assert found.one("eventr_updater_up") == 0
            assert found["eventr_job_seconds_count"] == {("feeds.pull",): 4, ("selftest.crash",): 3}
            assert found["eventr_job_seconds_sum"]["feeds.pull",] > 0
            assert found["eventr_job_wait_seconds_count"] == {("user",): 7}
            assert found["eventr_job_wait_seconds_bucket"]["user", "+Inf"] == 7
            _check_queues(found)
            _check_workers(found, manager)
            _check_names(found)
            manager.stop(signal.SIGKILL)
        # What was counted belongs to the system, and not to the process that counted it.
        with support.running("queue_manager.main", settings, "second"):
            again = eventually(lambda: _scraped(settings))
            assert again["eventr_jobs_total"] == found["eventr_jobs_total"]
            assert again.one("eventr_polls_unmodified_total") == 2


def _scraped(settings: Settings) -> Scrape | None:
    return ask.scrape(settings) if _ready(settings, "manager")() else None


def _check_queues(found: Scrape) -> None:
    assert set(found["eventr_queue_length"]) == {(str(queue),) for queue in Queue}
    assert {q for (q,), length in found["eventr_queue_length"].items() if length} == {"maintenance"}
    assert found["eventr_queue_oldest_seconds"]["maintenance",] > 0
    assert found["eventr_queue_paused"]["maintenance",] == 1
    assert sum(found["eventr_queue_paused"].values()) == 1


def _check_workers(found: Scrape, manager: support.Process) -> None:
    assert found["eventr_workers"]["feeds", "ready"] == 1
    assert found["eventr_workers_wanted"]["feeds",] == 1
    workers = [child for child in manager.family() if "worker" in " ".join(child.cmdline())]
    assert workers
    assert found["eventr_worker_resident_bytes"]["feeds",] > 10 << 20
    assert found.one("process_resident_memory_bytes") is not None
    assert {labels[0] for labels in found["eventr_info"]} == {"manager"}


def _check_names(found: Scrape) -> None:
    """All that is served is in the table with these labels, and all of the table is served by somebody."""
    served = {_full_name(family) for family in found.families.values() if family.name.startswith("eventr_")}
    elsewhere = {
        "eventr_cell_users",
        "eventr_moves",
        "eventr_lease_held",
        "eventr_event_streams",
        "eventr_media_bytes",
        "eventr_media_problems",
        "eventr_mongodb_write_conflicts_total",
    }
    # Without an updater nobody knows these.
    without = {name for name in metrics.TABLE if name.startswith("eventr_updater_")} - {"eventr_updater_up"}
    assert served == set(metrics.TABLE) - elsewhere - without
    for family in found.families.values():
        for sample in family.samples if family.name.startswith("eventr_") else ():
            assert set(sample.labels) - {"le"} == set(metrics.TABLE[_full_name(family)].labels)
            assert family.documentation


def _full_name(family: Any) -> str:
    return f"{family.name}_total" if family.type == "counter" else str(family.name)


def test_the_updater_and_the_controller_tell_of_themselves(
    settings: Settings, services: Services, redis_client: redis.Redis, eventually: Eventually
) -> None:
    with (
        support.running("queue_manager.main", settings, "manager"),
        support.running("workers.updater.updater", settings, "updater"),
        support.running("controller.main", settings, "controller"),
    ):
        for process in ("manager", "updater", "controller"):
            eventually(_ready(settings, process))
            assert ask.get(settings, process, "/healthz").json["ok"] is True
        eventually(lambda: ask.scrape(settings, "updater").one("eventr_lease_held") == 1)
        assert set(ask.scrape(settings, "updater")["eventr_media_bytes"]) == {
            ("picture",),
            ("file",),
            ("cache",),
        }
        assert set(ask.scrape(settings, "updater")["eventr_media_problems"]) == {("lost",), ("stray",)}
        before = ask.scrape(settings, "updater").one("eventr_mongodb_write_conflicts_total")
        assert before is not None
        cause_conflict(services)
        after = ask.scrape(settings, "updater").one("eventr_mongodb_write_conflicts_total")
        assert after is not None
        assert after > before
        assert ask.scrape(settings, "controller").one("eventr_event_streams") == 0
        for process in ("updater", "controller"):
            assert set(ask.scrape(settings, process)["eventr_info"]) == {
                next(
                    labels for labels in ask.scrape(settings, process)["eventr_info"] if labels[0] == process
                )
            }
        found = eventually(lambda: s if (s := ask.scrape(settings)).one("eventr_updater_up") == 1 else None)
        assert found.one("eventr_updater_backlog") == 0
        for name in metrics.TABLE:
            if name.startswith("eventr_updater_"):
                assert found.one(name) is not None, name


def test_without_its_stores_a_process_lives_and_is_not_ready(
    settings: Settings, eventually: Eventually
) -> None:
    away = dataclasses.replace(
        settings,
        redis_url=f"unix://{settings.home}/nobody.sock",
        mongodb_uri="mongodb://%2Fnonexistent%2Fmongodb.sock/?directConnection=true",
    )
    lacking = {"manager": ["redis", "workers"], "controller": ["redis"], "updater": ["mongodb", "redis"]}
    with (
        support.running("queue_manager.main", away, "manager") as manager,
        support.running("controller.main", away, "controller"),
        support.running("workers.updater.updater", away, "updater"),
    ):

        def lacks(process: str) -> list[str]:
            """What it misses; where it does not know that in time, which is short, it misses itself."""
            answer = ask.get(away, process, "/readyz")
            assert answer.status == 503, process
            assert answer.headers["retry-after"] == "10"
            found: list[str] = answer.json["missing"]
            return found

        for process, missing in lacking.items():
            eventually(lambda p=process: ask.get(away, p, "/healthz").status == 200)
            eventually(lambda p=process, m=missing: lacks(p) == m)
        found = ask.scrape(away)
        assert not found["eventr_queue_length"], "a gap says more than a zero"
        assert found["eventr_workers"]["feeds", "ready"] == 0
        # A manager that hangs is asked in vain.
        manager.popen.send_signal(signal.SIGSTOP)
        manager.popen.send_signal(signal.SIGCONT)
        eventually(lambda: ask.get(away, "manager", "/healthz").status == 200)


@pytest.mark.parametrize(
    ("counters", "sample", "expected"),
    [
        ({"error:http_404": 2, "error:http_410": 1, "error:http_503": 4}, "job_failures_total", [3, 4]),
        ({"error:" + "x" * 64: 1, "error:y": 2, "error:crashed": 4}, "job_failures_total", [3, 4]),
        ({"feed_error:http_404": 2, "feed_error:x": 1, "pull:errors": 5}, "feed_errors_total", [2, 3]),
        ({"feed_error:timeout": 2, "feed_error:dns_failed": 1}, "feed_errors_total", [1, 2]),
        ({"end:finished:no.such": 1, "end:finished:nor.this": 2}, "jobs_total", [3]),
        ({"end:odd:feeds.pull": 1, "end:odder:feeds.pull": 1}, "jobs_total", [2]),
        ({"run:a:4": 1, "run:b:8": 1, "run_ms:a": 2, "run_ms:b": 4}, "job_seconds_count", [2]),
    ],
)
def test_names_from_redis_make_no_series_of_their_own(
    counters: dict[str, int], sample: str, expected: list[float]
) -> None:
    found = Scrape(metrics.render(metrics.build_totals(counters)))[f"eventr_{sample}"]
    assert sorted(found.values()) == expected


def test_buckets_hold_what_is_not_longer() -> None:
    waits = {"wait:user:0": 5, "wait:user:40": 3, "wait:user:41": 2, "wait:user:140": 1, "wait_ms:user": 9500}
    found = Scrape(metrics.render(metrics.build_totals(waits)))
    buckets = found["eventr_job_wait_seconds_bucket"]
    assert buckets["user", "0.004"] == 5
    assert buckets["user", "1.024"] == 8  # bucket 40 ends at 2¹⁰ ms
    assert buckets["user", "2.048"] == 10
    assert buckets["user", "+Inf"] == found["eventr_job_wait_seconds_count"]["user",] == 11
    assert found["eventr_job_wait_seconds_sum"]["user",] == 9.5


_ROW = re.compile(r"^\| `(eventr_\w+)` \| (\w+) \| (.*?) \| (.*?) \|$", re.MULTILINE)
_PART = re.compile(r"^### (\w+)", re.MULTILINE)


def test_all_figures_are_documented_as_they_are() -> None:
    text = (REPO / "docs/operations.md").read_text("utf-8")
    documented = {}
    for part in text.split("\n### ")[1:]:
        about = part.split("\n")[0].split(":")[0].lower()
        for name, kind, labels, help_text in _ROW.findall(part):
            documented[name] = (about, kind, tuple(re.findall(r"`(\w+)`", labels)), help_text)
    table = {f.name: (f.about, f.kind, f.labels, f.help) for f in metrics.TABLE.values()}
    assert documented == table


def test_the_alerts_of_the_documents_name_figures_that_there_are() -> None:
    text = (REPO / "docs/operations.md").read_text("utf-8")
    blocks = "".join(re.findall(r"```yaml\n(.*?)```", text, re.DOTALL))
    used = set(re.findall(r"\beventr_\w+", blocks))
    known = set(metrics.TABLE) | {
        f"{name}_{part}" for name in metrics.TABLE for part in ("bucket", "sum", "count")
    }
    assert len(used) > 5
    assert used <= known
