"""Grouping, progress and failure texts for the pages of an import."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from itertools import groupby

import flask_babel

from app.errors import EventrError, InvalidError, read_refusal
from app.models.imports.imports import Import, ImportItem, ImportState, ItemState, build_import_paths
from app.web.view.i18n import translate_error, translate_feed_error
from app.web.view.lookup import PAGES
from app.web.view.present import format_number
from app.web.view.reasons import describe_reason


def _(text: str, **values: object) -> str:
    return str(flask_babel.gettext(text, **values))


def ngettext(one: str, many: str, number: int) -> str:
    return str(flask_babel.ngettext(one, many, number))


#: Endings of archives and lists of feeds.
_ARCHIVES = (".zip", ".opml", ".xml", ".json", ".csv", ".html", ".gz")
#: Folders are indented up to this depth; deeper folders stay at the last indent.
LEVELS = 2


@dataclasses.dataclass(frozen=True, slots=True)
class Group:
    """Outlines of one folder; ``path`` is empty for outlines without a folder."""

    folder_index: int
    path: tuple[str, ...]
    items: tuple[ImportItem, ...]

    @property
    def level(self) -> int:
        """The indent, 0 or 1."""
        return max(0, min(len(self.path), LEVELS) - 1)

    @property
    def ticked(self) -> int:
        """The number of selected outlines."""
        return sum(item.state is ItemState.WAITING for item in self.items)


def group_items(found: Import, items: Sequence[ImportItem]) -> list[Group]:
    """Return the outlines of a page, folder by folder, in the file's order."""
    names = build_import_paths(found.folders)
    return [
        Group(place, names[place] if place >= 0 else (), tuple(some))
        for place, some in groupby(items, key=lambda item: item.folders[0] if item.folders else -1)
    ]


def format_progress(found: Import, seconds: int | None) -> str:
    """Return "312 of 480, 9 failed, about 2 min left"."""
    words = [_("%(done)s of %(goal)s", done=format_number(found.done), goal=format_number(found.goal))]
    if found.failed:
        words.append(_("%(num)s failed", num=format_number(found.failed)))
    if seconds is not None:
        words.append(format_time_left(seconds))
    return ", ".join(words)


def format_time_left(seconds: int) -> str:
    """Return roughly how long something will take."""
    if seconds < 60:
        return _("less than a minute left")
    minutes = round(seconds / 60)
    return ngettext("about %(num)s min left", "about %(num)s min left", minutes)


def format_state(found: Import) -> str:
    """Return the label of an import's state."""
    return {
        ImportState.READING: _("Reading the other server…") if found.pull else _("Reading the file…"),
        ImportState.UNREADABLE: _("Can't be read"),
        ImportState.PREVIEW: _("Not started"),
        ImportState.QUEUED: _("Queued"),
        ImportState.RUNNING: _("Running"),
        ImportState.DONE: _("Done"),
        ImportState.CANCELLED: _("Canceled"),
    }[found.state]


def has_archive_name(name: str) -> bool:
    """Return whether a file may be imported, by the ending of its name."""
    return name.lower().endswith(_ARCHIVES)


def build_fault(found: Import) -> EventrError | None:
    """Return the error that made the file of an import unreadable."""
    return InvalidError(found.fault[0], **found.fault[1]) if found.fault else None


def explain_failure(item: ImportItem) -> str:
    """Return the reason why an outline failed; its service has left out what the user may not know."""
    word = item.error or ""
    if refusal := read_refusal(word, item.detail):
        return translate_error(refusal)
    return f"{translate_feed_error(word)} {describe_reason(word, item.detail)}".rstrip()


#: Error codes of a page where a feed was expected, or of an address that has moved.
_LOOK_AGAIN = {*PAGES, "gone", "http_404", "http_410", "dns_failed"}
_PASSING = {"timeout", "connect_failed", "unreachable", "http_429", "empty", "bad_response", "cut_off"}


def suggest_fix(item: ImportItem) -> str:
    """Return advice for a failed outline."""
    word = item.error or ""
    if item.feed_id is None and item.can_retry:
        return ""  # the reason already gives advice
    if item.feed_id is None:
        return _("Correct the address in the file, or add the site by its address.")
    if word in _LOOK_AGAIN:
        return _("Let Eventr look for a new feed on the site, then unsubscribe from this one.")
    if word in _PASSING or word.startswith("http_5"):
        return _("This is usually temporary. Eventr keeps trying, and you can also retry now.")
    if word in ("http_401", "http_403", "http_407", "login_in_url"):
        return _("The site restricts access. Enter your login under “About this feed”.")
    if word == "tls_failed":
        return _("Only the site's owner can fix its certificate. Eventr will keep trying.")
    return _("Eventr will keep trying. If the site is gone for good, unsubscribe.")
