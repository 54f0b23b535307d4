"""Typed access to Flask's globals: services, settings, and the current user."""

from __future__ import annotations

import dataclasses
from typing import cast

from flask import current_app, g

from app.bootstrap.services import Services
from app.config import Settings
from app.errors import AuthRequiredError
from app.models.accounts.actor import Actor
from app.models.accounts.user import Session, User
from app.web.assets.assets import Assets


@dataclasses.dataclass(frozen=True, slots=True)
class Web:
    """The settings, services and assets that the web tier was built with."""

    settings: Settings
    services: Services
    assets: Assets
    secret_key: bytes
    base_url: str

    @property
    def secure(self) -> bool:
        """Whether users connect by HTTPS."""
        return self.base_url.startswith("https://")


def get_web() -> Web:
    """Return the `Web` of this application."""
    return cast(Web, current_app.extensions["eventr"])


def get_services() -> Services:
    """Return the services."""
    return get_web().services


def find_user() -> User | None:
    """Return the user who is logged in, if any."""
    return cast("User | None", g.get("user"))


def get_user() -> User:
    """Return the user who is logged in.

    Raises:
        AuthRequiredError: No user is logged in.
    """
    current = find_user()
    if current is None:
        raise AuthRequiredError
    return current


def get_session() -> Session:
    """Return the session of the user who is logged in.

    Raises:
        AuthRequiredError: No user is logged in.
    """
    current = g.get("session")
    if current is None:
        raise AuthRequiredError
    return cast(Session, current)


def get_actor() -> Actor:
    """Return the actor that services expect for the user who is logged in.

    Raises:
        AuthRequiredError: No user is logged in.
    """
    return get_user().actor
