"""The notation of keys: in the table, in settings, on the page, and as people type them.

The names are those of ``KeyboardEvent.key``; a capital letter has ``Shift+``; ``Ctrl+`` also means Cmd on a
Mac. A plus joins two consecutive strokes: ``j``, ``Shift+J``, ``Space``, ``Ctrl+K``, ``g+a``.
"""

from __future__ import annotations

import functools
import re

from flask_babel import lazy_gettext

from app.errors import InvalidError
from app.models.accounts.preferences import KEY_LENGTH

#: Maximum number of keys per action; more would leave too few free keys.
AT_MOST = 3
#: Keys that type no character, and the space key.
NAMED = frozenset(
    (
        *("Space", "Enter", "Escape", "Home", "End", "PageUp", "PageDown", "Insert", "Delete", "Backspace"),
        *("ArrowUp", "ArrowDown", "ArrowLeft", "ArrowRight"),
        *(f"F{n}" for n in range(1, 13)),
    )
)
_WRITTEN = {name.lower(): name for name in NAMED} | {"esc": "Escape", "return": "Enter", "del": "Delete"}
#: Ctrl shortcuts that browsers reserve, whatever a page does.
BROWSERS_OWN = frozenset("ACFLNPQRSTVWX")
_STROKE = re.compile(r"(?:Ctrl\+)?(?:Shift\+)?(?:\+|[^+]+)")
_PARTS = re.compile(r"(?:(Ctrl)\+)?(?:(Shift)\+)?(.+)")
_HELD = re.compile(r"\b(ctrl|control|cmd|meta|shift)\+(?=.)", re.IGNORECASE)
_LABELS = {
    "Space": lazy_gettext("Space"),
    "Enter": lazy_gettext("Enter"),
    "Escape": lazy_gettext("Esc"),
    "Shift": lazy_gettext("Shift"),
    "Ctrl": lazy_gettext("Ctrl"),
    "ArrowUp": "↑",
    "ArrowDown": "↓",
    "ArrowLeft": "←",
    "ArrowRight": "→",
}


@functools.lru_cache(maxsize=512)
def split_strokes(key: str) -> tuple[str, ...]:
    """Return the strokes of a key: one, or two consecutive ones."""
    found, at = [], 0
    while stroke := _STROKE.match(key, at):
        found.append(stroke.group())
        at = stroke.end() + 1
    return tuple(found)


#: Keys of the tree that a table of shortcuts shows; they can't be changed.
TREE_KEYS = {"move": ("ArrowUp", "ArrowDown"), "ends": ("Home", "End")}


def is_character(key: str) -> bool:
    """Return whether typing or speaking a text would press this key (WCAG 2.1.4)."""
    return not key.startswith("Ctrl+") and key.removeprefix("Shift+") not in NAMED - {"Space"}


def format_labels(key: str) -> tuple[str, ...]:
    """Return the labels on the keys, one text per stroke."""
    return tuple("+".join(str(_LABELS.get(part, part)) for part in _parts(s)) for s in split_strokes(key))


def format_key(key: str) -> str:
    """Return a key for use in a sentence: ``g a``."""
    return " ".join(format_labels(key))


def format_aria(key: str) -> tuple[str, ...]:
    """Return a key for ``aria-keyshortcuts``, which can't express two consecutive strokes."""
    if len(split_strokes(key)) > 1:
        return ()
    if key.startswith("Ctrl+"):
        return key.replace("Ctrl", "Control"), key.replace("Ctrl", "Meta")
    return ("Plus" if key == "+" else key,)


def parse_keys(text: str) -> tuple[str, ...]:
    """Return the keys that a person typed, separated by spaces.

    Raises:
        InvalidError: A key doesn't exist, the browser reserves it, or there are too many keys.
    """
    found = tuple(dict.fromkeys(_read(word) for word in text.split()))
    if len(found) > AT_MOST or len(" ".join(found)) > KEY_LENGTH:
        raise InvalidError(
            "An action can have at most %(count)s shortcuts. Remove some.", field="keys", count=AT_MOST
        )
    return found


def _read(word: str) -> str:
    held = _HELD.sub(lambda m: "Shift+" if m[1].lower() == "shift" else "Ctrl+", word)
    found = [_stroke(stroke, word) for stroke in split_strokes(held)]
    if not 0 < len(found) <= 2:
        raise _unknown(word)
    return "+".join(found)


def _stroke(stroke: str, word: str) -> str:
    *held, key = _parts(stroke)
    if "Ctrl" in held:
        return _with_ctrl(key, word, shift="Shift" in held)
    if len(key) > 1:
        if key.lower() not in _WRITTEN:
            raise _unknown(word)
        return "+".join((*held, _WRITTEN[key.lower()]))
    if key.lower() != key.upper():
        return f"Shift+{key.upper()}" if held or key.isupper() else key
    if held:
        raise InvalidError(
            "Enter “%(key)s” as the character it types, without Shift.", field="keys", key=word
        )
    return key


def _with_ctrl(key: str, word: str, *, shift: bool) -> str:
    if shift or len(key) > 1 or not key.isalpha():
        raise _unknown(word)
    if key.upper() in BROWSERS_OWN:
        raise InvalidError(
            "“%(key)s” is reserved by the browser. Choose another key.", field="keys", key=word
        )
    return f"Ctrl+{key.upper()}"


def _parts(stroke: str) -> tuple[str, ...]:
    found = _PARTS.fullmatch(stroke)
    return tuple(part for part in found.groups() if part) if found else (stroke,)


def _unknown(word: str) -> InvalidError:
    return InvalidError(
        "“%(key)s” isn't a valid key. Enter keys like j, Shift+J or Space, or g+a for two keys in a row.",
        field="keys",
        key=word,
    )
