"""The screens by which people deal with each other, and what they do to lists, files and counts."""

from __future__ import annotations

import dataclasses
import threading

import pytest

from app import clock
from app.bootstrap.services import Services
from app.errors import InvalidError, NotFoundError, RateLimitedError
from app.models.accounts.actor import Actor, Role
from app.models.feeds.discovery import Discovered, FoundFeed
from app.models.operations.feed_list import FeedFilter, FeedQuery
from app.models.sharing.sharing import Audience
from app.models.subscriptions.bulk_edit import BulkEditQuery
from tests.sharing.conftest import FOLLOWING, People
from tests.sharing.visiting import Doors
from tests.web.conftest import Visitor

JSON = {"Accept": "application/json"}


@pytest.fixture
def doors(services: Services) -> Doors:
    return Doors(services)


def _edit(people: People, who: Actor, **changes: object) -> None:
    values: dict[str, object] = {"display": "", "bio": "", "links": (), "listed": False, "open_lists": False}
    values["audience"] = Audience.PUBLIC
    people.services.following.update_profile(who, **{**values, **changes})  # type: ignore[arg-type]


def _notice(visitor: Visitor) -> str:
    return visitor.get("/people").text.partition('id="toasts"')[2].partition('id="say"')[0]


def _undo(page: str) -> str:
    return page.partition('name="token" value="')[2].partition('"')[0]


# -- follow, and the way back
def test_following_and_its_undo_work_without_a_script(
    people: People, doors: Doors, ann: Actor, bob: Actor
) -> None:
    _edit(people, ann, display="Ann Example")
    visitor = doors(bob)
    answer = visitor.post("/people/follow", {"name": "@ANN", "next": "/people"})
    assert (answer.status_code, answer.headers["Location"]) == (303, "/people")
    page = visitor.get("/people").text
    assert "You&#39;re now following ANN" in page
    assert "Ann Example" in page
    (friend,) = people.services.reading.get_tree(bob).feeds
    assert friend.title == "Ann Example"
    assert "<title>Ann Example" in visitor.get(f"/read/feed/{friend.feed_id}").text
    visitor.post("/people/unfollow", {"name": "ann"})
    said = _notice(visitor)
    assert "You unfollowed ann" in said
    assert people.services.reading.get_tree(bob).feeds == ()
    visitor.post("/undo", {"token": _undo(said), "next": "/people"})
    assert [f.title for f in people.services.reading.get_tree(bob).feeds] == ["Ann Example"]


def test_a_script_is_answered_with_what_is_now(people: People, doors: Doors, ann: Actor, bob: Actor) -> None:
    _edit(people, ann, audience=Audience.FOLLOWERS)
    visitor, own = doors(bob), doors(ann)
    asked = visitor.post("/people/follow", {"name": "ann"}, **JSON)
    assert asked.json is not None
    assert (asked.json["follows"], asked.json["requested"], asked.json["undo"]) == (False, True, None)
    assert "bob" in own.get("/people").text
    yes = own.post("/people/answer", {"name": "bob", "yes": "1"}, **JSON)
    assert yes.json == {"text": "bob now follows you", "undo": None, "done": True}
    gone = visitor.post("/people/unfollow", {"name": "ann"}, **JSON)
    assert gone.json is not None
    assert gone.json["undo"].startswith("feed.")
    back = visitor.post("/undo", {"token": gone.json["undo"]}, **JSON)
    assert back.status_code == 200
    # Who let him in is asked again: an undo gets no further than a fresh follow.
    assert people.services.following.get_person(bob, "ann").tie.requested


def test_a_request_is_refused_or_taken_back(people: People, doors: Doors, ann: Actor, bob: Actor) -> None:
    _edit(people, ann, audience=Audience.FOLLOWERS)
    visitor, own = doors(bob), doors(ann)
    visitor.post("/people/follow", {"name": "ann"})
    assert "follow request pending" in visitor.get("/people").text
    own.post("/people/answer", {"name": "bob", "yes": "0"})
    assert people.services.following.list_requests(ann) == []
    visitor.post("/people/follow", {"name": "ann"})
    visitor.post("/people/unfollow", {"name": "ann"})
    assert people.services.following.list_requests(ann) == []
    assert not people.services.following.get_person(bob, "ann").tie.follows


def test_counts_come_for_unread_folders_and_unread_people_at_once(
    people: People, doors: Doors, ann: Actor, bob: Actor
) -> None:
    services = people.services
    people.blog([bob], name="news")
    folder = services.folders.create(bob, "Inside").id
    (feed,) = [s.feed_id for s in services.gateways.subscriptions.find_by_user(bob.user_id)]
    services.folders.move_feed(bob, feed, source=None, target=folder)
    (entry,) = people.blog([ann])
    people.open(ann)
    people.follow(bob, "ann")
    services.sharing.share(ann, entry)
    answer = doors(bob).get("/api/counts")
    assert answer.status_code == 200
    assert answer.json["folders"] == {str(folder): 1, "following": 1}


def test_all_buttons_do_what_they_say(people: People, doors: Doors, ann: Actor, bob: Actor) -> None:
    (entry,) = people.blog([ann])
    _edit(people, ann)
    people.follow(bob, "ann")
    people.services.sharing.share(ann, entry)
    visitor, own = doors(bob), doors(ann)
    visitor.post("/people/mute", {"name": "ann"})
    assert people.rows(bob, FOLLOWING) == ()
    assert "Unmute" in visitor.get("/people").text
    visitor.post("/people/unmute", {"name": "ann"})
    assert len(people.rows(bob, FOLLOWING)) == 1
    assert "bob" in own.get("/people").text
    own.post("/people/dismiss", {"name": "bob"})
    assert people.rows(bob, FOLLOWING) == ()
    people.follow(bob, "ann")
    own.post("/people/block", {"name": "bob"})
    assert "Unblock" in own.get("/people").text
    assert visitor.post("/people/follow", {"name": "ann"}).status_code == 404
    own.post("/people/unblock", {"name": "bob"})
    people.follow(bob, "ann")


def test_what_does_not_work_is_said_beside_the_field(
    people: People, doors: Doors, ann: Actor, bob: Actor
) -> None:
    _edit(people, bob)
    visitor = doors(bob)
    nobody = visitor.post("/people/follow", {"name": "nobody", "next": "/people"})
    assert nobody.status_code == 404
    assert 'value="nobody"' in nobody.text
    assert "Nobody with this user name shares anything on this server." in nobody.text
    assert visitor.post("/people/follow", {"name": "bob", "next": "/people"}).status_code == 403
    foreign = visitor.post("/people/follow", {"name": "https://elsewhere.example/@ann", "next": "/people"})
    assert foreign.status_code == 400
    assert visitor.post("/people/mute", {"name": "bob"}).status_code == 403
    assert visitor.post("/people/block", {"name": "bob"}).status_code == 403
    out = visitor.post("/people/unfollow", {"name": "ann", "next": "https://evil.example/"})
    assert out.status_code == 404
    people.open(ann)
    out = visitor.post("/people/follow", {"name": "ann", "next": "//evil.example/"})
    assert out.headers["Location"] == "/people"


def test_looking_at_people_and_settings_makes_no_profile(people: People, doors: Doors, bob: Actor) -> None:
    visitor = doors(bob)
    for path in ("/people", "/settings/sharing"):
        assert visitor.get(path).status_code == 200
    assert people.services.store.database["profiles"].count_documents({}) == 0


def test_lists_of_people_are_paged_and_open_only_where_somebody_wants_it(
    people: People, doors: Doors, monkeypatch: pytest.MonkeyPatch, ann: Actor, bob: Actor
) -> None:
    monkeypatch.setattr("app.services.sharing.people_lists.ROWS", 2)
    fans = [people.join(f"fan{n}") for n in range(5)]
    _edit(people, ann, display="Ann")
    for fan in fans:
        people.open(fan)
        people.follow(fan, "ann")
        people.follow(ann, f"fan{fans.index(fan)}")
    stranger, other, own = doors(None), doors(bob), doors(ann)
    for which in ("followers", "following"):
        assert stranger.get(f"/@ann/{which}").status_code == 404
        assert other.get(f"/@ann/{which}").status_code == 404
        assert own.get(f"/@ann/{which}").status_code == 200
    _edit(people, ann, open_lists=True)
    people.open(fans[4], Audience.PRIVATE)
    for which in ("followers", "following"):
        seen, path = set[str](), f"/@ann/{which}"
        while path:
            answer = stranger.get(path)
            assert answer.headers["X-Robots-Tag"] == "noindex"
            assert "Set-Cookie" not in answer.headers
            seen |= {f"fan{n}" for n in range(5) if f'"/@fan{n}"' in answer.text}
            rest = answer.text.partition('rel="next" href="')[2]
            path = rest.partition('"')[0]
        assert seen == {"fan0", "fan1", "fan2", "fan3"}, which
    mine = own.get("/people").text
    assert mine.count("Unfollow<") == 2
    assert 'rel="next" href="/people?following=2"' in mine
    page = own.get("/people?following=4").text
    assert page.count("Unfollow<") == 1


def test_contacts_have_both_numbers_and_say_who_is_hidden(
    people: People, doors: Doors, ann: Actor, bob: Actor
) -> None:
    _edit(people, ann, open_lists=True)
    eve = people.join("eve")
    people.open(bob)
    for fan in (bob, eve):
        people.follow(fan, "ann")
    people.follow(ann, "bob")
    stranger = doors(None)
    page = stranger.get("/@ann/followers").text
    assert ("Followers <b>2</b>" in page, "Following <b>1</b>" in page) == (True, True)
    assert "1 person isn't shown because their page isn't open to you." in page
    page = stranger.get("/@ann/following").text
    assert ("Followers <b>2</b>" in page, "Following <b>1</b>" in page) == (True, True)
    assert "shown because" not in page
    assert "shown because" not in doors(ann).get("/@ann/followers").text


def test_followers_come_first_for_someone_who_follows_nobody(
    people: People, doors: Doors, ann: Actor, bob: Actor
) -> None:
    people.open(ann)
    people.open(bob)
    people.follow(bob, "ann")
    mine = doors(ann)
    page = mine.get("/people").text
    assert page.index('id="followers-title"') < page.index('id="following-title"')
    assert 'href="/discover">Find people</a>' in page
    people.follow(ann, "bob")
    page = mine.get("/people").text
    assert page.index('id="following-title"') < page.index('id="followers-title"')


def test_a_follower_without_a_page_says_so(people: People, doors: Doors, ann: Actor, bob: Actor) -> None:
    people.open(ann)
    people.follow(bob, "ann")
    page = doors(ann).get("/people").text
    assert "not sharing with you right now" in page
    assert "Follow back" not in page


# -- what stands against following
def test_an_undo_does_not_get_past_a_block(people: People, ann: Actor, bob: Actor) -> None:
    people.open(ann)
    people.follow(bob, "ann")
    following, services = people.services.following, people.services
    token = following.unfollow(bob, "ann")
    assert token
    following.block(ann, "bob")
    with pytest.raises(NotFoundError):
        services.subscriptions.restore(bob, token)
    people.services.following.unblock(ann, "bob")
    people.follow(bob, "ann")
    feed_id = services.reading.get_tree(bob).feeds[0].feed_id
    many, _count = services.bulk_edit.unsubscribe(bob, [feed_id])
    following.block(ann, "bob")
    with pytest.raises(NotFoundError):
        services.bulk_edit.restore(bob, many)
    assert services.reading.get_tree(bob).feeds == ()


def test_a_block_stands_whoever_follows_at_that_moment(people: People, ann: Actor, bob: Actor) -> None:
    people.open(ann)
    following = people.services.following
    for _ in range(5):
        gate = threading.Barrier(2)

        def follow(gate: threading.Barrier = gate) -> None:
            gate.wait()
            try:
                following.follow(bob, "ann")
            except NotFoundError:
                return

        thread = threading.Thread(target=follow)
        thread.start()
        gate.wait()
        following.block(ann, "bob")
        thread.join()
        assert people.services.reading.get_tree(bob).feeds == ()
        following.unblock(ann, "bob")


def test_one_user_begins_to_follow_so_many_within_an_hour(
    people: People, monkeypatch: pytest.MonkeyPatch, ann: Actor, bob: Actor
) -> None:
    people.open(ann)
    monkeypatch.setattr(people.services.following, "_per_hour", 2)
    for _ in range(2):
        people.services.following.follow(bob, "ann")
    with pytest.raises(RateLimitedError):
        people.services.following.follow(bob, "ann")


# -- the own page
@pytest.mark.parametrize(
    "link", ["https://ann:secret@ann.example/", "https://ann@ann.example", "http://@x.example/"]
)
def test_W22_links_of_a_profile_have_no_user_info(people: People, ann: Actor, link: str) -> None:
    with pytest.raises(InvalidError, match="user name or password"):
        people.services.following.update_profile(
            ann,
            display="",
            bio="",
            links=["https://ann.example/@ann", link],
            audience=Audience.PUBLIC,
            listed=False,
            open_lists=False,
        )


def test_the_settings_of_sharing_are_kept_and_checked(
    people: People, doors: Doors, ann: Actor, bob: Actor
) -> None:
    people.open(ann)
    people.follow(bob, "ann")
    visitor = doors(ann)
    page = visitor.get("/settings/sharing").text
    assert f'value="{people.services.settings.own_origin}/@ann"' in page
    form = {
        "display": "  Ann  Example ",
        "bio": "Reads\r\nmuch <b>",
        "link1": "",
        "link2": "https://ann.example/",
        "link3": "https://two.example/",
        "audience": "followers",
        "open_lists": "1",
    }
    answer = visitor.post("/settings/sharing", form)
    assert answer.headers["Location"] == "/settings/sharing?saved=1"
    profile = people.services.following.get_person(bob, "ann").profile
    assert (profile.display, profile.bio) == ("Ann Example", "Reads\nmuch <b>")
    assert profile.links == ("https://ann.example/", "https://two.example/")
    assert (profile.audience, profile.listed, profile.open_lists) == (Audience.FOLLOWERS, False, True)
    assert people.services.reading.get_tree(bob).feeds[0].title == "Ann Example"
    again = visitor.get("/settings/sharing?saved=1").text
    assert "much &lt;b&gt;" in again
    assert 'value="https://two.example/"' in again
    for wrong in ({"link1": "javascript:alert(1)"}, {"bio": "x" * 501}, {"display": "x" * 65}):
        answer = visitor.post("/settings/sharing", {**form, **wrong})
        assert answer.status_code == 400
        assert 'aria-invalid="true"' in answer.text
        assert "Ann  Example" in answer.text or "xxx" in answer.text
    assert people.services.following.get_person(bob, "ann").profile == profile


def test_another_name_reaches_page_and_lists(
    people: People, monkeypatch: pytest.MonkeyPatch, ann: Actor, bob: Actor
) -> None:
    people.open(ann)
    people.follow(bob, "ann")
    accounts = people.services.accounts
    monkeypatch.setattr(accounts, "_confirmed", lambda actor, *_: accounts._user(actor))
    accounts.change_identity(ann, "anna", "ann@example.org", "")
    assert people.services.reading.get_tree(bob).feeds[0].title == "anna"
    assert people.services.following.get_person(bob, "anna").tie.follows
    (feed,) = people.services.store.database["feeds"].find({"url_key": f"shared/{ann.user_id}"})
    assert feed["url"].endswith("/@anna")
    with pytest.raises(NotFoundError):
        people.services.following.get_person(bob, "ann")
    _edit(people, ann, display="Miss Example")
    accounts.change_identity(ann, "ann", "ann@example.org", "")
    assert people.services.reading.get_tree(bob).feeds[0].title == "Miss Example"


# -- addresses of this server
@pytest.mark.parametrize(
    "typed",
    [
        "@ann",
        "@ann@{h}",
        "@Ann@localhost",
        "{o}/@ann",
        "{o}/@ANN/atom.xml",
        "{h}/@ann",
        " {o}/@ann/feed.json?x=1 ",
        "http://localhost/@ann",
    ],
)
def test_the_address_of_a_person_here_offers_to_follow_him(
    people: People, doors: Doors, ann: Actor, bob: Actor, typed: str
) -> None:
    _edit(people, ann, display="Ann Example")
    origin = people.services.settings.own_origin
    address = typed.format(o=origin, h=origin.partition("//")[2])
    visitor = doors(bob)
    found = visitor.post("/add", {"address": address})
    assert found.status_code == 200
    assert "Ann Example" in found.text
    assert 'action="/people/follow"' in found.text
    assert visitor.post("/subscribe", {"url": address.strip()}).headers["Location"] == "/people"
    assert people.services.following.get_person(bob, "ann").tie.follows
    assert "You already follow this person." in visitor.post("/add", {"address": address}).text


def test_other_addresses_of_this_server_are_never_fetched(people: People, doors: Doors, bob: Actor) -> None:
    visitor, origin = doors(bob), people.services.settings.own_origin
    assert visitor.post("/add", {"address": f"{origin}/@nobody"}).status_code == 404
    assert visitor.post("/add", {"address": "@bob"}).status_code == 404
    assert visitor.post("/add", {"address": f"{origin}/read/all"}).status_code == 400
    nobody = f"@nobody@{origin.partition('//')[2]}"
    assert visitor.post("/add", {"address": nobody}).status_code == 404
    assert visitor.post("/add", {"address": nobody + "/atom.xml"}).status_code == 404
    assert people.services.store.database["discoveries"].count_documents({}) == 0


def test_a_person_of_another_server_is_looked_for_there(
    people: People, doors: Doors, ann: Actor, bob: Actor
) -> None:
    _edit(people, ann)
    feed = FoundFeed("https://social.example/@ann.rss", "Ann elsewhere", None, "rss20", 3, None, None)
    row = people.services.gateways.discoveries.get_or_create("@ann@social.example", clock.now())
    found = Discovered(row.address, (feed,))
    people.services.gateways.discoveries.store_result(row.key, found, clock.now())
    visitor = doors(bob)
    shown = visitor.post("/add", {"address": " @ann@Social.example"}).text
    assert "Ann elsewhere" in shown
    assert 'value="https://social.example/@ann.rss"' in shown
    assert visitor.post("/people/follow", {"name": "@ann@social.example"}).status_code == 400
    assert people.rows(bob, FOLLOWING) == ()


# -- a person among feeds
def test_a_person_is_no_feed_that_is_fetched(people: People, doors: Doors, ann: Actor, bob: Actor) -> None:
    people.blog([bob])
    people.open(ann)
    people.follow(bob, "ann")
    services = people.services
    feed_id = next(f.feed_id for f in services.reading.get_tree(bob).feeds if f.title == "ann")
    visitor = doors(bob)
    assert visitor.get(f"/feeds/{feed_id}").headers["Location"] == "/@ann"
    refused = (
        lambda: services.subscriptions.refresh(bob, feed_id),
        lambda: services.subscriptions.set_paused(bob, feed_id, True),
        lambda: services.subscriptions.change_address(bob, feed_id, "https://site.example/f"),
    )
    for deed in refused:
        with pytest.raises(InvalidError, match="This is a person"):
            deed()
    for path, form in (("address", {"url": "https://site.example/f"}), ("pause", {"paused": "1"})):
        answer = visitor.post(f"/feeds/{feed_id}/{path}", form)
        assert answer.status_code == 400
        assert "This is a person" in answer.text
    assert services.subscriptions.refresh(bob).count == 1
    assert services.bulk_edit.refresh(bob, [feed_id]) == 0
    rows = {r.title: r for r in services.bulk_edit.load_page(bob, BulkEditQuery()).rows}
    assert (rows["ann"].person, rows["blog"].person) == (True, False)
    assert "Person" in visitor.get("/subscriptions?q=ann").text


def test_a_file_of_subscriptions_names_open_streams_alone(people: People, ann: Actor, bob: Actor) -> None:
    people.blog([bob])
    people.open(ann)
    people.follow(bob, "ann")
    origin = people.services.settings.own_origin
    export = people.services.imports.export
    assert f'xmlUrl="{origin}/@ann/atom.xml"' in export(bob).decode()
    for audience in (Audience.FOLLOWERS, Audience.PRIVATE):
        people.open(ann, audience)
        file = export(bob).decode()
        assert "@ann" not in file
        assert "blog.example.org" in file


def test_lists_of_administrators_hold_no_people(people: People, ann: Actor) -> None:
    people.open(ann)
    admin = dataclasses.replace(ann, role=Role.ADMIN)
    for which in FeedFilter:
        assert people.services.feed_lists.list_feeds(admin, FeedQuery(which)).rows == ()
    assert people.services.feed_lists.count_feeds(admin).total == 0


def test_who_is_muted_or_blocked_is_listed_also_without_a_page(
    people: People, doors: Doors, ann: Actor, bob: Actor
) -> None:
    people.services.following.block(ann, "bob")
    page = doors(ann).get("/people").text
    assert "Unblock" in page
    assert "@bob" in page


# -- the address of one's own page
def test_the_address_of_a_page_is_shown_when_there_is_one(people: People, doors: Doors, ann: Actor) -> None:
    """A name that shares nothing is told to nobody: so its page is made by a word, not by a look."""
    visitor, screens = doors(ann), ("/people", "/settings/sharing")
    assert not any("/@ann" in visitor.get(screen).text for screen in screens)
    assert visitor.get("/@ann").status_code == 404
    assert "Create your page" in visitor.get("/people").text
    assert visitor.post("/settings/sharing", {"audience": "public"}).status_code == 303
    assert all("/@ann" in visitor.get(screen).text for screen in screens)
    assert visitor.get("/@ann").status_code == 200
