"""The address of the web tier: the one to show, and whether somebody answers there."""

from __future__ import annotations

import contextlib
import http.client
from urllib.parse import urlsplit

from app.config import Settings


def get_public_url(settings: Settings) -> str:
    """Return the address that people use: the set one, else the one that is listened on."""
    host = _reachable(settings.host)
    return settings.base_url or f"http://{f'[{host}]' if ':' in host else host}:{settings.port}"


def is_responding(settings: Settings) -> bool:
    """Return whether the web tier of this machine says that it can serve."""
    name = urlsplit(get_public_url(settings)).netloc  # it refuses names that are not its own
    try:
        connection = http.client.HTTPConnection(_reachable(settings.host), settings.port, timeout=5)
        with contextlib.closing(connection):
            connection.request("GET", "/healthz", headers={"Host": name})
            return connection.getresponse().status == http.client.OK
    except (OSError, http.client.HTTPException, UnicodeError):  # UnicodeError: a host that is no name
        return False


def _reachable(host: str) -> str:
    return {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}.get(host, host)  # noqa: S104
