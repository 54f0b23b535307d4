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
        for name in re.findall(r'database\["(\w+)"\]', path.read_text())
    }
    assert len(opened) > 50
    assert (opened | set(INDEXES)) - set(PLACEMENTS) == set()


def test_unique_indexes_begin_with_the_key_that_spreads_the_documents() -> None:
    for name, (home, key) in PLACEMENTS.items():
        if home is not Home.HOME:
            unique = [i.document for i in INDEXES.get(name, ()) if i.document.get("unique")]
            assert {next(iter(index["key"])) for index in unique} <= {key}, name
