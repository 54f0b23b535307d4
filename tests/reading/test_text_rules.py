"""Rules of the admins for full texts: what they select, remove, and how they are tried."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncIterator, Iterable

import pytest

from app.bootstrap import services as bootstrap
from app.bootstrap.services import Services
from app.errors import ExistsError, ForbiddenError, InvalidError, NotFoundError, TooLargeError
from app.feeds.html.article_selectors import check_selectors
from app.feeds.html.main_text import extract_main_text
from app.feeds.html.text import flatten_html
from app.models.accounts.actor import Actor, Role
from app.models.feeds.fetched import Fetched, FetchRequest
from app.models.reading.text_rules import TextRule, list_hosts
from tests.reading.test_full_texts import PAGE, STORY, Site, feed, fetch, request, subscribe
from tests.support.reader import add_user

ODD = (
    "<html><head><title>One</title></head><body><div class='menu'>Menu</div>"
    f"<div class='teasers'>{STORY.replace('Paragraph', 'Teaser')}</div>"
    "<div id='story'><p>Short story. <span class='ad'>Buy this.</span> The end.</p>"
    "<p><a href='/next'>Next</a><script>alert(1)</script></p></div>"
    "<div class='box'><div class='story2'>Second part.</div></div></body></html>"
).encode()
URL = "https://blog.site.example/2026/one"


def _extract(content: str = "", remove: str = "", page: bytes = ODD) -> tuple[str, bool]:
    rule = TextRule(1, "site.example", content, remove)
    found = extract_main_text(page, URL, rule=rule)
    return flatten_html(found.html), found.is_by_rule


@pytest.fixture
def root(services: Services) -> Actor:
    return Actor(add_user(services, "root").user_id, Role.ADMIN)


def test_a_rule_selects_the_article_and_removes_the_rest() -> None:
    assert _extract("#story", ".ad") == ("Short story. The end. Next", True)
    assert _extract("#story, .box", ".ad, a")[0] == "Short story. The end. Second part."
    # Parts of a part come once, in the order of the page.
    assert _extract(".story2, div.box, #story p, #story", ".ad, a")[0] == "Short story. The end. Second part."
    assert (
        'href="https://blog.site.example/next"'
        in extract_main_text(ODD, URL, rule=TextRule(1, "x", "#story")).html
    )


def test_what_a_rule_does_not_find_is_found_as_usual() -> None:
    usual = flatten_html(extract_main_text(ODD, URL).html)
    assert "Teaser 3" in usual
    assert _extract(".absent") == (usual, False)
    found, is_by_rule = _extract(remove=".teasers")
    assert "Teaser" not in found
    assert not is_by_rule


@pytest.mark.parametrize("empty", ["", "<p> &nbsp;</p><div><span></span></div>"])
def test_an_empty_part_is_not_the_article(empty: str) -> None:
    page = ODD.replace(b"<div class='menu'>Menu</div>", f"<div id='late'>{empty}</div>".encode())
    found, is_by_rule = _extract("#late", page=page)
    assert "Teaser 3" in found
    assert not is_by_rule
    page = page.replace(b"<div id='late'>", b"<div id='late'><img src='/one.jpg'>")
    assert _extract("#late", page=page)[1], "a picture is something"


def test_commas_within_quotes_belong_to_the_selector() -> None:
    page = ODD.replace(b"<div id='story'>", b"<div data-a='x, y' id=\"it's\">")
    for content in ('[data-a="x, y"]', "[data-a='x, y'], .absent", '[id="it\'s"], .absent'):
        assert _extract(content, ".ad", page) == ("Short story. The end. Next", True)
    for wrong in ('[data-a="x, y], p', "p,,a", "p,"):
        with pytest.raises(InvalidError):
            check_selectors(wrong, "content")


def test_all_elements_that_a_rule_names_are_removed_or_chosen() -> None:
    many = "".join(f"<i class='ad'>Buy {n}.</i><p>Part {n}.</p>" for n in range(1500))
    page = ODD.replace(b"<div id='story'>", f"<div id='story'>{many}".encode())
    found = _extract("#story", ".ad", page)[0]
    assert "Buy" not in found
    assert "Part 1499." in found
    assert "Part 1499." in _extract("#story p", ".ad", page)[0]


@pytest.mark.parametrize(
    ("host", "content", "remove", "field"),
    [
        ("site.example", "", "", "content"),
        ("site.example", "a:has(b)", "", "content"),
        ("site.example", "article", "p::before", "remove"),
        ("site.example", "a @href", "", "content"),
        ("site.example", ",".join(["p"] * 11), "", "content"),
        ("site.example", " > ".join(["p"] * 17), "", "content"),
        ("", "article", "", "host"),
        ("http://127.0.0.1/", "article", "", "host"),
    ],
)
def test_what_cannot_be_a_rule_is_refused(
    services: Services, root: Actor, host: str, content: str, remove: str, field: str
) -> None:
    with pytest.raises(InvalidError) as caught:
        services.text_rules.add(root, host, content, remove)
    assert caught.value.ids["field"] == field
    assert services.text_rules.list_rules(root) == []


def test_only_admins_have_rules(services: Services, root: Actor) -> None:
    ann = add_user(services, "ann")
    rule = services.text_rules.add(root, "www.site.example", "article", "")
    assert rule.host == "site.example"
    for call in (
        lambda: services.text_rules.list_rules(ann),
        lambda: services.text_rules.add(ann, "x.example", "article", ""),
        lambda: services.text_rules.delete(ann, rule.id),
        lambda: services.text_rules.request_trial(ann, rule.id, PAGE),
    ):
        with pytest.raises(ForbiddenError):
            call()
    with pytest.raises(ExistsError):
        services.text_rules.add(root, "https://site.example/page", "main", "")
    services.text_rules.delete(root, rule.id)
    with pytest.raises(NotFoundError):
        services.text_rules.delete(root, rule.id)
    small = bootstrap.build(dataclasses.replace(services.settings, text_rules_max=0))
    with pytest.raises(TooLargeError):
        small.text_rules.add(root, "x.example", "article", "")
    small.close()


def test_full_texts_follow_the_rule_of_their_site(services: Services, root: Actor) -> None:
    ann = add_user(services, "ann")
    long = "".join(f"<p>Part {n} of what the admin wants, word by word by word.</p>" for n in range(20))
    page = ODD.replace(b"<div id='story'>", f"<div id='story'>{long}".encode())
    services.text_rules.add(root, "site.example", "#story", ".ad")
    entry_id = subscribe(services, ann, feed())
    assert fetch(services, ann, entry_id, Site(page)) is None
    found = request(services, ann, entry_id)
    assert found is not None
    assert "Part 19 of what the admin wants" in found.html
    for foreign in ("Teaser", "Buy this", "<script", "alert"):
        assert foreign not in found.html


def test_a_rule_is_tried_on_a_page(services: Services, root: Actor) -> None:
    rule = services.text_rules.add(root, "site.example", "#story", ".ad")
    waiting = services.text_rules.request_trial(root, rule.id, PAGE, wait=0)
    assert waiting.trial is not None
    assert not waiting.trial.is_over
    with pytest.raises(InvalidError):
        services.text_rules.request_trial(root, rule.id, "http://127.0.0.1/", wait=0)
    asyncio.run(services.text_rules.run(rule.id, Site(ODD)))
    (tried,) = services.text_rules.list_rules(root)
    assert tried.trial is not None
    assert (tried.trial.found, tried.trial.words) == (True, 5)
    assert tried.trial.text == "Short story. The end. Next"
    site = Site(error="http_404")
    asyncio.run(services.text_rules.run(rule.id, site))
    assert not site.requests, "it was tried"
    services.text_rules.request_trial(root, rule.id, PAGE, wait=0)
    asyncio.run(services.text_rules.run(rule.id, site))
    (tried,) = services.text_rules.list_rules(root)
    assert tried.trial is not None
    assert (tried.trial.is_over, tried.trial.error) == (True, "http_404")
    services.text_rules.delete(root, rule.id)
    assert asyncio.run(services.text_rules.run(rule.id, site)) == {"words": 0}


def test_a_trial_of_another_page_takes_the_place_of_the_first(services: Services, root: Actor) -> None:
    rule = services.text_rules.add(root, "site.example", "#story", ".ad")
    services.text_rules.request_trial(root, rule.id, PAGE, wait=0)
    other = f"{PAGE}/other"

    class Slow(Site):
        async def stream_fetches(self, requests: Iterable[FetchRequest]) -> AsyncIterator[Fetched]:
            if not self.requests:  # while the first page is fetched, the other one is requested
                services.text_rules.request_trial(root, rule.id, other, wait=0)
            async for page in super().stream_fetches(requests):
                yield page

    site = Slow(ODD)
    asyncio.run(services.text_rules.run(rule.id, site))
    assert [sent.url for sent in site.requests] == [PAGE, other]
    (tried,) = services.text_rules.list_rules(root)
    assert tried.trial is not None
    assert (tried.trial.address, tried.trial.is_over, tried.trial.words) == (other, True, 5)


def test_a_trial_that_fetches_nothing_says_so(services: Services, root: Actor) -> None:
    class Silent(Site):
        async def stream_fetches(self, requests: Iterable[FetchRequest]) -> AsyncIterator[Fetched]:
            for _ in ():
                yield _

    rule = services.text_rules.add(root, "site.example", "#story", ".ad")
    services.text_rules.request_trial(root, rule.id, PAGE, wait=0)
    assert asyncio.run(services.text_rules.run(rule.id, Silent())) == {"words": 0}
    (tried,) = services.text_rules.list_rules(root)
    assert tried.trial is not None
    assert (tried.trial.is_over, tried.trial.error) == (True, "busy")


@pytest.mark.parametrize(
    ("host", "found"),
    [
        ("www.blog.site.example", ["blog.site.example", "site.example"]),
        ("site.example", ["site.example"]),
        ("localhost", ["localhost"]),
    ],
)
def test_a_rule_holds_for_subdomains(host: str, found: list[str]) -> None:
    assert list_hosts(host) == found
