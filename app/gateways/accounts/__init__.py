"""Storage operations of accounts: users, sessions, tokens, preferences and administration."""

from __future__ import annotations
