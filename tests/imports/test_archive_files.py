"""Uploaded archives: a job reads them into imports, and the files go a week after the end."""

from __future__ import annotations

import datetime as dt
import random

import pytest
import redis

from app import clock
from app.bootstrap.services import Services
from app.errors import ForbiddenError, NotFoundError, RateLimitedError, StoreError
from app.gateways.imports.archives import FILE_KEPT
from app.gateways.media import files as file_gateway
from app.models.accounts.actor import Actor
from app.models.imports.imports import Import, ImportState
from app.models.jobs.jobs import Queue, Task
from app.models.media.blob import Purpose
from app.models.media.upload import NewUpload
from app.services.imports.archives import make_read_job
from tests.imports import archives as samples
from tests.imports.archives import HOST, google_item
from tests.imports.test_archives import feed
from tests.imports.test_imports import Pulling, listed, run
from tests.jobs import support
from tests.support.media import find_faults
from tests.support.reader import document_count
from workers import registry


def uploaded(services: Services, who: Actor, body: bytes, name: str = "archive.zip") -> int:
    """Upload a file for an import, and return its id."""
    new = NewUpload(size=len(body), name=name, purpose=Purpose.IMPORT)
    upload = services.uploads.create(who, new).upload
    services.uploads.append(who, upload.id, 0, body)
    return int(services.sealing.seal_upload(upload.id)["file_id"])


def requested(services: Services, who: Actor, body: bytes) -> Import:
    return services.archives.request_reading(who, uploaded(services, who, body))


def files(services: Services, who: Actor) -> list[tuple[int, tuple[str, ...]]]:
    return [(file.size, file.owners) for file in services.files.list_files(who)]


def drop_files(services: Services, now: dt.datetime) -> int:
    with clock.set_source(lambda: now):
        return services.archives.drop_files(lambda: False)


MINUTE = dt.timedelta(minutes=1)
ARCHIVE = samples.freshrss({"a": ("News",)}, [google_item("a", 1, starred=True)], {})


def test_uploaded_archive_becomes_an_import_and_goes(services: Services, alice: Actor) -> None:
    one = requested(services, alice, ARCHIVE)
    assert (one.state, one.name) == (ImportState.READING, "archive.zip")
    assert files(services, alice) == [(len(ARCHIVE), (f"import:{one.id}",))]
    assert services.archives.read_file(alice.user_id, one.id) == {"state": "preview"}
    read = services.imports.get(alice, one.id)
    assert (read.counts, read.marks, read.title) == ({"waiting": 1}, {"waiting": 1}, "FreshRSS")
    assert [folder.name for folder in read.folders] == ["News"]
    run(services, services.imports.start(alice, one.id), Pulling(services, {f"{HOST}/a": feed("a")}))
    done = services.imports.get(alice, one.id)
    assert done.marks == {"starred": 1}
    assert done.ended is not None
    assert drop_files(services, done.ended + FILE_KEPT) == 0
    assert files(services, alice) == [(len(ARCHIVE), (f"import:{one.id}",))]
    assert drop_files(services, done.ended + FILE_KEPT + MINUTE) == 1
    assert files(services, alice) == []
    assert services.files.get_usage(alice).finished == 0
    assert list(find_faults(services)) == []


@pytest.mark.parametrize("state", [ImportState.READING, ImportState.QUEUED, ImportState.RUNNING])
def test_import_under_way_keeps_its_file_and_an_expired_one_does_not(
    services: Services, alice: Actor, state: ImportState
) -> None:
    one = requested(services, alice, ARCHIVE)
    imports = services.store.database["imports"]
    imports.update_one({"_id": one.id}, {"$set": {"state": state.value}})
    later = clock.now() + dt.timedelta(days=400)
    assert drop_files(services, later) == 0
    imports.delete_one({"_id": one.id})  # as its index does when it expires
    assert drop_files(services, later) == 1
    assert files(services, alice) == []


def test_file_that_something_else_uses_stays_for_that(
    services: Services, alice: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_gateway, "TOGETHER", 1)
    file_id = uploaded(services, alice, ARCHIVE)
    first, second = (services.archives.request_reading(alice, file_id) for _ in range(2))
    for one in (first, second):
        services.store.database["imports"].update_one(
            {"_id": one.id}, {"$set": {"state": "done", "ended": clock.now()}}
        )
    services.store.run_in_transaction(
        lambda session: services.gateways.files.attach(session, alice.user_id, [file_id], "share:5")
    )
    assert drop_files(services, clock.now() + FILE_KEPT + MINUTE) == 0
    assert files(services, alice) == [(len(ARCHIVE), ("share:5",))]


def test_list_of_feeds_may_come_as_a_file(services: Services, alice: Actor) -> None:
    one = requested(services, alice, listed(("a", ()), ("b", ())))
    services.archives.read_file(alice.user_id, one.id)
    assert services.imports.get(alice, one.id).counts == {"waiting": 2}


def test_archive_larger_than_a_form_is_read(services: Services, alice: Actor) -> None:
    items = [google_item("a", n, starred=True) for n in range(300)]
    for number, item in enumerate(items):
        item["content"] = {"content": random.Random(number).randbytes(20_000).hex()}
    body = samples.freshrss({"a": ()}, items, {})
    one = requested(services, alice, body)
    services.archives.read_file(alice.user_id, one.id)
    assert services.imports.get(alice, one.id).marks == {"waiting": 300}


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (ARCHIVE[:-40], "incomplete or damaged"),
        (b"title,url,time_added,tags,status\n" + b"x" * (2 << 20), "incomplete or damaged"),
        (b"\x89PNG\r\n\x1a\n123", "This is an image"),
    ],
)
def test_file_that_can_not_be_read_stays_with_an_error(
    services: Services, alice: Actor, body: bytes, words: str
) -> None:
    one = requested(services, alice, body)
    assert services.archives.read_file(alice.user_id, one.id) == {"state": "unreadable"}
    read = services.imports.get(alice, one.id)
    assert read.state is ImportState.UNREADABLE
    assert read.fault is not None
    sentence, values = read.fault
    assert words in sentence % values
    assert files(services, alice) == [(len(body), (f"import:{one.id}",))]
    assert services.archives.read_file(alice.user_id, one.id) == {"state": "ended"}
    assert drop_files(services, clock.now() + FILE_KEPT + MINUTE) == 1


def test_file_that_ends_its_workers_is_given_up(services: Services, alice: Actor, db: object) -> None:
    one = requested(services, alice, ARCHIVE)
    services.store.database["imports"].update_one({"_id": one.id}, {"$set": {"tries": 3}})
    assert services.archives.read_file(alice.user_id, one.id) == {"state": "unreadable"}


def test_run_that_died_while_it_stored_is_repeated(
    services: Services, alice: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = requested(services, alice, ARCHIVE)

    def die(*_: object, **__: object) -> None:
        raise StoreError

    for name in ("add_marks", "update"):
        with monkeypatch.context() as patch:
            whole = services.mappers.imports.update
            if name == "update":
                patch.setattr(
                    services.mappers.imports,
                    "update",
                    lambda *args, **more: whole(*args, **more) if more.get("begin") else die(),  # noqa: B023
                )
            else:
                patch.setattr(services.mappers.imports, name, die)
            with pytest.raises(StoreError):
                services.archives.read_file(alice.user_id, one.id)
    assert services.archives.read_file(alice.user_id, one.id) == {"state": "preview"}
    counts = document_count(services.store.database)
    assert (counts["import_parts"], counts["import_marks"]) == (1, 1)


def test_import_deleted_while_its_file_is_read_leaves_nothing(
    services: Services, alice: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = requested(services, alice, ARCHIVE)
    plan = services.gateways.imports.plan

    def remove_meanwhile(*args: object) -> object:
        services.imports.remove(alice, one.id)
        return plan(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(services.gateways.imports, "plan", remove_meanwhile)
    assert services.archives.read_file(alice.user_id, one.id) == {"state": "ended"}
    counts = document_count(services.store.database)
    assert (counts["imports"], counts["import_parts"], counts["import_marks"]) == (0, 0, 0)
    assert files(services, alice) == [(len(ARCHIVE), ())]


def test_emptied_redis_loses_no_file(services: Services, alice: Actor, redis_client: redis.Redis) -> None:
    registry.load_tasks()
    one = requested(services, alice, ARCHIVE)
    redis_client.flushall()
    services.later_runner.rebuild(clock.now())
    services.later_runner.run_due(clock.now())
    (job,) = support.desk(redis_client, services.settings).claim_jobs(9, {}, ())
    assert (job.task, job.queue, job.args) == (
        Task.READ_ARCHIVE,
        Queue.MEDIA,
        {"user_id": alice.user_id, "import_id": one.id},
    )
    assert make_read_job(job.args).args == job.args
    services.archives.read_file(alice.user_id, one.id)
    assert list(services.archives.find_pending(clock.now())) == []


def test_only_ones_own_files_are_read(services: Services, alice: Actor, bob: Actor) -> None:
    file_id = uploaded(services, bob, ARCHIVE)
    with pytest.raises(NotFoundError):
        services.archives.request_reading(alice, file_id)
    assert services.imports.list_recent(alice) == []
    with pytest.raises(ForbiddenError):
        services.archives.request_reading(Actor(bob.user_id, limits=frozenset()), file_id)


def test_requests_are_limited(services: Services, alice: Actor) -> None:
    file_id = uploaded(services, alice, ARCHIVE)
    services.archives._limit = 2
    for _ in range(2):
        services.archives.request_reading(alice, file_id)
    with pytest.raises(RateLimitedError):
        services.archives.request_reading(alice, file_id)
