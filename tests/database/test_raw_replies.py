"""Whole result sets in one reply: what does not fit, and what a lost connection cuts off."""

from __future__ import annotations

import select
import socket
import socketserver
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import bson
import pytest
from pymongo import MongoClient
from pymongo.collection import Collection
from pymongo.database import Database

from app.config import Settings
from app.mappers.mongo import raw_replies

Doc = dict[str, Any]


@pytest.fixture
def numbered(db: Database[Doc]) -> Collection[Doc]:
    """120 documents of each of two users: their places in a reply have one to three digits."""
    db["numbered"].insert_many({"_id": n, "user_id": n % 2, "text": "x" * n} for n in range(240))
    return db["numbered"]


def decoded(found: Iterator[bytes]) -> list[Doc]:
    return sorted((bson.decode(raw) for raw in found), key=lambda doc: int(doc["_id"]))


@pytest.mark.parametrize("count", [0, 1, 10, 11, 100, 130, 1001])
def test_an_array_is_cut_into_the_documents_it_was_made_of(count: int) -> None:
    odd: list[Doc] = [{}, {"": "\0\x03"}]  # the shortest, and one with what separates documents
    docs = [*odd, *({"n": n} for n in range(count))][:count]
    array = bson.encode({str(place): doc for place, doc in enumerate(docs)})
    assert [bson.decode(raw) for raw in raw_replies.split_documents(array)] == docs


def test_all_documents_of_a_query_come_as_they_are_stored(numbered: Collection[Doc]) -> None:
    expected = list(numbered.find({"user_id": 1}).sort("_id"))
    assert decoded(raw_replies.fetch_documents(numbered, {"user_id": 1})) == expected
    assert decoded(raw_replies.fetch_documents(numbered, {"user_id": 1}, {"text": 1}))[0] == {
        "_id": 1,
        "text": "x",
    }
    assert decoded(raw_replies.fetch_documents(numbered, {"user_id": 2})) == []


def test_what_one_reply_cannot_hold_comes_all_the_same(
    numbered: Collection[Doc], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(raw_replies, "MOST", 7)
    assert len(decoded(raw_replies.fetch_documents(numbered, {"user_id": 1}))) == 120


@pytest.mark.parametrize("most", [raw_replies.MOST, 7], ids=["one reply", "a cursor"])
def test_documents_come_in_the_order_that_is_asked_for(
    numbered: Collection[Doc], monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr(raw_replies, "MOST", most)
    numbered.update_many({}, [{"$set": {"place": {"$subtract": [1000, "$_id"]}}}])
    found = raw_replies.fetch_documents(numbered, {"user_id": 1}, sort="place", limit=10)
    assert [bson.decode(raw)["_id"] for raw in found] == list(range(239, 219, -2))


def test_what_is_larger_than_any_reply_comes_all_the_same(db: Database[Doc]) -> None:
    db["large"].insert_many({"_id": n, "text": "x" * (1 << 20)} for n in range(20))
    assert [doc["_id"] for doc in decoded(raw_replies.fetch_documents(db["large"], {}))] == list(range(20))


class Line(socketserver.ThreadingUnixStreamServer):
    """A line to MongoDB that can be cut: it forwards bytes between a socket of its own and the server's."""

    daemon_threads = False

    def __init__(self, server: str, own: Path) -> None:
        super().__init__(str(own), _Connection)
        self.server = server
        #: Cut the connection that next carries these bytes to the server, before it gets them.
        self.cut_at: bytes | None = None
        self.cuts = 0

    def is_cut_by(self, data: bytes) -> bool:
        if self.cut_at is None or self.cut_at not in data:
            return False
        self.cut_at, self.cuts = None, self.cuts + 1
        return True


class _Connection(socketserver.BaseRequestHandler):
    server: Line
    request: socket.socket

    def handle(self) -> None:
        near = self.request
        with socket.socket(socket.AF_UNIX) as far:
            far.connect(self.server.server)
            while True:
                for source in select.select([near, far], [], [])[0]:
                    data = source.recv(1 << 16)
                    if not data or (source is near and self.server.is_cut_by(data)):
                        return
                    (far if source is near else near).sendall(data)


@pytest.fixture
def line(settings: Settings, tmp_path: Path) -> Iterator[Line]:
    server = unquote(settings.mongodb_uri.removeprefix("mongodb://").partition("/")[0])
    with Line(server, tmp_path / "line.sock") as made:
        thread = threading.Thread(target=made.serve_forever, args=(0.05,))
        thread.start()
        yield made
        made.shutdown()
        thread.join()


def test_a_query_that_a_lost_connection_cuts_off_is_asked_again(
    numbered: Collection[Doc], line: Line
) -> None:
    uri = f"mongodb://{quote(str(line.server_address), safe='')}/?directConnection=true"
    with MongoClient[Doc](uri, timeoutMS=10_000) as client:
        mine = client[numbered.database.name][numbered.name]
        assert len(decoded(raw_replies.fetch_documents(mine, {"user_id": 0}))) == 120
        line.cut_at = b"find\0"
        assert len(decoded(raw_replies.fetch_documents(mine, {"user_id": 1}))) == 120
        assert line.cuts == 1
