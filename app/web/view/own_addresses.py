"""Addresses of this very server, as people type or paste them."""

from __future__ import annotations

from flask import request

from app.models.sharing import own_addresses
from app.web.context import web
from app.web.security import hosts


def handle_in(text: str) -> str | None:
    """Return whose page is meant by ``@name``, ``@name@host`` or an address of this server; None: none here.

    Raises:
        InvalidError: it is an address of this server, and of nobody's page.
    """
    here = own_addresses.plain(hosts.place(request).lower(), request.scheme)
    return own_addresses.handle_at(text, {own_addresses.host_of(web().base_url), here})
