"""Programs that talk to the server as native apps do."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from app import create_app
from app.bootstrap.services import Services
from app.models.accounts.actor import Actor
from tests.support.reader import add_user, follow

READ, STARRED = "user/-/state/com.google/read", "user/-/state/com.google/starred"
READING = "user/-/state/com.google/reading-list"
API = "/reader/api/0"
Connect = Callable[..., "Reader"]


def password_of(services: Services, actor: Actor, *, fever: bool = False) -> str:
    """Make an app password."""
    sessions = services.gateways.sessions
    found = sessions.find_session(sessions.open_session(actor.user_id, agent="", address=""))
    assert found is not None
    return services.tokens.make_app_password(actor, found[0], "An app", fever=fever)[1]


@dataclasses.dataclass
class Reader:
    """An app that is logged in."""

    client: FlaskClient
    name: str
    password: str
    base: str = ""
    auth: str = ""

    def log_in(self) -> str:
        answer = self.client.post(
            f"{self.base}/accounts/ClientLogin", data={"Email": self.name, "Passwd": self.password}
        )
        assert answer.status_code == 200, answer.text
        self.auth = dict(line.split("=", 1) for line in answer.text.splitlines())["Auth"]
        return self.auth

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"GoogleLogin auth={self.auth}"}

    def get(self, path: str, **query: Any) -> TestResponse:
        return self.client.get(
            f"{self.base}{API}/{path}", query_string={"output": "json", **query}, headers=self.headers
        )

    def json(self, path: str, **query: Any) -> Any:
        answer = self.get(path, **query)
        assert answer.status_code == 200, answer.text
        return answer.get_json()

    def post(self, path: str, **form: Any) -> TestResponse:
        return self.client.post(f"{self.base}{API}/{path}", data=form, headers=self.headers)

    def do(self, path: str, **form: Any) -> None:
        answer = self.post(path, **form)
        assert (answer.status_code, answer.text) == (200, "OK")

    def ids(self, stream: str = READING, **query: Any) -> list[int]:
        found = self.json("stream/items/ids", s=stream, n=10_000, **query)
        return [int(ref["id"]) for ref in found["itemRefs"]]

    def items(self, *ids: int) -> list[Any]:
        answer = self.post("stream/items/contents", i=[str(i) for i in ids])
        assert answer.status_code == 200, answer.text
        return list(answer.get_json()["items"])

    def categories(self, entry_id: int) -> list[str]:
        (item,) = self.items(entry_id)
        return list(item["categories"])


@pytest.fixture
def app(services: Services) -> Flask:
    return create_app(services.settings, services)


@pytest.fixture
def connect(services: Services, app: Flask) -> Callable[..., Reader]:
    """``connect(actor, name)``: an app that is logged in."""

    def made(actor: Actor, name: str = "ann", base: str = "") -> Reader:
        reader = Reader(app.test_client(), name, password_of(services, actor), base)
        reader.log_in()
        return reader

    return made


@pytest.fixture
def ann(services: Services) -> Actor:
    """A user with eight feeds."""
    actor = add_user(services, "ann")
    follow(services, actor)
    return actor


@pytest.fixture
def reader(ann: Actor, connect: Callable[..., Reader]) -> Reader:
    """Her app."""
    return connect(ann)
