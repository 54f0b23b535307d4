"""Three real mongods on loopback, as one replica set whose members elect a new primary within seconds."""

from __future__ import annotations

import contextlib
import dataclasses
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pymongo
from pymongo.errors import AutoReconnect, PyMongoError

from app.embedded import programs
from app.embedded.child import poll
from tests.support.up import free_port

NAME = "three"
#: A figure for the hung, not for the slow, in seconds.
PATIENCE = 120.0
#: Without a sign of the primary for so long, the others elect a new one.
ELECTION_MS = 1000
#: For so long a primary is alone before it is killed, in seconds; it doesn't notice yet.
ALONE = 0.5


@dataclasses.dataclass
class Member:
    """One mongod with its own folder and port."""

    program: Path
    folder: Path
    port: int
    process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it, again on its old data."""
        self.folder.mkdir(exist_ok=True)
        words = ["--dbpath", self.folder, "--port", self.port, "--bind_ip", "127.0.0.1", "--replSet", NAME]
        words += ["--wiredTigerCacheSizeGB", "0.25", "--oplogSize", 64, "--nounixsocket", "--quiet"]
        words += ["--networkMessageCompressors", "disabled"]
        for parameter in ("diagnosticDataCollectionEnabled=false", "enableTestCommands=1"):
            words += ["--setParameter", parameter]
        log = self.folder / "mongod.log"
        with log.open("ab") as output:
            self.process = subprocess.Popen([self.program, *map(str, words)], stdout=output, stderr=output)

    def set_fetching(self, on: bool) -> None:
        """Let it follow the primary, or not; it lives on and votes either way."""
        with pymongo.MongoClient[Any](self.address, directConnection=True) as client:
            mode = "off" if on else "alwaysOn"
            client.admin.command("configureFailPoint", "stopReplProducer", mode=mode)

    def send(self, number: signal.Signals) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    def kill(self) -> None:
        if self.process is not None:
            self.send(signal.SIGKILL)
            self.process.wait()


class ReplicaSet:
    """The three, and blows against their primary."""

    def __init__(self, folder: Path) -> None:
        program, port = programs.find_program(programs.MONGOD), free_port(3)
        self.members = [Member(program, folder / str(n), port + n) for n in range(3)]
        self.client = pymongo.MongoClient[Any](self.uri, tz_aware=True, connect=False)

    def start(self) -> None:
        """Start the three and make them one replica set."""
        for member in self.members:
            member.start()
        hosts = [{"_id": n, "host": member.address} for n, member in enumerate(self.members)]
        for member in self.members[1:]:  # all are asked whether they take part
            with pymongo.MongoClient[Any](member.address, directConnection=True) as client:
                assert poll(lambda client=client: _responds(client), PATIENCE)
        with pymongo.MongoClient[Any](self.members[0].address, directConnection=True) as client:
            assert poll(lambda: _responds(client), PATIENCE)
            timing = {"electionTimeoutMillis": ELECTION_MS, "heartbeatIntervalMillis": 200}
            client.admin.command("replSetInitiate", {"_id": NAME, "members": hosts, "settings": timing})
        self.wait_whole()

    @property
    def uri(self) -> str:
        return f"mongodb://{','.join(m.address for m in self.members)}/?replicaSet={NAME}"

    def wait_whole(self) -> None:
        """Wait until one member is primary, and the others follow it."""
        assert poll(lambda: sorted(self._states()) == ["PRIMARY", "SECONDARY", "SECONDARY"], PATIENCE)

    def step_down(self) -> None:
        """Let the primary hand over; it isn't elected again for ten seconds."""
        before = self._primary()
        with contextlib.suppress(AutoReconnect):
            self.client.admin.command("replSetStepDown", 10, secondaryCatchUpPeriodSecs=5)
        self._wait_for_other(before)

    def kill_primary(self) -> None:
        """Kill the primary, wait for another one, and start the dead one again.

        Before that the others fetch nothing for a moment: what the primary alone has then dies with it.
        """
        before = self._primary()
        others = [member for member in self.members if member is not before]
        for member in others:
            member.set_fetching(False)
        poll(lambda: False, ALONE)
        before.kill()
        for member in others:
            member.set_fetching(True)
        self._wait_for_other(before)
        before.start()

    def close(self) -> None:
        self.client.close()
        for member in self.members:
            member.kill()

    def _primary(self) -> Member:
        found: list[Member] = []

        def elected() -> bool:
            address = self.client.primary
            found[:] = [m for m in self.members if address and m.port == address[1]]
            return bool(found)

        assert poll(elected, PATIENCE)
        return found[0]

    def _wait_for_other(self, before: Member) -> None:
        assert poll(lambda: self._primary() is not before and "PRIMARY" in self._states(), PATIENCE)

    def _states(self) -> list[str]:
        try:
            return [m["stateStr"] for m in self.client.admin.command("replSetGetStatus")["members"]]
        except PyMongoError:
            return []


def _responds(client: pymongo.MongoClient[Any]) -> bool:
    try:
        return bool(client.admin.command("ping")["ok"])
    except PyMongoError:
        return False


@contextlib.contextmanager
def running() -> Iterator[ReplicaSet]:
    """Yield three members with new data, in memory where there is some: each election waits for the disk."""
    shared = Path("/dev/shm")
    folder = Path(tempfile.mkdtemp(prefix="eventr-members-", dir=shared if shared.is_dir() else None))
    replica_set = ReplicaSet(folder)
    try:
        replica_set.start()
        yield replica_set
    finally:
        replica_set.close()
        shutil.rmtree(folder, ignore_errors=True)
