"""Services: a program lets what one didn't get be sent again, and changes an address."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

from app import clock
from app.bootstrap.services import Services
from app.models.accounts.actor import Actor
from app.models.reading.targets import TargetKind
from tests.sharing.conftest import People
from tests.sync.rest.conftest import Program


def test_what_a_service_did_not_get_is_sent_again(
    services: Services, people: People, ann: Actor, program: Callable[..., Program], db: Any
) -> None:
    (entry_id,) = people.blog([ann])
    target = services.sending.add(ann, TargetKind.WEBHOOK, "https://hook.example.org/x")
    services.sending.send(ann, entry_id, target.id)
    later = clock.now() + dt.timedelta(hours=5)
    db.deliveries.update_one(
        {"entry_id": entry_id}, {"$set": {"due": later, "tries": 3, "error": "http_503"}}
    )
    refused = program(ann, "share").post(f"/targets/{target.id}/retry")
    assert refused.status_code == 403
    assert db.deliveries.find_one({"entry_id": entry_id})["due"] > clock.now()
    answer = program(ann, "share", "read").post(f"/targets/{target.id}/retry")
    assert (answer.status_code, answer.get_json()["id"]) == (200, target.id)
    assert db.deliveries.find_one({"entry_id": entry_id})["due"] <= clock.now()


def test_an_address_is_changed_but_no_program_sends_a_stored_secret_elsewhere(
    services: Services, people: People, ann: Actor, program: Callable[..., Program]
) -> None:
    target = services.sending.add(ann, TargetKind.WEBHOOK, "https://hook.example.org/x", secret="Geheim-7")
    path, moved = f"/targets/{target.id}/address", {"address": "https://new.example.org/y"}
    for scopes in (("share",), ("read",)):
        assert program(ann, *scopes).put(path, json={**moved, "secret": "Neu-8"}).status_code == 403
    allowed = program(ann, "share", "read")
    refused = allowed.put(path, json=moved)
    assert (refused.status_code, refused.get_json()["field"]) == (400, "secret")
    assert services.sending.list_targets(ann) == [target]
    answer = allowed.put(path, json={"address": "https://hook.example.org/z"})
    assert (answer.status_code, answer.get_json()["address"]) == (200, "https://hook.example.org/z")
    answer = allowed.put(path, json={**moved, "secret": "Neu-8"})
    assert (answer.get_json()["address"], "Neu-8" in answer.text) == (moved["address"], False)
