"""Rules of a WebSub hub (https://www.w3.org/TR/websub/). Pure: the caller brings time and randomness.

A callback address comes from a stranger. So it is requested under all rules of the fetcher, redirects
aren't followed (§5.3.1 and §7 count them as failures), and nothing of a response is stored.
"""

from __future__ import annotations

import datetime as dt
import hmac
import random
import re
from typing import Final
from urllib.parse import urlencode, urlsplit

from app.config import Settings
from app.feeds.websub.subscriber import is_reachable
from app.models.feeds.fetched import Fetched, FetchRequest, Purpose
from app.models.sharing.hub import Document, PendingIntent, Subscriber

#: The fields of a request to the hub, as errors name them.
TOPIC: Final = "hub.topic"
MODE: Final = "hub.mode"
SECRET: Final = "hub.secret"  # noqa: S105 — the name of a field
CALLBACK: Final = "hub.callback"
#: A request that was neither confirmed nor refused is forgotten after this time.
PENDING: Final = dt.timedelta(hours=1)
#: A verification or push whose worker died is due again after this time.
CLAIM: Final = dt.timedelta(minutes=3)
_JITTER: Final = 0.1
#: Error words of addresses that may never be fetched.
_NEVER: Final = frozenset({"refused", "invalid_url", "login_in_url"})
_VISIBLE = re.compile(r"[\x21-\x7e]+")


def is_enabled(settings: Settings) -> bool:
    """Return whether the hub is on: by setting, or because others can surely reach this server."""
    return settings.hub == "on" or (settings.hub == "auto" and is_reachable(settings.base_url))


def get_hub_url(settings: Settings) -> str | None:
    """Return the address of the hub; None if it is off."""
    return f"{settings.own_origin}/hub" if is_enabled(settings) else None


def is_valid_callback(url: str, max_length: int) -> bool:
    """Return whether an address has the form of a callback; the fetcher checks its host separately."""
    return len(url) <= max_length and bool(_VISIBLE.fullmatch(url)) and "#" not in url


def get_callback_host(url: str) -> str:
    """Return the host of a checked callback."""
    return (urlsplit(url).hostname or "").rstrip(".")


def build_verification(
    subscriber: Subscriber, intent: PendingIntent, challenge: str, timeout: float
) -> FetchRequest:
    """Return the request that asks a subscriber to confirm its intent (§5.3)."""
    fields = {"hub.mode": intent.mode.value, "hub.topic": subscriber.topic, "hub.challenge": challenge}
    return _get(subscriber, {**fields, "hub.lease_seconds": str(intent.lease)}, timeout)


def build_denial(subscriber: Subscriber, timeout: float) -> FetchRequest:
    """Return the request that reports that a topic is gone or not public (§5.2)."""
    fields = {"hub.mode": "denied", "hub.topic": subscriber.topic, "hub.reason": "not a public feed"}
    return _get(subscriber, fields, timeout)


def _get(subscriber: Subscriber, fields: dict[str, str], within: float) -> FetchRequest:
    # The callback's own query must stay (§5.3).
    joint = "&" if urlsplit(subscriber.callback).query else "?"
    url = subscriber.callback.removesuffix("?") + joint + urlencode(fields)
    return FetchRequest(url, key=subscriber.id, follow=False, within=within, purpose=Purpose.HUB)


def is_confirmed(fetched: Fetched, challenge: str) -> bool:
    """Return whether a callback echoed the challenge, and nothing else."""
    return fetched.error is None and fetched.body == challenge.encode()


def is_unavailable(fetched: Fetched | None) -> bool:
    """Return whether a callback gave no response or a temporary error, so that a retry makes sense."""
    if fetched is None:
        return True
    if fetched.error is None or fetched.error.word in _NEVER:
        return False
    return fetched.status in (0, 429) or fetched.status >= 500


def is_unanswered(fetched: Fetched) -> bool:
    """Return whether a callback gave no complete response."""
    return fetched.status == 0 or (fetched.error is not None and fetched.error.word == "timeout")


def build_push(subscriber: Subscriber, document: Document, hub: str, timeout: float) -> FetchRequest:
    """Return the push of a feed, with its links, and signed if the subscriber has a secret (§7).

    Args:
        subscriber: the subscriber that gets the push.
        document: the feed.
        hub: the address of our hub.
        timeout: seconds until the callback's response must be complete.
    """
    headers = [
        ("Content-Type", document.content_type),
        ("Link", f'<{hub}>; rel="hub", <{subscriber.topic}>; rel="self"'),
    ]
    if subscriber.secret:
        headers.append(("X-Hub-Signature", sign_body(subscriber.secret, document.body)))
    return FetchRequest(
        subscriber.callback,
        key=subscriber.id,
        headers=tuple(headers),
        form=document.body,
        follow=False,
        within=timeout,
        purpose=Purpose.HUB,
    )


def sign_body(secret: str, body: bytes) -> str:
    """Return the signature header of a pushed body (§7.1)."""
    return "sha256=" + hmac.new(secret.encode(), body, "sha256").hexdigest()


def clamp_lease(requested: int | None, settings: Settings) -> int:
    """Return the lease of a subscription in seconds; ``requested`` is the subscriber's wish, or None."""
    seconds = requested if requested and requested > 0 else settings.hub_lease
    return max(settings.hub_lease_min, min(seconds, settings.hub_lease_max))


def compute_retry_delay(failures: int, settings: Settings, rng: random.Random) -> dt.timedelta:
    """Return the pause after this many failures in a row (1 or more)."""
    pause = min(settings.hub_backoff_min * (1 << min(failures - 1, 24)), settings.hub_backoff_max)
    return dt.timedelta(seconds=pause * rng.uniform(1 - _JITTER, 1 + _JITTER))
