"""Back shows a page at once as it was, and never one of a session that has ended (W18).

Playwright turns this off in Chromium; here it is on.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from app.models.reading.stream import StreamQuery, StreamRef
from app.services.accounts.sign_in import Client
from app.web.security.kept_pages import get_mark_name
from tests.browser.conftest import Site, recognised, watched
from tests.conftest import CHROMIUM_ARGS
from tests.support.reader import PASSWORD, add_user, follow

Open = Callable[..., Page]
SHOWN = "() => getComputedStyle(document.documentElement).visibility === 'visible'"


@pytest.fixture(scope="module")
def keeping(chromium: Browser, chromium_path: str) -> Iterator[Browser]:
    """A browser that keeps pages, as people use it: built without windows, Chromium keeps none."""
    with contextlib.closing(
        chromium.browser_type.launch(
            executable_path=chromium_path,
            args=CHROMIUM_ARGS,
            ignore_default_args=["--disable-back-forward-cache"],
        )
    ) as browser:
        yield browser


@pytest.fixture
def open_page(keeping: Browser, site: Site) -> Iterator[Open]:
    """``open_page(expect=, js=, size=)``: a page of Ann's, whose next pages may be kept."""
    with contextlib.ExitStack() as stack:

        def start(expect: str = "", *, js: bool = True, size: tuple[int, int] = (1440, 900)) -> Page:
            context = keeping.new_context(
                base_url=site.url,
                java_script_enabled=js,
                viewport={"width": size[0], "height": size[1]},
                reduced_motion="reduce",
            )
            stack.callback(context.close)
            context.set_default_timeout(60_000)
            page = context.new_page()
            stack.callback(watched(page, js=js, expect=expect))
            recognised(page, site, "ann")
            page.goto("/read/all")
            return page

        yield start


@pytest.fixture
def ann(site: Site) -> None:
    follow(site.services, add_user(site.services), ["feeds/rss/zerokspot.com-71d236.xml"])


def _go(page: Page, path: str) -> None:
    """Open a page, and leave a sign in it that only a kept page still has."""
    page.goto(path)
    page.evaluate("() => { window.kept = true; }")


def _back(page: Page) -> bool:
    """Go back; whether the page was kept. A kept page has no ``load``, for which Playwright would wait."""
    page.go_back(wait_until="commit")
    page.wait_for_function("() => document.readyState === 'complete'")
    return bool(page.evaluate("() => window.kept === true"))


@pytest.mark.usefixtures("ann")
@pytest.mark.parametrize("size", [(390, 844), (720, 900), (1024, 768), (1440, 900)])
def test_back_shows_the_page_as_it_was(open_page: Open, size: tuple[int, int]) -> None:
    page = open_page(size=size)
    _go(page, "/read/all")
    page.evaluate("() => document.querySelector('#rows').scrollIntoView()")
    seen: list[str] = []
    page.goto("/settings")
    page.on("request", lambda request: seen.append(request.resource_type))
    assert _back(page)
    page.wait_for_function(SHOWN)
    expect(page.locator("#rows .row").first).to_be_attached()
    assert "document" not in seen


@pytest.mark.usefixtures("ann")
def test_W18_after_logging_out_back_asks_to_log_in(open_page: Open) -> None:
    page = open_page(expect="401")
    _go(page, "/read/all")
    page.goto("/settings/account")
    page.locator("form[action='/logout'] button").first.evaluate("(button) => button.form.submit()")
    page.wait_for_url("**/")
    page.evaluate("() => history.go(-2)")
    page.locator("[name=password]").wait_for()
    assert page.evaluate("() => window.kept") is None
    expect(page.locator("#rows")).to_have_count(0)


@pytest.mark.usefixtures("ann")
def test_W18_a_kept_page_is_hidden_until_its_session_is_known(open_page: Open) -> None:
    """What someone could see before a script runs is nothing."""
    page = open_page()
    _go(page, "/read/all")
    page.evaluate(
        """() => addEventListener("pagehide", () => {
             const row = document.querySelector("#rows .row");
             sessionStorage.setItem("seen", getComputedStyle(row).visibility);
           })"""
    )
    page.goto("/settings")
    assert page.evaluate("() => sessionStorage.getItem('seen')") == "hidden"


@pytest.mark.usefixtures("ann")
def test_W18_a_session_ended_on_another_device_ends_kept_pages(site: Site, open_page: Open) -> None:
    page = open_page(expect="Failed to load resource")
    _go(page, "/read/all")
    page.goto("/settings")
    other = site.services.sign_in.log_in("ann", PASSWORD, Client("127.0.0.1", "Another browser"))
    found = site.services.sign_in.resume(other)
    assert found
    site.services.accounts.end_other_sessions(found[1].actor, found[0])
    # Offline, the page can't know; it goes with the next contact.
    page.context.set_offline(True)
    assert _back(page)
    page.wait_for_function(SHOWN)
    page.context.set_offline(False)
    page.locator("[name=password]").wait_for()
    expect(page.locator("#rows")).to_have_count(0)


@pytest.mark.usefixtures("ann")
def test_W18_another_person_sees_nothing_of_the_one_before(site: Site, open_page: Open) -> None:
    add_user(site.services, "bob")
    page = open_page(expect="40")
    _go(page, "/read/all")
    page.goto("/settings")
    page.context.clear_cookies(name=get_mark_name(secure=False))
    recognised(page, site, "bob")
    assert not _back(page)
    expect(page.locator("#rows .row")).to_have_count(0)


@pytest.mark.usefixtures("ann")
def test_W18_without_scripts_nothing_is_seen_after_logging_out(open_page: Open) -> None:
    """There the browser itself forgets the page, as it may store none and the cookies have changed."""
    page = open_page(js=False)
    page.goto("/read/all")
    expect(page.locator("#rows .row").first).to_be_attached()
    page.goto("/read/starred")
    page.locator(".you summary").click()
    page.locator("form[action='/logout'] button").first.click()
    page.wait_for_url("**/")
    for _ in range(2):
        page.go_back(wait_until="commit")
        page.locator("[name=password]").wait_for()
        expect(page.locator("#rows")).to_have_count(0)


@pytest.mark.usefixtures("ann")
def test_a_change_elsewhere_loads_the_page_again(open_page: Open) -> None:
    page = open_page()
    _go(page, "/read/all")
    page.goto("/settings/display")
    page.evaluate(
        """() => fetch("/folders", { method: "POST", headers: { Accept: "application/json",
             "X-CSRF-Token": document.querySelector('meta[name="csrf-token"]').content },
             body: new URLSearchParams({ name: "News" }) })"""
    )
    assert not _back(page)
    expect(page.locator("#tree")).to_contain_text("News")


def test_marks_made_elsewhere_appear_in_the_kept_page(site: Site, open_page: Open) -> None:
    actor = add_user(site.services)
    feed = follow(site.services, actor, ["feeds/rss/zerokspot.com-71d236.xml"])[0]
    page = open_page()
    _go(page, "/read/all")
    count, own = page.locator(".tree a[data-all] b"), page.locator(f'.tree a[href="/read/feed/{feed}"] b')
    expect(count).not_to_have_text("")
    expect(own).to_have_text(count.inner_text())
    page.goto("/settings")
    site.services.marking.mark_feeds(actor, [feed])
    assert _back(page)
    expect(count).to_have_text("")
    expect(own).to_have_text("")
    # And forth and back again: the entry that was read there counts here as well.
    entry = site.services.reading.load_page(actor, StreamQuery(StreamRef.parse("all"))).rows[0].id
    page.goto("/settings")
    site.services.reading.mark(actor, [entry], False)
    assert _back(page)
    expect(own).to_have_text("1")
    expect(count).to_have_text("1")


@pytest.mark.usefixtures("ann")
def test_what_plays_goes_on_in_a_new_page(open_page: Open) -> None:
    page = open_page()
    _go(page, "/read/all")
    page.goto("/settings")
    page.evaluate("() => sessionStorage.setItem('eventr.player', 'null')")
    assert not _back(page)


@pytest.mark.usefixtures("ann")
def test_W18_no_page_comes_out_of_the_cache_of_answers(site: Site, visit: Callable[..., Page]) -> None:
    """Without kept pages, Back asks the server, even though the page may be stored."""
    page = visit(login="ann")
    page.goto("/read/all")
    answer = page.reload()
    assert answer
    assert answer.headers["cache-control"] == "private, no-cache"
    page.goto("/settings")
    seen: list[str] = []
    page.on("response", lambda answer: seen.append(answer.url) if not answer.from_service_worker else None)
    with page.expect_response(lambda answer: answer.url.endswith("/read/all")) as found:
        page.go_back()
    assert found.value.request.resource_type == "document"
    assert not found.value.request.timing["responseEnd"] < 0
    assert page.evaluate("() => performance.getEntriesByType('navigation')[0].transferSize") > 0
