"""Personal data of a user, as rows that can be written to a file one by one (security.md G01).

Of other people, it contains only names that the user may see at that time. These are people whom the user
follows, mutes or blocks, and sharers above the user's shares. Followers are only counted. Other people's
comments, likes and shares are their own data, and left out.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from app.gateways.accounts.sessions import SessionGateway
from app.gateways.feeds.feeds import FeedGateway
from app.gateways.feeds.fetch_secrets import FetchSecrets
from app.gateways.imports.exports import ExportGateway
from app.gateways.imports.followed_lists import FollowedListGateway
from app.gateways.media.blobs import BlobGateway
from app.gateways.media.files import FileGateway
from app.gateways.notifications.notifications import NotificationGateway
from app.gateways.reading.entries import EntryGateway
from app.gateways.reading.full_texts import FullTextGateway
from app.gateways.reading.notes import NoteGateway
from app.gateways.reading.recent_reads import RecentReadGateway
from app.gateways.reading.rules import RuleGateway
from app.gateways.reading.saved_pages import SavedPageGateway
from app.gateways.reading.statistics import StatisticsGateway
from app.gateways.reading.tags import TagGateway
from app.gateways.sharing.follows import FollowGateway
from app.gateways.sharing.profiles import ProfileGateway
from app.gateways.sharing.visibility import VisibilityGateway
from app.gateways.subscriptions.folders import FolderGateway
from app.gateways.subscriptions.subscriptions import SubscriptionGateway
from app.mappers.feeds.entries import EntryMapper
from app.mappers.privacy.personal_data import CommentRecord, LikeRecord, MarkRecord, PersonalDataMapper
from app.mappers.reading.entry_keys import from_millis
from app.mappers.reading.targets import TargetMapper
from app.mappers.sharing.shares import ShareMapper
from app.models.accounts.user import User
from app.models.feeds.feed import FeedCard
from app.models.feeds.fetch_options import FetchOptions
from app.models.media.blob import EXTENSIONS, ORIGINAL, Blob
from app.models.media.user_file import UserFile
from app.models.reading.entry import Entry, EntryKey
from app.models.reading.notes import NotedEntry, write_markdown
from app.models.sharing.sharing import LASTING, RelationshipKind, Share
from app.models.subscriptions.folder import build_folder_paths
from app.models.subscriptions.muting import is_hidden_site
from app.models.subscriptions.read_state import RemovedEntries
from app.models.subscriptions.subscription import Subscription
from app.runtime.pieces import read_piece

Row = dict[str, Any]
T = TypeVar("T")

#: Rows per batch, and entries per batch, whose texts may be a megabyte each.
BATCH, ENTRIES = 500, 50
#: Newest entries of each feed whose read states are exported.
STATES = 100


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class OwnFile:
    """A file of a user for the export.

    Attributes:
        size: bytes of ``chunks``, or of the original if there are none.
        extension: of its media type, without a dot.
        stored: when.
        chunks: reads its content; None: it is lost.
    """

    id: int
    name: str
    size: int
    extension: str
    stored: dt.datetime
    chunks: Callable[[], Iterator[bytes]] | None = None


class PersonalDataGateway:
    """Reads the personal data of a user."""

    def __init__(
        self,
        *,
        personal_data: PersonalDataMapper,
        shares: ShareMapper,
        sessions: SessionGateway,
        profiles: ProfileGateway,
        exports: ExportGateway,
        subscriptions: SubscriptionGateway,
        feeds: FeedGateway,
        secrets: FetchSecrets,
        folders: FolderGateway,
        entries: EntryGateway,
        tags: TagGateway,
        follows: FollowGateway,
        visibility: VisibilityGateway,
        notes: NotificationGateway,
        files: FileGateway,
        blobs: BlobGateway,
        recent_reads: RecentReadGateway,
        rules: RuleGateway,
        saved_pages: SavedPageGateway,
        full_texts: FullTextGateway,
        statistics: StatisticsGateway,
        entry_notes: NoteGateway,
        followed_lists: FollowedListGateway,
        targets: TargetMapper,
        entry_mapper: EntryMapper,
    ) -> None:
        self._links = entry_mapper
        self._belongings, self._shares = personal_data, shares
        self._sessions, self._profiles, self._exports = sessions, profiles, exports
        self._subscriptions, self._feeds, self._folders = subscriptions, feeds, folders
        self._entries, self._tags, self._follows = entries, tags, follows
        self._sight, self._notes = visibility, notes
        self._secrets = secrets
        self._files, self._blobs, self._recent_reads = files, blobs, recent_reads
        self._rules, self._saved_pages, self._entry_notes = rules, saved_pages, entry_notes
        self._targets, self._full_texts = targets, full_texts
        self._statistics, self._lists = statistics, followed_lists

    def build_account(self, user: User) -> Row:
        """Return the name, email address, settings, sessions and profile, without secrets."""
        sessions = self._sessions.list_sessions(user.id)
        return {
            "name": user.name,
            "former_names": self._belongings.list_former_names(user.id),
            "email": user.email,
            "role": user.role.value,
            "created": user.created,
            "settings": {
                f.name: getattr(user.preferences, f.name) for f in dataclasses.fields(user.preferences)
            },
            "streams": self._belongings.list_stream_views(user.id),
            "sessions": [
                {"network": s.address, "agent": s.agent, "created": s.created, "seen": s.seen}
                for s in sessions
            ],
            "devices": self._belongings.list_devices(user.id),
            "apps": self._belongings.list_tokens(user.id),
            "profile": self._profile(user.id),
            "reports": self._belongings.list_reports(user.id),
            "looked_for": self._belongings.list_looked_for(user.id),
        }

    def _profile(self, user_id: int) -> Row | None:
        profile = self._profiles.find(user_id)
        if profile is None:
            return None
        return {
            "page": self._profiles.build_page_url(profile.handle),
            "display": profile.display,
            "bio": profile.bio,
            "links": list(profile.links),
            "audience": profile.audience.value,
            "listed": profile.listed,
            "open_lists": profile.open_lists,
            "similar": profile.similar,
            "suspended": profile.hidden,
            "followers": self._follows.count_followers([profile]).get(user_id, 0),
        }

    def build_opml(self, user_id: int) -> bytes:
        """Return the subscriptions as OPML."""
        return self._exports.export_subscriptions(user_id)

    def iter_subscriptions(self, user_id: int) -> Iterator[Row]:
        """Yield subscriptions to feeds and people, with their folders and read positions."""
        paths = build_folder_paths(self._folders.find_by_user(user_id))
        mine = self._subscriptions.find_by_user(user_id)
        options = self._feeds.find_fetch_options(user_id, self._secrets)
        for batch in _cut(mine):
            cards = self._feeds.find_cards([one.feed_id for one in batch])
            names = self._handles([c.owner for c in cards.values() if c.owner is not None])
            for one in batch:
                if (card := cards.get(one.feed_id)) is not None:
                    row = _subscription(
                        one, card, [list(paths[f]) for f in one.folder_ids if f in paths], names
                    )
                    yield row | ({"fetching": _fetching(options[card.id])} if card.id in options else {})

    def iter_folders(self, user_id: int) -> Iterator[Row]:
        """Yield folders with their paths."""
        for path in build_folder_paths(self._folders.find_by_user(user_id)).values():
            yield {"name": path[-1], "path": list(path)}

    def iter_starred(self, user_id: int) -> Iterator[Row]:
        """Yield starred entries with their texts."""
        return self._kept(user_id, "starred_at", lambda mark: {"starred": mark.starred})

    def iter_tagged(self, user_id: int) -> Iterator[Row]:
        """Yield tagged entries with their texts."""
        return self._kept(user_id, "tagged_at", lambda mark: {"tagged": mark.tagged})

    def _kept(self, user_id: int, time: str, also: Callable[[MarkRecord], Row]) -> Iterator[Row]:
        names = {tag.id: tag.name for tag in self._tags.find_by_user(user_id)}
        mine = {one.feed_id: one for one in self._subscriptions.find_by_user(user_id)}
        for marks in self._marks(user_id, time):
            entries = self._entries.find_with_bodies(
                user_id, [EntryKey(m.entry_id, m.feed_id, 0, 0) for m in marks]
            )
            full = self._full_texts.find_always(user_id, entries.values(), mine)
            cards = self._feeds.find_cards(list({m.feed_id for m in marks}))
            for mark in marks:
                # Entries that are gone or hidden from the user are left out.
                if (entry := entries.get(mark.entry_id)) is None:
                    continue
                yield {
                    "title": entry.title,
                    "link": entry.url,
                    "author": entry.author,
                    "date": entry.published or entry.at,
                    **also(mark),
                    "tags": [names[t] for t in mark.tags if t in names],
                    "feed": _feed(cards.get(mark.feed_id), mark.feed_id in mine),
                    "html": full.get(entry.id) or entry.content or entry.summary,
                }

    def _marks(self, user_id: int, time: str) -> Iterator[list[MarkRecord]]:
        return _batches(
            lambda after: self._belongings.list_marks(user_id, time, after, ENTRIES), lambda m: m.entry_id
        )

    def iter_saved(self, user_id: int) -> Iterator[Row]:
        """Yield saved pages with their texts."""
        names = {tag.id: tag.name for tag in self._tags.find_by_user(user_id)}
        for entries in self._saved_pages.iter_pages(user_id, ENTRIES):
            marks = self._tags.find_marks(user_id, [entry.id for entry in entries])
            (mine,) = self._subscriptions.find_by_user(user_id, [entries[0].feed_id]) or (None,)
            for entry in entries:
                mark = marks.get(entry.id)
                yield {
                    "title": entry.title,
                    "link": entry.url,
                    "author": entry.author,
                    "saved": entry.at,
                    "read": mine is not None and mine.state.is_read(entry.seq),
                    "starred": mark is not None and mark.starred,
                    "tags": [names[t] for t in mark.tags if t in names] if mark else [],
                    "html": entry.content or entry.summary,
                }

    def iter_notes(self, user_id: int) -> Iterator[Row]:
        """Yield notes and highlights, with their entries as far as the user may still see them."""
        mine = set(self._subscriptions.find_feed_ids(user_id))
        cards = dict[int, FeedCard | None]()
        for one in self._list_noted(user_id):
            if one.note.feed_id not in cards:
                cards[one.note.feed_id] = self._feeds.find_cards([one.note.feed_id]).get(one.note.feed_id)
            yield {
                "title": one.title,
                "link": one.url,
                "feed": _feed(cards[one.note.feed_id], one.note.feed_id in mine),
                "at": one.note.at,
                "edited": one.note.edited,
                "text": one.note.text,
                "highlights": [
                    {name: value for name, value in quote._asdict().items() if name != "id"}
                    for quote in one.note.quotes
                ],
            }

    def iter_states(self, user_id: int) -> Iterator[Row]:
        """Yield those of the newest :data:`STATES` entries of each feed that are read, for another server.

        A feed brings its newest entries only, so the states of older ones would find nothing there. Entries
        of new feeds are unread anyway, and an import marks no entry as unread that was read meanwhile.
        """
        for some in _cut(self._subscriptions.find_by_user(user_id)):
            cards = self._feeds.find_cards([one.feed_id for one in some])
            for one in some:
                card = cards.get(one.feed_id)
                if card is None or card.owner is not None or card.saved:
                    continue
                state, feed = one.state.exclude_removed(card.removed), {"address": card.url}
                for link in self._links.find_newest_links(one.feed_id, STATES):
                    if link.url and state.is_read(link.seq):
                        yield {"link": link.url, "read": True, "feed": feed}

    def iter_hidden(self, user_id: int) -> Iterator[Row]:
        """Yield the entries that are hidden from lists, by hand or by rules, with their feeds."""
        for _, card, entry in self._iter_numbered(user_id, lambda one: one.hidden):
            yield {"title": entry.title, "link": entry.url, "hidden": True, "feed": _feed(card, True)}

    def iter_highlighted(self, user_id: int) -> Iterator[Row]:
        """Yield the entries that rules have highlighted, with the rule as it is called now.

        Its name is null if it isn't known, or if the rule was deleted.
        """
        names = {rule.id: rule.name or rule.query for rule in self._rules.find_by_user(user_id).rules}
        for one, card, entry in self._iter_numbered(user_id, lambda one: one.highlighted):
            yield {
                "title": entry.title,
                "link": entry.url,
                "rule": names.get(one.find_highlighter(entry.seq)),
                "feed": _feed(card, True),
            }

    def _iter_numbered(
        self, user_id: int, select: Callable[[Subscription], RemovedEntries]
    ) -> Iterator[tuple[Subscription, FeedCard, Entry]]:
        """Yield the entries whose numbers a subscription has in a set, as far as the user may see them."""
        mine = [one for one in self._subscriptions.find_by_user(user_id) if select(one).bits]
        for some in _cut(mine):
            cards = self._feeds.find_cards([one.feed_id for one in some])
            for one in some:
                if (card := cards.get(one.feed_id)) is None:
                    continue
                for seqs in _cut(select(one).list_seqs()):
                    links = self._links.find_links_by_seq(one.feed_id, seqs)
                    keys = [EntryKey(link.id, one.feed_id, link.seq, 0) for link in links]
                    rows = self._entries.find_rows(user_id, keys)
                    yield from ((one, card, rows[key.id]) for key in keys if key.id in rows)

    def write_notes(self, user_id: int) -> Iterator[bytes]:
        """Yield the notes as a Markdown document, piece by piece."""
        for piece in write_markdown(self._list_noted(user_id), "Notes"):
            yield piece.encode()

    def _list_noted(self, user_id: int) -> Iterator[NotedEntry]:
        for notes in self._entry_notes.iter_notes(user_id, ENTRIES):
            keys = [EntryKey(note.entry_id, note.feed_id, 0, 0) for note in notes]
            entries = self._entries.find_rows(user_id, keys)
            for note in notes:
                entry = entries.get(note.entry_id)
                shown = (entry.title, entry.url or "", entry.author) if entry else ()
                yield NotedEntry(note, *shown)

    def iter_searches(self, user_id: int) -> Iterator[Row]:
        """Yield saved searches."""
        for one in self._tags.list_searches(user_id):
            yield {"name": one.name, "query": one.query, "notify": one.notify}

    def iter_rules(self, user_id: int) -> Iterator[Row]:
        """Yield rules in their order, with the addresses of their feeds and the names of their folders."""
        yield from self._rules.export_rules(user_id)

    def iter_lists(self, user_id: int) -> Iterator[Row]:
        """Yield followed OPML files, the oldest first."""
        for one in self._lists.lists.find_by_user(user_id):
            yield {"url": one.url, "folder": one.name, "checked": one.checked_at}

    def iter_targets(self, user_id: int) -> Iterator[Row]:
        """Yield services that entries are sent to, the oldest first, without their secrets."""
        for one in self._targets.find_by_user(user_id):
            on = [occasion.value for occasion in one.on]
            yield {"kind": one.kind.value, "name": one.name, "address": one.address, "on": on}

    def iter_sent(self, user_id: int) -> Iterator[Row]:
        """Yield what was sent to services of late, the latest first, with entries that the user may see."""
        names = {one.id: one.name for one in self._targets.find_by_user(user_id)}
        for some in _cut(self._targets.list_latest(user_id, 0)):
            keys = self._entries.find_keys(user_id, list({one.entry_id for one in some}))
            rows = self._entries.find_rows(user_id, keys)
            for one in some:
                entry = rows.get(one.entry_id)
                yield {
                    "service": names.get(one.target_id),
                    "title": entry.title if entry else None,
                    "link": entry.url if entry else None,
                    "reason": one.occasion.value,
                    "at": one.at,
                    "state": one.state.value,
                    "error": one.error,
                }

    def iter_tags(self, user_id: int) -> Iterator[Row]:
        """Yield tags, including those that no entry has."""
        yield from ({"name": tag.name, "entries": tag.count} for tag in self._tags.find_by_user(user_id))

    def iter_statistics(self, user_id: int) -> Iterator[Row]:
        """Yield the days of reading statistics, the oldest first."""
        for one in self._statistics.list_all(user_id):
            yield {"day": one.day.isoformat(), "read": one.read, "starred": one.starred, "shared": one.shared}

    def iter_positions(self, user_id: int) -> Iterator[Row]:
        """Yield positions in recordings."""
        yield from self._belongings.list_positions(user_id)

    def iter_recent(self, user_id: int) -> Iterator[Row]:
        """Yield recently read entries that the user can still see, the latest first."""
        for keys in _cut(self._recent_reads.find_visible_keys(user_id)):
            rows = self._entries.find_rows(user_id, keys)
            for key in keys:
                if entry := rows.get(key.id):
                    yield {"read": from_millis(key.at), "title": entry.title, "link": entry.url}

    def iter_shares(self, user_id: int) -> Iterator[Row]:
        """Yield shares and posts, each with its chain as far as the user may see it."""
        for batch in _batches(
            lambda after: self._belongings.list_shares(user_id, after, BATCH), lambda s: s.of.entry_id
        ):
            shown = self._entries.find_with_bodies(
                user_id, [EntryKey(s.id, s.feed_id, 0, 0) for s in batch if s.is_post]
            )
            shown |= self._entries.find_rows(
                user_id, [EntryKey(s.id, s.feed_id, 0, 0) for s in batch if not s.is_post]
            )
            above = self._shares.find_many(list({i for s in batch for i in s.path}))
            seen = self._sight.find_visible_profiles(user_id, list(above.values()))
            for share in batch:
                way = [seen[i].handle if i in seen else None for i in share.path]
                yield {**_share_row(share, shown.get(share.id)), "way": way}

    def iter_comments(self, user_id: int) -> Iterator[Row]:
        """Yield comments, with their share if the user may still see it."""
        found: Iterator[list[CommentRecord]] = _batches(
            lambda after: self._belongings.list_comments(user_id, after, BATCH), lambda c: c.id
        )
        for batch in found:
            about = self._about(user_id, [c.share_id for c in batch])
            for one in batch:
                yield {
                    "at": one.at,
                    "edited": one.edited,
                    "text": one.text,
                    "answer": one.answer,
                    "on": about.get(one.share_id),
                }

    def iter_likes(self, user_id: int) -> Iterator[Row]:
        """Yield liked entries and shares, with titles if the user may still see them."""
        for marks in self._marks(user_id, "liked_at"):
            rows = self._entries.find_rows(user_id, [EntryKey(m.entry_id, m.feed_id, 0, 0) for m in marks])
            for mark in marks:
                if entry := rows.get(mark.entry_id):
                    yield {"kind": "entry", "at": mark.liked, "title": entry.title, "link": entry.url}
        found: Iterator[list[LikeRecord]] = _batches(
            lambda after: self._belongings.list_likes(user_id, after, BATCH), lambda one: one.share_id
        )
        for batch in found:
            about = self._about(user_id, [one.share_id for one in batch])
            for one in batch:
                yield {"kind": "share", "at": one.at, "on": about.get(one.share_id)}

    def _about(self, user_id: int, share_ids: Sequence[int]) -> dict[int, Row]:
        """Return the sharers and titles of these shares, for those that the user may see."""
        shares = self._shares.find_many(share_ids)
        seen = self._sight.find_visible_profiles(user_id, list(shares.values()))
        found: list[Share] = [shares[i] for i in seen]
        rows = self._entries.find_rows(user_id, [EntryKey(s.id, s.feed_id, 0, 0) for s in found])
        return {
            s.id: {"by": seen[s.id].handle, "title": rows[s.id].title, "link": rows[s.id].url}
            for s in found
            if s.id in rows
        }

    def iter_people(self, user_id: int) -> Iterator[Row]:
        """Yield the people whom the user follows, has asked to follow, mutes and blocks."""
        owners = self._profiles.find_owners([s.feed_id for s in self._follows.find_followed(user_id)])
        for ids in _cut(list(owners.values())):
            names = self._handles(ids)
            yield from ({"kind": "follows", "name": names[i], "at": None} for i in ids if i in names)
        for kind in (*LASTING, RelationshipKind.ACCEPTED):
            found: Iterator[list[tuple[int, dt.datetime]]] = _batches(
                lambda after, kind=kind: self._belongings.list_relationships(user_id, kind, after, BATCH),  # type: ignore[misc]
                lambda tie: tie[0],
            )
            for ties in found:
                names = self._handles([whom for whom, _ in ties])
                shown = RelationshipKind.REQUEST if kind is RelationshipKind.ACCEPTED else kind
                yield from ({"kind": shown.value, "name": names[i], "at": at} for i, at in ties if i in names)

    def _handles(self, user_ids: Sequence[int]) -> dict[int, str]:
        return {i: face.handle for i, face in self._sight.find_unmuted_people(None, user_ids).items()}

    def iter_notifications(self, user_id: int) -> Iterator[Row]:
        """Yield notifications as the user sees them now, without the names of other people."""
        cursor: str | None = ""
        while cursor is not None:
            page = self._notes.list_notifications(user_id, cursor)
            for note in page.notes:
                yield {
                    "kind": note.kind.value,
                    "at": note.at,
                    "count": note.count,
                    "read": note.read,
                    "title": note.title,
                }
            cursor = page.cursor

    def iter_files(self, user_id: int) -> Iterator[OwnFile]:
        """Yield the user's files, newest first."""
        for batch in _batches(lambda after: self._files.list_files(user_id, BATCH, after), lambda f: f.id):
            blobs = self._blobs.find(file.blob for file in batch)
            yield from (self._describe_file(file, blobs.get(file.blob)) for file in batch)

    def _describe_file(self, file: UserFile, blob: Blob | None) -> OwnFile:
        own = OwnFile(
            id=file.id,
            name=file.name,
            size=file.size,
            extension="bin",
            stored=dt.datetime.fromtimestamp(file.id / 1_000_000, dt.UTC),
        )
        # The original of a picture isn't kept: then the largest drawing is what the user has.
        name = file.find_best(blob) if blob and not blob.lost else None
        if blob is None or name is None:
            return own
        return dataclasses.replace(
            own,
            size=blob.names[name],
            extension=EXTENSIONS.get(file.get_type(blob), "bin") if name == ORIGINAL else "webp",
            chunks=lambda: read_piece(self._blobs.open(blob.id, name)),
        )


def _cut(things: Sequence[T]) -> Iterator[Sequence[T]]:
    return (things[i : i + BATCH] for i in range(0, len(things), BATCH))


def _batches(read: Callable[[int | None], list[T]], place: Callable[[T], int]) -> Iterator[list[T]]:
    """Yield batches until there are no more; ``read`` gets the place of the previous batch's last row."""
    after: int | None = None
    while batch := read(after):
        yield batch
        after = place(batch[-1])


def _subscription(
    one: Subscription, card: FeedCard, folders: Sequence[Sequence[str]], names: dict[int, str]
) -> Row:
    state = one.state.exclude_removed(card.removed)
    row: Row = {
        "title": one.title or card.title,
        "own_title": one.title,
        "folders": folders,
        "paused": one.paused,
        "private": one.private,
        "hidden": is_hidden_site(one),
        "opens_original": one.original,
        "notify": one.notify,
        "full_text": one.full_text,
        "reopen": one.reopen,
        "read_after": one.read_after,
        "keep_newest": one.keep_newest,
        "own_copy": card.private_to is not None,
        "unread": state.count_unread(card.first_seq, card.last_seq),
        "entries": max(0, card.last_seq - card.first_seq + 1 - card.missing),
        "read_upto": one.state.upto,
    }
    if card.owner is None:
        return {"kind": "feed", "address": card.url, "site": card.site_url, **row}
    # For a suspended or private person, only the user's own title is shown.
    name = None if card.hidden else names.get(card.owner)
    return {"kind": "person", "name": name, "muted": one.muted, **row, "title": one.title or name}


def _fetching(options: FetchOptions) -> Row:
    """Return how a user has a feed fetched, without the secrets."""
    return {
        "login": options.login,
        "has_password": bool(options.password),
        "has_token": bool(options.token),
        "has_cookie": bool(options.cookie),
        "has_headers": bool(options.headers),
        "user_agent": options.user_agent,
        "time_limit": options.time_limit,
        "min_minutes": options.min_minutes,
        "max_minutes": options.max_minutes,
    }


def _share_row(share: Share, entry: Entry | None) -> Row:
    row: Row = {
        "id": share.id,
        "kind": "post" if share.is_post else "share",
        "at": share.at,
        "edited": share.edited,
        "audience": share.audience.value,
        "note": share.note,
        "title": entry.title if entry and not entry.lost else None,
        "link": entry.url if entry else None,
    }
    if share.is_post:
        row["html"] = entry.content if entry else ""
    return row


def _feed(card: FeedCard | None, mine: bool) -> Row | None:
    """Return a feed; include its address, which may be a secret, only for a subscriber."""
    if card is None:
        return None
    return {
        "title": card.title,
        "address": card.url if mine and card.owner is None and not card.saved else None,
    }
