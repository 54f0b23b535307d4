"""Data types and pure rules of accounts: users, sessions, tokens, preferences and the admin's view."""

from __future__ import annotations
