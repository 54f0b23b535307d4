"""The worker: RQ's registration and heartbeat, and Eventr's own way to claim, run and end jobs.

RQ's own loops lose jobs when they listen to several queues, even on a graceful stop, and return a killed
worker's job minutes later or never; see jobs.md, section 1.1.
"""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Callable
from typing import Any

import redis
from rq.serializers import JSONSerializer
from rq.worker import BaseWorker

from app import logs
from app.config import Settings
from app.errors import StoreError
from app.models.jobs import redis_keys
from app.models.jobs.workers import Ready, WorkerSpec
from app.runtime import redis_connections as connections
from app.runtime.redis_errors import OUTAGE, describe_outage
from workers.context import Resources
from workers.lifeline import ManagerChannel
from workers.loop import LoopWorker
from workers.outcome import ProgressReport
from workers.queue_client import QueueClient, connect
from workers.runner import Runner
from workers.solo import SoloWorker

_log = logs.get(__name__)
_HEARTBEAT = 10.0
#: Time limit for MongoDB's reply when a worker starts, seconds.
_SCHEMA_SECONDS = 1.0
_RECONNECT = 0.5
_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class EventrWorker(BaseWorker):
    """One worker process.

    Args:
        spec: The orders.
        settings: The settings.
        connection: For RQ's registration; claiming and recording have their own connections.
        link: The channel to the manager.
    """

    def __init__(
        self, spec: WorkerSpec, settings: Settings, connection: redis.Redis, link: ManagerChannel
    ) -> None:
        super().__init__(
            list(spec.queues),
            name=spec.name,
            connection=connection,
            serializer=JSONSerializer,
            worker_ttl=max(60, settings.job_timeout),
        )
        self._spec, self._settings, self._link = spec, settings, link
        self._resources = Resources(settings)
        self._over = threading.Event()

    def work(self, *_: Any, **__: Any) -> bool:
        """Work until stopped; True when anything was done. RQ's options of the same method do not apply.

        Raises:
            StartupError: a newer program has upgraded the database.
        """
        self._require_schema()
        self.register_birth()  # type: ignore[no-untyped-call]
        threading.Thread(target=self._heartbeats, daemon=True, name="heartbeat").start()
        if self._spec.mode == "solo":
            self._solo()
        else:
            # asyncio.run would wait for tasks that ignore their cancellation, and for their threads.
            asyncio.new_event_loop().run_until_complete(self._loop())
        self._over.set()
        self.register_death()  # type: ignore[no-untyped-call]
        return True

    def _require_schema(self) -> None:
        try:
            self._resources.services.require_schema(_SCHEMA_SECONDS)
        except StoreError:
            _log.warning("mongodb_silent", while_="starting")  # each job reports the outage itself

    def _solo(self) -> None:
        worker = SoloWorker(self._spec, self._desk(), self._link)
        for number in _SIGNALS:
            signal.signal(number, lambda *_: worker.request_stop("signal"))
        self._resources.stopping = worker.stopping
        self._begin(worker.wake_up)
        worker.run(self._runner(worker.report, inline=True))

    async def _loop(self) -> None:
        worker = LoopWorker(self._spec, (self._desk(), self._desk()), self._link)
        for number in _SIGNALS:
            asyncio.get_running_loop().add_signal_handler(number, worker.request_stop, "signal")
        self._begin(worker.wake_up)
        runner = self._runner(worker.report, inline=False)
        if (line := self._link.get_fd()) is not None:
            asyncio.get_running_loop().add_reader(line, self._heed, worker, runner)
        await worker.run(runner)

    def _heed(self, worker: LoopWorker, runner: Runner) -> None:
        orders = self._link.receive()
        if orders is not None:
            worker.apply_orders(orders)
            runner.set_rules(orders.rules)

    def _runner(self, sink: Callable[[ProgressReport], None], *, inline: bool) -> Runner:
        return Runner(self._settings, self._spec.rules, self._resources, sink, inline=inline)

    def _desk(self) -> QueueClient:
        settings = self._settings
        return QueueClient(
            connect(settings.redis_url),
            self.name,
            self._spec.queues,
            settings.dead_max,
            settings.redis_replicas,
        )

    def _begin(self, kick: Callable[[], None]) -> None:
        threading.Thread(target=self._listen, args=(kick,), daemon=True, name="wake").start()
        self._link.send(Ready())
        _log.info("ready", worker=self.name, group=self._spec.group, pid=os.getpid())

    def _heartbeats(self) -> None:
        while not self._over.wait(_HEARTBEAT):
            try:
                self.heartbeat()
            except redis.RedisError:
                _log.warning("redis_silent", while_="heartbeat")

    def _listen(self, kick: Callable[[], None]) -> None:
        """Pass wake-up hints on; they only shorten an idle worker's wait."""
        client = connections.connect(self._settings.redis_url, socket_timeout=None)
        while not self._over.is_set():
            try:
                with client.pubsub() as hints:  # type: ignore[no-untyped-call]
                    hints.subscribe(redis_keys.WAKE)
                    for hint in hints.listen():
                        # Hints from before the subscription are lost, so it counts as one.
                        if hint["type"] == "subscribe" or hint["data"].decode() in self._spec.queues:
                            kick()
            except redis.RedisError:
                self._over.wait(_RECONNECT)


def wait_for_redis(settings: Settings) -> redis.Redis:
    """Return a client of a Redis that answers; wait for it as long as necessary.

    Raises:
        StoreError: Redis answers, but rejects this process.
    """
    client = connections.connect(settings.redis_url)
    waiting = threading.Event()
    while True:
        try:
            client.ping()
        except redis.AuthenticationError as e:
            raise StoreError("Redis rejected the password of this process. Check EVENTR_REDIS_URL.") from e
        except OUTAGE as e:
            _log.warning("redis_silent", while_="starting", error=describe_outage(e))
            waiting.wait(_RECONNECT)
        else:
            return client
