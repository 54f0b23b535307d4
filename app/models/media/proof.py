"""Proof that a client has a file which other people have stored: random parts of it, hashed with a nonce.

A hash proves nothing: it may have been published. Pure. The key signs a challenge, so nothing is stored.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import hmac
import secrets
from collections.abc import Iterable
from typing import Final, NamedTuple

from app.models.media.addresses import decode_bytes, encode_bytes

#: Parts of a file that are asked for, and bytes of each. Someone with 90 % of a file passes 3 times in 100.
PARTS: Final = 32
PART_BYTES: Final = 64 << 10
#: Up to this size the whole file is asked for.
WHOLE_MAX: Final = PARTS * PART_BYTES
#: Seconds for which a challenge may be answered.
SECONDS: Final = 60
#: A blob is offered if at least so many users have it: the smallest and the largest number. Someone who
#: stores a file with one account and asks with another doesn't learn whether one other person has it.
HOLDERS: Final = (3, 6)
#: Users count once they have had the file for so long, so nobody sees at once what their own upload changes.
SETTLED: Final = dt.timedelta(days=7)
_NONCE, _TIME, _MAC = 16, 8, 32


class Challenge(NamedTuple):
    """What a client must hash: the nonce, then the bytes of the ranges, first and last byte inclusive."""

    token: str
    nonce: bytes
    ranges: tuple[tuple[int, int], ...]


def create_challenge(key: bytes, user_id: int, digest: bytes, size: int, now: dt.datetime) -> Challenge:
    """Return a new challenge for a user; it is the same kind for files that nobody has."""
    nonce = secrets.token_bytes(_NONCE)
    until = int(now.timestamp()) + SECONDS
    body = nonce + until.to_bytes(_TIME, "big")
    token = encode_bytes(body + _sign(key, body, user_id, digest, size))
    return Challenge(token, nonce, list_ranges(derive_seed(key, user_id, digest, size), size))


def read_nonce(
    key: bytes, token: str, *, user_id: int, digest: bytes, size: int, now: dt.datetime
) -> bytes | None:
    """Return the nonce of a challenge; None: it is another user's or file's, too old, or not ours."""
    raw = decode_bytes(token)
    if raw is None or len(raw) != _NONCE + _TIME + _MAC:
        return None
    body, mac = raw[:-_MAC], raw[-_MAC:]
    is_ours = hmac.compare_digest(mac, _sign(key, body, user_id, digest, size))
    until = int.from_bytes(body[_NONCE:], "big")
    return body[:_NONCE] if is_ours and now.timestamp() < until else None


def derive_seed(key: bytes, user_id: int, digest: bytes, size: int) -> bytes:
    """Return what the ranges of a file depend on.

    They are the same in all challenges of a user for a file. With new ones in each, someone who lacks a
    tenth of the file would pass after some dozens of attempts.
    """
    return hmac.digest(key, b"eventr ranges|%d|%d|" % (user_id, size) + digest, hashlib.sha256)


def list_ranges(seed: bytes, size: int) -> tuple[tuple[int, int], ...]:
    """Return the ranges of a file that a challenge asks for: random ones, or the whole of a small file."""
    if size <= WHOLE_MAX:
        return ((0, size - 1),)
    numbers = hashlib.shake_256(b"ranges|" + seed).digest(8 * PARTS)
    places = (int.from_bytes(numbers[at : at + 8], "big") for at in range(0, len(numbers), 8))
    firsts = sorted(place % (size - PART_BYTES + 1) for place in places)
    return tuple((first, first + PART_BYTES - 1) for first in firsts)


def compute_proof(nonce: bytes, parts: Iterable[bytes]) -> bytes:
    """Return the right answer: SHA-256 of the nonce and the bytes of all ranges."""
    found = hashlib.sha256(nonce)
    for part in parts:
        found.update(part)
    return found.digest()


def draw_minimum(key: bytes, digest: bytes) -> int:
    """Return how many users must have a blob before it is offered: random, but fixed for each blob.

    Nobody can tell from an answer whether one certain person has a file.
    """
    low, high = HOLDERS
    drawn = hmac.digest(key, b"eventr holders|" + digest, hashlib.sha256)
    return low + drawn[0] % (high - low + 1)


def _sign(key: bytes, body: bytes, user_id: int, digest: bytes, size: int) -> bytes:
    text = b"eventr proof|%d|%d|" % (user_id, size)
    return hmac.digest(key, text + digest + body, hashlib.sha256)
