"""Files that other users have stored already, added without an upload by who proves to have them too.

Off unless the server allows it. The answers for a file that nobody has, and for one that isn't offered, are
the same and take the same steps.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterable, Iterator
from typing import Final

from app import clock, logs
from app.config import Settings
from app.errors import EventrError, NotFoundError
from app.gateways.media.blobs import BlobGateway
from app.gateways.media.files import FileGateway
from app.gateways.media.quota import QuotaGateway
from app.models.accounts.actor import Actor, Permission
from app.models.media import proof
from app.models.media.blob import ORIGINAL, Blob, Purpose
from app.models.media.upload import NAME_MAX
from app.models.media.user_file import UserFile
from app.models.names import to_one_line
from app.runtime.pieces import read_piece
from app.services.access import Limiter, require_permission, throttle

log = logs.get(__name__)

#: Name of a file whose name has nothing that can be shown.
_NAMELESS: Final = "file"


class PossessionService:
    """Challenges, and the files of those who answer them."""

    def __init__(
        self,
        *,
        files: FileGateway,
        blobs: BlobGateway,
        quota: QuotaGateway,
        limiter: Limiter,
        settings: Settings,
    ) -> None:
        self._files, self._blobs, self._quota = files, blobs, quota
        self._limiter, self._settings = limiter, settings

    def create_challenge(self, actor: Actor, digest: bytes, size: int, key: bytes) -> proof.Challenge:
        """Return which parts of a file to hash; nothing is looked up, so this tells nothing.

        Args:
            digest: SHA-256 of the file.
            key: this server's key for signatures.

        Raises:
            NotFoundError: the server wants the file sent.
            RateLimitedError: too many attempts within the hour.
        """
        self._check(actor, size)
        # Shared with the plain question for an own file.
        limit = self._settings.instant_per_hour
        throttle(self._limiter, f"known_file:{actor.user_id}", limit=limit, window=clock.HOUR)
        return proof.create_challenge(key, actor.user_id, digest, size, clock.now())

    def add_proven(
        self, actor: Actor, digest: bytes, size: int, name: str, *, token: str, answer: bytes, key: bytes
    ) -> UserFile:
        """Add a file that the actor has proved to have; each challenge can be answered once.

        Raises:
            NotFoundError: nobody has the file, it isn't offered, or the answer is wrong or too late.
            QuotaError: it doesn't fit into the actor's quota.
        """
        self._check(actor, size)
        nonce = proof.read_nonce(key, token, user_id=actor.user_id, digest=digest, size=size, now=clock.now())
        if nonce is None or not self._is_first(nonce):
            raise NotFoundError
        offered = self._find_offered(actor, digest, size, key)
        ranges = proof.list_ranges(proof.derive_seed(key, actor.user_id, digest, size), size)
        # Without an offer as many bytes are hashed, and the store isn't asked: it may be slow.
        parts = self._read(offered, ranges) if offered else _make_zeros(ranges)
        try:
            expected = proof.compute_proof(nonce, parts)
        except (EventrError, OSError):
            raise NotFoundError from None
        if not hmac.compare_digest(expected, answer) or offered is None:
            raise NotFoundError
        shown = to_one_line(name)[:NAME_MAX] or _NAMELESS
        purpose = Purpose.ATTACHMENT
        known = UserFile(id=0, user_id=actor.user_id, blob=digest, name=shown, size=size, purpose=purpose)
        file = self._quota.add_file(known, shown)
        log.info("file_proven", user_id=actor.user_id, size=size)
        return file

    def _check(self, actor: Actor, size: int) -> None:
        require_permission(actor, Permission.FILE_EDIT)
        settings = self._settings
        if settings.instant == "off" or not settings.uploads or size < max(1, settings.instant_min):
            raise NotFoundError

    def _is_first(self, nonce: bytes) -> bool:
        """Return whether a challenge is answered for the first time, and count that."""
        attempt = self._limiter.count_request(f"proof:{nonce.hex()}", 2, proof.SECONDS)
        return not attempt.wait and attempt.left == 1

    def _find_offered(self, actor: Actor, digest: bytes, size: int, key: bytes) -> Blob | None:
        """Return a blob that the actor may have without sending it. All questions are always asked."""
        blob = self._blobs.find([digest]).get(digest)
        own = self._files.find_by_blob(actor.user_id, digest)
        minimum, since = proof.draw_minimum(key, digest), clock.now() - proof.SETTLED
        has_enough = self._files.has_holders(digest, minimum, since)
        is_shared = has_enough and self._settings.instant == "proof"
        if blob is None or ORIGINAL not in blob.names or blob.size != size or blob.lost:
            return None
        return blob if own is not None or is_shared else None

    def _read(self, blob: Blob, ranges: Iterable[tuple[int, int]]) -> Iterator[bytes]:
        for first, last in ranges:
            yield from read_piece(self._blobs.open(blob.id, ORIGINAL, first, last, seen=blob))


def _make_zeros(ranges: Iterable[tuple[int, int]]) -> Iterator[bytes]:
    return (bytes(last - first + 1) for first, last in ranges)
