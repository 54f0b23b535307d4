"""Archives of other readers: reading them, and marking the entries that they name.

An archive brings subscriptions, like an OPML file, and marks: stars, tags and read states of entries. The
marks wait in the database until the feeds are imported. Then they are applied to those entries that the
feeds still have. Texts in archives are never stored in entries of feeds, which belong to all their readers.
They become the texts of saved pages, which only one person reads.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime as dt
import functools
import io
import tempfile
import zlib
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, BinaryIO

from app.config import Settings
from app.errors import EventrError, InvalidError, NotFoundError, TooLargeError
from app.feeds.archives.archive import is_archive, open_archive
from app.feeds.archives.formats import HEAD
from app.feeds.archives.unpack import Limits, build_damage_error
from app.feeds.fetch.address_policy import Policy
from app.feeds.html.text import cut_html
from app.feeds.opml import opml
from app.feeds.urls import hash_url
from app.gateways.imports.imports import PREVIEW_KEPT, ImportGateway
from app.gateways.imports.matching import mark_repeats, match_entries
from app.gateways.media.blobs import BlobGateway
from app.gateways.media.files import FileGateway
from app.gateways.reading.changes import ChangeGateway
from app.gateways.reading.entries import EntryGateway
from app.gateways.reading.hiding import HidingGateway
from app.gateways.reading.notes import NoteGateway
from app.gateways.reading.read_marks import ReadMarkGateway
from app.gateways.reading.saved_pages import SavedPageGateway
from app.gateways.reading.tags import TagGateway
from app.mappers.feeds.entries import EntryMapper
from app.mappers.feeds.feeds import FeedMapper
from app.mappers.imports.imports import ImportMapper
from app.mappers.mongo.cells import Cells
from app.mappers.mongo.store import Session, Store
from app.models.imports.archives import TEXT_MAX, TEXTS_MAX, MarkCount, MarkRow, SavedEntry
from app.models.imports.choices import CHOICES_MAX, ChoiceLimits, Choices, pack_choices
from app.models.imports.imports import ActiveImport, Import, ImportState, ItemState
from app.models.imports.opml import Outline, SubscriptionList
from app.models.media.blob import ORIGINAL
from app.models.names import to_one_line
from app.models.reading.entry import EntryKey
from app.models.reading.notes import NOTE_MAX, QUOTES_MAX, Note, make_quote_id
from app.models.reading.saved import NewPage, SavedPage
from app.models.reading.tag import make_tag_key, normalise_tag
from app.runtime.pieces import read_piece

#: An import's file is deleted this long after the import's end.
FILE_KEPT = dt.timedelta(days=7)
#: Runs that may end with their worker before a file counts as damaged.
_TRIES = 3
_AT_ONCE = 1000
#: Key of the feed of entries that have none; longest title of a saved page.
NO_FEED, TITLE_MAX = "", 512
#: Most tags that are collected of all rows of an entry, before the limit of its owner.
TAGS_MAX = 1000
#: Outlines whose entries can be marked.
_SUBSCRIBED = (ItemState.ADDED, ItemState.ALREADY)


class _LostError(Exception):
    """The import was canceled or deleted, or another run has taken it over."""


@dataclasses.dataclass(frozen=True, slots=True)
class ArchiveContents:
    """What an archive brings.

    Attributes:
        subscriptions: its lists, and the feeds of its entries that are in none.
        marks: entries with marks, each once, feed by feed.
        counts: :class:`MarkCount` → number.
        choices: saved searches, rules and settings of feeds.
    """

    subscriptions: SubscriptionList
    marks: Sequence[MarkRow]
    counts: Mapping[str, int]
    choices: Choices = Choices()


class TextRoom:
    """The characters that texts of entries may still have, see :data:`TEXTS_MAX`.

    Args:
        used: characters that earlier texts of the same import have.

    Attributes:
        used: those of all texts until now.
        cut: texts that were cut or left out.
    """

    def __init__(self, used: int = 0) -> None:
        self.used, self.cut = used, 0

    def cut_text(self, entry: SavedEntry) -> SavedEntry:
        """Return an entry with its text as far as there is room; without one that no saved page will need."""
        if not entry.html:
            return entry
        if not entry.link or (entry.feed_url and not entry.is_kept):
            return dataclasses.replace(entry, html="")
        html = cut_html(entry.html, TEXT_MAX) if len(entry.html) > TEXT_MAX else entry.html
        if self.used + len(html) > TEXTS_MAX:
            html = ""  # the page is fetched
        self.used += len(html)
        if len(html) == len(entry.html):
            return entry
        self.cut += 1
        return dataclasses.replace(entry, html=html)


class ArchiveGateway:
    """Reads archives into imports, and applies their marks."""

    def __init__(
        self,
        *,
        store: Store,
        cells: Cells,
        imports: ImportGateway,
        import_mapper: ImportMapper,
        entry_mapper: EntryMapper,
        feeds: FeedMapper,
        entries: EntryGateway,
        tags: TagGateway,
        read_marks: ReadMarkGateway,
        changes: ChangeGateway,
        files: FileGateway,
        blobs: BlobGateway,
        saved_pages: SavedPageGateway,
        notes: NoteGateway,
        hiding: HidingGateway,
        settings: Settings,
    ) -> None:
        self._hiding = hiding
        self._saved_pages, self._notes = saved_pages, notes
        self._files, self._blobs = files, blobs
        self._store, self._cells = store, cells
        self._imports, self._import_mapper = imports, import_mapper
        self._links, self._feeds = entry_mapper, feeds
        self._entries, self._tags, self._reads, self._changes = entries, tags, read_marks, changes
        self._limits, self._opml_limits = Limits.from_settings(settings), opml.Limits.from_settings(settings)
        self._choice_limits = ChoiceLimits(
            settings.rules_max, settings.searches_max, self._opml_limits.max_outlines
        )
        self._policy = Policy(settings)
        self._tag_max, self._tags_max = settings.tag_length, settings.tags_per_entry

    def is_archive(self, body: bytes) -> bool:
        """Return whether an uploaded file is an archive rather than a list of subscriptions."""
        head = body[:HEAD]
        if head.startswith(b"\x1f\x8b"):
            with contextlib.suppress(zlib.error):
                head = zlib.decompressobj(16 + zlib.MAX_WBITS).decompress(body[: 2 * HEAD], HEAD)
        return is_archive(head)

    def read_body(self, body: bytes) -> ArchiveContents:
        """Read a small archive while a person waits: unpacked, it may be as large as an OPML file.

        Raises:
            As :meth:`read`.
        """
        most = self._opml_limits.max_bytes
        return self.read(io.BytesIO(body), dataclasses.replace(self._limits, bytes=most))

    def read(self, file: BinaryIO, limits: Limits | None = None) -> ArchiveContents:
        """Read an archive.

        Args:
            file: open for reading and seekable.
            limits: bounds; None: the settings ``archive_…``.

        Raises:
            InvalidError: it is damaged, encrypted, or holds nothing that Eventr can import.
            TooLargeError: it exceeds the limits.
        """
        limits = limits or self._limits
        archive = open_archive(file, limits)
        lists = archive.read_lists(self._opml_limits)
        contents = self.build_contents(lists, archive.iter_entries(), limits.entries)
        choices = pack_choices(archive.read_choices(CHOICES_MAX), self._choice_limits)
        return dataclasses.replace(contents, choices=choices)

    def build_contents(
        self, lists: Sequence[SubscriptionList], entries: Iterable[SavedEntry], limit: int | None = None
    ) -> ArchiveContents:
        """Return lists of subscriptions and entries as the contents of one archive.

        Args:
            limit: most entries that are taken over; None: the setting ``archive_entries_max``.

        Raises:
            TooLargeError: there are too many feeds.
        """
        found, counts = _collect(entries, self._limits.entries if limit is None else limit)
        feeds = {
            entry.feed_url: Outline(entry.feed_url, entry.feed_title, folders=entry.feed_folders)
            for entry in found.values()
            if entry.feed_url
        }
        subscriptions = self._join(lists, feeds.values())
        marks = list(mark_repeats(sorted(self._rows(found.values()), key=lambda row: row.feed)))
        counts[MarkCount.WAITING] = len(marks)
        return ArchiveContents(subscriptions, marks, {str(name): n for name, n in counts.items() if n})

    def _join(self, lists: Sequence[SubscriptionList], named: Iterable[Outline]) -> SubscriptionList:
        """Return one list of all feeds.

        Args:
            named: the feeds that entries name.

        Raises:
            TooLargeError: it has too many.
        """
        feeds = [feed for one in lists for feed in one.feeds]
        have = {hash_url(opml.resolve_address(feed.url, self._policy)[0]) for feed in feeds}
        more = [feed for feed in named if hash_url(feed.url) not in have]
        feeds += more
        if len(feeds) > (limit := self._opml_limits.max_outlines):
            raise TooLargeError("This archive has more than %(limit)s feeds.", limit=limit)
        folders = dict.fromkeys(path for one in lists for path in one.folders)
        folders |= dict.fromkeys(feed.folders for feed in more if feed.folders)
        title = next((one.title for one in lists if one.title), "")
        note = next((one.repaired for one in lists if one.repaired), None)
        return SubscriptionList(title, tuple(feeds), tuple(folders), len(feeds), note)

    def cut_texts(self, entry: SavedEntry) -> SavedEntry:
        """Return an entry with at most as many tags as an entry may have, and with a short title."""
        names = {make_tag_key(name): normalise_tag(name) for name in entry.tags}
        tags = [name for key, name in names.items() if key and len(name) <= self._tag_max]
        title = to_one_line(entry.title)[:TITLE_MAX]
        return dataclasses.replace(entry, tags=tuple(tags[: self._tags_max]), title=title)

    def _rows(self, entries: Iterable[SavedEntry]) -> Iterator[MarkRow]:
        for entry in map(self.cut_texts, entries):
            # The feed's address says where the entry belongs.
            yield MarkRow(
                hash_url(entry.feed_url) if entry.feed_url else NO_FEED,
                SavedEntry(
                    guid=entry.guid,
                    link=entry.link,
                    starred=entry.starred,
                    read=entry.read,
                    tags=entry.tags,
                    title=entry.title,
                    at=entry.at,
                    note=entry.note,
                    quotes=entry.quotes,
                    html=entry.html,
                    hidden=entry.hidden,
                ),
            )

    def add(self, user_id: int, contents: ArchiveContents, name: str, now: dt.datetime) -> Import:
        """Store what an archive brings as an import that waits for its start."""
        found = self._imports.add(user_id, contents.subscriptions, name, now)
        self._import_mapper.add_marks(user_id, found.id, contents.marks, now + PREVIEW_KEPT)
        self._import_mapper.put_choices(user_id, found.id, contents.choices.text, now + PREVIEW_KEPT)
        # Last, so that an import never promises marks that aren't stored.
        values = {"marks": dict(contents.counts), "choice_counts": dict(contents.choices.counts)}
        return self._import_mapper.update(user_id, found.id, (ImportState.PREVIEW,), values) or found

    # -- uploaded files, which a job reads

    def request_reading(self, user_id: int, file_id: int, now: dt.datetime) -> Import:
        """Store an import whose file is still to be read; it owns the file, see :meth:`drop_files`.

        Raises:
            NotFoundError: the user has no such file.
            InvalidError: too much else uses the file.
        """
        file = self._files.get(user_id, file_id)
        new = Import(
            id=0, user_id=user_id, name=file.name, created=now, state=ImportState.READING, file_id=file_id
        )
        found = self._import_mapper.add(new, [], now + PREVIEW_KEPT)
        try:
            self._store.run_in_transaction(
                lambda session: self._files.attach(session, user_id, [file_id], _own(found.id))
            )
        except EventrError:
            self._import_mapper.remove(user_id, found.id)
            raise
        return found

    def find_reading(self) -> list[ActiveImport]:
        """Return imports whose files are still to be read."""
        return self._import_mapper.find_reading(_AT_ONCE)

    def read_file(self, user_id: int, import_id: int, now: dt.datetime) -> Import | None:
        """Read the file of an import, which becomes a preview, or unreadable with an error.

        Returns:
            The import; None: it was deleted, or read already.

        Raises:
            StoreError: a store isn't responding; the job runs again.
        """
        one = self._import_mapper.update(
            user_id, import_id, (ImportState.READING,), {"touched": now}, begin=True
        )
        if one is None or one.file_id is None:
            return None
        try:
            if one.tries > _TRIES:
                raise build_damage_error()  # it repeatedly crashes its workers
            contents = self._read_blob(self._files.get(user_id, one.file_id).blob)
        except (InvalidError, TooLargeError, NotFoundError) as e:
            values = {
                "state": ImportState.UNREADABLE.value,
                "fault": [e.sentence, _plain(e.ids)],
                "ended": now,
            }
            return self._import_mapper.update(user_id, import_id, (ImportState.READING,), values)
        new, items = self._imports.plan(user_id, contents.subscriptions)
        choices = contents.choices
        read = dataclasses.replace(new, marks=contents.counts, choice_counts=choices.counts)
        return self._import_mapper.put_contents(
            one, read, items, contents.marks, now + PREVIEW_KEPT, choices=choices.text
        )

    def _read_blob(self, blob_id: bytes) -> ArchiveContents:
        piece = self._blobs.open(blob_id, ORIGINAL)
        with tempfile.TemporaryFile() as copy:
            for chunk in read_piece(piece):
                copy.write(chunk)
            copy.seek(0)
            head = copy.read(2 * HEAD)
            if self.is_archive(head):
                return self.read(copy)
            # A list of subscriptions may come the same way.
            copy.seek(0)
            body = copy.read(self._opml_limits.max_bytes + 1)
        return ArchiveContents(self._imports.read_file(body), (), {})

    def release_file(self, import_id: int) -> None:
        """Let go of the file of an import; without another owner it is deleted after a while."""
        self._files.detach(None, _own(import_id))

    def drop_files(self, now: dt.datetime, is_over: Callable[[], bool]) -> int:
        """Delete the files of imports that ended :data:`FILE_KEPT` ago or have expired; return how many.

        A file that something else uses as well stays for that. Can be repeated, and may be killed anywhere.
        """

        def find_ended(owners: Sequence[str]) -> list[str]:
            named = {owner: int(owner.removeprefix(_own(""))) for owner in owners}
            kept = self._import_mapper.find_unended(list(named.values()), now - FILE_KEPT)
            return [owner for owner, import_id in named.items() if import_id not in kept]

        return self._files.drop_unused(_own(""), find_ended, is_over)

    # -- after the feeds were imported

    def find_feeds(self, one: Import) -> dict[str, int]:
        """Return key of the address → feed, for the feeds of an import that its owner chose.

        A feed that couldn't be subscribed to has the id 0: no entry is in it.
        """
        items = self._imports.find_items(one.user_id, one.id)
        failed = {hash_url(item.url): 0 for item in items if item.state is ItemState.FAILED}
        found = {
            hash_url(item.url): item.feed_id
            for item in items
            if item.state in _SUBSCRIBED and item.feed_id is not None
        }
        into = self._imports.find_successors(list(found.values()))
        return failed | {key: into.get(feed_id, feed_id) for key, feed_id in found.items()}

    def apply_next(
        self,
        one: Import,
        run: str,
        feeds: Mapping[str, int],
        now: dt.datetime,
        *,
        added: Collection[int],
        page_feed: str,
    ) -> Import | None:
        """Apply the next part of an import's marks.

        A part whose run died is applied again, which changes nothing, and is counted once.

        Args:
            feeds: as :meth:`find_feeds` returns them.
            added: those that this import subscribed to: only in these, entries are marked as unread.
            page_feed: name of the feed of saved pages, if there is none yet.

        Returns:
            The import; None: there is nothing left to apply, or this run has lost the import.
        """
        part = self._import_mapper.find_first_marks(one.user_id, one.id)
        if part is None:
            return None
        number, rows = part
        counts = self._apply(one.user_id, rows, feeds, now, added=added, page_feed=page_feed)

        def write_counts(session: Session) -> Import:
            found = self._import_mapper.find(one.user_id, one.id, session)
            if found is None or not self._import_mapper.remove_marks(one.user_id, one.id, number, session):
                raise _LostError
            total = Counter(found.marks)
            total.update({str(name): count for name, count in counts.items()})
            total[MarkCount.WAITING] = max(0, total[MarkCount.WAITING] - len(rows))
            values = {"marks": dict(+total), "touched": now, "tries": 0}
            running = (ImportState.RUNNING,)
            saved = self._import_mapper.update(one.user_id, one.id, running, values, run=run, session=session)
            if saved is None:
                raise _LostError  # the part stays for a later run
            return saved

        try:
            return self._cells.run_in_transaction(one.user_id, write_counts)
        except _LostError:
            return None

    def _apply(
        self,
        user_id: int,
        rows: Sequence[MarkRow],
        feeds: Mapping[str, int],
        now: dt.datetime,
        *,
        added: Collection[int],
        page_feed: str,
    ) -> Counter[MarkCount]:
        by_feed: defaultdict[int, list[SavedEntry]] = defaultdict(list)
        counts = Counter[MarkCount]()
        pages = [row.entry for row in rows if row.feed == NO_FEED]
        for row in rows:
            if (feed_id := feeds.get(row.feed)) is not None:
                by_feed[feed_id].append(row.entry)
            elif row.feed != NO_FEED:
                counts[MarkCount.MISSING] += 1
        found: list[tuple[EntryKey, SavedEntry]] = []
        for feed_id, entries in by_feed.items():
            if feed_id:
                pairs = match_entries(self._links.find_links(feed_id), entries)
                found += [(EntryKey(link.id, feed_id, link.seq, 0), entry) for link, entry in pairs]
        matched = {id(entry) for _, entry in found}
        left = [entry for entries in by_feed.values() for entry in entries if id(entry) not in matched]
        # The feed no longer has what the person kept: its page is saved instead.
        pages += [entry for entry in left if entry.link and entry.is_kept]
        in_feeds = list(found)
        saved = self._save_pages(user_id, pages, now, page_feed)
        found += saved
        counts[MarkCount.PAGES] = _count_entries(saved)
        # An entry that was only hidden, and is gone, can stay away.
        wanted = [entry for entry in left if entry.is_kept or entry.read is not None]
        counts[MarkCount.MISSING] += sum(not (e.link and e.is_kept) for e in wanted)
        counts[MarkCount.MISSING] += len(pages) - len(saved)
        counts[MarkCount.STARRED] = self._star(user_id, found, now)
        counts[MarkCount.TAGGED] = self._tag(user_id, found, now)
        counts[MarkCount.NOTED] = self._note(user_id, found, now)
        counts[MarkCount.READ] = self._mark_read(user_id, found, added)
        counts[MarkCount.HIDDEN] = self._hide(user_id, in_feeds)
        # After the changes: an app that syncs in between would miss them otherwise.
        marked = {key.id for key, entry in found if entry.is_kept}
        self._changes.record_changes(user_id, {}, marked)
        return counts

    def _save_pages(
        self, user_id: int, entries: Sequence[SavedEntry], now: dt.datetime, page_feed: str
    ) -> list[tuple[EntryKey, SavedEntry]]:
        """Save the pages of entries, each once; return the entries whose pages are saved, with their keys."""
        named = [(url, entry) for entry in entries if (url := self._saved_pages.resolve_url(entry.link))]
        wanted = dict(named)
        # Of several entries of one page, any may have its text.
        texts = {url: entry.html for url, entry in named if entry.html}
        if not wanted:
            return []
        pages = [
            NewPage(url, entry.title, html=texts.get(url, ""), at=min(entry.at or now, now))
            for url, entry in wanted.items()
        ]
        done: list[SavedPage] = []
        # At the limit of pages or subscriptions, the rest counts as missing.
        with contextlib.suppress(TooLargeError):
            feed_id = self._saved_pages.prepare_feed(user_id, page_feed, now)
            try:
                done = self._saved_pages.save(feed_id, pages, now)
            except TooLargeError:
                for page in pages:
                    done += self._saved_pages.save(feed_id, [page], now)
        keys = (EntryKey(page.entry_id, page.feed_id, page.seq, 0) for page in done)
        stored = dict(zip(wanted, keys, strict=False))
        # A page may be in several folders: each of them is a tag.
        return [(key, entry) for url, entry in named if (key := stored.get(url)) is not None]

    def find_textless(self, user_id: int, since: dt.datetime, limit: int) -> list[tuple[int, int]]:
        """Return (feed, entry) of pages that a user saved since a time and whose texts weren't fetched."""
        feed_id = self._saved_pages.find_feed(user_id)
        if feed_id is None:
            return []
        return [(feed_id, entry_id) for entry_id in self._links.find_without_full(feed_id, limit, since)]

    def _star(self, user_id: int, found: Sequence[tuple[EntryKey, SavedEntry]], now: dt.datetime) -> int:
        times: defaultdict[dt.datetime, list[int]] = defaultdict(list)
        for key, entry in found:
            if entry.starred:
                at = entry.starred if isinstance(entry.starred, dt.datetime) else now
                times[min(at, now)].append(key.id)
        for at, entry_ids in times.items():
            self._entries.set_many_starred(user_id, entry_ids, True, at)
        return _count_entries([(key, entry) for key, entry in found if entry.starred])

    def _tag(self, user_id: int, found: Sequence[tuple[EntryKey, SavedEntry]], now: dt.datetime) -> int:
        tagged = list[tuple[EntryKey, SavedEntry]]()
        for key, entry in found:
            if entry.tags:
                # The limits of tags hold here as well; entries that are gone have no tags.
                with contextlib.suppress(TooLargeError, NotFoundError):
                    self._tags.change_tags(user_id, key, entry.tags, (), now)
                    tagged.append((key, entry))
        return _count_entries(tagged)

    def _note(self, user_id: int, found: Sequence[tuple[EntryKey, SavedEntry]], now: dt.datetime) -> int:
        """Add notes and highlights to those that the person has; equal ones aren't doubled."""
        noted = list[tuple[EntryKey, SavedEntry]]()
        for key, entry in found:
            if entry.is_noted:
                # The limits of notes hold here as well; entries that are gone have no notes.
                with contextlib.suppress(TooLargeError, NotFoundError):
                    self._notes.change_note(user_id, key, functools.partial(_join_note, entry), now)
                    noted.append((key, entry))
        return _count_entries(noted)

    def _hide(self, user_id: int, found: Sequence[tuple[EntryKey, SavedEntry]]) -> int:
        """Hide entries from lists again; they count as read. Saved pages stay in lists."""
        hidden = [(key, entry) for key, entry in found if entry.hidden]
        if hidden:
            read = self._hiding.hide_late(user_id, [key for key, _ in hidden])
            self._changes.record_changes(user_id, read)
        return _count_entries(hidden)

    def _mark_read(
        self, user_id: int, found: Sequence[tuple[EntryKey, SavedEntry]], added: Collection[int]
    ) -> int:
        """Mark entries as read, and as unread in new feeds: what the person has read here stays read."""
        for read in (True, False):
            seqs: defaultdict[int, list[int]] = defaultdict(list)
            for key, entry in found:
                if entry.read is read and (read or key.feed_id in added):
                    seqs[key.feed_id].append(key.seq)
            if seqs:
                cards = self._feeds.find_cards(list(seqs))
                known = {feed_id: numbers for feed_id, numbers in seqs.items() if feed_id in cards}
                self._reads.mark(user_id, known, cards, read=read, synced=True)
        return _count_entries([(key, entry) for key, entry in found if entry.read is True])


def _count_entries(found: Sequence[tuple[EntryKey, SavedEntry]]) -> int:
    """Return the number of stored entries; an archive may have one several times."""
    return len({key.id for key, _ in found})


def _join_note(entry: SavedEntry, old: Note) -> Note:
    """Return a note with what an archive says about its entry; a text that the person wrote here stays."""
    known = {(quote.exact, quote.prefix, quote.suffix) for quote in old.quotes}
    new = [quote for quote in entry.quotes if (quote.exact, quote.prefix, quote.suffix) not in known]
    quotes = (*old.quotes, *(quote._replace(id=make_quote_id()) for quote in new))[:QUOTES_MAX]
    begun = min((quote.at for quote in quotes), default=old.at)
    return old._replace(text=old.text or entry.note, quotes=quotes, at=min(old.at, begun))


def _own(import_id: int | str) -> str:
    """Return the owner under which an import keeps its file."""
    return f"import:{import_id}"


def _plain(ids: Mapping[str, Any]) -> dict[str, str | int]:
    """Return the values of an error that its sentence may contain."""
    return {name: value for name, value in ids.items() if isinstance(value, str | int)}


def _collect(
    entries: Iterable[SavedEntry], limit: int
) -> tuple[dict[tuple[str, str], SavedEntry], Counter[MarkCount]]:
    """Return the marked entries of feeds, each once with all its marks, and what was left out."""
    found: dict[tuple[str, str], SavedEntry] = {}
    counts, room = Counter[MarkCount](), TextRoom()
    for entry in entries:
        # Entries of a feed may share a link; saved pages are their links.
        name = entry.feed_url, (entry.guid or entry.link if entry.feed_url else entry.link or entry.guid)
        if not name[1] or not (entry.is_marked or not entry.feed_url):
            continue
        if entry.is_only_hidden and not entry.feed_url:
            continue  # without a feed, it would become a saved page
        if (known := found.get(name)) is not None:
            is_known = known.html or not entry.html
            found[name] = _merge(known, entry if is_known else room.cut_text(entry))
        elif len(found) < limit:
            found[name] = room.cut_text(entry)
        else:
            counts[MarkCount.CUT] += 1
    counts[MarkCount.LONG] = room.cut
    return found, counts


def _join_texts(one: str, other: str) -> str:
    """Return two notes on one entry as one; a text that the first contains isn't repeated."""
    return one if other in one else f"{one}\n\n{other}".strip()[:NOTE_MAX]


def _merge(one: SavedEntry, other: SavedEntry) -> SavedEntry:
    return dataclasses.replace(
        one,
        starred=one.starred or other.starred,
        read=other.read if one.read is None else one.read,
        hidden=one.hidden or other.hidden,
        tags=tuple(dict.fromkeys((*one.tags, *other.tags)))[:TAGS_MAX],
        note=_join_texts(one.note, other.note),
        quotes=tuple(dict.fromkeys((*one.quotes, *other.quotes)))[:QUOTES_MAX],
        html=one.html or other.html,
    )
