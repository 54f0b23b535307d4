"""Addresses of this very server, as people type or paste them."""

from __future__ import annotations

from flask import request

from app.models import ours
from app.web import hosts
from app.web.context import web


def handle_in(text: str) -> str | None:
    """Return whose page is meant by ``@name``, ``@name@host`` or an address of this server; None: none here.

    Raises:
        InvalidError: it is an address of this server, and of nobody's page.
    """
    here = ours.plain(hosts.place(request).lower(), request.scheme)
    return ours.handle_at(text, {ours.host_of(web().base_url), here})
