"""The Google Reader API, as today's native apps use it.

Google never published a specification. This one follows the requests of nine clients and the answers of six
servers (``docs/clients.md``). Ids are 16 decimal digits, streams ``feed/<number>``, the user ``user/-``.
"""

from __future__ import annotations

from flask import Blueprint

from app.web.api.greader import feeds, marks, people, streams
from app.web.api.greader.wire import Api

#: Where apps look for the API: at the root (newsboat, Liferea), or where FreshRSS has it (Reeder,
#: NetNewsWire).
MOUNTS = {"greader": "", "greader_php": "/api/greader.php", "greader_api": "/api/greader"}


def build_blueprints() -> tuple[Blueprint, ...]:
    """Return one blueprint for each address that apps try."""
    api = Api()
    for part in (people, feeds, streams, marks):
        part.add_routes(api)
    return tuple(api.build_blueprint(name, prefix) for name, prefix in MOUNTS.items())
