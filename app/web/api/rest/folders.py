"""Folders."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from app.errors import NotFoundError
from app.models.accounts.actor import Actor
from app.models.accounts.token import Scope
from app.models.subscriptions.folder import Folder as Stored
from app.web.api.rest.shapes import FOLDER, OTHER_FOLDER, Body, Id, Id0, Shape, Undo
from app.web.api.rest.table import Reply, example, operation
from app.web.context import services

TAG = "Folders"
FolderTitle = Annotated[str, Meta(min_length=1, max_length=128)]


class Folder(Shape, frozen=True):
    """A folder; `parent`: the one it lies in, null at the top."""

    id: Id
    name: str
    parent: Id | None


class FolderList(Shape, frozen=True):
    """All your folders in their order."""

    items: tuple[Folder, ...]


class NewFolder(Body, frozen=True):
    """A folder to be made."""

    name: FolderTitle
    parent: Id | None = None


class FolderChange(Body, frozen=True):
    """Its new name."""

    name: FolderTitle


class FolderMove(Body, frozen=True):
    """`parent`: null, to the top. `after`: its new neighbour, 0: first, null: by its name."""

    parent: Id | None = None
    after: Id0 | None = None


_ONE = example(Folder(id=FOLDER, name="News", parent=None))
example(FolderList(items=(_ONE,)))
example(NewFolder(name="Science"))
example(FolderChange(name="World news"))
example(FolderMove(parent=OTHER_FOLDER))


@operation("GET", "/folders", "List folders", scope=Scope.READ, tag=TAG)
def list_folders(who: Actor) -> FolderList:
    """Parents and children in one list."""
    return FolderList(items=tuple(map(_shape, services().folders.list(who))))


def _shape(folder: Stored) -> Folder:
    return Folder(id=folder.id, name=folder.name, parent=folder.parent)


@operation("POST", "/folders", "Make a folder", scope=Scope.SUBSCRIBE, tag=TAG, status=201, errors=(404, 409))
def make_folder(who: Actor, body: NewFolder) -> Reply[Folder]:
    """Names of neighbours differ."""
    made = services().folders.create(who, body.name, parent=body.parent)
    return Reply(_shape(made), 201, f"/folders/{made.id}")


@operation("GET", "/folders/{folder_id}", "Get a folder", scope=Scope.READ, tag=TAG)
def get_folder(who: Actor, folder_id: int) -> Folder:
    """As in the list."""
    found = next((f for f in services().folders.list(who) if f.id == folder_id), None)
    if found is None:
        raise NotFoundError(folder_id=folder_id)
    return _shape(found)


@operation("PATCH", "/folders/{folder_id}", "Rename a folder", scope=Scope.SUBSCRIBE, tag=TAG,
           errors=(409,), guarded=True)  # fmt: skip
def change_folder(who: Actor, folder_id: int, body: FolderChange) -> Folder:
    """Its feeds stay in it."""
    return _shape(services().folders.rename(who, folder_id, body.name))


@operation("POST", "/folders/{folder_id}/move", "Move a folder", scope=Scope.SUBSCRIBE, tag=TAG,
           errors=(409,))  # fmt: skip
def move_folder(who: Actor, folder_id: int, body: FolderMove) -> Undo:
    """Into another, to the top, or elsewhere among its neighbours; with all that is in it."""
    token = services().folders.move(who, folder_id, parent=body.parent, after=body.after)
    return Undo(undo=f"place.{token}")


@operation("DELETE", "/folders/{folder_id}", "Delete a folder", scope=Scope.SUBSCRIBE, tag=TAG, guarded=True)
def delete_folder(who: Actor, folder_id: int) -> Undo:
    """Its feeds stay."""
    return Undo(undo=f"folder.{services().folders.delete(who, folder_id)}")
