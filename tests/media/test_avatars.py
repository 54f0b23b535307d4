"""Avatars: uploading, drawing, showing, replacing and removing them."""

from __future__ import annotations

import contextlib
import io
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
from werkzeug.datastructures import FileStorage
from werkzeug.test import TestResponse, encode_multipart

from app.bootstrap.services import Services
from app.config import Settings
from app.errors import NotFoundError, PictureError, PicturesUnsupportedError, StoreError
from app.models.accounts.actor import Actor
from app.models.jobs.jobs import Job, Queue, Task
from app.models.media.blob import Purpose
from app.models.sharing.sharing import Audience
from tests.jobs import support
from tests.media import pictures
from tests.sharing.conftest import People
from tests.sharing.visiting import Doors
from tests.support import corpus
from tests.support.manager import running
from tests.web.conftest import ORIGIN, Visitor
from workers.context import Context, Resources
from workers.tasks.media_drawing import draw_avatar
from workers.tasks.media_uploads import tend_uploads


@pytest.fixture(autouse=True)
def no_wait(services: Services) -> None:
    """No worker runs, so nobody waits for one."""
    services.picture_uploads.wait = 0.0


@pytest.fixture
def people(services: Services) -> People:
    return People(services)


@pytest.fixture
def doors(services: Services) -> Doors:
    return Doors(services)


def list_bodies(services: Services) -> list[str]:
    folder = services.settings.home / "media" / "in"
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


def run_jobs(services: Services, attempts: int = 0) -> list[Any]:
    """Draw what waits, as the worker does; return the error words."""
    user_ids = [doc["_id"] for doc in services.store.database["users"].find({}, {"_id": 1}).sort("_id", -1)]
    bodies = list_bodies(services)
    return [services.avatars.draw(user_ids[0], body, attempts)["error"] for body in bodies]


def set_avatar(services: Services, actor: Actor, picture: bytes | None = None) -> None:
    picture = picture or pictures.save(pictures.paint(300, 200), "JPEG")
    assert services.avatars.upload(actor, io.BytesIO(picture)) is False
    (body,) = list_bodies(services)
    assert services.avatars.draw(actor.user_id, body, 0) == {"error": None}


def get_version(services: Services, actor: Actor) -> str:
    user = services.gateways.accounts.find_user(actor.user_id)
    assert user is not None
    return user.avatar_version


def send(who: Visitor, body: bytes, name: str = "me.jpg") -> TestResponse:
    fields = {"csrf_token": who.token(), "file": FileStorage(io.BytesIO(body), name)}
    boundary, data = encode_multipart(fields)
    kind = f"multipart/form-data; boundary={boundary}"
    return who.client.post("/settings/avatar", data=data, headers=ORIGIN, content_type=kind)


def test_a_picture_that_was_uploaded_is_shown_to_everyone(
    services: Services, people: People, doors: Doors
) -> None:
    ann = people.join("ann")
    answer = send(doors(ann), pictures.save(pictures.paint(300, 200), "PNG"))
    assert (answer.status_code, answer.headers["Location"]) == (303, "/settings/sharing?drawing=1")
    assert doors(None).get("/a/ann/a96").status_code == 404
    assert run_jobs(services) == [None]
    assert list_bodies(services) == []

    page = doors(ann).get("/settings/sharing").text
    (path,) = set(re.findall(r'src="(/a/ann/a192\?v=[0-9a-f]{16})"', page))
    for size in ("a48", "a96", "a192"):
        shown = doors(None).get(path.replace("a192", size))
        assert shown.status_code == 200
        assert shown.content_type == "image/webp"
        assert pictures.read(shown.data).size == (int(size[1:]),) * 2
        assert shown.headers["Cache-Control"] == "public, max-age=31536000, immutable"
        assert "sandbox" in shown.headers["Content-Security-Policy"]
        assert shown.headers["Cross-Origin-Resource-Policy"] == "same-origin"
        assert "Set-Cookie" not in shown.headers
    again = doors(None).get(path, headers={"If-None-Match": doors(None).get(path).headers["ETag"]})
    assert (again.status_code, again.data) == (304, b"")


def test_an_address_without_the_current_version_is_not_kept_for_long(
    services: Services, people: People, doors: Doors
) -> None:
    set_avatar(services, people.join("ann"))
    for query in ("", "?v=", "?v=0123456789abcdef"):
        assert doors(None).get(f"/a/ann/a96{query}").headers["Cache-Control"] == "public, max-age=300"


@pytest.mark.parametrize(
    "path", ["/a/ann/a64", "/a/ann/w640", "/a/ann/original", "/a/nobody/a96", "/a/bob/a96"]
)
def test_other_addresses_lead_nowhere(services: Services, people: People, doors: Doors, path: str) -> None:
    set_avatar(services, people.join("ann"))
    people.join("bob")
    answer = doors(None).get(path)
    assert answer.status_code == 404
    assert b"nobody" not in answer.data


def test_a_new_picture_replaces_the_old_one_which_becomes_loose(services: Services, people: People) -> None:
    ann = people.join("ann")
    set_avatar(services, ann)
    first = get_version(services, ann)
    set_avatar(services, ann, pictures.save(pictures.paint(50, 80), "PNG"))
    assert get_version(services, ann) not in ("", first)
    old, new = sorted(services.gateways.files.list_files(ann.user_id, 10), key=lambda f: f.id)
    assert (old.owners, new.owners) == ((), (f"avatar:{ann.user_id}",))
    assert old.loose is not None
    assert new.loose is None


def test_a_removed_picture_is_gone_at_once(services: Services, people: People, doors: Doors) -> None:
    ann = people.join("ann")
    set_avatar(services, ann)
    assert doors(ann).post("/settings/avatar/remove").status_code == 303
    assert doors(None).get("/a/ann/a96").status_code == 404
    assert get_version(services, ann) == ""
    (file,) = services.gateways.files.list_files(ann.user_id, 10)
    assert file.owners == ()


def test_two_people_have_one_blob_and_the_end_of_one_leaves_the_other(
    services: Services, people: People, doors: Doors
) -> None:
    ann, bob = people.join("ann"), people.join("bob")
    picture = pictures.save(pictures.paint(90, 90), "PNG")
    set_avatar(services, ann, picture)
    set_avatar(services, bob, picture)
    (blob,) = services.store.database["blobs"].find()
    assert blob["n"] == 2
    services.avatars.remove(ann)
    assert doors(None).get("/a/bob/a96").status_code == 200


def test_the_same_picture_is_drawn_once(
    services: Services, people: People, monkeypatch: pytest.MonkeyPatch
) -> None:
    ann, bob = people.join("ann"), people.join("bob")
    drawn, draw = [], services.drawer.draw
    monkeypatch.setattr(services.drawer, "draw", lambda *args: (drawn.append(args), draw(*args))[1])
    picture = pictures.save(pictures.paint(90, 90), "PNG")
    for who in (ann, bob, ann):
        set_avatar(services, who, picture)
    assert len(drawn) == 1


def test_a_picture_whose_blob_is_being_deleted_is_drawn_again(services: Services, people: People) -> None:
    ann = people.join("ann")
    set_avatar(services, ann)
    services.store.database["blobs"].update_many({}, {"$set": {"n": -1}})
    set_avatar(services, ann)
    (blob,) = services.store.database["blobs"].find()
    assert blob["n"] == 1


@pytest.mark.parametrize(
    ("body", "word"),
    [
        (b"<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>", "not_a_picture"),
        (b"", "not_a_picture"),
        (pictures.png_bomb(10_000, 10_000), "too_many_pixels"),
        (pictures.save(pictures.paint(300, 200), "PNG")[:200], "broken_picture"),
    ],
    ids=["svg", "empty", "bomb", "cut off"],
)
def test_what_is_no_picture_changes_nothing(
    services: Services, people: People, body: bytes, word: str
) -> None:
    ann = people.join("ann")
    set_avatar(services, ann)
    before = get_version(services, ann)
    services.avatars.upload(ann, io.BytesIO(body))
    assert run_jobs(services) == [word]
    assert get_version(services, ann) == before
    assert list_bodies(services) == []


def test_a_picture_that_ended_two_workers_is_given_up(services: Services, people: People) -> None:
    ann = people.join("ann")
    services.avatars.upload(ann, io.BytesIO(pictures.save(pictures.paint(9, 9), "PNG")))
    assert run_jobs(services, attempts=2) == ["crashed"]
    assert list_bodies(services) == []


def test_a_second_run_of_the_job_changes_nothing(services: Services, people: People) -> None:
    ann = people.join("ann")
    services.avatars.upload(ann, io.BytesIO(pictures.save(pictures.paint(9, 9), "PNG")))
    (body,) = list_bodies(services)
    assert services.avatars.draw(ann.user_id, body, 0) == {"error": None}
    version = get_version(services, ann)
    assert services.avatars.draw(ann.user_id, body, 0) == {"error": "gone"}
    assert get_version(services, ann) == version
    assert len(services.gateways.files.list_files(ann.user_id, 10)) == 1


def test_an_account_that_was_just_deleted_gets_no_picture(services: Services, people: People) -> None:
    ann = people.join("ann")
    services.avatars.upload(ann, io.BytesIO(pictures.save(pictures.paint(9, 9), "PNG")))
    services.store.database["users"].delete_one({"_id": ann.user_id})
    (body,) = list_bodies(services)
    assert services.avatars.draw(ann.user_id, body, 0) == {"error": "not_found"}
    assert services.gateways.files.list_files(ann.user_id, 10) == []
    assert services.store.database["blobs"].count_documents({}) == 0


def test_a_file_that_was_uploaded_by_parts_is_adopted(services: Services, people: People) -> None:
    ann, bob = people.join("ann"), people.join("bob")
    file_id = keep_file(services, ann, Purpose.AVATAR)
    with pytest.raises(NotFoundError):
        services.avatars.adopt(bob, file_id)
    services.avatars.adopt(ann, file_id)
    assert get_version(services, ann)
    with pytest.raises(NotFoundError):
        services.avatars.adopt(ann, keep_file(services, ann, Purpose.PICTURE, "AVIF"))


def test_a_file_that_is_deleted_takes_the_avatar_with_it_or_stays(
    services: Services, people: People, doors: Doors, monkeypatch: pytest.MonkeyPatch
) -> None:
    ann = people.join("ann")
    set_avatar(services, ann)
    (file,) = services.files.list_files(ann)
    with monkeypatch.context() as patch:

        def killed(*args: object) -> bool:
            raise KeyboardInterrupt

        patch.setattr(services.mappers.users, "set_avatar", killed)
        with pytest.raises(KeyboardInterrupt):
            services.files.delete(ann, file.id)
    assert services.files.list_files(ann) == [file]
    set_avatar(services, ann, pictures.save(pictures.paint(50, 80), "PNG"))
    services.files.delete(ann, file.id)
    assert get_version(services, ann), "another file stands for her"
    (newer,) = services.files.list_files(ann)
    services.files.delete(ann, newer.id)
    assert not get_version(services, ann)
    assert doors(None).get("/a/ann/a96").status_code == 404
    assert services.files.list_files(ann) == []


def keep_file(services: Services, actor: Actor, purpose: Purpose, kind: str = "PNG") -> int:
    from app.gateways.media.drawing import read_body

    path = services.settings.home / "body"
    path.write_bytes(pictures.save(pictures.paint(60, 60), kind))
    body = read_body(path)
    file = services.drawing.keep(
        body,
        purpose,
        lambda session, blob: services.gateways.files.add(
            session, actor.user_id, blob, "x.png", body.size, purpose=purpose
        ),
    )
    return file.id


def test_avatars_are_shown_wherever_people_are(services: Services, people: People, doors: Doors) -> None:
    ann, bob = people.join("ann"), people.join("bob")
    (entry,) = people.blog([ann, bob])
    share = services.sharing.share(bob, entry, note="Look.").share
    services.following.follow(ann, "bob")
    services.discussion.comment(bob, share.id, "Indeed.")
    services.sharing.share(ann, share.id)
    set_avatar(services, bob)
    face = re.compile(r'<img class="(?:av person|face)" src="/a/bob/a\d+\?v=[0-9a-f]{16}" alt=""')
    for path in (
        *("/people", "/@bob", f"/@bob/{share.id}", f"/@bob/{share.id}/chain", f"/shares/{share.id}/comments"),
        *(f"/read/all?entry={share.id}", "/read/following"),
    ):
        assert face.search(doors(ann).get(path).text), path
    assert face.search(doors(bob).get("/settings/reading").text)


def find_tree_picture(page: str, feed_id: int) -> str:
    found = re.search(rf'<a href="/read/feed/{feed_id}"[^>]*>(<i|<img)[^>]*>', page)
    assert found, "the feed is in the tree"
    return found.group(0)


@pytest.mark.parametrize("first", ["picture", "stream"])
def test_the_stream_of_a_person_shows_their_picture_in_the_tree(
    services: Services, people: People, doors: Doors, first: str
) -> None:
    """The stream comes into being with the first share, before or after the picture."""
    ann, bob = people.join("ann"), people.join("bob")
    (entry,) = people.blog([ann, bob])
    if first == "picture":
        set_avatar(services, bob)
    services.sharing.share(bob, entry, note="Look.")
    services.following.follow(ann, "bob")
    feed_id = services.following.preview_profile(bob).feed_id
    if first == "stream":
        assert "<i" in find_tree_picture(doors(ann).get("/read/all").text, feed_id)
        set_avatar(services, bob)
    src = f'class="av person" src="/a/bob/a48?v={get_version(services, bob)}"'
    assert src in find_tree_picture(doors(ann).get("/read/all").text, feed_id)
    assert src in doors(ann).get("/subscriptions").text

    set_avatar(services, bob, pictures.save(pictures.paint(50, 80), "PNG"))
    again = f'src="/a/bob/a48?v={get_version(services, bob)}"'
    assert again not in src
    assert again in find_tree_picture(doors(ann).get("/read/all").text, feed_id)
    services.avatars.remove(bob)
    assert "<i" in find_tree_picture(doors(ann).get("/read/all").text, feed_id)


def test_suspended_and_closed_people_have_no_face(services: Services, people: People, doors: Doors) -> None:
    ann = people.join("ann")
    set_avatar(services, ann)
    services.following.update_profile(ann, audience=Audience.PRIVATE)
    assert doors(None).get("/a/ann/a96").status_code == 200, "it stands beside comments"
    services.gateways.profiles.set_suspended(ann.user_id, True)
    assert doors(None).get("/a/ann/a96").status_code == 404


def test_a_picture_may_be_no_larger_than_the_setting(
    services: Services, people: People, doors: Doors
) -> None:
    ann = people.join("ann")
    answer = send(doors(ann), bytes(services.settings.avatar_max + (128 << 10)))
    assert answer.status_code == 413
    assert "10 MB" in answer.text
    assert list_bodies(services) == []


def test_a_form_without_a_file_says_so(people: People, doors: Doors) -> None:
    answer = send(doors(people.join("ann")), b"", name="")
    assert answer.status_code == 400
    assert "Choose a picture first." in answer.text


def test_strangers_upload_nothing(services: Services, doors: Doors) -> None:
    assert send(doors(None), b"x").status_code in (302, 303, 401)
    assert list_bodies(services) == []


def test_without_the_package_letters_stand_for_people(
    services: Services, people: People, doors: Doors
) -> None:
    services.picture_uploads.is_supported = False
    ann = people.join("ann")
    page = doors(ann).get("/settings/sharing").text
    assert 'action="/settings/avatar"' not in page
    assert "pillow" in page
    with pytest.raises(PicturesUnsupportedError):
        services.avatars.upload(ann, io.BytesIO(b"x"))
    assert send(doors(ann), b"x").status_code == 503


def test_hostile_pictures_end_no_worker(services: Services, people: People) -> None:
    """All damaged and hostile pictures of the corpus go through real workers, and the last one is good."""
    ann = people.join("ann")
    rows = [r for r in corpus.rows("image") if r.path.startswith(("images/broken", "images/hostile"))]
    bodies = [row.read() for row in rows] + [pictures.save(pictures.paint(30, 30), "PNG")]
    jobs = []
    for number, body in enumerate(bodies):
        services.picture_bodies.put(f"{number:032x}", io.BytesIO(body))
        jobs.append(Job(Task.DRAW_AVATAR, {"user_id": ann.user_id, "body": f"{number:032x}"}, Queue.MEDIA))
    with running(services.settings, MEDIA):
        tickets = services.jobs.enqueue_many(jobs)
        outcomes = {outcome.id: outcome for outcome in services.jobs.await_many(tickets, 120)}
    assert len(outcomes) == len(jobs)
    words = [outcomes[ticket.id].error or outcomes[ticket.id].value["error"] for ticket in tickets]
    assert set(words) <= {None, "not_a_picture", "broken_picture", "too_many_pixels"}
    assert words[-1] is None
    assert list_bodies(services) == []


MEDIA = """
[media]
queues = ["media", "media-sys"]
mode = "solo"
workers = 1
slots = 4
memory = 335544320
"""


def test_the_page_says_why_a_picture_is_refused(
    services: Services, people: People, doors: Doors, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_args: object) -> Iterator[Any]:
        raise PictureError("too_many_pixels")

    monkeypatch.setattr(services.avatars, "upload", refuse)
    answer = send(doors(people.join("ann")), b"x")
    assert answer.status_code == 422
    assert "too many pixels" in answer.text


def test_a_program_gets_the_address(services: Services, people: People, doors: Doors) -> None:
    ann = people.join("ann")
    services.following.get_or_create_profile(ann)
    set_avatar(services, ann)
    version = get_version(services, ann)
    person = services.following.get_person(ann, "ann").profile
    assert person.avatar == version


def test_deleting_the_file_of_an_avatar_removes_the_avatar(
    services: Services, people: People, doors: Doors
) -> None:
    ann = people.join("ann")
    set_avatar(services, ann)
    (file,) = services.gateways.files.list_files(ann.user_id, 10)
    services.files.delete(ann, file.id)
    assert get_version(services, ann) == ""
    assert doors(None).get("/a/ann/a96").status_code == 404


def test_bodies_that_nobody_draws_are_deleted_after_a_day(services: Services) -> None:
    for name in ("0" * 32, "1" * 32):
        services.picture_bodies.put(name, io.BytesIO(b"x"))
    os.utime(services.picture_bodies.get_path("0" * 32), (1, 1))
    assert services.picture_bodies.delete_old(86400) == 1
    assert list_bodies(services) == ["1" * 32]


@pytest.mark.parametrize(
    "name", ["", "../x", "x", "0" * 31, "0" * 33, "A" * 32, "0" * 31 + "\n", "/etc/passwd"]
)
def test_U01_bodies_have_names_of_ours(services: Services, name: str) -> None:
    for act in (
        lambda: services.picture_bodies.put(name, io.BytesIO(b"x")),
        lambda: services.picture_bodies.get_path(name),
    ):
        with pytest.raises(NotFoundError):
            act()


def test_U01_a_link_in_the_folder_is_not_followed(services: Services, tmp_path: Path) -> None:
    target, link = tmp_path / "target", services.picture_bodies.get_path("0" * 32).with_suffix(".part")
    target.write_bytes(b"precious")
    link.parent.mkdir(parents=True)
    link.symlink_to(target)
    with pytest.raises(StoreError):
        services.picture_bodies.put("0" * 32, io.BytesIO(b"x"))
    assert target.read_bytes() == b"precious"


def test_maintenance_deletes_bodies_that_nobody_draws(
    services: Services, redis_client: redis.Redis, settings: Settings
) -> None:
    """Of a job that was lost with Redis, the raw picture with its EXIF is left, and unfinished writes."""
    for name in ("0" * 32, "1" * 32):
        services.picture_bodies.put(name, io.BytesIO(b"x"))
    part = services.picture_bodies.get_path("2" * 32).with_suffix(".part")
    part.write_bytes(b"x")
    for path in (services.picture_bodies.get_path("0" * 32), part):
        os.utime(path, (1, 1))
    services.jobs.enqueue(Job(Task.TEND_UPLOADS, {}, Queue.MAINTENANCE))
    (job,) = support.desk(redis_client, settings).claim_jobs(1, {}, ())
    with contextlib.closing(Resources(services.settings)) as resources:
        tend_uploads(Context(job, services.settings, 60, resources, lambda _: None))
    assert list_bodies(services) == ["1" * 32]


def queue_again(services: Services, after: float = 150.0) -> int:
    """Let time pass for what waits, and queue the jobs that were lost; return how many there are."""
    for name in list_bodies(services):
        path = services.picture_bodies.get_path(name)
        os.utime(path, (path.stat().st_mtime - after,) * 2)
    return services.upload_upkeep.run(60.0, lambda: False)["pictures"]


def test_an_avatar_whose_job_was_lost_with_redis_is_drawn_after_all(
    services: Services, people: People, redis_client: redis.Redis
) -> None:
    ann = people.join("ann")
    services.avatars.upload(ann, io.BytesIO(pictures.save(pictures.paint(30, 20), "PNG")))
    assert queue_again(services, after=0.0) == 0, "its job may be running"
    redis_client.flushdb()
    assert queue_again(services) == 1
    assert queue_again(services) == 1
    (job,) = support.desk(redis_client, services.settings).claim_jobs(9, {}, ())
    assert (job.task, job.queue) == (Task.DRAW_AVATAR, Queue.MEDIA)
    with contextlib.closing(Resources(services.settings)) as resources:
        context = Context(job, services.settings, 60, resources, lambda _: None)
        assert draw_avatar(context, **job.args) == {"error": None}
    assert get_version(services, ann)
    assert queue_again(services) == 0


def test_a_job_that_is_queued_is_not_queued_again(
    services: Services, people: People, redis_client: redis.Redis
) -> None:
    services.avatars.upload(people.join("ann"), io.BytesIO(b"x"))
    assert queue_again(services) == 1
    assert redis_client.llen("rq:queue:media") == 1


def test_a_second_picture_replaces_the_first_that_still_waits(services: Services, people: People) -> None:
    ann, bob = people.join("ann"), people.join("bob")
    services.avatars.upload(bob, io.BytesIO(b"bob's"))
    (of_bob,) = list_bodies(services)
    services.avatars.upload(ann, io.BytesIO(b"first"))
    (first,) = set(list_bodies(services)) - {of_bob}
    services.avatars.upload(ann, io.BytesIO(pictures.save(pictures.paint(30, 20), "PNG")))
    (second,) = set(list_bodies(services)) - {of_bob}
    assert first != second
    assert services.avatars.draw(ann.user_id, first, 0) == {"error": "gone"}
    assert services.avatars.draw(ann.user_id, second, 0) == {"error": None}
    assert list_bodies(services) == [of_bob]


def test_a_newer_body_is_never_deleted_for_an_older_one(services: Services) -> None:
    """Two requests at once: whatever their order, the later picture stays."""
    names = [f"avatar-7-{digit * 32}" for digit in "ab"]
    for name, stamp in zip(names, (1, 2), strict=True):
        services.picture_bodies.put(name, io.BytesIO(b"x"))
        os.utime(services.picture_bodies.get_path(name), (stamp, stamp))
    services.picture_bodies.delete_older(names[0])
    assert list_bodies(services) == names
    services.picture_bodies.delete_older(names[1])
    assert list_bodies(services) == names[1:]


@pytest.mark.parametrize("way", ["remove", "adopt"])
def test_a_picture_that_waits_does_not_come_after_a_later_choice(
    services: Services, people: People, way: str
) -> None:
    ann = people.join("ann")
    set_avatar(services, ann)
    before = get_version(services, ann)
    (file,) = services.gateways.files.list_files(ann.user_id, 10)
    services.avatars.upload(ann, io.BytesIO(pictures.save(pictures.paint(30, 20), "PNG")))
    if way == "remove":
        services.avatars.remove(ann)
    else:
        services.avatars.adopt(ann, file.id)
    assert list_bodies(services) == []
    assert queue_again(services) == 0
    assert get_version(services, ann) == ("" if way == "remove" else before)
