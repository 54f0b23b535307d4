"""The updater: finds due feeds, batches them and enqueues pulls."""

from __future__ import annotations
