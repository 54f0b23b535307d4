"""What these tests share: a builder that writes feeds and entries as pulls do, readers, and a server."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from app.config import Settings
from app.feeds.fetch.fetcher import Fetcher
from tests.support.database import alice, bob, world
from tests.support.wire import Wire

__all__ = ["alice", "bob", "world"]


@pytest.fixture
def wire() -> Iterator[Wire]:
    with Wire() as found:
        yield found


@pytest.fixture
def fetcher(settings: Settings) -> Iterator[Fetcher]:
    with Fetcher(settings) as found:
        yield found
