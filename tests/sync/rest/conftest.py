"""A program that calls the REST API of the application, on real stores."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from flask import Flask
from werkzeug.test import TestResponse

from app import create_app
from app.bootstrap.services import Services
from app.models.accounts.actor import Actor
from app.models.accounts.token import Scope
from tests.sharing.conftest import People

ALL = tuple(scope.value for scope in Scope)


class Program:
    """Sends requests with one token."""

    def __init__(self, app: Flask, secret: str) -> None:
        self.client, self.secret = app.test_client(use_cookies=False), secret

    def send(self, method: str, path: str, **options: Any) -> TestResponse:
        """Send a request; ``headers`` come beside the token's."""
        headers = {"Authorization": f"Bearer {self.secret}", **options.pop("headers", {})}
        return self.client.open(f"/api/v1{path}", method=method, headers=headers, **options)

    def get(self, path: str, **options: Any) -> TestResponse:
        return self.send("GET", path, **options)

    def post(self, path: str, body: Any = None, **options: Any) -> TestResponse:
        return self.send("POST", path, **({"json": body} if body is not None else {}), **options)

    def patch(self, path: str, body: Any, **options: Any) -> TestResponse:
        return self.send("PATCH", path, json=body, **options)

    def put(self, path: str, **options: Any) -> TestResponse:
        return self.send("PUT", path, **options)

    def delete(self, path: str, **options: Any) -> TestResponse:
        return self.send("DELETE", path, **options)


@pytest.fixture
def app(services: Services) -> Flask:
    return create_app(services.settings, services)


@pytest.fixture
def people(services: Services) -> People:
    return People(services)


def token_for(services: Services, who: Actor, *scopes: str) -> str:
    """Make a token and return its secret."""
    sessions = services.gateways.sessions
    found = sessions.find_session(sessions.open_session(who.user_id, agent="", address=""))
    assert found is not None
    return services.tokens.make_api_token(who, found[0], "A script", scopes or ALL)[1]


@pytest.fixture
def program(app: Flask, services: Services) -> Callable[..., Program]:
    """``program(actor, *scopes)``: a program of somebody, with all scopes where none are named."""
    return lambda who, *scopes: Program(app, token_for(services, who, *scopes))


@pytest.fixture
def ann(people: People) -> Actor:
    return people.join("ann")


@pytest.fixture
def mine(ann: Actor, program: Callable[..., Program]) -> Program:
    """Ann's program, which may do everything."""
    return program(ann)
