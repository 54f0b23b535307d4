"""A server that others can reach, a callback, somebody who shares, and a clock that stands still."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime as dt
from collections.abc import Iterator
from typing import Any

import pytest

from app import clock
from app.bootstrap import services as bootstrap
from app.bootstrap.services import Services
from app.config import Settings
from app.models.accounts.actor import Actor
from tests.sharing.conftest import People
from tests.sharing.conftest import people as people
from tests.support.servers import Callback, Server
from tests.support.wire import Wire

START = dt.datetime(2026, 3, 1, 12, tzinfo=dt.UTC)


class Now:
    """The clock of a test."""

    at = START

    def __call__(self) -> dt.datetime:
        return self.at

    def go(self, **span: float) -> None:
        self.at += dt.timedelta(**span)


@pytest.fixture
def now() -> Iterator[Now]:
    moment = Now()
    with clock.set_source(moment):
        yield moment


@pytest.fixture
def callback() -> Iterator[Callback]:
    made = Callback()
    with made.wire:
        yield made


@pytest.fixture
def wire() -> Iterator[Wire]:
    with Wire() as made:
        yield made


@pytest.fixture
def settings(settings: Settings, wire: Wire, callback: Callback) -> Settings:
    """A server that others can reach, and that may reach the callback and itself."""
    allow = (wire.host, callback.wire.host)
    return dataclasses.replace(
        settings, base_url=wire.url(), hub="on", websub="on", fetch_allow=allow, hub_allow=allow
    )


@pytest.fixture
def server(services: Services, wire: Wire) -> Iterator[Server]:
    with contextlib.closing(Server(services, wire)) as made:
        yield made


@pytest.fixture
def ann(people: People, now: Now) -> Actor:
    who = people.join("ann")
    people.open(who)
    return who


@pytest.fixture
def entries(people: People, ann: Actor) -> list[int]:
    return people.blog([ann], 5)


def limited(server: Server, **changed: Any) -> contextlib.closing[Services]:
    return contextlib.closing(bootstrap.build(dataclasses.replace(server.services.settings, **changed)))


@contextlib.contextmanager
def another(services: Services) -> Iterator[Server]:
    """Put other services on the same stores behind a socket."""
    with Wire() as wire, contextlib.closing(Server(services, wire)) as made:
        yield made
