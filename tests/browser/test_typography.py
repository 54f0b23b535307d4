"""Theme and text: the popover "Aa", its keys, the settings that save themselves, and how articles look."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Locator, Page, expect

from app.models.accounts.actor import Actor
from app.models.accounts.preferences import Preferences
from tests.browser import axe
from tests.browser.conftest import PHONE, WIDE, Site
from tests.support.reader import add_user, pull, rss

Visit = Callable[..., Page]
Eventually = Callable[..., object]
URL = "https://site.example/feed"


def _subscribe(site: Site, *entries: tuple[str, str]) -> Actor:
    actor = add_user(site.services)
    feed = site.services.subscriptions.subscribe(actor, URL).subscription.feed_id
    pull(site.services, [feed], {URL: rss("Site", list(entries))})
    return actor


@pytest.fixture
def ann(site: Site) -> Actor:
    return _subscribe(
        site, ("One", "<p>" + "Words of the first entry. " * 60 + "</p>"), ("Two", "<p>Two</p>")
    )


def _open(page: Page, key: str = "j") -> Locator:
    page.keyboard.press(key)
    expect(page.locator("#article .prose")).to_be_visible()
    return page.locator("#article .prose")


def _mine(site: Site, actor: Actor) -> Preferences:
    found = site.services.gateways.accounts.find_user(actor.user_id)
    assert found is not None
    return found.preferences


def _ask(page: Page) -> Locator:
    page.locator("#article button[data-key=look-text]").click()
    box = page.get_by_role("dialog", name="Theme and text")
    expect(box).to_be_visible()
    return box


def _choose(place: Page | Locator, value: str) -> None:
    place.locator(f"label:has(input[value={value}])").click()


def test_the_look_of_texts_changes_at_once_and_lasts(
    site: Site, visit: Visit, ann: Actor, eventually: Eventually
) -> None:
    page = visit(login="ann")
    prose = _open(page)
    box = _ask(page)
    html = page.locator("html")
    with page.expect_response("**/settings/look"):
        _choose(box, "sepia")
    expect(html).to_have_attribute("data-theme", "sepia")
    expect(page.locator("body")).to_have_css("background-color", "rgb(245, 236, 217)")
    _choose(box, "loose")
    box.get_by_text("Justified text").click()
    _choose(box, "narrow")
    box.get_by_label("Text size").press("ArrowRight")
    expect(box.locator("output")).to_have_text("19")
    expect(prose.locator("p").first).to_have_css("text-align", "justify")
    expect(prose).to_have_css("font-size", "19px")
    expect(prose).to_have_css("line-height", "36.1px")
    assert prose.evaluate("(e) => e.clientWidth") < 560
    expect(box.locator(".saved")).to_have_text("Saved")
    eventually(lambda: _mine(site, ann).text_size == 19 and _mine(site, ann).justified)
    page.keyboard.press("Escape")
    expect(box).to_be_hidden()
    expect(prose).to_be_visible()
    # No flash: what the server sends has the look already.
    sent = page.request.get("/read/all").text()
    assert 'data-theme="sepia" data-font="system" data-text-size="19" data-line="loose"' in sent
    page.reload()
    _ask(page)
    assert page.locator("#look form").evaluate("(f) => Object.fromEntries(new FormData(f))") == {
        "theme": "sepia", "font": "system", "text_size": "19", "line_height": "loose",
        "text_width": "narrow", "justified": "1",
    }  # fmt: skip


def test_the_button_closes_what_it_opened(visit: Visit, ann: Actor) -> None:
    page = visit(login="ann")
    _open(page)
    button = page.locator("#article button[data-key=look-text]")
    for is_open in (True, False, True, False):
        button.click()
        expect(page.locator("#look:popover-open")).to_have_count(int(is_open))
        expect(button).to_have_attribute("aria-expanded", "true" if is_open else "false")
    button.click()
    page.locator("#article .prose").click(position={"x": 5, "y": 300})
    expect(page.locator("#look:popover-open")).to_have_count(0)


@pytest.mark.parametrize("language", ["en", "de", "ru", "ar"])
def test_on_a_phone_the_text_stays_in_sight_beside_its_choices(
    site: Site, visit: Visit, ann: Actor, language: str
) -> None:
    site.services.accounts.set_preferences(ann, {"language": language})
    page = visit(login="ann", size=PHONE)
    _open(page)
    page.locator("#article .article > header").evaluate("(e) => { e.style.paddingBottom = '350px'; }")
    page.locator("#article button[data-key=look-text]").click()
    box = page.locator("#look")
    expect(box.locator("form")).to_be_visible()
    expect(box.locator(".look-head button")).to_be_in_viewport(ratio=1)
    end = "(e) => e.getBoundingClientRect().bottom - e.querySelector('.onoff').getBoundingClientRect().bottom"
    if language == "en":
        assert box.evaluate(end) >= 16
    at, text = box.bounding_box(), page.locator("#article .article > .prose p").first.bounding_box()
    assert at
    assert text
    assert at["y"] >= PHONE[1] * 0.4 - 1
    assert text["y"] <= at["y"] - 120
    if language == "en":
        assert box.evaluate("(e) => e.scrollHeight - e.clientHeight") == 0, "all choices are in sight"
    assert box.evaluate("(e) => e.scrollWidth <= e.clientWidth")


def test_a_phone_offers_no_width_of_lines_beside_the_text_and_keeps_that_of_the_settings(
    site: Site, visit: Visit, ann: Actor, eventually: Eventually
) -> None:
    site.services.accounts.set_preferences(ann, {"text_width": "wide"})
    page = visit(login="ann", size=PHONE)
    _open(page)
    box = _ask(page)
    width = box.locator("#look-text_width")
    expect(width).to_be_hidden()
    end = "(e) => e.getBoundingClientRect().bottom - e.querySelector('.onoff').getBoundingClientRect().bottom"
    assert box.evaluate(end) >= 16
    _choose(box, "loose")
    eventually(lambda: _mine(site, ann).line_height == "loose")
    assert _mine(site, ann).text_width == "wide"
    page.set_viewport_size({"width": 640, "height": 900})
    expect(width).to_be_visible()
    page.set_viewport_size({"width": PHONE[0], "height": PHONE[1]})
    expect(width).to_be_hidden()
    page.goto("/settings/display")
    expect(page.locator("#f-text_width")).to_be_visible()


@pytest.mark.parametrize("language", ["en", "ar"])
@pytest.mark.parametrize("view", ["panes", "list", "expanded", "expanded article"])
@pytest.mark.parametrize("width", [900, 1000, 1100, 1440])
def test_beside_its_choices_the_whole_text_is_in_sight(
    site: Site, visit: Visit, ann: Actor, language: str, view: str, width: int
) -> None:
    site.services.accounts.set_preferences(ann, {"language": language, "text_width": "full"})
    page = visit(login="ann", size=(width, 900))
    mode, _, article = view.partition(" ")
    # In one column, the list keeps its place below the article, and is hidden.
    page.goto(f"/read/all?view={mode}")
    if article:
        number = page.locator("#rows [data-id]").first.get_attribute("data-id")
        page.goto(f"/read/all?view={mode}&entry={number}")
    elif mode != "expanded":
        page.locator("#rows .row h2 a").first.click()
    prose = page.locator(".prose" if view == "expanded" else "#article .prose").first
    expect(prose).to_be_visible()
    padding = "() => [...document.querySelectorAll('.pane')].map((one) => getComputedStyle(one).padding)"
    before = page.evaluate(padding)
    page.evaluate("document.querySelector('[data-key=look-text]').click()")
    box = page.locator("#look")
    expect(box.locator("form")).to_be_visible()
    at, text = box.bounding_box(), prose.bounding_box()
    assert at
    assert text
    assert at["width"] <= (400 if mode == "panes" else 352), "it takes no more of the text than it needs"
    if language == "ar":
        assert text["x"] + text["width"] <= at["x"]
    else:
        assert at["x"] + at["width"] <= text["x"]
    assert text["width"] >= 300
    box.get_by_role("button", name="Close" if language == "en" else "إغلاق").click()
    expect(box).to_be_hidden()
    assert page.evaluate(padding) == before


@pytest.mark.parametrize("size", [PHONE, (720, 900), (1024, 768), WIDE])
@pytest.mark.parametrize("language", ["en", "ar"])
def test_the_popover_fits_the_screen(
    site: Site, visit: Visit, ann: Actor, size: tuple[int, int], language: str
) -> None:
    site.services.accounts.set_preferences(ann, {"language": language})
    page = visit(login="ann", size=size)
    page.locator("#rows .row h2 a").first.click()
    page.locator("#article button[data-key=look-text]").click()
    box = page.locator("#look")
    expect(box.locator("form")).to_be_visible()
    at = box.bounding_box()
    assert at is not None
    assert at["x"] >= 0
    assert at["x"] + at["width"] <= size[0]
    assert at["y"] >= 0
    assert at["y"] + at["height"] <= size[1]
    assert box.evaluate("(e) => e.scrollWidth <= e.clientWidth")
    page.evaluate(axe.AXE)
    assert not list(axe.faults(page, axe.RULES, [".prose"]))


def test_the_key_goes_through_all_themes(
    site: Site, visit: Visit, ann: Actor, eventually: Eventually
) -> None:
    page = visit(login="ann")
    html = page.locator("html")
    for theme in ("light", "sepia", "dark", "black", "auto", "light", "sepia"):
        page.keyboard.press("Shift+T")
        expect(html).to_have_attribute("data-theme", theme)
    expect(page.get_by_text("Theme: Sepia")).to_be_visible()
    eventually(lambda: 'data-theme="sepia"' in page.request.get("/settings").text())


@pytest.mark.parametrize("font", ["legible", "dyslexic"])
def test_fonts_come_from_this_server_and_only_if_chosen(visit: Visit, ann: Actor, font: str) -> None:
    page = visit(login="ann")
    seen: list[str] = []
    page.on("request", lambda request: seen.append(request.url) if request.resource_type == "font" else None)
    _open(page)
    page.wait_for_load_state("networkidle")
    assert seen == []
    _choose(_ask(page), font)
    page.evaluate("document.fonts.ready.then(() => null)")
    assert seen
    assert all(url.startswith(f"{page.url.split('/read')[0]}/static/") for url in seen)
    family = {"legible": "Atkinson Hyperlegible Next", "dyslexic": "OpenDyslexic"}[font]
    assert page.evaluate("(name) => document.fonts.check(`16px '${name}'`)", family)


def test_settings_save_themselves(site: Site, visit: Visit, ann: Actor, eventually: Eventually) -> None:
    page = visit(login="ann")
    page.goto("/settings/display")
    expect(page.get_by_role("button", name="Save")).to_be_hidden()
    _choose(page, "serif")
    expect(page.locator("#saved")).to_have_text("Saved")
    _choose(page, "black")
    _choose(page, "wide")
    eventually(lambda: _mine(site, ann).text_width == "wide")
    assert _mine(site, ann).font == "serif"
    expect(page.locator("body")).to_have_css("background-color", "rgb(0, 0, 0)")
    eventually(lambda: 'data-theme="black" data-font="serif"' in page.request.get("/settings").text())
    _choose(page, "absolute")
    page.wait_for_url("**/settings/display?saved=1")
    expect(page.locator("#saved")).to_have_text("Saved")


def test_settings_are_saved_without_a_script(site: Site, visit: Visit, ann: Actor) -> None:
    page = visit(login="ann", js=False)
    page.goto("/settings/display")
    _choose(page, "sepia")
    _choose(page, "loose")
    page.get_by_role("button", name="Save").click()
    expect(page.locator("#saved")).to_have_text("Saved")
    expect(page.locator("html")).to_have_attribute("data-theme", "sepia")
    assert _mine(site, ann).line_height == "loose"


CODE = (
    "<p>" + "Words that fill the line of an article in every case. " * 6 + "</p>"
    '<pre><code class="language-python">def f(x):\n    return "' + "long " * 60 + '"  # note\n</code></pre>'
    "<pre>short</pre>"
    "<table><tr>" + "<td>cell_of_a_wide_table_that_does_not_break</td>" * 9 + "</tr></table>"
    "<table><tr><td>a</td></tr></table>"
    '<p>A claim<sup id="r1"><a href="#n1">1</a></sup></p>'
    + "<p>Text.</p>"
    * 40
    + '<p id="n1">The proof <a href="#r1">back</a></p>'
    '<p><math display="block"><mfrac><mn>1</mn><mn>2</mn></mfrac></math></p>'
)


def test_code_is_as_wide_as_the_text_and_can_be_copied(site: Site, visit: Visit) -> None:
    _subscribe(site, ("Code", CODE))
    page = visit(login="ann", scheme="dark")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    prose = _open(page)
    code = prose.locator(".code").first
    text = prose.locator("p").first.bounding_box()
    box = code.bounding_box()
    assert text
    assert box
    assert text["width"] == box["width"]
    assert code.locator(".hl-k").first.inner_text() == "def"
    assert code.locator(".hl-k").first.evaluate("(e) => getComputedStyle(e).color") == "rgb(240, 160, 208)"
    # What scrolls is a stop of the keyboard, and nothing else is.
    expect(prose.locator("pre").nth(1)).to_have_attribute("tabindex", "-1")
    expect(prose.locator("pre").first).to_have_attribute("tabindex", "0")
    expect(prose.locator(".wide").first).to_have_attribute("tabindex", "0")
    expect(prose.locator(".wide").nth(1)).to_have_attribute("tabindex", "-1")
    assert prose.locator(".wide").first.evaluate(
        "(e) => e.scrollWidth > e.clientWidth && e.clientWidth < 800"
    )
    code.hover()
    code.get_by_role("button", name="Copy").click()
    expect(page.get_by_text("Copied")).to_be_visible()
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied == 'def f(x):\n    return "' + "long " * 60 + '"  # note\n'
    page.evaluate(axe.AXE)
    assert not list(axe.faults(page, axe.RULES, ["#nothing"]))


def test_footnotes_jump_inside_the_article_and_back(site: Site, visit: Visit) -> None:
    _subscribe(site, ("Notes", CODE))
    page = visit(login="ann")
    prose = _open(page)
    tabs = len(page.context.pages)
    prose.locator("sup a").click()
    note = prose.locator("p", has_text="The proof")
    expect(note).to_be_in_viewport()
    expect(page.locator("#entry-title")).to_have_text("Notes")
    note.locator("a").click()
    expect(prose.locator("sup a")).to_be_in_viewport()
    expect(page.locator("#entry-title")).to_have_text("Notes")
    assert len(page.context.pages) == tabs
    height = prose.locator("mfrac").evaluate("(e) => e.getBoundingClientRect().height")
    assert height > 25, "a fraction is drawn, not written in a row"


@pytest.mark.parametrize("theme", ["dark", "black", "sepia"])
def test_paper_shows_the_article_alone_in_light_colors(
    site: Site, visit: Visit, ann: Actor, theme: str
) -> None:
    page = visit(login="ann")
    _open(page)
    page.evaluate("(theme) => { document.documentElement.dataset.theme = theme; }", theme)
    page.emulate_media(media="print")
    expect(page.locator("body")).to_have_css("color", "rgb(28, 28, 26)")
    for chrome in (".pane-tree", ".pane-list", "#article .bar", ".article footer"):
        expect(page.locator(chrome).first).to_be_hidden()
    expect(page.locator("#entry-title")).to_be_visible()
    expect(page.locator(".article .source")).to_contain_text("Site")
    address = page.locator("#entry-title a").get_attribute("href")
    shown = page.locator("#entry-title a").evaluate("(e) => getComputedStyle(e, '::after').content")
    assert shown in (f'"{address}"', "attr(href)")


_PICTURE = '<img src="https://site.example/{}.png" width="150" height="120" alt="" {}>'
_PLACES = """(prose) => [...prose.querySelectorAll("p")].map((p) => {
    const [first, second] = p.querySelectorAll("img"), box = first.getBoundingClientRect();
    if (second) return second.getBoundingClientRect().top === box.top ? "row" : "column";
    const range = document.createRange();
    range.selectNodeContents([...p.childNodes].find((node) => node.nodeName === "#text"));
    const text = range.getClientRects()[0];
    if (text.top >= box.bottom) return "below";
    return text.left >= box.right ? "after" : text.right <= box.left ? "before" : "in";
})"""


@pytest.mark.parametrize("size", [WIDE, PHONE])
def test_narrow_picture_stands_beside_text_only_where_the_feed_says_so(
    site: Site, visit: Visit, size: tuple[int, int]
) -> None:
    words = "Words beside or below the picture. " * 9
    texts = [_PICTURE.format(n, side) + words for n, side in enumerate(("", 'align="left"', 'align="right"'))]
    rows = [_PICTURE.format(7, "").replace("150", "120") + _PICTURE.format(8, "").replace("150", "120")]
    _subscribe(site, ("One", "".join(f"<p>{text}</p>" for text in texts + rows)))
    page = visit(login="ann", size=size)
    page.locator("#rows h2 a").first.click()
    prose = page.locator("#article .prose")
    expect(prose.locator("img")).to_have_count(5)
    assert prose.evaluate(_PLACES) == ["below", "after", "before", "row"]
