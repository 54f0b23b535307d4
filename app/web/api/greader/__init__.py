"""The Google Reader API, as today's native apps speak it.

Specification: what nine clients send and six servers answer, since Google's own was never published; see
``docs/clients.md``. Ids are 16 decimal digits, streams ``feed/<number>``, the user always ``user/-``.
"""

from __future__ import annotations

from flask import Blueprint

from app.web.api.greader import feeds, marks, people, streams
from app.web.api.greader.wire import Api

#: Where apps look for it: at the root (newsboat, Liferea), and where FreshRSS has it (Reeder, NetNewsWire).
MOUNTS = {"greader": "", "greader_php": "/api/greader.php", "greader_api": "/api/greader"}


def build_blueprints() -> tuple[Blueprint, ...]:
    """Return the routes once for each address that apps try."""
    api = Api()
    for part in (people, feeds, streams, marks):
        part.add_routes(api)
    return tuple(api.build_blueprint(name, prefix) for name, prefix in MOUNTS.items())
