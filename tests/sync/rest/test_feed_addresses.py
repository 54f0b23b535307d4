"""Feed addresses made by programs: only with the password, of the own lists, and shown once."""

from __future__ import annotations

import dataclasses
import datetime as dt
import json
import re
from collections.abc import Callable
from typing import Any

import feedparser
import pytest

from app import clock
from app.bootstrap.services import Services
from app.errors import ForbiddenError
from app.models.accounts.actor import Actor, Permission
from app.models.accounts.token import SCOPES, Scope
from app.services.accounts.admin_accounts import TRIES
from tests.sharing.conftest import People
from tests.support.reader import PASSWORD, add_user, pull, rss
from tests.sync.rest.conftest import Program, token_for
from tests.web.conftest import Visitor

Make = Callable[..., Program]
BLOG = "https://blog.example/feed"


@pytest.fixture
def ann(services: Services) -> Actor:
    """Ann, who has a password."""
    return add_user(services)


def _follow(services: Services, who: Actor) -> int:
    feed_id = services.subscriptions.subscribe(who, BLOG).subscription.feed_id
    pull(services, [feed_id], {BLOG: rss("Blog", [("One", "<p>x</p>")])})
    return feed_id


def _create(caller: Program, stream: str = "all", **more: Any) -> dict[str, Any]:
    answer = caller.post("/feed-addresses", {"stream": stream, "password": PASSWORD, **more})
    assert answer.status_code == 201, answer.text
    return dict(answer.get_json())


def _fetch(caller: Program, url: str) -> Any:
    return caller.client.get(re.sub(r"^https?://[^/]+", "", url))


def _list(caller: Program) -> list[dict[str, Any]]:
    return list(caller.get("/feed-addresses").get_json()["items"])


def test_a_program_creates_lists_and_revokes_an_address(
    services: Services, ann: Actor, mine: Program
) -> None:
    feed_id = _follow(services, ann)
    made = _create(mine, f"feed:{feed_id}", name="Kitchen")
    assert (made["name"], made["stream"], made["q"]) == ("Kitchen", f"feed:{feed_id}", "")
    assert made["atom"].startswith(f"{services.settings.own_origin}/feed/")
    atom, feed_json = _fetch(mine, made["atom"]), _fetch(mine, made["json"])
    assert feedparser.parse(atom.data).entries[0].title == "One"
    assert json.loads(feed_json.data)["items"][0]["title"] == "One"
    (listed,) = _list(mine)
    assert {name: made[name] for name in listed if name not in ("used", "agent")} == {
        name: value for name, value in listed.items() if name not in ("used", "agent")
    }
    assert (made["used"], listed["used"] is not None) == (None, True)
    assert mine.delete(f"/feed-addresses/{made['id']}").status_code == 204
    assert (_fetch(mine, made["atom"]).status_code, _list(mine)) == (404, [])
    assert mine.delete(f"/feed-addresses/{made['id']}").status_code == 404


def test_an_address_without_a_name_is_called_as_its_list(
    services: Services, ann: Actor, mine: Program
) -> None:
    feed_id = _follow(services, ann)
    folder = services.folders.create(ann, "Trains")
    entry = mine.get("/streams/all/entries").get_json()["items"][0]["id"]
    (tag,) = services.tags.change_tags(ann, entry, add=["Later"])
    lists = [
        (f"feed:{feed_id}", ""),
        (f"folder:{folder.id}", ""),
        (f"tag:{tag.id}", ""),
        ("search", "is:unread"),
    ]
    made = [_create(mine, stream, **({"q": q} if q else {})) for stream, q in lists]
    assert [one["name"] for one in made] == ["Blog", "Trains", "Later", "is:unread"]
    assert [(one["stream"], one["q"]) for one in reversed(_list(mine))] == lists


def test_W11_no_address_is_made_without_the_password(services: Services, mine: Program, db: Any) -> None:
    for sent in ({}, {"password": ""}, {"password": "wrong"}):
        answer = mine.post("/feed-addresses", {"stream": "all", **sent})
        assert (answer.status_code, answer.get_json()["field"]) == (400, "password"), answer.text
    assert not db.tokens.count_documents({"kind": "feed"})
    # The login that made the access token was a moment ago. That proves nothing about the program.
    _create(mine)
    assert mine.post("/feed-addresses", {"stream": "all"}).status_code == 400


def test_W11_passwords_are_guessed_neither_by_programs_nor_around_them(
    services: Services, ann: Actor, mine: Program, program: Make, db: Any
) -> None:
    """A stolen token gives no more tries, and neither does a second one, or the page."""
    callers = (mine, program(ann))
    statuses = [
        callers[number % 2].post("/feed-addresses", {"stream": "all", "password": f"no{number}"}).status_code
        for number in range(TRIES + 1)
    ]
    assert statuses == [400] * TRIES + [429]
    late = mine.post("/feed-addresses", {"stream": "all", "password": PASSWORD})
    assert late.status_code == 429
    assert int(late.headers["Retry-After"]) > 0
    page = Visitor(mine.client.application.test_client())
    page.log_in("ann")
    long_ago = clock.now() - dt.timedelta(seconds=services.settings.proof_ttl + 1)
    db.sessions.update_many({}, {"$set": {"created": long_ago}})
    refused = page.post("/settings/apps/feed", {"stream": "all", "name": "x", "proof": PASSWORD})
    assert refused.status_code == 429
    assert not db.tokens.count_documents({"kind": "feed"})


def test_W08_the_secret_is_shown_once_and_stored_nowhere(
    services: Services, mine: Program, db: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG", logger="app")
    key = {"Idempotency-Key": "once"}
    body = {"stream": "all", "password": PASSWORD, "name": "Kitchen"}
    first, second = (mine.post("/feed-addresses", body, headers=key).get_json() for _ in range(2))
    # A repeated request isn't answered from a store: the answer would have to be kept there.
    assert first["id"] != second["id"]
    secret = first["atom"].split("/")[-2]
    kept = [str(doc) for name in db.list_collection_names() for doc in db[name].find()]
    assert any("Kitchen" in doc for doc in kept)
    assert not [doc for doc in kept if secret in doc or PASSWORD in doc]
    assert secret not in mine.get("/feed-addresses").text
    told = [str(record.__dict__) for record in caplog.records]
    assert any("token_made" in line for line in told)
    assert not [line for line in told if secret in line or PASSWORD in line]


def test_W04_a_program_revokes_addresses_and_no_other_token(
    services: Services, ann: Actor, mine: Program, db: Any
) -> None:
    token_for(services, ann, "read")
    others = [doc["_id"] for doc in db.tokens.find({"kind": "api"})]
    assert len(others) == 2
    for token_id in others:
        assert mine.delete(f"/feed-addresses/{token_id}").status_code == 404
    assert _list(mine) == []
    assert mine.get("/me").status_code == 200


@pytest.mark.parametrize("scopes", [("read",), ("share",), ("mark", "subscribe", "settings", "files")])
def test_W04_addresses_need_both_scopes(
    services: Services, ann: Actor, mine: Program, program: Make, scopes: tuple[str, ...]
) -> None:
    made, less = _create(mine), program(ann, *scopes)
    refused = less.post("/feed-addresses", {"stream": "all", "password": PASSWORD})
    assert refused.status_code == 403
    assert less.get("/feed-addresses").status_code == (200 if "read" in scopes else 403)
    # The services ask, too, not only the table of operations.
    limits = frozenset[Permission]().union(*(SCOPES[Scope(scope)] for scope in scopes))
    who = dataclasses.replace(ann, limits=limits)
    with pytest.raises(ForbiddenError):
        services.stream_feeds.make_address(who, None, "x", "all", proof=PASSWORD)
    if "read" not in scopes:
        with pytest.raises(ForbiddenError):
            services.tokens.list_feed_addresses(who)
    if "share" not in scopes:
        with pytest.raises(ForbiddenError):
            services.tokens.revoke_feed_address(who, made["id"])
    revoked = less.delete(f"/feed-addresses/{made['id']}")
    assert revoked.status_code == (204 if "share" in scopes else 403)


def test_W04_others_lists_have_no_address_here(
    services: Services, people: People, ann: Actor, mine: Program, program: Make, db: Any
) -> None:
    bob = add_user(services, "bob")
    folder = services.folders.create(bob, "Bob's")
    for stream in (f"folder:{folder.id}", f"feed:{_follow(services, bob)}", "tag:1"):
        answer = mine.post("/feed-addresses", {"stream": stream, "password": PASSWORD})
        assert answer.status_code == 404, stream
    made = _create(program(bob), f"folder:{folder.id}")
    assert mine.delete(f"/feed-addresses/{made['id']}").status_code == 404
    assert _list(mine) == []
    secret = _follow(services, ann)
    db.feeds.update_one({"_id": secret}, {"$set": {"unlisted": True}})
    refused = mine.post("/feed-addresses", {"stream": f"feed:{secret}", "password": PASSWORD})
    assert (refused.status_code, refused.get_json()["field"]) == (400, "stream")


def test_addresses_are_among_the_most_tokens_that_someone_has(
    services: Services, mine: Program, db: Any
) -> None:
    most = services.settings.tokens_max
    made = [_create(mine) for _ in range(most - 1)]
    full = mine.post("/feed-addresses", {"stream": "all", "password": PASSWORD})
    assert (full.status_code, len(_list(mine))) == (413, len(made))
