"""Use cases of privacy: export and erasure of personal data."""

from __future__ import annotations
