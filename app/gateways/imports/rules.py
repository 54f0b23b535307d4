"""Rules of imports: states of outlines, and the order of waiting imports; pure functions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence

from app.gateways.feeds.digest import PARTIAL
from app.models.imports.imports import ActiveImport, ImportItem, ItemChange, ItemState, PollResult


def settle_item(feed_id: int, poll_result: PollResult | None) -> ItemChange:
    """Return the final state of a subscribed feed's outline; the updater continues to fetch the feed."""
    if poll_result is None:
        return ItemChange(ItemState.FAILED, "gone", feed_id)
    if poll_result.error and poll_result.error not in PARTIAL:
        return ItemChange(ItemState.FAILED, poll_result.error, feed_id, poll_result.detail)
    return ItemChange(ItemState.ADDED, None, feed_id)


def sort_by_turn(active: Sequence[ActiveImport], held: Collection[int]) -> list[ActiveImport]:
    """Return waiting imports, those of users with the fewest first, so that no user blocks others."""
    running = Counter(a.user_id for a in active if a.id in held)
    waiting = [a for a in active if a.id not in held]
    rounds: dict[int, int] = {}
    for one in waiting:
        rounds[one.id] = running[one.user_id]
        running[one.user_id] += 1
    return sorted(waiting, key=lambda one: rounds[one.id])


def tick_item(item: ImportItem, *, ticked: bool) -> ItemChange | None:
    """Return the change that selecting or deselecting an outline makes, or None for no change."""
    if item.state not in (ItemState.WAITING, ItemState.SKIPPED, ItemState.ALREADY):
        return None
    unticked = ItemState.ALREADY if item.feed_id else ItemState.SKIPPED
    state = ItemState.WAITING if ticked else unticked
    return ItemChange(state, None, item.feed_id) if state is not item.state else None


def retry_item(item: ImportItem) -> ItemChange:
    """Return the state of a retried outline: RETRY for a subscribed feed, otherwise WAITING."""
    return ItemChange(ItemState.RETRY if item.feed_id else ItemState.WAITING, None, item.feed_id)
