"""Use cases of OPML import and export, and starter packs."""

from __future__ import annotations
