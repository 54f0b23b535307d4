"""Live events for people's browsers: one Redis stream for all, read by the controller.

    events = RedisEvents(settings)
    events.notify_counts(user_id)          # the user's other devices follow
    events.notify_new_entries({17: 3})     # all subscribers of feed 17 hear of three new entries

Each event is one entry, however many people it concerns. The controller knows who is online and their feeds,
so a feed with 100,000 readers costs one write. Events must never break the work they report: without Redis
an event is dropped, and browsers poll once a minute.
"""

from __future__ import annotations

import array
import json
import sys
import time
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from app import logs
from app.config import Settings
from app.errors import StoreError
from app.models.jobs import redis_keys
from app.models.notifications.events import ENDS, FOLLOWS, EventKind, EventPass
from app.runtime import redis_connections as connections
from app.runtime.lazy import lazy

log = logs.get(__name__)

#: Seconds without further attempts after a failure: each attempt could delay a reader's click.
QUIET = 5.0
_TIMEOUT = 1.0
#: Longest report of an import as JSON, bytes.
REPORT_MAX = 4096


class RedisEvents:
    """:class:`app.ports.EventPort` on Redis. Connects at first use; safe to share between threads."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._quiet_until = 0.0
        #: Users whose streams must end, but whose event couldn't be sent yet.
        self._untold: set[int] = set()

    @lazy
    def _client(self) -> redis.Redis:
        return connections.connect(
            self._settings.redis_url,
            socket_connect_timeout=_TIMEOUT,
            socket_timeout=_TIMEOUT,
            retry=Retry(NoBackoff(), 0),
        )

    def notify_counts(self, user_id: int) -> None:
        """Notify a user's browsers that their counts or stars have changed."""
        self._tell(EventKind.COUNTS, user_id)

    def notify_new_entries(self, entries: Mapping[int, int]) -> None:
        """Notify the subscribers of these feeds how many new entries each feed has."""
        if entries:
            self._tell(EventKind.NEW, data={str(feed_id): count for feed_id, count in entries.items()})

    def notify_progress(self, user_id: int, import_id: int, report: Mapping[str, Any]) -> None:
        """Notify a user's browsers of an import's progress.

        Args:
            user_id: the user.
            import_id: the import.
            report: a small JSON object.

        Raises:
            ValueError: the report is longer than 4 KiB.
        """
        data = {**report, "id": import_id}
        if len(json.dumps(data)) > REPORT_MAX:
            raise ValueError("a progress report must be a few numbers")
        self._tell(EventKind.IMPORT, user_id, data)

    def notify_follows(
        self, user_id: int, *, added: Collection[int] = (), removed: Collection[int] = ()
    ) -> None:
        """Report which feeds a user has subscribed to or unsubscribed from; their other browsers recount."""
        self._tell(FOLLOWS, user_id, {"added": list(added), "removed": list(removed)})

    def end_streams(self, user_id: int) -> None:
        """End a user's open streams, and reject all passes issued before (W08).

        The event doesn't say which streams belong to the ended session. The user's other browsers reconnect
        at once. If Redis is away, the event goes out with this process's next one. After an outage
        the hub ends all streams anyway.
        """
        self._untold.add(int(user_id))
        self._quiet_until = 0.0
        self._tell(ENDS, user_id)

    def get_position(self) -> str:
        """Return the position in the stream after which all future events come.

        Raises:
            StoreError: Redis isn't responding.
        """
        try:
            rows: Any = self._client.xrevrange(redis_keys.PEOPLE, count=1)
            if rows:
                return str(rows[0][0].decode())
            seconds, micros = self._client.time()
            # The millisecond before, because the next event may be the first within this one.
            return f"{seconds * 1000 + micros // 1000 - 1}-0"
        except redis.RedisError as e:
            raise StoreError from e

    def issue_pass(self, user_id: int, feed_ids: Sequence[int], at: str) -> str:
        """Return a signed pass that lets a browser of this user listen.

        Args:
            user_id: the user.
            feed_ids: their subscriptions; the controller finds them in Redis while the pass is valid.
            at: the :meth:`get_position` before they were read.

        Raises:
            StoreError: Redis isn't responding.
        """
        ttl = int(self._settings.events_pass_ttl) + 60
        try:
            self._client.set(redis_keys.make_follows_key(user_id), pack_ids(feed_ids), ex=ttl)
        except redis.RedisError as e:
            raise StoreError from e
        return EventPass(user_id, at).sign(self._settings.secret_key)

    def close(self) -> None:
        """Close the connections that were opened."""
        if (client := self.__dict__.get("_client")) is not None:
            client.close()

    def _tell(self, kind: str, user_id: int | None = None, data: Mapping[str, Any] | None = None) -> None:
        if time.monotonic() < self._quiet_until:
            return
        ended = list(self._untold)
        fields: dict[Any, Any] = {"kind": str(kind)}
        if user_id is not None:
            fields["user"] = int(user_id)  # convert, because the driver rejects the store's own number type
        if data is not None:
            fields["data"] = json.dumps(data, separators=(",", ":"))
        try:
            with self._client.pipeline(transaction=False) as pipe:
                for each in ended:
                    pipe.xadd(redis_keys.PEOPLE, {"kind": ENDS, "user": each}, maxlen=redis_keys.PEOPLE_KEPT)
                if kind != ENDS:
                    pipe.xadd(redis_keys.PEOPLE, fields, maxlen=redis_keys.PEOPLE_KEPT)
                pipe.expire(redis_keys.PEOPLE, redis_keys.PEOPLE_SECONDS)
                pipe.execute()
            self._untold.difference_update(ended)
        except redis.RedisError as e:
            self._quiet_until = time.monotonic() + QUIET
            log.warning("event_dropped", kind=str(kind), error=type(e).__name__)


def pack_ids(ids: Sequence[int]) -> bytes:
    """Return ids as 8 bytes each, little-endian."""
    numbers = array.array("q", ids)
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers.tobytes()
