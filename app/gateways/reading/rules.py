"""Rules of users: stored, tried on new entries, and previewed over past ones."""

from __future__ import annotations

import dataclasses
import datetime as dt
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from app.errors import NotFoundError, TooLargeError
from app.gateways.reading.changes import ChangeGateway
from app.gateways.reading.entries import EntryGateway
from app.gateways.reading.indexing import IndexingGateway
from app.gateways.reading.stream_merge import KeyMerger, KeyRequest
from app.gateways.reading.streams import Sources, StreamGateway
from app.gateways.reading.tags import TagGateway
from app.mappers.accounts.users import UserMapper
from app.mappers.feeds import entry_bodies
from app.mappers.feeds.entries import EntryMapper
from app.mappers.feeds.feeds import FeedMapper
from app.mappers.mongo.cells import Cells
from app.mappers.mongo.store import Session
from app.mappers.reading.entry_keys import to_millis
from app.mappers.reading.rules import NewsPlace, RuleMapper
from app.mappers.reading.tags import SavedSearchMapper
from app.mappers.reading.targets import TargetMapper
from app.mappers.subscriptions.folders import FolderMapper
from app.mappers.subscriptions.subscriptions import SubscriptionMapper
from app.models.reading.entry import Entry, EntryKey
from app.models.reading.rules import (
    CompiledRules,
    Condition,
    FeedNews,
    Rule,
    RuledReader,
    RuleEntry,
    RuleFeed,
    RuleMarks,
    RulePreview,
    RuleRow,
    RuleSet,
    Verdict,
    export_rule,
    has_extras,
    is_feed_match,
    is_in_scope,
    parse_condition,
)
from app.models.reading.search import SearchRequest
from app.models.reading.tag import SavedSearch
from app.models.reading.tokenizer import fold_text
from app.models.subscriptions.folder import (
    PATH_SEPARATOR,
    Folder,
    build_folder_paths,
    find_descendants,
    resolve_parents,
)
from app.models.subscriptions.muting import is_in_mixed_lists
from app.models.subscriptions.subscription import Subscription
from app.ports import SearchPort

#: Above every id of a feed.
LAST_ID = 1 << 62
#: Entries read per batch.
BATCH = 100


@dataclasses.dataclass(frozen=True, slots=True)
class Judged:
    """An entry and what a user's rules do with it."""

    key: EntryKey
    verdict: Verdict


#: CPU time after which a preview tries no more entries: a page waits for it.
PREVIEW_SECONDS = 2.0


class RuleGateway(RuleMapper):
    """Stores rules, tries them, and writes what they do.

    Args:
        preview_entries: newest entries that a preview considers.
        preview_rows: matches that it shows.
        texts: most full texts that the rules of a user may request within an hour.
    """

    def __init__(
        self,
        *,
        cells: Cells,
        users: UserMapper,
        changes: ChangeGateway,
        subscriptions: SubscriptionMapper,
        feeds: FeedMapper,
        folders: FolderMapper,
        stored: EntryMapper,
        entries: EntryGateway,
        tags: TagGateway,
        searches: SavedSearchMapper,
        targets: TargetMapper,
        streams: StreamGateway,
        merger: KeyMerger,
        indexing: IndexingGateway,
        limit: int,
        preview_entries: int,
        preview_rows: int,
        texts: int,
    ) -> None:
        super().__init__(cells)
        self._users, self._changes = users, changes
        self._cells, self._subscriptions = cells, subscriptions
        self._cards, self._folders, self._stored, self._entries = feeds, folders, stored, entries
        self._searches, self._targets = searches, targets
        self._tags, self._streams, self._merger, self._indexing = tags, streams, merger, indexing
        self.texts_max = texts
        self._most, self._preview_entries, self._preview_rows = limit, preview_entries, preview_rows

    # -- editing
    def store_rules(self, user_id: int, rules: Sequence[Rule], was: RuleSet, today: dt.date) -> None:
        """Store a user's rules; they are tried on entries that arrive from now on.

        Raises:
            TooLargeError: there are too many.
            ConflictError: they were changed elsewhere at the same time.
        """
        if len(rules) > max(self._most, len(was.rules)):
            raise TooLargeError("You can have at most %(limit)s rules.", limit=self._most)
        if any(rule.enabled for rule in rules):
            # First: a crash after it only has feeds watched for nothing, and not rules that are never tried.
            self.watch_feeds(user_id, is_active=True)
        self.replace_rules(user_id, rules, was, today)
        self.watch_user(user_id)

    def set_search_notify(self, user_id: int, search_id: int, notify: bool) -> SavedSearch | None:
        """Have a saved search notify of entries that arrive from now on, or no longer.

        Returns:
            The search; None: the user has no such search.
        """
        if notify:
            # First: a crash after it only has feeds watched for nothing.
            self.watch_feeds(user_id, is_active=True)

        def write_switch(session: Session) -> SavedSearch | None:
            self.set_alert(user_id, search_id, notify, session)
            return self._searches.set_notify(user_id, search_id, notify, session)

        found = self._cells.run_in_transaction(user_id, write_switch)
        if not notify or found is None:
            self.watch_user(user_id)
        return found

    def has_scope(self, user_id: int, rule: Rule) -> bool:
        """Return whether a user has any of the feeds and folders that a rule names."""
        if not set(rule.feeds).isdisjoint(self._subscriptions.find_feed_ids(user_id)):
            return True
        return any(folder.id in rule.folders for folder in self._folders.find_by_user(user_id))

    def watch_user(self, user_id: int) -> None:
        """Have new entries of a user's feeds tried, if the user has active rules or searches that notify."""
        self.watch_feeds(user_id, is_active=self.find_by_user(user_id).is_active)

    def watch_feeds(self, user_id: int, *, is_active: bool) -> None:
        """Have a user's rules tried on new entries of all feeds of theirs, or of none."""
        if not is_active:
            self._subscriptions.stop_rules(user_id)
            return
        new = [s.feed_id for s in self._subscriptions.find_by_user(user_id) if s.ruled is None]
        cards = self._cards.find_cards(new) if new else {}
        self._subscriptions.start_rules(user_id, {card.id: card.last_seq for card in cards.values()})

    def export_rules(self, user_id: int) -> list[dict[str, Any]]:
        """Return a user's rules as in a file: feeds by address, folders by path, targets by name."""
        rules = self.find_by_user(user_id).rules
        paths = build_folder_paths(self._folders.find_by_user(user_id)) if rules else {}
        feeds = list({feed for rule in rules for feed in rule.feeds})
        addresses = {card.id: card.url for card in self._cards.find_cards(feeds).values()} if feeds else {}
        targets = self._name_targets(user_id) if any(rule.send for rule in rules) else {}
        return [
            export_rule(
                rule,
                [addresses[i] for i in rule.feeds if i in addresses],
                [PATH_SEPARATOR.join(paths[i]) for i in rule.folders if i in paths],
                targets.get(rule.send, ""),
            )
            for rule in rules
        ]

    def _name_targets(self, user_id: int) -> dict[int, str]:
        return {target.id: target.name for target in self._targets.find_by_user(user_id)}

    def has_target(self, user_id: int, target_id: int) -> bool:
        """Return whether a user has a target."""
        return self._targets.find(user_id, target_id) is not None

    def resolve_rules(self, user_id: int, rows: Sequence[RuleRow]) -> list[Rule]:
        """Return rules of a file with the ids of their feeds and folders; feeds must be the user's.

        A rule of which no feed or folder is known would be for all feeds, so it is left out. So is one that
        does nothing without its target.
        """
        mine = [s.feed_id for s in self._subscriptions.find_by_user(user_id)]
        feeds = {card.url: card.id for card in self._cards.find_cards(mine).values()}
        paths = build_folder_paths(self._folders.find_by_user(user_id))
        folders = {PATH_SEPARATOR.join(path): folder_id for folder_id, path in paths.items()}
        targets = (
            {n: i for i, n in self._name_targets(user_id).items()} if any(r.target for r in rows) else {}
        )
        found = list[Rule]()
        for row in rows:
            rule = dataclasses.replace(
                row.rule,
                send=targets.get(row.target, 0),
                feeds=tuple(feeds[url] for url in row.feeds if url in feeds),
                folders=tuple(folders[path] for path in row.folders if path in folders),
            )
            is_lost = bool(row.target) and not rule.has_actions
            if not is_lost and (rule.feeds or rule.folders or not (row.feeds or row.folders)):
                found.append(rule)
        return found

    # -- new entries
    def has_news(self, now: dt.datetime, overlap: dt.timedelta) -> bool:
        """Return whether anyone has rules, and feeds have news on which they weren't tried yet.

        Args:
            overlap: time within which a pull may store news that is older than the last one.
        """
        if not self._subscriptions.has_ruled():
            return False
        place = self.get_place() or NewsPlace(now - overlap, now - overlap)
        if place.tried_at < place.at + overlap <= now or self.find_news(place.at, LAST_ID, 1):
            return True
        return place.missed_at is not None and place.tried_at + overlap <= now

    def find_readers(self, news: Sequence[FeedNews]) -> tuple[dict[int, list[RuledReader]], bool]:
        """Find the readers whose rules weren't tried on all entries of these feeds yet.

        Returns:
            The readers by feed, and whether all cells are responding.
        """
        last_seqs, found = {feed.id: feed.last_seq for feed in news}, dict[int, list[RuledReader]]()
        readers, is_complete = self._subscriptions.find_ruled(list(last_seqs))
        for reader in readers:
            if reader.ruled < last_seqs[reader.feed_id]:
                found.setdefault(reader.feed_id, []).append(reader)
        return found, is_complete

    def compile_rules(self, user_ids: Collection[int]) -> dict[int, ReaderRules]:
        """Return the active rules and saved searches of users, ready to be tried; for others, none."""
        sets = self.find_many(user_ids)
        alerted = [user_id for user_id, found in sets.items() if found.has_alerts]
        alerts = self._searches.find_notifying(alerted) if alerted else {}
        return {
            user_id: ReaderRules(
                sets[user_id].rules if user_id in sets else (),
                # Few users have rules for folders.
                lambda user_id=user_id: self._folders.find_by_user(user_id),  # type: ignore[misc]
                alerts.get(user_id, ()),
            )
            for user_id in user_ids
        }

    def find_titles(self, feed_ids: Sequence[int]) -> dict[int, str]:
        """Return the titles of feeds."""
        return {card.id: card.title or card.url for card in self._cards.find_cards(feed_ids).values()}

    def read_entries(self, feed: FeedNews, after: int) -> Iterator[list[tuple[EntryKey, RuleEntry]]]:
        """Yield the entries of a feed above a number, in batches."""
        while after < feed.last_seq:
            found = self._stored.find_range(feed.id, after, feed.last_seq, BATCH)
            if found:
                yield [(_key(entry), self.read_entry(entry, feed.language)) for entry in found]
            if len(found) < BATCH:
                return
            after = found[-1].seq

    def read_entry(self, entry: Entry, language: str) -> RuleEntry:
        """Return an entry as conditions see it; ``language``: of its feed."""
        return RuleEntry(
            self._indexing.make_document(entry, language),
            url=entry.url or "",
            excerpt=entry.excerpt,
            length=entry_bodies.count_characters(entry.content, entry.summary),
        )

    def apply_rules(self, reader: RuledReader, upto: int, found: Sequence[Judged], now: dt.datetime) -> bool:
        """Do what a user's rules say with entries of a feed, and record up to which number they were tried.

        Stars and tags come first; setting them again changes nothing. All else is one transaction, which
        changes nothing if it was done already. So a crash at any point loses and repeats nothing.

        Returns:
            Whether entries are read now that weren't.
        """
        marks = make_marks(reader, upto, found)
        kept = [one.key.id for one in found if one.verdict.tags or "star" in one.verdict.actions]
        self.record_changes(reader.user_id, {reader.feed_id: {*marks.read, *marks.hidden}}, kept)
        self._star_and_tag(reader.user_id, found, now)
        hits = Counter(rule_id for one in found for rule_id in one.verdict.rules)

        def write_marks(session: Session) -> bool:
            if not self._subscriptions.apply_rules(marks, session):
                return False
            if hits:
                self.add_hits(reader.user_id, hits, now.date(), session)
            return True

        is_new = self._cells.run_in_transaction(reader.user_id, write_marks)
        return is_new and bool(marks.read or marks.hidden)

    def record_changes(
        self, user_id: int, seqs: Mapping[int, Collection[int]], entry_ids: Collection[int]
    ) -> None:
        """Record for apps that sync, before the marks, that entries change."""
        user = self._users.find(user_id)
        if user is not None and user.synced:
            self._changes.record_changes(user_id, {f: some for f, some in seqs.items() if some}, entry_ids)

    def pass_entries(self, passed: Sequence[tuple[RuledReader, int]]) -> set[int]:
        """Record up to which number the rules of users were tried, where none matched.

        Returns:
            The users whose record may be missing, because they move or their cell isn't responding.
        """
        marks = [RuleMarks(one.user_id, one.feed_id, one.ruled, upto) for one, upto in passed]
        return self._subscriptions.pass_ruled(marks) if marks else set()

    def _star_and_tag(self, user_id: int, found: Sequence[Judged], now: dt.datetime) -> None:
        starred = [one.key.id for one in found if "star" in one.verdict.actions]
        if starred:
            self._entries.set_many_starred(user_id, starred, True, now)
        names = dict.fromkeys(name for one in found for name in one.verdict.tags)
        for name in names:
            keys = [one.key for one in found if name in one.verdict.tags]
            try:
                self._tags.tag_many(user_id, keys, name, now)
            except (NotFoundError, TooLargeError):
                self._tag_each(user_id, keys, name, now)

    def _tag_each(self, user_id: int, keys: Sequence[EntryKey], name: str, now: dt.datetime) -> None:
        """Add a tag to each entry that may have one more and isn't gone."""
        for key in keys:
            try:
                self._tags.tag_many(user_id, [key], name, now)
            except (NotFoundError, TooLargeError):
                continue

    # -- past entries
    def preview(self, user_id: int, rule: Rule, condition: Condition, engine: SearchPort) -> RulePreview:
        """Return which of the newest entries a rule would match, if it were the only one."""
        sources = self.select_sources(user_id, rule, condition)
        found, total, is_partial = self._find_newest(user_id, sources, condition, engine)
        shown = self._entries.find_rows(user_id, found[: self._preview_rows])
        rows = [(shown[key.id], sources.get_title(key.feed_id)) for key in found if key.id in shown]
        return RulePreview(
            len(found), total, tuple(rows), is_partial, texts=self.texts_max if rule.full_text else 0
        )

    def find_newest_matches(self, user_id: int, rule: Rule, engine: SearchPort) -> list[EntryKey]:
        """Return the newest entries that a rule matches, as its preview finds them, newest first."""
        condition = parse_condition(rule.query)
        sources = self.select_sources(user_id, rule, condition)
        return self._find_newest(user_id, sources, condition, engine)[0]

    def _find_newest(
        self, user_id: int, sources: Sources, condition: Condition, engine: SearchPort
    ) -> tuple[list[EntryKey], int, bool]:
        """Return what :meth:`_match` finds among the newest entries of feeds."""
        feeds = list(sources.feeds.values())
        keys = self._merger.merge_keys(feeds, KeyRequest(self._preview_entries)) if feeds else []
        return self._match(user_id, keys, sources, condition, engine)

    def select_sources(self, user_id: int, rule: Rule, condition: Condition) -> Sources:
        """Return the user's feeds that a rule is for."""
        mine = self._subscriptions.find_by_user(user_id)
        every = self._streams.load_sources(mine)
        context = ReaderRules((), lambda: self._folders.find_by_user(user_id))
        folders = context.find_inner_folders(rule.folders) if rule.folders else ()
        wanted = [
            s
            for s in every.subscriptions.values()
            if s.feed_id in every.cards
            and is_in_scope(rule, feed := context.make_feed(s, every.get_title(s.feed_id)), folders)
            and is_feed_match(condition.query, feed)
        ]
        ids = {s.feed_id for s in wanted}
        return Sources(
            {s.feed_id: s for s in wanted}, {f: card for f, card in every.cards.items() if f in ids}
        )

    def _match(
        self,
        user_id: int,
        keys: Sequence[EntryKey],
        sources: Sources,
        condition: Condition,
        engine: SearchPort,
    ) -> tuple[list[EntryKey], int, bool]:
        """Return which of these entries, newest first, meet a condition.

        Returns:
            The entries, how many of the newest were tried within :data:`PREVIEW_SECONDS`, and whether the
            search index isn't complete yet.
        """
        query, found, is_partial, total = condition.query, list(keys), False, len(keys)
        if query.since is not None:
            found = [key for key in found if key.at >= to_millis(query.since)]
        if query.until is not None:
            found = [key for key in found if key.at < to_millis(query.until)]
        if found and (query.terms or query.without):
            ids, is_partial = _find_ids(found, sources, condition, engine)
            found = [key for key in found if key.id in ids]
        if found and query.tags:
            tags = self._tags.find_by_marks(user_id, self._streams.find_marks(user_id, found))
            names = {i: {fold_text(tag.name) for tag in some} for i, some in tags.items()}
            found = [
                key
                for key in found
                if all((tag.text in names.get(key.id, ())) is tag.wanted for tag in query.tags)
            ]
        if found and condition != Condition(query):
            rows = self._stored.find_rows(found)
            lengths = self._stored.find_lengths(found) if condition.length != (None, None) else {}
            wanted, found, end = found, [], time.thread_time() + PREVIEW_SECONDS
            for number, key in enumerate(wanted):
                if number and time.thread_time() >= end:
                    total = keys.index(key)
                    break
                language, length = sources.get_language(key.feed_id) or "", lengths.get(key.id, 0)
                if key.id in rows and has_extras(condition, self._read_row(rows[key.id], language, length)):
                    found.append(key)
        return found, total, is_partial

    def _read_row(self, entry: Entry, language: str, length: int) -> RuleEntry:
        document = self._indexing.make_document(entry, language)
        return RuleEntry(document, url=entry.url or "", excerpt=entry.excerpt, length=length)


class ReaderRules:
    """The active rules of one user, with the user's folders and the saved searches that notify."""

    def __init__(
        self,
        rules: Iterable[Rule],
        load_folders: Callable[[], Sequence[Folder]],
        alerts: Iterable[SavedSearch] = (),
    ) -> None:
        self._load_folders = load_folders
        self._known: Sequence[Folder] | None = None
        self.compiled = CompiledRules(rules, self.find_inner_folders, alerts)

    def _find_folders(self) -> Sequence[Folder]:
        if self._known is None:
            self._known = self._load_folders()
        return self._known

    def find_inner_folders(self, folder_ids: Sequence[int]) -> Collection[int]:
        """Return folders with all folders in them."""
        return find_descendants(self._find_folders(), folder_ids)

    def make_feed(self, subscription: Subscription | RuledReader, title: str) -> RuleFeed:
        """Return a feed as the rules see it."""
        ids = subscription.folder_ids
        names = self._name_folders(ids) if ids else ()
        if isinstance(subscription, Subscription):
            flags = (subscription.person, not is_in_mixed_lists(subscription))
        else:
            flags = (subscription.is_person, subscription.is_muted)
        return RuleFeed(subscription.feed_id, fold_text(title), frozenset(ids), names, *flags)

    def _name_folders(self, folder_ids: Sequence[int]) -> tuple[str, ...]:
        folders = self._find_folders()
        names, parents = {f.id: fold_text(f.name) for f in folders}, resolve_parents(folders)
        found = list[str]()
        for folder_id in folder_ids:
            above: int | None = folder_id
            while above is not None and above in names:
                found.append(names[above])
                above = parents.get(above)
        return tuple(found)


def make_marks(reader: RuledReader, upto: int, found: Sequence[Judged]) -> RuleMarks:
    """Return the numbers to mark in a subscription."""

    def select_seqs(action: str) -> tuple[int, ...]:
        return tuple(one.key.seq for one in found if action in one.verdict.actions)

    highlighted_by = dict[int, list[int]]()
    for one in found:
        if rule_id := one.verdict.highlighter:
            highlighted_by.setdefault(rule_id, []).append(one.key.seq)
    return RuleMarks(
        reader.user_id,
        reader.feed_id,
        reader.ruled,
        upto,
        read=select_seqs("read"),
        hidden=select_seqs("hide"),
        highlighted=select_seqs("highlight"),
        highlighted_by=highlighted_by,
    )


def _key(entry: Entry) -> EntryKey:
    return EntryKey(entry.id, entry.feed_id, entry.seq, to_millis(entry.at))


def _find_ids(
    keys: Sequence[EntryKey], sources: Sources, condition: Condition, engine: SearchPort
) -> tuple[set[int], bool]:
    """Return which of these entries the search finds."""
    feeds: Mapping[int, tuple[int, int]] = {
        f: (feed.first_seq, feed.last_seq) for f, feed in sources.feeds.items()
    }
    wanted = SearchRequest(
        feeds=feeds,
        newest=keys[0].at,
        terms=condition.query.terms,
        without=condition.query.without,
        since=keys[-1].at,
        until=keys[0].at,
    )
    found, after, is_partial = set[int](), None, False
    for _ in range(len(keys)):
        part = engine.find(dataclasses.replace(wanted, after=after), len(keys))
        found.update(key.id for key in part.keys)
        after, is_partial = part.after, is_partial or part.is_partial
        if after is None:
            break
    return found, is_partial
