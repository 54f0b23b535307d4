"""The starter packs that come with Eventr: enough topics, and addresses in good form."""

from __future__ import annotations

from urllib.parse import urlsplit

import pytest

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


def test_packs_of_other_languages_name_them() -> None:
    languages = {pack.slug: pack.language for pack in PACKS.values()}
    assert languages["auf-deutsch"] == "de"
    assert languages["bil-arabiyya"] == "ar"
    assert languages["science"] == ""
