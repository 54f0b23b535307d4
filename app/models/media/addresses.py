"""Addresses of pictures on this server: ids that nobody can guess, and signed addresses for programs.

Both are keyed hashes of the picture's own address, so this server isn't an open proxy: it only fetches what
it has shown to someone. A signature says who wrote an address, not that fetching it is safe (security.md V01,
H12).
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Sequence
from typing import NamedTuple

from app.models.media.source import ID_BYTES, derive_id

#: Text form of a source's id.
ID = re.compile(r"[A-Za-z0-9_-]{22}")
#: Longest signed part of an address, in characters; pictures with longer addresses aren't shown to programs.
SIGNED_MAX = 4096
_SIGNATURE_BYTES = 16
#: The version and the purpose are signed too, so that no signature of another kind is accepted.
_KIND = b"v1|program|"


class SignedPicture(NamedTuple):
    """A picture in an address for programs: its own address, and the page that shows it."""

    url: str
    page: str | None


class MediaKeys:
    """The key of picture addresses, and former ones whose addresses are still in programs.

    Args:
        keys: the newest first; it alone makes new addresses.
    """

    def __init__(self, keys: Sequence[bytes]) -> None:
        self._keys = tuple(keys)

    @classmethod
    def create(cls, media_keys: str, secret_key: str) -> MediaKeys:
        """Return the keys from settings.

        Args:
            media_keys: keys separated by spaces, the newest first; empty: derived from the secret key.
            secret_key: the key for signatures.
        """
        if not media_keys:
            return cls([hmac.digest(secret_key.encode(), b"eventr media", hashlib.sha256)])
        return cls([hashlib.sha256(key.encode()).digest() for key in media_keys.split()])

    def derive_id(self, url: str) -> bytes:
        """Return the id of the source with this address."""
        return derive_id(self._keys[0], url)

    def sign(self, picture: SignedPicture) -> str | None:
        """Return the path of a picture for programs; None: its address is too long."""
        data = encode_bytes("\n".join((picture.url, picture.page or "")).encode())
        if len(data) > SIGNED_MAX:
            return None
        return f"/i/u/{encode_bytes(_sign(self._keys[0], data))}/{data}"

    def verify(self, signature: str, data: str) -> SignedPicture | None:
        """Return what a path names; None: none of the keys has signed it."""
        given = decode_bytes(signature)
        if given is None or len(data) > SIGNED_MAX:
            return None
        if not any(hmac.compare_digest(_sign(key, data), given) for key in self._keys):
            return None
        text = decode_bytes(data)
        url, _, page = (text or b"").decode().partition("\n")
        return SignedPicture(url, page or None)


def encode_bytes(value: bytes) -> str:
    """Return bytes in the form of addresses."""
    return base64.urlsafe_b64encode(value).rstrip(b"=").decode("ascii")


def decode_bytes(text: str) -> bytes | None:
    """Return the bytes of a part of an address; None for any text that :func:`encode_bytes` doesn't write."""
    try:
        value = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except (binascii.Error, ValueError):
        return None
    return value if encode_bytes(value) == text else None


def parse_id(text: str) -> bytes | None:
    """Return the id of a source from its text form, None if it isn't one."""
    value = decode_bytes(text) if ID.fullmatch(text) else None
    return value if value is not None and len(value) == ID_BYTES else None


def _sign(key: bytes, data: str) -> bytes:
    return hmac.digest(key, _KIND + data.encode(), hashlib.sha256)[:_SIGNATURE_BYTES]
