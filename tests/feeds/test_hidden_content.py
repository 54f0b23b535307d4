"""Hidden and alternative content: what a page doesn't show its readers doesn't come to light."""

from __future__ import annotations

import re

import pytest

from app.feeds.html import hidden
from app.feeds.html.sanitize import sanitize as clean

BASE = "https://site.example/blog/post.html"
OWN = "https://reader.example"


@pytest.mark.parametrize(
    ("markup", "expected"),
    [
        ("<div style='display:none;max-height:0'>Preheader</div><p>a</p>", "<p>a</p>"),
        ("<p>a <span style='color:red; DISPLAY : none !important'>error</span>b</p>", "<p>a b</p>"),
        ("<p hidden>x<p>a", "<p>a</p>"),
        ("<ul><li hidden>x<li>a</ul>", "<ul><li>a</li></ul>"),
        ("<div hidden=''><div>x</div><p>y</p></div>a", "a"),
        ("<p>a<span style='visibility: hidden'>x</span></p>", "<p>a</p>"),
        ("<span style='mso-hide:all'>x</span>a", "a"),
        ("<form style='display:none'>x</form><nav hidden>y</nav>a", "a"),
        ("<h2>a<a href=/x aria-hidden=true>#</a></h2>", "<h2>a</h2>"),
        ("<p><span aria-hidden='true'>★★★☆☆</span><span>3 of 5</span></p>", "<p><span>3 of 5</span></p>"),
        ("<p>a<br hidden><img hidden src=x.png></p>", "<p>a</p>"),
        # What isn't hidden stays.
        ("<p hidden=until-found>a</p>", "<p>a</p>"),
        ("<p style='overflow:hidden' title=hidden>a</p>", '<p title="hidden">a</p>'),
        ("<p aria-hidden=false>a</p>", "<p>a</p>"),
        ("<p title=' hidden ' style='x-display:none'>a</p>", '<p title=" hidden ">a</p>'),
        (f"<div aria-hidden=true>{'long ' * 250}</div>", f"<div>{'long ' * 250}</div>"),
    ],
)
def test_hidden_text_stays_hidden(markup: str, expected: str) -> None:
    result = clean(markup, BASE)
    assert result == expected
    assert clean(result, BASE) == result


def test_pictures_hidden_only_from_screen_readers_are_shown() -> None:
    # Wikis hide the formula and show its picture.
    markup = (
        "<span><span style='display: none'>x2</span><img src=x2.svg aria-hidden=true alt='x^2'></span>"
        "<figure aria-hidden=true><img src=b.png></figure><div aria-hidden=true><p hidden>x</p>y</div>"
    )
    result = clean(markup, BASE)
    assert re.sub(r"<img [^>]*/([a-z0-9.]+)\"[^>]*>", r"[\1]", result) == (
        "<span>[x2.svg]</span><figure>[b.png]</figure>"
    )
    assert "aria" not in result


def test_pictures_that_wait_for_a_script_are_shown() -> None:
    assert "/a.png" in clean("<img style='display:none' class=lazy data-src=a.png>", BASE)
    assert "<img" not in clean("<img style='display:none' src=a.png>", BASE)


def test_no_mark_of_a_hidden_element_comes_out() -> None:
    for name in hidden.NAMES:
        for value in ("", "yes", "aside", "true", "display:none", "x"):
            result = clean(f"<p>a</p><b {name}='{value}'>b</b><span hidden>c</span><i style=x>d</i>", BASE)
            assert not re.search(rf" {name}=", result), (name, value, result)


@pytest.mark.parametrize(
    "player",
    [
        "<video controls src=/f.mp4>Your browser does not support the video tag.</video>",
        "<audio controls><source src=/f.mp4 type=audio/mpeg><p>To hear this enable JavaScript.</p></audio>",
        "<video poster=p.png src=/f.mp4><source src=/g.webm><a href=/f.mp4>Download</a> it</video>",
        "<object data=/f.mp4><p>Your browser can't show this.</p></object>",
        "<object type=x><param name=movie value=/f.mp4><embed src=/f.mp4>You need Flash</object>",
        "<lite-video src=/f.mp4>Loading…</lite-video>",
    ],
)
def test_fallback_is_not_shown_beside_what_replaces_the_player(player: str) -> None:
    result = clean(f"<p>Before</p>{player}<p>After</p>", BASE)
    assert re.findall(r'href="https://site\.example/([^"]*)"', result) == ["f.mp4"]
    words = re.sub("<[^>]*>", " ", result).split()
    assert (words[0], words[1], words[-1], len(words)) == ("Before", "▶", "After", 4)
    assert clean(result, BASE) == result


def test_fallback_with_another_file_keeps_its_link() -> None:
    result = clean("<video src=/f.mp4>No video? <a href=/f.webm>Get <b>it</b></a>.</video>", BASE)
    assert ">Get <b>it</b></a>" in result
    assert "No video" not in result


@pytest.mark.parametrize(
    ("markup", "expected"),
    [
        ("<video>A film about bridges</video>", "A film about bridges"),
        ("<video>Your browser does not support video.</video>", ""),
        ("<canvas>Sales: 3, 4, 5</canvas>", "Sales: 3, 4, 5"),
        ("<canvas>Your browser does not support canvas.</canvas>", ""),
        ("<canvas><table><tbody><tr><td>3</td></tr></tbody></table></canvas>",
         "<table><tbody><tr><td>3</td></tr></tbody></table>"),
        ("<object>A map of Bonn</object>", "A map of Bonn"),
        ("<noscript>Sales: 3, 4, 5</noscript>", "Sales: 3, 4, 5"),
        ("<noscript>Please enable JavaScript to view the <a href=/x>comments</a>.</noscript>", ""),
        ("<noscript><p>The JavaScript of 1995</p></noscript>", "<p>The JavaScript of 1995</p>"),
    ],
)  # fmt: skip
def test_fallback_is_shown_where_nothing_replaces_it(markup: str, expected: str) -> None:
    assert clean(markup, BASE) == expected


@pytest.mark.parametrize(
    ("player", "page"),
    [
        ("<lite-youtube videoid=dQw4w9WgXcQ playlabel=Talk><a href=x>Play</a></lite-youtube>",
         "https://www.youtube.com/watch?v=dQw4w9WgXcQ"),
        ("<amp-youtube data-videoid='dQw4w9WgXcQ' layout=responsive></amp-youtube>",
         "https://www.youtube.com/watch?v=dQw4w9WgXcQ"),
        ("<youtube-video src='https://www.youtube.com/embed/dQw4w9WgXcQ'></youtube-video>",
         "https://www.youtube.com/watch?v=dQw4w9WgXcQ"),
        ("<lite-youtube playlistid=PLabcdefghij></lite-youtube>",
         "https://www.youtube.com/playlist?list=PLabcdefghij"),
        ("<lite-vimeo videoid=364402896></lite-vimeo>", "https://vimeo.com/364402896"),
        ("<amp-iframe src='https://player.example/1'><b>x</b></amp-iframe>", "https://player.example/1"),
        ("<mux-player playback-id=abcDEF123></mux-player>", "https://player.mux.com/abcDEF123"),
        ("<my-player src=talk.mp3></my-player>", "https://site.example/blog/talk.mp3"),
    ],
)  # fmt: skip
def test_H07_players_that_a_script_would_define_become_links(player: str, page: str) -> None:
    result = clean(f"<p>a</p>{player}<p>b</p>", BASE)
    assert re.findall(r'href="([^"]*)"', result) == [page]
    assert result.startswith("<p>a</p><p><a ")
    assert result.endswith("</a></p><p>b</p>")


@pytest.mark.parametrize(
    "given",
    [
        "videoid='a\"b&lt;script'",
        "src='javascript:alert(1)//a.mp4'",
        "src='/page.html'",
        f"src='{OWN}/logout.mp4'",
        "videoid=dQw4w9WgXcQ hidden",
    ],
)
def test_H07_other_custom_elements_are_no_players(given: str) -> None:
    assert "<a" not in clean(f"<x-youtube {given}>t</x-youtube>", BASE, own_origin=OWN)


@pytest.mark.parametrize(
    ("picture", "source"),
    [
        ("<source srcset=a.avif type=image/avif><source srcset='b.webp 1x, c.webp 2x'><img alt=A>", "b.webp"),
        ("<source srcset=a.avif><img>", "a.avif"),
        ("<source data-srcset='a.png 9w'>", "a.png"),
        ("<img src='javascript:x' alt=A><source srcset=a.png>", "a.png"),
        ("<source srcset=a.png><img src=b.png>", "b.png"),
    ],
)
def test_a_picture_shows_a_source_if_its_image_has_none(picture: str, source: str) -> None:
    result = clean(f"<p><picture>{picture}</picture>b</p>", BASE)
    assert re.findall(r'<img [^>]*src="https://site.example/blog/([^"]*)"', result) == [source]
    assert clean(result, BASE) == result


def test_a_picture_without_any_allowed_source_shows_what_it_says() -> None:
    assert clean("<picture><source srcset='data:x'><img alt=Bridge></picture>", BASE) == (
        "<picture><source>Bridge</picture>"
    )


@pytest.mark.parametrize(
    "unit",
    [
        *("<p hidden>", "<p style='display:none'>", "<b aria-hidden=true><img src=x>", "<i hidden></i>"),
        *("<a-b src=a.mp3>", "<a-b src=a.mp3 ", "<canvas>", "<object data=x><a href=y>"),
        *("<video src=x><a href=y>", "<noscript>enable ", "<picture><source srcset=a>"),
        "<noscript>javascript browser enable </noscript>",
    ],
)
def test_X08_hidden_and_alternative_content_takes_linear_time(unit: str) -> None:
    assert isinstance(clean(unit * ((1 << 20) // len(unit)), BASE), str)
