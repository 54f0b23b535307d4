"""WebSub subscriptions at hubs (W3C WebSub), and messages from hubs."""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum

from app.models.feeds.fetched import FetchRequest


class HubState(enum.StrEnum):
    """The state of a subscription at a hub.

    PENDING: wanted, but not confirmed or its lease ran out. ACTIVE: confirmed by the hub. DENIED: the hub
    refused it. LEAVING: the feed has no readers anymore, or it names another hub.
    """

    PENDING = "pending"
    ACTIVE = "active"
    DENIED = "denied"
    LEAVING = "leaving"


class Mode(enum.StrEnum):
    """Values of ``hub.mode`` that Eventr sends or accepts."""

    SUBSCRIBE = "subscribe"
    UNSUBSCRIBE = "unsubscribe"
    DENIED = "denied"


@dataclasses.dataclass(frozen=True, slots=True)
class HubAnnouncement:
    """What a pull found out about a feed and its hub.

    Attributes:
        hub, topic: as the feed announces them now; None if it names no hub.
        new: the number of entries that this pull brought.
    """

    feed_id: int
    hub: str | None
    topic: str | None
    new: int = 0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class HubSubscription:
    """One feed's subscription at one hub.

    Attributes:
        topic: the hub's name for the feed; :attr:`hub` and this are hostile input.
        token: the unguessable end of the callback's address.
        secret: key of the push signatures.
        asked, asked_at: the last request to the hub, which it may confirm for a while.
        verified_at: when the hub last confirmed; ``since``: when it first did.
        tend_at: when to send the next request, None: never automatically.
        failures: requests in a row that the hub didn't accept or didn't confirm.
        reason: error word of the last request, or the hub's reason for a refusal.
        pushes, forged: pushes with a valid and with an invalid signature.
        proofs: pushes in a row that announced entries before a poll found them.
        missed_at: when a poll found entries that no push had announced.
        pull_at: when to fetch the feed for a push; None: no push waits. pulled_at: the last such fetch.
        looks: fetches without news since the last push.
    """

    id: int
    feed_id: int
    hub: str
    topic: str
    token: str
    secret: str
    created: dt.datetime
    state: HubState = HubState.PENDING
    asked: Mode | None = None
    asked_at: dt.datetime | None = None
    verified_at: dt.datetime | None = None
    since: dt.datetime | None = None
    lease_until: dt.datetime | None = None
    tend_at: dt.datetime | None = None
    failures: int = 0
    reason: str = ""
    pushes: int = 0
    forged: int = 0
    last_push_at: dt.datetime | None = None
    proofs: int = 0
    missed_at: dt.datetime | None = None
    pull_at: dt.datetime | None = None
    pulled_at: dt.datetime | None = None
    looks: int = 0


@dataclasses.dataclass(frozen=True, slots=True)
class Intent:
    """A request or message of a hub at the callback (§5.2 and §5.3), still unchecked.

    ``lease`` in seconds is None if it is missing or not a number.
    """

    mode: str
    topic: str
    challenge: str = ""
    lease: int | None = None
    reason: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class HubRequest:
    """A request to be sent to a hub; ``at`` identifies this attempt."""

    id: int
    mode: Mode
    at: dt.datetime
    failures: int
    lease_until: dt.datetime | None
    request: FetchRequest


@dataclasses.dataclass(frozen=True, slots=True)
class PushResult:
    """The outcome of a push: the feed to fetch at once, or None if that fetch is already waiting."""

    feed_id: int | None


class PushPullOutcome(enum.Enum):
    """The outcome of a fetch for a push."""

    DONE = "done"  # it brought entries, or an error, which the schedule handles
    NOTHING_NEW = "nothing new"
    NOT_ASKED = "not asked"  # another worker had the feed, or its host's budget was spent


@dataclasses.dataclass(frozen=True, slots=True)
class PushSource:
    """The push source on the feed page: the host that pushes, and since when."""

    host: str
    since: dt.datetime
