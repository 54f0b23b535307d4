"""OPML lists on the web that users follow: their new feeds become an import."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Collection, Sequence
from urllib.parse import urlsplit

from app.config import Settings
from app.errors import InvalidError, NotFoundError, TooLargeError
from app.feeds.fetch.address_policy import Policy
from app.feeds.opml import opml
from app.feeds.urls import hash_url
from app.gateways.imports.imports import ImportGateway
from app.mappers.feeds.feeds import FeedMapper
from app.mappers.imports.followed_lists import FollowedListMapper
from app.mappers.subscriptions.subscriptions import SubscriptionMapper
from app.models.imports.followed_lists import FollowedList, ListView
from app.models.imports.imports import Import
from app.models.imports.opml import Outline, SubscriptionList
from app.models.names import to_one_line

#: Longest name of a folder, and longest address.
NAME_MAX, URL_MAX = 128, 2048
#: Time after which a job that has died is repeated.
CLAIMED = dt.timedelta(hours=1)


class FollowedListGateway:
    """Stores lists and compares them with what was in them before.

    Args:
        limit: lists per user.
    """

    def __init__(
        self,
        lists: FollowedListMapper,
        imports: ImportGateway,
        subscriptions: SubscriptionMapper,
        feeds: FeedMapper,
        settings: Settings,
    ) -> None:
        self.lists = lists
        self._imports, self._subscriptions, self._feeds = imports, subscriptions, feeds
        self._policy, self._limit = Policy(settings), settings.followed_lists_max

    def add(self, user_id: int, address: str, name: str, now: dt.datetime) -> FollowedList:
        """Follow a list; it is due at once.

        Raises:
            InvalidError: this isn't the address of a document on the web.
            ExistsError: the user follows this address already.
            TooLargeError: the user follows the maximum number of lists.
        """
        url, fault = opml.resolve_address(address.strip(), self._policy)
        if fault or len(url) > URL_MAX:
            raise InvalidError(
                "Enter the web address of an OPML file, such as https://example.org/feeds.opml.", field="url"
            )
        if len(self.lists.find_by_user(user_id)) >= self._limit:
            raise TooLargeError("You can follow at most %(limit)s lists.", limit=self._limit)
        new = FollowedList(id=0, user_id=user_id, url=url, name=name[:NAME_MAX], next_check_at=now)
        return self.lists.add(new)

    def get(self, user_id: int, list_id: int) -> FollowedList:
        """Return a list.

        Raises:
            NotFoundError: the user has no such list.
        """
        found = self.lists.find(user_id, list_id)
        if found is None:
            raise NotFoundError("You don't follow this list.", list_id=list_id)
        return found

    def claim(self, user_id: int, list_id: int, now: dt.datetime) -> FollowedList | None:
        """Return a list that is due; None: it isn't, or another job has it."""
        return self.lists.claim(user_id, list_id, now, now + CLAIMED)

    def build_view(self, one: FollowedList) -> ListView:
        """Return a list with the removed feeds that its user still has."""
        mine = self._imports.find_subscribed(one.user_id, sorted(one.gone)) if one.gone else {}
        if not mine:
            return ListView(one)
        ids = list(dict.fromkeys(mine.values()))
        cards = self._feeds.find_cards(ids)
        own = {s.feed_id: s.title for s in self._subscriptions.find_by_user(one.user_id, ids)}
        titled = (
            (i, own.get(i) or card.title or card.url) for i in ids if (card := cards.get(i)) is not None
        )
        return ListView(one, tuple(titled))

    def read_body(
        self, one: FollowedList, body: bytes, now: dt.datetime
    ) -> tuple[FollowedList, SubscriptionList | None]:
        """Read a list; return it as it is to be stored, and its new feeds, None: there are none.

        Raises:
            InvalidError: it isn't a list of feeds.
            TooLargeError: too long, too deep, or too many feeds.
        """
        found = self._imports.read_file(body)
        keys = {key: feed for feed in reversed(found.feeds) if (key := _make_key(feed))}
        new = one.find_new(keys)
        name = one.name or to_one_line(found.title, NAME_MAX) or urlsplit(one.url).hostname or one.url
        after = dataclasses.replace(one.note_success(keys, now), name=name[:NAME_MAX])
        feeds = tuple(feed for feed in found.feeds if _make_key(feed) in new)
        return after, SubscriptionList(name, feeds, (), len(feeds)) if feeds else None

    def start_import(self, one: FollowedList, new: SubscriptionList, now: dt.datetime) -> Import | None:
        """Begin the import of new feeds into the list's folder; None: the user has all of them."""
        kept = self._imports.add(one.user_id, new, one.name, now)
        try:
            return self._imports.start(one.user_id, kept.id, keep_folders=False, into=one.name, now=now)
        except InvalidError:  # nothing of it is new or valid
            self._imports.remove(one.user_id, kept.id)
            return None

    def forget_gone(self, one: FollowedList) -> None:
        """Ask no longer about the feeds that aren't in a list anymore."""
        self.lists.remove_gone(one.user_id, one.id, sorted(one.gone))


def _make_key(feed: Outline) -> str:
    return hash_url(feed.url) if feed.url and len(feed.url) <= URL_MAX else ""


def list_feed_ids(view: ListView) -> Collection[int]:
    """Return the ids of the removed feeds."""
    titled: Sequence[tuple[int, str]] = view.gone
    return [feed_id for feed_id, _ in titled]
