"""Use cases of operations: figures, reports and lists for admins."""

from __future__ import annotations
