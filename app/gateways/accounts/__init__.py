"""Storage operations of accounts: users, sessions, tokens, preferences and what admins see of accounts."""

from __future__ import annotations
