"""An archive as a whole: its lists of subscriptions, and its entries one by one."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from typing import Any, BinaryIO, Final

from app.errors import InvalidError
from app.feeds.archives.formats import HEAD, KINDS, Format, detect_format, iter_entries
from app.feeds.archives.unpack import Limits, Member, Package
from app.feeds.opml import opml
from app.models.imports.archives import ArchiveKind, SavedEntry
from app.models.imports.opml import SubscriptionList

#: Endings of the files that may be lists. All other files are skipped.
_SUFFIXES: Final = (".opml", ".xml", ".json", ".csv", ".html", ".htm")


#: Lists in Eventr's own archives that hold no entries: a person's choices.
CHOICES: Final = ("searches.json", "rules.json", "subscriptions.json")


class Archive:
    """An archive that was opened for reading; see :func:`open_archive`."""

    def __init__(
        self, package: Package, members: list[tuple[Format, Member]], choices: list[Member] | None = None
    ) -> None:
        self._package, self._members, self._choices = package, members, choices or []
        kinds = [KINDS[found] for found, _ in members if found in KINDS]
        #: The program that wrote it; None: it only has a list of subscriptions.
        self.kind: ArchiveKind | None = kinds[0] if kinds else None

    def read_lists(self, limits: opml.Limits) -> list[SubscriptionList]:
        """Return the lists of subscriptions.

        Raises:
            InvalidError: a list is damaged.
            TooLargeError: a list exceeds the limits of OPML files, or the archive its own.
        """
        return [
            opml.read(self._read_whole(member, limits.max_bytes), limits)
            for found, member in self._members
            if found is Format.OPML
        ]

    def iter_entries(self) -> Iterator[SavedEntry]:
        """Yield the entries of all files; an entry may be in several.

        Raises:
            InvalidError: a file is damaged.
            TooLargeError: the archive exceeds its limits.
        """
        for found, member in self._members:
            if found is not Format.OPML:
                with self._package.open(member) as source:
                    yield from iter_entries(found, source)

    def read_choices(self, limit: int) -> dict[str, list[Any]]:
        """Return the lists :data:`CHOICES` by their names without the ending; only Eventr writes them.

        Args:
            limit: most bytes of a list. One that is longer or damaged becomes a single row None.
        """
        found = dict[str, list[Any]]()
        for member in self._choices if self.kind is ArchiveKind.EVENTR else ():
            body = self._read_whole(member, limit)
            rows = None
            with contextlib.suppress(ValueError, RecursionError):
                rows = json.loads(body) if len(body) <= limit else None
            found[member.name.removesuffix(".json")] = rows if isinstance(rows, list) else [None]
        return found

    def _read_whole(self, member: Member, limit: int) -> bytes:
        parts, count = list[bytes](), 0
        with self._package.open(member) as source:
            while (piece := source.read()) and count <= limit:
                parts.append(piece)
                count += len(piece)
        return b"".join(parts)


def is_archive(head: bytes) -> bool:
    """Return whether a file that isn't packed is an archive rather than a list of subscriptions."""
    return head.startswith(b"PK") or detect_format("", head[:HEAD]) not in (None, Format.OPML)


def open_archive(file: BinaryIO, limits: Limits) -> Archive:
    """Open an archive, and find out what is in it.

    Args:
        file: open for reading and seekable; it must stay open as long as the archive is read.

    Raises:
        InvalidError: it is damaged, encrypted, or holds nothing that Eventr knows.
        TooLargeError: it exceeds the limits.
    """
    package = Package(file, limits)
    members, choices = list[tuple[Format, Member]](), list[Member]()
    has_nested = False
    for member in package.list_members():
        has_nested = has_nested or member.name.endswith(".zip")
        if member.info is None or member.name.endswith(_SUFFIXES):
            found = detect_format(member.name, package.read_head(member, HEAD))
            if found is not None:
                members.append((found, member))
            elif member.name in CHOICES:
                choices.append(member)
    if not members and has_nested:
        raise InvalidError("This archive contains another ZIP file. Unzip it and upload the file inside.")
    if not members:
        raise InvalidError(
            "Eventr found nothing to import in this archive. It reads exports of FreshRSS, Tiny Tiny RSS, "
            "Miniflux, Feedbin, Inoreader, Pocket, Instapaper and Eventr, bookmarks of browsers, and lists "
            "of feeds in OPML."
        )
    return Archive(package, members, choices)
