"""The page about the server: who is responsible, what is stored, how accessible Eventr is."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest
from bs4 import BeautifulSoup
from flask import Flask

from app import create_app
from app.bootstrap.services import Services
from app.config import Settings
from app.errors import SettingsError
from app.models.accounts.actor import Role
from tests.support.reader import add_user
from tests.web.conftest import Visitor


def _page(app: Flask) -> BeautifulSoup:
    answer = app.test_client().get("/about")
    assert answer.status_code == 200
    return BeautifulSoup(answer.text, "lxml")


def test_about_names_contact_and_legal_texts_that_the_admin_has_set(services: Services, app: Flask) -> None:
    page = _page(app)
    assert "has not entered a contact address" in page.get_text()
    assert not page.select('main a[href^="mailto:"]')
    mine = dataclasses.replace(
        services.settings,
        contact="mailto:admin@reader.example",
        legal_url="https://reader.example/imprint",
        privacy_url="https://reader.example/privacy",
    )
    page = _page(create_app(mine, services))
    links = {a["href"]: a.get_text() for a in page.select("main dl a")}
    assert links == {
        "mailto:admin@reader.example": "admin@reader.example",
        "https://reader.example/imprint": "Legal notice",
        "https://reader.example/privacy": "Privacy policy",
    }
    assert page.select_one("#accessibility ~ p a[href^='mailto:']"), "a barrier can be reported"


def test_about_says_what_happens_to_pictures(services: Services) -> None:
    for images, words in (("proxy", "Pictures come through this server"), ("direct", "see your IP address")):
        mine = dataclasses.replace(services.settings, images=images)
        assert words in _page(create_app(mine, services)).get_text()


def test_about_is_linked_before_and_after_login(app: Flask, ann: Visitor) -> None:
    for path in ("/", "/login", "/nope"):
        page = BeautifulSoup(app.test_client().get(path).text, "lxml")
        assert page.select_one('a[href="/about"]'), path
    assert BeautifulSoup(ann.get("/settings").text, "lxml").select_one('.sections a[href="/about"]')
    page = BeautifulSoup(ann.get("/about").text, "lxml")
    assert page.select_one("main a[href='/settings/account']"), "links to what the page tells of"


def test_only_admins_read_which_settings_are_missing(
    services: Services, app: Flask, ann: Visitor, visitor: Callable[[], Visitor]
) -> None:
    add_user(services, "root", Role.ADMIN)
    root = visitor()
    root.log_in("root")
    assert "EVENTR_CONTACT" not in _page(app).get_text()
    assert "EVENTR_CONTACT" not in ann.get("/about").text
    assert "EVENTR_CONTACT" in root.get("/about").text


@pytest.mark.parametrize(
    ("name", "value"), [("contact", "javascript:alert(1)"), ("legal_url", "ftp://x"), ("privacy_url", "x")]
)
def test_addresses_of_unknown_kinds_are_refused(name: str, value: str) -> None:
    with pytest.raises(SettingsError, match=name.upper()):
        Settings.from_env({f"EVENTR_{name.upper()}": value})
