"""Caches of decoded documents: the last version of each, in a limited number of bytes."""

from __future__ import annotations

import datetime as dt
import gc
import random
import tracemalloc
from collections.abc import Callable
from typing import Any

import bson
import pytest
from bson.int64 import Int64

from app.clock import UTC
from app.mappers.feeds import feeds
from app.mappers.subscriptions import raw_read_states
from app.runtime.version_cache import VersionCache

Doc = dict[str, Any]
CACHES: dict[str, tuple[VersionCache[Any], int]] = {
    "subscriptions": (raw_read_states.subscription_cache, raw_read_states.SUBSCRIPTION_BYTES),
    "cards": (feeds.card_cache, feeds.CARD_BYTES),
}


def _subscription(number: int, version: int, dice: random.Random) -> Doc:
    words = {str(80 + n): Int64(dice.getrandbits(62)) for n in range(dice.choice((0, 2, 8, 60)))}
    ids = {"_id": Int64(10**15 + number), "user_id": Int64(10**15), "feed_id": Int64(2 * 10**15 + number)}
    return {**ids, "rev": Int64(version), "upto": Int64(5000), "words": words, "title": f"My title {number}"}


def _card(number: int, version: int, dice: random.Random) -> Doc:
    url = f"https://site{number}.example/" + "x" * dice.randrange(200)
    at = dt.datetime(2026, 1, 1, tzinfo=UTC) + dt.timedelta(seconds=version)
    seqs = {"first_seq": Int64(version), "last_seq": Int64(500 + version), "read_at": at, "last_entry_at": at}
    return {"_id": Int64(10**15 + number), "title": f"Títle {number}", "url": url, "site_url": url, **seqs}


MAKERS: dict[str, Callable[[int, int, random.Random], Doc]] = {"subscriptions": _subscription, "cards": _card}


@pytest.mark.parametrize("name", CACHES)
def test_memory_of_decoded_documents_stays_within_their_bytes(name: str) -> None:
    plain, limit = CACHES[name]
    dice, most = random.Random(1), limit // 16
    cache = VersionCache(plain._decode, bytes_max=most, spare=plain._spare)
    gc.collect()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for version in range(3):
            for number in range(3000):
                cache.decode(bson.encode(MAKERS[name](number, version, dice)))
                assert cache.size <= most
        gc.collect()
        used = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert len(cache) > 300
    # What the cached parts of subscriptions take besides.
    assert used <= cache.size + (4 << 20) * (name == "subscriptions")
    assert plain._half * 2 == limit


def test_a_new_version_replaces_the_one_before() -> None:
    cache = VersionCache(bson.decode, bytes_max=1 << 20, spare=100)
    for version in range(50):
        for number in range(10):
            raw = bson.encode({"_id": Int64(number), "version": version})
            found = cache.decode(raw)
            assert found == {"_id": number, "version": version}
            assert cache.decode(bytes(bytearray(raw))) is found
    assert len(cache) == 10
    assert cache.size == 10 * (3 * len(raw) + 100)


@pytest.mark.parametrize("most", [0, 500, 5000, 100_000])
def test_documents_are_decoded_right_whatever_is_kept(most: int) -> None:
    cache, dice = VersionCache(bson.decode, bytes_max=most, spare=50), random.Random(most)
    for _ in range(3000):
        ident = dice.choice((Int64(dice.randrange(40)), dice.randrange(40), "text"))
        doc = {"_id": ident, "version": dice.randrange(3), "text": "x" * dice.randrange(60)}
        if dice.random() < 0.1:
            doc = dict(reversed(doc.items()))
        raw = bson.encode(doc)
        assert cache.decode(raw) == doc
        kept = [raw for part in (cache._recent, cache._older) for raw, _ in part.values()]
        assert cache.size == sum(3 * len(raw) + 50 for raw in kept) <= most


def test_a_document_in_use_stays_while_others_come() -> None:
    cache = VersionCache(bson.decode, bytes_max=20_000, spare=100)
    used = bson.encode({"_id": Int64(1), "text": "used"})
    first = cache.decode(used)
    for number in range(2, 2000):
        cache.decode(bson.encode({"_id": Int64(number)}))
        assert cache.decode(used) is first
    assert 1 < len(cache) < 200
