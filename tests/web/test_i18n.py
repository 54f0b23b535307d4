"""The page's language: who decides it, and what it changes."""

from __future__ import annotations

import datetime as dt
import re

import pytest
from babel.support import Translations
from flask import render_template_string
from flask_babel import gettext, ngettext

from app.errors import InvalidError, TooLargeError
from app.runtime import translations
from app.services.accounts.sign_in import WRONG
from app.web.view import i18n, present
from tests.support.reader import follow


@pytest.mark.parametrize(
    ("header", "code", "direction"),
    [("de-AT,de;q=0.9", "de", "ltr"), ("ar", "ar", "rtl"), ("fr", "en", "ltr"), ("", "en", "ltr")],
)
def test_the_browser_decides_for_strangers(app, header, code, direction):
    page = app.test_client().get("/login", headers={"Accept-Language": header}).text
    assert f'<html lang="{code}" dir="{direction}"' in page


def test_a_choice_on_this_device_wins(app):
    client = app.test_client()
    client.set_cookie(i18n.COOKIE, "ar")
    assert '<html lang="ar" dir="rtl"' in client.get("/login", headers={"Accept-Language": "de"}).text


def test_an_unknown_choice_is_none(app):
    client = app.test_client()
    client.set_cookie(i18n.COOKIE, "xx")
    assert '<html lang="de"' in client.get("/login", headers={"Accept-Language": "de"}).text


def test_sentences_are_those_of_the_pages_language(app, monkeypatch):
    """In templates, in modules and in sentences of errors."""
    words = Translations()
    words._catalog = {"Log in": "Anmelden", "Not found": "Hier ist nichts", WRONG: "Passt nicht."}
    monkeypatch.setattr(translations, "load_translations", {"de": words}.get)
    client = app.test_client()
    client.set_cookie(i18n.COOKIE, "de")
    page = client.get("/login").text
    assert "<h1>Anmelden</h1>" in page
    assert "<h1>Hier ist nichts</h1>" in client.get("/nope").text
    token = re.search(r'name="csrf_token" value="([^"]+)"', page)[1]
    form = {"csrf_token": token, "login": "ann", "password": "not this"}
    assert "Passt nicht." in client.post("/login", data=form, headers={"Sec-Fetch-Site": "same-origin"}).text


def test_pseudo_keeps_places_and_markup():
    text = i18n.pseudolocalise_text("Add %(n)s of {m} to <b>this</b> &amp; that")
    assert all(part in text for part in ("%(n)s", "{m}", "<b>", "</b>", "&amp;"))
    assert len(text) > 1.3 * len("Add %(n)s of {m} to <b>this</b> &amp; that")


def test_foreign_texts_say_what_language_they_are_in(ann, services):
    """Where the feed says so, it is another than the page's, and it can be one at all."""
    actor = services.gateways.accounts.find_credentials("ann").user.actor
    follow(services, actor, ["feeds/rss/bbcurdu.com-ace121.xml"])
    entry = services.store.database["entries"].find_one()["_id"]
    for stored, shown in (("ur", ' lang="ur"'), ("en", ""), ('"><b>', ""), (None, "")):
        services.store.database["feeds"].update_many({}, {"$set": {"language": stored}})
        page = ann.get(f"/read/all?entry={entry}").text
        assert f'<h2 class="title" id="entry-title" tabindex="-1" dir="auto"{shown}>' in page
        assert f'<div class="prose" hx-ignore dir="auto"{shown}>' in page
        assert f'<h2 id="t{entry}" dir="auto"{shown}>' in page


@pytest.mark.parametrize(
    ("zone", "year"), [("America/New_York", 1), ("Asia/Tokyo", 9999), ("Asia/Tokyo", 1), (None, 9999)]
)
def test_times_at_the_ends_of_the_calendar_are_shown(app, zone, year):
    at = dt.datetime(year, *((1, 1) if year == 1 else (12, 31)), 20 if year == 9999 else 0, tzinfo=dt.UTC)
    with app.test_request_context(headers={"Cookie": f"{i18n.ZONE_COOKIE}={zone}"} if zone else {}):
        for write in (present.format_moment, present.format_brief_moment, present.format_ago):
            assert write(at)


@pytest.mark.parametrize(
    ("code", "rate", "share", "time"),
    [("en", "1,234.5", "70%", "273 ms"), ("de", "1.234,5", "70\xa0%", "273 ms")],
)
def test_figures_are_written_as_the_language_does(app, code, rate, share, time):
    with app.test_request_context(headers={"Accept-Language": code}):
        found = (
            present.format_number(1234.46, 1),
            present.format_percentage(0.7),
            present.format_milliseconds(273),
        )
    assert [text.replace("\u202f", "\xa0") for text in found] == [rate, share, time]


@pytest.mark.parametrize(
    ("code", "few", "many"),
    [("en", "999 unread", "12,345 unread"), ("de", "999 ungelesen", "12.345 ungelesen")],
)
def test_counts_in_sentences_have_the_separators_of_the_language(app, code, few, many):
    template = "{{ ngettext('%(num)s unread', '%(num)s unread', count) }}"
    for count, words in ((999, few), (12345, many)):
        with app.test_request_context(headers={"Accept-Language": code}):
            assert ngettext("%(num)s unread", "%(num)s unread", count) == words
            assert render_template_string(template, count=count) == words


def test_limits_in_errors_have_separators_and_codes_have_none(app):
    full = TooLargeError("You can have at most %(limit)s subscriptions.", limit=10_000)
    status = InvalidError("The site responded with HTTP %(status)s.", status=1234)
    with app.test_request_context():
        assert i18n.translate_error(full) == "You can have at most 10,000 subscriptions."
        assert i18n.translate_error(status) == "The site responded with HTTP 1234."


def test_a_short_time_is_told_in_arabic(app):
    with app.test_request_context(headers={"Accept-Language": "ar"}):
        assert "ms" not in present.format_milliseconds(273)


@pytest.mark.parametrize(
    ("language", "name", "is_isolated"),
    [("en", "BBC News اردو", True), ("en", "Rest of World", False), ("ar", "Rest of World", True)],
)
def test_a_name_does_not_scramble_the_sentence_that_holds_it(app, language, name, is_isolated):
    """Neither in modules nor in templates, with a number or without."""
    expected = f"\u2068{name}\u2069" if is_isolated else name
    with app.test_request_context("/", headers={"Accept-Language": language}):
        for text in (
            gettext("“%(what)s”", what=name),
            ngettext("%(num)s of %(what)s", "%(num)s of %(what)s", 3, what=name),
            render_template_string("{{ _('“%(what)s”', what=what) }}", what=name),
            render_template_string("{{ ngettext('%(what)s', '%(what)s', 3, what=what) }}", what=name),
        ):
            assert expected in text
            assert ("\u2068" in text) is is_isolated
        # Markup may contain tags, and is escaped like the rest.
        assert render_template_string("{{ _('%(a)s', a=a) }}", a="<b>ا") == "\u2068&lt;b&gt;ا\u2069"
