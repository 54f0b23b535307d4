"""What pages of an import need beside its own types."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from itertools import groupby
from urllib.parse import urlsplit

import flask_babel

from app.models.imports.imports import Import, ImportItem, ImportState, ItemState, build_import_paths
from app.web.view.render import describe_feed_error


def _(text: str, **values: object) -> str:
    return str(flask_babel.gettext(text, **values))


def ngettext(one: str, many: str, number: int) -> str:
    return str(flask_babel.ngettext(one, many, number))


#: Folders are shown so deep; what lies deeper stands in line with them.
LEVELS = 2


@dataclasses.dataclass(frozen=True, slots=True)
class Group:
    """Outlines of one folder; ``path`` is empty for those in none."""

    folder_index: int
    path: tuple[str, ...]
    items: tuple[ImportItem, ...]

    @property
    def level(self) -> int:
        """How far it is moved in, 0 … 1."""
        return max(0, min(len(self.path), LEVELS) - 1)

    @property
    def ticked(self) -> int:
        """How many are chosen."""
        return sum(item.state is ItemState.WAITING for item in self.items)


def group_items(found: Import, items: Sequence[ImportItem]) -> list[Group]:
    """Return the outlines of a page, folder by folder, in the file's order."""
    names = build_import_paths(found.folders)
    return [
        Group(place, names[place] if place >= 0 else (), tuple(some))
        for place, some in groupby(items, key=lambda item: item.folders[0] if item.folders else -1)
    ]


def format_progress(found: Import, seconds: int | None) -> str:
    """Return "312 of 480, 9 failed, about 2 min"."""
    words = [_("%(done)s of %(goal)s", done=found.done, goal=found.goal)]
    if found.failed:
        words.append(_("%(num)s failed", num=found.failed))
    if seconds is not None:
        words.append(format_time_left(seconds))
    return ", ".join(words)


def format_time_left(seconds: int) -> str:
    """Return about how long something will take."""
    if seconds < 60:
        return _("less than a minute")
    minutes = round(seconds / 60)
    return ngettext("about %(num)s min", "about %(num)s min", minutes)


def format_state(found: Import) -> str:
    """Return what state an import is in."""
    return {
        ImportState.PREVIEW: _("Not started"),
        ImportState.QUEUED: _("Queued"),
        ImportState.RUNNING: _("Running"),
        ImportState.DONE: _("Done"),
        ImportState.CANCELLED: _("Canceled"),
    }[found.state]


def explain_failure(word: str) -> str:
    """Return why an outline failed."""
    return describe_feed_error(word)


#: Error words of a page where a feed was expected, or of an address that has moved.
_PAGES = {"not_a_feed", "html_page", "no_feed_found"}
_LOOK_AGAIN = {*_PAGES, "gone", "http_404", "http_410", "dns_failed"}
_PASSING = {"timeout", "connect_failed", "unreachable", "http_429", "empty", "bad_response", "cut_off"}


def suggest_fix(item: ImportItem) -> str:
    """Return what a person can do about a failure."""
    word = item.error or ""
    if item.feed_id is None and item.can_retry:
        return ""  # the reason says it
    if item.feed_id is None:
        return _("Correct the address in the file, or add the site by its address.")
    if word in _LOOK_AGAIN:
        return _("Let Eventr look for a feed on the site, then unsubscribe from this address.")
    if word in _PASSING or word.startswith("http_5"):
        return _("This is usually temporary. Eventr keeps trying, and you can also retry now.")
    if word in ("http_401", "http_403", "http_407", "login_in_url"):
        return _("The site restricts access. Ask its owner for a public feed.")
    if word == "tls_failed":
        return _("Only the site's owner can fix its certificate. Eventr will keep trying.")
    return _("Eventr will keep trying. If the site is gone for good, unsubscribe.")


def find_lookup_address(item: ImportItem) -> str:
    """Return the address at which to look for a failure's feed; empty: it names no place of the web.

    A page may announce a feed of its own; of what is not there only its site can know.
    """
    try:
        parts = urlsplit(item.url)
    except ValueError:
        return ""
    place = parts.netloc.rpartition("@")[2]
    if parts.scheme not in ("http", "https") or not place:
        return ""
    return parts._replace(netloc=place).geturl() if item.error in _PAGES else f"{parts.scheme}://{place}/"
