"""Rules of a WebSub subscriber (https://www.w3.org/TR/websub/). Pure: the caller brings time and randomness.

A push is only a notification: its signature is checked, then the feed itself is fetched. So no hub can
insert an entry into a feed, and a wrong topic costs at most a needless fetch. That is why the topic may
be any address that the feed calls itself, on any site, as the recommendation says.
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

#: Requested lease; §5.1 recommends ten days.
LEASE: Final = dt.timedelta(days=10)
#: A hub's own lease counts up to this long, and is renewed at most every RENEW_LEAST.
LEASE_MOST: Final = dt.timedelta(days=30)
RENEW_LEAST: Final = dt.timedelta(minutes=10)
#: A hub may confirm a request for this long.
CONFIRM_WITHIN: Final = dt.timedelta(days=1)
#: Time until a request that was accepted but not confirmed is sent again.
CONFIRM_SOON: Final = dt.timedelta(hours=1)
RETRY_FIRST: Final = dt.timedelta(minutes=5)
RETRY_MOST: Final = dt.timedelta(days=7)
#: How often Eventr asks a hub to unsubscribe before it lets the lease expire.
GOODBYES: Final = 3
#: Minimum time between two hubs of a feed; every change costs requests to hosts of the feed's choice.
CHANGE_REST: Final = dt.timedelta(days=1)

#: Pushes that must announce entries before a poll finds them, until pushes replace polls.
PROOFS: Final = 3
#: A push this soon after a poll found the entries is late but not a miss: hubs fetch the feed too.
LATE: Final = dt.timedelta(minutes=5)
#: Fetches after a push that found nothing new, and the first pause between them: caches may be stale.
LOOKS: Final = 3
LOOK_AGAIN: Final = dt.timedelta(seconds=60)
#: Longest pause until a feed that couldn't be fetched is fetched again: its host may be rate limited.
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
#: One target of a Link header with its parameters, up to the next target (RFC 8288 §3).
_LINK = re.compile(r'<([^<>]{0,2048})>((?:\s*;\s*[\w!#$&+.^`|~*-]+(?:\s*=\s*(?:"[^"]*"|[^\s",;<>]*))?)*)')
_REL = re.compile(r';\s*rel\s*=\s*(?:"([^"]*)"|([^\s",;<>]+))', re.IGNORECASE)


def is_enabled(settings: Settings) -> bool:
    """Return whether feeds are subscribed at hubs: by setting, or because hubs can surely reach us."""
    return settings.websub == "on" or (settings.websub == "auto" and is_reachable(settings.base_url))


def is_reachable(base_url: str) -> bool:
    """Return whether an address may be on the internet: a public IP address or a DNS name."""
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
    """Return the hub and topic of a feed; headers take precedence over the feed's own links.

    Args:
        headers: of the response, names in lower case.
        url: the address that responded; the topic when the feed doesn't name its own address.
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
    """Return the address if it can be that of a hub or topic; the fetcher checks it separately."""
    if not url or len(url) > MAX_URL or not _VISIBLE.fullmatch(url):
        return None
    return url if url.lower().startswith(("http://", "https://")) else None


# -- requests to a hub (§5.1)


def build_form(subscription: HubSubscription, mode: Mode, callback: str) -> bytes:
    """Return the form of a request to a hub.

    The secret goes to http hubs too, against the recommendation's advice. It protects nothing else,
    and even if someone on the network could forge a signature, everyone else still can't.
    """
    fields = {"hub.mode": mode.value, "hub.topic": subscription.topic, "hub.callback": callback}
    if mode is Mode.SUBSCRIBE:
        fields["hub.lease_seconds"] = str(int(LEASE.total_seconds()))
        fields["hub.secret"] = subscription.secret
    return urlencode(fields).encode()


def choose_next_mode(subscription: HubSubscription, now: dt.datetime) -> Mode | None:
    """Return the request that the hub should get next; None when the subscription can be forgotten."""
    if subscription.state is not HubState.LEAVING:
        return Mode.SUBSCRIBE
    runs = subscription.lease_until is not None and subscription.lease_until > now
    return Mode.UNSUBSCRIBE if runs and subscription.failures < GOODBYES else None


def is_unanswered(subscription: HubSubscription) -> bool:
    """Return whether the last request was accepted but not confirmed."""
    asked, verified = subscription.asked_at, subscription.verified_at
    confirmed = asked is None or (verified is not None and verified >= asked)
    return not confirmed and not subscription.reason


def compute_renewal_delay(lease: dt.timedelta, rng: random.Random) -> dt.timedelta:
    """Return the pause until a lease is renewed: two thirds of it, which leaves time for retries."""
    return max(RENEW_LEAST, lease * (2 / 3) * rng.uniform(1 - _JITTER, 1 + _JITTER))


def compute_retry_delay(failures: int, rng: random.Random) -> dt.timedelta:
    """Return the pause after this many failures in a row (1 or more)."""
    pause = min(RETRY_FIRST * (1 << min(failures - 1, 16)), RETRY_MOST)
    return pause * rng.uniform(1 - _JITTER, 1 + _JITTER)


# -- requests from a hub (§5.2, §5.3)


@dataclasses.dataclass(frozen=True, slots=True)
class Confirmation:
    """A request of ours that the hub wants confirmed; ``lease`` is zero for an unsubscription."""

    mode: Mode
    lease: dt.timedelta


def confirm(subscription: HubSubscription, intent: Intent, now: dt.datetime) -> Confirmation | None:
    """Return the confirmation of a recent request of ours that matches exactly; None to refuse."""
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
    """Return whether a hub ends a subscription, which it may do at any time (§5.2)."""
    ours = subscription.state is not HubState.LEAVING and intent.topic == subscription.topic
    return ours and intent.mode == Mode.DENIED


# -- pushes (§7)


def is_signed(header: str, secret: str, body: bytes) -> bool:
    """Return whether ``X-Hub-Signature`` matches the body as sent; compared in constant time."""
    match = _SIGNATURE.fullmatch(header.strip())
    method = METHODS.get(match[1]) if match else None
    if match is None or method is None:
        return False
    expected = hmac.new(secret.encode(), body, method).hexdigest()
    return hmac.compare_digest(expected, match[2].lower())


def is_proven(subscription: HubSubscription, now: dt.datetime) -> bool:
    """Return whether pushes may replace polls."""
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
    """Return the pause after a fetch for a push; None when no further fetch is needed.

    A feed that couldn't be fetched is fetched later, however often that takes. If nothing was new, a cache
    may be stale: the feed is fetched a few more times. An error has a back-off of its own.

    Args:
        attempt: fetches since the push, 1 or more.
        outcome: what the last fetch found.
        interval: the first pause of a feed that couldn't be fetched.
    """
    if outcome is PushPullOutcome.NOT_ASKED:
        return min(interval * (1 << min(attempt - 1, 16)), RETRY_LONG)
    if outcome is PushPullOutcome.NOTHING_NEW and attempt < LOOKS:
        return LOOK_AGAIN * (1 << attempt - 1)
    return None
