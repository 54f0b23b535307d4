"""Which files a page can play, and the players and moments in a text."""

from __future__ import annotations

import dataclasses

import pytest

from app import clock
from app.models.feeds.parsed import Enclosure, FileRole, find_medium
from app.models.media.recordings import (
    PLAYERS_MAX,
    TIMES_MAX,
    PlayerLink,
    link_times,
    list_recordings,
    replace_players,
)
from app.models.reading.entry import Entry

_ENTRY = Entry(id=1, feed_id=2, seq=3, at=clock.now(), arrived=clock.now(), title="x")


@pytest.mark.parametrize(
    ("url", "type", "medium"),
    [
        ("https://e.example/a.mp3", None, "audio"),
        ("https://e.example/A.MP3?x=.html", "application/octet-stream", "audio"),
        ("https://e.example/get?id=1", "audio/mpeg", "audio"),
        ("https://e.example/a", "Video/MP4; codecs=x", "video"),
        ("https://e.example/a.webm", "", "video"),
        ("https://e.example/a.mp3", "text/html", None),
        ("https://e.example/a.m3u8", "application/x-mpegURL", None),
        ("https://e.example/a.m3u", "audio/x-mpegurl", None),
        ("https://e.example/a.pdf", None, None),
        ("https://e.example/mp3", None, None),
        ("magnet:?xt=a.mp3", "audio/mpeg", None),
        ("javascript:alert(1)//.mp3", "audio/mpeg", None),
    ],
)
def test_recordings_are_known_by_type_or_ending(url: str, type: str | None, medium: str | None) -> None:
    assert find_medium(url, type) == medium
    assert Enclosure(url, type).medium == medium


def _list(*files: Enclosure) -> list[str]:
    return [file.url[-1] for file in list_recordings(dataclasses.replace(_ENTRY, enclosures=files))]


def test_each_recording_of_an_entry_has_one_player() -> None:
    audio, video = (Enclosure(f"https://e.example/{n}", f"{n}/x", duration=60) for n in ("audio", "video"))
    assert _list(audio, video) == ["o", "o"]
    sizes = [Enclosure(f"https://e.example/{n}", "video/mp4", duration=60) for n in range(3)]
    assert _list(*sizes) == ["0"]
    assert _list(*(dataclasses.replace(one, duration=None) for one in sizes)) == ["0", "1", "2"]
    assert _list(dataclasses.replace(audio, role=FileRole.ALTERNATE)) == []
    many = [Enclosure(f"https://e.example/{n}", "audio/mpeg") for n in range(9)]
    assert _list(*many) == ["0", "1", "2", "3", "4"]


def _link(attributes: str, inner: str) -> str:
    return f'<p><a rel="x" {attributes} target="_blank">{inner}</a></p>'


def test_players_are_paragraphs_with_one_marked_link() -> None:
    seen: list[PlayerLink] = []

    def render(link: PlayerLink) -> str:
        seen.append(link)
        return f"[{link.title}]"

    sound = _link('href="https://e.example/a?b=1&amp;c" type="audio/mpeg"', "▶ A &amp; B")
    film = _link('href="https://e.example/a.mp4"', '<img src="/i/x/w640.webp" alt=""><br>▶ in.mp4')
    page = _link('href="https://www.youtube.com/watch?v=aaaaaaaaaaa"', "▶ youtube.com")
    other = '<p><a href="https://e.example/a.mp3">Listen</a></p><p>So <a href="https://e/a.mp3">▶ x</a></p>'
    assert replace_players(sound + film + other + page, render) == f"[A & B][in.mp4]{other}[youtube.com]"
    assert [(one.url, one.medium) for one in seen] == [
        ("https://e.example/a?b=1&c", "audio"),
        ("https://e.example/a.mp4", "video"),
        ("https://www.youtube.com/watch?v=aaaaaaaaaaa", None),
    ]
    assert seen[1].picture == '<img src="/i/x/w640.webp" alt="">'
    assert replace_players(sound, lambda link: None) == sound
    assert replace_players(sound * (PLAYERS_MAX + 5), render).count("[") == PLAYERS_MAX


def _times(markup: str, duration: int | None = None) -> str:
    return link_times(markup, lambda second, text: f"[{second}={text}]", duration)


@pytest.mark.parametrize(
    ("text", "linked"),
    [
        ("12:34 Trees", "[754=12:34] Trees"),
        ("(1:02:33)", "([3753=1:02:33])"),
        ("00:00–01:10", "[0=00:00]–[70=01:10]"),
        ("Score 12:345 and 1:2", "Score 12:345 and 1:2"),
        ("at 9:30 am, 9:30pm, 9:30 p.m.", "at 9:30 am, 9:30pm, 9:30 p.m."),
        ("http://e.example:80:12/ and 10:75 and 12:34.5", "http://e.example:80:12/ and 10:75 and 12:34.5"),
        (
            '<a href="x">12:34</a> <b title="12:34">12:34</b>',
            '<a href="x">12:34</a> <b title="12:34">[754=12:34]</b>',
        ),
        ("<pre>12:34</pre>", "<pre>12:34</pre>"),
    ],
)
def test_moments_become_links(text: str, linked: str) -> None:
    assert _times(text) == linked


def test_times_after_the_end_are_times_of_the_day() -> None:
    assert _times("01:00 and 19:30:00", 3600) == "[60=01:00] and 19:30:00"
    assert _times("01:00 " * (TIMES_MAX + 5)).count("[") == TIMES_MAX


def test_X06_hostile_texts_cost_little() -> None:
    """A regular expression that backtracks over these takes minutes."""
    for text in ("1:" * 200_000, "<a " * 100_000, "<p><a " * 60_000 + ">▶ ", "01:01:" * 100_000):
        _times(text)
        replace_players(text, lambda link: "")
