"""What browsers load without a click: no picture or file makes their browser ask a private address."""

from __future__ import annotations

import dataclasses
import re

import pytest

from app.config import Settings
from app.feeds import parse
from app.feeds.fetch.address_policy import Policy
from app.feeds.html.sanitize import sanitize as clean
from app.feeds.media_targets import may_load
from app.gateways.feeds.entry_bodies import make_sanitizer

BASE = "https://site.example/p"
PRIVATE = [
    "http://127.0.0.1/a.png",
    "http://127.1/a.png",
    "http://2130706433/a.png",
    "http://0x7f.0.0.1/a.png",
    "http://0177.0.0.1/a.png",
    "http://192.168.1.1/a.png",
    "//10.0.0.1/a.png",
    "http://169.254.169.254/a.png",
    "http://[::1]/a.png",
    "http://[::ffff:10.0.0.1]/a.png",
    "http://１２７.0.0.1/a.png",
    "http://127。0。0。1/a.png",
    "http://%31%32%37.0.0.1/a.png",
    "http://localhost/a.png",
    "http://a.localhost./a.png",
    "http://router/a.png",
    "http://nas.local/a.png",
    "https://NAS.Local/a.png",
    "http://vault.internal/a.png",
    "http://nas.home.arpa/a.png",
    "http://user@192.168.1.1/a.png",
    "http://site.example:22/a.png",
    "http://site.example:9200/a.png",
    "http:\\\\192.168.1.1\\a.png",
]
PUBLIC = [
    "http://site.example/a.png",
    "https://8.8.8.8/a.png",
    "https://site.example:8443/a.png",
    "https://Bücher.example/a.png",
    "https://a_b.site.example/a.png",
    "https://site.example/a.png?u=http://127.0.0.1/",
    "https://localhost.site.example/a.png",
]


@pytest.mark.parametrize("url", PRIVATE)
@pytest.mark.parametrize(
    "element",
    [
        "<img src='{}'>",
        "<img srcset='{} 2x'>",
        "<img data-src='{}'>",
        "<picture><source srcset='{}'><img src=x.png></picture>",
        "<video poster='{}'></video>",
        "<video src='{}'></video>",
        "<audio><source src='{}'></audio>",
        "<object type=image/png data='{}'></object>",
        "<amp-img src='{}'></amp-img>",
        "<video poster=spacer.png style='background:url({})'></video>",
    ],
)
def test_S06_media_at_private_addresses_are_dropped(element: str, url: str) -> None:
    assert "a.png" not in clean(element.format(url), BASE)


@pytest.mark.parametrize("url", PUBLIC)
def test_S06_media_at_public_addresses_stay(url: str) -> None:
    assert "<img" in clean(f"<img src='{url}'>", BASE)
    assert may_load(url.lower())


def test_S06_links_to_private_addresses_stay_links() -> None:
    assert 'href="http://192.168.1.1/"' in clean("<a href='http://192.168.1.1/'>router</a>", BASE)


def test_S11_media_of_an_allowed_private_site_stay_on_its_own_pages() -> None:
    allowed = dataclasses.replace(Settings(), fetch_allow=("10.0.0.0/8", "nas.local:8000"))
    for own, other in (
        ("http://10.0.0.5", "http://nas.local:8000"),
        ("http://nas.local:8000", "http://10.0.0.5"),
    ):
        markup = f"<img src=a.png><img src='{other}/b.png'><img src='http://192.168.0.1/c.png'>"
        result = make_sanitizer(allowed)(markup, f"{own}/post")
        assert [name for name in "abc" if f"/{name}.png" in result] == ["a"]
    assert not may_load("http://10.0.0.5/", Policy(allowed))


FEED = """<rss version='2.0' xmlns:media='http://search.yahoo.com/mrss/'><channel><title>T</title>
<image><url>{0}</url></image><item><guid>1</guid><title>A</title><description>x</description>
<enclosure url='{0}' type='image/png'/><media:content url='{0}' medium='image'/>
<media:thumbnail url='{0}'/></item></channel></rss>"""


@pytest.mark.parametrize("url", [u for u in PRIVATE if "\\" not in u and "//10." not in u])
@pytest.mark.parametrize("broken", ["", "<x y=z></x>"])
def test_S06_files_and_icons_at_private_addresses_are_dropped(url: str, broken: str) -> None:
    feed = parse.parse((broken + FEED.format(url)).encode(), url="https://site.example/feed")
    (entry,) = feed.entries
    assert (entry.enclosures, entry.image, feed.icon) == ((), None, None)


def test_S11_files_on_the_host_of_their_feed_stay() -> None:
    feed = parse.parse(FEED.format("http://10.0.0.5:8000/a.png").encode(), url="http://10.0.0.5:8000/feed")
    assert feed.entries[0].enclosures[0].url == "http://10.0.0.5:8000/a.png"
    assert feed.icon == feed.entries[0].image == "http://10.0.0.5:8000/a.png"


def test_recordings_may_have_any_port() -> None:
    item = "<item><guid>1</guid><enclosure url='{}' type='audio/mpeg'/></item>"
    for url, kept in (("http://radio.example:8000/a.mp3", 1), ("http://10.0.0.1:8000/a.mp3", 0)):
        feed = f"<rss version='2.0'><channel>{item.format(url)}</channel></rss>"
        assert len(parse.parse(feed.encode(), url=BASE).entries[0].enclosures) == kept


@pytest.mark.parametrize(
    "url",
    [
        *(
            "magnet:?xt=urn:btih:abc&dn=x",
            "tel:+49123",
            "xmpp:a@b.example",
            "gemini://g.example/a",
            "geo:1,2",
        ),
        *(
            "sms:+1?body=hi",
            "matrix:u/a:b.example",
            "mailto:a@b.example",
            "ftp://e.org/a",
            "irc://i.example/a",
        ),
    ],
)
def test_H05_links_to_other_apps_stay_and_load_nothing(url: str) -> None:
    written = url.replace("&", "&amp;")
    result = clean(
        f"<a href='{written}'>t</a><img src='{written}'><video src='{written}' poster='{written}'>", BASE
    )
    assert re.search(rf'<a rel="[^"]*" target="_blank" [^>]* href="{re.escape(written)}">t</a>', result)
    assert result.count(written) == 1
    assert clean(result, BASE) == result
    for item in (f"<enclosure url='{written}'/>", f"<link>{written}</link>"):
        feed = f"<rss version='2.0'><channel><item><guid>1</guid>{item}</item></channel></rss>"
        (entry,) = parse.parse(feed.encode(), url=BASE).entries
        assert ([file.url for file in entry.enclosures], entry.url) == ([url], None)
    link = f"<link rel='enclosure' href='{written}'/>"
    atom = f"<feed xmlns='http://www.w3.org/2005/Atom'><entry><id>1</id>{link}</entry></feed>"
    assert [file.url for file in parse.parse(atom.encode(), url=BASE).entries[0].enclosures] == [url]


@pytest.mark.parametrize(
    "url",
    [
        "javascript:alert(1)",
        "JaVaScRiPt:x",
        "data:text/html,x",
        "vbscript:x",
        "file:///a",
        "intent://x#Intent;end",
        "tel:",
    ],
)
def test_H05_other_schemes_are_no_files(url: str) -> None:
    item = f"<item><guid>1</guid><enclosure url='{url}'/><link>{url}</link></item>"
    feed = f"<rss version='2.0'><channel>{item}</channel></rss>"
    (entry,) = parse.parse(feed.encode(), url=BASE).entries
    assert (entry.enclosures, entry.url) == ((), None)
