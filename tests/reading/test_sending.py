"""Services that entries are sent to: the requests of each kind, once per entry, results, limits, secrets."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import datetime as dt
import hashlib
import hmac
import json
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import Any

import pytest

from app import clock
from app.bootstrap import services as bootstrap
from app.bootstrap.services import Services
from app.errors import ConflictError, FetchError, InvalidError, NotFoundError, RateLimitedError, TooLargeError
from app.feeds import targets as kinds
from app.feeds.fetch.address_policy import Policy
from app.gateways.reading import targets as gateway
from app.models.accounts.actor import Actor
from app.models.feeds.fetched import Fetched, FetchRequest, Purpose
from app.models.jobs.jobs import Task
from app.models.reading.rules import Rule
from app.models.reading.targets import (
    Delivery,
    DeliveryState,
    NoPageError,
    Occasion,
    SentEntry,
    Target,
    TargetKind,
)
from app.services.reading import sending
from tests.support import rules_dying
from tests.support.reader import add_user, pull, rss

URL = "https://feeds.example/one"
HOOK = "https://hook.example/in"
AT = dt.datetime(2026, 5, 4, 12, tzinfo=dt.UTC)
ENTRY = SentEntry(
    7, "Climate", "https://blog.example/1", "https://eventr.example/entries/7", "Ann", "Warm.", "Blog", AT,
    ("to read",),
)  # fmt: skip


class Clock:
    """The clock of a test."""

    def __init__(self) -> None:
        self._at = dt.datetime.now(dt.UTC).replace(microsecond=0)

    def __call__(self) -> dt.datetime:
        return self._at

    def add(self, span: dt.timedelta) -> None:
        self._at += span


@pytest.fixture
def now() -> Iterator[Clock]:
    found = Clock()
    with clock.set_source(found):
        yield found


class Receiver:
    """Stands for the services in the internet: keeps requests, and answers with these statuses in turn."""

    def __init__(self, *statuses: int, retry_after: int | None = None) -> None:
        self.requests, self._statuses = list[FetchRequest](), list(statuses)
        self._retry_after = retry_after

    async def stream_fetches(self, requests: Sequence[FetchRequest]) -> AsyncIterator[Fetched]:
        for request in requests:
            self.requests.append(request)
            status = self._statuses.pop(0) if self._statuses else 200
            error = None if 200 <= status < 300 else FetchError(f"http_{status}" if status else "timeout")
            yield Fetched(request, status, request.url, error=error, retry_after=self._retry_after)

    @property
    def bodies(self) -> list[Any]:
        return [json.loads(request.form or b"") for request in self.requests]


@pytest.fixture
def no_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait for no job: these tests run it themselves."""
    monkeypatch.setattr(sending, "TEST_WAIT", 0.0)


def _run(services: Services, actor: Actor, receiver: Receiver) -> dict[str, Any]:
    return asyncio.run(services.sending.run(actor.user_id, receiver, 30))


def _add(services: Services, actor: Actor, *on: Occasion, address: str = HOOK, secret: str = "") -> Target:
    return services.sending.add(actor, TargetKind.WEBHOOK, address, secret=secret, on=on)


def _bring(services: Services, feed_id: int, *titles: str) -> None:
    pull(services, [feed_id], {URL: rss("One", [(title, f"<p>About {title}.</p>") for title in titles])})


def _subscribe(services: Services, actor: Actor, *titles: str) -> int:
    feed_id = services.subscriptions.subscribe(actor, URL).subscription.feed_id
    _bring(services, feed_id, *titles)
    return feed_id


def _find_ids(services: Services, feed_id: int) -> dict[str, int]:
    return {e.title: e.id for e in services.mappers.entries.find_range(feed_id, 0, 1 << 40, 1000)}


def _states(services: Services, actor: Actor) -> list[DeliveryState]:
    return [one.state for one in services.sending.list_deliveries(actor)]


@pytest.mark.parametrize(
    ("kind", "address", "url", "headers", "body"),
    [
        (
            TargetKind.NTFY,
            "https://ntfy.sh/my-topic",
            "https://ntfy.sh/",
            {"Authorization": "Bearer s3cret"},
            {"topic": "my-topic", "title": "Climate", "message": "Warm.", "click": "https://blog.example/1"},
        ),
        (
            TargetKind.GOTIFY,
            "https://home.example/gotify/",
            "https://home.example/gotify/message",
            {"X-Gotify-Key": "s3cret"},
            {
                "title": "Climate",
                "message": "Warm.",
                "priority": 5,
                "extras": {"client::notification": {"click": {"url": "https://blog.example/1"}}},
            },
        ),
        (
            TargetKind.READECK,
            "https://readeck.example",
            "https://readeck.example/api/bookmarks",
            {"Authorization": "Bearer s3cret"},
            {"url": "https://blog.example/1", "title": "Climate", "labels": ["to read"]},
        ),
        (
            TargetKind.LINKDING,
            "https://links.example/",
            "https://links.example/api/bookmarks/",
            {"Authorization": "Token s3cret"},
            {
                "url": "https://blog.example/1",
                "title": "Climate",
                "description": "Warm.",
                "tag_names": ["to-read"],
            },
        ),
    ],
)
def test_each_service_gets_what_its_api_takes(
    kind: TargetKind, address: str, url: str, headers: dict[str, str], body: dict[str, Any]
) -> None:
    one = Delivery(1, 2, 7, "rule", AT)
    request = kinds.build_request(kind, address, "s3cret", ENTRY, one, within=5)
    assert request.url == url
    assert dict(request.headers) == {"Content-Type": "application/json", **headers}
    assert json.loads(request.form or b"") == body
    assert (request.follow, request.within, request.purpose) == (False, 5, Purpose.SEND)


def _notify(kind: TargetKind, **changes: Any) -> tuple[dict[str, Any], int]:
    """Return the JSON of a message about an entry, and its bytes."""
    entry = dataclasses.replace(ENTRY, **changes)
    request = kinds.build_request(
        kind, "https://ntfy.sh/t", "s3cret", entry, Delivery(1, 2, 7, "rule", AT), within=5
    )
    assert request.form is not None
    return json.loads(request.form), len(request.form)


@pytest.mark.parametrize("kind", [TargetKind.NTFY, TargetKind.GOTIFY])
def test_messages_stay_below_the_limit_of_ntfy_however_long_entries_are(kind: TargetKind) -> None:
    link = "https://blog.example/" + "ü" * 1000
    body, size = _notify(kind, title="🎉" * 1024, excerpt="日" * 5000, url=link)
    assert (body["title"], body["message"]) == ("🎉" * 249 + "…", "日" * 499 + "…")
    assert link in json.dumps(body, ensure_ascii=False)
    assert size < 8 << 10
    body, size = _notify(kind, title="🎉" * 1024, excerpt="🎉" * 5000, url=link + "ü" * 1000)
    assert ENTRY.own_url in json.dumps(body)
    assert size < 8 << 10


@pytest.mark.parametrize(
    ("changes", "title", "message"),
    [
        ({}, "Climate", "Warm."),
        ({"excerpt": ""}, "Climate", "Blog"),
        ({"title": ""}, "Blog", "Warm."),
        ({"title": "", "excerpt": ""}, "Blog", "https://blog.example/1"),
        ({"title": "", "excerpt": "", "url": ""}, "Blog", "https://eventr.example/entries/7"),
    ],
)
def test_a_message_says_nothing_twice(changes: dict[str, str], title: str, message: str) -> None:
    body, _ = _notify(TargetKind.NTFY, **changes)
    assert (body["title"], body["message"]) == (title, message)


def test_a_refused_token_isnt_sent_with_each_entry(services: Services, now: Clock) -> None:
    ann = add_user(services)
    feed_id = _subscribe(services, ann, "Climate", "Chess", "Cheese")
    target = _add(services, ann)
    for entry_id in _find_ids(services, feed_id).values():
        services.sending.send(ann, entry_id, target.id)
    receiver = Receiver(401)
    _run(services, ann, receiver)
    assert len(receiver.requests) == 1
    now.add(dt.timedelta(seconds=2 * services.settings.send_backoff_min))
    _run(services, ann, receiver)  # the token has been repaired
    assert sorted(body["entry"]["title"] for body in receiver.bodies[1:]) == ["Cheese", "Chess", "Climate"]
    assert set(_states(services, ann)) == {DeliveryState.SENT}


def test_a_webhook_is_signed_and_its_repeats_are_the_same() -> None:
    one = Delivery(1, 2, 7, "rule", AT, tries=1)
    request = kinds.build_request(TargetKind.WEBHOOK, HOOK, "s3cret", ENTRY, one, within=5)
    headers, body = dict(request.headers), request.form or b""
    signature = hmac.new(b"s3cret", body, hashlib.sha256).hexdigest()
    assert headers["X-Eventr-Signature"] == f"sha256={signature}"
    assert headers["X-Eventr-Event"] == json.loads(body)["event"] == "entry.rule"
    assert headers["X-Eventr-Delivery"] == json.loads(body)["id"] == one.event_id
    later = dataclasses.replace(one, tries=5, due=AT)
    assert kinds.build_request(TargetKind.WEBHOOK, HOOK, "s3cret", ENTRY, later, within=5) == request
    assert dataclasses.replace(one, target_id=3).event_id != one.event_id
    plain = kinds.build_request(TargetKind.WEBHOOK, HOOK, "", ENTRY, one, within=5)
    assert "X-Eventr-Signature" not in dict(plain.headers)


@pytest.mark.parametrize("kind", [TargetKind.READECK, TargetKind.LINKDING])
def test_services_that_keep_addresses_need_one(kind: TargetKind) -> None:
    entry = dataclasses.replace(ENTRY, url="")
    with pytest.raises(NoPageError):
        kinds.build_request(kind, "https://a.example/", "x", entry, Delivery(1, 2, 7, "rule", AT), within=5)


@pytest.mark.parametrize(
    ("kind", "address", "secret", "field"),
    [
        (TargetKind.WEBHOOK, "", "", "address"),
        (TargetKind.WEBHOOK, "ftp://example.org/", "", "address"),
        (TargetKind.WEBHOOK, "http://127.0.0.1/", "", "address"),
        (TargetKind.WEBHOOK, "http://169.254.169.254/latest/", "", "address"),
        (TargetKind.WEBHOOK, "http://[::1]/", "", "address"),
        (TargetKind.WEBHOOK, "https://example.org:22/", "", "address"),
        (TargetKind.WEBHOOK, "https://ann:pw@example.org/", "", "address"),
        (TargetKind.WEBHOOK, "https://example.org/" + "x" * 3000, "", "address"),
        (TargetKind.NTFY, "https://ntfy.sh/", "", "address"),
        (TargetKind.NTFY, "https://ntfy.sh/a/b", "", "address"),
        (TargetKind.GOTIFY, "https://gotify.example/", "", "secret"),
        (TargetKind.WEBHOOK, HOOK, "two words", "secret"),
        (TargetKind.WEBHOOK, HOOK, "x\r\nHost: evil", "secret"),
        (TargetKind.WEBHOOK, HOOK, "x" * 600, "secret"),
    ],
)
def test_what_cannot_be_a_service_is_refused(
    services: Services, kind: TargetKind, address: str, secret: str, field: str
) -> None:
    ann = add_user(services)
    with pytest.raises(InvalidError) as caught:
        services.sending.add(ann, kind, address, secret=secret)
    assert caught.value.ids["field"] == field
    assert services.sending.list_targets(ann) == []
    good = "https://ntfy.sh/topic" if kind is TargetKind.NTFY else "https://good.example/"
    target = services.sending.add(ann, kind, good, secret="good")
    if field == "secret" and not secret:
        address = "https://other.example/"  # else the stored one stays
    with pytest.raises(InvalidError) as caught:
        services.sending.change_address(ann, target.id, address, secret)
    assert caught.value.ids["field"] == field
    assert services.sending.list_targets(ann) == [target]


def test_the_allow_list_of_feeds_does_not_hold_for_sending(services: Services) -> None:
    settings = dataclasses.replace(services.settings, fetch_allow=("127.0.0.0/8",))
    with pytest.raises(FetchError):
        Policy(settings, Purpose.SEND).check_url("http://127.0.0.1/")
    allowed = dataclasses.replace(settings, send_allow=("127.0.0.0/8",))
    Policy(allowed, Purpose.SEND).check_url("http://127.0.0.1/")


def test_a_rule_sends_an_entry_once(services: Services) -> None:
    ann = add_user(services)
    feed_id = _subscribe(services, ann)
    target = _add(services, ann, secret="s3cret")
    for query in ("climate", "title:climate"):
        services.rules.save(ann, Rule(0, "", query, send=target.id))
    _bring(services, feed_id, "Climate", "Football")
    services.rule_runner.run(clock.now(), seconds=30)
    (job,) = [job for job in services.sending.find_due_jobs(clock.now()) if job.task is Task.SEND]
    assert job.args == {"user_id": ann.user_id}
    receiver = Receiver()
    assert _run(services, ann, receiver) == {"done": 1}
    (body,) = receiver.bodies
    assert (body["event"], body["entry"]["title"], body["entry"]["feed"]) == ("entry.rule", "Climate", "One")
    assert body["entry"]["url"].startswith("https://")
    assert _states(services, ann) == [DeliveryState.SENT]
    # A repeat of the run, and a change of the entry, send nothing.
    services.sending.request_all(ann.user_id, [gateway.Wanted(target.id, int(body["entry"]["id"]), "rule")])
    assert _run(services, ann, receiver) == {"done": 0}
    assert services.sending.find_due_jobs(clock.now()) == []


@pytest.mark.parametrize("method", ["add_deliveries", "apply_rules", "add_hits"])
@pytest.mark.parametrize("is_after", [False, True])
def test_a_kill_while_rules_are_tried_sends_each_entry_once(
    services: Services, method: str, is_after: bool
) -> None:
    ann = add_user(services)
    feed_id = _subscribe(services, ann)
    target = _add(services, ann)
    services.rules.save(ann, Rule(0, "", "climate", send=target.id))
    _bring(services, feed_id, "Climate 1", "Climate 2")
    assert rules_dying.try_and_die(services.settings, method, 1, is_after=is_after)
    services.rule_runner.run(clock.now(), seconds=30)
    receiver = Receiver()
    _run(services, ann, receiver)
    assert sorted(body["entry"]["title"] for body in receiver.bodies) == ["Climate 1", "Climate 2"]


def test_an_attempt_that_died_is_made_again_with_the_same_id(services: Services, now: Clock) -> None:
    ann = add_user(services)
    feed_id = _subscribe(services, ann, "Climate")
    target = _add(services, ann)
    services.sending.send(ann, _find_ids(services, feed_id)["Climate"], target.id)
    one = services.mappers.targets.claim(ann.user_id, clock.now(), clock.now() + gateway.CLAIMED)
    assert one is not None
    receiver = Receiver()
    assert _run(services, ann, receiver) == {"done": 0}
    now.add(gateway.CLAIMED + dt.timedelta(seconds=1))
    assert _run(services, ann, receiver) == {"done": 1}
    assert receiver.bodies[0]["id"] == one.event_id
    # The first worker, if it was only slow, doesn't undo the result.
    services.mappers.targets.store_state(one, DeliveryState.FAILED, "unreachable")
    assert _states(services, ann) == [DeliveryState.SENT]


@pytest.mark.parametrize("status", [200, 503])
def test_a_new_secret_doesnt_send_again_what_is_being_sent(
    services: Services, now: Clock, status: int
) -> None:
    ann = add_user(services)
    feed_id = _subscribe(services, ann, "Climate")
    target = _add(services, ann, secret="old")
    services.sending.send(ann, _find_ids(services, feed_id)["Climate"], target.id)
    another = Receiver()

    class Changing(Receiver):
        """A new secret is stored while the entry is on its way, and another worker does its job."""

        async def stream_fetches(self, requests: Sequence[FetchRequest]) -> AsyncIterator[Fetched]:
            services.sending.change_secret(ann, target.id, "new")
            now.add(dt.timedelta(seconds=1))
            await services.sending.run(ann.user_id, another, 30)
            async for one in super().stream_fetches(requests):
                yield one

    assert _run(services, ann, Changing(status)) == {"done": 1}
    assert another.requests == []
    assert _states(services, ann) == [DeliveryState.SENT if status == 200 else DeliveryState.WAITING]
    # What a failed attempt left waits for nobody: a new secret makes it due.
    services.sending.change_secret(ann, target.id, "newer")
    assert _run(services, ann, another) == {"done": int(status == 503)}


@pytest.mark.parametrize("status", [200, 503])
def test_a_new_address_gets_what_waits_and_no_secret_goes_to_the_other_address(
    services: Services, now: Clock, status: int
) -> None:
    ann = add_user(services)
    feed_id = _subscribe(services, ann, "Climate", "Football")
    target = services.sending.add(ann, TargetKind.GOTIFY, "https://old.example/", secret="old")
    ids = _find_ids(services, feed_id)
    services.sending.send(ann, ids["Climate"], target.id)
    new = "https://new.example/push"

    class Changing(Receiver):
        """The address is changed while an entry is on its way, and another worker does its job."""

        async def stream_fetches(self, requests: Sequence[FetchRequest]) -> AsyncIterator[Fetched]:
            services.sending.change_address(ann, target.id, new, "new")
            async for one in super().stream_fetches(requests):
                yield one

    first, second = Changing(status), Receiver()
    assert _run(services, ann, first) == {"done": 1}
    services.sending.send(ann, ids["Football"], target.id)
    services.sending.change_address(ann, target.id, new)  # what waits is due, although the service rested
    assert _run(services, ann, second) == {"done": 1 if status == 200 else 2}
    sent = [(one.url, dict(one.headers)["X-Gotify-Key"]) for one in (*first.requests, *second.requests)]
    assert sent[0] == ("https://old.example/message", "old")
    assert set(sent[1:]) == {("https://new.example/push/message", "new")}
    assert set(_states(services, ann)) == {DeliveryState.SENT}


def test_a_secret_is_never_stored_beside_an_address_it_wasnt_entered_for(services: Services, db: Any) -> None:
    ann = add_user(services)
    target = services.sending.add(ann, TargetKind.GOTIFY, "https://old.example/", secret="old")
    services.sending.change_address(ann, target.id, "https://new.example/", "new")
    stored = db.targets.find_one({"_id": target.id})
    # Both changes were checked before the other one was stored.
    for late in (
        dataclasses.replace(target, sealed=b"for the old address"),
        dataclasses.replace(target, address="https://old.example/other"),
    ):
        assert not services.mappers.targets.store_access(target, late, clock.now())
    assert db.targets.find_one({"_id": target.id}) == stored
    # Nor is one stored that a service without a secret was to get for its old address.
    bare = _add(services, ann)
    services.sending.change_address(ann, bare.id, "https://new.example/in")
    late = dataclasses.replace(bare, sealed=b"for the old address")
    assert not services.mappers.targets.store_access(bare, late, clock.now())
    # An older secret doesn't come back with a change of the path.
    before = services.gateways.targets.get(ann.user_id, target.id)
    services.sending.change_secret(ann, target.id, "newer")
    assert not services.mappers.targets.store_access(
        before, dataclasses.replace(before, address="https://new.example/x"), clock.now()
    )


def test_a_change_meanwhile_is_kept_or_said(services: Services) -> None:
    ann, targets = add_user(services), services.gateways.targets
    target = services.sending.add(ann, TargetKind.GOTIFY, "https://push.example/", secret="old")

    def _change(address: str, meanwhile: Callable[[], object]) -> None:
        """Change the address; the name is made after it was read, so something else is stored then."""
        done = list[object]()
        targets.set_address(
            ann.user_id, target.id, address, "", clock.now(),
            name_host=lambda one: done.append(done or meanwhile()) or one,  # type: ignore[func-returns-value]
        )  # fmt: skip

    _change("https://push.example/a", lambda: services.sending.change_secret(ann, target.id, "newer"))
    stored = targets.get(ann.user_id, target.id)
    built = targets.build_request(stored, Delivery(ann.user_id, target.id, 0, "test:1", clock.now()))
    assert built
    assert (built.url, dict(built.headers)["X-Gotify-Key"]) == ("https://push.example/a/message", "newer")
    with pytest.raises(ConflictError):
        _change(
            "https://push.example/b",
            lambda: services.sending.change_address(ann, target.id, "https://new.example/", "new"),
        )
    assert targets.get(ann.user_id, target.id).address == "https://new.example/"


@pytest.mark.parametrize(
    ("address", "stays"),
    [
        ("https://push.example/other", True),
        ("HTTPS://PUSH.example:443/", True),
        ("push.example/x", True),
        ("http://push.example/", False),
        ("http://push.example:443/", False),
        ("https://push.example:8443/", False),
        ("https://push.example.evil.example/", False),
        ("https://evil.example/push.example", False),
    ],
)
def test_a_stored_secret_stays_with_its_server_only(
    services: Services, db: Any, address: str, stays: bool
) -> None:
    ann = add_user(services)
    target = services.sending.add(ann, TargetKind.GOTIFY, "https://push.example/", secret="Geheim-7")
    before = db.targets.find_one({"_id": target.id})
    if stays:
        services.sending.change_address(ann, target.id, address)
        assert db.targets.find_one({"_id": target.id})["secret"] == before["secret"]
        return
    for secret in ("", " "):
        with pytest.raises(InvalidError) as caught:
            services.sending.change_address(ann, target.id, address, secret)
        assert caught.value.ids["field"] == "secret"
    assert db.targets.find_one({"_id": target.id}) == before


def test_a_service_without_a_secret_moves_without_one_and_its_name_follows(services: Services) -> None:
    ann = add_user(services)
    named = services.sending.add(ann, TargetKind.WEBHOOK, HOOK, name="Mine")
    for target, name in ((_add(services, ann), "new.example"), (named, "Mine")):
        found = services.sending.change_address(ann, target.id, "new.example/in")
        assert (found.address, found.name) == ("https://new.example/in", name)


def test_a_slow_attempt_isnt_repeated_because_the_service_rested_meanwhile(
    services: Services, now: Clock
) -> None:
    ann = add_user(services)
    feed_id = _subscribe(services, ann, "Climate")
    target = _add(services, ann)
    services.sending.send(ann, _find_ids(services, feed_id)["Climate"], target.id)
    mapper = services.mappers.targets
    one = mapper.claim(ann.user_id, clock.now(), clock.now() + gateway.CLAIMED)
    assert one is not None
    now.add(gateway.CLAIMED + dt.timedelta(seconds=1))
    mapper.postpone_target(ann.user_id, target.id, clock.now() + dt.timedelta(hours=1), clock.now())
    mapper.store_state(one, DeliveryState.SENT)
    assert _states(services, ann) == [DeliveryState.SENT]
    now.add(dt.timedelta(hours=2))
    assert _run(services, ann, Receiver()) == {"done": 0}


def test_stars_and_shares_are_sent_where_wanted(services: Services) -> None:
    ann = add_user(services)
    feed_id = _subscribe(services, ann, "Climate", "Chess")
    ids = _find_ids(services, feed_id)
    _add(services, ann, Occasion.STAR)
    _add(services, ann, Occasion.SHARE, address="https://other.example/")
    services.reading.set_starred(ann, ids["Climate"], True)
    services.reading.set_starred(ann, ids["Climate"], False)
    services.reading.set_starred(ann, ids["Climate"], True)
    services.reading.set_many_starred(ann, [ids["Chess"]], True)
    services.sharing.share(ann, ids["Chess"])
    receiver = Receiver()
    _run(services, ann, receiver)
    assert sorted((b["event"], b["entry"]["title"]) for b in receiver.bodies) == [
        ("entry.share", "Chess"),
        ("entry.star", "Chess"),
        ("entry.star", "Climate"),
    ]


@pytest.mark.parametrize(
    ("status", "error", "state"),
    [
        (0, "unreachable", DeliveryState.WAITING),
        (503, "http_503", DeliveryState.WAITING),
        (429, "http_429", DeliveryState.WAITING),
        (401, "http_401", DeliveryState.WAITING),
        (403, "http_403", DeliveryState.WAITING),
        (413, "http_413", DeliveryState.FAILED),
        (301, "http_301", DeliveryState.FAILED),
        (202, "", DeliveryState.SENT),
    ],
)
def test_failures_are_shown_and_tried_again_with_patience(
    services: Services, now: Clock, status: int, error: str, state: DeliveryState
) -> None:
    ann = add_user(services)
    feed_id = _subscribe(services, ann, "Climate")
    target = _add(services, ann)
    services.sending.send(ann, _find_ids(services, feed_id)["Climate"], target.id)
    receiver = Receiver(status, retry_after=500)
    _run(services, ann, receiver)
    (seen,) = services.sending.list_targets(ann)
    assert (seen.error, _states(services, ann)) == (error, [state])
    now.add(dt.timedelta(seconds=400))
    _run(services, ann, receiver)
    assert len(receiver.requests) == 1
    now.add(dt.timedelta(seconds=200))
    _run(services, ann, receiver)
    assert len(receiver.requests) == (2 if state is DeliveryState.WAITING else 1)


@pytest.mark.parametrize(
    ("word", "error"),
    [
        ("timeout", "unreachable"),
        ("connect_failed", "unreachable"),
        ("https_failed", "unreachable"),
        ("bad_response", "unreachable"),
        ("refused", "unreachable"),
        ("dns_failed", "unreachable"),
        ("tls_failed", "tls_failed"),
    ],
)
def test_S13_forbidden_closed_silent_and_unknown_addresses_look_alike(word: str, error: str) -> None:
    request = FetchRequest(HOOK)
    assert kinds.classify_response(Fetched(request, 0, HOOK, error=FetchError(word))) == (error, True)


@pytest.mark.usefixtures("no_wait")
def test_what_a_service_did_not_get_is_sent_again_on_demand(services: Services, now: Clock) -> None:
    ann = add_user(services)
    feed_id = _subscribe(services, ann, "Climate", "Chess")
    target, ids = _add(services, ann), _find_ids(services, feed_id)
    services.sending.send(ann, ids["Climate"], target.id)
    receiver = Receiver(413, 503)
    _run(services, ann, receiver)
    services.sending.send(ann, ids["Chess"], target.id)
    _run(services, ann, receiver)
    assert sorted(_states(services, ann)) == [DeliveryState.FAILED, DeliveryState.WAITING]
    _run(services, ann, receiver)
    assert len(receiver.requests) == 2
    now.add(dt.timedelta(seconds=1))
    services.sending.retry(ann, target.id)
    _run(services, ann, receiver)
    assert _states(services, ann) == [DeliveryState.SENT] * 2
    # The receiver can tell that it is the same.
    assert {b["id"] for b in receiver.bodies[:2]} == {b["id"] for b in receiver.bodies[2:]}
    # Nothing failed: a test is sent.
    services.sending.retry(ann, target.id)
    _run(services, ann, receiver)
    assert receiver.bodies[-1]["event"] == "entry.test"
    assert len(receiver.requests) == 5


@pytest.mark.usefixtures("no_wait")
def test_each_entry_that_failed_is_sent_again_once_and_what_arrived_is_not(
    services: Services, now: Clock
) -> None:
    ann = add_user(services)
    feed_id = _subscribe(services, ann, "Climate", "Chess")
    target, ids = _add(services, ann), _find_ids(services, feed_id)

    def send(title: str, status: int) -> None:
        now.add(dt.timedelta(minutes=2))  # within a minute it would be the same request
        services.sending.send(ann, ids[title], target.id)
        _run(services, ann, Receiver(status))

    for status in (413, 200, 413):
        send("Climate", status)
    for _ in range(3):
        send("Chess", 413)
    services.sending.retry(ann, target.id)
    receiver = Receiver()
    _run(services, ann, receiver)
    assert [body["entry"]["title"] for body in receiver.bodies] == ["Chess"]
    services.sending.retry(ann, target.id)
    _run(services, ann, receiver)
    assert [body["event"] for body in receiver.bodies[1:]] == ["entry.test"], "what arrived isn't tried again"


@pytest.mark.usefixtures("no_wait")
def test_trying_again_ends_at_the_limit_of_a_day(services: Services, now: Clock) -> None:
    settings = dataclasses.replace(services.settings, sends_per_day=sending.SHOWN * 2)
    ann, receiver = add_user(services), Receiver(413, 413, 413)
    feed_id = _subscribe(services, ann, "Climate")
    target, ids = _add(services, ann), _find_ids(services, feed_id)
    services.sending.send(ann, ids["Climate"], target.id)
    _run(services, ann, receiver)
    with contextlib.closing(bootstrap.build(settings)) as small:
        for _ in range(2):
            small.sending.retry(ann, target.id)
            _run(services, ann, receiver)
        with pytest.raises(RateLimitedError):
            small.sending.retry(ann, target.id)
    _run(services, ann, receiver)
    assert len(receiver.requests) == 3


@pytest.mark.usefixtures("no_wait")
def test_what_failed_long_ago_or_for_good_or_is_being_sent_isnt_sent_again(
    services: Services, now: Clock
) -> None:
    ann = add_user(services)
    feed_id = _subscribe(services, ann, "Climate", "Chess", "Cats")
    target, ids = _add(services, ann), _find_ids(services, feed_id)
    services.sending.send(ann, ids["Climate"], target.id)
    _run(services, ann, Receiver(413))
    now.add(sending.GIVEN_UP + dt.timedelta(seconds=1))
    services.sending.send(ann, ids["Chess"], target.id)
    one = services.mappers.targets.claim(ann.user_id, clock.now(), clock.now() + gateway.CLAIMED)
    assert one
    services.mappers.targets.store_state(one, DeliveryState.FAILED, "no_page")
    services.sending.send(ann, ids["Cats"], target.id)
    assert services.mappers.targets.claim(ann.user_id, clock.now(), clock.now() + gateway.CLAIMED)
    services.sending.retry(ann, target.id)
    receiver = Receiver()
    _run(services, ann, receiver)
    assert [b["event"] for b in receiver.bodies] == ["entry.test"]


def test_what_is_off_or_another_persons_isnt_tried_again(services: Services) -> None:
    ann, bob = add_user(services), add_user(services, "bob")
    target = _add(services, ann)
    with pytest.raises(NotFoundError):
        services.sending.retry(bob, target.id)
    services.sending.set_enabled(ann, target.id, False)
    with pytest.raises(InvalidError):
        services.sending.retry(ann, target.id)


def test_patience_ends(services: Services, now: Clock) -> None:
    ann = add_user(services)
    feed_id = _subscribe(services, ann, "Climate")
    target = _add(services, ann)
    services.sending.send(ann, _find_ids(services, feed_id)["Climate"], target.id)
    receiver = Receiver(*[503] * 50)
    for _ in range(services.settings.send_tries + 3):
        _run(services, ann, receiver)
        now.add(dt.timedelta(hours=7))
    assert len(receiver.requests) == services.settings.send_tries
    assert _states(services, ann) == [DeliveryState.FAILED]


def test_the_sends_of_a_day_are_limited(services: Services, now: Clock) -> None:
    small = bootstrap.build(dataclasses.replace(services.settings, sends_per_day=2, targets_max=1))
    ann = add_user(small)
    feed_id = _subscribe(small, ann)
    target = _add(small, ann)
    with pytest.raises(TooLargeError):
        _add(small, ann)
    small.rules.save(ann, Rule(0, "", "climate", send=target.id))
    receiver = Receiver()
    for n in range(2):
        _bring(small, feed_id, f"Climate {n} a", f"Climate {n} b", f"Climate {n} c")
        small.rule_runner.run(clock.now(), seconds=30)
        _run(small, ann, receiver)
    assert len(receiver.requests) == 2
    assert small.sending.list_targets(ann)[0].dropped == 4
    with pytest.raises(RateLimitedError):
        small.sending.send(ann, _find_ids(small, feed_id)["Climate 1 c"], target.id)
    now.add(dt.timedelta(days=1, seconds=10))
    _bring(small, feed_id, "Climate 9")
    small.rule_runner.run(clock.now(), seconds=30)
    _run(small, ann, receiver)
    assert len(receiver.requests) == 3
    small.sending.set_enabled(ann, target.id, True)
    assert small.sending.list_targets(ann)[0].dropped == 0
    small.close()


def test_what_is_off_gone_or_unseen_is_not_sent(services: Services, now: Clock) -> None:
    ann, bob = add_user(services, "ann"), add_user(services, "bob")
    feed_id = _subscribe(services, ann, "Climate", "Chess")
    ids, receiver = _find_ids(services, feed_id), Receiver()
    target = _add(services, ann)
    for other, entry in ((bob, ids["Climate"]), (ann, 12345)):
        with pytest.raises(NotFoundError):
            services.sending.send(other, entry, target.id)
    services.sending.send(ann, ids["Climate"], target.id)
    services.sending.set_enabled(ann, target.id, False)
    with pytest.raises(InvalidError):
        services.sending.send(ann, ids["Chess"], target.id)
    _run(services, ann, receiver)
    assert not receiver.requests
    services.sending.set_enabled(ann, target.id, True)
    now.add(dt.timedelta(hours=2))
    _run(services, ann, receiver)
    assert len(receiver.requests) == 1
    services.sending.send(ann, ids["Chess"], target.id)
    services.sending.remove(ann, target.id)
    _run(services, ann, receiver)
    assert len(receiver.requests) == 1
    assert services.sending.list_deliveries(ann) == []


def test_secrets_are_sealed_and_open_for_their_owner_only(services: Services, db: Any) -> None:
    ann, bob = add_user(services, "ann"), add_user(services, "bob")
    feed_id = _subscribe(services, ann, "Climate")
    target = services.sending.add(ann, TargetKind.GOTIFY, "https://gotify.example/", secret="Geheim-7")
    (stored,) = db.targets.find()
    assert b"Geheim-7" not in json.dumps(stored, default=repr).encode()
    assert "Geheim-7" not in repr(target)
    # A copy in another account doesn't open.
    db.targets.update_one({"_id": target.id}, {"$set": {"user_id": bob.user_id}})
    services.subscriptions.subscribe(bob, URL)
    receiver = Receiver()
    services.sending.send(bob, _find_ids(services, feed_id)["Climate"], target.id)
    _run(services, bob, receiver)
    assert not receiver.requests
    assert services.sending.list_targets(bob)[0].error == "secret"


def test_a_rule_keeps_a_service_that_is_gone_and_travels_with_its_name(services: Services) -> None:
    ann, bob = add_user(services, "ann"), add_user(services, "bob")
    target = _add(services, ann)
    rule = services.rules.save(ann, Rule(0, "", "climate", send=target.id))
    with pytest.raises(InvalidError):
        services.rules.save(bob, Rule(0, "", "climate", send=target.id))
    content = json.dumps(services.rules.export(ann)).encode()
    assert services.rules.import_rules(bob, content) == (0, 1)
    mine = _add(services, bob)
    assert services.rules.import_rules(bob, content) == (1, 0)
    assert services.rules.list_rules(bob).rules[0].send == mine.id
    services.sending.remove(ann, target.id)
    assert services.rules.save(ann, dataclasses.replace(rule, name="Still")).send == target.id
    feed_id = _subscribe(services, ann)
    _bring(services, feed_id, "Climate")
    assert services.rule_runner.run(clock.now(), seconds=30)["matches"] == 1
    assert services.sending.find_due_jobs(clock.now()) == []
