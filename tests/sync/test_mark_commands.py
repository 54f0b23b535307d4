"""The commands that the mark of one entry sends to MongoDB, through each interface, and marks in a crash."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
from flask import Flask
from pymongo import monitoring
from pymongo.database import Database
from pymongo.errors import AutoReconnect

from app import create_app
from app.bootstrap import services as bootstrap
from app.bootstrap.services import Services
from app.mappers.subscriptions.subscriptions import SubscriptionMapper
from app.models.accounts.actor import Actor
from app.models.sharing.sharing import Audience
from tests.sharing.conftest import People
from tests.support.commands import add_listener
from tests.sync.conftest import READ, Reader, password_of
from tests.sync.rest.conftest import Program, token_for

#: Who sends the request: the token with its user.
CALLER = ["aggregate tokens"]
#: A user's subscriptions and their feeds' cards.
SUBSCRIPTIONS = ["find subscriptions", "find feeds"]
#: The place of the entry, its copies, the record for other apps, and the mark, which is also waited for.
MARK = ["find entries", "aggregate twins", "find feeds", "insert changes", "findAndModify subscriptions"]


class CommandLog(monitoring.CommandListener):
    """Keeps name and collection of each command, and how long each write waits."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.waits: list[Any] = []
        #: How long the notes of what was read wait, which a thread sends beside the mark.
        self.notes: list[Any] = []

    def started(self, event: monitoring.CommandStartedEvent) -> None:
        if event.command.get(event.command_name) == "recentreads":
            self.notes.append(event.command.get("writeConcern", {}).get("w"))
            return
        self.names.append(f"{event.command_name} {event.command.get(event.command_name)}")
        if event.command_name in ("insert", "update", "findAndModify"):
            self.waits.append(event.command.get("writeConcern", {}).get("w"))

    def succeeded(self, event: monitoring.CommandSucceededEvent) -> None:
        pass

    def failed(self, event: monitoring.CommandFailedEvent) -> None:
        pass


Logged = tuple[Services, Flask, CommandLog]


@pytest.fixture
def people(services: Services) -> People:
    return People(services)


@pytest.fixture
def logged(services: Services, monkeypatch: pytest.MonkeyPatch) -> Iterator[Logged]:
    log = CommandLog()
    add_listener(monkeypatch, log)
    with contextlib.closing(bootstrap.build(services.settings)) as built:
        yield built, create_app(built.settings, built), log


@pytest.fixture
def ann(people: People) -> Actor:
    return people.join("ann")


@pytest.fixture
def entries(people: People, ann: Actor) -> list[int]:
    found = people.blog([ann], 6)
    people.services.reading.mark(ann, found, False)
    return found


def _patch(services: Services, app: Flask, who: Actor) -> Callable[[int], object]:
    program = Program(app, token_for(services, who))
    return lambda entry: program.patch(f"/entries/{entry}", {"read": True}).json


def _post(services: Services, app: Flask, who: Actor) -> Callable[[int], object]:
    program = Program(app, token_for(services, who))
    return lambda entry: program.post("/entries/mark", {"ids": [entry], "read": True}).json


def _edit_tag(services: Services, app: Flask, who: Actor) -> Callable[[int], object]:
    reader = Reader(app.test_client(), "ann", password_of(services, who))
    reader.log_in()
    return lambda entry: reader.do("edit-tag", i=entry, a="user/-/state/com.google/read")


def _fever(services: Services, app: Flask, who: Actor) -> Callable[[int], object]:
    secret = f"ann:{password_of(services, who, fever=True)}"
    key = hashlib.md5(secret.encode(), usedforsecurity=False).hexdigest()
    client = app.test_client()
    form = {"api_key": key, "mark": "item", "as": "read"}
    return lambda entry: client.post("/fever/?api", data={**form, "id": str(entry)})


@pytest.mark.parametrize("through", [_patch, _post, _edit_tag])
def test_one_mark_sends_six_commands_and_waits_for_the_disk_once(
    logged: Logged, ann: Actor, entries: list[int], through: Callable[..., Callable[[int], object]]
) -> None:
    services, app, log = logged
    mark = through(services, app, ann)
    mark(entries[0])  # records that the token is in use, and reads the ids of ann's feeds
    log.names.clear()
    log.waits.clear()
    mark(entries[1])
    assert log.names == CALLER + MARK
    assert log.waits == [1, "majority"]
    assert set(log.notes) <= {0}
    assert services.reading.find_read_states(ann, entries[:3]) == {
        entries[0]: True,
        entries[1]: True,
        entries[2]: False,
    }


def test_a_mark_by_fever_sends_no_more_commands_before_its_list_of_unread_entries(
    logged: Logged, ann: Actor, entries: list[int]
) -> None:
    services, app, log = logged
    mark = _fever(services, app, ann)
    mark(entries[0])
    log.names.clear()
    mark(entries[1])
    assert log.names[: len(CALLER + MARK)] == CALLER + MARK


def test_marking_entries_of_several_feeds_waits_for_the_disk_once(
    logged: Logged, people: People, ann: Actor, entries: list[int]
) -> None:
    services, _, log = logged
    all_entries = [*entries, *people.blog([ann], 2, "other"), *people.blog([ann], 2, "third")]
    log.waits.clear()
    done = services.reading.mark(ann, all_entries, True)
    assert -done.total == len(all_entries)
    assert log.waits == [1, 1, "majority"]


def test_ids_of_unread_entries_read_no_entries_again(
    logged: Logged, people: People, ann: Actor, entries: list[int]
) -> None:
    services, app, log = logged
    reader = Reader(app.test_client(), "ann", password_of(services, ann))
    reader.log_in()
    assert set(reader.ids(xt=READ)) == set(entries)
    log.names.clear()
    people.services.reading.mark(ann, entries[:2], True)
    assert set(reader.ids(xt=READ)) == set(entries[2:])
    assert log.names == [*CALLER, *SUBSCRIPTIONS]
    more = people.blog([], 1)
    log.names.clear()
    assert set(reader.ids(xt=READ)) == set(more) - set(entries[:2])
    assert log.names.count("find entries") == 1


def test_the_list_of_subscriptions_sends_four_commands(
    logged: Logged, ann: Actor, entries: list[int]
) -> None:
    services, app, log = logged
    reader = Reader(app.test_client(), "ann", password_of(services, ann))
    reader.log_in()
    before = reader.json("subscription/list")["subscriptions"]
    log.names.clear()
    assert reader.json("subscription/list")["subscriptions"] == before
    assert sorted(log.names) == sorted([*CALLER, *SUBSCRIPTIONS, "find folders"])
    services.subscriptions.update(ann, int(before[0]["id"].removeprefix("feed/")), title="Mine")
    assert reader.json("subscription/list")["subscriptions"] == [{**before[0], "title": "Mine"}]


def test_a_mark_of_a_foreign_entry_changes_nothing(logged: Logged, people: People, ann: Actor) -> None:
    services, app, _ = logged
    bob = people.join("bob")
    (foreign,) = people.blog([bob], 1, "foreign")
    assert services.reading.mark(ann, [foreign], True).deltas == {}
    answer = Program(app, token_for(services, ann)).patch(f"/entries/{foreign}", {"read": True})
    assert answer.status_code == 404
    assert services.reading.find_read_states(bob, [foreign]) == {foreign: False}


def test_a_mark_of_a_hidden_share_doesnt_mark_the_shared_entry(people: People, ann: Actor) -> None:
    """The answer would reveal to anyone who guesses an id what somebody shared privately."""
    bob, cleo = people.join("bob"), people.join("cleo")
    (entry,) = people.blog([ann, bob, cleo])
    share = people.services.sharing.share(bob, entry).share.id
    people.services.sharing.share(cleo, entry)
    people.follow(ann, "cleo")
    assert people.services.reading.mark(ann, [share], True).deltas == {}
    assert people.services.reading.find_read_states(ann, [entry]) == {entry: False}


def test_a_mark_of_a_share_in_a_closed_stream_doesnt_mark_the_shared_entry(
    people: People, ann: Actor
) -> None:
    bob = people.join("bob")
    (entry,) = people.blog([ann, bob])
    share = people.services.sharing.share(bob, entry).share.id
    people.follow(ann, "bob")
    people.open(bob, Audience.PRIVATE)
    assert people.services.reading.mark(ann, [share], True).deltas == {}
    assert people.services.reading.find_read_states(ann, [entry]) == {entry: False}


@pytest.mark.parametrize("error", ["lost", "write concern", "unnoticed"])
def test_marks_survive_a_crash_between_the_first_write_and_the_last(
    services: Services,
    people: People,
    ann: Actor,
    entries: list[int],
    monkeypatch: pytest.MonkeyPatch,
    error: str,
) -> None:
    """The server restarts without the writes that it confirmed but hadn't flushed yet."""
    other, database = people.blog([ann], 2, "other"), services.store.database
    states = list(database["subscriptions"].find())
    reader = Actor(ann.user_id, ann.role, ann.social, synced=True)
    original, calls = Database.command, list[str]()

    def command(self: Database[Any], name: Any, *args: Any, **options: Any) -> Any:
        reply = original(self, name, *args, **options)
        if name == "findAndModify":
            calls.append(name)
            if len(calls) == 2:
                database["changes"].delete_many({})
                for doc in states:
                    database["subscriptions"].replace_one({"_id": doc["_id"]}, doc)
                if error == "lost":
                    raise AutoReconnect("connection closed")
                if error == "unnoticed":
                    monkeypatch.setattr(SubscriptionMapper, "get_election", lambda self, user_id: "next")
                    return reply
                return {**reply, "writeConcernError": {"code": 91, "errmsg": "shutting down"}}
        return reply

    monkeypatch.setattr(Database, "command", command)
    services.reading.mark(reader, [entries[0], other[0]], True)

    assert services.reading.find_read_states(ann, [entries[0], other[0]]) == {
        entries[0]: True,
        other[0]: True,
    }
    changes: list[Mapping[str, Any]] = list(database["changes"].find({"user_id": ann.user_id}))
    assert len(changes) == 1
    assert len(changes[0]["feeds"]) == 2


def test_a_patch_of_read_alone_answers_without_tags(logged: Logged, ann: Actor, entries: list[int]) -> None:
    services, app, log = logged
    program = Program(app, token_for(services, ann))
    log.names.clear()
    answer = program.patch(f"/entries/{entries[0]}", {"read": True})
    assert answer.json == {"id": entries[0], "read": True}
    assert not [name for name in log.names if name.endswith((" tags", " marks"))]
    assert "tags" in (program.patch(f"/entries/{entries[0]}", {"read": False, "starred": True}).json or {})


def test_an_entry_of_a_new_feed_can_be_marked_at_once(people: People, ann: Actor, entries: list[int]) -> None:
    reading = people.services.reading
    reading.mark(ann, [entries[0]], True)  # the ids of ann's feeds are cached now
    (new,) = people.blog([ann], 1, "new")
    reading.mark(ann, [new], False)
    assert reading.mark(ann, [new], True).total == -1


def test_an_entry_of_a_feed_that_was_left_stays_as_it_is(
    people: People, ann: Actor, entries: list[int]
) -> None:
    reading, subscriptions = people.services.reading, people.services.subscriptions
    reading.mark(ann, [entries[0]], True)
    (feed_id,) = people.services.gateways.subscriptions.find_feed_ids(ann.user_id)
    subscriptions.unsubscribe(ann, feed_id)
    assert reading.mark(ann, [entries[1]], True).deltas == {}
    assert reading.find_read_states(ann, [entries[1]]) == {}
