"""Finds settings by words: all settings of a user, each with its place on one of the pages.

Tests compare the table with what the pages show, so no setting can be missing here.
"""

from __future__ import annotations

import dataclasses
import functools
import unicodedata
from collections.abc import Iterable, Sequence

from flask_babel import gettext

from app.errors import N_
from app.web.keyboard.keys import GROUPS
from app.web.view import i18n

#: Most results that are shown.
LIMIT = 20
_LABEL_START, _LABEL_WORD, _LABEL, _OTHER = 1, 2, 4, 8


@dataclasses.dataclass(frozen=True, slots=True)
class Setting:
    """A setting and where it is.

    Attributes:
        path: of the page. anchor: the id of the setting there, empty for the whole page.
        label: as on the page, in English.
        words: other texts to find it by: its choices, and what people call it elsewhere.
    """

    path: str
    anchor: str
    label: str
    words: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class FoundSetting:
    """A result: its address, its label and the title of its page in the user's language."""

    url: str
    label: str
    page: str


#: The pages: path → title.
PAGES = {
    "/settings/reading": N_("Reading"),
    "/settings/display": N_("Display and language"),
    "/settings/rules": N_("Rules"),
    "/settings/sending": N_("Send to"),
    "/settings/keys": N_("Keyboard shortcuts"),
    "/settings/sharing": N_("Profile and sharing"),
    "/settings/notifications": N_("Notification settings"),
    "/settings/privacy": N_("Privacy"),
    "/settings/apps": N_("Apps"),
    "/settings/files": N_("Files"),
    "/settings/statistics": N_("Reading statistics"),
    "/settings/account": N_("Account"),
    "/settings/sessions": N_("Sessions"),
    "/imports": N_("Import and export"),
    "/subscriptions": N_("Subscriptions"),
    "/people": N_("People"),
    "/history": N_("Undo history"),
}


def _on(path: str, *rows: tuple[str, str, tuple[str, ...]]) -> tuple[Setting, ...]:
    return tuple(Setting(path, *row) for row in rows)


SETTINGS: tuple[Setting, ...] = (
    *(Setting(path, "", title) for path, title in PAGES.items()),
    *_on(
        "/settings/reading",
        ("o-view", N_("View"), (N_("Three panes"), N_("List"), N_("Expanded"), N_("layout"))),
        ("o-density", N_("Density"), (N_("Compact"), N_("Cozy"), N_("Cards"), N_("layout"))),
        ("o-sort", N_("Sort order"), (N_("Unread on top"), N_("Newest first"), N_("Oldest first"))),
        ("o-show", N_("Show"), (N_("All entries"), N_("Unread only"))),
        (
            "o-after_mark_all",
            N_("After marking all as read"),
            (N_("Stay on the list"), N_("Go to the next unread feed")),
        ),
        ("s-mark_on_scroll", N_("Mark as read while scrolling"), ()),
        ("s-stories", N_("One row per article"), (N_("duplicates"),)),
        ("s-auto_load", N_("Load more automatically"), (N_("infinite scrolling"),)),
        (
            "o-images",
            N_("Pictures"),
            (N_("Through Eventr"), N_("From their sites"), N_("No pictures"), N_("images"), N_("privacy")),
        ),
        ("o-swipe_right", N_("Swipe right"), (N_("touch gestures"),)),
        ("o-swipe_left", N_("Swipe left"), (N_("touch gestures"),)),
        ("o-swipe_long", N_("Long swipe in either direction"), (N_("touch gestures"),)),
        (
            "o-tree_order",
            N_("Order of feeds and folders"),
            (
                *(N_("Your own order"), N_("By name"), N_("Most unread first"), N_("Newest entries first")),
                N_("sidebar"),
            ),
        ),
        ("s-hide_read_feeds", N_("Hide feeds without unread entries"), (N_("sidebar"),)),
    ),
    *_on(
        "/settings/display",
        (
            "f-theme",
            N_("Theme"),
            (N_("System"), N_("Light"), N_("Sepia"), N_("Dark"), N_("Black"), N_("dark mode"), N_("colors")),
        ),
        (
            "f-font",
            N_("Font"),
            (N_("Sans serif"), N_("Serif"), N_("Easy to read"), N_("For dyslexia"), N_("typeface")),
        ),
        ("f-size", N_("Text size"), (N_("larger text"), N_("zoom"))),
        ("f-line_height", N_("Line height"), (N_("spacing"),)),
        ("f-text_width", N_("Line width"), (N_("column width"),)),
        ("f-justified", N_("Justified text"), (N_("alignment"),)),
        ("f-language", N_("Language"), (N_("translation"),)),
        ("f-zone", N_("Time zone"), (N_("clock"),)),
        ("o-times", N_("Time format"), (N_("Relative"), N_("Date and time"), N_("clock"))),
    ),
    *_on(
        "/settings/rules",
        ("rules", N_("Rules"), (N_("filters"), N_("hide entries"), N_("highlight"))),
        ("rules-file", N_("Rules as a file"), ("JSON",)),
        ("f-rules-file", N_("Add rules from a file"), ()),
    ),
    *_on(
        "/settings/sending",
        ("services", N_("Services"), ("Webhook", "ntfy", "Gotify", "Readeck", "Linkding", N_("read later"))),
        ("new-service", N_("Add a service"), (N_("integrations"),)),
        ("f-kind", N_("Service"), ()),
        ("f-address", N_("Address"), ()),
        ("f-secret", N_("Access token"), (N_("Secret"),)),
        ("s-star", N_("Send entries when I star them"), ()),
        ("s-share", N_("Send entries when I share them"), ()),
    ),
    *_on("/settings/keys", ("single", N_("Single-key shortcuts"), (N_("speech input"), N_("turn off keys")))),
    *_on(
        "/settings/sharing",
        ("f-address", N_("Address of your page"), (N_("profile link"),)),
        ("avatar-title", N_("Your picture"), (N_("avatar"), N_("profile picture"))),
        (
            "o-audience",
            N_("Who can see your shares"),
            (N_("Everyone"), N_("Followers"), N_("Only me"), N_("audience"), N_("privacy")),
        ),
        ("f-display", N_("Display name"), (N_("profile"),)),
        ("f-bio", N_("About you"), (N_("profile"),)),
        ("o-links", N_("Links"), (N_("profile"),)),
        ("s-listed", N_("Let search engines list my page"), (N_("privacy"),)),
        ("s-open_lists", N_("Show who I follow and who follows me"), (N_("privacy"),)),
        ("s-similar", N_("Let people with similar feeds find me"), (N_("privacy"), N_("Discover"))),
    ),
    *_on(
        "/settings/notifications",
        ("s-notify_follower", N_("follows me"), (N_("New follower"),)),
        ("s-notify_request", N_("sends me a follow request"), ()),
        ("s-notify_reshare", N_("re-shares one of my shares"), ()),
        ("s-notify_like", N_("likes one of my shares"), ()),
        ("s-notify_comment", N_("comments on one of my shares"), ()),
        ("s-notify_reply", N_("replies to one of my comments"), ()),
        ("s-notify_mention", N_("mentions me"), ()),
        ("s-notify_import", N_("an import finishes"), ()),
        ("s-notify_export", N_("my data export is ready"), ()),
        ("s-notify_entries", N_("a feed that I chose has new entries"), ()),
        ("s-notify_search", N_("a saved search has new results"), ()),
        ("s-notify_found", N_("a feed is found that I looked for"), ()),
        ("s-notify_feed", N_("one of my feeds has been failing for days"), ()),
        ("devices", N_("Devices"), (N_("push notifications"), N_("this device"))),
    ),
    *_on(
        "/settings/privacy",
        ("media", N_("Audio, video and players of other sites"), (N_("podcasts"), N_("video"), N_("embeds"))),
        ("pictures", N_("Pictures"), (N_("images"), N_("tracking"))),
    ),
    *_on(
        "/settings/apps",
        ("phone", N_("Set up an app on your phone"), ("QR code", N_("Server address"))),
        ("list", N_("Connected apps and scripts"), (N_("Revoke"),)),
        ("password", N_("New app password"), (N_("phone"), "Google Reader API", "Fever API")),
        ("token", N_("New access token"), ("API", N_("script"))),
        ("feed", N_("New feed address of a list"), ("Atom", "RSS", "JSON Feed", N_("script"))),
        ("save", N_("Save pages"), (N_("read later"), N_("bookmarklet"))),
    ),
    *_on(
        "/settings/files",
        ("storage", N_("Storage"), (N_("quota"),)),
        ("files", N_("Your files"), (N_("Uploads"),)),
    ),
    Setting("/settings/apps/clients", "", N_("App setup"), (N_("phone"), N_("Server address"))),
    *_on(
        "/settings/account",
        ("identity", N_("User name and email address"), (N_("login name"),)),
        ("password", N_("Password"), (N_("Change password"),)),
        ("export", N_("Data export"), (N_("download my data"), N_("backup"))),
        (
            "delete",
            N_("Account deletion"),
            (
                N_("Delete my account…"),
                N_("close my account"),
            ),
        ),
    ),
    *_on("/settings/sessions", ("others", N_("End all other sessions"), (N_("Log out"),))),
    *_on(
        "/imports",
        ("f-file", N_("Import from another reader"), ("OPML",)),
        ("export", N_("Export"), ("OPML", N_("backup"))),
    ),
    *_on(
        "/people",
        ("muted-title", N_("Muted"), (N_("mute"),)),
        ("blocked-title", N_("Blocked"), (N_("block"),)),
    ),
)


def find_settings(query: str, limit: int = LIMIT) -> list[FoundSetting]:
    """Return the settings that match all words of a query, the best first.

    Words are found in the user's language and in English, in upper or lower case, with or without accents.
    """
    words = _fold(query).split()
    if not words:
        return []
    ranked = [
        # Shortcuts come after all settings: most words occur in one of them.
        (number >= len(SETTINGS), rank, number, found)
        for number, (found, label, rest) in enumerate(_list_texts(i18n.get_language()))
        if (rank := _rank(words, label, rest))
    ]
    return [found for *_place, found in sorted(ranked, key=lambda one: one[:3])[:limit]]


def _rank(words: Sequence[str], label: str, rest: str) -> int:
    """Return how well words match, the smallest number first; 0: not all of them match."""
    total = 0
    for word in words:
        if label.startswith(word):
            total += _LABEL_START
        elif f" {word}" in label:
            total += _LABEL_WORD
        elif word in label:
            total += _LABEL
        elif f" {word}" in rest:
            total += _OTHER
        else:
            return 0
    return total


@functools.lru_cache(maxsize=8)
def _list_texts(language: str) -> tuple[tuple[FoundSetting, str, str], ...]:
    """Return each setting with its label and its other texts, folded; then all shortcuts."""
    found = [_prepare(s.path, s.anchor, s.label, PAGES.get(s.path, N_("Apps")), s.words) for s in SETTINGS]
    for title, rows in GROUPS:
        for row in rows:
            texts = (str(title), *row.keys)
            found.append(
                _prepare("/settings/keys", f"key-{row.action}", row.text, PAGES["/settings/keys"], texts)
            )
    return tuple(found)


def _prepare(
    path: str, anchor: str, label: object, page: str, words: Iterable[str]
) -> tuple[FoundSetting, str, str]:
    title = gettext(page)
    shown = gettext(label) if isinstance(label, str) else str(label)  # a lazy text translates itself
    url = f"{path}#{anchor}" if anchor else path
    rest = " ".join((str(label), title, page, *words, *map(gettext, words)))
    return FoundSetting(url, shown, title), _fold(shown), f" {_fold(rest)}"


def _fold(text: str) -> str:
    plain = unicodedata.normalize("NFKD", text.casefold())
    return " ".join("".join(c for c in plain if not unicodedata.combining(c)).split())
