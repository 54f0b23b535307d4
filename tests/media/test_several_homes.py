"""Several servers that don't share EVENTR_HOME/media: none decides about bytes that another one has."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime as dt
import errno
import io
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from app import clock
from app.adapters.media.home_id import NAME, read_home_id
from app.bootstrap import services as bootstrap
from app.bootstrap.services import Services
from app.errors import LaterError, StoreError
from app.models.media.blob import Purpose
from app.models.media.source import Source, SourceState
from app.models.media.upload import NewUpload, UploadState
from app.monitoring import health
from tests.media import pictures
from tests.support.reader import add_user

HOUR = dt.timedelta(hours=1)


@pytest.fixture
def other(services: Services, tmp_path: Path) -> Iterator[Services]:
    """A server with the same databases and stores, and with a home of its own."""
    stores = f"disk:{services.settings.home / 'media' / 'files'}"
    settings = dataclasses.replace(services.settings, home=tmp_path / "other", media_stores=(stores,))
    with contextlib.closing(bootstrap.build(settings)) as built:
        yield built


def test_a_home_has_one_id_whoever_asks_first(tmp_path: Path) -> None:
    start, found = threading.Barrier(8), []

    def ask() -> None:
        start.wait()
        found.append(read_home_id(tmp_path / "media"))

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert len(set(found)) == 1
    assert len(found[0]) == 32
    assert [path.name for path in (tmp_path / "media").iterdir()] == [NAME]
    assert read_home_id(tmp_path / "else") != found[0]


def test_a_home_on_a_disk_without_links_has_one_id_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start, found = threading.Barrier(4, timeout=30), []

    def refuse(*_: object) -> None:
        start.wait()  # now all have seen that there is no id
        raise OSError(errno.EPERM, "no links")

    monkeypatch.setattr(os, "link", refuse)
    threads = [
        threading.Thread(target=lambda: found.append(read_home_id(tmp_path / "media"))) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4
    assert set(found) == {(tmp_path / "media" / NAME).read_text()}


def test_only_a_worker_of_its_home_stores_an_upload(services: Services, other: Services) -> None:
    ann = add_user(services)
    upload = services.uploads.create(ann, NewUpload(size=3, name="a.txt")).upload
    with pytest.raises(StoreError):
        other.uploads.find(ann, upload.id)
    services.uploads.append(ann, upload.id, 0, b"abc")
    with pytest.raises(LaterError) as e:
        other.sealing.seal_upload(upload.id, waited=4.0)
    assert e.value.seconds == 4.0
    assert other.uploads.requeue_sealing() == 1
    assert services.sealing.seal_upload(upload.id)["state"] == "done"


def test_a_complete_upload_whose_server_never_comes_back_gives_its_bytes_back(
    services: Services, other: Services
) -> None:
    ann = add_user(services)
    upload = services.uploads.create(ann, NewUpload(size=3, name="a.txt")).upload
    services.uploads.append(ann, upload.id, 0, b"abc")
    expires = upload.expires
    with clock.set_source(lambda: expires + 72 * HOUR - HOUR), pytest.raises(LaterError):
        other.sealing.seal_upload(upload.id)
    assert services.gateways.quota.find(ann.user_id).reserved == 3
    with clock.set_source(lambda: expires + 72 * HOUR):
        assert other.sealing.seal_upload(upload.id) == {"state": "failed", "error": "lost"}
    usage = services.gateways.quota.find(ann.user_id)
    assert (usage.reserved, usage.unfinished, usage.finished) == (0, 0, 0)
    assert services.uploads.list_active(ann) == []


def test_another_server_ends_an_upload_only_after_days(services: Services, other: Services) -> None:
    ann = add_user(services)
    upload = services.uploads.create(ann, NewUpload(size=3, name="a.txt")).upload
    now = clock.now()
    assert other.uploads.expire(now + 25 * HOUR, lambda: False) == 0
    assert services.uploads.find(ann, upload.id).upload.state is UploadState.OPEN
    assert other.uploads.expire(now + 24 * 5 * HOUR, lambda: False) == 1


def test_doctor_warns_of_uploads_elsewhere(services: Services, other: Services) -> None:
    def check(checked: Services) -> list[str]:
        database: Any = checked.store.database
        return [found.text for found in health._homes(checked.settings, database)]

    services.uploads.create(add_user(services), NewUpload(size=3, name="a.txt"))
    assert check(services) == []
    assert "EVENTR_HOME/media" in check(other)[0]


def test_only_a_worker_of_its_home_draws_a_picture(services: Services, other: Services) -> None:
    sources, source_id = services.gateways.sources, bytes(range(16))
    sources.add([Source(id=source_id, url="https://pub.example/a.png", purpose=Purpose.PICTURE)], clock.now())
    (source,) = sources.claim([source_id], "a", clock.now())
    services.picture_bodies.put(source_id.hex(), io.BytesIO(pictures.save(pictures.paint(9, 9), "PNG")))
    source = dataclasses.replace(source, home=services.picture_bodies.home)
    sources.record_fetched(source, "a", clock.now())

    def draw(drawer: Services, token: str) -> object:
        return drawer.source_drawing.draw(source_id.hex(), token=token, parents=(), attempts=0)["error"]

    assert draw(other, "b") == "elsewhere"
    found = sources.find([source_id])[source_id]
    assert (found.state, found.is_waiting) == (SourceState.FETCHED, True)
    now = clock.now()
    with clock.set_source(lambda: now + 2 * HOUR):
        assert draw(other, "c") == "elsewhere"
        assert sources.find([source_id])[source_id].state is SourceState.WANTED, "after an hour it is fetched"


def test_only_a_worker_of_its_home_draws_an_avatar(services: Services, other: Services) -> None:
    ann = add_user(services)
    services.picture_bodies.put("0" * 32, io.BytesIO(pictures.save(pictures.paint(9, 9), "PNG")))
    home = services.picture_bodies.home
    with pytest.raises(LaterError):
        other.avatars.draw(ann.user_id, "0" * 32, 0, home)
    assert services.avatars.draw(ann.user_id, "0" * 32, 0, home) == {"error": None}
