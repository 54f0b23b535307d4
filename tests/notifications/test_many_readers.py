"""New entries of a feed that more readers want to be notified of than one batch holds."""

from __future__ import annotations

import contextlib
import dataclasses
from typing import cast

import pytest
import redis
from rq.job import Job as RqJob
from rq.serializers import JSONSerializer

from app.bootstrap import services as bootstrap
from app.bootstrap.services import Services
from app.models.jobs import redis_keys
from app.models.jobs.jobs import Queue, Task
from app.services.notifications import notifier
from tests.database.test_explain import Recorder, stages, statements
from tests.sharing.conftest import People
from tests.support.commands import add_listener
from workers.context import Context
from workers.tasks.notifications import notify_readers


def test_all_readers_are_notified_in_batches(
    people: People, redis_client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notifier, "READERS", 2)
    readers = [people.join(f"reader{n}") for n in range(5)]
    people.blog(readers)
    services = people.services
    feed_id = people.rows(readers[0])[0].feed_id
    for reader in readers:
        services.subscriptions.update(reader, feed_id, notify=True)
    services.accounts.set_preferences(readers[2], {"notify_entries": False})

    def run_jobs() -> list[int]:
        """Run the queued jobs as a worker would, each of them twice; return the sizes of the batches."""
        sizes = []
        while (raw := redis_client.lpop(redis_keys.make_queue_key(Queue.PULL_SYSTEM))) is not None:
            job = RqJob.fetch(raw.decode(), connection=redis_client, serializer=JSONSerializer)  # type: ignore[union-attr]
            redis_client.delete(redis_keys.make_job_key(job.id))
            assert job.func_name == Task.NOTIFY
            twice = [notify_readers(context, **job.kwargs)["readers"] for _ in range(2)]
            sizes.append(twice[0])
        return sizes

    context = cast(Context, _Context(services))

    def count_entries() -> list[int]:
        rows = [services.notifications.list_notifications(reader).notes for reader in readers]
        return [sum(row.count for row in some) for some in rows]

    services.notifier.notify_new_entries({feed_id: 3})
    assert count_entries() == [0] * 5, "the pull doesn't wait for a thousand readers"
    assert run_jobs() == [2, 1, 1]
    assert count_entries() == [3, 3, 0, 3, 3], "each once, and only those who want it"
    services.notifier.notify_new_entries({feed_id: 2})
    run_jobs()
    assert count_entries() == [5, 5, 0, 5, 5]

    for reader in readers[1:]:
        services.subscriptions.update(reader, feed_id, notify=False)
    services.notifications.mark_all_read(readers[0])
    services.notifier.notify_new_entries({feed_id: 1})
    assert run_jobs() == [], "few readers need no job"
    assert count_entries()[0] == 1


@dataclasses.dataclass
class _Context:
    services: Services


def test_batches_are_read_in_order_without_sorting(people: People, monkeypatch: pytest.MonkeyPatch) -> None:
    reader = people.join("reader")
    feed_ids = []
    for name in ("blog", "news"):
        people.blog([reader], name=name)
        feed_ids.append(people.rows(reader)[0].feed_id)
        people.services.subscriptions.update(reader, feed_ids[-1], notify=True)
    recorder = Recorder()
    add_listener(monkeypatch, recorder)
    with contextlib.closing(bootstrap.build(people.services.settings)) as recorded:
        for after in (0, reader.user_id - 1):
            assert recorded.gateways.notifications.find_notified(feed_ids, after, 10)
    plans = [
        stages(people.services.store.database.command("explain", explainable, verbosity="queryPlanner"))
        for name, command in recorder.commands
        for collection, _, explainable in statements(name, command)
        if collection == "subscriptions"
    ]
    assert len(plans) == 2
    for plan in plans:
        assert {"COLLSCAN", "SORT"} & set(plan) == set()
