"""Addresses of this server: they lead to people, and are never fetched."""

from __future__ import annotations

import re
from collections.abc import Collection
from urllib.parse import unquote, urlsplit

from app.errors import InvalidError

_NAMED = re.compile(r"/@([^/]+)(?:/.*)?")
_USUAL = {"http": ":80", "https": ":443"}


def parse_handle(text: str, hosts: Collection[str]) -> str | None:
    """Return the handle in ``@name`` or in an address on one of these hosts; None for any other text.

    ``@name@host`` is a person on that host.

    Args:
        text: as typed.
        hosts: those of this server, as :func:`get_own_host` returns them.

    Raises:
        InvalidError: the text is an address of this server, but not of a person's page.
    """
    text = text.strip()
    if text.startswith("@"):
        name, away, place = text[1:].partition("@")
        if away and strip_default_port(place.partition("/")[0].lower(), "") not in hosts:
            return None
        return _handle(f"/@{name}")
    scheme, found, rest = text.partition("://")
    if not found:
        scheme, rest = "", text
    if scheme.lower() not in ("", "http", "https"):
        return None
    try:
        address = urlsplit(f"//{rest}")
    except ValueError:
        return None
    host = address.netloc.rpartition("@")[2].lower()
    if strip_default_port(host, scheme.lower()) not in hosts:
        return None
    handle = _handle(address.path)
    if handle is None:
        raise InvalidError(
            "This is the server's own address. To follow someone, use the address of their page, "
            "such as /@name."
        )
    return handle


def _handle(path: str) -> str | None:
    match = _NAMED.fullmatch(unquote(path))
    return match[1] if match else None


def get_own_host(origin: str) -> str:
    """Return the host of a server's own address, as :func:`parse_handle` compares it."""
    own = urlsplit(origin)
    return strip_default_port(own.netloc.lower(), own.scheme)


def strip_default_port(host: str, scheme: str) -> str:
    """Return a host without the default port of its scheme."""
    ends = [_USUAL[scheme]] if scheme else list(_USUAL.values())
    for end in ends:
        host = host.removesuffix(end)
    return host
