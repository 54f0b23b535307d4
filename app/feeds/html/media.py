"""Audio and video in entries: our pages may not play them (H08), so each becomes a link to its file."""

from __future__ import annotations

import html
import re
from urllib.parse import unquote, urlsplit

from app.feeds.html import embeds, replacements, tag_patterns
from app.feeds.html.allow_list import filter_attribute

#: Elements that :func:`replace_players_with_links` replaces.
NAMES = frozenset(["audio", "video"])
_TAG = tag_patterns.compile_tag_pattern("/?(?:audio|video)|source")
#: Parts of a player's content: its sources (first group), and links (second group).
_PART = re.compile(
    rf"<source(?=[\s/>]){tag_patterns.INNER}>|<a(?=\s){tag_patterns.INNER}>{tag_patterns.LINK_END}",
    re.IGNORECASE,
)
_LABEL = 80
#: Blank posters. The pattern is strict, because no other picture replaces a poster.
_BLANK = re.compile(
    r"/(?:blank|placeholder|spacer|transparent)(?:[._-]?\d+x\d+)?\.(?:gif|jpe?g|png|svg|webp)(?:[?#]|\Z)",
    re.IGNORECASE,
)
_BACKGROUND = re.compile(r"""url\(\s*+(?:'([^']*)'|"([^"]*)"|([^\s'"()]++))""", re.IGNORECASE)


def replace_players_with_links(markup: str) -> str:
    """Return the HTML with players replaced by links to their first file.

    Of their inner content, which is for browsers without players, only links to other files stay. Without a
    file it is all that there is to show. The caller has set the base addresses
    (:func:`app.feeds.html.allow_list.bind`).
    """
    for name in sorted(NAMES):
        markup = tag_patterns.replace_elements(name, markup, _drop_fallback)
    inside = linked = False

    def replace_player(match: re.Match[str]) -> str:
        nonlocal inside, linked
        name, given = match[1].lower(), tag_patterns.parse_attributes(match[2])
        if name == "source":
            if not inside:
                return match[0]  # belongs to a <picture>
            if linked:
                return ""
            poster = None
        else:
            inside, linked = not name.startswith("/"), False
            poster = _poster(given) if inside else None
        file = _find_file(given) if inside else None
        linked = file is not None
        shown = f'<p><img src="{html.escape(poster)}"></p>' if poster else ""
        return shown + (embeds.render_link(file, _name(file)) if file else "")

    return _TAG.sub(replace_player, markup)


def _find_file(given: dict[str, str]) -> str | None:
    return filter_attribute("video", "src", given.get("data-src") or given.get("src", ""))


def _drop_fallback(player: re.Match[str]) -> str:
    """Return a player without its fallback content, except for links to other files."""
    parts = [(part[0], part[1] is None, part[1] or part[2]) for part in _PART.finditer(player[2])]
    sources = [player[1], *(inner for _, is_link, inner in parts if not is_link)]
    file = next(filter(None, (_find_file(tag_patterns.parse_attributes(inner)) for inner in sources)), None)
    start = player[0][: player.start(2) - player.start()]
    if file is None:
        return "" if replacements.is_plea(player[2]) and "poster" not in player[1] else player[0]
    kept = [part for part, is_link, inner in parts if not is_link or _leads_elsewhere(inner, file)]
    end = player[0][player.end(2) - player.start() :]
    return start + "".join(kept) + end


def _leads_elsewhere(inner: str, file: str) -> bool:
    href = tag_patterns.parse_attributes(inner).get("href")
    return href is not None and filter_attribute("a", "href", href) not in (None, file)


def _poster(given: dict[str, str]) -> str | None:
    poster = filter_attribute("video", "poster", given.get("poster", ""))
    if poster and _BLANK.search(poster):
        # Ghost sets the picture as the background behind the blank poster.
        found = _BACKGROUND.search(given.get("style", ""))
        poster = (
            filter_attribute("video", "poster", found[1] or found[2] or found[3] or "") if found else None
        )
    return None if poster is None or embeds.is_hidden(given, poster) else poster


def _name(url: str) -> str:
    parts = urlsplit(url)
    # Caches put the whole original address, escaped, into their path.
    name = unquote(parts.path).rstrip("/").rpartition("/")[2]
    return "".join(c for c in name if c.isprintable())[:_LABEL] or parts.hostname or ""
