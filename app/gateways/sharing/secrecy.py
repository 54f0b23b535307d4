"""Shares of secret feeds: they close, and open again when the feed isn't secret anymore (W22).

A feed is secret for everyone if its address is a secret or its publisher wants it in no directory. It is
secret for one subscriber who keeps it private; then their shares are closed, with all re-shares of them.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import html
import re
from collections.abc import Iterator, Sequence

from app.errors import NotFoundError
from app.feeds.urls import has_access_key
from app.gateways.feeds.feeds import FeedGateway
from app.gateways.sharing.profiles import ProfileGateway
from app.gateways.sharing.shares import SharingGateway
from app.mappers.sharing.secrecy_marks import SecrecyMarkMapper
from app.mappers.sharing.shares import ShareMapper
from app.mappers.subscriptions.subscriptions import SubscriptionMapper
from app.models.reading.entry import Entry
from app.models.sharing.sharing import Audience, Share

#: Most re-shares of one share that close with it.
RESHARES = 10_000
#: Age of a mark that is left over. No pull takes longer than that.
LEFT_OVER = dt.timedelta(minutes=2)
#: A link in sanitized HTML.
_HREF = re.compile(r'\shref="([^"]+)"')


class SecrecyGateway:
    """Decides which feeds are secret, for all users or for one, and closes and opens shares accordingly."""

    def __init__(
        self,
        *,
        feeds: FeedGateway,
        subscriptions: SubscriptionMapper,
        shares: ShareMapper,
        sharing: SharingGateway,
        profiles: ProfileGateway,
        marks: SecrecyMarkMapper,
    ) -> None:
        self._feeds, self._subscriptions, self._marks = feeds, subscriptions, marks
        self._shares, self._sharing, self._profiles = shares, sharing, profiles

    def is_secret(self, user_id: int, feed_id: int) -> bool:
        """Return whether a user may not share a feed's entries.

        A share of a saved page has a root of its own, so only the user's own choice counts there.

        Raises:
            NotFoundError: there is no such feed.
        """
        mine = self._subscriptions.find(user_id, feed_id)
        is_private = mine is not None and mine.private
        return is_private or (self._feeds.is_secret(feed_id) and not self._find_saved([feed_id]))

    def find_unshareable(self, user_id: int, feed_ids: Sequence[int]) -> set[int]:
        """Return the feeds among these whose entries a user may not share: see :meth:`is_secret`."""
        private = {one.feed_id for one in self._subscriptions.find_by_user(user_id, feed_ids) if one.private}
        return private | (self.find_secret(user_id, feed_ids) - self._find_saved(feed_ids))

    def _find_saved(self, feed_ids: Sequence[int]) -> set[int]:
        return {feed_id for feed_id, card in self._feeds.find_cards(feed_ids).items() if card.saved}

    def find_secret(self, user_id: int, feed_ids: Sequence[int]) -> set[int]:
        """Return the feeds among these that a feed at a secret address leaves out."""
        mine = self._subscriptions.find_by_user(user_id, feed_ids)
        return {one.feed_id for one in mine if one.private} | self._feeds.find_secret(feed_ids)

    def is_own_copy(self, feed_id: int) -> bool:
        """Return whether a feed is one reader's own copy, with their login or other options."""
        card = self._feeds.find_cards([feed_id]).get(feed_id)
        return card is not None and card.private_to is not None

    def has_access_key(self, entry: Entry) -> bool:
        """Return whether an entry's link, a file of it or a link in its text contains an access key."""
        links = [entry.url, entry.image, *(file.url for file in entry.enclosures)]
        links += map(html.unescape, _HREF.findall(entry.content or entry.summary))
        return any(has_access_key(link) for link in links if link)

    def set_private(self, user_id: int, feed_id: int, private: bool) -> None:
        """Keep a feed private, or not anymore; :meth:`apply` then closes or opens the shares.

        Raises:
            NotFoundError: the user isn't subscribed to this feed.
        """
        if not self._subscriptions.set_private(user_id, feed_id, private):
            raise NotFoundError(feed_id=feed_id)

    def mark_feed(self, feed_id: int, now: dt.datetime, user_id: int | None = None) -> bool:
        """Remember that a feed's shares are to be checked, until :meth:`remove_mark`.

        Args:
            user_id: the subscriber who is about to decide about the feed.

        Returns:
            Whether the mark is new. Only a job removes an earlier one, which stands for other shares, too.

        Raises:
            NotFoundError: the user isn't subscribed to this feed.
        """
        if user_id is not None and self._subscriptions.find(user_id, feed_id) is None:
            raise NotFoundError(feed_id=feed_id)
        return self._marks.add(feed_id, now)

    def find_left_over(self, now: dt.datetime, limit: int) -> list[tuple[int, dt.datetime]]:
        """Return feeds with marks that are left over, and the times of these marks."""
        return self._marks.find_until(now - LEFT_OVER, limit)

    def remove_mark(self, feed_id: int, marked_at: dt.datetime) -> None:
        """Forget a mark, after all shares of the feed were checked; a later mark stays."""
        self._marks.remove([feed_id], marked_at)

    def apply(
        self, feed_id: int, now: dt.datetime, user_id: int | None = None
    ) -> Iterator[tuple[Share, Share]]:
        """Close or open shares of a feed's entries; safe to run again. Nothing of a share is lost.

        Args:
            user_id: only this user's shares, with the re-shares of them; None: all.

        Yields:
            Each share before and after the change.
        """
        is_secret = self._feeds.is_secret(feed_id)
        # A source comes before its re-shares: it limits how far they open.
        for share_id in self._find_share_ids(feed_id, user_id):
            share = self._shares.find(share_id)
            if share is None or not share.live or (share.audience is Audience.PRIVATE and not share.closed):
                continue
            closes = is_secret or self._is_kept_private(share)
            profile = self._profiles.find(share.user_id)
            if closes == bool(share.closed) or profile is None:
                continue
            if not closes and not self._sharing.can_open(share):
                continue
            with contextlib.suppress(NotFoundError):  # it was just unshared, or its entry is gone
                yield self._sharing.update_share(profile, share_id, now, audience=share.closed, closes=closes)

    def _find_share_ids(self, feed_id: int, user_id: int | None) -> list[int]:
        found = set(self._shares.find_ids_by_feed(feed_id, user_id))
        if user_id is not None:
            for share in self._shares.find_many(list(found)).values():
                found.update(s.id for s in self._shares.find_descendants(share, RESHARES))
        return sorted(found)

    def _is_kept_private(self, share: Share) -> bool:
        """Return whether a person in the share's chain keeps the feed private."""
        chain = self._shares.find_many(share.path).values()
        return bool(
            self._subscriptions.filter_private(share.of.feed_id, {share.user_id, *(s.user_id for s in chain)})
        )
