"""MongoDB: connection, errors, ids, raw replies and indexes."""

from __future__ import annotations
