"""Rules of a user: edited, ordered, previewed."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from app import clock, logs
from app.errors import ConflictError, EventrError, InvalidError, NotFoundError, TooLargeError
from app.gateways.feeds.feeds import FeedGateway
from app.gateways.reading.rules import RuleGateway
from app.gateways.subscriptions.folders import FolderGateway
from app.models.accounts.actor import Actor, Permission
from app.models.reading.rules import (
    FILE_KIND,
    FILE_VERSION,
    PATTERNS_MAX,
    Condition,
    ConditionError,
    Rule,
    RulePreview,
    RuleSet,
    TooManyPatternsError,
    count_patterns,
    parse_condition,
    read_rules,
    sends_more,
)
from app.models.reading.search import QUERY_MAX, normalise_query
from app.models.reading.stream import Article, EntryRow
from app.models.reading.tag import make_tag_key, normalise_tag
from app.ports import SearchPort
from app.services.access import require_permission, require_sending
from app.services.validation import check_id, check_ids, check_text

log = logs.get(__name__)

NAME_MAX = 128
#: Most bytes of a file of rules.
FILE_MAX = 1 << 20
#: Feeds and folders that one rule may name.
SCOPE_MAX = 200
#: Tries to change rules that are changed at the same time: a page that is left sends all switches at once.
TRIES = 10


class RuleService:
    """Edits rules, and shows what they would match.

    Args:
        limit: most rules of a user.
        patterns: most regular expressions in the rules of a user.
        tag_length: longest name of a tag, in characters.
    """

    def __init__(
        self,
        rules: RuleGateway,
        folders: FolderGateway,
        feeds: FeedGateway,
        engine: SearchPort,
        *,
        limit: int,
        patterns: int,
        tag_length: int,
    ) -> None:
        self._rules, self._folders, self._feeds = rules, folders, feeds
        self._engine, self._limit = engine, limit
        self._patterns, self._tag_length = patterns, tag_length

    def list_rules(self, actor: Actor) -> RuleSet:
        """Return the actor's rules in the order in which they are tried."""
        require_permission(actor, Permission.ENTRY_READ)
        return self._rules.find_by_user(actor.user_id)

    def find_highlighters(
        self, actor: Actor, rows: Iterable[EntryRow], article: Article | None = None
    ) -> dict[int, Rule]:
        """Return the rules that have highlighted these entries, by id, as they are now.

        Those that were deleted since are left out. Nothing is read if no entry has one.
        """
        require_permission(actor, Permission.ENTRY_READ)
        ids = {row.highlighter for row in rows} | {article.highlighter if article else 0}
        rules = self._rules.find_by_user(actor.user_id).rules if any(ids) else ()
        return {rule.id: rule for rule in rules if rule.id in ids}

    def get(self, actor: Actor, rule_id: int) -> Rule:
        """Return a rule.

        Raises:
            NotFoundError: the actor has no such rule.
        """
        return _get(self.list_rules(actor), rule_id)

    def save(self, actor: Actor, rule: Rule) -> Rule:
        """Store a rule and return it: a new one, which comes last, if its id is 0.

        It is tried on entries that arrive from now on.

        Raises:
            InvalidError: the condition can't be used, or the rule does nothing; or its feeds and folders are
                gone, and it names no others.
            NotFoundError: the actor has no such rule.
            TooLargeError: the actor has the maximum number of rules, or of regular expressions in them.
            ConflictError: the rules were changed elsewhere at the same time.
        """
        require_permission(actor, Permission.TAG_EDIT)
        rule, _ = self._check(rule)
        if not rule.has_actions:
            raise InvalidError("Choose what the rule does.", field="actions")
        was = self._rules.find_by_user(actor.user_id)
        self._check_target(actor, rule, was)
        if rule.id:
            self._keep_scope(actor, _get(was, rule.id), rule)
            rules = [rule if one.id == rule.id else one for one in was.rules]
        else:
            rule = dataclasses.replace(rule, id=was.last_id + 1)
            rules = [*was.rules, rule]
        self._store(actor, rules, was)
        return rule

    def _check_target(self, actor: Actor, rule: Rule, was: RuleSet) -> None:
        """Check that the actor may let entries out as a rule does.

        A rule may keep a service that is gone: it sends nothing then.

        Raises:
            ForbiddenError: the rule would send more, and the actor may not.
            InvalidError: it sends entries to a service that the actor doesn't have.
        """
        before = was.find(rule.id)
        if sends_more(rule, before):
            require_sending(actor)
        if not rule.send or (before is not None and before.send == rule.send):
            return
        if not self._rules.has_target(actor.user_id, rule.send):
            raise InvalidError("You don't have this service.", field="send")

    def _keep_scope(self, actor: Actor, was: Rule, rule: Rule) -> None:
        """Raise InvalidError if a rule whose feeds and folders are gone would become one for all feeds."""
        if rule.feeds or rule.folders or not (was.feeds or was.folders):
            return
        if not self._rules.has_scope(actor.user_id, was):
            raise InvalidError(
                "All feeds and folders of this rule are gone. Choose others, or create a new rule for all.",
                field="scope",
            )

    def set_enabled(self, actor: Actor, rule_id: int, enabled: bool) -> Rule:
        """Switch a rule on or off.

        Raises:
            NotFoundError: the actor has no such rule.
            ConflictError: the rules were changed elsewhere at the same time, :data:`TRIES` times.
        """
        require_permission(actor, Permission.TAG_EDIT)

        def replace_rule(was: RuleSet) -> list[Rule]:
            before = _get(was, rule_id)
            rule = dataclasses.replace(before, enabled=enabled)
            if sends_more(rule, before):
                require_sending(actor)
            return [rule if one.id == rule_id else one for one in was.rules]

        return next(rule for rule in self._edit(actor, replace_rule) if rule.id == rule_id)

    def move(self, actor: Actor, rule_id: int, by: int) -> None:
        """Move a rule up (-1) or down (1) in the order.

        Raises:
            NotFoundError: the actor has no such rule.
            ConflictError: the rules were changed elsewhere at the same time, :data:`TRIES` times.
        """
        require_permission(actor, Permission.TAG_EDIT)

        def move_rule(was: RuleSet) -> list[Rule]:
            rules, rule = list(was.rules), _get(was, rule_id)
            place = rules.index(rule)
            rules.insert(max(0, min(place + by, len(rules) - 1)), rules.pop(place))
            return rules

        self._edit(actor, move_rule)

    def _edit(self, actor: Actor, edit: Callable[[RuleSet], list[Rule]]) -> list[Rule]:
        """Store what ``edit`` makes of the actor's rules; read them again if they were changed meanwhile."""
        for number in range(1, TRIES + 1):
            was = self._rules.find_by_user(actor.user_id)
            rules = edit(was)
            try:
                if rules != list(was.rules):
                    self._store(actor, rules, was)
                return rules
            except ConflictError:
                if number == TRIES:
                    raise
        raise AssertionError  # pragma: no cover

    def delete(self, actor: Actor, rule_id: int) -> None:
        """Delete a rule. Entries keep their marks.

        Raises:
            NotFoundError: the actor has no such rule.
            ConflictError: the rules were changed elsewhere at the same time.
        """
        require_permission(actor, Permission.TAG_EDIT)
        was = self._rules.find_by_user(actor.user_id)
        gone = _get(was, rule_id)
        self._store(actor, [one for one in was.rules if one is not gone], was)

    def export(self, actor: Actor) -> dict[str, Any]:
        """Return the actor's rules as the content of a file."""
        require_permission(actor, Permission.ENTRY_READ)
        rules = self._rules.export_rules(actor.user_id)
        return {"kind": FILE_KIND, "version": FILE_VERSION, "rules": rules}

    def import_rules(self, actor: Actor, content: bytes) -> tuple[int, int]:
        """Add the rules of a file below the actor's own; all of them, or none.

        Returns:
            How many were added, and how many weren't, because all their feeds and folders are unknown here.

        Raises:
            InvalidError: it isn't a file of rules, or a rule of it can't be used.
            TooLargeError: the actor would have too many rules, or the file is too large.
            ConflictError: the rules were changed elsewhere at the same time.
        """
        require_permission(actor, Permission.TAG_EDIT)
        if len(content) > FILE_MAX:
            raise TooLargeError("This file is too large.")
        try:
            rows = read_rules(json.loads(content))
        except (ValueError, RecursionError) as e:
            raise InvalidError("This isn't a file of rules.", field="file") from e
        was = self._rules.find_by_user(actor.user_id)
        first = was.last_id + 1
        known = self._rules.resolve_rules(actor.user_id, rows)
        if known and len(was.rules) + len(known) > self._limit:
            raise TooLargeError("You can have at most %(limit)s rules.", limit=self._limit)
        rules = [self._check(rule)[0] for rule in known]
        if any(rule.send for rule in rules):
            require_sending(actor)
        if not all(rule.has_actions for rule in rules):
            raise InvalidError("This isn't a file of rules.", field="file")
        new = [dataclasses.replace(rule, id=number) for number, rule in enumerate(rules, first)]
        if new:
            self._store(actor, [*was.rules, *new], was)
        return len(new), len(rows) - len(new)

    def preview(self, actor: Actor, rule: Rule) -> RulePreview:
        """Return which of the actor's newest entries a rule would match.

        Raises:
            InvalidError: the condition can't be used.
            SearchUnavailableError: the search index doesn't answer.
        """
        require_permission(actor, Permission.ENTRY_READ)
        rule, condition = self._check(rule)
        return self._rules.preview(actor.user_id, rule, condition, self._engine)

    def take_over(self, actor: Actor, rows: Sequence[Any]) -> int:
        """Add the rules of an archive that the actor doesn't have yet; return how many.

        Those that can't be used here, or exceed a limit, are left out. A rule that sends entries may be from
        someone else, so it comes switched off and without its service; without other actions it is left out.

        Args:
            rows: as in a file of rules.

        Raises:
            InvalidError: these aren't rules.
            ConflictError: the rules were changed elsewhere at the same time, :data:`TRIES` times.
        """
        require_permission(actor, Permission.TAG_EDIT)
        try:
            found = read_rules({"kind": FILE_KIND, "version": FILE_VERSION, "rules": list(rows)})
        except ValueError as e:
            raise InvalidError("This isn't a file of rules.", field="file") from e
        harmless = [
            row._replace(target="", rule=dataclasses.replace(row.rule, enabled=False)) if row.target else row
            for row in found
        ]
        added = 0

        def append(was: RuleSet) -> list[Rule]:
            nonlocal added
            new = self._select_new(was, self._rules.resolve_rules(actor.user_id, harmless))
            added = len(new)
            return [*was.rules, *new]

        self._edit(actor, append)
        return added

    def _select_new(self, was: RuleSet, rules: Sequence[Rule]) -> list[Rule]:
        """Return the rules that can be used, aren't among the actor's, and fit into the limits; with ids."""
        known = {_plain(rule) for rule in was.rules}
        first, patterns = was.last_id + 1, count_patterns(was.rules)
        new = list[Rule]()
        for one in rules:
            try:
                rule = self._check(one)[0]
            except EventrError:
                continue
            more = count_patterns([rule])
            is_full = len(was.rules) + len(new) >= self._limit or (more and patterns + more > self._patterns)
            if not rule.has_actions or _plain(rule) in known or is_full:
                continue
            known.add(_plain(rule))
            patterns += more
            new.append(dataclasses.replace(rule, id=first + len(new)))
        return new

    def _store(self, actor: Actor, rules: Sequence[Rule], was: RuleSet) -> None:
        if count_patterns(rules) > max(self._patterns, count_patterns(was.rules)):
            raise TooLargeError(
                "Your rules can have at most %(limit)s regular expressions in all.", limit=self._patterns
            )
        self._rules.store_rules(actor.user_id, rules, was, clock.now().date())
        log.info("rules_stored", user_id=actor.user_id, count=len(rules))

    def _check(self, rule: Rule) -> tuple[Rule, Condition]:
        """Return a rule with its texts as stored, and its condition."""
        query = normalise_query(check_text(rule.query, "query", limit=4 * QUERY_MAX, empty=True))
        try:
            condition = parse_condition(query)
        except TooManyPatternsError as e:
            raise InvalidError(
                "A condition can have at most %(most)s regular expressions.", field="query", most=PATTERNS_MAX
            ) from e
        except ConditionError as e:
            raise InvalidError(
                "This part of the condition can't be used in a rule: %(part)s", field="query", part=e.text
            ) from e
        if condition.is_empty and not (rule.feeds or rule.folders):
            raise InvalidError("Enter a condition, or choose feeds.", field="query")
        tag = normalise_tag(rule.tag) if isinstance(rule.tag, str) else ""
        if rule.tag and not make_tag_key(tag):
            raise InvalidError("Enter a name for the tag.", field="tag")
        if len(tag) > self._tag_length:
            raise InvalidError(
                "A tag can have at most %(most)s characters.", field="tag", most=self._tag_length
            )
        return dataclasses.replace(
            rule,
            name=check_text(rule.name, "name", limit=NAME_MAX, empty=True) or query[:NAME_MAX],
            query=query,
            feeds=tuple(check_ids(rule.feeds, "feeds", SCOPE_MAX)) if rule.feeds else (),
            folders=tuple(check_ids(rule.folders, "folders", SCOPE_MAX)) if rule.folders else (),
            tag=tag,
            send=check_id(rule.send, "send") if rule.send else 0,
        ), condition


def _plain(rule: Rule) -> Rule:
    """Return a rule without what may differ between two that do the same."""
    feeds, folders = tuple(sorted(rule.feeds)), tuple(sorted(rule.folders))
    return dataclasses.replace(rule, id=0, feeds=feeds, folders=folders, send=0, enabled=True)


def _get(rules: RuleSet, rule_id: int) -> Rule:
    rule = rules.find(rule_id)
    if rule is None:
        raise NotFoundError("You don't have this rule.", rule_id=rule_id)
    return rule
