"""Sources: addresses of pictures on other sites, each fetched once."""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
import hashlib
import hmac

from app.models.media.blob import Purpose

#: Bytes of a source's id.
ID_BYTES = 16


class SourceState(enum.StrEnum):
    """States of a source.

    WANTED: to be fetched. FETCHED: its body waits to be drawn. READY: its blob exists. FAILED: see ``error``.
    """

    WANTED = "wanted"
    FETCHED = "fetched"
    READY = "ready"
    FAILED = "failed"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """An address from which a picture comes.

    Attributes:
        id: keyed hash of the address, so that nobody can guess an id from an address; see :func:`derive_id`.
        page: page that shows the picture; its origin is sent as ``Referer``. None: none is sent.
        feed: the feed that named the address: a private address is only fetched from the feed's own host.
        entry: the entry that showed the picture first. The source is kept as long as someone has starred,
            tagged or shared it.
        purpose: icon, picture or avatar.
        is_waiting: whether its body waits to be drawn.
        blob: id of the blob, if ready.
        etag, modified: validators of the last response.
        error: error word of the last attempt.
        tries: failed attempts in a row.
        next_at: when to try again.
        used: day on which it was last shown.
        home: id of the EVENTR_HOME that has the body, if it waits to be drawn.
    """

    id: bytes
    url: str
    purpose: Purpose
    page: str | None = None
    feed: str | None = None
    entry: int | None = None
    is_waiting: bool = False
    state: SourceState = SourceState.WANTED
    blob: bytes | None = None
    etag: str | None = None
    modified: str | None = None
    error: str | None = None
    tries: int = 0
    next_at: dt.datetime | None = None
    used: dt.datetime | None = None
    home: str | None = None


def derive_id(key: bytes, url: str) -> bytes:
    """Return the id of the source with this address."""
    return hmac.digest(key, url.encode(), hashlib.sha256)[:ID_BYTES]
