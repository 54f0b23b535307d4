"""Data types and pure rules of discussion: comments, likes and moderation."""

from __future__ import annotations
