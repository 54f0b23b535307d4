"""Plain text out of markup."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.feeds.html.sanitize import sanitize
from app.feeds.html.text import (
    extract_clean_text,
    extract_plain_text,
    flatten_html,
    make_excerpt,
    parse_language_tag,
)

CASES = [
    ("a < b", "a < b"),
    ("AT&T", "AT&T"),
    ("AT&amp;T", "AT&T"),
    ("AT&amp;amp;T", "AT&T"),
    ("Tom &amp;#8217;s", "Tom ’s"),
    ("x &#151; y", "x — y"),
    ("a\x97b", "a—b"),
    ("\x00he\x0cllo\x1b", "he llo"),
    ("  a\n\tb ", "a b"),
    ("<b>f</b>oo", "foo"),
    ("one<br/>two", "one two"),
    ("<p>one</p><p>two</p>", "one two"),
    ("List<String>", "List<String>"),
    ("if x<y and z>w", "if x<y and z>w"),
    ("The &lt;dialog&gt; element", "The <dialog> element"),
    ("&lt;b&gt;Bold&lt;/b&gt; move", "Bold move"),
    ("&lt;b&gt; and &lt;i&gt; compared", "<b> and <i> compared"),
    ("<script>alert(1)</script>ok", "ok"),
    ("The <script> tag explained", "The <script> tag explained"),
    ("The <details> element & <dialog>", "The <details> element & <dialog>"),
    ("Why <main> matters", "Why <main> matters"),
    ("Intro to <canvas>", "Intro to <canvas>"),
    ("From <b> to </i> and <img>", "From <b> to </i> and <img>"),
    ("<STRONG>One</strong> <img src=x> two<BR>three <wbr>four", "One two three four"),
    ("<p>a<b$ <em>b</em>", "<p>a<b$ b"),
    ("<script src='x'>a", "a"),
    ("<![CDATA[hi]]>", "hi"),
    ("R&D <3", "R&D <3"),
    ("<a title='a > b'>x</a>", "x"),
    ("a\ud800b\ufeff", "ab"),
    ("10<sup>6</sup> cells, 10<sup>−5</sup> M", "10⁶ cells, 10⁻⁵ M"),
    ("10&lt;sup&gt;12&lt;/sup&gt; m<sup>2</sup>", "10¹² m²"),
    ("the 4<sup>th</sup> <sup>[1]</sup>", "the 4th [1]"),
    ("", ""),
]


@pytest.mark.parametrize(("markup", "expected"), CASES)
def test_plain_text_of_a_title(markup: str, expected: str) -> None:
    assert extract_plain_text(markup) == expected


@given(st.text(alphabet=st.sampled_from("<>&;#abp/! \n\"'=x1-[]"), max_size=200))
def test_plain_never_raises_and_leaves_no_control_characters(markup: str) -> None:
    result = extract_plain_text(markup)
    assert result == result.strip()
    assert "\n" not in result


@given(st.text(max_size=100))
def test_text_without_markup_only_loses_controls_and_doubled_spaces(words: str) -> None:
    words = words.replace("<", "").replace("&", "")
    if words.isprintable():
        assert extract_plain_text(words) == " ".join(words.split())


@pytest.mark.parametrize("space", ["\n", "\r\n", "\t", "\xa0", "\x0b", "\u2028"])
def test_every_white_space_is_one_space_and_hides_no_control(space: str) -> None:
    assert extract_plain_text(f"one{space}two") == "one two"
    assert extract_plain_text(f"one\x93{space}two\x85\x07") == "one“ two…"


@pytest.mark.parametrize("turn", [*"\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"])
def test_H05_nothing_turns_the_text_around_a_title(turn: str) -> None:
    """An unclosed one would use up the end of its <bdi>, and turn what follows in the line."""
    for markup in (f"one{turn}two", f"&#{ord(turn)};one<b>two</b>"):
        assert extract_plain_text(markup) == "onetwo"
    assert make_excerpt(f"<p>one{turn}two</p>", 50) == "onetwo"


def test_marks_that_scripts_and_emoji_need_stay() -> None:
    for text in ("\u200fשלום\u200e", "می\u200cخواهم", "👩\u200d💻", "\u061cنص"):
        assert extract_plain_text(text) == text


@pytest.mark.parametrize(
    "text", ["\u200b", "\u2060 \u200b", "\U000e0041\U000e0042", "\u200e\u200f", "\u202e \xa0"]
)
def test_a_title_that_nobody_sees_is_none(text: str) -> None:
    assert extract_plain_text(text) == ""


@pytest.mark.parametrize(
    ("text", "tag"),
    [
        ("en", "en"),
        (" de-CH-1996 ", "de-CH-1996"),
        ("en_US", "en_US"),
        ("", None),
        ('"><img src=x onerror=alert(1)>', None),
        ("en us", None),
        ("x" * 36, None),
    ],
)
def test_H05_a_language_is_a_tag_or_nothing(text: str, tag: str | None) -> None:
    assert parse_language_tag(text) == tag


def test_excerpt_ends_at_a_word() -> None:
    assert make_excerpt("<p>One two&nbsp;three</p><p>four, five</p>", 16) == "One two three…"
    assert make_excerpt("<p>One</p><p>two</p>", 50) == "One two"


def test_excerpt_of_much_white_space_is_as_long_as_of_little() -> None:
    assert make_excerpt("<p>One" + " \n" * 500 + "two</p><p>three</p>", 9) == "One two…"
    assert make_excerpt("<p>One" + " \n" * 500 + "two</p><p>three</p>", 50) == "One two three"
    assert make_excerpt('<p title="&gt; x">One</p>' + " " * 400 + "two", 7) == "One two"


def test_excerpt_reads_no_further_than_it_needs() -> None:
    # An unclosed tag far behind the window must not matter, nor must megabytes of it.
    long = "<p>" + "word " * 1000 + "<a href='" + "x" * 5_000_000
    assert make_excerpt(long, 100).startswith("word word")
    assert len(make_excerpt(long, 100)) <= 101


def test_excerpt_of_entities_is_not_undone_twice() -> None:
    assert make_excerpt("<p>Write &amp;lt; for less-than</p>", 80) == "Write &lt; for less-than"


PARTS = ["<p>", "</p>", "<b>x</b>y", '<img alt="&lt;i>" src="//a.example/b.png">', "<wbr>", "a", " ", "\n"]
PARTS += ["\xa0", "\x97", "\u202e", "]]>", "<!-- z -->", "<", "&#8217;", "&amp;lt;", "é"]


@given(st.lists(st.sampled_from(PARTS)))
def test_text_of_clean_html_is_the_same_without_the_steps_for_other_html(parts: list[str]) -> None:
    clean = sanitize("".join(parts), "https://a.example/")
    assert extract_clean_text(clean).split() == flatten_html(clean).split()


HOSTILE = ["<", "<!--", "<script>", "<a ", '<a "', "<a '\"", "&lt;b>", "<b>x", "<![CDATA[", "&amp;", '"x" ']


@pytest.mark.parametrize("unit", HOSTILE)
def test_X08_plain_text_of_hostile_markup_is_linear(unit: str) -> None:
    # A quadratic expression would need hours for a mebibyte; the test's time limit ends that.
    assert isinstance(extract_plain_text(unit * (1048576 // len(unit))), str)
    assert isinstance(extract_plain_text("<a " + unit * (1048576 // len(unit))), str)
