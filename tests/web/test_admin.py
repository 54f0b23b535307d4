"""The screens of administrators: what they show, what they do, and who may; W11, W20, W23."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime as dt
import html
import json
import logging
import re
from collections.abc import Callable
from html import unescape
from pathlib import Path
from typing import Any

import pytest
import redis
from bs4 import BeautifulSoup

from app import clock, create_app
from app.bootstrap.services import Services, build
from app.models.accounts.actor import Actor, Role
from app.models.feeds.feed import FetchRecord
from app.models.jobs import redis_keys
from app.models.operations.settings_view import list_settings
from tests.support import demo, operations
from tests.support.conflicts import cause_conflict
from tests.support.fetches import record_fetches
from tests.support.reader import PASSWORD, add_user
from tests.web.conftest import Visitor

Make = Callable[[], Visitor]
LANGUAGES = ("en", "ar", "de", "ru")


@pytest.fixture
def root(services: Services, visitor: Make) -> Visitor:
    """A browser in which the admin root is logged in."""
    add_user(services, "root", Role.ADMIN)
    one = visitor()
    one.log_in("root")
    return one


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_screen_shows_an_engine_at_work(services: Services, visitor: Make, language: str) -> None:
    with clock.set_source(lambda: demo.NOW):
        filled = demo.fill(services)
        services.accounts.set_preferences(filled.ann, {"language": language})
        one = visitor()
        one.log_in("ann")
        for path in (
            *(
                "/admin",
                "/admin/figures",
                "/admin/feeds",
                "/admin/users",
                "/admin/jobs",
                "/admin/media",
                "/admin/settings",
            ),
            *(f"/admin/users/{filled.bob}", f"/admin/jobs/{filled.dead}", "/admin/feeds?sort=slowest"),
        ):
            assert one.get(path).status_code == 200, path


def test_admins_alone_are_shown_the_way(root: Visitor, ann: Visitor) -> None:
    for path in ("/read/all", "/settings", "/subscriptions"):
        assert 'href="/admin"' in root.get(path).text
        assert 'href="/admin"' not in ann.get(path).text


def test_without_an_engine_the_screens_say_so(root: Visitor) -> None:
    page = root.get("/admin").text
    for words in ("No queue manager is running", "No updater is running", "No controller is running"):
        assert words in page
    assert "No data yet." in page
    assert "No queue manager is running" in root.get("/admin/jobs").text
    assert "No feeds yet." in root.get("/admin/feeds").text


def test_while_redis_is_away_the_screens_say_so(services: Services, tmp_path: Path) -> None:
    add_user(services, "root", Role.ADMIN)
    away = dataclasses.replace(services.settings, redis_url=f"unix://{tmp_path}/none.sock")
    with contextlib.closing(build(away)) as lost:
        one = Visitor(create_app(away, lost).test_client())
        one.log_in("root")
        assert "Redis isn't responding" in html.unescape(one.get("/admin").text)
        assert one.get("/admin/figures").status_code == 503
        jobs = one.get("/admin/jobs")
        assert jobs.status_code == 503
        assert "The database isn't responding." in html.unescape(jobs.text)
        assert one.get("/admin/feeds").status_code == 200
        assert "Redis isn't responding (" in html.unescape(one.get("/admin/settings").text)


def test_what_changes_is_a_part_of_the_page(root: Visitor) -> None:
    part = root.get("/admin", headers={"HX-Request": "true", "HX-Target": "div#now"}).text
    assert "<html" not in part
    assert 'id="queues"' in part


def test_the_charts_get_one_array_per_line(services: Services, root: Visitor) -> None:
    with redis.Redis.from_url(services.settings.redis_url) as client:
        minute = int(clock.now().timestamp()) // 60 - 3
        client.hset(
            redis_keys.make_minutes_key(minute // 60),
            mapping={f"{minute % 60:02}:{what}": n for what, n in (("feeds", 120), ("not_modified", 90))},
        )
    found = root.get("/admin/figures").get_json()["minutes"]
    assert {len(line) for line in found.values()} <= {59, 60}
    at = found["t"].index(minute * 60)
    assert (found["rate"][at], found["share"][at], found["share"][at - 1]) == (2.0, 75, None)


# -- feeds
def _feed(services: Services, url: str = "https://one.example/feed?token=geheim123&page=2") -> int:
    return services.subscriptions.subscribe(add_user(services, "eve"), url).subscription.feed_id


def test_feeds_are_listed_by_what_is_wrong_with_them(services: Services, root: Visitor, db: Any) -> None:
    feed_id = _feed(services)
    shown = {
        name: "one.example" in root.get(f"/admin/feeds?{name}").text
        for name in ("show=never", "show=errors", "q=ONE.ex", "q=two", "sort=subscribers", "show=dead")
    }
    assert [name for name, there in shown.items() if there] == ["show=never", "q=ONE.ex", "sort=subscribers"]
    assert "one.example" in root.get(f"/admin/feeds?q={feed_id}").text
    db.feeds.update_one({"_id": feed_id}, {"$set": {"title": "Der (kleine) Garten"}})
    for words, is_found in (("KLEINE) g", True), ("kleine. g", False)):
        assert ("one.example" in root.get("/admin/feeds", query_string={"q": words}).text) is is_found
    assert root.get(f"/admin/feeds?q={'9' * 40}").status_code == 200
    db.feeds.update_one({"_id": feed_id}, {"$set": {"error": "gone", "errors": 3, "next_check_at": None}})
    page = root.get("/admin/feeds?show=dead&word=gone").text
    assert "one.example" in page
    assert 'gone <b class="num">1</b>' in page
    assert "one.example" not in root.get("/admin/feeds?show=errors&word=timeout").text


def test_feeds_are_sorted_within_their_filter_and_the_order_is_named(
    services: Services, root: Visitor, db: Any
) -> None:
    eve = add_user(services, "eve")
    ids = [
        services.subscriptions.subscribe(eve, f"https://n{n}.example/feed").subscription.feed_id
        for n in range(3)
    ]
    db.feeds.update_one({"_id": ids[0]}, {"$set": {"subscribers": 9}})
    for n, ms in ((0, 6000), (1, 9000), (2, 100)):
        record_fetches(services, [FetchRecord(ids[n], clock.now(), 200, ms, 100)])
    db.feeds.update_many({"_id": {"$in": ids[:2]}}, {"$set": {"paused": True}})

    def list_names(query: str) -> list[str]:
        page = BeautifulSoup(root.get(f"/admin/feeds?{query}").text, "lxml")
        (chosen,) = page.select(".order [aria-current]")
        summary = page.select_one(".order summary")
        assert summary
        assert chosen.text in summary.text
        return [link.text.removesuffix(".example") for link in page.select(".feed-lines .name a")]

    assert list_names("") == ["n2", "n1", "n0"]
    assert list_names("sort=subscribers") == ["n0", "n2", "n1"]
    assert list_names("sort=slowest") == ["n1", "n0"], "the other one isn't slow"
    assert list_names("show=paused&sort=subscribers") == ["n0", "n1"]
    assert list_names("show=paused&sort=slowest&q=n0") == ["n0"]
    page = BeautifulSoup(root.get("/admin/feeds?show=paused&sort=slowest&q=n0").text, "lxml")
    for link in page.select(".facet, .order a"):
        assert "q=n0" in str(link["href"])
    assert all("sort=slowest" in str(link["href"]) for link in page.select(".facet"))
    assert all("show=paused" in str(link["href"]) for link in page.select(".order a"))
    assert page.select_one("form.filters [name=sort]")


def test_a_feed_has_a_page_with_its_fetches_and_without_its_keys(
    services: Services, root: Visitor, db: Any
) -> None:
    feed_id = _feed(services)
    db.feeds.update_one({"_id": feed_id}, {"$set": {"site_url": "https://one.example/blog", "paused": True}})
    record_fetches(services, [FetchRecord(feed_id, clock.now(), 503, 340, 0, 0, "http_503")])
    listed = BeautifulSoup(root.get("/admin/feeds").text, "lxml").select_one(".feed-lines tbody tr")
    assert listed
    name, site = listed.select_one(".name a"), listed.select_one(".menu-box > a")
    assert name
    assert site
    assert name["href"] == f"/admin/feeds/{feed_id}"
    assert (site.text, site["href"]) == ("one.example", "https://one.example/blog")
    page = root.get(f"/admin/feeds/{feed_id}").text
    assert "geheim123" not in page
    facts = _read_facts(page)
    assert facts["Address"] == "https://one.example/feed?token=…&page=2"
    assert facts["Site"] == "https://one.example/blog"
    assert facts["Next check"] == "not scheduled"
    assert 'href="https://one.example/feed' not in page, "the address isn't whole"
    assert "503" in page
    done = root.post(f"/admin/feeds/{feed_id}/resume", {"next": f"/admin/feeds/{feed_id}"})
    assert done.location == f"/admin/feeds/{feed_id}"
    db.feeds.update_one({"_id": feed_id}, {"$set": {"site_url": "https://one.example/?token=geheim123"}})
    assert "geheim123" not in root.get(f"/admin/feeds/{feed_id}").text + root.get("/admin/feeds").text
    assert root.get("/admin/feeds/99").status_code == 404


def test_feeds_are_paged_by_key(services: Services, root: Visitor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.services.operations.feed_lists.PAGE", 2)
    eve = add_user(services, "eve")
    for number in range(5):
        services.subscriptions.subscribe(eve, f"https://n{number}.example/feed")
    for sort in ("newest", "subscribers"):
        seen, address = [], f"/admin/feeds?sort={sort}"
        while address:
            page = root.get(address).text
            seen += re.findall(r"https://(n\d)\.example/feed</span>", page)
            more = re.search(r'href="([^"]*after=[^"]*)"', page)
            address = html.unescape(more[1]) if more else ""
            assert len(seen) <= 5, address
        assert seen == ["n4", "n3", "n2", "n1", "n0"], sort
    assert root.get("/admin/feeds?after=x.y").status_code == 400


def test_W22_keys_in_addresses_are_neither_shown_nor_searched(services: Services, root: Visitor) -> None:
    _feed(services)
    page = root.get("/admin/feeds").text
    assert "https://one.example/feed?token=…&amp;page=2" in page
    assert "geheim123" not in page
    assert "one.example" not in root.get("/admin/feeds?q=geheim").text


def test_a_feed_is_checked_paused_resumed_and_forgiven(
    services: Services, root: Visitor, db: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    feed_id = _feed(services)
    queued = services.engine.load_engine().queues[1].length

    def act(what: str) -> None:
        assert root.post(f"/admin/feeds/{feed_id}/{what}", {"next": "/admin/feeds?q=one"}).status_code == 303

    act("pause")
    later = clock.now().replace(year=2088)
    assert services.gateways.feeds.find_due(later, 9) == []
    assert "Resume</button>" in root.get("/admin/feeds?show=paused").text
    act("resume")
    assert [feed.id for feed in services.gateways.feeds.find_due(later, 9)] == [feed_id]
    db.feeds.update_one({"_id": feed_id}, {"$set": {"error": "gone", "errors": 3, "next_check_at": None}})
    act("clear")
    feed = services.gateways.feeds.get(feed_id)
    assert (feed.error, feed.errors) == (None, 0)
    assert feed.next_check_at is not None
    act("check")
    assert services.engine.load_engine().queues[1].length >= queued
    assert _events(caplog, "feed_") == ["feed_paused", "feed_resumed", "feed_cleared", "feed_checked"]
    assert root.post("/admin/feeds/99/pause").status_code == 404


def _events(caplog: pytest.LogCaptureFixture, start: str) -> list[str]:
    return [r.message for r in caplog.records if r.message.startswith(start) and "by" in vars(r)["fields"]]


# -- jobs
def test_W20_queues_are_switched_and_that_is_on_record(
    services: Services, root: Visitor, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)

    def state() -> tuple[bool, bool]:
        queue = services.engine.load_engine().queues[1]
        return queue.paused, queue.draining

    for act, after in (("pause", (True, False)), ("drain", (True, True)), ("resume", (False, False))):
        assert root.post(f"/admin/jobs/queues/{act}", {"queue": "feed-pull"}).status_code == 303
        assert state() == after
    assert _events(caplog, "queue_") == ["queue_paused", "queue_drained", "queue_resumed"]
    assert root.post("/admin/jobs/queues/pause", {"queue": "x"}).status_code == 400


def test_dead_tasks_are_seen_tried_again_and_forgotten(
    services: Services, root: Visitor, redis_client: redis.Redis, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    first, second, third = (operations.fail(services, redis_client, n) for n in (1, 2, 3))
    page = root.get("/admin/jobs").text
    assert all(job in page for job in (first, second, third))
    assert "× 3" in page
    detail = root.get(f"/admin/jobs/{first}").text
    assert _read_facts(detail)["key"] == "1"
    assert "BadJobError" in detail
    assert "The job returned an unexpected result." in detail
    assert root.get("/admin/jobs/nothing").status_code == 404
    assert root.post("/admin/jobs/dead/retry", {"job": first}).status_code == 303
    assert services.engine.load_engine().dead == 2
    assert services.jobs.get_status(first).state == "queued"
    assert root.post("/admin/jobs/dead/drop", {"job": second}).status_code == 303
    assert services.jobs.get_status(second).state == "missing"
    kind = {"task": "selftest.echo", "error": "bad_result"}
    assert root.post("/admin/jobs/dead/drop", kind).status_code == 400, "all of a kind must be meant"
    assert root.post("/admin/jobs/dead/drop", {**kind, "error": "other", "sure": "1"}).status_code == 303
    assert services.engine.load_engine().dead == 1
    assert root.post("/admin/jobs/dead/retry", {**kind, "sure": "1"}).status_code == 303
    assert services.engine.load_engine().dead == 0
    assert _events(caplog, "dead_") == ["dead_retried", "dead_dropped", "dead_dropped", "dead_retried"]


def test_delayed_tasks_that_can_not_be_queued_are_seen_run_again_and_deleted(
    services: Services, root: Visitor, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    assert "Delayed tasks" not in root.get("/admin/jobs").text
    for key in ("17", "a private text"):
        services.later.touch("test.gone", key, {"user_id": 17}, delay=0, limit=0)
    services.later_runner.run_due(clock.now())
    page = root.get("/admin/jobs").text
    assert page.count("unknown_kind") == 2
    assert ">17<" in page
    assert "private" not in page
    first, second = re.findall(r'delayed/run".*?name="letter" value="(\w+)"', page, re.DOTALL)
    assert root.post("/admin/jobs/delayed/run", {"letter": first}).status_code == 303
    assert len(services.mappers.dead_letters.find_newest(9)) == 1
    services.later_runner.run_due(clock.now())  # the kind is unknown still
    assert len(services.mappers.dead_letters.find_newest(9)) == 2
    assert root.post("/admin/jobs/delayed/drop", {"letter": second}).status_code == 303
    assert root.post("/admin/jobs/delayed/drop", {"letter": second}).status_code == 303
    assert root.post("/admin/jobs/delayed/run", {"letter": second}).status_code == 404
    assert len(services.mappers.dead_letters.find_newest(9)) == 1
    assert _events(caplog, "later_") == ["later_requested", "later_dropped"]


@pytest.mark.parametrize("broken", ["not JSON", "[1]", "[" * 100_000, 17, {"user_id": 17}, b"\xff"])
def test_delayed_task_with_broken_arguments_is_listed_and_can_only_be_deleted(
    services: Services, root: Visitor, broken: object
) -> None:
    for key in ("17", "18"):
        services.later.touch("test.gone", key, {"user_id": 17}, delay=0, limit=0)
    services.later_runner.run_due(clock.now())
    letters = services.store.database["later_dead"]
    letters.update_one({"key": "18"}, {"$set": {"args": broken}})
    page = root.get("/admin/jobs").text
    assert ">17<" in page
    assert ">18<" in page
    assert page.count("delayed/run") == unescape(page).count("so it can't run again") == 1
    (bad,) = [letter.id for letter in services.mappers.dead_letters.find_newest(9) if letter.key == "18"]
    assert root.post("/admin/jobs/delayed/run", {"letter": bad}).status_code == 404
    assert root.post("/admin/jobs/delayed/drop", {"letter": bad}).status_code == 303
    assert letters.count_documents({}) == 1


def test_dead_tasks_are_paged_newest_first(services: Services, redis_client: redis.Redis) -> None:
    ids = [operations.fail(services, redis_client, n) for n in range(5)]
    for job_id in ids[1:4]:  # three ended in the same moment
        redis_client.zadd(redis_keys.DEAD, {job_id: 1_700_000_000})
    found, cursor = [], None
    while True:
        page = services.engine.list_dead(None, cursor, 2)
        found += [job.id for job in page.jobs]
        if (cursor := page.next) is None:
            break
    assert sorted(found) == sorted(ids)
    assert found[2:] == sorted(ids[1:4], reverse=True)


def test_J06_texts_among_arguments_are_not_shown(services: Services, root: Visitor) -> None:
    from app.models.jobs.jobs import Job, Queue, Task

    args = {"key": "https://one.example/?token=geheim", "feed_ids": list(range(1, 15)), "hour": 3}
    ticket = services.jobs.enqueue(Job(Task.DISCOVER, args, Queue.DISCOVERY))
    page = root.get(f"/admin/jobs/{ticket.id}").text
    assert "geheim" not in page
    facts = _read_facts(page)
    assert facts["key"] == "…"
    assert facts["Feeds"] == "1, 2, 3 … (14)", "feeds that are gone keep their numbers"
    assert facts["hour"] == "3"


def _read_facts(page: str) -> dict[str, str]:
    terms = BeautifulSoup(page, "lxml").select(".facts dt")
    return {term.text: " ".join(term.find_next("dd").text.split()) for term in terms}  # type: ignore[union-attr]


def test_a_job_names_its_feeds_and_people_and_links_to_their_pages(
    services: Services, root: Visitor, db: Any
) -> None:
    from app.models.jobs.jobs import Job, Queue, Task

    feed_id = _feed(services)
    eve = db.users.find_one({"name": "eve"})["_id"]
    db.feeds.update_one({"_id": feed_id}, {"$set": {"title": "The <First>"}})
    pulled = services.jobs.enqueue(Job(Task.PULL, {"feed_ids": [feed_id]}, Queue.PULL))
    page = root.get(f"/admin/jobs/{pulled.id}").text
    assert _read_facts(page)["Feed"] == "The <First>"
    link = BeautifulSoup(page, "lxml").select_one(f".facts a[href='/admin/feeds/{feed_id}']")
    assert link
    assert link["title"] == str(feed_id)
    args = {"user_id": eve, "import_id": 17}
    queued = services.jobs.enqueue(Job(Task.PULL_IMPORT, args, Queue.IMPORT))
    page = root.get(f"/admin/jobs/{queued.id}").text
    facts = _read_facts(page)
    assert (facts["User"], facts["Import"]) == ("eve", "17")
    assert BeautifulSoup(page, "lxml").select_one(f".facts a[href='/admin/users/{eve}']")


# -- users
def test_users_are_found_by_name_and_address_and_paged(
    services: Services, root: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.services.accounts.admin_accounts.PAGE", 2)
    for name in ("Zoe", "anna", "Bert"):
        add_user(services, name)
    seen, address = [], "/admin/users"
    while address:
        page = root.get(address).text
        seen += re.findall(r'/admin/users/\d+" dir="auto">(\w+)<', page)
        more = re.search(r'href="([^"]*after=[^"]*)"', page)
        address = html.unescape(more[1]) if more else ""
    assert seen == ["anna", "Bert", "root", "Zoe"]
    assert "Zoe" in root.get("/admin/users?q=zoe@EXAMPLE").text
    assert "No users found." in root.get("/admin/users?q=.*").text


def test_W20_roles_sessions_and_accounts_change_and_that_is_on_record(
    services: Services, root: Visitor, visitor: Make, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    bob = add_user(services, "bob").user_id
    one = visitor()
    one.log_in("bob")
    where = f"/admin/users/{bob}"
    assert root.post(f"{where}/admin").status_code == 303
    assert one.get("/admin").status_code == 200
    assert root.post(f"{where}/user").status_code == 303
    assert one.get("/admin").status_code == 404
    assert root.post(f"{where}/sessions").status_code == 303
    assert one.get("/read/all").status_code == 303, "he is logged out"
    assert root.post(f"{where}/disable").status_code == 303
    assert one.log_in("bob").status_code == 401
    assert root.post(f"{where}/enable").status_code == 303
    assert one.log_in("bob").status_code == 303
    words = ["role_changed", "role_changed", "sessions_ended", "user_disabled", "user_enabled"]
    assert [r.message for r in caplog.records if r.message in words] == words


def test_the_last_admin_cannot_be_lost_also_not_by_two_at_once(services: Services) -> None:
    from concurrent.futures import ThreadPoolExecutor

    from app.errors import ConflictError

    ids = [add_user(services, name, Role.ADMIN).user_id for name in ("one", "two", "three")]

    def demote(user_id: int) -> bool:
        try:
            services.gateways.admin_accounts.set_role(user_id, Role.USER)
        except ConflictError:
            return False
        return True

    with ThreadPoolExecutor(3) as pool:
        assert sorted(pool.map(demote, ids)) == [False, True, True]
    (left,) = [i for i in ids if services.gateways.admin_accounts.get_account(i).user.role is Role.ADMIN]
    with pytest.raises(ConflictError):
        services.gateways.admin_accounts.set_disabled(left, True)


def test_nobody_changes_his_own_account_here(services: Services, root: Visitor) -> None:
    me = services.mappers.users.find_credentials("root")
    assert me is not None
    for act in ("user", "disable", "link"):
        assert root.post(f"/admin/users/{me.user.id}/{act}").status_code == 400
    assert "This is your own account" in root.get(f"/admin/users/{me.user.id}").text


def test_W11_after_ten_minutes_the_password_is_asked_for(services: Services, root: Visitor, db: Any) -> None:
    bob = add_user(services, "bob").user_id
    before = clock.now() - dt.timedelta(seconds=services.settings.proof_ttl + 1)
    db.sessions.update_many({}, {"$set": {"created": before}})
    where = f"/admin/users/{bob}"
    assert 'name="proof"' in root.get(where).text
    for proof, status in (("", 400), ("wrong", 400), (PASSWORD, 303)):
        assert root.post(f"{where}/admin", {"proof": proof}).status_code == status
    assert 'name="proof"' not in root.get(where).text, "for some minutes once is enough"
    assert root.post(f"{where}/user").status_code == 303


def test_W11_guessing_the_password_is_limited(services: Services, root: Visitor, db: Any) -> None:
    bob = add_user(services, "bob").user_id
    db.sessions.update_many({}, {"$set": {"proved": clock.now().replace(year=2000)}})
    codes = [root.post(f"/admin/users/{bob}/admin", {"proof": f"wrong {n}"}).status_code for n in range(7)]
    assert codes == [400] * 5 + [429] * 2


def test_W23_a_link_for_a_new_password_works_once(
    services: Services, root: Visitor, visitor: Make, db: Any
) -> None:
    bob = add_user(services, "bob").user_id
    old = visitor()
    old.log_in("bob")
    first, second = (_link(root.post(f"/admin/users/{bob}/link").text) for _ in range(2))
    assert _token(second) not in repr(list(db.resets.find()))
    one = visitor()
    assert one.get(first).status_code == 403, "a newer one makes it void"
    form = {"token": _token(second), "password": "12345678"}
    assert one.post("/new-password", form).status_code == 400, "too weak; the link stays good"
    form["password"] = "another quiet place"
    assert one.post("/new-password", form).status_code == 303
    assert one.get("/read/all").status_code == 200, "logged in"
    assert old.get("/read/all").status_code == 303, "every session of before has ended"
    assert visitor().post("/new-password", form).status_code == 403
    assert visitor().log_in("bob", "another quiet place").status_code == 303


def test_W23_a_link_ends_by_itself_and_with_the_account(services: Services, root: Visitor) -> None:
    bob = add_user(services, "bob").user_id
    link = _link(root.post(f"/admin/users/{bob}/link").text)
    assert root.get(link).status_code == 200
    services.gateways.admin_accounts.set_disabled(bob, True)
    assert root.get(link).status_code == 403
    services.gateways.admin_accounts.set_disabled(bob, False)
    late = clock.now() + dt.timedelta(seconds=services.settings.reset_ttl + 1)
    with clock.set_source(lambda: late):
        assert services.gateways.admin_accounts.find_reset_user(_token(link)) is None


def _link(page: str) -> str:
    found = re.search(r'value="[^"]*(/new-password\?token=[\w-]{43})"', page)
    assert found
    return found[1]


def _token(link: str) -> str:
    return link.partition("token=")[2]


def test_an_account_is_made_with_a_link_for_its_password(
    services: Services, root: Visitor, visitor: Make
) -> None:
    form = {"name": "carl", "email": "carl@example.org", "role": "user"}
    page = root.post("/admin/users", form).text
    one = visitor()
    chosen = {"token": _token(_link(page)), "password": "another quiet place"}
    assert one.post("/new-password", chosen).status_code == 303
    again = root.post("/admin/users", {**form, "email": "other@example.org"})
    assert again.status_code == 409
    assert "This user name is taken" in again.text
    assert 'value="other@example.org"' in again.text, "nothing that was entered is lost"


def test_W21_invitations_are_listed_and_revoked(services: Services, root: Visitor) -> None:
    page = root.post("/admin/invites").text
    token = re.search(r"invite=([\w-]{43})", page)
    assert token
    (invite,) = services.gateways.admin_accounts.list_invites()
    assert invite.by == "root"
    assert token[1] not in root.get("/admin/users").text, "shown once"
    assert root.post("/admin/invites/revoke", {"invite": invite.id}).status_code == 303
    assert not services.gateways.accounts.consume_invite(token[1])
    assert root.post("/admin/invites/revoke", {"invite": invite.id}).status_code == 404


# -- the server
def test_the_server_page_counts_write_conflicts(services: Services, root: Visitor) -> None:
    def count_shown() -> int:
        found = re.search(
            r'<dt>Write conflicts</dt><dd><span class="num">([0-9,]+)', root.get("/admin/settings").text
        )
        assert found
        return int(found[1].replace(",", ""))

    before = count_shown()
    cause_conflict(services)
    assert count_shown() > before


def _list_shown(root: Visitor, query: str) -> list[str]:
    page = root.get(f"/admin/settings?{query}")
    assert page.status_code == 200
    return re.findall(r"<code>(EVENTR_\w+)</code>", page.text)


def test_settings_are_filtered_by_words_and_by_what_is_changed(services: Services, root: Visitor) -> None:
    every = _list_shown(root, "")
    assert len(every) == len(dataclasses.fields(services.settings))
    assert _list_shown(root, "q=legal_URL") == ["EVENTR_LEGAL_URL"]
    assert _list_shown(root, "q=privacy+linked") == ["EVENTR_PRIVACY_URL"], (
        "all words, also those of its help"
    )
    changed = _list_shown(root, "show=changed")
    rows = list_settings(services.settings)
    assert changed == [row["env"] for row in rows if row["value"] != row["default"]]
    assert 0 < len(changed) < len(every)
    assert not set(_list_shown(root, "show=changed&q=legal"))
    page = root.get("/admin/settings?q=nothing+like+that")
    assert "No setting matches this filter." in page.text
    assert root.get("/admin/settings?show=other").status_code == 400
    assert _list_shown(root, f"q={services.settings.secret_key}") == [], (
        "secrets can't be guessed by searching"
    )


def test_V14_no_secret_is_on_the_screen_of_settings(services: Services, root: Visitor) -> None:
    page = root.get("/admin/settings").text
    assert services.settings.secret_key not in page
    assert services.settings.redis_url not in page
    assert "EVENTR_SECRET_KEY" in page
    assert "MongoDB" in page
    assert "plain HTTP" not in page, "this machine alone is no network"


def test_plain_http_under_a_name_is_said(services: Services) -> None:
    add_user(services, "root", Role.ADMIN)
    own = dataclasses.replace(services.settings, base_url="http://reader.lan")
    app = create_app(own, services)
    app.config["SERVER_NAME"] = "reader.lan"
    one = Visitor(app.test_client())
    assert one.log_in("root").status_code == 303
    assert "This server uses plain HTTP" in one.get("/admin/settings").text


def test_services_ask_for_the_permission_themselves(services: Services) -> None:
    from app.errors import ForbiddenError

    plain = Actor(1)
    calls: list[Callable[[], Any]] = [
        lambda: services.operations.get_engine(plain),
        lambda: services.operations.get_throughput(plain),
        lambda: services.operations.list_hours(plain),
        lambda: services.operations.list_running(plain),
        lambda: services.operations.list_dead(plain),
        lambda: services.operations.count_dead_kinds(plain),
        lambda: services.operations.get_job(plain, "x"),
        lambda: services.operations.pause(plain, "import"),
        lambda: services.operations.drain(plain, "import"),
        lambda: services.operations.resume(plain, "import"),
        lambda: services.operations.retry_dead(plain, "x"),
        lambda: services.operations.drop_dead(plain, "x"),
        lambda: services.dead_letters.list_newest(plain),
        lambda: services.dead_letters.run_again(plain, "x"),
        lambda: services.dead_letters.remove(plain, "x"),
        lambda: services.feed_lists.count_feeds(plain),
        lambda: services.feed_lists.list_day_slots(plain),
        lambda: services.feed_lists.pause(plain, 1),
        lambda: services.feed_lists.resume(plain, 1),
        lambda: services.feed_lists.clear(plain, 1),
        lambda: services.feed_lists.check_now(plain, 1),
        lambda: services.admin_accounts.list_accounts(plain),
        lambda: services.admin_accounts.get_account(plain, 1),
        lambda: services.admin_accounts.end_sessions(plain, 2),
        lambda: services.admin_accounts.list_invites(plain),
        lambda: services.admin_accounts.create_invite(plain),
        lambda: services.admin_accounts.revoke_invite(plain, "x"),
        lambda: services.server_info.list_settings(plain),
        lambda: services.server_info.list_versions(plain),
        lambda: services.server_info.run_checks(plain),
        lambda: services.server_info.find_write_conflicts(plain),
    ]
    for call in calls:
        with pytest.raises(ForbiddenError):
            call()


def test_what_stands_in_redis_is_not_trusted(services: Services, redis_client: redis.Redis) -> None:
    redis_client.zadd(redis_keys.MANAGERS, {"a": 1, "b": 2, "c": 3})
    redis_client.set(redis_keys.make_manager_key("a"), "no JSON")
    redis_client.set(redis_keys.make_manager_key("b"), json.dumps({"manager": "b", "workers": 7}))
    redis_client.hset(redis_keys.UPDATER_STATS, "backlog", "x")
    now = services.engine.load_engine()
    assert (now.managers, now.updater) == ((), None)


def test_checks_that_need_attention_are_first_and_counted(root: Visitor) -> None:
    page = BeautifulSoup(root.get("/admin/settings").text, "lxml")
    words = [mark["class"][1] for mark in page.select(".checks .mark")]
    wrong = [word for word in words if word != "ok"]
    assert wrong, "no queue manager runs in tests"
    assert words[: len(wrong)] == sorted(wrong), "fail, then warn, then ok"
    note = page.select_one(".note:has(+ .checks)")
    assert note
    assert f"{len(wrong)} of {len(words)} checks" in note.text


def test_feeds_are_filtered_by_links_with_counts_that_keep_the_search(
    services: Services, root: Visitor, db: Any
) -> None:
    feed_id = _feed(services)
    db.feeds.update_one({"_id": feed_id}, {"$set": {"error": "gone", "errors": 3}})
    links = _list_facets(root, "/admin/feeds?q=one")
    chosen = links["With errors 1"]
    assert "Any error" in _list_facets(root, chosen)
    word = _list_facets(root, chosen)["gone 1"]
    page = root.get(word).text
    assert "one.example" in page
    field = BeautifulSoup(page, "lxml").select_one("#f-q")
    assert field
    assert field["value"] == "one", word


def _list_facets(root: Visitor, path: str) -> dict[str, str]:
    page = BeautifulSoup(root.get(path).text, "lxml")
    return {" ".join(link.text.split()): str(link["href"]) for link in page.select(".facet")}
