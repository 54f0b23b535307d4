"""What programs and feeds of shares get: pictures of this server alone, at addresses of its making."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import re
from typing import Any
from urllib.parse import urlsplit

import pytest
from flask import Flask
from lxml import etree

from app import create_app
from app.bootstrap import services as bootstrap
from app.bootstrap.services import Services
from app.models.media.addresses import MediaKeys, SignedPicture
from app.models.media.rewriting import PICTURES_MAX
from app.models.sharing.sharing import Audience
from tests.support.reader import add_user, pull, rss
from tests.sync.conftest import Reader, password_of
from tests.sync.rest.conftest import Program, token_for
from tests.web.conftest import Visitor

BODY = (
    '<p><img src="https://one.example/1.jpg" srcset="https://two.example/2.jpg 2000w" width="30" height="60">'
    '</p><picture><source srcset="https://three.example/3.webp" media="(min-width: 1px)">'
    '<img src="https://four.example/4.jpg"></picture>'
    '<video src="https://five.example/5.mp4" poster="https://six.example/6.jpg"></video>'
)


@pytest.fixture
def app(services: Services) -> Flask:
    return create_app(services.settings, services)


@pytest.fixture
def who(services: Services) -> Any:
    actor = add_user(services)
    url = "https://site.example/feed"
    feed_id = services.subscriptions.subscribe(actor, url).subscription.feed_id
    pull(services, [feed_id], {url: rss("Pictures", [("One", BODY)])})
    return actor


def find_foreign(services: Services, html: str) -> set[str]:
    """Return the hosts that an app contacts when it shows this HTML."""
    own = urlsplit(services.settings.own_origin).netloc
    tags = re.findall(r"<(?:img|source|video|audio|iframe|link|script)\b[^>]*>", html)
    loads = [
        url for tag in tags for urls in re.findall(r' (?:src|srcset|poster)="([^"]*)"', tag) for url in [urls]
    ]
    assert loads, html
    return {urlsplit(url.split()[0]).netloc for url in loads if not url.startswith("data:")} - {own}


def verify(services: Services, html: str) -> list[SignedPicture | None]:
    keys = MediaKeys.create("", services.settings.secret_key)
    return [keys.verify(*found) for found in re.findall(r"/i/u/([\w-]+)/([\w-]+)", html)]


def test_the_rest_api_names_no_other_host(services: Services, app: Flask, who: Any) -> None:
    program = Program(app, token_for(services, who))
    listed = program.get("/streams/all/entries?whole=true")
    if listed.status_code != 200:
        listed = program.get("/streams/all?whole=true")
    (row,) = listed.get_json()["items"]
    entry = program.get(f"/entries/{row['id']}").get_json()
    for html in (row["html"], entry["html"]):
        assert find_foreign(services, html) == set()
        assert {found.url for found in verify(services, html) if found} == {
            "https://two.example/2.jpg",
            "https://four.example/4.jpg",
            "https://six.example/6.jpg",
        }
        assert {found.page for found in verify(services, html) if found} == {"https://site.example/0"}
    for image in (row["image"], entry["image"]):
        assert image is None or image.startswith(f"{services.settings.own_origin}/i/u/")


def test_the_google_reader_api_names_no_other_host(services: Services, app: Flask, who: Any) -> None:
    reader = Reader(app.test_client(), "ann", password_of(services, who))
    reader.log_in()
    (item,) = reader.items(*reader.ids())
    assert find_foreign(services, item["summary"]["content"]) == set()


def test_the_fever_api_names_no_other_host(services: Services, app: Flask, who: Any) -> None:
    key = password_of(services, who, fever=True)
    import hashlib

    auth = hashlib.md5(f"ann:{key}".encode(), usedforsecurity=False).hexdigest()
    found = app.test_client().post("/fever/?api&items", data={"api_key": auth}).get_json()
    if found["auth"] == 1:
        assert find_foreign(services, found["items"][0]["html"]) == set()
    else:  # the key is of another form
        found = app.test_client().post("/fever/?api&items", data={"api_key": key}).get_json()
        assert found["auth"] == 1
        assert find_foreign(services, found["items"][0]["html"]) == set()


def test_feeds_and_pages_of_shares_name_no_other_host(services: Services, app: Flask, who: Any) -> None:
    services.sharing.open_stream(who, Audience.PUBLIC) if hasattr(services.sharing, "open_stream") else None
    entry = services.store.database["entries"].find_one({}, {"_id": 1})["_id"]
    services.sharing.share(who, entry, audience=Audience.PUBLIC)
    stranger = Visitor(app.test_client())
    atom = etree.fromstring(stranger.get("/@ann/atom.xml").data)
    content = atom.findtext(".//{http://www.w3.org/2005/Atom}entry/{http://www.w3.org/2005/Atom}content")
    item = json.loads(stranger.get("/@ann/feed.json").data)["items"][0]
    for html in (content, item["content_html"]):
        assert find_foreign(services, html) == set()
        assert None not in verify(services, html)
    assert item.get("image") is None or item["image"].startswith(services.settings.own_origin)


def test_icons_have_whole_addresses(services: Services, app: Flask, who: Any, db: Any) -> None:
    db["feeds"].update_one(
        {"kind": "web"}, {"$set": {"icon_blob": bytes(range(32)), "icon": "https://x.example/i"}}
    )
    wanted = f"{services.settings.own_origin}/icon/0001020304050607.png"
    reader = Reader(app.test_client(), "ann", password_of(services, who))
    reader.log_in()
    assert [feed["iconUrl"] for feed in reader.json("subscription/list")["subscriptions"]] == [wanted]
    program = Program(app, token_for(services, who))
    assert [feed["icon"] for feed in program.get("/subscriptions").get_json()["items"]] == [wanted]


def test_H12_only_the_first_pictures_of_a_text_are_signed(services: Services) -> None:
    signer = services.pictures.create_signer("https://eventr.example")
    many = "".join(f'<img src="https://a.example/{n}.png" alt="No. {n}">' for n in range(300))
    linked = '<a href="/"><img src="https://a.example/x.png" alt="In a link"></a>'
    made = signer.sign_html(many + linked, None)
    assert made.count("/i/u/") == made.count("<img") == PICTURES_MAX
    assert '<a href="https://a.example/299.png">No. 299</a>' in made
    assert '<a href="/">In a link</a>' in made


@pytest.mark.parametrize("limits", [{"pictures_per_hour": 10}, {"pictures_per_hour_programs": 10}])
def test_H12_a_stranger_cannot_have_everything_fetched(
    services: Services, limits: dict[str, int], db: Any
) -> None:
    with contextlib.closing(
        bootstrap.build(dataclasses.replace(services.settings, picture_patience=0.0, **limits))
    ) as site:
        visitor = Visitor(create_app(site.settings, site).test_client())
        signer = site.pictures.create_signer("")
        paths = [signer.sign_url(f"https://a.example/{n}.png", None) or "" for n in range(15)]
        answers = [visitor.get(path) for path in paths]
        assert [answer.status_code for answer in answers] == [503] * 10 + [429] * 5
        assert int(answers[-1].headers["Retry-After"]) > 0
        assert db["sources"].count_documents({}) == 10
        assert visitor.get(paths[0]).status_code == 503


def test_H13_pictures_among_the_files_of_an_entry_come_from_here(services: Services, app: Flask) -> None:
    """Apps load them without a click, unlike recordings; so do sites that show a link to a share."""
    actor, url = add_user(services), "https://site.example/feed"
    files = "".join(
        f'<enclosure url="https://cdn.example/{name}" type="{kind}" length="9"/>'
        for name, kind in (("1.jpg", "image/jpeg"), ("2.svg", "image/svg+xml"), ("3.mp3", "audio/mpeg"))
    )
    feed_id = services.subscriptions.subscribe(actor, url).subscription.feed_id
    body = rss("Pictures", [("One", "<p>Text</p>")]).replace(b"</item>", f"{files}</item>".encode())
    pull(services, [feed_id], {url: body})
    own = services.settings.own_origin
    reader = Reader(app.test_client(), "ann", password_of(services, actor))
    reader.log_in()
    program = Program(app, token_for(services, actor))
    (row,) = program.get("/streams/all/entries").get_json()["items"]
    atom = etree.fromstring(reader.client.get(f"/reader/atom/feed/{feed_id}", headers=reader.headers).data)
    links = atom.findall(".//{http://www.w3.org/2005/Atom}link[@rel='enclosure']")
    for found in (
        [(file["url"], file["type"]) for file in program.get(f"/entries/{row['id']}").get_json()["files"]],
        [(file["href"], file["type"]) for file in reader.items(*reader.ids())[0]["enclosure"]],
        [(link.get("href"), link.get("type")) for link in links],
    ):
        assert {kind for address, kind in found if address.startswith(f"{own}/i/u/")} == {"image/webp"}
        assert [address for address, _ in found if not address.startswith(own)] == [
            "https://cdn.example/3.mp3"
        ]
    services.store.database["entries"].update_one(
        {"_id": row["id"]}, {"$set": {"image": "https://cdn.example/1.jpg"}}
    )
    services.sharing.share(actor, row["id"], audience=Audience.PUBLIC)
    stranger = Visitor(app.test_client())
    (item,) = json.loads(stranger.get("/@ann/feed.json").data)["items"]
    page = stranger.get(f"/@ann/{item['id'].rpartition('/')[2].rpartition(':')[2]}").text
    assert re.findall(r'property="og:image" content="(.*?)"', page)[0].startswith(f"{own}/i/u/")
