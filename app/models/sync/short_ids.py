"""Small numbers of feeds and folders for apps that read 32-bit integers."""

from __future__ import annotations

import enum
from typing import Final


class ShortIdKind(enum.StrEnum):
    """The kinds of things with a number; each user has numbers from 1 for each kind."""

    FEED = "feed"
    FOLDER = "folder"


#: The largest number that an app can read. Ids of feeds and folders are larger.
SHORT_MAX: Final = (1 << 31) - 1
