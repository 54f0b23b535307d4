"""Addresses of videos that can be played on the page after a click (security.md H07). Pure functions."""

from __future__ import annotations

import dataclasses
import re
from urllib.parse import parse_qs, urlsplit

_YOUTUBE = {"youtube.com", "www.youtube.com", "m.youtube.com", "www.youtube-nocookie.com"}
_YOUTUBE_ID = re.compile(r"[A-Za-z0-9_-]{11}")
_YOUTUBE_PATH = re.compile(r"/(?:embed|shorts|live|v)/([A-Za-z0-9_-]{11})/?")
_VIMEO_PATH = re.compile(r"/(?:video/)?([0-9]{4,12})/?")


@dataclasses.dataclass(frozen=True, slots=True)
class Embed:
    """A player: its address, built from an id only, and the site's name."""

    src: str
    site: str


def find_player(url: str | None) -> Embed | None:
    """Return the player of a video page, None for anything else: exact hosts and paths, no port, no login."""
    try:
        parts = urlsplit(url or "")
        plain = parts.scheme in ("http", "https") and parts.port is None and "@" not in parts.netloc
    except ValueError:
        return None
    if not plain:
        return None
    host = (parts.hostname or "").lower()
    if host in _YOUTUBE or host == "youtu.be":
        found = _youtube_id(host, parts.path, parts.query)
        return Embed(f"https://www.youtube-nocookie.com/embed/{found}", "YouTube") if found else None
    if host in {"vimeo.com", "player.vimeo.com"} and (match := _VIMEO_PATH.fullmatch(parts.path)):
        return Embed(f"https://player.vimeo.com/video/{match[1]}?dnt=1", "Vimeo")
    return None


def _youtube_id(host: str, path: str, query: str) -> str | None:
    if host == "youtu.be":
        found = path.strip("/")
    elif path == "/watch":
        found = (parse_qs(query).get("v") or [""])[0]
    else:
        match = _YOUTUBE_PATH.fullmatch(path)
        found = match[1] if match else ""
    return found if _YOUTUBE_ID.fullmatch(found) else None
