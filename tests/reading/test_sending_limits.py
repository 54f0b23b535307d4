"""Sending: who may let entries out, accounts that are closed, and one bad entry among good ones."""

from __future__ import annotations

import asyncio
import dataclasses
import datetime as dt
import json
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

import pytest

from app import clock
from app.bootstrap import services as bootstrap
from app.bootstrap.services import Services
from app.errors import ForbiddenError
from app.mappers.reading.targets import TargetMapper
from app.models.accounts.actor import Actor
from app.models.accounts.token import SCOPES, Scope
from app.models.feeds.fetched import Fetched, FetchRequest
from app.models.reading.rules import Rule
from app.models.reading.targets import DeliveryState, Occasion, Target, TargetKind, Wanted
from app.services.reading import sending
from tests.reading.test_rules import bring, subscribe
from tests.reading.test_sending import HOOK, URL, Clock, Receiver
from tests.support.reader import add_user


@pytest.fixture
def now() -> Iterator[Clock]:
    found = Clock()
    with clock.set_source(found):
        yield found


@pytest.fixture
def ann(services: Services) -> Actor:
    return add_user(services)


def _limit(actor: Actor, *scopes: Scope) -> Actor:
    """Return the program of a token with these scopes."""
    return dataclasses.replace(actor, limits=frozenset().union(*(SCOPES[scope] for scope in scopes)))


def _add(services: Services, actor: Actor, *on: Occasion, address: str = HOOK) -> Target:
    return services.sending.add(actor, TargetKind.WEBHOOK, address, on=on)


def _bring(services: Services, actor: Actor, *titles: str) -> dict[str, int]:
    """Let a feed that the actor reads have these entries; return their ids by title."""
    feed_id = subscribe(services, actor)
    bring(services, feed_id, *titles)
    return {e.title: e.id for e in services.mappers.entries.find_range(feed_id, 0, 1 << 40, 1000)}


def _run(services: Services, actor: Actor, receiver: Receiver) -> dict[str, Any]:
    return asyncio.run(services.sending.run(actor.user_id, receiver, 30))


def _get_titles(receiver: Receiver) -> list[str]:
    return [body["entry"]["title"] for body in receiver.bodies]


@pytest.mark.parametrize(
    "change",
    [
        {"id": 0},
        {"query": ""},
        {"query": "chess"},
        {"feeds": ()},
        {"folders": (5,)},
        {"send": 2},
        {"enabled": True},
    ],
)
def test_a_program_needs_the_scope_share_for_rules_that_send(
    services: Services, ann: Actor, change: dict[str, Any]
) -> None:
    feed_id, target, other = subscribe(services, ann), _add(services, ann), _add(services, ann)
    own = Rule(0, "", "climate", (feed_id,), read=True, send=target.id, enabled=False)
    rule = services.rules.save(ann, own)
    if "send" in change:
        change = {"send": other.id}
    wider = dataclasses.replace(rule, **change)
    for scopes in ((Scope.READ, Scope.MARK), (Scope.MARK, Scope.SHARE)):
        with pytest.raises(ForbiddenError):
            services.rules.save(_limit(ann, *scopes), wider)
    assert services.rules.list_rules(ann).rules == (rule,)
    services.rules.save(_limit(ann, Scope.READ, Scope.MARK, Scope.SHARE), wider)


def test_a_program_may_change_the_rest_of_a_rule_that_sends(services: Services, ann: Actor) -> None:
    program, target = _limit(ann, Scope.READ, Scope.MARK), _add(services, ann)
    rule = services.rules.save(ann, Rule(0, "", "climate", send=target.id))
    rule = services.rules.save(program, dataclasses.replace(rule, name="Warm", tag="later"))
    services.rules.set_enabled(program, rule.id, False)
    with pytest.raises(ForbiddenError):
        services.rules.set_enabled(program, rule.id, True)
    with pytest.raises(ForbiddenError):
        services.rules.import_rules(program, _export(services, ann))
    services.rules.save(program, dataclasses.replace(rule, query="chess", send=0))
    assert services.rules.set_enabled(program, rule.id, True).enabled


def _export(services: Services, actor: Actor) -> bytes:
    return json.dumps(services.rules.export(actor)).encode()


def test_a_program_that_may_not_read_cannot_let_entries_out(services: Services, ann: Actor) -> None:
    ids, target = _bring(services, ann, "Climate"), _add(services, ann)
    program = _limit(ann, Scope.SHARE)
    with pytest.raises(ForbiddenError):
        services.sending.send(program, ids["Climate"], target.id)
    with pytest.raises(ForbiddenError):
        _add(services, program, Occasion.STAR, address="https://evil.example/")
    both = _limit(ann, Scope.READ, Scope.SHARE)
    services.sending.send(both, ids["Climate"], _add(services, both).id)


def test_a_program_that_only_reads_sees_no_addresses_that_are_secrets(services: Services, ann: Actor) -> None:
    address = "https://ntfy.example:8443/my-secret-topic?key=1"
    services.sending.add(ann, TargetKind.NTFY, "https://ntfy.example:8443/my-secret-topic")
    _add(services, ann, address=address)
    seen = services.sending.list_targets(_limit(ann, Scope.READ))
    assert [one.address for one in seen] == ["https://ntfy.example:8443/"] * 2
    assert "my-secret" not in repr(seen)
    assert services.sending.list_targets(ann)[1].address == address


def test_a_closed_account_sends_nothing(services: Services, ann: Actor, now: Clock) -> None:
    ids, target, receiver = _bring(services, ann, "Climate", "Chess"), _add(services, ann), Receiver()
    for entry_id in ids.values():
        services.sending.send(ann, entry_id, target.id)
    services.gateways.admin_accounts.set_disabled(ann.user_id, True)
    assert _run(services, ann, receiver) == {"done": 0}
    assert not receiver.requests
    assert services.sending.find_due_jobs(clock.now()) == []
    services.sending.request_all(ann.user_id, [Wanted(target.id, ids["Climate"], "rule")])
    assert len(services.sending.list_deliveries(ann)) == 2
    services.gateways.admin_accounts.set_disabled(ann.user_id, False)
    now.add(sending.CLOSED + dt.timedelta(seconds=1))
    _run(services, ann, receiver)
    assert sorted(_get_titles(receiver)) == ["Chess", "Climate"]


class Choking(Receiver):
    """A service that fails for entries with this title, and takes all others."""

    def __init__(self, title: str) -> None:
        super().__init__()
        self._title = title

    async def stream_fetches(self, requests: Sequence[FetchRequest]) -> AsyncIterator[Fetched]:
        for request in requests:
            bad = json.loads(request.form or b"")["entry"]["title"] == self._title
            self._statuses = [503 if bad else 200]
            async for answer in super().stream_fetches([request]):
                yield answer


def test_one_bad_entry_does_not_hold_up_the_others(services: Services, ann: Actor, now: Clock) -> None:
    good = [f"Good {n}" for n in range(5)]
    ids, target, receiver = _bring(services, ann, "Bad", *good), _add(services, ann), Choking("Bad")
    for entry_id in [ids.pop("Bad"), *ids.values()]:
        services.sending.send(ann, entry_id, target.id)
        now.add(dt.timedelta(milliseconds=1))
    _run(services, ann, receiver)
    assert _get_titles(receiver) == ["Bad"]
    now.add(dt.timedelta(seconds=2 * services.settings.send_backoff_min))
    _run(services, ann, receiver)
    assert sorted(_get_titles(receiver)) == ["Bad", "Bad", *good]
    assert _get_titles(receiver)[-1] == "Bad"  # again, after those that weren't tried yet


def test_a_success_ends_the_wait_of_what_was_not_tried(services: Services, ann: Actor, now: Clock) -> None:
    ids, target, receiver = _bring(services, ann, "Bad", "Good"), _add(services, ann), Choking("Bad")
    services.sending.send(ann, ids["Bad"], target.id)
    now.add(dt.timedelta(milliseconds=1))
    services.sending.send(ann, ids["Good"], target.id)
    _run(services, ann, receiver)
    _run(services, ann, receiver)
    assert _get_titles(receiver) == ["Bad"]
    services.sending.test(ann, target.id)
    _run(services, ann, receiver)
    assert _get_titles(receiver) == ["Bad", "Eventr", "Good"]


@pytest.mark.parametrize("status", [401, 503])
def test_what_arrives_one_by_one_waits_for_a_service_that_rests(
    services: Services, ann: Actor, now: Clock, status: int
) -> None:
    ids, target = _bring(services, ann, *(f"T{n}" for n in range(20))), _add(services, ann)
    receiver = Receiver(status, status)
    for entry_id in ids.values():
        services.sending.send(ann, entry_id, target.id)
        now.add(dt.timedelta(seconds=1))
        _run(services, ann, receiver)
    assert len(receiver.requests) == 1
    assert [one.tries for one in services.sending.list_deliveries(ann)].count(0) == 19, "no attempts"
    services.sending.test(ann, target.id)
    _run(services, ann, receiver)
    assert _get_titles(receiver)[1:] == ["Eventr"], "a test is sent nevertheless"
    now.add(dt.timedelta(seconds=2 * services.settings.send_backoff_min))
    _run(services, ann, receiver)
    assert sorted(_get_titles(receiver)[2:]) == sorted(["Eventr", *ids])
    _run(services, ann, receiver)
    services.sending.send(ann, ids["T0"], target.id)
    _run(services, ann, receiver)
    assert _get_titles(receiver)[-1] == "T0", "it no longer rests"


def test_a_test_goes_out_beside_entries_that_wait_for_a_service(
    services: Services, ann: Actor, now: Clock
) -> None:
    ids, target, receiver = _bring(services, ann, "One", "Two"), _add(services, ann), Receiver(503)
    services.sending.send(ann, ids["One"], target.id)
    _run(services, ann, receiver)
    now.add(dt.timedelta(seconds=1))
    services.sending.send(ann, ids["Two"], target.id)
    services.sending.test(ann, target.id)
    _run(services, ann, receiver)
    assert _get_titles(receiver) == ["One", "Eventr", "Two"]


def test_a_failure_does_not_take_what_another_worker_is_sending(
    services: Services, ann: Actor, now: Clock
) -> None:
    ids, target = _bring(services, ann, "One", "Two"), _add(services, ann)
    services.sending.send(ann, ids["One"], target.id)
    services.sending.send(ann, ids["Two"], target.id)
    mapper = services.mappers.targets
    other = mapper.claim(ann.user_id, clock.now(), clock.now() + dt.timedelta(minutes=2))
    assert other is not None
    _run(services, ann, Receiver(503, retry_after=500))
    mapper.store_state(other, DeliveryState.SENT)
    states = {one.entry_id: one.state for one in services.sending.list_deliveries(ann)}
    assert states.pop(other.entry_id) is DeliveryState.SENT
    assert list(states.values()) == [DeliveryState.WAITING]


def test_stars_that_were_there_are_not_sent(services: Services, ann: Actor) -> None:
    ids = _bring(services, ann, "Old", "New")
    services.reading.set_starred(ann, ids["Old"], True)
    _add(services, ann, Occasion.STAR)
    services.reading.set_many_starred(ann, list(ids.values()), True)
    receiver = Receiver()
    _run(services, ann, receiver)
    assert _get_titles(receiver) == ["New"]


def test_what_is_too_much_is_counted_once(services: Services, ann: Actor, now: Clock) -> None:
    small = bootstrap.build(dataclasses.replace(services.settings, sends_per_day=1))
    ids, target = _bring(small, ann, "One", "Two", "Three"), _add(small, ann)
    wanted = [Wanted(target.id, entry_id, "rule") for entry_id in ids.values()]
    for _ in range(2):  # a job that is repeated
        small.sending.request_all(ann.user_id, wanted)
    assert small.sending.list_targets(ann)[0].dropped == 2
    assert len(small.sending.list_deliveries(ann)) == 1
    now.add(dt.timedelta(hours=25))
    fresh = [Wanted(target.id, ids["Two"], "star"), Wanted(target.id, ids["Three"], "star")]
    small.sending.request_all(ann.user_id, fresh)  # what was dropped doesn't count for the day
    assert len(small.sending.list_deliveries(ann)) == 2
    small.close()


def test_a_message_names_the_feed_as_its_reader_does(services: Services, ann: Actor) -> None:
    ids, target, receiver = _bring(services, ann, "One"), _add(services, ann), Receiver()
    feed_id = subscribe(services, ann)
    services.sending.send(ann, ids["One"], target.id)
    services.subscriptions.update(ann, feed_id, title="My own name")
    _run(services, ann, receiver)
    assert receiver.bodies[0]["entry"]["feed"] == "My own name"


def test_the_address_of_a_feed_is_for_its_subscribers(services: Services, ann: Actor, db: Any) -> None:
    ids, target, receiver = _bring(services, ann, "One"), _add(services, ann), Receiver()
    feed_id = subscribe(services, ann)
    db.feeds.update_one({"_id": feed_id}, {"$set": {"title": ""}})
    services.sending.send(ann, ids["One"], target.id)
    _run(services, ann, receiver)
    services.reading.set_starred(ann, ids["One"], True)
    services.subscriptions.unsubscribe(ann, feed_id)
    services.sending.request_all(ann.user_id, [Wanted(target.id, ids["One"], "star")])
    _run(services, ann, receiver)
    assert [body["entry"]["feed"] for body in receiver.bodies] == [URL, ""]


def test_the_database_is_never_waited_for_in_the_loop(
    services: Services, ann: Actor, db: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The loop of the worker also runs other jobs."""
    ids, on, off, gone = _bring(services, ann, "One", "Two"), *(_add(services, ann) for _ in range(3))
    for entry_id in ids.values():
        for target in (on, off, gone):
            services.sending.send(ann, entry_id, target.id)
    services.sending.set_enabled(ann, off.id, False)
    in_loop, claimed = list[str](), list[int]()
    for name in ("find", "claim", "store_state", "postpone_target", "record_result"):
        real = getattr(TargetMapper, name)

        def watch(*args: Any, _real: Any = real, _name: str = name, **kwargs: Any) -> Any:
            if asyncio._get_running_loop() is not None:
                in_loop.append(_name)
            found = _real(*args, **kwargs)
            if _name == "claim" and found is not None:
                claimed.append(found.target_id)
            return found

        monkeypatch.setattr(TargetMapper, name, watch)
    db.targets.delete_one({"_id": gone.id})
    _run(services, ann, Receiver(503))
    assert in_loop == []
    assert claimed.count(off.id) == 1  # all of a service that is off are postponed at once
