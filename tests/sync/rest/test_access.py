"""Who may do what with which token: each operation, each scope, each other's thing (W04)."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from app import clock
from app.bootstrap.services import Services
from app.models.accounts.actor import Actor
from app.models.accounts.token import Scope
from app.models.feeds.feed import FetchRecord
from app.models.sharing.sharing import Audience
from app.web.api.rest import openapi, shapes
from app.web.api.rest.table import OPERATIONS, Operation
from tests.sharing.conftest import People
from tests.support.fetches import record_fetches
from tests.support.importing import pulled, reading
from tests.sync.rest.conftest import ALL, Program
from tests.sync.rest.world import World, join, world

Make = Callable[..., Program]
_PERSONAL = (
    *("subscriptions", "folders", "marks", "tags", "searches", "imports", "import_parts", "readstates"),
    *("shares", "likes", "comments", "notifications", "reports", "ties"),
)
#: Parts of a path that are nobody's own.
_COMMON = {"stream", "name", "slug", "discovery_id", "page_id"}
#: To end what is gone already is no error; it looks done and changes nothing.
#: A position in a recording is the caller's own, whatever entry it names.
_SILENT = {"deleteSearch", "savePosition"}


@pytest.fixture(scope="session")
def paths() -> dict[str, Any]:
    return dict(json.loads(openapi.build_document())["paths"])


def _sent(caller: Program, each: Operation, w: World, paths: dict[str, Any]) -> Any:
    path = each.path
    for name in each.path_fields:
        path = path.replace(f"{{{name}}}", str(w.of(shapes.PARTS[name][1])))
    said = paths[each.path][each.method.lower()]
    body = said["requestBody"]["content"]["application/json"]["example"] if each.body else None
    return caller.send(each.method, path, **({} if body is None else {"json": w.of(body)}))


def test_W04_W08_without_its_scope_nothing_is_done(
    people: People, program: Make, paths: dict[str, Any], services: Any
) -> None:
    w = world(people, 1)
    database = services.store.database
    programs = {scope: program(w.who, *(s for s in ALL if s != scope)) for scope in Scope}
    before = {name: list(database[name].find()) for name in _PERSONAL}
    for each in OPERATIONS:
        if each.scope is None:
            continue
        answer = _sent(programs[each.scope], each, w, paths)
        assert answer.status_code == 403, (each.name, answer.text)
        assert answer.get_json()["scope"] == each.scope.value, each.name
    assert {name: list(database[name].find()) for name in _PERSONAL} == before


def test_W04_what_is_anothers_is_not_there(
    people: People, program: Make, paths: dict[str, Any], services: Any
) -> None:
    w = world(people, 1)
    people.open(w.who, Audience.PRIVATE)
    eve = program(join(people, "eve"))
    database = services.store.database
    before = {name: list(database[name].find()) for name in _PERSONAL}
    for each in OPERATIONS:
        if set(each.path_fields) - _COMMON:
            answer = _sent(eve, each, w, paths)
            assert answer.status_code == (200 if each.name in _SILENT else 404), (each.name, answer.text)
            assert "blog1" not in answer.text, each.name
    assert {name: list(database[name].find()) for name in _PERSONAL} == before


def test_W04_what_is_anothers_cannot_be_named_in_a_body_either(
    people: People, program: Make, services: Any
) -> None:
    w = world(people, 1)
    eve = program(join(people, "eve"))
    real = w.real
    feed, folder, entry = real[shapes.FEED], real[shapes.FOLDER], real[shapes.ENTRY]
    mine = eve.post("/subscriptions", {"url": "https://own.example.org/feed"}).get_json()["feed_id"]
    own = eve.post("/folders", {"name": "Mine"}).get_json()["id"]
    tries: list[tuple[str, str, Any]] = [
        ("POST", "/subscriptions", {"url": "https://a.example.org/feed", "folder_id": folder}),
        ("PATCH", f"/subscriptions/{mine}", {"folder_ids": [folder]}),
        ("POST", f"/subscriptions/{mine}/move", {"target": folder}),
        ("POST", "/subscriptions/bulk", {"feed_ids": [mine], "do": "add", "folder_id": folder}),
        ("POST", "/folders", {"name": "In", "parent": folder}),
        ("POST", f"/folders/{own}/move", {"parent": folder}),
        ("POST", "/entries/mark", {"ids": [entry], "read": False}),
        ("POST", "/undo", {"undo": real[shapes.UNDO]}),
        ("POST", f"/streams/feed:{feed}/mark-all-read", {}),
        ("POST", "/streams/all/mark-all-read", {"snapshot": real[shapes.SNAPSHOT]}),
        ("POST", "/notifications/mark-read", {"ref": f"feed.{feed}"}),
    ]
    for method, path, body in tries:
        assert eve.send(method, path, json=body).status_code == 404, path
    for stream in (f"feed:{feed}", f"folder:{folder}", f"tag:{real[shapes.TAG]}"):
        assert eve.get(f"/streams/{stream}/entries").status_code == 404
    (folders,) = (eve.get("/folders").get_json()["items"],)
    assert [each["name"] for each in folders] == ["Mine"]
    bulk = eve.post("/subscriptions/bulk", {"feed_ids": [feed], "do": "unsubscribe"}).get_json()
    assert bulk["count"] == 0
    assert services.subscriptions.get(w.who, feed).feed_id == feed


def test_W14_W15_no_body_takes_a_field_or_an_operator_that_is_not_its_own(
    people: People, program: Make, paths: dict[str, Any], services: Any
) -> None:
    w = world(people, 1)
    mine, database = program(w.who), services.store.database
    before = {name: list(database[name].find()) for name in (*_PERSONAL, "users", "profiles")}
    count = 0
    for each in OPERATIONS:
        if each.body is None:
            continue
        path = each.path
        for name in each.path_fields:
            path = path.replace(f"{{{name}}}", str(w.of(shapes.PARTS[name][1])))
        media = paths[each.path][each.method.lower()]["requestBody"]["content"]
        body = w.of(media["application/json"]["example"])
        foreign = ("is_admin", "role", "quota", "_id", "user_id", "$set")
        tries = [({**body, name: 1}, name) for name in foreign]
        fields = [field.name for field in msgspec.structs.fields(each.body)]
        tries += [({**body, name: {"$ne": None}}, name) for name in fields]
        tries += [({**body, f"{name}[$ne]": ""}, f"{name}[$ne]") for name in fields]
        for sent, field in tries:
            answer = mine.send(each.method, path, json=sent)
            told = answer.get_json().get("field")
            # A field with fields of its own names the one within.
            assert answer.status_code == 400, (each.name, sent)
            assert told in (field, f"{field}.$ne", f"{field}[...]"), (each.name, sent)
            count += 1
    assert count > 300
    after = {name: list(database[name].find()) for name in before}
    assert after == before


def test_S13_what_listens_where_is_told_to_nobody(people: People, program: Make, services: Any) -> None:
    who = join(people, "ann")
    mine = program(who)
    answers = set()
    for number, (word, ms) in enumerate((("refused", 0), ("connect_failed", 1), ("timeout", 5003))):
        made = mine.post("/subscriptions", {"url": f"http://10.0.0.{number}/feed"}).get_json()
        feed_id = made["feed_id"]
        services.store.database["feeds"].update_one({"_id": feed_id}, {"$set": {"error": word}})
        at = dt.datetime(2026, 1, 2, tzinfo=dt.UTC)
        record_fetches(services, [FetchRecord(feed_id, at, 0, ms, ms, error=word)])
        health = mine.get(f"/subscriptions/{feed_id}/health").get_json()
        row = mine.get(f"/subscriptions/{feed_id}").get_json()
        told = (health["error"], health["message"], row["error"], row["message"], health["fetches"])
        answers.add(json.dumps(told))
    assert len(answers) == 1
    assert '"unreachable"' in answers.pop()


def test_a_file_of_subscriptions_is_taken_as_it_is(people: People, program: Make, services: Any) -> None:
    mine = program(join(people, "ann"))
    most = services.settings.api_max_bytes
    rows = "".join(
        f'<outline type="rss" text="Caf\xe9 {n}" xmlUrl="https://s{n}.example.org/{"x" * 1000}"/>'
        for n in range(most // 1000)
    )
    text = f'<?xml version="1.0" encoding="ISO-8859-1"?><opml version="2.0"><body>{rows}</body></opml>'
    sent = text.encode("latin-1")
    assert most < len(sent) < services.settings.opml_max_bytes
    made = mine.send("POST", "/imports", data=sent, content_type="text/x-opml")
    assert made.status_code == 201, made.text
    page = mine.get(f"/imports/{made.get_json()['id']}/items").get_json()
    assert (page["items"][0]["title"], len(page["items"]), page["next"]) == ("Café 0", 500, "1")
    last = mine.get(f"/imports/{made.get_json()['id']}/items?cursor=2").get_json()
    assert (last["items"][-1]["title"], last["next"]) == (f"Café {most // 1000 - 1}", None)
    long = b"x" * (services.settings.opml_max_bytes + 1)
    assert mine.send("POST", "/imports", data=long, content_type="text/x-opml").status_code == 413
    assert mine.send("POST", "/imports", data=b"no", content_type="text/x-opml").status_code == 400


def test_a_silent_server_is_tried_at_once(services: Services, ann: Actor, mine: Program) -> None:
    waiting = reading(services, ann)
    for _ in range(2):
        answer = mine.post(f"/imports/{waiting.id}/try")
        assert (answer.status_code, answer.get_json()["state"]) == (202, "reading")
        pull = services.imports.get(ann, waiting.id).pull
        assert pull
        assert not pull.is_waiting(clock.now())
        assert pull.failures == 0
    read = pulled(services, ann)
    assert mine.post(f"/imports/{read.id}/try").status_code == 409
