"""Entries that a rule has highlighted, with the name of the rule as it is now."""

from __future__ import annotations

from typing import Any

import pytest

from app import clock
from app.bootstrap.services import Services
from app.models.accounts.actor import Actor
from app.models.reading.rules import Rule
from tests.reading.test_rules import bring, subscribe
from tests.sync.rest.conftest import Program


def _show(mine: Program) -> dict[str, Any]:
    """Return title → what rows and entries say about it, which is the same."""
    found = {}
    for row in mine.get("/streams/all/entries").json["items"]:
        entry = mine.get(f"/entries/{row['id']}").json
        said = row["highlighted"], row["highlighted_by"]
        assert (entry["highlighted"], entry["highlighted_by"]) == said
        found[row["title"]] = said
    return found


@pytest.fixture
def games(services: Services, ann: Actor) -> Rule:
    """A rule that has highlighted one of two entries."""
    feed_id = subscribe(services, ann)
    rule = services.rules.save(ann, Rule(0, "Games", "title:chess", highlight=True))
    bring(services, feed_id, "Chess news", "Garden")
    services.rule_runner.run(clock.now(), seconds=30)
    return rule


def test_rows_and_entries_name_the_rule_that_highlighted_them(
    services: Services, ann: Actor, mine: Program, games: Rule
) -> None:
    named = {"id": games.id, "name": "Games"}
    assert _show(mine) == {"Chess news": (True, named), "Garden": (False, None)}
    services.rules.delete(ann, games.id)
    gone = {"id": games.id, "name": None}
    assert _show(mine) == {"Chess news": (True, gone), "Garden": (False, None)}


def test_entry_highlighted_by_an_unknown_rule_says_just_that(
    services: Services, mine: Program, games: Rule
) -> None:
    """By a version that recorded no rules."""
    services.store.database["subscriptions"].update_many({}, {"$unset": {"highlighted_by": ""}})
    assert _show(mine)["Chess news"] == (True, None)
