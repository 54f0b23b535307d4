"""Addresses of this server, as people type or paste them."""

from __future__ import annotations

from flask import request

from app.models.sharing import own_addresses
from app.web.context import get_web
from app.web.security import hosts


def parse_own_handle(text: str) -> str | None:
    """Return the handle in ``@name``, ``@name@host`` or a page's address on this server; None: elsewhere.

    Raises:
        InvalidError: The address is on this server but isn't a person's page.
    """
    here = own_addresses.strip_default_port(hosts.get_request_host(request).lower(), request.scheme)
    return own_addresses.parse_handle(text, {own_addresses.get_own_host(get_web().base_url), here})
