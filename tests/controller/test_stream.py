"""The stream of events as a browser gets it: who hears what, coming back, limits, the slow and the forged."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable
from typing import Any

import pytest
import redis

from app.adapters.redis.events import RedisEvents
from app.config import Settings
from app.models.jobs import redis_keys
from app.models.notifications.events import ENDS, EventPass
from controller.audience import RECENT
from tests.support import live

Run = Callable[..., live.Part]
Inside = Callable[..., None]
ANN, BOB = 1_700_000_000_000_001, 1_700_000_000_000_002


def _url(events: RedisEvents, user_id: int, feeds: list[int] | None = None, after: str = "") -> str:
    url = "/events?pass=" + events.issue_pass(user_id, feeds or [], events.get_position())
    return f"{url}&after={after}" if after else url


def test_each_hears_what_is_for_him(settings: Settings, events: RedisEvents, inside: Inside) -> None:
    inside()
    port = settings.events_port
    with (
        live.listening(port, _url(events, ANN, [1, 2])) as ann,
        live.listening(port, _url(events, ANN, [1, 2])) as anns_other,
        live.listening(port, _url(events, BOB, [2, 3])) as bob,
    ):
        assert ann.headers["content-type"] == "text/event-stream; charset=utf-8"
        assert ann.headers["cache-control"] == "no-store"
        assert "access-control-allow-origin" not in ann.headers
        events.notify_counts(ANN)
        assert ann.next()[1:] == ("counts", {})
        assert anns_other.next()[1:] == ("counts", {})
        events.notify_new_entries({1: 5, 2: 7, 9: 1})
        for ear in (ann, anns_other):
            _, kind, data = ear.next()
            assert (kind, data["feeds"]) == ("new", {"1": 5, "2": 7})
        events.notify_progress(BOB, 77, {"done": 3, "total": 9})
        got = [bob.next()[1:], bob.next()[1:]]
        assert [(kind, data.get("feeds")) for kind, data in got] == [("new", {"2": 7}), ("import", None)]
        assert got[1][1] == {"done": 3, "total": 9, "id": 77}


def test_who_subscribes_hears_of_his_new_feed_and_no_more_of_the_old(
    settings: Settings, events: RedisEvents, inside: Inside
) -> None:
    inside()
    with live.listening(settings.events_port, _url(events, ANN, [1])) as ann:
        events.notify_follows(ANN, added=[5], removed=[1])
        assert ann.next()[1] == "counts"
        events.notify_new_entries({1: 1})
        events.notify_new_entries({5: 1})
        assert ann.next()[2]["feeds"] == {"5": 1}


def test_what_comes_fast_is_merged(settings: Settings, events: RedisEvents, inside: Inside) -> None:
    inside()
    with live.listening(settings.events_port, _url(events, ANN, [1, 2])) as ann:
        events.notify_counts(ANN)
        ann.next()
        for _ in range(20):
            events.notify_new_entries({1: 1})
            events.notify_counts(ANN)
        events.notify_new_entries({1: 1, 2: 4})
        found: dict[str, Any] = {"new": {}}
        last = ""
        while found["new"].get("2") is None:
            last, kind, data = ann.next()
            if kind == "new":
                for feed, count in data["feeds"].items():
                    found["new"][feed] = found["new"].get(feed, 0) + count
        assert found["new"] == {"1": 21, "2": 4}
        # The id of the whole bunch comes with the last of it.
        assert last in ("", events.get_position()) or ann.next()[0] == events.get_position()


def test_between_the_pass_and_the_stream_nothing_is_missed(
    settings: Settings, events: RedisEvents, inside: Inside
) -> None:
    inside()
    url = _url(events, ANN, [1])
    events.notify_follows(ANN, added=[2], removed=[1])
    events.notify_new_entries({1: 8})
    events.notify_new_entries({2: 9})
    with live.listening(settings.events_port, url) as ann:
        got = [ann.next()[1:], ann.next()[1:]]
        assert got[0] == ("counts", {})
        assert got[1][1]["feeds"] == {"2": 9}


def test_what_a_page_shows_already_is_not_told_when_the_controller_reads_it_late(
    settings: Settings, events: RedisEvents, inside: Inside, redis_client: redis.Redis
) -> None:
    inside()
    shown = int(events.get_position().partition("-")[0]) + 3_600_000
    pages = events.issue_pass(ANN, [1], f"{shown}-0")
    with live.listening(settings.events_port, f"/events?pass={pages}") as ann:
        events.notify_counts(ANN)
        events.notify_new_entries({1: 5})
        redis_client.xadd(redis_keys.PEOPLE, {"kind": "new", "data": '{"1":2}'}, id=f"{shown}-1")
        at, kind, data = ann.next()
    assert (at, kind, data["feeds"]) == (f"{shown}-1", "new", {"1": 2})


@pytest.mark.parametrize("way", ["header", "query"])
def test_who_comes_back_gets_what_he_missed_also_over_a_kill(
    settings: Settings, events: RedisEvents, run: Run, way: str
) -> None:
    first = run()
    with live.listening(settings.events_port, _url(events, ANN, [1])) as ann:
        events.notify_counts(ANN)
        at, kind, _ = ann.next()
        assert (kind, at) == ("counts", events.get_position())
        first.kill()
        assert ann.ended()
    events.notify_new_entries({1: 3})
    events.notify_counts(BOB)
    events.notify_progress(ANN, 5, {"done": 1})
    run()
    url = _url(events, ANN, [1], at if way == "query" else "")
    with live.listening(settings.events_port, url, *[f"Last-Event-ID: {at}"] * (way == "header")) as ann:
        got = [ann.next(), ann.next()]
        assert [(kind, data.get("feeds"), data.get("id")) for _, kind, data in got] == [
            ("new", {"1": 3}, None),
            ("import", None, 5),
        ]
        assert got[-1][0] == events.get_position()
    with live.listening(settings.events_port, _url(events, ANN, [1], got[-1][0])) as ann:
        events.notify_new_entries({1: 1})
        assert ann.next()[2]["feeds"] == {"1": 1}


@pytest.mark.parametrize("after", ["1-0", "1000000-3"])
def test_who_was_away_too_long_asks_for_everything(
    settings: Settings, events: RedisEvents, inside: Inside, after: str
) -> None:
    inside()
    with live.listening(settings.events_port, _url(events, ANN, [1], after)) as ann:
        assert ann.next()[1] == "reset"


def test_too_much_to_replay_is_a_reset(settings: Settings, events: RedisEvents, inside: Inside) -> None:
    inside()
    at = events.get_position()
    for _ in range(1100):
        events.notify_counts(BOB)
    with live.listening(settings.events_port, _url(events, ANN, [], at)) as ann:
        assert ann.next()[1] == "reset"


def test_silence_is_broken_by_beats_that_carry_the_place(
    settings: Settings, events: RedisEvents, inside: Inside
) -> None:
    inside(events_beat=1.0)
    with live.listening(settings.events_port, _url(events, ANN)) as ann:
        events.notify_counts(BOB)
        position = events.get_position()
        while ann.next(beats=True)[:2] != (position, "beat"):
            pass


def test_a_stream_ends_after_its_time(settings: Settings, events: RedisEvents, inside: Inside) -> None:
    inside(events_lifetime=5.0)
    with live.listening(settings.events_port, _url(events, ANN)) as ann:
        assert ann.ended()


REFUSED = {
    "no pass": ("/events", 401, "auth_required"),
    "forged": ("/events?pass=x.y.z", 401, "auth_required"),
    "long": ("/events?pass=" + "x" * 3000, 401, "auth_required"),
    "elsewhere": ("/", 404, "not_found"),
    "path": ("/events/../x?pass=1", 404, "not_found"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_who_has_no_pass_is_refused_in_one_sentence(settings: Settings, inside: Inside, name: str) -> None:
    inside()
    path, status, word = REFUSED[name]
    with live.listening(settings.events_port, path) as ear:
        assert ear.status == status
        body = ear.body()
        assert body["error"] == word
        assert body["message"]
        assert ear.headers["content-security-policy"].startswith("default-src 'none'")
        assert ear.headers["x-content-type-options"] == "nosniff"


def test_W10_W03_pages_of_other_sites_are_refused(
    settings: Settings, events: RedisEvents, inside: Inside
) -> None:
    inside()
    for site in ("cross-site", "same-site"):
        with live.listening(settings.events_port, _url(events, ANN), f"Sec-Fetch-Site: {site}") as ear:
            assert ear.status == 403
    with live.listening(settings.events_port, _url(events, ANN), "Sec-Fetch-Site: same-origin") as ear:
        assert ear.status == 200


def test_a_pass_runs_out(settings: Settings, inside: Inside) -> None:
    inside(events_pass_ttl=5)
    from itsdangerous import TimestampSigner

    from app.models.notifications import events as module

    class Earlier(TimestampSigner):
        def get_timestamp(self) -> int:
            return super().get_timestamp() - 7

    signer = module._serializer(settings.secret_key)
    signer.signer = Earlier
    old = signer.dumps([ANN, "0-0"])
    assert isinstance(old, str)
    assert EventPass.read(settings.secret_key, old, 60).user_id == ANN
    with live.listening(settings.events_port, f"/events?pass={old}") as ear:
        assert ear.status == 401


@pytest.mark.parametrize(
    "text",
    ["\r\n\r\n", "GET\r\n\r\n", "POST /events HTTP/1.1\r\n\r\n", "GET /events HTTP/9\r\n\r\n"],
    ids=["empty", "short", "post", "version"],
)
def test_what_is_no_request_is_refused(settings: Settings, inside: Inside, text: str) -> None:
    inside()
    with contextlib.closing(socket.create_connection(("127.0.0.1", settings.events_port), 20)) as sock:
        ear = live.Ear(sock, text)
        assert ear.status == 400
        ear.close()


def test_a_head_without_end_is_cut_off(settings: Settings, inside: Inside) -> None:
    inside()
    with contextlib.closing(socket.create_connection(("127.0.0.1", settings.events_port), 20)) as sock:
        ear = live.Ear(sock, "GET /events?pass=x HTTP/1.1\r\nX: " + "x" * 40_000)
        assert ear.status == 400
        ear.close()


def test_a_herd_that_comes_at_once_is_let_in(settings: Settings, events: RedisEvents, inside: Inside) -> None:
    inside(events_per_address=500)
    count = 300
    with contextlib.ExitStack() as stack:
        requests = [live.get(_url(events, user)) for user in range(1, count + 1)]
        sockets = [
            stack.enter_context(socket.create_connection(("127.0.0.1", settings.events_port), 20))
            for _ in range(count)
        ]
        for sock, request in zip(sockets, requests, strict=True):
            sock.sendall(request.encode())
        ears = [sock.recv(12) for sock in sockets]
    assert set(ears) == {b"HTTP/1.1 200"}


def test_each_user_and_each_address_has_its_limit(
    settings: Settings, events: RedisEvents, inside: Inside
) -> None:
    inside(events_per_user=2, events_per_address=3)
    port = settings.events_port
    with contextlib.ExitStack() as stack:

        def status(user_id: int) -> int:
            return stack.enter_context(live.listening(port, _url(events, user_id))).status

        assert [status(ANN), status(ANN), status(ANN)] == [200, 200, 429]
        assert [status(BOB), status(BOB)] == [200, 429]
    # Who has gone makes room, and is no reader any more.
    with contextlib.ExitStack() as stack:
        for _ in range(3):
            stack.enter_context(live.listening(port, _url(events, ANN)))


def test_behind_a_proxy_the_address_is_the_readers(
    settings: Settings, events: RedisEvents, inside: Inside
) -> None:
    inside(events_per_address=1, trusted_proxies=1)
    port = settings.events_port
    with contextlib.ExitStack() as stack:

        def status(forwarded: str) -> int:
            ear = live.listening(port, _url(events, ANN), f"X-Forwarded-For: {forwarded}")
            return stack.enter_context(ear).status

        # Only the entry that our own proxy wrote counts, whatever stands before it.
        assert status("203.0.113.1") == 200
        assert status("198.51.100.9, 203.0.113.1") == 429
        assert status("203.0.113.1, 203.0.113.2") == 200
        assert status("2001:db8:1:2::3") == 200
        assert status("2001:db8:1:2:ffff::4") == 429


def test_there_is_a_limit_for_all_together(settings: Settings, events: RedisEvents, inside: Inside) -> None:
    inside(events_streams=2)
    port = settings.events_port
    with (
        live.listening(port, _url(events, ANN)),
        live.listening(port, _url(events, BOB)),
        live.listening(port, _url(events, BOB)) as ear,
    ):
        assert ear.status == 503
        assert ear.headers["retry-after"]


def test_who_reads_nothing_is_dropped_and_holds_up_nobody(
    settings: Settings, events: RedisEvents, inside: Inside, eventually: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    inside(events_stall=5.0)  # longer than the quick one may be held up
    port = settings.events_port
    with socket.socket() as slow, live.listening(port, _url(events, ANN)) as quick:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        slow.connect(("127.0.0.1", port))
        slow.sendall(live.get(_url(events, ANN)).encode())
        report = {f"part{n}": "x" * 100 for n in range(30)}
        number = 0

        def dropped() -> bool:
            nonlocal number
            for _ in range(20):
                number += 1
                events.notify_progress(ANN, number % 40, report)
            quick.next()
            return "stream_dropped" in [record.message for record in caplog.records]

        eventually(dropped)
        events.notify_counts(ANN)
        while quick.next()[1] not in ("counts", "reset"):
            pass


def test_W01_W08_what_is_over_is_heard_no_more(
    settings: Settings, events: RedisEvents, inside: Inside
) -> None:
    inside()
    port = settings.events_port
    kept = _url(events, ANN, [1])
    with (
        live.listening(port, _url(events, ANN)) as ann,
        live.listening(port, _url(events, ANN)) as anns_other,
        live.listening(port, _url(events, BOB)) as bob,
    ):
        events.end_streams(ANN)
        assert ann.ended()
        assert anns_other.ended()
        events.notify_counts(BOB)
        assert bob.next()[1] == "counts"
    # Nor is it news to who comes back, with a new pass, after what he heard last.
    heard = events.get_position()
    events.end_streams(ANN)
    events.notify_counts(ANN)
    with live.listening(port, _url(events, ANN, [1], heard)) as back:
        assert back.next() == (events.get_position(), "counts", {})
    with live.listening(port, kept) as late:
        assert late.status == 401
        assert late.body()["error"] == "auth_required"
    with live.listening(port, _url(events, ANN, [1])) as again:
        events.notify_new_entries({1: 2})
        assert again.next()[1] == "new"


def test_W08_a_session_that_began_after_an_end_is_not_ended_by_it(
    settings: Settings, events: RedisEvents, inside: Inside, redis_client: redis.Redis
) -> None:
    """The controller may read of the end when the next session listens already."""
    inside()
    later = int(events.get_position().partition("-")[0]) + 3_600_000
    with live.listening(
        settings.events_port, "/events?pass=" + events.issue_pass(ANN, [], f"{later}-0")
    ) as ann:
        events.end_streams(ANN)
        redis_client.xadd(redis_keys.PEOPLE, {"kind": "counts", "user": ANN, "data": "{}"}, id=f"{later}-1")
        assert ann.next() == (f"{later}-1", "counts", {})


def test_W08_a_pass_from_before_opens_nothing_at_another_controller(
    settings: Settings, events: RedisEvents, run: Run
) -> None:
    before, bobs = _url(events, ANN), _url(events, BOB)
    events.end_streams(ANN)
    run()
    port = settings.events_port
    with live.listening(port, before) as late, live.listening(port, bobs) as bob:
        assert (late.status, bob.status) == (401, 200)


def test_W08_a_pass_whose_time_is_forgotten_opens_nothing(
    settings: Settings, events: RedisEvents, inside: Inside, redis_client: redis.Redis
) -> None:
    before = _url(events, ANN)
    with redis_client.pipeline(transaction=False) as pipe:
        for _ in range(RECENT + 1):
            pipe.xadd(redis_keys.PEOPLE, {"kind": "counts", "user": BOB})
        pipe.execute()
    inside()
    with live.listening(settings.events_port, before) as ann:
        assert ann.status == 401
    with live.listening(settings.events_port, _url(events, ANN)) as ann:
        assert ann.status == 200


def test_W08_an_end_is_told_also_when_events_have_failed_before(
    settings: Settings, events: RedisEvents, inside: Inside, monkeypatch: pytest.MonkeyPatch
) -> None:
    inside()
    before = [_url(events, ANN), _url(events, ANN)]
    with live.listening(settings.events_port, before[0]) as ann:
        with monkeypatch.context() as patched:
            patched.setattr(events._client, "pipeline", _fails)
            events.notify_counts(BOB)
            events.end_streams(BOB)
        events.end_streams(ANN)
        assert ann.ended()
    with live.listening(settings.events_port, before[1]) as late:
        assert late.status == 401
    # What could not be told then was told with it.
    told = [fields for _, fields in events._client.xrange(redis_keys.PEOPLE)]
    assert {int(fields[b"user"]) for fields in told if fields[b"kind"] == ENDS.encode()} == {ANN, BOB}


def test_W08_whoever_listened_while_redis_was_away_asks_for_a_new_pass(
    settings: Settings, events: RedisEvents, inside: Inside, redis_client: redis.Redis, eventually: Any
) -> None:
    """An end may have been dropped meanwhile, so no stream from before goes on."""
    inside()
    with live.listening(settings.events_port, _url(events, ANN)) as ann:
        events.notify_counts(ANN)
        assert ann.next()[1] == "counts"

        def reading() -> list[str]:
            blocked = [client for client in redis_client.client_list() if "b" in client["flags"]]
            return [client["id"] for client in blocked if client["cmd"] == "xread"]

        for reader in eventually(reading):
            redis_client.client_kill_filter(_id=reader)
        assert ann.next()[1:] == ("reset", {"spread_ms": 5})
        assert ann.ended()


def _fails(**_: Any) -> None:
    raise redis.TimeoutError
