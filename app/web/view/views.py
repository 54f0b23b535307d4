"""Values for the templates of lists and trees: headings, iteration, a fingerprint of the tree."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterator, Sequence

from flask_babel import gettext as _

from app.errors import N_
from app.models.reading.stream import StreamKind, StreamRef, Tree, TreeFeed, TreeFolder
from app.models.reading.tag import Tag


@dataclasses.dataclass(frozen=True, slots=True)
class Head:
    """Title and count above a list.

    ``feed`` if the stream is one feed; ``waits`` if the stream gets its entries from feeds;
    ``entries``: how many it holds, None where that isn't counted.
    """

    title: str
    unread: int
    feed: TreeFeed | None = None
    waits: bool = False
    entries: int | None = None


#: Lists of single entries, and their titles.
_OWN = {
    StreamKind.STARRED: N_("Starred"),
    StreamKind.NOTES: N_("Notes"),
    StreamKind.RECENT: N_("Recently read"),
    StreamKind.SHARES: N_("My shares"),
}


def build_head(tree: Tree, ref: StreamRef, tags: Sequence[Tag] = ()) -> Head | None:
    """Return the heading of a stream's list, None if the user doesn't have this stream."""
    if ref.kind is StreamKind.SEARCH:
        return Head(ref.query, 0)
    if ref.kind is StreamKind.TAG:
        return next((Head(tag.name, 0, entries=tag.count) for tag in tags if tag.id == ref.id), None)
    if ref.kind is StreamKind.TODAY:
        return Head(_("Today"), 0, waits=True)
    if ref.kind is StreamKind.ALL:
        return Head(_("All entries"), tree.unread, waits=True)
    if ref.kind in _OWN:
        return Head(_(_OWN[ref.kind]), 0)
    if ref.kind is StreamKind.FOLLOWING:
        return Head(_("Following"), tree.following or 0)
    if ref.kind is StreamKind.FOLDER:
        folder = next((f for f in iter_folders(tree) if f.id == ref.id), None)
        return Head(folder.name, folder.unread, waits=_has_feeds(folder)) if folder else None
    feed = next((f for f in iter_feeds(tree) if f.feed_id == ref.id), None)
    return Head(feed.title, feed.unread, feed, waits=True) if feed else None


def _has_feeds(folder: TreeFolder) -> bool:
    return bool(folder.feeds) or any(map(_has_feeds, folder.folders))


def iter_folders(tree: Tree) -> Iterator[TreeFolder]:
    """Yield all folders, parents before children."""
    waiting = list(tree.folders)
    while waiting:
        folder = waiting.pop(0)
        yield folder
        waiting[:0] = folder.folders


def iter_feeds(tree: Tree) -> Iterator[TreeFeed]:
    """Yield each feed once, however many folders contain it."""
    seen: set[int] = set()
    for group in (*(f.feeds for f in iter_folders(tree)), tree.feeds):
        for feed in group:
            if feed.feed_id not in seen:
                seen.add(feed.feed_id)
                yield feed


def compute_shape(tree: Tree) -> str:
    """Return a hash of all that the tree shows except counts: feeds, names, icons, positions, errors.

    In a ranked tree positions don't matter: otherwise feeds would jump while one reads.
    """
    arrange = sorted if tree.is_ranked else list
    lines = [f"{f.id} {f.parent} {f.name} {' '.join(arrange(_name(f.feeds)))}" for f in iter_folders(tree)]
    whole = [*arrange(lines), *arrange(_name(tree.feeds))]
    return hashlib.sha256("\n".join(whole).encode()).hexdigest()[:12]


def _name(feeds: Sequence[TreeFeed]) -> Iterator[str]:
    return (f"{f.feed_id} {f.title} {bool(f.error):d} {f.icon or ''}" for f in feeds)
