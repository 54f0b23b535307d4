"""What does not come, is no more, or came from elsewhere: said, and nothing is lost."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, Route, expect

from app.models.accounts.actor import Actor
from tests.browser.conftest import Site, log_in
from tests.browser.test_list_rules import URLS, read_ones, subscribe
from tests.support.reader import add_user, pull, rss

Visit = Callable[..., Page]


@pytest.fixture
def ann(site: Site) -> Actor:
    return add_user(site.services)


def test_what_does_not_come_is_said_and_nothing_is_lost(site: Site, visit: Visit, ann: Actor) -> None:
    subscribe(site, ann, 3)
    page = visit(login="ann", expect="Failed to fetch", routes=True)
    page.wait_for_load_state("networkidle")
    page.route("**/read/**", lambda route: route.abort())
    page.locator(".tree a[data-feed]").first.click()
    expect(page.locator(".toast")).to_contain_text("Can't reach the server")
    expect(page.locator(".tree a[aria-current]")).to_have_text(re.compile("All entries"))
    expect(page.locator(".pane-list h1")).to_have_text("All entries")
    assert page.url.endswith("/read/all")
    page.keyboard.press("j")
    expect(page.locator("#article")).to_contain_text("Couldn't load this entry.")
    # A load that takes its time is drawn over the panes, which stay where they are.
    page.locator("#stream").evaluate("(stream) => stream.setAttribute('aria-busy', 'true')")
    assert page.locator("#article").evaluate("(pane) => pane.getBoundingClientRect().top") == 0
    page.locator("#stream").evaluate("(stream) => stream.removeAttribute('aria-busy')")
    page.unroute("**/read/**")
    page.get_by_role("button", name="Retry").click()
    expect(page.locator("#entry-title")).to_be_visible()
    expect(page.locator("#stream")).not_to_have_attribute("aria-busy", "true")


def test_who_leaves_before_a_page_is_restored_comes_back_to_its_entry(
    site: Site, visit: Visit, ann: Actor
) -> None:
    subscribe(site, ann, 3)
    page = visit(login="ann", routes=True)
    page.keyboard.press("j")
    expect(page.locator("#entry-title")).to_be_visible()
    opened = page.url
    assert "entry=" in opened
    page.goto("/settings")
    waits: list[Route] = []
    page.route("**/read/all?*snapshot=*", lambda route: waits.append(route))
    with page.expect_request("**/read/all?*snapshot=*"):
        page.go_back()
    page.goto("/settings")
    page.unroute("**/read/all?*snapshot=*")
    page.go_back()
    expect(page.locator("#entry-title")).to_be_visible()
    assert page.url == opened


def test_a_list_that_is_no_more_is_told_of(site: Site, visit: Visit, ann: Actor) -> None:
    subscribe(site, ann, 1)
    gone = subscribe(site, ann, 2, URLS[1])
    page = visit(login="ann", expect="404")
    page.wait_for_load_state("networkidle")
    site.services.subscriptions.unsubscribe(ann, gone)
    page.locator(f".tree a[data-feed='{gone}']").click()
    expect(page.get_by_role("heading", name="Not found")).to_be_visible()
    assert page.url.endswith(f"/read/feed/{gone}")


def test_the_tree_gets_what_came_from_elsewhere(site: Site, visit: Visit, ann: Actor) -> None:
    subscribe(site, ann, 1)
    page = visit(login="ann")
    page.wait_for_load_state("networkidle")
    focused = page.locator(".tree a[href='/read/starred']")
    focused.focus()
    folder = site.services.folders.create(ann, "News")
    other = subscribe(site, ann, 2, URLS[1])
    site.services.subscriptions.update(ann, other, folder_ids=[folder.id])
    _look_again(page)
    expect(page.locator(f".folder a[data-feed='{other}'] b")).to_have_text("2")
    expect(page.locator(f"a[data-folder='{folder.id}'] b")).to_have_text("2")
    expect(page.locator(".tree a[data-all] b")).to_have_text("3")
    expect(focused).to_be_focused()
    expect(page.locator(".tree a[aria-current]")).to_have_count(1)
    expect(page.locator(".tree a[data-all]")).to_have_attribute("aria-current", "page")


def _look_again(page: Page) -> None:
    with page.expect_response("**/api/counts*"):
        _look(page)


def _look(page: Page) -> None:
    """As when somebody looks at the page again."""
    page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")


def _answered(page: Page, held: Route) -> None:
    """Let an answer come, and have its effect."""
    page.evaluate(
        """(url) => addEventListener("htmx:finally:request", ({ detail }) => {
          const { href } = new URL(detail.ctx.request.action, location);
          if (href === url) document.body.dataset.answered = "yes";
        })""",
        held.request.url,
    )
    held.continue_()
    expect(page.locator("body")).to_have_attribute("data-answered", "yes")


def test_names_places_and_ends_of_elsewhere_come_into_the_tree(site: Site, visit: Visit, ann: Actor) -> None:
    one, other = subscribe(site, ann, 1), subscribe(site, ann, 2, URLS[1])
    subscriptions, folders = site.services.subscriptions, site.services.folders
    page = visit(login="ann")
    page.wait_for_load_state("networkidle")
    first = page.locator(f".tree a[data-feed='{one}']")
    # Read to its end it stays, as long as nobody goes elsewhere.
    page.evaluate(
        "(id) => eventrModules.m_treeview.links(`a[data-feed='${id}']`)[0].classList.add('stay')", one
    )
    folder = folders.create(ann, "Empty, so nothing counts it")
    subscriptions.update(ann, other, title="By another name")
    _look_again(page)
    expect(page.locator(f".tree a[data-feed='{other}'] span[dir]")).to_have_text("By another name")
    expect(page.locator(f"a[data-folder='{folder.id}']")).to_be_attached()
    expect(first).to_have_class(re.compile(r"\bstay\b"))
    subscriptions.unsubscribe(ann, other)
    _look_again(page)
    expect(page.locator(f".tree a[data-feed='{other}']")).to_have_count(0)


def test_what_is_open_in_the_tree_is_left_in_peace(site: Site, visit: Visit, ann: Actor) -> None:
    one, folder = subscribe(site, ann, 1), site.services.folders.create(ann, "News")
    page = visit(login="ann", routes=True)
    page.wait_for_load_state("networkidle")
    link, menu = page.locator(f".tree a[data-feed='{one}']"), page.locator(".tree-more .menu-box")
    name = page.locator(f"a[data-folder='{folder.id}'] span")
    link.hover()
    page.locator(".tree-more summary").click()
    asked: list[Route] = []
    page.route("**/read/tree", lambda route: asked.append(route))
    site.services.folders.rename(ann, folder.id, "Later")
    for _ in range(2):  # by the second answer the first one has had its effect
        _look_again(page)
    expect(menu).to_be_visible()
    assert asked == []
    # It comes when what was open is closed; but not over what is opened while it is on its way.
    with page.expect_request("**/read/tree"):
        page.keyboard.press("Escape")
        _look(page)
    link.hover()
    page.locator(".tree-more summary").click()
    _answered(page, asked.pop())
    page.unroute("**/read/tree")
    expect(menu).to_be_visible()
    expect(name).to_have_text("News")
    page.keyboard.press("Escape")
    _look_again(page)
    expect(name).to_have_text("Later")


def test_a_tree_that_is_refused_leaves_the_tree(site: Site, visit: Visit, ann: Actor) -> None:
    one, folder = subscribe(site, ann, 1), site.services.folders.create(ann, "News")
    page = visit(login="ann", routes=True, expect="503")
    page.wait_for_load_state("networkidle")
    refusal = {"status": 503, "content_type": "text/html", "body": "<nav><p>Not now</p></nav>"}
    page.route("**/read/tree", lambda route: route.fulfill(**refusal))
    site.services.folders.rename(ann, folder.id, "Later")
    with page.expect_response("**/read/tree"):
        _look_again(page)
    _look_again(page)
    expect(page.locator(f".tree a[data-feed='{one}']")).to_be_visible()
    expect(page.locator(f"a[data-folder='{folder.id}'] span")).to_have_text("News")
    page.unroute("**/read/tree")


def test_what_is_changed_here_is_not_drawn_anew(site: Site, visit: Visit, ann: Actor) -> None:
    one = subscribe(site, ann, 1)
    page = visit(login="ann")
    link = page.locator(f".tree a[data-feed='{one}']")
    link.evaluate("(link) => { link.sameNode = true; }")
    link.hover()
    page.locator(".tree-more summary").click()
    page.get_by_role("button", name="Rename…").click()
    page.locator("dialog input").fill("Mine")
    page.keyboard.press("Enter")
    expect(page.locator(".toast")).to_be_visible()
    drawn: list[str] = []
    page.on(
        "request", lambda request: drawn.append(request.url) if request.url.endswith("/read/tree") else None
    )
    for _ in range(3):  # by the last answer the others have had their effect
        _look_again(page)
    assert drawn == []
    expect(link.locator("span[dir]")).to_have_text("Mine")
    assert link.evaluate("(link) => link.sameNode")


def test_who_goes_elsewhere_while_more_is_loaded_is_left_there(site: Site, visit: Visit, ann: Actor) -> None:
    one, other = subscribe(site, ann, 60), subscribe(site, ann, 3, URLS[1])
    page = visit(login="ann", routes=True)
    page.locator(f".tree a[data-feed='{one}']").click()
    expect(page.locator(".pane-list h1")).to_have_text("Feed one")
    held: list[Route] = []
    page.route("**/read/feed/*cursor=*", lambda route: held.append(route))
    with page.expect_request("**/read/feed/*cursor=*"):
        page.locator("#rows .row h2 a").nth(49).click()
        page.keyboard.press(".")
    page.locator(f".tree a[data-feed='{other}']").click()
    expect(page.locator(".pane-list h1")).to_have_text("Feed two")
    _answered(page, held[0])
    assert page.url.endswith(f"/read/feed/{other}"), "no entry is open"
    assert read_ones(page) == []


def test_what_is_opened_while_another_list_comes_stays(site: Site, visit: Visit, ann: Actor) -> None:
    subscribe(site, ann, 2)
    other = subscribe(site, ann, 3, URLS[1])
    page = visit(login="ann", routes=True)
    page.wait_for_load_state("networkidle")
    shown, link = page.locator(".pane-list h1"), page.locator(f".tree a[data-feed='{other}']")
    before = shown.text_content() or ""
    held: list[Route] = []
    page.route(f"**/read/feed/{other}*", lambda route: held.append(route))
    with page.expect_request(f"**/read/feed/{other}*"):
        link.click()
    with page.expect_event("requestfailed"):
        page.locator("#rows .row h2 a").first.click()
    expect(page.locator("#entry-title")).to_be_visible()
    expect(shown).to_have_text(before)
    expect(link).not_to_have_attribute("aria-current", "page")
    expect(page.locator(".pane-list")).not_to_have_attribute("aria-busy", "true")
    assert "/read/all?entry=" in page.url
    page.unroute(f"**/read/feed/{other}*")
    page.keyboard.press("Escape")
    expect(page).to_have_url(re.compile("/read/all$"))
    expect(shown).to_have_text(before)


@pytest.mark.parametrize(
    ("key", "asked", "place", "told"),
    [
        ("j", "**/read/feed/*cursor=*", "#rows .end-line", "No more entries"),
        (".", "**/read/feed/*cursor=*", "#rows .end-line", "No more entries"),
        ("2", "**/read/view", "#say", "View changed"),
        ("Shift+A", "**/read/mark-all", ".tree .stay", "Feed one"),
    ],
)
def test_what_was_pressed_before_another_list_was_asked_for_does_not_end_it(
    site: Site, visit: Visit, ann: Actor, key: str, asked: str, place: str, told: str
) -> None:
    one, other = subscribe(site, ann, 60), subscribe(site, ann, 3, URLS[1])
    subscribe(site, ann, 3, "https://three.example/feed")
    site.services.accounts.set_preferences(ann, {"after_mark_all": "next"})
    page = visit(login="ann", routes=True)
    page.locator(f".tree a[data-feed='{one}']").click()
    expect(page.locator(".pane-list h1")).to_have_text("Feed one")
    answers: list[Route] = []
    page.route(asked, lambda route: answers.append(route))
    with page.expect_request(asked):
        page.locator("#rows .row h2 a").nth(49).click()
        expect(page.locator("#entry-title")).to_have_text("one 49")
        page.keyboard.press(key)
    lists: list[Route] = []
    page.route(f"**/read/feed/{other}*", lambda route: lists.append(route))
    with page.expect_request(f"**/read/feed/{other}*"):
        page.locator(f".tree a[data-feed='{other}']").click()
    answers[0].continue_()
    expect(page.locator(place)).to_contain_text(told)
    lists[0].continue_()
    expect(page.locator(".pane-list h1")).to_have_text("Feed two")
    assert page.url.endswith(f"/read/feed/{other}"), "no entry is open"
    page.wait_for_load_state("networkidle")
    expect(page.locator(".pane-list h1")).to_have_text("Feed two")


def test_a_list_waits_for_marks_that_hang_as_for_all_else_and_no_longer(
    site: Site, visit: Visit, ann: Actor
) -> None:
    one, other = subscribe(site, ann, 2), subscribe(site, ann, 3, URLS[1])
    page = visit(login="ann", routes=True)
    # Half a minute of patience is up when the test says so.
    page.add_init_script(
        "AbortSignal.timeout = () => { const end = new AbortController();"
        " addEventListener('patience-ends', () => end.abort()); return end.signal; };"
    )
    page.goto(f"/read/feed/{one}")
    page.route("**/entries/mark", lambda route: None)  # for ever on its way
    with page.expect_request("**/entries/mark"):
        page.keyboard.press("j")
    page.locator(f".tree a[data-feed='{other}']").click()
    expect(page.locator("#stream")).to_have_attribute("aria-busy", "true")
    page.keyboard.press("j")
    # They are tried once more for the list.
    with page.expect_request("**/entries/mark"):
        page.evaluate("dispatchEvent(new Event('patience-ends'))")
    page.evaluate("dispatchEvent(new Event('patience-ends'))")
    expect(page.locator(".pane-list h1")).to_have_text("Feed two")
    expect(page.locator("#entry-title")).to_have_text("two 0")
    expect(page.locator("#pending")).to_contain_text("not saved yet")


def test_marks_made_while_the_account_moves_are_sent_again(site: Site, visit: Visit, ann: Actor) -> None:
    feed = subscribe(site, ann, 2)
    page = visit(login="ann", routes=True, expect="Failed to")
    page.clock.install()
    page.goto(f"/read/feed/{feed}")
    moving = {"error": "moving", "message": "Your account is moving."}
    page.route(
        "**/entries/mark", lambda route: route.fulfill(status=503, headers={"Retry-After": "5"}, json=moving)
    )
    with page.expect_response("**/entries/mark"):
        page.keyboard.press("j")
        page.clock.run_for(600)
    expect(page.locator("#pending")).to_have_text("1 change not saved yet. Your account is moving.")
    page.unroute("**/entries/mark")
    with page.expect_response("**/entries/mark") as saved:
        page.clock.run_for(5_000)
    assert saved.value.ok
    expect(page.locator("#pending")).to_be_hidden()
    entries = site.services.store.database["subscriptions"].find_one(
        {"user_id": ann.user_id, "feed_id": feed}
    )
    assert entries is not None
    assert entries["words"], "it is marked"


def test_a_like_that_is_removed_while_the_account_moves_is_sent_again(
    site: Site, visit: Visit, ann: Actor
) -> None:
    """Likes and shares aren't in the queue of marks."""
    feed = subscribe(site, ann, 2)
    page = visit(login="ann", routes=True, expect="Failed to")
    page.goto(f"/read/feed/{feed}")
    page.locator("#rows .row h2 a").first.click()
    like = page.locator("#share-tools .like")
    like.click()
    expect(like).to_have_attribute("aria-pressed", "true")
    moving = {"error": "moving", "message": "Your account is moving."}
    sent: list[str] = []

    def answer(route: Route) -> None:
        sent.append(route.request.url)
        if len(sent) > 2:
            route.continue_()
        else:
            route.fulfill(status=503, headers={"Retry-After": "0.1"}, json=moving)

    page.route("**/entries/like", answer)
    like.click()
    expect(like).to_have_attribute("aria-pressed", "false")
    assert len(sent) == 3


def test_a_tag_that_is_added_while_the_account_moves_is_sent_again(
    site: Site, visit: Visit, ann: Actor
) -> None:
    feed = subscribe(site, ann, 2)
    page = visit(login="ann", routes=True, expect="Failed to")
    page.goto(f"/read/feed/{feed}")
    page.locator("#rows .row h2 a").first.click()
    expect(page.locator("#entry-title")).to_have_text("one 0")
    moving = {"error": "moving", "message": "Your account is moving."}
    sent: list[str] = []

    def answer(route: Route) -> None:
        sent.append(route.request.url)
        if len(sent) > 2:
            route.continue_()
        else:
            route.fulfill(status=503, headers={"Retry-After": "0.1"}, json=moving)

    page.route("**/entries/tag", answer)
    page.keyboard.press("t")
    page.locator("#tag-name").fill("later")
    page.keyboard.press("Enter")
    expect(page.locator("#tags > a.tag")).to_have_text(["later"])
    expect(page.locator("#rows .row .tag")).to_have_text("later")
    assert len(sent) == 3


def test_the_head_of_a_list_counts_that_list_while_another_one_comes(
    site: Site, visit: Visit, ann: Actor
) -> None:
    one, other = subscribe(site, ann, 2), subscribe(site, ann, 3, URLS[1])
    page = visit(login="ann", routes=True)
    page.goto(f"/read/feed/{one}")
    page.route(f"**/read/feed/{other}*", lambda route: None)  # for ever on its way
    with page.expect_request(f"**/read/feed/{other}*"):
        page.locator(f".tree a[data-feed='{other}']").click()
    first = page.locator("#rows .row").first.get_attribute("data-id") or ""
    site.services.reading.mark(ann, [int(first)], True)
    page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    expect(page.locator("a[data-all] b")).to_have_text("4")
    expect(page.locator("#unread")).to_have_text("1 unread")


def test_who_goes_back_from_a_list_that_has_not_come_stays_where_he_was(
    site: Site, visit: Visit, ann: Actor
) -> None:
    other = subscribe(site, ann, 3)
    page = visit(login="ann", routes=True)
    page.wait_for_load_state("networkidle")
    shown = page.locator(".pane-list h1").text_content() or ""
    page.route(f"**/read/feed/{other}*", lambda route: None)  # for ever on its way
    with page.expect_request(f"**/read/feed/{other}*"):
        page.locator(f".tree a[data-feed='{other}']").click()
    with page.expect_event("requestfailed"):
        page.go_back(wait_until="commit")
    assert page.url.endswith("/read/all")
    expect(page.locator(".pane-list h1")).to_have_text(shown)
    expect(page.locator(f".tree a[data-feed='{other}']")).not_to_have_attribute("aria-current", "page")
    expect(page.locator(".pane-list")).not_to_have_attribute("aria-busy", "true")


def test_keys_are_for_the_list_that_was_asked_for_before_them(site: Site, visit: Visit, ann: Actor) -> None:
    one, other = subscribe(site, ann, 2), subscribe(site, ann, 3, URLS[1])
    page = visit(login="ann", routes=True)
    page.locator(f".tree a[data-feed='{one}']").click()
    expect(page.locator(".pane-list h1")).to_have_text("Feed one")
    held: list[Route] = []
    page.route(f"**/read/feed/{other}*", lambda route: held.append(route), times=1)
    with page.expect_request(f"**/read/feed/{other}*"):
        page.keyboard.press("Shift+J")
    page.keyboard.press("j")
    page.keyboard.press("s")
    held[0].continue_()
    expect(page.locator("#entry-title")).to_have_text("two 0")
    star = page.locator(".row[aria-current]").get_by_role("button", name="Star")
    expect(star).to_have_attribute("aria-pressed", "true")
    with page.expect_request(f"**/read/feed/{one}*"):
        page.keyboard.press("Shift+K")
    with page.expect_request("**/read/mark-all") as marked:
        page.keyboard.press("Shift+A")
    assert f"={one}&" in (marked.value.post_data or "").replace("feed%2F", "")


def _next_list_held(site: Site, visit: Visit, ann: Actor, trouble: str) -> tuple[Page, list[Route]]:
    """Open an entry of a feed, ask for the list of the next one and hold the answer back."""
    one, other = subscribe(site, ann, 2), subscribe(site, ann, 3, URLS[1])
    page = visit(login="ann", expect=trouble, routes=True)
    page.locator(f".tree a[data-feed='{one}']").click()
    page.keyboard.press("j")
    expect(page.locator("#entry-title")).to_have_text("one 0")
    held: list[Route] = []
    page.route(f"**/read/feed/{other}*", lambda route: held.append(route), times=1)
    with page.expect_request(f"**/read/feed/{other}*"):
        page.keyboard.press("Shift+J")
    return page, held


@pytest.mark.parametrize("keys", [("Shift+A",), ("j", "Shift+S"), ("j", "y"), ("m",)])
def test_keys_for_a_list_that_is_refused_change_nothing(
    site: Site, visit: Visit, ann: Actor, keys: tuple[str, ...]
) -> None:
    page, held = _next_list_held(site, visit, ann, "503")
    posts: list[str] = []
    page.on("request", lambda request: posts.append(request.url) if request.method == "POST" else None)
    for key in keys:
        page.keyboard.press(key)
    with page.expect_navigation():
        held[0].fulfill(status=503, body="<p>no</p>", content_type="text/html")
    page.wait_for_load_state("networkidle")
    assert [url for url in posts if "/api/live" not in url] == []
    expect(page.locator(".toast")).to_have_count(0)


@pytest.mark.parametrize("key", ["Shift+S", "e"])
def test_a_key_whose_script_comes_later_than_the_loss_of_its_list_changes_nothing(
    site: Site, visit: Visit, ann: Actor, key: str
) -> None:
    page, held = _next_list_held(site, visit, ann, "Failed to fetch")
    scripts: list[str] = []
    page.on("request", lambda request: scripts.append(request.url) if "/static/" in request.url else None)
    page.keyboard.press("j")
    page.keyboard.press(key)
    held[0].abort()
    expect(page.locator(".toast")).to_contain_text("Can't reach the server")
    page.wait_for_load_state("networkidle")
    assert scripts == []
    with page.expect_request("**/static/*.js"):
        page.keyboard.press(key)


def test_the_key_that_shares_is_for_the_entry_that_was_asked_for(
    site: Site, visit: Visit, ann: Actor
) -> None:
    subscribe(site, ann, 3)
    page = visit(login="ann", routes=True)
    page.keyboard.press("j")
    expect(page.locator("#entry-title")).to_have_text("one 0")
    held: list[Route] = []
    page.route("**/read/all?entry=*", lambda route: held.append(route), times=1)
    with page.expect_request("**/read/all?entry=*"):
        page.keyboard.press("j")
    page.keyboard.press("Shift+S")
    with page.expect_response("**/entries/share"):
        held[0].continue_()
    expect(page.locator("#entry-title")).to_have_text("one 1")
    expect(page.locator("#article")).to_contain_text("You shared this")


@pytest.mark.parametrize(("key", "script"), [("Shift+S", "share"), ("y", "entry"), ("t", "tags")])
@pytest.mark.parametrize("then", ["entry", "list"])
def test_a_key_whose_script_comes_late_is_not_for_the_entry_that_is_chosen_by_then(
    site: Site, visit: Visit, ann: Actor, key: str, script: str, then: str
) -> None:
    subscribe(site, ann, 3)
    other = subscribe(site, ann, 2, URLS[1])
    page = visit(login="ann", routes=True)
    page.goto("/read/all?sort=oldest")
    page.keyboard.press("j")
    expect(page.locator("#entry-title")).to_have_text("one 2")
    held: list[Route] = []
    posts: list[str] = []
    page.on("request", lambda request: posts.append(request.url) if "/entries/share" in request.url else None)
    page.route(f"**/static/{script}.*.js", lambda route: held.append(route))
    with page.expect_request(f"**/static/{script}.*.js"):
        page.keyboard.press(key)
    page.route(f"**/read/feed/{other}*", lambda route: held.append(route), times=1)
    if then == "entry":
        page.keyboard.press("j")
        expect(page.locator("#entry-title")).to_have_text("one 1")
    else:
        with page.expect_request(f"**/read/feed/{other}*"):
            page.locator(f".tree a[data-feed='{other}']").click()
        page.keyboard.press("j")
    for route in held:
        route.continue_()
    expect(page.locator(".toast")).to_have_text("Nothing changed: another entry is selected now.")
    expect(page.locator("#entry-title")).to_have_text("one 1" if then == "entry" else "two 0")
    expect(page.locator("#tag-name")).to_be_hidden()
    page.wait_for_load_state("networkidle")
    assert posts == []
    if key == "Shift+S":
        page.keyboard.press(key)
        expect(page.locator("#article")).to_contain_text("You shared this")


@pytest.mark.parametrize("way", ["key", "link"])
def test_an_entry_that_is_closed_while_another_list_comes(
    site: Site, visit: Visit, ann: Actor, way: str
) -> None:
    """The key is for the list that comes, which has no entry open; the link is one of what is there."""
    one, other = subscribe(site, ann, 2), subscribe(site, ann, 3, URLS[1])
    page = visit(login="ann", size=(390, 800), routes=True)
    page.goto(f"/read/feed/{one}")
    page.locator("#rows .row h2 a").first.click()
    expect(page.locator("#entry-title")).to_have_text("one 0")
    held: list[Route] = []
    page.route(f"**/read/feed/{other}*", lambda route: held.append(route), times=1)
    with page.expect_request(f"**/read/feed/{other}*"):
        page.keyboard.press("Shift+J")
    if way == "key":
        page.keyboard.press("Escape")
        held[0].continue_()
    else:
        with page.expect_event("requestfailed"):
            page.get_by_role("link", name="Back to the list").click()
    expect(page.locator(".pane-list h1")).to_have_text("Feed two" if way == "key" else "Feed one")
    expect(page.locator(".reader")).to_have_attribute("data-pane", "list")
    expect(page).to_have_url(re.compile(f"/read/feed/{other if way == 'key' else one}$"))


def test_keys_are_for_the_entry_that_was_asked_for_before_them(site: Site, visit: Visit, ann: Actor) -> None:
    subscribe(site, ann, 3)
    page = visit(login="ann", routes=True)
    page.keyboard.press("j")
    expect(page.locator("#entry-title")).to_have_text("one 0")
    held: list[Route] = []
    page.context.route("https://site.example/*", lambda route: route.fulfill(body="The original"))
    page.route("**/read/all?entry=*", lambda route: held.append(route), times=2)
    with page.expect_request("**/read/all?entry=*"):
        page.keyboard.press("j")
    page.keyboard.press("v")
    page.keyboard.press("t")
    # What is asked for instead is meant, too.
    with page.expect_request("**/read/all?entry=*"):
        page.keyboard.press("j")
    expect(page.locator("#entry-title")).to_have_text("one 0")
    assert len(page.context.pages) == 1
    with page.expect_popup() as opened:
        held[1].continue_()
    expect(opened.value).to_have_url("https://site.example/2")
    opened.value.close()
    expect(page.locator("#entry-title")).to_have_text("one 2")
    expect(page.locator("#tag-name")).to_be_focused()


def test_keys_for_an_entry_that_does_not_come_do_nothing(site: Site, visit: Visit, ann: Actor) -> None:
    subscribe(site, ann, 3)
    page = visit(login="ann", expect="Failed to fetch", routes=True)
    page.keyboard.press("j")
    expect(page.locator("#entry-title")).to_have_text("one 0")
    held: list[Route] = []
    page.route("**/read/all?entry=*", lambda route: held.append(route), times=1)
    with page.expect_request("**/read/all?entry=*"):
        page.keyboard.press("j")
    page.keyboard.press("t")
    held[0].abort()
    page.get_by_role("button", name="Retry").click()
    expect(page.locator("#entry-title")).to_have_text("one 1")
    expect(page.locator("#tag-name")).not_to_be_visible()


def test_keys_for_a_list_that_does_not_come_change_nothing(site: Site, visit: Visit, ann: Actor) -> None:
    one, other = subscribe(site, ann, 2), subscribe(site, ann, 3, URLS[1])
    page = visit(login="ann", expect="Failed to fetch", routes=True)
    page.locator(f".tree a[data-feed='{one}']").click()
    expect(page.locator(".pane-list h1")).to_have_text("Feed one")
    held: list[Route] = []
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.route(f"**/read/feed/{other}*", lambda route: held.append(route))
    with page.expect_request(f"**/read/feed/{other}*"):
        page.keyboard.press("Shift+J")
    page.keyboard.press("Shift+A")
    held[0].abort()
    expect(page.locator(".toast")).to_contain_text("Can't reach the server")
    page.keyboard.press("m")  # with nothing chosen: by then what waited would have been done
    page.evaluate("new Promise(requestAnimationFrame)")
    assert not [url for url in asked if "mark" in url]
    assert page.url.endswith(f"/read/feed/{one}")


def test_the_next_unread_entry_is_looked_for_once_where_nothing_answers(
    site: Site, visit: Visit, ann: Actor
) -> None:
    one, other = subscribe(site, ann, 1), subscribe(site, ann, 3, URLS[1])
    page = visit(login="ann", expect="Failed to fetch", routes=True)
    page.locator(f".tree a[data-feed='{one}']").click()
    expect(page.locator(".pane-list h1")).to_have_text("Feed one")
    page.keyboard.press(".")
    expect(page.locator("#entry-title")).to_have_text("one 0")
    tried: list[Route] = []

    def fail(route: Route) -> None:
        tried.append(route)
        route.abort()

    page.route(f"**/read/feed/{other}*", fail)
    page.keyboard.press(".")
    expect(page.locator(".toast")).to_contain_text("Can't reach the server")
    with page.expect_request(f"**/read/feed/{other}*"):
        page.keyboard.press("Shift+J")
    assert len(tried) <= 2


def test_tags_that_are_late_do_not_come_to_the_next_entry(site: Site, visit: Visit, ann: Actor) -> None:
    subscribe(site, ann, 2)
    page = visit(login="ann", routes=True)
    held: list[Route] = []
    page.route("**/entries/tag", lambda route: held.append(route))
    page.keyboard.press("j")
    expect(page.locator("#entry-title")).to_have_text("one 0")
    page.keyboard.press("t")
    page.locator("#tag-name").fill("late")
    with page.expect_request("**/entries/tag"):
        page.keyboard.press("Enter")
    page.locator("#rows .row h2 a").nth(1).click()
    expect(page.locator("#entry-title")).to_have_text("one 1")
    held[0].continue_()
    expect(page.locator("#say")).to_have_text("late")
    expect(page.locator("#rows .row").first.locator(".tag")).to_have_text("late")
    assert page.locator("#article .tags > a.tag").count() == 0
    entry = page.locator("#rows .row").nth(1).get_attribute("data-id")
    assert page.locator("#tags [name=entry]").input_value() == entry
    expect(page.locator("#tag-name")).to_be_hidden()


def test_news_of_a_list_that_was_left_are_not_told_in_the_next(site: Site, visit: Visit, ann: Actor) -> None:
    one, other = subscribe(site, ann, 2), subscribe(site, ann, 2, URLS[1])
    page = visit(login="ann", routes=True)
    page.locator(f".tree a[data-feed='{one}']").click()
    expect(page.locator(".pane-list h1")).to_have_text("Feed one")
    page.wait_for_load_state("networkidle")
    items = [(f"one {n}", "<p>x</p>") for n in range(3)]
    pull(site.services, [one], {URLS[0]: rss("Feed one", items)})
    held: list[Route] = []
    page.route("**/api/counts*", lambda route: held.append(route), times=1)
    with page.expect_request("**/api/counts*"):
        page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    page.locator(f".tree a[data-feed='{other}']").click()
    expect(page.locator(".pane-list h1")).to_have_text("Feed two")
    held[0].continue_()
    expect(page.locator(f".tree a[data-feed='{one}'] b")).to_have_text("3")
    expect(page.locator("#newbar")).to_be_hidden()


def test_each_key_that_is_pressed_while_more_is_loaded_is_a_step(
    site: Site, visit: Visit, ann: Actor
) -> None:
    subscribe(site, ann, 60)
    page = visit(login="ann", routes=True)
    held: list[Route] = []
    page.route("**/read/all?*cursor=*", lambda route: held.append(route))
    with page.expect_request("**/read/all?*cursor=*"):
        page.locator("#rows .row h2 a").nth(49).click()
    expect(page.locator("#entry-title")).to_have_text("one 49")
    page.keyboard.press("j")
    page.keyboard.press("j")
    held[0].continue_()
    expect(page.locator("#rows .row")).to_have_count(60)
    expect(page.locator("#rows .row[aria-current] h2")).to_contain_text("one 51")
    expect(page.locator("#entry-title")).to_have_text("one 51")


def test_of_settings_that_are_saved_again_and_again_the_last_ones_stay(
    site: Site, visit: Visit, ann: Actor, eventually: Callable[..., object]
) -> None:
    page = visit(login="ann", routes=True)
    page.goto("/settings/reading")
    held: list[Route] = []
    page.route("**/settings/reading", lambda route: held.append(route), times=1)
    for words in ("Compact", "Cozy", "Cards"):
        page.get_by_text(words, exact=True).click()
    held[0].continue_()

    def density() -> str:
        user = site.services.gateways.accounts.find_user(ann.user_id)
        return user.preferences.density if user else ""

    eventually(lambda: page.evaluate("true") and density() == "card", message="it was left out")


def test_marks_of_a_session_that_ended_wait_for_the_next_one(site: Site, visit: Visit, ann: Actor) -> None:
    subscribe(site, ann, 3)
    page = visit(login="ann", expect="Failed to")
    page.locator("#rows .row").first.wait_for()
    kept = "Object.keys(localStorage).filter((key) => key.startsWith('eventr.waiting.')).length"
    # Logged out and in again in another tab: this page has the token of the session before.
    other = page.context.new_page()
    other.goto(f"{site.url}/read/all")
    other.locator(".you summary").click()
    other.locator('form[action="/logout"] button').click()
    other.wait_for_url("**/")
    page.keyboard.press("n")
    with page.expect_response("**/entries/star"):
        page.keyboard.press("s")
    expect(page.locator(".toast")).to_contain_text("Log in first")
    assert page.evaluate(kept) == 1
    # The page that is loaded then sends what waits.
    with other.expect_response(lambda answer: answer.url.endswith("/entries/star") and answer.ok):
        log_in(other, "ann")
    with page.expect_response("**/entries/mark"):
        page.keyboard.press("m")
    expect(page.locator(".toast").last).to_contain_text("has expired")
    assert page.evaluate(kept) == 1
    with page.expect_response(lambda answer: answer.url.endswith("/entries/mark") and answer.ok):
        page.reload()
    page.wait_for_function(f"({kept}) === 0")
    expect(page.locator(".row [aria-pressed='true']")).to_have_count(1)


def test_of_a_session_that_ended_is_told_once_and_it_is_not_asked_again_by_itself(
    site: Site, visit: Visit, ann: Actor
) -> None:
    subscribe(site, ann, 3)
    page = visit(login="ann", expect="Failed to")
    page.clock.install()
    page.goto("/read/all")
    page.locator("#rows .row").first.wait_for()
    other = page.context.new_page()
    other.goto(f"{site.url}/read/all")
    other.locator(".you summary").click()
    other.locator('form[action="/logout"] button').click()
    other.wait_for_url("**/")
    tried: list[str] = []
    page.on("request", lambda request: tried.append(request.url) if "/entries/mark" in request.url else None)

    def sent(change: Callable[[], object]) -> None:
        with page.expect_response("**/entries/mark"):
            change()
            page.clock.run_for(600)

    def looked_at() -> None:
        page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")

    page.keyboard.press("n")
    sent(lambda: page.keyboard.press("m"))
    toasts = page.locator(".toast", has_text="Log in first.")
    expect(toasts).to_have_count(1)
    expect(page.locator("#pending")).to_have_text("1 change not saved yet. Log in first.")
    page.clock.run_for(20_000)
    expect(toasts).to_have_count(0)
    page.clock.run_for(120_000)
    sent(looked_at)
    assert len(tried) == 2
    expect(page.locator(".toast")).to_have_count(0)
    log_in(other, "ann")
    sent(looked_at)
    expect(page.locator(".toast")).to_have_text("This page has expired. Reload it and try again.")
    expect(page.locator("#pending")).to_contain_text("1 change not saved yet. This page has expired.")
    page.clock.run_for(120_000)
    assert len(tried) == 3
    page.reload()
    expect(page.locator("#pending")).to_be_hidden()
    expect(page.locator("#rows .row.is-read")).to_have_count(1)


def test_what_one_may_not_do_is_taken_back(site: Site, visit: Visit, ann: Actor) -> None:
    subscribe(site, ann, 1)
    page = visit(login="ann", expect="403", routes=True)
    refusal = {"error": "forbidden", "message": "You may not."}
    page.route("**/entries/star", lambda route: route.fulfill(status=403, json=refusal))
    page.keyboard.press("n")
    page.keyboard.press("s")
    expect(page.locator(".toast")).to_have_text("Couldn't save your change. You may not.")
    star = page.locator(".row").get_by_role("button", name="Star")
    expect(star).to_have_attribute("aria-pressed", "false")
    expect(page.locator("#pending")).to_be_hidden()


def test_a_list_that_waits_is_silent_where_nothing_answers(site: Site, visit: Visit, ann: Actor) -> None:
    feed = site.services.subscriptions.subscribe(ann, URLS[0]).subscription.feed_id
    page = visit(login="ann", expect="Failed to")
    page.clock.install()
    page.goto(f"/read/feed/{feed}")
    page.locator("#waiting").wait_for()
    page.wait_for_load_state("networkidle")
    page.context.set_offline(True)
    for _ in range(3):
        with page.expect_event("requestfailed", lambda request: f"/read/feed/{feed}" in request.url):
            page.clock.run_for(2000)
    page.evaluate("new Promise((resolve) => setTimeout(resolve)) && 1")
    expect(page.locator(".toast")).to_have_count(0)
    page.context.set_offline(False)
    pull(site.services, [feed], {URLS[0]: rss("Feed one", [("one 0", "<p>x</p>")])})
    with page.expect_response(f"**/read/feed/{feed}*"):
        page.clock.run_for(2000)
    expect(page.locator("#rows .row")).to_have_count(1)
    expect(page.locator(f".tree a[data-feed='{feed}']")).to_contain_text("Feed one")


def test_counts_whose_answer_is_cut_off_are_asked_again(site: Site, visit: Visit, ann: Actor) -> None:
    feed = subscribe(site, ann, 1)
    page = visit(login="ann", routes=True)
    page.clock.install()
    page.goto("/read/all")
    expect(page.locator("#unread")).to_have_text("1 unread")
    count = page.locator(f".tree a[data-feed='{feed}'] b")
    expect(count).to_have_text("1")
    pull(site.services, [feed], {URLS[0]: rss("Feed one", [("one 0", "<p>x</p>"), ("one 1", "<p>y</p>")])})
    page.route("**/api/counts*", lambda route: route.fulfill(body='{"total": 2, "fee'), times=1)
    with page.expect_response("**/api/counts*"):
        page.clock.run_for(61_000)
    expect(count).to_have_text("1")
    page.clock.run_for(61_000)
    expect(count).to_have_text("2")


def test_the_same_words_are_told_once(site: Site, visit: Visit, ann: Actor) -> None:
    subscribe(site, ann, 1)
    page = visit(login="ann", expect="Failed to fetch", routes=True)
    page.route("**/read/mark-all", lambda route: route.abort())
    for _ in range(3):
        with page.expect_event("requestfailed"):
            page.keyboard.press("Shift+A")
        expect(page.locator(".toast")).to_have_text("Can't reach the server. Check your connection.")
    # What can be taken back is told each time.
    page.unroute("**/read/mark-all")
    page.keyboard.press("Shift+A")
    expect(page.locator(".toast button")).to_have_count(1)


def test_what_a_form_sends_into_the_void_is_said(site: Site, visit: Visit, ann: Actor) -> None:
    page = visit(login="ann", expect="Failed to")
    page.goto("/settings/reading")
    page.wait_for_load_state("networkidle")
    page.context.set_offline(True)
    page.get_by_text("Compact", exact=True).click()
    expect(page.locator("#o-density .unsaved")).to_contain_text("Can't reach the server")


def test_z_takes_back_the_star_that_came_last(site: Site, visit: Visit, ann: Actor) -> None:
    subscribe(site, ann, 3)
    page = visit(login="ann")
    page.keyboard.press("n")
    page.keyboard.press("m")
    star = page.locator(".row[aria-current] form[data-act='star'] button")
    page.keyboard.press("s")
    expect(star).to_have_attribute("aria-pressed", "true")
    page.keyboard.press("z")
    expect(star).to_have_attribute("aria-pressed", "false")
    expect(page.locator(".row[aria-current]")).to_have_class(re.compile("read"))


def test_keys_that_open_take_the_focus_along_or_tell_the_title(site: Site, visit: Visit, ann: Actor) -> None:
    subscribe(site, ann, 4)
    page = visit(login="ann")
    page.locator(".row h2 a").nth(1).click()
    expect(page.locator("#entry-title")).to_have_text("one 1")
    page.keyboard.press("j")
    expect(page.locator("#entry-title")).to_have_text("one 2")
    expect(page.locator(".row[aria-current] a").first).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator(".row[aria-current]")).to_contain_text("one 2")
    page.locator(".tree a[data-all]").focus()
    page.keyboard.press("j")
    expect(page.locator("#say")).to_have_text("one 3")
    expect(page.locator(".tree a[data-all]")).to_be_focused()
