"""What a mute does to lists: a muted person's feed is in no list that mixes several feeds.

A feed of a site may be muted, too: then it is hidden from the lists of all feeds, but not from its folders.
A muted feed stays in the feed list with its own unread count, and opens on its own as before. Every list,
count and sync stream that mixes feeds asks here. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable

from app.models.subscriptions.subscription import Subscription


def is_in_mixed_lists(subscription: Subscription) -> bool:
    """Return whether lists that mix several feeds show this one."""
    return not subscription.muted


def is_hidden_site(subscription: Subscription) -> bool:
    """Return whether the subscriber hides this feed of a site from the lists of all feeds."""
    return subscription.muted and not subscription.person


def is_followed_person(subscription: Subscription) -> bool:
    """Return whether this is the feed of a person whom the subscriber follows and hasn't muted."""
    return subscription.person and is_in_mixed_lists(subscription)


def exclude_muted(subscriptions: Iterable[Subscription]) -> list[Subscription]:
    """Return the subscriptions that lists of several feeds show, in their order."""
    return [subscription for subscription in subscriptions if is_in_mixed_lists(subscription)]
