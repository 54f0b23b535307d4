"""Importing with a browser: a dropped file, ticks, live progress, coming back; each state looked at."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from app import clock
from app.models.imports.imports import Import
from tests.browser.conftest import PHONE, Site, shot
from tests.imports import archives
from tests.imports.test_archive_files import requested, uploaded
from tests.imports.test_imports import Pulling, feeds, listed, run
from tests.support import importing
from tests.support.reader import add_user, elsewhere

LIST = listed(
    ("daring", ("News", "World")),
    ("plain", ("News",)),
    ("missing", ("Science",)),
    ("daring", ("Science",)),
    ("alone", ()),
).replace(b"</body>", b"<outline text='No web address' xmlUrl='gopher://x.example/'/></body>")

#: What a person does who drops a file from his desktop.
_DROP = """(text) => {
  const files = new DataTransfer();
  files.items.add(new File([text], "mine.opml", { type: "text/x-opml" }));
  const how = { dataTransfer: files, bubbles: true, cancelable: true };
  for (const kind of ["dragover", "drop"]) document.body.dispatchEvent(new DragEvent(kind, how));
}"""


def work(site: Site, one: Import, *names: str) -> None:
    """Run an import as a worker does; feeds of these names answer."""
    elsewhere(lambda: run(site.services, one, Pulling(site.services, feeds(*names)), str(one.started)))


def test_a_dropped_file_is_chosen_from_watched_and_found_again(
    visit: Callable[..., Page], site: Site
) -> None:
    actor = add_user(site.services, "ann")
    site.services.subscriptions.subscribe(actor, "https://feeds.example/plain")
    page = visit(login="ann")
    page.goto("/imports")
    page.evaluate(_DROP, LIST.decode())
    page.wait_for_url(re.compile(r"/imports/\d+$"))
    start = page.locator(".start .primary")
    expect(start).to_have_text("Import 3 feeds")
    expect(page.locator(".mark", has_text="already subscribed")).to_be_visible()
    science = page.get_by_role("group", name="Science").get_by_label("All")
    expect(science).to_be_checked()
    science.uncheck()
    expect(start).to_have_text("Import 2 feeds")
    science.check()
    shot(page, "import-preview")
    start.click()

    expect(page.locator("#words")).to_have_text("0 of 3")
    here = page.url
    page.goto("/read/all")
    chip = page.locator("#import-chip")
    expect(chip).to_contain_text("Importing 0 of 3")
    page.close()
    again = visit(login="ann", size=PHONE)
    again.goto(here)
    expect(again.locator("#job")).to_have_attribute("data-state", "queued")
    one = site.services.imports.find_active(actor)
    assert one is not None
    work(site, one, "daring", "alone")
    expect(again.locator("#job")).to_have_attribute("data-state", "done")
    expect(again.locator("#import-chip")).to_have_count(0)
    expect(again.get_by_role("heading", name="2 feeds failed")).to_be_visible()
    shot(again, "import-done-phone")
    again.get_by_role("button", name="Retry failed feeds").click()
    expect(again.locator("#words")).to_contain_text("0 of 1")
    again.get_by_role("button", name="Cancel").click()
    expect(again.get_by_role("button", name="Retry failed feeds")).to_be_visible()


def test_without_scripts_it_all_works_too(visit: Callable[..., Page], site: Site, tmp_path: Path) -> None:
    actor = add_user(site.services, "ann")
    (tmp_path / "mine.opml").write_bytes(LIST)
    page = visit(login="ann", js=False)
    page.goto("/imports")
    page.get_by_label("OPML file or archive", exact=True).set_input_files(tmp_path / "mine.opml")
    page.get_by_role("button", name="Preview").first.click()
    page.get_by_role("checkbox", name="missing").uncheck()
    page.get_by_role("radio", name="One folder for all feeds").check()
    page.get_by_label("Folder name").fill("Everything")
    page.get_by_role("button", name="Import 4 feeds").last.click()
    expect(page.locator("#words")).to_contain_text("0 of 3")
    one = site.services.imports.find_active(actor)
    assert one is not None
    work(site, one, "daring", "alone", "plain")
    expect(page.get_by_text("You're subscribed to 3 feeds from this import.")).to_be_visible()
    assert [f.name for f in site.services.folders.list_folders(actor)] == ["Everything"]


@pytest.mark.parametrize("js", [True, False])
def test_a_file_of_which_nothing_can_be_imported_offers_another_one(
    visit: Callable[..., Page], site: Site, js: bool
) -> None:
    actor = add_user(site.services, "ann")
    body = b"<opml><body><outline text='Old' xmlUrl='gopher://x.example/'/></body></opml>"
    one = site.services.imports.preview(actor, body, "old.opml")
    page = visit(login="ann", js=js)
    page.goto(f"/imports/{one.id}")
    expect(page.locator(".note")).to_have_text(
        "None of these feeds can be imported. The reason is shown beside each."
    )
    expect(page.locator("[value=start], .target, .tick-all button")).to_have_count(0)
    page.get_by_role("link", name="Choose another file").click()
    page.wait_for_url("**/imports")


def test_nothing_selected_is_not_imported(visit: Callable[..., Page], site: Site) -> None:
    actor = add_user(site.services, "ann")
    site.services.subscriptions.subscribe(actor, "https://feeds.example/plain")
    one = site.services.imports.preview(actor, listed(("plain", ())), "mine.opml")
    page = visit(login="ann")
    page.goto(f"/imports/{one.id}")
    expect(page.locator(".note")).to_have_text("You're already subscribed to all of these feeds.")
    start, hint = page.locator(".start .primary"), page.locator("#h-start")
    expect(start).to_have_text("Import selected feeds")
    expect(start).to_be_disabled()
    expect(hint).to_have_text("Select at least one feed first.")
    box = page.locator("[name=pick]")
    box.check()
    expect(start).to_have_text("Import 1 feed")
    expect(start).to_be_enabled()
    expect(hint).to_be_hidden()
    box.uncheck()
    expect(start).to_be_disabled()
    expect(hint).to_be_visible()


def test_an_archive_without_selected_feeds_starts_for_what_else_it_brings(
    visit: Callable[..., Page], site: Site
) -> None:
    actor = add_user(site.services, "ann")
    body = archives.zipped(
        {
            "subscriptions.opml": listed(("plain", ())),
            "starred.json": "[]",
            "rules.json": '[{"name": "R", "condition": "sun", "actions": ["hide"]}]',
        }
    )
    one = requested(site.services, actor, body)
    elsewhere(lambda: site.services.archives.read_file(actor.user_id, one.id))
    page = visit(login="ann")
    page.goto(f"/imports/{one.id}")
    start, wanted = page.locator(".start .primary"), page.get_by_role("checkbox", name="Take them over, too")
    page.locator("[name=pick]").uncheck()
    expect(start).to_have_text("Import")
    expect(start).to_be_enabled()
    wanted.uncheck()
    expect(start).to_be_disabled()
    wanted.check()
    start.click()
    expect(page.locator("#job")).to_be_visible()


def test_a_server_has_only_the_fields_of_its_kind(visit: Callable[..., Page], site: Site) -> None:
    add_user(site.services)
    page = visit(login="ann")
    page.goto("/imports/server")
    address, name, secret = (page.locator(f"#f-{one}") for one in ("address", "name", "secret"))
    label = page.locator('label[for="f-secret"]')
    for kind, shown, words in (
        ("FreshRSS", (True, True), "Password, or password for apps"),
        ("Miniflux", (True, False), "API key"),
        ("NewsBlur", (False, True), "Password"),
    ):
        page.get_by_role("radio", name=kind).check()
        assert (address.is_visible(), name.is_visible()) == shown, kind
        expect(label).to_have_text(words, use_inner_text=True)
    secret.fill("key-17")
    page.get_by_role("button", name="Show Password").click()
    expect(secret).to_have_attribute("type", "text")


def test_a_wrong_field_of_a_server_is_seen_with_each_kind(visit: Callable[..., Page], site: Site) -> None:
    add_user(site.services)
    page = visit(login="ann", expect="400")
    page.goto("/imports/server")
    address, name, secret = (page.locator(f"#f-{one}") for one in ("address", "name", "secret"))
    page.get_by_role("radio", name="FreshRSS").check()
    address.fill("ftp://nope nope")
    name.fill("ann")
    secret.fill("key-17")
    page.get_by_role("button", name="Read my account").click()
    expect(address).to_have_attribute("aria-invalid", "true")
    page.get_by_role("radio", name="NewsBlur").check()
    expect(address).to_be_visible()
    page.get_by_role("radio", name="FreshRSS").check()
    address.fill("rss.example.org")
    name.fill("")
    secret.fill("key-17")
    page.get_by_role("button", name="Read my account").click()
    expect(name).to_have_attribute("aria-invalid", "true")
    page.get_by_role("radio", name="Miniflux").check()
    expect(name).to_be_visible()


def test_page_of_an_archive_becomes_its_preview(visit: Callable[..., Page], site: Site) -> None:
    actor = add_user(site.services, "ann")
    body = archives.freshrss({"a": ("News",)}, [archives.google_item("a", 1, starred=True)], {})
    file_id = uploaded(site.services, actor, body)
    page = visit(login="ann")
    page.goto("/settings/files")
    page.locator("#files-body").get_by_role("button", name="Import", exact=True).click()
    page.wait_for_url(re.compile(r"/imports/\d+$"))
    expect(page.locator("#job")).to_contain_text("Reading the file")
    (one,) = site.services.imports.list_recent(actor)
    assert (one.file_id, site.services.archives.read_file(actor.user_id, one.id)["state"]) == (
        file_id,
        "preview",
    )
    expect(page.locator(".start .primary")).to_have_text("Import 1 feed")
    expect(page.locator(".tally").last).to_contain_text("entry or saved page")


def test_a_server_is_tried_again_by_hand_and_the_page_follows(visit: Callable[..., Page], site: Site) -> None:
    one = importing.reading(site.services, add_user(site.services))
    page = visit(login="ann")
    page.goto(f"/imports/{one.id}")
    page.get_by_role("button", name="Try now").click()
    expect(page.get_by_text("Eventr is trying again now.")).to_be_visible()
    expect(page.get_by_role("button", name="Try now")).to_be_hidden()

    def fail() -> None:
        """Do as a run whose request fails."""
        pulls, now = site.services.gateways.pulled_imports, clock.now()
        begun = pulls.begin_run(one.user_id, one.id, "again", now)
        assert begun is not None
        later = pulls.put_off(begun, "timeout", now + dt.timedelta(minutes=9), now)
        assert later is not None
        site.services.events.notify_progress(one.user_id, one.id, later.build_report(now))

    elsewhere(fail)
    expect(page.get_by_role("button", name="Try now")).to_be_visible()
    page.get_by_role("link", name="Change the address").click()
    expect(page.locator("#f-address")).to_have_value("https://rss.example.org")
    expect(page.locator("#f-secret")).to_have_value("")
