"""Data exports: requesting, making, storing and serving a file of all of a user's data."""

from __future__ import annotations

import dataclasses
import datetime as dt
import secrets
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from app import clock
from app.config import Settings
from app.errors import ConflictError
from app.gateways.privacy.personal_data import PersonalDataGateway
from app.gateways.privacy.zip_writer import ZipWriter
from app.mappers.privacy.exports import PersonalExportMapper
from app.models.accounts.user import User
from app.models.privacy.export import ExportState, PersonalExport

#: Rows between two heartbeats.
SIGN = 200
#: Seconds without a heartbeat after which another run may take over an export.
SILENT = 60
#: An export is given up after so many unfinished runs, because it crashes its workers.
TRIES = 5
#: Longest run, seconds; parts are kept this much longer than the export.
LONGEST = 3600.0

#: Bytes of the largest row of ``files.json``.
FILE_ROW = 2048

README = """Your data on this Eventr server. Times are in UTC. Addresses and texts are exported as stored.

account.json         user name, email address, settings, sessions, apps, your page, your open reports,
                     sites on which Eventr looks for a feed for you
subscriptions.opml   your feeds and folders, for any feed reader
subscriptions.json   the same, plus people, your own titles, paused feeds and your reading position
folders.json         your folders, including empty ones
starred.json         entries that you starred, with their texts
tagged.json          entries that you tagged, with their texts
tags.json            your tags, including those without entries
saved.json           pages that you saved, with their texts
notes.json, notes.md your notes and highlights
states.json          those of the newest 100 entries of each feed that you have read
hidden.json          entries that are hidden from your lists, by you or by your rules
highlighted.json     entries that your rules have highlighted, with the names of the rules
recent.json          entries that you read recently, and when
searches.json        your saved searches
rules.json           your rules, in the order in which they are tried
positions.json       how far you have listened to recordings
lists.json           OPML files on the web that you follow
services.json        services that you send entries to, without their secrets
sent.json            what was sent to these services of late
statistics.json      how many entries you read, starred and shared each day, if you have switched that on
shares.json          your shares and posts with notes, audience, and the part of the chain that you can see
comments.json        your comments
likes.json           your likes
people.json          people whom you follow, asked to follow, mute or block
notifications.json   your notifications, without the names of other people
files.json           your pictures and files: their names, sizes and dates, and where they are in this file
files/               the pictures and files themselves, as long as they fit

Other people's data isn't included: who follows you (only the number is), and what other people commented,
liked or shared. Content that you starred, liked or commented on is also missing if its owner no longer shows
it to you. Your password and session keys aren't included, because the server stores only hashes of them. Nor
are records that only help Eventr to work: what can be undone, lists as they were when you opened them,
changes and numbers of entries for your apps, answers kept for repeated requests, unfinished uploads and
imports. The server doesn't keep any other record of your activity. Its logs contain login times, but not by
account.
"""


class ExportLostError(Exception):
    """Another run makes the file, or the file isn't wanted anymore."""


class PersonalExportGateway:
    """Manages one export per user; a new export replaces the previous one."""

    def __init__(
        self, exports: PersonalExportMapper, personal_data: PersonalDataGateway, settings: Settings
    ) -> None:
        self._exports, self._belongings = exports, personal_data
        self._most, self._life = settings.export_max, dt.timedelta(seconds=settings.export_ttl)

    def find_by_user(self, user_id: int, now: dt.datetime) -> PersonalExport | None:
        """Return a user's export; None: there is none, or it has expired."""
        found = self._exports.find_by_user(user_id)
        return found if found and (found.expires > now or found.state is ExportState.MAKING) else None

    def request_export(self, user_id: int, now: dt.datetime) -> bool:
        """Store a request for an export; return False if one is already being made."""
        made = PersonalExport(
            id=secrets.token_hex(16),
            user_id=user_id,
            state=ExportState.MAKING,
            asked=now,
            # A long wait for the job must not delete the request.
            expires=now + self._life + dt.timedelta(days=1),
        )
        return self._exports.put(made)

    def find_stalled(self, now: dt.datetime, limit: int) -> list[int]:
        """Return the users whose exports wait without a live run."""
        return self._exports.find_stalled(now - dt.timedelta(seconds=SILENT), limit)

    def begin(self, user_id: int, now: dt.datetime) -> PersonalExport | None:
        """Take over an export; return None if no export is wanted, or if it has failed too often."""
        begun = self._exports.begin(user_id, now)
        if begun is None:
            return None
        self._exports.drop_parts(begun, before=True)
        if begun.tries > TRIES:
            self.fail(begun, now, too_large=False)
            return None
        return begun

    def make(self, begun: PersonalExport, user: User) -> PersonalExport:
        """Write the file, which becomes visible only when it is complete.

        Raises:
            ExportLostError: another run has taken over, or the export isn't wanted anymore.
            TooLargeError: the data exceeds the size limit.
        """
        count = 0

        def add_part(piece: bytes) -> None:
            nonlocal count
            self._sign(begun)
            until = clock.now() + self._life + dt.timedelta(seconds=LONGEST)
            self._exports.add_part(begun, count, piece, until)
            count += 1

        archive = ZipWriter(add_part, max_bytes=self._most, now=clock.now())
        try:
            self._write(archive, begun, user)
            archive.close()
        except BaseException:
            archive.discard_rest()
            raise
        now = clock.now()
        made = dataclasses.replace(
            begun,
            state=ExportState.READY,
            ready=now,
            expires=now + self._life,
            size=archive.size,
            parts=count,
        )
        if not self._exports.save_result(made):
            raise ExportLostError
        return made

    def _write(self, archive: ZipWriter, begun: PersonalExport, user: User) -> None:
        mine = self._belongings
        archive.add_member("README.txt", [README.encode()])
        archive.add_json("account.json", mine.build_account(user))
        archive.add_member("subscriptions.opml", [mine.build_opml(user.id)])
        archive.add_member("notes.md", mine.write_notes(user.id))
        members: dict[str, Callable[[int], Iterable[Any]]] = {
            "subscriptions": mine.iter_subscriptions,
            "folders": mine.iter_folders,
            "starred": mine.iter_starred,
            "tagged": mine.iter_tagged,
            "saved": mine.iter_saved,
            "notes": mine.iter_notes,
            "states": mine.iter_states,
            "hidden": mine.iter_hidden,
            "highlighted": mine.iter_highlighted,
            "tags": mine.iter_tags,
            "searches": mine.iter_searches,
            "rules": mine.iter_rules,
            "positions": mine.iter_positions,
            "statistics": mine.iter_statistics,
            "lists": mine.iter_lists,
            "services": mine.iter_targets,
            "sent": mine.iter_sent,
            "recent": mine.iter_recent,
            "shares": mine.iter_shares,
            "comments": mine.iter_comments,
            "likes": mine.iter_likes,
            "people": mine.iter_people,
            "notifications": mine.iter_notifications,
        }
        for name, rows in members.items():
            archive.add_rows(f"{name}.json", self._signing(begun, rows(user.id)))
        archive.add_rows("files.json", list(self._signing(begun, self._add_files(archive, user.id))))

    def _add_files(self, archive: ZipWriter, user_id: int) -> Iterator[dict[str, Any]]:
        """Write the contents of a user's files; yield the rows that describe them."""
        for number, file in enumerate(self._belongings.iter_files(user_id), 1):
            place = None
            # A file that doesn't fit is listed all the same: it can be downloaded on its own.
            if file.chunks is not None and file.size <= archive.left - number * FILE_ROW:
                place = f"files/{file.id}.{file.extension}"
                archive.add_member(place, file.chunks())
            yield {"file": place, "name": file.name, "size": file.size, "stored": file.stored}

    def _signing(self, begun: PersonalExport, rows: Iterable[Any]) -> Iterator[Any]:
        self._sign(begun)
        for number, row in enumerate(rows, 1):
            if not number % SIGN:
                self._sign(begun)
            yield row

    def _sign(self, begun: PersonalExport) -> None:
        if not self._exports.touch(begun, clock.now()):
            raise ExportLostError

    def fail(self, begun: PersonalExport, now: dt.datetime, *, too_large: bool) -> None:
        """Record that an export failed."""
        failed = dataclasses.replace(
            begun, state=ExportState.FAILED, expires=now + self._life, too_large=too_large
        )
        self._exports.save_result(failed)
        self.drop_parts(begun)

    def drop_parts(self, begun: PersonalExport) -> None:
        """Delete the parts that a run has written."""
        self._exports.drop_parts(begun)

    def iter_parts(self, export: PersonalExport) -> Iterator[bytes]:
        """Yield the file of an export, part by part.

        Raises:
            ConflictError: a part was deleted meanwhile; the client gets less than announced.
        """
        for number in range(export.parts):
            part = self._exports.find_part(export, number)
            if part is None:
                raise ConflictError(export_id=export.id)
            yield part
