"""Making a feed of a page on the web: from "no feed found" to a subscription, without scripts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable

import lxml.html

from app import clock
from app.bootstrap.services import Services
from app.models.feeds.discovery import Discovered
from app.models.feeds.fetched import Fetched, FetchRequest
from app.models.feeds.recipe import Recipe, add_recipe
from tests.support.reader import add_user, pull, rss
from tests.web.conftest import Visitor

PAGE = b"<title>Town news</title><ul class=news>" + b"".join(
    b"<li class=item><h2><a href='/2026/%d'>The long story of the town, part %d</a></h2><p>More.</p>" % (n, n)
    for n in range(6)
)


class _Site:
    async def stream_fetches(self, requests: Iterable[FetchRequest]) -> AsyncIterator[Fetched]:
        for request in requests:
            yield Fetched(request, 200, request.url, body=PAGE, wire_bytes=len(PAGE))


def _read_ahead(services: Services, address: str, **selectors: str) -> None:
    """Let a worker read a page before it is looked at."""
    view = services.page_lists.find_lists(add_user(services, "early"), address, selectors, wait=0)
    asyncio.run(services.page_lists.run(view.key, _Site()))


def test_a_list_is_chosen_and_subscribed_to(ann: Visitor, services: Services) -> None:
    _read_ahead(services, "town.example/news")
    page = lxml.html.fromstring(ann.post("/add/page", {"address": "town.example/news"}).text)
    (form,) = page.cssselect('#lists form[action="/subscribe"]')
    (first, *_) = form.cssselect('input[name="url"]')
    assert "part 0" in form.text_content()
    assert first.get("checked") is not None
    assert ann.post("/subscribe", {"url": first.get("value")}).status_code == 303
    feed = services.gateways.feeds.find_by_url(first.get("value"))
    assert feed is not None
    assert feed.url == first.get("value")


def test_a_search_without_a_feed_offers_it(ann: Visitor, services: Services) -> None:
    row = services.gateways.discoveries.get_or_create("https://town.example/", clock.now())
    services.gateways.discoveries.store_result(
        row.key, Discovered("https://town.example/", error="no_feed_found"), clock.now()
    )
    page = lxml.html.fromstring(ann.post("/add", {"address": "https://town.example/"}).text)
    (form,) = page.cssselect('form[action="/add/page"]')
    assert form.cssselect('input[name="address"]')[0].get("value") == "https://town.example/"


def test_selectors_are_kept_and_faults_are_beside_the_field(ann: Visitor, services: Services) -> None:
    assert ann.get("/add/page?address=town.example").status_code == 200
    page = ann.post("/add/page", {"address": "town.example", "item": "a:has(b)"})
    assert page.status_code == 400
    assert "isn&#39;t a selector" in page.text or "isn't a selector" in page.text
    assert lxml.html.fromstring(page.text).cssselect('input[name="item"]')[0].get("value") == "a:has(b)"
    _read_ahead(services, "town.example", item="ul.news > li", title="p")
    assert (
        "More."
        in ann.post("/add/page", {"address": "town.example", "item": "ul.news > li", "title": "p"}).text
    )


def test_a_broken_recipe_is_repaired_from_the_page_of_its_feed(ann: Visitor, services: Services) -> None:
    url = add_recipe("https://town.example/news", Recipe(item="ol > li"))
    assert ann.post("/subscribe", {"url": url}).status_code == 303
    feed = services.gateways.feeds.find_by_url(url)
    assert feed is not None
    pull(services, [feed.id], {url: rss("Not", [])})
    shown = ann.get(f"/feeds/{feed.id}")
    assert "aren’t where they were" in shown.text or "aren&#39;t where they were" in shown.text
    (link,) = lxml.html.fromstring(shown.text).cssselect('a[href^="/add/page"]')
    assert ann.post(f"/feeds/{feed.id}/find").headers["Location"] == link.get("href")
    _read_ahead(services, "https://town.example/news")
    page = lxml.html.fromstring(
        ann.post("/add/page", {"address": "https://town.example/news", "feed": str(feed.id)}).text
    )
    (form,) = page.cssselect(f'form[action="/feeds/{feed.id}/address"]')
    better = form.cssselect('input[name="url"]')[0].get("value")
    assert ann.post(f"/feeds/{feed.id}/address", {"url": better}).status_code == 303
    taken = services.gateways.feeds.find_by_url(better)
    assert taken is not None
    assert taken.url == better


def test_a_foreign_feed_cannot_be_repaired(ann: Visitor) -> None:
    assert ann.get("/add/page?feed=17").status_code == 404
    assert ann.post("/add/page", {"address": "town.example", "feed": "17"}).status_code == 404


def test_the_outline_of_a_page_is_only_data(ann: Visitor, services: Services) -> None:
    _read_ahead(services, "town.example/news")
    page = lxml.html.fromstring(ann.post("/add/page", {"address": "town.example/news"}).text)
    (button,) = page.cssselect("[data-point]")
    answer = ann.get(f"/add/page/outline?key={button.get('data-point')}")
    assert answer.content_type == "application/json; charset=utf-8"
    assert "The long story of the town, part 5" in answer.text
    assert "/2026/5" not in answer.text
    assert ann.get("/add/page/outline?key=17").status_code == 404
    assert ann.get("/add/page/outline?key=x").status_code == 400
