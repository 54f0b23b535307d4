"""Plain text in feeds: it keeps its lines and its indentation, and its addresses become links."""

from __future__ import annotations

import pytest

from app.feeds import parse
from app.feeds.html.sanitize import sanitize
from app.feeds.parse.markup import MAX_INDENT, escape_text, keep_line_breaks

URL = "https://site.example/feed"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Slides:\nhttps://e.org/s (PDF)\n\n00:00 Begin",
         'Slides:<br>\n<a href="https://e.org/s">https://e.org/s</a> (PDF)<br>\n<br>\n00:00 Begin'),
        ("def f():\n    return 1 < 2\n", "def f():<br>\n\xa0\xa0\xa0\xa0return 1 &lt; 2"),
        ("\r\n   a\r\n\tb\r\n", "a<br>\n\xa0b"),
        ("  indented as a whole\n  like this  ", "indented as a whole<br>\nlike this"),
        ("a\n" + " " * 99 + "b", "a<br>\n" + "\xa0" * MAX_INDENT + "b"),
        ("www.e.org/a, (see https://e.org/x_(y)).",
         '<a href="https://www.e.org/a">www.e.org/a</a>, '
         '(see <a href="https://e.org/x_(y)">https://e.org/x_(y)</a>).'),
        ('<https://e.org/?a=1&b="x">',
         '&lt;<a href="https://e.org/?a=1&amp;b=">https://e.org/?a=1&amp;b=</a>"x"&gt;'),
        ("a@www.e.org xhttps://e.org javascript:alert(1) www.e", None),
        ("<script>alert(1)</script>", "&lt;script&gt;alert(1)&lt;/script&gt;"),
        ("", ""),
    ],
)  # fmt: skip
def test_plain_text_reads_as_it_was_written(text: str, shown: str | None) -> None:
    result = escape_text(text)
    assert result == (text if shown is None else shown)
    assert "<script" not in sanitize(result, URL)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("see https://e.org/?a=1&amp;b=2, n<m",
         'see <a href="https://e.org/?a=1&amp;b=2">https://e.org/?a=1&amp;b=2</a>, n&lt;m'),
        ("a &lt;https://e.org/&gt;", 'a &lt;<a href="https://e.org/">https://e.org/</a>&gt;'),
        ("see <https://e.org/>", 'see &lt;<a href="https://e.org/">https://e.org/</a>>'),
        ("<p>https://e.org/</p>", None),
        ("https://e.org/<br>b", None),
        ("no address", None),
    ],
)  # fmt: skip
def test_text_without_tags_gets_links(text: str, shown: str | None) -> None:
    assert keep_line_breaks(text) == (text if shown is None else shown)


MEDIA = "<media:group xmlns:media='http://search.yahoo.com/mrss/'><media:description>{}</media:description></media:group>"


ATOM = "<feed xmlns='http://www.w3.org/2005/Atom'><entry><id>1</id>"


@pytest.mark.parametrize(
    "document",
    [
        f"{ATOM}{MEDIA}</entry></feed>",
        f"{ATOM}<content type='text'>{{}}</content></entry></feed>",
        f"{ATOM}<summary>{{}}</summary></entry></feed>",
        "<rss version='2.0'><channel><item><description>{}</description></item></channel></rss>",
        '{{"version": "https://jsonfeed.org/version/1.1", "items": [{{"id": "1", "content_text": "{}"}}]}}',
    ],
)
def test_addresses_in_plain_text_of_all_formats_are_links(document: str) -> None:
    (entry,) = parse.parse(document.format("See https://e.org/s").encode(), url=URL).entries
    assert (entry.content or entry.summary) == 'See <a href="https://e.org/s">https://e.org/s</a>'


@pytest.mark.parametrize(
    "unit", ["www.", "https://a", "https://a(", "&amp", "https://", "www.a.b ", ")", " \n"]
)
def test_X08_plain_text_takes_linear_time(unit: str) -> None:
    text = unit * ((1 << 20) // len(unit))
    assert isinstance(escape_text(text), str)
    assert isinstance(keep_line_breaks(text), str)
