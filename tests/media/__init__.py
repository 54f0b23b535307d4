"""Tests of pictures and files."""

from __future__ import annotations
