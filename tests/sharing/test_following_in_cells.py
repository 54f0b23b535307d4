"""What someone decides about another person's following doesn't wait for that one's cell."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime as dt
import os
import signal
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pymongo.database import Database

from app import clock
from app.bootstrap import services as bootstrap
from app.bootstrap.services import Services
from app.config import Settings
from app.errors import CellError, MovingError, NoSpaceError, NotFoundError, StoreError
from app.gateways.notifications import notifications as gateway
from app.gateways.sharing import follows
from app.gateways.subscriptions.subscriptions import SubscriptionGateway
from app.models.accounts.actor import Actor, Role
from app.models.operations.cells import PlaceState
from app.models.sharing.sharing import Audience, RelationshipKind
from tests.sharing.conftest import FOLLOWING, People
from tests.support.cells import CELL, SecondCell, cell_db, move, second_cell, settings, wait_until

__all__ = ["cell_db", "second_cell", "settings"]

Away = Callable[[], contextlib.AbstractContextManager[None]]

#: As in production; the tests' own is zero.
SETTLED = follows.SETTLED


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """What can't be done is tried again at once."""
    for module, name in ((gateway, "WAIT"), (follows, "RETRY"), (follows, "SETTLED")):
        monkeypatch.setattr(module, name, dt.timedelta(0))


@pytest.fixture
def annie(people: People) -> Actor:
    return people.join("annie")


@pytest.fixture
def bob(people: People) -> Actor:
    bob = people.join("bob")
    people.open(bob, Audience.FOLLOWERS)
    return bob


@pytest.fixture(params=["down", "moving"])
def away(
    request: pytest.FixtureRequest,
    services: Services,
    cell_db: Database[Any],
    second_cell: SecondCell,
    annie: Actor,
) -> Away:
    """Annie's cell is down, or she moves."""
    if request.param == "down":
        move(services, annie.user_id)

    @contextlib.contextmanager
    def be_down() -> Iterator[None]:
        second_cell.kill()
        try:
            yield
        finally:
            second_cell.start()
            wait_until(lambda: services.cells.get_store(CELL) is not None)

    return be_down if request.param == "down" else lambda: moving(services, annie)


@contextlib.contextmanager
def moving(services: Services, who: Actor) -> Iterator[None]:
    begun = services.cells.places.update(
        services.cells.find_place(who.user_id), state=PlaceState.MIGRATING, to=CELL
    )
    assert begun is not None
    services.cells.forget_places()
    try:
        yield
    finally:
        assert services.cells.places.update(begun, state=PlaceState.NORMAL, to="") is not None
        services.cells.forget_places()


def let_follow(services: Services, annie: Actor, bob: Actor) -> None:
    services.following.follow(annie, "bob")
    assert services.following.answer_request(bob, "annie", True)


def settle(services: Services) -> None:
    while services.cell_upkeep.settle_outbox():
        pass


def is_following(services: Services, annie: Actor) -> bool:
    """Return whether Annie follows Bob, after checking that all stores and numbers agree."""
    tie = services.following.get_person(annie, "bob").tie
    feed_id = services.gateways.profiles.get_by_name("bob").feed_id
    mine = services.mappers.subscriptions.find(annie.user_id, feed_id)
    assert tie.follows is (mine is not None)
    [feed] = services.store.database["feeds"].find({"_id": feed_id})
    assert feed.get("subscribers", 0) == tie.follows
    assert services.store.database["ties"].count_documents({"due": {"$exists": True}}) == 0
    return tie.follows


def sees(services: Services, annie: Actor, share: int, people: People) -> bool:
    """Return whether Annie sees Bob's share, after checking that all ways to it agree."""
    ways = {
        "list": share in {row.id for row in people.rows(annie, FOLLOWING)},
        "all": share in {row.id for row in people.rows(annie)},
        "share": _finds(lambda: services.discussion.get_share(annie, share)),
        "comments": _finds(lambda: services.discussion.get_commented_share(annie, share)),
        "article": _finds(lambda: services.reading.get_article(annie, share)),
    }
    assert len(set(ways.values())) == 1, ways
    return ways["list"]


def _finds(call: Callable[[], object]) -> bool:
    try:
        call()
    except NotFoundError:
        return False
    return True


def test_a_block_succeeds_and_the_subscription_ends_later(
    services: Services, people: People, annie: Actor, bob: Actor, away: Away
) -> None:
    let_follow(services, annie, bob)
    with away():
        services.following.block(bob, "annie")
        assert services.store.database["ties"].count_documents({"kind": "block"}) == 1
        services.cell_upkeep.settle_outbox()  # can't be done yet, and isn't lost
    settle(services)
    assert services.following.unblock(bob, "annie")
    assert not is_following(services, annie)


def test_a_follower_can_be_removed(
    services: Services, people: People, annie: Actor, bob: Actor, away: Away
) -> None:
    let_follow(services, annie, bob)
    with away():
        assert services.following.remove_follower(bob, "annie")
        assert services.people_lists.list_followers(bob, "bob").people == ()
    settle(services)
    assert not is_following(services, annie)


def test_a_follow_request_can_be_accepted(
    services: Services, people: People, annie: Actor, bob: Actor, away: Away
) -> None:
    assert services.following.follow(annie, "bob").requested
    with away():
        assert services.following.answer_request(bob, "annie", True)
        assert services.following.list_requests(bob) == []
        assert not services.following.answer_request(bob, "annie", True), "it was accepted"
    settle(services)
    assert is_following(services, annie)


def test_requests_are_accepted_when_a_stream_becomes_public(
    services: Services, people: People, annie: Actor, bob: Actor, away: Away
) -> None:
    assert services.following.follow(annie, "bob").requested
    with away():
        people.open(bob, Audience.PUBLIC)
    settle(services)
    assert is_following(services, annie)


@pytest.mark.parametrize("end", ["block", "remove_follower"])
def test_nothing_for_followers_is_shown_before_the_subscription_has_ended(
    services: Services, cell_db: Database[Any], people: People, annie: Actor, bob: Actor, end: str
) -> None:
    people.blog([annie], name="other")
    let_follow(services, annie, bob)
    share = services.sharing.share(bob, people.blog([bob])[0]).share.id
    assert sees(services, annie, share, people)
    with moving(services, annie):
        getattr(services.following, end)(bob, "annie")
        assert services.store.database["subscriptions"].count_documents({"person": True}) == 1
        assert not sees(services, annie, share, people)
        post = services.sharing.share(bob, people.blog([bob], name="news")[0]).share.id
        assert not sees(services, annie, post, people)
    assert not sees(services, annie, share, people)


def test_block_unblock_and_follow_again_end_right(
    services: Services, people: People, annie: Actor, bob: Actor, away: Away
) -> None:
    people.open(bob)
    services.following.follow(annie, "bob")
    with away():
        services.following.block(bob, "annie")
        assert services.following.unblock(bob, "annie")
    assert not services.following.get_person(annie, "bob").tie.follows
    assert services.following.follow(annie, "bob").follows
    settle(services)
    assert is_following(services, annie)


def test_remove_ask_and_accept_again_end_right(
    services: Services, people: People, annie: Actor, bob: Actor, away: Away
) -> None:
    let_follow(services, annie, bob)
    with away():
        assert services.following.remove_follower(bob, "annie")
        # As her page does while she moves.
        services.mappers.ties.add(annie.user_id, RelationshipKind.REQUEST, bob.user_id, clock.now())
        assert services.following.answer_request(bob, "annie", True)
    settle(services)
    assert is_following(services, annie)


def test_a_block_ends_what_was_accepted_before(
    services: Services, people: People, annie: Actor, bob: Actor, away: Away
) -> None:
    assert services.following.follow(annie, "bob").requested
    with away():
        assert services.following.answer_request(bob, "annie", True)
        services.following.block(bob, "annie")
    settle(services)
    assert services.following.unblock(bob, "annie")
    settle(services)
    assert not is_following(services, annie)


def test_a_follower_is_removed_whose_request_was_just_accepted(
    services: Services, people: People, annie: Actor, bob: Actor, away: Away
) -> None:
    assert services.following.follow(annie, "bob").requested
    with away():
        assert services.following.answer_request(bob, "annie", True)
        assert services.following.remove_follower(bob, "annie")
    settle(services)
    assert not is_following(services, annie)


def test_what_was_accepted_can_be_withdrawn_before_it_is_done(
    services: Services, cell_db: Database[Any], people: People, annie: Actor, bob: Actor
) -> None:
    assert services.following.follow(annie, "bob").requested
    with moving(services, annie):
        assert services.following.answer_request(bob, "annie", True)
        assert services.following.get_person(annie, "bob").tie.requested
    assert services.following.unfollow(annie, "bob") is None
    settle(services)
    assert not is_following(services, annie)


def test_a_frozen_relay_ends_only_the_subscription_that_it_has_read(
    services: Services,
    cell_db: Database[Any],
    people: People,
    annie: Actor,
    bob: Actor,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    people.open(bob)
    services.following.follow(annie, "bob")
    with moving(services, annie):
        services.following.block(bob, "annie")
        assert services.following.unblock(bob, "annie")
    is_open = services.mappers.ties.is_open
    passed = list[bool]()

    def freeze(decision: Any) -> bool:
        """The other process asks whether it holds, and is frozen until Annie follows again."""
        found = is_open(decision)
        if not passed:
            passed.append(found)
            assert services.following.follow(annie, "bob").follows
        return found

    monkeypatch.setattr(services.mappers.ties, "is_open", freeze)
    settle(services)
    assert passed == [True]
    assert is_following(services, annie)


def test_a_restored_subscription_is_not_ended_by_what_was_decided_before(
    services: Services, cell_db: Database[Any], people: People, annie: Actor, bob: Actor
) -> None:
    people.open(bob)
    services.following.follow(annie, "bob")
    token = services.following.unfollow(annie, "bob")
    assert token
    with moving(services, annie):
        assert services.following.remove_follower(bob, "annie")
    with pytest.raises(NotFoundError, match="can no longer be undone"):
        services.subscriptions.restore(annie, token)
    settle(services)
    assert not is_following(services, annie)
    assert services.following.follow(annie, "bob").follows
    settle(services)
    assert is_following(services, annie)


@pytest.mark.parametrize("at", ["supersede_ended", "add"])
@pytest.mark.parametrize("how", ["block", "remove", "remove_twice", "unfollow"])
def test_nobody_follows_by_an_acceptance_that_was_in_flight_when_they_were_removed(
    services: Services,
    cell_db: Database[Any],
    people: People,
    annie: Actor,
    bob: Actor,
    monkeypatch: pytest.MonkeyPatch,
    how: str,
    at: str,
) -> None:
    monkeypatch.setattr(follows, "SETTLED", SETTLED)
    move(services, annie.user_id)
    assert services.following.follow(annie, "bob").requested
    write, passed = getattr(SubscriptionGateway, at), list[bool]()

    def be_slow(self: SubscriptionGateway, *given: Any, **named: Any) -> Any:
        if not passed:
            passed.append(True)
            _end(services, annie, bob, how)
        return write(self, *given, **named)

    monkeypatch.setattr(SubscriptionGateway, at, be_slow)
    with contextlib.suppress(NotFoundError):
        services.following.answer_request(bob, "annie", True)
    assert passed
    assert not services.following.get_person(annie, "bob").tie.follows
    settle(services)
    assert not services.following.get_person(annie, "bob").tie.follows
    with clock.set_source(lambda: dt.datetime.now(dt.UTC) + 2 * SETTLED):
        settle(services)
    assert not is_following(services, annie)


def _end(services: Services, annie: Actor, bob: Actor, how: str) -> None:
    if how == "block":
        services.following.block(bob, "annie")
        assert services.following.unblock(bob, "annie")
    elif how == "unfollow":
        services.following.unfollow(annie, "bob")
    else:
        assert services.following.remove_follower(bob, "annie")
        if how == "remove_twice":  # a double click
            services.following.remove_follower(bob, "annie")


def test_a_follower_who_is_back_before_a_removal_settles_stays(
    services: Services,
    cell_db: Database[Any],
    people: People,
    annie: Actor,
    bob: Actor,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(follows, "SETTLED", SETTLED)
    let_follow(services, annie, bob)
    assert services.following.remove_follower(bob, "annie")
    let_follow(services, annie, bob)
    with clock.set_source(lambda: dt.datetime.now(dt.UTC) + 2 * SETTLED):
        settle(services)
    assert is_following(services, annie)


def test_a_second_removal_while_the_first_one_is_superseded_holds(
    services: Services,
    cell_db: Database[Any],
    people: People,
    annie: Actor,
    bob: Actor,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(follows, "SETTLED", SETTLED)
    let_follow(services, annie, bob)
    assert services.following.remove_follower(bob, "annie")
    assert services.following.follow(annie, "bob").requested
    prevent, passed = SubscriptionGateway.prevent_restore, list[bool]()

    def be_slow(self: SubscriptionGateway, *given: int) -> None:
        """The acceptance has just ended what was removed first."""
        if not passed:
            passed.append(True)
            assert services.following.remove_follower(bob, "annie")
        prevent(self, *given)

    monkeypatch.setattr(SubscriptionGateway, "prevent_restore", be_slow)
    services.following.answer_request(bob, "annie", True)
    assert passed
    assert not services.following.get_person(annie, "bob").tie.follows
    with clock.set_source(lambda: dt.datetime.now(dt.UTC) + 2 * SETTLED):
        settle(services)
    assert not is_following(services, annie)


def test_someone_who_is_blocked_before_they_follow_is_never_subscribed(
    services: Services,
    cell_db: Database[Any],
    people: People,
    annie: Actor,
    bob: Actor,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else a process that is killed right after that would leave them subscribed."""
    monkeypatch.setattr(follows, "SETTLED", SETTLED)
    people.open(bob)
    supersede = SubscriptionGateway.supersede_ended

    def be_late(self: SubscriptionGateway, *given: Any) -> bool:
        services.following.block(bob, "annie")
        return supersede(self, *given)

    monkeypatch.setattr(SubscriptionGateway, "supersede_ended", be_late)
    monkeypatch.setattr(SubscriptionGateway, "add", lambda *_: pytest.fail("Annie is blocked"))
    with pytest.raises(NotFoundError):
        services.following.follow(annie, "bob")


def test_a_process_killed_after_it_has_subscribed_leaves_no_follower_who_was_blocked(
    services: Services,
    settings: Settings,
    cell_db: Database[Any],
    people: People,
    annie: Actor,
    bob: Actor,
) -> None:
    """It can't end the subscription that it has just stored."""
    people.open(bob)
    child = os.fork()
    if child == 0:
        with contextlib.suppress(BaseException):
            follows.SETTLED = SETTLED
            mine, add = bootstrap.build(settings), SubscriptionGateway.add

            def add_late(self: SubscriptionGateway, *given: Any) -> None:
                mine.following.block(bob, "annie")
                add(self, *given)
                os.kill(os.getpid(), signal.SIGKILL)

            SubscriptionGateway.add = add_late  # type: ignore[assignment, method-assign]
            mine.following.follow(annie, "bob")
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status), "it isn't killed after the subscription is written"
    with clock.set_source(lambda: dt.datetime.now(dt.UTC) + 2 * SETTLED):
        settle(services)
    assert services.following.unblock(bob, "annie")
    assert not is_following(services, annie)


def test_a_decision_that_meets_a_bug_does_not_stop_others_and_what_comes_after(
    services: Services,
    cell_db: Database[Any],
    people: People,
    annie: Actor,
    bob: Actor,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cleo = people.join("cleo")
    for who, name in ((cleo, "cleo"), (annie, "annie")):
        services.following.follow(who, "bob")
        assert services.following.answer_request(bob, name, True)
        with moving(services, who):
            assert services.following.remove_follower(bob, name)
    finish = services.gateways.subscriptions.finish_ended

    def fail(user_id: int, *given: Any) -> bool:
        if user_id == cleo.user_id:
            raise ValueError("a bug")
        return finish(user_id, *given)

    monkeypatch.setattr(services.gateways.subscriptions, "finish_ended", fail)
    services.cell_upkeep.settle_outbox()
    settle(services)
    assert services.mappers.subscriptions.find(annie.user_id, _feed(services)) is None
    assert services.mappers.subscriptions.find(cleo.user_id, _feed(services)) is not None
    monkeypatch.undo()
    with clock.set_source(lambda: dt.datetime.now(dt.UTC) + 2 * follows.FAULT_RETRY):
        settle(services)
    assert services.mappers.subscriptions.find(cleo.user_id, _feed(services)) is None


def _feed(services: Services) -> int:
    return services.gateways.profiles.get_by_name("bob").feed_id


@pytest.mark.parametrize("act", ["block", "answer_request"])
def test_a_full_disk_in_the_followers_cell_is_no_failure_of_what_is_stored(
    services: Services,
    cell_db: Database[Any],
    people: People,
    annie: Actor,
    bob: Actor,
    monkeypatch: pytest.MonkeyPatch,
    act: str,
) -> None:
    move(services, annie.user_id)
    if act == "block":
        let_follow(services, annie, bob)
    else:
        assert services.following.follow(annie, "bob").requested
    cells = type(services.cells)
    run = cells.run_in_transaction

    def be_full(self: Any, user_id: int, operation: Any) -> Any:
        if user_id == annie.user_id:
            raise NoSpaceError
        return run(self, user_id, operation)

    with monkeypatch.context() as full:
        full.setattr(cells, "run_in_transaction", be_full)
        if act == "block":
            services.following.block(bob, "annie")
        else:
            assert services.following.answer_request(bob, "annie", True)
            assert services.following.list_requests(bob) == []
    settle(services)
    if act == "block":
        assert services.following.unblock(bob, "annie")
    assert is_following(services, annie) is (act == "answer_request")


def test_a_follower_cannot_be_declined_once_they_may_be_subscribed(
    services: Services,
    cell_db: Database[Any],
    people: People,
    annie: Actor,
    bob: Actor,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The subscription is stored, and the home store fails right after."""
    assert services.following.follow(annie, "bob").requested
    add = SubscriptionGateway.add

    def add_and_fail(self: SubscriptionGateway, *given: Any) -> None:
        add(self, *given)
        raise StoreError

    with monkeypatch.context() as failing:
        failing.setattr(SubscriptionGateway, "add", add_and_fail)
        assert services.following.answer_request(bob, "annie", True)
    assert not services.following.answer_request(bob, "annie", False)
    settle(services)
    assert is_following(services, annie)


@pytest.mark.parametrize("act", ["block", "remove_follower", "answer_request"])
def test_what_a_killed_process_has_decided_is_done_later(
    services: Services,
    settings: Settings,
    cell_db: Database[Any],
    people: People,
    annie: Actor,
    bob: Actor,
    act: str,
) -> None:
    move(services, annie.user_id)
    if act == "answer_request":
        assert services.following.follow(annie, "bob").requested
    else:
        let_follow(services, annie, bob)
    child = os.fork()
    if child == 0:
        with contextlib.suppress(BaseException):
            mine = bootstrap.build(settings)
            for name in ("finish_ended", "add"):
                setattr(SubscriptionGateway, name, lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL))
            given = (True,) if act == "answer_request" else ()
            getattr(mine.following, act)(bob, "annie", *given)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status), "it isn't killed before the subscription is written"
    settle(services)
    if act == "block":
        assert services.following.unblock(bob, "annie")
    assert is_following(services, annie) is (act == "answer_request")


def test_the_updater_mends_what_a_crash_has_left_even_without_cells(
    services: Services, people: People, annie: Actor, bob: Actor
) -> None:
    people.open(bob)
    services.following.follow(annie, "bob")
    now, end = clock.now(), services.mappers.ties.end_follow
    services.store.run_in_transaction(
        lambda session: end(annie.user_id, bob.user_id, now, due=now, settles=now, session=session)
    )
    assert services.cell_upkeep.finish_follows() == 1
    assert services.cell_upkeep.finish_follows() == 0
    assert not is_following(services, annie)


def test_someone_with_too_many_subscriptions_must_ask_again(
    services: Services,
    cell_db: Database[Any],
    people: People,
    annie: Actor,
    bob: Actor,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert services.following.follow(annie, "bob").requested
    with moving(services, annie):
        assert services.following.answer_request(bob, "annie", True)
    monkeypatch.setattr(services.gateways.subscriptions, "_most", 0)
    settle(services)
    assert services.following.list_requests(bob) == ["annie"]
    assert not is_following(services, annie)


def test_mentions_and_replies_wait_for_a_cell_that_is_down(
    services: Services,
    cell_db: Database[Any],
    second_cell: SecondCell,
    people: People,
    annie: Actor,
    bob: Actor,
) -> None:
    """Whether Annie may see the share is asked again when her cell responds."""
    move(services, annie.user_id)
    people.open(bob)
    cleo = people.join("cleo")
    share = services.sharing.share(bob, people.blog([bob])[0]).share.id
    second_cell.kill()
    try:
        services.discussion.comment(bob, share, "Hello @annie and @cleo")
        assert services.notifications.count_unread(cleo) == 1
    finally:
        second_cell.start()
    wait_until(lambda: services.cells.get_store(CELL) is not None)
    settle(services)
    assert services.notifications.count_unread(annie) == 1


def test_lists_of_others_say_whose_data_is_missing_or_leave_it_out(
    services: Services,
    cell_db: Database[Any],
    second_cell: SecondCell,
    people: People,
    annie: Actor,
    bob: Actor,
) -> None:
    move(services, annie.user_id)
    people.blog([annie, bob])
    for who in (annie, bob):
        services.following.update_profile(who, similar=True)
    people.open(bob)
    cell_of = services.cell_upkeep.is_own_outage
    second_cell.kill()
    try:
        with pytest.raises(CellError) as down:
            services.reading.get_tree(annie)
        assert [cell_of(who, down.value) for who in (annie.user_id, bob.user_id, None)] == [
            True,
            False,
            False,
        ]
        assert services.trends.list_similar_readers(bob) == []
        admin = dataclasses.replace(bob, role=Role.ADMIN)
        rows = {row.user.name: row.subscriptions for row in services.admin_accounts.list_accounts(admin).rows}
        assert rows == {"annie": None, "bob": 1}
    finally:
        second_cell.start()
    wait_until(lambda: services.cells.get_store(CELL) is not None)
    assert len(services.trends.list_similar_readers(bob)) == 1
    with moving(services, bob), pytest.raises(MovingError) as moved:
        people.follow(bob, "annie")
    assert [cell_of(who, moved.value) for who in (annie.user_id, bob.user_id, None)] == [False, True, False]
