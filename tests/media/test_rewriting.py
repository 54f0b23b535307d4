from __future__ import annotations

import re

import pytest

from app.feeds.html.sanitize import sanitize
from app.models.media.addresses import MediaKeys
from app.models.media.rewriting import (
    PICTURES_MAX,
    PictureTag,
    extend_pictures,
    list_pictures,
    rewrite_pictures,
    write_picture,
)
from app.models.media.signing import PictureSigner

KEYS = MediaKeys.create("", "pK3v9sXq7Lw2Zr8Tn5Yb1Hd6Jf4Gm0Ca")
SIGNER = PictureSigner("https://reader.example", KEYS)


def show(tag: PictureTag) -> str:
    return f"[{tag.url}{' linked' if tag.is_linked else ''}{' variant' if tag.is_variant else ''}]"


@pytest.mark.parametrize(
    ("markup", "shown"),
    [
        ('<p><img src="https://a.example/1.jpg" alt="x"></p>', "<p>[https://a.example/1.jpg]</p>"),
        ('<img alt="" src="http://a.example/1.jpg?a=1&amp;b=2">', "[http://a.example/1.jpg?a=1&b=2]"),
        (
            '<a href="/x"><img src="https://a.example/1.jpg"></a><img src="https://a.example/2.jpg">',
            '<a href="/x">[https://a.example/1.jpg linked]</a>[https://a.example/2.jpg]',
        ),
        (
            '<img src="https://a.example/s.jpg" srcset="https://a.example/640.jpg 640w, '
            'https://a.example/1600.jpg 1600w, https://a.example/1300.jpg 1300w">',
            "[https://a.example/1300.jpg]",
        ),
        (
            '<img src="https://a.example/s.jpg" srcset="https://a.example/320.jpg 320w, '
            'https://a.example/9.jpg 900w">',
            "[https://a.example/9.jpg]",
        ),
        (
            '<img srcset="https://a.example/1.jpg 1x, https://a.example/2.jpg 2x">',
            "[https://a.example/1.jpg]",
        ),
        ('<img src="data:image/gif;base64,AA" alt="x">', '<img src="data:image/gif;base64,AA" alt="x">'),
        (
            '<picture><source type="image/avif" srcset="https://a.example/1.avif"><img src="https://a.example/1.jpg">'
            "</picture>",
            "<picture>[https://a.example/1.jpg]</picture>",
        ),
        (
            '<picture><source media="(prefers-color-scheme: dark)" srcset="https://a.example/d.png">'
            '<img src="https://a.example/1.png"></picture>',
            "<picture>[https://a.example/d.png variant][https://a.example/1.png]</picture>",
        ),
        ("<p>no picture &lt;img&gt;</p>", "<p>no picture &lt;img&gt;</p>"),
    ],
)
def test_each_picture_is_replaced(markup: str, shown: str) -> None:
    assert rewrite_pictures(markup, show) == shown
    assert sorted(list_pictures(markup)) == sorted(re.findall(r"\[(\S+?)(?: \w+)?\]", shown))


def test_U13_an_entry_has_at_most_fifty_pictures() -> None:
    markup = "".join(f'<img src="https://a.example/{n}.jpg">' for n in range(200))
    assert len(list_pictures(markup)) == PICTURES_MAX == 50
    assert len(list_pictures(markup[:40] * 9)) == 1


def test_text_and_title_stay_and_are_escaped() -> None:
    tag = PictureTag("https://a.example/1.jpg", {"alt": 'a "b" <c>', "title": "&", "onerror": "x"}, False)
    assert write_picture(tag, {"src": "/i/x", "width": None}) == (
        '<img alt="a &quot;b&quot; &lt;c&gt;" title="&amp;" src="/i/x">'
    )


DIRTY = """
<p><img src="https://a.example/1.jpg" srcset="https://b.example/2.jpg 2x" width="10" height="20" alt="it's">
</p><picture><source srcset="https://c.example/3.webp" media="(min-width: 1px)"><img src="//d.example/4.jpg">
</picture>
<video poster="https://e.example/5.jpg" src="https://f.example/6.mp4"></video>
<img data-src="https://g.example/7.jpg" src="data:image/gif;base64,R0lGODlhAQABAAAAACw=">
<amp-img src="https://h.example/8.jpg" width="3" height="2"></amp-img>
"""


def test_H13_no_picture_of_cleaned_html_names_another_host() -> None:
    """Whatever the cleaning lets through, programs load it from this server."""
    clean = sanitize(DIRTY, "https://site.example/post")
    signed = SIGNER.sign_html(clean, "https://site.example/post")
    loaded = re.findall(r'<(?:img|source|video|audio)\b[^>]*? (?:src|srcset|poster)="([^"]*)"', signed)
    assert len(loaded) >= 5
    assert all(url.startswith(("https://reader.example/i/u/", "data:")) for url in loaded), loaded
    assert "srcset" not in signed


def test_a_signed_picture_keeps_its_size_and_this_servers_pictures_their_address() -> None:
    signed = SIGNER.sign_html('<img src="https://a.example/1.jpg" width="30" height="20">', None)
    assert 'width="30" height="20"' in signed
    own = "https://reader.example/m/1/w640"
    assert SIGNER.sign_url(own, None) == own
    assert SIGNER.sign_url("javascript:alert(1)", None) is None
    direct = PictureSigner("https://reader.example", None)
    assert direct.sign_html(signed, None) == signed
    assert direct.sign_url("https://a.example/1.jpg", None) == "https://a.example/1.jpg"


def test_tags_of_pictures_get_attributes_and_keep_their_own() -> None:
    markup = (
        '<p>a &lt;img&gt;</p><picture><source srcset="https://a.example/1.webp" type="image/webp">'
        '<img src="https://a.example/1.jpg?a=1&amp;b=2" alt="x &quot;y&quot;"></picture>'
        '<img src="data:image/gif;base64,R0lGOD">'
    )
    tags: list[PictureTag] = []
    added = {"class": 'a"b', "width": 3, "height": None}
    found = extend_pictures(markup, lambda tag: tags.append(tag) or added)
    assert found == markup.replace('<img src="https', '<img class="a&quot;b" width="3" src="https')
    assert [tag.url for tag in tags] == ["https://a.example/1.jpg?a=1&b=2"]
    assert extend_pictures(markup, lambda tag: None) == markup
