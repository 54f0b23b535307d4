"""A store that does not answer: people are told so, and nothing else breaks."""

from __future__ import annotations

import contextlib
import dataclasses
import html
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import quote

from flask.testing import FlaskClient

from app import create_app
from app.bootstrap import services as bootstrap
from app.config import Settings

_SENTENCE = "The database isn't responding. Nothing was lost. Try again in a minute."
_REQUESTS = [
    (path, accept) for path in ("/", "/login", "/signup") for accept in ("text/html", "application/json")
]


def _asked(client: FlaskClient, path: str, accept: str) -> tuple[int, str | None, str]:
    answer = client.get(path, headers={"Accept": accept})
    return answer.status_code, answer.headers.get("Retry-After"), answer.text


def test_without_mongodb_pages_say_so(settings: Settings, tmp_path: Path) -> None:
    uri = f"mongodb://{quote(str(tmp_path / 'none.sock'), safe='')}/"
    away = dataclasses.replace(settings, mongodb_uri=uri)
    with contextlib.closing(bootstrap.build(away)) as services:
        app = create_app(away, services)
        # At once: each waits some seconds for a server to come back.
        with ThreadPoolExecutor() as pool:
            answers = list(pool.map(lambda each: _asked(app.test_client(), *each), _REQUESTS))
        assert app.test_client().get("/healthz").status_code == 200
    for status, again, text in answers:
        assert (status, again) == (503, "10")
        assert _SENTENCE in html.unescape(text)
        assert "none.sock" not in text, "nothing of the inside"
        assert "Traceback" not in text
