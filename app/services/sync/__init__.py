"""Use cases of sync APIs: Google Reader, Fever and REST reading."""

from __future__ import annotations
