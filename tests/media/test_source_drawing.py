"""Drawing what was fetched: claims, repeated and killed jobs, and pictures that can't be drawn."""

from __future__ import annotations

import hashlib
import io
from typing import Any

import pytest

from app import clock
from app.bootstrap.services import Services
from app.models.media.blob import ORIGINAL, BlobKind, Content, Purpose
from app.models.media.drawn import RECIPE
from app.models.media.sizes import SIZES
from app.models.media.source import Source, SourceState
from app.runtime.pieces import read_piece
from tests.media import pictures
from tests.support.media import add_file

ID = bytes(range(16))


def add_body(services: Services, body: bytes | None, purpose: Purpose = Purpose.PICTURE) -> None:
    """Store a source that was fetched, and its body."""
    sources, now = services.gateways.sources, clock.now()
    sources.add([Source(id=ID, url="https://pub.example/a.png", purpose=purpose, used=now)], now)
    (claimed,) = sources.claim([ID], "fetch", now)
    sources.record_fetched(claimed, "fetch", now)
    if body is not None:
        services.picture_bodies.put(ID.hex(), io.BytesIO(body))


def draw(services: Services, token: str = "one", **more: Any) -> Any:
    values = {"parents": (), "attempts": 0, **more}
    return services.source_drawing.draw(ID.hex(), token=token, **values)["error"]


def get_source(services: Services) -> Source:
    return services.gateways.sources.find([ID])[ID]


def count_references(services: Services) -> list[int]:
    return [doc["n"] for doc in services.store.database["blobs"].find()]


@pytest.mark.parametrize("purpose", [Purpose.PICTURE, Purpose.ICON], ids=str)
def test_a_body_becomes_a_blob_and_its_source_is_ready(services: Services, purpose: Purpose) -> None:
    add_body(services, pictures.save(pictures.paint(300, 200), "PNG"), purpose)
    assert draw(services) is None
    source = get_source(services)
    assert source.state is SourceState.READY
    assert source.blob is not None
    blob = services.gateways.blobs.find([source.blob])[source.blob]
    assert (blob.width, blob.height, blob.type) == (300, 200, "image/png")
    assert not services.picture_bodies.get_path(ID.hex()).exists()


def test_a_newer_recipe_draws_all_sizes_of_a_blob_anew(services: Services) -> None:
    data = pictures.save(pictures.paint(300, 300), "PNG")
    names = {size.name for purpose in (Purpose.PICTURE, Purpose.AVATAR) for size in SIZES[purpose]}
    old = Content(
        id=hashlib.sha256(data).digest(),
        kind=BlobKind.PICTURE,
        size=len(data),
        type="image/png",
        files={ORIGINAL: data, **dict.fromkeys(names, b"an older recipe")},
        recipe=RECIPE - 1,
    )
    blobs = services.gateways.blobs
    add_file(services, 11, old)
    before = blobs.find([old.id])[old.id]
    add_body(services, data)
    assert draw(services) is None
    blob = blobs.find([old.id])[old.id]
    assert blob.recipe == RECIPE
    assert blob.names.keys() == names | {ORIGINAL}
    for name in names:
        assert pictures.read(b"".join(read_piece(blobs.open(old.id, name)))).format == "WEBP"
    assert (blob.old, blob.references) == ((before.generation,), 2)
    add_file(services, 12, old)
    assert blobs.find([old.id])[old.id].generation == blob.generation, "an older server keeps it as well"


def test_a_second_run_adds_no_reference(services: Services) -> None:
    add_body(services, pictures.save(pictures.paint(30, 20), "PNG"))
    assert [draw(services, "one"), draw(services, "two")] == [None, "left"]
    assert count_references(services) == [1]


def test_an_attempt_takes_over_the_claim_of_a_dead_one(services: Services) -> None:
    add_body(services, pictures.save(pictures.paint(30, 20), "PNG"))
    assert services.gateways.sources.claim_drawing(ID, "dead", clock.now(), ())
    assert draw(services, "two") == "left", "as far as it knows, the other is alive"
    assert draw(services, "two", parents=["dead"], attempts=1) is None
    assert count_references(services) == [1]


def test_a_picture_that_ended_two_workers_is_given_up(services: Services) -> None:
    add_body(services, pictures.save(pictures.paint(30, 20), "PNG"))
    assert draw(services, attempts=2) == "crashed"
    source = get_source(services)
    assert (source.state, source.error) == (SourceState.FAILED, "crashed")
    assert not services.picture_bodies.get_path(ID.hex()).exists()


@pytest.mark.parametrize(
    ("body", "word"),
    [(b"<html>", "not_a_picture"), (pictures.png_bomb(10_000, 10_000), "too_many_pixels")],
    ids=["html", "bomb"],
)
def test_what_cannot_be_drawn_says_why(services: Services, body: bytes, word: str) -> None:
    add_body(services, body)
    assert draw(services) == word
    assert get_source(services).error == word
    assert count_references(services) == []


def test_a_lost_body_is_fetched_again_later(services: Services) -> None:
    add_body(services, None)
    assert draw(services) == "gone"
    assert get_source(services).state is SourceState.WANTED
