"""Rules: what happens to new entries."""

from __future__ import annotations

import dataclasses
import datetime as dt
from typing import Annotated

from msgspec import Meta

from app import clock
from app.models.accounts.actor import Actor
from app.models.accounts.token import Scope
from app.models.reading.rules import ACTIONS
from app.models.reading.rules import Rule as Stored
from app.models.reading.rules import RuleRun as StoredRun
from app.web.api.rest.shapes import ENTRY, FEED, RULE, Body, Id, Id0, Shape
from app.web.api.rest.table import Reply, add_example, add_operation
from app.web.context import get_services

GROUP = "Rules"


class NewRule(Body, frozen=True):
    """A rule.

    `query`: the condition, in the search language and with `url:`, `lang:`, `longer:` and `/regex/`. `feeds`,
    `folders`: the rule is for their entries; both empty: for all feeds. `read`, `star`, `hide` (from lists),
    `highlight`, `notify`, `full_text` (it is fetched), `tag` (its name), `send` (ID of a
    target, 0: none): the actions. `stop`: rules below
    aren't tried on its entries.
    """

    name: Annotated[str, Meta(max_length=128)] = ""
    query: Annotated[str, Meta(max_length=1024)] = ""
    feeds: Annotated[tuple[Id, ...], Meta(max_length=200)] = ()
    folders: Annotated[tuple[Id, ...], Meta(max_length=200)] = ()
    read: bool = False
    star: bool = False
    hide: bool = False
    highlight: bool = False
    notify: bool = False
    full_text: bool = False
    tag: Annotated[str, Meta(max_length=256)] = ""
    send: Id0 = 0
    stop: bool = False
    enabled: bool = True


class Rule(Shape, frozen=True):
    """One of your rules; `matches`: entries that it matched in the last 30 days."""

    id: int
    name: str
    query: str
    feeds: tuple[int, ...]
    folders: tuple[int, ...]
    read: bool
    star: bool
    hide: bool
    highlight: bool
    notify: bool
    full_text: bool
    tag: str
    send: int
    stop: bool
    enabled: bool
    matches: int = 0


class RuleList(Shape, frozen=True):
    """All your rules, in the order in which they are tried."""

    items: tuple[Rule, ...]


class RuleMove(Body, frozen=True):
    """Places to move a rule: negative up, positive down."""

    by: Annotated[int, Meta(ge=-1000, le=1000)]


class MatchedEntry(Shape, frozen=True):
    """An entry that a rule would match."""

    id: Id
    feed: Id
    feed_title: str
    title: str
    url: str | None
    at: dt.datetime


class RuleMatches(Shape, frozen=True):
    """What a rule would match.

    `count`: matches among your `total` newest entries in its feeds. `items`: the newest of them. `partial`:
    the search index is still being built.
    """

    count: int
    total: int
    partial: bool
    items: tuple[MatchedEntry, ...]


class RuleRun(Shape, frozen=True):
    """The last run of a rule over past entries.

    `state`: `running`, `done`, `undoing` or `undone`. `done` of `total` feeds are checked. `matches`: entries
    that the rule matched. `changed`: those that the run changed.
    """

    id: str
    rule: int
    state: str
    started: dt.datetime
    done: int
    total: int
    matches: int
    changed: int


class LastRun(Shape, frozen=True):
    """Your last run; null if there was none within a day."""

    run: RuleRun | None


_NEW = add_example(NewRule(name="Less sport", query="football -women", hide=True))
_RULE = add_example(
    Rule(
        id=RULE,
        name="Less sport",
        query="football -women",
        feeds=(),
        folders=(),
        read=False,
        star=False,
        hide=True,
        highlight=False,
        notify=False,
        full_text=False,
        tag="",
        send=0,
        stop=False,
        enabled=True,
        matches=37,
    )
)
add_example(RuleList(items=(_RULE,)))
add_example(RuleMove(by=-1))
add_example(
    RuleMatches(
        count=1,
        total=1000,
        partial=False,
        items=(
            MatchedEntry(
                id=ENTRY,
                feed=FEED,
                feed_title="Example blog",
                title="The football season begins",
                url="https://blog.example.org/football",
                at=dt.datetime(2026, 5, 4, 12, tzinfo=dt.UTC),
            ),
        ),
    )
)


_RUN = add_example(
    RuleRun(
        id="9f2cQm1sT0eXb7Jd4nKw6A",
        rule=RULE,
        state="running",
        started=dt.datetime(2026, 5, 4, 12, tzinfo=dt.UTC),
        done=12,
        total=40,
        matches=37,
        changed=30,
    )
)
add_example(LastRun(run=_RUN))


def _shape_run(run: StoredRun) -> RuleRun:
    return RuleRun(
        id=run.id,
        rule=run.rule.id,
        state=run.state.value,
        started=run.started,
        done=run.done,
        total=run.total,
        matches=run.matches,
        changed=run.changed,
    )


def _shape(rule: Stored, matches: int = 0) -> Rule:
    return Rule(**dataclasses.asdict(rule), matches=matches)


def _read(body: NewRule, rule_id: int = 0) -> Stored:
    flags = {name: getattr(body, name) for name in (*ACTIONS, "stop", "enabled")}
    rule = Stored(rule_id, body.name, body.query, body.feeds, body.folders, tag=body.tag, send=body.send)
    return dataclasses.replace(rule, **flags)


@add_operation("GET", "/rules", "List rules", scope=Scope.READ, tag=GROUP)
def list_rules(actor: Actor) -> RuleList:
    """Rules are tried on new entries in this order."""
    found, today = get_services().rules.list_rules(actor), clock.now().date()
    return RuleList(items=tuple(_shape(one, found.count_hits(one.id, today)) for one in found.rules))


@add_operation("POST", "/rules", "Create a rule", scope=Scope.MARK, tag=GROUP, status=201, errors=(409, 413))
def create_rule(actor: Actor, body: NewRule) -> Reply[Rule]:
    """The rule comes last, and is tried on entries that arrive from now on.

    Needs the scopes `read` and `share`, too, if it has `send`.
    """
    return Reply(_shape(get_services().rules.save(actor, _read(body))), 201)


@add_operation("PUT", "/rules/{rule_id}", "Replace a rule", scope=Scope.MARK, tag=GROUP, errors=(409,))
def replace_rule(actor: Actor, rule_id: int, body: NewRule) -> Rule:
    """The rule keeps its place. Entries that it matched before keep their marks.

    Needs the scopes `read` and `share`, too, if it has `send` and sends more than before.
    """
    return _shape(get_services().rules.save(actor, _read(body, rule_id)))


@add_operation(
    "POST", "/rules/{rule_id}/move", "Move a rule", scope=Scope.MARK, tag=GROUP, status=204, errors=(409,)
)
def move_rule(actor: Actor, rule_id: int, body: RuleMove) -> None:
    """The first rule is tried first."""
    get_services().rules.move(actor, rule_id, body.by)


@add_operation(
    "DELETE", "/rules/{rule_id}", "Delete a rule", scope=Scope.MARK, tag=GROUP, status=204, errors=(409,)
)
def delete_rule(actor: Actor, rule_id: int) -> None:
    """Entries that it matched keep their marks."""
    get_services().rules.delete(actor, rule_id)


@add_operation(
    "POST", "/rules/preview", "Preview a rule", scope=Scope.READ, tag=GROUP, errors=(503,), once=False
)
def preview_rule(actor: Actor, body: NewRule) -> RuleMatches:
    """Returns which of your newest entries a rule would match. Stores nothing."""
    found = get_services().rules.preview(actor, _read(body))
    items = tuple(
        MatchedEntry(
            id=entry.id, feed=entry.feed_id, feed_title=title, title=entry.title, url=entry.url, at=entry.at
        )
        for entry, title in found.rows
    )
    return RuleMatches(count=found.count, total=found.total, partial=found.is_partial, items=items)


@add_operation(
    "POST",
    "/rules/{rule_id}/run",
    "Apply a rule to past entries",
    scope=Scope.MARK,
    tag=GROUP,
    status=202,
    errors=(409,),
)
def run_rule(actor: Actor, rule_id: int) -> Reply[RuleRun]:
    """A job tries the rule on all entries of its feeds. It doesn't notify you."""
    return Reply(_shape_run(get_services().rule_runs.begin(actor, rule_id)), 202)


@add_operation("GET", "/rules/run", "Get the progress of a run", scope=Scope.READ, tag=GROUP)
def get_run(actor: Actor) -> LastRun:
    """A run can be undone for a day, until another one begins."""
    run = get_services().rule_runs.find_run(actor)
    return LastRun(run=_shape_run(run) if run else None)


@add_operation("POST", "/rules/run/undo", "Undo a run", scope=Scope.MARK, tag=GROUP, status=204,
               errors=(404,))  # fmt: skip
def undo_run(actor: Actor) -> None:
    """A job undoes what your last run changed. Later bulk actions stay."""
    get_services().rule_runs.undo_last(actor)
