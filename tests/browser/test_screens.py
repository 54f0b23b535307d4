"""Every screen × five themes × three widths × both directions: accessible, nothing too wide, no error."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Page, ViewportSize

from app import clock
from app.config import Settings
from tests.browser import axe
from tests.browser.axe import CONTRAST, LINKS, PLACED, RULES, Contrast, Options
from tests.browser.conftest import Site, log_in
from tests.browser.screens import SCREENS, Screen
from tests.support import demo
from tests.support.reader import add_user

Visit = Callable[..., Page]
#: All but contrast, which has its own look.
OTHERS: Options = {**RULES, "rules": {CONTRAST: {"enabled": False}}}
#: The same page in other colours: only what looks at colours can change its mind.
COLOURS: Options = {"runOnly": [LINKS]}
#: What is asked about a document that was not seen before, by the device's colour scheme and the theme.
#: A chosen theme is looked at where the device says otherwise.
LOOKS: dict[tuple[str, str], Options] = {
    ("light", "auto"): OTHERS,
    ("dark", "auto"): COLOURS,
    ("dark", "light"): COLOURS,
    ("dark", "sepia"): COLOURS,
    ("light", "dark"): COLOURS,
    ("light", "black"): COLOURS,
}
#: Of many rows of one make the first are looked at.
MANY = ["tbody > tr:nth-child(n+9)", ".settings > li:nth-child(n+9)", ".key-rows > li:nth-child(n+5)"]
WIDTHS = {"wide": (1440, 900), "tablet": (820, 1100), "phone": (360, 740)}
#: By how many pixels the highest of what scrolls is higher than what is seen of it.
_HIDDEN = """() => Math.max(...[document.documentElement, ...document.querySelectorAll(".pane")]
  .map((place) => place.scrollHeight - place.clientHeight))"""
LANGUAGES = {"ltr": "en", "rtl": "ar"}
#: Screens that are asked all in every theme in the mirrored language too, others only about positions.
MIRRORED = frozenset(
    [
        "landing",
        "login",
        "signup",
        "tree",
        "list",
        "article",
        "article-menu",
        "story",
        "view-expanded",
        "view-menu",
        "rows-compact",
        "rows-cards-wide",
        "today-wide",
        "recent",
        "starred",
        "tag",
        "tags",
        "search-found",
        "search-empty",
        "statistics",
        "lists",
        "jump",
        "help",
        "notifications",
        "talk",
        "add-words",
        "page-lists",
        "feed",
        "feed-failing",
        "welcome",
        "packs",
        "subscriptions",
        "notes",
        "settings",
        "settings-display",
        "sending-refused",
        "rule-stored",
        "rules-running",
        "admin-texts-tried",
        "import-server-reading",
        "marked",
        "caught-up",
        "people",
        "person-found",
        "following",
        "share-note",
        "shares",
        "compose",
        "discover",
        "shared-stream",
        "shared-one",
    ]
)
#: Where a part of the screens begins: each is a test of its own, that no single one is the long end of a run.
#: Screens of imports, then of the administration, which shows their jobs, stay in one.
PARTS = {"reading": "landing", "finding": "tags", "managing": "import-preview", "sharing": "people-none"}


def _parted() -> dict[str, list[Screen]]:
    """Each screen is in one of the parts."""
    begins = {first: part for part, first in PARTS.items()}
    parted: dict[str, list[Screen]] = {}
    for screen in SCREENS:
        if screen.name in begins:
            part = parted[begins[screen.name]] = []
        part.append(screen)
    return parted


_PARTED = _parted()


@pytest.fixture
def settings(settings: Settings) -> Settings:
    """Sessions that outlive the clock of these tests, and lists as short as shows all their parts."""
    return dataclasses.replace(settings, session_idle=10**9, session_max=10**9, page_size=8)


@pytest.fixture(autouse=True)
def _then() -> Iterator[None]:
    with clock.set_source(lambda: demo.NOW):
        yield


@pytest.fixture(scope="session")
def contrast() -> Contrast:
    """Colours that passed on one screen pass on all: one memory per process."""
    return Contrast()


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("direction", LANGUAGES)
def test_every_screen_is_accessible(
    site: Site, visit: Visit, contrast: Contrast, direction: str, part: str
) -> None:
    """Axe finds nothing; nothing is wider than the screen, neither at 320 px nor with text at 200 %."""
    filled = demo.fill(site.services)
    code = LANGUAGES[direction]
    site.services.accounts.set_preferences(filled.ann, {"language": code})
    screens = _PARTED[part]
    pages = {who: visit(language=code, expect="of 4") for who in {screen.stranger for screen in screens}}
    log_in(pages[False], "ann")
    for page in pages.values():
        page.add_init_script(axe.AXE)
    touch = {page: page.context.new_cdp_session(page) for page in pages.values()}
    found: list[str] = []
    for screen in screens:
        page = pages[screen.stranger]
        is_whole = direction == "ltr" or screen.name in MIRRORED
        page.set_viewport_size(_size(*WIDTHS["wide"]))
        with screen.shown(page, filled):
            known: set[str] = set()
            for width, size in WIDTHS.items():
                touch[page].send("Emulation.setTouchEmulationEnabled", {"enabled": width == "phone"})
                _unroll(page, size)
                page.emulate_media(color_scheme="light")
                for (scheme, theme), options in _asked(page, direction, known, is_whole).items():
                    page.emulate_media(color_scheme=scheme)
                    page.evaluate("(theme) => { document.documentElement.dataset.theme = theme; }", theme)
                    at = f"{screen.name} {width} {scheme} {theme} {direction}"
                    found += [
                        f"{at}: {fault}"
                        for fault in _faults(page, options, screen.covers, contrast if is_whole else None)
                    ]
                page.evaluate("document.documentElement.dataset.theme = 'auto'")
            found += [f"{screen.name} {direction}: {fault}" for fault in _cut(page)]
    assert not found, "\n".join(found)


def _asked(page: Page, direction: str, known: set[str], is_whole: bool) -> dict[tuple[str, str], Options]:
    """Return what to ask axe, by colour scheme and theme.

    A document that shows the same as before is asked only about positions. So are the less common screens in
    the mirrored language: labels come from the same templates in both languages, and the test of the
    catalogues sees to it that no translation is missing.
    """
    if direction == "rtl":
        assert page.evaluate("[document.dir, document.documentElement.lang]") == [
            direction,
            LANGUAGES[direction],
        ]
    if not is_whole:
        return {("light", "auto"): PLACED}
    document = axe.shown(page)
    if document in known:
        return dict.fromkeys(LOOKS, Options()) | {("light", "auto"): PLACED}
    known.add(document)
    return LOOKS


def _cut(page: Page) -> Iterator[str]:
    """WCAG 1.4.10 and 1.4.4: reflow at 320 px, and text at 200 %."""
    page.set_viewport_size(_size(320, 640))
    for zoom in ("100%", "200%"):
        page.evaluate("(zoom) => { document.documentElement.style.fontSize = zoom; }", zoom)
        if (wider := _too_wide(page)) > 0:
            yield f"{wider} px too wide at 320 px and {zoom}"


def _unroll(page: Page, size: tuple[int, int]) -> None:
    """Make the window as high as page and panes: what a bar covers at one moment is reached by scrolling."""
    page.set_viewport_size(_size(*size))
    hidden = page.evaluate(_HIDDEN)
    if hidden > 0:
        page.set_viewport_size(_size(size[0], size[1] + hidden))


def _size(width: int, height: int) -> ViewportSize:
    return {"width": width, "height": height}


def _faults(
    page: Page, options: Options = RULES, covers: str = "", contrast: Contrast | None = None
) -> Iterator[str]:
    # Below .prose is foreign HTML: what alternatives its pictures have is up to its author.
    exclude = [".prose", *MANY, *filter(None, covers.split(", "))]
    if options:
        yield from axe.faults(page, options, exclude)
    if contrast:
        yield from contrast.faults(page, exclude)
    if (wider := _too_wide(page)) > 0:
        yield f"{wider} px too wide"


def _too_wide(page: Page) -> Any:
    return page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")


def test_an_account_without_feeds_is_shown_the_way(site: Site, visit: Visit, contrast: Contrast) -> None:
    add_user(site.services)
    for size in (WIDTHS["wide"], WIDTHS["phone"]):
        page = visit(size=size, login="ann")
        for path in ("/read/all", "/read", "/read/starred", "/add?first=1", "/folders"):
            page.goto(path)
            _unroll(page, size)
            assert not list(_faults(page, OTHERS, contrast=contrast)), path


@pytest.mark.long
def test_longer_words_push_nothing_off_the_screen(site: Site, visit: Visit) -> None:
    """The pseudo-locale: every sentence 40 % longer."""
    filled = demo.fill(site.services)
    site.services.accounts.set_preferences(filled.ann, {"language": "en-XA"})
    page = visit(size=WIDTHS["phone"], expect="404", login="ann")
    found = []
    for screen in SCREENS:
        if not screen.stranger and screen.prepare is None:
            with screen.shown(page, filled):
                for size in (WIDTHS["phone"], (320, 640)):
                    page.set_viewport_size(_size(*size))
                    if (wider := _too_wide(page)) > 0:
                        found.append(f"{screen.name}: {wider} px too wide at {size[0]} px")
    assert not found, "\n".join(found)


def test_mirrored_screens_exist() -> None:
    assert {screen.name for screen in SCREENS} >= MIRRORED
