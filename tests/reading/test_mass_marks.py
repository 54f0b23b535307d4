"""Every way to mark many entries as read does the same: history, apps that sync, counts, feeds in use."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Callable

import pytest

from app import clock
from app.bootstrap.services import Services
from app.models.accounts.actor import Actor
from app.models.reading.history import ActionKind
from app.models.reading.stream import MassMarkResult, StreamKind, StreamQuery, StreamRef
from app.models.sync.sync import SyncStream, SyncStreamKind
from tests.reading.test_marking import follow, states
from tests.support.database import World

ALL = StreamRef(StreamKind.ALL)


@dataclasses.dataclass(frozen=True)
class Case:
    """Two feeds in one folder with three unread entries each, all tagged, and who reads them by app too."""

    services: Services
    actor: Actor
    feeds: list[int]
    folder: int
    tag: int

    def page(self, ref: StreamRef = ALL) -> tuple[str, list[int]]:
        page = self.services.reading.load_page(self.actor, StreamQuery(ref))
        return page.snapshot, [row.id for row in page.rows]


@pytest.fixture
def case(world: World, alice: Actor) -> Case:
    actor = dataclasses.replace(alice, synced=True)
    feeds = follow(world, actor, [1, 3, 5], [2, 4, 6])
    folder = world.services.folders.create(actor, "Both").id
    for feed in feeds:
        world.services.folders.move_feed(actor, feed, source=None, target=folder)
    ids = list(states(world.services, actor))
    for entry_id in ids:
        world.services.tags.change_tags(actor, entry_id, add=["later"])
    tag = world.services.tags.list_tags(actor)[0].id
    return Case(world.services, actor, feeds, folder, tag)


def _above(case: Case) -> MassMarkResult:
    snapshot, ids = case.page()
    return case.services.marking.mark_above(case.actor, ALL, snapshot, ids[-1])


def _below(case: Case) -> MassMarkResult:
    snapshot, ids = case.page()
    return case.services.marking.mark_below(case.actor, ALL, snapshot, ids[0])


def _tag(case: Case) -> MassMarkResult:
    ref = StreamRef(StreamKind.TAG, case.tag)
    return case.services.reading.mark_all(case.actor, ref, snapshot=case.page(ref)[0])


def _app(case: Case) -> MassMarkResult:
    marked = case.services.sync_marks.mark_before(case.actor, SyncStream(SyncStreamKind.READING), None)
    assert marked is not None
    return marked


def _app_by_row(case: Case) -> MassMarkResult:
    for entry_id in case.page()[1]:
        case.services.reading.set_starred(case.actor, entry_id, True)
    marked = case.services.sync_marks.mark_before(case.actor, SyncStream(SyncStreamKind.STARRED), None)
    assert marked is not None
    return marked


Mark = Callable[[Case], MassMarkResult]
#: Caller → what it does, how many of the six entries that marks, and what the history calls it.
CALLERS: dict[str, tuple[Mark, int, ActionKind, Callable[[Case], str]]] = {
    "a list": (lambda c: c.services.reading.mark_all(c.actor, ALL), 6, ActionKind.ALL, lambda c: "all"),
    "a tag": (_tag, 6, ActionKind.ALL, lambda c: f"tag/{c.tag}"),
    "above": (_above, 5, ActionKind.ABOVE, lambda c: "all"),
    "below": (_below, 5, ActionKind.BELOW, lambda c: "all"),
    "selected feeds": (
        lambda c: c.services.marking.mark_feeds(c.actor, c.feeds),
        6,
        ActionKind.SELECTED,
        lambda c: "",
    ),
    "one selected feed": (
        lambda c: c.services.marking.mark_feeds(c.actor, c.feeds[:1]),
        3,
        ActionKind.ALL,
        lambda c: f"feed/{c.feeds[0]}",
    ),
    "an app": (_app, 6, ActionKind.ALL, lambda c: "all"),
    "an app, row by row": (_app_by_row, 6, ActionKind.ALL, lambda c: "starred"),
}


@pytest.mark.parametrize("caller", CALLERS)
def test_each_mass_mark_is_in_the_history_and_reaches_apps(
    case: Case, caller: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark, count, kind, about = CALLERS[caller]
    services, user = case.services, case.actor.user_id
    before = states(services, case.actor)
    counted: list[int] = []
    monkeypatch.setattr(services.events, "notify_counts", counted.append)
    when = clock.now() + dt.timedelta(days=3)
    with clock.set_source(lambda: when):
        marked = mark(case)
        (action, *_) = services.marking.list_history(case.actor).actions
        seqs, _ = services.gateways.changes.find_since(user, when - dt.timedelta(seconds=1))
        assert (marked.count, counted[-1]) == (count, user)
        assert (action.undo, action.kind, action.about) == (marked.undo, kind, about(case))
        # Of a whole feed the apps hear of all that was unread, so one that stays may be among them.
        assert count <= sum(map(len, seqs.values())) <= 6
        cards = services.mappers.feeds.find_cards(list(seqs))
        assert {card.read_ms for card in cards.values()} == {int(when.timestamp() * 1000)}
        services.reading.undo_mass_mark(case.actor, action.undo)
        assert states(services, case.actor) == before
        assert marked.undo not in [a.undo for a in services.marking.list_history(case.actor).actions]


def test_marking_a_folder_by_an_app_is_in_the_history(case: Case) -> None:
    when = clock.now() + dt.timedelta(hours=1)
    with clock.set_source(lambda: when):
        case.services.sync_marks.mark_folder_before(case.actor, case.folder, None)
        (action, *_) = case.services.marking.list_history(case.actor).actions
    assert (action.kind, action.about, action.count) == (ActionKind.ALL, f"folder/{case.folder}", 6)


def test_a_mark_that_changes_nothing_leaves_no_trace(case: Case) -> None:
    case.services.marking.mark_feeds(case.actor, case.feeds)
    marked = case.services.marking.mark_feeds(case.actor, case.feeds)
    assert marked.count == 0
    undos = [action.undo for action in case.services.marking.list_history(case.actor).actions]
    assert marked.undo not in undos


def test_nothing_is_recorded_for_apps_where_none_reads(case: Case) -> None:
    alone = dataclasses.replace(case.actor, synced=False)
    since = clock.now()
    case.services.marking.mark_feeds(alone, case.feeds)
    assert case.services.gateways.changes.find_since(alone.user_id, since) == ({}, set())
