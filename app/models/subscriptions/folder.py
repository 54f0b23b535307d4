"""Folders of a user; deleting one keeps its feeds."""

from __future__ import annotations

import dataclasses
import enum
from collections import Counter
from collections.abc import Iterable, Sequence

#: Between the names of a folder's path.
PATH_SEPARATOR = " › "


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


def find_ancestors(folders: Sequence[Folder]) -> dict[int, tuple[int, ...]]:
    """Return folder → the folder itself and all folders around it, from the inside out."""
    above = resolve_parents(folders)
    found: dict[int, tuple[int, ...]] = {}
    for folder_id in above:
        chain: list[int] = []
        place: int | None = folder_id
        while place is not None:
            chain.append(place)
            place = above[place]
        found[folder_id] = tuple(chain)
    return found


def build_folder_labels(folders: Sequence[Folder]) -> dict[int, str]:
    """Return folder → its name for apps that know no nested folders, in the order of the tree.

    That is the bare name while no other folder has it, and else the names from the outermost folder down to
    it, joined by slashes. Folders in different places never share a label.
    """
    paths = build_folder_paths(folders)
    places = tuple(dict.fromkeys(paths.values()))
    names = Counter(path[-1] for path in places)
    # The bare names first: a name with slashes belongs to that folder, and never means a path.
    taken = {path[-1] for path in places if len(path) == 1 or names[path[-1]] == 1}
    labels: dict[tuple[str, ...], str] = {}
    for path in places:
        if len(path) == 1 or names[path[-1]] == 1:
            labels[path] = path[-1]
            continue
        joined = join_folder_path(path)
        free = (joined, *(f"{joined} ({n})" for n in range(2, len(places) + 2)))
        labels[path] = next(one for one in free if one not in taken)
        taken.add(labels[path])
    return {folder_id: labels[path] for folder_id, path in paths.items()}


def join_folder_path(path: Sequence[str]) -> str:
    """Return the names from the outermost folder down to one, joined by slashes."""
    return "/".join(path)


class FolderEditMode(enum.StrEnum):
    """What happens to the current folders of feeds when others are chosen."""

    ADD = "add"
    REMOVE = "remove"
    MOVE = "move"
