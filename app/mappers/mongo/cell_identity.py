"""Which cell a database is, and for which programs it is prepared: a document in the collection ``schema``.

    {_id: "cell", name, prepared: [number, …]}    name: of the cell; ``home`` in the home store

Without it, two names for one replica set, or names with each other's addresses, would let the mover delete
what it has just copied.

An earlier program also wrote it at a start that then failed, even into the home store. A name for which
nothing was ever prepared is such a mistake: no person's data can be there, so it is replaced.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from pymongo.database import Database
from pymongo.errors import DuplicateKeyError

from app.errors import N_, CellMismatchError
from app.mappers.mongo.errors import translate_errors
from app.mappers.mongo.migrations.schema import COLLECTION
from app.models.operations.cells import HOME

_ID = "cell"
#: The collection that each home store has, and no cell.
_ACCOUNTS = "users"
#: Programs that are remembered: those of the last upgrades, whose processes may still run.
_REMEMBERED = 20


class CellIdentity(NamedTuple):
    """The cell of a database, and the programs that it is prepared for."""

    name: str
    prepared: frozenset[str]


@translate_errors
def read_identity(database: Database[Any]) -> CellIdentity | None:
    """Return the cell of a database; None: no program has written it yet."""
    doc = database[COLLECTION].find_one({"_id": _ID})
    return CellIdentity(doc["name"], frozenset(doc["prepared"])) if doc else None


def check_identity(
    database: Database[Any], name: str, is_used: Callable[[str], bool] = lambda _: False
) -> CellIdentity | None:
    """Check that a database is that of a cell, or can become it; return its identity, None if it has none.

    Args:
        is_used: returns whether a cell had a database before.

    Raises:
        CellMismatchError: it is the database of another cell, or not the one that the cell had.
        StoreError: it isn't responding.
    """
    found = read_identity(database)
    if found is None:
        require_unused(name, is_used)
        return None
    if found.name != name and not _is_mistake(database, found, name, is_used):
        require_name(found, name)
    return found


def claim_database(
    database: Database[Any], name: str, is_used: Callable[[str], bool] = lambda _: False
) -> CellIdentity:
    """Let a database be that of a cell, unless it is that of another cell; return its identity.

    Raises:
        CellMismatchError, StoreError: as :func:`check_identity`.
    """
    found = check_identity(database, name, is_used)
    if found is None:
        _write(database, name)
    elif found.name != name:
        _rename(database, found.name, name)
    found = read_identity(database) or CellIdentity(name, frozenset())
    require_name(found, name)
    return found


def _is_mistake(
    database: Database[Any], found: CellIdentity, name: str, is_used: Callable[[str], bool]
) -> bool:
    """Return whether a database has its name only from a start that failed."""
    if found.prepared or found.name == HOME or is_used(found.name):
        return False
    others = set(_list_names(database)) - {COLLECTION}
    return _ACCOUNTS in others or not others if name == HOME else _ACCOUNTS not in others


@translate_errors
def has_accounts(database: Database[Any]) -> bool:
    """Return whether a database is a home store, of this installation or another one."""
    return _ACCOUNTS in _list_names(database)


@translate_errors
def _list_names(database: Database[Any]) -> list[str]:
    return database.list_collection_names()


@translate_errors
def find_process(database: Database[Any]) -> object:
    """Return what only this database's server process has; None: it doesn't tell."""
    return database.client.admin.command("hello").get("topologyVersion", {}).get("processId")


@translate_errors
def find_collection(database: Database[Any]) -> object:
    """Return what only this database's collection of identities has; None: it has none yet."""
    for found in database.list_collections(filter={"name": COLLECTION}):
        return found["info"].get("uuid")
    return None


def require_unused(name: str, is_used: Callable[[str], bool]) -> None:
    """Check that a cell whose database is empty never had another one.

    Raises:
        CellMismatchError: it had.
    """
    if not is_used(name):
        return
    raise CellMismatchError(
        N_(
            "The address of the cell %(cell)s leads to an empty database, but the cell had another one."
            " Correct EVENTR_CELLS, or restore the cell from its backup. If its data is lost,"
            " run 'eventr admin cells --empty %(cell)s'."
        ),
        cell=name,
    )


def require_name(found: CellIdentity, name: str) -> None:
    """Check that a database is that of a cell.

    Raises:
        CellMismatchError: it is the database of another cell.
    """
    if found.name == name:
        return
    raise CellMismatchError(
        N_(
            "The address of the cell %(cell)s leads to the database of the cell %(found)s."
            " Correct EVENTR_CELLS or EVENTR_MONGODB_URI, then start Eventr again."
        ),
        cell=name,
        found=found.name,
    )


@translate_errors
def _write(database: Database[Any], name: str) -> None:
    try:
        database[COLLECTION].insert_one({"_id": _ID, "name": name, "prepared": []})
    except DuplicateKeyError:
        return  # another process was first


@translate_errors
def _rename(database: Database[Any], was: str, name: str) -> None:
    database[COLLECTION].update_one({"_id": _ID, "name": was, "prepared": []}, {"$set": {"name": name}})


@translate_errors
def record_prepared(database: Database[Any], program: str) -> None:
    """Record that a database has the indexes and the schema of a program."""
    table = database[COLLECTION]
    absent = {"_id": _ID, "prepared": {"$ne": program}}
    table.update_one(absent, {"$push": {"prepared": {"$each": [program], "$slice": -_REMEMBERED}}})
