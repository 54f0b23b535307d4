"""Keyboard shortcuts: the table of keys and how keys are named."""

from __future__ import annotations
