"""Addresses of this very server, as people type or paste them: they lead to people, and are never fetched."""

from __future__ import annotations

import re
from urllib.parse import unquote, urlsplit

from flask import request

from app.errors import InvalidError
from app.web.context import web

_NAMED = re.compile(r"/@([^/]+)(?:/.*)?")
_USUAL = {"http": ":80", "https": ":443"}


def handle_in(text: str) -> str | None:
    """Return whose page is meant by ``@name``, or by an address of this server; None: neither.

    Raises:
        InvalidError: it is an address of this server, and of nobody's page.
    """
    text = text.strip()
    if text.startswith("@"):
        return _handle(f"/{text}")
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
    if _plain(host, scheme.lower()) not in _own_hosts():
        return None
    handle = _handle(address.path)
    if handle is None:
        raise InvalidError("This is an address of this server itself. People have theirs at /@name.")
    return handle


def _handle(path: str) -> str | None:
    match = _NAMED.fullmatch(unquote(path))
    return match[1] if match else None


def _own_hosts() -> set[str]:
    own = urlsplit(web().base_url)
    return {_plain(own.netloc.lower(), own.scheme), _plain(request.host.lower(), request.scheme)}


def _plain(host: str, scheme: str) -> str:
    """Return a host without the port that its scheme has anyway."""
    ends = [_USUAL[scheme]] if scheme else list(_USUAL.values())
    for end in ends:
        host = host.removesuffix(end)
    return host
