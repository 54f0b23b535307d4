"""REPL completion: commands, and the names that a manager knows."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from app.commands.repl.link import ManagerClient
from app.errors import EventrError
from queue_manager.control.commands import ALL, TABLE

#: Seconds after which the manager's names are fetched again.
_FRESH = 5.0
#: Command → kinds of names, per argument; quoted words are literal completions.
_ARGUMENTS: Mapping[str, Sequence[Sequence[str]]] = {
    "help": (("commands",),),
    "settings": (("groups", "queues"),),
    "set": (("settings",),),
    "reset": (("settings",),),
    "pause": (("queues",),),
    "drain": (("queues",),),
    "resume": (("queues",),),
    "kill": (("workers",), ("'gently'",)),
    "retry": (("dead", f"'{ALL}'"),),
    "drop": (("dead", f"'{ALL}'"),),
    "tail": (("queues", "workers", "'finished'", "'failed'", "'retry'", "'started'"),) * 8,
}
#: Commands for completion only; people don't need to see them.
HIDDEN = frozenset({"words"})


class CommandCompleter(Completer):
    """Completes commands and names; without a responding manager, only commands."""

    def __init__(self, manager: ManagerClient) -> None:
        self._manager = manager
        self._names: Mapping[str, Sequence[str]] = {}
        self._asked = float("-inf")

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterator[Completion]:
        """Yield the completions of the word before the cursor."""
        before, _, started = document.text_before_cursor.rpartition(" ")
        for name in self._fitting(before.split()):
            if name.startswith(started):
                yield Completion(name, start_position=-len(started))

    def _fitting(self, before: Sequence[str]) -> Sequence[str]:
        if not before:
            return [*(name for name in TABLE if name not in HIDDEN), "exit"]
        kinds = _ARGUMENTS.get(before[0], ())
        if len(before) > len(kinds):
            return []
        return [name for kind in kinds[len(before) - 1] for name in self._of(kind)]

    def _of(self, kind: str) -> Sequence[str]:
        if kind.startswith("'"):
            return [kind.strip("'")]
        if kind == "commands":
            return [name for name in TABLE if name not in HIDDEN]
        return self._known().get(kind, ())

    def _known(self) -> Mapping[str, Sequence[str]]:
        if time.monotonic() - self._asked > _FRESH:
            self._asked = time.monotonic()
            try:
                self._names = self._manager.run_command(["words"])
            except EventrError:
                self._names = {}  # the error is shown when a command is run
        return self._names
