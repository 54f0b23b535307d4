"""Stores that respond but that Eventr can't use: every process, doctor and /readyz say why."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pymongo
import pytest
from click.testing import CliRunner
from pymongo.errors import OperationFailure, PyMongoError

from app import cli, create_app, embedded
from app.bootstrap import services as bootstrap
from app.commands import stores
from app.config import Settings
from app.embedded import programs
from app.errors import StartupError
from app.mappers.mongo import refusals
from app.monitoring import health
from tests.conftest import Eventually
from tests.support.imports import REPO

_PASSWORD = "a%20pass"
_STANDALONE = "MongoDB runs as a standalone server, but transactions need a replica set."


@pytest.fixture(scope="module")
def mongod(tmp_path_factory: pytest.TempPathFactory, eventually: Eventually) -> Iterator[str]:
    """A server without a replica set that requires a login; the end of its addresses, after the login."""
    folder = tmp_path_factory.mktemp("m")
    sock = folder / "m.sock"
    command = [programs.find_program(programs.MONGOD), "--dbpath", folder, "--bind_ip", sock, "--auth"]
    command += ["--unixSocketPrefix", folder, "--wiredTigerCacheSizeGB", "0.25", "--quiet"]
    place = f"{str(sock).replace('/', '%2F')}/?authSource=admin"
    with _running(command):

        def create_user() -> bool:
            try:
                with pymongo.MongoClient[Any](f"mongodb://{place}", serverSelectionTimeoutMS=500) as client:
                    client.admin.command("createUser", "eventr", pwd="a pass", roles=["root"])
            except PyMongoError as e:
                return isinstance(e, OperationFailure) and "already exists" in str(e)
            return True

        eventually(create_user, 60)
        yield place


@pytest.fixture(scope="module")
def redis_place(tmp_path_factory: pytest.TempPathFactory, eventually: Eventually) -> Iterator[str]:
    """A Redis with a password, and a user ``ping`` who may do nothing else; the end of its addresses."""
    folder = tmp_path_factory.mktemp("r")
    sock = folder / "r.sock"
    (folder / "redis.conf").write_text(
        f"port 0\nunixsocket {sock}\ndir {folder}\nrequirepass right\nuser ping on >right +ping +info\n"
    )
    with _running([programs.find_program(programs.REDIS), folder / "redis.conf"]):
        eventually(sock.exists, 30)
        yield str(sock)


@contextlib.contextmanager
def _running(command: list[Any]) -> Iterator[None]:
    process = subprocess.Popen([str(part) for part in command], stdout=subprocess.DEVNULL)
    try:
        yield
    finally:
        process.terminate()
        process.wait(60)


def _with_login(login: str, place: str) -> str:
    return f"mongodb://{login}{place}"


_RIGHT, _WRONG = f"eventr:{_PASSWORD}@", "eventr:wrong@"
_MONGODB = {_RIGHT: _STANDALONE, _WRONG: refusals.WRONG_PASSWORD, "": refusals.NO_PERMISSION}
_REDIS = {
    ":wrong@": "Redis rejects the user name or password. Check EVENTR_REDIS_URL.",
    "": "Redis needs a password. Add it to EVENTR_REDIS_URL",
    "ping:right@": "Redis doesn't let this user run all commands that Eventr needs.",
}


@pytest.mark.parametrize("login", _MONGODB)
def test_an_unusable_mongodb_is_named_at_the_start_by_doctor_and_by_readyz(
    settings: Settings, mongod: str, login: str
) -> None:
    wrong = dataclasses.replace(settings, mongodb_uri=_with_login(login, mongod))
    with pytest.raises(StartupError) as raised:
        stores.require_stores(wrong)
    assert raised.value.message.startswith(_MONGODB[login])
    failed = [found.text for found in health.check_mongodb(wrong) if found.word == "fail"]
    assert failed[0] == raised.value.message
    status, answer = _readyz(wrong)
    assert (status, answer["ready"], answer["missing"]) == (503, False, ["mongodb"])
    # "hello" needs no login, so that without one the first problem is the missing replica set.
    assert answer["problems"]["mongodb"] == (raised.value.message if login else refusals.STANDALONE)


@pytest.mark.parametrize("login", _REDIS)
def test_a_refused_redis_login_is_named_at_the_start_by_doctor_and_by_readyz(
    settings: Settings, redis_place: str, login: str
) -> None:
    wrong = dataclasses.replace(settings, redis_url=f"unix://{login}{redis_place}")
    with pytest.raises(StartupError) as raised:
        stores.require_stores(wrong)
    assert raised.value.message.startswith(_REDIS[login])
    assert "right" not in raised.value.message
    failed = [found.text for found in health.check_redis(wrong) if found.word == "fail"]
    assert failed == [raised.value.message]
    status, answer = _readyz(wrong)
    if not login.startswith("ping"):
        assert (status, answer["problems"]) == (503, {"redis": raised.value.message})


@pytest.mark.parametrize("name", ["up", "web", "updater", "controller", "manager"])
def test_no_process_starts_with_an_unusable_mongodb(
    servers: embedded.EmbeddedServers, mongod: str, tmp_path: Path, name: str
) -> None:
    environment = {
        "EVENTR_MONGODB_URI": _with_login(_RIGHT, mongod),
        "EVENTR_REDIS_URL": servers.redis_url,
        "EVENTR_HOME": str(tmp_path),
        "EVENTR_PORT": "0",
    }
    if name == "manager":  # its fork server must not become a child of the tests
        command = [sys.executable, "-m", "app", name]
        done = subprocess.run(
            command, cwd=REPO, env=environment, capture_output=True, text=True, timeout=100, check=False
        )
        code, text = done.returncode, done.stderr
    else:
        result = CliRunner().invoke(cli.cli, [name], env=environment)
        code, text = result.exit_code, str(result.exception) + result.output
    assert code == 1
    assert _STANDALONE in text
    assert _PASSWORD not in text
    assert "Traceback" not in text


def test_a_replica_set_that_is_not_initiated_is_told_from_a_lone_server() -> None:
    assert refusals.find_problem({"isreplicaset": True}) == refusals.UNINITIATED
    assert refusals.find_problem({"msg": "isdbgrid"}) is None


def _readyz(settings: Settings) -> tuple[int, dict[str, Any]]:
    with contextlib.closing(bootstrap.build(settings)) as services:
        answer = create_app(settings, services).test_client().get("/readyz")
        assert answer.headers.get("Retry-After") == ("10" if answer.status_code == 503 else None)
        return answer.status_code, json.loads(answer.data)
