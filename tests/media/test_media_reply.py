"""Answers with stored files: ranges, validators, and headers of strangers' bytes (H09, V02, V03)."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from flask import Flask, Response
from flask.testing import FlaskClient
from gunicorn.config import Config
from gunicorn.http.wsgi import Response as GunicornResponse

from app import create_app
from app.adapters.media.disk import DiskStore
from app.bootstrap.services import Services
from app.commands.unread import Answer, Outbox
from app.errors import InvalidError, MediaStoreError, NotFoundError
from app.models.media.blob import build_key
from app.models.media.store import Piece, clamp_range
from app.runtime.pieces import CHUNK_BYTES
from app.web.security.headers import MEDIA_CSP
from app.web.security.sessions import allow_strangers
from app.web.view import media_reply
from app.web.view.media_reply import PRIVATE, PUBLIC, build_disposition, reply_with_file, serve_media

KEY = build_key(os.urandom(32), 1, "w640")
BODY = os.urandom(3 * CHUNK_BYTES + 77)
HTML = "<script>alert(1)</script>"
Client = Callable[..., FlaskClient]


@pytest.fixture
def store(tmp_path: Path) -> DiskStore:
    store = DiskStore(tmp_path / "files", "disk", is_served=True)
    store.put(KEY, io.BytesIO(BODY), len(BODY))
    return store


def _add_routes(app: Flask, store: DiskStore) -> None:
    def open_chunks(first: int, last: int | None) -> Piece:
        length = clamp_range(first, last, len(BODY))
        chunks = (BODY[n : min(n + 999, first + length)] for n in range(first, first + length, 999))
        return Piece(length, len(BODY), chunks=chunks)

    def whole() -> Response:
        return reply_with_file(store.open(KEY), media_type="image/webp", etag="abc", cache=PUBLIC)

    def opener() -> Response:
        def open_piece(first: int, last: int | None) -> Piece:
            return store.open(KEY, first, last)

        return reply_with_file(
            open_piece, media_type="text/html", etag="abc", cache=PRIVATE, size=len(BODY), attachment="a.html"
        )

    def chunks() -> Response:
        piece = open_chunks(0, None)
        return reply_with_file(piece, media_type="image/webp", etag="abc", cache=PUBLIC)

    def shared() -> Response:
        piece = store.open(KEY)
        return reply_with_file(piece, media_type="image/webp", etag="abc", cache=PUBLIC, cross_origin=True)

    def remote() -> Response:
        return reply_with_file(
            open_chunks, media_type="image/webp", etag="abc", cache=PUBLIC, size=len(BODY), cross_origin=True
        )

    _add(app, whole, opener, chunks, shared, remote)


def _add(app: Flask, *views: Callable[[], Response]) -> None:
    for view in views:
        rule = f"/test-media/{view.__name__}"
        app.add_url_rule(rule, view.__name__, allow_strangers(serve_media(view)))


def _add_odd_routes(app: Flask) -> None:
    def empty() -> Response:
        piece = Piece(0, 0, chunks=iter(()))
        return reply_with_file(piece, media_type="text/plain", etag="e", cache=PRIVATE, attachment="e")

    def away() -> Response:
        raise MediaStoreError

    def missing() -> Response:
        raise NotFoundError

    def invalid() -> Response:
        raise InvalidError(HTML)

    def broken() -> Response:
        raise RuntimeError(HTML)

    _add(app, empty, away, missing, invalid, broken)


@pytest.fixture
def client(services: Services, store: DiskStore) -> Client:
    def build(**settings: object) -> FlaskClient:
        app = create_app(dataclasses.replace(services.settings, **settings), services)
        _add_routes(app, store)
        _add_odd_routes(app)
        return app.test_client()

    return build


@contextlib.contextmanager
def _no_descriptor_left() -> Iterator[None]:
    before = len(os.listdir("/proc/self/fd"))
    yield
    assert len(os.listdir("/proc/self/fd")) == before


ROUTES = ("whole", "opener", "chunks", "remote")


@pytest.mark.parametrize("route", ROUTES)
def test_a_file_a_range_and_a_validator(client: Client, route: str) -> None:
    browser, path = client(), f"/test-media/{route}"
    browser.get(path)
    with _no_descriptor_left():
        answer = browser.get(path)
        assert (answer.status_code, answer.data) == (200, BODY)
        assert answer.headers["ETag"] == '"abc"'
        assert answer.headers["Content-Length"] == str(len(BODY))
        assert answer.headers["Accept-Ranges"] == "bytes"
        total = len(BODY)
        for wanted, first, last in (
            ("bytes=0-0", 0, 0),
            (f"bytes=5-{CHUNK_BYTES + 9}", 5, CHUNK_BYTES + 9),
            ("bytes=5-", 5, total - 1),
            ("bytes=-7", total - 7, total - 1),
            (f"bytes=9-{total + 99}", 9, total - 1),
        ):
            part = browser.get(path, headers={"Range": wanted})
            assert (part.status_code, part.data) == (206, BODY[first : last + 1]), wanted
            assert part.headers["Content-Range"] == f"bytes {first}-{last}/{total}"
            assert part.headers["Content-Length"] == str(last + 1 - first)
        for wanted in ("bytes=0-1,5-9", "lines=0-1", "bytes=x", "bytes=9-5"):
            assert browser.get(path, headers={"Range": wanted}).data == BODY, wanted
        beyond = browser.get(path, headers={"Range": f"bytes={total}-"})
        assert (beyond.status_code, beyond.data) == (416, b"")
        assert beyond.headers["Content-Range"] == f"bytes */{total}"
        for sent in ('"abc"', 'W/"abc"', '"x", "abc"', "*"):
            same = browser.get(path, headers={"If-None-Match": sent})
            assert (same.status_code, same.data) == (304, b"")
            assert same.headers["ETag"] == '"abc"'
        assert browser.get(path, headers={"If-None-Match": '"x"'}).data == BODY
        part = browser.get(path, headers={"Range": "bytes=0-1", "If-Range": '"abc"'})
        assert (part.status_code, part.data) == (206, BODY[:2])
        for condition in ('"x"', 'W/"abc"', "Sat, 28 Nov 2026 00:00:00 GMT"):
            changed = browser.get(path, headers={"Range": "bytes=0-1", "If-Range": condition})
            assert (changed.status_code, changed.data) == (200, BODY), condition
        head = browser.head(path)
        assert (head.status_code, head.data) == (200, b"")
        assert head.headers["Content-Length"] == str(len(BODY))


def test_an_empty_file_has_no_range(client: Client) -> None:
    browser = client()
    answer = browser.get("/test-media/empty")
    assert (answer.status_code, answer.data, answer.headers["Content-Length"]) == (200, b"", "0")
    assert browser.get("/test-media/empty", headers={"Range": "bytes=0-"}).status_code == 416


def test_a_client_that_leaves_leaves_no_descriptor(client: Client) -> None:
    browser = client()
    browser.get("/test-media/whole")
    with _no_descriptor_left():
        for path in ("/test-media/whole", "/test-media/opener"):
            for wanted in (0, 1):
                answer = browser.get(path, buffered=False)
                chunks = iter(answer.response)
                assert all(len(next(chunks)) <= CHUNK_BYTES for _ in range(wanted))
                answer.close()


@pytest.mark.parametrize("route", ROUTES)
def test_W17_a_client_that_does_not_read_holds_no_thread(client: Client, route: str) -> None:
    """The worker writes until the client has no room, lets the thread go, and continues later."""
    ours, theirs = socket.socketpair()
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 32 << 10)
    with ours, theirs:
        answer = client().get(f"/test-media/{route}", buffered=False)
        request: Any = SimpleNamespace(method="GET", version=(1, 1), should_close=lambda: False)
        response = GunicornResponse(request, Outbox(ours), Config())  # type: ignore[arg-type]
        response.start_response(answer.status, list(answer.headers))
        waiting = Answer(response.sock, response, answer.response)  # type: ignore[arg-type]
        waiting.write()
        assert not waiting.is_written
        assert waiting.outbox.size <= CHUNK_BYTES, "one chunk waits, and not the whole file"
        received = b""
        while not waiting.is_written or waiting.outbox.size:
            received += theirs.recv(1 << 20)
            if waiting.outbox.flush() and not waiting.is_written:
                waiting.write()
        ours.shutdown(socket.SHUT_WR)
        while part := theirs.recv(1 << 20):
            received += part
    assert received.partition(b"\r\n\r\n")[2] == BODY


@pytest.mark.parametrize("route", [*ROUTES, "empty", "away", "missing", "invalid", "broken"])
def test_H09_V02_nothing_runs_loads_or_is_sent(client: Client, route: str) -> None:
    browser = client()
    for headers in ({}, {"Range": "bytes=0-1"}, {"If-None-Match": '"abc"'}, {"Range": "bytes=99999999-"}):
        answer = browser.get(f"/test-media/{route}", headers=headers)
        assert answer.headers["Content-Security-Policy"] == MEDIA_CSP
        assert "sandbox" in MEDIA_CSP
        assert "default-src 'none'" in MEDIA_CSP
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        wanted = "cross-origin" if route == "remote" else "same-origin"
        assert answer.headers["Cross-Origin-Resource-Policy"] == wanted
        assert "Set-Cookie" not in answer.headers


@pytest.mark.parametrize(
    ("route", "status"), [("away", 503), ("missing", 404), ("invalid", 400), ("broken", 500)]
)
def test_V03_an_error_repeats_nothing(client: Client, route: str, status: int) -> None:
    browser = client()
    answer = browser.get(f"/test-media/{route}?x={HTML}", headers={"Referer": HTML, "Range": HTML})
    assert answer.status_code == status
    assert answer.mimetype == "text/plain"
    assert answer.headers["Cache-Control"] == "no-store"
    assert "<html" not in answer.text
    if route != "invalid":  # sentences are ours
        assert "script" not in answer.text


def test_what_everyone_may_see_is_cached_by_everyone_and_the_rest_by_nobody_else(client: Client) -> None:
    browser = client()
    public = browser.get("/test-media/whole").headers
    assert (public["Cache-Control"], public.get("Vary")) == (PUBLIC, None)
    private = browser.get("/test-media/opener").headers
    assert (private["Cache-Control"], private["Vary"]) == (PRIVATE, "Cookie")


def test_H09_only_pictures_that_we_drew_are_shown(client: Client, store: DiskStore) -> None:
    browser = client()
    assert "Content-Disposition" not in browser.get("/test-media/whole").headers
    assert browser.get("/test-media/opener").headers["Content-Disposition"].startswith("attachment;")
    for media_type in ("image/svg+xml", "text/html", "application/pdf", "image/jpeg"):
        assert media_type not in media_reply.DRAWN
        with pytest.raises(ValueError, match="attachment"):
            reply_with_file(lambda *_: store.open(KEY), media_type=media_type, etag="a", cache=PUBLIC)


@pytest.mark.parametrize(
    ("name", "plain", "encoded"),
    [
        ("a.pdf", "a.pdf", "a.pdf"),
        ('a"; filename="b.exe', "a__ filename=_b.exe", "a%22%3B%20filename%3D%22b.exe"),
        ("Füße.txt", "F__e.txt", "F%C3%BC%C3%9Fe.txt"),
        ("../../x", "_.._x", "_.._x"),
        ("a\r\nX: y", "aX: y", "aX%3A%20y"),
        ("evil\u202egpj.exe", "evilgpj.exe", "evilgpj.exe"),
        ("", "file", "file"),
        ("..", "file", "file"),
        ("100%.txt", "100_.txt", "100%25.txt"),
    ],
)
def test_V02_a_name_is_only_a_name(name: str, plain: str, encoded: str) -> None:
    assert build_disposition(name) == f"attachment; filename=\"{plain}\"; filename*=UTF-8''{encoded}"
    assert len(build_disposition("ß" * 5000)) < 2000


def test_a_proxy_sends_the_files_that_it_can_reach(client: Client) -> None:
    browser = client(media_accel="/media-files/")
    browser.get("/test-media/whole")
    with _no_descriptor_left():
        for headers in ({}, {"Range": "bytes=0-1"}):
            answer = browser.get("/test-media/whole", headers=headers)
            shard, _, rest = KEY.partition("/")
            assert answer.headers["X-Accel-Redirect"] == f"/media-files/{shard}/{rest.replace('/', '.')}"
            assert (answer.status_code, answer.data) == (200, b"")
            assert not {"Content-Range", "Accept-Ranges"} & set(answer.headers.keys())
            assert answer.headers["Content-Security-Policy"] == MEDIA_CSP
        assert browser.get("/test-media/whole", headers={"If-None-Match": '"abc"'}).status_code == 304
        for route in ("remote", "shared"):
            answer = browser.get(f"/test-media/{route}")
            assert answer.data == BODY, "on another server, or for other sites: we send it"
            assert "X-Accel-Redirect" not in answer.headers
    assert "X-Accel-Redirect" not in client().get("/test-media/whole").headers
