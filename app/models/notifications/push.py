"""Devices on which somebody is told of things while no page is open (Push API, RFC 8030)."""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
import hashlib
from typing import NamedTuple
from urllib.parse import urlsplit

#: Bytes of a point of P-256, uncompressed, and of the secret beside it (RFC 8291 §3.1, §3.2).
POINT, SECRET = 65, 16
#: The kind of what is sent to see whether anything comes; no row of notifications has it.
TEST = "test"


class PushDisabledReason(enum.StrEnum):
    """Why nobody is told on his devices: the administrator says so, or browsers do."""

    SETTING = "setting"
    INSECURE = "insecure"


class DeliveryOutcome(enum.StrEnum):
    """What the answer of a push service means: it came, the device is gone, try later, never so."""

    SENT = "sent"
    GONE = "gone"
    LATER = "later"
    REFUSED = "refused"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """A browser that wants to be told, as long as the session lives in which somebody asked for it.

    Attributes:
        session: the key of that session. endpoint: where its push service takes messages; a secret.
        p256dh, auth: what messages are encrypted for (RFC 8291 §3), 65 and 16 bytes.
        agent: the browser's own description, shortened. language: of the page he asked on.
        used: when a message was last taken. failures: since then, in a row.
    """

    id: int
    user_id: int
    session: bytes
    endpoint: str
    p256dh: bytes
    auth: bytes
    created: dt.datetime
    agent: str = ""
    language: str = "en"
    used: dt.datetime | None = None
    failures: int = 0

    @property
    def endpoint_hash(self) -> str:
        """A name for its endpoint that tells nothing of it; scripts can make the same."""
        return hashlib.sha256(self.endpoint.encode()).hexdigest()

    @property
    def service(self) -> str:
        """The host of its push service."""
        return urlsplit(self.endpoint).hostname or ""


class Message(NamedTuple):
    """What a device shows; ``url`` is a path of ours. ``always``: also where a page is in sight."""

    title: str
    body: str
    url: str
    tag: str
    lang: str = "en"
    dir: str = "ltr"
    always: bool = False


class VapidSender(NamedTuple):
    """Who sends to push services: our key (32 bytes, RFC 8292 §2) and whom they may write to."""

    key: bytes
    contact: str
