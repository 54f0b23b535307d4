"""Secrets of feeds, encrypted with a key that isn't in the database (AES-256-GCM)."""

from __future__ import annotations

import hashlib
import hmac
import os

_NONCE = 12
_PURPOSE = b"eventr feed logins"


def derive_key(secret_key: str) -> bytes:
    """Return the key for the secrets of feeds; empty without a secret key."""
    return hmac.digest(secret_key.encode(), _PURPOSE, hashlib.sha256) if secret_key else b""


def encrypt_text(key: bytes, plain: bytes, name: bytes) -> bytes:
    """Return an encrypted text that only opens for the same name."""
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # 4 MB that few processes need

    nonce = os.urandom(_NONCE)
    return nonce + AESGCM(key).encrypt(nonce, plain, name)


def open_seal(key: bytes, sealed: bytes, name: bytes) -> bytes | None:
    """Return the text in a seal; None: it is another name's, or the key has changed."""
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    try:
        return AESGCM(key).decrypt(sealed[:_NONCE], sealed[_NONCE:], name)
    except InvalidTag:
        return None
