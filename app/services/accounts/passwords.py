"""Passwords: rules for new ones, and argon2id hashing with bounded memory (W05, W07)."""

from __future__ import annotations

import base64
import contextlib
import functools
import secrets
import threading
from collections.abc import Iterator
from importlib import resources

import argon2
from argon2.exceptions import InvalidHashError, VerificationError, VerifyMismatchError

from app.config import Settings
from app.errors import InvalidError, RateLimitedError

MIN_LENGTH = 8
MAX_LENGTH = 1024
LANES = 4
#: One hash takes 64 MiB: more than two at once would let a few logins use up the server's memory.
AT_ONCE = 2
#: Seconds that a request waits for a slot: a flood of logins must not hold the threads of other pages.
SLOT_SECONDS = 1.0
#: Seconds after which a refused login may be tried again.
RETRY_SECONDS = 3
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
    """Hashes and verifies passwords with argon2id, at most two at once in this process.

    Further requests wait at most a second, in at most half of the web tier's threads (W05).
    """

    def __init__(self, settings: Settings) -> None:
        self._argon = argon2.PasswordHasher(
            time_cost=settings.argon2_time, memory_cost=settings.argon2_memory_kib, parallelism=LANES
        )
        self._slots = threading.BoundedSemaphore(AT_ONCE)
        self._places = threading.BoundedSemaphore(max(AT_ONCE, settings.web_threads // 2))
        self._dummy = _dummy(settings)

    def hash(self, password: str) -> str:
        """Return the encoded hash of a password.

        Raises:
            RateLimitedError: no slot became free in time.
        """
        with self._take_slot():
            return self._argon.hash(password)

    def verify(self, stored: str | None, password: str) -> bool:
        """Return whether a password is correct; if ``stored`` is None, do the same work and return False
        (W07).

        Raises:
            RateLimitedError: no slot became free in time; this says nothing about the password.
        """
        with self._take_slot():
            try:
                fits = self._argon.verify(stored or self._dummy, password[:MAX_LENGTH])
            except (VerifyMismatchError, VerificationError, InvalidHashError):
                return False
        return fits and stored is not None and len(password) <= MAX_LENGTH

    @contextlib.contextmanager
    def _take_slot(self) -> Iterator[None]:
        if not self._places.acquire(blocking=False):
            raise _busy()
        try:
            if not self._slots.acquire(timeout=SLOT_SECONDS):
                raise _busy()
            try:
                yield
            finally:
                self._slots.release()
        finally:
            self._places.release()

    def is_outdated(self, stored: str) -> bool:
        """Return whether a hash was made with other parameters than the current settings."""
        return self._argon.check_needs_rehash(stored)


def _busy() -> RateLimitedError:
    return RateLimitedError(
        "Many people are logging in right now. Try again in a few seconds.", retry_after=RETRY_SECONDS
    )


def _dummy(settings: Settings) -> str:
    # A well-formed hash of no password: verifying against it costs the same as against a real one.
    def encode_random(size: int) -> str:
        return base64.b64encode(secrets.token_bytes(size)).decode().rstrip("=")

    cost = f"m={settings.argon2_memory_kib},t={settings.argon2_time},p={LANES}"
    return f"$argon2id$v=19${cost}${encode_random(16)}${encode_random(32)}"
