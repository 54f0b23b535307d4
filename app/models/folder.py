"""Folders of a user; deleting one keeps its feeds."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True, slots=True)
class Folder:
    """One folder; ``parent`` is the folder it lies in, None at the top."""

    id: int
    user_id: int
    name: str
    parent: int | None = None
    order: int = 0
