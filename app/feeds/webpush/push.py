"""Rules of Web Push (RFC 8030, 8291, 8292). Pure: the caller brings keys and time.

A person may register any address as an endpoint. So it is requested under all rules of the fetcher,
redirects aren't followed, and nothing of a response is stored or shown.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import ipaddress
import json
import random
import re
from typing import Final
from urllib.parse import urlsplit

from app.config import Settings
from app.errors import FetchError, InvalidError
from app.feeds.fetch.address_policy import Policy
from app.models.feeds.fetched import Fetched, FetchRequest, Purpose
from app.models.notifications.push import POINT, SECRET, DeliveryOutcome, Device, Message, PushDisabledReason

#: Message lengths are multiples of this, so that they reveal little about the content.
_BLOCK: Final = 256
_JITTER: Final = 0.1
_LOOPBACK: Final = frozenset({"127.0.0.1", "::1", "localhost"})
_BASE64URL = re.compile(r"[A-Za-z0-9_-]+={0,2}", re.ASCII)
_VISIBLE = re.compile(r"[\x21-\x7e]+")


def find_disabled_reason(settings: Settings) -> PushDisabledReason | None:
    """Return why push is off; None if it is on. Browsers allow push only with HTTPS and on loopback."""
    if not settings.push:
        return PushDisabledReason.SETTING
    parts = urlsplit(settings.own_origin)
    safe = parts.scheme == "https" or parts.hostname in _LOOPBACK
    return None if safe else PushDisabledReason.INSECURE


def get_contact(settings: Settings) -> str:
    """Return the contact address for push services (RFC 8292 §2.1)."""
    if settings.push_contact:
        return settings.push_contact
    parts = urlsplit(settings.own_origin)
    return f"https://{parts.netloc}" if parts.scheme == "https" else "mailto:admin@localhost"


def check_endpoint(url: str, policy: Policy, max_length: int) -> str:
    """Return the checked address of a push service.

    Raises:
        InvalidError: the address is too long, not HTTPS (except an allowed loopback address) or forbidden.
    """
    if len(url) > max_length or not _VISIBLE.fullmatch(url) or "#" in url:
        raise InvalidError("This isn't a valid push service address.", field="endpoint")
    try:
        endpoint = policy.check_url(url)
    except FetchError as e:
        raise InvalidError("This isn't a valid push service address.", field="endpoint") from e
    # The policy only accepts a loopback address if the administrator allows that very address.
    local = endpoint.is_ip_literal and ipaddress.ip_address(endpoint.host).is_loopback
    # The library can't name an IPv6 address in a token; no push service uses one.
    if (endpoint.scheme != "https" and not local) or ":" in endpoint.host:
        raise InvalidError("This isn't a valid push service address.", field="endpoint")
    return endpoint.url


def read_keys(p256dh: str, auth: str) -> tuple[bytes, bytes]:
    """Return the browser's key and secret for encrypted messages, from base64url (RFC 8291 §3).

    Raises:
        InvalidError: the point isn't on P-256, or the secret doesn't have 16 bytes.
    """
    from app.feeds.webpush import crypto  # imported late: it uses memory that most processes don't need

    point, secret = _bytes(p256dh, "p256dh", POINT), _bytes(auth, "auth", SECRET)
    if not crypto.is_valid_point(point):
        raise InvalidError("This isn't a valid browser key.", field="p256dh")
    return point, secret


def _bytes(text: str, field: str, length: int) -> bytes:
    if len(text) <= 2 * length and _BASE64URL.fullmatch(text):
        plain = text.rstrip("=")
        try:
            found = base64.urlsafe_b64decode(plain + "=" * (-len(plain) % 4))
        except binascii.Error:
            found = b""
        if len(found) == length:
            return found
    raise InvalidError("This isn't a valid browser key.", field=field)


def encode_key(point: bytes) -> str:
    """Return a public key in the form that browsers accept: base64url without padding."""
    return base64.urlsafe_b64encode(point).rstrip(b"=").decode()


def pack_message(message: Message, max_bytes: int) -> bytes:
    """Return a message as UTF-8 JSON of at most ``max_bytes``; its text is shortened until it fits."""
    while len(text := _json(message)) > max_bytes and (message.body or message.title):
        over = len(text) - max_bytes
        if message.body:
            message = message._replace(body=_cut(message.body, over))
        else:
            message = message._replace(title=_cut(message.title, over))
    return text.ljust(min(max_bytes, -(-len(text) // _BLOCK) * _BLOCK))


def _json(message: Message) -> bytes:
    return json.dumps(message._asdict(), ensure_ascii=False, separators=(",", ":")).encode()


def _cut(text: str, octets: int) -> str:
    """Return the text at least ``octets`` bytes shorter, ending in an ellipsis (3 bytes), or ""."""
    left = text.encode()[: -(octets + 3)].decode("utf-8", "ignore").rstrip("… ")
    return f"{left}…" if left else ""


def build_request(
    device: Device, body: bytes, authorization: str, *, tag: str, ttl: int, timeout: float
) -> FetchRequest:
    """Return the request that sends a message to a push service (RFC 8030 §5).

    Args:
        device: the device that gets the message.
        body: the encrypted message.
        authorization: see :func:`app.feeds.webpush.crypto.build_authorization`.
        tag: of two messages with the same tag, the service keeps the newer one.
        ttl: seconds that the service keeps the message.
        timeout: seconds until the response must be complete.
    """
    # The topic reveals no id to the service: only that two messages have the same subject (§5.4).
    topic = hashlib.sha256(f"{device.id}\n{tag}".encode()).digest()[:24]
    headers = (
        ("Content-Type", "application/octet-stream"),
        ("Content-Encoding", "aes128gcm"),
        ("TTL", str(ttl)),
        ("Urgency", "normal"),
        ("Topic", base64.urlsafe_b64encode(topic).decode()),
        ("Authorization", authorization),
    )
    return FetchRequest(
        device.endpoint,
        key=device.id,
        headers=headers,
        form=body,
        follow=False,
        within=timeout,
        purpose=Purpose.PUSH,
    )


def get_origin(url: str) -> str:
    """Return scheme, host and port of a checked endpoint: the audience of a token."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def classify_response(fetched: Fetched | None) -> DeliveryOutcome:
    """Return the outcome of a delivery; ``fetched`` is None without a timely response.

    A forbidden, refusing or silent address gives the same outcome. Otherwise someone could register
    addresses, watch how long they stay, and so map this server's network (S13).
    """
    if fetched is None or fetched.status == 0:
        return DeliveryOutcome.LATER
    if fetched.error is None:
        return DeliveryOutcome.SENT
    if fetched.status in (404, 410):
        return DeliveryOutcome.GONE
    later = fetched.status == 429 or fetched.status >= 500
    return DeliveryOutcome.LATER if later else DeliveryOutcome.REFUSED


def is_unanswered(fetched: Fetched | None) -> bool:
    """Return whether a service gave no complete response; the same for all causes, as above."""
    if fetched is None or fetched.status == 0:
        return True
    return fetched.error is not None and fetched.error.word == "timeout"


def compute_retry_delay(
    failures: int, retry_after: int | None, settings: Settings, rng: random.Random
) -> float:
    """Return the seconds until the next try.

    Args:
        failures: failures in a row, 1 or more.
        retry_after: the service's Retry-After in seconds; None without one.
        settings: hold the bounds of the back-off.
        rng: draws the jitter.
    """
    pause = min(settings.push_backoff_min * (1 << min(failures - 1, 24)), settings.push_backoff_max)
    return max(pause * rng.uniform(1 - _JITTER, 1 + _JITTER), float(retry_after or 0))
