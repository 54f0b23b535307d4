"""Re-share chains: trees and paths of the re-shares of an entry, as far as the viewer may see them."""

from __future__ import annotations

import re
from collections.abc import Sequence

from app.errors import InvalidError
from app.gateways.sharing.profiles import ProfileGateway
from app.gateways.sharing.visibility import VisibilityGateway
from app.mappers.feeds.entries import EntryMapper
from app.mappers.sharing.shares import ShareMapper, pack_path
from app.models.feeds import chain
from app.models.feeds.chain import Chain, Hop
from app.models.sharing.sharing import ChainNode, ChainPage, Origin, Share, Sharer, ShareVisibility

_CURSOR = re.compile(r"(?:[0-9a-f]{14})+", re.ASCII)
#: Most shares read to find the first visible one.
FIRSTS = 20
#: Most reads for one page, when much of a chain is hidden from the viewer.
LOOKS = 10


class ChainGateway:
    """Pages through trees of shares.

    Args:
        rows: shares per page.
        limit: the highest number of shares that is counted.
    """

    def __init__(
        self,
        shares: ShareMapper,
        visibility: VisibilityGateway,
        profiles: ProfileGateway,
        entries: EntryMapper,
        *,
        rows: int,
        limit: int,
    ) -> None:
        self._shares, self._sight, self._profiles, self._entries = shares, visibility, profiles, entries
        self._rows, self._most = rows, limit

    def list_chain(self, viewer: int | None, origin: Origin, cursor: str | None) -> ChainPage:
        """Return a page of the visible shares after ``cursor``, each below the share that it came from.

        Hidden shares are left out, unless a visible share came from them: then they appear without a name.

        Raises:
            InvalidError: the cursor is invalid.
        """
        after, sight = _after(cursor), self._sight.build_filter(viewer)
        rows: list[tuple[Share, Sharer]] = []
        ended = False
        for _ in range(LOOKS):
            found = self._shares.list_chain(origin.entry_id, sight, after, self._rows + 1 - len(rows))
            if not found:
                ended = True
                break
            names = self._sight.find_sharers(viewer, [share for share, _ in found])
            rows += [(share, names[share.id]) for share, _ in found if share.id in names]
            after = found[-1][1]
            if len(rows) > self._rows:
                break
        rows, more = rows[: self._rows], not ended
        last = pack_path((*rows[-1][0].path, rows[-1][0].id)) if rows else after
        total = self._shares.count(origin.entry_id, sight, self._most + 1)
        nodes = self._nodes(viewer, rows)
        return ChainPage(
            origin,
            nodes,
            last if more else None,
            min(total, self._most),
            total > self._most,
            self._entries.find_remote_chain(origin),
        )

    def _nodes(self, viewer: int | None, rows: list[tuple[Share, Sharer]]) -> tuple[ChainNode, ...]:
        on_page = {share.id for share, _ in rows}
        above = {i for share, _ in rows for i in share.path} - on_page
        passed = self._shares.find_many(list(above))
        names = self._sight.find_sharers(viewer, list(passed.values()))
        nodes: list[ChainNode] = []
        here: tuple[int, ...] = ()
        for share, by in rows:
            path = (*share.path, share.id)
            same = next(
                (n for n, (one, two) in enumerate(zip(here, path, strict=False)) if one != two),
                min(len(here), len(path)),
            )
            for depth, node in enumerate(path[same:-1], same):
                nodes.append(_passed(node, depth, passed.get(node), names.get(node)))
            nodes.append(ChainNode(share.id, len(share.path), ShareVisibility.SEEN, by))
            here = path
        return tuple(nodes)

    def find_first(self, viewer: int | None, origin: Origin) -> tuple[Sharer | None, int]:
        """Return the sharer of a root's first visible share, and the capped number of visible shares."""
        sight = self._sight.build_filter(viewer)
        found = [share for share, _ in self._shares.list_chain(origin.entry_id, sight, "", FIRSTS)]
        total = len(found)
        if total == FIRSTS:
            total = self._shares.count(origin.entry_id, sight, self._most)
        names = self._sight.find_sharers(viewer, found)
        return next((names[s.id] for s in found if s.id in names), None), min(total, self._most)

    def list_chain_sharers(self, viewer: int | None, share: Share) -> list[Sharer | None]:
        """Return the sharers in a share's chain, latest first; None for hidden and removed shares."""
        if not share.path:
            return []
        known = self._shares.find_many(share.path)
        names = self._sight.find_sharers(viewer, list(known.values()))
        return [names.get(i) for i in reversed(share.path)]

    def filter_visible(self, viewer: int | None, share_ids: Sequence[int]) -> set[int]:
        """Return which of these shares a viewer may see."""
        return (
            set(self._sight.find_visible_profiles(viewer, list(self._shares.find_many(share_ids).values())))
            if share_ids
            else set()
        )

    def build_chain(self, viewer: int | None, share: Share) -> Chain:
        """Return the whole chain of a share for a feed, including hops on other servers."""
        known = {**self._shares.find_many(share.path), share.id: share}
        names = self._sight.find_sharers(viewer, list(known.values()))
        here = tuple(self._hop(i, known.get(i), names.get(i)) for i in (*share.path, share.id))
        root = self._entries.find(share.of.entry_id, [share.of.feed_id])
        if root is None:
            return Chain(here)
        if root.remote is not None:
            return root.remote._replace(hops=(*root.remote.hops, *here))
        if root.of is None:
            return Chain(here, root.url or "", root.title)
        by = names.get(root.id)  # of a post, which is its own root
        return Chain(here, self._page(by.handle, root.id), root.title) if by else Chain(here)

    def _hop(self, share_id: int, share: Share | None, by: Sharer | None) -> Hop:
        if by is None or not by.handle:
            return Hop(state=_passed(share_id, 0, share, None).link.value)
        origin = self._profiles.origin
        return Hop(chain.make_share_id(origin, share_id), by.name, self._page(by.handle, share_id), by.at)

    def _page(self, handle: str, share_id: int) -> str:
        return f"{self._profiles.build_page_url(handle)}/{share_id}"


def _passed(share_id: int, depth: int, share: Share | None, by: Sharer | None) -> ChainNode:
    if by is not None:
        return ChainNode(share_id, depth, ShareVisibility.SEEN, by)
    live = share is not None and share.live
    return ChainNode(0, depth, ShareVisibility.PRIVATE if live else ShareVisibility.REMOVED)


def _after(cursor: str | None) -> str:
    if cursor is None:
        return ""
    if not _CURSOR.fullmatch(cursor):
        raise InvalidError("Can't load more of this list. Reload it.", field="cursor")
    return cursor
