"""What these tests share: a builder that writes feeds and entries as pulls do, two readers, and people."""

from __future__ import annotations

from tests.sharing.conftest import ann, people
from tests.support.database import alice, bob, world

__all__ = ["alice", "ann", "bob", "people", "world"]
