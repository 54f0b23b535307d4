"""Foreign players inside entries: no frame survives, a known host of players leaves a plain link (H07)."""

from __future__ import annotations

import html
import re
from urllib.parse import parse_qs, urlsplit

from app.feeds import urls

_FRAME = re.compile(
    r"""<(iframe|embed)(?=[\s/])((?:[^<>"']++|"[^"<]*"|'[^'<]*')*+)>""",
    re.IGNORECASE,
)
_FRAME_END = re.compile(r"</iframe(?=[\s/>])", re.IGNORECASE)
_SRC = re.compile(
    r"""(?:^|[\s/"'])(?:data-(?:lazy-)?src|src)\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'>]+))""", re.IGNORECASE
)
_YOUTUBE_ID = re.compile(r"/(?:embed|v|shorts)/([A-Za-z0-9_-]{6,20})/?")
_VIMEO_ID = re.compile(r"/video/(\d+)/?")

#: Exact hosts of players; anything else in a frame is dropped.
HOSTS = frozenset(
    [
        *("www.youtube.com", "youtube.com", "www.youtube-nocookie.com", "youtube-nocookie.com"),
        *("player.vimeo.com", "open.spotify.com", "w.soundcloud.com", "bandcamp.com", "player.twitch.tv"),
        *("clips.twitch.tv", "www.dailymotion.com", "geo.dailymotion.com", "player.bilibili.com", "vk.com"),
        *("framatube.org", "peertube.tv", "embed.podcasts.apple.com", "embed.music.apple.com", "archive.org"),
        *("www.mixcloud.com", "widget.deezer.com", "embed.ted.com", "rumble.com", "odysee.com"),
        *("fast.wistia.net", "www.loom.com", "streamable.com", "codepen.io", "www.slideshare.net"),
    ]
)


def as_links(markup: str, base: str) -> str:
    """Return the HTML with the frames of known players replaced by links labelled with their host.

    A frame's start tag stays behind its link without attributes, so that what the HTML parser takes for
    its content stays its content and goes with it. Where nothing ends the frame its content would be the
    rest of the entry, so no tag is left there; <embed> never has content.
    """
    last = max((m.start() for m in _FRAME_END.finditer(markup)), default=0)

    def replacement(frame: re.Match[str]) -> str:
        ended = frame.end() <= last and not frame[2].endswith("/")
        return _link(frame[2], base) + ("<iframe>" if ended and frame[1].lower() == "iframe" else "")

    return _FRAME.sub(replacement, markup)


def _link(attributes: str, base: str) -> str:
    found = _SRC.search(attributes)
    src = html.unescape(next(filter(None, found.groups()), "")) if found else ""
    target = watch_url(urls.resolve(src, base) or "") if src else None
    if target is None:
        return ""
    return link(target, (urlsplit(target).hostname or "").removeprefix("www."))


def link(target: str, label: str) -> str:
    """Return the link that stands where a player was."""
    return f'<p><a href="{html.escape(target)}">▶ {html.escape(label)}</a></p>'


def watch_url(src: str) -> str | None:
    """Return the page a person would open for a player's frame; None for hosts that are not listed."""
    parts = urlsplit(src)
    if parts.scheme not in ("http", "https") or parts.netloc.lower() not in HOSTS:
        return None
    host = parts.netloc.lower().removeprefix("www.")
    if host in ("youtube.com", "youtube-nocookie.com"):
        return _youtube_page(src)
    if host == "player.vimeo.com" and (video := _VIMEO_ID.fullmatch(parts.path)):
        return f"https://vimeo.com/{video[1]}"
    return "https://" + src.partition("://")[2]


def _youtube_page(src: str) -> str:
    parts = urlsplit(src)
    playlist = parse_qs(parts.query).get("list", [""])[0]
    if re.fullmatch(r"[A-Za-z0-9_-]{10,}", playlist) and "videoseries" in parts.path:
        return f"https://www.youtube.com/playlist?list={playlist}"
    video = _YOUTUBE_ID.match(parts.path)
    return f"https://www.youtube.com/watch?v={video[1]}" if video else "https://www.youtube.com/"
