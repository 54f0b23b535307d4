"""Pages that save each change at once: what waits when the page is left, and what didn't get through."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Locator, Page, Route, expect

from app.models.accounts.actor import Actor
from app.models.accounts.preferences import Preferences
from app.models.reading.rules import Rule
from tests.browser.conftest import Site, log_in
from tests.browser.test_list_rules import subscribe
from tests.support.reader import add_user

Visit = Callable[..., Page]
Eventually = Callable[..., object]
Leave = Callable[[Page], object]
WAYS: dict[str, Leave] = {
    "link": lambda page: (
        page.get_by_role("link", name="Subscriptions")
        .or_(page.get_by_role("link", name="Display and language"))
        .first.click()
    ),
    "back": lambda page: page.go_back(),
    "reload": lambda page: page.reload(),
    "another site": lambda page: page.goto("about:blank"),
}

#: The settings that save each change.
_SECTIONS = ("display", "reading", "notifications", "privacy")


@pytest.fixture
def ann(site: Site) -> Actor:
    return add_user(site.services)


@pytest.fixture(params=WAYS.values(), ids=WAYS.keys())
def leave(request: pytest.FixtureRequest) -> Leave:
    return request.param  # type: ignore[no-any-return]


def hold(page: Page, pattern: str) -> list[Route]:
    """Hold the next request back."""
    held: list[Route] = []
    page.route(pattern, lambda route: held.append(route), times=1)
    return held


def find_preferences(site: Site, actor: Actor) -> Preferences:
    user = site.services.gateways.accounts.find_user(actor.user_id)
    assert user
    return user.preferences


def test_what_waits_behind_a_change_of_a_feed_is_saved_when_the_page_is_left(
    site: Site, visit: Visit, ann: Actor, leave: Leave, eventually: Eventually
) -> None:
    feed_id = subscribe(site, ann, 1)
    page = visit(login="ann", routes=True)
    page.goto(f"/feeds/{feed_id}")
    held = hold(page, "**/edit")
    with page.expect_request("**/edit"):
        page.get_by_role("switch", name="Hide from").check()
    page.get_by_label("Entries to show").select_option("25")
    page.get_by_role("switch", name="Notify").check()
    page.get_by_role("switch", name="Hide from").uncheck()
    # Typed, and the field not left.
    page.get_by_label("Name", exact=True).fill("My favourite")
    leave(page)

    def is_saved() -> bool:
        mine = site.services.subscriptions.get(ann, feed_id)
        return (mine.title, mine.keep_newest, mine.notify, mine.muted) == ("My favourite", 25, True, False)

    eventually(is_saved, message="what waited was lost")
    assert held


def test_what_waits_behind_a_setting_is_saved_when_the_page_is_left(
    site: Site, visit: Visit, ann: Actor, leave: Leave, eventually: Eventually
) -> None:
    page = visit(login="ann", routes=True)
    page.goto("/settings/reading")
    hold(page, "**/settings/reading")
    with page.expect_request("**/settings/reading"):
        page.get_by_text("Compact", exact=True).click()
    page.get_by_text("Cards", exact=True).click()
    page.get_by_role("switch", name="Mark as read while scrolling").check()
    leave(page)

    def is_saved() -> bool:
        mine = find_preferences(site, ann)
        return (mine.density, mine.mark_on_scroll) == ("card", True)

    eventually(is_saved, message="what waited was lost")


def test_a_change_that_is_on_its_way_is_saved_when_the_page_is_left(
    site: Site, visit: Visit, ann: Actor, leave: Leave, eventually: Eventually
) -> None:
    page = visit(login="ann", routes=True)
    page.goto("/settings/privacy")
    hold(page, "**/settings/privacy")
    with page.expect_request("**/settings/privacy"):
        page.get_by_text("No pictures", exact=True).click()
    leave(page)
    eventually(lambda: find_preferences(site, ann).images == "none", message="it was lost")


def test_a_tab_in_the_background_has_saved_what_waited_but_no_half_typed_folder(
    site: Site, visit: Visit, ann: Actor
) -> None:
    feed_id = subscribe(site, ann, 1)
    page = visit(login="ann", routes=True)
    page.goto(f"/feeds/{feed_id}")
    held = hold(page, "**/edit")
    with page.expect_request("**/edit"):
        page.get_by_role("switch", name="Hide from").check()
    page.get_by_role("switch", name="Notify").check()
    page.locator(".pick > summary").click()
    page.get_by_label("New folder").fill("Mi")
    with page.expect_response("**/edit"):
        hide(page)
    assert site.services.subscriptions.get(ann, feed_id).notify
    assert not site.services.folders.list_folders(ann)
    held[0].continue_()
    expect(page.get_by_label("New folder")).to_have_value("Mi")
    page.get_by_label("New folder").press("Enter")
    expect(page.locator("#folders-chosen")).to_have_text("Mi")
    mine = site.services.subscriptions.get(ann, feed_id)
    assert (mine.muted, mine.notify) == (True, True)


def test_a_page_saves_only_what_was_changed_in_it(site: Site, visit: Visit, ann: Actor) -> None:
    page = visit(login="ann")
    page.goto("/settings/reading")
    site.services.accounts.set_preferences(ann, {"density": "card", "stories": False})
    page.get_by_role("switch", name="Mark as read while scrolling").check()
    expect(page.locator("#saved")).to_have_text("Saved")
    mine = find_preferences(site, ann)
    assert (mine.mark_on_scroll, mine.density, mine.stories) == (True, "card", False)


@pytest.mark.parametrize("status", [0, 503, 429])
def test_a_change_that_did_not_get_through_stays_and_is_tried_again(
    site: Site, visit: Visit, ann: Actor, status: int
) -> None:
    feed_id = subscribe(site, ann, 1)
    page = visit(login="ann", routes=True, expect=str(status or "Failed to fetch"))
    page.goto(f"/feeds/{feed_id}")
    page.route(
        "**/edit",
        lambda route: route.fulfill(status=status, body="") if status else route.abort(),
        times=1,
    )
    name = page.get_by_label("Name", exact=True)
    name.fill("My favourite")
    name.press("Tab")
    why = page.locator(".field:has(#f-title)").get_by_role("alert")
    again = why.get_by_role("button", name="Try again")
    expect(again).to_be_in_viewport()
    expect(why).to_contain_text("Not saved. Can't reach the server")
    expect(page.locator(".toast")).to_have_count(0)
    expect(name).to_have_value("My favourite")
    # Leaving asks first.
    asked: list[str] = []
    page.once("dialog", lambda dialog: (asked.append(dialog.type), dialog.dismiss()))
    page.evaluate("location.assign('/read/all')")
    page.wait_for_function("document.readyState === 'complete'")
    assert asked == ["beforeunload"]
    again.click()
    expect(page.locator("#saved")).to_have_text("Saved")
    expect(page.locator(".unsaved")).to_have_count(0)
    expect(name).to_be_focused()
    assert site.services.subscriptions.get(ann, feed_id).title == "My favourite"


def test_a_change_after_the_session_has_ended_is_saved_after_the_next_login(
    site: Site, visit: Visit, ann: Actor
) -> None:
    feed_id = subscribe(site, ann, 1)
    bob = add_user(site.services, "bob")
    subscribe(site, bob, 1)
    page = visit(login="ann", expect="40")
    page.goto(f"/feeds/{feed_id}")
    page.context.clear_cookies()
    name = page.get_by_label("Name", exact=True)
    name.fill("My favourite")
    name.press("Tab")
    place = page.locator(".unsaved")
    expect(place).to_contain_text("Log in first.")
    expect(place.get_by_role("link", name="Log in")).to_have_attribute("target", "_blank")
    other = page.context.new_page()
    # Another person's session gets nothing of it.
    log_in(other, "bob")
    posts: list[str] = []
    page.on("request", lambda request: posts.append(request.url) if request.method == "POST" else None)
    with page.expect_response(f"**/feeds/{feed_id}"):
        place.get_by_role("button", name="Try again").click()
    expect(place).to_contain_text("This page has expired.")
    page.evaluate("async () => { await fetch('/healthz'); await fetch('/healthz'); }")
    assert len([url for url in posts if url.endswith("/edit")]) == 1
    expect(name).to_have_value("My favourite")
    page.context.clear_cookies()
    log_in(other, "ann")
    other.close()
    place.get_by_role("button", name="Try again").click()
    expect(page.locator("#saved")).to_have_text("Saved")
    assert site.services.subscriptions.get(ann, feed_id).title == "My favourite"
    assert not site.services.subscriptions.get(bob, feed_id).title


def test_why_a_change_is_not_saved_fits_on_a_phone(site: Site, visit: Visit, ann: Actor) -> None:
    feed_id = subscribe(site, ann, 1)
    page = visit(login="ann", routes=True, expect="503", size=(390, 844))
    page.goto(f"/feeds/{feed_id}")
    page.route("**/edit", lambda route: route.fulfill(status=503, body=""))
    page.get_by_role("switch", name="Hide from").check()
    words = page.locator(".unsaved")
    expect(words.get_by_role("button")).to_be_in_viewport()
    assert words.evaluate(
        "(box) => box.scrollHeight <= box.clientHeight && box.scrollWidth <= box.clientWidth"
    )


def test_each_setting_that_is_not_saved_says_so_itself(site: Site, visit: Visit, ann: Actor) -> None:
    feed_id = subscribe(site, ann, 1)
    page = visit(login="ann", routes=True, expect="503")
    page.goto(f"/feeds/{feed_id}")
    page.route("**/edit", lambda route: route.fulfill(status=503, body=""))
    hide, view = page.locator(".onoff:has(#s-hidden)"), page.locator("#o-view")
    page.get_by_role("switch", name="Hide from").check()
    expect(hide.get_by_role("alert")).to_contain_text("Not saved.")
    # It doesn't look as if it were saved.
    look = "(box) => getComputedStyle(box).backgroundColor"
    assert page.locator("#s-hidden").evaluate(look) == "rgba(0, 0, 0, 0)"
    view.get_by_text("Expanded", exact=True).click()
    expect(view.get_by_role("alert")).to_be_in_viewport()
    expect(page.locator(".unsaved")).to_have_count(2)
    expect(page.locator("#saved")).to_be_empty()
    page.unroute("**/edit")
    view.get_by_role("button", name="Try again").click()
    expect(page.locator("#saved")).to_have_text("Saved")
    expect(page.locator(".unsaved")).to_have_count(0)
    assert site.services.subscriptions.get(ann, feed_id).muted


def _refuse_folder(page: Page) -> None:
    """Type the name of a new folder that is too long, which the server refuses."""
    page.locator(".pick > summary").click()
    field = page.get_by_label("New folder")
    field.evaluate("(field) => (field.maxLength = 999)")
    field.fill("y" * 200)
    field.press("Tab")
    expect(field).to_have_attribute("aria-invalid", "true")


def test_a_refused_folder_and_a_ticked_one_that_failed_have_a_note_each(
    site: Site, visit: Visit, ann: Actor
) -> None:
    feed_id = subscribe(site, ann, 1)
    news = site.services.folders.create(ann, "News")
    page = visit(login="ann", routes=True, expect="status of")
    page.goto(f"/feeds/{feed_id}")
    _refuse_folder(page)
    notes = page.locator("#folders-field").get_by_role("alert")
    why = notes.inner_text()
    page.route("**/edit", lambda route: route.fulfill(status=503, body=""), times=1)
    page.get_by_role("checkbox", name="News").check()
    expect(notes).to_have_count(2)
    expect(notes.first).to_have_text(why)
    expect(notes.last).to_contain_text("Not saved. Can't reach the server")
    page.locator("#folders-field").get_by_role("button", name="Try again").click()
    expect(page.locator("#saved")).to_have_text("Saved")
    expect(notes).to_have_text([why])
    assert site.services.subscriptions.get(ann, feed_id).folder_ids == (news.id,)
    # It goes once the text is another one.
    page.get_by_label("New folder").fill("Short")
    expect(notes).to_have_count(0)


def _refuse_name(page: Page, key: str = "Tab") -> Locator:
    """Type a name of the feed that is too long, and return the field."""
    name = page.get_by_label("Name", exact=True)
    name.evaluate("(field) => (field.maxLength = 9999)")
    name.fill("y" * 600)
    name.press(key)
    expect(name).to_have_attribute("aria-invalid", "true")
    return name


def _fail_all_but_the_name(route: Route) -> None:
    """Answer as a server that is away does, except what has a name that it refuses."""
    if "y" * 600 in (route.request.post_data or ""):
        route.continue_()
    else:
        route.fulfill(status=503, body="")


def test_a_change_that_failed_keeps_its_mark_when_a_text_is_refused(
    site: Site, visit: Visit, ann: Actor
) -> None:
    feed_id = subscribe(site, ann, 1)
    page = visit(login="ann", routes=True, expect="status of")
    page.goto(f"/feeds/{feed_id}")
    page.route("**/edit", _fail_all_but_the_name)
    switch = page.get_by_role("switch", name="Hide from")
    note = page.locator(".onoff:has(#s-hidden)").get_by_role("alert")
    switch.check()
    expect(note).to_contain_text("Not saved.")
    refused = page.locator(".field:has(#f-title)").get_by_role("alert")
    with page.expect_response(lambda answer: answer.status == 400):
        _refuse_name(page)
    expect(refused).to_be_visible()
    expect(note).to_contain_text("Not saved.")
    expect(switch).to_have_css("background-color", "rgba(0, 0, 0, 0)")
    assert not site.services.subscriptions.get(ann, feed_id).muted
    page.unroute("**/edit")
    note.get_by_role("button", name="Try again").click()
    expect(page.locator("#saved")).to_have_text("Saved")
    expect(note).to_have_count(0)
    expect(refused).to_be_visible()
    assert site.services.subscriptions.get(ann, feed_id).muted


@pytest.mark.parametrize("key", ["Tab", "Enter"])
def test_what_went_along_with_a_refused_text_is_saved_without_it(
    site: Site, visit: Visit, ann: Actor, key: str
) -> None:
    feed_id = subscribe(site, ann, 1)
    page = visit(login="ann", routes=True, expect="status of")
    page.goto(f"/feeds/{feed_id}")
    page.route("**/edit", lambda route: route.fulfill(status=503, body=""), times=1)
    page.get_by_role("switch", name="Hide from").check()
    expect(page.locator(".onoff .unsaved")).to_be_visible()
    name = _refuse_name(page, key)
    expect(page.locator("#saved")).to_have_text("Saved")
    expect(page.locator(".onoff .unsaved")).to_have_count(0)
    expect(page.locator(".field:has(#f-title) .unsaved")).to_be_visible()
    expect(name).to_have_attribute("aria-invalid", "true")
    assert site.services.subscriptions.get(ann, feed_id).muted


def test_what_went_along_with_a_refused_text_is_marked_if_it_does_not_get_through(
    site: Site, visit: Visit, ann: Actor
) -> None:
    feed_id = subscribe(site, ann, 1)
    page = visit(login="ann", routes=True, expect="status of")
    page.goto(f"/feeds/{feed_id}")
    posts: list[str] = []

    def refuse(route: Route) -> None:
        posts.append(route.request.post_data or "")
        words = '<span class="bad" data-word="invalid" data-field="title">Too long.</span>'
        route.fulfill(status=400, content_type="text/html", body=words)

    page.route("**/edit", refuse)
    page.get_by_label("Name", exact=True).fill("Mine")
    page.get_by_role("switch", name="Hide from").check()
    expect(page.locator(".field:has(#f-title)").get_by_role("alert")).to_have_text("Too long.")
    expect(page.locator(".onoff:has(#s-hidden)").get_by_role("alert")).to_contain_text("Not saved.")
    page.evaluate("async () => { await fetch('/healthz'); await fetch('/healthz'); }")
    assert len(posts) <= 4, "it doesn't ask forever"


def _retry(page: Page, place: str) -> None:
    """Try again by keyboard, and wait until it is saved."""
    button = page.locator(place).get_by_role("button", name="Try again")
    expect(button).to_be_visible()
    button.press("Enter")
    expect(page.locator("#saved")).to_have_text("Saved")
    expect(page.locator(".unsaved")).to_have_count(0)


def test_after_another_try_the_control_that_was_changed_has_the_focus(
    site: Site, visit: Visit, ann: Actor
) -> None:
    feed_id = subscribe(site, ann, 1)
    for name in ("Art", "News"):
        site.services.folders.create(ann, name)
    page = visit(login="ann", routes=True, expect="503")

    def fail_once(path: str) -> None:
        page.route(path, lambda route: route.fulfill(status=503, body=""), times=1)

    page.goto(f"/feeds/{feed_id}")
    fail_once("**/edit")
    page.get_by_text("Expanded", exact=True).click()
    _retry(page, "#o-view")
    expect(page.get_by_role("radio", name="Expanded")).to_be_focused()
    # What is in a closed menu can't have it: the menu has.
    menu = page.locator(".pick > summary")
    fail_once("**/edit")
    menu.click()
    page.get_by_role("checkbox", name="News").check()
    expect(page.locator("#folders-field .unsaved")).to_be_visible()
    menu.click()
    _retry(page, "#folders-field")
    expect(menu).to_be_focused()
    page.goto("/settings/notifications")
    fail_once("**/settings/notifications")
    devices = page.get_by_role("switch", name="Devices: likes one of my shares")
    devices.click()
    _retry(page, ".onoff:has([name=push_like])")
    expect(devices).to_be_focused()


@pytest.mark.parametrize("second", [401, 404])
def test_another_reason_keeps_the_focus_where_it_was(
    site: Site, visit: Visit, ann: Actor, second: int
) -> None:
    feed_id = subscribe(site, ann, 1)
    page = visit(login="ann", routes=True, expect="status of")
    page.goto(f"/feeds/{feed_id}")
    page.route("**/edit", lambda route: route.fulfill(status=503, body=""), times=1)
    switch = page.get_by_role("switch", name="Hide from")
    switch.check()
    note = page.locator(".onoff:has(#s-hidden)").get_by_role("alert")
    again = note.get_by_role("button", name="Try again")
    expect(again).to_be_visible()
    words = '<span class="bad" data-word="other">Something else.</span>'
    page.route(
        "**/edit",
        lambda route: route.fulfill(status=second, content_type="text/html", body=words),
        times=1,
    )
    again.press("Enter")
    expect(note).to_contain_text("Something else.")
    # What is put back can't be tried again.
    expect(again if second == 401 else switch).to_be_focused()


def test_of_two_switches_only_the_one_that_is_not_saved_says_so(site: Site, visit: Visit, ann: Actor) -> None:
    page = visit(login="ann", routes=True, expect="503")
    page.goto("/settings/notifications")
    devices = page.get_by_role("switch", name="Devices: likes one of my shares")
    here = page.locator("[name=notify_like]")
    before = here.evaluate("(box) => getComputedStyle(box).backgroundColor")
    page.route("**/settings/notifications", lambda route: route.fulfill(status=503, body=""))
    devices.click()
    row = page.locator(".onoff:has([name=push_like])")
    note = row.get_by_role("alert")
    expect(note).to_contain_text("Devices: likes one of my shares. Not saved. Can't reach")
    hollow = "rgba(0, 0, 0, 0)"
    expect(devices).to_have_css("background-color", hollow)
    expect(here).to_have_css("background-color", before)
    assert before != hollow
    here.click()
    expect(note).to_contain_text(
        "likes one of my shares. Devices: likes one of my shares. Not saved. Can't reach"
    )
    expect(here).to_have_css("background-color", hollow)
    page.unroute("**/settings/notifications")
    note.get_by_role("button", name="Try again").click()
    expect(page.locator("#saved")).to_have_text("Saved")
    expect(here).not_to_have_css("background-color", hollow)
    expect(devices).not_to_have_css("background-color", hollow)


#: The visible words that lie below "Saved".
_BELOW = """(saved) => {
  const box = saved.firstElementChild.getBoundingClientRect();
  const texts = document.createTreeWalker(document.querySelector("main"), NodeFilter.SHOW_TEXT);
  const below = [];
  while (texts.nextNode()) {
    const range = document.createRange();
    range.selectNodeContents(texts.currentNode);
    const beside = (one) => one.left >= box.right || one.right <= box.left;
    const meets = (one) => !beside(one) && one.top < box.bottom && one.bottom > box.top;
    if (saved.contains(texts.currentNode) || ![...range.getClientRects()].some(meets)) continue;
    below.push(range.toString());
  }
  return below.filter((text) => text.trim());
}"""


@pytest.mark.parametrize("language", ["en", "de", "ru", "ar"])
def test_saved_lies_over_no_words(site: Site, visit: Visit, ann: Actor, language: str) -> None:
    feed_id = subscribe(site, ann, 1)
    site.services.accounts.set_preferences(ann, {"language": language})
    for width in (390, 1024):
        page = visit(login="ann", size=(width, 844))
        for path in (f"feeds/{feed_id}", *(f"settings/{one}" for one in _SECTIONS)):
            page.goto(f"/{path}")
            box = page.locator("form:has(#saved) :is([role=switch], [type=radio]:not(:checked))").last
            box.dispatch_event("click")
            expect(page.locator("#saved > span")).to_be_attached()
            page.evaluate("scrollTo(0, 0)")
            assert page.locator("#saved").evaluate(_BELOW) == [], (path, width)


def test_a_look_that_waits_is_saved_when_the_page_is_left(
    site: Site, visit: Visit, ann: Actor, eventually: Eventually
) -> None:
    subscribe(site, ann, 1)
    page = visit(login="ann", routes=True)
    held = hold(page, "**/settings/look")
    with page.expect_request("**/settings/look"):
        page.keyboard.press("=")
    page.keyboard.press("=")
    page.goto("about:blank")
    eventually(lambda: find_preferences(site, ann).text_size == 20, message="what waited was lost")
    assert held


def test_marks_and_stars_that_wait_are_sent_when_the_page_is_left(
    site: Site, visit: Visit, ann: Actor, eventually: Eventually
) -> None:
    subscribe(site, ann, 3)
    page = visit(login="ann", routes=True)
    held = hold(page, "**/entries/mark")
    with page.expect_request("**/entries/mark"):
        page.locator("#rows .row h2 a").first.click()
    expect(page.locator("#entry-title")).to_be_visible()
    page.keyboard.press("s")
    page.keyboard.press("j")
    expect(page.locator("#rows .is-read")).to_have_count(2)
    page.goto("about:blank")

    def is_sent() -> bool:
        unread = site.services.sync.list_unread_ids(ann)
        return (len(unread), len(site.services.sync.list_starred_ids(ann))) == (1, 1)

    eventually(is_sent, message="what waited was lost")
    assert held


def test_a_switch_of_a_list_that_waits_is_sent_when_the_page_is_left(
    site: Site, visit: Visit, ann: Actor, eventually: Eventually
) -> None:
    for name in ("Red", "Blue"):
        site.services.rules.save(ann, Rule(0, name, f"title:{name}", hide=True))
    page = visit(login="ann", routes=True)
    page.goto("/settings/rules")
    held = hold(page, "**/switch")
    with page.expect_request("**/switch"):
        page.get_by_role("switch", name="Red").click()
    page.get_by_role("switch", name="Blue").click()
    page.goto("about:blank")

    def is_sent() -> bool:
        enabled = {rule.name: rule.enabled for rule in site.services.rules.list_rules(ann).rules}
        return not enabled["Blue"]

    eventually(is_sent, message="what waited was lost")
    assert held


def hide(page: Page, *, is_hidden: bool = True) -> None:
    """Put the tab into the background, or get it back."""
    page.evaluate(
        """(hidden) => {
            Object.defineProperty(document, "hidden", { value: hidden, configurable: true });
            document.dispatchEvent(new Event("visibilitychange"));
        }""",
        is_hidden,
    )


@pytest.mark.parametrize("is_left", [False, True])
def test_a_change_that_is_taken_back_on_its_way_is_saved(
    site: Site, visit: Visit, ann: Actor, eventually: Eventually, is_left: bool
) -> None:
    page = visit(login="ann", routes=True)
    page.goto("/settings/reading")
    switch = page.get_by_role("switch", name="Mark as read while scrolling")
    before = switch.is_checked()
    held = hold(page, "**/settings/reading")
    with page.expect_request("**/settings/reading"):
        switch.set_checked(not before)
    answer = held[0].fetch()
    assert find_preferences(site, ann).mark_on_scroll != before
    switch.set_checked(before)
    if is_left:
        page.goto("about:blank")
    else:
        with page.expect_request("**/settings/reading"):
            held[0].fulfill(response=answer)
        expect(page.locator("#saved")).to_have_text("Saved")
    eventually(lambda: find_preferences(site, ann).mark_on_scroll == before, message="it was lost")


def test_a_change_whose_answer_was_lost_can_be_taken_back(site: Site, visit: Visit, ann: Actor) -> None:
    page = visit(login="ann", routes=True, expect="Failed to fetch")
    page.goto("/settings/reading")
    switch = page.get_by_role("switch", name="Mark as read while scrolling")
    before = switch.is_checked()

    def lose(route: Route) -> None:
        route.fetch()
        route.abort()

    page.route("**/settings/reading", lose, times=1)
    switch.set_checked(not before)
    expect(page.locator(".onoff .unsaved")).to_contain_text("Can't reach the server")
    assert find_preferences(site, ann).mark_on_scroll != before
    switch.set_checked(before)
    expect(page.locator("#saved")).to_have_text("Saved")
    assert find_preferences(site, ann).mark_on_scroll == before


def test_a_typed_folder_of_a_tab_that_was_hidden_is_saved_when_it_is_closed(
    site: Site, visit: Visit, ann: Actor, eventually: Eventually
) -> None:
    feed_id = subscribe(site, ann, 1)
    page = visit(login="ann", routes=True)
    page.goto(f"/feeds/{feed_id}")
    held = hold(page, "**/edit")
    with page.expect_request("**/edit"):
        page.get_by_role("switch", name="Hide from").check()
    page.locator(".pick > summary").click()
    page.get_by_label("New folder").fill("Typed")
    with page.expect_response("**/edit"):
        hide(page)
    page.goto("about:blank")
    eventually(
        lambda: [one.name for one in site.services.folders.list_folders(ann)] == ["Typed"],
        message="it was lost",
    )
    assert held


def test_a_folder_saved_in_the_background_stays_with_the_next_one(
    site: Site, visit: Visit, ann: Actor
) -> None:
    feed_id = subscribe(site, ann, 1)
    site.services.folders.create(ann, "Other")
    page = visit(login="ann", routes=True)
    page.goto(f"/feeds/{feed_id}")
    held = hold(page, "**/edit")
    page.locator(".pick > summary").click()
    page.get_by_label("New folder").press_sequentially("Typed")
    with page.expect_request("**/edit"):
        page.get_by_label("New folder").press("Tab")
    with page.expect_response("**/edit"):
        hide(page)
    with page.expect_response(lambda answer: answer.url.endswith("/edit") and answer.status == 204):
        held[0].continue_()
    hide(page, is_hidden=False)
    expect(page.locator("#folders-chosen")).to_have_text("Typed")
    expect(page.get_by_role("checkbox", name="Typed")).to_be_checked()
    page.get_by_role("checkbox", name="Other").check()
    expect(page.locator("#folders-chosen")).to_have_text("Other, Typed")
    # What another page does meanwhile stays.
    new = site.services.folders.create(ann, "New")
    site.services.subscriptions.update_folders(ann, feed_id, add=(new.id,))
    page.get_by_role("checkbox", name="Other").uncheck()
    expect(page.locator("#folders-chosen")).to_have_text("New, Typed")


def test_all_switches_of_rules_that_wait_are_sent_when_the_page_is_left(
    site: Site, visit: Visit, ann: Actor, eventually: Eventually
) -> None:
    ids = [site.services.rules.save(ann, Rule(0, f"R{n}", f"word{n}", star=True)).id for n in range(6)]
    page = visit(login="ann", routes=True)
    page.goto("/settings/rules")
    held = hold(page, "**/switch")
    with page.expect_request("**/switch"):
        page.locator(f"#turn-{ids[0]}").click()
    for number in ids[1:]:
        page.locator(f"#turn-{number}").click()
    page.goto("about:blank")

    def is_sent() -> bool:
        return not any(rule.enabled for rule in site.services.rules.list_rules(ann).rules[1:])

    eventually(is_sent, message="some were lost")
    assert held


def test_a_mark_that_is_taken_back_on_its_way_is_sent_after_it(
    site: Site, visit: Visit, ann: Actor, eventually: Eventually
) -> None:
    subscribe(site, ann, 3)
    page = visit(login="ann", routes=True)
    posts: list[str] = []
    page.on(
        "request",
        lambda request: posts.append(request.url) if request.url.endswith("/entries/mark") else None,
    )
    held = hold(page, "**/entries/mark")
    page.keyboard.press("n")
    with page.expect_request("**/entries/mark"):
        page.keyboard.press("m")
    page.keyboard.press("m")
    expect(page.locator("#rows .is-read")).to_have_count(0)
    page.evaluate("dispatchEvent(new PageTransitionEvent('pagehide', { persisted: true }))")
    page.evaluate("async () => { await fetch('/healthz'); await fetch('/healthz'); }")
    assert len(posts) == 1, "two servers may handle both at once"
    with page.expect_response("**/entries/mark"):
        held[0].continue_()
    page.goto("about:blank")
    page.goto("/read/all")
    expect(page.locator("#rows .is-read")).to_have_count(0)
    eventually(lambda: len(site.services.sync.list_unread_ids(ann)) == 3, message="the older one stays")


def test_a_page_that_is_kept_says_what_is_not_saved(site: Site, visit: Visit, ann: Actor) -> None:
    subscribe(site, ann, 1)
    page = visit(login="ann", expect="503", routes=True)
    page.route("**/entries/mark", lambda route: route.fulfill(status=503, json={"message": "Away."}))
    page.keyboard.press("n")
    page.keyboard.press("m")
    note = page.locator("#pending")
    expect(note).to_have_text("Offline: 1 change not saved yet")
    with page.expect_response("**/entries/mark"):
        page.evaluate("dispatchEvent(new PageTransitionEvent('pagehide', { persisted: true }))")
    page.evaluate("async () => { await fetch('/healthz'); }")
    expect(note).to_have_text("Offline: 1 change not saved yet")
