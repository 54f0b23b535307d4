"""What a request knows: services, settings, who is asking. Typed ways to Flask's globals."""

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
    """What the web tier was made with."""

    settings: Settings
    services: Services
    assets: Assets
    secret_key: bytes
    base_url: str

    @property
    def secure(self) -> bool:
        """Whether people come by HTTPS."""
        return self.base_url.startswith("https://")


def get_web() -> Web:
    """Return what this application was made with."""
    return cast(Web, current_app.extensions["eventr"])


def get_services() -> Services:
    """Return the services."""
    return get_web().services


def find_user() -> User | None:
    """Return who is logged in, if anyone."""
    return cast("User | None", g.get("user"))


def get_user() -> User:
    """Return who is logged in.

    Raises:
        AuthRequiredError: nobody is.
    """
    current = find_user()
    if current is None:
        raise AuthRequiredError
    return current


def get_session() -> Session:
    """Return the session of who is logged in.

    Raises:
        AuthRequiredError: nobody is.
    """
    current = g.get("session")
    if current is None:
        raise AuthRequiredError
    return cast(Session, current)


def get_actor() -> Actor:
    """Return who is asking, as services want him.

    Raises:
        AuthRequiredError: nobody is logged in.
    """
    return get_user().actor
