"""Adapters to outside systems that several layers use through app.ports."""

from __future__ import annotations
