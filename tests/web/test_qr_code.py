"""The QR code of the page for apps: what it contains, and what it must not."""

from __future__ import annotations

import dataclasses
import re

import pytest
import segno
from bs4 import BeautifulSoup, Tag

from app import create_app
from app.bootstrap.services import Services
from app.web.view.qr_code import is_reachable_by_phones, render_qr_code
from tests.support.reader import PASSWORD, add_user
from tests.web.conftest import Visitor


def _read_modules(svg: Tag) -> list[list[bool]]:
    """Return the code's modules as they are drawn, without the white around them."""
    side = int(str(svg["viewbox"]).split()[2])
    dark = {(int(x), int(y)) for x, y in re.findall(r"M(\d+) (\d+)h1v1h-1z", str(svg.select("path")[1]["d"]))}
    return [[(x, y) in dark for x in range(4, side - 4)] for y in range(4, side - 4)]


def _draw(text: str) -> list[list[bool]]:
    return [[bool(module) for module in row] for row in segno.make(text, error="m", micro=False).matrix]


@pytest.fixture
def phone(services: Services) -> Visitor:
    """Ann on a server that phones can reach."""
    own = dataclasses.replace(services.settings, base_url="http://reader.lan:8080")
    add_user(services, "ann")
    app = create_app(own, services)
    app.config["SERVER_NAME"] = "reader.lan:8080"
    visitor = Visitor(app.test_client())
    visitor.log_in("ann", PASSWORD)
    return visitor


def _code(visitor: Visitor) -> Tag | None:
    return BeautifulSoup(visitor.get("/settings/apps").text, "lxml").select_one("svg.qr")


def test_the_code_contains_the_address_of_the_page_and_nothing_else(phone: Visitor) -> None:
    svg = _code(phone)
    assert svg is not None
    assert _read_modules(svg) == _draw("http://reader.lan:8080/settings/apps")
    assert svg["aria-label"]


def test_a_page_with_a_secret_has_no_code(phone: Visitor) -> None:
    """A camera that reads text offers to search the web for it, which would send the secret there."""
    made = phone.post("/settings/apps/password", {"name": "Phone", "proof": PASSWORD})
    page = BeautifulSoup(made.text, "lxml")
    assert page.select_one("#v-secret") is not None
    assert page.select_one("svg.qr") is None


def test_an_address_that_means_this_machine_gets_no_code(ann: Visitor) -> None:
    assert _code(ann) is None
    assert "Phones can't reach http://" in ann.get("/settings/apps").text.replace("&#39;", "'")


@pytest.mark.parametrize(
    ("base_url", "reachable"),
    [
        ("https://reader.example", True),
        ("http://192.168.1.5:8080", True),
        ("http://127.0.0.1:8080", False),
        ("http://localhost", False),
        ("http://[::1]:8080", False),
    ],
)
def test_only_addresses_that_other_devices_can_open(base_url: str, reachable: bool) -> None:
    assert is_reachable_by_phones(base_url) is reachable


def test_the_label_is_escaped() -> None:
    assert "<b>" not in render_qr_code("https://reader.example/", '"><b>')
