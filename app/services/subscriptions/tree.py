"""The tree of folders and feeds with their unread counts."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from app.gateways.reading.streams import Sources
from app.models.reading.stream import Tree, TreeFeed, TreeFolder
from app.models.subscriptions.folder import Folder, resolve_parents
from app.models.subscriptions.muting import is_in_mixed_lists
from app.models.subscriptions.sort_key import rank
from app.models.subscriptions.subscription import TOP
from app.models.subscriptions.tree_order import TreeOrder
from app.runtime.weighted_cache import WeightedCache


class TreeBuilder:
    """Builds trees, and returns the same tree while nothing in it changes.

    Args:
        feeds_max: Number of feeds in kept trees, of all users together.
    """

    def __init__(self, feeds_max: int) -> None:
        self._kept = WeightedCache[int, _Built](feeds_max)

    def build(
        self,
        user_id: int,
        folders: Sequence[Folder],
        sources: Sources,
        following: int,
        order: TreeOrder = TreeOrder.OWN,
    ) -> Tree:
        """Return a user's tree.

        Args:
            sources: all of the user's subscriptions, from :meth:`StreamGateway.load_all_sources`.
            following: unread rows of shares by followed people.
        """
        before, rest = self._kept.get(user_id), (tuple(folders), following, order)
        if before and before.sources is sources and before.rest == rest:
            return before.tree
        tree = build_tree(folders, sources, sources.unread, following)
        if order is not TreeOrder.OWN:
            tree = sort_tree(tree, order, {f: feed.newest for f, feed in sources.feeds.items()})
        self._kept.add(user_id, _Built(sources, rest, tree), len(sources.cards))
        return tree


class _Built(NamedTuple):
    """A tree, and what it was built from."""

    sources: Sources
    rest: tuple[tuple[Folder, ...], int, TreeOrder]
    tree: Tree


def build_tree(
    folders: Sequence[Folder], sources: Sources, counts: Mapping[int, int], following: int
) -> Tree:
    """Return folders and feeds in their order; folders whose parent is gone move to the top level.

    Args:
        counts: unread entries by feed.
        following: unread rows of shares by followed people.
    """
    feeds = sorted(_feeds(sources, counts), key=lambda f: f.title.casefold())
    above = resolve_parents(folders)
    known = set(above)
    orders = {feed_id: mine.orders for feed_id, mine in sources.subscriptions.items() if mine.orders}
    inside: dict[int, list[TreeFeed]] = {f: [] for f in known}
    loose: list[TreeFeed] = []
    for feed in feeds:
        homes = known.intersection(feed.folder_ids) if feed.folder_ids else ()
        for folder_id in homes:
            inside[folder_id].append(feed)
        if not homes:
            loose.append(feed)
    for folder_id, line in ((TOP, loose), *inside.items()):
        _sort(line, folder_id, orders)
    children: dict[int | None, list[Folder]] = {}
    for folder in folders:
        children.setdefault(above[folder.id], []).append(folder)
    tops = tuple(_folder(f, children, inside)[0] for f in children.get(None, ()))
    # Muted people keep their own count, but no list of several feeds includes them.
    mixed = {feed_id for feed_id, mine in sources.subscriptions.items() if is_in_mixed_lists(mine)}
    unread = sum(f.unread for f in feeds if f.feed_id in mixed)
    has_people = any(f.person for f in feeds)
    return Tree(tops, tuple(loose), unread, following if has_people else None)


def sort_tree(tree: Tree, order: TreeOrder, newest: Mapping[int, int]) -> Tree:
    """Return a tree in another order than the person's own. Equal ones are sorted by name.

    Args:
        newest: sort time of the newest entry by feed.
    """

    def rank_feed(feed: TreeFeed) -> tuple[int, str, int]:
        number = {TreeOrder.UNREAD: feed.unread, TreeOrder.NEWEST: newest.get(feed.feed_id, 0)}.get(order, 0)
        return -number, feed.title.casefold(), feed.feed_id

    def find_newest(folder: TreeFolder) -> int:
        own = (newest.get(feed.feed_id, 0) for feed in folder.feeds)
        return max((*own, *map(find_newest, folder.folders)), default=0)

    def rank_folder(folder: TreeFolder) -> tuple[int, str, int]:
        number = 0
        if order is TreeOrder.UNREAD:
            number = folder.unread
        elif order is TreeOrder.NEWEST:
            number = find_newest(folder)
        return -number, folder.name.casefold(), folder.id

    def sort_folders(folders: Sequence[TreeFolder]) -> tuple[TreeFolder, ...]:
        return tuple(
            dataclasses.replace(
                folder,
                feeds=tuple(sorted(folder.feeds, key=rank_feed)),
                folders=sort_folders(folder.folders),
            )
            for folder in sorted(folders, key=rank_folder)
        )

    return dataclasses.replace(
        tree,
        folders=sort_folders(tree.folders),
        feeds=tuple(sorted(tree.feeds, key=rank_feed)),
        is_ranked=order is not TreeOrder.NAME,
    )


def _sort(line: list[TreeFeed], folder_id: int, orders: Mapping[int, Mapping[int, str]]) -> None:
    """Sort feeds with a manual place first; ``line`` is sorted by name."""
    keys = {f.feed_id: own[folder_id] for f in line if folder_id in (own := orders.get(f.feed_id, {}))}
    if keys:
        line.sort(key=lambda f: rank(keys.get(f.feed_id, ""), f.title, f.feed_id))


def _folder(
    folder: Folder, children: dict[int | None, list[Folder]], inside: dict[int, list[TreeFeed]]
) -> tuple[TreeFolder, dict[int, int]]:
    """Return a folder, and the unread counts of its feeds by id, since a feed may be in two subfolders."""
    below = [_folder(child, children, inside) for child in children.get(folder.id, ())]
    counts = {f.feed_id: f.unread for f in inside[folder.id]}
    for _, more in below:
        counts.update(more)
    feeds = tuple(inside[folder.id])
    made = TreeFolder(
        folder.id, folder.name, folder.parent, sum(counts.values()), feeds, tuple(f for f, _ in below)
    )
    return made, counts


def _feeds(sources: Sources, counts: Mapping[int, int]) -> list[TreeFeed]:
    card_of = sources.cards.get
    return [
        TreeFeed(
            feed_id,
            mine.title or card.title or card.url,
            card.url if mine.person else card.site_url,
            card.picture,
            counts[feed_id],
            card.error,
            mine.folder_ids,
            mine.person,
        )
        for feed_id, mine in sources.subscriptions.items()
        if (card := card_of(feed_id)) is not None
    ]
