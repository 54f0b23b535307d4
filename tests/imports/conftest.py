"""What these tests share: a builder that writes feeds and entries as pulls do, and two readers."""

from __future__ import annotations

from tests.support.database import alice, bob, world

__all__ = ["alice", "bob", "world"]
