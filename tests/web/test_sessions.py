"""Sessions and their cookie: W01, W02."""

from __future__ import annotations

import dataclasses
import datetime as dt
import hashlib
from collections.abc import Callable
from typing import Any

import pytest
import redis
from flask import Flask

from app import clock, create_app
from app.bootstrap.services import Services
from app.config import Settings
from app.models.accounts.actor import Actor, Role
from app.models.accounts.user import Session
from app.models.jobs import redis_keys
from app.models.notifications.events import ENDS
from app.services.accounts.sign_in import Client
from tests.support.reader import PASSWORD, add_user
from tests.web.conftest import Visitor

Make = Callable[[], Visitor]


def _cookie(visitor: Visitor) -> str:
    cookie = visitor.client.get_cookie("eventr")
    assert cookie is not None
    return cookie.value


def _works(app: Flask, token: str) -> bool:
    client = app.test_client()
    client.set_cookie("eventr", token)
    return client.get("/settings").status_code == 200


def test_W01_the_store_holds_only_a_hash_of_the_session_id(ann: Visitor, db: Any) -> None:
    (stored,) = db.sessions.find()
    assert bytes(stored["_id"]) == hashlib.sha256(_cookie(ann).encode()).digest()
    assert _cookie(ann) not in repr(stored)


def test_W01_log_in_gives_a_new_id(app: Flask, services: Services, visitor: Make) -> None:
    add_user(services)
    one = visitor()
    one.token()
    before = _cookie(one)
    one.log_in()
    first = _cookie(one)
    one.post("/logout")
    one.log_in()
    assert len({before, first, _cookie(one)}) == 3
    assert not _works(app, before)


def test_W01_a_session_that_was_left_is_worth_nothing(app: Flask, ann: Visitor) -> None:
    old = _cookie(ann)
    assert _works(app, old)
    ann.post("/logout")
    assert not _works(app, old)


def test_W01_a_new_password_ends_every_session_and_renews_this_one(
    app: Flask, ann: Visitor, visitor: Make
) -> None:
    other = visitor()
    other.log_in()
    mine, theirs = _cookie(ann), _cookie(other)
    done = ann.post("/settings/password", {"old": PASSWORD, "password": "another quiet place"})
    assert done.status_code == 303
    assert not _works(app, mine)
    assert not _works(app, theirs)
    assert ann.get("/settings").status_code == 200
    assert other.log_in().status_code == 401
    assert other.log_in(password="another quiet place").status_code == 303


@pytest.mark.parametrize(
    ("idle", "days", "alive"),
    [(False, 13, True), (False, 15, False), (True, 60, True), (True, 91, False)],
)
def test_W01_sessions_end_when_idle_and_in_any_case(
    services: Services, *, idle: bool, days: int, alive: bool
) -> None:
    """``idle``: whether the session is used each week in between."""
    user = add_user(services)
    start = clock.now()
    token = services.sign_in.log_in("ann", PASSWORD, Client())
    for day in range(7, days, 7) if idle else ():
        with clock.set_source(lambda day=day: start + dt.timedelta(days=day)):  # type: ignore[misc]
            assert services.sign_in.resume(token)
    with clock.set_source(lambda: start + dt.timedelta(days=days)):
        assert (services.sign_in.resume(token) is not None) is alive
        assert bool(services.accounts.list_sessions(user)) is alive


def test_W01_a_disabled_user_is_out_at_once(app: Flask, services: Services, ann: Visitor, db: Any) -> None:
    user = db.users.find_one({"name": "ann"})
    db.users.update_one({"_id": user["_id"]}, {"$set": {"disabled": True}})
    assert ann.get("/settings").status_code == 303
    assert db.sessions.count_documents({}) == 0
    assert ann.log_in().status_code == 401


def test_W01_sessions_are_listed_and_ended_by_their_owner_alone(
    services: Services, ann: Visitor, visitor: Make, app: Flask
) -> None:
    add_user(services, "bob")
    bob, phone = visitor(), visitor()
    bob.log_in("bob")
    phone.log_in("ann")
    prefix = hashlib.sha256(_cookie(phone).encode()).digest()[:8].hex()
    assert prefix in ann.get("/settings/sessions").text
    assert prefix not in bob.get("/settings").text
    assert bob.post("/settings/sessions/end", {"session": prefix}).status_code == 404
    assert _works(app, _cookie(phone))
    assert ann.post("/settings/sessions/end", {"session": prefix}).status_code == 303
    assert not _works(app, _cookie(phone))
    for wrong in ("", "zz", "00" * 8, prefix[:4]):
        assert ann.post("/settings/sessions/end", {"session": wrong}).status_code == 404


def test_W01_all_other_sessions_end_together(ann: Visitor, visitor: Make, app: Flask) -> None:
    others = [visitor() for _ in range(3)]
    for other in others:
        other.log_in()
    ann.post("/settings/sessions/end-others")
    assert [_works(app, _cookie(v)) for v in (ann, *others)] == [True, False, False, False]


def test_W02_the_cookie_is_closed_to_scripts_and_other_sites(ann: Visitor) -> None:
    cookies = ann.post("/login", {"login": "ann", "password": PASSWORD}).headers.getlist("Set-Cookie")
    (header,) = (cookie for cookie in cookies if cookie.startswith("eventr="))
    assert {"HttpOnly", "SameSite=Lax", "Path=/"} <= {part.strip() for part in header.split(";")}


def test_W02_with_https_the_cookie_is_bound_to_this_host(services: Services, settings: Settings) -> None:
    own = dataclasses.replace(services.settings, base_url="https://reader.example")
    client = create_app(own, services).test_client()
    header = client.get("/login", base_url="https://reader.example").headers["Set-Cookie"]
    parts = {part.strip() for part in header.split(";")}
    assert header.startswith("__Host-eventr=")
    assert {"Secure", "HttpOnly", "SameSite=Lax", "Path=/"} <= parts
    assert not any(part.startswith("Domain") for part in parts)


def _log_out(ann: Visitor, services: Services) -> None:
    ann.post("/logout")


def _end_one(ann: Visitor, services: Services) -> None:
    session = services.accounts.list_sessions(_actor(services))[0]
    assert ann.post("/settings/sessions/end", {"session": session.key.hex()[:16]}).status_code == 303


def _end_others(ann: Visitor, services: Services) -> None:
    services.sign_in.log_in("ann", PASSWORD, Client())
    assert ann.post("/settings/sessions/end-others").status_code == 303


def _new_password(ann: Visitor, services: Services) -> None:
    form = {"old": PASSWORD, "password": "another quiet place"}
    assert ann.post("/settings/password", form).status_code == 303


def _revoke(ann: Visitor, services: Services) -> None:
    actor = _actor(services)
    session = services.accounts.list_sessions(actor)[0]
    token, _ = services.tokens.make_app_password(actor, session, "Phone")
    assert ann.post("/settings/apps/revoke", {"token": str(token.id)}).status_code == 303


def _give_back(ann: Visitor, services: Services) -> None:
    actor = _actor(services)
    session = services.accounts.list_sessions(actor)[0]
    _, secret = services.tokens.make_api_token(actor, session, "Script", ["read"])
    sent = {"Authorization": f"Bearer {secret}"}
    assert ann.client.delete("/api/v1/me/token", headers=sent).status_code == 204


def _new_password_for_all(ann: Visitor, services: Services) -> None:
    form = {"old": PASSWORD, "password": "another quiet place", "programs": "1"}
    assert ann.post("/settings/password", form).status_code == 303


def _delete(ann: Visitor, services: Services) -> None:
    services.accounts.delete_account(_actor(services), PASSWORD)


def _disable(ann: Visitor, services: Services) -> None:
    admin, session = _admin(services)
    services.admin_accounts.set_disabled(admin, session, _actor(services).user_id, True)


def _end_by_admin(ann: Visitor, services: Services) -> None:
    admin, _ = _admin(services)
    assert services.admin_accounts.end_sessions(admin, _actor(services).user_id) == 1


def _reset(ann: Visitor, services: Services) -> None:
    admin, session = _admin(services)
    link = services.admin_accounts.create_reset_link(admin, session, _actor(services).user_id)
    services.admin_accounts.choose_password(link, "another quiet place", Client())


def _actor(services: Services) -> Actor:
    found = services.gateways.accounts.find_credentials("ann")
    assert found is not None
    return found.user.actor


def _admin(services: Services) -> tuple[Actor, Session]:
    found = services.sign_in.resume(services.sign_in.log_in("root", PASSWORD, Client()))
    assert found is not None
    return found[1].actor, found[0]


@pytest.mark.parametrize(
    "act",
    [
        _log_out,
        _end_one,
        _end_others,
        _new_password,
        _new_password_for_all,
        _revoke,
        _give_back,
        _delete,
        _disable,
        _end_by_admin,
        _reset,
    ],
    ids=lambda act: act.__name__.strip("_"),
)
def test_W01_W08_with_a_session_or_token_ends_what_it_listens_to(
    ann: Visitor, services: Services, redis_client: redis.Redis, act: Callable[..., None]
) -> None:
    add_user(services, "root", Role.ADMIN)
    user_id, since = _actor(services).user_id, services.events.get_position()
    act(ann, services)
    rows: Any = redis_client.xrange(redis_keys.PEOPLE, f"({since}")
    ended = [int(fields[b"user"]) for _, fields in rows if fields[b"kind"] == ENDS.encode()]
    assert ended == [user_id]
