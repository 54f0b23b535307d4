"""Data types and pure rules of notifications and push devices."""

from __future__ import annotations
