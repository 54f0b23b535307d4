"""Folders as a tree: moves of feeds and folders, their order, taking back, and two devices at once."""

from __future__ import annotations

import dataclasses
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as rules
from hypothesis import strategies as st

from app.bootstrap.services import Services
from app.errors import ExistsError, InvalidError, NotFoundError
from app.models.accounts.actor import Actor
from app.models.reading.stream import Tree, TreeFolder
from app.models.subscriptions.folder import Folder, FolderEditMode
from app.services.subscriptions.tree import build_tree
from tests.support.database import World

Lines = dict[int | None, list[int]]


def lines(tree: Tree) -> Lines:
    """Return the feeds of each folder in their order; None: outside of all."""
    found: Lines = {None: [f.feed_id for f in tree.feeds]}
    waiting: list[TreeFolder] = list(tree.folders)
    while waiting:
        folder = waiting.pop()
        found[folder.id] = [f.feed_id for f in folder.feeds]
        waiting.extend(folder.folders)
    return found


@dataclasses.dataclass
class Shelf:
    """A user with six feeds a … f of one entry each, outside of the folders A and B."""

    services: Services
    who: Actor
    feeds: list[int]
    a: Folder
    b: Folder

    def lines(self) -> Lines:
        return lines(self.services.reading.get_tree(self.who))

    def unread(self) -> int:
        return self.services.reading.get_tree(self.who).unread

    def move(self, feed: int, source: Folder | None, target: Folder | None, after: int | None = None) -> str:
        return self.services.folders.move_feed(
            self.who,
            feed,
            source=source.id if source else None,
            target=target.id if target else None,
            after=after,
        )


@pytest.fixture
def shelf(world: World, alice: Actor) -> Shelf:
    services, who = world.services, alice
    feeds = [world.feed(name) for name in "abcdef"]
    for feed_id, name in zip(feeds, "abcdef", strict=True):
        services.subscriptions.subscribe(who, f"https://{name}.example.org/feed")
        world.publish(feed_id, world.minutes(0))
    return Shelf(services, who, feeds, services.folders.create(who, "A"), services.folders.create(who, "B"))


def test_a_feed_goes_where_it_was_dropped(shelf: Shelf) -> None:
    a, b, c, d, e, f = shelf.feeds
    assert shelf.lines()[None] == shelf.feeds
    for feed in (a, b, c):
        shelf.move(feed, None, shelf.a)
    assert shelf.lines() == {None: [d, e, f], shelf.a.id: [a, b, c], shelf.b.id: []}
    shelf.move(d, None, shelf.a, after=a)
    assert shelf.lines()[shelf.a.id] == [a, d, b, c]
    shelf.move(c, shelf.a, shelf.a, after=0)
    assert shelf.lines()[shelf.a.id] == [c, a, d, b]
    shelf.move(a, shelf.a, None, after=e)
    assert shelf.lines() == {None: [e, a, f], shelf.a.id: [c, d, b], shelf.b.id: []}
    assert shelf.unread() == 6


def test_one_move_writes_one_row(shelf: Shelf) -> None:
    rows = shelf.services.store.database["subscriptions"]
    shelf.move(shelf.feeds[0], None, None, after=shelf.feeds[3])  # the first one gives all a place
    before = {d["feed_id"]: d for d in rows.find()}
    shelf.move(shelf.feeds[1], None, None, after=shelf.feeds[4])
    after = {d["feed_id"]: d for d in rows.find()}
    assert [f for f in shelf.feeds if before[f] != after[f]] == [shelf.feeds[1]]


def test_a_feed_in_two_folders_has_a_place_in_each(shelf: Shelf) -> None:
    a, b, *_ = shelf.feeds
    folders = shelf.services.folders
    folders.place_feeds(shelf.who, [a, b], [shelf.a.id, shelf.b.id], FolderEditMode.ADD)
    shelf.move(b, shelf.a, shelf.a, after=0)
    assert (shelf.lines()[shelf.a.id], shelf.lines()[shelf.b.id]) == ([b, a], [a, b])
    shelf.move(a, shelf.a, None)
    assert (shelf.lines()[shelf.a.id], shelf.lines()[shelf.b.id]) == ([b], [a, b])
    assert a not in shelf.lines()[None]
    assert shelf.unread() == 6


@pytest.mark.parametrize("mode", list(FolderEditMode))
def test_many_move_as_one_and_come_back_as_one(shelf: Shelf, mode: FolderEditMode) -> None:
    folders, feeds = shelf.services.folders, shelf.feeds
    folders.place_feeds(shelf.who, feeds[:3], [shelf.a.id], FolderEditMode.ADD)
    folders.place_feeds(shelf.who, feeds[1:4], [shelf.b.id], FolderEditMode.ADD)
    before = shelf.lines()
    token, count = folders.place_feeds(shelf.who, [*feeds, 12345], [shelf.b.id], mode)
    assert count == 6
    now = shelf.lines()
    assert {
        FolderEditMode.ADD: now[shelf.b.id] == feeds and now[shelf.a.id] == feeds[:3],
        FolderEditMode.REMOVE: not now[shelf.b.id] and now[shelf.a.id] == feeds[:3],
        FolderEditMode.MOVE: now[shelf.b.id] == feeds and not now[shelf.a.id],
    }[mode]
    folders.undo_move(shelf.who, token)
    assert shelf.lines() == before
    with pytest.raises(NotFoundError):
        folders.undo_move(shelf.who, token)


def test_taking_back_keeps_what_another_device_did_since(shelf: Shelf) -> None:
    a = shelf.feeds[0]
    token = shelf.move(a, None, shelf.a, after=0)
    shelf.services.folders.place_feeds(shelf.who, [a], [shelf.b.id], FolderEditMode.ADD)
    shelf.services.folders.undo_move(shelf.who, token)
    assert (shelf.lines()[shelf.a.id], shelf.lines()[shelf.b.id]) == ([], [a])


def test_a_folder_that_was_moved_on_stays_there_when_the_first_move_is_taken_back(shelf: Shelf) -> None:
    folders, a, b = shelf.services.folders, shelf.a.id, shelf.b.id
    c = folders.create(shelf.who, "C").id

    def parent() -> int | None:
        return next(f.parent for f in folders.list_folders(shelf.who) if f.id == a)

    first = folders.move_folder(shelf.who, a, parent=b)
    second = folders.move_folder(shelf.who, a, parent=c)
    folders.undo_move(shelf.who, first)
    assert parent() == c
    folders.undo_move(shelf.who, second)
    assert parent() == b
    third = folders.move_folder(shelf.who, a, parent=c)
    folders.delete(shelf.who, c)
    assert parent() is None
    folders.undo_move(shelf.who, third)
    assert parent() == b


def test_a_feed_that_was_moved_on_stays_there_when_the_first_move_is_taken_back(shelf: Shelf) -> None:
    a, folders = shelf.feeds[0], shelf.services.folders
    c = folders.create(shelf.who, "C")
    shelf.move(a, None, shelf.a)
    first = shelf.move(a, shelf.a, shelf.b)
    second = shelf.move(a, shelf.b, c)
    folders.undo_move(shelf.who, first)
    assert [folder for folder, line in shelf.lines().items() if a in line] == [c.id]
    folders.undo_move(shelf.who, second)
    assert [folder for folder, line in shelf.lines().items() if a in line] == [shelf.b.id]
    third = shelf.move(a, shelf.b, c)
    folders.delete(shelf.who, c.id)
    folders.undo_move(shelf.who, third)
    assert [folder for folder, line in shelf.lines().items() if a in line] == [shelf.b.id]


def test_two_devices_that_move_the_same_feed_commute(shelf: Shelf) -> None:
    a, b, *_ = shelf.feeds
    for feed, targets in ((a, (shelf.a, shelf.b)), (b, (shelf.b, shelf.a))):
        for target in targets:
            shelf.move(feed, None, target)
    assert shelf.lines()[shelf.a.id] == shelf.lines()[shelf.b.id] == [a, b]


def test_foreign_folders_and_feeds_are_refused(shelf: Shelf, bob: Actor) -> None:
    folders = shelf.services.folders
    with pytest.raises(NotFoundError):
        folders.move_feed(bob, shelf.feeds[0], source=None, target=None)
    with pytest.raises(NotFoundError):
        folders.move_folder(bob, shelf.a.id, parent=None)
    theirs = folders.create(bob, "B")
    for parent in (theirs.id, 99):
        with pytest.raises(NotFoundError):
            folders.move_folder(shelf.who, shelf.a.id, parent=parent)
        with pytest.raises(NotFoundError):
            shelf.services.folders.move_feed(shelf.who, shelf.feeds[0], source=None, target=parent)
        with pytest.raises(NotFoundError):
            folders.place_feeds(shelf.who, shelf.feeds, [parent], FolderEditMode.ADD)
    token = shelf.move(shelf.feeds[0], None, shelf.a)
    with pytest.raises(NotFoundError):
        folders.undo_move(bob, token)
    with pytest.raises(NotFoundError):
        folders.restore(shelf.who, token)


def test_a_folder_moves_with_all_that_is_in_it(shelf: Shelf) -> None:
    folders, who = shelf.services.folders, shelf.who
    shelf.move(shelf.feeds[0], None, shelf.a)
    token = folders.move_folder(who, shelf.a.id, parent=shelf.b.id)
    (top,) = shelf.services.reading.get_tree(who).folders
    assert (top.id, top.unread, [f.id for f in top.folders]) == (shelf.b.id, 1, [shelf.a.id])
    with pytest.raises(InvalidError, match="into itself"):
        folders.move_folder(who, shelf.b.id, parent=shelf.a.id)
    with pytest.raises(InvalidError, match="into itself"):
        folders.move_folder(who, shelf.b.id, parent=shelf.b.id)
    folders.undo_move(who, token)
    assert [f.id for f in shelf.services.reading.get_tree(who).folders] == [shelf.a.id, shelf.b.id]
    folders.move_folder(who, shelf.a.id, parent=None, after=shelf.b.id)
    assert [f.id for f in folders.list_folders(who)] == [shelf.b.id, shelf.a.id]
    third = folders.create(who, "C")
    folders.move_folder(who, third.id, parent=None, after=0)
    assert [f.id for f in folders.list_folders(who)] == [third.id, shelf.b.id, shelf.a.id]


def test_a_folder_finds_no_place_beside_its_namesake_or_too_deep(shelf: Shelf) -> None:
    folders, who = shelf.services.folders, shelf.who
    folders.create(who, "A", parent=shelf.b.id)
    with pytest.raises(ExistsError, match="Rename one"):
        folders.move_folder(who, shelf.a.id, parent=shelf.b.id)
    parent = shelf.b.id
    for depth in range(7):
        parent = folders.create(who, f"deep {depth}", parent=parent).id
    with pytest.raises(InvalidError, match="deep"):
        folders.move_folder(who, shelf.a.id, parent=parent)


def test_two_devices_cannot_put_two_folders_into_each_other(shelf: Shelf) -> None:
    folders, who = shelf.services.folders, shelf.who

    def move(pair: tuple[int, int]) -> str:
        try:
            folders.move_folder(who, pair[0], parent=pair[1])
        except InvalidError:
            return "refused"
        return "moved"

    pairs = [(shelf.a.id, shelf.b.id), (shelf.b.id, shelf.a.id)]
    for _ in range(5):
        with ThreadPoolExecutor(2) as pool:
            assert sorted(pool.map(move, pairs)) == ["moved", "refused"]
        assert set(shelf.lines()) == {None, shelf.a.id, shelf.b.id}
        for folder in (shelf.a, shelf.b):
            folders.move_folder(who, folder.id, parent=None)


def test_folders_that_lie_in_each_other_are_shown_all_the_same(shelf: Shelf) -> None:
    """Nothing makes them; if they are there, their feeds are."""
    shelf.move(shelf.feeds[0], None, shelf.a)
    rows = shelf.services.store.database["folders"]
    rows.update_one({"_id": shelf.a.id}, {"$set": {"parent": shelf.b.id}})
    rows.update_one({"_id": shelf.b.id}, {"$set": {"parent": shelf.a.id}})
    found = shelf.lines()
    assert found[shelf.a.id] == shelf.feeds[:1]
    assert shelf.b.id in found


#: (which feed, from which place it has, to 0 top 1 A 2 B, behind which of the line or None)
MOVES = st.lists(
    st.tuples(
        st.integers(0, 5), st.integers(0, 9), st.integers(0, 2), st.none() | st.integers(0, 6), st.booleans()
    ),
    min_size=1,
    max_size=12,
)


@rules(
    deadline=None,
    max_examples=25,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    derandomize=True,
)
@given(moves=MOVES)
def test_moves_agree_with_a_model(shelf: Shelf, moves: list[tuple[int, int, int, int | None, bool]]) -> None:
    """Against plain lists: no feed is lost, none is twice in a folder, order as told, undo exact."""
    who = shelf.who
    rows = shelf.services.store.database["subscriptions"]
    rows.update_many({}, {"$set": {"folder_ids": [], "orders": {}}})
    places = [None, shelf.a.id, shelf.b.id]
    for number, source_pick, target_pick, after_pick, undo in moves:
        feed, before = shelf.feeds[number], shelf.lines()
        homes = [place for place in places if feed in before[place]]
        source, target = homes[source_pick % len(homes)], places[target_pick]
        rest = [f for f in before[target] if f != feed]
        after = None if after_pick is None else ([0, *rest])[after_pick % (len(rest) + 1)]
        token = shelf.services.folders.move_feed(who, feed, source=source, target=target, after=after)
        now = shelf.lines()
        expected = {
            place: [f for f in line if f != feed or place not in (source, target)]
            for place, line in before.items()
        }
        in_folders = set(homes) - {None, source} | ({target} - {None})
        if (target is not None) or not in_folders:
            if after is not None:
                expected[target].insert(expected[target].index(after) + 1 if after else 0, feed)
                assert now[target] == expected[target]
            else:
                assert sorted(now[target]) == sorted([*expected[target], feed])
        assert {f for line in now.values() for f in line} == set(shelf.feeds)
        assert all(len(line) == len(set(line)) for line in now.values())
        for place in set(places) - {source, target}:
            if place is not None:
                assert now[place] == before[place]
        assert shelf.unread() == 6
        if undo:
            shelf.services.folders.undo_move(who, token)
            assert {p: set(line) for p, line in shelf.lines().items()} == {
                p: set(line) for p, line in before.items()
            }


def test_a_tree_without_places_is_by_name() -> None:
    folders = [Folder(1, 1, "b"), Folder(2, 1, "A", order="V")]
    from app.gateways.reading.streams import Sources

    assert [f.id for f in build_tree(folders, Sources({}, {}), {}, 0).folders] == [1, 2]
