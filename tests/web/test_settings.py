"""The settings: each section is saved by itself, without a script too, and says so."""

from __future__ import annotations

import dataclasses
import datetime as dt
import re
from collections.abc import Callable
from typing import Any

import lxml.html
import pytest

from app import clock
from app.bootstrap.services import Services
from app.errors import ConflictError
from app.gateways.privacy.erasure import STRAGGLERS
from app.mappers.privacy.erasure import list_owned_collections
from app.models.accounts.actor import Actor, Role
from app.models.accounts.preferences import Preferences
from app.models.jobs.jobs import State
from app.models.reading.stream import StreamRef
from app.services.privacy.erasure import make_erasure_job
from tests.support.importing import previewed
from tests.support.reader import PASSWORD, add_user, follow
from tests.web.conftest import Visitor

Make = Callable[[], Visitor]
READING = {
    "view": "list", "density": "compact", "sort": "newest", "show": "unread", "after_mark_all": "next",
    "hide_read_feeds": "1", "tree_order": "unread",
}  # fmt: skip
DISPLAY = {
    "theme": "dark", "text_size": "22", "font": "legible", "line_height": "loose", "text_width": "wide",
    "justified": "1", "language": "de", "time_zone": "Asia/Tokyo", "times": "absolute",
}  # fmt: skip
LOOKS = 'data-font="legible" data-text-size="22" data-line="loose" data-measure="wide" data-justified="true"'
NOW = dt.datetime(2026, 2, 18, 9, 30, tzinfo=dt.UTC)


def _stored(services: Services, name: str = "ann") -> Preferences:
    known = services.gateways.accounts.find_credentials(name)
    assert known is not None
    return known.user.preferences


def test_every_section_shows_the_way_to_all_others(ann: Visitor) -> None:
    for path in ("", "/reading", "/display", "/account", "/sessions"):
        page = ann.get(f"/settings{path}").text
        assert page.count('aria-current="page"') >= 1
        for name in ("reading", "display", "keys", "account", "sessions"):
            assert f'href="/settings/{name}"' in page
        assert 'href="/imports"' in page


@pytest.mark.parametrize("code", ["en", "de", "ru", "ar"])
def test_no_two_ways_of_the_settings_are_called_the_same(ann: Visitor, code: str) -> None:
    ann.post("/settings/display", {"language": code})
    nav = lxml.html.fromstring(ann.get("/settings").text).xpath("//nav[contains(@class, 'sections')]")[0]
    names = [link.text_content().strip() for link in nav.xpath(".//li/a")]
    pictures = nav.xpath(".//li/a/*[1]/*/@href")
    assert len(names) == len(set(names)) > 9
    bells = [href for href in pictures if href.endswith("#bell")]
    assert len(bells) == 1


def test_reading_is_saved_and_shown_again(ann: Visitor, services: Services) -> None:
    done = ann.post("/settings/reading", READING)
    assert (done.status_code, done.headers["Location"]) == (303, "/settings/reading?saved=1")
    mine = _stored(services)
    assert (mine.view, mine.density, mine.sort, mine.show) == ("list", "compact", "newest", "unread")
    assert (mine.after_mark_all, mine.hide_read_feeds, mine.tree_order) == ("next", True, "unread")
    assert (mine.mark_on_scroll, mine.auto_load) == (False, False), "a switch that is off sends nothing"
    page = ann.get("/settings/reading?saved=1").text
    assert 'name="density" value="compact" checked' in page
    assert re.search(r'role="status">.*Saved', page, re.S)


def test_reading_settings_stand_in_groups(ann: Visitor) -> None:
    page = lxml.html.fromstring(ann.get("/settings/reading").text)
    names: dict[str, list[str]] = {}
    for one in page.xpath(
        "//form[@action='/settings/reading']/*[self::h2 or self::fieldset or @class='onoff']"
    ):
        if one.tag == "h2":
            names[one.text] = []
        else:
            names[[*names][-1]].append(one.xpath(".//@name")[0])
    assert {title: len(group) for title, group in names.items()} == {
        "Lists": 6,
        "Feeds": 2,
        "Mark as read": 2,
        "Entries": 1,
        "Swipes": 3,
    }


def test_privacy_shows_what_is_set_and_saves_it(ann: Visitor, services: Services) -> None:
    assert 'name="images" value="eventr" checked' in ann.get("/settings/privacy").text
    done = ann.post("/settings/privacy", {"images": "none"})
    assert (done.status_code, done.headers["Location"]) == (303, "/settings/privacy?saved=1")
    assert _stored(services).images == "none"
    page = ann.get("/settings/privacy?saved=1").text
    assert 'name="images" value="none" checked' in page
    assert re.search(r'role="status">.*Saved', page, re.S)
    assert "allowed any site yet" in page
    assert ann.post("/settings/privacy", {"images": "all"}).status_code == 400


def test_the_expanded_view_is_no_density_in_the_settings(ann: Visitor, services: Services) -> None:
    """Programs may set it as either; the page shows the view."""
    ann.post("/settings/reading", {**READING, "view": "panes", "density": "expanded"})
    assert _stored(services).density == "expanded"
    page = ann.get("/settings/reading").text
    assert 'name="density" value="expanded"' not in page
    assert 'name="view" value="expanded" checked' in page
    assert 'name="density" value="cozy" checked' in page


def test_a_script_is_told_in_place(ann: Visitor) -> None:
    said = ann.post("/settings/reading", READING, HX_Request="true", HX_Target="p#saved")
    assert (said.status_code, "Saved" in said.text, "<html" in said.text) == (200, True, False)
    as_before = {**DISPLAY, "language": "", "time_zone": "", "times": "relative"}
    said = ann.post("/settings/display", as_before, HX_Request="true", HX_Target="p#saved")
    assert "Saved" in said.text
    other = ann.post("/settings/display", DISPLAY, HX_Request="true", HX_Target="p#saved")
    assert other.headers["HX-Redirect"] == "/settings/display?saved=1", "other words need another page"


def test_only_what_a_page_names_as_changed_is_written(ann: Visitor, services: Services) -> None:
    sent = {
        **READING,
        "density": "card",
        "after_mark_all": "next",
        "changed": "density",
        "page": "p1",
        "turn": "1",
    }
    before = _stored(services)
    assert ann.post("/settings/reading", sent, HX_Request="true", HX_Target="p#saved").status_code == 200
    assert _stored(services) == dataclasses.replace(before, density="card")
    nothing = {**sent, "density": "compact", "changed": "", "turn": "2"}
    assert ann.post("/settings/reading", nothing, HX_Request="true", HX_Target="p#saved").status_code == 200
    assert _stored(services).density == "card"


SCRIPT = {"HX_Request": "true", "HX_Target": "p#saved"}


def _save(ann: Visitor, density: str, page: str, turn: int, **more: str) -> int:
    sent = {**READING, "density": density, "changed": "density", "page": page, "turn": str(turn), **more}
    said = ann.post("/settings/reading", sent, **SCRIPT)
    assert ("Saved" in said.text) == (said.status_code == 200)
    return said.status_code


def test_a_save_that_comes_late_does_not_undo_a_later_one(ann: Visitor, services: Services) -> None:
    def save(density: str, page: str, turn: int) -> tuple[int, str]:
        status = _save(ann, density, page, turn)
        return status, _stored(services).density

    assert save("card", "first", 2) == (200, "card")
    # Another page was opened and saved in between.
    assert save("cozy", "other", 1) == (200, "cozy")
    assert save("compact", "first", 1) == (204, "cozy"), "a late one was written, or called saved"
    assert save("compact", "first", 3) == (200, "compact")
    assert save("compact", "first", 3) == (200, "compact"), "a browser may send a request again"
    for number in range(30):
        save("card", f"page {number}", 1)
    user = services.store.database["users"].find_one({"name_key": "ann"}, {"saves": 1})
    assert user
    assert len(user["saves"]) == 8, "each page stays for ever"


def test_a_refused_save_leaves_the_earlier_one_valid(ann: Visitor, services: Services) -> None:
    assert _save(ann, "card", "p", 2, sort="nonsense", changed="density sort") == 400
    assert _save(ann, "card", "p", 1) == 200
    assert _stored(services).density == "card"


def test_of_two_saves_at_once_the_later_turn_is_stored(
    ann: Visitor, services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind = type(services.gateways.accounts)
    write, statuses = kind.set_preferences, list[int]()

    def write_after_another(*args: Any, **options: Any) -> None:
        if not statuses:
            statuses.append(0)
            statuses.append(_save(ann, "cozy", "p", 2))
        write(*args, **options)

    monkeypatch.setattr(kind, "set_preferences", write_after_another)
    assert _save(ann, "compact", "p", 1) == 204
    assert (statuses, _stored(services).density) == ([0, 200], "cozy")


@pytest.mark.parametrize("turn", [-1, 10**16, 10**30, "1e3"])
@pytest.mark.parametrize("page", ["$page", "$$ROOT", "{}", "a" * 41])
def test_a_forged_turn_or_page_is_only_a_value(ann: Visitor, page: str, turn: object) -> None:
    sent = {**READING, "changed": "density", "page": page, "turn": str(turn)}
    assert ann.post("/settings/reading", sent, **SCRIPT).status_code in (200, 400)


def test_a_form_that_saves_itself_says_that_the_session_has_ended(ann: Visitor) -> None:
    ann.post("/logout", {})
    said = ann.post("/settings/reading", READING, HX_Request="true", HX_Target="p#saved")
    assert (said.status_code, "HX-Redirect" in said.headers) == (401, False)
    assert "Log in first." in said.text
    assert 'href="/login" target="_blank"' in said.text


def test_display_changes_the_page_and_the_colours_stay_on_the_device(
    ann: Visitor, services: Services, visitor: Make
) -> None:
    assert ann.post("/settings/display", DISPLAY).status_code == 303
    page = ann.get("/settings/display").text
    assert f'<html lang="de" dir="ltr" data-theme="dark" {LOOKS} data-side="full">' in page
    assert 'value="Asia/Tokyo" selected' in page
    other = visitor()
    other.log_in()
    assert f'data-theme="auto" {LOOKS}' in other.get("/settings/display").text


def test_a_device_keeps_its_own_look_of_articles(ann: Visitor, services: Services, visitor: Make) -> None:
    """The account's look is what a device without a choice begins with."""
    ann.post("/settings/look", {"text_size": "24", "theme": "sepia"})
    other = visitor()
    other.log_in()
    other.post("/settings/look", {"text_size": "16", "font": "serif", "justified": "1"})
    mine, theirs = ann.get("/settings").text, other.get("/settings").text
    assert 'data-theme="sepia" data-font="system" data-text-size="24"' in mine
    assert 'data-justified="false"' in mine
    assert 'data-theme="auto" data-font="serif" data-text-size="16"' in theirs
    assert 'data-justified="true"' in theirs
    other.post("/settings/look", {"justified": "0"})
    assert 'data-font="serif" data-text-size="16"' in other.get("/settings").text
    assert 'data-justified="false"' in other.get("/settings").text
    assert (_stored(services).text_size, _stored(services).justified) == (16, False)


@pytest.mark.parametrize(
    ("cookie", "shown"),
    [
        ("serif.20.loose.full.1", 'font="serif" data-text-size="20" data-line="loose" data-measure="full"'),
        ("serif.99.loose.x.1", 'font="serif" data-text-size="18" data-line="loose" data-measure="medium"'),
        ('"><b>.18.normal.medium.0', 'font="system" data-text-size="18"'),
        ("serif.20", 'font="system" data-text-size="18"'),
        ("..........", 'font="system" data-text-size="18"'),
    ],
)
def test_a_look_that_a_device_may_not_have_falls_back_to_the_accounts(
    ann: Visitor, cookie: str, shown: str
) -> None:
    ann.client.set_cookie("text", cookie)
    assert f"data-{shown}" in ann.get("/settings").text


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("text_size", "99"), ("time_zone", "Mars/Base"), ("language", "xx"), ("font", "<b>"),
        ("theme", "pink"), ("line_height", "2"), ("text_width", "66ch"), ("justified", "x"),
    ],
)  # fmt: skip
def test_a_value_that_does_not_fit_changes_nothing(
    ann: Visitor, services: Services, field: str, value: str
) -> None:
    refused = ann.post("/settings/display", {**DISPLAY, field: value})
    assert refused.status_code == 400
    assert "theme=" not in str(refused.headers)
    if field not in ("language", "time_zone"):
        assert ann.post("/settings/look", {field: value}).status_code == 400
    assert _stored(services) == Preferences()


def test_times_are_in_the_zone_of_the_account_or_the_device(ann: Visitor, services: Services) -> None:
    with clock.set_source(lambda: NOW):
        add_user(services, "eve")
        follow(services, services.gateways.accounts.find_credentials("ann").user.actor)  # type: ignore[union-attr]
        page = ann.get("/read/all").text
        when = re.search(r'<time datetime="([^"]+)" title="([^"]+)"', page)
        assert when
        utc = dt.datetime.fromisoformat(when[1])
        assert when[2] == f"{utc.day} {utc:%B %Y}, {utc:%H:%M} UTC"
        ann.client.set_cookie("zone", "Asia/Tokyo")
        tokyo = utc + dt.timedelta(hours=9)
        assert f'title="{tokyo.day} {tokyo:%B %Y}, {tokyo:%H:%M}"' in ann.get("/read/all").text
        ann.client.set_cookie("zone", "../../etc/passwd")
        assert f'title="{when[2]}"' in ann.get("/read/all").text


def test_the_clock_instead_of_how_long_ago(ann: Visitor) -> None:
    ann.post("/settings/display", {**DISPLAY, "language": "en", "time_zone": "UTC"})
    assert re.search(r"last used \d+ \w+ \d{4}, \d\d:\d\d", ann.get("/settings/sessions").text)


# -- account
def test_the_account_says_whether_the_address_is_confirmed(ann: Visitor, db: Any) -> None:
    assert "Confirmed: you can log in with it." in ann.get("/settings/account").text
    db.users.update_one({"name": "ann"}, {"$unset": {"email_key": ""}})
    assert "Not confirmed yet" in ann.get("/settings/account").text


def test_W11_name_and_address_want_the_password(ann: Visitor, services: Services) -> None:
    wish = {"name": "anna", "email": "anna@example.org", "confirm": "not it at all"}
    wrong = ann.post("/settings/identity", wish)
    assert (wrong.status_code, 'value="anna@example.org"' in wrong.text) == (400, True)
    assert "The password is incorrect. Try again." in wrong.text
    assert ann.post("/settings/identity", {**wish, "confirm": PASSWORD}).status_code == 303
    page = ann.get("/settings/account").text
    assert "anna@example.org" in page
    assert services.gateways.accounts.find_credentials("ann") is None
    assert services.gateways.accounts.find_credentials("ANNA") is not None


def test_W07_another_address_is_only_said_and_logs_nobody_in(ann: Visitor, services: Services) -> None:
    """Nor does the answer tell whether somebody else has it."""
    add_user(services, "bob")
    seen = set()
    for email in ("bob@example.org", "free@example.org"):
        done = ann.post("/settings/identity", {"name": "ann", "email": email, "confirm": PASSWORD})
        seen.add((done.status_code, done.headers["Location"]))
    assert seen == {(303, "/settings/account")}
    assert services.gateways.accounts.find_credentials("free@example.org") is None
    bob = services.gateways.accounts.find_credentials("bob@example.org")
    assert bob is not None
    assert bob.user.name == "bob"


def test_an_address_written_otherwise_is_the_same(ann: Visitor, services: Services) -> None:
    wish = {"name": "Ann", "email": "ANN@example.org", "confirm": PASSWORD}
    assert ann.post("/settings/identity", wish).status_code == 303
    assert services.gateways.accounts.find_credentials("ann@example.org") is not None


def test_a_name_that_is_taken_is_said_to_be(ann: Visitor, services: Services) -> None:
    add_user(services, "bob")
    wish = {"name": "BOB", "email": "ann@example.org", "confirm": PASSWORD}
    taken = ann.post("/settings/identity", wish)
    assert taken.status_code == 409
    assert "This user name is taken" in taken.text


# -- the end of an account
def test_W11_deleting_wants_the_password(ann: Visitor, services: Services) -> None:
    assert ann.post("/settings/delete", {"confirm": "not it at all"}).status_code == 400
    assert services.gateways.accounts.find_credentials("ann") is not None


def test_G02_of_a_deleted_account_nothing_is_left(
    ann: Visitor, services: Services, visitor: Make, db: Any
) -> None:
    actor = services.gateways.accounts.find_credentials("ann").user.actor  # type: ignore[union-attr]
    elsewhere = visitor()
    elsewhere.log_in()
    folder = services.folders.create(actor, "Mine")
    feed_ids = follow(services, actor, folder_id=folder.id)
    follow(services, add_user(services, "bob"))
    page = services.reading.load_page(actor, _all())
    services.reading.set_starred(actor, page.rows[0].id, True)
    services.reading.mark_all(actor, StreamRef.parse("all"), snapshot=page.snapshot)
    services.subscriptions.unsubscribe(actor, feed_ids[0])
    services.gateways.admin_accounts.create_reset_link(actor.user_id)
    services.tags.change_tags(actor, page.rows[1].id, add=["kept"])
    previewed(services, actor)
    ann.post("/settings/reading", READING)
    done = ann.post("/settings/delete", {"confirm": PASSWORD})
    assert (done.status_code, done.headers["Location"]) == (303, "/?gone=1")
    # At once: nobody is logged in, nor can be.
    for one in (ann, elsewhere):
        assert one.get("/read/all").headers["Location"].startswith("/login")
    assert services.gateways.accounts.find_credentials("ann") is None
    assert "is being deleted" in visitor().get("/?gone=1").text
    # In a moment: the job that waits.
    job = make_erasure_job(actor.user_id)
    waiting = services.jobs.enqueue(job)
    assert (waiting.fresh, services.jobs.get_status(waiting.id).state) == (False, State.QUEUED)
    assert services.erasure.run(actor.user_id) == {"state": "again"}
    assert services.erasure.find_due_jobs(clock.now()) == []
    # A request that began before the end is still under way.
    services.subscriptions.subscribe(actor, db.feeds.find_one({"_id": feed_ids[1]})["url"])
    later = clock.now() + STRAGGLERS
    with clock.set_source(lambda: later):
        # The updater queues it once more, or again if it was lost.
        assert services.erasure.find_due_jobs(later) == [job]
        assert services.erasure.run(actor.user_id) == {"state": "gone"}
        assert services.erasure.find_due_jobs(later) == []
        assert services.erasure.run(actor.user_id) == {"state": "gone"}, "once more is nothing more"
    for name in db.list_collection_names():
        for doc in db[name].find():
            assert not _mentions(doc, {actor.user_id, "ann", "ann@example.org"}), name
    assert {f["subscribers"] for f in db.feeds.find()} == {1}, "bob reads them still"
    assert {e.get("stars", 0) for e in db.entries.find()} == {0}, "nobody keeps them from going"


def test_G02_a_run_that_is_killed_anywhere_is_finished_by_the_next(
    services: Services, db: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each write of the run is its last one, once; the next run goes on from there."""
    actor = add_user(services, "ann")
    follow(services, actor)
    page = services.reading.load_page(actor, _all())
    for row in page.rows[:3]:
        services.reading.set_starred(actor, row.id, True)
    services.accounts.delete_account(actor, PASSWORD)
    parts: list[tuple[Any, str]] = [
        (services.mappers.erasure, "stop"),
        (services.gateways.subscriptions, "remove_many"),
        (services.gateways.websubs, "leave_unsubscribed"),
        (services.mappers.marks, "remove"),
        (services.mappers.erasure, "erase"),
    ]
    later = clock.now() + STRAGGLERS
    with clock.set_source(lambda: later):
        for part, name in parts:
            real = getattr(part, name)

            def killed(*args: Any, real: Any = real, **named: Any) -> Any:
                real(*args, **named)
                raise KeyboardInterrupt

            with monkeypatch.context() as patch:
                patch.setattr(part, name, killed)
                with pytest.raises(KeyboardInterrupt):
                    services.erasure.run(actor.user_id)
            if name != "erase":
                assert [job.args for job in services.erasure.find_due_jobs(later)] == [
                    {"user_id": actor.user_id}
                ]
        assert services.erasure.find_due_jobs(later) == []
    for name in ("users", "subscriptions", "marks", "removals", "sessions"):
        assert not db[name].count_documents({}), name
    assert {f["subscribers"] for f in db.feeds.find()} == {0}
    assert {e.get("stars", 0) for e in db.entries.find()} == {0}


def test_who_stays_is_never_deleted_by_a_job(services: Services) -> None:
    actor = add_user(services, "ann")
    assert services.erasure.run(actor.user_id) == {"state": "stays"}
    assert services.gateways.accounts.find_user(actor.user_id) is not None


def _all() -> Any:
    from app.models.reading.stream import StreamQuery

    return StreamQuery(StreamRef.parse("all"))


def _mentions(value: object, wanted: set[object]) -> bool:
    if isinstance(value, dict):
        return any(_mentions(part, wanted) for part in value.values())
    if isinstance(value, list):
        return any(_mentions(part, wanted) for part in value)
    return isinstance(value, int | str) and not isinstance(value, bool) and value in wanted


def test_G02_every_collection_of_a_users_things_is_emptied() -> None:
    assert {"sessions", "subscriptions", "folders", "marks", "snapshots", "undos", "removals"} <= set(
        list_owned_collections()
    )


def test_the_last_admin_stays(services: Services, visitor: Make) -> None:
    add_user(services, "root", Role.ADMIN)
    root = visitor()
    root.log_in("root")
    refused = root.post("/settings/delete", {"confirm": PASSWORD})
    assert refused.status_code == 409
    assert "the only admin of this server" in refused.text
    services.accounts.create_user(Actor(0, Role.ADMIN), "a@example.org", "other", PASSWORD, Role.ADMIN)
    assert root.post("/settings/delete", {"confirm": PASSWORD}).status_code == 303


def test_of_two_admins_who_leave_at_once_one_stays(
    services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = add_user(services, "one", Role.ADMIN), add_user(services, "two", Role.ADMIN)
    begin = services.gateways.erasure.begin

    def second(*args: Any) -> None:
        monkeypatch.setattr(services.gateways.erasure, "begin", begin)
        begin(*args)
        with pytest.raises(ConflictError, match="the only admin"):
            services.accounts.delete_account(two, PASSWORD)

    monkeypatch.setattr(services.gateways.erasure, "begin", second)
    services.accounts.delete_account(one, PASSWORD)
    assert services.gateways.accounts.find_user(two.user_id) is not None


# -- the language of strangers
def test_strangers_choose_a_language_for_this_device(visitor: Make) -> None:
    one = visitor()
    link = re.search(r'href="(/language[^"]*ar[^"]*)"', one.get("/login").text)
    assert link
    done = one.get(link[1].replace("&amp;", "&"))
    assert done.headers["Location"] == "/login"
    for path in ("/login", "/", "/signup", "/nope"):
        assert '<html lang="ar" dir="rtl"' in one.get(path).text
    assert one.get("/language?language=xx").status_code == 400
    assert one.get("/language?language=de&next=https://evil.example/").headers["Location"] == "/"
