"""What counts as an attempt of a picture: crashes and time-outs, and never a store that doesn't respond."""

from __future__ import annotations

import contextlib
import dataclasses
import io
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import redis
from pymongo.collection import Collection
from pymongo.errors import AutoReconnect

from app.bootstrap import services as bootstrap
from app.bootstrap.services import Services
from app.config import Settings
from app.errors import EventrError, LaterError, StoreError
from app.models.media.blob import Purpose
from app.models.media.drawn import BODY_SECONDS
from app.models.media.source import SourceState
from app.models.media.upload import NewUpload, UploadState
from tests.jobs import support
from tests.media import pictures
from tests.media.test_source_drawing import add_body, draw, get_source
from tests.support.reader import add_user
from workers import outcome
from workers.context import Context, Resources
from workers.job import ClaimedJob
from workers.outcome import JobTimeoutError
from workers.registry import find_task
from workers.tasks import media_drawing, media_uploads

TASKS = (media_drawing, media_uploads)
PICTURE = pictures.save(pictures.paint(30, 20), "PNG")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The disk of the only media store, which can be taken away."""
    disk = tmp_path / "disk"
    disk.mkdir()
    return disk


@pytest.fixture
def stored(settings: Settings, services: Services, folder: Path) -> Iterator[Services]:
    changed = dataclasses.replace(settings, media_stores=(f"disk:{folder}/files",))
    with contextlib.closing(bootstrap.build(changed)) as built:
        built.picture_uploads.wait = 0.0
        yield built


@contextlib.contextmanager
def take_away(folder: Path) -> Iterator[None]:
    away = folder.rename(folder.with_name("away"))
    yield
    away.rename(folder)


@pytest.fixture
def work(stored: Services, redis_client: redis.Redis) -> Iterator[Callable[..., ClaimedJob]]:
    """Run the next job as a worker does; its retry is due at once."""
    settings = stored.settings
    desk = support.desk(redis_client, settings)
    with contextlib.closing(Resources(settings)) as resources:

        def run(error: BaseException | None = None) -> ClaimedJob:
            (job,) = desk.claim_jobs(1, {}, ())
            spec = find_task(job.task)
            assert spec is not None
            try:
                if error is not None:
                    raise error
                value = spec.body(Context(job, settings, 60, resources, lambda _: None), **job.args)
                ended = outcome.finish_job(job, value, settings)
            except EventrError as e:
                ended = outcome.fail_job(job, e, settings)
                assert ended.kind == outcome.RETRY, "nobody gives it up"
            assert desk.finish([dataclasses.replace(ended, seconds=min(ended.seconds, 0.0))]) == [True]
            return job

        yield run


def refuse(*_args: object, **_options: object) -> None:
    raise AutoReconnect("connection closed")


def upload_picture(services: Services) -> str:
    ann, new = add_user(services), NewUpload(size=len(PICTURE), name="a", purpose=Purpose.PICTURE)
    upload = services.uploads.create(ann, new).upload
    services.uploads.append(ann, upload.id, 0, PICTURE)
    return upload.id


def test_an_upload_survives_a_database_that_fails_more_often_than_jobs_are_tried(
    stored: Services, work: Callable[..., ClaimedJob], monkeypatch: pytest.MonkeyPatch
) -> None:
    upload_id = upload_picture(stored)
    tries = 2 * stored.settings.job_retries
    with monkeypatch.context() as patch:
        patch.setattr(Collection, "find_one", refuse)
        for _ in range(tries):
            work()
    job = work()
    assert (job.failures, job.timeouts, job.harm) == (tries, 0, 0)
    found = stored.mappers.uploads.find(upload_id)
    assert found is not None
    assert (found.state, found.error) == (UploadState.DONE, None)


def test_a_picture_that_takes_too_long_twice_is_given_up(
    stored: Services, work: Callable[..., ClaimedJob]
) -> None:
    upload_id = upload_picture(stored)
    # Its wait for a database isn't a part of it.
    for _ in range(stored.settings.job_retries):
        work(LaterError(0))
    work(JobTimeoutError())
    work(JobTimeoutError())
    assert work().harm == 2
    found = stored.mappers.uploads.find(upload_id)
    assert found is not None
    assert (found.state, found.error) == (UploadState.FAILED, "crashed")


def test_an_avatar_waits_for_its_store(
    stored: Services, work: Callable[..., ClaimedJob], folder: Path
) -> None:
    ann = add_user(stored)
    assert stored.avatars.upload(ann, io.BytesIO(PICTURE)) is False
    with take_away(folder):
        for _ in range(2):
            work()
    assert work().harm == 0
    user = stored.mappers.users.find(ann.user_id)
    assert user is not None
    assert user.avatar is not None


def test_a_fetched_picture_waits_for_its_store(stored: Services, folder: Path) -> None:
    add_body(stored, PICTURE)
    with take_away(folder), pytest.raises(StoreError):
        draw(stored, "one")
    assert draw(stored, "two", parents=["one"]) is None
    assert get_source(stored).state is SourceState.READY


def test_the_pause_grows_with_the_wait_and_ends_with_the_body(services: Services) -> None:
    body = "0" * 32
    services.picture_bodies.put(body, io.BytesIO(PICTURE))
    pauses = []
    for waited in (0.0, 20.0, BODY_SECONDS):
        with pytest.raises(LaterError) as e:
            services.avatars.draw(11, body, 0, "another home", waited)
        pauses.append(e.value.seconds)
    assert pauses == [1.0, 20.0, 300.0]
    assert services.avatars.draw(11, body, 0, "another home", BODY_SECONDS + 1) == {"error": "gone"}
    assert services.picture_bodies.get_path(body).exists(), "this server's bodies are not its business"
