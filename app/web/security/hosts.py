"""Which names this server answers to, and how large a request may be (security.md W10, W16)."""

from __future__ import annotations

from urllib.parse import urlsplit

from flask import Flask, Request
from werkzeug.exceptions import LengthRequired
from werkzeug.middleware.proxy_fix import ProxyFix

from app import logs
from app.config import HOST, Settings
from app.errors import InvalidError, TooLargeError

log = logs.get(__name__)

LOOPBACK = ["127.0.0.1", "localhost", "[::1]"]
FORM_PARTS = 200


def list_trusted_names(settings: Settings) -> list[str]:
    """Return the host names that are ours: of the public address; on this machine alone also its loopback."""
    name = urlsplit(settings.own_origin).hostname or ""
    own = [f"[{name}]" if ":" in name else name if name.isascii() else name.encode("idna").decode()]
    return own if settings.base_url and own[0] not in LOOPBACK else [*own, *LOOPBACK]


def check_name(request: Request, settings: Settings) -> None:
    """Let a request through that is for one of our names; the port is not looked at.

    werkzeug's own check knows no IPv6 address, and takes the address we listen on for a missing name.

    Raises:
        InvalidError: it is for another host, or for none (RFC 9112 section 3.2), also with HTTP/1.0.
    """
    named = HOST.fullmatch(request.headers.get("Host", ""))
    if named is None or named[1].lower() not in list_trusted_names(settings):
        raise InvalidError("This server isn't set up for this host name.")


def get_request_host(request: Request) -> str:
    """Return name and port that a request is for, without the port of its scheme; empty: none can be read.

    ``request.host`` is empty for names with ``_``.
    """
    named = request.headers.get("Host", "")
    usual = ":443" if request.scheme == "https" else ":80"
    return named.removesuffix(usual) if HOST.fullmatch(named) else ""


def check_body(request: Request, settings: Settings, *, takes_file: bool = False) -> None:
    """Let a request through whose body may be read; to be asked before anything reads it (W16, W17).

    Args:
        takes_file: it may bring a file of subscriptions beside a form of the usual size.

    Raises:
        LengthRequired: it comes in chunks. No browser sends such; a cut or broken one would look whole.
        TooLargeError: it is above the limit.
    """
    if "Transfer-Encoding" in request.headers:
        raise LengthRequired
    most = settings.max_request_bytes
    # Not for a long line of fields: each of its two million empty ones would be kept as an object.
    takes_file = takes_file and request.mimetype == "multipart/form-data"
    if takes_file:
        most += settings.opml_max_bytes
        request.max_content_length = request.max_form_memory_size = most
    if (request.content_length or 0) > most:
        if not takes_file:
            raise TooLargeError
        megabytes = settings.opml_max_bytes >> 20
        raise TooLargeError("The file is larger than %(mb)s MB. Split it into smaller files.", mb=megabytes)


def install(app: Flask, settings: Settings) -> None:
    """Set the limits of ``app`` and whom it believes."""
    app.config.update(
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
    if settings.own_origin.startswith("http://") and list_trusted_names(settings)[0] not in LOOPBACK:
        log.warning(
            "plain_http", base_url=settings.own_origin, hint="set EVENTR_BASE_URL to an https address"
        )
