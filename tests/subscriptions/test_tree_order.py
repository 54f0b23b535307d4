"""The order of feeds and folders in the tree, and moves in a tree that is sorted."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from app.bootstrap.services import Services
from app.errors import InvalidError
from app.models.accounts.actor import Actor
from app.models.reading.stream import Tree
from app.models.subscriptions.tree_order import TreeOrder
from app.web.view.views import compute_shape
from tests.support.reader import add_user, pull, rss


@pytest.fixture
def ann(services: Services) -> Actor:
    """A reader of the feeds b (1 unread), A (3 unread, with the newest entry), c (2); and of folders."""
    ann = add_user(services)
    outer, inner = (services.folders.create(ann, name).id for name in ("outer", "Inner"))
    for name, count, folder in (
        ("b", 1, None),
        ("c", 2, None),
        ("Low", 1, outer),
        ("High", 9, inner),
        ("A", 3, None),
    ):
        url = f"https://{name.lower()}.example/feed"
        feed_id = services.subscriptions.subscribe(ann, url, folder_id=folder).subscription.feed_id
        pull(services, [feed_id], {url: rss(name, [(f"{name} {n}", "<p>x</p>") for n in range(count)])})
    return ann


def _choose(services: Services, who: Actor, order: str) -> Tree:
    services.accounts.set_preferences(who, {"tree_order": order})
    return services.reading.get_tree(who)


def _names(tree: Tree) -> tuple[list[str], list[str]]:
    return [folder.name for folder in tree.folders], [feed.title for feed in tree.feeds]


def test_each_order_sorts_feeds_and_folders(ann: Actor, services: Services, db: Any) -> None:
    assert _names(_choose(services, ann, "name")) == (["Inner", "outer"], ["A", "b", "c"])
    assert _names(_choose(services, ann, "unread")) == (["Inner", "outer"], ["A", "c", "b"])
    newest = db.feeds.find_one({"title": "b"})["last_entry_at"]
    for title, later in (("A", 1), ("c", 2), ("Low", 4), ("High", 3)):
        at = newest + dt.timedelta(hours=later)
        db.feeds.update_one({"title": title}, {"$set": {"last_entry_at": at}})
    assert _names(_choose(services, ann, "newest")) == (["outer", "Inner"], ["c", "A", "b"])


def test_an_own_order_comes_back_unchanged(ann: Actor, services: Services) -> None:
    first = services.reading.get_tree(ann).feeds
    services.folders.move_feed(ann, first[2].feed_id, source=None, target=None, after=0)
    own = _names(services.reading.get_tree(ann))
    assert own[1] == ["c", "A", "b"]
    _choose(services, ann, "unread")
    assert _names(_choose(services, ann, "own")) == own


@pytest.mark.parametrize("order", [order for order in TreeOrder if order is not TreeOrder.OWN])
def test_a_sorted_tree_refuses_places_within_a_folder(
    ann: Actor, services: Services, order: TreeOrder
) -> None:
    tree = _choose(services, ann, order)
    feed_id, folder = tree.feeds[0].feed_id, tree.folders[0]
    with pytest.raises(InvalidError, match="sorted automatically"):
        services.folders.move_feed(ann, feed_id, source=None, target=None, after=tree.feeds[1].feed_id)
    with pytest.raises(InvalidError, match="sorted automatically"):
        services.folders.move_folder(ann, folder.id, parent=None, after=tree.folders[1].id)
    # Into another folder is a move in any order.
    services.folders.move_feed(ann, feed_id, source=None, target=folder.id)
    services.folders.move_folder(ann, tree.folders[1].id, parent=folder.id)
    moved = services.reading.get_tree(ann)
    assert feed_id in {feed.feed_id for feed in moved.folders[0].feeds}
    assert len(moved.folders[0].folders) == 1


def test_reading_moves_nothing_on_pages_that_are_open(ann: Actor, services: Services, db: Any) -> None:
    """Pages load the tree anew when its shape has changed."""
    before = _choose(services, ann, "unread")
    entries = [d["_id"] for d in db.entries.find({"title": {"$in": ["A 0", "A 1", "A 2"]}})]
    services.reading.mark(ann, entries, True)
    after = services.reading.get_tree(ann)
    assert _names(after)[1] == ["c", "b", "A"]
    assert compute_shape(after) == compute_shape(before)
    services.subscriptions.update(ann, after.feeds[0].feed_id, title="Another name")
    assert compute_shape(services.reading.get_tree(ann)) != compute_shape(before)
