"""Small helpers for running processes: lazy attributes, garbage collection, sockets, translations."""

from __future__ import annotations
