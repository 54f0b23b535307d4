"""Icons that administrators upload for feeds."""

from __future__ import annotations

import datetime as dt
import io
from typing import Any

import pytest
from werkzeug.datastructures import FileStorage
from werkzeug.test import TestResponse, encode_multipart

from app import clock
from app.bootstrap.services import Services
from app.errors import ForbiddenError
from app.models.accounts.actor import Actor
from app.models.accounts.user import Role
from app.models.media.icon import build_icon_path, name_owner
from app.models.media.user_file import SYSTEM, UserFile
from tests.media.farm import Worker, make_png
from tests.media.test_icons import app_of, feed, get_icon, look, server, site, subscribe, worker
from tests.support.rawserver import RawServer, Reply
from tests.support.reader import add_user, pull
from tests.web.conftest import ORIGIN, Visitor

__all__ = ["app_of", "server", "site", "worker"]

OTHER = make_png(50, 50, (10, 200, 30))


@pytest.fixture(autouse=True)
def no_wait(site: Services) -> None:
    """No worker runs meanwhile, so nobody waits for one."""
    site.picture_uploads.wait = 0.0


@pytest.fixture
def feed_id(site: Services, server: RawServer, worker: Worker) -> int:
    """A feed that two people read, one of them an administrator, with the icon of its site."""
    server.set("/icon.png", Reply(body=make_png()))
    (found,) = subscribe(site, server, body=feed(server, server.url("/icon.png")))
    look(site, worker)
    boss = add_user(site, "boss", Role.ADMIN)
    site.subscriptions.subscribe(boss, server.url("/0/feed"))
    assert get_icon(site, found) is not None
    return found


@pytest.fixture
def boss(site: Services, app_of: Any, feed_id: int) -> Visitor:
    return log_in(app_of(site), "boss")


def log_in(visitor: Visitor, name: str) -> Visitor:
    visitor.log_in(name)
    return visitor


def send(who: Visitor, feed_id: int, body: bytes, name: str = "icon.png") -> TestResponse:
    fields = {"csrf_token": who.token(), "file": FileStorage(io.BytesIO(body), name)}
    boundary, data = encode_multipart(fields)
    kind = f"multipart/form-data; boundary={boundary}"
    return who.client.post(f"/feeds/{feed_id}/icon/upload", data=data, headers=ORIGIN, content_type=kind)


def list_files(site: Services) -> list[UserFile]:
    return site.gateways.files.list_files(SYSTEM, 10)


def wait(days: float) -> Any:
    later = clock.now() + dt.timedelta(days=days)
    return clock.set_source(lambda: later)


def test_an_uploaded_icon_replaces_the_icon_of_the_site_for_everyone(
    site: Services, worker: Worker, boss: Visitor, feed_id: int, app_of: Any
) -> None:
    before = get_icon(site, feed_id)
    answer = send(boss, feed_id, OTHER)
    assert (answer.status_code, answer.headers["Location"]) == (303, f"/feeds/{feed_id}")
    assert worker.work() == ["media.draw_icon"]
    (file,) = list_files(site)
    assert file.owners == (name_owner(feed_id),)
    icon = get_icon(site, feed_id)
    assert icon == build_icon_path(file.blob) != before
    page = log_in(app_of(site), "ann").get(f"/feeds/{feed_id}").text
    assert f'src="{icon}"' in page
    assert "An administrator uploaded this icon" in page
    assert app_of(site).get(icon).data.startswith(b"\x89PNG")


def test_looks_for_icons_leave_an_uploaded_icon_alone(
    site: Services, server: RawServer, worker: Worker, boss: Visitor, feed_id: int
) -> None:
    send(boss, feed_id, OTHER)
    worker.work()
    icon, requests = get_icon(site, feed_id), len(server.seen("/icon.png"))
    # The feed states another icon, a reader wants another look, a week passes.
    server.set("/new.png", Reply(body=make_png(color=(1, 2, 3))))
    pull(site, [feed_id], {server.url("/0/feed"): feed(server, server.url("/new.png"))})
    assert boss.post(f"/feeds/{feed_id}/icon").status_code == 303
    with wait(8):
        assert look(site, worker) == []
    assert get_icon(site, feed_id) == icon
    assert len(server.seen("/icon.png")) == requests
    assert server.seen("/new.png") == []


def test_a_look_that_began_before_the_upload_does_not_end_it(
    site: Services, worker: Worker, boss: Visitor, feed_id: int
) -> None:
    with wait(8):
        claimed = site.gateways.icons.claim([feed_id], clock.now())
    send(boss, feed_id, OTHER)
    worker.work()
    icon = get_icon(site, feed_id)
    assert len(claimed) == 1
    site.gateways.icons.store_icons(claimed)
    assert get_icon(site, feed_id) == icon


def test_the_icon_of_the_site_comes_back(site: Services, worker: Worker, boss: Visitor, feed_id: int) -> None:
    before = get_icon(site, feed_id)
    send(boss, feed_id, OTHER)
    worker.work()
    assert "Use the icon of the site again" in boss.get(f"/feeds/{feed_id}").text
    assert boss.post(f"/feeds/{feed_id}/icon/remove").status_code == 303
    assert worker.work() == ["media.icons"]
    assert get_icon(site, feed_id) == before
    (file,) = list_files(site)
    assert (file.owners, file.loose is not None) == ((), True)
    assert "Use the icon of the site again" not in boss.get(f"/feeds/{feed_id}").text
    assert boss.post(f"/feeds/{feed_id}/icon/remove").status_code == 303
    assert worker.work() == []


def test_an_uploaded_icon_survives_the_cleaning_of_its_feeds_former_source(
    site: Services, worker: Worker, boss: Visitor, feed_id: int
) -> None:
    """The site's own picture may be the uploaded one, so both name one blob."""
    send(boss, feed_id, make_png())
    worker.work()
    icon = get_icon(site, feed_id)
    with wait(400):
        site.media_cleaning.run()
    assert get_icon(site, feed_id) == icon
    assert icon
    assert site.icons.read_icons([icon])


def test_a_second_upload_replaces_the_first(
    site: Services, worker: Worker, boss: Visitor, feed_id: int
) -> None:
    for body in (OTHER, make_png(40, 40, (9, 9, 9))):
        send(boss, feed_id, body)
        worker.work()
    new, old = sorted(list_files(site), key=lambda file: -file.id)
    assert (old.owners, new.owners) == ((), (name_owner(feed_id),))
    assert get_icon(site, feed_id) == build_icon_path(new.blob)


def test_only_administrators_who_read_the_feed_replace_its_icon(
    site: Services, worker: Worker, feed_id: int, app_of: Any
) -> None:
    ann, before = log_in(app_of(site), "ann"), get_icon(site, feed_id)
    assert "Upload icon" not in ann.get(f"/feeds/{feed_id}").text
    assert send(ann, feed_id, OTHER).status_code == 403
    assert ann.post(f"/feeds/{feed_id}/icon/remove").status_code == 403
    add_user(site, "root", Role.ADMIN)
    root = log_in(app_of(site), "root")
    assert send(root, feed_id, OTHER).status_code == 404
    assert root.post(f"/feeds/{feed_id}/icon/remove").status_code == 404
    with pytest.raises(ForbiddenError):
        site.feed_icons.upload(Actor(2, Role.USER), feed_id, io.BytesIO(OTHER))
    assert worker.work() == []
    assert get_icon(site, feed_id) == before


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        (b"", 400, "Choose a picture first."),
        (bytes((512 << 10) + (2 << 20)), 413, "512 KB"),
    ],
)
def test_files_that_are_no_icons_are_refused(
    boss: Visitor, feed_id: int, body: bytes, status: int, words: str
) -> None:
    answer = send(boss, feed_id, body, "icon.png" if body else "")
    assert (answer.status_code, words in answer.text) == (status, True)


def test_a_file_that_cannot_be_drawn_changes_nothing(
    site: Services, worker: Worker, boss: Visitor, feed_id: int
) -> None:
    before = get_icon(site, feed_id)
    send(boss, feed_id, b"<html>not a picture</html>")
    assert worker.work() == ["media.draw_icon"]
    assert get_icon(site, feed_id) == before
    assert list_files(site) == []


@pytest.mark.parametrize("has_own", [False, True])
def test_an_uploaded_icon_follows_the_readers_of_a_merged_feed(
    site: Services, server: RawServer, worker: Worker, boss: Visitor, feed_id: int, has_own: bool
) -> None:
    url = server.url("/new/feed")
    (who,) = (Actor(d["_id"]) for d in site.store.database["users"].find({"name": "boss"}))
    into = site.subscriptions.subscribe(who, url).subscription.feed_id
    pull(site, [into], {url: feed(server)})
    send(boss, feed_id, OTHER)
    if has_own:
        send(boss, into, make_png(40, 40, (9, 9, 9)))
    worker.work()
    theirs, own = get_icon(site, feed_id), get_icon(site, into)
    merger = site.gateways.feeds._merger
    source, target = (site.gateways.feeds.get(i) for i in (feed_id, into))
    merger.merge(source, target)
    assert get_icon(site, into) == (own if has_own else theirs)
    owners = sorted(owner for file in list_files(site) for owner in file.owners)
    assert owners == sorted(map(name_owner, (feed_id, into) if has_own else (into,)))


def test_entries_of_a_merged_feed_show_the_icon_of_the_feed_that_continues_it(
    site: Services, server: RawServer, worker: Worker, boss: Visitor, feed_id: int
) -> None:
    (who,) = (Actor(d["_id"]) for d in site.store.database["users"].find({"name": "boss"}))
    after = [site.subscriptions.subscribe(who, server.url(f"/{n}/feed")).subscription.feed_id for n in (2, 3)]
    for into in after:
        pull(site, [into], {server.url(f"/{2 + after.index(into)}/feed"): feed(server)})
    send(boss, feed_id, OTHER)
    worker.work()
    moved = get_icon(site, feed_id)
    merger = site.gateways.feeds._merger
    for source, target in ((feed_id, after[0]), (after[0], after[1])):
        merger.merge(site.gateways.feeds.get(source), site.gateways.feeds.get(target))
    cards = site.gateways.feeds.find_cards([feed_id, *after])
    assert moved is not None
    assert [card.icon for card in cards.values()] == [moved] * 3


def test_the_icon_of_a_deleted_feed_becomes_loose(
    site: Services, worker: Worker, boss: Visitor, feed_id: int
) -> None:
    send(boss, feed_id, OTHER)
    worker.work()
    for doc in list(site.store.database["users"].find({}, {"_id": 1})):
        actor = Actor(doc["_id"], Role.USER)
        if site.gateways.subscriptions.find_by_user(actor.user_id, [feed_id]):
            site.subscriptions.unsubscribe(actor, feed_id)
    orphans = site.gateways.orphans
    now = clock.now()
    for days in (3, 6, 9):
        later = now + dt.timedelta(days=days)
        orphans.delete_orphans(
            later - dt.timedelta(days=2), later, undone=later, limit=10, is_over=lambda: False
        )
    assert site.store.database["feeds"].find_one({"_id": feed_id}) is None
    (file,) = list_files(site)
    assert file.owners == ()
