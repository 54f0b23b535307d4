"""Rules: tried on new entries once, whatever happens; what they hide, mark, tag; their preview."""

from __future__ import annotations

import dataclasses
import datetime as dt
import json
import random
from collections.abc import Sequence
from typing import Any

import pytest

from app import clock
from app.adapters.redis.jobs import hash_job
from app.bootstrap.services import Services
from app.errors import ConflictError, NotFoundError
from app.models.accounts.actor import Actor
from app.models.jobs.jobs import Job, Queue, Task
from app.models.reading.rules import Rule, RuleMarks
from app.models.reading.stream import StreamKind, StreamQuery, StreamRef
from app.models.subscriptions.folder import FolderEditMode
from app.services.reading import rule_runner
from tests.support import rules_dying
from tests.support.reader import add_user, pull, rss

URL = "https://feeds.example/one"


def subscribe(services: Services, actor: Actor, url: str = URL) -> int:
    return services.subscriptions.subscribe(actor, url).subscription.feed_id


def bring(services: Services, feed_id: int, *titles: str, url: str = URL) -> None:
    """Pull a feed with these entries."""
    pull(services, [feed_id], {url: rss("One", [(title, f"<p>About {title}.</p>") for title in titles])})


def _try(services: Services) -> dict[str, int]:
    return services.rule_runner.run(clock.now(), seconds=30)


def _states(services: Services, actor: Actor, feed_id: int) -> dict[str, str]:
    """Return title → marks of the entries of a feed; each highlighted one, and no other, has one rule."""
    (mine,) = services.gateways.subscriptions.find_by_user(actor.user_id, [feed_id])
    found = {}
    for entry in services.mappers.entries.find_range(feed_id, 0, 1 << 40, 1000):
        mark = services.gateways.tags.find_marks(actor.user_id, [entry.id]).get(entry.id)
        by = [rule for rule, seqs in mine.highlighted_by.items() if seqs.has_seq(entry.seq)]
        assert len(by) == mine.highlighted.has_seq(entry.seq)
        words = [
            "read" if mine.state.is_read(entry.seq) else "",
            "hidden" if mine.hidden.has_seq(entry.seq) else "",
            "highlighted" if mine.highlighted.has_seq(entry.seq) else "",
            "starred" if mark and mark.starred else "",
            "tagged" if mark and mark.tags else "",
        ]
        found[entry.title] = " ".join(filter(None, words))
    return found


def _find_highlighters(services: Services, actor: Actor, feed_id: int) -> dict[str, int]:
    """Return title → the rule that has highlighted it, 0: unknown; only of highlighted entries."""
    (mine,) = services.gateways.subscriptions.find_by_user(actor.user_id, [feed_id])
    found = services.mappers.entries.find_range(feed_id, 0, 1 << 40, 1000)
    return {e.title: mine.find_highlighter(e.seq) for e in found if mine.highlighted.has_seq(e.seq)}


def test_the_first_rule_that_highlights_an_entry_is_recorded(services: Services) -> None:
    ann = add_user(services)
    feed_id = subscribe(services, ann)
    save = services.rules.save
    save(ann, Rule(0, "", "title:chess", star=True))
    games = save(ann, Rule(0, "", "title:chess", highlight=True))
    news = save(ann, Rule(0, "", "title:/news/", highlight=True, stop=True))
    every = save(ann, Rule(0, "", "title:/./", highlight=True))
    bring(services, feed_id, "Chess news", "Football news", "Garden")
    _try(services)
    expected = {"Chess news": games.id, "Football news": news.id, "Garden": every.id}
    assert _find_highlighters(services, ann, feed_id) == expected
    services.rules.move(ann, every.id, -1)
    _try(services)
    assert _find_highlighters(services, ann, feed_id) == expected


def test_the_id_of_a_deleted_rule_is_never_used_again(services: Services) -> None:
    ann = add_user(services)
    save, delete = services.rules.save, services.rules.delete
    first, last = (save(ann, Rule(0, "", word, read=True)) for word in ("one", "two"))
    content = json.dumps(services.rules.export(ann)).encode()
    rows = services.rules.export(ann)["rules"]
    delete(ann, last.id)
    third = save(ann, Rule(0, "", "three", read=True))
    assert third.id not in (first.id, last.id)
    for one in (first, third):
        delete(ann, one.id)
    fourth = save(ann, Rule(0, "", "four", read=True))
    assert fourth.id > third.id
    delete(ann, fourth.id)
    services.rules.import_rules(ann, content)
    ids = {rule.id for rule in services.rules.list_rules(ann).rules}
    assert min(ids) > fourth.id
    for one in ids:
        delete(ann, one)
    assert services.rules.take_over(ann, rows) == 2
    assert min(rule.id for rule in services.rules.list_rules(ann).rules) > max(ids)


def test_a_run_over_past_entries_records_its_rule_and_the_undo_forgets_it(services: Services) -> None:
    ann = add_user(services)
    feed_id = subscribe(services, ann)
    bring(services, feed_id, "Chess", "Football")
    first = services.rules.save(ann, Rule(0, "", "title:/^chess/", highlight=True))

    def apply(rule: Rule) -> str:
        run = services.rule_runs.begin(ann, rule.id)
        services.rule_runs.continue_run(ann.user_id, run.id, seconds=30)
        return run.id

    apply(first)
    every = services.rules.save(ann, Rule(0, "", "title:/./", highlight=True))
    run_id = apply(every)
    assert _find_highlighters(services, ann, feed_id) == {"Chess": first.id, "Football": every.id}
    services.rule_runs.undo(ann, run_id)
    services.rule_runs.continue_run(ann.user_id, run_id, seconds=30)
    assert _find_highlighters(services, ann, feed_id) == {"Chess": first.id}
    (mine,) = services.gateways.subscriptions.find_by_user(ann.user_id, [feed_id])
    assert {i: seqs.bits.bit_count() for i, seqs in mine.highlighted_by.items()} == {first.id: 1}


@pytest.mark.parametrize("keeps_rules", [True, False])
def test_an_undone_unsubscribe_keeps_what_rules_and_hiding_have_set(
    services: Services, keeps_rules: bool
) -> None:
    ann = add_user(services)
    feed_id = subscribe(services, ann)
    rules = [
        services.rules.save(ann, Rule(0, "", "title:chess", highlight=True)),
        services.rules.save(ann, Rule(0, "", "title:advert", hide=True)),
    ]
    bring(services, feed_id, "Chess", "An advert")
    _try(services)
    if not keeps_rules:
        for rule in rules:
            services.rules.delete(ann, rule.id)
    before = _states(services, ann, feed_id)
    assert before == {"Chess": "highlighted", "An advert": "read hidden"}
    undo = services.subscriptions.unsubscribe(ann, feed_id)
    services.subscriptions.restore(ann, undo)
    assert _states(services, ann, feed_id) == before
    assert _find_highlighters(services, ann, feed_id) == {"Chess": rules[0].id}


def test_rules_mark_new_entries(services: Services) -> None:
    ann = add_user(services)
    feed_id = subscribe(services, ann)
    bring(services, feed_id, "Old football")
    rules = services.rules
    rules.save(ann, Rule(0, "", "football", read=True, tag="sport"))
    rules.save(ann, Rule(0, "", "title:/^climate/", star=True, highlight=True))
    rules.save(ann, Rule(0, "", "advert", hide=True))
    bring(services, feed_id, "Old football", "New football", "Climate news", "An advert", "Else")
    assert _try(services)["matches"] == 3
    assert _states(services, ann, feed_id) == {
        "Old football": "",
        "New football": "read tagged",
        "Climate news": "highlighted starred",
        "An advert": "read hidden",
        "Else": "",
    }
    assert _try(services)["matches"] == 0
    today = clock.now().date()
    found = rules.list_rules(ann)
    assert [found.count_hits(rule.id, today) for rule in found.rules] == [1, 1, 1]


@pytest.mark.parametrize("size", [1, 2, 7])
def test_trying_late_does_what_trying_at_once_does(services: Services, size: int) -> None:
    """After each pull, after some, or after all: the marks are the same."""
    people = [add_user(services, name) for name in ("ann", "ben")]
    feed_id = _both_subscribe(services, people)
    chosen = random.Random(size)
    words = ("football", "chess", "climate", "advert", "garden")
    for actor in people:
        for rule in _make_rules():
            services.rules.save(actor, rule)
    titles = [f"{' '.join(chosen.sample(words, 2))} {n}" for n in range(14)]
    early, late = people
    for n in range(0, 14, size):
        bring(services, feed_id, *titles[: n + size])
        _try_only(services, early, feed_id)
    _try(services)
    assert _states(services, early, feed_id) == _states(services, late, feed_id)
    assert any(_states(services, early, feed_id).values())


def _make_rules() -> list[Rule]:
    return [
        Rule(0, "", "football -chess", read=True, tag="sport"),
        Rule(0, "", "tag:sport /1/", star=True, stop=True),
        Rule(0, "", "title:/^advert/", hide=True),
        Rule(0, "", "climat*", highlight=True),
    ]


def _both_subscribe(services: Services, people: Sequence[Actor]) -> int:
    (feed_id,) = {subscribe(services, actor) for actor in people}
    bring(services, feed_id)
    return feed_id


def _try_only(services: Services, actor: Actor, feed_id: int) -> None:
    """Try the rules of one user alone."""
    gateway = services.gateways.rules
    since = dt.datetime(2020, 1, 1, tzinfo=dt.UTC)
    (feed,) = [one for one in gateway.find_news(since, 0, 10) if one.id == feed_id]
    readers = gateway.find_readers([feed])[0].get(feed_id, [])
    mine = [one for one in readers if one.user_id == actor.user_id]
    runner = services.rule_runner
    work = rule_runner._Round(clock.now(), {"feeds": 0, "entries": 0, "matches": 0})
    work.rules = gateway.compile_rules([actor.user_id])
    if mine:
        runner._try_feed(feed, mine, work)


@pytest.mark.parametrize(
    ("method", "number"),
    [(name, number) for name in ("apply_rules", "add_hits", "tag_many", "pass_ruled") for number in (1, 2)],
)
@pytest.mark.parametrize("is_after", [False, True])
def test_a_kill_between_any_two_writes_changes_nothing(
    services: Services, method: str, number: int, is_after: bool
) -> None:
    ann = add_user(services)
    feeds = [subscribe(services, ann, f"{URL}{n}") for n in range(3)]
    for rule in _make_rules():
        services.rules.save(ann, rule)
    for n, feed_id in enumerate(feeds):
        titles = ("football 1", "advert", "climate", "else") if n < 2 else ("else",)
        bring(services, feed_id, *titles, url=f"{URL}{n}")
    died = rules_dying.try_and_die(services.settings, method, number, is_after=is_after)
    assert died or number == 2
    _try(services)
    _try(services)
    for feed_id in feeds[:2]:
        assert _states(services, ann, feed_id) == {
            "football 1": "read starred tagged",
            "advert": "read hidden",
            "climate": "highlighted",
            "else": "",
        }
    found = services.rules.list_rules(ann)
    today = clock.now().date()
    assert [found.count_hits(rule.id, today) for rule in found.rules] == [2, 2, 2, 2]
    (tag,) = services.tags.list_tags(ann)
    assert tag.count == 2


def test_a_new_subscription_of_someone_with_rules_is_tried(services: Services) -> None:
    ann, ben = add_user(services), add_user(services, "ben")
    feed_id = subscribe(services, ben)
    bring(services, feed_id, "football")
    services.rules.save(ann, Rule(0, "", "football", star=True))
    subscribe(services, ann)
    bring(services, feed_id, "football", "more football")
    _try(services)
    assert _states(services, ann, feed_id)["more football"] == "starred"
    assert _states(services, ben, feed_id) == {"football": "", "more football": ""}


def test_rules_leave_out_what_counts_as_read_in_the_first_pull(services: Services) -> None:
    ann = add_user(services)
    services.rules.save(ann, Rule(0, "", "football", tag="sport"))
    feed_id = subscribe(services, ann)
    titles = [f"football {n}" for n in range(services.settings.unread_max + 3)]
    bring(services, feed_id, *titles)
    (mine,) = services.gateways.subscriptions.find_by_user(ann.user_id, [feed_id])
    assert mine.ruled == mine.state.upto == 3
    _try(services)
    states = _states(services, ann, feed_id)
    assert sum("tagged" in words for words in states.values()) == services.settings.unread_max
    assert not any(words == "read tagged" for words in states.values())


def test_an_undone_unsubscription_keeps_what_rules_did(services: Services) -> None:
    ann = add_user(services)
    feed_id = subscribe(services, ann)
    services.rules.save(ann, Rule(0, "", "advert", hide=True))
    services.rules.save(ann, Rule(0, "", "chess", highlight=True))
    bring(services, feed_id, "advert", "chess")
    _try(services)
    before = _states(services, ann, feed_id)
    undo = services.subscriptions.unsubscribe(ann, feed_id)
    services.subscriptions.restore(ann, undo)
    assert _states(services, ann, feed_id) == before
    (mine,) = services.gateways.subscriptions.find_by_user(ann.user_id, [feed_id])
    assert mine.ruled == 2


def test_rules_that_are_off_cost_nothing(services: Services) -> None:
    ann = add_user(services)
    feed_id = subscribe(services, ann)
    rule = services.rules.save(ann, Rule(0, "", "football", read=True))
    services.rules.set_enabled(ann, rule.id, False)
    bring(services, feed_id, "football")
    assert services.rule_runner.find_due_jobs(clock.now()) == []
    services.rules.set_enabled(ann, rule.id, True)
    bring(services, feed_id, "football", "new football")
    assert services.rule_runner.find_due_jobs(clock.now()) != []
    _try(services)
    assert _states(services, ann, feed_id) == {"football": "", "new football": "read"}
    assert services.rule_runner.find_due_jobs(clock.now()) == []


def test_scopes_order_and_stop(services: Services) -> None:
    ann = add_user(services)
    folder = services.folders.create(ann, "News")
    inner = services.folders.create(ann, "World", parent=folder.id)
    one, two = (subscribe(services, ann, f"{URL}{n}") for n in (1, 2))
    services.folders.place_feeds(ann, [one], [inner.id], FolderEditMode.MOVE)
    save = services.rules.save
    save(ann, Rule(0, "", "x", folders=(folder.id,), star=True, stop=True))
    save(ann, Rule(0, "", "x folder:news", hide=True))
    save(ann, Rule(0, "", "x -folder:news", read=True))
    for n, feed_id in ((1, one), (2, two)):
        bring(services, feed_id, "x", url=f"{URL}{n}")
    _try(services)
    assert _states(services, ann, one) == {"x": "starred"}
    assert _states(services, ann, two) == {"x": "read"}


def test_a_rule_notifies_once(services: Services) -> None:
    ann = add_user(services)
    feed_id = subscribe(services, ann)
    services.rules.save(ann, Rule(0, "", "chess", notify=True))
    bring(services, feed_id, "chess", "chess again", "else")
    _try(services)
    _try(services)
    (row,) = services.notifications.list_notifications(ann).notes
    assert row.count == 2


def _run_over_past(services: Services, actor: Actor, rule: Rule) -> str:
    services.indexing.run(clock.now(), seconds=30)
    saved = services.rules.save(actor, rule)
    run = services.rule_runs.begin(actor, saved.id)
    services.rule_runs.continue_run(actor.user_id, run.id, seconds=30)
    return run.id


@pytest.mark.parametrize("query", ["football", "/football/", "-chess"])
def test_a_run_over_past_entries_is_undone_exactly(services: Services, query: str) -> None:
    ann = add_user(services)
    feeds = [subscribe(services, ann, f"{URL}{n}") for n in range(2)]
    for n, feed_id in enumerate(feeds):
        bring(services, feed_id, "football 1", "football 2", "football 3", "chess", url=f"{URL}{n}")
    ids = {e.title: e.id for e in services.mappers.entries.find_range(feeds[0], 0, 1 << 40, 100)}
    services.reading.mark(ann, [ids["football 1"]], True)
    services.reading.set_starred(ann, ids["football 2"], True)
    services.tags.change_tags(ann, ids["football 3"], add=["Sport"])
    before = [_states(services, ann, feed_id) for feed_id in feeds]
    rule = Rule(0, "", query, read=True, star=True, tag="sport", highlight=True)
    run_id = _run_over_past(services, ann, rule)
    for feed_id in feeds:
        found = _states(services, ann, feed_id)
        assert {found[f"football {n}"] for n in (1, 2, 3)} == {"read highlighted starred tagged"}
        assert found["chess"] == ""
    run = services.rule_runs.find_run(ann)
    assert run is not None
    assert (run.state, run.done, run.total, run.matches, run.changed) == ("done", 2, 2, 6, 6)
    services.rule_runs.undo(ann, run_id)
    services.rule_runs.continue_run(ann.user_id, run_id, seconds=30)
    assert [_states(services, ann, feed_id) for feed_id in feeds] == before
    with pytest.raises(NotFoundError):
        services.rule_runs.undo(ann, run_id)
    assert services.store.database["ruleruns"].count_documents({}) == 0


def test_the_undo_of_a_run_respects_later_bulk_actions(services: Services) -> None:
    ann = add_user(services)
    feed_id = subscribe(services, ann)
    bring(services, feed_id, "football", "chess")
    run_id = _run_over_past(services, ann, Rule(0, "", "football", hide=True))
    assert _states(services, ann, feed_id) == {"football": "read hidden", "chess": ""}
    services.reading.mark_all(ann, StreamRef(StreamKind.FEED, feed_id))
    services.rule_runs.undo(ann, run_id)
    services.rule_runs.continue_run(ann.user_id, run_id, seconds=30)
    assert _states(services, ann, feed_id) == {"football": "read", "chess": "read"}


def test_a_run_is_undone_after_its_rule_was_deleted(services: Services) -> None:
    ann = add_user(services)
    feed_id = subscribe(services, ann)
    bring(services, feed_id, "football", "chess")
    before = _states(services, ann, feed_id)
    run_id = _run_over_past(services, ann, Rule(0, "", "football", star=True, hide=True, tag="sport"))
    (rule,) = services.rules.list_rules(ann).rules
    services.rules.delete(ann, rule.id)
    services.rule_runs.undo_last(ann)
    services.rule_runs.continue_run(ann.user_id, run_id, seconds=30)
    assert _states(services, ann, feed_id) == before


@pytest.mark.parametrize("method", ["add_part", "apply_part"])
def test_a_worker_that_stood_still_changes_nothing_after_an_undo(
    services: Services, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    ann = add_user(services)
    feed_id = subscribe(services, ann)
    bring(services, feed_id, "football", "chess")
    before = _states(services, ann, feed_id)
    services.indexing.run(clock.now(), seconds=30)
    rule = services.rules.save(ann, Rule(0, "", "football", star=True, hide=True))
    run = services.rule_runs.begin(ann, rule.id)
    runs: Any = services.gateways.rule_runs
    real = getattr(runs, method)

    def stand_still(*args: Any) -> Any:
        monkeypatch.undo()
        services.rule_runs.undo(ann, run.id)
        services.rule_runs.continue_run(ann.user_id, run.id, seconds=30)
        return real(*args)

    monkeypatch.setattr(runs, method, stand_still)
    services.rule_runs.continue_run(ann.user_id, run.id, seconds=30)
    found = services.rule_runs.find_run(ann)
    assert found is not None
    assert found.state == "undone"
    assert _states(services, ann, feed_id) == before
    assert services.store.database["ruleruns"].count_documents({}) == 0


@pytest.mark.parametrize("method", ["add_part", "apply_part", "set_place"])
@pytest.mark.parametrize("is_undone", [False, True])
def test_a_worker_that_stood_still_does_not_meddle_with_a_newer_run(
    services: Services, monkeypatch: pytest.MonkeyPatch, method: str, *, is_undone: bool
) -> None:
    ann = add_user(services)
    feed_id = subscribe(services, ann)
    bring(services, feed_id, "football 1", "football 2", "chess")
    ids = {e.title: e.id for e in services.mappers.entries.find_range(feed_id, 0, 1 << 40, 100)}
    services.indexing.run(clock.now(), seconds=30)
    rule = services.rules.save(ann, Rule(0, "", "football", star=True, hide=True))
    other = services.rules.save(ann, Rule(0, "", "chess", star=True))
    run = services.rule_runs.begin(ann, rule.id)
    runs: Any = services.gateways.rule_runs
    real = getattr(runs, method)
    newer = list[str]()

    def stand_still(*args: Any) -> Any:
        monkeypatch.undo()
        services.rule_runs.continue_run(ann.user_id, run.id, seconds=30)
        if is_undone:
            services.rule_runs.undo(ann, run.id)
            services.rule_runs.continue_run(ann.user_id, run.id, seconds=30)
        if method == "add_part" or (is_undone and method == "apply_part"):
            services.reading.set_starred(ann, ids["football 2"], is_undone)  # the person's own choice stays
        newer.append(services.rule_runs.begin(ann, other.id).id)
        return real(*args)

    monkeypatch.setattr(runs, method, stand_still)
    services.rule_runs.continue_run(ann.user_id, run.id, seconds=30)
    services.rule_runs.continue_run(ann.user_id, newer[0], seconds=30)
    one = "" if is_undone else "read hidden starred"
    two = one
    if method == "add_part" or (is_undone and method == "apply_part"):
        two = "starred" if is_undone else "read hidden"
    assert _states(services, ann, feed_id) == {"football 1": one, "football 2": two, "chess": "starred"}
    parts = services.store.database["ruleruns"].find({}, {"token": 1})
    assert {part["token"] for part in parts} <= {newer[0]}


def test_a_page_of_hidden_entries_is_not_the_end_of_a_list(services: Services) -> None:
    ann = add_user(services)
    feed_id = subscribe(services, ann)
    bring(services, feed_id)
    services.rules.save(ann, Rule(0, "", "advert", hide=True))
    bring(services, feed_id, "News", *[f"Advert {n}" for n in range(30)])
    _try(services)
    query = StreamQuery(StreamRef(StreamKind.FEED, feed_id), limit=2)
    titles, page = list[str](), services.reading.load_page(ann, query)
    while True:
        assert page.rows or page.cursor is None
        titles += [row.title for row in page.rows]
        if page.cursor is None:
            break
        page = services.reading.load_page(
            ann, dataclasses.replace(query, cursor=page.cursor, snapshot=page.snapshot)
        )
    assert titles == ["News"]


@pytest.mark.parametrize(
    "method",
    ["add_part", "set_many_starred", "add_rule_marks", "set_place", "remove_rule_marks", "remove_part"],
)
@pytest.mark.parametrize("is_after", [False, True])
def test_a_kill_within_a_run_or_its_undo_changes_nothing(
    services: Services, method: str, is_after: bool
) -> None:
    ann = add_user(services)
    feed_id = subscribe(services, ann)
    bring(services, feed_id, "football 1", "football 2", "chess")
    ids = {e.title: e.id for e in services.mappers.entries.find_range(feed_id, 0, 1 << 40, 100)}
    services.reading.set_starred(ann, ids["football 2"], True)
    before = _states(services, ann, feed_id)
    services.indexing.run(clock.now(), seconds=30)
    rule = services.rules.save(ann, Rule(0, "", "football", star=True, hide=True, highlight=True))
    run = services.rule_runs.begin(ann, rule.id)
    is_of_undo = method.startswith("remove")
    if not is_of_undo:
        assert rules_dying.run_and_die(services.settings, method, ann.user_id, run.id, is_after=is_after)
    services.rule_runs.continue_run(ann.user_id, run.id, seconds=30)
    found = _states(services, ann, feed_id)
    marked = "read hidden highlighted starred"
    assert found == {"football 1": marked, "football 2": marked, "chess": ""}
    services.rule_runs.undo(ann, run.id)
    if is_of_undo:
        assert rules_dying.run_and_die(services.settings, method, ann.user_id, run.id, is_after=is_after)
    services.rule_runs.continue_run(ann.user_id, run.id, seconds=30)
    assert _states(services, ann, feed_id) == before


def test_one_run_at_a_time_is_queued_again_after_silence(services: Services) -> None:
    ann = add_user(services)
    feed_id = subscribe(services, ann)
    bring(services, feed_id, "football")
    services.indexing.run(clock.now(), seconds=30)
    rule = services.rules.save(ann, Rule(0, "", "football", star=True))
    run = services.rule_runs.begin(ann, rule.id)
    with pytest.raises(ConflictError):
        services.rule_runs.begin(ann, rule.id)
    now = clock.now()
    assert services.rule_runs.find_due_jobs(now) == []
    (job,) = services.rule_runs.find_due_jobs(now + dt.timedelta(minutes=1))
    assert job.args == {"user_id": ann.user_id, "run_id": run.id}
    services.rule_runs.continue_run(ann.user_id, run.id, seconds=30)
    assert services.rule_runs.find_due_jobs(now + dt.timedelta(minutes=1)) == []
    assert services.rule_runs.begin(ann, rule.id).id != run.id


def test_apps_that_sync_learn_of_marks_by_rules(services: Services) -> None:
    ann, ben = add_user(services), add_user(services, "ben")
    services.mappers.users.set_synced(ann.user_id)
    feed_id = _both_subscribe(services, [ann, ben])
    for actor in (ann, ben):
        services.rules.save(actor, Rule(0, "", "football", read=True, star=True))
    bring(services, feed_id, "football", "chess")
    _try(services)
    changes = services.store.database["changes"]
    assert changes.count_documents({"user_id": ann.user_id}) > 0
    assert changes.count_documents({"user_id": ben.user_id}) == 0


@pytest.mark.parametrize("is_stopping", [False, True])
def test_a_run_over_its_time_goes_on_where_it_stopped(services: Services, is_stopping: bool) -> None:
    people = [add_user(services, name) for name in ("ann", "ben", "eve")]
    feeds = [subscribe(services, actor, f"{URL}{n}") for n in range(2) for actor in people][::3]
    for actor in people:
        services.rules.save(actor, Rule(0, "", "football", star=True))
    for n, feed_id in enumerate(feeds):
        bring(services, feed_id, "football", url=f"{URL}{n}")
    runner, matches = services.rule_runner, list[int]()
    for number in range(6):
        assert services.rule_runner.find_due_jobs(clock.now()) != [], number
        seconds = 30 if is_stopping else 0
        matches.append(runner.run(clock.now(), seconds, lambda: is_stopping)["matches"])
    assert matches == [1] * 6
    _try(services)
    assert services.rule_runner.find_due_jobs(clock.now()) == []
    for actor in people:
        assert [_states(services, actor, feed_id) for feed_id in feeds] == [{"football": "starred"}] * 2


def test_rules_that_take_too_long_pass_entries(services: Services, monkeypatch: pytest.MonkeyPatch) -> None:
    ann, ben = add_user(services), add_user(services, "ben")
    feed_id = _both_subscribe(services, [ann, ben])
    for actor in (ann, ben):
        services.rules.save(actor, Rule(0, "", "football", star=True))
    bring(services, feed_id, "football 1", "football 2", "football 3")
    monkeypatch.setattr(rule_runner, "USER_SECONDS", 0.0)
    monkeypatch.setattr(rule_runner, "ENTRY_SECONDS", 0.0)
    assert _try(services)["matches"] == 2  # the first entry of each
    monkeypatch.undo()
    assert _try(services)["matches"] == 0
    assert services.rule_runner.find_due_jobs(clock.now()) == []
    for actor in (ann, ben):
        assert sorted(_states(services, actor, feed_id).values()) == ["", "", "starred"]


def test_new_entries_that_a_rule_hides_are_not_announced(services: Services) -> None:
    ann = add_user(services)
    feed_id = subscribe(services, ann)
    services.rules.save(ann, Rule(0, "", "advert", hide=True))
    snapshot = services.reading.load_page(ann, StreamQuery(StreamRef.parse("all"))).snapshot
    bring(services, feed_id, "An advert", "Chess", "Another advert")
    _try(services)
    assert services.reading.count_newer(ann, snapshot) == 1
    page = services.reading.load_page(ann, StreamQuery(StreamRef.parse("all")))
    assert [row.title for row in page.rows] == ["Chess"]
    services.mappers.subscriptions.remove_rule_marks(
        RuleMarks(ann.user_id, feed_id, 0, 0, read=(1, 2, 3), hidden=(1, 2, 3))
    )
    assert services.reading.count_newer(ann, snapshot) == 3


class _Recorder:
    """Keeps the jobs that are queued."""

    def __init__(self) -> None:
        self.jobs = list[Job]()

    def enqueue_many(self, jobs: Sequence[Job]) -> None:
        self.jobs += jobs

    def take_entries(self) -> list[int]:
        """Return and forget the entries whose pages were requested."""
        # The same job is queued once, however many users' rules want it.
        found = [
            job.args["entry_id"] for job in {hash_job(job.task, job.args): job for job in self.jobs}.values()
        ]
        assert all(job.task is Task.FULL_TEXT and job.args["ahead"] for job in self.jobs)
        assert all(job.queue is Queue.ARTICLES_SYSTEM for job in self.jobs)
        self.jobs = []
        return found


def _record_texts(services: Services) -> _Recorder:
    recorder = _Recorder()
    services.full_texts._jobs = recorder  # type: ignore[assignment]
    return recorder


def test_a_rule_fetches_whole_texts_once_for_all_readers(services: Services) -> None:
    ann, bob = add_user(services, "ann"), add_user(services, "bob")
    feed_id, recorder = _both_subscribe(services, [ann, bob]), _record_texts(services)
    for actor in (ann, bob):
        services.rules.save(actor, Rule(0, "", "climate", full_text=True))
    bring(services, feed_id, "Climate one", "Football", "Climate two")
    _try(services)
    entries = services.mappers.entries.find_range(feed_id, 0, 1 << 40, 1000)
    wanted = sorted(entry.id for entry in entries if "Climate" in entry.title)
    assert recorder.take_entries() == wanted
    _try(services)
    assert recorder.take_entries() == []
    # Nobody has chosen full texts for the feed, and the job fetches the page nonetheless.
    assert not services.gateways.full_texts.find_wanted([feed_id])
    for _ in range(3):
        services.mappers.feeds.record_gain(feed_id, has_gain=False)
    bring(services, feed_id, "Climate three")
    _try(services)
    assert recorder.take_entries() == []


def test_the_rules_of_a_user_fetch_only_so_many_whole_texts_an_hour(services: Services) -> None:
    ann, bob = add_user(services, "ann"), add_user(services, "bob")
    feed_id, recorder = _both_subscribe(services, [ann, bob]), _record_texts(services)
    limit = dataclasses.replace(services.settings, rule_full_texts=3)
    services.full_texts._settings = limit
    services.gateways.rules.texts_max = 3
    rule = services.rules.save(ann, Rule(0, "", "climate", full_text=True))
    bring(services, feed_id, *[f"Climate {n}" for n in range(5)])
    assert services.rules.preview(ann, rule).texts == 3
    _try(services)
    entries = services.mappers.entries.find_range(feed_id, 0, 1 << 40, 1000)
    climate = sorted(entry.id for entry in entries if "Climate" in entry.title)
    assert recorder.take_entries() == climate[:3]
    bring(services, feed_id, "Climate 5")
    _try(services)
    assert recorder.take_entries() == [], "later runs share the limit"
    _run_over_past(services, ann, dataclasses.replace(rule, id=0))
    assert recorder.take_entries() == [], "runs over the past, too"
    # Pages that are known don't use up what is left to others.
    newest = services.reading.load_page(bob, StreamQuery(StreamRef(StreamKind.FEED, feed_id))).rows
    known = [row.id for row in newest if "Climate" in row.title][:4]
    for entry_id in known:
        entry = services.mappers.entries.find(entry_id, [feed_id])
        assert entry is not None
        services.gateways.full_texts.store_failure(entry, "nothing_more", clock.now())
    _run_over_past(services, bob, Rule(0, "", "climate", full_text=True))
    left = [row.id for row in newest if "Climate" in row.title][4:]
    assert recorder.take_entries() == left
