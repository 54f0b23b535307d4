"""Audio and video in entries: each becomes a link to its file, which pages replace by a player (H08).

:mod:`app.models.media.recordings` describes the HTML.
"""

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
#: Most players of a text; each takes more space as a link than it took before.
_PLAYERS_MAX = 200
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
    player = _Player()

    def replace_player(match: re.Match[str]) -> str:
        name, given = match[1].lower(), tag_patterns.parse_attributes(match[2])
        if name == "source":
            # Outside of a player, it belongs to a <picture>.
            return player.write_link(given) if player.name else match[0]
        before = player.end()
        if name.startswith("/"):
            return before
        player.begin(name, given)
        return before + player.write_link(given)

    return _TAG.sub(replace_player, markup) + player.end()


class _Player:
    """The player around a place in the markup: of its files, the first one becomes a link."""

    def __init__(self) -> None:
        self.name, self._title = "", ""
        self._poster: str | None = None
        self._is_linked = False
        self._count = 0

    def begin(self, name: str, given: dict[str, str]) -> None:
        """Enter a player."""
        self._count += 1
        self.name, self._is_linked = name, self._count > _PLAYERS_MAX
        self._title = (given.get("title") or given.get("aria-label", "")).strip()[:_LABEL]
        self._poster = None if self._is_linked else _poster(given)

    def write_link(self, given: dict[str, str]) -> str:
        """Return the link to a file of the player, "" if there is one already or this tag names none."""
        file = None if self._is_linked else _find_file(given)
        if file is None:
            return ""
        self._is_linked = True
        poster, self._poster = self._poster, None
        kind = given.get("type", "").partition(";")[0].strip().lower()
        if not kind.startswith(("audio/", "video/")):
            kind = f"{self.name}/*"
        return embeds.render_link(file, self._title or _name(file), kind=kind, picture=poster)

    def end(self) -> str:
        """Leave the player; return the picture of one without a file."""
        poster, self._poster, self.name = self._poster, None, ""
        return f'<p><img src="{html.escape(poster)}"></p>' if poster else ""


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
