"""``eventr media`` and the page Admin → Storage."""

from __future__ import annotations

import datetime as dt
import html
import json
import re
from typing import Any

import pytest
from click.testing import CliRunner

from app import cli, clock
from app.bootstrap.services import Services
from app.models.accounts.actor import Role
from app.models.jobs.jobs import State
from app.monitoring import health
from app.services.media.cleaning import make_clean_job
from tests.support.media import add_file, list_keys, make_content
from tests.support.reader import add_user
from tests.web.conftest import Visitor, app, visitor

__all__ = ["app", "visitor"]
ANN = 11


def run(services: Services, *words: str, code: int = 0) -> Any:
    settings = services.settings
    environment = {
        "EVENTR_HOME": str(settings.home),
        "EVENTR_MONGODB_URI": settings.mongodb_uri,
        "EVENTR_MONGODB_NAME": settings.mongodb_name,
        "EVENTR_REDIS_URL": settings.redis_url,
    }
    done = CliRunner().invoke(cli.cli, ["media", *words], env=environment)
    assert done.exit_code == code, done.output
    return json.loads(done.stdout) if code == 0 else done.output


def test_the_command_prints_cleans_and_checks(services: Services) -> None:
    add_file(services, ANN, make_content(1))
    add_file(services, ANN, make_content(2))
    assert run(services, "stats")["pictures"] == {"count": 2, "bytes": 54}
    services.store.database.blobs.update_one({"_id": make_content(1).id}, {"$set": {"n": 9}})
    services.store.database.usage.update_one({"_id": ANN}, {"$inc": {"finished": 7}})
    assert run(services, "check") == {"blobs": 2, "wrong": 1, "dangling": 0, "wrong_usage": 1}
    assert run(services, "check") == {"blobs": 2, "wrong": 0, "dangling": 0, "wrong_usage": 0}
    services.store.database.blobs.delete_one({"_id": make_content(2).id})
    found = run(services, "clean", "--disk")
    assert (found["shards"], found["files"], found["deleted"]) == (256, 4, 0)
    later = dt.datetime.now(dt.UTC) + dt.timedelta(days=2)
    with clock.set_source(lambda: later):
        assert run(services, "clean", "--disk")["deleted"] == 0, "a dry run"
        assert run(services, "clean", "--disk", "--apply")["deleted"] == 2
    with clock.set_source(lambda: later + dt.timedelta(days=20)):
        assert run(services, "clean")["files"] == 2
    assert len(list_keys(services)) == 2
    assert "--apply needs --disk" in run(services, "clean", "--apply", code=2)


@pytest.mark.parametrize("language", ["en", "ar", "de", "ru"])
def test_admins_see_sizes_stores_and_users(services: Services, visitor: Any, language: str) -> None:
    root = add_user(services, "root", Role.ADMIN)
    services.accounts.set_preferences(root, {"language": language})
    ann = add_user(services, "ann")
    add_file(services, ann.user_id, make_content(1))
    services.store.database.blobs.update_one({}, {"$set": {"lost": True}})
    services.media_cleaning.walk_stores(apply=False)
    one: Visitor = visitor()
    one.log_in("root")
    page = one.get("/admin/media")
    assert page.status_code == 200
    text = html.unescape(page.text)
    assert f'href="/admin/users/{ann.user_id}"' in text
    assert services.media_stores.names[0] in text
    if language == "en":
        assert "1 picture or file is in no store." in text
    assert one.post("/admin/media/clean").status_code == 303
    job = services.jobs.enqueue(make_clean_job())
    assert (job.fresh, services.jobs.get_status(job.id).state) == (False, State.QUEUED)


def test_admins_page_through_the_storage_of_all_users(services: Services, visitor: Any) -> None:
    """Many store the same: each is on one page, and those who only have unfinished uploads are, too."""
    add_user(services, "root", Role.ADMIN)
    sizes = [0, 5, 5, 5, *[7] * 48, 9]
    for number, size in enumerate(sizes):
        user = add_user(services, f"u{number}")
        row = {"finished": size, "reserved": 0 if size else 3, "unfinished": 0, "quota": None}
        services.store.database.usage.insert_one({"_id": user.user_id, **row})
    services.store.database.usage.insert_one({"_id": 1, "finished": 0, "reserved": 0, "unfinished": 0})
    one: Visitor = visitor()
    one.log_in("root")
    path, pages = "/admin/media", list[list[str]]()
    while path:
        text = one.get(path).text
        pages.append(re.findall(r'href="/admin/users/\d+" dir="auto">(u\d+)<', text))
        assert ("eventr media clean" in text or "/admin/media/clean" in text) == (len(pages) == 1)
        found = re.search(r'rel="next" href="([^"]+)"', text)
        path = html.unescape(found[1]) if found else ""
    assert list(map(len, pages)) == [50, 3]
    shown = [name for page in pages for name in page]
    assert len(set(shown)) == len(sizes)
    assert [sizes[int(name[1:])] for name in shown] == sorted(sizes, reverse=True)
    for wrong in ("x", "-", "9" * 40, "1-2-3"):
        assert one.get(f"/admin/media?after={wrong}").status_code == 200


def test_others_do_not_see_the_page(services: Services, visitor: Any) -> None:
    add_user(services, "root", Role.ADMIN)
    add_user(services, "ann")
    one: Visitor = visitor()
    one.log_in("ann")
    assert one.get("/admin/media").status_code == 404
    assert one.post("/admin/media/clean").status_code == 404


def test_doctor_names_what_is_lost_and_what_nobody_knows(services: Services) -> None:
    def check() -> list[str]:
        return [found.text for found in health.check_mongodb(services.settings) if found.check == "media"]

    add_file(services, ANN, make_content(1))
    services.media_cleaning.run()
    assert check() == []
    db = services.store.database
    db.media_cleaning.update_one({"_id": "disk"}, {"$set": {"last": [256, 9, 3, 30, 1, 0, 0, 0]}})
    db.blobs.update_one({}, {"$set": {"lost": True}})
    lost, strays = check()
    assert lost.startswith("1 pictures or files are in no media store.")
    assert strays.startswith("The media stores contain 2 old files")
