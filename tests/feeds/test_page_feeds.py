"""Feeds of pages that have none: selectors, entries, guesses, and the feed through its whole life."""

from __future__ import annotations

import asyncio
import dataclasses
import datetime as dt
import json
from collections.abc import AsyncIterator, Iterable
from typing import Any

import pytest

from app import clock
from app.bootstrap.services import Services
from app.errors import InvalidError, NotFoundError, ParseError
from app.feeds.opml import opml
from app.feeds.pages.budget import MAX_TAKEN, MAX_VISITED, Budget
from app.feeds.pages.extract import MAX_ITEMS, PageTree, read_page
from app.feeds.pages.guess import guess_lists
from app.feeds.pages.json_paths import find_values, parse_path
from app.feeds.pages.outline import MAX_NODES, MAX_TEXT, build_outline
from app.feeds.pages.selectors import Selector, Step, parse_selector
from app.feeds.urls import hash_url, normalise_address
from app.gateways.feeds.digest import Digester
from app.models.accounts.actor import Actor
from app.models.feeds.fetched import Fetched, FetchRequest
from app.models.feeds.recipe import (
    MARK,
    SELECTOR_MAX,
    Recipe,
    RecipeKind,
    add_recipe,
    get_fragment,
    split_recipe,
)
from app.models.imports.opml import Outline
from tests.feeds.marked_pages import MARKS, read_marked
from tests.support.reader import add_user, pull

URL = "https://site.example/news"


def _page(*numbers: int, around: str = "div class=old") -> bytes:
    items = "".join(
        f'<li class="post n{n}"><h2><a href="/2026/{n}">The long title of story number {n}</a></h2>'
        f'<time datetime="2026-11-{n:02}T08:00:00Z">day {n}</time>'
        f"<p>A paragraph that says more about {n}.</p>"
        f'<img src="/p/{n}.jpg"><span class="by">Ann</span></li>'
        for n in numbers
    )
    nav = "".join(
        f'<li><a href="/{word}">{word}</a></li>' for word in ("home", "about us", "contact", "team")
    )
    return (
        f"<html lang=de><title>News of the site</title><nav><ul>{nav}</ul></nav><{around}>"
        f"<ul class=posts>{items}</ul></div><footer><ul>{nav}</ul></footer></html>"
    ).encode()


def _select(kind: str, text: str, html: str) -> list[str]:
    selector = parse_selector(RecipeKind(kind), text)
    tree = PageTree(html.encode(), URL)
    found = selector.find_in_page(tree.root, 100)
    return [e.get(selector.attr) if selector.attr else e.get("id") or e.tag for e in found]


HTML = (
    "<div id=a class='x y'><p id=b><a id=c href=/1>1</a></p><a id=d href=/2 rel='next top'>2</a></div>"
    "<div id=e><div id=f class=x><a id=g href=https://o.example/3>3</a></div></div><a id=h>4</a>"
)


@pytest.mark.parametrize(
    ("kind", "text", "found"),
    [
        ("css", "a", "c d g h"), ("css", "div > a", "d g"), ("css", "div.x a", "c d g"),
        ("css", ".x.y a", "c d"),
        ("css", "#e a", "g"), ("css", "a[href]", "c d g"), ("css", "a[href^='/']", "c d"),
        ("css", 'a[href$="3"]', "g"), ("css", "a[href*=example]", "g"), ("css", "[rel~=top]", "d"),
        ("css", "div div > a", "g"), ("css", "div>p>a", "c"), ("css", "div a@href", "/1 /2 https://o.example/3"),
        ("css", "body > div", "a e"), ("css", "DIV.x", "a f"), ("css", "a[href=missing]", ""),
        ("xpath", "//a", "c d g h"), ("xpath", "//div/a", "d g"), ("xpath", "/html/body/div", "a e"),
        ("xpath", "//div[@class='x']/a", "g"), ("xpath", "//div[contains(@class,'x')]//a", "c d g"),
        ("xpath", "//a[starts-with(@href,'https')]", "g"), ("xpath", "//body/div[2]//a/@href", "https://o.example/3"),
        ("xpath", "//*[@id='b']", "b"), ("xpath", "//a[@rel]", "d"), ("xpath", ".//p/a", "c"),
    ],
)  # fmt: skip
def test_selectors_find_what_css_and_xpath_say(kind: str, text: str, found: str) -> None:
    assert _select(kind, text, HTML) == found.split()


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("css", "a:has(b)"), ("css", "a ~ b"), ("css", "a + b"), ("css", "a, b"),
        ("css", "> a"), ("css", "a >"),
        ("css", "a > > b"), ("css", "a[b"), ("css", ":not(a)"), ("css", "a:nth-child(2)"), ("css", "{}"),
        ("css", " ".join("a" * 17)),
        ("xpath", "//a[last()]"), ("xpath", "//a/following::b"), ("xpath", "//a[b]"), ("xpath", "//a | //b"),
        ("xpath", "count(//a)"), ("xpath", "//a[position()<3]"), ("xpath", "//a/.."), ("xpath", "//a[.//b]"),
        ("xpath", "//a["), ("xpath", "document('file:///etc/passwd')"), ("xpath", "//a[2][@b]"),
    ],
)  # fmt: skip
def test_other_selectors_are_refused_with_a_sentence(kind: str, text: str) -> None:
    with pytest.raises(InvalidError) as e:
        parse_selector(RecipeKind(kind), text, "title")
    assert e.value.ids["field"] == "title"
    assert "isn't a selector" in str(e.value)


class _Counted(str):
    """A name that counts how often it is compared."""

    __slots__ = ()
    count = 0

    def __eq__(self, other: object) -> bool:
        _Counted.count += 1
        return str.__eq__(self, other)

    __hash__ = str.__hash__


def test_the_work_of_the_worst_selector_grows_with_the_page_only() -> None:
    """Backtracking would choose 14 of 200 nested elements in all ways: 10^21 comparisons."""
    tree = PageTree(b"<div><p></p>" * 200, URL)
    steps = (*(Step(True, _Counted("div")) for _ in range(14)), Step(True, _Counted("em")))
    _Counted.count = 0
    assert Selector(steps).find_in_page(tree.root, 100) == []
    elements = sum(1 for _ in tree.root.iter())
    assert elements > 200
    assert elements < _Counted.count <= 2 * elements * len(steps)


# -- entries


def test_the_usual_places_give_title_link_date_text_and_picture() -> None:
    feed = read_page(_page(3, 2, 1), Recipe(item="ul.posts > li"), url=URL)
    first = feed.entries[0]
    assert (feed.title, feed.site_url, feed.language) == ("News of the site", URL, "de")
    assert (first.title, first.url) == ("The long title of story number 3", "https://site.example/2026/3")
    assert first.guid == first.url
    assert first.published == dt.datetime(2026, 11, 3, 8, tzinfo=dt.UTC)
    assert first.summary == "<p>A paragraph that says more about 3.</p>"
    assert first.image == "https://site.example/p/3.jpg"


def test_selectors_name_other_places() -> None:
    recipe = Recipe(
        kind=RecipeKind.XPATH, item="//ul[@class='posts']/li", title="./p", link=".//a/@href",
        date="./time/@datetime", author=".//span[@class='by']", body="./h2", image="./img/@src",
    )  # fmt: skip
    first = read_page(_page(3, 2, 1), recipe, url=URL).entries[0]
    assert (first.title, first.author) == ("A paragraph that says more about 3.", "Ann")
    assert (first.url, first.image) == ("https://site.example/2026/3", "https://site.example/p/3.jpg")
    assert first.published == dt.datetime(2026, 11, 3, 8, tzinfo=dt.UTC)
    assert first.summary.startswith("<h2><a href=")


def test_json_is_read_by_paths_and_usual_names() -> None:
    data = {
        "data": {"list": [{"name": "One", "u": {"w": "/1"}, "at": 1764320400}, {"name": "Two", "u": {}}, 7]}
    }
    recipe = Recipe(kind=RecipeKind.JSON, item="data.list", link="u.w", date="at")
    feed = read_page(json.dumps(data).encode(), recipe, url="https://api.example/x")
    assert [(e.title, e.url) for e in feed.entries] == [("One", "https://api.example/1"), ("Two", None)]
    assert feed.entries[0].published == dt.datetime(2025, 11, 28, 9, tzinfo=dt.UTC)
    assert find_values(data, parse_path("data.list[*].name")) == ["One", "Two"]
    assert find_values({"odd name": {"a": [1, 2]}}, parse_path("$['odd name'].a[1]")) == [2]
    for text in ("a..b", "a[", "a[-1]", "a b"):
        with pytest.raises(InvalidError):
            parse_path(text)


def test_json_with_characters_that_no_store_accepts_is_read(services: Services, ann: Actor, db: Any) -> None:
    url = add_recipe("https://api.example/x", Recipe(kind=RecipeKind.JSON, item="items", author="by"))
    feed_id = services.subscriptions.subscribe(ann, url).subscription.feed_id
    rows = (
        r'{"title": "T\ud800", "by": "A\ud800\u202e", "url": "/x\udfff", "body": "B\ud800"}',
        r'{"title": "Two", "date": 1' + "0" * 400 + "}",
        r'{"title": "Three", "date": 1e400, "by": ' + "1" * 400 + "}",
    )
    pull(services, [feed_id], {url: f'{{"title": "X\\ud800", "items": [{", ".join(rows)}]}}'.encode()})
    assert services.gateways.feeds.get(feed_id).error is None
    found = {doc["title"]: doc for doc in db.entries.find({"feed_id": feed_id})}
    assert set(found) == {"T", "Two", "Three"}
    assert (found["T"]["author"], found["T"]["url"]) == ("A", "https://api.example/x")


def test_no_entry_is_an_error_and_never_an_empty_feed() -> None:
    for body in (_page(), b"<p>x</p>"):
        with pytest.raises(ParseError) as e:
            read_page(body, Recipe(item="ul.posts > li"), url=URL)
        assert e.value.word == "recipe_broken"
    with pytest.raises(ParseError):
        read_page(b"no json", Recipe(kind=RecipeKind.JSON, item="a"), url=URL)
    with pytest.raises(ParseError):
        read_page(_page(1), Recipe(item="a:has(b)"), url=URL)


def test_scripts_and_odd_addresses_are_no_links() -> None:
    html = b"<ul><li><a href='javascript:alert(1)'>One two three</a><li><a href='data:x,y'>Four</a></ul>"
    entries = read_page(html, Recipe(item="li"), url=URL).entries
    assert [(e.title, e.url) for e in entries] == [("One two three", None), ("Four", None)]
    many = b"<ul>" + b"".join(b"<li><a href=/%d>t%d</a>" % (n, n) for n in range(500)) + b"</ul>"
    assert len(read_page(many, Recipe(item="li"), url=URL).entries) == MAX_ITEMS


def _nested(entries: int, text: bytes) -> bytes:
    starts = (b"<div class=c><a href=/%d>t%03d</a>" % (n, n) for n in range(entries))
    return b"<html><body>" + b"".join(starts) + text


def test_entries_inside_one_another_are_read_within_a_budget() -> None:
    few = read_page(_nested(20, b"<p>A paragraph</p>" * 100), Recipe(item="div.c"), url=URL)
    assert len(few.entries) == 20
    long = b"<p>" + b"w " * 800_000
    many = b"<p>w</p>" * 100_000
    for text, recipe in (
        (long, Recipe(item="div.c")),
        (many, Recipe(item="div.c")),
        (many, Recipe(item="div.c", title="b", link="b", date="b", body="b", image="b", author="b")),
        (long, Recipe(kind=RecipeKind.XPATH, item="//div", body="//*")),
        (b"<b title='" + b"w" * 1_000_000 + b"'></b>", Recipe(item="div.c", title="b@title")),
    ):
        with pytest.raises(ParseError) as e:
            read_page(_nested(200, text), recipe, url=URL)
        assert e.value.word == "too_large", recipe
        assert "nested" in e.value.detail


def test_a_budget_counts_what_is_looked_at() -> None:
    tree = PageTree(_page(3, 2, 1), URL)
    budget = Budget()
    assert len(list(budget.find_elements(tree.root, "li"))) == 11
    assert budget.visited == sum(1 for _ in tree.root.iter())
    budget.visited = MAX_VISITED - 1
    budget.count_element()
    with pytest.raises(ParseError):
        budget.count_element()
    budget.count_text("w" * MAX_TAKEN)
    with pytest.raises(ParseError):
        budget.count_text("w")


def test_guessing_stops_rating_when_its_budget_is_used_up() -> None:
    row = b"<li><h2><a href=/2026/%d>The long title of story number %d</a></h2></li>"
    items = b"".join(row % (n, n) for n in range(100, 110))
    deep = b"<div>" * 100 + b"<p>" + b"w " * 700_000
    found = guess_lists(b"<html><body><ul class=posts>" + items + b"</ul>" + deep, URL)
    assert [guess.recipe.item for guess in found][:1] == ["li"]


# -- addresses


def test_a_recipe_is_part_of_the_address_and_nobody_sees_it_elsewhere() -> None:
    recipe = Recipe(item="ul.posts > li", title="h2", kind=RecipeKind.CSS)
    url = add_recipe(URL, recipe)
    assert split_recipe(url) == (URL, recipe)
    assert MARK in url
    assert " " not in url
    assert hash_url(url) != hash_url(URL)
    assert hash_url(url) == hash_url(url.replace("https://site", "http://SITE"))
    assert hash_url(URL + "#top") == hash_url(URL)
    assert normalise_address(url) == [url]
    assert split_recipe(URL + "#eventr-page:nonsense") == (URL, None)
    assert get_fragment(URL + "#eventr-page:title=x") == ""
    same = url.replace(MARK, f"{MARK}x=1&")
    assert hash_url(same) == hash_url(url)
    with pytest.raises(InvalidError):
        add_recipe(URL, Recipe(item="x" * 201))
    with pytest.raises(InvalidError):
        add_recipe(URL, Recipe(item=""))


# -- guesses


def test_the_list_of_stories_is_guessed_before_navigation() -> None:
    guesses = guess_lists(_page(5, 4, 3, 2, 1), URL)
    assert guesses[0].recipe.item.endswith("li.post")
    assert [e.url for e in guesses[0].feed.entries][:2] == [f"https://site.example/2026/{n}" for n in (5, 4)]


def test_headings_in_a_row_are_a_list_also_if_older_ones_have_no_link() -> None:
    heads = "".join(
        f"<h3>2026-01-{n:02} <a href='/v/{n}'>The release of version {n}</a></h3><p>x</p>" for n in range(5)
    )
    older = "".join(f"<h3>2025-01-{n:02} The release of version {n}</h3><p>x</p>" for n in range(1, 20))
    (guess,) = guess_lists(f"<body>{heads}{older}".encode(), URL)
    assert guess.recipe.item == "h3"
    assert [entry.title for entry in guess.feed.entries][4:6] == [
        "2026-01-04 The release of version 4",
        "2025-01-01 The release of version 1",
    ]
    elsewhere = "".join(f"<section><h3>Part {n} of something else</h3></section>" for n in range(30))
    (guess,) = guess_lists(f"<body><div>{heads}</div>{elsewhere}".encode(), URL)
    assert guess.recipe.item == "div > h3"


def test_a_list_that_is_longer_than_a_feed_may_be_is_guessed() -> None:
    rows = "".join(f"<tr><td><a href='/v/{n}'>The release of version {n}</a></td></tr>" for n in range(300))
    guesses = guess_lists(f"<table><tr><th>Version</th></tr>{rows}</table>".encode(), URL)
    assert len(guesses[0].feed.entries) >= MAX_ITEMS - 1
    assert guesses[0].feed.entries[-1].title == f"The release of version {MAX_ITEMS - 2}"


def test_a_page_without_a_list_gives_no_guess() -> None:
    assert guess_lists(b"<p>Only <a href=/x>one link</a> here.</p>", URL) == []


def _is_found(name: str, links: list[str], lists: int) -> bool:
    """Return whether one of the first lists has 95 % of the entries, and hardly any other."""
    url, body = read_marked(name)
    for guess in guess_lists(body, url, limit=lists):
        found = {entry.url for entry in guess.feed.entries}
        if len(found & set(links)) >= 0.95 * len(links) and len(found) <= 1.3 * len(links) + 1:
            return True
    return False


def test_four_of_five_marked_lists_are_among_the_first_three_guesses() -> None:
    found = [name for name, links in MARKS.items() if _is_found(name, links, 3)]
    missed = sorted(MARKS.keys() - set(found))
    assert len(found) >= 0.8 * len(MARKS), missed
    assert len(MARKS) >= 30


# -- the whole life


class _Site:
    """Answers with one body, in the place of the network."""

    def __init__(self, body: bytes) -> None:
        self.body = body

    async def stream_fetches(self, requests: Iterable[FetchRequest]) -> AsyncIterator[Fetched]:
        for request in requests:
            yield Fetched(request, 200, request.url, body=self.body, wire_bytes=len(self.body))


@pytest.fixture
def ann(services: Services) -> Actor:
    return add_user(services, "ann")


def _find(services: Services, actor: Actor, body: bytes, **selectors: str) -> Any:
    waiting = services.page_lists.find_lists(actor, "site.example/news", selectors, wait=0)
    assert waiting.wait
    asyncio.run(services.page_lists.run(waiting.key, _Site(body)))
    return services.page_lists.get_progress(actor, waiting.key)


def test_a_page_becomes_a_feed_that_is_shared_by_those_who_choose_the_same(
    services: Services, ann: Actor
) -> None:
    found = _find(services, ann, _page(3, 2, 1))
    assert (found.title, found.error) == ("News of the site", None)
    first = found.lists[0]
    assert (first.count, first.entries[0].title) == (3, "The long title of story number 3")
    feed_id = services.subscriptions.subscribe(ann, first.url).subscription.feed_id
    bob = add_user(services, "bob")
    assert services.subscriptions.subscribe(bob, first.url).subscription.feed_id == feed_id
    other = services.subscriptions.subscribe(bob, URL).subscription.feed_id
    assert other != feed_id
    pull(services, [feed_id], {first.url: _page(3, 2, 1)})
    pull(services, [feed_id], {first.url: _page(4, 3, 2, 1)})
    assert services.gateways.feeds.get(feed_id).error is None
    assert services.gateways.feeds.get(feed_id).last_seq == 4
    # It survives a list of subscriptions.
    outline = opml.read(opml.write("x", [Outline(first.url, "News")], ()))
    assert [hash_url(o.url) for o in outline.feeds] == [hash_url(first.url)]


def test_a_redesign_is_an_error_that_floods_nobody_and_is_repaired_with_undo(
    services: Services, ann: Actor
) -> None:
    first = _find(services, ann, _page(5, 4, 3, 2, 1)).lists[0]
    feed_id = services.subscriptions.subscribe(ann, first.url).subscription.feed_id
    pull(services, [feed_id], {first.url: _page(5, 4, 3, 2, 1)})
    pull(services, [feed_id], {first.url: b"<html><article><a href=/2026/6>Redesigned</a></article></html>"})
    assert services.gateways.feeds.get(feed_id).error == "recipe_broken"
    pull(services, [feed_id], {first.url: _page(17, 16, 15, 14, 13, 12)})
    feed = services.gateways.feeds.get(feed_id)
    assert (feed.error, feed.last_seq) == ("recipe_broken", 5)
    better = add_recipe(URL, Recipe(item="article"))
    done = services.subscriptions.change_address(ann, feed_id, better)
    assert done.undo
    assert services.gateways.feeds.get(done.feed_id).url == better


def test_a_list_that_is_really_all_new_is_believed_after_a_day(
    services: Services, ann: Actor, db: Any
) -> None:
    first = _find(services, ann, _page(5, 4, 3, 2, 1)).lists[0]
    feed_id = services.subscriptions.subscribe(ann, first.url).subscription.feed_id
    pull(services, [feed_id], {first.url: _page(5, 4, 3, 2, 1)})
    new = _page(17, 16, 15, 14, 13, 12)
    pull(services, [feed_id], {first.url: new})
    db.feeds.update_one({"_id": feed_id}, {"$set": {"error_since": clock.now() - dt.timedelta(days=2)}})
    pull(services, [feed_id], {first.url: new})
    feed = services.gateways.feeds.get(feed_id)
    assert (feed.error, feed.last_seq) == (None, 11)


def test_a_permanent_redirect_keeps_the_recipe(services: Services, ann: Actor) -> None:
    first = _find(services, ann, _page(3, 2, 1)).lists[0]
    feed_id = services.subscriptions.subscribe(ann, first.url).subscription.feed_id
    feed = services.gateways.feeds.get(feed_id)
    moved = Fetched(
        FetchRequest(feed.url), 200, "https://new.example/", body=_page(3, 2, 1),
        permanent_url="https://new.example/",
    )  # fmt: skip
    digest = Digester(services.settings).digest_fetch(feed, moved, clock.now())
    assert digest.update.fields.moved_to == "https://new.example/" + get_fragment(first.url)


def test_typed_selectors_are_tried_and_faults_named(services: Services, ann: Actor) -> None:
    found = _find(services, ann, _page(3, 2, 1), item="ul.posts > li", title="p")
    assert found.lists[0].entries[0].title == "A paragraph that says more about 3."
    assert _find(services, ann, _page(3), item="ol > li").error == "recipe_broken"
    with pytest.raises(InvalidError) as e:
        services.page_lists.find_lists(ann, "site.example/news", {"title": "h2"})
    assert e.value.ids["field"] == "item"
    with pytest.raises(InvalidError):
        services.page_lists.find_lists(ann, "no address", {})


def _cards(tag: str, name: str = "card") -> str:
    return "".join(
        f"<{tag} class={name}><h2><a href='/2026/{name}/{n}'>A long enough title of story {n}</a></h2>"
        f"<p>{'word ' * 20}</p></{tag}>"
        for n in range(8)
    )


def test_a_list_that_no_selector_can_name_hides_no_other_list(services: Services, ann: Actor) -> None:
    odd = f"<html><body><section>{_cards('x:card')}</section><main>{_cards('div', 'post')}</main>"
    found = _find(services, ann, odd.encode())
    assert (found.error, [one.item for one in found.lists]) == (None, ["div.post"])
    assert guess_lists(_cards("x:card").encode(), URL) == []


def test_a_list_whose_selector_or_address_is_too_long_is_left_out(services: Services, ann: Actor) -> None:
    names = " ".join(f"{letter * 60}" for letter in "abc")
    around = f"<html><body><div class='{names}'><div class='{names}'><div class='{names}'>"
    body = around + _cards("div", f"'{names}'") + "</div></div></div><div><div>" + _cards("div", f"'{names}'")
    for one in _find(services, ann, body.encode()).lists:
        assert len(one.item) <= SELECTOR_MAX
    url = "https://site.example/" + "a" * 2015
    waiting = services.page_lists.find_lists(ann, url, wait=0)
    asyncio.run(services.page_lists.run(waiting.key, _Site(_page(3, 2, 1))))
    found = services.page_lists.get_progress(ann, waiting.key)
    assert (found.error, found.lists) == ("no_list_found", ())


def test_a_page_without_lists_says_so(services: Services, ann: Actor) -> None:
    found = _find(services, ann, b"<p>nothing</p>")
    assert found.error == "no_list_found"
    assert found.message


# -- the outline that a person points at


def _words(outline: list[Any]) -> list[str]:
    return [word for child in outline[3] for word in ([child] if isinstance(child, str) else _words(child))]


def test_an_outline_has_names_classes_and_texts_and_nothing_else() -> None:
    html = (
        "<body id=top onload=x()><div class='a b'><a href='javascript:x()' onclick=x()>Go  on</a> tail"
        "<script>secret()</script><style>p{}</style><img src=https://a.example/p.jpg alt='A cat' onerror=x()>"
        "<p></p><template><p>hidden</p></template><svg><text>drawn</text></svg></div></body>"
    )
    found = build_outline(PageTree(html.encode(), URL))
    link, picture = ["a", "", "", ["Go on"]], ["img", "", "", ["A cat"]]
    assert found == ["body", "top", "", [["div", "", "a b", [link, "tail", picture]]]]


def test_long_and_deep_pages_give_bounded_outlines() -> None:
    many = build_outline(PageTree(b"<body>" + b"<p>word</p>" * 20_000, URL))
    assert len(_words(many)) < MAX_NODES
    wordy = build_outline(PageTree(b"<body>" + b"<p>" + b"x" * 900 + b"</p>" * 1000, URL))
    assert sum(map(len, _words(wordy))) <= MAX_TEXT
    long = build_outline(PageTree(b"<body>" + (b"<p>" + b"word " * 100 + b"</p>") * 3000, URL))
    assert sum(map(len, _words(long))) <= MAX_TEXT
    deep = build_outline(PageTree(b"<body>above" + b"<div>" * 5000 + b"below", URL))
    assert _words(deep) == ["above"]


def test_an_outline_is_stored_with_the_page_and_read_by_its_key(services: Services, ann: Actor) -> None:
    view = services.page_lists.find_lists(ann, URL, wait=0)
    with pytest.raises(NotFoundError):
        services.page_lists.get_outline(ann, view.key)
    page = services.gateways.page_lists.pages.find(view.key, clock.now())
    assert page is not None
    answer = Fetched(FetchRequest(URL), 200, URL, body=b"<p>No list here")
    read = services.gateways.page_lists.read(page, answer)
    services.gateways.page_lists.store_page(dataclasses.replace(page, result=read), clock.now())
    assert read.error == "no_list_found"
    assert _words(json.loads(services.page_lists.get_outline(ann, view.key))) == ["No list here"]
    with pytest.raises(NotFoundError):
        services.page_lists.get_outline(ann, view.key + 1)
