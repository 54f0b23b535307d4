"""People of these tests as visitors of the web tier, without the work of a log-in."""

from __future__ import annotations

from flask import Flask

from app import create_app
from app.bootstrap.services import Services
from app.models.accounts.actor import Actor
from tests.web.conftest import Visitor


class Doors:
    """Opens browsers; ``doors(None)`` is a stranger's."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self.app: Flask = create_app(services.settings, services)

    def __call__(self, who: Actor | None) -> Visitor:
        visitor = Visitor(self.app.test_client())
        if who is not None:
            token = self._services.gateways.sessions.open_session(who.user_id, agent="", address="")
            visitor.client.set_cookie("eventr", token)
        return visitor
