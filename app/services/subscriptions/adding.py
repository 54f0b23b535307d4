"""Adding the subscription to the feed at an address."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable

from app.errors import ExistsError, NotFoundError
from app.gateways.feeds.feeds import FeedGateway
from app.gateways.subscriptions.subscriptions import SubscriptionGateway
from app.models.feeds.feed import Feed
from app.models.subscriptions.subscription import Subscription

#: Adds before giving up, if the feed is deleted or merged each time.
_TRIES = 3


def add_at_address(
    feeds: FeedGateway,
    subscriptions: SubscriptionGateway,
    url: str,
    make_subscription: Callable[[Feed], Subscription],
    *,
    now: dt.datetime,
    find_feed: Callable[[], Feed] | None = None,
) -> tuple[Feed, Subscription | None]:
    """Subscribe to the feed at an address; return the feed, and the subscription, or None if it existed.

    A feed without readers may be deleted as someone subscribes. Then a new feed takes its address.

    Args:
        find_feed: returns the feed, instead of the one that everyone reads.

    Raises:
        TooLargeError: the user has the maximum number of subscriptions.
        NotFoundError: the feed was deleted at each try.
    """
    for tries in range(1, _TRIES + 1):
        feed = find_feed() if find_feed else feeds.get_or_create(url, now=now)
        try:
            return feed, subscriptions.add(make_subscription(feed), feed, now)
        except ExistsError:
            return feed, None
        except NotFoundError:
            if tries == _TRIES:
                raise
    raise AssertionError  # pragma: no cover
