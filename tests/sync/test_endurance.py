"""What apps do on bad days: very many ids, bodies that were cut off, passwords that were taken away."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import time
from collections.abc import Callable

import pytest

from app import clock, create_app
from app.bootstrap import services as bootstrap
from app.bootstrap.services import Services
from app.models.accounts.actor import Actor
from tests.sync.conftest import READ, READING, STARRED, Reader, password_of

Connect = Callable[..., Reader]
GETS = ("subscription/list", "tag/list", "unread-count", "stream/contents", "stream/items/ids", "token")


def test_ten_thousand_ids_come_in_one_body(reader: Reader) -> None:
    """In both forms: 610 kB; those that are of nothing are passed over."""
    mine = reader.ids()
    ids = [str(i) for i in mine] + [str(1_700_000_000_000_000 + i) for i in range(10_000 - len(mine))]
    long = [f"tag:google.com,2005:reader/item/{int(i):016x}" for i in ids]
    reader.do("edit-tag", i=long, a=READ)
    assert reader.ids(READING, xt=READ) == []
    reader.do("edit-tag", i=ids, r=READ)
    assert reader.ids(READING, xt=READ) == mine
    assert len(reader.items(*map(int, ids))) == len(mine)
    assert reader.post("stream/items/contents", i=[*ids, "17"]).status_code == 413
    assert reader.post("edit-tag", i=["9" * 15] * 80_000, a=READ).status_code in (400, 413)


def test_ids_without_a_change_are_told_so(reader: Reader) -> None:
    unread = reader.ids(READING, xt=READ)
    answer = reader.post("edit-tag", i=[str(i) for i in unread])
    assert (answer.status_code, answer.text) == (400, "Specify what to do with the items.")
    assert reader.ids(READING, xt=READ) == unread


def test_W08_a_password_that_was_revoked_opens_nothing_anywhere(
    reader: Reader, services: Services, ann: Actor
) -> None:
    fever = password_of(services, ann, fever=True)
    key = hashlib.md5(f"ann:{fever}".encode()).hexdigest()
    assert reader.client.post("/fever/", data={"api_key": key}).get_json()["auth"] == 1
    for token in services.tokens.list_tokens(ann):
        services.tokens.revoke(ann, token.id)
    assert {reader.get(path).status_code for path in GETS} == {401}
    for path, form in (("edit-tag", {"i": "1", "a": STARRED}), ("mark-all-as-read", {"s": READING})):
        assert reader.post(path, **form).status_code == 401
    again = reader.client.post("/accounts/ClientLogin", data={"Email": "ann", "Passwd": reader.password})
    assert (again.status_code, again.text) == (401, "Error=BadAuthentication\n")
    assert reader.client.post("/fever/?feeds", data={"api_key": key}).get_json() == {
        "api_version": 3,
        "auth": 0,
    }


def test_a_closed_account_is_closed_to_apps_at_once(reader: Reader, services: Services, ann: Actor) -> None:
    services.gateways.admin_accounts.set_disabled(ann.user_id, True)
    assert {reader.get(path).status_code for path in GETS} == {401}


def test_an_account_being_deleted_is_closed_to_apps_at_once(
    reader: Reader, services: Services, ann: Actor
) -> None:
    services.store.database["users"].update_one({"_id": ann.user_id}, {"$set": {"leaving": clock.now()}})
    assert {reader.get(path).status_code for path in GETS} == {401}


def test_too_many_requests_are_told_when_to_come_back(reader: Reader, services: Services, ann: Actor) -> None:
    tight = dataclasses.replace(services.settings, api_per_minute=3)
    with contextlib.closing(bootstrap.build(tight)) as built:
        slow = dataclasses.replace(reader, client=create_app(tight, built).test_client())
        statuses = [slow.get("token").status_code for _ in range(5)]
        answer = slow.get("token")
    assert statuses[:3] == [200] * 3
    assert answer.status_code == 429
    assert int(answer.headers["Retry-After"]) > 0


@pytest.mark.parametrize("again", [1, 2])
def test_what_is_sent_twice_is_as_what_is_sent_once(reader: Reader, again: int) -> None:
    (first, second, *_) = reader.ids(READING, xt=READ)
    for _ in range(again):
        reader.do("edit-tag", i=[str(first), str(second)], a=[READ, STARRED])
        reader.do("edit-tag", i=str(second), r=STARRED)
        reader.do("edit-tag", i=str(first), a="user/-/label/later")
        reader.do("mark-all-as-read", s="user/-/label/later", ts=str(int(time.time() * 1e6)))
    assert reader.ids(STARRED) == [first]
    assert reader.ids("user/-/label/later") == [first]
    assert READ in reader.categories(second)
