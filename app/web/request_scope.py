"""One identity map per request."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from flask import Flask

from app.runtime import identity_map


def install(app: Flask) -> None:
    """Open an identity map for each request of ``app``.

    The map ends with the call of the application: a streamed body reads from the store.
    """
    inner = app.wsgi_app

    def call_in_scope(environ: Any, start: Any) -> Iterable[bytes]:
        with identity_map.open_scope(shared=True):
            return inner(environ, start)

    app.wsgi_app = call_in_scope  # type: ignore[method-assign,assignment]
