"""What all tools of the engine promise: JSON on stdout, sentences on stderr, exit code 0 or 1."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

FEED = "<rss version='2.0'><channel><title>Привет</title></channel></rss>"
URL = "https://example.org/"
TOOLS = [
    ["feed", "parse"],
    ["feed", "sanitize"],
    ["feed", "discover", "--url", URL],
    ["feed", "schedule"],
    ["opml", "check"],
]


def run(
    *arguments: str | bytes | Path, stdin: bytes = b"", **environment: str
) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "app", *map(os.fsencode, arguments)],
        input=stdin,
        capture_output=True,
        env=os.environ | environment,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool[1])
@pytest.mark.parametrize("name", ["missing", "", "endless"])
def test_a_file_that_cannot_be_read_is_a_named_error(tool: list[str], name: str, tmp_path: Path) -> None:
    done = run(*tool, "/dev/zero" if name == "endless" else tmp_path / name)
    document = json.loads(done.stdout)
    assert (done.returncode, list(document)) == (1, ["error", "message"])
    assert document["error"] == ("too_large" if name == "endless" else "invalid")
    assert done.stderr.decode() == f"eventr: {document['message']}\n"


@pytest.mark.parametrize("tool", [*TOOLS, ["repl"]], ids=lambda tool: tool[-1])
def test_a_closed_standard_input_is_one_sentence(tool: list[str], tmp_path: Path) -> None:
    words = tool if tool == ["repl"] else [*tool, "-"]
    done = subprocess.run(
        ["/bin/sh", "-c", 'exec "$@" <&-', "sh", sys.executable, "-m", "app", *words],
        capture_output=True,
        env=os.environ | {"EVENTR_HOME": str(tmp_path)},
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.decode().count("\n") == 1, done.stderr.decode()
    assert b"eventr: " in done.stderr


@pytest.mark.parametrize("tool", [["settings"], ["feed", "sanitize", "/dev/null"]], ids=lambda tool: tool[0])
def test_output_that_cannot_be_written_is_one_sentence(tool: list[str]) -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "app", *tool], stdout=full, stderr=subprocess.PIPE, timeout=60, check=False
        )
    said = "eventr: Can't write the output: No space left on device.\n"
    assert (done.returncode, done.stderr.decode()) == (1, said)


@pytest.mark.parametrize("tool", TOOLS[:3], ids=lambda tool: tool[1])
@pytest.mark.parametrize(
    "url", ["feed.xml", "//example.org/", "javascript:alert(1)", "http://[", "http://a b/", "https://x:0/"]
)
def test_an_address_that_is_none_is_a_named_error(tool: list[str], url: str) -> None:
    done = run(*tool, "-", "--url", url, stdin=FEED.encode())
    assert (done.returncode, json.loads(done.stdout)["error"]) == (1, "invalid")
    assert b"isn't an absolute HTTP or HTTPS address" in done.stderr
    assert b"Traceback" not in done.stderr


@pytest.mark.parametrize("charset", ["latin-1", "ascii", "utf-16"])
def test_json_is_utf_8_whatever_the_locale_says(charset: str) -> None:
    done = run("feed", "parse", "-", stdin=FEED.encode(), PYTHONIOENCODING=charset)
    assert json.loads(done.stdout.decode("utf-8"))["title"] == "Привет"


def test_a_file_name_that_is_no_utf_8_comes_back_whole(tmp_path: Path) -> None:
    file = os.fsencode(tmp_path) + b"/\xff\xfe.xml"
    Path(os.fsdecode(file)).write_text(FEED)
    done = run("feed", "parse", file, tmp_path / "missing")
    names = [json.loads(line.decode("utf-8"))["file"] for line in done.stdout.splitlines()]
    assert os.fsencode(names[0]) == file


def test_a_feed_that_is_nested_too_deep_is_not_called_large() -> None:
    deep = b"<rss><channel>" + b"<a>" * 9000 + b"</a>" * 9000 + b"</channel></rss>"
    document = json.loads(run("feed", "parse", "-", stdin=deep).stdout)
    said = "This file exceeds a limit of this server: Excessive depth in document: 256."
    assert document == {"error": "too_large", "message": said}


def test_a_wrong_setting_is_json_for_a_fetch_too() -> None:
    done = run("feed", "fetch", "http://e.example/", EVENTR_FETCH_ALLOW="foo")
    document = json.loads(done.stdout)
    assert (done.returncode, list(document), document["error"]) == (1, ["error", "message"], "settings")
    assert done.stderr.decode() == f"eventr: {document['message']}\n"
