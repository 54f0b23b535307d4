"""Which names this server answers to, and how large a request may be (security.md W10, W16)."""

from __future__ import annotations

from urllib.parse import urlsplit

from flask import Flask, Request
from werkzeug.exceptions import LengthRequired
from werkzeug.middleware.proxy_fix import ProxyFix

from app import logs
from app.config import Settings
from app.errors import TooLargeError

log = logs.get(__name__)

LOOPBACK = ["127.0.0.1", "localhost", "[::1]"]
FORM_PARTS = 200
#: Largest body, as long as there are forms alone and no route takes a file. The server has such a body
#: whole before a thread touches it, so that none ever waits for a client (W17).
FORM_BYTES = 64 << 10


def base_url(settings: Settings) -> str:
    """Return the public address without a slash at its end."""
    return settings.base_url.rstrip("/") or f"http://{settings.host}:{settings.port}"


def trusted(settings: Settings) -> list[str]:
    """Return the host names that are ours: of the public address; on this machine alone also its loopback."""
    name = urlsplit(base_url(settings)).hostname or ""
    own = [f"[{name}]" if ":" in name else name]
    return own if settings.base_url and own[0] not in LOOPBACK else [*own, *LOOPBACK]


def check_body(request: Request) -> None:
    """Let a request through whose body may be read; to be asked before anything reads it (W16, W17).

    Raises:
        LengthRequired: it comes in chunks. No browser sends such; a cut or broken one would look whole.
        TooLargeError: no form is so long.
    """
    if "Transfer-Encoding" in request.headers:
        raise LengthRequired
    if (request.content_length or 0) > FORM_BYTES:
        raise TooLargeError


def install(app: Flask, settings: Settings) -> None:
    """Set the limits of ``app`` and whom it believes."""
    app.config.update(
        TRUSTED_HOSTS=trusted(settings),
        MAX_CONTENT_LENGTH=settings.max_request_bytes,
        MAX_FORM_MEMORY_SIZE=settings.max_request_bytes,
        MAX_FORM_PARTS=FORM_PARTS,
        DEBUG=False,
    )
    if settings.trusted_proxies:
        hops = settings.trusted_proxies
        app.wsgi_app = ProxyFix(  # type: ignore[method-assign]
            app.wsgi_app, x_for=hops, x_proto=hops, x_host=0, x_port=0, x_prefix=0
        )
    if base_url(settings).startswith("http://") and trusted(settings)[0] not in LOOPBACK:
        log.warning("plain_http", base_url=base_url(settings), hint="set EVENTR_BASE_URL to an https address")
