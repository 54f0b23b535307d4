"""Choices in Eventr's own archives: what an import takes over of them, when, and for whom."""

from __future__ import annotations

import dataclasses
import json
import random
from collections.abc import Sequence
from typing import Any

import pytest

from app import clock
from app.bootstrap.services import Services
from app.errors import ConflictError, InvalidError
from app.models.accounts.actor import Actor, Permission
from app.models.imports.choices import CHOICES_MAX, ChoiceLimits, pack_choices
from app.models.imports.imports import Import, ImportState
from app.models.reading.rules import Rule
from tests.imports.archives import HOST, zipped
from tests.imports.test_archives import Reader, feed, imported
from tests.imports.test_imports import Pulling, listed, run

Row = dict[str, Any]

RULE = {"name": "R", "condition": "sun", "actions": ["star"], "feeds": [], "folders": []}
SEARCH = {"name": "S", "query": "x"}


def pack(
    names: Sequence[str],
    settings: Sequence[Row] = (),
    rules: Sequence[Any] | str = (),
    searches: Sequence[Any] = (),
    states: Sequence[Row] = (),
) -> bytes:
    """Return an archive of Eventr with feeds at these names, and choices."""
    return zipped(
        {
            "subscriptions.opml": listed(*[(name, ()) for name in names]),
            "starred.json": "[]",
            "states.json": json.dumps(list(states)),
            "subscriptions.json": json.dumps(list(settings)),
            "rules.json": rules if isinstance(rules, str) else json.dumps(list(rules)),
            "searches.json": json.dumps(list(searches)),
        }
    )


def bodies(*names: str) -> dict[str, bytes]:
    return {f"{HOST}/{name}": feed(name) for name in names}


def get_feed(services: Services, who: Actor, name: str) -> int:
    mine = services.gateways.subscriptions.find_feed_ids(who.user_id)
    cards = services.gateways.feeds.find_cards(list(mine)).values()
    return next(card.id for card in cards if card.url == f"{HOST}/{name}")


def begun(services: Services, who: Actor, body: bytes) -> Import:
    return services.imports.start(who, services.imports.preview(who, body, "e.zip").id)


def test_retry_keeps_what_the_person_changed_since(services: Services, alice: Actor) -> None:
    body = pack(["a", "b"], [{"address": f"{HOST}/a", "paused": True}], [RULE], [SEARCH])
    one = imported(services, alice, body, bodies("a"), "e.zip")
    assert one.choices_taken == {"feeds": 1, "rules": 1, "searches": 1}
    assert services.store.database["import_parts"].count_documents({"part": -1}) == 0
    feed_id = get_feed(services, alice, "a")
    assert services.subscriptions.get(alice, feed_id).paused
    services.subscriptions.update(alice, feed_id, paused=False)
    services.rules.delete(alice, services.rules.list_rules(alice).rules[0].id)
    services.tags.delete_search(alice, services.tags.list_searches(alice)[0].id)
    run(services, services.imports.retry(alice, one.id), Pulling(services, bodies("a", "b")), "second")
    assert not services.subscriptions.get(alice, feed_id).paused
    assert not services.rules.list_rules(alice).rules
    assert not services.tags.list_searches(alice)


def test_private_feed_is_private_from_the_first_moment(
    services: Services, alice: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = pack(["a"], [{"address": f"{HOST}/a", "private": True, "read_after": 99999, "notify": True}])
    started, seen = begun(services, alice, body), list[bool]()
    write = services.gateways.imports.save_progress

    def look(*args: Any, **more: Any) -> Import | None:
        seen.extend(one.private for one in services.gateways.subscriptions.find_by_user(alice.user_id))
        return write(*args, **more)

    monkeypatch.setattr(services.gateways.imports, "save_progress", look)
    run(services, started, Pulling(services, bodies("a")))
    (mine,) = services.gateways.subscriptions.find_by_user(alice.user_id)
    assert seen
    assert all(seen)
    # One setting that can't be used doesn't keep the others away.
    assert (mine.private, mine.notify, mine.read_after) == (True, True, 0)


def test_settings_of_feeds_that_were_there_before_stay(services: Services, alice: Actor) -> None:
    imported(services, alice, pack(["a"]), bodies("a"), "e.zip")
    body = pack(["a", "b"], [{"address": f"{HOST}/{name}", "notify": True} for name in "ab"])
    imported(services, alice, body, bodies("a", "b"), "e.zip")
    assert not services.subscriptions.get(alice, get_feed(services, alice, "a")).notify
    assert services.subscriptions.get(alice, get_feed(services, alice, "b")).notify


def test_repeated_import_adds_no_rule_twice(services: Services, alice: Actor) -> None:
    rules = [
        {**RULE, "feeds": [f"{HOST}/a", f"{HOST}/gone"]},
        {**RULE, "name": "T", "send": "Kindle"},
        {**RULE, "name": "", "condition": "  sun   rain "},
    ]
    for _ in range(2):
        imported(services, alice, pack(["a"], [], rules), bodies("a"), "e.zip")
        assert len(services.rules.list_rules(alice).rules) == 3


def test_rule_that_sends_comes_switched_off_and_sends_nothing(services: Services, alice: Actor) -> None:
    address = {"kind": "webhook", "name": "Mine", "url": "https://hook.example/x"}
    services.store.database["targets"].insert_one({"_id": 7, "user_id": alice.user_id, **address})
    rules = [{**RULE, "send": "Mine"}, {**RULE, "name": "only", "actions": [], "send": "Mine"}]
    imported(services, alice, pack(["a"], [], rules), bodies("a"), "e.zip")
    (rule,) = services.rules.list_rules(alice).rules
    assert (rule.name, rule.send, rule.enabled, rule.star) == ("R", 0, False, True)


def test_rules_that_cannot_be_used_keep_no_other_away(services: Services, alice: Actor) -> None:
    services.rules.save(alice, Rule(0, "mine", "sun", star=True))
    services.rules._limit = 3
    rules = [{**RULE, "condition": "//"}, 7, {"name": 3}, {**RULE, "actions": []}]
    rules += [{**RULE, "name": f"n{number}"} for number in range(9)]
    done = imported(services, alice, pack(["a"], [], rules), bodies("a"), "e.zip")
    assert [rule.name for rule in services.rules.list_rules(alice).rules] == ["mine", "n0", "n1"]
    assert done.choices_taken == {"rules": 2}
    assert done.choice_counts["cut"] == 3


def test_rules_saved_at_the_same_time_lose_none(
    services: Services, alice: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, calls = services.gateways.rules.store_rules, []

    def interrupt(*args: Any) -> None:
        calls.append(args)
        if len(calls) == 1:
            raise ConflictError
        store(*args)

    monkeypatch.setattr(services.gateways.rules, "store_rules", interrupt)
    imported(services, alice, pack(["a"], [], [RULE, {**RULE, "name": "T"}]), bodies("a"), "e.zip")
    assert len(services.rules.list_rules(alice).rules) == 2
    assert len(calls) == 2  # all rules in one write


def test_choices_show_that_the_run_lives_and_end_when_it_is_lost(
    services: Services, alice: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"f{number}" for number in range(45)]
    settings = [{"address": f"{HOST}/{name}", "notify": True} for name in names]
    started, writes = begun(services, alice, pack(names, settings, [RULE])), []
    update = services.subscriptions.update

    def cancel(*args: Any, **more: Any) -> Any:
        writes.append(args)
        if len(writes) == 25:
            services.imports.cancel(alice, started.id)
        return update(*args, **more)

    with monkeypatch.context() as patch:
        patch.setattr(services.subscriptions, "update", cancel)
        run(services, started, Pulling(services, bodies(*names)))
    assert len(writes) < len(names)
    assert not services.rules.list_rules(alice).rules
    left = services.imports.get(alice, started.id)
    assert (left.state, left.choices_taken) == (ImportState.CANCELLED, None)
    run(services, services.imports.resume(alice, started.id), Pulling(services, {}), "next")
    mine = services.gateways.subscriptions.find_by_user(alice.user_id)
    assert sum(one.notify for one in mine) == len(names)
    assert len(services.rules.list_rules(alice).rules) == 1


def test_choices_are_bounded_and_each_is_kept_once() -> None:
    limits = ChoiceLimits(rules=2, searches=2, feeds=2, bytes=1000)
    rules = [RULE, RULE, {**RULE, "name": "T"}, {**RULE, "name": "U"}]
    searches = [SEARCH, {**SEARCH, "query": "y"}, {"name": "long", "query": "y" * 2000}]
    feeds: list[Row] = [{"address": name, "notify": True} for name in ("a", "a", "b", "c")]
    feeds += [{"address": "usual", "notify": False, "read_after": 0}]
    found = pack_choices({"rules": rules, "searches": searches, "subscriptions": feeds}, limits)
    assert found.counts == {"rules": 2, "searches": 1, "feeds": 2, "cut": 3}
    kept = json.loads(found.text)
    assert {kind: len(rows) for kind, rows in kept.items()} == {"rules": 2, "searches": 1, "feeds": 2}
    assert kept["searches"][0]["query"] == "x"


@pytest.mark.parametrize(
    "rules",
    [
        '[{"name": "\\ud800", "condition": "x", "actions": ["star"]}]',
        "[" * 1000 + "]" * 1000,
        '[{"name": "x", "condition": "x", "actions": ["star"], "more": ' + "[" * 900 + "]" * 900 + "}]",
    ],
    ids=["surrogate", "deep", "deep in a row"],
)
def test_hostile_rules_are_read(services: Services, alice: Actor, rules: str) -> None:
    imported(services, alice, pack(["a"], [], rules), bodies("a"), "e.zip")
    assert [rule.name for rule in services.rules.list_rules(alice).rules] in (["\ufffd"], ["x"], [])


def test_list_that_is_too_long_is_reported(services: Services, alice: Actor) -> None:
    body = pack(["a"], [], [{**RULE, "name": random.Random(1).randbytes(CHOICES_MAX // 2).hex()}], [SEARCH])
    kept = services.imports.preview(alice, body, "e.zip")
    assert kept.choice_counts == {"searches": 1, "cut": 1}


def test_archive_of_followed_feeds_brings_its_rules(services: Services, alice: Actor) -> None:
    imported(services, alice, pack(["a"]), bodies("a"), "e.zip")
    imported(services, alice, pack(["a"], [], [RULE]), bodies("a"), "e.zip")
    assert len(services.rules.list_rules(alice).rules) == 1
    kept = services.imports.preview(alice, pack(["a"], [], [RULE]), "e.zip")
    with pytest.raises(InvalidError):
        services.imports.start(alice, kept.id, choices=False)


def test_choices_can_be_declined(services: Services, alice: Actor) -> None:
    body = pack(["a"], [{"address": f"{HOST}/a", "notify": True, "private": True}], [RULE], [SEARCH])
    kept = services.imports.preview(alice, body, "e.zip")
    assert kept.choice_counts == {"feeds": 1, "rules": 1, "searches": 1}
    started = services.imports.start(alice, kept.id, choices=False)
    assert services.store.database["import_parts"].count_documents({"part": -1}) == 0
    run(services, started, Pulling(services, bodies("a")))
    (mine,) = services.gateways.subscriptions.find_by_user(alice.user_id)
    assert (mine.notify, mine.private) == (False, False)
    assert not services.rules.list_rules(alice).rules
    assert not services.tags.list_searches(alice)
    assert services.imports.get(alice, kept.id).choices_taken is None


def test_token_that_may_not_edit_rules_brings_none(services: Services, alice: Actor) -> None:
    few = frozenset({Permission.SUBSCRIPTION_EDIT, Permission.SUBSCRIPTION_SEE})
    token = dataclasses.replace(alice, limits=few)
    body = pack(["a"], [{"address": f"{HOST}/a", "notify": True}], [RULE], [SEARCH])
    done = imported(services, token, body, bodies("a"), "e.zip")
    assert done.choices_taken == {"feeds": 1}
    assert not services.rules.list_rules(alice).rules
    assert not services.tags.list_searches(alice)


def test_read_entries_of_followed_feeds_stay_read(services: Services, alice: Actor) -> None:
    imported(services, alice, pack(["a"]), bodies("a"), "e.zip")
    ids = {str(doc["title"]): doc["_id"] for doc in services.store.database["entries"].find()}
    services.reading.mark(alice, [ids["a 0"], ids["a 1"]], True)
    rows = [
        {"link": f"{HOST}/a/{number}", "read": number == 2, "feed": {"address": f"{HOST}/a"}}
        for number in range(4)
    ]
    imported(services, alice, pack(["a"], states=rows), bodies("a"), "e.zip")
    assert Reader(services, alice).unread == {"a 3"}


def test_export_names_only_entries_that_are_read(
    services: Services, alice: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    imported(services, alice, pack(["a", "b"]), bodies("a", "b"), "e.zip")
    ids = {str(doc["title"]): doc["_id"] for doc in services.store.database["entries"].find()}
    services.reading.mark(alice, [ids["a 0"], ids["b 3"]], True)
    for name in ("a 1", "a 2"):
        services.notes.set_text(alice, ids[name], "Look")
    data, reads = services.gateways.personal_exports._belongings, list[Sequence[int]]()
    find = data._feeds.find_cards

    def count(feed_ids: Sequence[int]) -> Any:
        reads.append(feed_ids)
        return find(feed_ids)

    monkeypatch.setattr(data._feeds, "find_cards", count)
    rows = list(data.iter_states(alice.user_id))
    assert {row["link"] for row in rows} == {f"{HOST}/a/0", f"{HOST}/b/3"}
    assert all(row["read"] is True for row in rows)
    assert len(list(data.iter_notes(alice.user_id))) == 2
    assert len(reads) == 2  # not one for each feed and note


def test_waiting_choices_go_with_their_import_and_account(
    services: Services, alice: Actor, bob: Actor
) -> None:
    parts = services.store.database["import_parts"]
    services.imports.remove(alice, services.imports.preview(alice, pack(["a"], [], [RULE]), "e.zip").id)
    assert parts.count_documents({}) == 0
    services.imports.preview(bob, pack(["a"], [], [RULE]), "e.zip")
    assert parts.count_documents({"part": -1}) == 1
    services.mappers.erasure.erase(bob.user_id, clock.now())
    assert parts.count_documents({}) == 0
