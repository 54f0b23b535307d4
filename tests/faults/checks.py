"""What must hold after each fault: R01–R05 of the security requirements, read from outside.

Each check returns sentences that say what is wrong, none when all is well. They read MongoDB and Redis
as they are, and share no code with what wrote them.
"""

from __future__ import annotations

import collections
import datetime as dt
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import psutil
import redis
from pymongo.database import Database

from app.models.jobs import redis_keys
from tests.support.up import living

Documents = Database[dict[str, Any]]
ENDS = {"finished", "failed"}
GIVEN_BACK = {"retry", "returned", "suspect"}
_MASK = (1 << 64) - 1


def lost(db: Documents, expected: Mapping[str, frozenset[bytes]]) -> list[str]:
    """R01: every entry that a feed has told is stored, and seen by readers; ``expected`` by address."""
    found = []
    for feed in db.feeds.find({"url": {"$in": list(expected)}}, {"url": 1, "last_seq": 1}):
        # Above that number lies what its writer has stored, and not shown yet.
        seen = {"feed_id": feed["_id"], "seq": {"$lte": feed["last_seq"]}}
        stored = {bytes(e["guid_hash"]) for e in db.entries.find(seen, {"guid_hash": 1})}
        if missing := expected[feed["url"]] - stored:
            found.append(f"R01: {feed['url']} misses {len(missing)} of {len(expected[feed['url']])} entries")
    return found


def unsubscribed(db: Documents, acknowledged: Iterable[tuple[int, str]]) -> list[str]:
    """R01: every acknowledged subscription (user, address) is there."""
    by_url = {feed["url"]: feed["_id"] for feed in db.feeds.find({}, {"url": 1})}
    have = {(s["user_id"], s["feed_id"]) for s in db.subscriptions.find({}, {"user_id": 1, "feed_id": 1})}
    gone = [pair for pair in acknowledged if (pair[0], by_url.get(pair[1])) not in have]
    return [f"R01: {len(gone)} acknowledged subscriptions are not there, as {gone[0]}"] if gone else []


def doubled(db: Documents) -> list[str]:
    """R02: no entry, place, feed or subscription is there twice."""
    unique = {
        "entries": (("feed_id", "guid_hash"), ("feed_id", "seq")),
        "subscriptions": (("user_id", "feed_id"),),
        "feeds": (("url_key",),),
    }
    found = []
    for name, groups in unique.items():
        for fields in groups:
            stages: list[dict[str, Any]] = [
                {"$group": {"_id": {field: f"${field}" for field in fields}, "n": {"$sum": 1}}},
                {"$match": {"n": {"$gt": 1}}},
            ]
            if twice := len(list(db[name].aggregate(stages))):
                found.append(f"R02: {twice} {name} are double by {', '.join(fields)}")
    return found


def miscounted(db: Documents) -> list[str]:
    """R03: entries are numbered without a gap, readers are counted, no read mark lies beyond the end.

    What a dead writer left above the end of a feed is seen by nobody: it stays until the feed is polled
    again, and one that nobody reads, or that rests because it crashes workers, is not. Of all others
    :func:`unsettled` says whether they are in order.
    """
    found = []
    places: dict[int, list[int]] = collections.defaultdict(list)
    for entry in db.entries.find({}, {"feed_id": 1, "seq": 1}):
        places[entry["feed_id"]].append(entry["seq"])
    reading = db.subscriptions.find({"paused": None}, {"feed_id": 1})
    readers = collections.Counter(s["feed_id"] for s in reading)
    last: dict[int, int] = {}
    left = {feed["_id"] for feed in db.feeds.find({"$and": [_UNSETTLED, {"$nor": [_POLLED]}]}, {"_id": 1})}
    for feed in db.feeds.find({}, {"first_seq": 1, "last_seq": 1, "subscribers": 1, "url": 1}):
        last[feed["_id"]] = feed["last_seq"]
        wanted = list(range(feed["first_seq"], feed["last_seq"] + 1))
        seen = [seq for seq in places[feed["_id"]] if feed["_id"] not in left or seq <= feed["last_seq"]]
        if sorted(seen) != wanted:
            found.append(f"R03: {feed['url']} has {len(places[feed['_id']])} entries, says {len(wanted)}")
        if feed["subscribers"] != readers[feed["_id"]]:
            found.append(f"R03: {feed['url']} has {readers[feed['_id']]} readers, says {feed['subscribers']}")
    for held in db.subscriptions.find({}, {"upto": 1, "words": 1, "user_id": 1, "feed_id": 1}):
        if max([held.get("upto", 0), *_bits(held)]) > last.get(held["feed_id"], 0):
            found.append(f"R03: a mark of {held['user_id']} lies beyond the end of feed {held['feed_id']}")
    stars = collections.Counter(mark["entry_id"] for mark in db.marks.find({}, {"entry_id": 1}))
    for entry in db.entries.find({"$or": [{"stars": {"$ne": None}}, {"_id": {"$in": list(stars)}}]}):
        told, said = stars[entry["_id"]], entry.get("stars", 0)
        if told != said:
            found.append(f"R03: entry {entry['_id']} has {told} stars, says {said}")
    return found


def _bits(held: Mapping[str, Any]) -> set[int]:
    """Return the numbers whose bits are set in a subscription's words."""
    words = ((int(key) * 64, int(word) & _MASK) for key, word in held.get("words", {}).items())
    return {base + place for base, word in words for place in range(64) if word >> place & 1}


def unread(db: Documents, user_id: int) -> int:
    """Return how many entries a user has not read, counted one by one."""
    count = 0
    for held in db.subscriptions.find({"user_id": user_id}):
        feed = db.feeds.find_one({"_id": held["feed_id"]}) or {}
        bits, upto, kept = _bits(held), held.get("upto", 0), set(held.get("unread", ()))
        for seq in range(feed["first_seq"], feed["last_seq"] + 1):
            count += seq in kept if seq <= upto else seq not in bits
    return count


def events(client: redis.Redis) -> list[str]:
    """R04: by the stream of events each attempt begins once and ends once, and nothing ends unbegun."""
    rows: list[Any] = client.xrange(redis_keys.EVENTS)  # type: ignore[assignment]
    running: dict[str, bytes] = {}
    found: list[str] = []
    known: set[str] = set()
    for _, row in rows:
        job, kind = row[b"id"].decode(), row[b"kind"].decode()
        if kind == "started":
            if job in running:
                found.append(f"R04: {job} ({row[b'task'].decode()}) began while it ran")
            running[job] = row[b"attempt"]
            known.add(job)
        elif kind not in ENDS | GIVEN_BACK or job not in known:
            continue  # progress, or the beginning was cut off the stream
        elif running.pop(job, None) != row.get(b"attempt"):
            found.append(f"R04: {job} ({row[b'task'].decode()}) {kind} without a beginning")
    return found


def stuck_jobs(client: redis.Redis) -> list[str]:
    """R04, in a quiet system: nothing says that it runs or waits, and nobody holds anything."""
    found = []
    for key in client.scan_iter(redis_keys.JOB + "*", count=1000):
        status = client.hget(key, "status")
        if status not in (b"finished", b"failed"):
            found.append(f"R04: {key.decode()} is left {status!r}")
    for pattern in (redis_keys.QUEUE, redis_keys.INFLIGHT, redis_keys.SCHEDULED):
        found += [f"R04: {key.decode()} is not empty" for key in client.scan_iter(pattern + "*")]
    return found


def claimed(db: Documents, now: dt.datetime) -> list[str]:
    """In a quiet system no feed is kept from its next writer; a claim that has run out keeps nobody."""
    held = {"claim_token": {"$ne": None}, "claimed_until": {"$gt": now}}
    return [f"lock: {feed['url']} is claimed until {feed['claimed_until']}" for feed in db.feeds.find(held)]


#: Somebody is writing, has died while he wrote, or came too late.
_UNSETTLED: dict[str, Any] = {"$or": [{"claim_token": {"$ne": None}}, {"torn": True}]}

#: Feeds of which the next poll will not be long in coming.
_POLLED: dict[str, Any] = {"subscribers": {"$gt": 0}, "error": {"$ne": "crashed"}, "merged_into": None}


def unsettled(db: Documents) -> list[str]:
    """Feeds that somebody reads and that a writer has not left in order, or not yet."""
    found = db.feeds.find({**_UNSETTLED, **_POLLED})
    names = ("claim_token", "claimed_until", "torn", "last_seq", "error", "next_check_at", "checked_at")
    return [f"lock: {feed['url']}: " + ", ".join(f"{n} {feed.get(n)}" for n in names) for feed in found]


def unindexed(db: Documents, now: dt.datetime) -> list[str]:
    """Feeds with news that the search does not know yet: somebody will be sent for it."""
    found = db.feeds.find({"index_at": {"$lte": now}})
    return [f"search: {feed['url']} is not indexed" for feed in found]


def locks(client: redis.Redis, alive: Callable[[int], bool]) -> list[str]:
    """No lock outlives its owner: leases, registered workers and managers."""
    found: list[str] = []
    managers = {m.decode() for m in client.zrange(redis_keys.MANAGERS, 0, -1)}  # type: ignore[union-attr]
    found += [f"lock: manager {m} is dead" for m in managers if not alive(int(m.rsplit(":", 2)[1]))]
    rows: Mapping[bytes, bytes] = client.hgetall(redis_keys.WORKERS)  # type: ignore[assignment]
    found += [f"lock: worker {w!r} has no manager" for w, m in rows.items() if m.decode() not in managers]
    forever = [k for k in (redis_keys.UPDATER_LEASE, redis_keys.SWEPT) if client.pttl(k) == -1]
    return found + [f"lock: {key} never ends" for key in forever]


def orphans(seen: Iterable[psutil.Process], family: Iterable[psutil.Process]) -> list[str]:
    """No process that was ever a descendant lives on as a stranger."""
    ours = set(family)
    left = living([p for p in seen if p not in ours])
    return [f"orphan: process {p.pid} {_command(p)}" for p in left]


def _command(process: psutil.Process) -> str:
    """Return what a process is, unless it has ended since it was looked at."""
    try:
        return " ".join(process.cmdline()[:3])
    except psutil.Error:
        return ""


def stuck_feeds(db: Documents, interval: float, now: dt.datetime) -> list[str]:
    """R05: no feed that somebody reads has been due for long, and each has a next time."""
    late = now - dt.timedelta(seconds=2 * interval + 60)
    query: dict[str, Any] = {"subscribers": {"$gt": 0}, "merged_into": None}
    query["$or"] = [{"next_check_at": None}, {"next_check_at": {"$lt": late}}]
    return [f"R05: {feed['url']} is due since {feed.get('next_check_at')}" for feed in db.feeds.find(query)]
