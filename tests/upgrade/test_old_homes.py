"""Databases of older versions give the same API responses after the upgrade.

``make_home.py`` recorded the databases, and the responses of the older version's REST API.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import gzip
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from bson import json_util
from flask.testing import FlaskClient
from pymongo.database import Database

from app import clock, create_app
from app.bootstrap.services import Services
from app.config import Settings
from app.errors import AuthRequiredError
from app.mappers.mongo import indexes
from app.mappers.mongo.migrations import table
from app.services.accounts.sign_in import Client
from tests.upgrade.make_home import FEEDS, PASSWORD, PATHS, SECRET_KEY

HOMES = sorted((Path(__file__).parent / "data").glob("*.json.gz"))


@dataclasses.dataclass
class Home:
    """An upgraded database, and the recorded responses for each user."""

    services: Services
    client: FlaskClient
    answers: dict[str, dict[str, Any]]
    tokens: dict[str, str]

    def fetch(self, person: str, path: str) -> Any:
        """Return the current response of the REST API for a user."""
        headers = {"Authorization": f"Bearer {self.tokens[person]}"}
        answer = self.client.get(f"/api/v1{path}", headers=headers)
        return answer.json if answer.status_code == 200 else answer.text

    def send(self, person: str, method: str, path: str, body: Any) -> None:
        """Change something through the REST API."""
        headers = {"Authorization": f"Bearer {self.tokens[person]}"}
        answer = self.client.open(f"/api/v1{path}", method=method, json=body, headers=headers)
        assert answer.status_code < 300, answer.text


@pytest.fixture(params=HOMES, ids=lambda path: path.name.partition(".")[0])
def home(
    request: pytest.FixtureRequest, settings: Settings, db: Database[Any], redis_client: Any
) -> Iterator[Home]:
    """Each home, upgraded five minutes after it was recorded."""
    from app.bootstrap import services as bootstrap

    kept = json_util.loads(gzip.decompress(request.param.read_bytes()))
    _restore(db, kept["documents"], kept["indexes"])
    services = bootstrap.build(dataclasses.replace(settings, secret_key=SECRET_KEY))
    now = dt.datetime.fromtimestamp(kept["taken"], dt.UTC) + dt.timedelta(minutes=5)
    with clock.set_source(lambda: now):
        services.migrate()
        client = create_app(services.settings, services).test_client()
        yield Home(services, client, kept["answers"], kept["tokens"])
    services.close()


def _restore(db: Database[Any], documents: dict[str, list[Any]], made: dict[str, list[Any]]) -> None:
    for name, rows in documents.items():
        db.create_collection(name)
        if rows:
            db[name].insert_many(rows)
        specs = [{key: value for key, value in spec.items() if key != "ns"} for spec in made[name]]
        if others := [spec for spec in specs if spec["name"] != "_id_"]:
            db.command("createIndexes", name, indexes=others)


def test_there_is_a_home_of_the_version_before_migrations() -> None:
    assert "b678f00.json.gz" in {path.name for path in HOMES}


def test_every_api_response_is_the_same_after_the_upgrade(home: Home, db: Database[Any]) -> None:
    assert db["schema"].find_one({})["version"] == table.VERSION
    assert indexes.find_missing_indexes(db) == []
    assert sum(len(answers) for answers in home.answers.values()) > 3 * len(PATHS)
    differences = [
        f"{person} {path}: {found}"
        for person, answers in home.answers.items()
        for path, before in answers.items()
        for found in _lost(before, home.fetch(person, path), "")
        if not _is_sentence(path, found)
    ]
    assert not differences, "\n".join(differences)


#: Fields with a different value in each response.
_PASSING = {"snapshot", "next", "expires", "ago"}


def _is_sentence(path: str, found: str) -> bool:
    """Return whether a difference is the text of a notification, which may be reworded."""
    return path == "/notifications" and bool(re.match(r"\.items\[\d+\]\.text ", found))


def _lost(before: Any, now: Any, where: str) -> list[str]:
    """Return the missing or different values; newer versions may add fields."""
    if isinstance(before, dict) and isinstance(now, dict):
        return [
            found
            for key, value in before.items()
            if key not in _PASSING
            for found in _lost(value, now.get(key, "(missing)"), f"{where}.{key}")
        ]
    if isinstance(before, list) and isinstance(now, list) and len(before) == len(now):
        return [found for n, value in enumerate(before) for found in _lost(value, now[n], f"{where}[{n}]")]
    return [] if before == now else [f"{where} was {before!r} and is {now!r}"]


def test_a_difference_is_found() -> None:
    assert _lost({"a": [1, {"b": 2}]}, {"a": [1, {"b": 3}]}, "") == [".a[1].b was 2 and is 3"]
    assert _lost({"a": [1]}, {"a": []}, "") == [".a was [1] and is []"]
    assert _lost({"a": None}, {}, "") == [".a was None and is '(missing)'"]
    assert _lost({"a": 1, "snapshot": "x"}, {"a": 1, "b": 2}, "") == []


def test_users_log_in_read_and_share_after_the_upgrade(home: Home) -> None:
    (rivers,) = [
        row["feed_id"] for row in home.fetch("ann", "/subscriptions")["items"] if row["title"] == "My rivers"
    ]
    rows = home.fetch("ann", f"/streams/feed:{rivers}/entries?limit=100")["items"]
    assert len(rows) == FEEDS["/rivers.xml"]
    unread = [row["id"] for row in rows if not row["read"]]
    home.send("ann", "PATCH", f"/entries/{unread[-1]}", {"read": True, "starred": True})
    assert home.fetch("ann", "/counts")["feeds"][str(rivers)] == len(unread) - 1
    assert len(home.fetch("ann", "/streams/starred/entries")["items"]) == 3
    home.send("ann", "POST", f"/entries/{unread[-1]}/share", {"note": "Found in an old home."})
    assert len(home.fetch("bob", "/people/ann/shares")["items"]) == 3
    assert home.services.sign_in.log_in("ann", PASSWORD, Client("127.0.0.1"))
    with pytest.raises(AuthRequiredError):
        home.services.sign_in.log_in("ann", "another password", Client("127.0.0.1"))
