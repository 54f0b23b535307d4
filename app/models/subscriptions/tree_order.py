"""The order of feeds and folders in a person's tree."""

from __future__ import annotations

import enum


class TreeOrder(enum.StrEnum):
    """``OWN``: as the person has arranged them, then those without a place by name."""

    OWN = "own"
    NAME = "name"
    UNREAD = "unread"
    NEWEST = "newest"
