"""What these tests share with those of sharing: accounts, what they follow, and what they pass on."""

from __future__ import annotations

from tests.sharing.conftest import ann, bob, cleo, people

__all__ = ["ann", "bob", "cleo", "people"]
