"""Folders of a user; deleting one keeps its feeds."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterable, Sequence


@dataclasses.dataclass(frozen=True, slots=True)
class Folder:
    """One folder.

    Attributes:
        parent: the folder it lies in, None at the top.
        order: its place there (:mod:`app.models.order`), "" by its name.
    """

    id: int
    user_id: int
    name: str
    parent: int | None = None
    order: str = ""


def inside(folders: Sequence[Folder], tops: Iterable[int]) -> set[int]:
    """Return these folders and all that lie in them."""
    children: dict[int | None, list[int]] = {}
    for folder in folders:
        children.setdefault(folder.parent, []).append(folder.id)
    found, waiting = set[int](), list(tops)
    while waiting:
        if (folder_id := waiting.pop()) not in found:
            found.add(folder_id)
            waiting += children.get(folder_id, ())
    return found


class PlaceMode(enum.StrEnum):
    """What becomes of the folders that feeds are in when some are chosen for them."""

    ADD = "add"
    REMOVE = "remove"
    MOVE = "move"
