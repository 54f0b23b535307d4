"""What native apps ask, explained: a whole session over 1,000 feeds scans nothing and sorts nothing."""

from __future__ import annotations

import contextlib
import hashlib
import time
from collections.abc import Iterator
from typing import Any

import pytest
from pymongo.database import Database

from app import clock, create_app
from app.bootstrap import services as bootstrap
from app.bootstrap.services import Services
from app.models.accounts.actor import Actor, Role
from app.models.accounts.token import Token, TokenKind
from app.services.accounts.passwords import Hasher
from bench.reading import USER, Dataset
from tests.database.test_explain import Recorder, judge, stages, statements
from tests.support.commands import add_listener
from tests.support.reader import PASSWORD
from tests.sync.conftest import READ, READING, STARRED, Reader

FEEDS, ENTRIES = 1000, 3
Doc = dict[str, Any]


@pytest.fixture
def recorded(services: Services, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Services, Recorder]]:
    """The same services once more, with every command of theirs kept."""
    found = Recorder()
    add_listener(monkeypatch, found)
    with contextlib.closing(bootstrap.build(services.settings)) as built:
        yield built, found


def test_a_session_over_a_thousand_feeds_never_scans(
    recorded: tuple[Services, Recorder], db: Database[Doc]
) -> None:
    services, recorder = recorded
    Dataset(db, FEEDS).fill(ENTRIES)
    reader, key = _app(services, db)
    recorder.commands.clear()
    _session(reader)
    _fever(reader, key)
    assert len(recorder.commands) > 50
    problems = []
    for name, command in list(recorder.commands):
        for collection, query, explainable in statements(name, command):
            plan = db.command("explain", explainable, verbosity="executionStats")
            problems += [(collection, query, why) for why in judge(collection, query, set(stages(plan)))]
            if name == "find" and (stats := plan.get("executionStats")):
                # A jump to each feed counts as a key.
                most = 3 * stats["nReturned"] + 3 * FEEDS
                if max(stats["totalKeysExamined"], stats["totalDocsExamined"]) > most:
                    problems.append((collection, query, f"looks at {stats['totalKeysExamined']} keys"))
    assert problems == []


def _app(services: Services, db: Database[Doc]) -> tuple[Reader, str]:
    """Give the reader of the feeds an account with an app password."""
    db["users"].insert_one(
        {
            "_id": USER,
            "email": "ann@example.org",
            "name": "ann",
            "name_key": "ann",
            "password": Hasher(services.settings).hash(PASSWORD),
            "role": Role.USER.value,
            "created": clock.now(),
        }
    )
    user = services.gateways.accounts.find_user(USER)
    assert user is not None
    token = Token(0, USER, TokenKind.APP, "An app", clock.now(), fever=True)
    password = services.gateways.tokens.make(token, user)[1]
    services.tags.change_tags(Actor(USER), next(iter(db["entries"].find()))["_id"], add=["later"])
    reader = Reader(create_app(services.settings, services).test_client(), "ann", password)
    return reader, hashlib.md5(f"ann:{password}".encode()).hexdigest()


def _session(reader: Reader) -> None:
    """What apps ask one after the other (FreshRSS's and BazQux's advice), and what they change."""
    reader.log_in()
    feeds = reader.json("subscription/list")["subscriptions"]
    assert len(feeds) == FEEDS
    reader.json("tag/list")
    reader.json("unread-count")
    unread = reader.ids(READING, xt=READ)
    assert len(unread) > 100
    reader.ids(STARRED)
    reader.ids(READ)
    reader.ids("user/-/label/Folder", xt=READ)
    reader.ids("user/-/label/later")
    reader.ids(READING, it=STARRED)
    reader.ids(READING, ot=int(time.time()) - 3600)
    reader.ids(READING, r="o")
    reader.items(*unread[:200])
    reader.json("stream/contents", n=100)
    reader.json(f"stream/contents/{feeds[0]['id']}")
    reader.do("edit-tag", i=[str(i) for i in unread[:300]], a=READ)
    reader.do("edit-tag", i=str(unread[0]), a=STARRED)
    reader.do("edit-tag", i=str(unread[1]), a="user/-/label/later")
    reader.ids(READING, ot=int(time.time()) - 3600)
    reader.do("mark-all-as-read", s=feeds[0]["id"], ts=str(int(time.time() * 1e6)))
    reader.do("mark-all-as-read", s="user/-/label/Folder")
    reader.do("mark-all-as-read", s=READING, ts=str(int(time.time())))


def _fever(reader: Reader, key: str) -> None:
    for asked in (
        "groups&feeds&favicons",
        "items&since_id=0",
        "items&max_id=9007199254740991",
        "unread_item_ids&saved_item_ids",
    ):
        answer = reader.client.post(f"/fever/?api&{asked}", data={"api_key": key})
        assert answer.get_json()["auth"] == 1
