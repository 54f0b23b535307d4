"""Static files: addresses with hashes, the JavaScript bundle, compression."""

from __future__ import annotations
