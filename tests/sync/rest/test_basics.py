"""Who comes, what is refused and how it is said: tokens, problems, sizes, preflights."""

from __future__ import annotations

import contextlib
import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from flask import Flask

from app import create_app
from app.bootstrap import services as bootstrap
from app.bootstrap.services import Services
from app.config import Settings
from app.models.accounts.actor import Actor
from app.web.api.rest.reading import DEPTH
from tests.sharing.conftest import People
from tests.support.reader import add_user
from tests.sync.rest.conftest import Program, token_for
from tests.web.conftest import Visitor

Make = Callable[..., Program]


def test_a_token_says_whose_it_is(mine: Program, ann: Actor) -> None:
    answer = mine.get("/me")
    assert answer.status_code == 200
    assert answer.get_json()["id"] == ann.user_id
    assert answer.get_json()["scopes"] == ["read", "mark", "subscribe", "share", "settings", "files"]
    assert answer.content_type == "application/json"


@pytest.mark.parametrize(
    "header",
    [
        None,
        "",
        "Bearer",
        "Bearer x",
        "Basic YTpi",
        "Bearer evt_" + "x" * 43,
        "Bearer evt_" + "x" * 44,
        "evt_" + "x" * 43,
        "Bearer evt_ü",
    ],
)
def test_W08_without_a_token_there_is_nothing(app: Flask, header: str | None) -> None:
    headers = {} if header is None else {"Authorization": header}
    answer = app.test_client().get("/api/v1/me", headers=headers)
    assert answer.status_code == 401
    assert answer.content_type == "application/problem+json"
    assert answer.headers["WWW-Authenticate"].startswith("Bearer")
    assert answer.get_json()["word"] == "auth_required"


def test_W03_cookies_never_count(app: Flask, services: Services) -> None:
    add_user(services, "bob")
    browser = Visitor(app.test_client())
    assert browser.log_in("bob").status_code == 303
    assert browser.get("/api/v1/me").status_code == 401
    answer = browser.client.post("/api/v1/folders", json={"name": "x"})
    assert (answer.status_code, answer.get_json()["word"]) == (401, "auth_required")
    assert browser.client.post("/api/v1/nothing", json={}).status_code == 404
    assert "Set-Cookie" not in answer.headers
    assert not list(services.store.database["folders"].find())


def test_W08_a_token_in_the_address_is_refused(app: Flask, mine: Program) -> None:
    for name in ("token", "access_token"):
        assert app.test_client().get(f"/api/v1/me?{name}={mine.secret}").status_code == 401
        answer = mine.get(f"/me?{name}={mine.secret}")
        assert (answer.status_code, answer.get_json()["field"]) == (400, name)
        assert mine.secret not in answer.text


def test_W08_a_revoked_token_opens_nothing_at_once(mine: Program, ann: Actor, services: Services) -> None:
    (token,) = services.tokens.list_tokens(ann)
    assert mine.get("/me").status_code == 200
    services.tokens.revoke(ann, token.id)
    assert mine.get("/me").status_code == 401


def test_V14_no_token_and_nothing_that_was_sent_is_logged(
    mine: Program, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level("DEBUG", logger="app")
    headers = {"Idempotency-Key": "canary-key"}
    mine.post("/folders", {"name": "canary-name", "canary-field": 1}, headers=headers)
    mine.post("/folders", {"name": "canary-name"}, headers=headers)
    mine.get(f"/me?token={mine.secret}")
    mine.get("/streams/search/entries?q=canary-words")
    mine.post("/subscriptions", {"url": "canary-url"})
    Program(mine.client.application, mine.secret[:-1] + "x").get("/me")
    out = capfd.readouterr()
    ours = [str(record.__dict__) for record in caplog.records if record.name.startswith("app.")]
    assert ours
    written = "".join([*ours, out.out, out.err])
    for canary in (mine.secret, mine.secret[:-1], "canary-key", "canary-name", "canary-words"):
        assert canary not in written


def test_W04_who_is_suspended_has_no_programs_either(mine: Program, ann: Actor, services: Services) -> None:
    assert mine.get("/me").status_code == 200
    services.store.database["users"].update_one({"_id": ann.user_id}, {"$set": {"disabled": True}})
    assert mine.get("/me").status_code == 401


def test_a_lacking_scope_is_named(program: Make, ann: Actor) -> None:
    reader = program(ann, "read")
    answer = reader.post("/folders", {"name": "x"})
    assert answer.status_code == 403
    assert answer.get_json()["scope"] == "subscribe"
    assert 'scope="subscribe"' in answer.headers["WWW-Authenticate"]
    # What a token may take back is known by the services alone.
    answer = reader.post("/undo", {"undo": "folder.x"})
    assert (answer.status_code, answer.get_json()["scope"]) == (403, "subscribe")
    answer = reader.post("/undo", {"undo": "keys.x"})
    assert (answer.status_code, answer.get_json()["scope"]) == (403, "settings")


def test_nothing_has_no_type(mine: Program) -> None:
    done = mine.post("/notifications/mark-read", {})
    assert (done.status_code, done.data, done.headers.get("Content-Type")) == (204, b"", None)


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/nothing", 404),
        ("PUT", "/folders", 405),
        ("TRACE", "/me", 405),
        ("POST", "/nothing", 404),
    ],
)
def test_unknown_addresses_are_problems_too(mine: Program, method: str, path: str, status: int) -> None:
    answer = mine.send(method, path)
    assert (answer.status_code, answer.content_type) == (status, "application/problem+json")
    body = answer.get_json()
    assert body["word"] == f"http_{status}"
    assert body["status"] == status
    assert body["type"] == f"/api/docs#error-http_{status}"
    assert answer.headers["Access-Control-Allow-Origin"] == "*"
    assert (status == 405) == ("Allow" in answer.headers)


def test_a_fault_of_ours_is_a_problem_and_tells_nothing(services: Services, ann: Actor) -> None:
    app = create_app(services.settings, services)
    view = app.view_functions["rest.getMe"]

    def fault(**_: Any) -> str:
        raise RuntimeError("canary")

    fault.for_programs = view.for_programs  # type: ignore[attr-defined]
    app.view_functions["rest.getMe"] = fault
    answer = app.test_client().get("/api/v1/me")
    assert (answer.status_code, answer.content_type) == (500, "application/problem+json")
    assert "canary" not in answer.text


def test_sentences_come_in_the_language_that_is_asked_for(mine: Program) -> None:
    said = mine.get("/folders/17", headers={"Accept-Language": "de"}).get_json()
    assert said["word"] == "not_found"
    assert "gibt es nicht" in said["detail"].lower()


@pytest.mark.parametrize("part", ["x", "0", "017", "-1", "1.5", "9" * 20, "9" * 5000, "%31x", "1%00", "٣"])
def test_W15_what_is_no_id_is_not_there(mine: Program, part: str) -> None:
    for method in ("GET", "DELETE"):
        answer = mine.send(method, f"/folders/{part}")
        assert (answer.status_code, answer.get_json()["word"]) == (404, "not_found")


# -- what is sent
@pytest.mark.parametrize(
    ("sent", "field"),
    [
        ('{"name": "x", "is_admin": true}', "is_admin"),
        ('{"name": "x", "$set": {}}', "$set"),
        ('{"name": {"$ne": null}}', "name"),
        ('{"name": ["x"]}', "name"),
        ('{"name": 17}', "name"),
        ('{"name": null}', "name"),
        ('{"name": ""}', "name"),
        ('{"name": "x", "name": "y"}', "name"),
        ('{"name": "x", "parent": "17"}', "parent"),
        ('{"name": "x", "parent": 1.5}', "parent"),
        ('{"name": "x", "parent": 9007199254740993}', "parent"),
        ('{"name": "x", "parent": -1}', "parent"),
        ("{}", "name"),
        ("", "name"),
        (json.dumps({"name": "x" * 129}), "name"),
    ],
)
def test_W14_W15_what_does_not_fit_is_refused_by_name(mine: Program, sent: str, field: str) -> None:
    answer = mine.send("POST", "/folders", data=sent, content_type="application/json")
    assert answer.status_code == 400, answer.text
    assert answer.get_json()["word"] == "invalid"
    assert answer.get_json()["field"] == field


@pytest.mark.parametrize(
    "sent",
    [
        "[]",
        "17",
        "null",
        "{",
        '{"name": NaN}',
        '{"name": 1e999}',
        b'{"name": "\xff"}',
        '{"name": "\\ud800"}',
        '{"name": "a\\u0000b"}',
        '{"\\ud800": 1}',
        '{"name": ' + "1" * 5000 + "}",
    ],
)
def test_W15_what_is_no_json_text_is_refused(mine: Program, sent: str | bytes) -> None:
    answer = mine.send("POST", "/folders", data=sent, content_type="application/json")
    assert answer.status_code == 400, answer.text


@pytest.mark.parametrize("depth", [DEPTH + 1, 2000, 200_000])
def test_W16_what_is_nested_too_deeply_is_refused(mine: Program, depth: int) -> None:
    sent = '{"name":' + "[" * depth + "]" * depth + "}"
    answer = mine.send("POST", "/folders", data=sent, content_type="application/json")
    assert answer.status_code == 400
    assert str(DEPTH) in answer.get_json()["detail"]


def test_W16_bodies_have_a_limit_and_a_length(mine: Program, services: Services) -> None:
    most = services.settings.api_max_bytes
    sent = json.dumps({"name": "x" * most})
    assert mine.send("POST", "/folders", data=sent, content_type="application/json").status_code == 413
    for header in ({"Transfer-Encoding": "chunked"},):
        answer = mine.send("POST", "/folders", data="{}", content_type="application/json", headers=header)
        assert (answer.status_code, answer.get_json()["word"]) == (411, "http_411")


def test_a_body_has_the_type_that_is_asked_for(mine: Program) -> None:
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data"):
        answer = mine.send("POST", "/folders", data='{"name": "x"}', content_type=kind)
        assert (answer.status_code, answer.content_type) == (415, "application/problem+json")


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("limit=0", "limit"),
        ("limit=x", "limit"),
        ("limit=", "limit"),
        ("limit=1&limit=2", "limit"),
        ("sort=best", "sort"),
        ("more=1", "more"),
        ("cursor=!", "cursor"),
        ("cursor=YQ==", "cursor"),
        ("cursor=YSBi", "cursor"),
        ("q=x", "q"),
        ("sort[$ne]=x", None),
    ],
)
def test_W15_queries_are_as_strict(mine: Program, query: str, field: str | None) -> None:
    answer = mine.get(f"/streams/all/entries?{query}")
    assert answer.status_code in (400, 404), answer.text
    if answer.status_code == 400 and field:
        assert answer.get_json()["field"] == field


# -- pages of other sites
def test_any_page_may_ask_and_no_cookie_goes_along(app: Flask, mine: Program) -> None:
    asked = {"Origin": "https://other.example", "Access-Control-Request-Method": "PATCH"}
    answer = app.test_client().options("/api/v1/folders/17", headers=asked)
    assert (answer.status_code, answer.data) == (204, b"")
    assert answer.headers["Access-Control-Allow-Origin"] == "*"
    assert "Authorization" in answer.headers["Access-Control-Allow-Headers"]
    assert {"GET", "PATCH", "DELETE"} <= set(answer.headers["Access-Control-Allow-Methods"].split(", "))
    assert "Access-Control-Allow-Credentials" not in answer.headers
    assert (
        mine.get("/me", headers={"Origin": "https://other.example"}).headers["Access-Control-Allow-Origin"]
        == "*"
    )
    assert "Access-Control-Allow-Origin" not in app.test_client().get("/login").headers


# -- how often
def test_W16_who_asks_too_often_waits(services: Services, ann: Actor) -> None:
    own = dataclasses.replace(services.settings, api_per_minute=3)
    with contextlib.closing(bootstrap.build(own)) as built:
        program = Program(create_app(own, built), token_for(built, ann))
        first = program.get("/me")
        assert first.headers["RateLimit-Policy"] == '"user";q=3;w=60'
        assert first.headers["RateLimit"] in ('"user";r=2;t=60', '"user";r=2;t=59')
        assert program.get("/me").headers["RateLimit"].startswith('"user";r=1;')
        assert program.get("/me").headers["RateLimit"].startswith('"user";r=0;')
        over = program.get("/me")
        assert over.status_code == 429
        assert over.get_json()["retry_after"] == int(over.headers["Retry-After"]) > 0
        assert over.headers["RateLimit"].startswith('"user";r=0;')


def test_a_store_that_does_not_answer_is_a_problem_too(settings: Settings, tmp_path: Path) -> None:
    uri = f"mongodb://{quote(str(tmp_path / 'none.sock'), safe='')}/"
    away = dataclasses.replace(settings, mongodb_uri=uri)
    with contextlib.closing(bootstrap.build(away)) as services:
        answer = Program(create_app(away, services), "evt_" + "x" * 43).get("/me")
    assert (answer.status_code, answer.content_type) == (503, "application/problem+json")
    assert answer.get_json()["word"] == "store_unavailable"
    assert answer.headers["Retry-After"] == "10"
    assert "none.sock" not in answer.text


# -- what one has already
def test_who_has_an_answer_is_not_sent_it_again(mine: Program, people: People, ann: Actor) -> None:
    first = mine.get("/folders")
    tag = first.headers["ETag"]
    again = mine.get("/folders", headers={"If-None-Match": tag})
    assert (again.status_code, again.data) == (304, b"")
    people.services.folders.create(ann, "News")
    assert mine.get("/folders", headers={"If-None-Match": tag}).status_code == 200


def test_nobody_writes_over_what_he_has_not_seen(mine: Program, people: People, ann: Actor) -> None:
    folder = people.services.folders.create(ann, "News")
    at = f"/folders/{folder.id}"
    tag = mine.get(at).headers["ETag"]
    assert mine.patch(at, {"name": "One"}, headers={"If-Match": tag}).status_code == 200
    late = mine.patch(at, {"name": "Two"}, headers={"If-Match": tag})
    assert (late.status_code, late.get_json()["word"]) == (412, "changed")
    assert mine.delete(at, headers={"If-Match": tag}).status_code == 412
    assert mine.get(at).get_json()["name"] == "One"
    assert mine.delete(at, headers={"If-Match": "*"}).status_code == 200
    assert mine.delete(at, headers={"If-Match": "*"}).status_code == 404


def test_people_of_this_server_are_not_searched_for(mine: Program, people: People) -> None:
    people.open(people.join("bob"))
    page = people.services.gateways.profiles.build_page_url("bob")
    for address in ("@bob", page, f"{page}/atom.xml"):
        answer = mine.post("/discoveries", {"address": address})
        assert (answer.status_code, answer.get_json()["field"]) == (400, "address")
        assert answer.get_json()["detail"] == "This person is on this server. Follow them by user name."


def test_feeds_are_found_by_words(mine: Program) -> None:
    (found,) = mine.get("/feeds?q=quanta").get_json()["items"]
    assert (found["title"], found["feed_id"], found["mine"]) == ("Quanta Magazine", None, False)
    assert found["packs"] == ["Science and space"]
    assert mine.get("/feeds").get_json() == {"items": []}
    assert mine.get("/feeds?q=" + "x" * 201).status_code == 400
