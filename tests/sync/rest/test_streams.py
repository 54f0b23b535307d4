"""Lists over the API: page by page, marks, and what is taken back."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import urlsplit

import pytest

from app import clock
from app.bootstrap.services import Services
from app.models.accounts.actor import Actor
from app.models.reading.notes import NOTE_MAX, Color, Quote
from tests.sharing.conftest import People
from tests.sync.rest.conftest import Program

Make = Callable[..., Program]


@pytest.mark.parametrize("sort", ["newest", "oldest", "unread-on-top"])
def test_pages_neither_repeat_nor_leave_out_while_new_entries_arrive(
    mine: Program, people: People, ann: Actor, sort: str
) -> None:
    ids = people.blog([ann], entries=300)
    path, seen, page = f"/streams/all/entries?limit=37&sort={sort}", list[int](), 0
    while path:
        answer = mine.get(path)
        assert answer.status_code == 200, answer.text
        body = answer.get_json()
        seen += [row["id"] for row in body["items"]]
        page += 1
        if page in (2, 4):
            people.blog([ann], entries=5, name=f"late{page}")
        if body["next"] is None:
            assert "Link" not in answer.headers
            break
        address, _, rel = answer.headers["Link"].partition(";")
        assert rel.strip() == 'rel="next"'
        parts = urlsplit(address.strip("<>"))
        path = f"{parts.path.removeprefix('/api/v1')}?{parts.query}"
    assert len(seen) == len(set(seen)) == 300
    assert set(seen) == set(ids)


def test_a_cursor_is_for_one_list_of_one_user(
    mine: Program, people: People, ann: Actor, program: Make
) -> None:
    people.blog([ann], entries=5)
    cursor = mine.get("/streams/all/entries?limit=2").get_json()["next"]
    assert mine.get(f"/streams/all/entries?limit=2&cursor={cursor}").status_code == 200
    assert mine.get(f"/streams/starred/entries?cursor={cursor}").status_code == 400
    assert mine.get(f"/streams/all/entries?sort=oldest&cursor={cursor}").status_code == 400
    bob = people.join("bob")
    assert program(bob).get(f"/streams/all/entries?cursor={cursor}").status_code == 404


def test_a_stream_is_marked_as_read_and_that_taken_back(mine: Program, people: People, ann: Actor) -> None:
    ids = people.blog([ann], entries=4)
    page = mine.get("/streams/all/entries").get_json()
    people.blog([ann], entries=1, name="late")
    done = mine.post("/streams/all/mark-all-read", {"snapshot": page["snapshot"]}).get_json()
    assert done["count"] == 4
    assert mine.get("/counts").get_json()["unread"] == 1
    assert mine.post("/undo", {"undo": done["undo"]}).get_json() == {"asked": 0, "lost": 0}
    assert mine.get("/counts").get_json()["unread"] == 5
    assert mine.post("/undo", {"undo": done["undo"]}).status_code == 404
    assert mine.post("/streams/all/mark-all-read").get_json()["count"] == 5
    assert mine.post("/entries/mark", {"ids": ids, "read": False}).get_json()["moved"] == 4


def test_an_entry_is_marked_field_by_field(mine: Program, people: People, ann: Actor) -> None:
    (entry,) = people.blog([ann], entries=1)
    at = f"/entries/{entry}"
    done = mine.patch(at, {"starred": True, "tags": ["b", "a"]}).get_json()
    assert (done["starred"], [t["name"] for t in done["tags"]]) == (True, ["a", "b"])
    assert "read" not in done
    mine.patch(at, {"read": True, "liked": True, "tags": ["B", "c"]})
    found = mine.get(at).get_json()
    assert (found["read"], found["starred"], found["liked"]) == (True, True, True)
    assert [t["name"] for t in found["tags"]] == ["b", "c"]
    assert found["html"].startswith("<p>The text")
    mine.patch(at, {"read": False, "liked": False, "starred": False, "tags": []})
    found = mine.get(at).get_json()
    assert (found["read"], found["starred"], found["liked"], found["tags"]) == (False, False, False, [])


def test_an_entry_is_hidden_and_shown(mine: Program, people: People, ann: Actor) -> None:
    (entry, other) = people.blog([ann], entries=2)
    at = f"/entries/{entry}"
    assert mine.get(at).get_json()["hidden"] is False
    assert mine.patch(at, {"hidden": True, "starred": True}).get_json()["hidden"] is True
    found = mine.get(at).get_json()
    assert (found["hidden"], found["read"], found["starred"]) == (True, True, True)
    assert [row["id"] for row in mine.get("/streams/all/entries").get_json()["items"]] == [other]
    assert mine.patch(at, {"hidden": False}).get_json()["hidden"] is False
    assert len(mine.get("/streams/all/entries").get_json()["items"]) == 2
    assert mine.patch("/entries/1", {"hidden": True, "starred": True}).status_code == 404


def test_a_search_is_a_stream(mine: Program, people: People, ann: Actor) -> None:
    people.blog([ann], entries=3)
    people.services.indexing.run(clock.now(), 30)
    answer = mine.get("/streams/search/entries?q=is:unread&limit=2")
    assert (answer.status_code, len(answer.get_json()["items"])) == (200, 2)
    assert mine.get("/streams/search/entries").get_json()["field"] == "q"
    assert mine.post("/streams/search/mark-all-read?q=blog", {}).status_code == 400


def test_long_notes_make_pages_shorter(mine: Program, people: People, ann: Actor) -> None:
    entries = people.blog([ann], entries=6)
    long = "\U0001f600" * NOTE_MAX
    for entry in entries:
        quotes = [Quote("", f"rain {n}", "", "", Color.YELLOW, long, clock.now()) for n in range(3)]
        people.services.notes.replace_note(ann, entry, "", quotes)
    first = mine.get("/notes").get_json()
    second = mine.get("/notes", query_string={"cursor": first["next"]}).get_json()
    assert (len(first["items"]), len(second["items"]), second["next"]) == (4, 2, None)
    found = [item["entry_id"] for item in (*first["items"], *second["items"])]
    assert found == list(dict.fromkeys(found))
    assert set(found) == set(entries)


def test_whatever_is_taken_away_can_come_back(mine: Program, people: People, ann: Actor) -> None:
    (entry,) = people.blog([ann], entries=1)
    feed = mine.get("/subscriptions").get_json()["items"][0]["feed_id"]
    folder = mine.post("/folders", {"name": "News"}).get_json()["id"]
    mine.patch(f"/subscriptions/{feed}", {"title": "Mine", "folder_ids": [folder]})
    share = mine.post(f"/entries/{entry}/share", {"note": "Look"}).get_json()["id"]
    comment = mine.post(f"/shares/{share}/comments", {"text": "A word"}).get_json()["id"]
    mine.patch(f"/entries/{entry}", {"tags": ["one"]})
    (tag,) = mine.get("/tags").get_json()["items"]
    search = mine.post("/searches", {"query": "blog"}).get_json()["id"]
    for path in (
        f"/comments/{comment}",
        f"/shares/{share}",
        f"/tags/{tag['id']}",
        f"/searches/{search}",
        f"/folders/{folder}",
        f"/subscriptions/{feed}",
    ):
        token = mine.delete(path).get_json()["undo"]
        assert mine.post("/undo", {"undo": token}).status_code == 200, path
    mine_now = mine.get(f"/subscriptions/{feed}").get_json()
    assert (mine_now["title"], mine_now["folder_ids"]) == ("Mine", [folder])
    assert len(mine.get(f"/shares/{share}/comments").get_json()["items"]) == 1
    assert mine.get("/tags").get_json()["items"] == [tag]
    assert mine.get("/searches").get_json()["items"][0]["id"] == search
    assert mine.patch(f"/searches/{search}", {"notify": True}).get_json()["notify"] is True
    assert mine.get("/searches").get_json()["items"][0]["notify"] is True
    assert mine.patch("/searches/77", {"notify": True}).status_code == 404
    found = mine.get("/searches/suggestions?query=is:st").get_json()
    assert found["completions"] == [{"name": "starred", "query": "is:starred "}]
    kinds = [each["kind"] for each in mine.get("/history").get_json()["items"]]
    assert kinds == []


def test_ones_own_words_are_taken_away_whatever_one_may_see(
    people: People, ann: Actor, program: Callable[..., Program]
) -> None:
    (entry,) = people.blog([ann])
    people.open(ann)
    share = people.services.sharing.share(ann, entry).share
    his = program(people.join("bob"))
    comment = his.post(f"/shares/{share.id}/comments", {"text": "A word"}).get_json()["id"]
    people.services.following.block(ann, "bob")
    assert his.patch(f"/comments/{comment}", {"text": "Another"}).status_code == 404
    answer = his.delete(f"/comments/{comment}")
    assert (answer.status_code, answer.get_json()) == (200, {"undo": None})
    assert his.delete(f"/comments/{comment}").status_code == 404


def test_a_refused_change_of_an_entry_changes_nothing(
    mine: Program, people: People, services: Services, ann: Actor
) -> None:
    (entry,) = people.blog([ann], entries=1)
    (feed,) = services.gateways.subscriptions.find_feed_ids(ann.user_id)
    mine.patch(f"/entries/{entry}", {"starred": True, "tags": ["kept"]})
    services.subscriptions.unsubscribe(ann, feed)
    before = mine.get(f"/entries/{entry}").get_json()
    assert (before["starred"], [tag["name"] for tag in before["tags"]]) == (True, ["kept"])
    refused = mine.patch(f"/entries/{entry}", {"starred": False, "tags": [], "read": False})
    assert refused.status_code == 404
    assert mine.get(f"/entries/{entry}").get_json() == before
    done = mine.patch(f"/entries/{entry}", {"starred": False, "tags": ["kept", "more"], "read": True})
    assert [tag["name"] for tag in done.get_json()["tags"]] == ["kept", "more"]


def test_a_change_that_is_refused_for_its_like_changes_nothing(
    mine: Program, people: People, services: Services, ann: Actor
) -> None:
    (entry,) = people.blog([ann], entries=1)
    mine.patch(f"/entries/{entry}", {"tags": ["kept", "gone"]})
    services.discussion._likes_per_hour = 1
    assert mine.patch(f"/entries/{entry}", {"liked": True}).status_code == 200
    before = mine.get(f"/entries/{entry}").get_json()
    sent = {"starred": True, "liked": True, "tags": ["kept", "new"], "read": True}
    assert mine.patch(f"/entries/{entry}", sent).status_code == 429
    after = mine.get(f"/entries/{entry}").get_json()
    names = [sorted(tag["name"] for tag in found.pop("tags")) for found in (before, after)]
    assert names == [["gone", "kept"]] * 2
    assert after == before


def test_what_is_let_go_may_have_been_the_last_of_it(
    mine: Program, people: People, services: Services, ann: Actor
) -> None:
    (entry,) = people.blog([ann], entries=1)
    (feed,) = services.gateways.subscriptions.find_feed_ids(ann.user_id)
    mine.patch(f"/entries/{entry}", {"tags": ["kept"]})
    services.subscriptions.unsubscribe(ann, feed)
    assert mine.patch(f"/entries/{entry}", {"liked": True, "read": False}).status_code == 404
    assert mine.patch(f"/entries/{entry}", {"starred": False, "liked": False, "tags": []}).status_code == 200
    assert mine.patch(f"/entries/{entry}", {"starred": False, "tags": []}).status_code == 404
    assert mine.patch(f"/entries/{entry}", {"starred": True}).status_code == 404


def test_all_of_all_is_not_of_those_who_are_muted(
    mine: Program, people: People, services: Services, ann: Actor
) -> None:
    bob = people.join("bob")
    people.open(bob)
    people.follow(ann, "bob")
    (entry,) = people.blog([bob], entries=1)
    share = services.sharing.share(bob, entry).share.id
    (own,) = people.blog([ann], entries=1, name="own")
    services.following.set_muted(ann, "bob", True)
    done = mine.post("/streams/all/mark-all-read", {})
    assert (done.status_code, done.get_json()["count"]) == (200, 1)
    assert [mine.get(f"/entries/{i}").get_json()["read"] for i in (own, share)] == [True, False]
