"""Full entries for sync apps, many at once, with the user's marks, tags, likes and shares."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from app.gateways.reading.entries import EntryGateway
from app.gateways.reading.full_texts import FullTextGateway
from app.gateways.reading.streams import Sources, StreamGateway
from app.gateways.reading.tags import TagGateway
from app.gateways.sharing.visibility import VisibilityGateway
from app.gateways.subscriptions.subscriptions import SubscriptionGateway
from app.mappers.discussion.likes import LikeMapper
from app.mappers.reading.entry_keys import EntryKeyMapper, to_millis
from app.mappers.sharing.shares import ShareMapper
from app.models.reading.entry import EntryKey
from app.models.sharing.sharing import Share, Sharer
from app.models.subscriptions.folder import Folder, build_folder_labels
from app.models.sync.sync import SyncItem

#: Likers of a share that apps get.
LIKERS = 100


class SyncItemGateway:
    """Reads entries by id for a user; entries that the user may not see are left out."""

    def __init__(
        self,
        *,
        entries: EntryGateway,
        streams: StreamGateway,
        subscriptions: SubscriptionGateway,
        tags: TagGateway,
        visibility: VisibilityGateway,
        keys: EntryKeyMapper,
        shares: ShareMapper,
        likes: LikeMapper,
        full_texts: FullTextGateway,
    ) -> None:
        self._entries, self._streams, self._subscriptions = entries, streams, subscriptions
        self._tags, self._sight, self._keys = tags, visibility, keys
        self._shares, self._likes, self._full_texts = shares, likes, full_texts

    def find_keys(self, user_id: int, entry_ids: Sequence[int]) -> list[EntryKey]:
        """Return the keys of entries in the user's feeds, of marked entries, and of visible shares."""
        mine = set(self._subscriptions.find_feed_ids(user_id))
        # Cached keys may be of another user's feeds.
        found = {key.id: key for key in self._entries.find_keys(user_id, entry_ids) if key.feed_id in mine}
        missing = [i for i in entry_ids if i not in found]
        if not missing:
            return list(found.values())
        marks = self._tags.find_marks(user_id, missing)
        feeds = {mark.feed_id for mark in marks.values()}
        kept = self._keys.find_by_ids(list(marks), list(feeds)) if marks else []
        found.update((key.id, key) for key in kept)
        shares = self._shares.find_many([i for i in missing if i not in found])
        seen = self._sight.find_visible_profiles(user_id, list(shares.values()))
        found.update(
            (s.id, EntryKey(s.id, s.feed_id, s.seq, to_millis(s.at))) for s in shares.values() if s.id in seen
        )
        return list(found.values())

    def load_items(
        self, user_id: int, keys: Sequence[EntryKey], folders: Sequence[Folder], *, with_bodies: bool = True
    ) -> list[SyncItem]:
        """Return the items of these keys in their order; omit entries deleted or hidden meanwhile."""
        found = self._entries.join_shares(
            user_id,
            self._entries.find_stored(keys, with_bodies=with_bodies),
            with_bodies=with_bodies,
        )
        feed_ids = list({key.feed_id for key in keys})
        sources = self._streams.load_sources(
            self._subscriptions.find_by_user(user_id, feed_ids), extra_feed_ids=feed_ids
        )
        roots = {i: e.of.entry_id if e.of else i for i, e in found.items()}
        marks = self._tags.find_marks(user_id, list(set(roots.values())))
        tags = self._tags.find_by_marks(user_id, marks)
        mine = self._shares.find_own(user_id, list(set(roots.values()))) if roots else {}
        shares = self._shares.find_many([i for i, e in found.items() if e.of is not None])
        liked = self._liked(user_id, list(found), list(shares))
        names = self._names(user_id, shares)
        # As on the page: only the sharer sees all likers; other users see only their own like.
        own = [share.id for share in shares.values() if share.user_id == user_id]
        likers = {i: [user_id] for i in liked} | (self._likes.find_likers(own, LIKERS) if own else {})
        labels = _labels(sources, folders)
        full = self._full_texts.find_always(user_id, found.values(), sources.subscriptions)
        items = []
        for key in keys:
            entry = found.get(key.id)
            if entry is None:
                continue
            root, share = roots[key.id], shares.get(key.id)
            card = sources.cards.get(key.feed_id)
            items.append(
                SyncItem(
                    entry=entry,
                    read=sources.is_read(entry),
                    starred=root in marks and marks[root].starred,
                    liked=key.id in liked,
                    shared=root in mine,
                    labels=labels.get(key.feed_id, ()),
                    tags=tuple(tag.name for tag in tags.get(root, ())),
                    feed_title=sources.get_title(key.feed_id, entry.url),
                    site_url=card.site_url if card else None,
                    subscribed=key.feed_id in sources.subscriptions,
                    language=sources.get_language(key.feed_id),
                    by=names.get(key.id),
                    via=tuple(names.get(i) for i in reversed(share.path)) if share else (),
                    person=card.owner if card else None,
                    likers=tuple(likers.get(key.id, ())),
                    full=full.get(key.id, ""),
                )
            )
        return items

    def _liked(self, user_id: int, entry_ids: Sequence[int], shares: Sequence[int]) -> set[int]:
        if not entry_ids:
            return set()
        own = self._entries.find_liked(user_id, entry_ids)
        return own | self._likes.find_liked(user_id, shares) if shares else own

    def _names(self, user_id: int, shares: Mapping[int, Share]) -> dict[int, Sharer]:
        """Return the sharers of these shares and of the shares above them, as far as the user may see."""
        if not shares:
            return {}
        passed = self._shares.find_many(list({i for s in shares.values() for i in s.path}))
        return self._sight.find_sharers(user_id, list({**passed, **shares}.values()))


def _labels(sources: Sources, folders: Sequence[Folder]) -> dict[int, tuple[str, ...]]:
    """Return the labels of the folders that each feed is in."""
    names = build_folder_labels(folders)
    return {
        f: tuple(dict.fromkeys(names[i] for i in s.folder_ids if i in names))
        for f, s in sources.subscriptions.items()
    }
