"""Comments, likes and notifications as pages without scripts, and as calls of scripts."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from bs4 import BeautifulSoup

from app.bootstrap.services import Services
from app.feeds.opml import opml
from app.models.accounts.actor import Actor
from app.models.imports.opml import Outline
from app.models.sharing.sharing import Audience, Share
from tests.sharing.conftest import People
from tests.support.reader import add_user
from tests.web.conftest import Visitor

Make = Callable[[], Visitor]
JSON = {"Accept": "application/json"}


@pytest.fixture
def bob(services: Services) -> Actor:
    return add_user(services, "bob")


@pytest.fixture
def share(services: Services, bob: Actor) -> Share:
    """What bob shares with everybody."""
    people = People(services)
    (entry,) = people.blog([bob])
    people.open(bob)
    return services.sharing.share(bob, entry, note="Read <b>this</b>").share


def test_a_talk_without_scripts(ann: Visitor, visitor: Make, services: Services, share: Share) -> None:
    page = f"/shares/{share.id}/comments"
    assert ann.post(f"/shares/{share.id}/like").headers["Location"] == page
    said = ann.post(page, {"text": "Hello @bob <script>x</script>"})
    assert re.fullmatch(rf"{page}\?at=\d+#c\d+", said.headers["Location"])
    answer = ann.get(said.headers["Location"])
    assert "Read &lt;b&gt;this&lt;/b&gt;" in answer.text
    assert "Hello" in answer.text
    assert "<script>x" not in answer.text
    (comment_id,) = re.findall(r'id="c(\d+)"', answer.text)
    form = ann.get(f"{page}?answer={comment_id}").text
    assert f'name="parent" value="{comment_id}"' in form
    assert ann.post(page, {"text": "An answer", "parent": comment_id}).status_code == 303
    assert "Hello @bob" in ann.get(f"{page}?edit={comment_id}").text.rpartition("<textarea")[2]
    ann.post(f"/comments/{comment_id}/edit", {"text": "Changed"})
    assert ">edited<" in ann.get(page).text
    wrong = ann.post(page, {"text": "x" * 3000, "parent": comment_id})
    assert (wrong.status_code, "x" * 3000 in wrong.text) == (400, True)
    assert ann.post(f"/comments/{comment_id}/edit", {"text": " "}).status_code == 400
    ann.post(f"/comments/{comment_id}/remove")
    removed = ann.get(page).text
    assert '<p class="said dim">Comment removed</p>' in removed
    (undo,) = re.findall(r'value="(comment\.[\w-]+)"', removed)
    assert ann.post("/undo", {"token": undo, "next": page}).status_code == 303
    stranger = visitor().get(page)
    assert "Changed" in stranger.text
    assert "<form" not in stranger.text
    assert "Set-Cookie" not in stranger.headers
    assert "1 like" in stranger.text


def test_a_talk_by_scripts(ann: Visitor, services: Services, share: Share) -> None:
    for on, count in (("like", 1), ("like", 1), ("unlike", 0), ("unlike", 0)):
        answer = ann.post(f"/shares/{share.id}/{on}", **JSON)
        assert answer.json == {"liked": on == "like", "count": count, "more": False}
    assert ann.post("/entries/like", {"entry": share.id, "on": "1"}, **JSON).json == {"liked": True}
    said = ann.post(f"/shares/{share.id}/comments", {"text": "Hello"}, **JSON).json
    assert said is not None
    htmx = {"HX-Request": "true", "HX-Target": "div#comments"}
    part = ann.get(f"/shares/{share.id}/comments", headers=htmx).text
    assert part.lstrip().startswith('<div id="comments"')
    assert "<html" not in part
    gone = ann.post(f"/comments/{said['id']}/remove", **JSON).json
    assert gone is not None
    assert ann.post("/undo", {"token": gone["undo"]}, **JSON).status_code == 200
    assert ann.post(f"/shares/{share.id}/comments", {"text": ""}, **JSON).status_code == 400


def test_who_was_blocked_takes_his_words_away_and_goes_on_where_he_may(
    ann: Visitor, services: Services, bob: Actor, share: Share
) -> None:
    page = f"/shares/{share.id}/comments"
    said = [ann.post(page, {"text": "Hello"}, **JSON).json for _ in range(2)]
    services.following.block(bob, "ann")
    assert ann.get(page).status_code == 404
    one, two = (each["id"] for each in said if each)
    answer = ann.post(f"/comments/{one}/remove")
    assert (answer.status_code, answer.headers["Location"]) == (303, "/read/all")
    after = ann.get(answer.headers["Location"], follow_redirects=True)
    assert after.status_code == 200
    assert "Comment removed" in after.text
    assert 'value="comment.' not in after.text
    assert ann.post(f"/comments/{two}/remove", **JSON).json == {"text": "Comment removed", "undo": None}
    assert services.store.database["comments"].count_documents({}) == 0


def test_strangers_see_public_shares_alone_and_say_nothing(
    visitor: Make, services: Services, bob: Actor, share: Share
) -> None:
    stranger, page = visitor(), f"/shares/{share.id}/comments"
    assert stranger.post(page, {"text": "x"}).status_code == 401
    services.sharing.update_share(bob, share.id, note="", audience=Audience.FOLLOWERS)
    for path in (page, "/shares/17/comments"):
        assert stranger.get(path).status_code == 404


def test_notifications_are_counted_read_and_switched_off(
    ann: Visitor, visitor: Make, services: Services, bob: Actor, share: Share
) -> None:
    browser = visitor()
    browser.log_in("bob")
    assert "No notifications yet" in browser.get("/notifications").text
    ann.post(f"/shares/{share.id}/like")
    ann.post(f"/shares/{share.id}/comments", {"text": "Hello"})
    services.notifier.notify_import_finished(bob.user_id, 17)
    assert browser.get("/api/counts").json["notes"] == 3  # type: ignore[index]
    assert re.search(r'class="tool bell has".*<b>3</b>', browser.get("/read").text)
    page = browser.get("/notifications").text
    said = read_sentences(page)
    for words in ("ann liked “blog 1”", "ann commented on “blog 1”", "Your import is finished"):
        assert words in said
    one = services.imports.preview(bob, opml.write("Mine", [Outline("https://a.example/")]), "mine.opml")
    services.notifier.notify_import_finished(bob.user_id, one.id)
    assert "Your import of “mine.opml” is finished" in read_sentences(browser.get("/notifications").text)
    services.notifications.mark_read(bob, f"import.{one.id}")
    form = re.search(rf'value="like.{share.id}"><input type="hidden" name="until" value="([^"]+)"', page)
    assert form, "the row as it was shown"
    like = {"row": f"like.{share.id}", "until": form[1]}
    assert browser.post("/notifications/read", like, **JSON).json == {"unread": 2}
    made = re.search(r'read-all">\s*<input [^>]*>\s*<input type="hidden" name="until" value="([^"]+)"', page)
    assert made, "the page as it was made"
    services.notifier.notify_import_finished(bob.user_id, 18)
    assert browser.post("/notifications/read-all", {"until": made[1]}, **JSON).json == {"unread": 1}
    assert browser.post("/notifications/read-all").headers["Location"] == "/notifications"
    assert browser.get("/api/counts").json["notes"] == 0  # type: ignore[index]
    assert "ann liked “blog 1”" in read_sentences(browser.get("/notifications").text)
    assert browser.post("/settings/notifications", {"notify_like": "1"}).status_code == 303
    ann.post(f"/shares/{share.id}/comments", {"text": "Hello"})
    assert browser.get("/api/counts").json["notes"] == 0  # type: ignore[index]
    assert browser.get(f"/shares/{share.id}/likes").status_code == 200


def test_the_likes_page_names_the_share_and_offers_to_follow(
    ann: Visitor, visitor: Make, services: Services, bob: Actor, share: Share
) -> None:
    cleo, dan = add_user(services, "cleo"), add_user(services, "dan")
    for who in (cleo, dan):
        People(services).open(who)
        services.discussion.set_share_liked(who, share.id, True)
    ann.post(f"/shares/{share.id}/like")
    services.following.follow(bob, "dan")
    browser = visitor()
    browser.log_in("bob")
    page = BeautifulSoup(browser.get(f"/shares/{share.id}/likes").text, "lxml")
    assert page.h1 is not None
    assert page.h1.text == "3 likes"
    (entry,) = page.select(".liked a")
    assert (entry.text, entry["href"]) == ("blog 1", f"/read/all?entry={share.id}")
    rows = {
        row.select(".who-line .dim")[0].text: row.select(".person-acts")[0]
        for row in page.select(".people li")
    }
    assert {name: acts.get_text(" ", strip=True) for name, acts in rows.items()} == {
        "@ann": "",  # no page that one could follow
        "@dan": "You're following",
        "@cleo": "Follow cleo",
    }
    fields = {field["name"]: field["value"] for field in rows["@cleo"].select("input[name]")}
    assert fields["next"] == f"/shares/{share.id}/likes"
    assert browser.post("/people/follow", fields).headers["Location"] == fields["next"]
    assert services.people_lists.list_followers(cleo, "cleo").total == 1


def read_sentences(page: str) -> dict[str, list[tuple[str, str]]]:
    """Return the sentences of a page of notifications, each with its links: words and goal."""
    found = {}
    for sentence in BeautifulSoup(page, "lxml").select(".sentence"):
        links = [(link.text, str(link["href"])) for link in sentence.select("a")]
        found[sentence.text.translate({0x2068: None, 0x2069: None})] = [
            (words.translate({0x2068: None, 0x2069: None}), goal) for words, goal in links
        ]
    return found


def test_people_and_what_it_is_about_are_links_of_a_notification(
    ann: Visitor, visitor: Make, services: Services, bob: Actor, share: Share
) -> None:
    hostile = "<img src=x onerror=alert(1)> {0} %(what)s"
    services.following.update_profile(
        _actor(services, "ann"),
        display=hostile,
        bio="",
        links=(),
        audience=Audience.PUBLIC,
        listed=False,
        open_lists=False,
    )
    eve = add_user(services, "eve")
    services.discussion.set_liked(eve, share.id)
    ann.post(f"/shares/{share.id}/like")
    browser = visitor()
    browser.log_in("bob")
    page = browser.get("/notifications").text
    (said,) = read_sentences(page).items()
    assert said == (
        f"{hostile} and eve liked “blog 1”",
        [(hostile, "/@ann"), ("“blog 1”", f"/shares/{share.id}/comments")],
    )
    assert "<img src=x" not in page


def test_a_follower_is_followed_back_where_the_notification_says_so(
    ann: Visitor, visitor: Make, services: Services, bob: Actor, share: Share
) -> None:
    ann.post("/people/follow", {"name": "bob"})
    browser = visitor()
    browser.log_in("bob")
    form = 'form[action="/people/follow"]'
    # Nobody can follow ann yet: she has no page.
    assert not BeautifulSoup(browser.get("/notifications").text, "lxml").select(form)
    People(services).open(_actor(services, "ann"))
    page = BeautifulSoup(browser.get("/notifications").text, "lxml")
    (found,) = page.select(form)
    fields = {
        str(one["name"]): str(one["value"]) for one in found.select("input") if one["name"] != "csrf_token"
    }
    assert fields == {"name": "ann", "next": "/notifications"}
    assert browser.post("/people/follow", fields).headers["Location"] == "/notifications"
    after = browser.get("/notifications").text
    assert not BeautifulSoup(after, "lxml").select(form)
    assert "you follow them too" in after


def test_a_follow_request_is_answered_where_the_notification_says_so(
    ann: Visitor, visitor: Make, services: Services, bob: Actor
) -> None:
    People(services).open(bob, Audience.FOLLOWERS)
    ann.post("/people/follow", {"name": "bob"})
    browser = visitor()
    browser.log_in("bob")
    page = BeautifulSoup(browser.get("/notifications").text, "lxml")
    assert [button.text for button in page.select('form[action="/people/answer"] button')] == [
        "Accept ann",
        "Decline ann",
    ]
    assert not page.select('form[action="/people/follow"]')
    answer = {"name": "ann", "yes": "1", "next": "/notifications"}
    assert browser.post("/people/answer", answer).headers["Location"] == "/notifications"
    assert not BeautifulSoup(browser.get("/notifications").text, "lxml").select(".note-people")
    assert services.following.get_person(_actor(services, "ann"), "bob").tie.follows


def _actor(services: Services, name: str) -> Actor:
    found = services.gateways.accounts.find_by_name(name)
    assert found is not None
    return Actor(found)


def test_own_shares_are_nothing_to_catch_up_with(
    visitor: Make, services: Services, bob: Actor, share: Share
) -> None:
    browser = visitor()
    browser.log_in("bob")
    rows = re.findall(r'id="t(\d+)"', browser.get("/read/all").text)
    services.reading.mark(bob, [share.id, *map(int, rows)], True)
    shares, everything = (browser.get(f"/read/{name}?sort=unread-on-top").text for name in ("shares", "all"))
    assert "blog 1" in shares
    assert "All caught up." not in shares
    assert "All caught up." in everything


def test_own_shares_say_who_sees_them_and_what_came_of_them(
    ann: Visitor, visitor: Make, services: Services, bob: Actor, share: Share
) -> None:
    services.sharing.publish_post(bob, "A post", "For friends", audience=Audience.FOLLOWERS)
    ann.post(f"/shares/{share.id}/like")
    ann.post("/entries/share", {"entry": str(share.id)})
    for text in ("Hello", "And again"):
        ann.post(f"/shares/{share.id}/comments", {"text": text})
    browser = visitor()
    browser.log_in("bob")
    for view in ("panes", "list", "expanded"):
        rows = BeautifulSoup(browser.get(f"/read/shares?view={view}").text, "lxml").select(".row")
        seen_by = [[said.text for said in row.select("p .seen-by")] for row in rows]
        assert seen_by == [["Followers"], []], "nothing for what everyone can see"
        assert [[said.text for said in row.select(".rest bdi")] for row in rows] == [
            [],
            ["1 re-share", "1 like", "2 comments"],
        ]
    assert not BeautifulSoup(ann.get("/read/all").text, "lxml").select(".seen-by, .gist")


@pytest.mark.parametrize("is_stranger", [True, False])
def test_lists_of_people_show_their_words_and_offer_to_follow(
    ann: Visitor, visitor: Make, services: Services, bob: Actor, is_stranger: bool
) -> None:
    cleo = add_user(services, "cleo")
    people = People(services)
    people.open(cleo)
    services.following.update_profile(
        bob, display="", bio="", links=(), audience=Audience.PUBLIC, listed=False, open_lists=True
    )
    services.following.update_profile(
        cleo,
        display="",
        bio="Bread & maps",
        links=(),
        audience=Audience.PUBLIC,
        listed=False,
        open_lists=True,
    )
    services.following.follow(cleo, "bob")
    page = BeautifulSoup((visitor() if is_stranger else ann).get("/@bob/followers").text, "lxml")
    (row,) = page.select(".people li")
    assert row.select(".bio")[0].text == "Bread & maps"
    assert page.select(".facet[aria-current]")[0].get_text(" ", strip=True) == "Followers 1"
    if is_stranger:
        assert row.select(".person-acts a")[0]["href"] == "/login?next=/%40cleo"
    else:
        assert row.select(".person-acts input[name=name]")[0]["value"] == "cleo"
