"""Storage operations of discussion: comments, likes and moderation."""

from __future__ import annotations
