"""The declaration of MongoDB's own sharding: which collections a cluster spreads, and by which key.

Only the giants of :mod:`app.mappers.mongo.placement` are spread. The keys are ranged, since a hashed key
would forbid their unique indexes. Each of these begins with the key, so no further index is needed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pymongo
from pymongo import ASCENDING
from pymongo.database import Database

from app.errors import StartupError
from app.mappers.mongo.errors import translate_errors
from app.mappers.mongo.indexes import BUILD_SECONDS
from app.mappers.mongo.placement import PLACEMENTS, Home

Doc = dict[str, Any]


def build_declaration(database_name: str) -> list[Doc]:
    """Return the commands for the database ``admin`` that spread the giants; they may be repeated."""
    return [
        {"shardCollection": f"{database_name}.{name}", "key": {placement.key: ASCENDING}}
        for name, placement in sorted(PLACEMENTS.items())
        if placement.home is Home.GIANT
    ]


def is_cluster(hello: Mapping[str, Any]) -> bool:
    """Return whether this answer to ``hello`` comes from a ``mongos``, the router of a cluster."""
    return hello.get("msg") == "isdbgrid"


@translate_errors
def declare_shards(database: Database[Doc]) -> list[str]:
    """Run the declaration; return the names of the collections that the cluster spreads now.

    Raises:
        StartupError: the server isn't the router of a cluster.
    """
    admin = database.client.admin
    if not is_cluster(admin.command("hello")):
        raise StartupError(
            "This MongoDB isn't a sharded cluster, so there are no servers to spread entries over. Nothing "
            "changed. To use a cluster, set EVENTR_MONGODB_URI to the address of a mongos."
        )
    there = set(database.list_collection_names())
    spread = []
    with pymongo.timeout(BUILD_SECONDS):
        for command in build_declaration(database.name):
            name = command["shardCollection"].partition(".")[2]
            if name in there:  # the old search index exists only until an upgrade has replaced it
                admin.command(command)
                spread.append(name)
    return spread
