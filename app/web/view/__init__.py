"""Preparing values for templates: rendering, formatting, charts, the subscription tree."""

from __future__ import annotations
