"""The embedded servers: started, found again, moved, crashed, refused."""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import json
import os
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pymongo
import pytest
import redis

from app import embedded
from app.config import Settings
from app.embedded import child, mongodb, programs, server
from app.embedded.memory import compute_cache, find_memory
from app.errors import StartupError, StoreError
from app.mappers.mongo.store import Session, Store
from app.runtime import redis_errors
from tests.support.refusal import refusing

Eventually = Callable[..., object]


@pytest.fixture
def home() -> Iterator[Settings]:
    """Settings on a new, short folder."""
    folder = Path(tempfile.mkdtemp(prefix="eventr-home-"))
    yield Settings(home=folder / "var", embedded_cache=1 << 28)
    shutil.rmtree(folder)


def _write(running: embedded.EmbeddedServers) -> None:
    with pymongo.MongoClient(running.mongodb_uri) as client:
        client["kept"]["one"].insert_one({"_id": 1})
    with redis.Redis.from_url(running.redis_url) as store:
        store.set("kept", "yes")


def _assert_kept(running: embedded.EmbeddedServers) -> None:
    with pymongo.MongoClient(running.mongodb_uri) as client:
        assert client["kept"]["one"].find_one() == {"_id": 1}
    with redis.Redis.from_url(running.redis_url) as store:
        assert store.get("kept") == b"yes"


def test_mongodb_has_transactions_and_change_streams(servers: embedded.EmbeddedServers) -> None:
    with pymongo.MongoClient(servers.mongodb_uri) as client:
        with client.start_session() as session, session.start_transaction():
            client["probe"]["one"].insert_one({"a": 1}, session=session)
        with client["probe"]["one"].watch() as changes:
            client["probe"]["one"].insert_one({"a": 2})
            assert changes.next()["fullDocument"]["a"] == 2
        client.drop_database("probe")


def test_a_mongodb_that_is_not_ready_cannot_be_reached(home: Settings, eventually: Eventually) -> None:
    """As after each start, for a moment: a connection made then would refuse transactions for good."""
    mongodb = embedded.MongoDB(home)
    with contextlib.closing(Store(mongodb.address, "kept")) as early:
        for number in range(2):
            mongodb.start()
            try:
                eventually(mongodb.is_responding)
                with pymongo.timeout(0.3), pytest.raises(StoreError):
                    early.ping()
                mongodb.prepare()
                eventually(lambda: _answers(early))
                early.run_in_transaction(lambda session, key=number: _insert(early, key, session))
                assert early.database["one"].count_documents({}) == number + 1
                assert mongodb.process is not None
                mongodb.process.kill()
            finally:
                mongodb.stop()


def test_a_mongodb_that_has_not_read_its_configuration_is_not_created_again(
    home: Settings, eventually: Eventually
) -> None:
    """On a busy machine, a started server says for a moment that it is in no replica set."""

    class Late(embedded.MongoDB):
        asked = 0

        def _config(self, client: Any) -> dict[str, Any] | None:
            self.asked += 1
            return None if self.asked == 1 else super()._config(client)

    for kind in (embedded.MongoDB, Late):
        mongodb = kind(home)
        mongodb.start()
        try:
            eventually(mongodb.is_responding)
            mongodb.prepare()
            with contextlib.closing(Store(mongodb.address, "kept")) as store:
                store.run_in_transaction(lambda session, key=kind.__name__: _insert(store, key, session))
        finally:
            mongodb.stop()


def _insert(at: Store, key: int | str, session: Session) -> None:
    at.database["one"].insert_one({"_id": key}, session=session)


def _answers(at: Store) -> bool:
    with contextlib.suppress(StoreError):
        at.ping()
        return True
    return False


def test_J02_redis_has_no_port_a_private_socket_and_loses_nothing(servers: embedded.EmbeddedServers) -> None:
    with redis.Redis.from_url(servers.redis_url) as store:
        config = {
            name: store.config_get(name)[name]
            for name in ("port", "appendonly", "appendfsync", "maxmemory-policy", "unixsocket")
        }
    socket = Path(config.pop("unixsocket"))
    assert config == {
        "port": "0",
        "appendonly": "yes",
        "appendfsync": "everysec",
        "maxmemory-policy": "noeviction",
    }
    assert stat.S_IMODE(socket.stat().st_mode) == 0o600
    assert stat.S_IMODE(socket.parent.stat().st_mode) == 0o700


def test_J03_mongodb_listens_on_a_private_socket_alone(servers: embedded.EmbeddedServers) -> None:
    with pymongo.MongoClient(servers.mongodb_uri) as client:
        options = client.admin.command("getCmdLineOpts")["parsed"]
    socket = Path(options["net"]["bindIp"])
    assert socket.is_absolute()
    assert stat.S_IMODE(socket.stat().st_mode) == 0o700
    assert stat.S_IMODE(socket.parent.stat().st_mode) == 0o700
    assert options["net"]["compression"]["compressors"] == "disabled", "CVE-2025-14847"
    assert options["storage"]["wiredTiger"]["engineConfig"]["cacheSizeGB"] == 0.25
    mongod = psutil.Process(next(each for each in servers.servers if each.name == "mongodb").process.pid)
    heard = [each.laddr for each in mongod.net_connections("all") if each.laddr]
    assert {Path(address).parent for address in heard} == {socket.parent}, "nowhere else, as in /tmp"


def test_mongodb_compresses_collections_and_needs_little_memory(servers: embedded.EmbeddedServers) -> None:
    with pymongo.MongoClient(servers.mongodb_uri) as client:
        client["probe"]["one"].insert_one({"a": 1})
        kept = client["probe"].command("collStats", "one")["wiredTiger"]["creationString"]
        connections = client.admin.command("serverStatus")["connections"]
        given = client.admin.command("getParameter", tcmallocMaxTotalThreadCacheBytes=1)
        client.drop_database("probe")
    assert "block_compressor=zstd" in kept
    assert connections["current"] + connections["available"] == mongodb.CONNECTIONS
    assert int(given["tcmallocMaxTotalThreadCacheBytes"]) == mongodb.THREAD_CACHES


def test_stores_at_rest_wake_up_rarely(servers: embedded.EmbeddedServers) -> None:
    window = "minSnapshotHistoryWindowInSeconds"
    names = ("journalCommitInterval", "writePeriodicNoops", "enableFlowControl", "maxLogSizeKB", window)
    with pymongo.MongoClient(servers.mongodb_uri) as client:
        given = {name: client.admin.command("getParameter", **{name: 1})[name] for name in names}
        assert client["probe"].command("profile", -1)["slowms"] == mongodb.SLOW_MS
    assert given == {
        "journalCommitInterval": mongodb.JOURNAL_MS,
        "writePeriodicNoops": False,
        "enableFlowControl": False,
        window: 0,
        "maxLogSizeKB": mongodb.LINE_KB,
    }
    with redis.Redis.from_url(servers.redis_url) as store:
        assert store.config_get("hz") == {"hz": "1"}
    assert "serverMonitoringMode=poll" in servers.mongodb_uri


def test_mongodb_logs_one_line_per_connection(home: Settings) -> None:
    """Otherwise it logs three, which was most of its log while processes were killed."""
    with embedded.start_servers(home) as running:
        (server,) = (each for each in running.servers if each.name == "mongodb")
        before = server.log_file.stat().st_size
        for number in range(5):
            with pymongo.MongoClient(running.mongodb_uri) as client:
                client["kept"]["one"].insert_one({"_id": number})
        written = server.log_file.read_bytes()[before:]
    messages = {json.loads(line)["msg"] for line in written.splitlines()}
    assert "client metadata" in messages, "which can't be turned off"
    assert not messages & {"Connection accepted", "Connection ended"}


def test_without_a_setting_mongodb_gets_its_share_of_the_memory(home: Settings) -> None:
    command = embedded.MongoDB(dataclasses.replace(home, embedded_cache=0)).build_command(Path("mongod"))
    wanted = compute_cache(find_memory()) / (1 << 30)
    assert command[command.index("--wiredTigerCacheSizeGB") + 1] == f"{wanted:.2f}"


def test_data_outlives_a_stop_a_kill_and_a_move(home: Settings, eventually: Eventually) -> None:
    with embedded.start_servers(home) as running:
        _write(running)
    with embedded.start_servers(home) as running:
        _assert_kept(running)
        for each in running.servers:
            assert each.process is not None
            each.process.kill()
            each.process.wait()
        assert embedded.Layout.from_settings(home).redis_socket.exists(), "a kill leaves the socket behind"
    moved = dataclasses.replace(home, home=home.home.parent / "moved")
    home.home.rename(moved.home)
    with embedded.start_servers(moved) as running:
        _assert_kept(running)
        with pymongo.MongoClient(running.mongodb_uri) as client:
            assert client.admin.command("hello")["isWritablePrimary"]


def test_a_first_start_that_was_cut_off_is_begun_anew(home: Settings, eventually: Eventually) -> None:
    """By Ctrl-C or a kill: MongoDB does not start again on a replica set that was made by half."""
    mongodb = embedded.MongoDB(home)
    mongodb.start()
    try:
        eventually(mongodb.is_responding)
    finally:
        mongodb.stop()
    _damage(mongodb.data)
    with embedded.start_servers(home) as running:
        _write(running)
    with embedded.start_servers(home) as running:
        _assert_kept(running)


def test_a_copy_put_into_a_home_whose_first_start_failed_is_kept(
    home: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    with embedded.start_servers(home) as running:
        _write(running)
    layout, new = (
        embedded.Layout.from_settings(home),
        dataclasses.replace(home, home=home.home.parent / "new"),
    )
    with monkeypatch.context() as patch:
        patch.setattr(
            embedded.MongoDB,
            "requirement",
            dataclasses.replace(programs.MONGOD, program="none", package="none"),
        )
        with pytest.raises(StartupError, match="Can't find none on PATH"):
            embedded.start_servers(new)
    shutil.copytree(layout.home / "data", new.home / "data", dirs_exist_ok=True)
    with embedded.start_servers(new) as running:
        _assert_kept(running)
    assert not (new.home / "data/mongodb/eventr.unfinished").exists()


def test_no_data_are_thrown_away_that_anybody_could_write(home: Settings) -> None:
    with embedded.start_servers(home):
        pass
    damaged = _damage(embedded.MongoDB(home).data)
    with pytest.raises(StartupError, match=r"embedded MongoDB didn't start.*mongodb\.log"):
        embedded.start_servers(home)
    assert damaged.exists()


def _damage(data: Path) -> Path:
    """Make MongoDB refuse to start on these data."""
    catalog = data / "WiredTiger.turtle"
    assert catalog.exists()
    catalog.write_text("nonsense")
    return catalog


def test_running_servers_are_found_and_left_alone(home: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "ORPHAN_AFTER", 0.1)
    with embedded.start_servers(home) as running:
        before = [each.process and each.process.pid for each in running.servers]
        with embedded.start_servers(home) as found:
            assert [each.process for each in found.servers] == [None, None], "never two on one folder"
            _write(found)
        with embedded.use_servers(home) as settings:
            assert settings.mongodb_uri == running.mongodb_uri
        _assert_kept(running)
        assert [each.process and each.process.poll() for each in running.servers] == [None, None]
        assert all(before)


def test_found_servers_are_stopped_when_asked(home: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "ORPHAN_AFTER", 0.1)
    with embedded.start_servers(home) as running:
        embedded.start_servers(home).stop(include_found=True)
        assert [each.process and each.process.wait(30) for each in running.servers] == [0, 0]


def test_a_folder_held_by_a_stranger_is_refused(home: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "ORPHAN_AFTER", 0.1)
    monkeypatch.setattr(server, "STOP_TIMEOUT", 0.1)
    layout = embedded.Layout.from_settings(home)
    layout.make_folders()
    held = child.try_lock(layout.get_lock_path("redis"))
    assert held is not None
    with pytest.raises(StartupError, match=r"Another process uses .*redis and isn't responding"):
        embedded.Redis(home).start()
    os.close(held)


@pytest.mark.parametrize("kind", [embedded.MongoDB, embedded.Redis])
@pytest.mark.parametrize("what", ["lock", "data"])
def test_what_a_server_cannot_open_is_named(home: Settings, kind: type[embedded.Server], what: str) -> None:
    """Such as what a command run by the administrator left. What is of a wrong kind fails for him, too."""
    wanted, layout = kind(home), embedded.Layout.from_settings(home)
    layout.make_folders()
    path = layout.get_lock_path(wanted.name) if what == "lock" else layout.get_data_dir(wanted.name)
    path.mkdir() if what == "lock" else path.touch()
    with pytest.raises(StartupError, match=f"^Can't (open|use) {path} "):
        wanted.start()


def test_a_mongodb_whose_data_cannot_be_looked_at_is_named(
    home: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(self: Path) -> Iterator[Path]:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(self))

    monkeypatch.setattr(Path, "iterdir", refused)
    with pytest.raises(StartupError, match=r"Can't use .*data/mongodb \(Permission denied\)"):
        embedded.MongoDB(home).start()


def test_a_home_whose_run_folder_was_taken_away_still_has_one_instance(home: Settings) -> None:
    with embedded.hold_instance_lock(home) as layout:
        shutil.rmtree(layout.run)
        with pytest.raises(StartupError, match=f"already running .*process {os.getpid()}"):
            embedded.hold_instance_lock(home).__enter__()


def test_servers_end_with_a_killed_parent(home: Settings, eventually: Eventually) -> None:
    code = (
        "import pathlib, signal\nfrom app import config, embedded\n"
        f"embedded.start_servers(config.Settings(home=pathlib.Path({str(home.home)!r})))\nsignal.pause()\n"
    )
    store, mongo = embedded.Redis(home), embedded.MongoDB(home)
    parent = subprocess.Popen([sys.executable, "-c", code])
    eventually(lambda: store.is_responding() and mongo.is_responding())
    parent.kill()
    parent.wait()
    eventually(lambda: not store.is_responding() and not mongo.is_responding())
    with embedded.start_servers(home) as again:
        _write(again)


def test_using_starts_servers_for_a_command_and_stops_them(home: Settings) -> None:
    with embedded.use_servers(home) as settings:
        assert embedded.Redis(home).is_responding()
        assert settings.redis_url == embedded.Layout.from_settings(home).redis_url
    assert not embedded.Redis(home).is_responding()


def test_a_redis_that_refuses_to_write_answers(servers: embedded.EmbeddedServers) -> None:
    """Else a second one would be started beside it."""
    with redis.Redis.from_url(servers.redis_url) as client, refusing(servers.redis_url):
        with pytest.raises(redis.ResponseError, match="MISCONF"):
            client.ping()
        with client.pipeline(transaction=False) as pipe, pytest.raises(redis.ResponseError) as refused:
            pipe.set("key", "value").execute()
        assert redis_errors.describe_outage(refused.value) == "MISCONF"
        assert all(server.is_responding() for server in servers.servers)
        with embedded.use_servers(servers.settings) as settings:
            assert settings.redis_url == servers.redis_url


def test_set_addresses_mean_servers_of_others(home: Settings) -> None:
    theirs = dataclasses.replace(home, mongodb_uri="mongodb://db.example", redis_url="redis://r.example")
    with embedded.start_servers(theirs) as running:
        assert running.servers == ()
        assert (running.mongodb_uri, running.redis_url) == (theirs.mongodb_uri, theirs.redis_url)


def test_a_long_home_gets_a_short_private_folder_for_its_sockets(home: Settings) -> None:
    long = dataclasses.replace(home, home=home.home / ("x" * 60) / ("y" * 60))
    layout = embedded.Layout.from_settings(long)
    layout.make_folders()
    assert len(os.fsencode(layout.mongodb_socket)) < 108
    assert stat.S_IMODE(layout.sockets.stat().st_mode) == 0o700
    redis_server = embedded.Redis(long)
    redis_server.start()
    redis_server.wait()
    redis_server.stop()
    shutil.rmtree(layout.sockets)


def test_a_folder_of_somebody_else_is_refused(home: Settings) -> None:
    home.home.mkdir()
    os.chown(home.home, 12345, 12345) if os.getuid() == 0 else home.home.chmod(0o500)
    with pytest.raises(StartupError, match="EVENTR_HOME"):
        embedded.Layout.from_settings(home).make_folders()


def test_a_run_folder_of_the_system_is_refused_before_anything_is_made(home: Settings) -> None:
    home.home.mkdir()
    (home.home / "run").mkdir()
    (home.home / "run").chmod(0o755)
    with pytest.raises(StartupError, match=r"run chmod 700 on it\. Otherwise, set EVENTR_HOME"):
        embedded.Layout.from_settings(home).make_folders()
    assert [path.name for path in home.home.iterdir()] == ["run"]
    assert stat.S_IMODE((home.home / "run").stat().st_mode) == 0o755


def _program(folder: Path, script: str) -> programs.ProgramRequirement:
    folder.mkdir(exist_ok=True)
    path = folder / "redis-server"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return dataclasses.replace(programs.REDIS, package="no_such_package")


@pytest.mark.parametrize(
    ("script", "sentence"),
    [
        (
            "echo 'Redis server v=5.0.7 sha=0'",
            r"redis-server is version 5\.0\.7\. Eventr needs 6\.2 or newer",
        ),
        (
            "echo 'error while loading shared libraries: libssl.so.9: cannot open' >&2; exit 127",
            r"Can't run .*redis-server: error while loading shared libraries: libssl\.so\.9",
        ),
        ("exit 0", r"Can't run .*redis-server: no error message"),
    ],
)
def test_a_server_that_will_not_do_is_named_with_the_way_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, sentence: str
) -> None:
    wanted = _program(tmp_path / "bin", script)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    with pytest.raises(StartupError, match=sentence) as caught:
        programs.find_program(wanted)
    assert "EVENTR_REDIS_URL" in caught.value.message


def test_without_any_server_the_way_out_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(
        StartupError, match=r"Can't find mongod on PATH.*Install MongoDB 6\.0.*EVENTR_MONGODB_URI"
    ):
        programs.find_program(dataclasses.replace(programs.MONGOD, package="no_such_package"))


def test_an_old_server_on_path_does_not_hide_the_shipped_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    _program(tmp_path / "bin", "echo 'Redis server v=5.0.7 sha=0'")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    assert programs.find_program(programs.REDIS).parent != tmp_path / "bin"


def test_a_mongodb_that_dies_once_it_answers_names_its_log(home: Settings, eventually: Eventually) -> None:
    """As on a disk that is nearly full, where it ends over its first writes."""
    mongodb = embedded.MongoDB(home)
    mongodb.start()
    try:
        eventually(mongodb.is_responding)
        assert mongodb.process is not None
        mongodb.process.kill()
        mongodb.process.wait()
        with pytest.raises(StartupError, match=r"MongoDB didn't start\. Check its log: .*mongodb\.log"):
            mongodb.prepare()
    finally:
        mongodb.stop()


def test_a_server_that_dies_at_start_names_its_log(home: Settings) -> None:
    embedded.Layout.from_settings(home).make_folders()
    data = embedded.Layout.from_settings(home).get_data_dir("redis")
    data.mkdir()
    (data / "appendonly.aof").write_bytes(b"*1\r\n$5\r\nnonsense that is no such file\r\n" * 3)
    with pytest.raises(StartupError, match=r"embedded Redis didn't start.*redis\.log"):
        embedded.start_servers(home)
    assert not embedded.MongoDB(home).is_responding(), "what was started beside it is stopped again"
