"""The REPL in a terminal: line editing, completion, and a persistent history."""

from __future__ import annotations

from pathlib import Path

import click
from prompt_toolkit import PromptSession
from prompt_toolkit.auto_suggest import AutoSuggestFromHistory
from prompt_toolkit.completion import ThreadedCompleter
from prompt_toolkit.history import FileHistory, History, InMemoryHistory

from app.commands.repl.execute import TAIL, print_error, run, split_words
from app.commands.repl.link import ManagerClient, make_private_file
from app.commands.repl.names import CommandCompleter
from app.errors import EventrError, StartupError

HISTORY = "repl_history"
#: Bytes above which the history is cut to its newer half at the next start.
HISTORY_MAX = 256 << 10
_LEAVE = frozenset({"exit", "quit"})


class Shell:
    """Reads commands from a terminal until Ctrl-D or ``exit``.

    Args:
        manager: the connection to the manager.
        home: folder of the history file.
    """

    def __init__(self, manager: ManagerClient, home: Path) -> None:
        self._manager = manager
        self._session: PromptSession[str] = PromptSession(
            history=open_history(home / HISTORY),
            completer=ThreadedCompleter(CommandCompleter(manager)),
            complete_while_typing=False,
            auto_suggest=AutoSuggestFromHistory(),
        )

    def run(self) -> None:
        """Run until the person exits.

        Raises:
            StartupError: no manager is responding at the start.
        """
        self._manager.connect()
        known = self._manager.manager
        click.echo(f"Connected to the queue manager on {known['host']}, process {known['pid']}.")
        click.echo("Type “help” to list the commands. Tab completes names. Ctrl-D exits.")
        while True:
            try:
                line = self._session.prompt(f"eventr {self._manager.manager['pid']}> ")
            except KeyboardInterrupt:
                continue  # as in a shell: this discards the line, not the session
            except EOFError:
                return
            if line.strip() in _LEAVE:
                return
            try:
                self._run(line)
            except KeyboardInterrupt:
                click.echo()  # a new line after the ^C, which ends a tail or the wait for a response

    def _run(self, line: str) -> None:
        try:
            words = split_words(line)
            if words and self._manager.connect():
                click.echo(f"The manager has restarted. Its process is now {self._manager.manager['pid']}.")
            if words[:1] == [TAIL]:
                click.echo("Showing events. Press Ctrl-C to stop.")
            run(self._manager, words, as_json=False)
        except EventrError as e:
            print_error(e)


def open_history(path: Path) -> History:
    """Return the history in a file that only this user can read; in memory if the file can't be used."""
    try:
        make_private_file(path)
        _shorten(path)
    except OSError as e:
        print_error(StartupError(f"Can't save the command history: {path} isn't writable ({e.strerror})."))
        return InMemoryHistory()
    return FileHistory(str(path))


def _shorten(path: Path) -> None:
    text = path.read_bytes()
    if len(text) > HISTORY_MAX:
        # An entry starts with an empty line and a comment with its time.
        start = text.find(b"\n# ", len(text) // 2)
        path.write_bytes(text[start:] if start >= 0 else b"")
