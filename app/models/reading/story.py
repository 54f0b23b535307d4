"""Stories: copies of one article in several feeds (docs/design/stories.md). Pure."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Sequence
from typing import NamedTuple

from app.models.reading.entry import EntryKey

#: Most copies of a story; the next copy begins a new story.
MEMBERS_MAX = 50
#: Time for which an entry waits for its first copy.
WAIT = dt.timedelta(days=30)
#: Time after the latest copy for which a story is kept. Copies that are gone are left out when it is read.
KEEP = dt.timedelta(days=400)
#: Most time between copies that are found by their texts alone.
NEAR_MS = 72 * 3600 * 1000
#: Most stories that an entry is compared with per address key and band: the newest ones.
CANDIDATES_MAX = 60
#: Time for which a page or a text that a feed repeats is stored once only.
REPEAT_MS = 24 * 3600 * 1000
#: Values of a signature, and how many of them must be equal.
VALUES, SAME = 32, 23
#: Values of the signature of a text's first words, and how many of them an extract of the text has, too.
LEAD_VALUES, LEAD_SAME = 16, 4
#: From this ratio of their lengths on, whole texts are compared.
LIKE_LENGTH = 0.4


class TextPrint(NamedTuple):
    """What is compared of a text of at least :data:`app.feeds.fingerprints.WORDS_MIN` words.

    Attributes:
        signature: MinHash of its sequences of words; lead: of those at its beginning.
        bands: hashes of the parts of ``signature``: near-same texts share at least one.
    """

    words: int
    signature: tuple[int, ...]
    lead: tuple[int, ...]
    bands: tuple[int, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Fingerprint:
    """What tells the copies of an entry.

    Attributes:
        page: the address key of its page (:func:`app.feeds.urls.hash_page`); None: its address names none.
        text: of its text; None: too short.
        language: of its feed; empty: unknown.
    """

    key: EntryKey
    page: int | None
    text: TextPrint | None = None
    language: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class StoredStory:
    """A story as it is stored; one member: an entry that waits for its first copy.

    Attributes:
        id: the id of its first entry, even if that entry is gone.
        text, language: of its first entry.
    """

    id: int
    pages: frozenset[int]
    text: TextPrint | None
    language: str
    members: tuple[EntryKey, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Story:
    """The copies that are still there, by id; at least two, in different feeds."""

    id: int
    members: tuple[EntryKey, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Copy:
    """Another copy of an entry in a reader's feeds."""

    entry_id: int
    feed_id: int
    feed_title: str


@dataclasses.dataclass(frozen=True, slots=True)
class StoryChoice:
    """How a reader wants stories.

    Attributes:
        is_on: whether copies share one row and their marks.
        apart: ids of stories whose copies stay apart.
        hidden: ids of stories that the reader has hidden, with copies that arrive later.
        since: an id; entries up to it were there while the reader wanted copies apart.
    """

    is_on: bool = True
    apart: frozenset[int] = frozenset()
    hidden: frozenset[int] = frozenset()
    since: int = 0


def choose_story(new: Fingerprint, candidates: Sequence[StoredStory]) -> StoredStory | None:
    """Return the story that an entry is a copy of, or None.

    Copies have the same page, unless their texts differ as an article and a post about it do, or near-same
    texts. An address that its feed has used before tells nothing: the feed links all its entries to one page.
    """
    same_page = [
        one
        for one in candidates
        if new.page is not None and new.page in one.pages and not _is_other_text(new.text, one.text)
    ]
    if any(member.feed_id == new.key.feed_id for one in same_page for member in one.members):
        same_page = []
    ids = {one.id for one in same_page}
    near = [one for one in candidates if one.id not in ids and _is_near(new, one)]
    for one in (*same_page[::-1], *near[::-1]):
        has_feed = any(member.feed_id == new.key.feed_id for member in one.members)
        if not has_feed and len(one.members) < MEMBERS_MAX:
            return one
    return None


def drop_repeated(new: Fingerprint, candidates: Sequence[StoredStory]) -> Fingerprint:
    """Return an entry that has no story yet, without the page and the text that its feed had just before.

    Copies of it are found by the earlier entry. A feed may have one page or text in thousands of entries.
    """
    mine = [
        one
        for one in candidates
        if any(m.feed_id == new.key.feed_id and abs(m.at - new.key.at) < REPEAT_MS for m in one.members)
    ]
    page, text = new.page, new.text
    if any(page in one.pages for one in mine):
        page = None
    if any(_is_near(new, one) for one in mine):
        text = None
    return dataclasses.replace(new, page=page, text=text)


def _is_other_text(new: TextPrint | None, old: TextPrint | None) -> bool:
    """Return whether neither of two texts can be an extract of the other."""
    if new is None or old is None:
        return False
    ratio = min(new.words, old.words) / max(new.words, old.words)
    if ratio >= LIKE_LENGTH:
        return _count_equal(new.signature, old.signature) < VALUES * ratio / 2
    return _count_equal(new.lead, old.lead) < LEAD_SAME


def _count_equal(some: Sequence[int], others: Sequence[int]) -> int:
    return sum(a == b for a, b in zip(some, others, strict=True))


def _is_near(new: Fingerprint, one: StoredStory) -> bool:
    if new.text is None or one.text is None or set(one.text.bands).isdisjoint(new.text.bands):
        return False
    if new.language and one.language and new.language != one.language:
        return False
    if all(abs(new.key.at - member.at) > NEAR_MS for member in one.members):
        return False
    return _count_equal(new.text.signature, one.text.signature) >= SAME
