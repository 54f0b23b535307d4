"""What a demanding reader would miss at first glance on the screens around reading."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from app import clock
from app.models.feeds.discovery import Discovered
from app.models.sharing.sharing import Audience
from app.models.subscriptions.folder import FolderEditMode
from tests.browser.conftest import Site
from tests.browser.test_list_rules import subscribe
from tests.support.reader import add_user

Visit = Callable[..., Page]


def test_refused_subscription_keeps_all_that_was_typed(site: Site, visit: Visit) -> None:
    ann = add_user(site.services)
    gateway = site.services.gateways.discoveries
    row = gateway.get_or_create("https://paid.example/", clock.now())
    gateway.store_result(row.key, Discovered(row.address, error="http_401"), clock.now())
    page = visit(login="ann")
    page.goto("/add")
    page.get_by_label("Address of a site").fill("https://paid.example/")
    page.get_by_role("button", name="Find", exact=True).click()
    form = page.locator("form[action='/subscribe']")
    typed = {"User name": "ann", "Password": "secret", "Folder": "Paid"}
    for label, text in typed.items():
        form.get_by_label(label).fill(text)
    form.get_by_label("Feed address").fill("ftp://paid.example/feed")
    form.get_by_role("button", name="Subscribe", exact=True).click()
    expect(form.locator("#refused .note")).to_be_visible()
    for label, text in typed.items():
        expect(form.get_by_label(label)).to_have_value(text)
    form.get_by_label("Feed address").fill("https://paid.example/feed")
    form.get_by_role("button", name="Subscribe", exact=True).click()
    page.wait_for_url("**/read/feed/*")
    (folder,) = site.services.folders.list_folders(ann)
    (mine,) = site.services.gateways.subscriptions.find_by_user(ann.user_id)
    assert (folder.name, mine.folder_ids) == ("Paid", (folder.id,))
    assert site.services.subscriptions.get_fetch_options(ann, mine.feed_id).login == "ann"


@pytest.mark.parametrize("width", [390, 1024, 1440])
def test_menus_of_the_list_lie_inside_it(site: Site, visit: Visit, width: int) -> None:
    subscribe(site, add_user(site.services), 3)
    page = visit(login="ann", size=(width, 844), touch=width < 700)
    page.goto("/read/all")
    pane = page.locator(".pane-list").bounding_box()
    for summary in page.locator(".pane-list > .bar > .menu > summary").all():
        summary.click()
        menu = page.locator(".pane-list > .bar > .menu[open] > .menu-box")
        expect(menu).to_be_visible()
        box = menu.bounding_box()
        assert pane is not None
        assert box is not None
        assert pane["x"] <= box["x"]
        assert box["x"] + box["width"] <= pane["x"] + pane["width"]
        summary.click()


@pytest.mark.parametrize("width", [390, 1440])
def test_subscriptions_offer_what_one_can_do_once_something_is_selected(
    site: Site, visit: Visit, width: int
) -> None:
    subscribe(site, add_user(site.services), 3)
    page = visit(login="ann", size=(width, 844), touch=width < 700)
    page.goto("/subscriptions")
    unsubscribe = page.locator("#bulk-bar").get_by_role("button", name="Unsubscribe")
    expect(page.locator("html.js")).to_be_attached()
    expect(unsubscribe).to_be_hidden()
    page.locator(".feeds input[type=checkbox]").first.check()
    expect(unsubscribe).to_be_visible()
    page.locator(".feeds input[type=checkbox]").first.uncheck()
    expect(unsubscribe).to_be_hidden()


def test_subscriptions_of_a_phone_take_two_lines_each(site: Site, visit: Visit) -> None:
    ann = add_user(site.services)
    feed_id = subscribe(site, ann, 3)
    site.services.subscriptions.update(ann, feed_id, title="A feed whose name is longer than a phone is wide")
    for name in ("Long reads for quiet Sunday mornings", "News"):
        folder = site.services.folders.create(ann, name)
        site.services.folders.place_feeds(ann, [feed_id], [folder.id], FolderEditMode.ADD)
    page = visit(login="ann", size=(390, 844))
    page.goto("/subscriptions")
    row = page.locator(".feeds tbody tr").first
    box = row.bounding_box()
    assert box is not None
    assert box["height"] <= 64
    assert row.locator(".num").inner_text() == "3"
    # Beside its box and its folders, all of a row leads to the feed.
    page.mouse.click(box["x"] + box["width"] - 8, box["y"] + box["height"] - 8)
    page.wait_for_url(f"**/feeds/{feed_id}")
    page.go_back()
    row.get_by_role("checkbox").check()
    row.get_by_role("link", name="Long reads").click()
    page.wait_for_url("**/subscriptions?*folder=*")


@pytest.mark.parametrize("js", [True, False])
def test_topics_are_found_while_one_types(site: Site, visit: Visit, js: bool) -> None:
    add_user(site.services)
    page = visit(login="ann", js=js)
    page.goto("/packs")
    field = page.get_by_role("searchbox", name="Search topics and feeds")
    field.press_sequentially("nautil")
    if not js:
        page.get_by_role("button", name="Search", exact=True).click()
    expect(page.locator(".pack")).to_have_count(1)
    expect(page.locator(".pack .samples li").first).to_have_text("NNautilus")
    expect(field).to_have_value("nautil")
    page.get_by_role("link", name="Choose feeds from Science and space").click()
    page.wait_for_url("**/packs/science")


def test_a_phone_uses_its_width_for_choices_files_and_follow(site: Site, visit: Visit) -> None:
    ann = add_user(site.services)
    site.services.following.update_profile(
        ann, display="", bio="", links=(), audience=Audience.PUBLIC, listed=False, open_lists=False
    )
    post = site.services.sharing.publish_post(ann, "A day in the hills", "Cold, and clear.")
    page = visit(login="ann", size=(390, 844))

    def get_box(selector: str) -> dict[str, float]:
        box = page.locator(selector).first.bounding_box()
        assert box is not None
        return {**box}

    page.goto("/settings/reading")
    assert {box["width"] for box in map(get_box, ("#o-density .segments", "#o-sort .segments"))} == {358}
    page.goto("/settings/files")
    assert get_box("#upload")["width"] == 358
    page.goto("/settings")
    assert get_box(".whose strong")["x"] > get_box(".whose .av")["x"] + get_box(".whose .av")["width"]
    stranger = visit(size=(390, 844))
    page = stranger
    page.goto(f"/@ann/{post.id}")
    name, follow = get_box(".by .names"), get_box(".by .act .btn")
    assert name["y"] <= follow["y"]
    assert follow["y"] + follow["height"] <= name["y"] + name["height"] + 8


def test_choices_save_themselves_and_texts_keep_save_in_sight(site: Site, visit: Visit) -> None:
    ann = add_user(site.services)
    page = visit(login="ann")
    for section, label in (("reading", "Oldest first"), ("notifications", "follows me")):
        page.goto(f"/settings/{section}")
        expect(page.locator("html.js")).to_be_attached()
        expect(page.get_by_role("button", name="Save")).to_be_hidden()
        page.get_by_text(label, exact=True).click()
        expect(page.locator("#saved")).to_contain_text("Saved")
        expect(page.locator("#saved")).to_be_in_viewport()
    user = site.services.gateways.accounts.find_user(ann.user_id)
    assert user is not None
    assert (user.preferences.sort, user.preferences.notify_follower) == ("oldest", False)

    page.goto("/settings/sharing")
    expect(page.locator("html.js")).to_be_attached()
    save = page.locator(".save").get_by_role("button", name="Save")
    expect(save).not_to_be_in_viewport()
    page.get_by_role("textbox", name="Display name").fill("Ann")
    expect(save).to_be_in_viewport()
    save.click()
    expect(page.locator("#saved")).to_contain_text("Saved")
    expect(page.locator("#saved")).to_be_in_viewport()
    page.get_by_role("textbox", name="Display name").fill("Ann B")
    expect(page.locator("#saved")).to_be_empty()
    expect(save).to_be_in_viewport()


def test_links_of_a_page_have_one_empty_field_at_the_end(site: Site, visit: Visit) -> None:
    add_user(site.services)
    page = visit(login="ann")
    page.goto("/settings/sharing")
    fields = page.locator("#o-links input:visible")
    expect(fields).to_have_count(1)
    fields.first.fill("https://one.example/")
    expect(fields).to_have_count(2)
    page.locator(".save button").click()
    expect(page.locator("#saved")).to_contain_text("Saved")
    expect(page.locator("#o-links input:visible")).to_have_count(2)


@pytest.mark.parametrize("js", [True, False])
def test_a_phone_shows_what_one_can_do_with_selected_feeds_without_scrolling_sideways(
    site: Site, visit: Visit, js: bool
) -> None:
    subscribe(site, add_user(site.services), 3)
    page = visit(login="ann", size=(390, 844), touch=True, js=js)
    page.goto("/subscriptions")
    bar, box = page.locator("#bulk-bar"), page.locator(".feeds input[name=feed]").first
    before = box.bounding_box()
    page.locator(".feeds input[type=checkbox]").first.check()
    assert box.bounding_box() == before, "the list moved under the finger"
    expect(bar.get_by_role("button", name="Mark as read")).to_be_in_viewport()
    if js:
        assert bar.locator(".bulk-deeds").evaluate("(place) => place.clientHeight") <= 60, (
            "more than one line"
        )
    bar.locator("summary", has_text="Folders").click()
    shown = bar.locator("button:visible, select:visible, summary").all()
    assert len(shown) == 8
    for control in shown:
        place = control.bounding_box()
        assert place is not None
        assert place["x"] >= 0
        assert place["x"] + place["width"] <= 390
        assert place["y"] + place["height"] <= 844
    assert bar.locator(".bulk-deeds").evaluate("(place) => place.scrollWidth <= place.clientWidth")
    bar.locator("#into").select_option("No folder")
    bar.get_by_role("button", name="Move", exact=True).click()
    page.wait_for_url("**/subscriptions*")


def test_selecting_feeds_moves_no_row_and_folders_want_a_choice(site: Site, visit: Visit) -> None:
    ann = add_user(site.services)
    subscribe(site, ann, 3)
    site.services.folders.create(ann, "News")
    page = visit(login="ann")
    page.goto("/subscriptions")
    box = page.locator(".feeds input[name=feed]").first
    before = box.bounding_box()
    box.check()
    assert box.bounding_box() == before
    bar = page.locator("#bulk-bar")
    bar.locator("summary", has_text="Folders").click()
    buttons = {name: bar.get_by_role("button", name=name, exact=True) for name in ("Move", "Add to folder")}
    for folder, move, add in (("", False, False), ("0", True, False), ("News", True, True)):
        bar.locator("#into").select_option(folder)
        expect(buttons["Move"]).to_be_enabled(enabled=move)
        expect(buttons["Add to folder"]).to_be_enabled(enabled=add)
    buttons["Add to folder"].click()
    expect(page.locator(".in-folder")).to_have_text("News")
