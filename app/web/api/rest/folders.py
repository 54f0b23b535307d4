"""Folders."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from app.errors import NotFoundError
from app.models.accounts.actor import Actor
from app.models.accounts.token import Scope
from app.models.subscriptions.folder import Folder as Stored
from app.web.api.rest.shapes import FOLDER, OTHER_FOLDER, Body, Id, Id0, Shape, Undo
from app.web.api.rest.table import Reply, add_example, add_operation
from app.web.context import get_services

TAG = "Folders"
FolderTitle = Annotated[str, Meta(min_length=1, max_length=128)]


class Folder(Shape, frozen=True):
    """A folder; `parent` is the folder that contains it, null at the top level."""

    id: Id
    name: str
    parent: Id | None


class FolderList(Shape, frozen=True):
    """All your folders, in order."""

    items: tuple[Folder, ...]


class NewFolder(Body, frozen=True):
    """A folder to create."""

    name: FolderTitle
    parent: Id | None = None


class FolderChange(Body, frozen=True):
    """The new name of a folder."""

    name: FolderTitle


class FolderMove(Body, frozen=True):
    """The new position.

    `parent`: null for the top level. `after`: the folder to place it after; 0 for first, null to sort by
    name.
    """

    parent: Id | None = None
    after: Id0 | None = None


_ONE = add_example(Folder(id=FOLDER, name="News", parent=None))
add_example(FolderList(items=(_ONE,)))
add_example(NewFolder(name="Science"))
add_example(FolderChange(name="World news"))
add_example(FolderMove(parent=OTHER_FOLDER))


@add_operation("GET", "/folders", "List folders", scope=Scope.READ, tag=TAG)
def list_folders(actor: Actor) -> FolderList:
    """Returns parent folders and subfolders in one flat list."""
    return FolderList(items=tuple(map(_shape, get_services().folders.list_folders(actor))))


def _shape(folder: Stored) -> Folder:
    return Folder(id=folder.id, name=folder.name, parent=folder.parent)


@add_operation(
    "POST", "/folders", "Create a folder", scope=Scope.SUBSCRIBE, tag=TAG, status=201, errors=(404, 409)
)
def make_folder(actor: Actor, body: NewFolder) -> Reply[Folder]:
    """Folders in the same place can't have the same name."""
    made = get_services().folders.create(actor, body.name, parent=body.parent)
    return Reply(_shape(made), 201, f"/folders/{made.id}")


@add_operation("GET", "/folders/{folder_id}", "Get a folder", scope=Scope.READ, tag=TAG)
def get_folder(actor: Actor, folder_id: int) -> Folder:
    """Returns the same fields as the list."""
    found = next((f for f in get_services().folders.list_folders(actor) if f.id == folder_id), None)
    if found is None:
        raise NotFoundError(folder_id=folder_id)
    return _shape(found)


@add_operation("PATCH", "/folders/{folder_id}", "Rename a folder", scope=Scope.SUBSCRIBE, tag=TAG,
           errors=(409,), guarded=True)  # fmt: skip
def change_folder(actor: Actor, folder_id: int, body: FolderChange) -> Folder:
    """The feeds stay in the folder."""
    return _shape(get_services().folders.rename(actor, folder_id, body.name))


@add_operation("POST", "/folders/{folder_id}/move", "Move a folder", scope=Scope.SUBSCRIBE, tag=TAG,
           errors=(409,))  # fmt: skip
def move_folder(actor: Actor, folder_id: int, body: FolderMove) -> Undo:
    """Moves the folder and its contents into another folder, to the top level, or to a new position."""
    token = get_services().folders.move_folder(actor, folder_id, parent=body.parent, after=body.after)
    return Undo(undo=f"place.{token}")


@add_operation(
    "DELETE", "/folders/{folder_id}", "Delete a folder", scope=Scope.SUBSCRIBE, tag=TAG, guarded=True
)
def delete_folder(actor: Actor, folder_id: int) -> Undo:
    """You stay subscribed to the folder's feeds."""
    return Undo(undo=f"folder.{get_services().folders.delete(actor, folder_id)}")
