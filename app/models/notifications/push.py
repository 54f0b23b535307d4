"""Push devices, which show notifications while no page is open (Push API, RFC 8030)."""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
import hashlib
from typing import NamedTuple
from urllib.parse import urlsplit

#: Bytes of an uncompressed P-256 point, and of the auth secret (RFC 8291 §3.1, §3.2).
POINT, SECRET = 65, 16
#: The kind of a test message; no stored notification has it.
TEST = "test"


class PushDisabledReason(enum.StrEnum):
    """Why push is off: by the administrator's setting, or because browsers require HTTPS."""

    SETTING = "setting"
    INSECURE = "insecure"


class DeliveryOutcome(enum.StrEnum):
    """The meaning of a push service's response: delivered, device gone, retry later, never."""

    SENT = "sent"
    GONE = "gone"
    LATER = "later"
    REFUSED = "refused"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """A browser that receives notifications while the session lives in which the user turned them on.

    Attributes:
        session: the key of that session.
        endpoint: the address of its push service; a secret.
        p256dh, auth: the keys that encrypt its messages (RFC 8291 §3), 65 and 16 bytes.
        agent: the browser's own description, shortened.
        language: of the page on which the user turned push on.
        used: when a message was last accepted.
        failures: failures in a row since then.
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
        """A hash of its endpoint that reveals nothing about it; scripts can compute the same hash."""
        return hashlib.sha256(self.endpoint.encode()).hexdigest()

    @property
    def service(self) -> str:
        """The host of its push service."""
        return urlsplit(self.endpoint).hostname or ""


class Message(NamedTuple):
    """The content of a notification; ``url`` is a path of ours. ``always``: even if a page is visible."""

    title: str
    body: str
    url: str
    tag: str
    lang: str = "en"
    dir: str = "ltr"
    always: bool = False


class VapidSender(NamedTuple):
    """The sender to push services: our key (32 bytes, RFC 8292 §2) and a contact address."""

    key: bytes
    contact: str
