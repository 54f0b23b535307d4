"""The keys of the reader: one table for the page's handler, the help dialog and the tests."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True, slots=True)
class Key:
    """One row: what it does (a word of ``static/js/reader.js``), its keys, and the words for people.

    ``keys`` are values of ``KeyboardEvent.key``; a capital letter or ``Shift+`` means with Shift; two keys
    with a blank between are pressed one after the other.
    """

    action: str
    keys: tuple[str, ...]
    text: str


GROUPS: tuple[tuple[str, tuple[Key, ...]], ...] = (
    (
        "Move",
        (
            Key("next", ("j",), "Next entry, opened"),
            Key("previous", ("k",), "Previous entry, opened"),
            Key("down", ("n",), "Next entry, not opened"),
            Key("up", ("p",), "Previous entry, not opened"),
            Key("next-unread", (".",), "Next unread entry anywhere"),
            Key("page", ("Space",), "A screen further, then the next unread"),
            Key("page-back", ("Shift+Space",), "A screen back"),
            Key("next-feed", ("Shift+J",), "Next feed with unread entries"),
            Key("previous-feed", ("Shift+K",), "Previous feed with unread entries"),
        ),
    ),
    (
        "Entry",
        (
            Key("open", ("o", "Enter"), "Open or close"),
            Key("close", ("Escape",), "Close"),
            Key("original", ("v",), "Original page in a new tab"),
            Key("read", ("m",), "Keep unread, or mark as read"),
            Key("star", ("s",), "Star"),
        ),
    ),
    (
        "List",
        (
            Key("mark-all", ("Shift+A",), "Mark all as read"),
            Key("undo", ("z",), "Undo"),
            Key("refresh", ("r",), "Check for new entries"),
        ),
    ),
    (
        "Go",
        (
            Key("go-all", ("g a",), "All entries"),
            Key("go-starred", ("g s",), "Starred"),
            Key("add", ("a",), "Add a feed"),
            Key("tree", ("u",), "Show or hide the feeds"),
            Key("help", ("?",), "These keys"),
        ),
    ),
)


def hint(action: str) -> str:
    """Return the first key of an action for ``aria-keyshortcuts``."""
    for _, rows in GROUPS:
        for row in rows:
            if row.action == action:
                return row.keys[0]
    raise KeyError(action)
