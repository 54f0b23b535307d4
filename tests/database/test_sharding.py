"""``eventr admin shard``: the declaration is that of the table of places, and docs state the same table."""

from __future__ import annotations

import ast
import json
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from app import cli
from app.bootstrap.services import Services
from app.mappers.mongo import sharding
from app.mappers.mongo.placement import PLACEMENTS, Home

MAPPERS = Path(__file__).parents[2] / "app" / "mappers"
ENTRIES = {"self._entries", "self._stored"}
KEY = "feed_id"
STATEMENTS = {"find", "find_one", "aggregate", "count_documents", "distinct", "find_one_and_update"}
STATEMENTS |= {"find_one_and_delete", "update_one", "update_many", "delete_one", "delete_many"}
#: The first two get the query from functions that name the feeds (the explain test sees them). The others run
#: in the background: they compare all entries with the search index or pictures, or recount their stars.
WITHOUT_FEED = {"entry_keys._pages", "entry_keys._roots"}
WITHOUT_FEED |= {"index_queue.find_entry_ids", "index_queue.find_entry_numbers", "sources.find_rotten"}
WITHOUT_FEED |= {"entries.set_star_count", "outbox._iterate_stars"}
PAGE = Path(__file__).parents[2] / "docs" / "design" / "sharding.md"


def _run(services: Services, *words: str) -> tuple[int, str]:
    settings = services.settings
    environment = {
        "EVENTR_HOME": str(settings.home),
        "EVENTR_MONGODB_URI": settings.mongodb_uri,
        "EVENTR_MONGODB_NAME": settings.mongodb_name,
        "EVENTR_REDIS_URL": settings.redis_url,
    }
    found = CliRunner().invoke(cli.cli, ["admin", "shard", *words], env=environment)
    return found.exit_code, found.output + str(found.exception or "")


def test_printed_commands_declare_the_giants_by_their_keys(services: Services) -> None:
    code, output = _run(services)
    commands = [json.loads(line) for line in re.findall(r"^db\.adminCommand\((.*)\)$", output, re.MULTILINE)]
    assert code == 0
    assert commands == sharding.build_declaration(services.settings.mongodb_name)
    spread = {c["shardCollection"].partition(".")[2]: list(c["key"].items()) for c in commands}
    giants = {name: [(key, 1)] for name, (home, key) in PLACEMENTS.items() if home is Home.GIANT}
    assert spread == giants


def test_running_it_needs_a_cluster(services: Services) -> None:
    """A cluster (EVENTR_TEST_CLUSTER_URI) spreads the entries; a replica set refuses and changes nothing."""
    code, output = _run(services, "--run")
    stats = services.store.database.command("collStats", "entries")
    if sharding.is_cluster(services.store.database.client.admin.command("hello")):
        assert code == 0, output
        assert stats["sharded"]
        assert _run(services, "--run") == (code, output)
    else:
        assert code == 1
        assert "isn't a sharded cluster" in output
        assert "EVENTR_MONGODB_URI" in output
        assert not stats.get("sharded")


def test_only_a_router_counts_as_a_cluster() -> None:
    assert sharding.is_cluster({"msg": "isdbgrid", "isWritablePrimary": True})
    assert not sharding.is_cluster({"setName": "eventr", "isWritablePrimary": True})


def test_each_statement_on_entries_names_their_feeds() -> None:
    """The explain test sees what it runs; this one reads every statement in the mappers."""
    found = [
        (f"{path.stem}.{function.name}", is_keyed)
        for path in MAPPERS.rglob("*.py")
        for function in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(function, ast.FunctionDef)
        for is_keyed in _find_statements(function)
    ]
    assert len(found) > 45
    assert {name for name, is_keyed in found if not is_keyed} == WITHOUT_FEED


def _find_statements(function: ast.FunctionDef) -> Iterator[bool]:
    """Yield, for each statement of a function on ``entries``, whether what it asks for names the key."""
    names = {
        name.id: ast.unparse(node)
        for node in ast.walk(function)
        if isinstance(node, ast.Assign | ast.AnnAssign)
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        for name in ast.walk(target)
        if isinstance(name, ast.Name)
    }
    for node in ast.walk(function):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args):
            continue
        if node.func.attr in STATEMENTS and ast.unparse(node.func.value) in ENTRIES:
            # A query may be put together from other variables of the function.
            asked = ast.unparse(node.args[0])
            for _ in range(3):
                asked += "".join(names.get(word, "") for word in set(re.findall(r"\w+", asked)))
            yield KEY in asked


@pytest.mark.parametrize("home", Home)
def test_docs_have_the_table_of_places(home: Home) -> None:
    rows = re.findall(r"^\| (\w+) \| `(\w+)` \| (.*) \|$", PAGE.read_text("utf-8"), re.MULTILINE)
    stated = {key: re.findall(r"`(\w+)`", names) for kind, key, names in rows if kind == home.value}
    expected: defaultdict[str, list[str]] = defaultdict(list)
    for name, placement in sorted(PLACEMENTS.items()):
        if placement.home is home:
            expected[placement.key].append(name)
    assert stated == expected
