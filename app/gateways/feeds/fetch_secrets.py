"""Fetch options as stored: sealed with a key that isn't in the database (AES-256-GCM).

The key derives from ``EVENTR_SECRET_KEY``. The seal names the reader, so a copied document doesn't open.
"""

from __future__ import annotations

import dataclasses
import hashlib
import hmac
import os

import msgspec

from app import logs
from app.errors import InvalidError
from app.models.feeds.fetch_options import FetchOptions

log = logs.get(__name__)

_NONCE = 12
_PURPOSE = b"eventr feed logins"


class FetchSecrets:
    """Seals and opens fetch options.

    Args:
        secret_key: empty: nothing can be sealed.
    """

    def __init__(self, secret_key: str) -> None:
        self._key = hmac.digest(secret_key.encode(), _PURPOSE, hashlib.sha256) if secret_key else b""

    def seal(self, options: FetchOptions, user_id: int) -> bytes:
        """Return the options of a reader, encrypted.

        Raises:
            InvalidError: this server has no key.
        """
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # 4 MB that few processes need

        if not self._key:
            raise InvalidError("This server has no key for secrets. Ask its administrator to set one.")
        nonce = os.urandom(_NONCE)
        plain = msgspec.json.encode(dataclasses.asdict(options))
        return nonce + AESGCM(self._key).encrypt(nonce, plain, _name(user_id))

    def open(self, sealed: bytes | None, user_id: int | None) -> FetchOptions:
        """Return the options in a seal; none if the key has changed since."""
        from cryptography.exceptions import InvalidTag
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        if not sealed or user_id is None or not self._key:
            return FetchOptions()
        try:
            plain = AESGCM(self._key).decrypt(sealed[:_NONCE], sealed[_NONCE:], _name(user_id))
        except InvalidTag:
            log.warning("fetch_options_unreadable", user_id=user_id)
            return FetchOptions()
        return msgspec.json.decode(plain, type=FetchOptions)


def _name(user_id: int) -> bytes:
    return b"%d" % user_id
