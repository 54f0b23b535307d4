"""Trends: currently popular shared entries, as far as the viewer may see them; and similar readers."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

from app.gateways.reading.entries import EntryGateway
from app.gateways.sharing.visibility import VisibilityGateway
from app.mappers.sharing.profiles import ProfileMapper
from app.mappers.sharing.shares import ShareMapper
from app.mappers.sharing.trends import TrendMapper
from app.mappers.subscriptions.subscriptions import SubscriptionMapper
from app.models.reading.entry import EntryKey
from app.models.reading.tokenizer import split_words
from app.models.sharing.sharing import Audience, Profile
from app.models.sharing.trends import FoundPerson, SimilarReader, Trend

#: Sharers shown beside an entry.
FACES = 5
#: Read this many times more entries than are shown, because some are hidden from the viewer.
SPARE = 2


class TrendGateway:
    """Reads trends and compares readers.

    Args:
        rows: entries in a list.
        people: users who are compared.
        limit: the highest number of an entry's shares that is counted.
    """

    def __init__(
        self,
        *,
        trends: TrendMapper,
        shares: ShareMapper,
        entries: EntryGateway,
        visibility: VisibilityGateway,
        profiles: ProfileMapper,
        subscriptions: SubscriptionMapper,
        rows: int,
        people: int,
        limit: int,
    ) -> None:
        self._trends, self._shares, self._entries = trends, shares, entries
        self._sight, self._profiles, self._subscriptions = visibility, profiles, subscriptions
        self._rows, self._people, self._most = rows, people, limit

    def list_top(self, viewer: int | None, now: dt.datetime, rows: int | None = None) -> list[Trend]:
        """Return the most shared entries, each with some of its latest sharers.

        Args:
            viewer: None: a stranger.
            rows: the most entries to return; None: as configured.
        """
        limit = self._rows if rows is None else rows
        origins = self._trends.find_top(limit * SPARE, now) if limit else []
        last, totals = self._shares.find_last([o.entry_id for o in origins], FACES, self._most)
        self._sight.prefetch_people({s.user_id for shares in last.values() for s in shares})
        keys = [EntryKey(o.entry_id, o.feed_id, 0, 0) for o in origins]
        entries = self._entries.find_rows(viewer, keys)
        hidden = self._sight.find_hidden(viewer, [e.id for e in entries.values() if e.of is not None])
        listed = [o for o in origins if o.entry_id in entries and o.entry_id not in hidden]
        names = self._sight.find_sharers(viewer, [s for o in listed for s in last[o.entry_id]])
        found = [
            Trend(entries[o.entry_id], sharers, totals.get(o.entry_id, 0))
            for o in listed
            if (sharers := tuple(names[s.id] for s in last[o.entry_id] if s.id in names))
        ]
        return found[:limit]

    def find_people(self, viewer: int, words: Sequence[str], limit: int) -> list[FoundPerson]:
        """Return people who opted in to be found, whose names have words that begin like these.

        Empty unless the viewer opted in too.
        """
        mine = self._profiles.find(viewer)
        if mine is None or not mine.similar:
            return []
        others = [u for u in self._profiles.find_discoverable(self._people + 1) if u != viewer]
        named = {i: p for i, p in self._profiles.find_many(others).items() if _is_named(p, words)}
        ties = self._sight.find_relationships(viewer, named.values())
        found = [p for i, p in named.items() if p.allows_view(Audience.PUBLIC, ties[i]) and not ties[i].muted]
        first = sorted(found, key=lambda p: p.handle)[:limit]
        return [FoundPerson(p, ties[p.user_id]) for p in first]

    def list_similar_readers(self, viewer: int, feed_ids: Sequence[int], limit: int) -> list[SimilarReader]:
        """Return people who opted in and read the same feeds, most similar first.

        Empty unless the viewer opted in too.
        """
        mine = self._profiles.find(viewer)
        if mine is None or not mine.similar:
            return []
        others = [u for u in self._profiles.find_discoverable(self._people + 1) if u != viewer][
            : self._people
        ]
        common = self._subscriptions.count_common(others, feed_ids)
        profiles = self._profiles.find_many(list(common))
        ties = self._sight.find_relationships(viewer, profiles.values())
        found = [
            SimilarReader(profiles[u], count)
            for u, count in common.items()
            if u in profiles
            and profiles[u].allows_view(Audience.PUBLIC, ties[u])
            and not (ties[u].follows or ties[u].muted)
        ]
        return sorted(found, key=lambda a: (-a.common, a.profile.handle))[:limit]


def _is_named(profile: Profile, words: Sequence[str]) -> bool:
    """Return whether each word begins a word of a person's name or handle."""
    names = split_words(f"{profile.name} {profile.handle}")
    return bool(words) and all(any(name.startswith(word) for name in names) for word in words)
