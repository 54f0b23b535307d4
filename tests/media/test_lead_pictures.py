"""The picture of an entry in lists: the feed's own, else the first of its text that shows something."""

from __future__ import annotations

import pytest

from app.models.media.rewriting import find_lead_picture
from tests.feeds.test_digest import NOW, answer, digest, feed, rss
from tests.support import corpus

BIG = '<img src="https://site.example/photo.jpg" alt="">'


@pytest.mark.parametrize(
    ("markup", "found"),
    [
        ("<p>No picture.</p>", None),
        (f"<p>Text.</p>{BIG}", "photo"),
        ('<img src="https://site.example/a.jpg" width="100" height="100">', "a"),
        ('<img src="https://site.example/a.jpg" width="600">', "a"),
        # Rulers, buttons, smileys, faces, counters.
        (f'<img src="https://site.example/line.gif" width="500" height="100">{BIG}', "photo"),
        (f'<img src="https://site.example/a.gif" width="99" height="400">{BIG}', "photo"),
        (f'<img src="https://site.example/a.gif" width="88">{BIG}', "photo"),
        (f'<img src="https://s.w.org/images/core/emoji/17/1f600.png">{BIG}', "photo"),
        (f'<img src="https://site.example/img/spacer.gif">{BIG}', "photo"),
        (f'<img src="data:image/gif;base64,R0lGODlhAQABAAAAACw=">{BIG}', "photo"),
        # A name that says "logo" is of no importance where a size is stated.
        ('<img src="https://site.example/logo-history.jpg" width="800" height="600">', "logo-history"),
        # A picture far down doesn't stand for the whole.
        ('<img src="https://site.example/icon.png">' * 5 + BIG, None),
        # The variant for dark themes isn't the picture.
        (
            '<picture><source srcset="https://site.example/dark.jpg" media="(prefers-color-scheme: dark)">'
            f"{BIG}</picture>",
            "photo",
        ),
    ],
)
def test_the_first_picture_that_shows_something_stands_for_the_entry(markup: str, found: str | None) -> None:
    url = find_lead_picture(markup)
    assert (url and url.rpartition("/")[2].removesuffix(".jpg")) == found


def test_a_text_of_pictures_gives_its_entry_one_and_the_feeds_own_comes_first() -> None:
    inside = "&lt;img src='https://blog.example/in.jpg'&gt;"
    own = "<enclosure url='https://blog.example/own.jpg' type='image/jpeg' length='9000'/>"
    item = "<item><title>{0}</title><guid>{0}</guid><description>Text {1}</description>{2}</item>"
    body = rss(item.format("a", inside, own), item.format("b", inside, ""), item.format("c", "", ""))
    new = digest(feed(), answer(body)).update.new
    assert [(e.title, e.image) for e in new] == [
        ("a", "https://blog.example/own.jpg"),
        ("b", "https://blog.example/in.jpg"),
        ("c", None),
    ]


@pytest.mark.parametrize(
    ("path", "least"),
    [
        ("feeds/rss/spoon-tamago.com-d94f47.xml", 10),
        ("feeds/rss/egscomics.com-70075f.xml", 20),
        ("feeds/atom/draw-down.com-f7ea38.xml", 20),
    ],
)
def test_genuine_feeds_of_pictures_have_some_in_lists(path: str, least: int) -> None:
    new = digest(feed(), answer((corpus.root() / path).read_bytes()), NOW).update.new
    assert sum(entry.image is not None for entry in new) >= least
