"""Folders of a user; deleting one keeps its feeds."""

from __future__ import annotations

import dataclasses
import enum


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


class PlaceMode(enum.StrEnum):
    """What becomes of the folders that feeds are in when some are chosen for them."""

    ADD = "add"
    REMOVE = "remove"
    MOVE = "move"
