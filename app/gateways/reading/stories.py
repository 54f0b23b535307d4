"""Stories: finds the copies of new entries, and the copies of the entries that a reader sees."""

from __future__ import annotations

import bisect
import dataclasses
import datetime as dt
from collections.abc import Collection, Iterable, Sequence

from app.feeds.fingerprints import hash_linked_page, hash_text
from app.mappers.reading.entry_keys import to_millis
from app.mappers.reading.twins import TwinMapper
from app.models.reading.entry import Entry, EntryKey
from app.models.reading.story import (
    CANDIDATES_MAX,
    WAIT,
    Fingerprint,
    StoredStory,
    Story,
    StoryChoice,
    choose_story,
    drop_repeated,
)


class StoryGateway:
    """Records copies for the job that updates the search index, and finds them for readers."""

    def __init__(self, twins: TwinMapper) -> None:
        self._twins = twins

    def make_fingerprint(self, entry: Entry, text: str, language: str) -> Fingerprint | None:
        """Return what tells the copies of an entry; None: nothing does, or it is a person's share.

        Args:
            text: its plain text.
        """
        if entry.of is not None:
            return None
        page, hashed = hash_linked_page(entry.url), hash_text(text)
        if page is None and hashed is None:
            return None
        key = EntryKey(entry.id, entry.feed_id, entry.seq, to_millis(entry.at))
        return Fingerprint(key, page, hashed, language.partition("-")[0].lower())

    def record(self, fingerprints: Sequence[Fingerprint], now: dt.datetime) -> int:
        """Record entries with their copies; return how many are copies of others.

        Entries that are recorded already are left out, so running it again changes nothing.
        """
        oldest = to_millis(now - WAIT)
        recent = {one.key.id: one for one in fingerprints if one.key.at > oldest}
        if not recent:
            return 0
        known = self._twins.find_recorded(list(recent))
        new = sorted((one for i, one in recent.items() if i not in known), key=lambda one: one.key.id)
        if not new:
            return 0
        pages = {one.page for one in new if one.page is not None}
        bands = {band for one in new if one.text for band in one.text.bands}
        stories = Candidates(self._twins.find_candidates(list(pages), list(bands)))
        alone: list[Fingerprint] = []
        joined: list[tuple[int, Fingerprint]] = []
        for one in new:
            found = stories.find(one)
            story = choose_story(one, found)
            if story is None:
                kept = drop_repeated(one, found)
                alone.append(kept)
                stories.add(join_story(None, kept))
            else:
                joined.append((story.id, one))
                stories.add(join_story(story, one))
        self._twins.write(alone, joined, now)
        return len(joined)

    def find_copies(self, entry_ids: Collection[int]) -> dict[int, Story]:
        """Return the stories of entries, by entry; entries without copies are left out."""
        return self._twins.find_stories(list(entry_ids)) if entry_ids else {}

    def find(self, entry_ids: Collection[int], choice: StoryChoice) -> dict[int, Story]:
        """Return the stories of entries as a reader wants them, by entry; others have no copies."""
        found = self.find_copies(entry_ids) if choice.is_on else {}
        return {i: story for i, story in found.items() if story.id not in choice.apart}


class Candidates:
    """Stories by address key and band: of each, the newest :data:`CANDIDATES_MAX`."""

    def __init__(self, stories: Iterable[StoredStory] = ()) -> None:
        self._stories: dict[int, StoredStory] = {}
        self._ids: dict[int, list[int]] = {}
        for one in stories:
            self.add(one)

    def add(self, one: StoredStory) -> None:
        """Add a story, or replace it by its new state."""
        self._stories[one.id] = one
        for value in (*one.pages, *(one.text.bands if one.text else ())):
            ids = self._ids.setdefault(value, [])
            at = bisect.bisect_left(ids, one.id)
            if ids[at : at + 1] != [one.id]:
                ids.insert(at, one.id)
                del ids[:-CANDIDATES_MAX]

    def list_all(self) -> list[StoredStory]:
        """Return all stories, oldest first."""
        return [self._stories[story_id] for story_id in sorted(self._stories)]

    def find(self, new: Fingerprint) -> list[StoredStory]:
        """Return the stories that share the address key or a band with an entry, oldest first."""
        bands = new.text.bands if new.text else ()
        values = bands if new.page is None else (new.page, *bands)
        ids = {story_id for value in values for story_id in self._ids.get(value, ())}
        return [self._stories[story_id] for story_id in sorted(ids)]


def join_story(story: StoredStory | None, new: Fingerprint) -> StoredStory:
    """Return a story with one more entry; None: one that waits for its first copy."""
    pages = frozenset() if new.page is None else frozenset((new.page,))
    if story is None:
        return StoredStory(new.key.id, pages, new.text, new.language, (new.key,))
    return dataclasses.replace(story, pages=story.pages | pages, members=(*story.members, new.key))
