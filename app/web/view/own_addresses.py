"""Addresses of this very server, as people type or paste them."""

from __future__ import annotations

from flask import request

from app.models.sharing import own_addresses
from app.web.context import get_web
from app.web.security import hosts


def parse_own_handle(text: str) -> str | None:
    """Return whose page is meant by ``@name``, ``@name@host`` or an address of this server; None: none here.

    Raises:
        InvalidError: it is an address of this server, and of nobody's page.
    """
    here = own_addresses.strip_default_port(hosts.get_request_host(request).lower(), request.scheme)
    return own_addresses.parse_handle(text, {own_addresses.get_own_host(get_web().base_url), here})
