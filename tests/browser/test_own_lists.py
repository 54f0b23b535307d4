"""The lists of notes and of own shares: what they are for stands in full contrast, with space around it."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.conftest import PHONE, WIDE, Site
from tests.browser.screens import SCREENS
from tests.support import demo, social

Visit = Callable[..., Page]
EN, AR = "en", "ar"
#: All in which a row has more than one line.
LOOKS = (
    "view=panes&density=cozy",
    "view=panes&density=card",
    "view=list&density=cozy",
    "view=list&density=card",
)
#: The lines of a row below each other, and the space between each two, in px.
_GAPS = """(row) => {
  const gist = [...row.querySelectorAll(".gist > *")];
  const parts = [row.querySelector("h2"), row.querySelector("p"), ...gist];
  const lines = parts.map((e) => e.getBoundingClientRect());
  return lines.slice(1).map((line, n) => line.top - lines[n].bottom);
}"""
#: The contrast of a text with what is below it.
_CONTRAST = """(e) => {
  const channel = (v) => (v / 255 <= 0.03928 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4);
  const light = (css) => {
    const [r, g, b] = css.match(/[\\d.]+/g).map(Number);
    return 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
  };
  let ground = e;
  while (/, 0\\)|transparent/.test(getComputedStyle(ground).backgroundColor)) ground = ground.parentElement;
  const both = [light(getComputedStyle(e).color), light(getComputedStyle(ground).backgroundColor)].sort();
  return (both[1] + 0.05) / (both[0] + 0.05);
}"""


@pytest.fixture
def filled(site: Site) -> demo.Demo:
    found = demo.fill(site.services)
    for name in ("notes", "notes-list"):
        path = next(screen.path for screen in SCREENS if screen.name == name)
        assert callable(path)
        path(found)
    social.passed_on(found)
    return social.own_shares(found)


def _middle(place: Locator) -> float:
    box = place.bounding_box()
    assert box is not None
    return box["y"] + box["height"] / 2


@pytest.mark.parametrize("language", [EN, AR])
def test_lists_of_ones_own_give_each_line_its_space(
    site: Site, visit: Visit, filled: demo.Demo, language: str
) -> None:
    site.services.accounts.set_preferences(filled.ann, {"language": language})
    page = visit(login="ann", language=language)
    tight = []
    for size in (WIDE, (1024, 768), PHONE):
        page.set_viewport_size({"width": size[0], "height": size[1]})
        for look in LOOKS:
            for name in ("notes", "shares"):
                page.goto(f"/read/{name}?{look}")
                expect(page.locator("#rows .row")).to_have_count(4)
                gaps = [gap for row in page.locator("#rows .row").all() for gap in row.evaluate(_GAPS)]
                tight += [f"{name} {size[0]} {look}: {gap}" for gap in gaps if gap < 3.9]
                assert len(gaps) > 4 * 2
    assert not tight, "\n".join(tight)


def test_a_note_shows_its_passage_and_its_own_words(visit: Visit, filled: demo.Demo) -> None:
    page = visit(login="ann")
    page.goto("/read/notes?view=panes&density=cozy")
    row = page.locator(f'.row[data-id="{filled.entry}"]')
    quoted, written = row.locator(".quoted"), row.locator(".written span")
    for text in (quoted, written):
        assert text.evaluate("(e) => parseFloat(getComputedStyle(e).fontSize)") >= 14
        assert text.evaluate(_CONTRAST) > 12
    assert quoted.evaluate("(e) => getComputedStyle(e).borderInlineStartWidth") == "3px"
    expect(row.get_by_role("img", name="Your note")).to_be_visible()
    expect(row.locator(".rest")).to_have_text("1 more highlight 1 more note")
    grounds = page.locator("#rows .row").evaluate_all(
        "(rows) => rows.map((e) => getComputedStyle(e).backgroundColor)"
    )
    assert set(grounds) == {"rgba(0, 0, 0, 0)"}, "no row is filled"


def test_the_list_of_notes_shows_when_each_was_written_in_the_order_of_the_rows(
    visit: Visit, filled: demo.Demo
) -> None:
    page = visit(login="ann")
    page.goto("/read/notes?view=panes&density=cozy")
    times = page.locator("#rows .row time")
    expect(times).to_have_count(4)
    noted = [one.get_attribute("datetime") or "" for one in times.all()]
    assert noted == sorted(noted, reverse=True)
    for row in page.locator("#rows .row").all():
        expect(row.locator("time")).to_have_attribute("title", re.compile(r"^Noted: \w"))
    # Other lists show when an entry was published.
    page.goto("/read/all?view=panes&density=cozy")
    expect(page.locator('#rows time[title^="Noted"]')).to_have_count(0)


def test_tags_have_a_line_of_their_own_below_a_note_also_those_just_added(
    visit: Visit, filled: demo.Demo
) -> None:
    page = visit(login="ann")
    page.goto("/read/notes?view=panes&density=cozy")
    row = page.locator(f'.row[data-id="{filled.entry}"]')
    labels = row.locator(".gist > .labels")
    parts = ["quoted hl-yellow", "written", "rest", "labels"]

    def expect_tags(*names: str) -> None:
        expect(labels.locator(".tag")).to_have_text(list(names))
        expect(row.locator("p .tag")).to_have_count(0)
        assert row.locator(".gist > *").evaluate_all("(all) => all.map((e) => e.className)") == parts

    expect_tags("Japan", "Travel")
    row.locator("h2 a").click()
    page.locator("#tags summary").click()
    page.locator("#tag-list button").get_by_text("Recipes for spring").click()
    expect_tags("Japan", "Recipes for spring", "Travel")
    page.reload()
    expect_tags("Japan", "Recipes for spring", "Travel")
    page.goto("/read/shares?view=panes&density=cozy")
    share = page.locator("#rows .row:has(.rest)").first
    share.locator("h2 a").click()
    expect(page.locator("#article .prose").first).to_be_visible()
    page.keyboard.press("t")
    page.locator("#tag-list button").get_by_text("Recipes for spring").click()
    expect(share.locator(".labels + .rest")).to_be_visible()
    expect(share.locator("p .tag")).to_have_count(0)


def test_rows_of_ones_own_lists_say_nothing_of_being_read(visit: Visit, filled: demo.Demo) -> None:
    page = visit(login="ann")
    for name in ("notes", "shares"):
        page.goto(f"/read/{name}?view=panes&density=cozy")
        for row in page.locator("#rows .row").all():
            dot = row.evaluate("(e) => getComputedStyle(e, '::before').visibility")
            assert dot == "hidden"
            assert "Unread" not in row.locator("h2").aria_snapshot()
            assert row.locator("h2").evaluate("(e) => getComputedStyle(e).fontWeight") == "600"
    page.goto("/read/notes?view=panes&density=cozy")
    page.keyboard.press("j")
    row = page.locator("#rows .row[aria-current]")
    expect(row).to_have_class(re.compile("is-read"))
    page.keyboard.press("m")
    expect(row).not_to_have_class(re.compile("is-read"))
    assert "Unread" not in row.locator("h2").aria_snapshot()
    # The other lists keep their dots.
    page.goto("/read/all?view=panes&density=cozy")
    other = page.locator("#rows .row:not(.is-read)").first
    assert other.evaluate("(e) => getComputedStyle(e, '::before').visibility") == "visible"
    assert "Unread" in other.locator("h2").aria_snapshot()


def test_an_own_share_shows_the_note_first_and_its_audience_beside_the_source(
    visit: Visit, filled: demo.Demo
) -> None:
    for size in (WIDE, PHONE):
        page = visit(login="ann", size=size)
        page.goto("/read/shares?view=panes&density=cozy")
        first, second, third, last = page.locator("#rows .row").all()
        seen_by = first.locator(".seen-by")
        expect(seen_by).to_have_text("Followers")
        expect(seen_by).to_have_attribute("title", "Followers only")
        assert seen_by.evaluate("(e) => getComputedStyle(e, '::before').content").startswith('"·"')
        assert abs(_middle(seen_by) - _middle(first.locator(".src"))) < 2
        assert abs(_middle(seen_by) - _middle(first.locator("time"))) < 3
        expect(last.locator(".seen-by")).to_have_text("Only you")
        for row in (second, third):
            expect(row.locator(".seen-by")).to_have_count(0)
        parts = first.locator(".gist > *").evaluate_all("(parts) => parts.map((e) => e.className)")
        assert parts == ["written", "labels"]
        assert first.locator(".written span").evaluate(_CONTRAST) > 12
        # Not what somebody else wrote who shared the same entry.
        expect(second.locator(".written")).to_contain_text("The best piece on phones")
        expect(second.locator(".rest")).to_have_text("1 re-share 2 likes 2 comments")
        expect(third.locator(".about")).to_be_visible()
        new = page.get_by_role("link", name="New post")
        expect(new).to_have_attribute("title", "Write a post")
        expect(new.get_by_text("New post")).to_be_visible()
        new.click()
        page.wait_for_url("**/compose")


def test_a_list_of_single_lines_has_one_line_each(visit: Visit, filled: demo.Demo) -> None:
    page = visit(login="ann")
    for name, words in (("notes", "just about cherry"), ("shares", "Look at this")):
        page.goto(f"/read/{name}?view=list&density=compact")
        expect(page.locator("#rows .row").first.get_by_text(words)).to_be_in_viewport()
        heights = page.locator("#rows .row").evaluate_all("(rows) => rows.map((e) => e.clientHeight)")
        assert max(heights) < 36


@pytest.mark.parametrize("language", ["en", "ru"])
def test_large_letters_stay_within_a_small_screen(
    site: Site, visit: Visit, filled: demo.Demo, language: str
) -> None:
    site.services.accounts.set_preferences(filled.ann, {"language": language})
    page = visit(login="ann", language=language, size=(320, 700))
    for name in ("notes", "shares"):
        page.goto(f"/read/{name}")
        page.evaluate("document.documentElement.style.fontSize = '200%'")
        assert page.evaluate("document.scrollingElement.scrollWidth") <= 320
        outside = page.locator(".bar, .gist").evaluate_all(
            "(all) => all.filter((e) => e.scrollWidth > e.clientWidth + 1).length"
        )
        assert outside == 0
