"""Search and tags as pages: what a browser without scripts sees and sends."""

from __future__ import annotations

import re
from typing import Any

import lxml.html
import pytest

from app import clock
from app.adapters.search import tantivy_index
from app.bootstrap.services import Services
from app.models.accounts.actor import Actor
from tests.support.reader import pull, rss
from tests.web.conftest import Visitor

URL = "https://feeds.example/garden"


@pytest.fixture
def garden(services: Services, ann: Visitor, db: Any) -> Actor:
    """Ann reads a small feed, all of it indexed."""
    actor = Actor(db.users.find_one({"name": "ann"})["_id"])
    done = services.subscriptions.subscribe(actor, URL)
    items = [("Roses & thorns", "<p>A <b>rose</b> garden in spring.</p>"), ("Tulips", "<p>No rose here.</p>")]
    pull(services, [done.subscription.feed_id], {URL: rss("Garden", items)})
    services.indexing.run(clock.now(), 30)
    return actor


def test_search_without_words_shows_what_can_be_typed(ann: Visitor) -> None:
    page = ann.get("/search")
    assert page.status_code == 200
    assert "title:budget" in page.text
    assert 'name="q"' in page.text


def test_a_search_is_a_stream_with_its_words_marked(ann: Visitor, garden: Actor) -> None:
    found = ann.get("/search?q=rose+garden+foo:x", follow_redirects=True)
    assert "“foo:” isn&#39;t a search filter" in found.text
    found = ann.get("/search?q=++rose++garden++", follow_redirects=True)
    assert found.request.path.startswith("/read/search/")
    assert "<mark>rose</mark> <mark>garden</mark>" in found.text
    assert "<mark>Roses</mark> &amp; thorns" in found.text
    assert "Tulips" not in found.text
    assert 'value="rose garden"' in found.text


@pytest.mark.parametrize("query", ["r*", "garden -r*"])
def test_a_prefix_of_too_many_words_is_explained(
    ann: Visitor, garden: Actor, monkeypatch: pytest.MonkeyPatch, query: str
) -> None:
    monkeypatch.setattr(tantivy_index, "EXPANSIONS", 1)
    page = ann.get("/search", query_string={"q": query}, follow_redirects=True).text
    assert f"“{query.split()[-1]}” stands for too many words" in page


def test_a_row_shows_the_place_that_was_found(
    ann: Visitor, services: Services, garden: Actor, db: Any
) -> None:
    url = "https://feeds.example/long"
    feed_id = services.subscriptions.subscribe(garden, url).subscription.feed_id
    html = (
        "<p>"
        + "Much is said before. " * 40
        + "Then a hidden <b>gem</b> &amp; more.</p>"
        + "<p>After.</p>" * 60
    )
    pull(services, [feed_id], {url: rss("Long", [("Long one", html)])})
    services.indexing.run(clock.now(), 30)
    page = ann.get("/search?q=hidden+gem", follow_redirects=True).text
    passage = r'"text">….*before\. Then a <mark>hidden</mark> <mark>gem</mark> &amp; more\. After'
    assert re.search(passage, page)


@pytest.mark.parametrize(
    "before", ["Er ging die Straße entlang… ", "½ ﬁne ", "İstanbul, ", "Cafe\u0301 ", "ǆ ㍿ ", "x "]
)
def test_a_found_place_keeps_its_capitals(
    ann: Visitor, services: Services, garden: Actor, before: str
) -> None:
    url = "https://feeds.example/long"
    feed_id = services.subscriptions.subscribe(garden, url).subscription.feed_id
    html = "<p>" + before * 40 + "Then a Hidden Gem, as Tomio Koyama said.</p>" + f"<p>{before}</p>" * 60
    pull(services, [feed_id], {url: rss("Long", [("Long one", html)])})
    services.indexing.run(clock.now(), 30)
    page = ann.get("/search?q=gem", follow_redirects=True).text
    assert "Hidden <mark>Gem</mark>, as Tomio Koyama said." in page


def test_a_row_shows_the_author_that_was_found(
    ann: Visitor, services: Services, garden: Actor, db: Any
) -> None:
    url = "https://feeds.example/signed"
    feed_id = services.subscriptions.subscribe(garden, url).subscription.feed_id
    item = "<item><title>One</title><guid>1</guid><author>jo@x.example (Jo Quill)</author></item>"
    feed = f"<rss version='2.0'><channel><title>Signed</title>{item}</channel></rss>"
    pull(services, [feed_id], {url: feed.encode()})
    services.indexing.run(clock.now(), 30)
    page = ann.get("/search?q=quill", follow_redirects=True).text
    assert "Signed</bdi>\u00a0· <bdi>Jo <mark>Quill</mark></bdi>" in page
    assert "Quill" not in ann.get("/read/all").text


def _publish(services: Services, actor: Actor, title: str, item: str) -> None:
    """Pull a feed of one entry, and index it."""
    url = "https://feeds.example/one"
    feed_id = services.subscriptions.subscribe(actor, url).subscription.feed_id
    feed = (
        f"<rss version='2.0'><channel><title>{title}</title><item><guid>1</guid>{item}</item></channel></rss>"
    )
    pull(services, [feed_id], {url: feed.encode()})
    services.indexing.run(clock.now(), 30)


@pytest.mark.parametrize("address", ["/search?q=gem", "/search/typed?q=gem"])
@pytest.mark.parametrize(
    ("title", "item", "shown"),
    [
        (
            "Gem of the Town",
            "<title>One</title><author>Gem of the Town</author>"
            "<description>Much is said before. See https://gemofthetown.example for artgem.</description>",
            "<mark>Gem</mark> of the Town</bdi>",
        ),
        (
            "News",
            "<title>One</title><category>Old</category><category>Gem and stone</category>"
            "<description>Said.</description>",
            "#<mark>Gem</mark> and stone · Said.",
        ),
    ],
)
def test_each_hit_shows_what_was_found(
    ann: Visitor, services: Services, garden: Actor, address: str, title: str, item: str, shown: str
) -> None:
    _publish(services, garden, title, item)
    page = ann.get(address, follow_redirects=True).text.replace("\u00a0", " ")
    assert shown in page
    assert page.count("<mark>") == 1


def test_a_category_is_named_only_where_nothing_else_shows_the_hit(
    ann: Visitor, services: Services, garden: Actor
) -> None:
    _publish(services, garden, "News", "<title>A gem</title><category>Gem</category>")
    assert "#" not in ann.get("/search/typed?q=gem").text.partition("typed-rows")[2].partition("</li>")[0]


def test_the_head_of_a_search_leaves_the_query_to_its_field(ann: Visitor, garden: Actor) -> None:
    page = ann.get("/search?q=rose", follow_redirects=True).text
    assert "<h1>Search</h1>" in page
    assert 'data-act="mark-all"' in page
    page = ann.get("/search?q=zebra", follow_redirects=True).text
    assert re.search(r'<p class="sub"[^>]*>No results</p>', page)
    assert 'data-act="mark-all"' not in page


def test_a_hit_beyond_one_line_is_shown(ann: Visitor, services: Services, garden: Actor, db: Any) -> None:
    url = "https://feeds.example/short"
    feed_id = services.subscriptions.subscribe(garden, url).subscription.feed_id
    html = "<p>" + "Some words to begin with, " * 4 + "and a gem.</p>"
    pull(services, [feed_id], {url: rss("Short", [("Short one", html)])})
    services.indexing.run(clock.now(), 30)
    page = ann.get("/search?q=gem", follow_redirects=True).text
    assert re.search(r'"text">….{,30}begin with, and a <mark>gem</mark>\.', page)


def test_another_form_of_a_word_is_marked_and_shown(ann: Visitor, services: Services, garden: Actor) -> None:
    url = "https://feeds.example/houses"
    feed_id = services.subscriptions.subscribe(garden, url).subscription.feed_id
    much = "<p>" + "This is said before, and that is the way of it. " * 20 + "Then the houses follow.</p>"
    pull(services, [feed_id], {url: rss("Town", [("Running houses", much), ("Another one", much)])})
    services.indexing.run(clock.now(), 30)
    page = ann.get("/search?q=house", follow_redirects=True).text
    assert "Running <mark>houses</mark>" in page
    assert page.count("Then the <mark>houses</mark> follow") == 2
    assert "<mark>" not in ann.get("/search?q=%22house%22", follow_redirects=True).text


def test_nothing_found_offers_to_widen(ann: Visitor, garden: Actor) -> None:
    page = ann.get("/search?q=rose+feed:nowhere", follow_redirects=True)
    assert "No results" in page.text
    (wider,) = lxml.html.fromstring(page.text).xpath("//ul[@class='wider']//a")
    assert wider.get("href") == "/search?q=rose"
    assert wider.text_content() == "Without feed:nowhere: 2 entries"
    assert wider.find("code").text == "feed:nowhere"
    only = ann.get("/search?q=spring+xyz+tulips", follow_redirects=True).text
    lines = lxml.html.fromstring(only).xpath("//ul[@class='wider']//a")
    assert [line.text_content() for line in lines] == ["Only spring: 1 entry", "Only tulips: 1 entry"]
    script = ann.get("/search?q=rose+tag:%3Cb%3E", follow_redirects=True).text
    assert '<code dir="auto">tag:&lt;b&gt;</code>' in script
    # Beside an empty list there is nothing to select.
    assert "No entry selected" not in page.text
    assert "No entry selected" in ann.get("/search?q=rose", follow_redirects=True).text


@pytest.mark.parametrize("path", ["/read/search/", "/read/search/%%%", "/read/search/AAAA", "/read/tag/5"])
def test_no_such_stream(ann: Visitor, path: str) -> None:
    assert ann.get(path).status_code in (400, 404)


def test_a_query_cannot_bring_markup(ann: Visitor, garden: Actor) -> None:
    page = ann.get("/search?q=%3Cscript%3Ealert(1)%3C/script%3E", follow_redirects=True)
    assert "<script>alert" not in page.text


def test_tags_without_a_script(ann: Visitor, garden: Actor, services: Services) -> None:
    listing = ann.get("/read/all").text
    entry = re.search(r'data-id="(\d+)"', listing)[1]
    page = f"/read/all?entry={entry}"
    done = ann.post("/entries/tag", {"entry": entry, "add": "Later, work ,", "next": page})
    assert done.location == page
    assert [t.name for t in services.tags.list_tags(garden)] == ["Later", "work"]
    shown = ann.get(page).text
    assert re.search(r'href="/read/tag/\d+" data-stream dir="auto">Later</a>', shown)
    tag = next(t for t in services.tags.list_tags(garden) if t.name == "Later")
    assert "Tulips" in (one := ann.get(f"/read/tag/{tag.id}").text) or "Roses" in one
    # Its own list needn't repeat it in each row.
    chips = r'<span class="tag" dir="auto">(\w+)</span>'
    assert re.findall(chips, one) == ["work"]
    assert sorted(re.findall(chips, ann.get("/read/all").text)) == ["Later", "work"]
    ann.post("/entries/tag", {"entry": entry, "remove": tag.id, "next": page})
    assert "No entries with this tag" in ann.get(f"/read/tag/{tag.id}").text


def test_tags_are_renamed_merged_deleted_and_come_back(
    ann: Visitor, garden: Actor, services: Services
) -> None:
    entry = re.search(r'data-id="(\d+)"', ann.get("/read/all").text)[1]
    ann.post("/entries/tag", {"entry": entry, "add": "one,two"})
    one, two = services.tags.list_tags(garden)
    assert ann.post(f"/tags/{one.id}/rename", {"name": "two"}).status_code == 409
    assert ann.post(f"/tags/{one.id}/rename", {"name": "First"}).status_code == 303
    # Nothing is chosen beforehand, so a careless press merges nothing.
    assert re.search(r'<select[^>]* name="into" required><option value="">', ann.get("/tags").text)
    assert ann.post(f"/tags/{one.id}/merge", {"into": ""}).status_code == 400
    ann.post(f"/tags/{one.id}/merge", {"into": two.id})
    page = ann.get("/tags").text
    assert "Merged “First” into “two”" in page
    assert f'value="tag.{one.id}"' in page
    ann.post("/undo", {"token": f"tag.{one.id}"})
    assert {t.name for t in services.tags.list_tags(garden)} == {"First", "two"}
    ann.post(f"/tags/{two.id}/delete")
    assert [t.name for t in services.tags.list_tags(garden)] == ["First"]
    assert ann.post("/undo", {"token": "tag.x"}).status_code == 400


def test_what_a_button_shows_is_what_it_is_called(ann: Visitor, garden: Actor, services: Services) -> None:
    """Who sees the tip and who hears the name speak of the same button; a switch tells what it does next."""
    entry = re.search(r'data-id="(\d+)"', ann.get("/read/all").text)[1]
    ann.post("/entries/tag", {"entry": entry, "add": "one,two"})
    ann.post("/searches", {"query": "rose"})
    page = ann.get(f"/read/all?entry={entry}").text
    named = [tag for tag in re.findall(r"<[a-z]+ [^>]*aria-label=[^>]*>", page) if " title=" in tag]
    assert len(named) > 10
    for tag in named:
        called, shown = (re.search(rf' {name}="([^"]*)"', tag)[1] for name in ("aria-label", "title"))
        # The tip adds the key.
        assert shown == called or shown.startswith(f"{called} (") or "aria-pressed" in tag, tag


def test_a_search_is_saved_and_deleted(ann: Visitor, garden: Actor, services: Services) -> None:
    done = ann.post("/searches", {"query": "rose  is:unread", "name": "Unread roses"})
    assert "Unread roses" in ann.get(done.location).text
    saved = services.tags.list_searches(garden)[0]
    assert saved.query == "rose is:unread"
    ann.post(f"/searches/{saved.id}/delete")
    assert services.tags.list_searches(garden) == []
    page = ann.get("/search").text
    token = re.search(r'data-undo="(search[.][^"]+)"', page)[1]
    history = ann.get("/history").text
    assert "Unread roses" in history
    assert f'value="{token}"' in history
    ann.post("/undo", {"token": token})
    assert services.tags.list_searches(garden) == [saved]
    assert ann.post("/undo", {"token": token}).status_code == 404, "once"
    assert token not in ann.get("/history").text
    assert ann.post("/searches", {"query": " - "}).status_code == 400


def test_all_that_was_found_is_marked_and_comes_back(ann: Visitor, garden: Actor, services: Services) -> None:
    page = ann.get("/search?q=title:tulips", follow_redirects=True)
    stream, snapshot = (
        re.search(rf'name="{n}" value="([^"]+)"', page.text)[1] for n in ("stream", "snapshot")
    )
    assert services.reading.get_tree(garden).unread == 2
    ann.post("/read/mark-all", {"stream": stream, "snapshot": snapshot})
    assert services.reading.get_tree(garden).unread == 1
    token = re.search(r'data-undo="([^"]+)"', ann.get("/read/all").text)[1]
    ann.post("/undo", {"token": token})
    assert services.reading.get_tree(garden).unread == 2


def test_typing_shows_results_and_names(ann: Visitor, garden: Actor) -> None:
    page = ann.get("/search/typed?q=rose").text
    assert page.count("data-stream") == 3  # two entries, and all results
    assert "<mark>Tulips</mark>" in ann.get("/search/typed?q=tulips").text
    assert "data-fill" not in page
    names = ann.get("/search/typed?q=rose+feed:gar").text
    assert 'data-fill="rose feed:Garden "' in names
    near = ann.get("/search/typed?q=rose+feed:gardne+").text
    assert 'href="/search?q=rose%20feed%3AGarden"' in near
    assert "No results" in ann.get("/search/typed?q=zebra").text
    assert ann.get("/search/typed?q=+").text.strip() == ""


def test_typing_stores_nothing(ann: Visitor, garden: Actor, db: Any) -> None:
    before = db.snapshots.count_documents({})
    ann.get("/search/typed?q=rose")
    assert db.snapshots.count_documents({}) == before


def test_results_of_a_name_with_an_error_offer_the_right_one(ann: Visitor, garden: Actor) -> None:
    page = ann.get("/search?q=rose+feed:gardne", follow_redirects=True).text
    assert "Did you mean" in page
    assert "rose feed:Garden</a>" in page
    assert "Did you mean" not in ann.get("/search?q=rose+feed:gard", follow_redirects=True).text


def test_a_saved_search_is_switched_to_notify(ann: Visitor, garden: Actor, services: Services) -> None:
    ann.post("/searches", {"query": "rose"})
    (search,) = services.tags.list_searches(garden)
    results = "/search?q=rose"
    assert "Notify me of new results" in ann.get(results, follow_redirects=True).text
    done = ann.get(ann.post(f"/searches/{search.id}/notify", {"notify": "1"}).location).text
    assert "You&#39;ll be notified of new results" in done
    assert "Stop notifying me" in done
    assert services.tags.list_searches(garden)[0].notify
    assert ann.post(f"/searches/{search.id}/notify", {"notify": "", "next": "/search"}).location == "/search"
    assert not services.tags.list_searches(garden)[0].notify
    ann.post("/searches", {"query": "is:starred"})
    starred = next(one for one in services.tags.list_searches(garden) if one.query == "is:starred")
    refused = ann.post(f"/searches/{starred.id}/notify", {"notify": "1"})
    assert refused.status_code == 400
    assert "neither read nor starred" in refused.text


@pytest.mark.parametrize("address", ["/search?q=art", "/search/typed?q=art"])
def test_only_forms_of_the_entrys_own_language_are_marked(
    ann: Visitor, services: Services, garden: Actor, address: str
) -> None:
    text = "Are they small? We are told so, and then many more of them are on view. The arts are here."
    _publish(services, garden, "News", f"<title>Are Electrons art?</title><description>{text}</description>")
    page = ann.get(address, follow_redirects=True).text
    assert "Are Electrons <mark>art</mark>?" in page
    assert "<mark>Are</mark>" not in page
    assert "<mark>are</mark>" not in page
