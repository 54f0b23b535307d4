"""Addresses of players that can be shown on the page after a click (security.md H07). Pure functions."""

from __future__ import annotations

import dataclasses
import re
from typing import Literal
from urllib.parse import parse_qs, urlsplit

_YOUTUBE = {"youtube.com", "www.youtube.com", "m.youtube.com", "www.youtube-nocookie.com"}
_YOUTUBE_ID = re.compile(r"[A-Za-z0-9_-]{11}")
_YOUTUBE_PATH = re.compile(r"/(?:embed|shorts|live|v)/([A-Za-z0-9_-]{11})/?")
_VIMEO_PATH = re.compile(r"/(?:video/)?([0-9]{4,12})/?")
_SPOTIFY_PATH = re.compile(
    r"/(?:embed(?:-podcast)?/)?(track|album|playlist|artist|show|episode)/([A-Za-z0-9]{22})/?"
)
_SOUNDCLOUD_URL = re.compile(r"https?://api\.soundcloud\.com/(tracks|playlists|users)/([0-9]{1,12})")
_BANDCAMP_PATH = re.compile(r"/EmbeddedPlayer(?:\.html)?/")
_BANDCAMP_PART = re.compile(r"/(album|track)=([0-9]{1,12})(?=/)")
_PEERTUBE_PATH = re.compile(r"/(?:videos/(?:embed|watch)|w)/([A-Za-z0-9-]{8,36})/?")
#: PeerTube is on thousands of hosts; a page may show frames of these.
_PEERTUBE = {"framatube.org", "peertube.tv"}

#: The hosts of the frames, each with what people call the site.
FRAME_HOSTS = {
    "www.youtube-nocookie.com": "YouTube",
    "player.vimeo.com": "Vimeo",
    "open.spotify.com": "Spotify",
    "w.soundcloud.com": "SoundCloud",
    "bandcamp.com": "Bandcamp",
    **{host: "PeerTube" for host in sorted(_PEERTUBE)},
}


@dataclasses.dataclass(frozen=True, slots=True)
class Embed:
    """A player: its address, built from ids only, the site's name, and its shape."""

    src: str
    site: str
    shape: Literal["video", "row", "list"] = "video"

    @property
    def host(self) -> str:
        """The host that sees who plays it."""
        return urlsplit(self.src).netloc


def find_player(url: str | None) -> Embed | None:
    """Return the player of a page, None for anything else: exact hosts and paths, no port, no login."""
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
    if host == "open.spotify.com" and (match := _SPOTIFY_PATH.fullmatch(parts.path)):
        shape: Literal["row", "list"] = "row" if match[1] in ("track", "episode") else "list"
        return Embed(f"https://open.spotify.com/embed/{match[1]}/{match[2]}", "Spotify", shape)
    if host == "w.soundcloud.com" and parts.path.rstrip("/") == "/player":
        return _find_soundcloud(parts.query)
    if host == "bandcamp.com" and _BANDCAMP_PATH.match(parts.path):
        return _find_bandcamp(f"{parts.path[:400]}/")
    if host in _PEERTUBE and (match := _PEERTUBE_PATH.fullmatch(parts.path)):
        return Embed(f"https://{host}/videos/embed/{match[1]}?p2p=0", "PeerTube")
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


def _find_soundcloud(query: str) -> Embed | None:
    match = _SOUNDCLOUD_URL.fullmatch((parse_qs(query).get("url") or [""])[0])
    if match is None:
        return None
    src = f"https://w.soundcloud.com/player/?url=https%3A//api.soundcloud.com/{match[1]}/{match[2]}"
    return Embed(src, "SoundCloud", "row" if match[1] == "tracks" else "list")


def _find_bandcamp(path: str) -> Embed | None:
    ids = dict(_BANDCAMP_PART.findall(path))
    if not ids:
        return None
    wanted = "/".join(f"{name}={ids[name]}" for name in ("album", "track") if name in ids)
    return Embed(f"https://bandcamp.com/EmbeddedPlayer/{wanted}/size=large/artwork=small/", "Bandcamp", "row")
