"""The sections of the page "Today": one per top folder, one for feeds outside folders, one for people."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

from app.models.reading.stream import StreamKind, StreamRef, Tree, TreeFeed, TreeFolder


@dataclasses.dataclass(frozen=True, slots=True)
class Section:
    """A section, with the feeds whose entries it shows.

    ``ref`` is the stream that its heading links to, None for feeds outside folders. ``title`` is the folder's
    name, empty otherwise. ``unread`` counts the stream's unread entries.
    """

    ref: StreamRef | None
    title: str
    unread: int
    feed_ids: frozenset[int]


def list_sections(tree: Tree) -> list[Section]:
    """Return the sections in the order of the tree, people last; each feed is in one section."""
    people = {feed.feed_id for feed in _iter_all(tree) if feed.person}
    taken = set(people)
    found: list[Section] = []
    for folder in tree.folders:
        feeds = frozenset(feed.feed_id for feed in _iter_below(folder)) - taken
        taken |= feeds
        found.append(Section(StreamRef(StreamKind.FOLDER, folder.id), folder.name, folder.unread, feeds))
    loose = [feed for feed in tree.feeds if feed.feed_id not in taken]
    found.append(Section(None, "", _count_unread(loose), frozenset(feed.feed_id for feed in loose)))
    following = StreamRef(StreamKind.FOLLOWING)
    found.append(Section(following, "", tree.following or 0, frozenset(people)))
    return [section for section in found if section.feed_ids]


def _count_unread(feeds: Sequence[TreeFeed]) -> int:
    return sum(feed.unread for feed in feeds)


def _iter_below(folder: TreeFolder) -> Iterator[TreeFeed]:
    yield from folder.feeds
    for child in folder.folders:
        yield from _iter_below(child)


def _iter_all(tree: Tree) -> Iterator[TreeFeed]:
    for folder in tree.folders:
        yield from _iter_below(folder)
    yield from tree.feeds
