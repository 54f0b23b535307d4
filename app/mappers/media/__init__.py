"""MongoDB access for media: blobs, sources, files, uploads and usage."""

from __future__ import annotations
