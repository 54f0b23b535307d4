"""All that is one's own, as a file: asked for with the password, told of when it is ready, downloaded."""

from __future__ import annotations

import datetime as dt
import json
import zipfile
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from app import clock
from tests.browser.conftest import Site
from tests.support.reader import PASSWORD, add_user

Visit = Callable[..., Page]


@pytest.mark.parametrize("js", [True, False])
def test_a_file_is_asked_for_and_downloaded(site: Site, visit: Visit, js: bool) -> None:
    services = site.services
    ann = add_user(services)
    services.sharing.publish_post(ann, "A day in spring", "Words of ann")
    page = visit(login="ann", js=js, expect="400")
    # A session that was left open: the password was entered long ago.
    before = clock.now() - dt.timedelta(hours=2)
    services.store.database["sessions"].update_many({}, {"$set": {"created": before}})
    page.goto("/settings/account")
    ask = page.get_by_role("button", name="Create export")
    field = page.locator("#export ~ form [name=proof]")
    field.fill("not this one")
    ask.click()
    expect(page.get_by_text("The password is incorrect. Try again.").first).to_be_visible()
    field.fill(PASSWORD)
    ask.click()
    expect(page.get_by_text("Your export is being created")).to_be_visible()
    assert services.notifications.count_unread(ann) == 0
    assert services.personal_exports.run(ann.user_id) == {"state": "ready"}
    page.goto("/notifications")
    page.get_by_role("link", name="Your export is ready").click()
    page.wait_for_url("**/settings/account#export")
    with page.expect_download() as coming:
        page.get_by_role("link", name="Download export").click()
    with zipfile.ZipFile(coming.value.path()) as archive:
        (share,) = json.loads(archive.read("shares.json"))
        assert share["title"] == "A day in spring"
        assert json.loads(archive.read("account.json"))["name"] == "ann"


def test_who_does_not_want_to_know_is_not_told(site: Site) -> None:
    services = site.services
    ann = add_user(services)

    def made() -> None:
        assert services.gateways.personal_exports.request_export(ann.user_id, clock.now())
        assert services.personal_exports.run(ann.user_id) == {"state": "ready"}

    made()
    made()
    (note,) = services.notifications.list_notifications(ann).notes
    assert (note.kind.value, services.notifications.count_unread(ann)) == ("export", 1)
    services.notifications.mark_all_read(ann)
    services.accounts.set_preferences(ann, {"notify_export": False})
    made()
    assert services.notifications.count_unread(ann) == 0
    services.accounts.set_preferences(ann, {"notify_export": True})
    made()
    assert services.notifications.count_unread(ann) == 1
