"""The rules of a WebSub subscriber (https://www.w3.org/TR/websub/), pure: the caller brings time and chance.

A push is taken as a knock at the door: its signature is checked, and then the feed itself is pulled. So
no hub can put an entry into a feed, and a topic of a foreign site costs a needless pull at most. That is
why the topic may be whatever the feed calls itself, as the recommendation wants it, on whatever site.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import hashlib
import hmac
import ipaddress
import random
import re
from collections.abc import Iterator, Mapping
from typing import Final
from urllib.parse import urlencode, urljoin, urlsplit

from app.config import Settings
from app.feeds.fetch.address_policy import LOCAL_SUFFIXES
from app.models.feeds.ip_addresses import is_public
from app.models.feeds.websub import HubState, HubSubscription, Intent, Mode, PushPullOutcome

#: Lease asked for; §5.1 recommends ten days.
LEASE: Final = dt.timedelta(days=10)
#: A hub's own lease counts up to this long, and is renewed no more often than that.
LEASE_MOST: Final = dt.timedelta(days=30)
RENEW_LEAST: Final = dt.timedelta(minutes=10)
#: A hub may confirm what it was asked for so long.
CONFIRM_WITHIN: Final = dt.timedelta(days=1)
#: Until a request that was accepted and not confirmed is made again.
CONFIRM_SOON: Final = dt.timedelta(hours=1)
RETRY_FIRST: Final = dt.timedelta(minutes=5)
RETRY_MOST: Final = dt.timedelta(days=7)
#: How often a hub is told that a subscription is over before it is left to run out.
GOODBYES: Final = 3
#: A feed may change its hub so often; every change costs requests to hosts of its choice.
CHANGE_REST: Final = dt.timedelta(days=1)

#: Pushes that must be first to tell of entries before polls are left out.
PROOFS: Final = 3
#: A push that comes so soon after a poll found the entries is late and no miss: hubs fetch the feed too.
LATE: Final = dt.timedelta(minutes=5)
#: Pulls after a push that found nothing, and the first pause between them: caches may serve the old feed.
LOOKS: Final = 3
LOOK_AGAIN: Final = dt.timedelta(seconds=60)
#: Longest pause until a feed that could not be asked is asked again: its host may want a rest.
RETRY_LONG: Final = dt.timedelta(hours=1)

MAX_CHALLENGE: Final = 512
MAX_URL: Final = 2048
MAX_REASON: Final = 200
_LINKS: Final = 50
_JITTER: Final = 0.1

#: §7.1: the methods of ``X-Hub-Signature``.
METHODS: Final = {
    "sha1": hashlib.sha1,
    "sha256": hashlib.sha256,
    "sha384": hashlib.sha384,
    "sha512": hashlib.sha512,
}
_VISIBLE = re.compile(r"[\x21-\x7e]+")
_SIGNATURE = re.compile(r"([a-z0-9]{4,6})=([0-9a-fA-F]{40,128})")
#: One target of a Link header and its parameters up to the next one (RFC 8288 §3).
_LINK = re.compile(r'<([^<>]{0,2048})>((?:\s*;\s*[\w!#$&+.^`|~*-]+(?:\s*=\s*(?:"[^"]*"|[^\s",;<>]*))?)*)')
_REL = re.compile(r';\s*rel\s*=\s*(?:"([^"]*)"|([^\s",;<>]+))', re.IGNORECASE)


def is_enabled(settings: Settings) -> bool:
    """Return whether feeds are subscribed at hubs: asked for, or hubs can surely reach this server."""
    return settings.websub == "on" or (settings.websub == "auto" and is_reachable(settings.base_url))


def is_reachable(base_url: str) -> bool:
    """Return whether an address can be one of the internet: a public IP address or a name of the DNS."""
    try:
        host = (urlsplit(base_url).hostname or "").rstrip(".")
    except ValueError:
        return False
    try:
        return is_public(ipaddress.ip_address(host))
    except ValueError:
        labels = host.split(".")
        return len(labels) > 1 and labels[-1] not in LOCAL_SUFFIXES and labels[-2:] != ["home", "arpa"]


# -- discovery (§4)


def find_announced_hub(
    headers: Mapping[str, str], url: str, *, hub: str | None, self_url: str | None
) -> tuple[str | None, str | None]:
    """Return hub and topic of a feed; headers count before what the feed itself says.

    Args:
        headers: of the answer, names in lower case.
        url: the address that answered; the topic when the feed does not name itself.
        hub, self_url: from the feed's own links.
    """
    found = dict(reversed(list(_links(headers.get("link", ""), url))))
    hub = found.get("hub") or _web(hub)
    return (hub, found.get("self") or _web(self_url) or _web(url)) if hub else (None, None)


def _links(header: str, base: str) -> Iterator[tuple[str, str]]:
    for number, match in enumerate(_LINK.finditer(header)):
        if number == _LINKS:
            return
        rel = _REL.search(match[2])
        target = _web(_joined(base, match[1])) if rel else None
        if rel and target:
            yield from ((name, target) for name in (rel[1] or rel[2] or "").lower().split())


def _joined(base: str, target: str) -> str | None:
    try:
        return urljoin(base, target)
    except ValueError:
        return None


def _web(url: str | None) -> str | None:
    """Return an address that a hub can be asked at or about; the fetcher judges it on its own."""
    if not url or len(url) > MAX_URL or not _VISIBLE.fullmatch(url):
        return None
    return url if url.lower().startswith(("http://", "https://")) else None


# -- asking (§5.1)


def build_form(subscription: HubSubscription, mode: Mode, callback: str) -> bytes:
    """Return the form of a request to a hub.

    The secret goes to http hubs as well, against the recommendation's advice: it guards nothing else,
    and a signature that somebody on the way could make is still one that nobody else can.
    """
    fields = {"hub.mode": mode.value, "hub.topic": subscription.topic, "hub.callback": callback}
    if mode is Mode.SUBSCRIBE:
        fields["hub.lease_seconds"] = str(int(LEASE.total_seconds()))
        fields["hub.secret"] = subscription.secret
    return urlencode(fields).encode()


def choose_next_mode(subscription: HubSubscription, now: dt.datetime) -> Mode | None:
    """Return what a hub is to be asked for; None: nothing any more, the subscription can be forgotten."""
    if subscription.state is not HubState.LEAVING:
        return Mode.SUBSCRIBE
    runs = subscription.lease_until is not None and subscription.lease_until > now
    return Mode.UNSUBSCRIBE if runs and subscription.failures < GOODBYES else None


def is_unanswered(subscription: HubSubscription) -> bool:
    """Return whether the last request was accepted, and not confirmed."""
    asked, verified = subscription.asked_at, subscription.verified_at
    confirmed = asked is None or (verified is not None and verified >= asked)
    return not confirmed and not subscription.reason


def compute_renewal_delay(lease: dt.timedelta, rng: random.Random) -> dt.timedelta:
    """Return the pause until a lease is renewed: two thirds of it, so that there is time to try again."""
    return max(RENEW_LEAST, lease * (2 / 3) * rng.uniform(1 - _JITTER, 1 + _JITTER))


def compute_retry_delay(failures: int, rng: random.Random) -> dt.timedelta:
    """Return the pause after so many failures in a row (1 or more)."""
    pause = min(RETRY_FIRST * (1 << min(failures - 1, 16)), RETRY_MOST)
    return pause * rng.uniform(1 - _JITTER, 1 + _JITTER)


# -- being asked (§5.2, §5.3)


@dataclasses.dataclass(frozen=True, slots=True)
class Confirmation:
    """A request of ours that the hub wants confirmed; ``lease`` only for a subscription."""

    mode: Mode
    lease: dt.timedelta


def confirm(subscription: HubSubscription, intent: Intent, now: dt.datetime) -> Confirmation | None:
    """Return what may be confirmed, None to refuse: only what was asked for, lately, and word for word."""
    asked_at = subscription.asked_at
    fits = (
        intent.mode == subscription.asked
        and intent.topic == subscription.topic
        and 0 < len(intent.challenge) <= MAX_CHALLENGE
        and _VISIBLE.fullmatch(intent.challenge)
        and asked_at is not None
        and now < asked_at + CONFIRM_WITHIN
    )
    if not fits:
        return None
    if intent.mode == Mode.UNSUBSCRIBE:
        return Confirmation(Mode.UNSUBSCRIBE, dt.timedelta(0))
    if intent.lease is None or intent.lease <= 0:
        return None
    return Confirmation(Mode.SUBSCRIBE, min(dt.timedelta(seconds=min(intent.lease, 1 << 31)), LEASE_MOST))


def is_denial(subscription: HubSubscription, intent: Intent) -> bool:
    """Return whether a hub ends a subscription; it may do so at any time (§5.2)."""
    ours = subscription.state is not HubState.LEAVING and intent.topic == subscription.topic
    return ours and intent.mode == Mode.DENIED


# -- pushes (§7)


def is_signed(header: str, secret: str, body: bytes) -> bool:
    """Return whether ``X-Hub-Signature`` fits the body as it was sent; compared in constant time."""
    match = _SIGNATURE.fullmatch(header.strip())
    method = METHODS.get(match[1]) if match else None
    if match is None or method is None:
        return False
    expected = hmac.new(secret.encode(), body, method).hexdigest()
    return hmac.compare_digest(expected, match[2].lower())


def is_proven(subscription: HubSubscription, now: dt.datetime) -> bool:
    """Return whether pushes may stand in for polls."""
    return (
        subscription.state is HubState.ACTIVE
        and subscription.lease_until is not None
        and subscription.lease_until > now
        and subscription.proofs >= PROOFS
        and subscription.missed_at is None
    )


def compute_recheck_delay(
    attempt: int, outcome: PushPullOutcome, interval: dt.timedelta
) -> dt.timedelta | None:
    """Return the pause after a pull for a push, the ``looks``-th since it came; None: it is done.

    What could not be asked is asked later, however often. Where there was nothing new, a cache may stand
    before the feed: it is asked a few times more. An error has a back-off of its own.
    """
    if outcome is PushPullOutcome.NOT_ASKED:
        return min(interval * (1 << min(attempt - 1, 16)), RETRY_LONG)
    if outcome is PushPullOutcome.NOTHING_NEW and attempt < LOOKS:
        return LOOK_AGAIN * (1 << attempt - 1)
    return None
