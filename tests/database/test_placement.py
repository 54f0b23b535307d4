"""Each collection has its place: the table against what the mappers really open."""

from __future__ import annotations

import re
from pathlib import Path

from app.mappers.mongo.indexes import INDEXES
from app.mappers.mongo.placement import PLACEMENTS, Home

MAPPERS = Path(__file__).parents[2] / "app" / "mappers"


def test_each_collection_has_a_place() -> None:
    opened = {
        name
        for path in MAPPERS.rglob("*.py")
        if path.parent.name != "migrations"  # they also read collections of earlier versions
        for name in re.findall(r'(?:database\[|get_table\()"(\w+)"[\]),]', path.read_text())
    }
    assert len(opened) > 50
    assert (opened | set(INDEXES)) - set(PLACEMENTS) == set()


def test_unique_indexes_begin_with_the_key_that_spreads_the_documents() -> None:
    for name, (home, key) in PLACEMENTS.items():
        if home is not Home.HOME:
            unique = [i.document for i in INDEXES.get(name, ()) if i.document.get("unique")]
            assert {next(iter(index["key"])) for index in unique} <= {key}, name


def test_joins_stay_within_the_home_store_or_name_the_key() -> None:
    """A cluster would ask all shards for an entry without its feed, and a person's cell is another server."""
    joins = [
        (path, text)
        for path in MAPPERS.rglob("*.py")
        for text in re.findall(r'"from": (.*?)"as":', path.read_text("utf-8"), re.DOTALL)
    ]
    assert len(joins) > 2
    for path, text in joins:
        if not (text.startswith('"') and PLACEMENTS[text.split('"')[1]].home is Home.HOME):
            assert '"let": {"feed": "$feed_id"}' in text, path
            assert '"$eq": ["$feed_id", "$$feed"]' in path.read_text("utf-8"), path
