"""The application on real stores, and clients that behave as a browser does."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from app import create_app
from app.bootstrap.services import Services
from app.services.accounts.sign_in import Client
from app.web.security.sessions import get_cookie_name
from tests.support.reader import PASSWORD, add_user

ORIGIN = {"Sec-Fetch-Site": "same-origin"}
_CSRF = re.compile(r'name="csrf_token" value="([^"]+)"')


#: Blueprints of programs: no cookie counts there, and tests/sync says who may do what.
MACHINES = ("greader", "greader_php", "greader_api", "fever", "rest", "rest_uploads", "rest_contents")


def is_for_apps(endpoint: str) -> bool:
    """Return whether a route is one of those that programs come to."""
    return endpoint.partition(".")[0] in MACHINES or endpoint == "restdocs.serve_document"


class Visitor:
    """A browser without scripts: keeps cookies, sends forms with their token."""

    def __init__(self, client: FlaskClient) -> None:
        self.client = client
        #: The cookie with which a form was shown, and the form's token.
        self._form = ("", "")

    def get(self, path: str, **options: Any) -> TestResponse:
        return self.client.get(path, **options)

    def token(self, page: str = "/login") -> str:
        """Return the token of a form."""
        found = _CSRF.search(self.client.get(page).text) or _CSRF.search(self.client.get("/add").text)
        assert found, f"{page} has no form"
        return found[1]

    def post(self, path: str, data: dict[str, Any] | None = None, **headers: str) -> TestResponse:
        """Send a form as the page would; ``headers`` with underscores."""
        sent = {**ORIGIN, **{name.replace("_", "-"): value for name, value in headers.items()}}
        return self.client.post(path, data={"csrf_token": self._shown(), **(data or {})}, headers=sent)

    def show_form(self) -> None:
        """Fetch the token of a form now, where it would be fetched with the first one that is sent."""
        self._shown()

    def _shown(self) -> str:
        """Return the token of the form that it was shown last; another cookie asks for another form."""
        if not self._cookie() or self._form[0] != self._cookie():
            token = self.token()
            self._form = (self._cookie(), token)
        return self._form[1]

    def _cookie(self) -> str:
        kept = (self.client.get_cookie(get_cookie_name(secure)) for secure in (False, True))
        return next((cookie.value for cookie in kept if cookie), "")

    def log_in(self, name: str = "ann", password: str = PASSWORD) -> TestResponse:
        return self.post("/login", {"login": name, "password": password})


@pytest.fixture
def app(services: Services) -> Flask:
    return create_app(services.settings, services)


@pytest.fixture
def visitor(app: Flask) -> Callable[[], Visitor]:
    """``visitor()``: a new browser that nobody has used."""
    return lambda: Visitor(app.test_client())


@pytest.fixture
def ann(services: Services, visitor: Callable[[], Visitor]) -> Visitor:
    """A browser in which the user ann is logged in, without the form: its own tests fill it in."""
    add_user(services, "ann")
    one = visitor()
    token = services.sign_in.log_in("ann", PASSWORD, Client("127.0.0.1", "A browser"))
    one.client.set_cookie(get_cookie_name(secure=False), token)
    return one
