"""The embedded servers: started, found again, moved, crashed."""

from __future__ import annotations

import pymongo
import redis

from app import embedded


def test_servers_are_a_replica_set_and_an_append_only_redis(servers: embedded.Running) -> None:
    with pymongo.MongoClient(servers.mongodb_uri) as client:
        with client.start_session() as session, session.start_transaction():
            client["probe"]["one"].insert_one({"a": 1}, session=session)
        with client["probe"]["one"].watch() as changes:
            client["probe"]["one"].insert_one({"a": 2})
            assert changes.next()["fullDocument"]["a"] == 2
        client.drop_database("probe")
    with redis.Redis.from_url(servers.redis_url) as store:
        assert store.config_get("append*")["appendonly"] == "yes"
