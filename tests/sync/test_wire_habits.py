"""Habits of FreshRSS that programs rely on, and fields that no program can do without."""

from __future__ import annotations

import json

import pytest

from app.bootstrap.services import Services
from app.models.accounts.actor import Actor
from app.web.api.greader.shapes import find_direction
from tests.support.reader import add_user, pull
from tests.sync.conftest import API, READING, Connect, Reader

URL = "https://feeds.example/odd"


@pytest.fixture
def ann(services: Services) -> Actor:
    """A user with one feed of Arabic entries, one without a title and one without any text."""
    actor = add_user(services, "ann")
    feed = services.subscriptions.subscribe(actor, URL).subscription.feed_id
    body = (
        "<rss version='2.0'><channel><title>أخبار</title><language>ar</language>"
        "<item><guid>1</guid><link>https://site.example/1</link><title>عنوان</title></item>"
        "<item><guid>2</guid><link>https://site.example/2</link><description>&lt;p&gt;Only a &lt;b&gt;text"
        "&lt;/b&gt;&lt;/p&gt;</description></item>"
        "<item><guid>3</guid><link>https://site.example/3</link></item></channel></rss>"
    )
    pull(services, [feed], {URL: body.encode()})
    return actor


def test_titles_are_never_empty(reader: Reader) -> None:
    titles = {item["title"] for item in reader.items(*reader.ids())}
    assert titles == {"عنوان", "Only a text", "https://site.example/3"}
    atom = reader.get("stream/contents", output="atom").text
    assert ">Only a text<" in atom
    assert ">https://site.example/3<" in atom


def test_direction_follows_the_language_of_the_feed(reader: Reader) -> None:
    (feed,) = reader.json("subscription/list")["subscriptions"]
    stream = reader.json(f"stream/contents/{feed['id']}")
    assert stream["direction"] == "rtl"
    assert {item["summary"]["direction"] for item in stream["items"]} == {"rtl"}
    assert reader.json("stream/contents")["direction"] == "ltr"


@pytest.mark.parametrize(
    ("language", "text", "direction"),
    [
        ("ar", "Latin", "rtl"),
        ("he-IL", "", "rtl"),
        ("az-Arab", "", "rtl"),
        ("pa_Arab_PK", "", "rtl"),
        ("en", "عنوان", "ltr"),
        ("arn", "", "ltr"),
        ("az-Latn", "", "ltr"),
        (None, "12 – عنوان Latin", "rtl"),
        (None, "12 – Latin עברית", "ltr"),
        (None, "…", "ltr"),
        ("", "", "ltr"),
    ],
)
def test_direction_is_that_of_the_language_or_first_letter(
    language: str | None, text: str, direction: str
) -> None:
    assert find_direction(language, text) == direction


def test_an_unknown_continuation_is_ignored(reader: Reader) -> None:
    for unknown in ("x", "None", "Aq3-", f"{'9' * 15}.1", "9" * 20):
        assert reader.ids(c=unknown) == reader.ids()


def test_lists_are_what_freshrss_sends(reader: Reader) -> None:
    assert all("sortid" not in tag for tag in reader.json("tag/list")["tags"])
    assert reader.json("unread-count")["max"] == len(reader.ids())
    (feed,) = reader.json("subscription/list")["subscriptions"]
    assert feed["iconUrl"] is None
    agent = {**reader.headers, "User-Agent": "NewsFlash/3.3"}
    (strict,) = reader.client.get(f"{API}/subscription/list", headers=agent).get_json()["subscriptions"]
    assert strict["iconUrl"] == ""


@pytest.mark.parametrize(
    "path",
    ["user-info", "subscription/list", "tag/list", "unread-count", "stream/contents", "subscription/export",
     "subscribed?s=feed/1", "friend/list", "preference/list", "stream/items/count"],
)  # fmt: skip
def test_post_works_where_get_does(reader: Reader, path: str) -> None:
    got = reader.client.get(f"{API}/{path}", headers=reader.headers)
    posted = reader.client.post(f"{API}/{path}", headers=reader.headers)
    assert (posted.status_code, posted.mimetype) == (got.status_code, got.mimetype)
    assert posted.status_code == 200, posted.text


@pytest.mark.parametrize("kind", ["application/json", "application/json; charset=utf-8"])
def test_login_accepts_json(reader: Reader, kind: str) -> None:
    body = {"Email": reader.name, "Passwd": reader.password, "output": "json", "more": None}
    answer = reader.client.post("/accounts/ClientLogin", data=json.dumps(body), content_type=kind)
    assert answer.get_json()["Auth"] == reader.auth


@pytest.mark.parametrize("body", ["[" * 100_000, '{"Email": {"a": 1}}', "[1]", "{", "\ud800", ""])
def test_login_rejects_other_json(reader: Reader, body: str) -> None:
    sent = body.encode("utf-8", "surrogatepass")
    answer = reader.client.post("/accounts/ClientLogin", data=sent, content_type="application/json")
    assert answer.status_code == 401


def test_a_form_with_the_media_type_of_json_is_read(reader: Reader, connect: Connect) -> None:
    body = f"Email={reader.name}&Passwd={reader.password}"
    answer = reader.client.post("/accounts/ClientLogin", data=body, content_type="application/json")
    assert answer.status_code == 200


def test_a_decimal_id_in_the_long_form_is_rejected(reader: Reader) -> None:
    """Read as hexadecimal, it isn't an entry: OK would mark nothing."""
    wrong = f"tag:google.com,2005:reader/item/{reader.ids(READING)[0]}"
    for path, form in (("edit-tag", {"a": "user/-/state/com.google/read"}), ("stream/items/contents", {})):
        answer = reader.post(path, i=wrong, **form)
        assert (answer.status_code, answer.mimetype) == (400, "text/plain")


def test_a_body_that_is_too_large_names_the_limit(reader: Reader, services: Services) -> None:
    most = services.settings.api_max_bytes
    answer = reader.post("edit-tag", a="x" * most)
    assert answer.status_code == 413
    assert f"at most {most:,} bytes" in answer.text
