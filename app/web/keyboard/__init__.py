"""Keyboard shortcuts: the table of shortcuts and the notation of keys."""

from __future__ import annotations
