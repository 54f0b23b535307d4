"""Our own hub (W3C WebSub): who wants to hear of which public stream, and what he is sent."""

from __future__ import annotations

import dataclasses
import datetime as dt
import hashlib
from typing import NamedTuple

from app.models.feeds.fetched import FetchRequest
from app.models.feeds.websub import Mode


class HubForm(NamedTuple):
    """A request to the hub (§5.1), still unchecked; ``lease`` in seconds, None: left out or no number."""

    mode: str
    topic: str
    callback: str
    lease: int | None = None
    secret: str = ""


class PendingIntent(NamedTuple):
    """What somebody asked of the hub, until his callback has confirmed it or not.

    Attributes:
        lease: seconds, within our bounds.
        at: when he asked; it names this request. failures: tries at which the callback did not answer.
    """

    mode: Mode
    lease: int
    secret: str
    at: dt.datetime
    failures: int = 0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Subscriber:
    """A callback that is told of one topic, or wants to be.

    Attributes:
        user_id, feed_id: whose stream it is.
        topic: address of the feed, as the subscriber wrote it.
        since: when it first confirmed; None: it has not yet.
        expires: end of the lease; of one that never confirmed, when it is forgotten.
        ask: what is to be confirmed.
        owed: of which change it has not been told; None: of none. failures: pushes in a row that failed.
        heard: hash of what it got last.
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
    """What is served at the address of a feed of ours."""

    body: bytes
    content_type: str

    @property
    def digest(self) -> bytes:
        """8 bytes that tell it from what was served before."""
        return hashlib.blake2b(self.body, digest_size=8).digest()


class IntentVerification(NamedTuple):
    """A callback that is asked whether it meant a request, or is told that there is no such topic.

    Attributes:
        challenge: to be echoed; "": nothing is to be answered.
    """

    subscriber: Subscriber
    ask: PendingIntent
    challenge: str
    request: FetchRequest


class Delivery(NamedTuple):
    """A push that is to be sent, or the word that there will be no more.

    Attributes:
        digest: of what is sent; empty for that word.
    """

    subscriber: Subscriber
    request: FetchRequest
    digest: bytes = b""
