"""Storage operations of notifications and push devices."""

from __future__ import annotations
