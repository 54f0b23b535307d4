"""What was read before it changed: moved and restored shares, lists that were begun, calls at one moment."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from app import clock
from app.errors import EventrError, NotFoundError
from app.gateways.sharing import SharingGateway
from app.models.actor import Actor
from app.models.sharing import Audience
from app.models.stream import StreamQuery
from tests.social.conftest import ALL, People


class Between:
    """Lets something happen after a share was read and before it is written."""

    def __init__(self, sharing: SharingGateway, monkeypatch: pytest.MonkeyPatch) -> None:
        self._mapper, self._patch = sharing._shares, monkeypatch

    def __call__(self, act: Callable[[], object]) -> None:
        read, did = self._mapper.get, threading.Event()

        def get(share_id: int, *args: object) -> object:
            found = read(share_id, *args)  # type: ignore[arg-type]
            if not did.is_set():
                did.set()
                act()
            return found

        self._patch.setattr(self._mapper, "get", get)


@pytest.fixture
def between(people: People, monkeypatch: pytest.MonkeyPatch) -> Between:
    return Between(people.services.gateways.sharing, monkeypatch)


def test_a_share_that_is_moved_and_taken_back_at_once_leaves_nothing(
    people: People, ann: Actor, between: Between
) -> None:
    (entry,) = people.blog([ann])
    people.open(ann)
    gateway, now = people.services.gateways.sharing, clock.now()
    share = people.services.sharing.share(ann, entry).share
    profile = people.services.gateways.profiles.get(ann.user_id)
    assert profile is not None
    between(lambda: gateway.edit(profile, share.id, "", Audience.PRIVATE, now))
    gateway.remove(ann.user_id, share.id, now, now)
    store = people.services.store.database
    assert store["entries"].count_documents({"of": entry}) == 0
    assert store["entries"].find_one({"_id": entry})["stars"] == 0
    assert people.services.reading.page(ann, StreamQuery(ALL)).rows[0].id == entry


def test_a_share_that_is_edited_and_taken_back_at_once_is_counted_down_once(
    people: People, ann: Actor, bob: Actor, between: Between
) -> None:
    (entry,) = people.blog([ann, bob])
    for who in (ann, bob):
        people.open(who)
    gateway, now = people.services.gateways.sharing, clock.now()
    share = people.services.sharing.share(ann, entry).share
    people.services.sharing.share(bob, entry)
    profile = people.services.gateways.profiles.get(ann.user_id)
    assert profile is not None
    trends = people.services.store.database["trends"]
    between(lambda: gateway.remove(ann.user_id, share.id, now, now))
    with pytest.raises(NotFoundError):
        gateway.edit(profile, share.id, "", Audience.FOLLOWERS, now)
    score = trends.find_one({"_id": entry})["score"]
    people.services.sharing.share(ann, entry)
    assert trends.find_one({"_id": entry})["score"] == pytest.approx(score + 1, abs=0.01)


def test_many_moves_and_ends_at_once_leave_one_or_nothing(people: People, ann: Actor) -> None:
    entries = people.blog([ann], 3)
    people.open(ann)
    sharing = people.services.sharing
    for entry in entries:
        share = sharing.share(ann, entry).share

        def move(audience: Audience, share_id: int = share.id) -> None:
            try:
                sharing.edit(ann, share_id, note="", audience=audience)
            except EventrError:
                return

        acts: list[Callable[[], object]] = [
            lambda m=move: m(Audience.PRIVATE),
            lambda m=move: m(Audience.FOLLOWERS),
            lambda m=move: m(Audience.PUBLIC),
            lambda s=share.id: sharing.remove(ann, s),
        ]
        threads = [threading.Thread(target=act) for act in acts]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    store = people.services.store.database
    for entry in entries:
        live = store["shares"].count_documents({"of": entry, "live": True})
        assert store["entries"].count_documents({"of": entry}) == live
        assert store["entries"].find_one({"_id": entry})["stars"] == live
