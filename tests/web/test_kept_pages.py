"""Which pages a browser may keep for its Back button: W18."""

from __future__ import annotations

import dataclasses
import re

import pytest
from flask import Flask

from app import create_app
from app.bootstrap.services import Services
from app.services.accounts.sign_in import Client
from app.web.security.kept_pages import get_mark_name, get_proof_name
from app.web.security.sessions import get_cookie_name
from tests.support.reader import PASSWORD, add_user
from tests.web.conftest import ORIGIN, Visitor, is_for_apps
from tests.web.test_csrf import rules

MARK, PROOF = get_mark_name(secure=False), get_proof_name(secure=False)
KEPT = "private, no-cache"
#: All other pages are loaded anew.
PAGES = {"read", "search", "people", "discover", "notifications", "subscriptions"}


@pytest.fixture
def app(services: Services) -> Flask:
    return create_app(dataclasses.replace(services.settings, base_url="http://127.0.0.1"), services)


def _get_mark(visitor: Visitor, page: str = "/read/all") -> str:
    found = re.search(r'data-mark="([^"]*)"', visitor.get(page).text)
    assert found
    return found[1]


def _prove(visitor: Visitor) -> str:
    """Do as the script of a page does."""
    mark = _get_mark(visitor)
    visitor.client.set_cookie(PROOF, mark.partition(".")[0] + ".1")
    return mark


def _caching(visitor: Visitor, path: str, **headers: str) -> str:
    return visitor.get(path, headers=headers).headers["Cache-Control"]


def test_W18_only_listed_pages_are_kept(app: Flask, ann: Visitor) -> None:
    _prove(ann)
    kept = set()
    for rule, path in rules(app, "GET"):
        answer = ann.get(path)
        if answer.headers["Cache-Control"] == KEPT and not is_for_apps(rule.endpoint):
            assert (answer.status_code, answer.mimetype) == (200, "text/html"), path
            assert 'data-mark="' in answer.text, f"{path} has no guard"
            assert "Cookie" in answer.headers["Vary"], path
            kept.add(path.split("/")[1])
    assert kept == PAGES
    for path in ("/settings", "/settings/privacy", "/sessions", "/admin", "/nope", "/read/tree"):
        assert _caching(ann, path) == "no-store", path


def test_W18_a_fragment_is_kept_nowhere(ann: Visitor) -> None:
    _prove(ann)
    assert _caching(ann, "/read/all") == KEPT
    assert _caching(ann, "/read/all", **{"HX-Request": "true"}) == "no-store"


def test_W18_pages_without_scripts_are_kept_nowhere(ann: Visitor) -> None:
    mark = _get_mark(ann)
    assert _get_mark(ann) == mark
    assert _caching(ann, "/read/all") == "no-store"
    ann.client.set_cookie(PROOF, "x" * 16 + ".1")
    assert _caching(ann, "/read/all") == "no-store", "proof of another session"
    ann.client.set_cookie(PROOF, mark.partition(".")[0] + ".1")
    assert _caching(ann, "/read/all") == KEPT


@pytest.mark.parametrize("mark", ["", "x", "x" * 16, "x" * 16 + ".<b>", "x" * 400])
def test_W18_a_damaged_mark_is_replaced(ann: Visitor, mark: str) -> None:
    ann.client.set_cookie(MARK, mark)
    ann.client.set_cookie(PROOF, mark.partition(".")[0])
    assert _caching(ann, "/read/all") == "no-store"
    cookie = ann.client.get_cookie(MARK)
    assert cookie
    assert cookie.value != mark
    assert (cookie.http_only, cookie.same_site) == (False, "Lax")


def test_W18_logging_out_and_in_gives_another_mark(ann: Visitor) -> None:
    first = _prove(ann)
    assert ann.post("/logout").status_code == 303
    assert ann.client.get_cookie(MARK) is None
    assert ann.client.get_cookie(PROOF) is None
    ann.log_in()
    second = _prove(ann)
    assert first.partition(".")[0] != second.partition(".")[0]
    ann.log_in()
    assert ann.client.get_cookie(MARK) is None, "a new session in place of the old one"


def test_a_change_makes_kept_pages_old(ann: Visitor) -> None:
    first = _prove(ann)
    assert ann.post("/folders", {"name": ""}).status_code >= 400
    assert _get_mark(ann) == first, "nothing changed"
    assert ann.post("/folders", {"name": "News"}).status_code == 303
    second = _get_mark(ann)
    assert second != first
    assert second.partition(".")[0] == first.partition(".")[0]
    assert _caching(ann, "/read/all") == KEPT, "the same session"
    ann.post("/read/mark-all", {"stream": "all"})
    assert _get_mark(ann) == second, "kept pages learn of this"


def test_W18_the_mark_is_no_part_of_the_token(ann: Visitor) -> None:
    mark = _prove(ann).partition(".")[0]
    token = ann.client.get_cookie(get_cookie_name(secure=False))
    assert token
    assert mark not in token.value


@pytest.mark.parametrize(
    ("base_url", "expected"),
    [("https://r.example", KEPT), ("http://localhost", KEPT), ("http://r.example", "no-store")],
)
def test_W18_pages_are_kept_in_secure_contexts_only(services: Services, base_url: str, expected: str) -> None:
    """Elsewhere the browser's cache can't be cleared, and nothing tells kept pages what is new."""
    add_user(services, "ann")
    secure = base_url.startswith("https:")
    own = dataclasses.replace(services.settings, base_url=base_url)
    token = services.sign_in.log_in("ann", PASSWORD, Client("127.0.0.1", "A browser"))
    cookies = {get_cookie_name(secure): token, get_mark_name(secure): "x" * 16 + ".123456"}
    cookies[get_proof_name(secure)] = "x" * 16 + ".1"
    sent = {"Cookie": "; ".join(f"{name}={value}" for name, value in cookies.items())}
    client = create_app(own, services).test_client(use_cookies=False)
    answer = client.get("/read/all", base_url=base_url, headers=sent)
    assert answer.status_code == 200
    assert answer.headers["Cache-Control"] == expected
    token_of_form = re.search(r'name="csrf_token" value="([^"]+)"', answer.text)
    assert token_of_form
    out = client.post(
        "/logout", base_url=base_url, headers={**sent, **ORIGIN}, data={"csrf_token": token_of_form[1]}
    )
    assert out.status_code == 303
    assert out.headers.get("Clear-Site-Data") == ('"cache"' if secure else None)
    gone = [line for line in out.headers.getlist("Set-Cookie") if "Max-Age=0" in line]
    assert len(gone) == 3
    if secure:
        assert all(line.startswith("__Host-") and "Secure" in line for line in gone)
