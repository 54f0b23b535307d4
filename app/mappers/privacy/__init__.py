"""MongoDB access for privacy: export and erasure of personal data."""

from __future__ import annotations
