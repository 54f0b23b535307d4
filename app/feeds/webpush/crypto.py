"""Keys, encryption and signatures of web push (RFC 8291, 8188, 8292), by the libraries of web-push-libs."""

from __future__ import annotations

import datetime as dt
from typing import Final

import http_ece
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from py_vapid import Vapid02

from app.models.notifications.push import POINT, VapidSender

#: How long a token for a push service is valid; RFC 8292 §2 allows a day.
TOKEN_LIFE: Final = dt.timedelta(hours=12)


def create_key() -> bytes:
    """Return a private key of P-256 for signatures, 32 bytes."""
    number = ec.generate_private_key(ec.SECP256R1()).private_numbers().private_value
    return number.to_bytes(32, "big")


def derive_public_key(private: bytes) -> bytes:
    """Return the public key that belongs to a private one, an uncompressed point of 65 bytes."""
    return _key(private).public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)


def is_valid_point(point: bytes) -> bool:
    """Return whether these are the 65 bytes of an uncompressed point that lies on P-256."""
    if len(point) != POINT or point[0] != 4:
        return False
    try:
        ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), point)
    except ValueError:
        return False
    return True


def encrypt(text: bytes, p256dh: bytes, auth: bytes) -> bytes:
    """Return a message that the browser with these keys alone can read (RFC 8291 §3, aes128gcm)."""
    # A key for this message alone, as §3.1 wants it.
    own = ec.generate_private_key(ec.SECP256R1())
    sealed: bytes = http_ece.encrypt(text, private_key=own, dh=p256dh, auth_secret=auth, version="aes128gcm")
    return sealed


def build_authorization(sender: VapidSender, audience: str, now: dt.datetime) -> str:
    """Return the header by which a push service knows us (RFC 8292 §3); ``audience``: its origin."""
    # Strict means mailto: or a bare host to the library; an address with a port or a path is as good.
    vapid = Vapid02(_key(sender.key), conf={"no-strict": True})
    claims = {"aud": audience, "exp": int((now + TOKEN_LIFE).timestamp()), "sub": sender.contact}
    signed: dict[str, str] = vapid.sign(claims)
    return signed["Authorization"]


def _key(private: bytes) -> ec.EllipticCurvePrivateKey:
    return ec.derive_private_key(int.from_bytes(private, "big"), ec.SECP256R1())
