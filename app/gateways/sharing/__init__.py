"""Storage operations of sharing: shares, chains, profiles, follows, public streams and their hub."""

from __future__ import annotations
