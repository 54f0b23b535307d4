"""Which feeds someone reads as cards, whose lists show a small picture of each entry."""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Mapping, Sequence
from typing import Final, NamedTuple

from app.mappers.feeds.feeds import FeedMapper
from app.mappers.media.card_readers import CardReaderMapper
from app.mappers.subscriptions.subscriptions import SubscriptionMapper

#: Readers that are looked at together. A popular feed has very many, and one that reads cards is enough.
TOGETHER: Final = 1000


class FeedPicture(NamedTuple):
    """A picture of an entry for lists: the feed and its address, the entry, the picture, the entry's page."""

    feed_id: int
    feed: str
    entry: int
    url: str
    page: str | None


class CardReaderGateway:
    """Finds readers of cards, and the newest pictures of feeds for them."""

    def __init__(
        self, readers: CardReaderMapper, subscriptions: SubscriptionMapper, feeds: FeedMapper
    ) -> None:
        self._readers, self._subscriptions, self._feeds = readers, subscriptions, feeds

    def find_readers(self, feed_ids: Collection[int], since: dt.datetime) -> dict[int, int]:
        """Return by feed one user who reads it as cards and was there since then.

        Lists of many feeds, such as folders, count for all feeds of their reader.
        """
        found: dict[int, int] = {}

        def find_some(readers: Sequence[tuple[int, int]]) -> bool:
            users = {user for feed, user in readers if feed not in found}
            active = self._readers.filter_active(users, since) if users else set()
            streams = self._readers.find_card_streams(active) if active else {}
            for feed, user in readers:
                if any(_contains(stream, feed) for stream in streams.get(user, ())):
                    found.setdefault(feed, user)
            return len(found) < len(set(feed_ids))

        self._subscriptions.find_readers_in_parts(feed_ids, TOGETHER, find_some)
        return found

    def find_newest(self, counts: Mapping[int, int]) -> list[FeedPicture]:
        """Return the pictures of the newest entries of feeds; ``counts``: how many of each."""
        cards = self._feeds.find_cards(list(counts)) if counts else {}
        return [
            FeedPicture(feed_id, card.url, *found)
            for feed_id, card in cards.items()
            for found in self._readers.find_newest(feed_id, counts[feed_id])
        ]


def _contains(stream: str, feed_id: int) -> bool:
    """Return whether a list may show entries of a feed."""
    kind, _, number = stream.partition("/")
    return number == str(feed_id) if kind == "feed" else kind in ("", "all", "folder")
