"""A subscription at a hub (W3C WebSub), and what hubs say to us."""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum

from app.models.feeds.fetched import FetchRequest


class HubState(enum.StrEnum):
    """How a subscription at a hub stands.

    PENDING: wanted, not confirmed, or its lease ran out. ACTIVE: confirmed by the hub. DENIED: the hub
    does not want it. LEAVING: nobody reads the feed any more, or it names another hub.
    """

    PENDING = "pending"
    ACTIVE = "active"
    DENIED = "denied"
    LEAVING = "leaving"


class Mode(enum.StrEnum):
    """Values of ``hub.mode`` that Eventr sends or takes."""

    SUBSCRIBE = "subscribe"
    UNSUBSCRIBE = "unsubscribe"
    DENIED = "denied"


@dataclasses.dataclass(frozen=True, slots=True)
class HubAnnouncement:
    """What a pull learnt about a feed and its hub.

    Attributes:
        hub, topic: as the feed announces them now; None: it names no hub.
        new: entries that this pull brought.
    """

    feed_id: int
    hub: str | None
    topic: str | None
    new: int = 0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class HubSubscription:
    """One feed's subscription at one hub.

    Attributes:
        topic: what the hub calls the feed; :attr:`hub` and this are hostile input.
        token: the unguessable end of the callback's address.
        secret: key of the signatures under pushes.
        asked, asked_at: what the hub was last asked for; it may confirm that for a while.
        verified_at: when it last confirmed; ``since``: when it first did.
        tend_at: when to ask it again, None: never by itself.
        failures: requests in a row that it did not accept or not confirm.
        reason: error word of the last request, or what the hub said when it refused.
        pushes, forged: pushes with a good and with a bad signature.
        proofs: pushes in a row that were first to tell of entries.
        missed_at: when a poll found entries that no push had announced.
        pull_at: when the feed is pulled for a push; None: no push waits. pulled_at: when it last was.
        looks: pulls in vain since the last push.
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
    """What a hub says or asks at the callback (§5.2 and §5.3), still unchecked.

    ``lease`` in seconds is None when it was left out or is no number.
    """

    mode: str
    topic: str
    challenge: str = ""
    lease: int | None = None
    reason: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class HubRequest:
    """A request that is to be sent to a hub; ``at`` names this attempt."""

    id: int
    mode: Mode
    at: dt.datetime
    failures: int
    lease_until: dt.datetime | None
    request: FetchRequest


@dataclasses.dataclass(frozen=True, slots=True)
class PushResult:
    """What became of a push: the feed to be pulled at once, or None when its pull waits already."""

    feed_id: int | None


class PushPullOutcome(enum.Enum):
    """What became of a pull for a push."""

    DONE = "done"  # it brought entries, or an error, which the schedule knows how to treat
    NOTHING_NEW = "nothing new"
    NOT_ASKED = "not asked"  # somebody else held the feed, or its host's budget was spent


@dataclasses.dataclass(frozen=True, slots=True)
class PushSource:
    """What the feed page says: pushed by this host since then."""

    host: str
    since: dt.datetime
