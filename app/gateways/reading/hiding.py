"""Entries that a user hides by hand: the same bits that rules set, with an undo."""

from __future__ import annotations

import datetime as dt
import secrets
from collections.abc import Mapping, Sequence

from app.mappers.reading.snapshots import HiddenEntries, UndoMapper
from app.mappers.subscriptions.subscriptions import SubscriptionMapper
from app.models.reading.entry import EntryKey
from app.models.reading.rules import RuleMarks


class HidingGateway:
    """Hides entries from a user's lists, and shows them again."""

    def __init__(self, subscriptions: SubscriptionMapper, undos: UndoMapper) -> None:
        self._subscriptions, self._undos = subscriptions, undos

    def hide_entries(
        self, user_id: int, keys: Sequence[EntryKey], story_id: int, expires: dt.datetime
    ) -> HiddenEntries:
        """Hide entries and mark them as read; return what this changed, with a token for :meth:`restore`.

        The undo is stored first, so that even an interrupted action can be undone.

        Args:
            story_id: of their story; 0: copies that arrive later are shown.
        """
        found = self._find_changes(user_id, keys, secrets.token_urlsafe(16), story_id)
        if found.hidden:
            self._undos.add_hidden(user_id, found, expires)
            self._write(user_id, found.hidden)
        return found

    def hide_late(self, user_id: int, keys: Sequence[EntryKey]) -> Mapping[int, Sequence[int]]:
        """Hide copies of a hidden story that arrived later; return the numbers, by feed, that were unread."""
        found = self._find_changes(user_id, keys, "", 0)
        self._write(user_id, found.hidden)
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
            is_unread = not one.state.is_read(key.seq)
            if is_unread or not one.hidden.has_seq(key.seq):
                hidden.setdefault(key.feed_id, []).append(key.seq)
            if is_unread:
                unread.setdefault(key.feed_id, []).append(key.seq)
        return HiddenEntries(token, story_id, hidden, unread)

    def _write(self, user_id: int, hidden: Mapping[int, Sequence[int]]) -> None:
        for feed_id, seqs in hidden.items():
            self._subscriptions.add_rule_marks(RuleMarks(user_id, feed_id, 0, 0, hidden=tuple(seqs)))

    def show_entries(self, user_id: int, keys: Sequence[EntryKey]) -> None:
        """Show hidden entries in lists again; they stay read."""
        seqs: dict[int, list[int]] = {}
        for key in keys:
            seqs.setdefault(key.feed_id, []).append(key.seq)
        for feed_id, numbers in seqs.items():
            self._subscriptions.remove_rule_marks(RuleMarks(user_id, feed_id, 0, 0, hidden=tuple(numbers)))

    def restore(self, user_id: int, token: str, now: dt.datetime) -> HiddenEntries | None:
        """Undo :meth:`hide_entries`: show what it hid, and mark as unread what it marked as read.

        Returns:
            What this changed; None: the token has expired, was used, or isn't the user's.
        """
        found = self._undos.find_hidden(user_id, token, now)
        if found is None:
            return None
        for feed_id, seqs in found.hidden.items():
            unread = tuple(found.unread.get(feed_id, ()))
            marks = RuleMarks(user_id, feed_id, 0, 0, read=unread, hidden=tuple(seqs))
            self._subscriptions.remove_rule_marks(marks)
        self._undos.remove(user_id, token)
        return found
