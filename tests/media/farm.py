"""A site with pictures on loopback, a worker without a queue, and the pictures themselves."""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import struct
import zlib
from typing import Any

import redis
from rq.job import Job as RqJob
from rq.serializers import JSONSerializer

from app.bootstrap import services as bootstrap
from app.bootstrap.services import Services
from app.feeds.fetch.fetcher import Fetcher
from app.models.jobs import redis_keys
from app.models.jobs.jobs import Queue, Task
from tests.support.rawserver import RawServer
from tests.support.reader import elsewhere


def make_png(width: int = 8, height: int = 8, color: tuple[int, int, int] = (200, 30, 30)) -> bytes:
    """Return a PNG of one color."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    rows = (b"\0" + bytes(color) * width) * height
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", head)
        + chunk(b"IDAT", zlib.compress(rows))
        + chunk(b"IEND", b"")
    )


def build_services(services: Services, server: RawServer, **settings: Any) -> Services:
    """Return services that may fetch from this server."""
    own = {"fetch_allow": ("127.0.0.0/8",), "fetch_ports": (80, 443, server.port), **settings}
    return bootstrap.build(dataclasses.replace(services.settings, **own))


class Worker:
    """Runs the jobs of pictures that are queued, and those that they queue, one after the other."""

    def __init__(self, services: Services, client: redis.Redis) -> None:
        self.services, self._client = services, client
        #: (task, queue) of every job so far.
        self.queues: list[tuple[str, str]] = []

    def work(self) -> list[str]:
        """Run all that is queued; return the tasks."""
        done = []
        with Fetcher(self.services.settings) as fetcher:
            while (job := self._take()) is not None:
                queue, task, args = job
                done.append(task)
                self.queues.append((task, queue))
                token = f"{task} {len(done)}"
                elsewhere(functools.partial(self._run, fetcher, task, args, token, queue))
        return done

    def _take(self) -> tuple[str, str, dict[str, Any]] | None:
        for queue in (Queue.PICTURES, Queue.PICTURES_SYSTEM, Queue.MEDIA, Queue.MEDIA_SYSTEM):
            raw: Any = self._client.lpop(redis_keys.make_queue_key(queue))
            if raw is not None:
                job = RqJob.fetch(raw.decode(), connection=self._client, serializer=JSONSerializer)
                self._client.delete(redis_keys.make_job_key(raw.decode()))
                return queue, str(job.func_name), job.kwargs
        return None

    def _run(self, fetcher: Fetcher, task: str, args: dict[str, Any], token: str, queue: str) -> Any:
        services = self.services
        if task == Task.MEDIA_FETCH:
            ids = [bytes.fromhex(one) for one in args["ids"]]
            return asyncio.run(services.pictures.fetch_many(ids, fetcher, token, queue))
        if task == Task.MEDIA_AHEAD:
            return services.ahead.fetch_following(**args)
        if task == Task.MEDIA_THUMBS:
            return services.thumbs.fetch_thumbs(**args)
        if task == Task.MEDIA_ICONS:
            return asyncio.run(services.icons.find_icons(args["feed_ids"], fetcher, token, queue))
        if task == Task.DRAW_ICON:
            return services.feed_icons.draw(args["feed_id"], args["body"], 0)
        assert task == Task.DRAW, task
        return services.source_drawing.draw(args["source"], token=token, parents=(), attempts=0)
