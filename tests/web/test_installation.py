"""Eventr as an application that browsers install: manifest, icons, and what others share with it."""

from __future__ import annotations

import io
import json
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from bs4 import BeautifulSoup
from flask import Flask
from PIL import Image

from app.bootstrap.services import Services
from app.models.accounts.actor import Actor
from app.web.assets.assets import load_assets
from app.web.pages.installation import find_address
from app.web.view.typography import COLORS
from tests.web.conftest import Visitor


def _manifest(app: Flask, query: str = "") -> dict[str, Any]:
    answer = app.test_client().get(f"/manifest.webmanifest{query}")
    assert answer.status_code == 200
    found: dict[str, Any] = json.loads(answer.data)
    return found


def test_each_page_refers_to_the_manifest_in_its_language_and_theme(app: Flask) -> None:
    client = app.test_client()
    client.set_cookie("theme", "sepia")
    client.set_cookie("language", "ar")
    page = BeautifulSoup(client.get("/").text, "lxml")
    link = page.select_one('link[rel="manifest"]')
    assert link is not None
    found = _manifest(app, f"?{urlsplit(str(link['href'])).query}")
    assert (found["lang"], found["dir"]) == ("ar", "rtl")
    assert found["theme_color"] == found["background_color"] == COLORS["sepia"]
    assert [meta["content"] for meta in page.select('meta[name="theme-color"]')] == [COLORS["sepia"]]


def test_the_system_chooses_the_color_if_the_page_follows_it(app: Flask) -> None:
    page = BeautifulSoup(app.test_client().get("/").text, "lxml")
    metas = page.select('meta[name="theme-color"]')
    assert {meta["media"]: meta["content"] for meta in metas} == {
        "(prefers-color-scheme: light)": COLORS["light"],
        "(prefers-color-scheme: dark)": COLORS["dark"],
    }


def test_the_manifest_names_the_essentials_of_an_installable_application(app: Flask) -> None:
    found = _manifest(app)
    assert (found["id"], found["scope"], found["display"]) == ("/", "/", "standalone")
    sizes = {(icon["sizes"], icon.get("purpose", "any")) for icon in found["icons"]}
    assert sizes == {("192x192", "any"), ("512x512", "any"), ("512x512", "maskable")}
    assert [one["url"] for one in found["shortcuts"]] == ["/", "/add", "/search"]
    assert found["share_target"]["action"] == "/share-target"


def test_the_page_without_a_connection_has_only_the_language_of_the_account(
    services: Services, ann: Visitor, app: Flask
) -> None:
    stranger = app.test_client().get("/offline", headers={"Accept-Language": "en"}).text
    assert ann.get("/offline").text == stranger
    user_id = services.gateways.accounts.find_by_name("ann")
    assert user_id is not None
    services.accounts.set_preferences(Actor(user_id), {"language": "de"})
    german = ann.get("/offline").text
    assert "Keine Verbindung" in german
    page = BeautifulSoup(german, "lxml")
    assert not page.select("form, script, input, nav, [hx-get]"), "a page that is kept can't send anything"
    assert [link["href"] for link in page.select("main a")] == ["/", ""]
    assert german == app.test_client().get("/offline", headers={"Accept-Language": "de"}).text


def test_icons_have_the_sizes_that_the_manifest_names(app: Flask) -> None:
    found = _manifest(app)
    icons = [*found["icons"], *(icon for one in found["shortcuts"] for icon in one["icons"])]
    for icon in icons:
        answer = app.test_client().get(icon["src"])
        image = Image.open(io.BytesIO(answer.data))
        assert f"{image.width}x{image.height}" == icon["sizes"], icon
        assert (image.format, answer.mimetype) == ("PNG", icon["type"])
    # Systems cut it into any shape, and iOS shows transparent corners in black.
    for name in ("icon-maskable.png", "apple-touch-icon.png"):
        asset = load_assets().get(load_assets().get_url(name).rpartition("/")[2])
        assert asset is not None
        corner = Image.open(io.BytesIO(asset.body)).convert("RGBA").getpixel((0, 0))
        assert isinstance(corner, tuple)
        assert corner[3] == 255, name


def test_the_favicon_holds_the_sizes_of_tabs_and_bookmarks(app: Flask) -> None:
    image = Image.open(io.BytesIO(app.test_client().get("/favicon.ico").data))
    assert image.info["sizes"] == {(16, 16), (32, 32), (48, 48)}


def test_an_unknown_language_or_theme_is_no_error_of_the_page(app: Flask) -> None:
    assert _manifest(app, "?language=xx")["lang"] == "en"
    assert app.test_client().get("/manifest.webmanifest?theme=x").status_code == 400


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("Look: https://site.example/a?b=c#d", "https://site.example/a?b=c#d"),
        ("A title\nhttps://site.example/a.", "https://site.example/a"),
        ("(see http://site.example/x)", "http://site.example/x"),
        ("“https://site.example/”", "https://site.example/"),
        ("HTTPS://SITE.EXAMPLE/", "HTTPS://SITE.EXAMPLE/"),
        ("javascript:alert(1) data:text/html,x ftp://e/x", ""),
        ("no address", ""),
        ("", ""),
    ],
)
def test_an_address_is_found_wherever_an_application_puts_it(text: str, address: str) -> None:
    assert find_address(text) == address


def test_a_shared_address_leads_to_its_feeds_or_to_a_post(ann: Visitor) -> None:
    query = {"title": "A <b>title", "text": "Read this! https://site.example/a?b=c"}
    page = BeautifulSoup(ann.get("/share-target", query_string=query).text, "lxml")
    form = page.select_one('main form[action="/add"] input[name="address"]')
    assert form is not None
    assert form["value"] == "https://site.example/a?b=c"
    link = page.select_one('main a[href^="/compose"]')
    assert link is not None
    assert parse_qs(urlsplit(str(link["href"])).query) == {
        "title": ["A <b>title"],
        "note": ["Read this!\n\nhttps://site.example/a?b=c"],
    }
    post = BeautifulSoup(ann.get(str(link["href"])).text, "lxml")
    filled = post.select_one("textarea[name=note]"), post.select_one("input[name=title]")
    assert filled[0] is not None and filled[1] is not None  # noqa: PT018 — narrows both
    assert filled[0].text.strip() == "Read this!\n\nhttps://site.example/a?b=c"
    assert filled[1]["value"] == "A <b>title"


def test_words_without_an_address_lead_to_a_post_or_a_search(ann: Visitor) -> None:
    page = BeautifulSoup(ann.get("/share-target?text=old+roofs&title=old+roofs").text, "lxml")
    goals = [str(link["href"]) for link in page.select("main a.btn")]
    assert goals == ["/compose?title=old+roofs&note=", "/search?q=old+roofs"]
    assert not page.select('main form[action="/add"]')


def test_nothing_shared_says_so(ann: Visitor) -> None:
    page = ann.get("/share-target?url=javascript:alert(1)")
    assert page.status_code == 200
    assert "sent neither an address nor any text" in page.text
    assert "javascript:" not in BeautifulSoup(page.text, "lxml").select_one("main").decode()  # type: ignore[union-attr]


def test_a_long_text_still_fits_the_address_of_the_post(ann: Visitor) -> None:
    page = BeautifulSoup(ann.get("/share-target", query_string={"text": "ü" * 5000}).text, "lxml")
    link = page.select_one('main a[href^="/compose"]')
    assert link is not None
    assert len(str(link["href"])) < 8000
    assert ann.get(str(link["href"])).status_code == 200


def test_a_visitor_logs_in_and_comes_back_to_what_was_shared(app: Flask) -> None:
    answer = app.test_client().get("/share-target?url=https%3A%2F%2Fsite.example%2F")
    assert answer.status_code == 303
    goal = parse_qs(urlsplit(answer.headers["Location"]).query)["next"]
    assert goal == ["/share-target?url=https%3A%2F%2Fsite.example%2F"]
