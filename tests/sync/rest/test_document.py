"""The document: valid, complete, and true: each of its examples is sent and answered as it says."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import re
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import quote

import jsonschema
import pytest
from flask import Flask
from openapi_spec_validator import validate
from werkzeug.test import TestResponse

from app import create_app
from app.bootstrap import services as bootstrap
from app.bootstrap.services import Services
from app.errors import NoSpaceError
from app.models.imports.imports import ItemChange, ItemState
from app.models.media.blob import Purpose
from app.models.media.proof import compute_proof
from app.models.media.upload import NewUpload
from app.models.sharing.sharing import Audience
from app.web.api.rest import openapi
from app.web.api.rest.files import KNOWN, PROOF, TOKEN
from app.web.api.rest.shapes import DISCOVERY, ENTRY, FEED, FILE, IMPORT, PAGE, SHARE
from app.web.api.rest.table import OPERATIONS, Operation
from app.web.security.keyfile import get_secret_key
from tests.media import pictures
from tests.sharing.conftest import People
from tests.support.importing import reading
from tests.support.small_disk import mount_small_disk, with_mounts
from tests.sync.rest.conftest import Program, token_for
from tests.sync.rest.world import World, world

Make = Callable[..., Program]


def _resumed(people: People, w: World) -> None:
    people.services.imports.start(w.who, w.real[IMPORT])
    people.services.imports.cancel(w.who, w.real[IMPORT])


def _failed(people: People, w: World) -> None:
    _resumed(people, w)
    change = {0: ItemChange(ItemState.FAILED, "timeout", w.real[FEED])}
    people.services.mappers.imports.update_items(w.who.user_id, w.real[IMPORT], change)


def _brought(people: People, w: World) -> None:
    _resumed(people, w)
    change = {0: ItemChange(ItemState.ADDED, None, w.real[FEED])}
    people.services.mappers.imports.update_items(w.who.user_id, w.real[IMPORT], change)


def _asked(people: People, w: World) -> None:
    people.services.following.unfollow(w.other, w.name)
    people.open(w.who, audience=Audience.FOLLOWERS)
    people.services.following.follow(w.other, w.name)


def _searched(people: People, w: World) -> None:
    w.real[DISCOVERY] = people.services.discovery.discover(w.who, "new.example.org", wait=0).key


def _read(people: People, w: World) -> None:
    w.real[PAGE] = people.services.page_lists.find_lists(w.who, "new.example.org/news", wait=0).key


def _drawn(people: People, w: World) -> None:
    """Upload a picture of a person, and draw it."""
    services, picture = people.services, pictures.save(pictures.paint(60, 60), "PNG")
    new = NewUpload(size=len(picture), name="me.png", purpose=Purpose.AVATAR)
    upload_id = services.uploads.create(w.who, new).upload.id
    services.uploads.append(w.who, upload_id, 0, picture)
    w.real[FILE] = services.sealing.seal_upload(upload_id)["file_id"]


def _challenged(people: People, w: World) -> None:
    """Their own file, of zeros."""
    service, key = people.services.possession, get_secret_key(people.services.settings)
    asked = service.create_challenge(w.who, bytes.fromhex(KNOWN.sha256), KNOWN.size, key)
    answer = compute_proof(asked.nonce, (bytes(last - first + 1) for first, last in asked.ranges))
    w.real.update({TOKEN: asked.token, PROOF: answer.hex()})


def _saved(people: People, w: World) -> None:
    w.real[ENTRY] = people.services.saved_pages.save(w.who, "https://magazine.example.org/walls").entry_id


#: What an example needs that not everybody has.
_BEFORE: dict[str, Callable[[People, World], None]] = {
    "cancelImport": lambda people, w: void(people.services.imports.start(w.who, w.real[IMPORT])),
    "continueImport": _resumed,
    "tryImportNow": lambda people, w: w.real.update({IMPORT: reading(people.services, w.who).id}),
    "unsubscribeImport": _brought,
    "retryImport": _failed,
    "answerFollowRequest": _asked,
    "getDiscovery": _searched,
    "getPageLists": _read,
    "setAvatar": _drawn,
    "proveFile": _challenged,
    "removePage": _saved,
    "report": lambda people, w: w.real.update({SHARE: w.real["theirs"]}),
}


#: What leaves the thing that it is about in another place, or in none.
_ENDS = {"changeFetching", "changeAddress", "mergeTag", "block", "startImport", "tryImportNow", "undo"}


def void(_: object) -> None:
    """Return nothing, whatever came."""


@pytest.fixture(scope="session")
def document() -> dict[str, Any]:
    return dict(json.loads(openapi.build_document()))


def test_the_document_is_valid(document: dict[str, Any]) -> None:
    validate(document)
    names = [o.name for o in OPERATIONS]
    assert len(names) == len(set(names))


def test_every_route_is_in_the_document_and_the_other_way_round(app: Flask, document: dict[str, Any]) -> None:
    methods = {"GET", "POST", "PUT", "PATCH", "DELETE"}
    routes = {
        (re.sub(r"<(?:[^:>]+:)?(\w+)>", r"{\1}", rule.rule.removeprefix("/api/v1")), method)
        for rule in app.url_map.iter_rules()
        if rule.rule.startswith("/api/v1/")
        for method in (rule.methods or set()) & methods
    }
    documented = {(path, method.upper()) for path, ways in document["paths"].items() for method in ways}
    # Uploads and contents of files are headers and bytes: docs/api.md describes them.
    uploads = {("/uploads", "POST"), *(("/uploads/{upload_id}", m) for m in ("POST", "PATCH", "DELETE"))}
    assert routes - documented == {("/openapi.json", "GET"), ("/files/{file_id}/content", "GET"), *uploads}
    assert documented <= routes


def test_anybody_may_read_it_and_who_has_it_is_not_sent_it_again(app: Flask, document: Any) -> None:
    first = app.test_client().get("/api/v1/openapi.json")
    assert first.get_json() == document
    again = app.test_client().get("/api/v1/openapi.json", headers={"If-None-Match": first.headers["ETag"]})
    assert again.status_code == 304


#: Scopes that operations need besides their own; their descriptions say so.
_MORE_SCOPES = {
    "addTarget": ("read",),
    "changeTargetSecret": ("read",),
    "changeTargetAddress": ("read",),
    "sendEntry": ("read",),
    "makeFeedAddress": ("read",),
    "lookForIcon": ("read",),
    "retryTarget": ("read",),
}


def test_every_example_is_answered_as_documented(
    people: People, program: Make, document: dict[str, Any]
) -> None:
    shared, callers = world(people, 0), dict[Any, Program]()
    wrong = []
    # What takes something away has a world of its own; all else comes first.
    for number, each in enumerate(sorted(OPERATIONS, key=_takes_away), 1):
        w = world(people, number) if _takes_away(each) else shared
        if each.name in _BEFORE:
            _BEFORE[each.name](people, w)
        # No other scopes than those that are documented.
        scopes = ((each.scope.value,) if each.scope else ()) + _MORE_SCOPES.get(each.name, ())
        key = (w.name, scopes)
        if key not in callers:
            callers[key] = program(w.who, *scopes)
        caller = callers[key]
        for answer in _sent(caller, each, document, w):
            if problem := _differs(answer, each, document):
                wrong.append(f"{each.method} {each.path}: {problem}")
    assert not wrong, "\n".join(wrong)


@with_mounts
def test_F09_operations_that_a_full_disk_stops_say_so(
    services: Services, people: People, document: dict[str, Any]
) -> None:
    w = world(people, 0)
    token = token_for(services, w.who)
    with mount_small_disk(8 << 20) as disk:
        own = dataclasses.replace(services.settings, home=disk.folder, disk_min_free=5.0)
        disk.fill()
        with contextlib.closing(bootstrap.build(own)) as here:
            caller = Program(create_app(own, here), token)
            answers = [
                (each.name, answer)
                for each in OPERATIONS
                if each.writes and not _takes_away(each)
                for answer in _sent(caller, each, document, w)
            ]
            bulk = {"do": "refresh", "feed_ids": [w.real[FEED]]}
            answers.append(("changeMany", caller.post("/subscriptions/bulk", bulk)))
    stopped = {
        name
        for name, answer in answers
        if answer.status_code == 503 and answer.get_json()["word"] == NoSpaceError.code
    }
    documented = {
        operation["operationId"]
        for ways in document["paths"].values()
        for operation in ways.values()
        if operation["responses"]["503"]["$ref"].endswith(openapi.NO_SPACE)
    }
    assert stopped == documented
    assert "no_space" in document["components"]["responses"][openapi.NO_SPACE]["description"]


def _takes_away(each: Operation) -> bool:
    return each.method == "DELETE" or each.name in _BEFORE or each.name in _ENDS


def _sent(caller: Program, each: Operation, document: dict[str, Any], w: World) -> Iterator[TestResponse]:
    said = document["paths"][each.path][each.method.lower()]
    path = each.path
    for parameter in said.get("parameters", ()):
        if parameter["in"] == "path":
            path = path.replace(f"{{{parameter['name']}}}", quote(str(w.of(parameter["example"])), safe=""))
        elif "example" in parameter:
            path += f"{'&' if '?' in path else '?'}{parameter['name']}={quote(str(parameter['example']))}"
    contents = said.get("requestBody", {"content": {None: None}})["content"]
    for kind, content in contents.items():
        if kind is None:
            yield caller.send(each.method, path)
        else:
            body = w.of(content["example"])
            data = json.dumps(body) if kind == "application/json" else body
            yield caller.send(each.method, path, data=data, content_type=kind)


def _differs(answer: TestResponse, each: Operation, document: dict[str, Any]) -> str:
    """Return in what an answer is not as documented, empty: in nothing."""
    said = document["paths"][each.path][each.method.lower()]["responses"]
    if answer.status_code not in each.statuses:
        return f"{answer.status_code} {answer.text}"
    content = said[str(answer.status_code)].get("content")
    if content is None:
        return "" if answer.data == b"" else "a body where none is documented"
    if answer.mimetype not in content:
        return answer.mimetype
    if answer.mimetype != "application/json":
        return ""
    schema = {**content["application/json"]["schema"], "components": document["components"]}
    errors = list(jsonschema.Draft202012Validator(schema).iter_errors(answer.get_json()))
    return "; ".join(error.message for error in errors)


def test_every_example_of_an_answer_fits_its_own_schema(document: dict[str, Any]) -> None:
    wrong = []
    for path, ways in document["paths"].items():
        for method, said in ways.items():
            places = [said.get("requestBody", {}), *said["responses"].values()]
            for content in (c for place in places for c in place.get("content", {}).values()):
                if "example" in content:
                    schema = {**content["schema"], "components": document["components"]}
                    found = jsonschema.Draft202012Validator(schema).iter_errors(content["example"])
                    wrong += [f"{method} {path}: {error.message}" for error in found]
    assert not wrong, "\n".join(wrong)
