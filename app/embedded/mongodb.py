"""The embedded MongoDB: a replica set of one, reachable by its unix socket alone."""

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
from app.embedded.server import START_TIMEOUT, Server
from app.errors import StartupError
from app.models.transactions import ABANDONED_SECONDS, SERVER_PARAMETER

REPLICA_SET = "eventr"
_NOT_YET_INITIALIZED = 94  # error code of replSetGetConfig


class MongoDB(Server):
    """``mongod`` below HOME. Its socket is 0700 in a 0700 folder, and it has no TCP port, so it needs
    no passwords (security.md J03) and no two homes can meet on a port."""

    name: ClassVar[str] = "mongodb"
    requirement: ClassVar[programs.ProgramRequirement] = programs.MONGOD

    @property
    def address(self) -> str:
        return self.layout.mongodb_uri

    def build_command(self, program: Path) -> Sequence[str]:
        options = {
            "--dbpath": str(self.data),
            "--bind_ip": str(self.layout.mongodb_socket),
            # Where it makes a further socket, which is in /tmp otherwise: whoever starts at the same moment
            # fails over that, and whoever has a server of their own there loses it.
            "--unixSocketPrefix": str(self.layout.sockets),
            "--replSet": REPLICA_SET,
            "--wiredTigerCacheSizeGB": f"{self.settings.embedded_cache / (1 << 30):.2f}",
            # A replica set of one needs its operation log for transactions and change streams only.
            "--oplogSize": "256",
        }
        parameters = {
            # Statistics for MongoDB's own support: 100 MB on disk and a write each second.
            "diagnosticDataCollectionEnabled": "false",
            SERVER_PARAMETER: str(ABANDONED_SECONDS),
        }
        # Journaling is on by default, and 6.1 removed the option that said so.
        given = [*options.items(), *(("--setParameter", f"{name}={at}") for name, at in parameters.items())]
        return [str(program), *(part for pair in given for part in pair)]

    def clear(self) -> None:
        self.layout.mongodb_ready_socket.unlink(missing_ok=True)
        found = [each for each in self.data.iterdir() if each != self._unfinished]
        if not self._unfinished.exists():
            if not found:
                self._unfinished.touch()
            return
        # Ended in the middle of its first start, it may never start again: the replica set is made in
        # several steps. Until clients are let in there is nothing to lose.
        begun = self._unfinished.stat().st_mtime_ns
        if any(each.stat().st_mtime_ns < begun for each in found):
            self._finish()  # older than that start: a copy that was put there since
            return
        for each in found:
            shutil.rmtree(each) if each.is_dir() else each.unlink()

    def is_responding(self) -> bool:
        # The driver waits half a second after a refused connection; a bare socket does not.
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
        """Make the replica set at the first start, follow a moved home, wait until it takes writes."""
        try:
            with self._client() as client:
                self._configure(client)
                ready = poll(
                    lambda: bool(client.admin.command("hello").get("isWritablePrimary")), START_TIMEOUT
                )
            if ready:
                self._open()
        except (PyMongoError, OSError) as e:
            raise self.build_failure() from e  # as on a disk that is full by now
        if not ready:
            raise StartupError(f"The embedded MongoDB doesn't accept writes. Check its log: {self.log_file}.")

    def shut_down(self) -> None:
        try:
            with self._client() as client:
                client.admin.command("shutdown", timeoutSecs=5)
        except ConnectionFailure:
            pass  # that is how it answers: it is gone

    def _open(self) -> None:
        """Let clients in.

        A member that has just started answers before it is readable. The driver takes a connection of
        that moment for one without sessions and refuses transactions on it for good: it must not be made.
        """
        if self._unfinished.exists():
            self._finish()
        with contextlib.suppress(FileExistsError):  # found running, and opened by who started it
            self.layout.mongodb_ready_socket.symlink_to(self.layout.mongodb_socket.name)

    def _finish(self) -> None:
        self._unfinished.unlink(missing_ok=True)
        _sync(self.data)  # after a loss of power it must not be there again, beside what clients wrote

    def _configure(self, client: pymongo.MongoClient[Any]) -> None:
        host = str(self.layout.mongodb_socket)
        config = self._config(client)
        if config is None:
            members = [{"_id": 0, "host": host}]
            client.admin.command("replSetInitiate", {"_id": REPLICA_SET, "members": members})
        elif config["members"][0]["host"] != host:
            # The home was moved: the member is known by its socket's path. Force, since a node that
            # does not find itself in its configuration is no primary.
            config["members"][0]["host"] = host
            config["version"] += 1
            client.admin.command("replSetReconfig", config, force=True)

    @property
    def _unfinished(self) -> Path:
        """There as long as the data are those of a first start that has not come to its end."""
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
