"""The REPL in a real terminal: what a person types, and what he sees."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from prompt_toolkit.history import FileHistory, InMemoryHistory

from app.commands.repl import shell
from app.commands.repl.shell import HISTORY, HISTORY_MAX
from app.models.jobs import redis_keys
from app.models.jobs.jobs import Job, Queue, Task
from queue_manager.control import listen
from tests.jobs import repl, support
from tests.jobs.conftest import Engine
from tests.jobs.repl import Terminal

Eventually = Callable[..., Any]

CTRL_A, CTRL_C, CTRL_D, CTRL_K, TAB, ENTER, UP = "\x01", "\x03", "\x04", "\x0b", "\t", "\r", "\x1b[A"


@pytest.fixture
def engine(engine: Engine, eventually: Eventually) -> Engine:
    """The running manager, when it can be talked to, and no history of earlier tests."""
    eventually(lambda: listen.list_running(engine.settings) == [engine.manager.pid])
    eventually(lambda: support.pids(engine.manager, "feeds"))
    (engine.settings.home / HISTORY).unlink(missing_ok=True)
    return engine


@pytest.fixture
def screen(engine: Engine, eventually: Eventually) -> Iterator[Terminal]:
    """A REPL that shows its prompt."""
    with repl.terminal(engine.settings) as terminal:
        eventually(lambda: terminal.prompts() == [""])
        yield terminal


def _typed(screen: Terminal, keys: str, shown: str, eventually: Eventually) -> None:
    """Type, and wait until the line that is edited reads so."""
    screen.type(keys)
    eventually(lambda: screen.prompts()[-1] == shown, message=repr(keys))


def test_it_says_whom_it_talks_to_and_how_to_leave(engine: Engine, screen: Terminal) -> None:
    first, second, _ = screen.text().splitlines()
    assert first.endswith(f", process {engine.manager.pid}.")
    assert second == "Type “help” to list the commands. Tab completes names. Ctrl-D exits."
    screen.type(CTRL_D)
    assert screen.end() == 0


def test_commands_queues_settings_and_workers_are_completed(
    engine: Engine, screen: Terminal, eventually: Eventually
) -> None:
    _typed(screen, "sta" + TAB, "stat", eventually)
    eventually(lambda: "status" in screen.text() and "stats" in screen.text())
    _typed(screen, CTRL_C + "pa" + TAB, "pause", eventually)
    _typed(screen, " feed-pull-" + TAB, "pause feed-pull-sys", eventually)
    _typed(screen, CTRL_C + "set import.max_w" + TAB, "set import.max_workers", eventually)
    _typed(screen, CTRL_C + "set suspects.stal" + TAB, "set suspects.stall", eventually)
    (worker,) = [w["name"] for w in repl.ask(engine.settings, "status")["workers"] if w["group"] == "feeds"]
    _typed(screen, CTRL_C + "kill fee" + TAB, f"kill {worker}", eventually)
    _typed(screen, " g" + TAB, f"kill {worker} gently", eventually)


def test_ids_of_dead_tasks_are_completed(engine: Engine, eventually: Eventually) -> None:
    ticket = engine.jobs.enqueue(Job(Task.CRASH, {"how": "feed", "key": 1}, Queue.PULL))
    assert [o.error for o in engine.jobs.await_many([ticket], 60)] == ["not_a_feed"]
    with repl.terminal(engine.settings) as screen:
        eventually(lambda: screen.prompts() == [""])
        _typed(screen, f"drop {ticket.id[:6]}" + TAB, f"drop {ticket.id}", eventually)
        screen.type(ENTER)
        eventually(lambda: "1 job deleted." in screen.text())


def test_a_line_is_edited_and_the_answer_is_a_table(screen: Terminal, eventually: Eventually) -> None:
    _typed(screen, "eues" + CTRL_A + "qu", "queues", eventually)
    screen.type(ENTER)
    eventually(lambda: re.search(r"^maintenance +0 +– +0  open$", screen.text(), re.MULTILINE))
    (head,) = [line for line in screen.text().splitlines() if line.startswith("queue ")]
    assert head.split() == ["queue", "waiting", "oldest", "running", "state"]
    _typed(screen, "status nonsense" + "\x1b[D" * 9 + CTRL_K, "status", eventually)


def test_an_error_is_a_sentence_and_the_session_goes_on(screen: Terminal, eventually: Eventually) -> None:
    screen.type("nonsense" + ENTER)
    eventually(lambda: "eventr: “nonsense” isn't a command" in screen.text())
    screen.type("pause 'x" + ENTER)
    eventually(lambda: "eventr: A quotation mark isn't closed." in screen.text())
    screen.type("resume import" + ENTER)
    eventually(lambda: "import is now open." in screen.text())
    screen.type("exit" + ENTER)
    assert screen.end() == 0


def test_the_history_is_kept_for_this_user_alone(
    engine: Engine, screen: Terminal, eventually: Eventually
) -> None:
    for line in ("help status", "help queues"):
        screen.type(line + ENTER)
        eventually(lambda line=line: screen.prompts()[-2:] == [line, ""])
    _typed(screen, UP, "help queues", eventually)
    _typed(screen, UP, "help status", eventually)
    screen.type(CTRL_C + CTRL_D)
    assert screen.end() == 0
    assert repl.mode(engine.settings.home / HISTORY) == 0o600
    with repl.terminal(engine.settings) as again:
        eventually(lambda: again.prompts() == [""])
        _typed(again, UP, "help queues", eventually)
        # What was typed before is offered in grey, and taken with End.
        _typed(again, CTRL_C + "help s" + "\x05", "help status", eventually)


def test_ctrl_c_ends_a_tail_and_nothing_else(
    engine: Engine, screen: Terminal, eventually: Eventually
) -> None:
    before = engine.manager.log.read_text().count("command=tail")
    screen.type("tail selftest.echo" + ENTER)
    eventually(lambda: engine.manager.log.read_text().count("command=tail") > before)
    ticket = engine.jobs.enqueue(Job(Task.ECHO, {"key": 1}, Queue.PULL))
    assert [o.error for o in engine.jobs.await_many([ticket], 60)] == [None]
    eventually(lambda: screen.text().count(ticket.id) == 3)  # started, progress, finished
    assert "  finished  selftest.echo" in screen.text()
    screen.type(CTRL_C)
    eventually(lambda: screen.prompts()[-1] == "" and len(screen.prompts()) == 2)
    screen.type("resume import" + ENTER)
    eventually(lambda: "import is now open." in screen.text())


def test_a_restart_of_the_manager_is_said_and_survived(settings: Any, eventually: Eventually) -> None:
    with support.running("queue_manager.main", settings, "first") as first:
        eventually(lambda: listen.list_running(settings) == [first.pid])
        terminal = Terminal(settings)
        eventually(lambda: terminal.prompts() == [""])
        first.stop(signal.SIGKILL)
    terminal.type("help status" + ENTER)
    eventually(
        lambda: "eventr: No manager is running here. Start one with 'eventr up'" in terminal.text(),
    )
    with support.running("queue_manager.main", settings, "second") as second:
        eventually(lambda: listen.list_running(settings) == [second.pid])
        terminal.type("help status" + ENTER)
        said = f"The manager has restarted. Its process is now {second.pid}."
        eventually(lambda: said in terminal.text())
        eventually(lambda: f"eventr {second.pid}>" in terminal.text())
    terminal.type("exit" + ENTER)
    assert terminal.end() == 0
    terminal.close()


def test_what_steers_a_terminal_is_not_printed(engine: Engine, eventually: Eventually) -> None:
    """Whoever can write to Redis can give a job any name."""
    before = engine.manager.log.read_text().count("command=tail")
    with repl.terminal(engine.settings, "-c", "tail") as screen:
        eventually(lambda: engine.manager.log.read_text().count("command=tail") > before)
        evil = "evil\x1b[2J\x1b]0;title\x07\u202e\r"
        engine.client.xadd(redis_keys.EVENTS, {"kind": "finished", "id": "2", "task": evil})
        eventually(lambda: "evil�[2J�]0;title���" in screen.text())
        screen.type(CTRL_C)
        assert screen.end() == 130


def test_a_long_history_is_cut_to_its_newer_half(tmp_path: Path) -> None:
    path = tmp_path / HISTORY
    kept = FileHistory(str(path))
    for number in range(9000):
        kept.store_string(f"help {number}")
    assert path.stat().st_size > HISTORY_MAX
    path.chmod(0o644)
    lines = list(shell.open_history(path).load_history_strings())
    assert lines[0] == "help 8999"
    assert 1000 < len(lines) < 8000
    assert repl.mode(path) == 0o600


def test_without_a_place_for_it_the_history_is_in_memory(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / HISTORY).mkdir()
    assert isinstance(shell.open_history(tmp_path / HISTORY), InMemoryHistory)
    assert "Can't save the command history" in capsys.readouterr().err
