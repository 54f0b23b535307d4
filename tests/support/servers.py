"""Whole servers behind sockets of their own, and callbacks that do what a test wants."""

from __future__ import annotations

import asyncio
import http.client
import uuid
from typing import Any
from urllib.parse import urlencode

from werkzeug.wrappers import Request, Response

from app import clock, create_app
from app.bootstrap.services import Services
from app.feeds.fetch.fetcher import Fetcher
from app.models.jobs.jobs import Job, Task
from app.models.sharing.hub import Subscriber
from tests.support.wire import Wire


class Callback:
    """A subscriber's callback; :attr:`answer` replaces what it says, None: it confirms and takes all."""

    def __init__(self) -> None:
        self.answer: Response | None = None
        self.wire = Wire(self._view)

    def _view(self, request: Request) -> Response:
        if self.answer is not None:
            return Response(self.answer.get_data(), self.answer.status_code, self.answer.headers)
        return Response(request.args.get("hub.challenge", ""))

    @property
    def pushes(self) -> list[Request]:
        return [r for r in self.wire.seen if r.method == "POST"]

    @property
    def asked(self) -> list[Request]:
        return [r for r in self.wire.seen if r.method == "GET"]

    def url(self, path: str = "/cb") -> str:
        return self.wire.url(path)


class Server:
    """An Eventr that can be reached at its own address."""

    def __init__(self, services: Services, wire: Wire) -> None:
        self.services, self.wire = services, wire
        wire.app = create_app(services.settings, services)
        self.fetcher = Fetcher(services.settings)

    def close(self) -> None:
        self.fetcher.close()

    def topic(self, name: str = "ann", end: str = "atom.xml") -> str:
        return f"{self.services.settings.own_origin}/@{name}/{end}"

    def post(self, **form: Any) -> tuple[int, str]:
        """Send a form to the hub; names with underscores for the dots."""
        fields = {f"hub.{name}": str(value) for name, value in form.items()}
        connection = http.client.HTTPConnection(self.wire.host, timeout=30)
        headers = {"Content-Type": "application/x-www-form-urlencoded"}
        connection.request("POST", "/hub", urlencode(fields), headers)
        answer = connection.getresponse()
        said = answer.read().decode()
        connection.close()
        return answer.status, said.strip()

    def subscribe(self, callback: str, name: str = "ann", **form: Any) -> Subscriber | None:
        """Subscribe and let the hub verify; return the subscription, None: it did not come about."""
        asked = {"mode": "subscribe", "topic": self.topic(name), "callback": callback, **form}
        assert self.post(**asked) == (202, "")
        self.work()
        return self.row(callback, asked["topic"])

    def row(self, callback: str, topic: str | None = None) -> Subscriber | None:
        return self.services.mappers.hubs.find_by_callback(topic or self.topic(), callback)

    def work(self) -> int:
        """Do what the updater would queue, until there is nothing; return how many jobs that were."""
        for count in range(100):
            now = clock.now()
            jobs = [*self.services.hub.find_due_jobs(now, 50), *self.services.websub.find_due_jobs(now, 50)]
            if not jobs:
                return count
            for job in jobs:
                asyncio.run(self._run(job))
        raise AssertionError("there is no end of it")

    async def _run(self, job: Job) -> None:
        services, fetcher = self.services, self.fetcher
        match job.task:
            case Task.HUB_VERIFY:
                await services.hub.verify_intents(job.args["id"], fetcher)
            case Task.HUB_PUSH:
                await services.hub.push_changes(job.args["feed_id"], fetcher, seconds=60)
            case Task.WEBSUB_TEND:
                await services.websub.tend_subscription(job.args["id"], fetcher)
            case Task.WEBSUB_PULL:
                await services.websub.pull(job.args["feed_id"], fetcher, token=uuid.uuid4().hex)

    def pull(self, feed_id: int) -> None:
        """Pull a feed as the updater's jobs do."""
        asyncio.run(self.services.pull.pull([feed_id], self.fetcher))
