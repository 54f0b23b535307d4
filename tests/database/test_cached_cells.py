"""Cells and the cache together: what a process keeps of a person stays true while they move."""

from __future__ import annotations

import contextlib
import dataclasses
import math
from typing import Any

import pytest
from pymongo.database import Database

from app import clock
from app.adapters.redis import change_log
from app.bootstrap import services as bootstrap
from app.bootstrap.services import Services
from app.models.accounts.actor import Actor
from app.models.operations.cells import HOME
from app.models.operations.moves import CLEAN_AFTER
from app.models.reading.stream import StreamQuery, StreamRef
from app.runtime import identity_map
from tests.sharing.conftest import People
from tests.support.cells import CELL, cell_db, second_cell, settings

__all__ = ["cell_db", "second_cell", "settings"]


def test_a_cached_list_is_current_before_during_and_after_a_move(
    people: People, cell_db: Database[Any], ann: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(change_log, "TIMEOUT", 5.0)
    cached = dataclasses.replace(people.services.settings, cache=True)
    (entry,) = people.blog([ann])
    with (
        contextlib.closing(bootstrap.build(cached)) as reader,
        contextlib.closing(bootstrap.build(cached)) as writer,
    ):

        def read(services: Services) -> tuple[list[str], list[str], int]:
            with identity_map.open_scope(shared=services is reader):
                m, user = services.mappers, ann.user_id
                services.gateways.page_frame.prefetch_stream(user, StreamRef.parse("all"), whole=True)
                folders = [folder.name for folder in m.folders.find_by_user(user)]
                tags = [tag.name for tag in m.tags.find_by_user(user)]
                return folders, tags, len(m.notifications.find_unread(user, 9))

        made = 0

        def change_and_compare() -> None:
            nonlocal made
            made += 1
            before = read(reader)
            assert read(reader) == before
            writer.folders.create(ann, f"Folder {made}")
            writer.tags.change_tags(ann, entry, add=[f"tag{made}"])
            writer.notifier.notify_import_finished(ann.user_id, made)
            after = read(reader)
            assert after == read(people.services)
            assert tuple(map(len, (after[0], after[1]))) == (made, made)
            assert after[2] == before[2] + 1

        change_and_compare()
        for cell in (CELL, HOME):
            assert writer.mover.start(ann.user_id, cell)
            writer.mover._at = lambda _, point: change_and_compare() if point == "copied" else None
            assert writer.mover.run(ann.user_id, clock.now()).state == "moved"
            writer.mover._at = lambda *_: None
            for services in (reader, writer, people.services):
                services.cells.forget_places()
            change_and_compare()
            assert writer.mover.run(ann.user_id, clock.now() + CLEAN_AFTER).state == "normal"
            change_and_compare()
        assert made == 7
        # The reader took lists from memory, not from MongoDB each time.
        assert reader.store.cache is not None
        assert reader.store.cache._values


def test_a_list_read_in_the_old_cell_is_read_again_after_the_move(
    people: People, cell_db: Database[Any], ann: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For a quarter of a second, a process may not have noticed that the person lives elsewhere."""
    monkeypatch.setattr(change_log, "TIMEOUT", 5.0)
    cached = dataclasses.replace(people.services.settings, cache=True)
    with contextlib.closing(bootstrap.build(cached)) as reader:

        def read() -> list[str]:
            with identity_map.open_scope(shared=True):
                reader.gateways.page_frame.prefetch_stream(ann.user_id, StreamRef.parse("all"), whole=True)
                return [folder.name for folder in reader.mappers.folders.find_by_user(ann.user_id)]

        people.services.folders.create(ann, "Old")
        assert people.services.mover.start(ann.user_id, CELL)
        assert read() == ["Old"]
        reader.place_epoch._until = math.inf
        assert people.services.mover.run(ann.user_id, clock.now()).state == "moved"
        people.services.folders.create(ann, "New")
        assert read() == ["Old"], "it hasn't noticed the move"
        reader.place_epoch._until = 0.0
        assert read() == ["New", "Old"]


def test_a_snapshot_is_stored_again_after_a_move(
    people: People, cell_db: Database[Any], ann: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It isn't awaited, so a process may believe that it is there although it never came to the new cell."""
    cached = dataclasses.replace(people.services.settings, cache=True)
    people.blog([ann])
    with contextlib.closing(bootstrap.build(cached)) as reader:

        def load() -> str:
            return reader.reading.load_page(ann, StreamQuery(StreamRef.parse("all"))).snapshot

        token = load()
        assert load() == token, "the content is the same"
        assert reader.mover.start(ann.user_id, CELL)
        reader.mover.run(ann.user_id, clock.now())
        cell_db["snapshots"].delete_many({"user_id": ann.user_id})
        found = load()
        assert cell_db["snapshots"].find_one({"user_id": ann.user_id, "token": found})
        assert load() == found
