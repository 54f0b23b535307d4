"""Marks above and below an entry in a list, in every order; the history of what can be taken back."""

from __future__ import annotations

import dataclasses
import datetime as dt
import itertools

import pytest

from app import clock
from app.bootstrap.services import Services
from app.errors import ConflictError, InvalidError, NotFoundError
from app.models.accounts.actor import Actor
from app.models.reading.history import ActionKind
from app.models.reading.stream import Show, Sort, StreamKind, StreamQuery, StreamRef
from tests.support.database import NOW, World

ALL = StreamRef.parse("all")


def follow(world: World, who: Actor, *ages: list[int]) -> list[int]:
    feeds = []
    for number, minutes in enumerate(ages):
        feed_id = world.feed(f"s{number}")
        with clock.set_source(lambda: NOW):
            world.services.subscriptions.subscribe(who, f"https://s{number}.example.org/feed")
        world.publish(feed_id, world.minutes(*minutes))
        feeds.append(feed_id)
    return feeds


def states(services: Services, who: Actor) -> dict[int, bool]:
    """Return id → whether it is read, of all entries."""
    page = services.reading.load_page(who, StreamQuery(ALL, Sort.NEWEST, limit=1000))
    return {row.id: row.read for row in page.rows}


@pytest.mark.parametrize(("sort", "show"), list(itertools.product(Sort, Show)))
def test_marks_go_by_the_order_of_the_list(world: World, alice: Actor, sort: Sort, show: Show) -> None:
    services = world.services
    follow(world, alice, [1, 5, 9, 13], [2, 6, 10, 14], [3, 7, 11, 15])
    ids = list(states(services, alice))
    services.reading.mark(alice, ids[::3], True)
    before = states(services, alice)
    page = services.reading.load_page(alice, StreamQuery(ALL, sort, show=show))
    listed = [row.id for row in page.rows]
    middle = listed[5]
    above = services.marking.mark_above(alice, ALL, page.snapshot, middle)
    now = states(services, alice)
    assert now == {i: before[i] or i in listed[:5] for i in before}
    assert above.count == sum(not before[i] for i in listed[:5])
    services.reading.undo_mass_mark(alice, above.undo)
    assert states(services, alice) == before
    below = services.marking.mark_below(alice, ALL, page.snapshot, middle)
    spared = {i for i in listed[:6] if not before[i]}
    assert {i for i, read in states(services, alice).items() if not read} == spared
    assert below.count == sum(not read for read in before.values()) - len(spared)
    services.reading.undo_mass_mark(alice, below.undo)
    assert states(services, alice) == before


def test_what_came_after_the_list_stays_unread(world: World, alice: Actor) -> None:
    services, (feed_id,) = world.services, follow(world, alice, [1, 2, 3])
    page = services.reading.load_page(alice, StreamQuery(ALL))
    world.publish(feed_id, world.minutes(0))
    services.marking.mark_below(alice, ALL, page.snapshot, page.rows[0].id)
    assert list(states(services, alice).values()) == [False, False, True, True]
    services.marking.mark_above(alice, ALL, page.snapshot, page.rows[1].id)
    assert list(states(services, alice).values()) == [False, True, True, True]


def test_what_was_marked_since_a_mark_below_stays(world: World, alice: Actor) -> None:
    services = world.services
    follow(world, alice, [1, 2, 3, 4])
    page = services.reading.load_page(alice, StreamQuery(ALL))
    one, two, three, _ = [row.id for row in page.rows]
    undo = services.marking.mark_below(alice, ALL, page.snapshot, two).undo
    services.reading.mark(alice, [one], True)
    services.reading.mark(alice, [three], False)
    services.reading.undo_mass_mark(alice, undo)
    assert list(states(services, alice).values()) == [True, False, False, False]


@pytest.mark.parametrize("kind", ["starred", "tag", "search"])
def test_marked_and_found_entries_are_marked_in_parts_as_well(world: World, alice: Actor, kind: str) -> None:
    services, (one, two) = world.services, follow(world, alice, [1, 3, 5], [2, 4, 6])
    ids = list(states(services, alice))
    chosen = ids if kind == "search" else ids[:5]
    if kind == "starred":
        for entry in reversed(chosen):
            services.reading.set_starred(alice, entry, True)
        ref = StreamRef.parse("starred")
    elif kind == "tag":
        for entry in reversed(chosen):
            services.tags.change_tags(alice, entry, add=["Later"])
        ref = StreamRef(StreamKind.TAG, services.tags.list_tags(alice)[0].id)
    else:
        services.indexing.run(NOW, 30.0)
        ref = StreamRef(StreamKind.SEARCH, query="entry")
    page = services.reading.load_page(alice, StreamQuery(ref, Sort.NEWEST, limit=2))
    listed = [row.id for row in services.reading.load_page(alice, StreamQuery(ref, Sort.NEWEST)).rows]
    assert set(listed) == set(chosen)
    above = services.marking.mark_above(alice, ref, page.snapshot, listed[2])
    assert {i for i, read in states(services, alice).items() if read} == set(listed[:2])
    services.reading.undo_mass_mark(alice, above.undo)
    below = services.marking.mark_below(alice, ref, page.snapshot, listed[2])
    assert below.count == len(listed) - 3
    assert {i for i, read in states(services, alice).items() if read} == set(listed[3:])
    services.reading.undo_mass_mark(alice, below.undo)
    assert not any(states(services, alice).values())
    # Of feeds that he has left there is nothing to mark.
    for feed_id in (one, two):
        services.subscriptions.unsubscribe(alice, feed_id)
    if kind != "search":
        page = services.reading.load_page(alice, StreamQuery(ref, Sort.NEWEST))
        services.gateways.entries.forget_keys()  # as another process, which has shown none of them
        assert services.marking.mark_below(alice, ref, page.snapshot, page.rows[0].id).count == 0
    if kind == "tag":
        assert services.reading.mark_all(alice, ref, snapshot=page.snapshot).count == 0


def test_a_part_needs_its_list(world: World, alice: Actor, bob: Actor) -> None:
    services, (feed_id,) = world.services, follow(world, alice, [1, 2, 3])
    page = services.reading.load_page(alice, StreamQuery(ALL))
    entry = page.rows[1].id
    with pytest.raises(NotFoundError):
        services.marking.mark_above(bob, ALL, page.snapshot, entry)
    with pytest.raises(NotFoundError, match="isn't among the first"):
        services.marking.mark_above(alice, ALL, page.snapshot, entry + 10_000)
    for stream in (f"feed/{feed_id}", "starred"):
        with pytest.raises(InvalidError):
            services.marking.mark_below(alice, StreamRef.parse(stream), page.snapshot, entry)
    assert not any(states(services, alice).values())


def test_the_history_holds_a_day_of_actions(world: World, alice: Actor, bob: Actor) -> None:
    services = world.services
    one, two = follow(world, alice, [1, 2, 3], [4, 5, 6])
    folder = services.folders.create(alice, "Folder")
    page = services.reading.load_page(alice, StreamQuery(ALL))
    start, minute = clock.now(), dt.timedelta(minutes=1)
    steps = (
        lambda: services.marking.mark_above(alice, ALL, page.snapshot, page.rows[2].id).undo,
        lambda: services.reading.mark_all(alice, StreamRef.parse(f"feed/{two}")).undo,
        lambda: "folder." + services.folders.delete(alice, folder.id),
        lambda: "feed." + services.subscriptions.unsubscribe(alice, one),
    )
    tokens = []
    for n, step in enumerate(steps):
        with clock.set_source(lambda n=n: start + n * minute):
            tokens.append(step())
    found = services.marking.list_history(alice).actions
    assert [action.undo for action in found] == tokens[::-1]
    kinds = [ActionKind.FEED, ActionKind.FOLDER, ActionKind.ALL, ActionKind.ABOVE]
    assert [action.kind for action in found] == kinds
    assert [action.about for action in found] == ["s0", "Folder", f"feed/{two}", "all"]
    assert [action.count for action in found] == [0, 0, 3, 2]
    assert [action.at for action in found] == [start + n * minute for n in (3, 2, 1, 0)]
    assert services.marking.list_history(bob).actions == ()
    services.reading.undo_mass_mark(alice, tokens[1])
    assert tokens[1] not in [action.undo for action in services.marking.list_history(alice).actions]
    with clock.set_source(lambda: start + dt.timedelta(days=1, hours=1)):
        assert services.marking.list_history(alice).actions == ()


def test_moves_and_many_at_once_are_each_one_line_of_the_history(world: World, alice: Actor) -> None:
    services = world.services
    one, two = follow(world, alice, [1], [2])
    folder = services.folders.create(alice, "Folder")
    inner = services.folders.create(alice, "Inner")
    start = clock.now()
    steps = (
        lambda: "place." + services.folders.move_feed(alice, one, source=None, target=folder.id),
        lambda: "place." + services.folders.move_folder(alice, inner.id, parent=folder.id),
        lambda: "feeds." + services.bulk_edit.unsubscribe(alice, [one, two])[0],
    )
    tokens = []
    for n, step in enumerate(steps):
        with clock.set_source(lambda n=n: start + n * dt.timedelta(minutes=1)):
            tokens.append(step())
    found = services.marking.list_history(alice).actions
    assert [action.undo for action in found] == tokens[::-1]
    assert [action.kind for action in found] == [ActionKind.FEEDS, ActionKind.MOVED_FOLDER, ActionKind.MOVED]
    assert [(action.about, action.count) for action in found] == [("", 2), ("Inner", 0), ("", 1)]
    assert len(services.bulk_edit.restore(alice, tokens[2].removeprefix("feeds.")).restored) == 2
    assert len(services.marking.list_history(alice).actions) == 2


def test_the_history_comes_in_pages_without_gaps_or_doubles(world: World, alice: Actor) -> None:
    """Also where several things were done in the same millisecond."""
    services = world.services
    feeds = follow(world, alice, *[[1]] * 6)
    start, tokens = clock.now(), list[str]()
    for n, feed in enumerate(feeds[:4]):
        with clock.set_source(lambda n=n: start + n // 2 * dt.timedelta(seconds=1)):
            tokens.append(services.reading.mark_all(alice, StreamRef.parse(f"feed/{feed}")).undo)
            tokens.append(
                "folder." + services.folders.delete(alice, services.folders.create(alice, f"{n}").id)
            )
            tokens.append("feed." + services.subscriptions.unsubscribe(alice, feed))
    tokens.append("feeds." + services.bulk_edit.unsubscribe(alice, feeds[4:])[0])
    whole = services.marking.list_history(alice)
    assert {action.undo for action in whole.actions} == set(tokens)
    assert whole.after is None
    services.marking._history_rows = 4
    page, pages = services.marking.list_history(alice), []
    pages.append(page.actions)
    while page.after:
        page = services.marking.list_history(alice, page.after)
        pages.append(page.actions)
    assert [len(actions) for actions in pages] == [4, 4, 4, 1]
    assert tuple(action for actions in pages for action in actions) == whole.actions


def test_of_two_actions_on_one_feed_the_later_is_taken_back_first(world: World, alice: Actor) -> None:
    services, (feed_id,) = world.services, follow(world, alice, [1, 2])
    first = services.reading.mark_all(alice, ALL)
    world.publish(feed_id, world.minutes(0))
    second = services.reading.mark_all(alice, ALL)
    with pytest.raises(ConflictError, match="Undo that action first"):
        services.reading.undo_mass_mark(alice, first.undo)
    services.reading.undo_mass_mark(alice, second.undo)
    services.reading.undo_mass_mark(alice, first.undo)
    assert not any(states(services, alice).values())


def test_rows_that_a_later_action_covers_are_taken_back_after_it(world: World, alice: Actor) -> None:
    services, (one, two) = world.services, follow(world, alice, [1, 3, 5], [2, 4, 6])
    page = services.reading.load_page(alice, StreamQuery(ALL, Sort.NEWEST))
    rows = [row.id for row in page.rows]  # of the feeds one and two by turns
    before = states(services, alice)
    above = services.marking.mark_above(alice, ALL, page.snapshot, rows[1])
    later = services.reading.mark_all(alice, StreamRef(StreamKind.FEED, one))
    with pytest.raises(ConflictError, match="Undo that action first"):
        services.reading.undo_mass_mark(alice, above.undo)
    services.reading.undo_mass_mark(alice, later.undo)
    services.reading.undo_mass_mark(alice, above.undo)
    assert states(services, alice) == before

    # Where the later action covers only some of the rows, those wait for its undo.
    above = services.marking.mark_above(alice, ALL, page.snapshot, rows[2])
    later = services.reading.mark_all(alice, StreamRef(StreamKind.FEED, two))
    services.reading.undo_mass_mark(alice, above.undo)
    assert states(services, alice) == {**before, **dict.fromkeys(rows[1::2], True)}
    services.reading.undo_mass_mark(alice, later.undo)
    assert states(services, alice) == before


def test_rows_marked_after_another_action_are_taken_back_alone(world: World, alice: Actor) -> None:
    services, (feed_id,) = world.services, follow(world, alice, [1, 2, 3, 4])
    page = services.reading.load_page(alice, StreamQuery(ALL, Sort.NEWEST))
    rows = [row.id for row in page.rows]
    earlier = services.reading.mark_all(alice, StreamRef(StreamKind.FEED, feed_id))
    services.reading.mark(alice, rows[:2], False)
    services.marking.mark_above(alice, ALL, page.snapshot, rows[1])
    above = services.marking.mark_above(alice, ALL, page.snapshot, rows[2])
    services.reading.undo_mass_mark(alice, above.undo)
    assert states(services, alice) == dict(zip(rows, [True, False, True, True], strict=True))
    services.reading.undo_mass_mark(alice, earlier.undo)
    assert [states(services, alice)[i] for i in rows[1:]] == [False] * 3


def test_a_feed_that_was_left_and_taken_again_has_nothing_to_take_back(world: World, alice: Actor) -> None:
    services, (feed_id,) = world.services, follow(world, alice, [1, 2])
    marked = services.reading.mark_all(alice, ALL)
    services.subscriptions.unsubscribe(alice, feed_id)
    services.subscriptions.subscribe(alice, services.gateways.feeds.get(feed_id).url)
    before = states(services, alice)
    services.reading.undo_mass_mark(alice, marked.undo)
    assert states(services, alice) == before


@pytest.mark.parametrize("with_snapshot", [False, True])
def test_the_list_of_all_marks_no_site_that_it_leaves_out(
    world: World, alice: Actor, with_snapshot: bool
) -> None:
    # Someone who follows nobody: no person could be left out.
    services, alice = world.services, dataclasses.replace(alice, social=False)
    shown, hidden = follow(world, alice, [1, 2], [3, 4, 5])
    services.subscriptions.update(alice, hidden, hidden=True)
    page = services.reading.load_page(alice, StreamQuery(ALL))
    snapshot = page.snapshot if with_snapshot else None
    assert services.reading.mark_all(alice, ALL, snapshot=snapshot).count == 2
    assert services.reading.mark_all(alice, StreamRef.parse(f"feed/{hidden}")).count == 3
    assert services.reading.mark_all(alice, StreamRef.parse(f"feed/{shown}")).count == 0
