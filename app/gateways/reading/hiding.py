"""Entries that a user hides by hand: the same bits that rules set, with an undo."""

from __future__ import annotations

import datetime as dt
import secrets
from collections.abc import Mapping, Sequence

from app.gateways.reading.read_marks import ReadMarkGateway
from app.mappers.reading.snapshots import HiddenEntries, UndoMapper
from app.mappers.subscriptions.subscriptions import SubscriptionMapper
from app.models.reading.entry import EntryKey
from app.models.reading.history import ActionKind, MassAction
from app.models.reading.rules import RuleMarks


class HidingGateway:
    """Hides entries from a user's lists, and shows them again."""

    def __init__(
        self, subscriptions: SubscriptionMapper, undos: UndoMapper, read_marks: ReadMarkGateway
    ) -> None:
        self._subscriptions, self.undos, self._read_marks = subscriptions, undos, read_marks

    def hide_entries(
        self,
        user_id: int,
        keys: Sequence[EntryKey],
        story_id: int,
        title: str,
        *,
        is_new: bool,
        now: dt.datetime,
        ttl: dt.timedelta,
    ) -> HiddenEntries:
        """Hide entries and mark them as read; return what this changed, with a token for :meth:`restore`.

        The undo is stored first, so that even an interrupted action can be undone.

        Args:
            story_id: of their story; 0: copies that arrive later are shown.
            title: what the undo history calls them.
            is_new: whether the story wasn't hidden before.
            ttl: for how long this can be undone.
        """
        found = self._find_changes(user_id, keys, secrets.token_urlsafe(16), story_id)
        if not (found.hidden or found.unread or is_new):
            return found._replace(token="")
        action = MassAction(f"hidden.{found.token}", ActionKind.HIDDEN, title, 0, now)
        self.undos.add_hidden(user_id, found, now + ttl, action)
        self._write(user_id, found)
        return found

    def hide_late(self, user_id: int, keys: Sequence[EntryKey]) -> Mapping[int, Sequence[int]]:
        """Hide copies of a hidden story that arrived later; return the numbers, by feed, that were unread."""
        found = self._find_changes(user_id, keys, "", 0)
        self._write(user_id, found)
        return found.unread

    def _find_changes(
        self, user_id: int, keys: Sequence[EntryKey], token: str, story_id: int
    ) -> HiddenEntries:
        mine = {
            s.feed_id: s for s in self._subscriptions.find_by_user(user_id, list({k.feed_id for k in keys}))
        }
        hidden: dict[int, list[int]] = {}
        unread: dict[int, list[int]] = {}
        for key in keys:
            if (one := mine.get(key.feed_id)) is None:
                continue
            if not one.hidden.has_seq(key.seq):
                hidden.setdefault(key.feed_id, []).append(key.seq)
            if not one.state.is_read(key.seq):
                unread.setdefault(key.feed_id, []).append(key.seq)
        masses = {feed_id: one.mass for feed_id, one in mine.items()}
        return HiddenEntries(token, story_id, hidden, unread, masses)

    def _write(self, user_id: int, changes: HiddenEntries) -> None:
        for marks in _list_marks(user_id, changes):
            self._subscriptions.add_rule_marks(marks)

    def show_entries(self, user_id: int, keys: Sequence[EntryKey], story_id: int) -> None:
        """Show hidden entries in lists again; they stay read, and undos of hiding no longer concern them.

        Args:
            story_id: of their story; 0: they have none.
        """
        seqs: dict[int, list[int]] = {}
        for key in keys:
            seqs.setdefault(key.feed_id, []).append(key.seq)
        for feed_id, numbers in seqs.items():
            self._subscriptions.remove_rule_marks(RuleMarks(user_id, feed_id, 0, 0, hidden=tuple(numbers)))
        self.undos.forget_hidden(user_id, seqs, story_id)

    def restore(self, user_id: int, changes: HiddenEntries, now: dt.datetime) -> None:
        """Undo :meth:`hide_entries`: show what it hid, and mark as unread what it marked as read.

        What a later mass mark covers stays read until that mark is undone.
        """
        for marks in _list_marks(user_id, changes._replace(unread={})):
            self._subscriptions.remove_rule_marks(marks)
        self._read_marks.take_back(user_id, changes.list_found(), now)


def _list_marks(user_id: int, changes: HiddenEntries) -> list[RuleMarks]:
    """Return what hiding sets, by feed."""
    return [
        RuleMarks(
            *(user_id, feed_id, 0, 0),
            read=tuple(changes.unread.get(feed_id, ())),
            hidden=tuple(changes.hidden.get(feed_id, ())),
        )
        for feed_id in dict.fromkeys((*changes.hidden, *changes.unread))
    ]
