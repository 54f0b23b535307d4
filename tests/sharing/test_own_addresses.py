"""A feed cannot make browsers ask this server for something: media from here are dropped (H05)."""

from __future__ import annotations

import dataclasses
import random

import pytest

from app import clock
from app.bootstrap.services import Services
from app.config import Settings
from app.feeds.fetch.address_policy import Policy
from app.feeds.html.sanitize import sanitize
from app.gateways.feeds import entry_bodies
from app.gateways.feeds.digest import Digester
from app.gateways.reading import entries
from app.models.accounts.actor import Actor
from app.models.feeds.feed import Feed, FeedUpdate
from app.models.feeds.fetched import Fetched, FetchRequest
from app.models.reading.entry import NewEntry
from app.models.reading.stream import StreamQuery, StreamRef

OURS = dataclasses.replace(Settings(), base_url="https://reader.example")
HTML = '<p>Hi <img src="https://reader.example/logout"><img src="https://b.example/x.png"></p>'
FEED = (
    '<rss version="2.0"><channel><title>t</title><item><title>e</title><guid>1</guid>'
    f"<description><![CDATA[{HTML}]]></description></item></channel></rss>"
)


def test_H05_what_a_pull_stores_asks_nothing_of_this_server() -> None:
    request = FetchRequest("https://b.example/feed")
    fetched = Fetched(request, 200, request.url, body=FEED.encode(), wire_bytes=1)
    feed = Feed(id=1, url=request.url, url_key="k", created=clock.now(), claim_token="t")
    (new,) = Digester(OURS, random.Random(1)).digest_fetch(feed, fetched, clock.now()).update.new
    assert "b.example/x.png" in new.summary + new.content
    assert "reader.example" not in new.summary + new.content


def test_H05_nor_does_what_is_cleaned_anew(services: Services, monkeypatch: pytest.MonkeyPatch) -> None:
    actor = Actor(1)
    feed = services.subscriptions.subscribe(actor, "https://b.example/feed").subscription.feed_id
    gateway, now = services.gateways.feeds, clock.now()
    gateway.claim([feed], "t", now, 60)
    html = HTML.replace("https://reader.example", services.settings.own_origin)
    body = entry_bodies.clean_body(html, "", "https://b.example/")
    entry = NewEntry(guid_hash=b"12345678", at=now, arrived=now, title="x", **body._asdict())
    gateway.store_updates([FeedUpdate(feed, "t", now, (entry,))], now)
    (row,) = services.reading.load_page(actor, StreamQuery(StreamRef.parse("all"))).rows
    monkeypatch.setattr(entries, "SANITIZER_VERSION", 99)
    content = services.reading.get_article(actor, row.id).entry.content
    assert "b.example/x.png" in content
    assert "logout" not in content


@pytest.mark.parametrize(
    "host",
    ["localhost", "LOCALHOST.", "127.0.0.1", "127.0.0.2", "[::1]", "[::ffff:7f00:1]", "a.localhost"],
)
def test_H05_all_names_of_this_machine_are_ours(host: str) -> None:
    own = "http://127.0.0.1:8080"
    assert sanitize(f'<img src="http://{host}:8080/x">', "http://b.example/", own_origin=own) == ""
    # Other servers on this machine aren't ours; their own pages may show their pictures if they are allowed.
    policy = Policy(Settings(fetch_allow=(f"{host.strip('.').lower()}:9",)))
    page = f"http://{host}:9/"
    assert "<img" in sanitize(f'<img src="{page}x">', page, own_origin=own, policy=policy)


def test_H05_the_public_address_is_known_without_its_setting() -> None:
    assert Settings(host="::1", port=81).own_origin == "http://[::1]:81"
    assert OURS.own_origin == "https://reader.example"
