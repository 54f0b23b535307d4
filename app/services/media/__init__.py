"""Pictures and files: icons of feeds, pictures of entries, avatars, uploads and cleaning."""

from __future__ import annotations
