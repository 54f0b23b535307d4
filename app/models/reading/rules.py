"""Rules: what a user wants done with new entries that match a condition. Pure.

A condition is a search query (:mod:`app.models.reading.search`) with more operators:

 climate -sport title:report url:example.org lang:de longer:2000 title:/^\\[ad\\]/ /sponsored/

All parts must match. Patterns between slashes are tested on the title, the author or the address.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from app.models.reading.entry import Entry
from app.models.reading.languages import BEGINNING, guess_language
from app.models.reading.patterns import PatternError, compile_pattern
from app.models.reading.search import (
    QUERY_MAX,
    NameFilter,
    NoteReason,
    SearchDocument,
    SearchQuery,
    Term,
    TermField,
    is_at,
    parse_query,
)
from app.models.reading.stems import find_possible_stems, make_stems
from app.models.reading.tag import SavedSearch
from app.models.reading.tokenizer import fold_text, split_text, split_words
from app.runtime.lazy import lazy

#: Actions that a rule can have besides a tag, in the order of the editor.
ACTIONS = ("read", "star", "hide", "highlight", "notify", "full_text")
#: Days for which matches are counted.
COUNTED_DAYS = 30
#: Most regular expressions of a condition.
PATTERNS_MAX = 4
#: What a regular expression can look at.
PATTERN_FIELDS = ("title", "author", "url")
_PATTERN = re.compile(r"(?<!\S)(-?)(?:(title|author|url):)?/((?:[^/\\]|\\.)+)/(?!\S)", re.IGNORECASE)
_MORE = re.compile(r"(?<!\S)(-?)(lang|url|longer):(\"[^\"]*\"|\S*)", re.IGNORECASE)
#: What looks like a regular expression but isn't one; phrases are skipped.
_LEFTOVER = re.compile(r"\"[^\"]*\"|(?<!\S)(-?(?:(?:title|author):)?/\S*)", re.IGNORECASE)


@dataclasses.dataclass(frozen=True, slots=True)
class Rule:
    """A rule of a user.

    Attributes:
        id: unique among the user's rules.
        query: the condition.
        feeds, folders: ids; the rule is for entries of these feeds and folders. Both empty: for all feeds.
        full_text: the full texts of its entries are fetched.
        tag: a tag to add; empty: none.
        send: id of the target that its entries are sent to; 0: none.
        stop: rules below this one aren't tried on its entries.
    """

    id: int
    name: str
    query: str
    feeds: tuple[int, ...] = ()
    folders: tuple[int, ...] = ()
    read: bool = False
    star: bool = False
    hide: bool = False
    highlight: bool = False
    notify: bool = False
    full_text: bool = False
    tag: str = ""
    send: int = 0
    stop: bool = False
    enabled: bool = True

    @property
    def has_actions(self) -> bool:
        """Whether it does anything."""
        return bool(self.tag or self.send or self.stop) or any(getattr(self, action) for action in ACTIONS)


def sends_more(rule: Rule, was: Rule | None) -> bool:
    """Return whether a rule sends other entries than before, or to another target; None: it is new."""
    if not rule.send:
        return False
    return was is None or _get_reach(rule) != _get_reach(was) or rule.enabled > was.enabled


def _get_reach(rule: Rule) -> tuple[object, ...]:
    return rule.send, rule.query, rule.feeds, rule.folders


@dataclasses.dataclass(frozen=True, slots=True)
class RuleSet:
    """All rules of a user, in the order in which they are tried.

    Attributes:
        rev: rises with each change.
        hits: rule → day (ordinal) → matches.
        has_alerts: whether the user has saved searches that notify.
        last_id: the highest id of all rules that the user has or had: entries name theirs by id.
    """

    rules: tuple[Rule, ...] = ()
    rev: int = 0
    hits: Mapping[int, Mapping[int, int]] = dataclasses.field(default_factory=dict)
    has_alerts: bool = False
    last_id: int = 0

    @property
    def is_active(self) -> bool:
        """Whether any rule is switched on, or any saved search notifies."""
        return self.has_alerts or any(rule.enabled for rule in self.rules)

    def find(self, rule_id: int) -> Rule | None:
        """Return a rule."""
        return next((rule for rule in self.rules if rule.id == rule_id), None)

    def count_hits(self, rule_id: int, today: dt.date) -> int:
        """Return how many entries a rule matched in the last :data:`COUNTED_DAYS` days."""
        first = today.toordinal() - COUNTED_DAYS
        return sum(n for day, n in self.hits.get(rule_id, {}).items() if day > first)


class ConditionError(ValueError):
    """A part of a condition can't be used; ``text`` is that part."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text


class TooManyPatternsError(ConditionError):
    """A condition has more than :data:`PATTERNS_MAX` regular expressions."""


@dataclasses.dataclass(frozen=True, slots=True)
class PatternFilter:
    """A regular expression; ``where``: empty for the title, the author or the address.

    It is compiled when it is needed, because a process keeps only so many automatons.
    """

    pattern: str
    where: str = ""
    wanted: bool = True


@dataclasses.dataclass(frozen=True, slots=True)
class Condition:
    """A parsed condition.

    Attributes:
        query: what a search can find.
        patterns: regular expressions.
        urls: parts of addresses, in lower case.
        languages: two letters; of several wanted ones any matches.
        length: the shortest and the longest text, in characters; None: any.
    """

    query: SearchQuery
    patterns: tuple[PatternFilter, ...] = ()
    urls: tuple[NameFilter, ...] = ()
    languages: tuple[NameFilter, ...] = ()
    length: tuple[int | None, int | None] = (None, None)

    @property
    def is_empty(self) -> bool:
        """Whether it has no part, so that every entry would match."""
        return self == Condition(self.query) and self.query.is_empty


def parse_condition(text: str) -> Condition:
    """Parse a condition.

    Raises:
        ConditionError: a part isn't understood, or makes no sense for entries that have just arrived.
    """
    if len(text) > QUERY_MAX:
        raise ConditionError(text[QUERY_MAX:])
    patterns, urls, languages = list[PatternFilter](), list[NameFilter](), list[NameFilter]()
    length: list[int | None] = [None, None]

    def take_pattern(match: re.Match[str]) -> str:
        minus, where, pattern = match.groups()
        if len(patterns) >= PATTERNS_MAX:
            raise TooManyPatternsError(match[0])
        try:
            compile_pattern(pattern)
        except PatternError as e:
            raise ConditionError(match[0]) from e
        patterns.append(PatternFilter(pattern, (where or "").lower(), not minus))
        return " "

    def take_part(match: re.Match[str]) -> str:
        minus, name, value = match[1], match[2].lower(), match[3].strip('"').strip().lower()
        if not value or (name == "longer" and not (value.isdecimal() and len(value) < 9)):
            raise ConditionError(match[0])
        if name == "longer":
            length[bool(minus)] = int(value)
        else:
            (urls if name == "url" else languages).append(NameFilter(value, not minus))
        return " "

    query = _parse_words(_MORE.sub(take_part, _PATTERN.sub(take_pattern, text)))
    at_least, at_most = length
    condition = Condition(query, tuple(patterns), tuple(urls), tuple(languages), (at_least, at_most))
    if condition.is_empty and text.strip():  # signs alone
        raise ConditionError(text)
    return condition


def _parse_words(text: str) -> SearchQuery:
    """Return the query that is left of a condition, if a rule can use all of it."""
    if leftover := next(filter(None, (match[1] for match in _LEFTOVER.finditer(text))), ""):
        raise ConditionError(leftover)
    query = parse_query(text)
    for note in query.notes:
        raise ConditionError(note.text if note.why is not NoteReason.TOO_MANY else text)
    states = ((query.read, "is:read"), (query.starred, "is:starred"), (query.noted, "is:noted"))
    for state, word in states:
        if state is not None:
            raise ConditionError(word)
    return query


def parse_alert(text: str) -> SearchQuery | None:
    """Parse the query of a saved search that notifies; None: it matches no entry that has just arrived."""
    query = parse_query(text)
    return None if query.is_empty or query.read or query.starred else query


def count_patterns(rules: Iterable[Rule]) -> int:
    """Return how many regular expressions the conditions of rules have."""
    return sum(len(_PATTERN.findall(rule.query)) for rule in rules)


class RuleEntry:
    """An entry as conditions see it; each of its parts is computed when the first condition needs it.

    Args:
        document: its words, as the search has them.
        excerpt: the beginning of its text, which tells its language.
        length: characters of its text.
    """

    def __init__(self, document: SearchDocument, *, url: str, excerpt: str, length: int) -> None:
        self.document, self.url, self.excerpt, self.length = document, url, excerpt, length

    @lazy
    def _split(self) -> tuple[tuple[list[str], set[str]], tuple[list[str], set[str]]]:
        return split_text(self.document.title), split_text(self.document.text)

    @lazy
    def _fields(self) -> Mapping[TermField, tuple[list[str], ...]]:
        (title, _), (text, _) = self._split
        author = split_words(self.document.author)
        return {
            TermField.TITLE: (title,),
            TermField.AUTHOR: (author,),
            TermField.ANY: (title, author, text),
        }

    @lazy
    def _words(self) -> Mapping[TermField, frozenset[str]]:
        return {where: frozenset().union(*lists) for where, lists in self._fields.items()}

    @lazy
    def _plain(self) -> set[str]:
        (_, title), (_, text) = self._split
        return title | text

    @lazy
    def _stems(self) -> set[str]:
        beginning = f"{self.document.title}\n{self.document.text[:BEGINNING]}"
        return make_stems(beginning, self._plain, self.document.language)

    @lazy
    def language(self) -> str:
        """The language of its text as two letters; empty: unknown."""
        beginning = f"{self.document.title}\n{self.excerpt}"
        stated = self.document.language
        return guess_language(beginning, split_text(beginning)[1], stated) or stated[:2].lower()

    def has_term(self, term: Term) -> bool:
        """Return whether it contains a term, or another form of its word."""
        words = self._words[term.where]
        if len(term.words) == 1:
            if term.is_prefix:
                return any(word.startswith(term.words[0]) for word in words)
            if term.words[0] in words:
                return True
            return term.typed != "" and not self._stems.isdisjoint(find_possible_stems(term.typed))
        if not all(word in words for word in term.words[: -1 if term.is_prefix else None]):
            return False
        size = len(term.words)
        return any(
            is_at(term, found[at : at + size])
            for found in self._fields[term.where]
            for at in range(len(found) - size + 1)
        )

    def has_pattern(self, one: PatternFilter) -> bool:
        """Return whether a part of it matches a regular expression."""
        pattern = compile_pattern(one.pattern)
        parts = {"title": self.document.title, "author": self.document.author, "url": self.url}
        return any(pattern.is_in(parts[name]) for name in ([one.where] if one.where else PATTERN_FIELDS))


@dataclasses.dataclass(frozen=True, slots=True)
class RuleFeed:
    """A feed as one user has it; ``title`` and ``folders`` (names) are folded."""

    id: int
    title: str = ""
    folder_ids: frozenset[int] = frozenset()
    folders: tuple[str, ...] = ()
    is_person: bool = False
    is_muted: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Verdict:
    """What rules do with an entry, and which rules and saved searches matched.

    ``sends``: ids of the targets that it is sent to.
    ``highlighter``: the first rule that highlights it; 0: none.
    """

    actions: frozenset[str] = frozenset()
    tags: tuple[str, ...] = ()
    rules: tuple[int, ...] = ()
    alerts: tuple[int, ...] = ()
    sends: tuple[int, ...] = ()
    highlighter: int = 0

    @property
    def is_empty(self) -> bool:
        """Whether nothing matched."""
        return not (self.rules or self.alerts)


class CompiledRules:
    """The active rules of one user, ready to be tried on many entries.

    Args:
        descend: returns folders with all folders in them.
        alerts: the user's saved searches that notify.
    """

    def __init__(
        self,
        rules: Iterable[Rule],
        descend: Callable[[Sequence[int]], Collection[int]],
        alerts: Iterable[SavedSearch] = (),
    ) -> None:
        self._rules = list[tuple[Rule, Condition, frozenset[int]]]()
        for rule in rules:
            if rule.enabled:
                folders = frozenset(descend(rule.folders)) if rule.folders else frozenset[int]()
                try:
                    self._rules.append((rule, parse_condition(rule.query), folders))
                except ConditionError:
                    continue  # a condition of a later version of Eventr
        self._by_feed = dict[RuleFeed, list[tuple[Rule, Condition]]]()
        queries = ((search.id, parse_alert(search.query)) for search in alerts)
        self._alerts = [(search_id, query) for search_id, query in queries if query is not None]

    def has_any(self, feed: RuleFeed) -> bool:
        """Return whether a feed's entries must be tried on any rule or saved search."""
        return bool(self.select_rules(feed)) or any(is_feed_match(query, feed) for _, query in self._alerts)

    def select_rules(self, feed: RuleFeed) -> list[tuple[Rule, Condition]]:
        """Return the rules that a feed's entries must be tried on."""
        found = self._by_feed.get(feed)
        if found is None:
            found = self._by_feed[feed] = [
                (rule, condition)
                for rule, condition, folders in self._rules
                if is_in_scope(rule, feed, folders) and is_feed_match(condition.query, feed)
            ]
        return found

    def judge_entry(self, entry: RuleEntry, feed: RuleFeed) -> Verdict:
        """Return what the rules do with an entry."""
        actions, tags, matched = set[str](), list[str](), list[int]()
        sends, highlighter = list[int](), 0
        for rule, condition in self.select_rules(feed):
            if not is_match(condition, entry, tags):
                continue
            matched.append(rule.id)
            is_loud = not feed.is_muted or feed.id in rule.feeds or has_feed_name(condition.query)
            actions.update(a for a in ACTIONS if getattr(rule, a) and (is_loud or a != "notify"))
            if rule.highlight and not highlighter:
                highlighter = rule.id
            if rule.tag:
                tags.append(rule.tag)
            if rule.send:
                sends.append(rule.send)
            if rule.stop:
                break
        alerts = () if "hide" in actions else self._find_alerts(entry, feed, actions, tags)
        return Verdict(
            frozenset(actions),
            tuple(dict.fromkeys(tags)),
            tuple(matched),
            alerts,
            tuple(dict.fromkeys(sends)),
            highlighter,
        )

    def _find_alerts(
        self, entry: RuleEntry, feed: RuleFeed, actions: Collection[str], tags: Collection[str]
    ) -> tuple[int, ...]:
        return tuple(
            search_id
            for search_id, query in self._alerts
            if (has_feed_name(query) or not feed.is_muted)
            and not (query.read is False and "read" in actions)
            and not (query.starred is False and "star" in actions)
            and is_feed_match(query, feed)
            and is_match(Condition(query), entry, tags)
        )


def is_in_scope(rule: Rule, feed: RuleFeed, folders: Collection[int]) -> bool:
    """Return whether a rule is for a feed; ``folders``: the rule's folders with all folders in them."""
    if not rule.feeds and not rule.folders:
        return True
    return feed.id in rule.feeds or not feed.folder_ids.isdisjoint(folders)


def has_feed_name(query: SearchQuery) -> bool:
    """Return whether a query asks for feeds by name. Then, muted feeds among them notify, too."""
    return any(name.wanted for name in query.feeds)


def is_feed_match(query: SearchQuery, feed: RuleFeed) -> bool:
    """Return whether a feed matches the parts of a query that are about feeds."""
    if query.shared is not None and query.shared is not feed.is_person:
        return False
    return _has_names(query.feeds, (feed.title,)) and _has_names(query.folders, feed.folders)


def _has_names(wanted: Sequence[NameFilter], texts: Sequence[str]) -> bool:
    """Return whether any wanted name is in a text, and no unwanted one is."""
    yes = [one.text for one in wanted if one.wanted]
    no = [one.text for one in wanted if not one.wanted]
    if yes and not any(name in text for name in yes for text in texts):
        return False
    return not any(name in text for name in no for text in texts)


def is_match(condition: Condition, entry: RuleEntry, tags: Collection[str] = ()) -> bool:
    """Return whether an entry of a matching feed meets a condition; ``tags``: names that it already has."""
    query, at = condition.query, entry.document.at
    if query.since is not None and at < query.since.timestamp() * 1000:
        return False
    if query.until is not None and at >= query.until.timestamp() * 1000:
        return False
    if query.tags:
        folded = {fold_text(tag) for tag in tags}
        if any((tag.text in folded) is not tag.wanted for tag in query.tags):
            return False
    if not has_extras(condition, entry):
        return False
    return all(map(entry.has_term, query.terms)) and not any(map(entry.has_term, query.without))


def has_extras(condition: Condition, entry: RuleEntry) -> bool:
    """Return whether an entry meets the parts of a condition that a search doesn't know."""
    at_least, at_most = condition.length
    if (at_least is not None and entry.length < at_least) or (
        at_most is not None and entry.length >= at_most
    ):
        return False
    if condition.urls:
        url = entry.url.lower()
        if any((one.text in url) is not one.wanted for one in condition.urls):
            return False
    if any(entry.has_pattern(one) is not one.wanted for one in condition.patterns):
        return False
    return not condition.languages or _has_names(condition.languages, (entry.language,))


class FeedNews(NamedTuple):
    """A feed with new entries, the last of which has the number ``last_seq``."""

    id: int
    last_seq: int
    at: dt.datetime
    language: str


class RuledReader(NamedTuple):
    """A subscription of a user with rules.

    Attributes:
        ruled: the last number on which they were tried.
        is_notified: the user is notified of all new entries.
    """

    user_id: int
    feed_id: int
    ruled: int
    title: str
    folder_ids: tuple[int, ...]
    is_person: bool
    is_notified: bool
    is_muted: bool


class RuleMarks(NamedTuple):
    """What a user's rules do with a feed's entries above ``ruled`` up to ``upto``: numbers by action.

    ``highlighted_by``: rule → those of ``highlighted`` that are its own.
    """

    user_id: int
    feed_id: int
    ruled: int
    upto: int
    read: tuple[int, ...] = ()
    hidden: tuple[int, ...] = ()
    highlighted: tuple[int, ...] = ()
    highlighted_by: Mapping[int, Sequence[int]] = MappingProxyType({})


@dataclasses.dataclass(frozen=True, slots=True)
class RulePreview:
    """Which of the newest entries a rule would match.

    Attributes:
        count: matches among the ``total`` newest entries of the rule's feeds.
        rows: the newest matches, with the titles of their feeds.
        is_partial: the search index isn't complete yet, so matches may be missing.
        texts: most full texts that the rule fetches at once; 0: it fetches none.
    """

    count: int
    total: int
    rows: tuple[tuple[Entry, str], ...]
    is_partial: bool = False
    texts: int = 0


class RunState(enum.StrEnum):
    """States of a run of a rule over past entries."""

    RUNNING = "running"
    DONE = "done"
    UNDOING = "undoing"
    UNDONE = "undone"

    @property
    def is_active(self) -> bool:
        """Whether a job works on it."""
        return self in (RunState.RUNNING, RunState.UNDOING)


@dataclasses.dataclass(frozen=True, slots=True)
class RuleRun:
    """The last run of a rule over a user's past entries.

    Attributes:
        rule: as it was when the run began.
        started: when it began; it can be undone for a day.
        feed_id, after: its place: the feed, and the last number there.
        done, total: feeds.
        matches: entries that the rule matched. changed: those that this changed.
    """

    id: str
    rule: Rule
    state: RunState
    started: dt.datetime
    feed_id: int = 0
    after: int = 0
    done: int = 0
    total: int = 0
    matches: int = 0
    changed: int = 0


class RunPart(NamedTuple):
    """What a run changes in some entries of a feed: numbers, and ids of starred and tagged entries.

    Attributes:
        after, upto: the numbers of these entries.
        kept: those of ``read`` that the user had kept unread. mass: the subscription's last bulk action then.
    """

    feed_id: int
    after: int
    upto: int
    matches: int
    read: tuple[int, ...] = ()
    kept: tuple[int, ...] = ()
    hidden: tuple[int, ...] = ()
    highlighted: tuple[int, ...] = ()
    starred: tuple[int, ...] = ()
    tagged: tuple[int, ...] = ()
    mass: str | None = None

    @property
    def changed(self) -> int:
        """The number of changed entries, as far as different actions change different ones."""
        return max(map(len, (self.read, self.hidden, self.highlighted, self.starred, self.tagged)))


#: What a file of rules is named in it, and the version of its format.
FILE_KIND, FILE_VERSION = "eventr-rules", 1


def export_rule(rule: Rule, feeds: Sequence[str], folders: Sequence[str], target: str = "") -> dict[str, Any]:
    """Return a rule as it is in a file: feeds by address, folders and its target by name."""
    actions = [action for action in ACTIONS if getattr(rule, action)]
    row = {"name": rule.name, "condition": rule.query, "actions": actions, "tag": rule.tag}
    row |= {"send": target} if target else {}
    return {**row, "feeds": list(feeds), "folders": list(folders), "stop": rule.stop, "on": rule.enabled}


class RuleRow(NamedTuple):
    """A rule of a file: the rule without its feeds, folders and target; these by address, path and name."""

    rule: Rule
    feeds: tuple[str, ...]
    folders: tuple[str, ...]
    target: str = ""


def read_rules(content: object) -> list[RuleRow]:
    """Return the rules of a file that :func:`export_rule` has filled.

    Raises:
        ValueError: it isn't such a file.
    """
    if not isinstance(content, dict) or content.get("kind") != FILE_KIND:
        raise ValueError("kind")
    rows = content.get("rules")
    if not isinstance(rows, list):
        raise ValueError("rules")
    return [_read_row(row) for row in rows]


def _read_row(row: object) -> RuleRow:
    if not isinstance(row, dict):
        raise ValueError("rule")
    texts = [row.get(name, "") for name in ("name", "condition", "tag", "send")]
    lists = [row.get(name, []) for name in ("actions", "feeds", "folders")]
    if not all(isinstance(text, str) for text in texts) or not all(
        isinstance(values, list) and all(isinstance(value, str) for value in values) for values in lists
    ):
        raise ValueError("rule")
    flags: dict[str, Any] = {action: action in lists[0] for action in ACTIONS}
    flags |= {"stop": row.get("stop", False) is True, "enabled": row.get("on", True) is True}
    rule = Rule(0, texts[0], texts[1], tag=texts[2], **flags)
    return RuleRow(rule, tuple(lists[1]), tuple(lists[2]), texts[3])


#: Words of a title that are suggested, from this length on, and categories.
SUGGESTED_WORDS, SUGGESTED_LENGTH, SUGGESTED_CATEGORIES = 8, 5, 5


def suggest_conditions(title: str, author: str, categories: Sequence[str], feed_title: str) -> list[str]:
    """Return conditions for entries like one: its author, its categories, words of its title, its feed."""
    found = [f'author:"{_unquote(author)}"'] if author else []
    found += [f'"{_unquote(name)}"' for name in categories[:SUGGESTED_CATEGORIES]]
    words = [word for word in dict.fromkeys(split_words(title)) if len(word) >= SUGGESTED_LENGTH]
    found += [f"title:{word}" for word in words[:SUGGESTED_WORDS]]
    if feed_title:
        found.append(f'feed:"{_unquote(feed_title)}"')
    return [text for text in dict.fromkeys(found) if len(text) <= QUERY_MAX and not text.endswith('""')]


def _unquote(text: str) -> str:
    return " ".join(text.replace('"', " ").split())
