"""Keys of programs in the settings: made, shown once, listed, revoked; and what to type into which app."""

from __future__ import annotations

import dataclasses
import datetime as dt
import html
import io
import logging
import re
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import redis
from bs4 import BeautifulSoup
from flask import Flask

from app import clock, logs
from app.bootstrap.services import Services
from app.errors import AuthRequiredError, TooLargeError
from app.models.accounts.token import Scope, TokenKind
from app.services.accounts.sign_in import Client
from app.web.view.reader_apps import APPS, BY_SLUG, FEVER_MOUNTS, READER_MOUNTS, Protocol
from tests.support.reader import PASSWORD, add_user
from tests.web.conftest import Visitor

Make = Callable[[], Visitor]
HERE = Client("192.0.2.7", "NewsFlash/3.0")
_SECRET = re.compile(r'<code id="v-secret"[^>]*>(.+?)</code>')


def secret_of(page: str) -> str:
    found = _SECRET.search(page)
    assert found, "no secret is shown"
    # A password is shown in groups of four.
    return html.unescape(re.sub("</?span>", "", found[1]))


def make(who: Visitor, name: str = "Phone", **more: str) -> str:
    done = who.post("/settings/apps/password", {"name": name, **more})
    assert done.status_code == 200, done.text
    return secret_of(done.text)


def test_a_password_is_made_and_shown_with_what_to_type(ann: Visitor, services: Services) -> None:
    done = ann.post("/settings/apps/password", {"name": "Phone"})
    assert (done.status_code, done.headers["Cache-Control"]) == (200, "no-store")
    secret = secret_of(done.text)
    assert services.tokens.log_in("ann", secret, HERE).token.name == "Phone"
    groups = BeautifulSoup(done.text, "lxml").select("#v-secret > span")
    assert [len(group.text) for group in groups] == [4] * 6
    base = services.settings.own_origin
    for typed in (base, f"{base}/api/greader.php", "ann"):
        assert f">{typed}</code>" in done.text.replace("<wbr>", "")
    assert f"{base}/fever/" not in done.text.replace("<wbr>", ""), "it would not be let in there"


@pytest.mark.parametrize(
    "again", ["/settings/apps", "/settings", "/settings/apps/clients", "/settings/sessions"]
)
def test_W08_the_secret_is_on_no_later_page(ann: Visitor, again: str) -> None:
    secret = make(ann)
    page = ann.get(again)
    assert secret not in page.text
    assert secret not in str(page.headers)


def test_W08_V14_the_secret_is_in_no_store_no_log_and_no_cookie(
    ann: Visitor, services: Services, redis_client: redis.Redis, db: Any
) -> None:
    written = io.StringIO()
    handler = logging.StreamHandler(written)
    handler.setFormatter(logs._Json())
    root = logging.getLogger()
    before = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    try:
        app = make(ann, fever="1")
        made = ann.post("/settings/apps/token", {"name": "Script", "read": "1", "days": "30"})
        api = secret_of(made.text)
        # A refused one says what is wrong, and does not say the password again.
        refused = ann.post("/settings/apps/token", {"name": "", "read": "1", "proof": "canary-of-proof"})
        assert refused.status_code == 400
        assert "canary-of-proof" not in refused.text
    finally:
        root.removeHandler(handler)
        root.setLevel(before)
    assert "token_made" in written.getvalue()
    stored = str([list(db[name].find()) for name in db.list_collection_names()])
    held = str([(key, _value(redis_client, key)) for key in redis_client.scan_iter()])
    cookies = str(ann.client._cookies)
    for canary in (app, api, "canary-of-proof"):
        for place in (written.getvalue(), stored, held, cookies, str(made.headers)):
            assert canary not in place


def _value(client: redis.Redis, key: bytes) -> object:
    return client.dump(key)


def test_the_list_says_what_each_is_and_who_used_it(ann: Visitor, services: Services) -> None:
    secret = make(ann, name="Phone & tablet", fever="1")
    ann.post("/settings/apps/token", {"name": "Script", "read": "1", "share": "1", "days": "30"})
    page = ann.get("/settings/apps").text
    assert "Phone &amp; tablet" in page
    assert page.count("never used") == 2
    for words in ('class="kind">Access token<', "Fever", "read, share", "expires "):
        assert words in page, words
    services.tokens.log_in("ann", secret, HERE)
    page = ann.get("/settings/apps").text
    assert page.count("never used") == 1
    assert "NewsFlash/3.0" in page


def test_a_revoked_one_opens_nothing_and_is_gone(ann: Visitor, services: Services) -> None:
    make(ann)
    actor = services.gateways.accounts.find_credentials("ann").user.actor  # type: ignore[union-attr]
    (token,) = services.tokens.list_tokens(actor)
    page = ann.get("/settings/apps").text
    assert f'name="token" value="{token.id}"' in page, "a form that works without a script"
    done = ann.post("/settings/apps/revoke", {"token": str(token.id)})
    assert (done.status_code, done.headers["Location"]) == (303, "/settings/apps")
    assert services.tokens.list_tokens(actor) == []
    page = ann.get("/settings/apps").text
    assert "Revoked" in page
    assert "No apps or scripts yet." in page
    assert ann.post("/settings/apps/revoke", {"token": str(token.id)}).status_code == 404


@pytest.mark.parametrize("end", [False, True])
def test_W23_a_new_password_ends_programs_if_that_is_wished(
    ann: Visitor, services: Services, end: bool
) -> None:
    assert 'name="programs"' not in ann.get("/settings/account").text, "there is none to end"
    secret = make(ann)
    page = ann.get("/settings/account").text
    assert "Also revoke all app passwords and access tokens (1)" in page
    assert 'name="programs" value="1">' in page, "off"
    form = {"old": PASSWORD, "password": "another quiet place"} | ({"programs": "1"} if end else {})
    page = ann.get(ann.post("/settings/password", form).headers["Location"]).text
    assert ("all app passwords and access tokens are revoked" in page) is end
    assert ("Your app passwords and access tokens still work" in page) is not end
    assert _opens(services, secret) is not end


@pytest.mark.parametrize("end", [False, True])
def test_W23_a_link_for_a_new_password_ends_programs_if_that_is_wished(
    ann: Visitor, services: Services, visitor: Make, end: bool
) -> None:
    secret = make(ann)
    user = services.gateways.accounts.find_credentials("ann").user  # type: ignore[union-attr]
    link = services.gateways.admin_accounts.create_reset_link(user.id)
    one = visitor()
    assert 'name="programs" value="1" checked>' in one.get(f"/new-password?token={link}").text
    form = {"token": link, "password": "12345678"} | ({"programs": "1"} if end else {})
    again = one.post("/new-password", form)
    assert (again.status_code, 'value="1" checked>' in again.text) == (400, end), "as it was sent"
    assert _opens(services, secret)
    done = one.post("/new-password", form | {"password": "another quiet place"})
    page = one.get(done.headers["Location"]).text
    assert ("all app passwords and access tokens are revoked" in page) is end
    assert ("Your app passwords and access tokens still work" in page) is not end
    assert _opens(services, secret) is not end


def _opens(services: Services, secret: str) -> bool:
    try:
        services.tokens.log_in("ann", secret, HERE)
    except AuthRequiredError:
        return False
    return True


def test_W04_what_is_anothers_is_not_there(ann: Visitor, services: Services, visitor: Make) -> None:
    bob = add_user(services, "bob")
    other = visitor()
    other.log_in("bob")
    make(other, name="Bob's phone")
    (token,) = services.tokens.list_tokens(bob)
    assert "Bob&#39;s phone" not in ann.get("/settings/apps").text
    assert ann.post("/settings/apps/revoke", {"token": str(token.id)}).status_code == 404
    assert services.tokens.list_tokens(bob) == [token]


def test_W11_the_password_is_asked_for(ann: Visitor, services: Services, db: Any) -> None:
    before = clock.now() - dt.timedelta(seconds=services.settings.proof_ttl + 1)
    db.sessions.update_many({}, {"$set": {"created": before}})
    assert ann.get("/settings/apps").text.count('name="proof"') == 3, "each form asks"
    for path, form in (("password", {"name": "Phone", "fever": "1"}), ("token", {"name": "x", "share": "1"})):
        for proof in ("", "wrong"):
            refused = ann.post(f"/settings/apps/{path}", {**form, "proof": proof})
            assert refused.status_code == 400
            assert not _SECRET.search(refused.text)
            assert f'value="{form["name"]}"' in refused.text, "what was typed is still there"
            assert refused.text.count(" checked") == len(form) - 1 + (path == "password")
    done = ann.post("/settings/apps/password", {"name": "Phone", "proof": PASSWORD})
    assert done.status_code == 200
    assert 'name="proof"' not in done.text, "for some minutes once is enough"
    make(ann, name="Tablet")


def test_a_token_has_the_scopes_and_the_end_that_were_chosen(ann: Visitor, services: Services) -> None:
    actor = services.gateways.accounts.find_credentials("ann").user.actor  # type: ignore[union-attr]
    ann.post("/settings/apps/token", {"name": "a", "read": "1", "subscribe": "1", "days": "365"})
    ann.post("/settings/apps/token", {"name": "b", "mark": "1", "days": ""})
    second, first = services.tokens.list_tokens(actor)
    assert (first.kind, first.scopes) == (TokenKind.API, (Scope.READ, Scope.SUBSCRIBE))
    assert first.expires is not None
    assert (first.expires - first.created).days == 365
    assert (second.scopes, second.expires) == ((Scope.MARK,), None)


@pytest.mark.parametrize(
    ("path", "form", "words"),
    [
        ("password", {"name": " "}, "Enter a name, such as the app or device"),
        ("password", {"name": "x" * 65}, "64"),
        ("token", {"name": "x"}, "Choose what the access token can do."),
        ("token", {"name": "x", "read": "1", "days": "31"}, "Choose when the access token expires."),
        ("token", {"name": "", "read": "1"}, "Enter a name, such as the app or device"),
    ],
)
def test_what_does_not_fit_is_said_beside_the_form(
    ann: Visitor, services: Services, path: str, form: dict[str, str], words: str
) -> None:
    refused = ann.post(f"/settings/apps/{path}", form)
    assert refused.status_code == 400
    assert words in refused.text
    assert "No apps or scripts yet." in refused.text


def test_one_may_have_so_many(ann: Visitor, services: Services, monkeypatch: pytest.MonkeyPatch) -> None:
    few = dataclasses.replace(services.settings, tokens_max=3)
    monkeypatch.setattr(services.tokens, "_settings", few)
    for n in range(few.tokens_max):
        make(ann, name=f"App {n}")
    refused = ann.post("/settings/apps/password", {"name": "One more"})
    assert refused.status_code == 413
    assert "at most 3 app passwords, access tokens and feed addresses" in refused.text


def test_one_may_have_so_many_also_at_one_moment(ann: Visitor, services: Services) -> None:
    few = dataclasses.replace(services.settings, tokens_max=3)
    services.tokens._settings = few
    found = services.gateways.accounts.find_credentials("ann")
    assert found is not None
    actor = found.user.actor
    (session,) = services.accounts.list_sessions(actor)
    gate = threading.Barrier(8)

    def one(n: int) -> bool:
        gate.wait()
        try:
            services.tokens.make_app_password(actor, session, f"App {n}")
        except TooLargeError:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        done = list(pool.map(one, range(8)))
    assert done.count(True) == len(services.tokens.list_tokens(actor)) <= 3


# -- the page of all apps
def test_every_app_that_people_asked_for_is_there(ann: Visitor) -> None:
    named = {
        *("Reeder", "NetNewsWire", "FeedMe", "ReadKit", "NewsFlash", "Capy Reader", "Read You", "Unread"),
        *("Newsboat", "Liferea", "RSS Guard", "Fluent Reader", "Readrops", "Vienna"),
    }
    assert {app.name.removesuffix(" Classic") for app in APPS} == named
    page = ann.get("/settings/apps/clients").text
    for app in APPS:
        assert f'id="{app.slug}"' in page
        assert f'href="/settings/apps?app={app.slug}#password"' in page


@pytest.mark.parametrize(
    ("agent", "first"), [("Android 15; Pixel", "Android"), ("iPhone; CPU iPhone OS 18_0", "iOS")]
)
def test_a_phone_sees_its_own_apps_first(ann: Visitor, agent: str, first: str) -> None:
    page = BeautifulSoup(
        ann.get("/settings/apps/clients", headers={"User-Agent": f"Mozilla/5.0 ({agent})"}).text, "lxml"
    )
    fits = [
        first in option.text
        for option in page.select("#to-app option[value]:not([value='']):not([value=others])")
    ]
    assert fits == sorted(fits, reverse=True)
    assert any(fits)
    assert not all(fits)


def test_every_address_is_one_that_answers(ann: Visitor, services: Services) -> None:
    base = services.settings.own_origin
    allowed = {
        *(base + mount for mount in READER_MOUNTS),
        *(base + mount for mount in FEVER_MOUNTS),
    }
    for app in APPS:
        for way in app.ways:
            mounts = FEVER_MOUNTS if way.protocol is Protocol.FEVER else READER_MOUNTS
            assert way.mount in mounts, app.name
    page = html.unescape(ann.get("/settings/apps/clients").text).replace("<wbr>", "")
    shown = set(re.findall(r"https?://[^<\"\s]+", page))
    assert shown <= allowed
    assert base in shown


def test_newsboat_gets_its_lines_with_the_password_that_was_just_made(
    ann: Visitor, services: Services
) -> None:
    done = ann.post("/settings/apps/password", {"name": "newsboat", "app": "newsboat"})
    base, secret = services.settings.own_origin, secret_of(done.text)
    lines = html.unescape(done.text)
    for line in (
        'urls-source "feedhq"',
        f'feedhq-url "{base}"',
        'feedhq-login "ann"',
        f'feedhq-password "{secret}"',
        "feedhq-show-special-feeds no",
    ):
        assert f"{line}\n" in lines, line


def test_the_button_of_an_app_fills_the_form(ann: Visitor) -> None:
    page = ann.get("/settings/apps?app=unread").text
    assert 'value="Unread"' in page
    assert 'name="fever" value="1" checked' in page
    page = ann.get("/settings/apps?app=netnewswire").text
    assert 'value="NetNewsWire"' in page
    assert 'name="fever" value="1" checked' not in page
    assert ann.get("/settings/apps?app=nothing").status_code == 200
    assert BY_SLUG["unread"].needs_fever


def test_a_fever_password_comes_with_its_address(app: Flask, ann: Visitor, services: Services) -> None:
    done = ann.post("/settings/apps/password", {"name": "Unread", "fever": "1", "app": "unread"})
    base = services.settings.own_origin
    assert f">{base}/fever/</code>" in done.text.replace("<wbr>", "")
    without = ann.post("/settings/apps/password", {"name": "Unread", "app": "unread"})
    assert f">{base}/fever/</code>" not in without.text.replace("<wbr>", "")
