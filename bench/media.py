"""Pictures and files: ``python -m bench media`` runs all groups that measure them, in this order."""

from __future__ import annotations

from collections.abc import Iterable

GROUPS = ("media_draw", "media_pics", "media_tus", "media_spool", "media_stores", "media_blobs", "later")


def expand_names(names: Iterable[str]) -> list[str]:
    """Return the names of groups, with those of :data:`GROUPS` in place of ``media``."""
    return [group for name in names for group in (GROUPS if name == "media" else (name,))]
