"""The page "Today": its rows under the headings of their sections."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from flask_babel import gettext as _

from app.models.reading.stream import EntryRow, Page, StreamKind, Tree
from app.models.reading.today import Section, list_sections


@dataclasses.dataclass(frozen=True, slots=True)
class Group:
    """Rows under a heading.

    ``address`` is what the heading links to, "" for nothing; ``is_stream``: a list of the reader. ``page``
    has these rows only. ``led``: the first row has a large picture.
    """

    title: str
    address: str
    page: Page
    unread: int = 0
    is_stream: bool = True

    @property
    def led(self) -> bool:
        """Whether the first row has a picture."""
        return bool(self.page.rows[0].image)


def group_rows(tree: Tree, page: Page, popular: Sequence[EntryRow]) -> list[Group]:
    """Return the sections of "Today" that have rows, then what is popular on this server.

    An open entry that is in none of them stands above them.
    """
    sections = list_sections(tree)
    places = {feed_id: n for n, section in enumerate(sections) for feed_id in section.feed_ids}
    rows: dict[int, list[EntryRow]] = {}
    for row in page.rows:
        rows.setdefault(places.get(row.feed_id, -1), []).append(row)
    plain = dataclasses.replace(page, split=None, pinned=None)
    pinned = (page.pinned,) if page.pinned else ()
    opened = [Group(_("Opened entry"), "", dataclasses.replace(plain, rows=pinned))] if pinned else []
    found = opened + [
        Group(
            _name(section, sections),
            f"/read/{section.ref}" if section.ref else "",
            dataclasses.replace(plain, rows=tuple(rows[n])),
            section.unread,
        )
        for n, section in enumerate(sections)
        if n in rows
    ]
    listed = {row.id for row in page.all_rows} | {one.share_id for row in page.rows for one in row.sharers}
    others = tuple(row for row in popular if row.id not in listed)
    if others:
        shown = dataclasses.replace(plain, rows=others)
        found.append(Group(_("Popular here"), "/discover", shown, is_stream=False))
    return found


def _name(section: Section, sections: Sequence[Section]) -> str:
    if section.ref is None:
        has_folders = any(one.ref and one.ref.kind is StreamKind.FOLDER for one in sections)
        return str(_("Other feeds") if has_folders else _("Your feeds"))
    if section.ref.kind is StreamKind.FOLLOWING:
        return str(_("Shared by people you follow"))
    return section.title
