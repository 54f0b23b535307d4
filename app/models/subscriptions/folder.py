"""Folders of a user; deleting one keeps its feeds."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterable, Sequence


@dataclasses.dataclass(frozen=True, slots=True)
class Folder:
    """One folder.

    Attributes:
        parent: the folder that contains it, None at the top.
        order: its position there (:mod:`app.models.subscriptions.sort_key`), "" to sort by name.
    """

    id: int
    user_id: int
    name: str
    parent: int | None = None
    order: str = ""


def find_descendants(folders: Sequence[Folder], tops: Iterable[int]) -> set[int]:
    """Return these folders and all folders inside them."""
    children: dict[int | None, list[int]] = {}
    for folder in folders:
        children.setdefault(folder.parent, []).append(folder.id)
    found, waiting = set[int](), list(tops)
    while waiting:
        if (folder_id := waiting.pop()) not in found:
            found.add(folder_id)
            waiting += children.get(folder_id, ())
    return found


def resolve_parents(folders: Sequence[Folder]) -> dict[int, int | None]:
    """Return folder → its parent; None if the parent is gone, or lies inside the folder itself."""
    found = {f.id: f.parent for f in folders}
    for folder_id in found:
        seen, above = {folder_id}, found[folder_id]
        while above in found and above not in seen:
            seen.add(above)
            above = found[above]
        if above == folder_id or found[folder_id] not in found:
            found[folder_id] = None
    return found


def build_folder_paths(folders: Sequence[Folder]) -> dict[int, tuple[str, ...]]:
    """Return folder → names from the outermost one down to it, in the order of the tree.

    Args:
        folders: in their order, of any depth.
    """
    above = resolve_parents(folders)
    children: dict[int | None, list[Folder]] = {}
    for folder in reversed(folders):
        children.setdefault(above[folder.id], []).append(folder)
    found: dict[int, tuple[str, ...]] = {}
    waiting = children.get(None, [])
    while waiting:
        folder = waiting.pop()
        parent = above[folder.id]
        found[folder.id] = (*(found[parent] if parent is not None else ()), folder.name)
        waiting += children.get(folder.id, ())
    return found


class FolderEditMode(enum.StrEnum):
    """What happens to the current folders of feeds when others are chosen."""

    ADD = "add"
    REMOVE = "remove"
    MOVE = "move"
