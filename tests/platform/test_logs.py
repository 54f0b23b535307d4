"""The log as JSON: each line is one document, whichever part writes it and however a process ends."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from tests.support.imports import REPO
from tests.support.up import free_port

_START = """
import sys, threading, warnings
from app import logs
logs.configure("info", sys.argv[1])
"""
#: gunicorn as `eventr web` runs it, whose workers can't start: it logs its start, the error and its end.
_BROKEN = """
from app import application
from app.commands import gunicorn_worker, processes
from app.config import Settings
def fail(path):
    raise LookupError("no\\nroom")
gunicorn_worker.Handover = fail
application.build = lambda settings: None
processes._gunicorn(Settings.from_env())
"""


def _run(lines: str, style: str = "json", **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", _START + lines, style],
        cwd=REPO,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.stdout == ""
    return done.stderr


def _read(log: str) -> list[dict[str, Any]]:
    rows = [json.loads(line) for line in log.splitlines()]
    assert all({"at", "level", "logger", "event"} <= row.keys() for row in rows)
    return rows


@pytest.mark.parametrize(
    ("lines", "word"),
    [
        ("raise LookupError('no\\nroom')", "LookupError"),
        ("t = threading.Thread(target=lambda: 1 / 0); t.start(); t.join()", "ZeroDivisionError"),
        ("class Bad:\n    def __del__(self): raise LookupError\nBad()", "LookupError"),
        ("warnings.warn('old\\nway')", "old"),
        ("sys.argv[1:] = ['updater']; from app.cli import main; main()", "EVENTR_MONGODB_URI"),
        ("logs.get('a').info('went', by='x\\ny')", "went"),
    ],
    ids=["error", "thread", "unraisable", "warning", "command", "event"],
)
def test_every_line_is_json(lines: str, word: str) -> None:
    nowhere = {"EVENTR_MONGODB_URI": "mongodb://127.0.0.1:1", "EVENTR_REDIS_URL": "redis://127.0.0.1:1"}
    (row,) = _read(_run(lines, EVENTR_LOG_FORMAT="json", **nowhere))
    assert word in json.dumps(row)


def test_ended_thread_is_no_error() -> None:
    assert _run("t = threading.Thread(target=sys.exit); t.start(); t.join()") == ""


@pytest.mark.parametrize("style", ["json", "text"])
def test_gunicorn_writes_its_lines_like_all_others(style: str) -> None:
    log = _run(_BROKEN, style, EVENTR_PORT=str(free_port()), EVENTR_WEB_WORKERS="1")
    if style == "text":
        assert " info    gunicorn.error Listening at: " in log
        assert "LookupError: no\nroom" in log
        return
    rows = _read(log)
    events = "\n".join(row["event"] for row in rows)
    assert {row["logger"] for row in rows} == {"gunicorn.error"}
    assert "Listening at: " in events
    assert "Worker failed to boot" in events
    assert any("LookupError: no\nroom" in row.get("traceback", row["event"]) for row in rows)
