"""Copies of the pages that everyone sees alike, for visitors without cookies.

These pages are the ones that get flooded. A copy is served until someone closes, hides or removes something
that public pages may show (docs/design/cache.md).
"""

from __future__ import annotations

import time
from typing import NamedTuple

from flask import Flask, Response, g, request

from app.runtime.weighted_cache import WeightedCache
from app.web.context import find_user, get_services
from app.web.view.i18n import get_language

#: Seconds for which a copy is served.
SECONDS = 30.0
#: Bytes of all copies of a process, and of one at most.
BYTES_MAX, COPY_MAX = 16 << 20, 512 << 10
ENDPOINTS = frozenset(
    (
        *("public.show_home", "shared.show_stream", "shared.show_share", "shared.show_chain"),
        *("sharedfeeds.serve_atom", "sharedfeeds.serve_json_feed"),
    )
)
#: Headers with which a visitor asks for something else than the whole page.
_PARTIAL = ("Cookie", "Authorization", "HX-Request", "If-None-Match", "If-Modified-Since", "Range")
#: Facts that a view leaves for the headers.
_FLAGS = ("has_player", "public_bytes")

Key = tuple[object, ...]


class _Copy(NamedTuple):
    mark: object
    expires: float
    body: bytes
    headers: list[tuple[str, str]]
    flags: dict[str, object]


def install(app: Flask) -> None:
    """Serve copies of public pages of ``app``. Call this last, so that all guards come before."""
    copies: WeightedCache[Key, _Copy] = WeightedCache(BYTES_MAX)

    @app.before_request
    def serve_copy() -> Response | None:
        mark = get_services().find_public_mark() if _is_alike() else None
        if mark is None:
            return None
        g.public_mark = mark
        copy = copies.get(_make_key())
        if copy is None or copy.mark is not mark or copy.expires <= time.monotonic():
            return None
        for name, value in copy.flags.items():
            setattr(g, name, value)
        g.public_mark = None
        response = Response(copy.body)
        response.headers.clear()
        response.headers.extend(copy.headers)
        return response

    @app.after_request
    def keep_copy(response: Response) -> Response:
        mark = g.get("public_mark")
        if mark is None or not _is_for_all(response):
            return response
        body = response.get_data()
        if len(body) <= COPY_MAX:
            flags = {name: g.get(name) for name in _FLAGS if name in g}
            copy = _Copy(mark, time.monotonic() + SECONDS, body, list(response.headers), flags)
            copies.add(_make_key(), copy, len(body))
        return response


def _is_alike() -> bool:
    """Return whether the answer depends on nothing but the address, the language and the compression."""
    return (
        request.endpoint in ENDPOINTS
        and request.method == "GET"
        and not request.query_string
        and not any(name in request.headers for name in _PARTIAL)
    )


def _is_for_all(response: Response) -> bool:
    return (
        response.status_code == 200
        and not response.direct_passthrough
        and not response.is_streamed
        and find_user() is None
        and g.get("new_token") is None
        and g.get("csrf") is None
        and "Set-Cookie" not in response.headers
    )


def _make_key() -> Key:
    return request.host, request.path, get_language(), bool(request.accept_encodings.quality("gzip"))
