"""F11: the clock of a web process jumps by an hour and a day, while the stores keep the right time."""

from __future__ import annotations

import datetime as dt
import email.utils
import http.client
from collections.abc import Callable
from pathlib import Path

from app import clock
from app.bootstrap.services import Services
from tests.faults import checks
from tests.faults.browser import Browser
from tests.faults.test_scarcity import running_web
from tests.support.reader import add_user

Eventually = Callable[..., None]
HOUR, DAY = 3600, 86400
JUMPS = (HOUR, -HOUR, DAY, -DAY, 0)
#: What the clock shows while a test waits for a busy machine.
TOLERANCE = 1200


#: Shifts the clock of a Python process by the seconds in a file. libfaketime can't: Python's own sleep fails
#: under it.
SHIFT = """
import os, time
_time, _time_ns = time.time, time.time_ns
def _read():
    with open(os.environ["JUMPS"]) as file:
        return int(file.read() or 0)
time.time = lambda: _time() + _read()
time.time_ns = lambda: _time_ns() + _read() * 10**9
"""


def _read_clock(port: int) -> dt.datetime:
    """Return the time of the server, as its responses show it."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    connection.request("GET", "/healthz")
    at = email.utils.parsedate_to_datetime(connection.getresponse().headers["Date"])
    connection.close()
    return at


def test_F11_a_clock_that_jumps_logs_nobody_out_and_loses_nothing(
    services: Services, tmp_path: Path, eventually: Eventually
) -> None:
    jumps, folder = tmp_path / "jumps", tmp_path / "shift"
    jumps.write_text("0")
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(SHIFT)
    shifted = {"JUMPS": str(jumps), "PYTHONPATH": str(folder)}
    ann = add_user(services, "ann")
    token = services.gateways.sessions.open_session(ann.user_id, agent="test", address="")
    db = services.store.database
    with running_web(services.settings, eventually, **shifted) as web:
        before = web.workers()
        browser = Browser(web.port, token)
        browser.get("/add")
        for number, seconds in enumerate(JUMPS, 1):
            jumps.write_text(str(seconds))

            def has_jumped(seconds: int = seconds) -> bool:
                ahead = (_read_clock(web.port) - clock.now()).total_seconds()
                return abs(ahead - seconds) < TOLERANCE

            eventually(has_jumped)
            assert browser.get("/add") == 200, seconds
            assert browser.post("/subscribe", url=f"https://feeds.example.org/{number}") == 303, seconds
            assert db.subscriptions.count_documents({}) == number
        assert web.workers() == before
    assert db.sessions.count_documents({}) == 1
    assert checks.doubled(db) + checks.miscounted(db) == []
