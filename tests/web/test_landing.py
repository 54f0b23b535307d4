"""The landing page, and what other sites and search engines show of public pages."""

from __future__ import annotations

import dataclasses
import io

import pytest
from bs4 import BeautifulSoup
from flask import Flask
from PIL import Image

from app import create_app
from app.bootstrap.services import Services
from app.models.accounts.actor import Actor
from app.models.sharing.sharing import Audience
from tests.sharing.conftest import People
from tests.support.reader import add_user
from tests.web.conftest import Visitor


def _meta(page: BeautifulSoup, name: str) -> str | None:
    found = page.select_one(f'meta[name="{name}"], meta[property="{name}"]')
    return str(found["content"]) if found else None


def _sources(app: Flask, theme: str = "") -> list[tuple[str, str]]:
    """Return the media condition and the file of each picture, the last without a condition."""
    client = app.test_client()
    if theme:
        client.set_cookie("theme", theme)
    picture = BeautifulSoup(client.get("/").text, "lxml").select_one("picture")
    assert picture is not None
    found = []
    for one in picture.select("source, img"):
        name = str(one.get("srcset") or one["src"])
        answer = client.get(name)
        image = Image.open(io.BytesIO(answer.data))
        assert (image.width, image.height) == (int(str(one["width"])), int(str(one["height"]))), name
        assert answer.mimetype == "image/webp"
        assert len(answer.data) < 90_000
        found.append((str(one.get("media", "")), name.rpartition("/")[2].partition(".")[0]))
    return found


@pytest.mark.parametrize(
    ("theme", "files"),
    [
        (
            "",
            [
                ("(max-width: 599px) and (prefers-color-scheme: dark)", "product-phone-dark"),
                ("(max-width: 599px)", "product-phone-light"),
                ("(prefers-color-scheme: dark)", "product-dark"),
                ("", "product-light"),
            ],
        ),
        ("sepia", [("(max-width: 599px)", "product-phone-light"), ("", "product-light")]),
        ("black", [("(max-width: 599px)", "product-phone-dark"), ("", "product-dark")]),
    ],
)
def test_the_picture_of_the_product_is_in_the_theme_of_the_page(
    app: Flask, theme: str, files: list[tuple[str, str]]
) -> None:
    assert _sources(app, theme) == files


def test_the_landing_page_describes_itself_to_other_sites(services: Services) -> None:
    app = create_app(dataclasses.replace(services.settings, base_url="https://reader.example"), services)
    client = app.test_client()
    page = BeautifulSoup(client.get("/", base_url="https://reader.example").text, "lxml")
    assert "one quiet list" in str(_meta(page, "description"))
    assert _meta(page, "og:description") == _meta(page, "description")
    assert _meta(page, "og:url") == "https://reader.example/"
    assert _meta(page, "twitter:card") == "summary_large_image"
    card = str(_meta(page, "og:image"))
    assert card.startswith("https://reader.example/static/product-card.")
    answer = client.get(card.removeprefix("https://reader.example"), base_url="https://reader.example")
    image = Image.open(io.BytesIO(answer.data))
    assert (image.width, image.height) == (1200, 630)
    assert [_meta(page, f"og:image:{side}") for side in ("width", "height")] == ["1200", "630"]


def test_it_says_what_a_feed_reader_is(app: Flask) -> None:
    page = BeautifulSoup(app.test_client().get("/").text, "lxml")
    section = page.select_one("section.what")
    assert section is not None
    assert "What is a feed reader?" in section.text
    assert len(section.select("ol li")) == 3


def test_icons_of_the_landing_page_mean_one_thing_each(app: Flask) -> None:
    page = BeautifulSoup(app.test_client().get("/").text, "lxml")
    icons = {
        str(li.select_one("h2").text): str(li.select_one("use")["href"]).rpartition("#")[2]  # type: ignore[index,union-attr]
        for li in page.select(".points li")
    }
    assert icons["Made for the keyboard"] == "keyboard"
    assert icons["No tracking"] == "shield"
    assert len(set(icons.values())) == len(icons)


def test_robots_may_see_what_is_meant_for_everyone(app: Flask) -> None:
    lines = app.test_client().get("/robots.txt").text.splitlines()
    assert {"Allow: /$", "Allow: /@", "Disallow: /"} <= set(lines)


def test_shared_pages_describe_themselves_to_other_sites(services: Services, app: Flask) -> None:
    people = People(services)
    bob = add_user(services, "bob")
    (entry,) = people.blog([bob])
    services.following.update_profile(
        bob,
        display='Bob "B" <x>',
        bio="",
        links=(),
        audience=Audience.PUBLIC,
        listed=True,
        open_lists=False,
    )
    share = services.sharing.share(bob, entry).share
    client = app.test_client()
    base = "http://127.0.0.1:8080"
    for path, kind, title in (
        ("/@bob", "profile", 'Bob "B" <x>'),
        (f"/@bob/{share.id}", "article", "blog 1"),
        (f"/@bob/{share.id}/chain", "website", "blog 1"),
    ):
        page = BeautifulSoup(client.get(path).text, "lxml")
        assert (_meta(page, "og:type"), _meta(page, "og:title")) == (kind, title), path
        assert _meta(page, "og:url") == f"{base}{path}"
        assert _meta(page, "og:site_name") == "Eventr"
        assert _meta(page, "twitter:card") == "summary"
        assert _meta(page, "description"), path
        assert len(page.select('meta[property="og:title"]')) == 1


def test_a_person_with_a_picture_is_shown_with_it(services: Services, app: Flask, ann: Visitor) -> None:
    found = services.gateways.accounts.find_by_name("ann")
    assert found is not None
    People(services).open(Actor(found))
    services.store.database["users"].update_one({"_id": found}, {"$set": {"avatar": b"a" * 32}})
    page = BeautifulSoup(app.test_client().get("/@ann").text, "lxml")
    assert str(_meta(page, "og:image")).startswith("http://127.0.0.1:8080/a/ann/a192?v=")
