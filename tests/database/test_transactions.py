"""Transactions whose process dies turn nobody away."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
from typing import Any

from pymongo.database import Database

from app.config import Settings
from app.mappers.mongo.store import Store

_DIES = """
import os, signal, sys
from app.mappers.mongo.store import Store

store = Store(sys.argv[1], sys.argv[2])

def work(session):
    store.database["things"].update_one({"_id": 1}, {"$set": {"by": "the dead"}}, session=session)
    os.kill(os.getpid(), signal.SIGKILL)

store.run_in_transaction(work)
"""


def test_who_waits_for_a_transaction_of_a_killed_process_outlasts_it(
    settings: Settings, db: Database[dict[str, Any]]
) -> None:
    """With MongoDB's own limit of a minute everybody gave up long before."""
    db["things"].insert_one({"_id": 1})
    command = [sys.executable, "-c", _DIES, settings.mongodb_uri, settings.mongodb_name]
    assert subprocess.run(command, timeout=60).returncode == -signal.SIGKILL
    with contextlib.closing(Store(settings.mongodb_uri, settings.mongodb_name)) as store:
        things, by_us = store.database["things"], {"$set": {"by": "us"}}
        store.run_in_transaction(lambda session: things.update_one({"_id": 1}, by_us, session=session))
    assert db["things"].find_one() == {"_id": 1, "by": "us"}
