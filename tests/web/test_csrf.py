"""Forged requests: W03; and that looking changes nothing."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator
from typing import Any

import bson
import pytest
from flask import Flask
from werkzeug.routing import Rule

from app.bootstrap.services import Services
from app.web.security import csrf
from tests.support.reader import follow
from tests.web.conftest import ORIGIN, Visitor, is_for_apps

Make = Callable[[], Visitor]
#: Routes that other servers call: no cookie counts there, so no request can be forged with one. What they
#: answer to nonsense; there is no hub where others cannot reach it.
FOR_PROGRAMS = {"websub.push": 410, "hub.submit_request": 404, "check.probe_body": 200}

#: Methods that change anything; uploads are sent with more than POST.
CHANGING = {"POST", "PATCH", "DELETE"}


def rules(app: Flask, method: str) -> Iterator[tuple[Rule, str]]:
    """Yield each route that takes a method, with an address that fits it."""
    examples = {"stream_id": 17, "feed_id": 17, "entry_id": 17, "folder_id": 17, "name": "x", "kind": "all"}
    examples |= {
        "token": "x" * 43,
        "user_id": 17,
        "job_id": "x",
        "tag_id": 17,
        "search_id": 17,
        "list_id": 17,
        "target_id": 18,
    }
    examples |= {"rule_id": 17}
    examples |= {"import_id": 17, "slug": "science", "share_id": 17, "comment_id": 17}
    examples |= {"export_id": "0" * 32, "upload_id": "0" * 32, "file_id": 17}
    examples |= {"export_id": "0" * 32}
    examples |= {"size": "w640", "signature": "x", "data": "x", "handle": "x", "secret": "x"}
    for rule in app.url_map.iter_rules():
        if method in (rule.methods or ()) and not is_for_apps(rule.endpoint):
            given = dict(rule.defaults or {})
            values = {name: examples[name] for name in rule.arguments if name not in ("act", *given)}
            if "stream_id" in rule.arguments:
                values["kind"] = "feed" if "(feed" in rule.rule else "search"
            if "act" in rule.arguments:
                values["act"] = re.search(r"any\((\w+)", rule.rule)[1]  # type: ignore[index]
            built = rule.build({**values, **given}, append_unknown=False)
            assert built is not None
            yield rule, built[1]


def test_W03_every_changing_route_refuses_forged_requests(app: Flask, ann: Visitor, visitor: Make) -> None:
    foreign = visitor().token()
    good = ann.token("/add")
    tries: list[tuple[dict[str, str], dict[str, str]]] = [
        (ORIGIN, {}),
        (ORIGIN, {"csrf_token": ""}),
        (ORIGIN, {"csrf_token": foreign}),
        (ORIGIN, {"csrf_token": good[:-4] + "AAAA"}),
        (ORIGIN, {"csrf_token": "ü"}),
        ({"Sec-Fetch-Site": "cross-site"}, {"csrf_token": good}),
        ({"Sec-Fetch-Site": "same-site"}, {"csrf_token": good}),
        ({"Origin": "http://evil.example"}, {"csrf_token": good}),
        ({"Origin": "http://localhost:1"}, {"csrf_token": good}),
        ({"Origin": "null"}, {"csrf_token": good}),
        ({}, {"csrf_token": good}),
    ]
    let_in = [
        (path, headers, form)
        for method in sorted(CHANGING)
        for rule, path in rules(app, method)
        for headers, form in tries
        if rule.endpoint not in FOR_PROGRAMS
        if ann.client.open(path, method=method, data=form, headers=headers).status_code != 403
    ]
    assert let_in == []
    rest = [rule for rule in app.url_map.iter_rules() if not is_for_apps(rule.endpoint)]
    changing = {m for rule in rest for m in rule.methods or ()} - csrf.SAFE_METHODS
    assert changing == CHANGING


@pytest.mark.parametrize("headers", [ORIGIN, {"Sec-Fetch-Site": "none"}, {"Origin": "http://localhost"}])
def test_W03_our_own_forms_pass(ann: Visitor, headers: dict[str, str]) -> None:
    form = {"csrf_token": ann.token("/add"), "theme": "dark"}
    assert ann.client.post("/settings/theme", data=form, headers=headers).status_code == 303


def test_W03_what_needs_no_token_looks_at_no_cookie(app: Flask, ann: Visitor) -> None:
    views = {name for name, view in app.view_functions.items() if getattr(view, "for_programs", False)}
    assert {name for name in app.view_functions if is_for_apps(name)} <= views
    views = {name for name in views if not is_for_apps(name)}
    # Probes of the proxy: each says whether something came, and looks nothing up.
    probes = {name for name in views if name.startswith("check.")} - {"check.probe_body"}
    assert views - probes == {
        *FOR_PROGRAMS,
        "websub.confirm",
        "sharedfeeds.serve_atom",
        "sharedfeeds.serve_json_feed",
        "stream_feeds.serve_atom",
        "stream_feeds.serve_json_feed",
    }
    for rule, path in rules(app, "POST"):
        if rule.endpoint in FOR_PROGRAMS:
            answer = ann.client.post(path, data=b"x", headers=ORIGIN)
            assert (answer.status_code, "Set-Cookie" in answer.headers) == (
                FOR_PROGRAMS[rule.endpoint],
                False,
            )


def test_W03_a_script_sends_the_token_as_a_header(ann: Visitor) -> None:
    headers = {**ORIGIN, "X-CSRF-Token": ann.token("/add")}
    assert ann.client.post("/settings/theme", data={"theme": "dark"}, headers=headers).status_code == 303


def test_W03_logging_in_needs_a_token_too(visitor: Make) -> None:
    client = visitor().client
    assert client.post("/login", data={"login": "a", "password": "b"}, headers=ORIGIN).status_code == 403


def test_an_old_page_leads_back_to_its_form(ann: Visitor, visitor: Make) -> None:
    """If another page has the form, only the home page is offered."""
    stranger = visitor()
    stranger.token("/login")
    old = stranger.client.post("/login", data={"csrf_token": "x", "login": "ann"}, headers=ORIGIN)
    assert old.status_code == 403
    assert '<a class="btn wide primary" href="/login">Open the form again</a>' in old.text
    assert "What you typed wasn" in old.text
    elsewhere = ann.client.post("/entries/mark", data={"csrf_token": "x"}, headers=ORIGIN)
    assert elsewhere.status_code == 403
    assert "Open the form again" not in elsewhere.text
    assert "Go back, reload that page" in elsewhere.text
    assert '<a class="btn wide primary" href="/">Go to your entries</a>' in elsewhere.text


def test_W03_each_page_has_another_token_for_the_same_session(ann: Visitor) -> None:
    tokens = {ann.token("/add") for _ in range(3)}
    assert len(tokens) == 3
    assert all(ann.client.post("/settings/theme", data={"csrf_token": t, "theme": "dark"}, headers=ORIGIN)
               .status_code == 303 for t in tokens)  # fmt: skip


def _digest(database: Any) -> str:
    whole = hashlib.sha256()
    for name in sorted(database.list_collection_names()):
        for document in database[name].find().sort("_id"):
            # Opening a list keeps what it looked like for a day (ux.md §1.3), and has its pictures fetched;
            # an opened entry is noted in "Recently read", as a browser notes a page. Nothing else changes.
            if name not in ("snapshots", "sources", "recentreads"):
                whole.update(bson.encode({"in": name, "doc": document}))
    return whole.hexdigest()


def test_W03_looking_changes_no_document(app: Flask, services: Services, ann: Visitor, db: Any) -> None:
    user = services.mappers.users.find_credentials("ann")
    assert user is not None
    (feed_id,) = follow(services, user.user.actor, ["feeds/rss/zerokspot.com-71d236.xml"])
    entry = db.entries.find_one({"feed_id": feed_id})["_id"]
    before = _digest(db)
    paths = {path.replace("17", str(feed_id)) for _, path in rules(app, "GET")}
    paths |= {f"/read/all?entry={entry}", f"/entries/{entry}", "/read/all?sort=oldest"}
    for path in sorted(paths):
        for headers in ({}, {"HX-Request": "true", "HX-Target": "section#article"}):
            assert ann.get(path, headers=headers).status_code < 500, path
    assert _digest(db) == before


def test_whose_session_has_ended_is_told_to_log_in(ann: Visitor) -> None:
    """Not that the page is old: a change that waits in the browser is kept for who logs in again."""
    token = {"csrf_token": ann.token("/add")}
    assert ann.client.post("/logout", data=token, headers=ORIGIN).status_code == 303
    form = {**token, "entry": "17", "read": "1"}
    wish = {**ORIGIN, "Accept": "application/json"}
    answer = ann.client.post("/entries/mark", data=form, headers=wish)
    assert (answer.status_code, answer.json["error"]) == (401, "auth_required")
    foreign = ann.client.post("/entries/mark", data=form, headers={"Sec-Fetch-Site": "cross-site"})
    assert foreign.status_code == 403
    page = {"HX-Request": "true", "HX-Target": "section#article"}
    there = "http://localhost/read/all?entry=17"
    sent = ann.client.get("/read/all?entry=17", headers={**page, "HX-Current-URL": there})
    assert sent.headers["HX-Redirect"] == "/login?next=/read/all%3Fentry%3D17"
    assert ann.client.get("/read/all", headers=page).headers["HX-Redirect"] == "/login"


@pytest.mark.parametrize("there", ["http://[", "http://localhost//evil.example/x", "alert(1)", "//evil", "é"])
def test_W09_a_page_that_is_none_of_ours_is_not_come_back_to(visitor: Make, there: str) -> None:
    headers = {"HX-Request": "true", "HX-Current-URL": there}
    sent = visitor().client.get("/read/all", headers=headers)
    assert (sent.status_code, sent.headers["HX-Redirect"]) == (401, "/login")
