"""Health checks, metrics and the admin port of each process."""

from __future__ import annotations
