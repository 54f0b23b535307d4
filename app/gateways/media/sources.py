"""Sources of pictures: which may be fetched, and what became of them."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Collection, Iterable, Sequence

from app import clock
from app.errors import ConflictError
from app.feeds.discover.icons import is_harmless_svg
from app.feeds.media_targets import may_load as may_fetch
from app.gateways.media.blobs import BlobGateway
from app.mappers.media.icons import IconMapper
from app.mappers.media.sources import SourceMapper
from app.mappers.mongo.store import Session, Store
from app.models.media.blob import Purpose
from app.models.media.source import Source, SourceState

__all__ = ["SourceGateway", "compute_wait", "is_harmless_svg", "may_fetch"]

#: Wait after the first failure; each further one waits four times as long, up to a week.
FIRST_WAIT = dt.timedelta(hours=1)
LONGEST_WAIT = dt.timedelta(days=7)
#: Time after which a body that nobody has drawn is fetched again.
DRAWING_WAIT = dt.timedelta(hours=1)
#: Time after which its job is queued again, in case Redis has lost it.
REQUEUE_WAIT = dt.timedelta(minutes=2)
#: Time between two fetches of an icon.
ICON_WINDOW = dt.timedelta(days=7)
#: Most sources whose job is queued again in one look.
DUE_MAX = 200
#: How long a claim lasts: a fetch with all its redirects, or a drawing, takes less. A job that runs again
#: takes over its own claim. So this is also the pause after all attempts have failed, while a store is away.
CLAIM = dt.timedelta(minutes=3)


class SourceGateway:
    """Claims sources for fetching and drawing, and records the results.

    Args:
        window: time between two fetches of a picture, and for which a source is kept after its last use.
    """

    def __init__(
        self,
        store: Store,
        sources: SourceMapper,
        icons: IconMapper,
        blobs: BlobGateway,
        *,
        window: dt.timedelta,
    ) -> None:
        self._store, self._sources, self._icons, self._blobs = store, sources, icons, blobs
        self._window = window

    def find(self, ids: Collection[bytes]) -> dict[bytes, Source]:
        """Return the sources with these ids, by id."""
        return self._sources.find(set(ids))

    def add(self, sources: Iterable[Source], now: dt.datetime) -> None:
        """Store new sources as used today; leave out those that exist."""
        self._sources.add(dataclasses.replace(source, used=get_day(now)) for source in sources)

    def touch(self, ids: Collection[bytes], now: dt.datetime) -> None:
        """Record that these sources are shown today."""
        if ids:
            self._sources.touch(ids, get_day(now))

    def claim(self, ids: Sequence[bytes], token: str, now: dt.datetime) -> list[Source]:
        """Claim and return those sources that may be fetched now and that nobody else fetches."""
        return self._sources.claim(ids, token, now, now + CLAIM)

    def find_due(self, now: dt.datetime) -> list[bytes]:
        """Return pictures that nobody has fetched yet and that may be fetched now, the longest due first."""
        return self._sources.find_due(now, DUE_MAX)

    def find_waiting(self, now: dt.datetime) -> list[bytes]:
        """Return sources whose body has waited to be drawn for some minutes, the longest waiting first."""
        return self._sources.find_waiting(now + DRAWING_WAIT - REQUEUE_WAIT, now, DUE_MAX)

    def record_lost(self, source: Source, token: str, now: dt.datetime) -> None:
        """Record that the body of a source is lost; it is fetched again, and feeds look for their icon."""
        is_held = self._sources.record_lost(source.id, token, now)
        if is_held and source.purpose is Purpose.ICON and source.blob is None:
            self._icons.look_again(source.id, now)

    def claim_drawing(
        self, source_id: bytes, token: str, now: dt.datetime, dead_tokens: Sequence[str] = ()
    ) -> Source | None:
        """Claim a source whose body waits to be drawn; None: there is none, or someone else draws it.

        Args:
            dead_tokens: tokens of attempts whose worker died; their claims are taken over.
        """
        return self._sources.claim_drawing(source_id, token, now, now + CLAIM, dead_tokens)

    def release_drawing(self, source: Source, token: str) -> None:
        """Release the claim of a source whose body still waits to be drawn, elsewhere."""
        self._sources.release([source.id], token, source.next_at or clock.now())

    def release_claims(self, ids: Sequence[bytes], token: str) -> None:
        """Release claims of sources; they may be fetched again at once."""
        self._sources.release(ids, token, clock.now())

    def record_fetched(self, source: Source, token: str, now: dt.datetime) -> Source:
        """Record that a source's body waits to be drawn, with its validators; return the source."""
        next_at = now + DRAWING_WAIT
        self._sources.record_fetched(
            source.id, token, etag=source.etag, modified=source.modified, next_at=next_at, home=source.home
        )
        state = SourceState.READY if source.blob else SourceState.FETCHED
        return dataclasses.replace(source, state=state, is_waiting=True, next_at=next_at)

    def record_unchanged(self, source: Source, token: str, now: dt.datetime) -> Source:
        """Record that a source's body is still the one of its blob; return the source."""
        next_at = now + self._get_window(source.purpose)
        self._sources.record_unchanged(source.id, token, next_at)
        return dataclasses.replace(source, next_at=next_at, tries=0, error=None)

    def postpone(self, source: Source, token: str, now: dt.datetime, seconds: float) -> Source:
        """Record that a source could not be fetched yet, through no fault of its own; return the source."""
        next_at = now + dt.timedelta(seconds=seconds)
        self._sources.postpone(source.id, token, next_at)
        return dataclasses.replace(source, next_at=next_at)

    def record_failure(
        self, source: Source, token: str, error: str, now: dt.datetime, seconds: float = 0
    ) -> Source:
        """Record that a source can't be fetched or drawn; return the source.

        A source that was ready stays so. Feeds without an icon that wait for this one look for another.

        Args:
            error: an error word.
            seconds: how long the site asked to wait; it counts if it is longer than the usual wait.
        """
        next_at = now + max(compute_wait(source.tries), dt.timedelta(seconds=seconds))
        is_held = self._sources.record_failure(source.id, token, error, next_at)
        if is_held and source.purpose is Purpose.ICON and source.blob is None:
            self._icons.look_again(source.id, now)
        state = SourceState.READY if source.blob else SourceState.FAILED
        return dataclasses.replace(
            source, state=state, is_waiting=False, error=error, tries=source.tries + 1, next_at=next_at
        )

    def finish(
        self, session: Session, source_id: bytes, token: str, blob_id: bytes, now: dt.datetime
    ) -> Source:
        """Let a source name its blob, in the transaction in which the blob got this reference.

        The earlier blob loses its reference, and the feeds with this icon show the new one.

        Returns:
            The source as it is now.

        Raises:
            ConflictError: the claim isn't valid anymore, so the transaction must end without a change.
        """
        before = self._sources.find_in(session, source_id)
        if before is None:
            raise ConflictError
        next_at = now + self._get_window(before.purpose)
        if self._sources.finish(session, source_id, token, blob_id, next_at) is None:
            raise ConflictError
        if before.blob is not None:
            self._blobs.release(session, before.blob)
        if before.purpose is Purpose.ICON:
            self._icons.set_blob(session, source_id, blob_id)
        return dataclasses.replace(
            before, state=SourceState.READY, blob=blob_id, is_waiting=False, next_at=next_at
        )

    def finish_known(self, source: Source, token: str, blob_id: bytes, now: dt.datetime) -> Source | None:
        """Let a source name a blob that exists; None: the blob is being deleted, so it must be drawn again.

        Raises:
            ConflictError: the claim isn't valid anymore.
        """

        def use_blob(session: Session) -> Source | None:
            if not self._blobs.use(session, blob_id):
                return None
            return self.finish(session, source.id, token, blob_id, now)

        return self._store.run_in_transaction(use_blob)

    def find_rotten(self, now: dt.datetime, limit: int) -> list[Source]:
        """Return sources that nobody has seen for the window, the oldest first."""
        return self._sources.find_rotten(get_day(now - self._window), limit)[0]

    def remove(self, session: Session, source_id: bytes) -> bool:
        """Delete a source and its reference; return whether there was one.

        Feeds with this icon look for it again.
        """
        source = self._sources.remove(session, source_id)
        if source is None:
            return False
        if source.blob is not None:
            self._blobs.release(session, source.blob)
        if source.purpose is Purpose.ICON:
            self._icons.forget(session, source_id)
        return True

    def _get_window(self, purpose: Purpose) -> dt.timedelta:
        return ICON_WINDOW if purpose is Purpose.ICON else self._window


def get_day(now: dt.datetime) -> dt.datetime:
    """Return the beginning of the day (UTC)."""
    return now.replace(hour=0, minute=0, second=0, microsecond=0)


def compute_wait(tries: int) -> dt.timedelta:
    """Return the time until the next attempt, after ``tries`` failures before the current one."""
    # Beyond four the power no longer matters.
    wait: dt.timedelta = FIRST_WAIT * 4 ** min(tries, 4)
    return min(wait, LONGEST_WAIT)
