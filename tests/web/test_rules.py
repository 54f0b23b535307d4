"""Settings → Rules without scripts: create, preview, order, switch, delete; what lists show."""

from __future__ import annotations

import dataclasses
import datetime as dt
import io
import json
from email.utils import format_datetime
from typing import Any

import pytest
from bs4 import BeautifulSoup

from app import clock
from app.bootstrap.services import Services
from app.gateways.reading import rules as rules_gateway
from app.models.accounts.actor import Actor
from app.models.reading.rules import Rule, RuleMarks
from app.web.view import highlight
from tests.reading.test_rules import URL, bring, subscribe
from tests.support.reader import pull, rss
from tests.web.conftest import Visitor


@pytest.fixture
def actor(ann: Visitor, services: Services) -> Actor:
    user_id = services.gateways.accounts.find_by_name("ann")
    assert user_id is not None
    return Actor(user_id)


def _names(visitor: Visitor) -> list[str]:
    page = BeautifulSoup(visitor.get("/settings/rules").text, "lxml")
    return [str(link.text) for link in page.select("#rules strong")]


def _rule_ids(services: Services, actor: Actor) -> list[int]:
    return [rule.id for rule in services.rules.list_rules(actor).rules]


def test_rules_are_created_ordered_switched_and_deleted(
    ann: Visitor, actor: Actor, services: Services
) -> None:
    for name in ("one", "two"):
        form = {"query": name, "read": "1", "enabled": "1"}
        assert ann.post("/settings/rules", form).status_code == 303
    assert _names(ann) == ["one", "two"]
    first, second = _rule_ids(services, actor)
    ann.post(f"/settings/rules/{second}/move", {"by": "up"})
    assert _names(ann) == ["two", "one"]
    ann.post(f"/settings/rules/{second}/switch", {"on": "0"})
    assert [rule.enabled for rule in services.rules.list_rules(actor).rules] == [False, True]
    page = BeautifulSoup(ann.get(f"/settings/rules/{first}").text, "lxml")
    field = page.select_one("#f-query")
    assert field is not None
    assert field["value"] == "one"
    ann.post("/settings/rules", {"id": str(first), "query": "else", "name": "One", "star": "1"})
    ann.post(f"/settings/rules/{second}/delete")
    (left,) = services.rules.list_rules(actor).rules
    assert (left.id, left.name, left.query, left.star, left.read) == (first, "One", "else", True, False)


@pytest.mark.parametrize(
    ("form", "words"),
    [
        ({"query": "is:read", "read": "1"}, "is:read"),
        ({"query": "title:/(/", "read": "1"}, "title:/(/"),
        ({"query": "x"}, "Choose what the rule does."),
        ({"read": "1"}, "Enter a condition, or choose feeds."),
    ],
)
def test_what_cannot_be_a_rule_is_refused_with_a_sentence(
    ann: Visitor, actor: Actor, services: Services, form: dict[str, str], words: str
) -> None:
    answer = ann.post("/settings/rules", form)
    assert answer.status_code == 400
    problem = BeautifulSoup(answer.text, "lxml").select_one("[role=alert]")
    assert problem is not None
    assert words in problem.text
    assert _rule_ids(services, actor) == []


def test_a_rule_keeps_feeds_and_folders_that_are_gone(ann: Visitor, actor: Actor, services: Services) -> None:
    feed_id, folder = subscribe(services, actor), services.folders.create(actor, "News")
    rule = services.rules.save(actor, Rule(0, "", "football", (feed_id,), (folder.id,), read=True))
    services.subscriptions.unsubscribe(actor, feed_id)
    services.folders.delete(actor, folder.id)
    page = BeautifulSoup(ann.get(f"/settings/rules/{rule.id}").text, "lxml")
    chosen = {
        str(one["value"]): one.parent.get_text(strip=True)  # type: ignore[union-attr]
        for one in page.select("#scopes [name=scope][checked]")
    }
    assert chosen == {f"feed/{feed_id}": "No longer subscribed", f"folder/{folder.id}": "Deleted folder"}
    form = {"id": str(rule.id), "query": "football", "read": "1", "scope": list(chosen)}
    assert ann.post("/settings/rules", form).status_code == 303
    (kept,) = services.rules.list_rules(actor).rules
    assert (kept.feeds, kept.folders) == (rule.feeds, rule.folders)


def test_the_preview_stores_nothing(ann: Visitor, actor: Actor, services: Services) -> None:
    feed_id = subscribe(services, actor)
    bring(services, feed_id, "Football now", "Chess")
    services.indexing.run(clock.now(), seconds=30)
    form = {"query": "football", "read": "1", "scope": f"feed/{feed_id}", "do": "preview"}
    page = BeautifulSoup(ann.post("/settings/rules", form).text, "lxml")
    preview = page.select_one("#preview")
    assert preview is not None
    assert "1 of your last 2 entries" in preview.text
    assert [a.text for a in preview.select("li a")] == ["Football now"]
    assert [mark.text for mark in preview.select("li a mark")] == ["Football"]
    assert page.select_one(f"[name=scope][value='feed/{feed_id}'][checked]")
    assert "full texts" not in preview.text
    assert "full texts of new matches are fetched, at most 100" in (
        ann.post("/settings/rules", {**form, "full_text": "1"}).text
    )
    assert _rule_ids(services, actor) == []


def test_a_preview_ends_in_time_and_says_how_many_entries_it_tried(
    ann: Visitor, actor: Actor, services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    bring(services, subscribe(services, actor), "Football now", "Chess", "Go")
    form = {"query": "title:/./", "read": "1", "do": "preview"}
    assert "3 of your last 3 entries" in ann.post("/settings/rules", form).text
    monkeypatch.setattr(rules_gateway, "PREVIEW_SECONDS", -1.0)
    assert "1 of your last 1 entries" in ann.post("/settings/rules", form).text


def test_a_preview_marks_what_a_regular_expression_matched(
    ann: Visitor, actor: Actor, services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = "https://one.example/feed"
    feed_id = services.subscriptions.subscribe(actor, url).subscription.feed_id
    item = "<item><title>Chess & more</title><guid>1</guid><author>Jo Quill</author></item>"
    item = item.replace("&", "&amp;").replace("<guid>", "<link>https://one.example/big-news</link><guid>")
    feed = f"<rss version='2.0'><channel><title>One</title>{item}</channel></rss>"
    pull(services, [feed_id], {url: feed.encode()})
    for query, shown in (
        ("title:/s+.&/", "Che<mark>ss &amp;</mark> more"),
        ("/qu?i/", "· <bdi>Jo <mark>Qui</mark>ll</bdi>"),
        ("url:/big-.*s/", "https://one.example/<mark>big-news</mark>"),
    ):
        page = ann.post("/settings/rules", {"query": query, "read": "1", "do": "preview"}).text
        assert shown in page.partition('id="preview"')[2], query
        assert page.partition('id="preview"')[2].count("<mark>") == 1
    monkeypatch.setattr(highlight, "PATTERN_SECONDS", -1.0)
    page = ann.post("/settings/rules", {"query": "/qu?i/", "read": "1", "do": "preview"}).text
    assert "Chess &amp; more" in page
    assert "<mark>" not in page


def test_lists_leave_out_hidden_entries_and_show_highlighted_ones(
    ann: Visitor, actor: Actor, services: Services
) -> None:
    feed_id = subscribe(services, actor)
    services.rules.save(actor, Rule(0, "", "advert", hide=True))
    services.rules.save(actor, Rule(0, "", "chess", highlight=True))
    bring(services, feed_id, "An advert", "Chess", "Else", url=URL)
    services.rule_runner.run(clock.now(), seconds=30)
    services.indexing.run(clock.now(), seconds=30)
    page = BeautifulSoup(ann.get(f"/read/feed/{feed_id}").text, "lxml")
    rows = [row.text.strip() for row in page.select(".rows h2")]
    assert sorted(rows) == ["Unread: Else", "Unread: Highlighted: Chess"]
    assert [row.text.strip() for row in page.select(".row.lit h2")] == ["Unread: Highlighted: Chess"]
    found = BeautifulSoup(ann.get("/search?q=advert", follow_redirects=True).text, "lxml")
    assert len(found.select(".rows h2")) == 1


def _show(visitor: Visitor, path: str) -> BeautifulSoup:
    return BeautifulSoup(visitor.get(path).text, "lxml")


def _name_rows(page: BeautifulSoup) -> dict[str, str]:
    """Return title → what the sign of a highlighted row says."""
    return {
        row.select_one("h2").text.rpartition(": ")[2].strip(): row.select_one(".why")["title"]
        for row in page.select(".row.lit")
    }


def test_a_highlighted_entry_names_its_rule(ann: Visitor, actor: Actor, services: Services) -> None:
    feed_id = subscribe(services, actor)
    first = services.rules.save(actor, Rule(0, "Games", "title:chess", highlight=True))
    second = services.rules.save(actor, Rule(0, "Cups", "football", (feed_id,), highlight=True))
    bring(services, feed_id, "Chess", "Football", "Else", url=URL)
    services.rule_runner.run(clock.now(), seconds=30)
    page = _show(ann, f"/read/feed/{feed_id}")
    assert _name_rows(page) == {"Chess": "Highlighted by “Games”", "Football": "Highlighted by “Cups”"}
    [entry] = [row["data-id"] for row in page.select(".row.lit") if "Chess" in row.text]
    path = f"/read/feed/{feed_id}?entry={entry}"
    for headers in ({}, {"HX-Request": "true", "HX-Target": "section#article"}):
        article = BeautifulSoup(ann.get(path, headers=headers).text, "lxml")
        line = article.select_one(".article .why")
        assert line.text.strip() == "Highlighted by the rule Games"
        assert line.a["href"] == f"/settings/rules/{first.id}"
    # What a rule looks for now says nothing about then, and no condition is tried again.
    services.rules.save(actor, dataclasses.replace(first, query="zebra", highlight=False, read=True))
    services.rules.save(actor, dataclasses.replace(second, query="chess"))
    assert _name_rows(_show(ann, f"/read/feed/{feed_id}")) == _name_rows(page)
    services.rules.delete(actor, first.id)
    assert _name_rows(_show(ann, f"/read/feed/{feed_id}")) == {
        "Chess": "Highlighted by a rule that you have deleted",
        "Football": "Highlighted by “Cups”",
    }
    line = _show(ann, path).select_one(".article .why")
    assert (line.text.strip(), line.a) == ("Highlighted by a rule that you have deleted", None)


def test_the_name_is_that_of_the_rule_that_decided(ann: Visitor, actor: Actor, services: Services) -> None:
    url = "https://site.example/far"
    feed_id = services.subscriptions.subscribe(actor, url).subscription.feed_id
    rows = [
        ("Tagger", "title:snake", {"tag": "x"}),
        ("Ads", "title:snake -sponsored", {}),
        ("Brief", "title:snake -longer:300", {}),
        ("No tag", "title:snake -tag:x", {}),
        ("Tagged", "tag:x", {}),
        ("Snakes", "title:snake", {}),
    ]
    for name, query, more in rows:
        services.rules.save(actor, Rule(0, name, query, **{"highlight": not more, **more}))
    text = "<p>" + "Much is said before. " * 60 + "It is sponsored.</p>"
    pull(services, [feed_id], {url: rss("Far", [("Snake", text)])})
    services.rule_runner.run(clock.now(), seconds=30)
    page = _show(ann, f"/read/feed/{feed_id}")
    assert _name_rows(page) == {"Snake": "Highlighted by “Tagged”"}
    entry = page.select_one(".row.lit")["data-id"]
    article = _show(ann, f"/read/feed/{feed_id}?entry={entry}")
    assert article.select_one(".article .why").text.strip() == "Highlighted by the rule Tagged"


def test_the_page_of_today_names_rules(ann: Visitor, actor: Actor, services: Services) -> None:
    feed_id = subscribe(services, actor)
    services.rules.save(actor, Rule(0, "Games", "title:chess", highlight=True))
    when = format_datetime(clock.now() - dt.timedelta(hours=1)).encode()
    body = rss("One", [("Chess", "<p>Text.</p>")]).replace(b"<guid>", b"<pubDate>%s</pubDate><guid>" % when)
    pull(services, [feed_id], {URL: body})
    services.rule_runner.run(clock.now(), seconds=30)
    assert _name_rows(_show(ann, "/read/today")) == {"Chess": "Highlighted by “Games”"}


def test_the_sign_of_a_highlight_says_a_name_as_it_is(ann: Visitor, actor: Actor, services: Services) -> None:
    feed_id = subscribe(services, actor)
    services.rules.save(actor, Rule(0, 'Q&A "x" <b>', "title:chess", highlight=True))
    bring(services, feed_id, "Chess", url=URL)
    services.rule_runner.run(clock.now(), seconds=30)
    sign = _show(ann, f"/read/feed/{feed_id}").select_one(".row.lit .why")
    label = 'Highlighted by “Q&A "x" <b>”'
    assert (sign["role"], sign["title"], sign["aria-label"]) == ("img", label, label)
    assert sign.svg["aria-hidden"] == "true"


def test_what_was_highlighted_before_rules_were_recorded_names_none(
    ann: Visitor, actor: Actor, services: Services
) -> None:
    feed_id = subscribe(services, actor)
    services.rules.save(actor, Rule(0, "Games", "title:chess", highlight=True))
    bring(services, feed_id, "Chess", url=URL)
    marks = RuleMarks(actor.user_id, feed_id, 0, 0, highlighted=(1,))
    services.mappers.subscriptions.add_rule_marks(marks)
    page = _show(ann, f"/read/feed/{feed_id}")
    assert _name_rows(page) == {"Chess": "Highlighted by a rule"}
    entry = page.select_one(".row.lit")["data-id"]
    line = _show(ann, f"/read/feed/{feed_id}?entry={entry}").select_one(".article .why")
    assert (line.text.strip(), line.a) == ("Highlighted by a rule", None)


def test_rules_travel_as_a_file(ann: Visitor, actor: Actor, services: Services) -> None:
    feed_id = subscribe(services, actor)
    folder = services.folders.create(actor, "News")
    rules = (
        Rule(
            0, "Mine", "football", (feed_id,), (folder.id,), hide=True, full_text=True, tag="sport", stop=True
        ),
        Rule(0, "Off", "chess", star=True, enabled=False),
    )
    saved = [services.rules.save(actor, rule) for rule in rules]
    content = ann.get("/settings/rules/file").data
    for rule in saved:
        services.rules.delete(actor, rule.id)
    answer = ann.post("/settings/rules/file", {"file": (io.BytesIO(content), "rules.json")})
    assert answer.status_code == 303
    found = services.rules.list_rules(actor).rules
    assert [dataclasses.replace(rule, id=0) for rule in found] == list(rules)


@pytest.mark.parametrize(
    "content", [b"[]", b"{}", b"x", b'{"kind": "eventr-rules", "rules": [{"condition": 1}]}']
)
def test_another_file_is_refused(ann: Visitor, actor: Actor, services: Services, content: bytes) -> None:
    answer = ann.post("/settings/rules/file", {"file": (io.BytesIO(content), "rules.json")})
    assert answer.status_code == 400
    assert "This isn&#39;t a file of rules." in answer.text
    assert _rule_ids(services, actor) == []


def test_a_rule_of_unknown_feeds_is_left_out(actor: Actor, services: Services) -> None:
    row = {"name": "", "condition": "x", "actions": ["hide"], "feeds": ["https://unknown.example/"]}
    content = json.dumps({"kind": "eventr-rules", "version": 1, "rules": [row]}).encode()
    assert services.rules.import_rules(actor, content) == (0, 1)
    assert _rule_ids(services, actor) == []


def test_an_entry_suggests_conditions(ann: Visitor, actor: Actor, services: Services, db: Any) -> None:
    feed_id = subscribe(services, actor)
    bring(services, feed_id, "Sponsored football news")
    entry = db.entries.find_one({"feed_id": feed_id})
    page = BeautifulSoup(ann.get(f"/settings/rules/new?entry={entry['_id']}&do=hide").text, "lxml")
    links = [link.text for link in page.select(".section a code")]
    assert links == ["title:sponsored", "title:football", 'feed:"One"']
    switch, field = page.select_one("#s-hide[checked]"), page.select_one("#f-query")
    assert switch is not None
    assert field is not None
    assert field["value"] == "title:sponsored"


def test_a_run_over_past_entries_shows_its_progress_and_is_undone(
    ann: Visitor, actor: Actor, services: Services
) -> None:
    feed_id = subscribe(services, actor)
    bring(services, feed_id, "football", "chess")
    services.indexing.run(clock.now(), seconds=30)
    rule = services.rules.save(actor, Rule(0, "", "football", read=True))
    assert ann.post(f"/settings/rules/{rule.id}/run").status_code == 303
    assert ann.post(f"/settings/rules/{rule.id}/run").status_code == 409
    part = BeautifulSoup(ann.get("/settings/rules/run").text, "lxml")
    assert "0 of 1 feeds checked" in part.text
    bar = part.select_one("progress")
    assert bar is not None
    assert (bar["value"], bar["max"]) == ("0", "1")
    assert [button.text.strip() for button in part.select("button")] == ["Stop and undo"]
    run = services.rule_runs.find_run(actor)
    assert run is not None
    services.rule_runs.continue_run(actor.user_id, run.id, seconds=30)
    done = BeautifulSoup(ann.get("/settings/rules/run").text, "lxml")
    assert "1 entry changed" in done.text
    assert [button.text.strip() for button in done.select("button, progress")] == ["Undo"]
    assert ann.post("/settings/rules/run/undo", {"run": run.id}).status_code == 303
    assert "Undoing…" in ann.get("/settings/rules").text
    services.rule_runs.continue_run(actor.user_id, run.id, seconds=30)
    assert "Undone" in ann.get("/settings/rules").text
