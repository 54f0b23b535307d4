"""Storage operations of media: blobs, files, sources, uploads and cleaning."""

from __future__ import annotations
