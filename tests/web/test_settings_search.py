"""The search for settings: it knows all of them, in each language."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from bs4 import BeautifulSoup, Tag

from app.bootstrap.services import Services
from app.models.accounts.actor import Actor
from app.web.keyboard.keys import ROWS
from app.web.view.render import SETTINGS_SECTIONS
from app.web.view.settings_search import PAGES, SETTINGS
from tests.web.conftest import Visitor

#: Headings and fields that are no settings.
NOT_SETTINGS = {
    # Heads of columns of switches.
    "Notify me when someone…",
    "Notify me when…",
    "Connected apps and scripts",
    "Name",
    "Name (optional)",
    "List",
    "Expires",
    "Scopes",
    "Your password",
    "Current password",
    "New password",
    "User name",
    "Email address",
    "Picture file",
    "Keys",
    "Upload files",
    "Find a shortcut",
    # Groups of the reading settings.
    "Lists",
    "Feeds",
    "Mark as read",
    "Entries",
    "Swipes",
    *(f"Link {number}" for number in range(1, 6)),
}


def _search(visitor: Visitor, query: str) -> list[tuple[str, str]]:
    """Return address and label of what is found."""
    page = BeautifulSoup(visitor.get("/settings", query_string={"q": query}).text, "lxml")
    links = page.select("#found-settings a")
    return [(str(link["href"]), str(link.select_one("span").contents[0])) for link in links]  # type: ignore[union-attr]


def _page(visitor: Visitor, path: str) -> BeautifulSoup:
    return BeautifulSoup(visitor.get(path).text, "lxml")


@pytest.fixture
def ann_with_page(ann: Visitor, services: Services) -> Visitor:
    """Somebody whose settings show all that there is."""
    ann.post("/settings/sharing", {"audience": "public"})
    user_id = services.gateways.accounts.find_by_name("ann")
    assert user_id is not None
    services.people_lists.list_circle(Actor(user_id))
    return ann


def test_every_result_leads_to_its_setting(ann_with_page: Visitor) -> None:
    pages: dict[str, BeautifulSoup] = {}
    missing = []
    for setting in SETTINGS:
        page = pages.setdefault(setting.path, _page(ann_with_page, setting.path))
        # Shown only where there is something of the kind.
        if (
            setting.anchor
            and setting.anchor not in ("others", "muted-title")
            and not page.find(id=setting.anchor)
        ):
            missing.append((setting.path, setting.anchor))
    keys = pages["/settings/keys"]
    missing += [("keys", action) for action in ROWS if not keys.find(id=f"key-{action}")]
    assert not missing


def test_every_setting_of_the_pages_can_be_found(ann_with_page: Visitor) -> None:
    unknown = []
    for section, _icon, _title in SETTINGS_SECTIONS:
        path = f"/settings/{section}"
        known = {setting.label for setting in SETTINGS if setting.path == path}
        body = _page(ann_with_page, path).select_one(".section")
        assert body is not None
        for shown in body.select("h2, legend, .field > label, .onoff div > label"):
            for other in shown.select("[data-kind]:not([data-kind=''])"):
                other.decompose()
            words = " ".join(shown.text.split())
            group = shown.find_parent("section", attrs={"data-group": True})
            if words not in known | NOT_SETTINGS and group is None and not _is_choice(shown):
                unknown.append((path, words))
    assert not unknown


def _is_choice(label: Tag) -> bool:
    return label.find_parent("li") is not None


def test_the_search_names_pages_as_their_list_does() -> None:
    named = {f"/settings/{section}": title for section, _icon, title in SETTINGS_SECTIONS}
    assert {path: PAGES[path] for path in named} == named


@pytest.mark.parametrize(
    ("query", "url"),
    [
        ("theme", "/settings/display#f-theme"),
        ("DARK MODE", "/settings/display#f-theme"),
        ("scroll", "/settings/reading#s-mark_on_scroll"),
        ("dyslexia", "/settings/display#f-font"),
        ("  delete   account ", "/settings/account#delete"),
        ("opml", "/imports#f-file"),
        ("avatar", "/settings/sharing#avatar-title"),
        ("push", "/settings/notifications#devices"),
        ("sessions", "/settings/sessions"),
        ("mark all as read", "/settings/keys#key-mark-all"),
    ],
)
def test_the_first_result_is_what_people_mean(ann: Visitor, query: str, url: str) -> None:
    assert url in [found for found, _label in _search(ann, query)[:2]]


def test_words_are_found_in_the_language_of_the_page_and_in_english(ann: Visitor) -> None:
    for language, query in (
        ("de", "schriftgrosse"),
        ("de", "SCHRIFTGRÖSSE"),
        ("ru", "тема"),
        ("ar", "المظهر"),
        ("de", "theme"),
    ):
        ann.client.set_cookie("language", language)
        urls = [url for url, _label in _search(ann, query)]
        assert urls, (language, query)
        if query.lower().startswith("schrift"):
            assert urls[0] == "/settings/display#f-size"


def test_nothing_found_says_so_and_nothing_asked_shows_all_pages(ann: Visitor) -> None:
    assert "No matching settings" in ann.get("/settings?q=qqqq").text
    assert _search(ann, "qqqq") == []
    for query in ("", "   "):
        assert _search(ann, query) == []
        assert "No matching settings" not in ann.get("/settings", query_string={"q": query}).text


def test_a_script_gets_the_results_alone(ann: Visitor, visitor: Callable[[], Visitor]) -> None:
    headers = {"HX-Request": "true", "HX-Target": "div#found-settings"}
    part = ann.get("/settings?q=%3Cb%3Etheme", headers=headers).text
    assert "<html" not in part
    assert "<b>" not in part
    assert visitor().get("/settings?q=theme").status_code == 303
