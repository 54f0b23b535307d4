"""Keys, encryption and signatures of Web Push (RFC 8291, 8188, 8292), with the web-push-libs libraries."""

from __future__ import annotations

import datetime as dt
from typing import Final

import http_ece
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from py_vapid import Vapid02

from app.models.notifications.push import POINT, VapidSender

#: Validity of a token for a push service; RFC 8292 §2 allows a day.
TOKEN_LIFE: Final = dt.timedelta(hours=12)


def create_key() -> bytes:
    """Return a new P-256 private key for signatures, 32 bytes."""
    number = ec.generate_private_key(ec.SECP256R1()).private_numbers().private_value
    return number.to_bytes(32, "big")


def derive_public_key(private: bytes) -> bytes:
    """Return the public key of a private key, an uncompressed point of 65 bytes."""
    return _key(private).public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)


def is_valid_point(point: bytes) -> bool:
    """Return whether the bytes are an uncompressed point (65 bytes) on P-256."""
    if len(point) != POINT or point[0] != 4:
        return False
    try:
        ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), point)
    except ValueError:
        return False
    return True


def encrypt(text: bytes, p256dh: bytes, auth: bytes) -> bytes:
    """Return a message that only the browser with these keys can read (RFC 8291 §3, aes128gcm)."""
    # A key for this message only, as §3.1 requires.
    own = ec.generate_private_key(ec.SECP256R1())
    sealed: bytes = http_ece.encrypt(text, private_key=own, dh=p256dh, auth_secret=auth, version="aes128gcm")
    return sealed


def build_authorization(sender: VapidSender, audience: str, now: dt.datetime) -> str:
    """Return the Authorization header that identifies us to a push service (RFC 8292 §3).

    Args:
        sender: our key and contact address.
        audience: the origin of the push service.
        now: the current time, aware.
    """
    # The library's strict mode accepts only mailto: or a bare host; an address with port or path is as valid.
    vapid = Vapid02(_key(sender.key), conf={"no-strict": True})
    claims = {"aud": audience, "exp": int((now + TOKEN_LIFE).timestamp()), "sub": sender.contact}
    signed: dict[str, str] = vapid.sign(claims)
    return signed["Authorization"]


def _key(private: bytes) -> ec.EllipticCurvePrivateKey:
    return ec.derive_private_key(int.from_bytes(private, "big"), ec.SECP256R1())
