"""Whose a device is, which address one may have, and when it is dropped."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime as dt
import socket
from typing import Any

import pytest
from werkzeug.wrappers import Response

from app import clock
from app.bootstrap import services as bootstrap
from app.bootstrap.services import Services
from app.config import Settings
from app.errors import (
    ForbiddenError,
    InvalidError,
    NotFoundError,
    RateLimitedError,
    SettingsError,
    TooLargeError,
)
from app.feeds.fetch.fetcher import Fetcher
from app.feeds.webpush import push as rules
from app.models.accounts.actor import Actor
from app.models.discussion.comments import NotificationKind
from app.models.notifications.push import PushDisabledReason
from app.models.sharing.sharing import Share
from tests.discussion.test_likes_and_comments import at_once
from tests.notifications.conftest import Browser, Crew, Post, PushService, base64url
from tests.sharing.conftest import People
from tests.sharing.hub.conftest import Now
from tests.support.wire import Wire


# -- our key
def test_all_processes_have_one_key_whoever_is_first(
    settings: Settings, services: Services, ann: Actor
) -> None:
    with contextlib.ExitStack() as stack:
        others = [stack.enter_context(contextlib.closing(bootstrap.build(settings))) for _ in range(6)]
        found: dict[int, str] = {}

        def ask(number: int) -> None:
            found[number] = others[number].push.make_key(ann)

        at_once(6, ask)
        assert len(found) == 6
        assert len(set(found.values())) == 1
        assert services.push.get_public_key(ann) == found[0]
    assert services.store.database["systemkeys"].count_documents({}) == 1


# -- whose it is
def test_a_device_goes_with_its_session(crew: Crew, ann: Actor, now: Now) -> None:
    sessions = crew.services.gateways.sessions
    one, two, three = (crew.session(ann) for _ in range(3))
    crew.device(ann, "first", one)
    _, second = crew.device(ann, "second", two)
    _, third = crew.device(ann, "third", three)
    crew.services.sign_in.log_out(one)
    assert set(crew.devices(ann)) == {second.id, third.id}
    crew.services.accounts.end_session(ann, two.key[:8].hex())
    assert crew.devices(ann) == [third.id]
    _, fourth = crew.device(ann, "fourth")
    crew.services.accounts.end_other_sessions(ann, three)
    assert crew.devices(ann) == [third.id]
    crew.device(ann, "fifth")
    sessions.end_sessions(ann.user_id)
    assert crew.services.mappers.devices.find_by_user(ann.user_id) == []
    assert fourth.id != third.id


def test_a_session_that_ended_by_itself_takes_its_device_along(
    crew: Crew, post: Post, service: PushService, ann: Actor, now: Now
) -> None:
    crew.device(ann)
    crew.services.push.send_test(ann)
    now.go(days=15)
    assert crew.devices(ann) == []
    assert post.work() == ["nothing"]
    assert service.messages == []
    assert crew.services.mappers.devices.find_by_user(ann.user_id) == []


def test_an_endpoint_is_whose_it_was_registered_for_last(
    crew: Crew, post: Post, service: PushService, ann: Actor, bob: Actor, share: Share
) -> None:
    browser, old = crew.device(ann)
    crew.services.discussion.comment(bob, share.id, "Hello")
    crew.services.push.enqueue_messages(ann.user_id, *_comment(share))
    new = crew.register(bob, browser)
    assert new.id != old.id, "what is on its way for ann ends"
    assert (crew.devices(ann), crew.devices(bob)) == ([], [new.id])
    assert post.work() == ["nothing"]
    assert service.messages == []


def _comment(share: Share) -> tuple[NotificationKind, int, int]:
    return NotificationKind.COMMENT, share.id, int(clock.now().timestamp() * 1000)


def test_people_who_register_one_endpoint_at_once_leave_it_to_one(
    crew: Crew, service: PushService, people: People
) -> None:
    browser = service.browser()
    crowd = [people.join(f"reader{n}") for n in range(6)]
    sessions = [crew.session(who) for who in crowd]
    at_once(6, lambda n: crew.register(crowd[n], browser, sessions[n]) and None)
    assert sum(len(crew.devices(who)) for who in crowd) == 1


def test_a_session_has_one_device(crew: Crew, service: PushService, ann: Actor) -> None:
    session = crew.session(ann)
    _, one = crew.device(ann, "one", session)
    again = service.browser("one")
    assert crew.register(ann, again, session).id == one.id
    known = crew.services.mappers.devices.find(one.id)
    assert known is not None
    assert (known.p256dh, known.auth) == (again.point, again.auth)
    _, two = crew.device(ann, "two", session)
    assert crew.devices(ann) == [two.id]


@pytest.mark.parametrize("look", ["of_user", "living"])
def test_a_device_stays_that_is_registered_anew_while_its_old_session_is_looked_at(
    crew: Crew, service: PushService, ann: Actor, monkeypatch: pytest.MonkeyPatch, look: str
) -> None:
    gateway, accounts = crew.services.gateways.devices, crew.services.gateways.sessions
    old = crew.session(ann)
    browser, device = crew.device(ann, "one", old)
    ask = "list_sessions" if look == "of_user" else "is_session_alive"
    asked = getattr(accounts, ask)

    def between(*args: Any) -> Any:
        monkeypatch.setattr(accounts, ask, asked)
        assert crew.register(ann, browser).id == device.id
        crew.services.sign_in.log_out(old)
        return asked(*args)

    monkeypatch.setattr(accounts, ask, between)
    if look == "of_user":
        gateway.list_devices(ann.user_id)
    else:
        gateway.find_live_device(device.id)
    assert crew.devices(ann) == [device.id]


def test_devices_are_limited(crew: Crew, service: PushService, ann: Actor, settings: Settings) -> None:
    few = dataclasses.replace(settings, push_devices=2, push_per_hour=6)
    with contextlib.closing(bootstrap.build(few)) as services:
        crew.services = services
        sessions = [crew.session(ann) for _ in range(3)]
        for n in (0, 1):
            crew.device(ann, str(n), sessions[n])
        with pytest.raises(TooLargeError) as caught:
            crew.device(ann, "2", sessions[2])
        assert "2 devices" in caught.value.message
        crew.device(ann, "1", sessions[1])
        services.sign_in.log_out(sessions[0])
        crew.device(ann, "2", sessions[2])
        services.push.send_test(ann)
        with pytest.raises(RateLimitedError):
            services.push.send_test(ann)


def test_nobody_removes_anothers(crew: Crew, ann: Actor, bob: Actor) -> None:
    _, device = crew.device(ann)
    with pytest.raises(NotFoundError):
        crew.services.push.remove(bob, device.id)
    crew.services.push.remove(ann, device.id)
    assert crew.devices(ann) == []
    with pytest.raises(NotFoundError):
        crew.services.push.remove(ann, device.id)


# -- what fits
@pytest.mark.parametrize(
    "endpoint",
    [
        "",
        "push.example.org/x",
        "http://push.example.org/x",
        "ftp://push.example.org/x",
        "https://127.0.0.1/x",
        "https://localhost/x",
        "https://10.0.0.1/x",
        "https://169.254.169.254/latest",
        "https://[::1]/x",
        "https://[2606:4700::1111]/x",
        "https://printer.local/x",
        "https://0x7f000001/x",
        "https://user:word@push.example.org/x",
        "https://push.example.org:25/x",
        "https://push.example.org/x#y",
        "https://push.example.org/x y",
        "https://push.example.org/x\r\nX-Evil: 1",
        "https://push.example.org/" + "x" * 1024,
        "http://127.0.0.1:9/x",
    ],
)
def test_S01_addresses_that_are_none_of_a_push_service(crew: Crew, ann: Actor, endpoint: str) -> None:
    with pytest.raises(InvalidError) as caught:
        crew.register(ann, Browser(endpoint))
    assert caught.value.ids["field"] == "endpoint"
    assert crew.services.mappers.devices.find_by_user(ann.user_id) == []


_GOOD = Browser("x", key=7)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("p256dh", ""),
        ("p256dh", base64url(b"\x04" + b"\x01" * 64)),
        ("p256dh", base64url(b"\x04" + b"\x00" * 64)),
        ("p256dh", base64url(b"\x02" + _GOOD.point[1:33])),
        ("p256dh", base64url(b"\x06" + _GOOD.point[1:])),
        ("p256dh", base64url(_GOOD.point + b"\x00")),
        ("p256dh", base64url(_GOOD.point)[:-1]),
        ("p256dh", "!" * 87),
        ("p256dh", "ä" * 87),
        ("auth", ""),
        ("auth", base64url(b"x" * 15)),
        ("auth", base64url(b"x" * 17)),
        ("auth", "x" * 5000),
        ("auth", "+/" * 11),
    ],
)
def test_keys_that_are_none(crew: Crew, service: PushService, ann: Actor, field: str, value: str) -> None:
    form = {**service.browser().form, field: value}
    with pytest.raises(InvalidError) as caught:
        crew.services.push.register(ann, crew.session(ann), **form, agent="", language="en")
    assert caught.value.ids["field"] == field


def test_padding_of_base64_is_no_matter(crew: Crew, service: PushService, ann: Actor) -> None:
    form = service.browser().form
    form = {**form, "p256dh": form["p256dh"] + "=", "auth": form["auth"] + "=="}
    crew.services.push.register(ann, crew.session(ann), **form, agent="", language="en")


# -- how a push service answers
@pytest.mark.parametrize("status", [404, 410])
def test_gone_is_gone(crew: Crew, post: Post, service: PushService, ann: Actor, status: int) -> None:
    crew.device(ann)
    service.answer = Response(status=status)
    crew.services.push.send_test(ann)
    assert post.work() == ["gone"]
    assert crew.devices(ann) == []


@pytest.mark.parametrize("status", [200, 201, 202, 204])
def test_taken_is_taken(crew: Crew, post: Post, service: PushService, ann: Actor, status: int) -> None:
    crew.device(ann)
    service.answer = Response(status=status)
    crew.services.push.send_test(ann)
    assert post.work() == ["sent"]


def test_a_busy_service_is_asked_when_it_says(
    crew: Crew, post: Post, service: PushService, ann: Actor
) -> None:
    browser, _ = crew.device(ann)
    service.answer = Response(status=429, headers={"Retry-After": "3000"})
    crew.services.push.send_test(ann)
    assert post.work() == ["later"]
    service.answer = Response(status=503)
    assert post.work() == ["later"]
    assert post.work() == ["later"]
    assert post.later[0] == 3000
    assert 0 < post.later[1] < post.later[2] < 200
    service.answer = None
    assert post.work() == ["sent"]
    assert browser.read(service.messages[-1])["tag"] == "test"


def test_a_service_that_is_never_there_is_given_up_and_dropped_at_last(
    crew: Crew, post: Post, service: PushService, ann: Actor, settings: Settings
) -> None:
    _, device = crew.device(ann)
    service.answer = Response(status=500)
    for failures in range(1, settings.push_failures):
        crew.services.push.send_test(ann)
        ends = [post.work() for _ in range(settings.push_tries)]
        assert ends == [["later"]] * (settings.push_tries - 1) + [["refused"]]
        assert post.work() == []
        known = crew.services.mappers.devices.find(device.id)
        assert known is not None
        assert known.failures == failures
        crew.services.limiter.reset(f"push:{ann.user_id}")
    crew.services.push.send_test(ann)
    for _ in range(settings.push_tries):
        post.work()
    assert crew.devices(ann) == []


def test_what_a_service_refuses_counts_until_something_is_taken(
    crew: Crew, post: Post, service: PushService, ann: Actor, settings: Settings, now: Now
) -> None:
    _, device = crew.device(ann)
    service.answer = Response(status=403)
    for _ in range(settings.push_failures - 1):
        now.go(minutes=1)
        crew.services.push.send_test(ann)
        assert post.work() == ["refused"]
    service.answer = None
    now.go(minutes=1)
    crew.services.push.send_test(ann)
    assert post.work() == ["sent"]
    service.answer = Response(status=403)
    for left in range(settings.push_failures, 0, -1):
        assert crew.devices(ann) == [device.id], left
        now.go(minutes=1)
        crew.services.push.send_test(ann)
        post.work()
    assert crew.devices(ann) == []


def test_S09_a_redirect_is_followed_nowhere(crew: Crew, post: Post, service: PushService, ann: Actor) -> None:
    crew.device(ann)
    with Wire(lambda request: Response(status=201)) as inside:
        for status in (301, 302, 307, 308):
            service.answer = Response(status=status, headers={"Location": inside.url("/x")})
            crew.services.push.send_test(ann)
            post.work()
        assert inside.seen == []
    assert {r.path for r in service.messages} == {"/send/one"}


def test_S06_a_name_that_leads_inside_is_not_asked(
    crew: Crew, post: Post, ann: Actor, settings: Settings
) -> None:
    """What was registered as a public name means a private address now, or this very server."""
    browser = Browser("https://push.example.org/x")
    device = crew.register(ann, browser)
    asked: list[str] = []

    def resolve(host: str, port: int) -> list[str]:
        asked.append(host)
        return ["127.0.0.1", "10.0.0.7", "::1"]

    def connect(ip: str, port: int) -> socket.socket | None:
        raise AssertionError(ip)

    with Fetcher(settings, resolver=resolve, connector=connect) as fetcher:
        post.use(fetcher)
        crew.services.push.send_test(ann)
        assert post.work() == ["later"], "as one that does not answer (S13)"
    assert asked == ["push.example.org"]
    assert crew.devices(ann) == [device.id]


def test_a_message_that_is_too_old_is_not_sent(
    crew: Crew, post: Post, service: PushService, ann: Actor, now: Now
) -> None:
    crew.device(ann)
    service.answer = Response(status=503)
    crew.services.push.send_test(ann)
    post.work()
    now.go(hours=20)
    service.answer = None
    # What is left of its time is what the service is told.
    assert post.work() == ["sent"]
    assert service.messages[-1].headers["TTL"] == str(4 * 3600)
    service.answer = Response(status=503)
    crew.services.push.send_test(ann)
    post.work()
    now.go(hours=25)
    assert post.work() == ["nothing"]


# -- the administrator
@pytest.mark.parametrize(
    ("changes", "off"),
    [
        ({}, None),
        ({"push": False}, PushDisabledReason.SETTING),
        ({"base_url": "https://reader.example"}, None),
        ({"base_url": "http://localhost:8080"}, None),
        ({"base_url": "http://reader.example"}, PushDisabledReason.INSECURE),
        ({"base_url": "http://192.168.1.5:8080"}, PushDisabledReason.INSECURE),
        ({"host": "0.0.0.0"}, PushDisabledReason.INSECURE),
        ({"base_url": "http://reader.example", "push": False}, PushDisabledReason.SETTING),
    ],
)
def test_where_browsers_do_not_allow_it_there_is_none(
    settings: Settings, changes: dict[str, Any], off: PushDisabledReason | None
) -> None:
    assert rules.find_disabled_reason(dataclasses.replace(settings, **changes)) == off


def test_switched_off_nothing_is_sent_nor_registered(
    crew: Crew, post: Post, service: PushService, ann: Actor, bob: Actor, share: Share, settings: Settings
) -> None:
    crew.device(ann)
    crew.services.push.send_test(ann)
    crew.services.discussion.comment(bob, share.id, "Hello")
    with contextlib.closing(bootstrap.build(dataclasses.replace(settings, push=False))) as services:
        post.services = services
        assert post.work() == ["nothing"]
        services.discussion.comment(bob, share.id, "Hello")
        assert post.queued() == 0
        crew.services = services
        with pytest.raises(ForbiddenError):
            crew.device(ann, "two")
        for call in (services.push.make_key, services.push.send_test):
            with pytest.raises(ForbiddenError):
                call(ann)
    assert service.messages == []


@pytest.mark.parametrize(
    ("base", "contact", "told"),
    [
        ("https://reader.example:8443", "", "https://reader.example:8443"),
        ("http://localhost:8080", "", "mailto:admin@localhost"),
        ("https://reader.example", "mailto:ann@example.org", "mailto:ann@example.org"),
        ("https://reader.example", "https://example.org/about?us", "https://example.org/about?us"),
    ],
)
def test_whom_push_services_may_write_to(settings: Settings, base: str, contact: str, told: str) -> None:
    assert rules.get_contact(dataclasses.replace(settings, base_url=base, push_contact=contact)) == told


@pytest.mark.parametrize(
    "contact", ["ann@example.org", "mailto:", "mailto:ann", "http://x.example", "https://", "mailto:ä@x.org"]
)
def test_a_contact_that_is_none(settings: Settings, contact: str) -> None:
    with pytest.raises(SettingsError):
        dataclasses.replace(settings, push_contact=contact)


# -- what is stored of it
def test_G02_devices_go_with_the_account(crew: Crew, ann: Actor, bob: Actor) -> None:
    crew.device(ann, "ann")
    crew.device(bob, "bob")
    crew.services.mappers.erasure.erase(ann.user_id, dt.datetime(2020, 1, 1, tzinfo=dt.UTC))
    assert crew.services.mappers.devices.find_by_user(ann.user_id) == []
    assert len(crew.devices(bob)) == 1


def test_G01_devices_are_in_the_file_without_what_opens_them(
    crew: Crew, people: People, ann: Actor, now: Now
) -> None:
    browser, device = crew.device(ann)
    user = crew.services.gateways.accounts.find_user(ann.user_id)
    assert user is not None
    row = crew.services.gateways.personal_exports._belongings.build_account(user)
    assert row["devices"] == [{"agent": "Firefox/140 Linux", "language": "en", "created": now.at}]
    for secret in (browser.endpoint, device.p256dh, device.auth, device.session):
        assert str(secret) not in str(row)
