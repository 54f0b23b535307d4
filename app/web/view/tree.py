"""The tree of feeds as HTML, built by string concatenation.

A template would take 30 ms for 1,000 feeds; this takes 3 ms, 1 ms if few feeds have changed, and almost no
time if none has. Every value that people or feeds wrote goes through ``escape``; ids and counts are numbers.
"""

from __future__ import annotations

import functools
import zlib
from collections.abc import Sequence
from typing import NamedTuple

from flask_babel import gettext as _
from flask_babel import ngettext
from markupsafe import Markup, escape

from app.models.reading.stream import Tree, TreeFeed, TreeFolder
from app.models.subscriptions.bulk_edit import LOOSE
from app.runtime.lazy import lazy
from app.runtime.weighted_cache import WeightedCache
from app.web.view.i18n import render_direction
from app.web.view.present import format_count
from app.web.view.views import compute_shape, iter_feeds, iter_folders

#: Number of colors of the letter tiles; the same as in ``static/css/tree.css``.
HUES = 10
#: Feeds in a tree that is rendered whole; of a larger one, PART_LINES feeds are rendered, of which at most
#: BRANCH_LINES only because they are beside the current feed. A line has 220 bytes, and a browser lays out
#: ten thousand of them in two seconds.
WHOLE_LINES, PART_LINES, BRANCH_LINES = 1000, 250, 150
#: Names of feeds that are kept with their tile and link, about 500 bytes each.
LABELS = 8192


def render_tile(key: int | str, title: str, *, person: bool = False, icon: str | None = None) -> str:
    """Return the icon of a feed, or its letter tile, whose color never changes.

    Args:
        key: decides the color: a feed's id or address; of a person, their user name or their page.
        icon: path of the icon on this server.
    """
    if icon:
        return render_icon(icon, person=person)
    letter = next((c for c in title if c.isalnum()), "•").upper()
    hue = zlib.crc32(str(key).rpartition("/@")[2].encode() if person else str(key).encode()) % HUES
    round_ = " person" if person else ""
    # A direction of its own keeps the letter from deciding that of a line with dir="auto".
    return f'<i class="av h{hue}{round_}" dir="ltr" aria-hidden="true">{escape(letter)}</i>'


def render_icon(icon: str, *, person: bool = False) -> str:
    """Return the icon of a feed; a browser loads it once, and only if it is visible."""
    round_ = " person" if person else ""
    return (
        f'<img class="av{round_}" src="{escape(icon)}" alt="" width="18" height="18" loading="lazy"'
        ' decoding="async">'
    )


def render_tile_html(key: int | str, title: str, *, person: bool = False, icon: str | None = None) -> Markup:
    """Return the tile for a template."""
    return Markup(render_tile(key, title, person=person, icon=icon))  # noqa: S704 — escaped parts only


class TreeRenderer:
    """Renders trees, and keeps the HTML of each user's last one.

    A kept tree is only used for the same tree object: :class:`TreeBuilder` returns it while nothing has
    changed.

    Args:
        lines_max: Number of lines in kept trees, of all users together; a feed has one in each of its
            folders.
    """

    def __init__(self, lines_max: int) -> None:
        self._kept = WeightedCache[int, _Rendered](lines_max)

    def render(self, user_id: int, tree: Tree, current: str, icons: Icons, *, whole: bool = False) -> Markup:
        """Return ``<ul class="tree">``; if the tree is large, only a part of its feeds.

        Args:
            current: The text form of the current stream.
            whole: Render all feeds in any case.
        """
        rendered = self._get(user_id, tree)
        whole = whole or rendered.lines <= WHOLE_LINES
        key = icons, whole, "" if whole else current
        html = rendered.pages.get(key)
        if html is None:
            html = _render(tree, icons, None if whole else choose_feeds(tree, current))
            rendered.pages = {key: html}  # in one language: few people read in several at once
        return Markup(_mark_current(html, current))  # noqa: S704 — built from escaped parts only

    def compute_shape(self, user_id: int, tree: Tree) -> str:
        """Return a hash of everything that the tree shows except counts."""
        return self._get(user_id, tree).shape

    def _get(self, user_id: int, tree: Tree) -> _Rendered:
        found = self._kept.get(user_id)
        if found is None or found.tree is not tree:
            found = _Rendered(tree)
            self._kept.add(user_id, found, found.lines)
        return found


class Icons(NamedTuple):
    """HTML of the icons in a tree, with their labels in the page's language."""

    language: str
    chevron: str
    warn: str


class _Rendered:
    """A tree with its shape, and its HTML in the language that was asked for last."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self.lines = len(tree.feeds) + sum(1 + len(folder.feeds) for folder in iter_folders(tree))
        self.pages: dict[tuple[Icons, bool, str], str] = {}

    @lazy
    def shape(self) -> str:
        return compute_shape(self.tree)


def choose_feeds(tree: Tree, current: str) -> frozenset[int]:
    """Return the ids of the feeds that a part of a large tree shows.

    The current feed or folder comes first, with the feeds around it; then feeds with unread entries, which
    the keys for the next feed look for; then others.
    """
    kind, _, number = current.partition("/")
    here = int(number) if kind in ("feed", "folder") else 0
    near: list[TreeFeed] = []
    for folder_id, feeds in ((0, tree.feeds), *((folder.id, folder.feeds) for folder in iter_folders(tree))):
        at = next(
            (place for place, feed in enumerate(feeds) if kind == "feed" and feed.feed_id == here), None
        )
        if at is not None or (kind == "folder" and folder_id == here):
            start = max(0, (at or 0) - BRANCH_LINES // 2)
            near = list(feeds[start : start + BRANCH_LINES])
            break
    every = list(iter_feeds(tree))
    chosen = dict.fromkeys(feed.feed_id for feed in near)
    for feed in (*(f for f in every if f.unread), *every):
        if len(chosen) >= PART_LINES:
            break
        chosen[feed.feed_id] = None
    return frozenset(chosen)


def _render(tree: Tree, icons: Icons, chosen: frozenset[int] | None) -> str:
    folders = "".join(_folder(folder, icons, chosen) for folder in tree.folders)
    return f'<ul class="tree" id="feeds">{folders}{_feeds(tree.feeds, icons, chosen)}</ul>' + (
        f'<div class="tree">{rest}</div>' if (rest := _rest(tree.feeds, LOOSE, chosen)) else ""
    )


def _feeds(feeds: Sequence[TreeFeed], icons: Icons, chosen: frozenset[int] | None) -> str:
    return "".join(_feed(feed, icons) for feed in feeds if chosen is None or feed.feed_id in chosen)


def _rest(feeds: Sequence[TreeFeed], folder_id: int, chosen: frozenset[int] | None) -> str:
    """Return a link to the table of a folder's feeds, if some of them aren't shown here."""
    hidden = 0 if chosen is None else sum(feed.feed_id not in chosen for feed in feeds)
    if not hidden:
        return ""
    words = escape(ngettext("%(num)s more", "%(num)s more", hidden))
    return f'<a class="rest" href="/subscriptions?folder={folder_id}"><span>{words}</span></a>'


def _mark_current(html: str, current: str) -> str:
    """Mark the current stream's links; the text before their ids occurs nowhere else."""
    kind, _, number = current.partition("/")
    if kind not in ("feed", "folder"):
        return html
    link = _link(kind, int(number))
    return html.replace(link, f'{link} aria-current="page"')


def _link(kind: str, number: int) -> str:
    return f'<a href="/read/{kind}/{number}" data-stream data-{kind}="{number}"'


def _folder(folder: TreeFolder, icons: Icons, chosen: frozenset[int] | None) -> str:
    name = escape(folder.name)
    label = escape(_("Feeds in %(name)s", name=folder.name))
    inside = "".join(_folder(child, icons, chosen) for child in folder.folders)
    inside += _feeds(folder.feeds, icons, chosen)
    return (
        f'<li class="folder" data-id="{folder.id}">'
        f"{_link('folder', folder.id)}{_state(folder.unread)}>"
        f"<span{render_direction(folder.name)}>{name}</span><b>{format_count(folder.unread)}</b></a>"
        f'<details open><summary aria-label="{label}">{icons.chevron}</summary>'
        f"<ul>{inside}</ul>{_rest(folder.feeds, folder.id, chosen)}</details></li>"
    )


def _feed(feed: TreeFeed, icons: Icons) -> str:
    warn = icons.warn if feed.error else ""
    link, name = _label(feed.feed_id, feed.title, page=feed.site_url if feed.person else None, icon=feed.icon)
    return f"<li>{link}{_state(feed.unread)}>{name}{warn}<b>{format_count(feed.unread)}</b></a></li>"


@functools.lru_cache(maxsize=LABELS)
def _label(feed_id: int, title: str, *, page: str | None, icon: str | None) -> tuple[str, str]:
    """Return the link and the name in a feed's line; lines with counts would fill the cache with old ones.

    ``page``: of the person whose shares the feed holds.
    """
    picture = render_tile(page or feed_id, title, person=page is not None, icon=icon)
    return _link("feed", feed_id), f"{picture}<span{render_direction(title)}>{escape(title)}</span>"


def _state(unread: int) -> str:
    return f' class="has" data-unread="{unread}"' if unread else ""
