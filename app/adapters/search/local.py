"""The search index of this server: one writing process, any number of reading ones."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import os
import secrets
import threading
import time
from collections.abc import Collection, Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, cast

from app import logs
from app.adapters.search.generations import META, Generations
from app.errors import SearchUnavailableError, SearchUnsupportedError
from app.models.reading.search import IndexPart, SearchDocument, SearchRequest, SearchResult

if TYPE_CHECKING:
    from app.adapters.search.tantivy_index import IndexReader, IndexWriter

_log = logs.get(__name__)

#: Seconds between two looks for a newer commit.
RELOAD_SECONDS = 1.0
#: Seconds between two checks of all files of an index: a check reads all of them.
CHECK_SECONDS = 600.0


def _load_engine() -> ModuleType:
    """Return the module with the engine, which takes 4 MB: most processes neither search nor write."""
    return importlib.import_module("app.adapters.search.tantivy_index")


@contextlib.contextmanager
def _translate_disk_errors() -> Iterator[None]:
    try:
        yield
    except OSError as e:
        raise SearchUnavailableError from e


def read_identity(home: Path) -> str:
    """Return the name of a data folder; create it at first."""
    path = home / "search_id"
    with contextlib.suppress(FileNotFoundError):
        if name := path.read_text("ascii", "replace").strip():
            return name
    home.mkdir(parents=True, exist_ok=True)
    name = f"{os.uname().nodename}-{secrets.token_hex(8)}"
    path.write_text(name, "ascii", "replace")
    return name


class LocalSearch:
    """Implements :class:`app.ports.SearchPort` and :class:`app.ports.SearchIndexPort` on the local disk.

    Args:
        home: EVENTR_HOME.
        max_words: most different words indexed per entry.
    """

    def __init__(self, home: Path, *, max_words: int) -> None:
        self._generations = Generations(home.absolute() / "search")
        self._most = max_words
        self._lock = threading.Lock()
        self._reader: IndexReader | None = None
        self._looked = 0.0
        self._current: IndexWriter | None = None
        self._building: IndexWriter | None = None
        self._answering: Path | None = None
        self._is_partial = False
        self._checked: dict[str, float] = {}

    @property
    def is_supported(self) -> bool:
        """Whether the engine is installed."""
        return find_spec("tantivy") is not None

    def get_identity(self) -> str:
        """Return the name of this server's data folder."""
        with _translate_disk_errors():
            return read_identity(self._generations.root.parent)

    # -- finding
    def find(self, wanted: SearchRequest, limit: int) -> SearchResult:
        """Return about ``limit`` matching entries.

        Raises:
            SearchUnsupportedError: the engine isn't installed.
            SearchUnavailableError: there is no index, or it can't be read; its writer then checks the files.
        """
        if not self.is_supported:
            raise SearchUnsupportedError
        reader = self._get_reader()
        with self._suspecting(reader.folder):
            found = reader.find(wanted, limit)
        return dataclasses.replace(found, is_partial=self._is_partial)

    @contextlib.contextmanager
    def _suspecting(self, *folders: Path) -> Iterator[None]:
        """Let the writer check the files of these indexes after an error."""
        try:
            yield
        except SearchUnavailableError:
            for folder in folders:
                with contextlib.suppress(OSError):  # such as a full disk
                    self._generations.set_suspect(folder, True)
            raise

    def has_index(self) -> bool:
        """Return whether an index answers."""
        return self._generations.find_current() is not None

    def count_entries(self, feeds: Mapping[int, tuple[int, int]]) -> dict[int, int]:
        """Return the number of indexed entries of each feed, from its first to its last number."""
        reader = self._get_reader()
        return {feed_id: reader.count_feed(feed_id, *within) for feed_id, within in feeds.items()}

    def find_last_number(self, feed_id: int) -> int:
        """Return the highest number of a feed's entries; 0: there are none."""
        return self._get_reader().find_last_number(feed_id)

    def list_entries(self, after: int, limit: int) -> list[tuple[int, int]]:
        """Return the entries with ids above ``after``, ascending: pairs of id and feed."""
        return self._get_reader().list_entries(after, limit)

    def _get_reader(self) -> IndexReader:
        with self._lock:
            if self._reader is None or time.monotonic() >= self._looked + RELOAD_SECONDS:
                self._reader = self._refresh(self._reader)
                self._looked = time.monotonic()
            return self._reader

    def _refresh(self, reader: IndexReader | None) -> IndexReader:
        folder = self._generations.find_current()
        if folder is None:
            self._reader = None
            raise SearchUnavailableError
        self._is_partial = self._generations.get_position(folder) is not None
        try:
            with self._suspecting(folder):
                if reader is None or reader.folder != folder:
                    return cast("IndexReader", _load_engine().IndexReader(folder))
                reader.reload()
        except SearchUnavailableError:
            if folder == self._generations.find_current():
                raise
            return self._refresh(None)  # a rebuild has just replaced it
        return reader

    # -- writing
    def open(self, *, answer_early: bool) -> list[int]:
        """Open the index for writing, or begin a new one if there is none or it is damaged."""
        if self._is_open():
            return []
        self.close()
        with _translate_disk_errors():
            return self._open(answer_early)

    def _is_open(self) -> bool:
        """Return whether the open index is sound: its folder may be deleted, replaced or damaged."""
        writers = list(self._writers())
        return (
            bool(writers)
            and all((writer.folder / META).exists() for writer in writers)
            and not any(self._generations.is_suspect(writer.folder) for writer in writers)
            and self._answering == self._generations.find_current()
        )

    def _open(self, answer_early: bool) -> list[int]:
        files = self._generations
        answering, building = files.find_current(), files.find_building()
        if answering is not None and files.is_of_schema(answering):
            self._current = self._open_writer(answering)
            if self._current is None:
                answering = None
        if building is not None:
            is_same = self._current is not None and building == answering
            self._building = self._current if is_same else self._open_writer(building)
            if self._building is None:
                self._building = self._open_writer(files.create())  # the other one was damaged
        if self._current is None and self._building is None:
            self._building = self._open_writer(files.create())
        if answering is None and answer_early and self._building is not None:
            self._current, answering = self._building, self._building.folder
            files.switch_to(answering)
        self._answering = answering
        files.remove_others(answering, *(writer.folder for writer in self._writers()))
        return sorted({feed_id for w in self._writers() for feed_id in files.get_batch(w.folder)})

    def _open_writer(self, folder: Path) -> IndexWriter | None:
        """Open an index; None: it is damaged."""
        if (folder / META).exists():
            try:
                _load_engine().IndexReader(folder)
                self._check_files(folder)
            except SearchUnavailableError:
                _log.error("search_index_damaged", folder=folder.name, exc_info=True)
                return None
        return cast("IndexWriter", _load_engine().IndexWriter(folder, max_words=self._most))

    def _check_files(self, folder: Path) -> None:
        """Compare the files with their checksums if a process couldn't read them."""
        if not self._generations.is_suspect(folder):
            return
        checked = self._checked.get(folder.name)
        if checked is None or time.monotonic() >= checked + CHECK_SECONDS:
            _log.warning("search_index_checked", folder=folder.name)
            _load_engine().check_files(folder)
            self._checked = {folder.name: time.monotonic()}
        self._generations.set_suspect(folder, False)

    def _writers(self) -> Iterator[IndexWriter]:
        if self._current is not None:
            yield self._current
        if self._building is not None and self._building is not self._current:
            yield self._building

    @property
    def position(self) -> int | None:
        """The last feed that the unfinished index has completely; None: no index is unfinished."""
        return self._generations.get_position(self._building.folder) if self._building else None

    @property
    def is_replacing(self) -> bool:
        """Whether a new index is built beside a present one."""
        return None not in (self._current, self._building) and self._building is not self._current

    def begin_build(self) -> None:
        """Begin a new index; the present one answers until :meth:`finish_build`."""
        if self._building is not None and self._building is not self._current:
            self._building.close()
        with _translate_disk_errors():
            self._building = _load_engine().IndexWriter(self._generations.create(), max_words=self._most)
            kept = [writer.folder for writer in self._writers()]
            self._generations.remove_others(self._generations.find_current(), *kept)

    def finish_build(self) -> None:
        """Let the new index answer from now on, and delete its predecessor."""
        if (built := self._building) is None:
            return
        with _translate_disk_errors():
            self._generations.switch_to(built.folder)
            self._generations.set_position(built.folder, None)
        if self._current is not None and self._current is not built:
            self._current.close()
        self._current, self._building, self._answering = built, None, built.folder
        self._generations.remove_others(built.folder)
        self._looked = 0.0

    def add(self, entries: Collection[SearchDocument], part: IndexPart = IndexPart.BOTH) -> None:
        """Add entries, or replace them."""
        for writer in self._targets(part):
            with self._suspecting(writer.folder):
                writer.add(entries)

    def remove(self, feed_id: int, below: int, keep: Collection[int] = ()) -> None:
        """Remove a feed's entries below number ``below``, except ``keep``."""
        for writer in self._writers():
            writer.delete_below(feed_id, below, keep)

    def remove_feed(self, feed_id: int, part: IndexPart = IndexPart.BOTH) -> None:
        """Remove all entries of a feed."""
        for writer in self._targets(part):
            writer.delete_feed(feed_id)

    def remove_entries(self, feed_id: int, entry_ids: Collection[int]) -> None:
        """Remove entries of a feed."""
        for writer in self._writers():
            writer.delete_entries(feed_id, entry_ids)

    def _targets(self, part: IndexPart) -> Iterator[IndexWriter]:
        if part is IndexPart.NEW and self._building is not None:
            return iter((self._building,))
        if part is IndexPart.PRESENT and self._current is not None:
            return iter((self._current,))
        return self._writers()

    def commit_batch(self, feed_ids: Collection[int], position: int | None = None) -> None:
        """Make all changes durable and visible."""
        with _translate_disk_errors():
            for writer in self._writers():
                self._generations.set_batch(writer.folder, feed_ids)
                with self._suspecting(writer.folder):
                    writer.commit_batch()
            if position is not None and self._building is not None:
                self._generations.set_position(self._building.folder, position)
        self._looked = 0.0

    def finish_batch(self) -> None:
        """Record that the marks of the committed feeds are removed."""
        with _translate_disk_errors():
            for writer in self._writers():
                self._generations.set_batch(writer.folder, ())

    def close(self) -> None:
        """Release the index; changes since the last commit are lost."""
        for writer in self._writers():
            writer.close()
        self._current = self._building = None
        with self._lock:
            self._reader = None
