"""The embedded MongoDB: a replica set of one, reachable only by its unix socket."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import pymongo
from pymongo.errors import ConnectionFailure, OperationFailure, PyMongoError

from app.embedded import programs
from app.embedded.child import poll
from app.embedded.memory import compute_cache, find_memory
from app.embedded.server import START_TIMEOUT, Server
from app.errors import StartupError
from app.models.transactions import ABANDONED_SECONDS, SERVER_PARAMETER

REPLICA_SET = "eventr"
#: Compression of collections: level 3 is nearly as small as MongoDB's default 6, at a third of the CPU.
ZSTD_LEVEL = 3
#: Most connections, far more than all of our processes open; and sessions of the storage engine, which need
#: 1 KB each from the start. An operation uses one or two; MongoDB's default is 33,000.
CONNECTIONS, SESSIONS = 2000, 5000
#: Options of the storage engine: threads that evict pages start when they are needed.
ENGINE = f"session_max={SESSIONS},eviction=(threads_min=1,threads_max=4)"
#: Milliseconds between two flushes of the journal that nobody waits for. A write with ``j: true`` flushes at
#: once.
JOURNAL_MS = 500
#: Operations that take longer are logged, in milliseconds; and the most of one that is logged, in KB. With
#: MongoDB's values (100 and 10), a busy machine logged 12 MB an hour; with 500 and 1, slow operations were
#: most of what it logged. No operation takes longer than 5 s.
SLOW_MS, LINE_KB = 2000, 1
#: Bytes of freed memory that threads may keep for themselves; by default, MongoDB lets them keep 1 GB.
THREAD_CACHES = 32 << 20
#: Error codes of replSetGetConfig and replSetInitiate.
_NOT_YET_INITIALIZED, _ALREADY_INITIALIZED = 94, 23


class MongoDB(Server):
    """``mongod`` in the data folder. Its socket is 0700 in a 0700 folder, and it has no TCP port. So it needs
    no passwords (security.md J03), and two data folders never compete for a port."""

    name: ClassVar[str] = "mongodb"
    requirement: ClassVar[programs.ProgramRequirement] = programs.MONGOD

    @property
    def address(self) -> str:
        return self.layout.mongodb_uri

    def build_command(self, program: Path) -> Sequence[str]:
        options = {
            "--dbpath": str(self.data),
            "--bind_ip": str(self.layout.mongodb_socket),
            # mongod creates a second socket here, by default in /tmp. There, two concurrent starts
            # would collide, and another server of the user would lose its socket.
            "--unixSocketPrefix": str(self.layout.sockets),
            # Compressed messages leak memory before 6.0.27 (CVE-2025-14847), and a socket needs none.
            "--networkMessageCompressors": "disabled",
            "--replSet": REPLICA_SET,
            "--wiredTigerCacheSizeGB": f"{self._cache / (1 << 30):.2f}",
            # New collections only; both kinds can exist side by side. The journal keeps its format: after a
            # crash, a server that expects another one couldn't read it.
            "--wiredTigerCollectionBlockCompressor": "zstd",
            "--zstdDefaultCompressionLevel": str(ZSTD_LEVEL),
            "--wiredTigerEngineConfigString": ENGINE,
            "--maxConns": str(CONNECTIONS),
            "--journalCommitInterval": str(JOURNAL_MS),
            "--slowms": str(SLOW_MS),
            # A replica set of one needs its operation log only for transactions and change streams.
            "--oplogSize": "256",
        }
        parameters = {
            # Statistics for MongoDB's own support: 100 MB on disk and a write each second.
            "diagnosticDataCollectionEnabled": "false",
            SERVER_PARAMETER: str(ABANDONED_SECONDS),
            # Both are for other members, which this replica set doesn't have. An empty entry in the
            # operation log every ten seconds would cause a checkpoint each minute.
            "writePeriodicNoops": "false",
            "enableFlowControl": "false",
            # Nobody reads what documents were a while ago. Keeping that for five minutes doubled the writes.
            "minSnapshotHistoryWindowInSeconds": "0",
            "maxLogSizeKB": str(LINE_KB),
            "tcmallocMaxTotalThreadCacheBytes": str(THREAD_CACHES),
        }
        # Journaling is on by default, and 6.1 removed its option.
        given = [*options.items(), *(("--setParameter", f"{name}={at}") for name, at in parameters.items())]
        # Quiet: without a line for each connection that opens or closes.
        return [str(program), "--quiet", *(part for pair in given for part in pair)]

    @property
    def _cache(self) -> int:
        return self.settings.embedded_cache or compute_cache(find_memory())

    def clear(self) -> None:
        self.layout.mongodb_ready_socket.unlink(missing_ok=True)
        found = [each for each in self.data.iterdir() if each != self._unfinished]
        if not self._unfinished.exists():
            if not found:
                self._unfinished.touch()
            return
        # If its first start was interrupted, mongod may never start again, because creating the replica set
        # takes several steps. Before clients were let in there is nothing to lose.
        begun = self._unfinished.stat().st_mtime_ns
        if any(each.stat().st_mtime_ns < begun for each in found):
            self._finish()  # older than that start: a copy restored since then
            return
        for each in found:
            shutil.rmtree(each) if each.is_dir() else each.unlink()

    def is_responding(self) -> bool:
        # The driver waits half a second after a refused connection; a bare socket doesn't.
        with socket.socket(socket.AF_UNIX) as probe:
            probe.settimeout(1)
            try:
                probe.connect(str(self.layout.mongodb_socket))
            except OSError:
                return False
        try:
            with self._client() as client:
                client.admin.command("ping")
        except ConnectionFailure:
            return False
        return True

    def prepare(self) -> None:
        """Create the replica set at the first start, follow a moved data folder, wait for writability."""
        try:
            with self._client() as client:
                self._configure(client)
                ready = poll(
                    lambda: bool(client.admin.command("hello").get("isWritablePrimary")), START_TIMEOUT
                )
            if ready:
                self._open()
        except (PyMongoError, OSError) as e:
            raise self.build_failure() from e  # for example when the disk is full
        if not ready:
            raise StartupError(f"The embedded MongoDB doesn't accept writes. Check its log: {self.log_file}.")

    def shut_down(self) -> None:
        try:
            with self._client() as client:
                client.admin.command("shutdown", timeoutSecs=5)
        except ConnectionFailure:
            pass  # a shutdown closes the connection: success

    def _open(self) -> None:
        """Let clients connect.

        A member that has just started responds before it is readable. If the driver connects at that moment,
        it treats the connection as one without sessions and refuses transactions on it permanently. So no
        client may connect that early.
        """
        if self._unfinished.exists():
            self._finish()
        with contextlib.suppress(FileExistsError):  # it was found running, and is open already
            self.layout.mongodb_ready_socket.symlink_to(self.layout.mongodb_socket.name)

    def _finish(self) -> None:
        self._unfinished.unlink(missing_ok=True)
        _sync(self.data)  # after a power failure the file must not reappear next to data from clients

    def _configure(self, client: pymongo.MongoClient[Any]) -> None:
        host = str(self.layout.mongodb_socket)
        config = self._config(client) or self._initiate(client, host)
        if config is not None and config["members"][0]["host"] != host:
            # The data folder was moved, and the member is known by its socket's path. Force, because a node
            # that isn't in its own configuration is never primary.
            config["members"][0]["host"] = host
            config["version"] += 1
            client.admin.command("replSetReconfig", config, force=True)

    def _initiate(self, client: pymongo.MongoClient[Any], host: str) -> dict[str, Any] | None:
        """Create the replica set; if there is one that hadn't been read from the disk, return what it is."""
        members = [{"_id": 0, "host": host}]
        try:
            client.admin.command("replSetInitiate", {"_id": REPLICA_SET, "members": members})
        except OperationFailure as e:
            if e.code != _ALREADY_INITIALIZED:
                raise
            # On a busy machine, a member responds before it has read its configuration.
            poll(lambda: self._config(client) is not None, START_TIMEOUT)
            return self._config(client)
        return None

    @property
    def _unfinished(self) -> Path:
        """A file that exists while the data belongs to a first start that hasn't finished."""
        return self.data / "eventr.unfinished"

    def _config(self, client: pymongo.MongoClient[Any]) -> dict[str, Any] | None:
        try:
            config: dict[str, Any] = client.admin.command("replSetGetConfig")["config"]
        except OperationFailure as e:
            if e.code != _NOT_YET_INITIALIZED:
                raise
            return None
        return config

    def _client(self) -> pymongo.MongoClient[Any]:
        return pymongo.MongoClient(self.layout.mongodb_member_uri, serverSelectionTimeoutMS=2000)


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
