"""Who may talk to a manager, and how much of anybody it bears (security.md J04); on the real process."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import os
import socket
import stat
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from app.config import Settings
from app.errors import SettingsError, StartupError
from queue_manager.control import listen, peers
from queue_manager.control import server as control
from queue_manager.control.commands import TABLE, Commands
from tests.jobs import repl, support
from tests.jobs.conftest import Engine

Eventually = Callable[..., Any]

#: Any free port: it is read from the manager's log.
SETTINGS = {"repl_listen": "127.0.0.1:0"}


@pytest.fixture
def pid(engine: Engine, eventually: Eventually) -> int:
    """The manager's process id, when it can be talked to and nobody else does."""
    path = listen.get_socket_path(engine.settings, engine.manager.pid)
    eventually(path.exists)
    eventually(lambda: _is_free(engine.settings, engine.manager.pid))
    return engine.manager.pid


def _is_free(settings: Settings, pid: int) -> bool:
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(repl.client(settings, pid)) for _ in range(control.CLIENTS_MAX)]
        return all((client.read() or {}).get("ok") for client in clients)


@contextlib.contextmanager
def _port(engine: Engine) -> Iterator[repl.Client]:
    lines = [line for line in engine.manager.log.read_text().splitlines() if " repl_listens " in line]
    port = int(lines[0].rpartition("port=")[2])
    with contextlib.closing(repl.Client(socket.create_connection(("127.0.0.1", port)))) as made:
        yield made


def _log(engine: Engine) -> str:
    return engine.manager.log.read_text()


def test_J04_the_socket_is_for_this_user_alone(engine: Engine, pid: int) -> None:
    path = listen.get_socket_path(engine.settings, pid)
    assert stat.S_ISSOCK(path.stat().st_mode)
    assert (repl.mode(path), repl.mode(path.parent)) == (0o600, 0o700)
    assert repl.mode(listen.get_token_path(engine.settings)) == 0o600


_OTHER_USER = """
import os, socket, sys
if os.geteuid() == 0:
    os.setgroups([]); os.setgid(65534); os.setuid(65534)
line = socket.socket(socket.AF_UNIX)
line.settimeout(20)
try:
    line.connect(sys.argv[1])
    line.sendall(b'{"id": 1, "cmd": ["status"]}\\n')
    print(len(line.recv(1)))
except PermissionError:
    print("refused")
except ConnectionError:
    print(0)
"""


def _as_nobody(path: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-I", "-c", _OTHER_USER, str(path)], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_J04_another_user_is_refused_even_when_all_modes_are_open(
    engine: Engine, pid: int, eventually: Eventually, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """As root this starts a process of another user; else only the rule itself can be shown."""
    assert not peers.is_trusted(os.geteuid() + 1)
    assert peers.is_trusted(0)
    assert peers.is_trusted(os.geteuid())
    if os.geteuid() != 0:
        return
    path = listen.get_socket_path(engine.settings, pid)
    assert _as_nobody(path) == "refused"
    opened = [path, path.parent, path.parent.parent, *_private_parents(path.parent.parent)]
    modes = {where: repl.mode(where) for where in opened}
    try:
        for where in opened:
            where.chmod(0o777)
        assert _as_nobody(path) == "0"
    finally:
        for where, mode in modes.items():
            where.chmod(mode)
    eventually(lambda: "repl_refused reason=user via=unix uid=65534" in _log(engine))
    with repl.greeted(engine.settings, pid) as client:
        assert client.ask("help")["ok"]


def _private_parents(folder: Path) -> list[Path]:
    return [parent for parent in folder.parents if not parent.stat().st_mode & stat.S_IXOTH]


def test_J04_a_hundred_wrong_tokens_open_nothing(engine: Engine, pid: int, eventually: Eventually) -> None:
    right = listen.get_token_path(engine.settings).read_text()
    assert len(bytes.fromhex(right)) * 8 == 256
    before = _log(engine).count("reason=token")
    guesses = [right[:-1], right + "0", "", *(f"{n:064x}" for n in range(97))]
    for guess in guesses:
        with _port(engine) as client:
            client.send(f"AUTH {guess}\n".encode())
            assert client.rest() == b""
    eventually(lambda: _log(engine).count("reason=token") == before + 100)
    with _port(engine) as client:
        client.send(f"AUTH {right}\n".encode())
        assert client.read()["result"]["pid"] == pid
        assert client.ask("queues")["ok"]
    assert right not in _log(engine)


@pytest.mark.parametrize(
    "said",
    [
        b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 32\r\n\r\n"
        + b'{"id": 1, "cmd": ["drop", "all"]}\n',
        b"GET /?cmd=status HTTP/1.0\r\n\r\n",
        b'{"id": 1, "cmd": ["status"]}\n',
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\n",
        b"A" * 100_000,
    ],
)
def test_J04_what_is_no_token_gets_no_byte(engine: Engine, pid: int, said: bytes) -> None:
    before = repl.audit(engine.manager)
    with _port(engine) as client:
        with contextlib.suppress(ConnectionError):  # it may have hung up in the middle
            client.send(said)
        assert client.rest() == b""
    assert repl.audit(engine.manager) == before


def test_J04_who_keeps_the_token_back_keeps_nobody_else_out(engine: Engine, pid: int) -> None:
    token = listen.get_token_path(engine.settings).read_text().encode()
    with contextlib.ExitStack() as stack:
        for _ in range(control.CLIENTS_MAX + 2):
            stack.enter_context(_port(engine)).send(b"AUTH ")
        with _port(engine) as client:
            client.send(b"AUTH " + token + b"\n")
            assert client.read()["ok"]


@pytest.mark.parametrize(
    "address", ["0.0.0.0:7117", "[::]:7117", ":7117", "192.0.2.1:7117", "localhost:7117"]
)
def test_J04_only_loopback_is_listened_on(settings: Settings, address: str) -> None:
    with pytest.raises(SettingsError, match="EVENTR_REPL_LISTEN must be a loopback address"):
        dataclasses.replace(settings, repl_listen=address)
    done = subprocess.run(
        [sys.executable, "-m", "app", "manager"],
        cwd=support.REPO,
        env={**os.environ, "EVENTR_REPL_LISTEN": address, "EVENTR_HOME": str(settings.home)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, "loopback" in done.stderr) == (1, True)


def test_J04_the_port_is_closed_unless_asked_for() -> None:
    assert Settings().repl_listen == ""


def test_J04_a_line_of_a_megabyte_is_not_taken(engine: Engine, pid: int) -> None:
    memory = psutil.Process(pid).memory_info().rss
    with repl.greeted(engine.settings, pid) as client:
        with contextlib.suppress(ConnectionError):
            client.send(b'{"id": 1, "cmd": ["' + b"x" * (1 << 20))
        answer = client.rest()
    assert b"at most 4096 bytes" in answer
    assert psutil.Process(pid).memory_info().rss - memory < 4 << 20
    # The longest line is taken, one byte more is not.
    fits = json.dumps({"id": 1, "cmd": ["help", "x" * 3000]}).encode()
    with repl.greeted(engine.settings, pid) as client:
        client.send(fits + b" " * (control.LINE_MAX - len(fits) - 1) + b"\n")
        assert client.read()["error"]["word"] == "invalid"


def test_J04_of_fifty_clients_four_are_served(engine: Engine, pid: int, eventually: Eventually) -> None:
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(repl.client(engine.settings, pid)) for _ in range(50)]
        hellos = [client.read() for client in clients]
        served = [client for client, hello in zip(clients, hellos, strict=True) if hello["ok"]]
        refused = [hello["error"] for hello in hellos if not hello["ok"]]
        assert (len(served), len(refused)) == (control.CLIENTS_MAX, 46)
        assert {error["word"] for error in refused} == {"rate_limited"}
        assert all(client.ask("queues")["ok"] for client in served)
        done = repl.run(engine.settings, "-c", "queues")
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr == "eventr: 4 clients are already connected. Try again later.\n"
    eventually(lambda: repl.run(engine.settings, "-c", "queues").returncode == 0)


@pytest.mark.parametrize(
    "words",
    [
        ["__class__"],
        ["run"],
        ["__init__", "x"],
        ["eval", "1+1"],
        ["os.system", "touch X"],
        ["help", "__globals__"],
        ["set", "feeds.__class__", "1"],
        ["settings", "__dict__"],
        ["kill", "../../x"],
        ["retry", "eventr:workers"],
    ],
)
def test_J04_nothing_but_the_commands_can_be_called(engine: Engine, pid: int, words: list[str]) -> None:
    with repl.greeted(engine.settings, pid) as client:
        answer = client.ask(*words)
    if words[0] == "retry":
        assert answer["error"]["word"] == "not_found"
    else:
        assert answer["error"]["word"] in ("invalid", "not_found"), answer


def test_J04_every_command_has_a_function_of_its_own_or_is_tail() -> None:
    assert [name for name, command in TABLE.items() if command.run is None] == ["tail"]


@pytest.mark.parametrize(
    "line",
    [
        b"status",
        b"[]",
        b"{}",
        b'{"id": 1}',
        b'{"id": 1, "cmd": []}',
        b'{"id": 1, "cmd": "status"}',
        b'{"id": 1, "cmd": [1]}',
        b'{"id": 1, "cmd": [""]}',
        b'{"id": "1", "cmd": ["status"]}',
        b'{"id": 1, "cmd": ' + b"[" * 2000,
        json.dumps({"id": 1, "cmd": ["x"] * 17}).encode(),
        b"\xff\xfe",
    ],
)
def test_J04_who_does_not_speak_the_protocol_is_sent_away(engine: Engine, pid: int, line: bytes) -> None:
    with repl.greeted(engine.settings, pid) as client:
        client.send(line + b"\n")
        answer = json.loads(client.rest())
        assert (answer["ok"], answer["error"]["word"]) == (False, "invalid")


def test_J04_every_command_is_noted_exactly_once(engine: Engine, pid: int) -> None:
    before = len(repl.audit(engine.manager))
    marks = ["help", "status", "queues", "settings", "stats", "dead"]
    with repl.greeted(engine.settings, pid) as client:
        for word in marks:
            assert client.ask(word)["ok"]
        client.ask("pause", "no\nsuch queue")
        client.ask("nonsense")
        client.ask("status", "too", "many")
    lines = repl.audit(engine.manager)[before:]
    who = f"via=unix uid={os.geteuid()} pid={os.getpid()} user={psutil.Process().username()}"
    assert [line.partition(" repl_command ")[2].rpartition(" ms=")[0] for line in lines] == [
        *(f"{who} command={word} arguments=[] outcome=ok" for word in marks),
        rf'{who} command=pause arguments="[\'no\\nsuch queue\']" outcome=invalid'.replace("\\'", "'"),
        f"{who} command=nonsense arguments=[] outcome=invalid",
        rf"""{who} command=status arguments="['too', 'many']" outcome=invalid""",
    ]


def test_J04_a_client_of_the_port_is_noted_by_its_address(engine: Engine, pid: int) -> None:
    token = listen.get_token_path(engine.settings).read_text().encode()
    with _port(engine) as client:
        host, port = client.line.getsockname()
        client.send(b"AUTH " + token + b"\n")
        client.read()
        client.ask("status")
    assert f"via=tcp address={host}:{port} command=status" in repl.audit(engine.manager)[-1]


def test_J04_a_client_that_does_not_read_holds_nobody_up(engine: Engine, pid: int) -> None:
    question = json.dumps({"id": 1, "cmd": ["help"]}).encode() + b"\n"
    with repl.greeted(engine.settings, pid) as lazy, repl.greeted(engine.settings, pid) as other:
        lazy.line.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            while True:  # until the manager, which cannot answer any more, takes no more questions
                lazy.line.send(question)
        for _ in range(50):
            assert other.ask("status")["result"]["pid"] == pid
        jobs = engine.jobs
        outcomes = list(jobs.await_many(jobs.enqueue_many(support.effects(20)), 60))
        assert [outcome.error for outcome in outcomes] == [None] * 20


def test_J04_who_is_slow_is_cut_off_and_who_is_silent_is_sent_away(
    engine: Engine, settings: Settings
) -> None:
    """In this process, with short times: nobody waits five minutes for a test."""

    async def silent() -> dict[str, Any]:
        async with _serving(settings, _Loud(), idle=0.2) as client:
            return await asyncio.to_thread(client.read)

    async def slow() -> bytes:
        commands = _Loud()
        # Nobody is sent away for having been silent before he asks.
        async with _serving(settings, commands, slow=0.2) as client:
            client.send(b'{"id": 1, "cmd": ["help"]}\n')
            await commands.was_cut_off()
            return await asyncio.to_thread(client.rest)

    goodbye, rest = asyncio.run(silent()), asyncio.run(slow())
    assert goodbye["error"]["message"] == "Disconnected after 0.2 seconds without a command. Connect again."
    assert 0 < len(rest) < _Loud.LENGTH


@contextlib.asynccontextmanager
async def _serving(settings: Settings, commands: _Loud, **seconds: float) -> AsyncIterator[repl.Client]:
    """Serve one client, which has been greeted, for the time of a block."""
    commands.server = server = control.ControlServer(settings, commands, {"pid": 1}, None, **seconds)
    await server.start()
    try:
        path = listen.get_socket_path(settings, os.getpid())
        with contextlib.closing(await asyncio.to_thread(repl.Client, listen.connect(path))) as client:
            await asyncio.to_thread(client.read)
            yield client
    finally:
        await server.close()


class _Loud(Commands):
    """Answers with more than a socket holds."""

    LENGTH = 32 << 20
    server: control.ControlServer

    def __init__(self) -> None:
        """Without a manager: ``help`` needs none."""

    async def run(self, words: Any) -> str:
        return "x" * self.LENGTH

    async def was_cut_off(self) -> None:
        """Wait until the server has no client any more."""
        while self.server.clients:
            await asyncio.sleep(0.01)


def test_the_token_of_a_home_is_made_once_and_never_read_when_others_can(settings: Settings) -> None:
    made = listen.load_token(settings)
    assert listen.load_token(settings) == made
    listen.get_token_path(settings).chmod(0o644)
    with pytest.raises(StartupError, match="Other users can read"):
        listen.load_token(settings)
    listen.get_token_path(settings).chmod(0o600)
    listen.get_token_path(settings).write_text("short\n")
    with pytest.raises(StartupError, match="doesn't contain a valid token"):
        listen.load_token(settings)
    assert list(settings.home.glob("repl_token*")) == [listen.get_token_path(settings)]


def test_sockets_of_killed_managers_are_removed_and_living_ones_are_found(settings: Settings) -> None:
    folder = listen.get_folder(settings)
    with contextlib.closing(listen.listen_unix(settings)):
        assert listen.list_running(settings) == [os.getpid()]
        left = folder / "manager-999999999.sock"
        listen.get_socket_path(settings, os.getpid()).rename(left)
    assert listen.list_running(settings) == []
    with contextlib.closing(listen.listen_unix(settings)):
        assert [path.name for path in folder.iterdir()] == [f"manager-{os.getpid()}.sock"]


def test_a_home_with_a_long_path_has_its_socket_too(settings: Settings) -> None:
    deep = dataclasses.replace(settings, home=settings.home / ("d" * 60) / ("e" * 60))
    with contextlib.closing(listen.listen_unix(deep)):
        assert len(str(listen.get_socket_path(deep, os.getpid()))) > 108
        assert listen.list_running(deep) == [os.getpid()]


@pytest.mark.parametrize("mode", [0o755, 0o710])
def test_J04_a_folder_that_others_can_enter_is_refused_and_stays_as_it_is(
    settings: Settings, mode: int
) -> None:
    run = listen.get_folder(settings)
    run.mkdir()
    run.chmod(mode)
    with pytest.raises(StartupError, match=r"run chmod 700 on it\. Otherwise, set EVENTR_HOME"):
        listen.listen_unix(settings)
    assert repl.mode(run) == mode
    run.chmod(0o700)
    with contextlib.closing(listen.listen_unix(settings)):
        assert repl.mode(run) == 0o700


def test_J04_a_link_to_a_folder_of_the_system_is_refused(settings: Settings, tmp_path: Path) -> None:
    """As with EVENTR_HOME=/var, whose run is the system's."""
    (tmp_path / "system").mkdir(mode=0o755)
    listen.get_folder(settings).symlink_to(tmp_path / "system")
    with pytest.raises(StartupError, match=r"run chmod 700 on it\. Otherwise, set EVENTR_HOME"):
        listen.listen_unix(settings)
    assert repl.mode(tmp_path / "system") == 0o755
    assert not list((tmp_path / "system").iterdir())


def test_J04_a_link_to_a_private_folder_is_followed(settings: Settings, tmp_path: Path) -> None:
    (tmp_path / "private").mkdir(mode=0o700)
    listen.get_folder(settings).symlink_to(tmp_path / "private")
    with contextlib.closing(listen.listen_unix(settings)):
        assert listen.list_running(settings) == [os.getpid()]
