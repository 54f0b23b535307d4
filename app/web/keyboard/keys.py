"""The keyboard shortcuts: one table for the page's handler, the help, the settings and the tests.

The notation of keys is in :mod:`app.web.keyboard.names`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

from flask_babel import lazy_gettext

from app.errors import InvalidError
from app.models.accounts.preferences import Preferences
from app.web.keyboard import names
from app.web.keyboard.names import format_key, split_strokes


@dataclasses.dataclass(frozen=True, slots=True)
class Key:
    """One row: the action (a name that ``static/js/actions.js`` knows), its keys, its label."""

    action: str
    keys: tuple[str, ...]
    text: Any


def _row(action: str, keys: str, text: Any) -> Key:
    return Key(action, tuple(keys.split()), text)


GROUPS: tuple[tuple[Any, tuple[Key, ...]], ...] = (
    (
        lazy_gettext("Navigation"),
        (
            _row("next", "j", lazy_gettext("Open next entry")),
            _row("previous", "k", lazy_gettext("Open previous entry")),
            _row("down", "n", lazy_gettext("Select next entry")),
            _row("up", "p", lazy_gettext("Select previous entry")),
            _row("next-unread", ".", lazy_gettext("Open next unread entry in any feed")),
            _row("page", "Space", lazy_gettext("Scroll down, then open next unread entry")),
            _row("page-back", "Shift+Space", lazy_gettext("Scroll up")),
            _row("next-feed", "Shift+J", lazy_gettext("Go to next feed with unread entries")),
            _row("previous-feed", "Shift+K", lazy_gettext("Go to previous feed with unread entries")),
            _row("next-folder", "]", lazy_gettext("Go to next folder with unread entries")),
            _row("previous-folder", "[", lazy_gettext("Go to previous folder with unread entries")),
        ),
    ),
    (
        lazy_gettext("Entry"),
        (
            _row("open", "o Enter", lazy_gettext("Open or close entry")),
            _row("close", "Escape", lazy_gettext("Close")),
            _row("original", "v", lazy_gettext("Open original page in a new tab")),
            _row("original-background", "b", lazy_gettext("Open original page in a background tab")),
            _row("full-text", "d", lazy_gettext("Full text, or the text of the feed")),
            _row("read", "m", lazy_gettext("Mark as read or unread")),
            _row("star", "s", lazy_gettext("Star")),
            _row("tag", "t", lazy_gettext("Tag")),
            _row("hide", "h", lazy_gettext("Hide")),
            _row("mail", "e", lazy_gettext("Send by email")),
            _row("copy-link", "y", lazy_gettext("Copy link")),
        ),
    ),
    (
        lazy_gettext("Player"),
        (
            _row("play", "i", lazy_gettext("Play or pause")),
            _row("play-back", "<", lazy_gettext("Back 15 seconds")),
            _row("play-forward", ">", lazy_gettext("Forward 30 seconds")),
        ),
    ),
    (
        lazy_gettext("Sharing"),
        (
            _row("share", "Shift+S", lazy_gettext("Share or unshare")),
            _row("share-note", "Shift+D", lazy_gettext("Share with a note")),
            _row("chain", "Shift+R", lazy_gettext("Show share chain")),
            _row("like", "l", lazy_gettext("Like")),
            _row("comment", "c", lazy_gettext("Write a comment")),
            _row("comments", "Shift+C", lazy_gettext("Show comments")),
        ),
    ),
    (
        lazy_gettext("List"),
        (
            _row("mark-all", "Shift+A", lazy_gettext("Mark all as read")),
            _row("mark-above", "Shift+Y", lazy_gettext("Mark above as read")),
            _row("mark-below", "Shift+B", lazy_gettext("Mark below as read")),
            _row("undo", "z Ctrl+Z", lazy_gettext("Undo")),
            _row("refresh", "r", lazy_gettext("Check for new entries")),
        ),
    ),
    (
        lazy_gettext("Display"),
        (
            _row("view-expanded", "1", lazy_gettext("Expanded view")),
            _row("view-list", "2", lazy_gettext("List")),
            _row("view-panes", "3", lazy_gettext("Three panes")),
            _row("tree", "u", lazy_gettext("Show or hide the feed list")),
            _row("full-screen", "f", lazy_gettext("Show only the entry")),
            _row("theme-next", "Shift+T", lazy_gettext("Next color theme")),
            _row("look-text", "Shift+F", lazy_gettext("Theme, font and text size")),
            _row("text-larger", "=", lazy_gettext("Larger text")),
            _row("text-smaller", "-", lazy_gettext("Smaller text")),
        ),
    ),
    (
        lazy_gettext("Feeds"),
        (
            _row("tree-next", "Shift+N", lazy_gettext("Select next feed or folder")),
            _row("tree-previous", "Shift+P", lazy_gettext("Select previous feed or folder")),
            _row("tree-open", "Shift+O", lazy_gettext("Open selected feed or folder")),
            _row("tree-expand", "Shift+X", lazy_gettext("Expand or collapse folder")),
        ),
    ),
    (
        lazy_gettext("Go to"),
        (
            _row("jump", "g+u Ctrl+K", lazy_gettext("Any feed, folder or page by name")),
            _row("go-home", "g+h", lazy_gettext("Home")),
            _row("go-today", "g+y", lazy_gettext("Today")),
            _row("go-all", "g+a", lazy_gettext("All entries")),
            _row("go-starred", "g+s", lazy_gettext("Starred")),
            _row("go-recent", "g+r", lazy_gettext("Recently read")),
            _row("go-tags", "g+t", lazy_gettext("Tags")),
            _row("go-following", "g+Shift+F", lazy_gettext("Following")),
            _row("go-shares", "g+Shift+S", lazy_gettext("My shares")),
            _row("go-people", "g+f", lazy_gettext("People")),
            _row("go-discover", "g+d g+Shift+T", lazy_gettext("Discover")),
            _row("go-notifications", "g+n", lazy_gettext("Notifications")),
            _row("go-profile", "g+p", lazy_gettext("Sharing settings")),
            _row("go-settings", "g+,", lazy_gettext("Settings")),
            _row("search", "/", lazy_gettext("Search")),
            _row("add", "a", lazy_gettext("Add a feed")),
            _row("help", "?", lazy_gettext("Keyboard shortcuts")),
        ),
    ),
)
ROWS: Mapping[str, Key] = {row.action: row for _title, rows in GROUPS for row in rows}


class KeyMap:
    """The shortcuts in force for one person.

    Args:
        changes: action → its keys separated by spaces, "" for none. All other actions keep the table's keys,
            except for keys that ``changes`` uses.
        single: Whether single-character shortcuts are on.
    """

    def __init__(self, changes: Mapping[str, str], *, single: bool = True) -> None:
        self.single = single
        own = {action: tuple(keys.split()) for action, keys in changes.items() if action in ROWS}
        taken = {key for keys in own.values() for key in keys}
        self._keys = {
            action: own.get(action, tuple(key for key in row.keys if key not in taken))
            for action, row in ROWS.items()
        }

    @classmethod
    def from_preferences(cls, preferences: Preferences) -> KeyMap:
        """Return the shortcuts of a person's settings."""
        return cls(preferences.keys, single=preferences.single_keys)

    def get_chosen(self, action: str) -> tuple[str, ...]:
        """Return the keys set for an action, including keys that are off."""
        return self._keys[action]

    def get_keys(self, action: str) -> tuple[str, ...]:
        """Return the keys of an action that work."""
        return tuple(k for k in self._keys[action] if self.single or not names.is_character(k))

    def is_changed(self, action: str) -> bool:
        """Return whether an action's keys differ from the table."""
        return self._keys[action] != ROWS[action].keys

    def format_aria(self, action: str) -> str:
        """Return the ``aria-keyshortcuts`` value for an action's button."""
        return " ".join(one for key in self.get_keys(action) for one in names.format_aria(key))

    def format_lines(self) -> str:
        """Return the text for the page's handler: one line per action, its name and its keys."""
        return "\n".join(
            f"{action} {' '.join(self.get_keys(action))}" for action in ROWS if self.get_keys(action)
        )

    def list_chords(self) -> dict[str, list[tuple[list[str], Any]]]:
        """Return for each first of two strokes its actions: the second strokes and the label of each."""
        found: dict[str, dict[str, list[str]]] = {}
        for action in ROWS:
            for first, *rest in map(split_strokes, self.get_keys(action)):
                for second in rest:
                    found.setdefault(first, {}).setdefault(action, []).append(second)
        return {
            first: [(seconds, ROWS[action].text) for action, seconds in actions.items()]
            for first, actions in found.items()
        }

    def compute_changes(
        self, action: str, keys: tuple[str, ...], *, override: bool = False
    ) -> dict[str, str]:
        """Return the table of changes after setting the keys of an action.

        Args:
            action: The action to change.
            keys: Its new keys.
            override: Remove the keys from other actions that have them.

        Raises:
            InvalidError: Another action has one of the keys; ``ids`` names that action as ``other``.
        """
        new = {**self._keys, action: keys}
        for other, key, mine in self._clashes(action, keys):
            if not override:
                raise _taken(key, mine, other)
            new[other] = tuple(k for k in new[other] if k != key)
        return {word: " ".join(now) for word, now in new.items() if now != ROWS[word].keys}

    def _clashes(self, action: str, keys: tuple[str, ...]) -> Iterator[tuple[str, str, str]]:
        for other, theirs in self._keys.items():
            for key in theirs if other != action else ():
                for mine in keys:
                    if key == mine or split_strokes(key)[0] == mine or split_strokes(mine)[0] == key:
                        yield other, key, mine


def normalize_changes(key_table: Mapping[str, str]) -> dict[str, str]:
    """Return a complete table of changes as it is stored: keys normalized, only differences from the table.

    Raises:
        InvalidError: An action or key doesn't exist, or keys conflict; the error names the field.
    """
    if unknown := sorted(set(key_table) - set(ROWS)):
        raise InvalidError("Unknown action “%(action)s”.", action=unknown[0], field="keys")
    found = KeyMap({action: " ".join(names.parse_keys(keys)) for action, keys in key_table.items()})
    changes: dict[str, str] = {}
    for action in ROWS:
        changes = found.compute_changes(action, found.get_chosen(action))
    return changes


def _taken(key: str, mine: str, other: str) -> InvalidError:
    ids = {"field": "keys", "other": other}
    action, pressed = str(ROWS[other].text), format_key(mine)
    if key == mine:
        return InvalidError(
            "“%(mine)s” is already the shortcut for “%(action)s”.", mine=pressed, action=action, **ids
        )
    return InvalidError(
        "“%(mine)s” conflicts with “%(key)s”, the shortcut for “%(action)s”.",
        mine=pressed,
        key=format_key(key),
        action=action,
        **ids,
    )
