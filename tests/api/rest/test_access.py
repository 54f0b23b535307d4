"""Who may do what with which token: each operation, each scope, each other's thing (W04)."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from app.models.sharing import Audience
from app.models.token import Scope
from app.web.api.rest import openapi, shapes
from app.web.api.rest.table import OPERATIONS, Operation
from tests.api.rest.conftest import ALL, Program
from tests.api.rest.world import World, join, world
from tests.social.conftest import People

Make = Callable[..., Program]
_PERSONAL = (
    *("subscriptions", "folders", "marks", "tags", "searches", "imports", "import_parts", "readstates"),
    *("shares", "likes", "comments", "notifications", "reports", "ties"),
)
#: Parts of a path that are nobody's own.
_COMMON = {"stream", "name", "slug", "discovery_id"}
#: To end what is gone already is no error; it looks done and changes nothing.
_SILENT = {"deleteSearch"}


@pytest.fixture(scope="session")
def paths() -> dict[str, Any]:
    return dict(json.loads(openapi.document())["paths"])


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
