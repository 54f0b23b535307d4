"""Links of articles that show a picture alone have a name, which screen readers say."""

from __future__ import annotations

import time

import pytest
from flask import Flask

from app.feeds.html.sanitize import sanitize
from app.web.view.pictures import name_picture_links

PAGE = "https://site.example/"


def _name(app: Flask, markup: str) -> str:
    with app.test_request_context("/"):
        return name_picture_links(sanitize(markup, PAGE))


@pytest.mark.parametrize(
    "inside",
    [
        '<img src="https://site.example/a.png">',
        '<img src="https://site.example/a.png" alt="">',
        ' <img src="https://site.example/a.png" alt=" "> ',
        '<picture><source srcset="https://site.example/b.webp"><img src="https://site.example/a.png"></picture>',
    ],
)
def test_a_picture_without_text_gets_the_site_of_its_link(app: Flask, inside: str) -> None:
    found = _name(app, f'<p><a href="https://www.other.example/?a=1&amp;b=%3E">{inside}</a></p>')
    assert 'aria-label="Link to other.example"' in found
    assert found.count("aria-label") == 1


@pytest.mark.parametrize(
    "markup",
    [
        '<a href="https://other.example/"><img src="https://site.example/a.png" alt="A roof"></a>',
        '<a href="https://other.example/"><img src="https://site.example/a.png" alt="">More</a>',
        '<a href="https://other.example/">Words</a> <img src="https://site.example/a.png" alt="">',
        '<img src="https://site.example/a.png" alt="">',
    ],
)
def test_what_has_a_name_already_stays_as_it_is(app: Flask, markup: str) -> None:
    assert _name(app, markup) == sanitize(markup, PAGE)


@pytest.mark.parametrize(
    "part",
    [
        '<a href="https://e.example/">',
        '<a href="https://e.example/"><img src="https://e.example/a.png">',
        '<img src="https://e.example/a.png" alt=""> ',
        '<a href="https://e.example/?<>&quot;"><img src="https://e.example/a.png">x</a>',
    ],
)
def test_hostile_links_cost_little_time(app: Flask, part: str) -> None:
    markup = sanitize('<a href="https://e.example/">' + part * 4000, PAGE)
    with app.test_request_context("/"):
        began = time.process_time()
        name_picture_links(markup)
        # Milliseconds, if each part is looked at once.
        assert time.process_time() - began < 5
