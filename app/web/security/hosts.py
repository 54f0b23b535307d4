"""The host names of this server, and limits on request sizes (security.md W10, W16)."""

from __future__ import annotations

from urllib.parse import urlsplit

from flask import Flask, Request, current_app, request
from werkzeug.exceptions import LengthRequired
from werkzeug.middleware.proxy_fix import ProxyFix

from app import logs
from app.config import HOST, Settings
from app.errors import InvalidError, TooLargeError
from app.models.operations.proxy_probes import FORGED
from app.web.context import get_web

log = logs.get(__name__)

LOOPBACK = ["127.0.0.1", "localhost", "[::1]"]
FORM_PARTS = 200
#: Longest X-Forwarded-For header whose addresses are counted.
_LONGEST = 1024
_WARNED = "eventr-warned-of-ignored-addresses"


def list_trusted_names(settings: Settings) -> list[str]:
    """Return the trusted host names: the public address's name; without a public name also loopback names."""
    name = urlsplit(settings.own_origin).hostname or ""
    own = [f"[{name}]" if ":" in name else name if name.isascii() else name.encode("idna").decode()]
    return own if settings.base_url and own[0] not in LOOPBACK else [*own, *LOOPBACK]


def check_name(request: Request, settings: Settings) -> None:
    """Check that a request is for one of our host names, ignoring the port.

    werkzeug's own check doesn't support IPv6 addresses and replaces a missing name by the listening address.

    Raises:
        InvalidError: The request names another host or none (RFC 9112 section 3.2), even with HTTP/1.0.
    """
    named = HOST.fullmatch(request.headers.get("Host", ""))
    if named is None or named[1].lower() not in list_trusted_names(settings):
        raise InvalidError("This server isn't set up for this host name.")


def get_request_host(request: Request) -> str:
    """Return a request's host and port, without its scheme's default port; empty: unreadable."""
    named = request.headers.get("Host", "")
    usual = ":443" if request.scheme == "https" else ":80"
    return named.removesuffix(usual) if HOST.fullmatch(named) else ""


def count_ignored_addresses(request: Request, settings: Settings) -> int:
    """Return how many more addresses X-Forwarded-For lists than there are trusted proxies.

    More than none means that a proxy isn't counted in the settings, or that a client sends a forged header.
    The address that our own test forges isn't counted.
    """
    listed = request.headers.get("X-Forwarded-For", "")[:_LONGEST].split(",")
    arrived = [name for name in map(str.strip, listed) if name and name != FORGED]
    return max(0, len(arrived) - settings.trusted_proxies)


def warn_of_ignored_addresses() -> None:
    """Log once per process that a forwarded address isn't trusted: behind a proxy that the settings don't
    count, all users have one address, and share the limit on wrong passwords (W06)."""
    if _WARNED not in current_app.extensions and count_ignored_addresses(request, get_web().settings):
        current_app.extensions[_WARNED] = True
        log.warning(
            "forwarded_address_ignored",
            trusted_proxies=get_web().settings.trusted_proxies,
            hint="set EVENTR_TRUSTED_PROXIES to the number of proxies in front of Eventr",
        )


def check_body(request: Request, settings: Settings, *, takes_file: str = "") -> None:
    """Check the size of a request's body and limit what is read of it (W16, W17). Call this before any read.

    Args:
        takes_file: The setting with the size of a file that the request may contain beside a form of the
            usual size; empty: it may not.

    Raises:
        LengthRequired: The body is chunked. Browsers don't send these; a truncated one would look complete.
        TooLargeError: The body exceeds the limit.
    """
    if "Transfer-Encoding" in request.headers:
        raise LengthRequired
    most = settings.max_request_bytes
    # Not for urlencoded forms: two million empty fields would become as many objects.
    file_max = 0
    if takes_file and request.mimetype == "multipart/form-data":
        file_max = getattr(settings, takes_file)
        most += file_max
        request.max_content_length = request.max_form_memory_size = most
    if (request.content_length or 0) > most:
        if not file_max:
            raise TooLargeError(
                "The form is larger than %(kb)s KB, the most that this server accepts. "
                "Go back, shorten what you entered, and send it again.",
                kb=most >> 10,
            )
        megabytes = file_max >> 20
        if takes_file == "avatar_max":
            raise TooLargeError("The picture is larger than %(mb)s MB. Scale it down.", mb=megabytes)
        if takes_file == "fetch_max_icon":
            raise TooLargeError("The icon is larger than %(kb)s KB. Scale it down.", kb=file_max >> 10)
        raise TooLargeError("The file is larger than %(mb)s MB. Split it into smaller files.", mb=megabytes)


def install(app: Flask, settings: Settings) -> None:
    """Set the limits of ``app`` and the proxies that it trusts."""
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
