from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest
from click.testing import CliRunner

from app.commands.feed_fetch import fetch
from tests.support.rawserver import RawServer, Reply

FEED = "<rss version='2.0'><channel><title>Zürich</title></channel></rss>".encode()


def run(server: RawServer, *arguments: str) -> tuple[int, dict[str, Any], str]:
    done = subprocess.run(
        [sys.executable, "-m", "app", "feed", "fetch", *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, "EVENTR_FETCH_ALLOW": server.origin},
        timeout=60,
    )
    return done.returncode, json.loads(done.stdout), done.stderr


def test_the_command_prints_one_document() -> None:
    with RawServer() as server:
        server.set("/old", Reply(status=301, headers=(("Location", "/f"),)))
        server.set("/f", Reply(body=FEED, etag='"1"', headers=(("Content-Type", "application/rss+xml"),)))
        code, first, _ = run(server, server.url("/old"), "--body")
        assert code == 0
        assert first["status"] == 200
        assert first["url"] == first["permanent_url"] == server.url("/f")
        assert (first["bytes"], first["wire_bytes"]) == (len(FEED), len(FEED))
        assert (first["content_type"], first["etag"]) == ("application/rss+xml", '"1"')
        assert (first["body"], first["error"]) == (FEED.decode(), None)
        code, second, _ = run(server, server.url("/f"), "--hash", first["body_hash"])
        assert (code, second["unchanged"], second["bytes"], "body" in second) == (0, True, None, False)
        code, third, _ = run(server, server.url("/f"), "--etag", '"1"')
        assert (code, third["status"], third["unchanged"]) == (0, 304, True)


def test_an_error_is_a_word_and_a_sentence() -> None:
    with RawServer() as server:
        code, document, stderr = run(server, "http://10.0.0.1/feed")
    assert code == 1
    assert document["error"] == "refused"
    assert document["message"] in stderr
    assert server.connections == 0


@pytest.mark.parametrize("option", ["--etag", "--last-modified"])
def test_what_no_header_can_carry_is_not_blamed_on_the_site(option: str) -> None:
    done = CliRunner().invoke(fetch, ["http://e.example/", option, "é—"])
    assert done.exit_code == 2
    assert "contains characters that aren't allowed in a header" in done.stderr
