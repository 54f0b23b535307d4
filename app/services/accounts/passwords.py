"""Passwords: rules for new ones, and argon2id hashing with bounded memory (W05, W07)."""

from __future__ import annotations

import base64
import functools
import secrets
import threading
from importlib import resources

import argon2
from argon2.exceptions import InvalidHashError, VerificationError, VerifyMismatchError

from app.config import Settings
from app.errors import InvalidError

MIN_LENGTH = 8
MAX_LENGTH = 1024
LANES = 4
#: One hash takes 64 MiB: more than two at once would let a few logins use up the server's memory.
AT_ONCE = 2
_COMMON = resources.files("app.services.accounts") / "common_passwords.txt"


@functools.cache
def _common() -> frozenset[str]:
    lines = _COMMON.read_text("utf-8").splitlines()
    return frozenset(line for line in lines if not line.startswith("# "))


def check(password: str, *, name: str = "", email: str = "") -> None:
    """Refuse a new password that is too short, too long, common, or the user's name or email address.

    Raises:
        InvalidError: the message says why.
    """
    if len(password) < MIN_LENGTH:
        raise InvalidError(
            "The password must have at least %(limit)s characters.", field="password", limit=MIN_LENGTH
        )
    if len(password) > MAX_LENGTH:
        raise InvalidError(
            "The password can have at most %(limit)s characters.", field="password", limit=MAX_LENGTH
        )
    folded = password.casefold()
    if folded in {name.casefold(), email.casefold(), email.casefold().partition("@")[0]} - {""}:
        raise InvalidError("Don't use your user name or email address as your password.", field="password")
    if folded in _common() or len(set(folded)) == 1:
        raise InvalidError("This password is too easy to guess. Choose another one.", field="password")


class Hasher:
    """Hashes and verifies passwords with argon2id; blocks while two hashes run in this process."""

    def __init__(self, settings: Settings) -> None:
        self._argon = argon2.PasswordHasher(
            time_cost=settings.argon2_time, memory_cost=settings.argon2_memory_kib, parallelism=LANES
        )
        self._slots = threading.BoundedSemaphore(AT_ONCE)
        self._dummy = _dummy(settings)

    def hash(self, password: str) -> str:
        """Return the encoded hash of a password."""
        with self._slots:
            return self._argon.hash(password)

    def verify(self, stored: str | None, password: str) -> bool:
        """Return whether a password is correct; if ``stored`` is None, do the same work and return False
        (W07).
        """
        with self._slots:
            try:
                fits = self._argon.verify(stored or self._dummy, password[:MAX_LENGTH])
            except (VerifyMismatchError, VerificationError, InvalidHashError):
                return False
        return fits and stored is not None and len(password) <= MAX_LENGTH

    def is_outdated(self, stored: str) -> bool:
        """Return whether a hash was made with other parameters than the current settings."""
        return self._argon.check_needs_rehash(stored)


def _dummy(settings: Settings) -> str:
    # A well-formed hash of no password: verifying against it costs the same as against a real one.
    def encode_random(size: int) -> str:
        return base64.b64encode(secrets.token_bytes(size)).decode().rstrip("=")

    cost = f"m={settings.argon2_memory_kib},t={settings.argon2_time},p={LANES}"
    return f"$argon2id$v=19${cost}${encode_random(16)}${encode_random(32)}"
