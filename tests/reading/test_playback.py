"""How far a user has listened: the same on all devices, bounded, forgotten, nobody else's."""

from __future__ import annotations

import dataclasses
import datetime as dt
from concurrent.futures import ThreadPoolExecutor

import pytest

from app import clock
from app.bootstrap import services as bootstrap
from app.bootstrap.services import Services
from app.errors import InvalidError
from app.models.accounts.actor import Actor
from app.models.accounts.preferences import MEDIA_SITES_MAX
from tests.support.reader import add_user

URL = "https://pod.example/1.mp3"


def _record(services: Services, actor: Actor, seconds: int, url: str = URL, duration: int = 3600) -> None:
    services.playback.record(actor, 7, url, seconds=seconds, duration=duration)


def test_a_recording_continues_where_it_was_left(services: Services, alice: Actor, bob: Actor) -> None:
    assert services.playback.find_start(alice, URL) == 0
    _record(services, alice, 754)
    _record(services, alice, 900)
    assert services.playback.find_start(alice, URL) == 900
    assert services.playback.find_start(alice, f"{URL}?other") == 0
    assert services.playback.find_start(bob, URL) == 0
    assert services.playback.list_positions(bob) == []
    (found,) = services.playback.list_positions(alice)
    assert (found.url, found.seconds, found.duration, found.entry_id) == (URL, 900, 3600, 7)


@pytest.mark.parametrize(("seconds", "start"), [(3584, 3584), (3585, 0), (3600, 0)])
def test_what_was_heard_to_its_end_begins_anew(
    services: Services, alice: Actor, seconds: int, start: int
) -> None:
    _record(services, alice, seconds)
    assert services.playback.find_start(alice, URL) == start
    assert services.playback.list_positions(alice)[0].is_finished == (start == 0)


def test_a_stream_of_unknown_length_never_ends(services: Services, alice: Actor) -> None:
    _record(services, alice, 5, duration=0)
    assert services.playback.find_start(alice, URL) == 5


def test_the_positions_of_one_user_are_bounded_and_expire(
    services: Services, alice: Actor, bob: Actor
) -> None:
    small = bootstrap.build(dataclasses.replace(services.settings, playback_max=3, playback_days=10))
    start = clock.now()
    _record(small, bob, 9)
    for n in range(5):
        with clock.set_source(lambda n=n: start + dt.timedelta(seconds=n)):
            _record(small, alice, n + 1, f"{URL}?{n}")
    with clock.set_source(lambda: start + dt.timedelta(seconds=9)):
        _record(small, alice, 33, f"{URL}?2")
    kept = [one.url[-1] for one in small.playback.list_positions(alice)]
    assert small.playback.find_start(bob, URL) == 9
    small.close()
    assert kept == ["2", "4", "3"]
    docs = list(services.store.database["playback"].find({"user_id": alice.user_id}))
    assert len(docs) == 3
    assert {(doc["expires"] - doc["at"]).days for doc in docs} == {10}


@pytest.mark.parametrize(
    ("url", "seconds", "duration"),
    [("javascript:alert(1)", 1, 1), ("/x.mp3", 1, 1), (URL, -1, 1), (URL, 1, -1), (URL, 31 * 86400, 0)],
)
def test_only_positions_in_recordings_are_stored(
    services: Services, alice: Actor, url: str, seconds: int, duration: int
) -> None:
    with pytest.raises(InvalidError):
        services.playback.record(alice, 7, url, seconds=seconds, duration=duration)
    assert services.playback.list_positions(alice) == []


@pytest.mark.parametrize("value", [[["one.example"]], [1], "one.example", [None]])
def test_sites_of_another_type_are_refused(services: Services, alice: Actor, value: object) -> None:
    with pytest.raises(InvalidError):
        services.accounts.set_preferences(alice, {"media_sites": value})


def _sites(services: Services, actor: Actor) -> tuple[str, ...]:
    user = services.gateways.accounts.find_user(actor.user_id)
    assert user is not None
    return user.preferences.media_sites


def test_sites_are_allowed_and_asked_about_again(services: Services) -> None:
    alice = add_user(services)
    playback = services.playback
    playback.allow_site(alice, "one.example")
    playback.allow_site(alice, "two.example:8080")
    assert _sites(services, alice) == ("one.example", "two.example:8080")
    playback.allow_site(alice, "one.example")
    assert _sites(services, alice) == ("two.example:8080", "one.example")
    playback.forget_site(alice, "two.example:8080")
    playback.forget_site(alice, "never.example")
    assert _sites(services, alice) == ("one.example",)
    many = [f"s{n}.example" for n in range(MEDIA_SITES_MAX)]
    services.accounts.set_preferences(alice, {"media_sites": many})
    playback.allow_site(alice, "new.example")
    assert len(_sites(services, alice)) == MEDIA_SITES_MAX
    assert _sites(services, alice)[-1] == "new.example"
    assert "s0.example" not in _sites(services, alice)


def test_sites_that_are_allowed_at_once_are_all_kept(services: Services) -> None:
    alice = add_user(services)
    wanted = [f"s{n}.example" for n in range(8)]
    with ThreadPoolExecutor(8) as tabs:
        list(tabs.map(lambda site: services.playback.allow_site(alice, site), wanted))
        assert set(_sites(services, alice)) == set(wanted)
        list(tabs.map(lambda site: services.playback.forget_site(alice, site), wanted[2:]))
    assert set(_sites(services, alice)) == set(wanted[:2])


def test_a_position_that_arrives_late_does_not_replace_a_newer_one(services: Services, alice: Actor) -> None:
    """Two requests of one player may overtake each other on their way to the database."""
    now = clock.now()
    for seconds, age in ((900, 0), (754, 5)):
        with clock.set_source(lambda age=age: now - dt.timedelta(seconds=age)):
            _record(services, alice, seconds)
    assert services.playback.find_start(alice, URL) == 900
    assert len(services.playback.list_positions(alice)) == 1


@pytest.mark.parametrize("site", ["", "a b", "https://x.example", "x.example/", "X.example", "a" * 300, "*"])
def test_only_hosts_are_allowed(services: Services, alice: Actor, site: str) -> None:
    with pytest.raises(InvalidError):
        services.playback.allow_site(alice, site)
