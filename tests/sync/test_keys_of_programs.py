"""Keys of programs: made once, found again by what a program sends, and worth nothing when revoked (W08)."""

from __future__ import annotations

import dataclasses
import hashlib

import pytest

from app.bootstrap.services import Services
from app.errors import AuthRequiredError, ForbiddenError, InvalidError
from app.gateways.accounts.tokens import build_reader_auth
from app.models.accounts.actor import Actor, Permission
from app.models.accounts.token import Scope
from app.models.accounts.user import Session
from app.services.accounts.sign_in import Client
from tests.support.reader import add_user

HERE = Client("192.0.2.7", "a program")


def session_of(services: Services, actor: Actor) -> Session:
    sessions = services.gateways.sessions
    found = sessions.find_session(sessions.open_session(actor.user_id, agent="", address=""))
    assert found is not None
    return found[0]


def test_an_app_logs_in_with_its_password_and_comes_back_with_what_it_got(services: Services) -> None:
    ann = add_user(services, "ann")
    token, secret = services.tokens.make_app_password(ann, session_of(services, ann), "Phone")
    assert secret.isalnum()
    caller = services.tokens.log_in("Ann", secret, HERE)
    assert (caller.token.id, caller.user.id) == (token.id, ann.user_id)
    again = services.tokens.get_reader_caller(build_reader_auth(secret), HERE)
    assert again.actor == dataclasses.replace(ann, synced=True, limits=token.permissions)
    (listed,) = services.tokens.list_tokens(ann)
    assert (listed.name, listed.agent, listed.used is None) == ("Phone", "a program", False)


def test_it_can_do_nothing_to_the_account(services: Services) -> None:
    ann = add_user(services, "ann")
    _, secret = services.tokens.make_app_password(ann, session_of(services, ann), "Phone")
    program = services.tokens.log_in("ann", secret, HERE).actor
    assert not program.has_permission(Permission.USER_EDIT_SELF)
    with pytest.raises(ForbiddenError):
        services.tokens.list_tokens(program)


@pytest.mark.parametrize("login", ["bob", "", "ann@example.org "])
def test_a_password_opens_only_whose_it_is(services: Services, login: str) -> None:
    ann = add_user(services, "ann")
    add_user(services, "bob")
    _, secret = services.tokens.make_app_password(ann, session_of(services, ann), "Phone")
    if login.strip() == "ann@example.org":
        assert services.tokens.log_in(login, secret, HERE).user.id == ann.user_id
    else:
        with pytest.raises(AuthRequiredError):
            services.tokens.log_in(login, secret, HERE)


def test_W08_a_token_is_stored_as_a_hash_and_revoked_at_once(services: Services) -> None:
    ann = add_user(services, "ann")
    session = session_of(services, ann)
    _, app = services.tokens.make_app_password(ann, session, "Phone", fever=True)
    token, secret = services.tokens.make_api_token(ann, session, "Script", ["read"])
    assert secret.startswith("evt_")
    key = hashlib.md5(f"ann:{app}".encode()).hexdigest()
    assert services.tokens.get_fever_caller(key.upper(), HERE).user.id == ann.user_id
    stored = str(list(services.store.database["tokens"].find()))
    for shown in (app, secret, key, build_reader_auth(app)):
        assert shown not in stored
    assert services.tokens.get_api_caller(secret, HERE).token.scopes == (Scope.READ,)
    services.tokens.revoke(ann, token.id)
    with pytest.raises(AuthRequiredError):
        services.tokens.get_api_caller(secret, HERE)


def test_fever_is_off_unless_it_is_asked_for(services: Services) -> None:
    ann = add_user(services, "ann")
    _, secret = services.tokens.make_app_password(ann, session_of(services, ann), "Phone")
    with pytest.raises(AuthRequiredError):
        services.tokens.get_fever_caller(hashlib.md5(f"ann:{secret}".encode()).hexdigest(), HERE)


def test_a_token_of_one_kind_is_none_of_the_other(services: Services) -> None:
    ann = add_user(services, "ann")
    session = session_of(services, ann)
    _, app = services.tokens.make_app_password(ann, session, "Phone")
    _, api = services.tokens.make_api_token(ann, session, "Script", ["read", "mark"], days=30)
    with pytest.raises(AuthRequiredError):
        services.tokens.get_api_caller(app, HERE)
    with pytest.raises(AuthRequiredError):
        services.tokens.log_in("ann", api, HERE)


@pytest.mark.parametrize(
    ("name", "scopes"), [("", ["read"]), ("x", []), ("x", ["all"]), ("y" * 65, ["read"])]
)
def test_a_token_says_what_it_is_for(services: Services, name: str, scopes: list[str]) -> None:
    ann = add_user(services, "ann")
    with pytest.raises(InvalidError):
        services.tokens.make_api_token(ann, session_of(services, ann), name, scopes)
