"""The screens of administrators in a browser: figures that move, charts, and all of it without scripts."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable

import pytest
from playwright.sync_api import FloatRect, Locator, Page, expect

from app import clock
from app.bootstrap.services import Services
from app.models.accounts.actor import Role
from tests.browser.conftest import PHONE, Site, log_in
from tests.browser.test_keys import stop_clock
from tests.support import demo, operations, social
from tests.support.reader import add_user, elsewhere

Visit = Callable[..., Page]


@pytest.fixture
def root(site: Site) -> str:
    add_user(site.services, "root", Role.ADMIN)
    return "root"


def _fill(services: Services) -> str:
    return elsewhere(lambda: operations.fill(services, clock.now()))


def test_the_overview_moves_and_says_when_it_does_not(site: Site, visit: Visit, root: str) -> None:
    page = visit(login=root, expect="503", routes=True)
    page.clock.install()
    page.goto("/admin")
    expect(page.locator("#live-state")).to_have_text("Updates every 5 seconds")
    expect(page.get_by_text("No queue manager is running")).to_be_visible()
    expect(page.locator("#chart-rate .key b")).to_have_text("0")
    page.get_by_text("Show the last hour as a table").click()
    _fill(site.services)
    page.clock.run_for(5000)
    # What changed is there; what was opened stays open, and nothing was loaded anew.
    expect(page.get_by_text("No queue manager is running")).to_have_count(0)
    expect(page.get_by_role("region", name="Workers on farm")).to_contain_text("feeds.pull_system")
    expect(page.locator("#chart-rate .key b")).not_to_have_text("0")
    expect(page.get_by_role("region", name="Last hour", exact=True)).to_contain_text("70%")
    # Light becomes dark: the lines are drawn anew in the other colours.
    _differ(page)
    page.route("**/admin/figures", lambda route: route.fulfill(status=503, body="{}"))
    page.clock.run_for(5000)
    expect(page.locator("#live-state.off")).to_have_text("Can't load the figures. Retrying…")
    page.unroute("**/admin/figures")
    page.clock.run_for(5000)
    expect(page.locator("#live-state.on")).to_have_text("Updates every 5 seconds")


def _differ(page: Page) -> None:
    """Expect the colours of a chart to change with those of the page."""
    drawn = "document.querySelector('#chart-rate canvas').toDataURL()"
    before = page.evaluate(drawn)
    page.emulate_media(color_scheme="dark")
    page.wait_for_function(f"(before) => {drawn} !== before", arg=before)


def test_nobody_looks_nothing_is_asked(site: Site, visit: Visit, root: str) -> None:
    page = visit(login=root)
    stop_clock(page)
    page.goto("/admin")
    expect(page.locator("#live-state.on")).to_be_visible()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.evaluate("Object.defineProperty(document, 'hidden', { value: true, configurable: true })")
    page.clock.run_for(20_000)
    # The tree joins the events of all pages; figures are only asked for where someone looks.
    assert not [url for url in asked if "/admin" in url]


def test_without_scripts_everything_is_a_table_or_a_form(site: Site, visit: Visit, root: str) -> None:
    dead = _fill(site.services)
    add_user(site.services, "bob")
    page = visit(login=root, js=False)
    page.goto("/admin")
    expect(page.get_by_role("region", name="Queues")).to_contain_text("feed-pull-sys")
    expect(page.get_by_role("region", name="Last 48 hours")).to_be_visible()
    expect(page.locator(".chart.day")).to_be_visible()
    expect(page.locator(".plot")).to_have_count(6)
    expect(page.locator(".plot").first).to_be_hidden()
    page.get_by_role("link", name="Jobs", exact=True).click()
    row = page.get_by_role("row").filter(has_text=re.compile("^maintenance"))
    row.locator("summary").click()
    row.get_by_role("button", name="Pause").click()
    expect(page.get_by_text("Queue maintenance paused")).to_be_visible()
    page.goto(f"/admin/jobs/{dead}")
    page.get_by_role("button", name="Retry").click()
    expect(page.get_by_text("Retrying 1 job")).to_be_visible()
    page.get_by_text("Retry or delete all").click()
    page.get_by_label(re.compile("Yes, apply to all 2")).check()
    page.get_by_role("button", name="Delete all").click()
    expect(page.get_by_text("2 jobs deleted")).to_be_visible()
    page.get_by_role("link", name="Users").click()
    page.get_by_role("link", name="bob").click()
    page.get_by_role("button", name="Make admin").click()
    expect(page.get_by_text("This user is now an admin")).to_be_visible()
    page.get_by_role("button", name="Create password link").click()
    expect(page.get_by_label(re.compile("Password link"))).to_have_value(re.compile(r"/new-password\?token="))


def test_large_words_fit_a_phone(site: Site, visit: Visit, root: str) -> None:
    """WCAG 1.4.10 with words that are long and at 200 %."""
    who = add_user(site.services, "long", Role.ADMIN)
    site.services.accounts.set_preferences(who, {"language": "ru"})
    page = visit(login="long", size=PHONE)
    for path in ("", "/feeds", "/users", "/jobs", "/settings", "/moderation"):
        page.goto(f"/admin{path}")
        page.evaluate("document.documentElement.style.fontSize = '200%'")
        assert page.evaluate("document.documentElement.scrollWidth") <= PHONE[0], path


def test_tables_of_a_phone_are_whole_and_name_their_columns(site: Site, visit: Visit, root: str) -> None:
    _fill(site.services)
    page = visit(login=root, size=PHONE)
    for path, region in (("", "Queues"), ("", "Workers on farm"), ("/users", "Users"), ("/jobs", "Running")):
        page.goto(f"/admin{path}")
        table = page.get_by_role("region", name=region)
        expect(table).to_be_visible()
        assert table.evaluate("(e) => e.scrollWidth <= e.clientWidth"), region
        bare = table.locator("tbody td:not([data-label], .state)")
        expect(bare).to_have_count(0)
        expect(table.locator("tbody td:visible").first).to_be_visible()


def test_a_queue_on_a_phone_shows_its_state_and_no_zeros(site: Site, visit: Visit, root: str) -> None:
    _fill(site.services)
    page = visit(login=root, size=PHONE)
    page.goto("/admin")
    rows = page.get_by_role("region", name="Queues").locator("tbody tr")
    idle, paused = rows.filter(has_text="suspects"), rows.filter(has_text="import")
    assert idle.inner_text().split() == ["suspects"]
    assert paused.inner_text().split() == ["import", "paused"]
    # The badge stays on the line of its queue.
    heights = [row.evaluate("(e) => e.offsetHeight") for row in (idle, paused)]
    assert max(heights) - min(heights) <= 1, heights


@pytest.mark.parametrize("js", [True, False])
def test_settings_of_the_server_are_found_while_one_types(visit: Visit, root: str, js: bool) -> None:
    page = visit(login=root, js=js)
    page.goto("/admin/settings")
    rows = page.locator(".settings li")
    field = page.get_by_role("searchbox", name="Search settings")
    field.press_sequentially("legal_url")
    if not js:
        page.get_by_role("button", name="Show", exact=True).click()
    expect(rows).to_have_count(1)
    expect(rows).to_contain_text("EVENTR_LEGAL_URL")
    expect(field).to_have_value("legal_url")
    page.get_by_label("Settings to show").select_option("Changed from default")
    if not js:
        page.get_by_role("button", name="Show", exact=True).click()
    expect(page.get_by_text("No setting matches this filter.")).to_be_visible()
    field.fill("")
    if not js:
        page.get_by_role("button", name="Show", exact=True).click()
    expect(rows.filter(has_text="EVENTR_SECRET_KEY")).to_have_count(1)
    expect(page.locator(".settings .changed")).to_have_count(rows.count())


def test_a_new_invite_is_shown_at_once_with_a_button_to_copy_it(visit: Visit, root: str) -> None:
    page = visit(login=root, size=PHONE)
    page.goto("/admin/users")
    page.get_by_role("button", name="Create invite link").click()
    link = page.get_by_label("Invite link")
    expect(link).to_be_in_viewport()
    expect(page.get_by_role("button", name="Copy")).to_be_in_viewport()
    expect(page.get_by_role("navigation", name="Admin").locator("[aria-current]")).to_have_text("Users")


def test_failed_jobs_are_before_queues_whose_switches_are_in_a_menu(
    site: Site, visit: Visit, root: str
) -> None:
    _fill(site.services)
    page = visit(login=root)
    page.goto("/admin/jobs")
    titles = page.locator("main h2").all_inner_texts()
    assert titles.index("Failed jobs") < titles.index("Running") < titles.index("Queues")
    table = page.get_by_role("region", name="Queues")
    expect(table.get_by_role("button", name="Drain")).to_have_count(0)
    for row in (table.locator("tbody tr").first, table.locator("tbody tr").last):
        row.locator(".menu > summary").click()
        button = row.get_by_role("button", name="Drain")
        expect(button).to_be_visible()
        page.keyboard.press("Escape")
        expect(button).to_be_hidden()
    row.locator(".menu > summary").click()
    button.click()
    expect(row.get_by_text("draining")).to_be_visible()


#: The left edges of the cells of each column.
_EDGES = """(rows) => {
    const columns = [];
    for (const row of rows)
        for (const [at, cell] of [...row.cells].entries())
            (columns[at] ??= new Set()).add(Math.round(cell.getBoundingClientRect().left));
    return columns.map((edges) => [...edges]);
}"""


def test_feeds_have_their_facts_in_columns_and_the_order_beside_the_search(site: Site, visit: Visit) -> None:
    demo.fill(site.services)
    page = visit()
    log_in(page, "ann")
    page.set_viewport_size({"width": 1440, "height": 900})
    page.goto("/admin/feeds")
    rows = page.locator(".feed-lines tbody tr")
    edges = rows.evaluate_all(_EDGES)
    assert len(edges) == 5
    assert all(len(column) == 1 for column in edges), edges
    assert page.get_by_role("columnheader").all_inner_texts() == [
        "Feed",
        "Subscribers",
        "Fetched",
        "Next check",
    ]
    well = page.locator(".feed-lines tbody tr:not(:has(.bad))")
    assert max(well.evaluate_all("(all) => all.map((one) => one.offsetHeight)")) <= 60
    search, order = page.get_by_role("searchbox"), page.locator(".order > summary")
    assert _box(search)["y"] == _box(order)["y"]
    ends = [box["x"] + box["width"] for box in (_box(order), _box(page.locator(".feed-lines")))]
    assert abs(ends[0] - ends[1]) <= 1, ends
    name = rows.first.get_by_role("link").first
    expect(name).to_have_css("text-decoration-line", "none")
    name.hover()
    expect(name).to_have_css("text-decoration-line", "underline")
    page.goto("/admin/feeds?show=errors")
    expect(rows.first.get_by_text(re.compile("internal error"))).to_be_visible()
    rows.first.locator(".menu > summary").click()
    expect(rows.first.get_by_role("button", name="Clear error")).to_be_in_viewport()


@pytest.mark.parametrize("language", ["en", "de", "ru", "ar"])
def test_a_phone_shows_feeds_below_one_line_each_of_tabs_search_and_filters(
    site: Site, visit: Visit, language: str
) -> None:
    filled = demo.fill(site.services)
    site.services.accounts.set_preferences(filled.ann, {"language": language})
    now = clock.now()
    times = {"checked_at": now - dt.timedelta(minutes=46), "next_check_at": now + dt.timedelta(minutes=57)}
    site.services.store.database["feeds"].update_many({}, {"$set": times})
    page = visit(size=(390, 844))
    log_in(page, "ann")
    page.goto("/admin/feeds")
    first = page.locator(".feed-lines tbody tr").first
    assert _box(first.locator(".name"))["y"] <= 330
    tops = page.locator(".find-line :is(.input, .btn)").evaluate_all(
        "(all) => all.map((one) => one.getBoundingClientRect().top)"
    )
    assert len(tops) == 3
    assert len(set(tops)) == 1, tops
    if language == "en":
        expect(page.locator(".order > summary")).to_have_accessible_name("Sort by: Newest first")
        expect(first.locator("td:visible").first).to_have_text(re.compile("1 subscriber"))
        expect(first).to_contain_text(re.compile(r"fetched 4\d min ago.*next in 5\d min", re.DOTALL))
    # What is in a fact is never on two lines, nor are the facts.
    facts = page.locator(".feed-lines tbody tr").evaluate_all(
        """(rows) => rows.slice(0, 20).map((row) => [...row.cells].slice(1, -1).map((cell) => {
            const { top, height } = cell.getBoundingClientRect();
            return [Math.round(top), Math.round(height)];
        }))"""
    )
    wrong = [row for row in facts if len({tuple(fact) for fact in row}) > 1 or row[0][1] > 24]
    assert not wrong, wrong
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


@pytest.mark.parametrize("language", ["en", "ar"])
def test_tabs_of_a_phone_are_one_line_with_the_current_one_in_sight(
    site: Site, visit: Visit, language: str
) -> None:
    who = add_user(site.services, "some", Role.ADMIN)
    site.services.accounts.set_preferences(who, {"language": language})
    page = visit(login="some", size=PHONE)
    for path in ("", "/feeds", "/moderation", "/settings", "/settings?show=changed#settings"):
        page.goto(f"/admin{path}")
        tabs = page.locator(".admin-nav a")
        tops = tabs.evaluate_all("(all) => all.map((one) => one.offsetTop)")
        assert len(set(tops)) == 1, path
        current = page.locator(".admin-nav [aria-current]")
        page.wait_for_function(
            """() => { const { left, right } = document.querySelector(".admin-nav [aria-current]")
                .getBoundingClientRect(); return left >= 0 && right <= innerWidth }"""
        )
        # An arrow at each end that has more.
        row = page.locator(".admin-nav")
        (before, after) = {"": (0, 1), "/feeds": (0, 1), "/moderation": (1, 1)}.get(path, (1, 0))
        expect(page.locator(".admin-nav[data-before]")).to_have_count(before)
        expect(page.locator(".admin-nav[data-after]")).to_have_count(after)
        for end, shown in (("::before", before), ("::after", after)):
            style = row.evaluate("(one, end) => getComputedStyle(one, end).visibility", end)
            assert style == ("visible" if shown else "hidden"), (path, end)
        if "#" not in path:
            expect(current).to_be_in_viewport(ratio=1)
            assert page.evaluate("scrollY") == 0


def _box(one: Locator) -> FloatRect:
    box = one.bounding_box()
    assert box
    return box


@pytest.mark.parametrize("size", [(1440, 900), PHONE])
def test_a_report_says_what_is_wrong_and_shows_it_and_what_cannot_be_undone_is_last(
    site: Site, visit: Visit, size: tuple[int, int]
) -> None:
    social.around(demo.fill(site.services))
    add_user(site.services, "boss", Role.ADMIN)
    page = visit(size=size)
    log_in(page, "ann")
    page.goto("/admin/moderation")
    # Nobody suspends themselves.
    expect(page.locator(".case").first.locator(".decide .btn:visible")).to_contain_text(
        ["View account", "Dismiss", "Remove share…"]
    )
    gone = page.locator(".suspended li").first
    expect(gone.locator(".av")).to_be_visible()
    expect(gone.get_by_role("link", name="gwen")).to_have_attribute("href", re.compile("/admin/users/[0-9]+"))
    page = visit(login="boss", size=size)
    page.goto("/admin/moderation")
    case = page.locator(".case").first
    # Who it is, what the account does, and the way to its page.
    expect(case.locator(".standing")).to_have_text(re.compile(r"Joined .+ · \d+ shares? · \d+ followers?"))
    expect(case.locator("h2 a")).to_have_attribute("href", "/@ann")
    face, heading = _box(case.locator(".accused .av")), _box(case.locator("h2"))
    assert face["width"] == face["height"] == 44
    assert face["x"] + face["width"] < heading["x"]
    assert abs(face["y"] - heading["y"]) <= 4
    # The complaint, then what it is about, with its picture.
    complaint, picture = case.get_by_text("This picture is mine."), case.locator(".reported .thumb")
    expect(picture).to_be_visible()
    expect(case.locator(".reported .when")).to_have_text(re.compile(r"Shared \d+ \w+ \d{4}, \d\d:\d\d"))
    assert _box(picture)["width"] >= 100
    tops = [
        _box(one)["y"] for one in (case.get_by_text("Something else"), complaint, case.locator(".reported"))
    ]
    assert tops == sorted(tops)
    lines = case.locator(".excerpt").evaluate(
        "(e) => e.offsetHeight / parseFloat(getComputedStyle(e).lineHeight)"
    )
    assert round(lines) <= 3
    shown = case.locator(".decide .btn:visible")
    assert [text.strip() for text in shown.all_inner_texts()] == [
        "View account",
        "Dismiss",
        "Remove share…",
        "Suspend account…",
    ]
    view, dismiss, remove, suspend = (_box(one) for one in shown.all())
    if size == PHONE:
        assert len({round(one["width"]) for one in (view, dismiss, remove, suspend)}) == 1
        assert view["y"] == dismiss["y"] < remove["y"] == suspend["y"]
        assert (view["x"], dismiss["x"]) == (remove["x"], suspend["x"])
    else:
        near, far = (b["x"] - a["x"] - a["width"] for a, b in ((view, dismiss), (dismiss, remove)))
        assert far >= 3 * near
    # Profiles have no share to remove.
    other = page.locator(".case").nth(1).locator(".decide .btn:visible")
    assert [text.strip() for text in other.all_inner_texts()] == [
        "View account",
        "Dismiss",
        "Suspend account…",
    ]
    case.get_by_text("Remove share…").click()
    expect(case.get_by_role("button", name="Remove share", exact=True)).to_be_visible()
