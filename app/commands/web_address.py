"""The address of the web tier: the public address, and whether the web tier responds."""

from __future__ import annotations

import contextlib
import http.client
from urllib.parse import urlsplit

from app.config import Settings


def get_public_url(settings: Settings) -> str:
    """Return the address that people use: the configured one, else the listening one."""
    host = _reachable(settings.host)
    return settings.base_url or f"http://{f'[{host}]' if ':' in host else host}:{settings.port}"


def is_responding(settings: Settings) -> bool:
    """Return whether the web tier of this machine reports that it can serve."""
    name = urlsplit(get_public_url(settings)).netloc  # the web tier refuses other host names
    try:
        connection = http.client.HTTPConnection(_reachable(settings.host), settings.port, timeout=5)
        with contextlib.closing(connection):
            connection.request("GET", "/healthz", headers={"Host": name})
            return connection.getresponse().status == http.client.OK
    except (OSError, http.client.HTTPException, UnicodeError):  # UnicodeError: not a valid host name
        return False


def _reachable(host: str) -> str:
    return {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}.get(host, host)  # noqa: S104
