"""MongoDB access for accounts: users, sessions, tokens, preferences and administration."""

from __future__ import annotations
