"""Proof of possession: files of others that are added without an upload, and what no answer tells."""

from __future__ import annotations

import datetime as dt
import hashlib
import os
import random
from collections.abc import Callable
from typing import Any

import pytest

from app import clock
from app.bootstrap.services import Services
from app.errors import NotFoundError, QuotaError, RateLimitedError
from app.models.accounts.actor import Actor
from app.models.media import proof
from app.models.media.user_file import UserFile
from tests.media.test_uploads import ANN, BOB, assert_counted, rebuild, send

KEY = bytes(range(32))
SMALL = os.urandom(5000)
LARGE = random.Random(24).randbytes(3 << 20)


def answer(data: bytes, challenge: proof.Challenge) -> bytes:
    """Answer as a client does, from the document alone."""
    parts = b"".join(data[first : last + 1] for first, last in challenge.ranges)
    return hashlib.sha256(challenge.nonce + parts).digest()


def prove(services: Services, data: bytes, actor: Actor = BOB, has: bytes | None = None) -> UserFile:
    digest, size = hashlib.sha256(data).digest(), len(data)
    asked = services.possession.create_challenge(actor, digest, size, KEY)
    given = answer(data if has is None else has, asked)
    return services.possession.add_proven(
        actor, digest, size, "mine.bin", token=asked.token, answer=given, key=KEY
    )


def send_earlier(services: Services, data: bytes, actor: Actor) -> None:
    """Send a file so long ago that its holder counts."""
    then = clock.now() - proof.SETTLED - dt.timedelta(seconds=1)
    with clock.set_source(lambda: then):
        send(services, data, actor)


def share_among(services: Services, data: bytes, count: int) -> None:
    for number in range(count):
        send_earlier(services, data, Actor(100 + number))


@pytest.fixture
def open_services(services: Services) -> Services:
    return rebuild(services, instant="proof", instant_min=1000, instant_per_hour=1000)


@pytest.mark.parametrize("data", [SMALL, LARGE], ids=["whole", "ranges"])
def test_who_has_the_file_needs_no_upload(open_services: Services, data: bytes) -> None:
    share_among(open_services, data, proof.HOLDERS[1])
    file = prove(open_services, data)
    assert (file.user_id, file.size, file.name) == (BOB.user_id, len(data), "mine.bin")
    assert assert_counted(open_services, BOB).finished == len(data)
    digest = hashlib.sha256(data).digest()
    assert open_services.gateways.blobs.find([digest])[digest].references == proof.HOLDERS[1] + 1


def test_a_blob_with_too_few_holders_is_as_unknown_as_none(open_services: Services) -> None:
    """The right answer of somebody who has all bytes tells nothing either."""
    digest = hashlib.sha256(SMALL).digest()
    minimum = proof.draw_minimum(KEY, digest)
    with pytest.raises(NotFoundError) as unknown:
        prove(open_services, SMALL)
    for number in range(minimum):
        with pytest.raises(NotFoundError) as refused:
            prove(open_services, SMALL)
        assert str(refused.value) == str(unknown.value)
        assert vars(refused.value) == vars(unknown.value)
        send_earlier(open_services, SMALL, Actor(100 + number))
        # A second file of the same person doesn't count.
        send_earlier(open_services, SMALL, Actor(100))
    assert prove(open_services, SMALL).size == len(SMALL)


def test_a_new_holder_does_not_change_the_answer_for_a_week(open_services: Services) -> None:
    """Otherwise a person with several accounts sees at once what storing it with another one changes."""
    digest, now = hashlib.sha256(SMALL).digest(), clock.now()
    minimum = proof.draw_minimum(KEY, digest)
    share_among(open_services, SMALL, minimum - 1)
    send(open_services, SMALL, Actor(200))
    with pytest.raises(NotFoundError):
        prove(open_services, SMALL)
    with clock.set_source(lambda: now + proof.SETTLED + dt.timedelta(seconds=5)):
        assert prove(open_services, SMALL).size == len(SMALL)


def test_two_accounts_of_one_person_do_not_learn_whether_one_other_has_the_file(
    open_services: Services,
) -> None:
    """One account stores it, the other asks; for each file, whatever its minimum is."""
    for number in range(12):
        data = SMALL + bytes([number])
        for holder in (Actor(100), Actor(101)):
            send_earlier(open_services, data, holder)
        with pytest.raises(NotFoundError):
            prove(open_services, data)


def test_a_user_is_always_asked_for_the_same_ranges_of_a_file(open_services: Services) -> None:
    """With new ranges in each challenge, someone with nine tenths of a file passes after a while."""
    digest, size, service = hashlib.sha256(LARGE).digest(), len(LARGE), open_services.possession
    drawn = [service.create_challenge(BOB, digest, size, KEY) for _ in range(3)]
    assert len({one.ranges for one in drawn}) == 1
    assert len({one.nonce for one in drawn}) == len({one.token for one in drawn}) == 3
    assert service.create_challenge(ANN, digest, size, KEY).ranges != drawn[0].ranges
    assert service.create_challenge(BOB, bytes(32), size, KEY).ranges != drawn[0].ranges
    assert service.create_challenge(BOB, digest, size, bytes(32)).ranges != drawn[0].ranges


def test_the_steps_are_the_same_for_unknown_and_not_offered(
    open_services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In number and order, with as many bytes hashed; no store is asked, which may be slow."""
    found = []
    for is_stored in (False, True):
        if is_stored:
            send_earlier(open_services, LARGE, ANN)
        steps: list[Any] = []
        g, hashed = open_services.gateways, proof.compute_proof
        for part, name in ((g.blobs, "find"), (g.files, "find_by_blob"), (g.files, "has_holders")):
            real = getattr(part, name)
            monkeypatch.setattr(part, name, _note(steps, name, real))
        monkeypatch.setattr(g.blobs, "open", _note(steps, "open", g.blobs.open))
        monkeypatch.setattr(
            proof,
            "compute_proof",
            lambda nonce, parts, steps=steps, hashed=hashed: hashed(
                nonce, [steps.append(len(part)) or part for part in parts]
            ),
        )
        with pytest.raises(NotFoundError):
            prove(open_services, LARGE)
        monkeypatch.undo()
        found.append(steps)
    assert found[0] == found[1]
    assert found[0] == ["find", "find_by_blob", "has_holders", *[proof.PART_BYTES] * proof.PARTS]


def _note(steps: list[Any], name: str, real: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any) -> Any:
        steps.append(name)
        return real(*args)

    return call


def test_who_has_nine_tenths_of_the_file_fails(open_services: Services) -> None:
    """Holes of 64 KiB at random places: of 300 users' ranges, about ten miss all of them."""
    size, rng = 64 << 20, random.Random(1)
    holes = {n for n in range(size // proof.PART_BYTES) if rng.random() < 0.1}
    passed = 0
    for number in range(300):
        ranges = proof.list_ranges(number.to_bytes(16, "big"), size)
        assert len(ranges) == proof.PARTS
        assert all(first >= 0 and last < size and last - first == 65535 for first, last in ranges)
        touched = {at // proof.PART_BYTES for pair in ranges for at in pair}
        passed += not touched & holes
    assert passed < 15
    share_among(open_services, LARGE, proof.HOLDERS[1])
    most = LARGE[: len(LARGE) * 9 // 10] + bytes(len(LARGE) // 10 + 1)
    for _ in range(4):
        with pytest.raises(NotFoundError):
            prove(open_services, LARGE, has=most)


def test_a_challenge_is_for_one_answer_one_user_one_file_and_a_minute(open_services: Services) -> None:
    share_among(open_services, SMALL, proof.HOLDERS[1])
    digest, size, service = hashlib.sha256(SMALL).digest(), len(SMALL), open_services.possession
    other = hashlib.sha256(LARGE).digest()

    def send_answer(
        asked: proof.Challenge, actor: Actor = BOB, blob: bytes = digest, key: bytes = KEY
    ) -> Any:
        given = answer(SMALL, asked)
        return service.add_proven(actor, blob, size, "", token=asked.token, answer=given, key=key)

    now = clock.now()
    asked = service.create_challenge(BOB, digest, size, KEY)
    forged = asked._replace(token=asked.token[:-2] + ("AA" if asked.token[-2:] != "AA" else "BA"))
    for wrong in (
        lambda: send_answer(asked, Actor(13)),
        lambda: send_answer(asked, blob=other),
        lambda: send_answer(asked, key=bytes(32)),
        lambda: send_answer(forged),
        lambda: send_answer(asked._replace(token="")),
    ):
        with pytest.raises(NotFoundError):
            wrong()
    assert send_answer(asked).name == "file"
    for _ in range(3):
        with pytest.raises(NotFoundError):
            send_answer(asked)
    late = service.create_challenge(BOB, digest, size, KEY)
    with clock.set_source(lambda: now + dt.timedelta(seconds=62)), pytest.raises(NotFoundError):
        send_answer(late)


def test_a_wrong_answer_uses_up_the_challenge(open_services: Services) -> None:
    share_among(open_services, SMALL, proof.HOLDERS[1])
    digest, size, service = hashlib.sha256(SMALL).digest(), len(SMALL), open_services.possession
    asked = service.create_challenge(BOB, digest, size, KEY)
    for given in (bytes(32), answer(SMALL, asked)):
        with pytest.raises(NotFoundError):
            service.add_proven(BOB, digest, size, "", token=asked.token, answer=given, key=KEY)


@pytest.mark.parametrize("changes", [{"instant": "own"}, {"instant": "off"}, {"uploads": False}])
def test_files_of_others_are_never_offered_unless_the_server_allows_it(
    open_services: Services, changes: dict[str, Any]
) -> None:
    share_among(open_services, SMALL, proof.HOLDERS[1])
    few = rebuild(open_services, **changes)
    with pytest.raises(NotFoundError):
        prove(few, SMALL)
    assert few.settings.instant != "proof" or not few.settings.uploads


def test_the_quota_and_the_hourly_limit_hold(open_services: Services) -> None:
    share_among(open_services, SMALL, proof.HOLDERS[1])
    with pytest.raises(QuotaError):
        prove(rebuild(open_services, quota=len(SMALL) - 1), SMALL)
    assert assert_counted(open_services, BOB).finished == 0
    few = rebuild(open_services, instant_per_hour=4)
    digest = hashlib.sha256(SMALL).digest()
    for _ in range(3):
        few.possession.create_challenge(BOB, digest, len(SMALL), KEY)
    with pytest.raises(RateLimitedError):
        prove(few, SMALL)


def test_the_minimum_is_fixed_for_each_blob_and_random_between_three_and_six() -> None:
    drawn = [proof.draw_minimum(KEY, bytes([n]) * 32) for n in range(200)]
    assert drawn == [proof.draw_minimum(KEY, bytes([n]) * 32) for n in range(200)]
    assert set(drawn) == {3, 4, 5, 6}
    assert drawn != [proof.draw_minimum(bytes(32), bytes([n]) * 32) for n in range(200)]
