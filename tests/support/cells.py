"""A second replica set for people's data, and services that use it."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pymongo
import pytest
from pymongo.database import Database

from app.config import Settings
from app.embedded import MongoDB
from app.embedded.child import poll
from app.errors import CellError

#: The name of the second cell.
CELL = "c1"


@dataclasses.dataclass
class SecondCell:
    """A real mongod of its own; ``name`` is its name in ``EVENTR_CELLS``."""

    name: str
    server: MongoDB

    @property
    def uri(self) -> str:
        return self.server.address

    def start(self) -> None:
        """Start it, again on its old data, and wait until it can be written to."""
        self.server.start()
        assert poll(self.server.is_responding, 60), "the second cell doesn't start"
        self.server.prepare()

    def kill(self) -> None:
        """End it as a power cut does."""
        assert self.server.process is not None
        self.server.process.kill()
        self.server.stop()


@contextlib.contextmanager
def running_cell(name: str) -> Iterator[SecondCell]:
    """Start a replica set in a folder of its own, and remove it at the end."""
    shared = (
        "/dev/shm" if os.path.isdir("/dev/shm") and shutil.disk_usage("/dev/shm").free > 2 << 30 else None
    )
    home = Path(tempfile.mkdtemp(prefix=f"eventr-test-{os.getpid()}-cell-", dir=shared))
    cell = SecondCell(name, MongoDB(Settings(home=home, embedded_cache=1 << 28)))
    try:
        cell.start()
        with pymongo.MongoClient[dict[str, Any]](cell.uri) as client:
            client.admin.command({"setParameter": 1, "ttlMonitorEnabled": False})
        yield cell
    finally:
        cell.server.stop()
        shutil.rmtree(home, ignore_errors=True)


@pytest.fixture(scope="session")
def second_cell() -> Iterator[SecondCell]:
    """The second replica set of this xdist worker; stopped and removed at its end."""
    with running_cell(CELL) as cell:
        yield cell


@pytest.fixture
def settings(settings: Settings, second_cell: SecondCell) -> Settings:
    """Settings with the second cell."""
    return dataclasses.replace(settings, cells=f"{second_cell.name}={second_cell.uri}")


@pytest.fixture
def cell_db(services: Any) -> Iterator[Database[dict[str, Any]]]:
    """The database of the second cell, empty and with its indexes."""
    services.cells.prepare()
    database = services.cells.get_store(CELL).database
    yield database
    for name in database.list_collection_names():
        database[name].delete_many({})


def move(services: Any, user_id: int, cell: str = CELL) -> None:
    """Place a person who has no documents yet, or none that matter."""
    services.cells.places.add(user_id, cell)
    services.cells.forget_places()


def wait_until(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    """Wait until a condition holds; a cell that isn't responding yet counts as no."""
    end = time.monotonic() + seconds
    while True:
        with contextlib.suppress(CellError):
            if condition():
                return
        assert time.monotonic() < end, "the cell isn't back"
        time.sleep(0.05)  # nothing tells when a server is back
