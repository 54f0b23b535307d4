"""Stored files in a real browser: whatever a stranger put into them, nothing of it runs (security.md V02)."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

import pytest
from flask import Flask, Response
from playwright.sync_api import Browser, Error
from werkzeug.serving import make_server

from app import create_app
from app.bootstrap.services import Services
from app.models.media.store import Piece
from app.web.security.sessions import allow_strangers
from app.web.view.media_reply import PUBLIC, reply_with_file, serve_media

_SCRIPT = "alert(1); document.title = 'ran'; fetch('/healthz?ran')"
_HTML = f'<!doctype html><title>x</title><script>{_SCRIPT}</script><img src=x onerror="{_SCRIPT}">'
_SVG = f'<svg xmlns="http://www.w3.org/2000/svg"><script>{_SCRIPT}</script></svg>'
#: Route → body, type, and whether a browser saves it.
_FILES = {
    "polyglot": (_HTML, "image/webp", False),
    "page": (_HTML, "text/html", True),
    "drawing": (_SVG, "image/svg+xml", True),
    "forgotten": (_HTML, "text/html", False),  # a view that forgets what H09 demands
    "forgotten-drawing": (_SVG, "image/svg+xml", False),
}


def _add_route(app: Flask, name: str) -> None:
    body, media_type, is_saved = _FILES[name]

    def view() -> Response:
        if name.startswith("forgotten"):
            return Response(body, content_type=media_type)
        piece = Piece(len(body), len(body), chunks=iter((body.encode(),)))
        attachment = "file" if is_saved else None
        return reply_with_file(piece, media_type=media_type, etag=name, cache=PUBLIC, attachment=attachment)

    app.add_url_rule(f"/test-media/{name}", name, allow_strangers(serve_media(view)))


@pytest.fixture
def site(services: Services) -> Iterator[str]:
    app = create_app(services.settings, services)
    for name in _FILES:
        _add_route(app, name)
    server = make_server("127.0.0.1", 0, app, threaded=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join(30)
    server.server_close()


def test_V02_H09_nothing_in_a_stored_file_runs(site: str, chromium: Browser) -> None:
    with contextlib.closing(chromium.new_context(accept_downloads=True)) as context:
        for name, (_, _, is_saved) in _FILES.items():
            page, dialogs, requests, downloads = context.new_page(), [], [], []
            page.on("dialog", lambda dialog, seen=dialogs: (seen.append(dialog.message), dialog.dismiss()))
            page.on("request", lambda request, seen=requests: seen.append(request.url))
            page.on("download", lambda download, seen=downloads: seen.append(download.url))
            path = f"{site}/test-media/{name}"
            if is_saved:
                with page.expect_download(), contextlib.suppress(Error):  # a download ends the navigation
                    page.goto(path)
            else:
                page.goto(path)
                page.evaluate("1")  # after all scripts of the page
                assert page.title() != "ran", name
            assert (bool(downloads), dialogs) == (is_saved, []), name
            assert not [url for url in requests if "ran" in url], name
            page.close()
