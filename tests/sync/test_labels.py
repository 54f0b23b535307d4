"""Folders as labels: nested folders of one name stay apart, and a parent shows what its page shows."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from app.bootstrap.services import Services
from app.models.accounts.actor import Actor
from app.models.reading.stream import StreamKind, StreamQuery, StreamRef
from app.models.subscriptions.folder import Folder, build_folder_labels, find_ancestors
from app.models.sync.sync import find_folders_by_label
from tests.sync.conftest import READ, STARRED, Reader, password_of

LABEL = "user/-/label/"


def _make(*rows: tuple[int, str, int | None]) -> list[Folder]:
    return [Folder(i, 1, name, parent) for i, name, parent in rows]


@pytest.mark.parametrize(
    ("folders", "labels"),
    [
        ([(1, "News", None), (2, "Tech", None)], {1: "News", 2: "Tech"}),
        ([(1, "Tech", None), (2, "News", 1)], {1: "Tech", 2: "News"}),
        ([(1, "News", None), (2, "Tech", None), (3, "News", 2)], {1: "News", 2: "Tech", 3: "Tech/News"}),
        (
            [(1, "A", None), (2, "B", None), (3, "News", 1), (4, "News", 2)],
            {1: "A", 3: "A/News", 2: "B", 4: "B/News"},
        ),
        ([(1, "A", None), (2, "A", 1), (3, "A", 2)], {1: "A", 2: "A/A", 3: "A/A/A"}),
        # A name with a slash is that folder's own.
        (
            [(1, "A", None), (2, "News", 1), (3, "News", None), (4, "A/News", None)],
            {1: "A", 2: "A/News (2)", 3: "News", 4: "A/News"},
        ),
        # Two requests made the same folder at once: apps can't tell them apart.
        ([(1, "A", None), (2, "A", None)], {1: "A", 2: "A"}),
        # A parent that is gone, and folders inside each other.
        ([(1, "A", 7), (2, "B", 3), (3, "B", 2)], {1: "A", 2: "B", 3: "B/B"}),
    ],
)
def test_a_label_names_its_path_where_the_bare_name_is_not_unique(
    folders: list[tuple[int, str, int | None]], labels: dict[int, str]
) -> None:
    assert build_folder_labels(_make(*folders)) == labels


def test_each_label_and_each_path_finds_its_folder_alone() -> None:
    folders = _make((1, "Tech", None), (2, "News", 1), (3, "World", None), (4, "News", 3), (5, "Films", 3))
    for folder_id, label in build_folder_labels(folders).items():
        assert find_folders_by_label(folders, label) == [folder_id]
    assert find_folders_by_label(folders, "World/Films") == [5]
    assert find_folders_by_label(folders, "world/FILMS") == [5]
    assert find_folders_by_label(folders, "News") == []
    assert find_folders_by_label(_make((1, "News", None), (2, "NEWS", None)), "news") == []
    assert find_ancestors(folders) == {1: (1,), 2: (2, 1), 3: (3,), 4: (4, 3), 5: (5, 3)}


class Nest:
    """Ann's folders: News, Tech > News and World > News, with a feed in each, and one in Tech itself."""

    def __init__(self, services: Services, ann: Actor, reader: Reader) -> None:
        self.services, self.ann, self.reader = services, ann, reader
        make = services.folders.create
        self.top = make(ann, "News").id
        self.tech, self.world = make(ann, "Tech").id, make(ann, "World").id
        self.in_tech = make(ann, "News", parent=self.tech).id
        self.in_world = make(ann, "News", parent=self.world).id
        subscriptions = services.gateways.subscriptions.find_by_user(ann.user_id)
        self.feeds = [s.feed_id for s in subscriptions][:4]
        for feed, folder in zip(self.feeds, (self.top, self.in_tech, self.in_world, self.tech), strict=True):
            services.subscriptions.update(ann, feed, folder_ids=[folder])

    @property
    def labels(self) -> list[str]:
        tags = self.reader.json("tag/list")["tags"]
        return [tag["id"].removeprefix(LABEL) for tag in tags if tag["id"] != STARRED]

    @property
    def places(self) -> dict[int, list[str]]:
        found = self.reader.json("subscription/list")["subscriptions"]
        named = {int(f["id"].removeprefix("feed/")): [c["label"] for c in f["categories"]] for f in found}
        return {feed: named[feed] for feed in self.feeds}

    def ids(self, *feeds: int) -> list[int]:
        return sorted(i for feed in feeds for i in self.reader.ids(f"feed/{feed}"))


@pytest.fixture
def nest(services: Services, ann: Actor, reader: Reader) -> Nest:
    return Nest(services, ann, reader)


def test_nested_folders_of_one_name_are_apart_in_every_list(nest: Nest) -> None:
    one, two, three, four = nest.feeds
    assert nest.labels == ["News", "Tech", "Tech/News", "World", "World/News"]
    assert nest.places == {one: ["News"], two: ["Tech/News"], three: ["World/News"], four: ["Tech"]}
    assert sorted(nest.reader.ids(f"{LABEL}News")) == nest.ids(one)
    assert sorted(nest.reader.ids(f"{LABEL}Tech/News")) == nest.ids(two)
    assert f"{LABEL}Tech/News" in nest.reader.categories(nest.ids(two)[0])
    assert nest.reader.get("stream/items/ids", s=f"{LABEL}Films/News").status_code == 400


def test_a_parent_shows_counts_and_marks_what_its_page_does(nest: Nest) -> None:
    _, two, three, four = nest.feeds
    ref = StreamRef(StreamKind.FOLDER, nest.tech)
    page = nest.services.reading.load_page(nest.ann, StreamQuery(ref, limit=100))
    assert sorted(nest.reader.ids(f"{LABEL}Tech")) == nest.ids(two, four)
    assert {row.feed_id for row in page.rows} == {two, four}
    unread = {i: len(nest.reader.ids(f"feed/{i}", xt=READ)) for i in nest.feeds}
    counts = {c["id"]: c["count"] for c in nest.reader.json("unread-count")["unreadcounts"]}
    assert counts.get(f"{LABEL}Tech", 0) == unread[two] + unread[four] > 0
    assert counts.get(f"{LABEL}World", 0) == counts.get(f"{LABEL}World/News", 0) == unread[three]
    nest.reader.do("mark-all-as-read", s=f"{LABEL}Tech")
    assert nest.reader.ids(f"{LABEL}Tech/News", xt=READ) == []
    assert len(nest.reader.ids(f"feed/{three}", xt=READ)) == unread[three]


def test_disabling_a_label_never_deletes_another_folder(nest: Nest) -> None:
    one, two, three, four = nest.feeds
    nest.reader.do("disable-tag", s=f"{LABEL}Tech/News")
    assert nest.labels == ["News", "Tech", "World", "World/News"]
    nest.reader.do("disable-tag", s=f"{LABEL}News")
    # The last one of this name has the bare name, and its path still finds it.
    assert nest.places == {one: [], two: [], three: ["News"], four: ["Tech"]}
    nest.reader.do("disable-tag", s=f"{LABEL}World/News")
    assert nest.labels == ["Tech", "World"]


def test_labels_of_one_request_are_found_before_the_first_is_deleted(nest: Nest) -> None:
    # With "News" gone, "World/News" would be the only one, and "News" would mean it.
    nest.reader.do("disable-tag", s=[f"{LABEL}News", f"{LABEL}Tech/News"], t=f"{LABEL}News")
    assert nest.labels == ["Tech", "News", "World"] or nest.labels == ["Tech", "World", "News"]
    assert nest.places[nest.feeds[2]] == ["News"]


def test_a_nested_folder_is_renamed_in_its_place_by_name_or_path(nest: Nest) -> None:
    for _ in range(2):
        nest.reader.do("rename-tag", s=f"{LABEL}Tech/News", dest=f"{LABEL}Tech/Latest")
    assert nest.places[nest.feeds[1]] == ["Latest"]
    nest.reader.do("rename-tag", s=f"{LABEL}World/News", dest=f"{LABEL}Globe")
    assert nest.places[nest.feeds[2]] == ["Globe"]
    parents = {f.name: f.parent for f in nest.services.sync.list_folders(nest.ann)}
    assert parents == {"News": None, "Tech": None, "World": None, "Latest": nest.tech, "Globe": nest.world}


def test_a_feed_moves_between_folders_of_one_name(nest: Nest) -> None:
    feed = nest.feeds[1]
    nest.reader.do(
        "subscription/edit", ac="edit", s=f"feed/{feed}", a=f"{LABEL}World/News", r=f"{LABEL}Tech/News"
    )
    assert nest.places[feed] == ["World/News"]
    nest.reader.do("edit-tag", a=f"{LABEL}World/News")
    assert len(nest.labels) == 5


def test_a_page_of_a_feed_changes_when_its_folder_gets_a_namesake(nest: Nest) -> None:
    nest.reader.do("disable-tag", s=[f"{LABEL}News", f"{LABEL}World/News"])
    path = f"stream/contents/feed/{nest.feeds[1]}"
    first = nest.reader.get(path)
    nest.services.folders.create(nest.ann, "News")
    again = nest.reader.client.get(
        first.request.path,
        query_string={"output": "json"},
        headers={**nest.reader.headers, "If-None-Match": first.headers["ETag"]},
    )
    assert again.status_code == 200
    assert f"{LABEL}Tech/News" in again.get_json()["items"][0]["categories"]


def test_groups_of_fever_have_the_same_names(nest: Nest, services: Services) -> None:
    word = f"ann:{password_of(services, nest.ann, fever=True)}"
    key = hashlib.md5(word.encode()).hexdigest()
    answer = nest.reader.client.post("/fever/?api&groups", data={"api_key": key}).get_json()
    titles = [group["title"] for group in answer["groups"]]
    assert titles == ["News", "Tech", "Tech/News", "World", "World/News", "No folder"]
    assert len({group["id"] for group in answer["groups"]}) == len(titles)


# -- names with commas
@pytest.mark.parametrize("name", ["R&D, tools", "one,two", ", first", "last ,"])
def test_a_tag_with_commas_is_found_again_under_the_name_that_the_app_sent(reader: Reader, name: str) -> None:
    """Tags have no commas, in new names as in names that apps look up."""
    first, second = reader.ids()[:2]
    for entry_id in (first, second, first):
        reader.do("edit-tag", i=str(entry_id), a=LABEL + name)
    kept = LABEL + " ".join(name.replace(",", " ").split())
    assert kept in reader.categories(first)
    assert reader.ids(LABEL + name) == reader.ids(kept) == [first, second]
    assert reader.ids(LABEL + name.upper()) == [first, second]
    assert reader.ids(xt=LABEL + name) == reader.ids()[2:]
    reader.do("edit-tag", i=str(first), r=LABEL + name)
    assert reader.ids(kept) == [second]
    reader.do("rename-tag", s=LABEL + name, dest=f"{LABEL}x, y")
    assert reader.ids(f"{LABEL}x, y") == reader.ids(f"{LABEL}x y") == [second]
    reader.do("disable-tag", s=f"{LABEL}x,y")
    assert kept not in reader.categories(second)
    assert reader.json("tag/list")["tags"] == [{"id": STARRED}]


# -- whole requests
@pytest.mark.parametrize("state", [READ, STARRED, "user/-/state/com.google/tracking-read"])
def test_a_state_without_items_changes_nothing_and_is_not_refused(reader: Reader, state: str) -> None:
    """FreshRSS answers so to an empty batch; an error would stop the app's queue."""
    before = (reader.ids(xt=READ), reader.ids(STARRED), reader.json("tag/list"))
    reader.do("edit-tag", a=state)
    reader.do("edit-tag", r=state)
    reader.do("edit-tag", a=state, r=f"{LABEL}none")
    assert (reader.ids(xt=READ), reader.ids(STARRED), reader.json("tag/list")) == before
    reader.do("edit-tag", a=[state, f"{LABEL}New"])
    assert [tag["id"] for tag in reader.json("tag/list")["tags"]] == [STARRED, f"{LABEL}New"]


@pytest.mark.parametrize("bad", ["feed/12345", "nothing", f"{LABEL}none", "user/-/state/com.google/created"])
def test_one_bad_list_refuses_the_whole_mark_all(reader: Reader, ann: Actor, bad: str) -> None:
    before = reader.ids(xt=READ)
    feed = reader.json("subscription/list")["subscriptions"][0]["id"]
    assert reader.post("mark-all-as-read", s=[feed, bad]).status_code in (400, 404)
    assert reader.ids(xt=READ) == before
    reader.do("mark-all-as-read", s=[feed, STARRED])
    assert reader.ids(feed, xt=READ) == []


@pytest.mark.parametrize(
    "form",
    [
        {"ac": "edit", "s": "feed/12345"},
        {"ac": "edit", "s": READ},
        {"ac": "subscribe", "s": "feed/12345"},
        {"ac": "subscribe", "s": "feed/not an address"},
        {"ac": "subscribe", "s": f"{LABEL}News"},
        {"ac": "subscribe", "s": "user/nobody/state/com.google/broadcast"},
        {"ac": "unsubscribe", "s": READ},
        {"ac": "unsubscribe", "s": "nothing"},
    ],
)
def test_one_bad_feed_refuses_the_whole_edit(reader: Reader, form: dict[str, Any]) -> None:
    before = reader.json("subscription/list")
    feed = before["subscriptions"][0]["id"]
    sent = {**form, "s": [feed, form["s"]], "t": "New name", "a": f"{LABEL}New"}
    assert reader.post("subscription/edit", **sent).status_code in (400, 404)
    assert reader.json("subscription/list") == before
    assert reader.json("tag/list")["tags"] == [{"id": STARRED}]
