"""A Redis that refuses to write, as it does on a full disk."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import redis

from app.embedded.child import poll


@contextlib.contextmanager
def refusing(url: str) -> Iterator[None]:
    """Let the Redis there answer MISCONF to writes and to PING, inside the block: it cannot save its file."""
    with redis.Redis.from_url(url, decode_responses=True) as client:
        config: Any = client.config_get()
        place = Path(config["dir"]) / config["dbfilename"]
        place.mkdir()  # where its file would lie
        client.config_set("save", "3600 1")
        try:
            _save(client, "err")
            yield
        finally:
            place.rmdir()
            _save(client, "ok")
            client.config_set("save", "")
            place.unlink()


def _save(client: redis.Redis, end: str) -> None:
    client.bgsave()

    def ended() -> bool:
        found: Any = client.info("persistence")
        return not found["rdb_bgsave_in_progress"] and found["rdb_last_bgsave_status"] == end

    assert poll(ended, 30, step=0.01)
