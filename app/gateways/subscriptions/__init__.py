"""Storage operations of subscriptions: folders, order, read states and undo."""

from __future__ import annotations
