"""F01, F05, F09, F10, R06: pictures and files survive killed workers, an empty Redis and a failing disk."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import io
import os
import signal
from collections.abc import Iterator
from typing import Any

import psutil
import pytest

from app import clock
from app.adapters.redis.jobs import hash_job
from app.bootstrap import services as bootstrap
from app.bootstrap.services import Services
from app.embedded.child import poll
from app.models.accounts.actor import Actor
from app.models.accounts.token import Scope
from app.models.jobs.jobs import Job, Queue, State, Task
from app.models.media.blob import ORIGINAL, Purpose
from app.models.media.shown import PictureState
from app.models.media.upload import NewUpload
from app.runtime.pieces import read_piece
from app.services.media.pictures import WantedPicture
from tests.conftest import Eventually
from tests.faults.system import System
from tests.faults.test_disks import fail_flushes
from tests.faults.test_scarcity import running_web
from tests.media import pictures
from tests.media.test_tus import make_token
from tests.support.media import find_faults
from tests.support.rawserver import Reply
from tests.support.reader import add_user
from tests.support.small_disk import mount_small_disk, with_mounts
from tests.support.upload_client import START, Content, UploadClient

pytestmark = pytest.mark.timeout(3000)

PART, WORKER = 4 << 20, ["eventr worker media"]


@functools.cache
def make_photo() -> bytes:
    """Return a photo of 24 megapixels, whose drawing takes a while."""
    return pictures.save(pictures.paint(6000, 4000), "JPEG", quality=70)


def find_workers(system: System) -> list[psutil.Process]:
    found = []
    for process in system.up.processes():
        with contextlib.suppress(psutil.Error):
            if process.cmdline()[:1] == WORKER:
                found.append(process)
    return found


def kill_during(system: System, task: Task, args: dict[str, Any]) -> bool:
    """Kill the worker that runs a job; return False if the job ended before."""
    job_id, jobs = hash_job(task, args), system.services.jobs
    ended = (State.FINISHED, State.FAILED, State.MISSING)
    state = State.QUEUED

    def is_taken() -> bool:
        nonlocal state
        state = jobs.get_status(job_id).state
        return state is State.STARTED or state in ended

    assert poll(is_taken, START, step=0.002)
    if state is not State.STARTED:
        return False
    for process in find_workers(system):
        with contextlib.suppress(psutil.Error):
            process.kill()
    return True


def send_upload(system: System, actor: Actor, data: bytes, purpose: Purpose) -> str:
    """Send a file as the web tier does; return the id of the upload, which waits to be stored."""
    uploads = system.services.uploads
    status = uploads.create(actor, NewUpload(size=len(data), name="a.jpg", purpose=purpose))
    uploads.append(actor, status.upload.id, 0, data)
    return status.upload.id


def run_maintenance(system: System) -> None:
    """Run the job that is otherwise due every five minutes, and let what waits have waited for long."""
    bodies = system.services.picture_bodies
    for _, name in bodies.list_waiting(-1.0):
        with contextlib.suppress(FileNotFoundError):
            os.utime(bodies.get_path(name), (clock.now().timestamp() - 1000,) * 2)
    soon = clock.now()
    system.db.sources.update_many({"waiting": True}, {"$set": {"next_at": soon}})
    system.services.jobs.enqueue(Job(Task.TEND_UPLOADS, {}, Queue.MAINTENANCE))


def check_media(system: System, actor: Actor, contents: list[bytes]) -> None:
    """R06: the files of an actor are these, whole, and all counts are right."""
    services = system.services
    files = services.files.list_files(actor)
    digests = sorted(hashlib.sha256(data).digest() for data in contents)
    assert sorted(file.blob for file in files if file.name == "a.jpg") == digests
    for file in files:
        blob = services.gateways.blobs.find([file.blob])[file.blob]
        for name in blob.names:
            body = b"".join(read_piece(services.gateways.blobs.open(file.blob, name)))
            assert name != ORIGINAL or hashlib.sha256(body).digest() == file.blob
    assert list(find_faults(services)) == []
    assert services.gateways.quota.recount_usage(actor.user_id) is None


def test_F01_F05_R06_workers_that_are_killed_while_they_draw_and_seal_lose_nothing(
    system: System, in_a_row: int
) -> None:
    """Then Redis loses all jobs: maintenance finds everything again."""
    actor, _ = system.person()
    services, photo = system.services, make_photo()
    url = system.farm.scripted("/photo.jpg", Reply(body=photo))
    contents, kills = list[bytes](), 0
    for number in range(in_a_row):
        # Bytes behind the end are another file of the same picture.
        contents.append(photo + b"%d" % number)
        upload = send_upload(system, actor, contents[-1], Purpose.PICTURE)
        kills += kill_during(system, Task.SEAL, {"upload_id": upload})
        contents.append(system.rng.randbytes(64 << 20))
        upload = send_upload(system, actor, contents[-1], Purpose.ATTACHMENT)
        kills += kill_during(system, Task.SEAL, {"upload_id": upload})
    source = services.pictures.prepare([WantedPicture(url, None, url)], actor.user_id)[url].source
    system.wait(lambda: services.gateways.sources.find([source])[source].is_waiting, "the picture is fetched")
    kills += kill_during(system, Task.DRAW, {"source": source.hex()})
    assert kills, "no job was hit"
    system.wait(lambda: not services.uploads.list_active(actor), "all uploads are stored")

    # Redis loses what is queued, with an avatar and an upload among it.
    services.picture_uploads.wait = 0.0
    stopped = find_workers(system)
    for process in stopped:
        process.send_signal(signal.SIGSTOP)
    services.avatars.upload(actor, io.BytesIO(pictures.save(pictures.paint(300, 200), "PNG")))
    contents.append(photo + b"last")
    send_upload(system, actor, contents[-1], Purpose.PICTURE)
    for process in stopped:
        process.kill()
    system.empty_redis()
    run_maintenance(system)
    system.wait(lambda: not services.uploads.list_active(actor), "the last upload is stored")

    def has_avatar() -> bool:
        user = services.gateways.accounts.find_user(actor.user_id)
        return user is not None and user.avatar is not None

    system.wait(has_avatar, "the avatar is drawn")
    system.wait(
        lambda: services.pictures.find_states([source])[source].state is PictureState.READY,
        "the picture of the site is drawn",
    )
    check_media(system, actor, contents)


def test_F10_a_web_tier_whose_disk_fails_to_flush_confirms_nothing(
    system: System, eventually: Eventually
) -> None:
    """The part is refused, what was confirmed before stays, and the rest arrives later."""
    actor, _ = system.person()
    client = UploadClient(system.up.port, make_token(system.services, actor, Scope.FILES))
    content = Content.make(system.rng.randrange(1 << 32), 3 * PART)
    path = client.create(content.size)
    assert send_part(client, path, content, 0) == (204, PART)
    with contextlib.ExitStack() as failing:
        for process in find_web(system):
            failing.enter_context(fail_flushes(process))
        status, _ = send_part(client, path, content, PART)
        assert status in (500, 503, 507)
        assert int(client.read_progress(path)["upload-offset"]) == PART
    for offset in (PART, 2 * PART):
        assert send_part(client, path, content, offset) == (204, offset + PART)
    eventually(lambda: "upload-result" in client.read_progress(path), START)
    (file,) = system.services.files.list_files(actor)
    assert file.blob == content.hash()
    assert list(find_faults(system.services)) == []


def find_web(system: System) -> list[psutil.Process]:
    """Return the processes that answer requests."""
    return psutil.Process(system.up.pids()["web"]).children()


def send_part(client: UploadClient, path: str, content: Content, offset: int) -> tuple[int, int]:
    """Send a part; return the status, and the offset that was confirmed."""
    end = min(offset + PART, content.size)
    status, fields = client.send_part(path, offset, content.read(offset, end))
    return status, int(fields.get("upload-offset", offset))


@with_mounts
def test_F09_a_disk_that_fills_while_an_upload_arrives_keeps_what_was_confirmed(
    services: Services, eventually: Eventually
) -> None:
    """Without a byte left, parts get 507 and pages go on; with space again, the file is complete."""
    actor = add_user(services, "ann")
    content = Content.make(9, 3 * PART)
    with mount_small_disk(64 << 20) as disk:
        own = dataclasses.replace(services.settings, home=disk.folder / "var")
        # Without the usual reserve of 5 %, so that writes meet the end of the disk.
        with running_web(own, eventually, EVENTR_DISK_MIN_FREE="0") as web, rebuild(own) as there:
            client = UploadClient(web.port, make_token(there, actor, Scope.FILES))
            path = client.create(content.size)
            assert send_part(client, path, content, 0) == (204, PART)
            disk.leave(PART // 2)
            assert send_part(client, path, content, PART)[0] == 507
            assert int(client.read_progress(path)["upload-offset"]) == PART
            assert web.get("/login") == 200
            disk.clear()
            assert send_part(client, path, content, PART) == (204, 2 * PART)
            assert send_part(client, path, content, 2 * PART) == (204, 3 * PART)
            (status,) = there.uploads.list_active(actor)
            # A store that is full: the upload waits, and is stored when there is room.
            disk.leave(PART // 2)
            assert there.sealing.seal_upload(status.upload.id)["state"] == "waiting"
            assert int(client.read_progress(path)["upload-offset"]) == content.size
            disk.clear()
            assert there.sealing.seal_upload(status.upload.id)["state"] == "done"
            (file,) = there.files.list_files(actor)
            assert file.blob == content.hash()
            assert list(find_faults(there)) == []
            assert there.gateways.quota.recount_usage(actor.user_id) is None


@contextlib.contextmanager
def rebuild(settings: Any) -> Iterator[Services]:
    """Build services with other settings."""
    with contextlib.closing(bootstrap.build(settings)) as built:
        yield built
