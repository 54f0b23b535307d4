"""Use cases of accounts: users, sessions, tokens, preferences and account administration."""

from __future__ import annotations
