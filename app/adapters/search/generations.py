"""The folders of indexes on disk, ``EVENTR_HOME/search``.

    search/current        the name of the index that answers
    search/1-7/           index number 7, of schema 1
    search/1-7/position   how far it is built, until it is complete
    search/1-7/batch      the feeds of the batch that is being committed
    search/1-7/suspect    a process couldn't read the index; the writer must check its files

Each of these files is replaced atomically, so after a crash they say what was true before or after it.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
from collections.abc import Collection
from pathlib import Path
from typing import Final

#: Rises when documents get other fields or words, which makes a new index.
SCHEMA: Final = 2
#: The engine replaces this file at each commit.
META: Final = "meta.json"
_NAME = re.compile(r"([0-9]+)-([0-9]+)", re.ASCII)
_CURRENT, _POSITION, _BATCH, _SUSPECT = "current", "position", "batch", "suspect"


class Generations:
    """The indexes of one server, and the files beside them. OSError passes through.

    Args:
        root: the folder; it may not exist yet.
    """

    def __init__(self, root: Path) -> None:
        self.root = root

    def find_current(self) -> Path | None:
        """Return the folder of the index that answers, if it exists."""
        with contextlib.suppress(FileNotFoundError):
            name = (self.root / _CURRENT).read_text("ascii", "replace").strip()
            if _NAME.fullmatch(name) and (self.root / name).is_dir():
                return self.root / name
        return None

    def find_building(self) -> Path | None:
        """Return the folder of the newest index that isn't complete."""
        found = [f for f in self._list() if (f / _POSITION).exists() and self.is_of_schema(f)]
        return max(found, key=_number, default=None)

    def is_of_schema(self, folder: Path) -> bool:
        """Return whether an index has the schema of this program."""
        return folder.name.startswith(f"{SCHEMA}-")

    def create(self) -> Path:
        """Create the folder of a new index, which is complete up to no feed."""
        number = max((_number(folder) for folder in self._list()), default=0) + 1
        folder = self.root / f"{SCHEMA}-{number}"
        self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.mkdir(mode=0o700)
        self.set_position(folder, 0)
        return folder

    def switch_to(self, folder: Path) -> None:
        """Let this index answer from now on."""
        _replace(self.root / _CURRENT, folder.name)

    def get_position(self, folder: Path) -> int | None:
        """Return the id of the last feed that an index has completely; None: it is complete."""
        try:
            return int((folder / _POSITION).read_text("ascii"))
        except FileNotFoundError:
            return None
        except ValueError:
            return 0

    def set_position(self, folder: Path, position: int | None) -> None:
        """Record how far an index is built; None: it is complete."""
        if position is None:
            (folder / _POSITION).unlink(missing_ok=True)
        else:
            _replace(folder / _POSITION, str(position))

    def get_batch(self, folder: Path) -> list[int]:
        """Return the feeds of a batch that wasn't finished."""
        try:
            found = json.loads((folder / _BATCH).read_text("ascii"))
            return [int(feed_id) for feed_id in found]
        except (FileNotFoundError, ValueError, TypeError):
            return []

    def set_batch(self, folder: Path, feed_ids: Collection[int]) -> None:
        """Record the feeds of the batch that is about to be committed; none: it is finished."""
        if feed_ids:
            _replace(folder / _BATCH, json.dumps(sorted(feed_ids)))
        else:
            (folder / _BATCH).unlink(missing_ok=True)

    def is_suspect(self, folder: Path) -> bool:
        """Return whether a process couldn't read this index."""
        return (folder / _SUSPECT).exists()

    def set_suspect(self, folder: Path, is_suspect: bool) -> None:
        """Record that a process couldn't read this index, or that the files were checked since."""
        if is_suspect:
            (folder / _SUSPECT).touch(mode=0o600)
        else:
            (folder / _SUSPECT).unlink(missing_ok=True)

    def remove_others(self, *kept: Path | None) -> None:
        """Delete all indexes but these."""
        for folder in self._list():
            if folder not in kept:
                shutil.rmtree(folder, ignore_errors=True)

    def _list(self) -> list[Path]:
        if not self.root.is_dir():
            return []
        return [folder for folder in self.root.iterdir() if _NAME.fullmatch(folder.name) and folder.is_dir()]


def _number(folder: Path) -> int:
    return int(folder.name.partition("-")[2])


def _replace(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f"{path.name}.new")
    with draft.open("w", encoding="ascii") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)  # makes the new name durable
    finally:
        os.close(folder)
