"""Reading archives of other readers: streamed, never unpacked to disk, each within limits (V23)."""

from __future__ import annotations
