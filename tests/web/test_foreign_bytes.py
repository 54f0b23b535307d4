"""No route hands on bytes of others: neither as a document of theirs nor unescaped in one of ours (H04, H09).

Pictures and icons of sites are served as tests/media says, with the policy of H09. Here no picture is stored.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from werkzeug.test import TestResponse

from app.bootstrap.services import Services
from app.web.assets import static_files
from app.web.security import headers
from tests.support.reader import pull
from tests.web.conftest import Visitor
from tests.web.test_csrf import rules

FEED = "https://e.example/feed"
_CANARY = '"><img src=x onerror=alert(1)><svg onload=alert(1)><script>alert(1)</script>'
_ESCAPED = _CANARY.replace("&", "&amp;").replace("<", "&lt;").replace('"', "&quot;")
_TWICE = _ESCAPED.replace("&", "&amp;")
_SCRIPT = {"HX-Request": "true", "HX-Target": "section#article"}
_LIVE = re.compile(r"<svg[^>]*onload|onerror=alert\(1\)>|<script>alert", re.IGNORECASE)
_BODY = f"""<rss version="2.0" xmlns:dc="http://purl.org/dc/elements/1.1/"><channel>
<title>{_TWICE}</title><link>https://e.example/{_ESCAPED}</link><description>{_TWICE}</description>
<language>{_ESCAPED}</language><image><url>https://e.example/{_ESCAPED}</url></image>
<item><title>{_TWICE}</title><guid>{_ESCAPED}</guid><link>https://e.example/{_ESCAPED}</link>
<dc:creator>{_TWICE}</dc:creator><category>{_TWICE}</category><description>{_ESCAPED}text</description>
<enclosure url="https://e.example/{_ESCAPED}.mp3" type="{_ESCAPED}" length="7"/></item></channel></rss>"""
#: What our routes answer with: pages and parts of our templates, counters, two fixed texts, our own files.
_TYPES = {
    "text/x-opml; charset=utf-8",
    "text/markdown; charset=utf-8",
    "text/html; charset=utf-8",
    "application/json",
    "text/plain; charset=utf-8",
}
#: Of what has to lie beside the pages: files of ours.
_OWN_TYPES = {
    "/push.js": {"text/javascript; charset=utf-8"},
    "/manifest.webmanifest": {"application/manifest+json; charset=utf-8"},
    "/favicon.ico": {"image/x-icon", "image/vnd.microsoft.icon"},
}


@pytest.fixture
def feed_id(services: Services, ann: Visitor) -> int:
    user = services.mappers.users.find_credentials("ann")
    assert user is not None
    actor = user.user.actor
    folder = services.folders.create(actor, _CANARY[:100])
    done = services.subscriptions.subscribe(actor, FEED, folder_id=folder.id)
    pull(services, [done.subscription.feed_id], {FEED: _BODY.encode()})
    return done.subscription.feed_id


def _answers(app: Flask, ann: Visitor, feed_id: int, entry: int) -> Iterator[tuple[str, TestResponse]]:
    paths = {path.replace("17", str(feed_id)) for _, path in rules(app, "GET")}
    paths |= {f"/read/all?entry={entry}", f"/entries/{entry}", "/add?address=%22%3E%3Cscript%3Ealert(1)"}
    paths |= {"/%3Cscript%3Ealert(1)", "/static/%3Cscript%3Ealert(1)", "/read/all?sort=%3Cscript%3Ealert(1)"}
    for path in sorted(paths):
        for sent in (
            {},
            {"HX-Request": "true", "HX-Target": "section#article"},
            {"Accept": "application/json"},
        ):
            yield path, ann.get(path, headers=sent)


def test_H09_no_route_serves_what_others_wrote_as_it_is(
    app: Flask, services: Services, ann: Visitor, feed_id: int, db: Any
) -> None:
    entry = db.entries.find_one({"feed_id": feed_id})["_id"]
    seen = ""
    for path, answer in _answers(app, ann, feed_id, entry):
        text = answer.data.decode("utf-8", "replace")
        seen += text
        assert not _LIVE.search(text), path
        types = _OWN_TYPES.get(path, _TYPES)
        assert answer.status_code in (303, 304) or answer.headers["Content-Type"] in types, path
        is_media = (
            path.startswith(("/a/", "/i/", "/icon/", "/m/", "/settings/files/")) and path != "/i/states"
        )
        is_file = is_media or path.endswith("/get")
        policies = {headers.MEDIA_CSP} if is_file else {headers.CSP, headers.SILENT_CSP}
        assert answer.headers["Content-Security-Policy"] in policies, path
        assert answer.headers["X-Content-Type-Options"] == "nosniff", path
    assert "&lt;script&gt;alert(1)" in seen, "the feed is shown at all"


def test_H09_answers_are_made_of_templates_json_and_our_own_files(app: Flask) -> None:
    """Whoever adds another way for bytes to get out adds the policy of H09 with it."""
    ways = r"send_f|send_from_d|stream_with_context|wrap_file|X-Accel|X-Sendfile|\bResponse\(\w*body"
    web = Path(static_files.__file__).parents[1]
    found = {path.name for path in web.rglob("*.py") if re.search(ways, path.read_text("utf-8"))}
    # What a hub wants to hear again is plain text, visible ASCII, and short: see app.feeds.websub.subscriber.
    # What is exported is written by us and goes out as a file to be kept, never to be shown.
    # Programs get JSON, Atom and plain text, of which no browser makes a document (nosniff).
    known = {"api.py", "imports.py", "websub.py", "wire.py", "feeds.py", "streams.py", "docs.py", "notes.py"}
    # The outline of a page is JSON of its texts, of which our script makes text nodes.
    known.add("page_lists.py")
    # Stored files go out in one place, with the policy of H09.
    known.add("media_reply.py")
    # The manifest and the icons of the installed app are made by us.
    known.add("installation.py")
    assert found == known, "static files answer with an asset, the counters with JSON"
    assert app.static_folder is None
