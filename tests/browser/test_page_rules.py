"""Rules of all pages beside the reader: titles in one place, forms of one width, questions before deeds."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Page, expect

from app import clock
from app.config import Settings
from tests.browser.conftest import PHONE, Site, log_in
from tests.browser.screens import SCREENS, Screen
from tests.support import demo

Visit = Callable[..., Page]
#: Pages of text and forms, of one who is logged in.
PAGES = (
    "add",
    "admin-feeds",
    "admin-job",
    "admin-jobs",
    "admin-media",
    "admin-moderation",
    "admin-server",
    "admin-user",
    "admin-users",
    "apps-clients",
    "feed",
    "import-report",
    "imports",
    "lists",
    "notifications",
    "pack",
    "packs",
    "people",
    "report",
    "rule",
    "save",
    "settings-account",
    "settings-apps",
    "settings-files",
    "settings-notifications",
    "settings-privacy",
    "settings-reading",
    "settings-sessions",
    "settings-sharing",
    "share-target",
    "statistics",
    "subscriptions",
    "tags",
    "welcome",
)
#: Pixels from the top of the window to a title, by what stands above it.
TITLE, BELOW_NAVIGATION = (36, 48), (80, 130)
#: The widest field of a form, in pixels. Fields above tables filter them.
FIELD = 690
#: Ends of addresses that take something away.
AWAY = re.compile(r"/(remove|revoke|delete|drop|unsubscribe|disable|dismiss|statistics)$")
#: Those that need no question: each can be undone or done again, or takes nothing that is not elsewhere.
MILD = re.compile(
    r"/imports/\d+/unsubscribe|/imports/lists/\d+/delete|/settings/(avatar|devices)/remove"
    r"|/tags/\d+/delete|/searches/\d+/delete|/folders/\d+/delete|/people/dismiss"
    r"|/admin/moderation/dismiss|/admin/users/\d+/disable"
)


@pytest.fixture
def settings(settings: Settings) -> Settings:
    """Sessions that outlive the clock of these tests, and short lists."""
    return dataclasses.replace(settings, session_idle=10**9, session_max=10**9, page_size=8)


@pytest.fixture(autouse=True)
def _then() -> Iterator[None]:
    with clock.set_source(lambda: demo.NOW):
        yield


def _show(page: Page, filled: demo.Demo) -> Iterator[Screen]:
    for screen in SCREENS:
        if screen.name in PAGES:
            with screen.shown(page, filled):
                yield screen


@pytest.mark.parametrize("language", ["en", "ar"])
def test_what_unfolds_has_our_chevron(site: Site, visit: Visit, language: str) -> None:
    filled = demo.fill(site.services)
    site.services.accounts.set_preferences(filled.ann, {"language": language})
    page = visit(login="ann", language=language)
    for path in (
        f"/feeds/{next(iter(filled.feeds.values()))}",
        "/settings/statistics",
        "/settings/account",
        "/people",
    ):
        page.goto(path)
        folds = page.locator("main summary:not([class], :has(svg))")
        looks = folds.evaluate_all(
            """(all) => all.map((one) => [getComputedStyle(one).listStyleType,
                getComputedStyle(one, "::before").inlineSize, getComputedStyle(one, "::before").rotate])"""
        )
        assert looks, path
        assert {tuple(look[:2]) for look in looks} == {("none", "8px")}
        assert {look[2] for look in looks} <= {"-45deg", "45deg"}
        shut = page.locator("main details:not([open]) > summary:not([class], :has(svg))").first
        turn = shut.evaluate("(one) => getComputedStyle(one, '::before').rotate")
        assert turn == ("45deg" if language == "ar" else "-45deg")


@pytest.mark.long
def test_pages_have_one_place_for_titles_one_width_of_forms_and_ask_before_they_delete(
    site: Site, visit: Visit
) -> None:
    filled = demo.fill(site.services)
    page = visit()
    log_in(page, "ann")
    page.set_viewport_size({"width": 1440, "height": 900})
    wrong: list[str] = []
    for screen in _show(page, filled):
        title = page.locator("h1:visible")
        expect(title).to_have_count(1)
        top = title.evaluate("(h1) => h1.getBoundingClientRect().top + scrollY")
        low, high = BELOW_NAVIGATION if page.locator(".admin-nav").count() else TITLE
        if not low <= top <= high:
            wrong.append(f"{screen.name}: the title is at {top}")
        widths = page.locator("main .field > .input:visible").evaluate_all(
            "(all) => all.map((one) => one.getBoundingClientRect().width)"
        )
        if max(widths, default=0) > FIELD:
            wrong.append(f"{screen.name}: a field is {max(widths)} wide")
        actions = page.locator("main form[method=post]").evaluate_all(
            "(all) => all.filter((one) => !one.closest('details:not(.menu)'))"
            ".map((one) => one.getAttribute('action'))"
        )
        wrong += [f"{screen.name}: {a} doesn't ask" for a in actions if AWAY.search(a) and not MILD.match(a)]
    assert not wrong, "\n".join(wrong)


def test_question_opens_and_answers_by_keyboard(site: Site, visit: Visit) -> None:
    """Turning the statistics off deletes them: Enter opens the question, Tab leads to its answer."""
    demo.fill(site.services)
    page = visit()
    log_in(page, "ann")
    page.goto("/settings/statistics")
    yes = page.get_by_role("button", name="Turn off and delete", exact=True)
    expect(yes).to_be_hidden()
    page.locator(".ask summary").focus()
    page.keyboard.press("Enter")
    expect(yes).to_be_visible()
    page.get_by_text("Cancel", exact=True).click()
    expect(yes).to_be_hidden()
    page.keyboard.press("Enter")
    expect(page.get_by_text("It can't be undone.")).to_be_visible()
    page.keyboard.press("Tab")
    expect(yes).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("form[action='/settings/statistics'] [name=on]")).to_have_value("1")


#: Whether what has the focus shows it, itself or by what is drawn for it, and is not below something else.
_SEEN = """() => {
    const one = document.activeElement;
    const drawn = [one, one.nextElementSibling, one.closest("label"), one.parentElement].filter(Boolean);
    const marked = drawn.some((part) => {
        const style = getComputedStyle(part);
        const outlined = style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 1.5;
        return outlined || style.boxShadow !== "none";
    });
    const name = one.outerHTML.slice(0, 100);
    if (!marked) return `no mark: ${name}`;
    const box = (one.closest("label") ?? one).getBoundingClientRect();
    if (box.bottom < 1 || box.top > innerHeight - 1) return `out of sight: ${name}`;
    const x = Math.min(Math.max(box.left + box.width / 2, 1), innerWidth - 2);
    // Of a box that is taller than the window, the browser brings any part into sight.
    const edge = Math.min(Math.max(box.top + Math.min(box.height / 2, 20), 1), innerHeight - 2);
    const y = box.height > innerHeight ? innerHeight / 2 : edge;
    const top = document.elementFromPoint(x, y);
    const related = top && (one.contains(top) || top.contains(one) || one.closest("label")?.contains(top)
        || top.closest("label")?.contains(one) || one.parentElement.contains(top));
    return related ? "" : `covered by ${top?.outerHTML.slice(0, 60)}: ${name}`;
}"""
#: Controls of a page that are tried: the rows of long tables repeat the same.
_TRIED = 45


@pytest.mark.long
@pytest.mark.parametrize("size", [(1440, 900), (640, 512)], ids=["wide", "200%"])
def test_each_control_is_reached_by_keyboard_and_shows_its_focus(
    site: Site, visit: Visit, size: tuple[int, int]
) -> None:
    filled = demo.fill(site.services)
    page = visit(size=size, touch=False)
    log_in(page, "ann")
    wrong: list[str] = []
    for screen in _show(page, filled):
        page.evaluate("document.activeElement?.blur()")
        page.locator("#main").focus()
        reached = 0
        for _step in range(_TRIED):
            page.keyboard.press("Tab")
            if not page.evaluate("document.activeElement.closest('main') !== null"):
                break
            reached += 1
            fault = page.evaluate(_SEEN)
            wrong += [f"{screen.name}: {fault}"] if fault else []
        assert reached, screen.name
    assert not wrong, "\n".join(sorted(set(wrong)))


def test_folds_have_the_height_of_their_kind(site: Site, visit: Visit) -> None:
    filled = demo.fill(site.services)
    page = visit(login="ann", size=PHONE, touch=True)
    for path, fold in (
        (f"/feeds/{min(filled.feeds.values())}", ".pick > summary"),
        (f"/feeds/{min(filled.feeds.values())}", "details.fold > summary"),
        ("/settings/keys", ".key-rows summary"),
    ):
        page.goto(path)
        box = page.locator(fold).first.bounding_box()
        assert box, fold
        assert box["height"] >= 44, (fold, box)


def test_refused_field_is_ready_and_its_heading_has_no_ring(site: Site, visit: Visit) -> None:
    demo.fill(site.services)
    page = visit(login="ann", size=PHONE, expect="400")
    page.goto("/settings/sending")
    page.locator("#f-kind").select_option("gotify")
    page.locator("#f-address").fill("https://push.example.org")
    page.locator("form[action^='/settings/sending#'] .btn.primary").click()
    expect(page.locator("#f-secret")).to_be_focused()
    expect(page.locator("#f-secret")).to_be_in_viewport()
    assert page.locator("#new-service:target").evaluate("(e) => getComputedStyle(e).outlineStyle") == "none"


def test_question_comes_into_sight_above_the_tabs(site: Site, visit: Visit) -> None:
    demo.fill(site.services)
    page = visit(size=PHONE, touch=True)
    log_in(page, "ann")
    page.goto("/settings/statistics")
    page.locator(".ask summary").evaluate("(one) => one.scrollIntoView({ block: 'end' })")
    page.locator(".ask summary").click()
    yes, tabs = page.get_by_role("button", name="Turn off and delete", exact=True), page.locator(".tabs")
    expect(yes).to_be_visible()
    page.wait_for_function(
        "([yes, tabs]) => yes.getBoundingClientRect().bottom <= tabs.getBoundingClientRect().top",
        arg=[yes.element_handle(), tabs.element_handle()],
    )
