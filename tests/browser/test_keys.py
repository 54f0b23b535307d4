"""Each key of the table pressed for real; and where, when and on which boards keys are quiet or others."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, Route, expect

from app.models.accounts.actor import Actor, Role
from app.models.sharing.sharing import Audience
from app.web.keyboard import keys, names
from tests.browser.conftest import Site
from tests.support.reader import add_user, pull, rss

Visit = Callable[..., Page]
Step = Callable[["Desk"], None]
NAMES = ("one", "two", "three")


@pytest.fixture
def ann(site: Site) -> Actor:
    """A user with the feeds one (folder A), two (folder B), three (no folder), six unread entries each."""
    actor = add_user(site.services)
    folders = [site.services.folders.create(actor, name).id for name in ("Folder A", "Folder B")]
    urls = [f"https://{name}.example/feed" for name in NAMES]
    ids = [
        site.services.subscriptions.subscribe(actor, url, folder_id=folder).subscription.feed_id
        for url, folder in zip(urls, (*folders, None), strict=True)
    ]
    texts = "<p>Words and words of it.</p>" * 60
    bodies = {
        url: rss(f"Feed {name}", [(f"{name} {n}", texts) for n in range(6)])
        for url, name in zip(urls, NAMES, strict=True)
    }
    pull(site.services, ids, bodies)
    return actor


def press(page: Page, key: str) -> None:
    """Press a key as the table writes it; of two strokes the second one is in time on any machine."""
    strokes = names.split_strokes(key)
    if len(strokes) > 1:
        stop_clock(page)
    for stroke in strokes:
        page.keyboard.press(re.sub(r"^Ctrl\+(.)", lambda m: f"Control+{m[1].lower()}", stroke))
    if len(strokes) > 1:
        page.clock.resume()


class Desk:
    """A page and what its checks compare with."""

    def __init__(self, page: Page, eventually: Callable[..., object]) -> None:
        self.page, self.eventually = page, eventually
        self.titles = page.eval_on_selector_all(
            "#rows .row h2 a", "(all) => all.map((a) => a.lastChild.textContent.trim())"
        )
        self.pressed: dict[str, int] = {}

    def press(self, action: str) -> None:
        row = keys.ROWS[action]
        at = self.pressed[action] = self.pressed.get(action, -1) + 1
        press(self.page, row.keys[at % len(row.keys)])

    def shows(self, selector: str, text: str) -> None:
        expect(self.page.locator(selector)).to_have_text(text)

    def opened(self, number: int) -> None:
        self.shows("#entry-title", self.titles[number])

    def chosen(self, number: int) -> None:
        expect(self.page.locator("#rows .row").nth(number)).to_have_attribute("aria-current", "true")

    def read(self, number: int, yes: bool = True) -> None:
        row = expect(self.page.locator("#rows .row").nth(number))
        (row.to_have_class if yes else row.not_to_have_class)(re.compile("is-read"))

    def undone(self, number: int) -> None:
        expect(self.page.locator(".toast button").last).to_be_visible()
        press(self.page, "z")
        self.read(number, False)

    def focused(self, text: str) -> None:
        expect(self.page.locator(".tree a:focus span")).to_have_text(text)

    def at(self, path: str) -> None:
        expect(self.page).to_have_url(re.compile(f"{path}$"))
        self.page.wait_for_load_state()
        expect(self.page.locator("html.js")).to_be_attached()


def _entries(d: Desk) -> None:
    page = d.page
    for action, number in (("next", 0), ("next", 1), ("previous", 0)):
        d.press(action)
        d.opened(number)
    d.press("down")
    d.chosen(1)
    d.opened(0)
    d.press("up")
    d.chosen(0)
    d.press("close")
    expect(page.locator("#article")).to_contain_text("No entry selected")
    page.evaluate("document.activeElement.blur()")
    d.press("open")
    d.opened(0)
    d.press("open")  # Enter
    expect(page.locator("#article")).to_contain_text("No entry selected")
    d.press("next")
    d.opened(1)
    for action in ("original", "original-background"):
        with page.context.expect_page() as other:
            d.press(action)
        assert other.value.url.startswith(("https://site.example/", "chrome-error:", "about:"))
        other.value.close()
    d.press("tag")
    expect(page.locator("#tag-name")).to_be_focused()
    expect(page.locator("#tag-name")).to_have_value("")
    page.keyboard.press("Escape")
    expect(page.locator("#tag-name")).to_be_hidden()
    page.evaluate("document.activeElement.blur()")  # on its menu's button, Space is the button's
    d.press("star")
    expect(page.locator("#article form[data-act=star] button")).to_have_attribute("aria-pressed", "true")


def _marks(d: Desk) -> None:
    d.press("read")
    d.read(1, False)
    d.press("undo")
    d.read(1)
    d.press("read")
    d.read(1, False)
    d.press("undo")  # Ctrl+Z
    d.read(1)
    for _ in range(2):
        press(d.page, "n")
    d.press("hide")
    hidden = d.page.locator("#rows .row").filter(has_text=d.titles[3])
    expect(hidden).to_have_count(0)
    d.chosen(3)  # the next one
    expect(d.page.locator(".toast").last).to_contain_text("Entry hidden")
    press(d.page, "z")
    expect(hidden).to_have_count(1)
    d.read(3, False)
    press(d.page, "p")
    d.press("mark-above")
    d.read(2)
    d.read(3, False)
    d.undone(2)
    d.press("mark-below")
    d.read(4)
    d.undone(4)
    for _ in range(2):
        press(d.page, "p")
    d.press("mark-all")
    expect(d.page.locator(".toast").last).to_contain_text("16 entries marked as read")
    d.undone(5)


def _passing_on(d: Desk) -> None:
    page = d.page
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.evaluate("HTMLAnchorElement.prototype.click = function () { window.letter = this.href; }")
    d.press("mail")
    d.eventually(lambda: page.evaluate("window.letter"))
    title, number = d.titles[1].replace(" ", "%20"), d.titles[1][-1]
    letter = f"mailto:?subject={title}&body=https%3A%2F%2Fsite.example%2F{number}"
    assert page.evaluate("window.letter") == letter
    d.press("copy-link")
    expect(page.locator(".toast", has_text="Link copied")).to_be_visible()
    assert page.evaluate("navigator.clipboard.readText()") == f"https://site.example/{number}"
    page.evaluate("delete HTMLAnchorElement.prototype.click")


def _paging(d: Desk) -> None:
    top = "document.getElementById('article').scrollTop"
    assert d.page.evaluate(top) == 0
    d.press("page")
    d.eventually(lambda: d.page.evaluate(top) > 100)
    d.press("page-back")
    d.eventually(lambda: d.page.evaluate(top) == 0)
    d.press("next-unread")
    d.opened(2)
    d.press("full-text")
    expect(d.page.get_by_role("button", name="Full text")).to_be_disabled()


def _screen(d: Desk) -> None:
    tree, rows, article = (d.page.locator(f".pane-{name}") for name in ("tree", "list", "article"))
    feeds = d.page.locator("#feeds")
    d.press("tree")
    expect(feeds).to_be_hidden()
    d.press("tree")
    expect(feeds).to_be_visible()
    d.press("full-screen")
    expect(tree).to_be_hidden()
    expect(rows).to_be_hidden()
    expect(article).to_be_visible()
    assert article.evaluate("(pane) => pane.clientWidth") == 1440
    press(d.page, "Escape")
    expect(rows).to_be_visible()
    d.opened(2)
    for action, size in (("text-larger", 19), ("text-larger", 20), ("text-smaller", 19)):
        d.press(action)
        expect(d.page.locator("html")).to_have_attribute("data-text-size", str(size))
    expect(d.page.locator(".prose")).to_have_css("font-size", "19px")
    d.press("theme-next")
    expect(d.page.locator("html")).to_have_attribute("data-theme", "light")
    d.press("look-text")
    expect(d.page.locator("#look")).to_be_visible()
    press(d.page, "Escape")
    expect(d.page.locator("#look")).to_be_hidden()
    d.opened(2)
    with d.page.expect_response("**/refresh"):
        d.press("refresh")


def _tree(d: Desk) -> None:
    folder = d.page.locator(".folder").first.locator("> details:not(.menu)")
    words = d.page.locator(".tree a > span").all_inner_texts()
    press(d.page, "u")  # hidden, the tree comes back
    start, at = words.index("All entries"), words.index("Folder A")
    for text in (*words[start + 1 : at + 1], "Feed one"):
        d.press("tree-next")
        d.focused(text)
    d.press("tree-previous")
    d.focused("Folder A")
    d.press("tree-expand")
    expect(folder).not_to_have_attribute("open", "")
    d.press("tree-next")
    d.focused("Folder B")
    d.press("tree-previous")
    d.press("tree-expand")
    expect(folder).to_have_attribute("open", "")
    d.press("tree-open")
    d.shows(".pane-list h1", "Folder A")
    d.focused("Folder A")
    for action, text in (
        ("next-folder", "Folder B"),
        ("next-folder", "Folder A"),  # round and round
        ("previous-folder", "Folder B"),
        ("previous-folder", "Folder A"),
        ("next-feed", "Feed one"),
        ("next-feed", "Feed two"),
        ("previous-feed", "Feed one"),
    ):
        d.press(action)
        d.shows(".pane-list h1", text)


def _views(d: Desk) -> None:
    for action, view in (("view-list", "list"), ("view-expanded", "expanded")):
        d.press(action)
        expect(d.page.locator(".pane-list")).to_have_attribute("data-view", view)
    press(d.page, "j")
    d.chosen(0)
    with d.page.context.expect_page() as other:
        press(d.page, "v")
    other.value.close()
    press(d.page, "y")
    link = f"https://site.example/{d.page.locator('#rows .row h2').first.inner_text()[-1]}"
    d.eventually(lambda: d.page.evaluate("navigator.clipboard.readText()") == link)
    d.press("view-panes")
    expect(d.page.locator(".pane-list")).to_have_attribute("data-view", "panes")


def _places(d: Desk) -> None:
    page = d.page
    d.press("help")
    expect(page.locator("#help")).to_be_visible()
    page.keyboard.press("j")
    expect(page.get_by_role("searchbox")).to_have_value("j")
    page.keyboard.press("Escape")
    page.keyboard.press("Escape")
    expect(page.locator("#help")).to_be_hidden()
    d.shows(".pane-list h1", "Feed one")
    for _ in "gu", "Ctrl+K":
        d.press("jump")
        expect(page.locator("#jump")).to_be_visible()
        page.keyboard.press("Escape")
        expect(page.locator("#jump")).to_be_hidden()
    for action, path in (
        ("go-all", "/read/all"),
        ("go-starred", "/read/starred"),
        ("go-recent", "/read/recent"),
        ("go-today", "/read/today"),
        ("go-home", "/read/all"),
        ("go-settings", "/settings"),
        ("go-tags", "/tags"),
        ("go-following", "/read/following"),
        ("go-shares", "/read/shares"),
        ("go-people", "/people"),
        # by each of its keys, and not from there: it would be seen before its page is loaded anew
        ("go-discover", "/discover"),
        ("go-notifications", "/notifications"),
        ("go-discover", "/discover"),
        # who has no page yet is shown where it is made
        ("go-profile", "/settings/sharing"),
        ("search", "/search"),
        # and the same from a screen that is not the reader
        ("go-starred", "/read/starred"),
        ("add", "/add"),
    ):
        d.press(action)
        d.at(path)
        for field in page.locator("[autofocus]").all():
            expect(field).to_be_focused()  # it takes the focus when the page is first painted
        page.evaluate("document.activeElement.blur()")


def _sharing(d: Desk) -> None:
    page = d.page
    page.goto("/read/all")
    press(page, "j")
    expect(page.locator("#share-tools .like")).to_be_visible()
    d.press("share-note")
    expect(page.locator(".share-box textarea")).to_be_focused()
    page.keyboard.press("Escape")
    d.press("share")
    expect(page.locator("#share")).to_contain_text("You shared this")
    d.press("like")
    expect(page.locator("#share-tools form[action='/entries/like'] button")).to_have_attribute(
        "aria-pressed", "true"
    )
    d.press("comment")
    expect(page.locator("#talk textarea")).to_be_focused()
    page.keyboard.press("Escape")
    d.press("comments")
    expect(page.locator("#talk-title")).to_be_focused()
    d.press("chain")
    page.wait_for_url("**/chain")


SCENES: tuple[Step, ...] = (
    *(_entries, _marks, _passing_on, _paging, _screen, _tree, _views, _places),
    _sharing,
)


PLAYER = ("play", "play-back", "play-forward")


@pytest.mark.long
def test_each_key_of_the_table_does_what_it_says(
    site: Site, visit: Visit, ann: Actor, eventually: Callable[..., object]
) -> None:
    desk = Desk(visit(login="ann", whole=True), eventually)
    for scene in SCENES:
        scene(desk)
    # The player's keys need a recording: test_player.py presses them.
    for action, row in keys.ROWS.items():
        assert action in PLAYER or desk.pressed.get(action, -1) + 1 >= len(row.keys), action
    eventually(lambda: site.services.gateways.accounts.find_user(ann.user_id).preferences.text_size == 19)


# -- quiet, other, none
#: A press as a keyboard of another layout, an input method or a speech program sends it.
_SEND = """([key, code, more]) => document.activeElement.dispatchEvent(new KeyboardEvent(
  "keydown", { key, code, bubbles: true, cancelable: true, ...more }))"""


def send(page: Page, key: str, code: str, **more: object) -> bool:
    """Send a press; return whether the page let it through."""
    return bool(page.evaluate(_SEND, [key, code, more]))


def _nothing_chosen(page: Page) -> None:
    expect(page.locator("#rows .row[aria-current]")).to_have_count(0)


def test_keys_are_quiet_where_they_must_and_work_on_every_board(
    site: Site, visit: Visit, ann: Actor, eventually: Callable[..., object]
) -> None:
    page = visit(login="ann")
    desk = Desk(page, eventually)
    for held in ("Control", "Alt", "Meta"):
        page.keyboard.press(f"{held}+j")
    assert send(page, "j", "KeyJ", isComposing=True)
    assert send(page, "Process", "KeyJ", keyCode=229)
    _nothing_chosen(page)
    page.evaluate("""() => {
      for (const tag of ["input", "textarea", "select", "p"]) {
        const field = document.createElement(tag);
        if (tag === "p") field.contentEditable = "true";
        field.className = "field-of-test";
        document.querySelector(".pane-list").prepend(field);
      }
    }""")
    for field in page.locator(".field-of-test").all():
        field.focus()
        for key in ("j", "?", "g", "a", "Control+k"):
            page.keyboard.press(key)
    _nothing_chosen(page)
    page.evaluate("document.activeElement.blur()")
    expect(page.locator("dialog[open]")).to_have_count(0)
    # A Russian board: j is where о is, ] where ъ is; Ctrl+K is known by its place, too.
    assert not send(page, "о", "KeyJ")
    desk.opened(0)
    assert not send(page, "Ф", "KeyA", shiftKey=True)
    expect(page.locator(".toast")).to_contain_text("marked as read")
    expect(page.locator(".folder > a.has")).to_have_count(0)
    assert not send(page, "л", "KeyK", ctrlKey=True)
    expect(page.locator("#jump")).to_be_visible()
    # A field that has just been hidden may keep the focus until the next frame.
    assert (
        page.evaluate("""() => {
      document.getElementById("jump").close();
      return document.activeElement.dispatchEvent(
        new KeyboardEvent("keydown", { key: "]", code: "BracketRight", bubbles: true, cancelable: true }));
    }""")
        is False
    )
    expect(page.locator("#jump")).to_be_hidden()
    # A German board types [ with AltGr, which Windows tells as Ctrl and Alt; Caps Lock changes no key.
    assert not send(page, "[", "Digit8", ctrlKey=True, altKey=True, modifierAltGraph=True)
    expect(page.locator("#say")).to_have_text("No other folder has unread entries")
    assert not send(page, "J", "KeyJ")
    desk.opened(1)
    # What is held down marks once; what has no meaning here is left to the browser.
    assert not send(page, "s", "KeyS", repeat=True)
    expect(page.locator("#article form[data-act=star] button")).to_have_attribute("aria-pressed", "false")
    assert send(page, "q", "KeyQ")
    # A menu that is open closes first.
    page.locator(".menu > summary").first.click()
    page.keyboard.press("Escape")
    expect(page.locator(".menu[open]")).to_have_count(0)
    desk.opened(1)


def test_two_strokes_wait_show_what_can_follow_and_give_up(site: Site, visit: Visit, ann: Actor) -> None:
    page = visit(login="ann")
    page.clock.install()
    page.goto("/read/all")
    hint = page.locator(".chord")
    expect(hint).to_be_hidden()
    stop_clock(page)
    page.keyboard.press("g")
    expect(hint).to_be_visible()
    expect(hint).to_contain_text("s Starred")
    page.clock.run_for(1400)
    page.keyboard.press("s")
    page.clock.resume()
    expect(page.locator(".pane-list h1")).to_have_text("Starred")
    expect(hint).to_be_hidden()
    stop_clock(page)
    page.keyboard.press("g")
    expect(hint).to_be_visible()
    page.clock.run_for(1600)
    expect(hint).to_be_hidden()
    page.clock.resume()
    page.keyboard.press("a")
    page.wait_for_url("**/add")
    page.goto("/read/all")
    # Another key ends it and does nothing else; so does Esc.
    stop_clock(page)
    for other in ("j", "Escape", "q"):
        page.keyboard.press("g")
        expect(hint).to_be_visible()
        page.keyboard.press(other)
        expect(hint).to_be_hidden()
    page.clock.resume()
    _nothing_chosen(page)


def stop_clock(page: Page) -> None:
    """Let no time pass but what the test lets pass: a busy machine is slow between two keys."""
    # Ahead by more than what it takes to say so: no clock is put back.
    page.clock.pause_at(page.evaluate("Date.now() / 1000") + 10)


def test_keys_of_ones_own(site: Site, visit: Visit, ann: Actor, eventually: Callable[..., object]) -> None:
    own = {"next": "x g+x ArrowRight", "star": "", "mark-all": "ж"}
    site.services.accounts.set_preferences(ann, {"keys": own})
    page = visit(login="ann")
    desk = Desk(page, eventually)
    for key in ("j", "s"):
        page.keyboard.press(key)
    _nothing_chosen(page)
    for number, key in enumerate(("x", "g+x", "ArrowRight")):
        press(page, key)
        desk.opened(number)
    # The button tells the new key, the star none; chords cannot be told.
    expect(page.locator("#article .tool[data-key=next]")).to_have_attribute(
        "aria-keyshortcuts", "x ArrowRight"
    )
    expect(page.locator("#article .star")).not_to_have_attribute("aria-keyshortcuts", re.compile("."))
    assert not send(page, "ж", "Semicolon")
    expect(page.locator(".toast")).to_contain_text("marked as read")
    site.services.accounts.set_preferences(ann, {"single_keys": False})
    page.goto("/read/all")
    for key in ("x", "g+x", "?", "Space"):
        press(page, key)
    assert send(page, "ж", "Semicolon")
    _nothing_chosen(page)
    expect(page.locator("dialog[open]")).to_have_count(0)
    page.keyboard.press("ArrowRight")
    desk.opened(0)
    page.keyboard.press("Control+k")
    expect(page.locator("#jump")).to_be_visible()


def test_the_focus_never_jumps_to_the_top(
    site: Site, visit: Visit, ann: Actor, eventually: Callable[..., object]
) -> None:
    page = visit(login="ann")
    desk = Desk(page, eventually)
    focus = "document.activeElement.closest('.row, .article, .pane-list, #article')?.className ?? ''"
    page.locator("#rows .row h2 a").nth(1).focus()
    page.keyboard.press("j")
    desk.opened(0)
    assert "row" in page.evaluate(focus)
    page.locator("#article .original").focus()
    page.keyboard.press("j")
    desk.opened(1)
    expect(page.locator("#entry-title")).to_be_focused()
    page.keyboard.press("Shift+J")
    expect(page.locator(".pane-list h1")).to_have_text("Feed one")
    expect(page.locator(".pane-list h1")).to_be_focused()
    page.keyboard.press("j")
    expect(page.locator("#entry-title")).to_have_text("one 0")
    expect(page.locator(".pane-list h1")).to_be_focused()


def _starred(page: Page) -> list[int]:
    return page.locator("#rows .row").evaluate_all(
        "(rows) => rows.flatMap((r, i) => r.querySelector('.star[aria-pressed=true]') ? [i] : [])"
    )


def _rest(desk: Desk) -> None:
    """Open the first entry, and choose the third one beside it."""
    press(desk.page, "j")
    desk.opened(0)
    press(desk.page, "n")
    press(desk.page, "n")
    desk.chosen(2)


def test_keys_are_about_the_chosen_row_whichever_entry_is_open(
    site: Site, visit: Visit, ann: Actor, eventually: Callable[..., object]
) -> None:
    page = visit(login="ann")
    desk = Desk(page, eventually)
    _rest(desk)
    press(page, "s")
    desk.shows("#say", "Starred")
    assert _starred(page) == [2]
    press(page, "m")
    desk.read(2)
    desk.opened(0)
    press(page, "z")
    desk.read(2, False)
    press(page, "z")
    eventually(lambda: _starred(page) == [])
    press(page, "o")
    desk.opened(2)
    press(page, "o")
    expect(page.locator("#article")).to_contain_text("No entry selected")
    desk.chosen(2)


@pytest.mark.parametrize("key", ["v", "b"])
def test_the_original_of_the_chosen_row_is_shown(
    visit: Visit, ann: Actor, eventually: Callable[..., object], key: str
) -> None:
    page = visit(login="ann", routes=True, whole=True)
    page.context.route("https://site.example/**", lambda route: route.fulfill(body=""))
    desk = Desk(page, eventually)
    _rest(desk)
    with page.context.expect_page() as other:
        press(page, key)
    other.value.wait_for_url(f"https://site.example/{desk.titles[2][-1]}")
    desk.opened(2)


@pytest.mark.parametrize(
    ("key", "shown"),
    [("t", "#tag-name:focus"), ("Shift+D", ".share-box textarea:focus"), ("f", ".full #entry-title")],
)
def test_what_is_done_in_an_article_opens_that_of_the_chosen_row(
    visit: Visit, ann: Actor, eventually: Callable[..., object], key: str, shown: str
) -> None:
    page = visit(login="ann")
    desk = Desk(page, eventually)
    _rest(desk)
    press(page, key)
    expect(page.locator(shown)).to_be_visible()
    desk.opened(2)


def test_keys_are_about_the_open_entry_where_it_covers_its_list(
    site: Site, visit: Visit, ann: Actor, eventually: Callable[..., object]
) -> None:
    page = visit(login="ann")
    desk = Desk(page, eventually)
    press(page, "2")
    expect(page.locator(".pane-list")).to_have_attribute("data-view", "list")
    _rest(desk)
    press(page, "s")
    desk.shows("#say", "Starred")
    assert _starred(page) == [0]
    press(page, "o")
    expect(page.locator("#rows .row").nth(2).locator("h2 a")).to_be_focused()
    press(page, "s")
    eventually(lambda: _starred(page) == [0, 2])


def test_keys_are_about_the_open_entry_where_none_of_the_list_is_chosen(
    site: Site, visit: Visit, ann: Actor, eventually: Callable[..., object]
) -> None:
    page = visit(login="ann")
    number = page.locator("#rows .row").last.get_attribute("data-id")
    title = page.locator("#rows .row h2 a").last.evaluate("(a) => a.lastChild.textContent.trim()")
    page.goto(f"/read/starred?entry={number}")
    expect(page.locator("#entry-title")).to_have_text(title)
    press(page, "s")
    expect(page.locator("#article .star")).to_have_attribute("aria-pressed", "true")


def test_other_views_keep_the_focus_on_the_chosen_row(
    visit: Visit, ann: Actor, eventually: Callable[..., object]
) -> None:
    page = visit(login="ann")
    desk = Desk(page, eventually)
    press(page, "n")
    press(page, "n")
    for key, view in (("1", "expanded"), ("2", "list"), ("3", "panes")):
        press(page, key)
        expect(page.locator(".pane-list")).to_have_attribute("data-view", view)
        desk.chosen(1)
        expect(page.locator("#rows .row").nth(1).locator("h2 a")).to_be_focused()


def test_what_is_taken_back_is_said(visit: Visit, ann: Actor, eventually: Callable[..., object]) -> None:
    page = visit(login="ann")
    desk = Desk(page, eventually)
    press(page, "j")
    desk.opened(0)
    for key, words in (("s", "Starred"), ("m", "Marked as unread")):
        press(page, key)
        desk.shows("#say", words)
        press(page, "z")
        desk.shows("#say", "Undone")
    press(page, "Shift+A")
    expect(page.locator(".toast")).to_contain_text("marked as read")
    desk.undone(5)
    desk.shows("#say", "Undone")


def test_what_a_check_for_new_entries_brings_is_said(
    site: Site, visit: Visit, ann: Actor, eventually: Callable[..., object]
) -> None:
    page = visit(login="ann")
    say = page.locator("#say")
    stop_clock(page)
    press(page, "r")
    expect(say).to_have_text("Checking 3 feeds")

    def told() -> bool:
        # The page also asks for counts on its own: what it says ends the check, not how often it asked.
        page.clock.run_for(6000)
        return say.inner_text() == "Nothing new yet"

    eventually(told)
    press(page, "r")
    expect(say).to_have_text("Checking 3 feeds")
    first = site.services.reading.get_tree(ann).folders[0].feeds[0].feed_id
    url = f"https://{NAMES[0]}.example/feed"
    pull(site.services, [first], {url: rss("Feed one", [(f"late {n}", "<p>x</p>") for n in range(3)])})
    with page.expect_response("**/api/counts**"):
        page.clock.run_for(700)
    expect(say).to_have_text("3 new")


def test_own_shares_have_no_unread_state(site: Site, visit: Visit, ann: Actor) -> None:
    services = site.services
    services.following.update_profile(
        ann, display="", bio="", links=(), audience=Audience.PUBLIC, listed=False, open_lists=False
    )
    page = visit(login="ann")
    press(page, "j")
    press(page, "Shift+S")
    expect(page.locator("#share")).to_contain_text("You shared this")
    for view in "panes", "expanded":
        page.goto(f"/read/shares?view={view}")
        press(page, "n")
        expect(page.locator("#rows .row[aria-current]")).to_be_visible()
        press(page, "m")
        press(page, "s")
        expect(page.locator("#say")).to_have_text("Starred")
        expect(page.locator("[data-act=read]")).to_have_count(0)
        press(page, "s")
        expect(page.locator("#say")).to_have_text("Star removed")
    press(page, "o")
    expect(page.locator("#article .star")).to_be_visible()
    press(page, "m")
    press(page, "s")
    expect(page.locator("#say")).to_have_text("Starred")
    expect(page.locator("[data-act=read], .toast")).to_have_count(0)


def test_the_head_of_a_list_counts_that_list(visit: Visit, ann: Actor) -> None:
    page = visit(login="ann")
    page.goto("/read/following")
    expect(page).to_have_title(re.compile(r"^\(18\) Following"))
    expect(page.locator("#unread")).to_have_text("All read")
    page.goto("/read")
    press(page, "j")
    expect(page.locator("#unread")).to_have_text("17 unread")


# -- settings and help
@pytest.mark.parametrize("js", [True, False])
def test_a_key_is_set_by_pressing_it_or_by_writing_it(site: Site, visit: Visit, ann: Actor, js: bool) -> None:
    page = visit(login="ann", js=js, expect="400")
    page.goto("/settings/keys")
    row = page.locator("#key-star")

    def wish(key: str) -> None:
        page.wait_for_load_state()  # the buttons are there before what they do
        if not row.locator("details").evaluate("(one) => one.open"):
            row.locator("summary").click()
        if js:
            row.get_by_role("button", name="Record keys").click()
            expect(row.locator("[data-record]")).to_have_text("Press a key, or two in a row")
            press(page, key)
        else:
            row.get_by_label("Keys").fill(key)
            row.get_by_role("button", name="Save").click()

    wish("g+x")
    expect(page.locator(".toast")).to_contain_text("“Star”: g x")
    expect(row.locator("summary")).to_contain_text("changed")
    wish("Shift+J")
    expect(row.get_by_role("alert")).to_have_text(
        "“Shift+J” is already the shortcut for “Go to next feed with unread entries”."
    )
    row.get_by_role("button", name="Reassign to this action").click()
    expect(row.locator("summary kbd")).to_have_text("Shift+J")
    expect(page.locator("#key-next-feed summary")).to_contain_text("off")
    page.get_by_role("button", name="Undo").click()
    expect(row.locator("summary kbd")).to_have_text(["g", "x"])
    if not js:
        return
    page.wait_for_load_state()
    row.locator("summary").click()
    button = row.locator("[data-record]")
    for leave in ("Escape", "Tab"):
        button.click()
        page.keyboard.press(leave)
        expect(button).to_have_text("Record keys")
    page.get_by_role("searchbox", name="Find a shortcut").fill("folder unread")
    expect(page.locator("[data-find]:visible")).to_have_count(2)
    expect(page.locator("#say")).to_have_text("2 shortcuts found")


def test_the_help_shows_ones_own_keys_and_finds_them(site: Site, visit: Visit, ann: Actor) -> None:
    site.services.accounts.set_preferences(ann, {"keys": {"next": "x"}})
    page = visit(login="ann")
    page.keyboard.press("?")
    help = page.get_by_role("dialog", name="Keyboard shortcuts")
    expect(help.locator("[data-action=next] kbd")).to_have_text("x")
    expect(help.locator("[data-action=undo] kbd")).to_have_text(["z", "Ctrl+Z"])
    assert help.locator("[data-action]").count() == len(keys.ROWS)
    expect(help.get_by_role("heading", name="In the feed list")).to_be_visible()
    expect(help.locator("section").last.locator("kbd")).to_have_text(["↑", "↓", "→", "←", "Home", "End", "*"])
    help.get_by_role("searchbox").fill("STARRED")
    expect(help.locator("[data-find]:visible")).to_have_count(1)
    page.keyboard.press("Escape")
    page = visit(login="ann", js=False)
    page.get_by_role("link", name="Keyboard shortcuts").click()
    expect(page.locator("h1")).to_have_text("Keyboard shortcuts", use_inner_text=True)
    expect(page.locator("[data-action=next] kbd")).to_have_text("x")


# -- quick jump
def test_any_place_is_reached_by_parts_of_its_name(site: Site, visit: Visit, ann: Actor) -> None:
    page = visit(login="ann")
    page.keyboard.press("Control+k")
    field = page.get_by_role("combobox", name="Go to")
    expect(field).to_be_focused()
    chosen = page.locator("#jump [aria-selected=true]")
    field.fill("two fe")
    expect(chosen).to_contain_text("Feed two")
    expect(chosen).to_contain_text("Folder B")
    expect(field).to_have_attribute("aria-activedescendant", chosen.get_attribute("id") or "")
    page.keyboard.press("Enter")
    expect(page.locator(".pane-list h1")).to_have_text("Feed two")
    press(page, "g+u")
    expect(field).to_have_value("")
    field.fill("fold")
    expect(chosen).to_contain_text("Folder A")
    page.keyboard.press("ArrowDown")
    expect(chosen).to_contain_text("Folder B")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowDown")
    expect(chosen).to_contain_text("Folder A")
    field.fill("fdthr")
    expect(chosen).to_contain_text("Feed three")
    field.fill("nothing like it")
    expect(page.locator("#jump .empty-line")).to_be_visible()
    page.keyboard.press("Enter")
    page.keyboard.press("Escape")
    expect(page.locator("#jump")).to_be_hidden()
    # From a screen without a tree.
    page.goto("/settings")
    page.keyboard.press("Control+k")
    field.fill("three")
    expect(chosen).to_contain_text("Feed three")
    page.keyboard.press("Enter")
    expect(page.locator(".pane-list h1")).to_have_text("Feed three")
    expect(page.locator("html.js")).to_be_attached()
    page.keyboard.press("Control+k")
    field.fill("settings")
    chosen.click()
    page.wait_for_url("**/settings")


def test_settings_are_reached_by_name_and_administration_by_who_may(
    site: Site, visit: Visit, ann: Actor
) -> None:
    add_user(site.services, "root", Role.ADMIN)
    field = "combobox"
    for who, places in (("ann", 0), ("root", 5)):
        page = visit(login=who)
        page.keyboard.press("Control+k")
        page.get_by_role(field, name="Go to").fill("admin")
        expect(page.locator("#jump li")).to_have_count(places)
        for words, path in (("settings acc", "/settings/account"), ("session", "/settings/sessions")):
            page.get_by_role(field, name="Go to").fill(words)
            expect(page.locator("#jump [aria-selected=true]")).to_have_attribute("data-url", path)
    page.get_by_role(field, name="Go to").fill("admin us")
    page.keyboard.press("Enter")
    page.wait_for_url("**/admin/users")


def test_without_a_clipboard_the_link_stands_in_a_field(site: Site, visit: Visit, ann: Actor) -> None:
    page = visit(login="ann")
    page.add_init_script("Object.defineProperty(navigator, 'clipboard', { value: undefined })")
    page.goto("/read/all")
    # What is pressed while its script loads is done in order: nothing is chosen when "y" is.
    size = int(page.locator("html").get_attribute("data-text-size") or 0)
    page.keyboard.press("y")
    page.keyboard.press("=")
    expect(page.locator("html")).to_have_attribute("data-text-size", str(size + 1))
    expect(page.locator(".toast")).to_have_count(0)
    page.keyboard.press("j")
    expect(page.locator("#entry-title")).to_be_visible()
    page.keyboard.press("y")
    field = page.get_by_role("textbox", name="Link")
    expect(field).to_be_focused()
    assert page.evaluate("getSelection().toString()").startswith("https://site.example/")
    page.keyboard.press("Escape")
    expect(field).to_have_count(0)
    page.keyboard.press("j")
    expect(page.locator("#rows .row").nth(1)).to_have_attribute("aria-current", "true")


def test_what_is_pressed_while_its_script_loads_is_done_then_in_order(
    site: Site, visit: Visit, ann: Actor
) -> None:
    page, held = visit(login="ann", routes=True), list[Route]()
    page.route(re.compile(r"/type\.[0-9a-f]+\.js"), lambda route: held.append(route))
    wanted = [
        keys.ROWS[action].keys[0] for action in ("text-larger", "text-larger", "text-smaller", "text-larger")
    ]
    size = int(page.locator("html").get_attribute("data-text-size") or 0)
    with page.expect_request(re.compile(r"/type\.[0-9a-f]+\.js")):
        press(page, wanted[0])
    for key in wanted[1:]:
        press(page, key)
    (route,) = held
    expect(page.locator("html")).to_have_attribute("data-text-size", str(size))
    route.continue_()
    expect(page.locator("html")).to_have_attribute("data-text-size", str(size + 2))
    press(page, wanted[2])
    expect(page.locator("html")).to_have_attribute("data-text-size", str(size + 1))
