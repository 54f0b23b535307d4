"""CSRF protection: requests are checked by origin and by token (security.md W03)."""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from urllib.parse import urlsplit

from flask import Request

from app.errors import ForbiddenError, OldPageError
from app.web.security import hosts

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
FIELD = "csrf_token"
HEADER = "X-CSRF-Token"


def make_token(key: bytes, session_token: str) -> str:
    """Return the token for a page: the session's secret under a fresh mask.

    The mask makes each page's token different, so compressed pages don't reveal the secret (BREACH).
    """
    secret = _secret(key, session_token)
    mask = secrets.token_bytes(len(secret))
    return base64.urlsafe_b64encode(mask + _xor(mask, secret)).decode()


def is_valid_token(key: bytes, session_token: str, sent: str) -> bool:
    """Return whether a request's token belongs to its session; in constant time."""
    try:
        raw = base64.urlsafe_b64decode(sent.encode("ascii"))
    except ValueError:
        return False
    if len(raw) != 64:
        return False
    return hmac.compare_digest(_xor(raw[:32], raw[32:]), _secret(key, session_token))


def _secret(key: bytes, session_token: str) -> bytes:
    return hmac.new(key, b"csrf|" + session_token.encode(), hashlib.sha256).digest()


def _xor(a: bytes, b: bytes) -> bytes:
    return bytes(x ^ y for x, y in zip(a, b, strict=True))


def check_origin(request: Request) -> None:
    """Check the origin of a request that changes anything.

    Raises:
        ForbiddenError: The request came from another site.
    """
    if request.method not in SAFE_METHODS and not _from_here(request):
        raise ForbiddenError(
            "This request came from another site. Open the page on this server and try again."
        )


def check_token(request: Request, key: bytes, session_token: str | None) -> None:
    """Check the token of a request that changes anything.

    Raises:
        OldPageError: The token is missing or belongs to another session.
    """
    if request.method in SAFE_METHODS:
        return
    sent = request.headers.get(HEADER) or request.form.get(FIELD, "")
    if not session_token or not is_valid_token(key, session_token, sent):
        raise OldPageError


def _from_here(request: Request) -> bool:
    site = request.headers.get("Sec-Fetch-Site")
    if site is not None:
        return site in ("same-origin", "none")
    origin = urlsplit(request.headers.get("Origin", ""))
    # hosts.check_name has accepted the Host header, so the host is one of ours (W10).
    return bool(origin.netloc) and (origin.scheme, origin.netloc) == (
        request.scheme,
        hosts.get_request_host(request),
    )
