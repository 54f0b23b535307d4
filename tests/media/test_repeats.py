"""F16: jobs of media that run several times at once have one effect."""

from __future__ import annotations

import contextlib
import io
import threading
from collections.abc import Callable
from typing import Any

from app.bootstrap.services import Services
from app.errors import ConflictError, GoneError
from app.models.media.source import SourceState
from tests.media import pictures
from tests.media.test_source_drawing import ID, add_body, count_references, draw, get_source
from tests.media.test_uploads import ANN, assert_counted, begin
from tests.sharing.conftest import People

TIMES = 4


def run_at_once(work: Callable[[int], Any]) -> list[Any]:
    """Run something several times at the same moment, as workers do; return the results."""
    start, results = threading.Barrier(TIMES), list[Any]()

    def run(number: int) -> None:
        start.wait()
        results.append(work(number))

    threads = [threading.Thread(target=run, args=(number,)) for number in range(TIMES)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def test_F16_a_picture_that_several_workers_draw_is_one_blob(services: Services) -> None:
    add_body(services, pictures.save(pictures.paint(30, 20), "PNG"))
    results = run_at_once(lambda number: draw(services, f"worker {number}"))
    assert sorted(map(str, results)) == ["None", *["left"] * (TIMES - 1)]
    assert get_source(services).state is SourceState.READY
    assert count_references(services) == [1]
    assert not services.picture_bodies.get_path(ID.hex()).exists()


def test_F16_an_avatar_that_several_workers_draw_is_one_file(services: Services) -> None:
    services.picture_uploads.wait = 0.0  # no worker runs
    ann = People(services).join("ann")
    services.avatars.upload(ann, io.BytesIO(pictures.save(pictures.paint(9, 9), "PNG")))
    (body,) = [path.name for path in (services.settings.home / "media" / "in").iterdir()]
    results = run_at_once(lambda _: services.avatars.draw(ann.user_id, body, 0)["error"])
    assert None in results
    assert set(results) <= {None, "gone"}
    used = [file for file in services.gateways.files.list_files(ann.user_id, 10) if file.owners]
    assert len(used) == 1
    assert assert_counted(services, ann).reserved == 0


def test_F16_received_bytes_are_counted_once(services: Services) -> None:
    """Parts go on meanwhile: whatever a count has seen, the next one takes the difference."""
    uploads = [begin(services, 1000) for _ in range(3)]
    for size in (100, 250):
        for upload in uploads:
            services.uploads.append(ANN, upload.id, 100 if size == 250 else 0, bytes(size - 100 or 100))
        changed = run_at_once(lambda _: services.uploads.flush(ANN.user_id))
        assert sum(changed) == len(uploads)
        assert assert_counted(services).unfinished == size * len(uploads)


def test_F16_a_count_and_the_end_of_an_upload_leave_nothing(services: Services) -> None:
    upload = begin(services, 1000)
    services.uploads.append(ANN, upload.id, 0, bytes(700))

    def delete() -> None:
        # Another one was first: it is gone, or the client is told to repeat this.
        with contextlib.suppress(GoneError, ConflictError):
            services.uploads.delete(ANN, upload.id)

    def work(number: int) -> None:
        if number % 2:
            services.uploads.flush(ANN.user_id)
        else:
            delete()

    run_at_once(work)
    delete()
    usage = assert_counted(services)
    assert (usage.finished, usage.reserved, usage.unfinished) == (0, 0, 0)
