"""Our own hub (W3C WebSub): subscribers of public streams, and the requests sent to them."""

from __future__ import annotations

import dataclasses
import datetime as dt
import hashlib
from typing import NamedTuple

from app.models.feeds.fetched import FetchRequest
from app.models.feeds.websub import Mode


class HubForm(NamedTuple):
    """A request to the hub (§5.1), still unchecked; ``lease`` in seconds, None if missing or not a number."""

    mode: str
    topic: str
    callback: str
    lease: int | None = None
    secret: str = ""


class PendingIntent(NamedTuple):
    """A subscriber's request until their callback has confirmed or refused it.

    Attributes:
        lease: seconds, within our bounds.
        at: when it was made; identifies this request.
        failures: attempts that the callback didn't answer.
    """

    mode: Mode
    lease: int
    secret: str
    at: dt.datetime
    failures: int = 0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Subscriber:
    """A callback that subscribes to one topic, or wants to.

    Attributes:
        user_id, feed_id: the owner of the stream, and its feed.
        topic: address of the feed, as the subscriber wrote it.
        since: when the callback first confirmed; None: not yet.
        expires: end of the lease; before the first confirmation, when it is forgotten.
        ask: the request to be confirmed.
        owed: the time of the change it hasn't received yet; None: none.
        failures: failed pushes in a row.
        heard: hash of the last document it received.
    """

    id: int
    user_id: int
    feed_id: int
    topic: str
    callback: str
    expires: dt.datetime
    secret: str = ""
    since: dt.datetime | None = None
    ask: PendingIntent | None = None
    owed: dt.datetime | None = None
    failures: int = 0
    heard: bytes = b""


class Document(NamedTuple):
    """A published feed of ours, as served at its address."""

    body: bytes
    content_type: str

    @property
    def digest(self) -> bytes:
        """8 bytes that differ when the content does."""
        return hashlib.blake2b(self.body, digest_size=8).digest()


class IntentVerification(NamedTuple):
    """A request that asks a callback to confirm its intent, or reports that the topic is gone.

    Attributes:
        challenge: to be echoed; "": no response is expected.
    """

    subscriber: Subscriber
    ask: PendingIntent
    challenge: str
    request: FetchRequest


class Delivery(NamedTuple):
    """A push to be sent, or the notice that pushes end.

    Attributes:
        digest: of the content; empty for that notice.
    """

    subscriber: Subscriber
    request: FetchRequest
    digest: bytes = b""
