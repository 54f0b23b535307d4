"""Names of the Google Reader API: ids of items, streams and states, in all notations that apps use.

Eventr writes ``tag:google.com,2005:reader/item/<16 hex>``, ``feed/<number>`` and ``user/-/…``. Every other
notation read here is used by some app (mihaip's google-reader-api wiki, ItemId and StreamId).
"""

from __future__ import annotations

import re
from typing import Final

from app.errors import InvalidError
from app.models.names import normalise_name
from app.models.reading.stream import MAX_ID
from app.models.sync.sync import SyncStream, SyncStreamKind

ITEM: Final = "tag:google.com,2005:reader/item/"
STATE: Final = "user/-/state/com.google/"
LABEL: Final = "user/-/label/"

_DECIMAL = re.compile(r"-?[0-9]{1,20}", re.ASCII)
_HEX = re.compile(r"[0-9a-f]{1,16}", re.ASCII | re.IGNORECASE)
_USER = re.compile(r"user/([^/]+)/(state/com\.google|label)/(.+)", re.DOTALL)
_PLACE = re.compile(r"[0-9]{1,16}", re.ASCII)
#: The number for a foreign id. It is smaller than any entry's id, so it matches no entry.
_FOREIGN: Final = 1
#: newsboat mistakes a label of this name for a state. Any other name that the pages accept is valid.
RESERVED = frozenset({"read", "fresh", "kept-unread", "unread", "starred"})
LABEL_MAX = 128

_STATES: Final = {
    "reading-list": SyncStreamKind.READING,
    "read": SyncStreamKind.READ,
    "unread": SyncStreamKind.UNREAD,
    "kept-unread": SyncStreamKind.UNREAD,
    "fresh": SyncStreamKind.UNREAD,
    "starred": SyncStreamKind.STARRED,
    "like": SyncStreamKind.LIKED,
    "broadcast": SyncStreamKind.SHARED,
    "broadcast-friends": SyncStreamKind.FRIENDS,
    "broadcast-friends-comments": SyncStreamKind.COMMENTED,
    "created": SyncStreamKind.NONE,
}


def format_item_id(entry_id: int) -> str:
    """Return the long form of an item's id, 16 hexadecimal digits."""
    return f"{ITEM}{entry_id:016x}"


def parse_item_id(text: str) -> int:
    """Read an item's id: long form, long form with fewer digits, 16 hexadecimal digits, or decimal.

    Sixteen digits alone could be decimal or hexadecimal. Eventr's decimal ids never begin with 0 and its
    hexadecimal ids always do. A valid id of another server matches no entry: apps that moved here send them.

    Raises:
        InvalidError: The text isn't an item's id.
    """
    text = text.strip()
    if text.startswith(ITEM):
        digits = text[len(ITEM) :]
        if _is_misplaced(digits):
            _no(text)
        return _id(int(digits, 16), text) if _HEX.fullmatch(digits) else _no(text)
    if _DECIMAL.fullmatch(text) and not (len(text) == 16 and text.startswith("0")):
        return _id(int(text), text)
    return _id(int(text, 16), text) if len(text) == 16 and _HEX.fullmatch(text) else _no(text)


def _is_misplaced(digits: str) -> bool:
    """Return whether an app wrote a decimal id of Eventr where the long form has a hexadecimal one."""
    return len(digits) == 16 and digits[0] != "0" and digits.isdecimal() and int(digits) < MAX_ID


def _id(number: int, text: str) -> int:
    if not -(1 << 63) <= number < 1 << 64:
        _no(text)
    # Signed 64-bit ids are accepted, but Eventr's ids never have the sign bit.
    return number if 0 < number < MAX_ID else _FOREIGN


def _no(text: str) -> int:
    raise InvalidError("This isn't a valid item ID.", field="i", given=text[:64])


def format_feed_id(feed_id: int) -> str:
    """Return the id of a feed's stream."""
    return f"feed/{feed_id}"


def format_label_id(name: str) -> str:
    """Return the id of a label's stream."""
    return LABEL + name


def format_person_id(user_id: int) -> str:
    """Return the id of the stream of a person's shares."""
    return f"user/{user_id}/state/com.google/broadcast"


def parse_feed_name(text: str) -> str:
    """Return the part after ``feed/``, which may be repeated: a number or an address.

    Raises:
        InvalidError: The text isn't the id of a feed's stream.
    """
    name = text.strip()
    if not name.startswith("feed/"):
        raise InvalidError("This isn't a feed.", field="s", given=text[:200])
    while name.startswith("feed/"):
        name = name[len("feed/") :]
    # Some proxies collapse the two slashes of an address into one.
    return re.sub(r"^(https?):/(?!/)", r"\1://", name)


def parse_number(name: str) -> int | None:
    """Return the number that names a feed or a person; None: not a number."""
    return int(name) if name.isascii() and name.isdigit() and len(name) <= 16 else None


def parse_state(text: str) -> tuple[str, str, str] | None:
    """Return (user, ``state/com.google`` or ``label``, name) of an id; None: neither a state nor a label."""
    found = _USER.fullmatch(text.strip())
    return (found[1], found[2], found[3]) if found else None


def get_state_kind(name: str) -> SyncStreamKind:
    """Return the kind of stream that a state's name stands for.

    Raises:
        InvalidError: No state has this name.
    """
    kind = _STATES.get(name)
    if kind is None:
        raise InvalidError("This list doesn't exist.", field="s", given=name[:64])
    return kind


def parse_label(text: str) -> str:
    """Return the name in a label's id, or a name given alone.

    Raises:
        InvalidError: The text is another kind of id, or empty.
    """
    found = parse_state(text)
    name = found[2] if found and found[1] == "label" else text.strip()
    if not name or (found and found[1] != "label") or text.startswith("feed/"):
        raise InvalidError("This isn't a valid label.", field="s", given=text[:64])
    return name


def parse_new_label(text: str) -> str:
    """Return the name for a new label, normalized as folders and tags store it.

    Raises:
        InvalidError: Some apps mistake this name for a state, or it is empty or too long.
    """
    name = normalise_name(parse_label(text))
    if not name or len(name) > LABEL_MAX or name.lower() in RESERVED:
        raise InvalidError(
            "Choose another label. Use up to %(most)s characters, and none of these words: %(words)s.",
            most=LABEL_MAX,
            words=", ".join(sorted(RESERVED)),
        )
    return name


def build_own_stream(name: str) -> SyncStream:
    """Return the stream of one of the user's own states."""
    return SyncStream(get_state_kind(name))


def format_continuation(last_id: int) -> str:
    """Return the cursor of a page's end, for the next request."""
    return str(last_id)


def parse_continuation(text: str) -> int | None:
    """Read the cursor of the previous page's end; None: this is the first page.

    Apps also send cursors of the server that they used before, or the word "None". FreshRSS ignores those.
    """
    return int(text) if _PLACE.fullmatch(text) else None
