"""Pictures and files: blobs, their sources, users' files, uploads and storage quota."""

from __future__ import annotations
