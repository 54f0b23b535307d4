"""What rows show and where: titles, sources, pictures; what stays in sight around them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Locator, Page, expect

from app.models.accounts.actor import Actor
from app.models.reading.stream import StreamQuery, StreamRef
from tests.browser.conftest import PHONE, WIDE, Site
from tests.browser.screens import draw_story, highlight_rows
from tests.browser.test_list_rules import URLS, kept, subscribe, titles
from tests.support import demo, social
from tests.support.reader import add_user, follow, pull, rss

Visit = Callable[..., Page]
TITLE = "A headline of many words that needs two lines beside every picture, and would need a third one"
TEXT = "The text says something else, and it says it at such length that no line can hold all of it. " * 3
SIZES = (WIDE, (1024, 768), (390, 844))
#: How many lines an element shows, and whether it is cut at the last of them.
_LINES = "(e) => Math.round(e.clientHeight / parseFloat(getComputedStyle(e).lineHeight))"


@pytest.fixture
def ann(site: Site) -> Actor:
    return add_user(site.services)


def lines(place: Locator) -> int:
    return int(place.evaluate(_LINES))


def edges(place: Locator) -> dict[str, float]:
    found: dict[str, float] = place.evaluate("(e) => e.getBoundingClientRect().toJSON()")
    return found


def publish(site: Site, actor: Actor, body: bytes, url: str = URLS[0]) -> int:
    feed_id = site.services.subscriptions.subscribe(actor, url).subscription.feed_id
    pull(site.services, [feed_id], {url: body})
    return feed_id


def with_picture(body: bytes, title: str) -> bytes:
    """Give one entry a picture."""
    mark = f"<title>{title}</title>".encode()
    picture = b"<enclosure url='https://pictures.example/a.png' type='image/png' length='9000'/>"
    return body.replace(mark, mark + picture)


@pytest.mark.parametrize("size", SIZES)
def test_a_headline_takes_two_lines_and_the_text_one(
    site: Site, visit: Visit, ann: Actor, size: tuple[int, int]
) -> None:
    publish(site, ann, rss("Feed one", [(TITLE, TEXT), ("Short", TEXT)]))
    page = visit(login="ann", size=size)
    long, short = page.locator("#rows .row").all()
    assert lines(long.locator("h2 a")) == 2
    assert lines(short.locator("h2 a")) == 1
    for row in (long, short):
        assert lines(row.locator("p")) == 1
        # The title is as wide as the row, but for the dot; under a finger too.
        assert edges(row.locator("h2"))["width"] >= edges(row)["width"] - 28 - 9


def test_the_text_of_a_row_decides_its_direction(site: Site, visit: Visit, ann: Actor) -> None:
    publish(site, ann, rss("Feed one", [("Title", "نص طويل بما يكفي"), ("Other", TEXT)]))
    rows = visit(login="ann").locator("#rows .row p").all()
    assert [row.evaluate("(e) => getComputedStyle(e).direction") for row in rows] == ["rtl", "ltr"]


@pytest.mark.parametrize("density", ["cozy", "card"])
def test_a_picture_stands_at_the_end_and_leaves_no_hole(
    site: Site, visit: Visit, ann: Actor, density: str
) -> None:
    site.services.accounts.set_preferences(ann, {"images": "site"})
    publish(site, ann, with_picture(rss("Feed one", [("Seen", TEXT), ("Unseen", TEXT)]), "Seen"))
    page = visit(login="ann")
    page.route("https://pictures.example/**", lambda route: route.abort())
    page.goto(f"/read/all?density={density}")
    seen, unseen = page.locator("#rows .row").all()
    picture, row = edges(seen.locator(".thumb")), edges(seen)
    assert row["right"] - picture["right"] <= 16
    assert edges(seen.locator("h2"))["right"] <= picture["left"]
    assert row["top"] < picture["top"] < picture["bottom"] < row["bottom"]
    assert unseen.locator(".thumb").count() == 0
    # The picture is as high as the text beside it, down to a least height in cards.
    assert (
        edges(unseen)["height"] <= row["height"] <= edges(unseen)["height"] + (30 if density == "card" else 0)
    )
    assert edges(unseen.locator("h2"))["right"] >= edges(unseen)["right"] - 16
    # Its box is kept while it loads, and where it fails.
    assert picture["width"] >= 64


def test_single_lines_and_whole_texts_show_no_small_picture(site: Site, visit: Visit, ann: Actor) -> None:
    site.services.accounts.set_preferences(ann, {"images": "site"})
    publish(site, ann, with_picture(rss("Feed one", [("Seen", TEXT)]), "Seen"))
    page = visit(login="ann")
    for query in ("view=panes&density=compact", "view=expanded"):
        page.goto(f"/read/all?{query}")
        expect(page.locator("#rows .row")).to_have_count(1)
        expect(page.locator("#rows .thumb")).to_have_count(0)


def test_the_name_of_a_feed_is_not_repeated_in_its_own_list(site: Site, visit: Visit, ann: Actor) -> None:
    body = rss("Feed one", [("First", TEXT), ("Second", TEXT), ("Third", TEXT)])
    body = body.replace(b"<title>First</title>", b"<title>First</title><author>Jo Example</author>")
    body = body.replace(b"<title>Second</title>", b"<title>Second</title><author>feed one</author>")
    feed_id = publish(site, ann, body)
    page = visit(login="ann")
    expect(page.locator("#rows .src")).to_have_text(["Feed one"] * 3)
    expect(page.locator("#rows p > .av")).to_have_count(3)
    page.goto(f"/read/feed/{feed_id}")
    expect(page.locator("#rows .src")).to_have_text(["Jo Example"])
    expect(page.locator("#rows p > .av")).to_have_count(0)
    assert page.locator("#rows .row p").nth(1).inner_text().startswith("The text says")


@pytest.mark.parametrize("size", SIZES)
def test_a_post_without_a_title_shows_its_text_once(
    site: Site, visit: Visit, ann: Actor, size: tuple[int, int]
) -> None:
    (feed_id,) = follow(site.services, ann, ["feeds/rss/mastodon.art-29bf9a.xml"])
    page = visit(login="ann", size=size)
    page.goto(f"/read/feed/{feed_id}")
    shown = page.locator("#rows .row")
    expect(shown).to_have_count(20)
    texts = [title.strip() for title in titles(page)]
    assert len(texts[2]) > 100
    assert all(1 <= lines(title) <= 3 for title in shown.locator("h2 a").all())
    assert any(lines(title) == 3 for title in shown.locator("h2 a").all())
    for row, text in zip(shown.all(), texts, strict=True):
        assert row.inner_text().count(text[:30]) == 1


def test_after_a_change_of_view_the_list_fills_the_pane(site: Site, visit: Visit, ann: Actor) -> None:
    subscribe(site, ann, 160)
    page = visit(login="ann")
    page.keyboard.press("1")
    expect(page.locator(".pane-list")).to_have_attribute("data-view", "expanded")
    expect(page.locator("#rows .row")).to_have_count(10)
    page.keyboard.press("3")
    expect(page.locator(".pane-list")).to_have_attribute("data-view", "panes")
    below = "document.querySelector('#more').getBoundingClientRect().top >= innerHeight"
    page.wait_for_function(f"() => !document.querySelector('#more') || {below}")
    assert page.locator("#rows .row").count() > 15
    # A window that grows shows more too.
    before = page.locator("#rows .row").count()
    page.set_viewport_size({"width": 1440, "height": 5000})
    page.wait_for_function("(before) => document.querySelectorAll('#rows .row').length > before", arg=before)


def test_a_list_fills_its_pane_only_if_rows_are_to_come_by_themselves(
    site: Site, visit: Visit, ann: Actor
) -> None:
    site.services.accounts.set_preferences(ann, {"auto_load": False})
    subscribe(site, ann, 60)
    page = visit(login="ann")
    page.keyboard.press("1")
    expect(page.locator("#rows .row")).to_have_count(10)
    page.keyboard.press("3")
    expect(page.locator(".pane-list")).to_have_attribute("data-view", "panes")
    page.wait_for_load_state("networkidle")
    expect(page.locator("#rows .row")).to_have_count(10)
    expect(page.locator("#more")).to_be_in_viewport()


@pytest.mark.parametrize("query", ["view=panes&density=cozy", "view=list&density=cozy", "density=compact"])
def test_rows_around_the_selected_one_stay_in_sight(site: Site, visit: Visit, ann: Actor, query: str) -> None:
    subscribe(site, ann, 50)
    page = visit(login="ann")
    page.goto(f"/read/all?{query}")
    page.wait_for_load_state("networkidle")
    pane, row = page.locator(".pane-list"), page.locator(".row[aria-current]")

    def hidden() -> tuple[float, float]:
        """Return how much is in sight above and below the selected row."""
        place, frame = edges(row), edges(pane)
        return place["top"] - frame["top"] - edges(pane.locator(".bar"))["height"], frame["bottom"] - place[
            "bottom"
        ]

    for number in range(40):
        page.keyboard.press("n")
        expect(page.locator("#rows .row").nth(number)).to_have_attribute("aria-current", "true")
        assert hidden()[1] >= 112, number
    for number in range(38, 2, -1):
        page.keyboard.press("p")
        expect(page.locator("#rows .row").nth(number)).to_have_attribute("aria-current", "true")
        assert hidden()[0] >= min(112, number * 30), number


def test_a_row_that_is_clicked_stays_under_the_pointer(site: Site, visit: Visit, ann: Actor) -> None:
    subscribe(site, ann, 50)
    page = visit(login="ann")
    pane = page.locator(".pane-list")
    at = page.evaluate(
        """() => {
          const rows = [...document.querySelectorAll("#rows .row")];
          return rows.findLastIndex((row) => row.getBoundingClientRect().bottom <= innerHeight);
        }"""
    )
    row = page.locator("#rows .row").nth(at)
    before = edges(row)["top"]
    page.mouse.click(edges(row)["left"] + 120, before + 20)
    expect(row).to_have_attribute("aria-current", "true")
    expect(page.locator("#entry-title")).to_have_text(titles(page)[at])
    assert edges(row)["top"] == before
    assert pane.evaluate("(pane) => pane.scrollTop") == 0


@pytest.mark.parametrize("size", [*SIZES, PHONE])
def test_news_of_entries_cover_no_row_and_move_none(
    site: Site, visit: Visit, ann: Actor, size: tuple[int, int]
) -> None:
    subscribe(site, ann, 20)
    page = visit(login="ann", size=size)
    tops = page.eval_on_selector_all(
        "#rows .row", "(all) => all.map((row) => row.getBoundingClientRect().top)"
    )
    url = URLS[0]
    (feed,) = site.services.reading.get_tree(ann).feeds
    items = [*((f"fresh {n}", TEXT) for n in range(12)), *((f"one {n}", TEXT) for n in range(20))]
    pull(site.services, [feed.feed_id], {url: rss("Feed one", items)})
    page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    bar = page.locator("#newbar")
    expect(bar).to_have_text("12 new")
    assert page.eval_on_selector_all(
        "#rows .row", "(all) => all.map((row) => row.getBoundingClientRect().top)"
    ) == pytest.approx(tops)
    place, head = edges(bar), edges(page.locator(".pane-list > .bar"))
    assert head["top"] <= place["top"] < place["bottom"] <= head["bottom"]
    assert head["left"] <= place["left"] < place["right"] <= head["right"]
    for tool in page.locator(".pane-list > .bar .tool").all():
        if tool.is_visible():
            other = edges(tool)
            beside = place["right"] <= other["left"] or place["left"] >= other["right"]
            assert beside or place["top"] >= other["bottom"]
    bar.click()
    expect(bar).to_be_hidden()
    expect(page.locator("#rows .row").first).to_contain_text("fresh 0")


def test_a_phone_is_not_offered_three_panes(site: Site, visit: Visit, ann: Actor) -> None:
    subscribe(site, ann, 3)
    page = visit(login="ann", size=PHONE)
    page.locator(".pane-list summary[aria-label=View]").click()
    expect(page.locator(".menu-box [value=list]")).to_be_visible()
    expect(page.locator(".menu-box [value=panes]")).to_be_hidden()
    weight = "(button) => Number(getComputedStyle(button).fontWeight)"
    assert page.locator(".menu-box [value=list]").evaluate(weight) == 600
    assert page.locator(".menu-box [value=expanded]").evaluate(weight) == 400
    wide = visit(login="ann")
    wide.locator(".pane-list summary[aria-label=View]").click()
    expect(wide.locator(".menu-box [value=panes]")).to_be_visible()
    assert wide.locator(".menu-box [value=panes]").evaluate(weight) == 600
    assert wide.locator(".menu-box [value=list]").evaluate(weight) == 400


def test_lines_of_the_list_view_have_a_readable_measure(site: Site, visit: Visit, ann: Actor) -> None:
    publish(site, ann, rss("Feed one", [(TITLE, TEXT * 3)]))
    kept(site, ann, view="list")
    page = visit(login="ann", size=(1920, 1000))
    row = edges(page.locator("#rows .row"))
    assert 700 <= row["width"] <= 960
    assert edges(page.locator("#rows p"))["width"] <= row["width"]


def test_single_lines_beside_an_entry_show_the_headline(site: Site, visit: Visit, ann: Actor) -> None:
    publish(site, ann, rss("The feed with a name that is long enough for two", [(TITLE, TEXT)]))
    page = visit(login="ann")
    page.goto("/read/all?view=panes&density=compact")
    row = page.locator("#rows .row")
    assert edges(row.locator("h2"))["width"] >= edges(row)["width"] - 110
    expect(row.locator(".src")).to_be_hidden()
    expect(row.locator("p > .av")).to_be_visible()


@pytest.mark.parametrize(
    ("size", "height"), [(WIDE, 56), ((1200, 700), 56), ((1024, 768), 104), ((390, 844), 104)]
)
def test_the_head_of_a_list_is_one_line_and_two_in_a_narrow_pane(
    site: Site, visit: Visit, ann: Actor, size: tuple[int, int], height: int
) -> None:
    subscribe(site, ann, 5)
    page = visit(login="ann", size=size)
    assert edges(page.locator(".pane-list > .bar"))["height"] <= height
    expect(page.locator(".pane-list h1")).to_be_visible()
    expect(page.locator("#unread")).to_have_text("5 unread")


@pytest.mark.parametrize(("size", "columns"), [((1440, 900), 3), ((1024, 768), 2), ((390, 844), 1)])
def test_cards_of_a_wide_list_stand_in_columns(
    site: Site, visit: Visit, ann: Actor, size: tuple[int, int], columns: int
) -> None:
    site.services.accounts.set_preferences(ann, {"images": "site"})
    body = rss("Feed one", [(f"Card {n}", TEXT) for n in range(9)])
    for title in "Card 1", "Card 5":
        body = with_picture(body, title)
    publish(site, ann, body)
    page = visit(login="ann", size=size)
    page.route("https://pictures.example/**", lambda route: route.abort())
    page.goto("/read/all?view=list&density=card")
    rows = page.locator("#rows .row").all()
    boxes = [edges(row) for row in rows]
    assert len({box["left"] for box in boxes}) == columns
    # In reading order: none begins above the one before the last line.
    assert all(box["top"] >= boxes[max(0, n - columns)]["top"] for n, box in enumerate(boxes))
    pictured = page.locator("#rows .row:has(.thumb)")
    expect(pictured).to_have_count(2)
    plain = min(box["height"] for box in boxes)
    card, picture = edges(pictured.first), edges(pictured.first.locator(".thumb"))
    assert picture["bottom"] <= edges(pictured.first.locator("h2"))["top"]
    assert plain < card["height"] - picture["height"] / 2
    if columns > 1:
        assert picture["width"] == pytest.approx(card["width"], abs=3)
        # No card covers another one.
        for n, one in enumerate(boxes):
            for other in boxes[n + 1 :]:
                apart = one["bottom"] <= other["top"] or other["bottom"] <= one["top"]
                assert apart or one["right"] <= other["left"] or other["right"] <= one["left"]
    pane = page.locator(".pane-list")
    assert pane.evaluate("(e) => e.scrollWidth - e.clientWidth") == 0


def test_a_long_list_of_cards_stays_where_it_is(site: Site, visit: Visit, ann: Actor) -> None:
    site.services.accounts.set_preferences(ann, {"images": "site"})
    body = rss("Feed one", [(f"one {n}", TEXT) for n in range(700)])
    for n in range(0, 700, 3):
        body = with_picture(body, f"one {n}")
    publish(site, ann, body)
    page = visit(login="ann")
    page.route("https://pictures.example/**", lambda route: route.abort())
    page.goto("/read/all?view=list&density=card")
    page.evaluate("(async () => { while (await eventrModules.m_list.more()); })()")
    pane = page.locator(".pane-list")
    assert page.evaluate("eventrModules.m_list.all().length") == 700
    height = pane.evaluate("(pane) => pane.scrollHeight")
    for place in (0, height // 3, 1000, height):
        pane.evaluate("(pane, place) => pane.scrollTo(0, place)", place)
        page.wait_for_function(
            "() => { const e = document.querySelector('.pane-list').getBoundingClientRect();"
            " return [20, 400, 800].some((x) =>"
            " document.elementFromPoint(e.left + x, e.top + 300)?.closest('.row, .end-line')) }"
        )
        numbers = [int(title.split()[1]) for title in titles(page)]
        assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
        assert len(numbers) < 560
        assert pane.evaluate("(pane) => pane.scrollHeight") == pytest.approx(height, abs=40)


@pytest.mark.parametrize("size", [(390, 844), (1024, 768), (1440, 900)])
@pytest.mark.parametrize("view", ["panes", "list", "expanded"])
def test_a_lists_head_is_one_line_of_tools_beside_its_title(
    site: Site, visit: Visit, ann: Actor, size: tuple[int, int], view: str
) -> None:
    publish(site, ann, rss("Feed one", [("First", TEXT)]))
    page = visit(login="ann", size=size)
    page.goto(f"/read/all?view={view}")
    bar = page.locator(".pane-list > .bar")
    assert edges(bar)["height"] <= 58
    heading = edges(bar.locator("h1"))
    tools = [edges(tool) for tool in bar.locator(".tool:visible").all()]
    assert all(tool["right"] <= heading["left"] or tool["left"] >= heading["right"] for tool in tools)
    refresh = page.get_by_role("button", name="Check for new entries")
    if refresh.count() == 0:
        bar.get_by_title("More", exact=True).click()
    with page.expect_response("**/refresh"):
        refresh.click()


def test_a_pointers_star_covers_no_age(site: Site, visit: Visit, ann: Actor) -> None:
    publish(site, ann, rss("Feed one", [("First", TEXT)]))
    page = visit(login="ann")
    for density in ("cozy", "card", "compact"):
        page.goto(f"/read/all?density={density}")
        row = page.locator("#rows .row")
        row.hover()
        star, age = edges(row.locator(".star")), edges(row.locator("time"))
        assert star["right"] <= age["left"] + 1 or star["left"] >= age["right"] - 1, density
        assert row.locator(".star").evaluate("(e) => getComputedStyle(e).opacity") == "1"


@pytest.mark.parametrize("density", ["cozy", "card", "compact"])
def test_a_finger_takes_a_star_away_but_needs_a_swipe_to_set_one(
    site: Site, visit: Visit, ann: Actor, density: str
) -> None:
    publish(site, ann, rss("Feed one", [("First", TEXT), ("Second", TEXT)]))
    page = visit(login="ann", size=PHONE)
    first = site.services.reading.load_page(ann, StreamQuery(StreamRef.parse("all"))).rows[0].id
    site.services.reading.set_starred(ann, first, True)
    page.goto(f"/read/all?density={density}")
    starred, plain = page.locator("#rows .row .star").all()
    assert starred.evaluate("(e) => getComputedStyle(e).opacity") == "1"
    assert plain.evaluate("(e) => getComputedStyle(e).opacity") == "0"
    at = edges(starred)
    middle = (at["left"] + at["right"]) / 2, (at["top"] + at["bottom"]) / 2
    for x, y in ((0, 0), (-21, 0), (21, 0), (0, -16), (0, 16)):
        hit = f"document.elementFromPoint({middle[0] + x}, {middle[1] + y}).closest('.star') !== null"
        assert page.evaluate(hit), (x, y)
    # Where an unset star would be, a finger opens the entry.
    at = edges(plain)
    page.touchscreen.tap((at["left"] + at["right"]) / 2, (at["top"] + at["bottom"]) / 2)
    expect(page.locator("#entry-title")).to_have_text("Second")


#: What of the lines below the titles lies upon the age or the star of its row.
_UPON_AGES = """() => [...document.querySelectorAll("#rows .row:has(p)")].flatMap((row) => {
  const box = (e) => e.getBoundingClientRect();
  const upon = (a, b) => Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1
    && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 3;
  const ends = [...row.querySelectorAll(".end time, .end [aria-pressed=true]")].map(box);
  const texts = document.createTreeWalker(row.querySelector("p"), NodeFilter.SHOW_TEXT);
  const found = [];
  for (let text; (text = texts.nextNode());) {
    const range = document.createRange();
    range.selectNodeContents(text);
    for (let { left, right, top, bottom } of range.getClientRects()) {
      for (let e = text.parentElement; e !== row; e = e.parentElement) {
        if (getComputedStyle(e).overflow === "visible") continue;
        const clip = box(e);
        [left, top] = [Math.max(left, clip.left), Math.max(top, clip.top)];
        [right, bottom] = [Math.min(right, clip.right), Math.min(bottom, clip.bottom)];
      }
      const seen = { left, right, top, bottom };
      if (ends.some((end) => upon(end, seen))) found.push(text.textContent.slice(0, 40));
    }
  }
  return found;
})"""


@pytest.mark.parametrize("language", ["en", "ar"])
def test_no_line_of_a_row_lies_upon_its_age(site: Site, visit: Visit, language: str) -> None:
    """Texts of one direction in a page of the other, articles of several feeds, shares with notes."""
    filled = demo.fill(site.services)
    site.services.accounts.set_preferences(filled.ann, {"language": language})
    story = draw_story(filled)
    social.around(filled)
    social.passed_on(filled)
    page = visit(login="ann", language=language)
    found = []
    for size in (WIDE, PHONE):
        page.set_viewport_size({"width": size[0], "height": size[1]})
        for path in (
            *(f"{story}&density={density}" for density in ("cozy", "card", "compact")),
            "/read/all?view=list&density=card",
            "/read/all?view=list",
            "/search?q=japan+art",
            "/read/starred?density=card",
            "/read/following",
            "/read/today?view=list",
        ):
            page.goto(path.partition("&entry=")[0] if size == PHONE else path)
            expect(page.locator("#rows .row").first).to_be_visible()
            found += [f"{path} {size[0]} {language}: {text}" for text in page.evaluate(_UPON_AGES)]
    assert not found, "\n".join(found)


def test_a_letter_keeps_its_distance_from_the_name_in_a_page_from_right_to_left(
    site: Site, visit: Visit, ann: Actor
) -> None:
    publish(site, ann, rss("Feed one", [("Title", "")]))
    site.services.accounts.set_preferences(ann, {"language": "ar"})
    line = visit(login="ann", language="ar").locator("#rows .row p").first
    letter, name = edges(line.locator(".av")), edges(line.locator(".src"))
    assert letter["left"] - name["right"] >= 5


@pytest.mark.parametrize("size", [WIDE, PHONE])
def test_what_stands_beside_the_name_of_a_feed_tells_something(
    site: Site, visit: Visit, size: tuple[int, int]
) -> None:
    demo.fill(site.services)
    page = visit(login="ann", size=size)
    page.goto("/read/starred")
    lines = page.locator("#rows .row p:has(.tag)")
    shown = lines.evaluate_all("""(lines) => lines.flatMap((line) => {
      const end = line.getBoundingClientRect().bottom;
      const parts = [...line.querySelectorAll(".tag, .text")];
      return parts.filter((part) => part.getBoundingClientRect().top < end - 6)
        .map((part) => [part.offsetWidth, part.scrollWidth <= part.clientWidth]);
    })""")
    assert shown
    assert all(width >= 48 or is_whole for width, is_whole in shown)
    for path in ("/read/starred", "/read/starred?density=card", "/search?q=is:starred"):
        page.goto(path)
        line = page.locator("#rows .row p:has(.tag)").first
        icon, name = edges(line.locator(".av")), edges(line.locator(".src"))
        assert name["left"] - icon["right"] >= 5, path


@pytest.mark.parametrize("size", [WIDE, (1024, 768), PHONE])
@pytest.mark.parametrize("path", ["/read/starred", "/search?q=is:starred"])
def test_a_tag_stands_beside_the_name_or_is_not_to_be_seen(
    site: Site, visit: Visit, path: str, size: tuple[int, int]
) -> None:
    demo.fill(site.services)
    page = visit(login="ann", size=size)
    page.goto(path)
    places = page.locator("#rows .row p:has(.tag)").evaluate_all("""(lines) => lines.flatMap((line) => {
      const name = line.querySelector(".src").getBoundingClientRect();
      // A box without a place of its own has its tags in the line itself.
      const box = line.querySelector(".labels").getBoundingClientRect();
      const edge = (box.height ? box : line.getBoundingClientRect()).bottom;
      return [...line.querySelectorAll(".tag")].map((tag) => tag.getBoundingClientRect())
        .map((tag) => [tag.top >= edge, Math.abs(tag.top + tag.bottom - name.top - name.bottom) <= 4]);
    })""")
    assert places
    assert all(is_hidden or is_beside for is_hidden, is_beside in places), places


def test_a_highlighted_row_shows_whether_it_is_read(site: Site, visit: Visit) -> None:
    filled = demo.fill(site.services)
    page = visit(login="ann")
    page.goto(highlight_rows(filled))
    look = """(row) => [getComputedStyle(row.querySelector("h2")).fontWeight,
      getComputedStyle(row, "::before").backgroundColor, getComputedStyle(row).backgroundColor]"""
    read, unread = (page.locator(f"#rows .row.lit{which}").first for which in (".is-read", ":not(.is-read)"))
    ground = "rgba(255, 212, 59, 0.28)"
    assert read.evaluate(look) == ["400", "rgba(0, 0, 0, 0)", ground]
    assert unread.evaluate(look) == ["600", "rgb(11, 87, 183)", ground]
