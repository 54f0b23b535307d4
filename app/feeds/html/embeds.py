"""Embedded players in entries: frames never survive; each visible frame becomes a plain link (H07)."""

from __future__ import annotations

import html
import re
from urllib.parse import parse_qs, urlsplit

from app.feeds import urls
from app.feeds.html import replacements, tag_patterns
from app.feeds.html.allow_list import filter_attribute
from app.feeds.html.patterns import build_possessive

#: Elements that :func:`replace_embeds_with_links` handles.
NAMES = frozenset(["iframe", "embed", "object", "param", "script"])
_FRAME = tag_patterns.compile_tag_pattern("|".join(sorted(NAMES)))
_FRAME_END = re.compile(r"</iframe(?=[\s/>])", re.IGNORECASE)
_LAZY = ("data-src", "data-lazy-src", "src")
_GIST = re.compile(r"https?://gist\.github\.com(/[A-Za-z0-9_/-]+)\.js(?:\?.*)?", re.IGNORECASE)
#: The fallback picture inside an <object>.
_INNER_IMAGE = re.compile(build_possessive(r"[^<]++|<(?!img[\s/]|/?object[\s/>])") + "<img", re.IGNORECASE)
_HIDDEN = re.compile(r"display\s*+:\s*+none|visibility\s*+:\s*+hidden", re.IGNORECASE)
#: Frames that count visitors or show ads, whatever their size.
_NOISE = re.compile(
    r"https?://(?:(?:[a-z0-9-]+\.)*(?:doubleclick\.net|googlesyndication\.com|amazon-adsystem\.com)/"
    r"|(?:www\.)?facebook\.com/(?:[^?#]*/)?plugins/like|platform\.twitter\.com/widgets/)"
)
_LABEL = 120
MAX_PLAYERS = 200
#: The name of an element that a script defines.
CUSTOM_NAME = "[a-z][a-z0-9]{0,20}-[a-z0-9-]{1,30}"
_CUSTOM = tag_patterns.compile_tag_pattern(CUSTOM_NAME)
_VIDEO_KEYS = ("videoid", "video-id", "data-videoid", "data-video-id", "playback-id", "media-id")
_PLAIN_ID = re.compile(r"[A-Za-z0-9_-]{6,64}")
#: Part of a custom element's name → the address of a video's page, without its id.
_CUSTOM_PAGES = {
    "youtube": "https://www.youtube.com/watch?v=",
    "vimeo": "https://vimeo.com/",
    "dailymotion": "https://www.dailymotion.com/video/",
    "mux-": "https://player.mux.com/",
    "wistia-": "https://fast.wistia.net/embed/iframe/",
}
_AMP_PLAYERS = frozenset(["amp-iframe", "amp-video", "amp-audio", "amp-video-iframe"])
_RECORDING = re.compile(r"\.(?:m3u8|m4a|m4v|mov|mp3|mp4|mpd|oga|ogg|ogv|opus|webm)(?:[?#]|\Z)", re.IGNORECASE)
#: The parts of an <object> that stay beside its link: other objects, pictures and links.
_KEPT = re.compile(
    rf"</?(?:object|embed|param|iframe|img|p|div|br)(?=[\s/>]){tag_patterns.INSIDE}>"
    rf"|<a(?=\s){tag_patterns.INSIDE}>{tag_patterns.LINK_END}",
    re.IGNORECASE,
)
_MOVIE = re.compile(r"<embed[\s/]|<param\s[^<>]*name\s*+=\s*+[\"']?(?:movie|src)\b", re.IGNORECASE)
_YOUTUBE_ID = re.compile(r"/(?:embed|v|shorts)/([A-Za-z0-9_-]{6,20})/?")
#: What sites write as the title of every player.
_PLAIN_TITLE = re.compile(
    r"(?:youtube|vimeo)[\s-]{0,9}(?:video)?[\s-]{0,9}player|spotify embed:?|embedded content", re.IGNORECASE
)
_YOUTUBE_WATCH = re.compile(r"https://www\.youtube\.com/watch\?v=([A-Za-z0-9_-]{11})")
_YOUTUBE_LIST = re.compile(r"[A-Za-z0-9_-]{10,64}")
_YOUTUBE_CHANNEL = re.compile(r"UC[A-Za-z0-9_-]{1,40}")
#: Path segments in place of a video's id that aren't ids.
_YOUTUBE_WORDS = frozenset(["", "live_stream", "videoseries"])
_VIMEO_ID = re.compile(r"/video/(\d+)/?")
#: The key without which an unlisted video can't be viewed.
_VIMEO_KEY = re.compile(r"[0-9a-f]{6,20}")
#: Medium wraps all players in this frame.
_EMBEDLY = re.compile(r"https?://cdn\.embedly\.com/widgets/media\.html\?", re.IGNORECASE)

#: Exact hosts of players that may be played, and are linked by their page.
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


def replace_embeds_with_links(markup: str, seen: set[str]) -> str:
    """Return the HTML with links instead of frames, Flash and gist scripts, each address once.

    The caller has set the base addresses (:func:`app.feeds.html.allow_list.bind`).

    A frame's start tag stays behind its link, without attributes. So the HTML parser treats the frame's
    content as content and drops it with the frame. If the frame has no end tag, its content would be the
    rest of the entry, so its start tag is removed too.

    Args:
        seen: addresses that are linked already; new ones are added.
    """
    markup = tag_patterns.replace_elements("object", markup, _drop_fallback)
    last = max((m.start() for m in _FRAME_END.finditer(markup)), default=0)

    def replace_embed(match: re.Match[str]) -> str:
        name, given = match[1].lower(), tag_patterns.parse_attributes(match[2])
        if name == "script":
            gist = _GIST.fullmatch(filter_attribute("script", "src", given.get("src", "")) or "")
            return (_once(f"https://gist.github.com{gist[1]}", "", seen) if gist else "") + match[0]
        if name == "object" and given.get("type", "").lower().startswith("image/"):
            # If both pictures exist, keep the inner one: more readers can show it.
            address = filter_attribute("img", "src", given.get("data", ""))
            if address is None or is_hidden(given, address) or _INNER_IMAGE.match(markup, match.end()):
                return ""
            return f'<img src="{html.escape(address)}">'
        shown = _player(name, given, seen)
        ended = name == "iframe" and match.end() <= last and not match[2].endswith("/")
        return shown + ("<iframe>" if ended else "")

    return _FRAME.sub(replace_embed, markup)


def replace_custom_players(markup: str, seen: set[str]) -> str:
    """Return the HTML with links instead of the players that scripts of their pages define as elements.

    Their content is for browsers without these scripts, and goes. The caller has set the base addresses.
    """
    kept: list[str] = []
    at = players = 0
    for found in _CUSTOM.finditer(markup):
        if found.start() < at or players >= MAX_PLAYERS:
            continue
        link = _custom_player(found[1].lower(), tag_patterns.parse_attributes(found[2]), seen)
        if link is None:
            continue
        players += 1
        end = re.compile(rf"</{found[1]}\s*+>", re.IGNORECASE).search(markup, found.end())
        kept += markup[at : found.start()], link
        at = end.end() if end else found.end()
    return "".join(kept) + markup[at:]


def _custom_player(name: str, given: dict[str, str], seen: set[str]) -> str | None:
    """Return the link of a custom element, "" for one that repeats another, None if it isn't a player."""
    video = next((given[key] for key in _VIDEO_KEYS if given.get(key)), "")
    page = None
    if _PLAIN_ID.fullmatch(video):
        page = next((page + video for site, page in _CUSTOM_PAGES.items() if site in name), None)
    elif "youtube" in name and _YOUTUBE_LIST.fullmatch(given.get("playlistid", "")):
        page = f"https://www.youtube.com/playlist?list={given['playlistid']}"
    label = next((given[key] for key in ("title", "playlabel", "videotitle") if given.get(key)), "")[:_LABEL]
    if page is None:
        sources = (given[key] for key in ("src", "data-src", "href") if given.get(key))
        address = next(filter(None, (filter_attribute("iframe", "src", source) for source in sources)), None)
        if address is None:
            return None
        page = find_watch_url(address)
        if page is None and (name in _AMP_PLAYERS or _RECORDING.search(address)):
            page = address
    if page is None:
        return None
    return "" if is_hidden(given, page) else _once(page, label, seen)


def _drop_fallback(found: re.Match[str]) -> str:
    """Return an <object> without its text for other browsers, if its link or picture is shown."""
    given = tag_patterns.parse_attributes(found[1])
    address = filter_attribute("object", "src", given.get("data", ""))
    is_shown = address is not None and not is_hidden(given, address)
    start = found[0][: found.start(2) - found.start()]
    if is_shown or _MOVIE.search(found[2]) or replacements.is_plea(found[2]):
        return start + "".join(_KEPT.findall(found[2])) + "</object>"
    return found[0]


def _player(name: str, given: dict[str, str], seen: set[str]) -> str:
    if name == "param":
        sources = [given.get("value", "")] if given.get("name", "").lower() in ("movie", "src") else []
    else:
        sources = [given.get("data", "")] if name == "object" else [given.get(key, "") for key in _LAZY]
    address = next(
        (url for source in sources if source and (url := filter_attribute(name, "src", source))), None
    )
    if address is None:
        return ""
    if page := find_watch_url(address):
        return _once(page, _PLAIN_TITLE.sub("", given.get("title", "")).strip()[:_LABEL], seen)
    return "" if is_hidden(given, address) else _once(address, given.get("title", "")[:_LABEL], seen)


def is_hidden(attributes: dict[str, str], address: str) -> bool:
    """Return whether an element with these attributes only counts visitors or shows ads."""
    small = {attributes.get("width"), attributes.get("height")} & {"0", "1", "0px", "1px"}
    hidden = "hidden" in attributes or _HIDDEN.search(attributes.get("style", ""))
    return bool(small or hidden or _NOISE.match(address))


def _once(target: str, label: str, seen: set[str]) -> str:
    # Flash is a parameter of an <object> and an <embed> too; lazy frames occur again in a <noscript>.
    if target in seen:
        return ""
    seen.add(target)
    label = label or (urlsplit(target).hostname or "").removeprefix("www.")
    return render_link(target, label, picture=_find_still(target))


def _find_still(target: str) -> str | None:
    """Return the still picture of a video whose site has it at a known address."""
    found = _YOUTUBE_WATCH.fullmatch(target)
    return f"https://i.ytimg.com/vi/{found[1]}/hqdefault.jpg" if found else None


def render_link(target: str, label: str, *, kind: str = "", picture: str | None = None) -> str:
    """Return the link that replaces a player.

    Args:
        kind: media type of a file, as ``type`` of the link.
        picture: address of a still picture.
    """
    told = f' type="{html.escape(kind)}"' if kind else ""
    still = f'<img src="{html.escape(picture)}" alt=""><br>' if picture else ""
    return f'<p><a href="{html.escape(target)}"{told}>{still}▶ {html.escape(label)}</a></p>'


def find_watch_url(src: str) -> str | None:
    """Return the page that a person would open for a player's frame; None for unlisted hosts."""
    if _EMBEDLY.match(src):
        page = urls.resolve(_asked(src, "url"), "")
        return page if page and page.startswith("http") else None
    parts = urlsplit(src)
    if parts.scheme not in ("http", "https") or parts.netloc.lower() not in HOSTS:
        return None
    host = parts.netloc.lower().removeprefix("www.")
    if host in ("youtube.com", "youtube-nocookie.com"):
        return _youtube_page(src)
    if host == "player.vimeo.com" and (video := _VIMEO_ID.fullmatch(parts.path)):
        key = _asked(src, "h")
        return f"https://vimeo.com/{video[1]}" + (f"/{key}" if _VIMEO_KEY.fullmatch(key) else "")
    return "https://" + src.partition("://")[2]


def _youtube_page(src: str) -> str:
    found = _YOUTUBE_ID.match(urlsplit(src).path)
    video = found[1] if found else ""
    if video not in _YOUTUBE_WORDS:
        return f"https://www.youtube.com/watch?v={video}"
    if video == "live_stream":
        channel = _asked(src, "channel")
        page = f"channel/{channel}/live" if _YOUTUBE_CHANNEL.fullmatch(channel) else ""
    else:
        playlist = _asked(src, "list") if _asked(src, "listType") in ("", "playlist") else ""
        page = f"playlist?list={playlist}" if _YOUTUBE_LIST.fullmatch(playlist) else ""
    return f"https://www.youtube.com/{page}"


def _asked(src: str, name: str) -> str:
    """Return the value of a query parameter, or "" if it is missing."""
    return parse_qs(urlsplit(src).query).get(name, [""])[0]
