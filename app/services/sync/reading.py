"""Reading for native apps, for all sync protocols: streams, items and counts."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Collection, Sequence

from app import clock, logs
from app.errors import NotFoundError, TooLargeError
from app.gateways.accounts.accounts import AccountGateway
from app.gateways.feeds.feeds import FeedGateway
from app.gateways.reading.grouping import GroupingGateway
from app.gateways.reading.streams import StreamGateway
from app.gateways.reading.tags import TagGateway
from app.gateways.subscriptions.folders import FolderGateway
from app.gateways.subscriptions.subscriptions import SubscriptionGateway
from app.gateways.sync.filters import to_micros
from app.gateways.sync.items import SyncItemGateway
from app.gateways.sync.streams import SyncStreamGateway
from app.models.accounts.actor import Actor, Permission
from app.models.reading.entry import EntryKey
from app.models.reading.stream import MAX_ID
from app.models.reading.tag import Tag
from app.models.subscriptions.folder import Folder, build_folder_labels, find_ancestors
from app.models.subscriptions.muting import exclude_muted, is_in_mixed_lists
from app.models.sync.sync import SyncFeed, SyncItem, SyncQuery, UnreadCounts
from app.services.access import require_permission
from app.services.sync.scope import SyncScopeBuilder

log = logs.get(__name__)

#: Keys per page, and items with texts per response.
KEYS_MAX, ITEMS_MAX = 10_000, 1_000
#: Ids that one request may name.
IDS_MAX = 10_000


class SyncService:
    """Reads streams, items and counts for native apps."""

    def __init__(
        self,
        *,
        scopes: SyncScopeBuilder,
        subscriptions: SubscriptionGateway,
        feeds: FeedGateway,
        accounts: AccountGateway,
        folders: FolderGateway,
        tags: TagGateway,
        streams: StreamGateway,
        grouping: GroupingGateway,
        sync: SyncStreamGateway,
        items: SyncItemGateway,
        hold_back: float,
    ) -> None:
        self._shelves = scopes
        self._subscriptions, self._feeds, self._accounts = subscriptions, feeds, accounts
        self._folders, self._tags = folders, tags
        self._streams, self._gathering = streams, grouping
        self._sync, self._items = sync, items
        self._hold_back = dt.timedelta(seconds=hold_back)

    # -- folders, tags, feeds, people and counts
    def list_folders(self, actor: Actor) -> list[Folder]:
        """Return the actor's folders."""
        require_permission(actor, Permission.SUBSCRIPTION_SEE)
        return self._folders.find_by_user(actor.user_id)

    def list_tags(self, actor: Actor) -> list[Tag]:
        """Return the actor's tags."""
        require_permission(actor, Permission.ENTRY_READ)
        return self._tags.find_by_user(actor.user_id)

    def list_feeds(self, actor: Actor) -> list[SyncFeed]:
        """Return the actor's subscriptions sorted by title, including followed people."""
        require_permission(actor, Permission.SUBSCRIPTION_SEE)
        names = build_folder_labels(self._folders.find_by_user(actor.user_id))
        mine = self._subscriptions.find_by_user(actor.user_id)
        sources = self._streams.load_all_sources(actor.user_id, mine)
        counts = sources.unread
        found = [
            SyncFeed(
                mine,
                sources.cards[f],
                sources.get_title(f),
                tuple(dict.fromkeys(names[i] for i in mine.folder_ids if i in names)),
                counts[f],
            )
            for f, mine in sources.subscriptions.items()
            if f in sources.cards
        ]
        return sorted(found, key=lambda feed: (feed.title.casefold(), feed.card.id))

    def find_feed_by_url(self, actor: Actor, url: str) -> int | None:
        """Return the feed at an address if the actor subscribes to it, or else None."""
        require_permission(actor, Permission.SUBSCRIPTION_SEE)
        feed = self._feeds.find_by_url(url)
        mine = self._subscriptions.find_by_user(actor.user_id, [feed.id]) if feed else []
        return mine[0].feed_id if mine else None

    def get_feed_title(self, actor: Actor, feed_id: int) -> str:
        """Return the actor's title of a feed; "" if there is no such feed."""
        require_permission(actor, Permission.SUBSCRIPTION_SEE)
        mine = self._subscriptions.find_by_user(actor.user_id, [feed_id])
        return self._streams.load_sources(mine, extra_feed_ids=[feed_id]).get_title(feed_id)

    def get_feed_language(self, actor: Actor, feed_id: int) -> str | None:
        """Return the language that a feed declares, or None."""
        require_permission(actor, Permission.SUBSCRIPTION_SEE)
        card = self._feeds.find_cards([feed_id]).get(feed_id)
        return card.language if card else None

    def find_handles(self, actor: Actor, user_ids: Collection[int]) -> dict[int, str]:
        """Return the names of people whose streams the actor reads."""
        require_permission(actor, Permission.SUBSCRIPTION_SEE)
        return self._accounts.find_names(list(user_ids)) if user_ids else {}

    def find_user_ids(self, actor: Actor, handles: Sequence[str]) -> dict[str, int]:
        """Return the user ids of people by their names."""
        require_permission(actor, Permission.SUBSCRIPTION_SEE)
        found = {handle: self._accounts.find_by_name(handle) for handle in handles}
        return {handle: user_id for handle, user_id in found.items() if user_id is not None}

    def resolve_address(self, actor: Actor, text: str) -> str:
        """Return the feed address in a text that a person typed.

        Raises:
            InvalidError: there is no address in the text.
        """
        require_permission(actor, Permission.SUBSCRIPTION_SEE)
        return self._feeds.resolve_address(text)

    def get_handle(self, actor: Actor, user_id: int) -> str:
        """Return the name of an account.

        Raises:
            NotFoundError: there is no such account.
        """
        found = self.find_handles(actor, [user_id])
        if user_id not in found:
            raise NotFoundError(user_id=user_id)
        return found[user_id]

    def count_unread(self, actor: Actor) -> UnreadCounts:
        """Return all of the actor's unread counts."""
        feeds: dict[int, tuple[int, int]] = {}
        labels: dict[str, tuple[int, int]] = {}
        people: dict[int, int] = {}
        total = friends = (0, 0)
        folders = self._folders.find_by_user(actor.user_id)
        names, around = build_folder_labels(folders), find_ancestors(folders)
        mine = self.list_feeds(actor)
        # Only what the lists already show: apps send this time back to mark all as read.
        newest = self._sync.find_last_ids([feed.card.id for feed in mine], self._get_settled())
        for feed in mine:
            one = feeds[feed.card.id] = (feed.unread, newest.get(feed.card.id, 0))
            places = {i for own in feed.subscription.folder_ids for i in around.get(own, ())}
            for label in {names[i] for i in places}:
                labels[label] = _added(labels.get(label, (0, 0)), one)
            if feed.card.owner is not None:
                people[feed.card.id] = feed.card.owner
            if is_in_mixed_lists(feed.subscription):
                total = _added(total, one)
                friends = _added(friends, one) if feed.subscription.person else friends
        return UnreadCounts(feeds, labels, total, friends, people)

    # -- streams
    def load_page(self, actor: Actor, query: SyncQuery) -> tuple[list[EntryKey], int | None]:
        """Return the keys of a page, and its last id if there may be a next page.

        Raises:
            NotFoundError: the actor has no such feed or label.
            InvalidError: too many streams at once.
        """
        require_permission(actor, Permission.ENTRY_READ)
        return self._sync.load_page(self._shelves.build_for_query(actor, query), self._settle(query))

    def load_ids(self, actor: Actor, query: SyncQuery) -> tuple[list[int], int | None]:
        """Return the ids of a page, and the last of them if there may be a next page.

        Raises:
            As :meth:`load_page`.
        """
        require_permission(actor, Permission.ENTRY_READ)
        return self._sync.load_ids(self._shelves.build_for_query(actor, query), self._settle(query))

    def load_contents(self, actor: Actor, query: SyncQuery) -> tuple[list[SyncItem], int | None]:
        """Return the items of a page, and its last id if there may be a next page.

        Raises:
            As :meth:`load_page`.
        """
        require_permission(actor, Permission.ENTRY_READ)
        shelf = self._shelves.build_for_query(actor, query)
        keys, end = self._sync.load_page(shelf, self._settle(query))
        return self._items.load_items(actor.user_id, keys, shelf.folders), end

    def count_entries(self, actor: Actor, query: SyncQuery) -> tuple[int, dt.datetime | None]:
        """Return how many entries a stream has, and the sort time of its newest.

        Raises:
            As :meth:`load_page`.
        """
        require_permission(actor, Permission.ENTRY_READ)
        shelf = self._shelves.build_for_query(actor, query)
        return self._sync.count_entries(shelf, query)

    def load_items(
        self, actor: Actor, entry_ids: Sequence[int], *, newest_first: bool = True
    ) -> list[SyncItem]:
        """Return items by id, sorted by arrival; ids that are gone or hidden from the actor are left out.

        Raises:
            TooLargeError: more than :data:`IDS_MAX` ids.
        """
        require_permission(actor, Permission.ENTRY_READ)
        _check_count(entry_ids)
        keys = self._items.find_keys(actor.user_id, list(dict.fromkeys(entry_ids)))
        keys.sort(key=lambda k: k.id, reverse=newest_first)
        return self._items.load_items(actor.user_id, keys, self._folders.find_by_user(actor.user_id))

    def load_arrived(
        self,
        actor: Actor,
        *,
        above: int = 0,
        below: int | None = None,
        limit: int = 50,
        newest_first: bool = False,
        feed_ids: Collection[int] | None = None,
    ) -> list[SyncItem]:
        """Return the next items in the order of their arrival, with ids between two ids.

        Args:
            feed_ids: only these of the actor's feeds; None: all except those of muted people.
        """
        require_permission(actor, Permission.ENTRY_READ)
        wanted = None if feed_ids is None else list(feed_ids)
        mine = self._subscriptions.find_by_user(actor.user_id, wanted)
        shelf = self._shelves.build(actor, mine if wanted is not None else exclude_muted(mine))
        most = min(MAX_ID if below is None else below, self._get_settled())
        keys = self._sync.find_arrived(shelf, above, most, min(limit, ITEMS_MAX), newest_first=newest_first)
        return self._items.load_items(actor.user_id, keys, shelf.folders)

    def _settle(self, query: SyncQuery) -> SyncQuery:
        return dataclasses.replace(query, below=min(query.below, self._get_settled()))

    def _get_settled(self) -> int:
        """Return the id from which on entries are withheld from apps.

        Many processes reserve ids a little before the entries become visible. An app that continues after one
        id, or stops at one that it knows, would never see a smaller one that appears later. So the newest
        entries wait for the next request, and are missing from lists that unread counts include.
        """
        return to_micros(clock.now() - self._hold_back) if self._hold_back else MAX_ID

    def list_unread_ids(self, actor: Actor) -> list[int]:
        """Return the ids of all unread entries, ascending; apps consider every other entry read.

        Muted people are left out, as in the lists of all.
        """
        require_permission(actor, Permission.ENTRY_READ)
        mine = exclude_muted(self._subscriptions.find_by_user(actor.user_id))
        return self._sync.find_unread_ids(self._shelves.build(actor, mine))

    def list_starred_ids(self, actor: Actor) -> list[int]:
        """Return the ids of all starred entries and of their shares in the actor's feeds, ascending."""
        require_permission(actor, Permission.ENTRY_READ)
        return self._sync.find_starred_ids(
            self._shelves.build(actor, self._gathering.find_people(actor.user_id))
        )

    def count_all_entries(self, actor: Actor) -> int:
        """Return how many entries the actor's feeds hold, without those of muted people."""
        require_permission(actor, Permission.ENTRY_READ)
        mine = exclude_muted(self._subscriptions.find_by_user(actor.user_id))
        sources = self._streams.load_sources(mine)
        return sum(feed.total for feed in sources.feeds.values())

    def make_stamp(self, actor: Actor, feed_id: int) -> str | None:
        """Return a stamp that changes whenever a page of the feed does; None: no stamp is possible."""
        require_permission(actor, Permission.ENTRY_READ)
        found = self._subscriptions.find_by_user(actor.user_id, [feed_id])
        card = self._feeds.find_cards([feed_id]).get(feed_id)
        if not found or card is None:
            return None
        if card.owner is not None:
            return None  # pages of shares also contain other people's reactions
        if self._sync.has_arrivals(feed_id, self._get_settled()):
            return None  # a page lacks an entry that the same page has soon
        mine = found[0]
        # A new subscription to the same feed starts with a new read state, at revision 0.
        numbers = (mine.id, mine.rev, mine.full_text, card.find_first_seq(mine.keep_newest), card.last_seq)
        folders = self._folders.find_by_user(actor.user_id) if mine.folder_ids else []
        labels = build_folder_labels(folders)
        names = sorted((i, label) for i, label in labels.items() if i in mine.folder_ids)
        names += sorted((tag.id, tag.name) for tag in self._tags.find_by_user(actor.user_id))
        parts = (numbers, mine.title, card.title, card.site_url, names)
        return f"{parts}.{self._sync.make_stamp(actor.user_id, feed_id, full_texts=mine.full_text)}"


def _added(one: tuple[int, int], two: tuple[int, int]) -> tuple[int, int]:
    return one[0] + two[0], max(one[1], two[1])


def _check_count(entry_ids: Sequence[int]) -> None:
    if len(entry_ids) > IDS_MAX:
        raise TooLargeError("At most %(limit)s entries are allowed at once.", limit=IDS_MAX)
