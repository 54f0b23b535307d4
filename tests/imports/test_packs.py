"""The starter packs that come with Eventr: enough topics, and addresses in good form."""

from __future__ import annotations

import collections
import re
from urllib.parse import urlsplit

import pytest

from app.bootstrap.services import Services
from app.feeds.opml import opml
from app.feeds.urls import hash_url, is_secret
from app.gateways.imports.packs import load_shipped
from app.models.imports.imports import Pack

PACKS = load_shipped(None)


def test_at_least_twenty_topics_with_different_feeds_are_shipped() -> None:
    urls = [feed.url for pack in PACKS.values() for feed in opml.read(pack.body).feeds]
    assert len(PACKS) >= 20
    assert len(urls) >= 280
    assert len({hash_url(url) for url in urls}) == len(urls)


@pytest.mark.parametrize("pack", PACKS.values(), ids=PACKS.keys())
def test_a_pack_has_a_name_a_description_and_at_least_ten_feeds(pack: Pack) -> None:
    found = opml.read(pack.body)
    assert pack.title
    assert 10 <= len(pack.about) <= 400
    assert len(found.feeds) >= 10
    assert found.repaired is None


@pytest.mark.parametrize("pack", PACKS.values(), ids=PACKS.keys())
def test_each_feed_of_a_pack_has_a_title_a_site_and_an_https_address(pack: Pack) -> None:
    feeds = opml.read(pack.body).feeds
    assert len({feed.url for feed in feeds}) == len(feeds)
    assert len({feed.title.casefold() for feed in feeds}) == len(feeds)
    for feed in feeds:
        assert feed.problem is None, feed
        assert feed.title.strip() == feed.title != ""
        for address in (feed.url, feed.site_url or ""):
            parts = urlsplit(address)
            assert parts.scheme == "https", feed
            assert "." in (parts.hostname or ""), feed
            assert not parts.username, feed
            assert not is_secret(address), feed


def test_each_feed_has_a_description_of_its_own() -> None:
    feeds = [feed for pack in PACKS.values() for feed in opml.read(pack.body).feeds]
    assert not [feed.url for feed in feeds if not 20 <= len(feed.about) <= 90]
    assert not [feed.url for feed in feeds if feed.about.endswith(".") or feed.about != feed.about.strip()]
    twice = collections.Counter(feed.about.casefold() for feed in feeds)
    assert not [about for about, times in twice.items() if times > 1]


@pytest.mark.parametrize(
    ("slug", "letters"),
    [("bil-arabiyya", "ا"), ("po-russki", "о"), ("auf-deutsch", "und"), ("en-francais", "é")],
)
def test_descriptions_are_in_the_language_of_the_feeds(slug: str, letters: str) -> None:
    abouts = [feed.about for feed in opml.read(PACKS[slug].body).feeds]
    assert sum(letters in about for about in abouts) >= len(abouts) // 2


def test_a_pack_stored_before_there_were_descriptions_shows_those_shipped(services: Services) -> None:
    """An administrator has changed the name of a shipped pack: its list was stored as it was then."""
    packs, old = services.gateways.packs, PACKS["science"]
    body = re.sub(rb' description="[^"]*"', b"", old.body)
    assert b"description=" not in body
    own = body.replace(b' text="NASA"', b' text="NASA" description="Rockets"')
    packs.update("science", "Our science", "", own)
    stored = {feed.title: feed.about for feed in packs.read(packs.get("science")).feeds}
    shipped = {feed.title: feed.about for feed in opml.read(old.body).feeds}
    assert stored == shipped | {"NASA": "Rockets"}
    assert {feed.title: feed.about for feed in packs.list_feeds()}["Nature"] == shipped["Nature"]


def test_the_list_of_a_pack_is_read_again_only_if_it_has_changed(services: Services) -> None:
    packs = services.gateways.packs
    first = packs.read(packs.get("science"))
    packs.update("science", "Our science", "", None)
    assert packs.read(packs.get("science")) is first
    packs.update("science", "Our science", "", PACKS["books"].body)
    changed = packs.read(packs.get("science"))
    assert [feed.url for feed in changed.feeds] == [feed.url for feed in opml.read(PACKS["books"].body).feeds]


def test_packs_of_other_languages_name_them() -> None:
    languages = {pack.slug: pack.language for pack in PACKS.values()}
    assert languages["auf-deutsch"] == "de"
    assert languages["bil-arabiyya"] == "ar"
    assert languages["science"] == ""
