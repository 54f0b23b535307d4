"""A push service on loopback, browsers that are known to it, and a queue whose jobs run when a test says."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import dataclasses
import json
import os
from collections.abc import Iterator
from typing import Any

import http_ece
import pytest
import redis
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from rq.job import Job as RqJob
from rq.serializers import JSONSerializer
from werkzeug.wrappers import Request, Response

from app.bootstrap.services import Services
from app.config import Settings
from app.errors import LaterError
from app.feeds.fetch.fetcher import Fetcher
from app.models.accounts.actor import Actor
from app.models.accounts.user import Session
from app.models.discussion.comments import NotificationKind
from app.models.jobs import redis_keys
from app.models.jobs.jobs import Queue, Task
from app.models.notifications.push import Device
from app.models.sharing.sharing import Share
from tests.sharing.conftest import People
from tests.sharing.conftest import people as people
from tests.sharing.hub.conftest import Now
from tests.sharing.hub.conftest import now as now
from tests.support.wire import Wire


def base64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


class Browser:
    """What a browser knows of its subscription."""

    def __init__(self, endpoint: str, key: int = 0) -> None:
        self.endpoint = endpoint
        curve = ec.SECP256R1()
        self._key = ec.derive_private_key(key, curve) if key else ec.generate_private_key(curve)
        self.auth = os.urandom(16)

    @property
    def point(self) -> bytes:
        return self._key.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)

    @property
    def form(self) -> dict[str, str]:
        """What its page sends."""
        return {
            "endpoint": self.endpoint,
            "p256dh": base64url(self.point),
            "auth": base64url(self.auth),
        }

    def read(self, request: Request) -> dict[str, Any]:
        """Decrypt a message as the browser would."""
        assert request.headers["Content-Encoding"] == "aes128gcm"
        text = http_ece.decrypt(
            request.get_data(), private_key=self._key, auth_secret=self.auth, version="aes128gcm"
        )
        found: dict[str, Any] = json.loads(text)
        return found


class PushService:
    """Takes messages at any path; :attr:`answer` replaces what it says."""

    def __init__(self) -> None:
        self.answer: Response | None = None
        self.wire = Wire(self._view)

    def _view(self, request: Request) -> Response:
        answer = self.answer or Response(status=201)
        return Response(answer.get_data(), answer.status_code, answer.headers)

    @property
    def messages(self) -> list[Request]:
        return self.wire.seen

    def browser(self, name: str = "one") -> Browser:
        return Browser(self.wire.url(f"/send/{name}"))


class Post:
    """The jobs of pushes as a worker would run them, one after the other."""

    def __init__(self, services: Services, client: redis.Redis) -> None:
        self.services, self._client = services, client
        self._fetcher = Fetcher(services.settings)
        #: Pauses that jobs asked for.
        self.later: list[float] = []
        self._waiting: list[tuple[dict[str, Any], int]] = []

    def close(self) -> None:
        self._fetcher.close()

    def use(self, fetcher: Fetcher) -> None:
        """Send through another one from now on."""
        self._fetcher.close()
        self._fetcher = fetcher

    def queued(self) -> int:
        return int(self._client.llen(redis_keys.make_queue_key(Queue.PULL_SYSTEM)))  # type: ignore[arg-type]

    def work(self) -> list[str]:
        """Run all that is queued, and what was put off before; return how messages ended."""
        again, self._waiting = self._waiting, []
        ends = [self._send(args, failures) for args, failures in again]
        while (raw := self._client.lpop(redis_keys.make_queue_key(Queue.PULL_SYSTEM))) is not None:
            ident = raw.decode()  # type: ignore[union-attr]
            job = RqJob.fetch(ident, connection=self._client, serializer=JSONSerializer)
            self._client.delete(redis_keys.make_job_key(ident))
            if job.func_name == Task.PUSH_RING:
                args = {**job.kwargs, "kind": NotificationKind(job.kwargs["kind"])}
                self.services.push.enqueue_messages(**args)
            elif job.func_name == Task.PUSH_SEND:
                ends.append(self._send(job.kwargs, 0))
        return ends

    def _send(self, args: dict[str, Any], failures: int) -> str:
        given = {**args, "device_id": args["id"]}
        del given["id"]
        try:
            done = asyncio.run(
                self.services.push.send_message(**given, fetcher=self._fetcher, failures=failures)
            )
        except LaterError as e:
            self.later.append(e.seconds)
            self._waiting.append((args, failures + 1))
            return "later"
        return str(done["verdict"])


@pytest.fixture
def service() -> Iterator[PushService]:
    made = PushService()
    with made.wire:
        yield made


@pytest.fixture
def settings(settings: Settings, service: PushService) -> Settings:
    """A server that may reach the push service."""
    return dataclasses.replace(settings, push_allow=(service.wire.host,))


@pytest.fixture
def post(services: Services, redis_client: redis.Redis) -> Iterator[Post]:
    with contextlib.closing(Post(services, redis_client)) as made:
        yield made


class Crew:
    """People with sessions and devices."""

    def __init__(self, people: People, service: PushService) -> None:
        self.people, self.services, self.service = people, people.services, service

    def session(self, who: Actor) -> Session:
        sessions = self.services.gateways.sessions
        token = sessions.open_session(who.user_id, agent="Firefox/140 Linux", address="192.0.2.0/24")
        found = sessions.find_session(token)
        assert found is not None
        return found[0]

    def device(
        self, who: Actor, name: str = "one", session: Session | None = None, language: str = "en"
    ) -> tuple[Browser, Device]:
        """Let somebody be told on a new browser."""
        browser = self.service.browser(name)
        return browser, self.register(who, browser, session, language)

    def register(
        self, who: Actor, browser: Browser, session: Session | None = None, language: str = "en"
    ) -> Device:
        return self.services.push.register(
            who,
            session or self.session(who),
            **browser.form,
            agent="Firefox/140 Linux",
            language=language,
        )

    def devices(self, who: Actor) -> list[int]:
        return [d.id for d in self.services.push.list_devices(who)]


@pytest.fixture
def crew(people: People, service: PushService, now: Now) -> Crew:
    return Crew(people, service)


@pytest.fixture
def ann(people: People, now: Now) -> Actor:
    return people.join("ann")


@pytest.fixture
def bob(people: People, now: Now) -> Actor:
    return people.join("bob")


@pytest.fixture
def share(people: People, ann: Actor) -> Share:
    """What ann shares with everybody."""
    (entry,) = people.blog([ann])
    people.open(ann)
    return people.services.sharing.share(ann, entry).share
