"""Use cases of accounts: users, sessions, tokens, preferences and what admins see of accounts."""

from __future__ import annotations
