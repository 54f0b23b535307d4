"""Counts the commands that go to MongoDB, and finds those that are sent twice."""

from __future__ import annotations

import contextlib
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pymongo
import pytest
from bson import json_util
from pymongo import monitoring

from app.bootstrap import services as bootstrap
from app.bootstrap.services import Services
from app.config import Settings
from app.mappers.mongo.cell_client import open_client

#: Parts of a command that say nothing of what is asked for.
_ENVELOPE = frozenset(
    (
        *("lsid", "txnNumber", "startTransaction", "autocommit", "readConcern", "writeConcern"),
        *("$clusterTime", "$readPreference", "$db", "maxTimeMS", "comment"),
    )
)
#: Commands about a connection or a transaction, not about data.
_ABOUT_NO_DATA = frozenset(("hello", "ping", "endSessions", "commitTransaction", "abortTransaction"))


#: Commands after which a collection may say something else.
_WRITES = frozenset(("insert", "update", "delete", "findAndModify"))
_JOINED = re.compile(r'"(?:from|coll)": "(\w+)"')


class CommandLog(monitoring.CommandListener):
    """Keeps every command, in a form in which equal ones are equal."""

    def __init__(self) -> None:
        self.commands: list[str] = []
        self._questions: list[tuple[object, ...]] = []
        self._writes: Counter[str] = Counter()

    def clear(self) -> None:
        """Forget all commands: another request begins."""
        self.commands.clear()
        self._questions.clear()

    def started(self, event: monitoring.CommandStartedEvent) -> None:
        name = event.command_name
        if name in _ABOUT_NO_DATA:
            return
        command = describe_command(name, event.command)
        target = str(event.command[name])
        if name in _WRITES:
            self._writes[target] += 1
        state = [self._writes[each] for each in (target, *_JOINED.findall(command))]
        self.commands.append(command)
        self._questions.append((command, event.command.get("txnNumber"), *state))

    def succeeded(self, event: monitoring.CommandSucceededEvent) -> None:
        pass

    def failed(self, event: monitoring.CommandFailedEvent) -> None:
        pass

    def find_repeats(self) -> dict[str, int]:
        """Return the commands that were sent more than once, and how often.

        What is read once more after this request wrote to the collection, or in a transaction, is another
        question: its answer may be another.
        """
        return {str(asked[0]): count for asked, count in Counter(self._questions).items() if count > 1}


def describe_command(name: str, command: Mapping[str, Any]) -> str:
    """Return a command as text, its target first, without what differs between equal ones."""
    parts = {key: value for key, value in command.items() if key not in _ENVELOPE and key != name}
    return f"{name} {command[name]} {json_util.dumps(_sort_ids(parts), sort_keys=False)}"


def _sort_ids(value: Any) -> Any:
    """Return a value in which the order of the ids of ``$in`` does not count."""
    if isinstance(value, Mapping):
        return {k: sorted(v, key=repr) if k == "$in" else _sort_ids(v) for k, v in value.items()}
    return [_sort_ids(each) for each in value] if isinstance(value, list) else value


def add_listener(monkeypatch: pytest.MonkeyPatch, listener: monitoring.CommandListener) -> None:
    """Let every connection that a store opens from now on report to a listener."""
    for name, original in (
        ("app.mappers.mongo.store.MongoClient", pymongo.MongoClient),
        ("app.mappers.mongo.cell_store.open_client", open_client),
    ):

        def connect(
            *args: Any, event_listeners: Any = (), original: Callable[..., Any] = original, **options: Any
        ) -> Any:
            return original(*args, **options, event_listeners=[*event_listeners, listener])

        monkeypatch.setattr(name, connect)


@contextlib.contextmanager
def build_logged_services(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[Services, CommandLog]]:
    """Yield the services once more, with a log of all their commands."""
    log = CommandLog()
    add_listener(monkeypatch, log)
    with contextlib.closing(bootstrap.build(settings)) as built:
        built.store.ping()
        yield built, log
