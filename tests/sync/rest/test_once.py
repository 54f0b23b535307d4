"""Requests that come twice run once: the Idempotency-Key."""

from __future__ import annotations

import datetime as dt
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest

from app import clock
from app.bootstrap.services import Services
from app.errors import KeyBusyError
from app.mappers.privacy.erasure import list_owned_collections
from app.models.accounts.actor import Actor
from app.models.sync.idempotency import Answer
from app.runtime import process_identity
from app.services.sync.idempotency import IdempotencyService
from tests.conftest import Eventually
from tests.sharing.conftest import People
from tests.support.imports import REPO
from tests.sync.rest.conftest import Program
from tests.sync.rest.world import join

Make = Callable[..., Program]
KEY = {"Idempotency-Key": "one"}


def test_the_same_again_gets_the_same_answer_and_runs_once(mine: Program, services: Services) -> None:
    first = mine.post("/folders", {"name": "News"}, headers=KEY)
    again = mine.post("/folders", {"name": "News"}, headers={"Idempotency-Key": '"one"'})
    assert (first.status_code, again.status_code) == (201, 201)
    assert again.data == first.data
    assert again.headers["Location"] == first.headers["Location"]
    assert again.content_type == first.content_type
    assert again.headers["Idempotency-Replayed"] == "true"
    assert "Idempotency-Replayed" not in first.headers
    refused = mine.post("/folders", {"name": "News"})
    assert (refused.status_code, refused.headers["Retry-After"]) == (409, "2")
    assert "idempotency" in list_owned_collections()


def test_a_refusal_and_nothing_are_kept_too(mine: Program) -> None:
    mine.post("/folders", {"name": "News"})
    for _ in range(2):
        refused = mine.post("/folders", {"name": "News"}, headers=KEY)
        assert (refused.status_code, refused.content_type) == (409, "application/problem+json")
    assert refused.headers["Idempotency-Replayed"] == "true"
    for replayed in (None, "true"):
        gone = mine.post("/notifications/mark-read", {}, headers={"Idempotency-Key": "two"})
        assert (gone.status_code, gone.data) == (204, b"")
        assert gone.headers.get("Idempotency-Replayed") == replayed


def test_another_request_with_the_same_key_is_refused(mine: Program) -> None:
    mine.post("/folders", {"name": "News"}, headers=KEY)
    for answer in (
        mine.post("/folders", {"name": "Other"}, headers=KEY),
        mine.post("/subscriptions/refresh", headers=KEY),
        mine.post("/folders?", {"name": "News", "parent": None}, headers=KEY),
    ):
        assert (answer.status_code, answer.get_json()["word"]) == (422, "key_reused")


def test_keys_are_each_users_own(mine: Program, people: People, program: Make) -> None:
    bob = program(join(people, "bob"))
    assert mine.post("/folders", {"name": "News"}, headers=KEY).status_code == 201
    answer = bob.post("/folders", {"name": "Other"}, headers=KEY)
    assert (answer.status_code, answer.get_json()["name"]) == (201, "Other")


def test_an_answer_is_given_again_to_who_may_ask_for_it_alone(
    mine: Program, ann: Actor, program: Make
) -> None:
    assert mine.post("/folders", {"name": "News"}, headers=KEY).status_code == 201
    reader = program(ann, "read")
    answer = reader.post("/folders", {"name": "News"}, headers=KEY)
    assert (answer.status_code, answer.get_json()["scope"]) == (403, "subscribe")


@pytest.mark.parametrize("key", ["", "x" * 65, "a\tb", "ü"])
def test_a_key_has_a_form(mine: Program, key: str) -> None:
    answer = mine.post("/folders", {"name": "x"}, headers={"Idempotency-Key": key})
    assert (answer.status_code, answer.get_json()["field"]) == (400, "Idempotency-Key")


def test_of_many_at_once_one_runs(ann: Actor, program: Make, services: Services) -> None:
    callers = [program(ann) for _ in range(8)]
    gate, answers = threading.Barrier(len(callers)), list[Any]()

    def call(caller: Program) -> None:
        gate.wait()
        answers.append(caller.post("/posts", {"note": "Once"}, headers=KEY))

    threads = [threading.Thread(target=call, args=(caller,)) for caller in callers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {a.status_code for a in answers} <= {201, 409}
    assert len({a.data for a in answers if a.status_code == 201}) == 1
    assert all(a.get_json()["word"] == "key_busy" for a in answers if a.status_code == 409)
    assert services.store.database["shares"].count_documents({"user_id": ann.user_id}) == 1


def test_while_the_first_runs_the_second_is_told_so_and_who_died_stops_nobody(
    ann: Actor, services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    inner: list[str] = []

    def work() -> Answer:
        with pytest.raises(KeyBusyError):
            services.idempotency.run_once(ann, "k", b"d", lambda: Answer(200, (), b"second"))
        inner.append("refused")
        now = clock.now()
        later = now + dt.timedelta(seconds=services.settings.idempotency_lease + 1)
        monkeypatch.setattr(clock, "now", lambda: later)
        # As if this one had died.
        assert services.idempotency.run_once(ann, "k", b"d", lambda: Answer(200, (), b"third")) == (
            Answer(200, (), b"third"),
            False,
        )
        return Answer(200, (), b"first")

    assert services.idempotency.run_once(ann, "k", b"d", work) == (Answer(200, (), b"first"), False)
    assert inner == ["refused"]
    kept = services.idempotency.run_once(ann, "k", b"d", lambda: Answer(500, (), b""))
    assert kept == (Answer(200, (), b"third"), True)


_KILLED = """
import contextlib, dataclasses, os, sys
from app.bootstrap import services as bootstrap
from app.config import Settings
from app.models.accounts.actor import Actor
services = bootstrap.build(Settings.from_env())
def operation():
    print("begun", flush=True)
    sys.stdin.read()
services.idempotency.run_once(Actor(user_id=int(sys.argv[1])), "k", b"d", operation)
"""


def _begin_and_be_killed(who: Actor, services: Services) -> None:
    """Begin a request in another process, and end that process with SIGKILL."""
    settings = services.settings
    environment = {
        "EVENTR_MONGODB_URI": settings.mongodb_uri,
        "EVENTR_MONGODB_NAME": settings.mongodb_name,
        "EVENTR_REDIS_URL": settings.redis_url,
        "EVENTR_HOME": str(settings.home),
        "EVENTR_SECRET_KEY": settings.secret_key,
    }
    with subprocess.Popen(
        [sys.executable, "-c", _KILLED, str(who.user_id)],
        cwd=REPO,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"begun\n"
        with pytest.raises(KeyBusyError):
            services.idempotency.run_once(who, "k", b"d", lambda: DONE)
        process.send_signal(signal.SIGKILL)


DONE = Answer(200, (), b"done")


def test_the_key_of_a_killed_process_is_free_at_once(ann: Actor, services: Services) -> None:
    _begin_and_be_killed(ann, services)
    assert services.idempotency.run_once(ann, "k", b"d", lambda: DONE) == (DONE, False)
    assert services.idempotency.run_once(ann, "k", b"d", lambda: DONE) == (DONE, True)


def test_the_key_of_a_process_elsewhere_is_free_after_three_missed_renewals(
    ann: Actor, services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    _begin_and_be_killed(ann, services)
    services.store.database["idempotency"].update_one({}, {"$set": {"owner": "another machine 7@8"}})
    begun, renewal = clock.now(), services.settings.idempotency_renewal
    monkeypatch.setattr(clock, "now", lambda: begun + dt.timedelta(seconds=2 * renewal))
    with pytest.raises(KeyBusyError):
        services.idempotency.run_once(ann, "k", b"d", lambda: DONE)
    monkeypatch.setattr(clock, "now", lambda: begun + dt.timedelta(seconds=3 * renewal))
    assert services.idempotency.run_once(ann, "k", b"d", lambda: DONE) == (DONE, False)


def test_a_running_request_keeps_its_key(ann: Actor, services: Services, eventually: Eventually) -> None:
    kept = services.gateways.idempotency
    service = IdempotencyService(kept, renewal=0.01, longest=120)
    records = services.store.database["idempotency"]

    def operation() -> Answer:
        first = records.find_one({})["until"]  # type: ignore[index]
        eventually(lambda: records.find_one({})["until"] > first)  # type: ignore[index]
        return DONE

    assert service.run_once(ann, "k", b"d", operation) == (DONE, False)
    assert records.find_one({})["status"] == 200  # type: ignore[index]


@pytest.mark.parametrize(("longest", "renewed"), [(120, True), (0, False)])
def test_a_request_without_an_end_loses_its_key(
    ann: Actor, services: Services, longest: int, renewed: bool
) -> None:
    service = IdempotencyService(services.gateways.idempotency, renewal=60, longest=longest)
    records = services.store.database["idempotency"]

    def operation() -> Answer:
        records.update_one({}, {"$set": {"until": dt.datetime(2020, 1, 1, tzinfo=dt.UTC)}})
        assert service._leases.renew_running()
        assert (records.find_one({})["until"].year > 2020) == renewed  # type: ignore[index]
        return DONE

    assert service.run_once(ann, "k", b"d", operation) == (DONE, False)
    assert not service._leases.renew_running()


def test_a_reused_pid_is_not_the_process_that_had_it() -> None:
    own = process_identity.get_own_identity()
    assert not process_identity.has_ended(own)
    assert process_identity.has_ended(own + "1")
    assert not process_identity.has_ended("another " + own)
    assert not process_identity.has_ended("")


def test_what_failed_by_our_fault_may_run_again(ann: Actor, services: Services) -> None:
    def fault() -> Answer:
        raise RuntimeError

    for status in (500, 503, 429):
        answer = Answer(status, (), b"")
        assert services.idempotency.run_once(ann, "k", b"d", lambda a=answer: a) == (answer, False)  # type: ignore[misc]
    with pytest.raises(RuntimeError):
        services.idempotency.run_once(ann, "k", b"d", fault)
    done = Answer(200, (), b"done")
    assert services.idempotency.run_once(ann, "k", b"d", lambda: done) == (done, False)


def test_after_a_day_a_key_is_new(mine: Program, services: Services, monkeypatch: pytest.MonkeyPatch) -> None:
    mine.post("/posts", {"note": "One"}, headers=KEY)
    later = clock.now() + dt.timedelta(seconds=services.settings.idempotency_ttl + 1)
    monkeypatch.setattr(clock, "now", lambda: later)
    assert "Idempotency-Replayed" not in mine.post("/posts", {"note": "One"}, headers=KEY).headers
