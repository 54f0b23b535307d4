"""Runs of a rule over past entries, and their undo."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime as dt
from collections.abc import Iterable, Iterator, Sequence

from app.errors import NotFoundError, TooLargeError
from app.gateways.reading.entries import EntryGateway
from app.gateways.reading.rules import RuleGateway
from app.gateways.reading.tags import TagGateway
from app.mappers.feeds.entries import EntryMapper
from app.mappers.mongo.cells import Cells
from app.mappers.reading.entry_keys import to_millis
from app.mappers.reading.rule_runs import RuleRunMapper
from app.mappers.subscriptions.subscriptions import SubscriptionMapper
from app.models.feeds.feed import FeedCard
from app.models.reading.entry import EntryKey
from app.models.reading.rules import (
    Condition,
    Rule,
    RuleMarks,
    RunPart,
    is_match,
    parse_condition,
)
from app.models.reading.search import SearchRequest
from app.models.reading.tag import Mark, make_tag_key
from app.models.reading.tokenizer import fold_text
from app.models.subscriptions.subscription import Subscription
from app.ports import SearchPort

#: Entries per part, and keys read at once from the search index.
PART, FOUND = 100, 1000


@dataclasses.dataclass(frozen=True, slots=True)
class RunFeed:
    """A feed of a run."""

    subscription: Subscription
    card: FeedCard


class RuleRunGateway(RuleRunMapper):
    """Makes and undoes the parts of runs; the mapper stores them.

    Args:
        undo_ttl: time for which a run can be undone.
    """

    def __init__(
        self,
        *,
        cells: Cells,
        rules: RuleGateway,
        subscriptions: SubscriptionMapper,
        stored: EntryMapper,
        entries: EntryGateway,
        tags: TagGateway,
        undo_ttl: dt.timedelta,
    ) -> None:
        super().__init__(cells)
        self._rule_gateway, self._subscriptions, self._stored = rules, subscriptions, stored
        self._entries, self._tags, self.undo_ttl = entries, tags, undo_ttl

    def find_feeds(self, user_id: int, rule: Rule) -> list[RunFeed]:
        """Return the feeds of a rule by id."""
        sources = self._rule_gateway.select_sources(user_id, rule, parse_condition(rule.query))
        found = [RunFeed(sources.subscriptions[f], card) for f, card in sources.cards.items()]
        return sorted(found, key=lambda one: one.card.id)

    def make_parts(
        self, user_id: int, rule: Rule, feed: RunFeed, after: int, engine: SearchPort
    ) -> Iterator[RunPart]:
        """Yield what a rule changes in a feed's entries above a number."""
        condition = parse_condition(rule.query)
        for keys in self._find_keys(feed.card, condition, after, engine):
            yield self._make_part(user_id, rule, feed, keys, after=after)
            after = keys[-1].seq

    def _find_keys(
        self, card: FeedCard, condition: Condition, after: int, engine: SearchPort
    ) -> Iterator[list[EntryKey]]:
        """Yield the entries that may match in the order of their numbers; a search finds words."""
        if not (condition.query.terms or condition.query.without):
            after = max(after, card.first_seq - 1)
            while found := self._stored.find_range(card.id, after, card.last_seq, PART):
                yield [EntryKey(e.id, e.feed_id, e.seq, to_millis(e.at)) for e in found]
                after = found[-1].seq
            return
        wanted = SearchRequest(
            feeds={card.id: (card.first_seq, card.last_seq)},
            newest=card.newest,
            terms=condition.query.terms,
            without=condition.query.without,
        )
        keys, part = list[EntryKey](), engine.find(wanted, FOUND)
        keys += part.keys
        while part.after is not None:
            part = engine.find(dataclasses.replace(wanted, after=part.after), FOUND)
            keys += part.keys
        keys = sorted((key for key in keys if key.seq > after), key=lambda key: key.seq)
        yield from (keys[at : at + PART] for at in range(0, len(keys), PART))

    def _make_part(
        self, user_id: int, rule: Rule, feed: RunFeed, keys: Sequence[EntryKey], *, after: int
    ) -> RunPart:
        card, mine = feed.card, self._subscriptions.find(user_id, feed.card.id)
        condition = parse_condition(rule.query)
        part = RunPart(card.id, after, keys[-1].seq, 0)
        if mine is None:
            return part
        entries = {entry.id: entry for entry in self._stored.find_with_bodies(keys)}
        marks, names = self._find_marks(user_id, [key.id for key in keys])
        matched = [
            key
            for key in keys
            if key.id in entries
            and is_match(
                condition,
                self._rule_gateway.read_entry(entries[key.id], card.language or ""),
                names.get(key.id, ()),
            )
        ]
        state = mine.state
        unread = [key.seq for key in matched if not state.is_read(key.seq)]
        read = tuple(unread) if rule.read or rule.hide else ()
        hidden = [key.seq for key in matched if rule.hide and not mine.hidden.has_seq(key.seq)]
        lit = [key.seq for key in matched if rule.highlight and not mine.highlighted.has_seq(key.seq)]
        starred = [key.id for key in matched if rule.star and not (key.id in marks and marks[key.id].starred)]
        tag = fold_text(rule.tag)
        tagged = [key.id for key in matched if tag and tag not in names.get(key.id, ())]
        return part._replace(
            matches=len(matched),
            read=read,
            kept=tuple(seq for seq in read if seq <= state.upto),
            hidden=tuple(hidden),
            highlighted=tuple(lit),
            starred=tuple(starred),
            tagged=tuple(tagged),
            mass=mine.mass,
        )

    def _find_marks(
        self, user_id: int, entry_ids: Sequence[int]
    ) -> tuple[dict[int, Mark], dict[int, set[str]]]:
        """Return the marks of entries, and the folded names of their tags."""
        marks = self._tags.find_marks(user_id, entry_ids)
        tags = self._tags.find_by_marks(user_id, marks)
        return marks, {i: {fold_text(tag.name) for tag in some} for i, some in tags.items()}

    def apply_part(self, user_id: int, rule: Rule, part: RunPart, now: dt.datetime) -> RunPart:
        """Change what a part says, and return what of it wasn't so before; a repeat changes nothing."""
        fresh = self._select_fresh(user_id, rule, part)
        self._record(user_id, part)
        if part.starred:
            self._entries.set_many_starred(user_id, part.starred, True, now)
        if part.tagged:
            self._tag(user_id, rule.tag, list(self._find_keys_of(user_id, part)), now)
        self._subscriptions.add_rule_marks(_make_marks(user_id, part, [rule.id]))
        return fresh

    def _select_fresh(self, user_id: int, rule: Rule, part: RunPart) -> RunPart:
        """Return what of a part isn't so yet."""
        mine = self._subscriptions.find(user_id, part.feed_id)
        marks, names = self._find_marks(user_id, [*part.starred, *part.tagged])
        tag = fold_text(rule.tag)
        fresh = part._replace(
            read=(),
            kept=(),
            hidden=(),
            highlighted=(),
            starred=tuple(i for i in part.starred if not (i in marks and marks[i].starred)),
            tagged=tuple(i for i in part.tagged if tag not in names.get(i, ())),
        )
        if mine is None:
            return fresh
        read = tuple(seq for seq in part.read if not mine.state.is_read(seq))
        return fresh._replace(
            read=read,
            kept=tuple(seq for seq in read if seq <= mine.state.upto),
            hidden=tuple(seq for seq in part.hidden if not mine.hidden.has_seq(seq)),
            highlighted=tuple(seq for seq in part.highlighted if not mine.highlighted.has_seq(seq)),
            mass=mine.mass,
        )

    def undo_part(self, user_id: int, rule: Rule, part: RunPart, now: dt.datetime) -> None:
        """Change back what a part says; a repeat changes nothing.

        A later bulk action stays: entries that it has marked as read stay read.
        """
        self._record(user_id, part)
        one = self._subscriptions.find(user_id, part.feed_id)
        if one is not None:
            was_kept = set(part.kept) if one.mass == part.mass else set[int]()
            read = tuple(seq for seq in part.read if seq > one.state.upto or seq in was_kept)
            # Another rule may have highlighted an entry between the record of the part and its change.
            lit = part.highlighted
            more = {i for i, seqs in one.highlighted_by.items() if any(map(seqs.has_seq, lit))}
            marks = _make_marks(user_id, part._replace(read=read), {rule.id, *more})
            self._subscriptions.remove_rule_marks(marks)
        if part.starred:
            self._entries.set_many_starred(user_id, part.starred, False, now)
        mine = self._tags.find_by_user(user_id) if part.tagged else []
        tag = next((t for t in mine if make_tag_key(t.name) == make_tag_key(rule.tag)), None)
        if tag is not None:
            with contextlib.suppress(NotFoundError):
                self._tags.untag_many(user_id, list(self._find_keys_of(user_id, part)), tag.id)

    def _record(self, user_id: int, part: RunPart) -> None:
        entry_ids = {*part.starred, *part.tagged}
        self._rule_gateway.record_changes(user_id, {part.feed_id: part.read}, entry_ids)

    def _find_keys_of(self, user_id: int, part: RunPart) -> Iterator[EntryKey]:
        found = self._entries.find_markable_keys(user_id, part.tagged)
        yield from found.values()

    def _tag(self, user_id: int, name: str, keys: Sequence[EntryKey], now: dt.datetime) -> None:
        try:
            self._tags.tag_many(user_id, keys, name, now)
        except (NotFoundError, TooLargeError):
            for key in keys:
                with contextlib.suppress(NotFoundError, TooLargeError):
                    self._tags.tag_many(user_id, [key], name, now)


def _make_marks(user_id: int, part: RunPart, rule_ids: Iterable[int]) -> RuleMarks:
    return RuleMarks(
        *(user_id, part.feed_id, 0, 0),
        read=part.read,
        hidden=part.hidden,
        highlighted=part.highlighted,
        highlighted_by=dict.fromkeys(rule_ids, part.highlighted),
    )
