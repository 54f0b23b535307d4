"""People's pages, single shares and chains, as strangers and others see them: no script, no log-in."""

from __future__ import annotations

import dataclasses
import gzip
import random
import re
from collections.abc import Callable

import pytest
from flask import Flask
from lxml import html

from app import create_app
from app.bootstrap.services import Services
from app.mappers.sharing import shares
from app.models.accounts.actor import Actor
from app.models.sharing.sharing import Audience, ChainNode, ShareVisibility
from app.web.pages.shared import build_tree_rows
from tests.sharing.conftest import People
from tests.support.reader import add_user
from tests.web.conftest import Visitor

Get = Callable[[str], str]
EVIL = "<script>alert(1)</script><img src=x onerror=alert(1)>\"'`"


@pytest.fixture
def app(services: Services) -> Flask:
    return create_app(services.settings, services)


@pytest.fixture
def stranger(app: Flask) -> Visitor:
    return Visitor(app.test_client())


@pytest.fixture
def dan(app: Flask, services: Services) -> Visitor:
    """Somebody who is logged in and has nothing to do with anybody."""
    add_user(services, "dan")
    one = Visitor(app.test_client())
    assert one.log_in("dan").status_code == 303
    return one


def _dan(services: Services) -> Actor:
    user_id = services.gateways.accounts.find_by_name("dan")
    user = services.gateways.accounts.find_user(user_id) if user_id else None
    assert user is not None
    return user.actor


def texts(page: str, path: str) -> list[str]:
    """Return the texts of the elements at an XPath."""
    return [" ".join(e.text_content().split()) for e in html.fromstring(page).xpath(path)]


def test_the_first_page_shows_strangers_what_is_for_everybody(
    services: Services, people: People, ann: Actor, bob: Actor
) -> None:
    one, two, three = people.blog([ann, bob], 3)
    people.open(ann)
    people.open(bob)
    share = people.services.sharing.share
    public = share(ann, one).share
    share(bob, one)
    share(ann, two, audience=Audience.FOLLOWERS)
    share(bob, three, audience=Audience.PRIVATE)

    def passed(rows: int = 5) -> list[str]:
        app = create_app(dataclasses.replace(services.settings, landing_rows=rows), services)
        return texts(Visitor(app.test_client()).get("/").text, "//section[@class='passed']//li")

    [line] = passed()
    assert "ann" in line
    assert "bob" in line
    assert "2 people shared this" in line
    assert passed(rows=0) == []
    people.services.following.block(ann, "bob")
    assert len(passed()) == 1, "strangers are not who is blocked"
    people.open(bob, Audience.FOLLOWERS)
    assert "1 person shared this" in passed()[0]
    people.services.sharing.remove_share(ann, public.id)
    assert passed() == []


@pytest.fixture
def shared(people: People, ann: Actor, bob: Actor) -> tuple[int, int]:
    """What bob passed on from ann, who has it from her blog: (ann's share, bob's)."""
    (entry,) = people.blog([ann], name="slow")
    for who in (ann, bob):
        people.open(who)
    people.follow(bob, "ann")
    first = people.services.sharing.share(ann, entry, note="Look: https://ann.example.org/x").share
    return first.id, people.services.sharing.share(bob, first.id, note="She is right").share.id


def test_a_stranger_reads_a_stream_without_a_cookie(shared: tuple[int, int], stranger: Visitor) -> None:
    answer = stranger.get("/@bob")
    assert answer.status_code == 200
    assert "Set-Cookie" not in answer.headers
    assert "<script" not in answer.text
    assert texts(answer.text, "//h3/a") == ["slow 1"]
    assert html.fromstring(answer.text).xpath("//h3/a/@href") == ["https://slow.example.org/1"]
    assert texts(answer.text, "//article//*[@class='way']//a") == ["ann", "slow"]
    assert "She is right" in answer.text
    assert '<meta name="robots" content="noindex">' in answer.text
    assert 'href="/@bob/atom.xml"' in answer.text
    assert 'href="/login?next=/%40bob"' in answer.text or 'href="/login?next=/@bob"' in answer.text
    assert "/people/follow" not in answer.text


def test_a_note_is_text_with_links(shared: tuple[int, int], stranger: Visitor) -> None:
    page = stranger.get(f"/@ann/{shared[0]}").text
    (link,) = html.fromstring(page).xpath("//a[@href='https://ann.example.org/x']")
    assert link.get("rel") == "noopener noreferrer nofollow ugc"
    assert "The text of slow 1" in page


def test_a_profile_tells_who_it_is(people: People, ann: Actor, stranger: Visitor) -> None:
    people.services.following.update_profile(
        ann,
        display="Ann of the Hills",
        bio="I read. See https://ann.example",
        links=["https://ann.example/", "https://elsewhere.example/@ann"],
        audience=Audience.PUBLIC,
        listed=True,
        open_lists=False,
    )
    page = stranger.get("/@ann").text
    tree = html.fromstring(page)
    assert texts(page, "//h1") == ["Ann of the Hills"]
    links = tree.xpath("//a[contains(concat(' ', @rel, ' '), ' me ')]/@href")
    assert links == ["https://ann.example/", "https://elsewhere.example/@ann"]
    assert tree.xpath("//meta[@property='og:title']/@content") == ["Ann of the Hills"]
    assert tree.xpath("//link[@rel='canonical']/@href")[0].endswith("/@ann")
    assert 'name="robots"' not in page
    assert "No shares yet." in page


def test_a_name_in_another_case_leads_to_the_right_one(shared: tuple[int, int], stranger: Visitor) -> None:
    for path in ("", f"/{shared[1]}", f"/{shared[1]}/chain", "/atom.xml", "/feed.json"):
        answer = stranger.get(f"/@BoB{path}")
        assert (answer.status_code, answer.headers["Location"]) == (301, f"/@bob{path}")
    assert stranger.get("/@BOB?before=99").headers["Location"] == "/@bob?before=99"
    assert stranger.get("/@nobody").status_code == 404


def test_a_share_is_found_with_its_own_person_alone(shared: tuple[int, int], stranger: Visitor) -> None:
    assert stranger.get(f"/@ann/{shared[1]}").status_code == 404
    assert stranger.get(f"/@ann/{shared[1]}/chain").status_code == 404
    assert stranger.get("/@ann/17").status_code == 404


def test_the_single_page_has_the_way_and_its_canonical_address(
    shared: tuple[int, int], stranger: Visitor, services: Services
) -> None:
    page = stranger.get(f"/@bob/{shared[1]}").text
    assert texts(page, "//h1") == ["slow 1"]
    assert texts(page, "//*[@class='way']//a") == ["ann", "slow"]
    (canonical,) = html.fromstring(page).xpath("//link[@rel='canonical']/@href")
    assert canonical == f"{services.settings.own_origin}/@bob/{shared[1]}"
    assert texts(stranger.get(f"/@ann/{shared[0]}").text, "//*[@class='passed']") == ["1 re-share"]


def test_follow_is_a_form_for_who_is_logged_in(
    shared: tuple[int, int], dan: Visitor, services: Services
) -> None:
    tree = html.fromstring(dan.get("/@ann").text)
    (form,) = tree.xpath("//form[@action='/people/follow']")
    assert form.xpath(".//input[@name='name']/@value") == ["ann"]
    assert form.xpath(".//input[@name='csrf_token']")
    services.following.follow(_dan(services), "ann")
    assert "/people/follow" not in dan.get("/@ann").text
    assert "You're following" in dan.get("/@ann").text
    services.sharing.publish_post(_dan(services), "Mine", "Words")
    assert "/people/follow" not in dan.get("/@dan").text


def test_older_shares_come_by_a_link_and_holes_stay_holes(
    people: People, ann: Actor, stranger: Visitor, services: Services
) -> None:
    people.open(ann)
    size = services.settings.shared_rows
    posts = [services.sharing.publish_post(ann, f"Post {n}", "Words").id for n in range(size + 5)]
    services.sharing.remove_share(ann, posts[-2])
    first = stranger.get("/@ann").text
    gone = size + 3
    assert texts(first, "//h3") == [f"Post {n}" for n in range(size + 4, 3, -1) if n != gone]
    (link,) = html.fromstring(first).xpath("//a[@rel='next']/@href")
    second = stranger.get(link).text
    assert texts(second, "//h3") == [f"Post {n}" for n in range(3, -1, -1)]
    assert not html.fromstring(second).xpath("//a[@rel='next']")
    assert texts(first, "//p[@class='facts']/span")[0] == f"{size + 4} shares"


# -- who may not see
def _nowhere(visitor: Visitor, handle: str, share_id: int, word: str) -> None:
    """A share is on no page, and counted nowhere."""
    page = visitor.get(f"/@{handle}")
    assert word not in page.text
    assert str(share_id) not in page.text
    if page.status_code == 200:
        assert texts(page.text, "//p[@class='facts']/span")[0] == "0 shares"
    assert visitor.get(f"/@{handle}/{share_id}").status_code == 404
    assert visitor.get(f"/@{handle}/{share_id}/chain").status_code == 404


@pytest.mark.parametrize("images", ["direct", "proxy"])
def test_a_shared_article_has_its_picture_once_it_is_there(
    people: People, ann: Actor, services: Services, images: str
) -> None:
    """No script fetches it for strangers, so there is no place for one that is still to come."""
    (entry,) = people.blog([ann])
    picture = {"$set": {"image": "https://blog.example.org/1.png"}}
    services.store.database["entries"].update_one({"_id": entry}, picture)
    people.open(ann)
    services.sharing.share(ann, entry)
    settings = dataclasses.replace(services.settings, images=images)
    page = Visitor(create_app(settings, services).test_client()).get("/@ann").text
    assert html.fromstring(page).xpath("//div[@class='root']/img/@src") == (
        ["https://blog.example.org/1.png"] if images == "direct" else []
    )


@pytest.mark.parametrize("audience", [Audience.FOLLOWERS, Audience.PRIVATE])
def test_what_is_for_fewer_is_nowhere(
    people: People, ann: Actor, stranger: Visitor, dan: Visitor, services: Services, audience: Audience
) -> None:
    people.open(ann)
    post = services.sharing.publish_post(ann, "Hidden", "A secret of mine", audience=audience)
    for visitor in (stranger, dan):
        _nowhere(visitor, "ann", post.id, "secret")
    services.following.follow(_dan(services), "ann")
    sees = audience is Audience.FOLLOWERS
    assert ("secret" in dan.get("/@ann").text) is sees
    assert (dan.get(f"/@ann/{post.id}").status_code == 200) is sees
    assert (dan.get(f"/@ann/{post.id}/chain").status_code == 200) is sees


@pytest.mark.parametrize("how", ["hidden", "closed", "followers", "blocked", "blocks"])
def test_a_stream_that_is_not_for_somebody_is_nowhere(
    people: People, ann: Actor, stranger: Visitor, dan: Visitor, services: Services, how: str
) -> None:
    people.open(ann)
    post = services.sharing.publish_post(ann, "Title", "A secret of mine")
    assert "secret" in dan.get("/@ann").text
    if how == "hidden":
        services.mappers.profiles.update(ann.user_id, {"hidden": True})
    elif how == "blocked":
        services.following.block(ann, "dan")
    elif how == "blocks":
        services.following.block(_dan(services), "ann")
    else:
        people.open(ann, Audience.PRIVATE if how == "closed" else Audience.FOLLOWERS)
    _nowhere(dan, "ann", post.id, "secret")
    if how in ("blocked", "blocks"):
        assert "secret" in stranger.get("/@ann").text
    else:
        _nowhere(stranger, "ann", post.id, "secret")
    assert dan.get("/@ann").status_code == (200 if how in ("followers", "blocks") else 404)


def test_hops_and_counts_tell_nothing_of_hidden_shares(
    people: People, ann: Actor, bob: Actor, cleo: Actor, stranger: Visitor, services: Services
) -> None:
    (entry,) = people.blog([ann])
    for who in (ann, bob, cleo):
        people.open(who)
    people.follow(bob, "ann")
    people.follow(cleo, "bob")
    sharing = services.sharing
    first = sharing.share(ann, entry, note="note of ann").share
    second = sharing.share(bob, first.id, note="note of bob").share
    third = sharing.share(cleo, second.id).share
    assert "2 re-shares" in stranger.get(f"/@ann/{first.id}").text
    people.open(bob, Audience.FOLLOWERS)
    for path in (f"/@ann/{first.id}", "/@ann"):
        assert "1 re-share" in stranger.get(path).text
    page = stranger.get(f"/@cleo/{third.id}").text
    assert texts(page, "//*[@class='way']/li") == ["via private share", "ann", "blog"]
    chain = stranger.get(f"/@cleo/{third.id}/chain").text
    for text in (page, chain):
        assert "bob" not in text
        assert str(second.id) not in text
    assert texts(chain, "//*[@class='gone']") == ["private share"]
    sharing.remove_share(bob, second.id)
    assert texts(stranger.get(f"/@cleo/{third.id}/chain").text, "//*[@class='gone']") == ["removed share"]


def test_a_post_that_is_closed_later_is_on_nobodys_page(
    people: People, ann: Actor, bob: Actor, stranger: Visitor, services: Services
) -> None:
    for who in (ann, bob):
        people.open(who)
    people.follow(bob, "ann")
    post = services.sharing.publish_post(ann, "Mine", "Words of ann")
    copy = services.sharing.share(bob, post.id).share
    assert "Mine" in stranger.get("/@bob").text
    services.sharing.update_share(ann, post.id, note="Words of ann", audience=Audience.FOLLOWERS)
    for path in ("", f"/{copy.id}", f"/{copy.id}/chain"):
        page = stranger.get(f"/@bob{path}")
        assert "private share" in page.text
        assert not any(word in page.text for word in ("Mine", "Words of ann", "@ann", str(post.id)))


# -- markup of others
def test_nothing_that_people_type_is_markup(people: People, ann: Actor, stranger: Visitor) -> None:
    services = people.services
    services.following.update_profile(
        ann,
        display=EVIL[:64],
        bio=EVIL,
        links=["https://ann.example/?q=%3Cscript%3E&x='onmouseover=1'"],
        audience=Audience.PUBLIC,
        listed=False,
        open_lists=False,
    )
    # What a web address must be is checked when it is stored; what got past that is no link.
    services.mappers.profiles.update(ann.user_id, {"links": ["javascript:alert(1)", "data:text/html,x"]})
    (entry,) = people.blog([ann])
    services.store.database["entries"].update_one(
        {"_id": entry}, {"$set": {"title": EVIL, "url": "javascript:alert(1)", "author": EVIL}}
    )
    share = services.sharing.share(ann, entry, note=EVIL + " javascript:alert(1)").share
    post = services.sharing.publish_post(ann, EVIL, EVIL)
    for path in ("/@ann", *(f"/@ann/{s.id}{rest}" for s in (share, post) for rest in ("", "/chain"))):
        tree = html.fromstring(stranger.get(path).text)
        assert not tree.xpath("//script | //img | //iframe"), path
        assert not tree.xpath("//@*[starts-with(name(), 'on')]"), path
        assert not [h for h in tree.xpath("//@href") if h.startswith(("javascript:", "data:"))], path


# -- chains
def test_a_tree_of_any_depth_is_nested_without_recursion() -> None:
    def node(share_id: int, depth: int) -> ChainNode:
        return ChainNode(share_id, depth, ShareVisibility.REMOVED)

    rows = build_tree_rows((node(1, 0), node(2, 1), node(3, 2), node(4, 1), node(5, 0)))
    assert [(r.children, r.closes) for r in rows] == [(2, 0), (1, 0), (0, 1), (0, 1), (0, 0)]
    deep = build_tree_rows(tuple(node(n + 1, n) for n in range(3000)))
    assert (deep[0].children, deep[-1].closes) == (1, 2999)


def test_a_chain_of_fifty_hands_is_one_small_page(
    people: People, stranger: Visitor, services: Services
) -> None:
    many = [people.join(f"p{n:02}") for n in range(50)]
    (entry,) = people.blog(many[:1])
    words = random.Random(7)
    last = None
    for who in many:
        note = " ".join(f"{words.randrange(10**6):x}" for _ in range(60))
        last = services.sharing.share(who, last.id if last else entry, note=note).share
    assert last is not None
    answer = stranger.get(f"/@p49/{last.id}/chain")
    tree = html.fromstring(answer.text)
    names = [f"p{n:02}" for n in range(50)]
    assert texts(answer.text, "//*[@class='who']") == names
    assert len(tree.xpath("//li[.//a[text()='p49'] or .//bdi[text()='p49']][ancestor-or-self::ol]")) == 50
    assert len(tree.xpath("//details[@open]/summary")) == 49
    assert texts(answer.text, "//h1") == ["blog 1"]
    assert _weight(answer.text) < 15_000
    page = stranger.get(f"/@p49/{last.id}").text
    assert texts(page, "//*[@class='way']/li")[0] == "via p48"
    assert _weight(page) < 15_000
    assert texts(stranger.get("/@p49").text, "//*[@class='way']/li")[3] == "46 more"
    assert len(tree.xpath("//*[@class='node here'][@aria-current]")) == 1


def test_a_wide_chain_comes_in_pages(people: People, stranger: Visitor, services: Services) -> None:
    many = [people.join(f"p{n:03}") for n in range(services.settings.chain_rows + 5)]
    (entry,) = people.blog(many[:1])
    first = services.sharing.share(many[0], entry).share
    for who in many[1:]:
        services.sharing.share(who, first.id)
    words, stored = random.Random(9), services.store.database["shares"]
    for share in list(stored.find({}, {"_id": 1})):
        note = " ".join(f"{words.randrange(10**6):x}" for _ in range(60))
        stored.update_one(share, {"$set": {"note": note}})
    path, seen = f"/@p000/{first.id}/chain", list[str]()
    while path:
        answer = stranger.get(path)
        assert _weight(answer.text) < 15_000
        names = texts(answer.text, "//*[@class='who']")
        seen += names if not seen else names[1:]  # the branch that goes on says where it began
        path = next(iter(html.fromstring(answer.text).xpath("//a[@rel='next']/@href")), "")
    assert seen == [f"p{n:03}" for n in range(len(many))]
    assert stranger.get(f"/@p000/{first.id}/chain?cursor=zz").status_code == 400
    assert "more than 50 re-shares" in stranger.get(f"/@p000/{first.id}").text


def test_shares_above_the_count_limit_are_called_shares(
    people: People, ann: Actor, stranger: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(people.services.gateways.public_pages, "_counted", 2)
    people.open(ann)
    for title, words in (("One", "1 share"), ("Two", "2 shares"), ("Three", "more than 2 shares")):
        people.services.sharing.publish_post(ann, title, "Words")
        assert f"<span>{words}</span>" in stranger.get("/@ann").text


def test_a_full_page_of_a_stream_is_small(people: People, ann: Actor, stranger: Visitor) -> None:
    people.open(ann)
    words = random.Random(8)
    for _ in range(people.services.settings.shared_rows):
        note = " ".join(f"{words.randrange(10**5):x}" for _ in range(500))
        people.services.sharing.publish_post(ann, note[:100], note)
    assert _weight(stranger.get("/@ann").text) < 15_000


def _weight(page: str) -> int:
    return len(gzip.compress(page.encode(), 6))


def test_search_engines_may_look_at_people_alone(stranger: Visitor) -> None:
    rules = re.findall(r"^(\w+): (\S+)$", stranger.get("/robots.txt").text, re.M)
    assert ("Allow", "/@") in rules
    assert ("Disallow", "/") in rules


def test_a_stream_is_read_in_its_order_and_no_further(people: People, ann: Actor, services: Services) -> None:
    for audience in (Audience.PUBLIC, Audience.FOLLOWERS, Audience.PRIVATE) * 4:
        services.sharing.publish_post(ann, "", "Words", audience=audience)
    query = shares.build_stream_query(ann.user_id, [Audience.PUBLIC, Audience.FOLLOWERS])
    find = {"find": "shares", "filter": query, "sort": {"_id": -1}, "limit": 3, "hint": "user_stream"}
    done = services.store.database.command("explain", find, verbosity="executionStats")
    assert "'SORT'" not in str(done["queryPlanner"]["winningPlan"])
    assert done["executionStats"]["totalDocsExamined"] <= 4


def test_names_of_other_scripts_have_addresses_too(people: People, stranger: Visitor) -> None:
    who = people.join("Ян")
    post = people.services.sharing.publish_post(who, "Запись", "Слова")
    assert "Запись" in stranger.get("/@Ян").text
    assert stranger.get("/@ян").headers["Location"] == "/@%D0%AF%D0%BD"
    (canonical,) = html.fromstring(stranger.get(f"/@Ян/{post.id}").text).xpath(
        "//link[@rel='canonical']/@href"
    )
    assert canonical.endswith(f"/@%D0%AF%D0%BD/{post.id}")
    answer = stranger.get("/@Ян/atom.xml")
    assert answer.status_code == 200
    assert "/@%D0%AF%D0%BD/atom.xml" in answer.headers["Link"]
