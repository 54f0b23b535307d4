"""A person's choices in Eventr's own archive: saved searches, rules, and settings of feeds."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

#: Most bytes of each list in an archive, and most characters of all choices that an import stores.
CHOICES_MAX: Final = 4 << 20
_STORED_MAX: Final = 2 << 20
#: Settings of a feed: their names in an archive → those of a subscription's changes.
SETTINGS: Final[Mapping[str, str]] = {
    "paused": "paused",
    "hidden": "hidden",
    "opens_original": "original",
    "notify": "notify",
    "full_text": "full_text",
    "reopen": "reopen",
    "read_after": "read_after",
    "keep_newest": "keep_newest",
}


def pack_choices(lists: Mapping[str, Sequence[Any]]) -> str:
    """Return the choices in lists of an archive as JSON; empty: there are none, or too many to store.

    Feeds whose settings are the usual ones are left out.
    """
    feeds = []
    for row in lists.get("subscriptions", ()):
        if isinstance(row, dict) and isinstance(row.get("address"), str):
            chosen = {new: row[old] for old, new in SETTINGS.items() if row.get(old)}
            if chosen or row.get("private") is True:
                feeds.append([row["address"], chosen, row.get("private") is True])
    found = {
        "searches": list(lists.get("searches", ())),
        "rules": list(lists.get("rules", ())),
        "feeds": feeds,
    }
    text = json.dumps(found, ensure_ascii=False) if any(found.values()) else ""
    return text if len(text) <= _STORED_MAX else ""
