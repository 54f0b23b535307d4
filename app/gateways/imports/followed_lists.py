"""OPML lists on the web that users follow: their new feeds become an import."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime as dt
from collections.abc import Callable, Collection, Sequence
from urllib.parse import urlsplit

from app.config import Settings
from app.errors import EventrError, InvalidError, NotFoundError, TooLargeError
from app.feeds.fetch.address_policy import Policy
from app.feeds.opml import opml
from app.feeds.urls import hash_url
from app.gateways.imports.imports import ImportGateway
from app.mappers.feeds.feeds import FeedMapper
from app.mappers.imports.followed_lists import FollowedListMapper
from app.mappers.mongo.cells import Cells
from app.mappers.mongo.store import Session
from app.mappers.subscriptions.subscriptions import SubscriptionMapper
from app.models.feeds.fetched import Validators
from app.models.imports.followed_lists import FollowedList, ListView
from app.models.imports.imports import Import, ItemState
from app.models.imports.opml import Outline, SubscriptionList
from app.models.names import to_one_line

#: Longest name of a folder, and longest address.
NAME_MAX, URL_MAX = 128, 2048
#: Time after which a job that has died is repeated.
CLAIMED = dt.timedelta(hours=1)
#: Times that a check is stored again because another job stored one meanwhile.
_ATTEMPTS = 3


class _ChangedError(EventrError):
    """The list was removed, or another job stored what is in it."""


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
        *,
        cells: Cells,
    ) -> None:
        self.lists, self._cells = lists, cells
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

    def store_failure(
        self, claimed: FollowedList, error: str, now: dt.datetime, wait: dt.timedelta | None = None
    ) -> None:
        """Store that a check failed; ``wait``: what the server asked for."""
        with contextlib.suppress(_ChangedError):
            self._store(claimed, lambda one: one.note_failure(error, now, wait))

    def store_unchanged(self, claimed: FollowedList, now: dt.datetime) -> None:
        """Store that a list is as it was."""
        with contextlib.suppress(_ChangedError):
            self._store(claimed, lambda one: one.note_success(None, now))

    def _store(self, claimed: FollowedList, note: Callable[[FollowedList], FollowedList]) -> None:
        self._cells.run_in_transaction(
            claimed.user_id, lambda session: self._write(claimed, note, session=session)
        )

    def _write(
        self,
        claimed: FollowedList,
        note: Callable[[FollowedList], FollowedList],
        *,
        session: Session,
    ) -> None:
        """Write what a check found into the list as it is now: its user may have answered meanwhile."""
        one = self.lists.find(claimed.user_id, claimed.id, session)
        if one is None:
            raise _ChangedError
        after = note(one)
        if one.next_check_at != claimed.next_check_at:  # the user wants another check
            after = dataclasses.replace(after, next_check_at=one.next_check_at)
        self.lists.save(after, session)

    def store_list(
        self, claimed: FollowedList, body: bytes, known: Validators, now: dt.datetime
    ) -> Import | None:
        """Store a list as it is now, and begin the import of its new feeds, both or neither.

        Returns:
            The import; None: the user has all feeds, or the list was removed meanwhile.

        Raises:
            InvalidError: it isn't a list of feeds.
            TooLargeError: too long, too deep, or too many feeds.
        """
        found = self._imports.read_file(body)
        for _ in range(_ATTEMPTS):
            one = self.lists.find(claimed.user_id, claimed.id)
            if one is None:
                break
            with contextlib.suppress(_ChangedError):
                return self._store_list(claimed, one, found, known, now)
        return None  # removed, or checked by several jobs at once: the last one wins

    def _store_list(
        self,
        claimed: FollowedList,
        one: FollowedList,
        found: SubscriptionList,
        known: Validators,
        now: dt.datetime,
    ) -> Import | None:
        keys = {key for feed in found.feeds if (key := _make_key(feed))}
        gone, new = one.find_gone(keys), one.find_new(keys)
        mine = self._imports.find_subscribed(one.user_id, sorted(gone)) if gone else {}
        name = one.name or to_one_line(found.title, NAME_MAX) or urlsplit(one.url).hostname or one.url
        name = name[:NAME_MAX]

        def note_list(current: FollowedList) -> FollowedList:
            if (current.seen, current.past) != (one.seen, one.past):
                raise _ChangedError
            after = current.note_success(keys, now, mine)
            return dataclasses.replace(after, name=name, etag=known.etag, last_modified=known.last_modified)

        feeds = tuple(feed for feed in found.feeds if _make_key(feed) in new)
        kept = self._add_import(one, SubscriptionList(name, feeds, (), len(feeds)), name, now)
        if kept is None:
            self._store(claimed, note_list)
            return None
        try:
            return self._imports.start(
                one.user_id,
                kept.id,
                keep_folders=False,
                into=name,
                now=now,
                also=lambda session: self._write(claimed, note_list, session=session),
            )
        except _ChangedError:
            self._imports.remove(one.user_id, kept.id)
            raise

    def _add_import(
        self, one: FollowedList, new: SubscriptionList, name: str, now: dt.datetime
    ) -> Import | None:
        """Store the import of new feeds, which isn't begun yet; None: the user has all of them."""
        if not new.feeds:
            return None
        kept = self._imports.add(one.user_id, new, name, now)
        if kept.counts.get(ItemState.WAITING):
            return kept
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
