"""The cookie of a browser in which someone has logged in: their next login there has limits of its own (W06).

It gives no access. It only keeps strangers behind the same address from using up the attempts of that person.
"""

from __future__ import annotations

import secrets

from flask import Response, g, request
from itsdangerous import BadData, URLSafeTimedSerializer

from app.services.accounts.sign_in import Device
from app.web.context import get_web

#: Seconds for which a browser is known after a login.
KNOWN_SECONDS = 365 * 24 * 3600
#: Longest cookie that is read.
_LONGEST = 512


def get_cookie_name(secure: bool) -> str:
    """Return the cookie's name; the prefix binds the cookie to this exact host and to HTTPS."""
    return "__Host-eventr-device" if secure else "eventr-device"


def find_device() -> Device | None:
    """Return the known browser of this request; None: its cookie is missing, forged or too old."""
    sent = request.cookies.get(get_cookie_name(get_web().secure), "")
    if not 0 < len(sent) <= _LONGEST:
        return None
    try:
        user_id, name = _signer().loads(sent, max_age=KNOWN_SECONDS)
    except (BadData, TypeError, ValueError):
        return None
    return Device(user_id, name) if isinstance(user_id, int) and isinstance(name, str) else None


def remember_device(user_id: int) -> None:
    """Set the cookie with the answer to a login."""
    known = find_device()
    same = known is not None and known.user_id == user_id
    g.new_device = Device(user_id, known.id if known and same else secrets.token_hex(16))


def set_cookie(response: Response) -> Response:
    """Add the cookie to an answer whose request has logged someone in."""
    device: Device | None = g.get("new_device")
    if device is not None:
        response.set_cookie(
            get_cookie_name(get_web().secure),
            str(_signer().dumps([device.user_id, device.id])),
            max_age=KNOWN_SECONDS,
            secure=get_web().secure,
            httponly=True,
            samesite="Lax",
            path="/",
        )
    return response


def _signer() -> URLSafeTimedSerializer:
    return URLSafeTimedSerializer(get_web().secret_key, salt="known device")
