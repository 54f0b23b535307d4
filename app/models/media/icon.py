"""Icons of feeds: where they may come from, and their addresses."""

from __future__ import annotations

import datetime as dt
import re
from typing import NamedTuple

#: Digits of a blob's id in the address of an icon: enough that nobody finds one by chance.
DIGITS = 16
NAME = re.compile(rf"[0-9a-f]{{{DIGITS}}}")
#: Names of an icon's stored files, for screens with one pixel per unit and with more.
SMALL, LARGE = "i32", "i64"
#: Type of icons that are kept as they are.
SVG_TYPE = "image/svg+xml"
#: Sources of icons aren't in any address, so their ids need no secret; workers don't have it.
ICON_KEY = b"eventr icon"


class IconFeed(NamedTuple):
    """A feed whose icon is looked for.

    Attributes:
        icon: the address that the feed itself states.
        next_at: when to look; None: nobody has looked yet.
        source: id of the source whose picture it shows.
        blob: id of its icon, None: it has none.
    """

    id: int
    url: str
    site_url: str | None
    icon: str | None
    next_at: dt.datetime | None = None
    source: bytes | None = None
    blob: bytes | None = None


def name_owner(feed_id: int) -> str:
    """Return the owner of an uploaded icon, as files name it."""
    return f"icon:{feed_id}"


def build_icon_path(blob_id: bytes) -> str:
    """Return the address of an icon on this server; its picture never changes."""
    return f"/icon/{blob_id.hex()[:DIGITS]}.png"


def get_icon_number(path: str) -> int:
    """Return the number of an icon by its path, for programs that know icons by numbers; at least 2."""
    return int(path.removeprefix("/icon/")[:7], 16) + 2
