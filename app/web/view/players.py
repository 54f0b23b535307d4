"""Players of recordings and of other sites, which load nothing from a site before a click (H07, H13).

Without scripts, the browser's own player does the same: it loads when someone starts it.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from urllib.parse import urlsplit

from flask import g
from flask_babel import gettext as _
from markupsafe import Markup

from app.models.feeds.chapters import Chapter
from app.models.feeds.parsed import Enclosure
from app.models.media.recordings import PlayerLink, link_times, list_recordings, replace_players
from app.models.reading.entry import Entry
from app.models.reading.stream import EntryRow
from app.web.context import find_user
from app.web.view import pictures, present
from app.web.view.embeds import Embed, find_player
from app.web.view.sprite import render_icon


def show_recordings(entry: Entry | EntryRow, source: str, *, is_chaptered: bool = False) -> Markup:
    """Return the players of the recordings that belong to an entry.

    Args:
        source: the feed's title.
        is_chaptered: a job fetches its chapters, which the player asks for.
    """
    return Markup("").join(
        _render_file(
            file.url,
            file.medium or "audio",
            _name(entry, file, number),
            pictures.render_poster(_find_poster(entry), entry.url) if number == 0 else "",
            entry_id=entry.id,
            source=source,
            facts=_describe(file),
            is_chaptered=is_chaptered,
        )
        for number, file in enumerate(list_recordings(entry))
    )


def _find_poster(entry: Entry | EntryRow) -> str | None:
    return entry.image or next((picture.url for picture in entry.pictures), None)


def _name(entry: Entry | EntryRow, file: Enclosure, number: int) -> str:
    first = entry.title or entry.excerpt[:80]
    return (number == 0 and first) or file.text or present.get_filename(file.url)


def _describe(file: Enclosure) -> str:
    facts = [
        present.format_playtime(file.duration) if file.duration else "",
        present.format_size(file.length) if (file.length or 0) > 1 else "",
    ]
    return " · ".join(filter(None, facts))


def show_players(markup: str, entry_id: int | None = None, source: str = "") -> str:
    """Return sanitized HTML, whose pictures are replaced already, with players."""

    def render_link(link: PlayerLink) -> str | None:
        if link.medium is not None:
            return str(
                _render_file(
                    link.url, link.medium, link.title, link.picture, entry_id=entry_id, source=source
                )
            )
        embed = find_player(link.url)
        return str(_render_embed(embed, link.title, link.url, link.picture)) if embed else None

    return replace_players(markup, render_link)


def link_moments(markup: str, entry: Entry | None) -> str:
    """Return sanitized HTML, in which the times of an entry's only recording start it there."""
    found = list_recordings(entry) if entry else []
    if len(found) != 1:
        return markup
    file = found[0]

    def render_time(second: int, text: str) -> str:
        return (
            f'<a class="moment" href="{escape(file.url)}#t={second}" target="_blank" '
            f'rel="noopener noreferrer" data-key="play" data-at="{second}">{text}</a>'
        )

    return link_times(markup, render_time, file.duration)


def add_chapters(markup: str, chapters: Sequence[Chapter] | None) -> str:
    """Return an entry's text with its chapters below, unless it names their times."""
    rows = [(present.format_playtime(second), title) for second, title in chapters or ()]
    if not rows or any(moment in markup for moment, _title in rows[1:]):
        return markup
    return markup + "<ul>" + "".join(f"<li>{moment} {escape(title)}</li>" for moment, title in rows) + "</ul>"


def show_embed(embed: Embed, entry: Entry | EntryRow) -> Markup:
    """Return the player of an entry that is a video's page."""
    poster = pictures.render_poster(_find_poster(entry), entry.url)
    return _render_embed(embed, entry.title, entry.url or "", poster)


def _get_host(url: str) -> str:
    try:
        return urlsplit(url).netloc.rpartition("@")[2].lower()
    except ValueError:
        return ""


def _ask(host: str) -> str:
    """Return the attribute that lets a site's recordings play without a question."""
    person = find_user()
    allowed = person is not None and host in person.preferences.media_sites
    return " data-allowed" if allowed else ""


def _render_file(
    url: str,
    medium: str,
    title: str,
    poster: str,
    *,
    entry_id: int | None,
    source: str,
    facts: str = "",
    is_chaptered: bool = False,
) -> Markup:
    g.has_player = True
    host = _get_host(url)
    site = present.get_site(url) or host
    origin = escape(_("From %(site)s", site=site))
    label = escape(_("Play: %(title)s", title=title))
    get, getting = escape(_("Download")), escape(_("Download: %(title)s", title=title))
    entry = f' data-entry="{entry_id}"' if entry_id else ""
    entry += " data-chapters" if is_chaptered else ""
    address, name = escape(url), escape(title)
    return Markup(  # noqa: S704 — built from escaped parts only
        f'<div class="player {medium}" data-medium="{medium}" data-src="{address}" data-host="{escape(host)}"'
        f' data-title="{name}" data-source="{escape(source)}"{entry}{_ask(host)}>'
        f"{_still(poster)}"
        f'<button class="play js-only" type="button" data-key="play" aria-label="{label}" title="{label}">'
        f"{render_icon('play')}</button>"
        f'<p class="what"><strong dir="auto">{name}</strong>'
        f'<span class="dim small">{f"<span>{escape(facts)}</span> · " if facts else ""}{origin}</span></p>'
        f'<a class="tool" href="{address}" target="_blank" rel="noopener noreferrer"'
        f' aria-label="{getting}" title="{get}">'
        f"{render_icon('download')}</a>"
        f'<{medium} class="nojs" controls preload="none" src="{address}"></{medium}>'
        f'<p class="nojs dim small">{escape(_privacy(site))}</p></div>'
    )


def _privacy(site: str) -> str:
    return str(
        _(
            "Nothing is loaded from %(site)s until you play it. Then that site sees your IP address.",
            site=site,
        )
    )


def _render_embed(embed: Embed, title: str, page: str, poster: str) -> Markup:
    """Return a player of another site. Without scripts there is a link to its page."""
    g.has_player = True
    is_name = title and title not in (present.get_site(page), embed.host.removeprefix("www."))
    name = title if is_name else str(_("Player of %(site)s", site=embed.site))
    label = escape(_("Play: %(title)s", title=name))
    link, there = escape(present.keep_http_url(page)), escape(_("Open on %(site)s", site=embed.site))
    return Markup(  # noqa: S704 — built from escaped parts only
        f'<div class="embed {embed.shape}" data-host="{escape(embed.host)}" data-site="{escape(embed.site)}"'
        f' data-embed="{escape(embed.src)}" data-title="{escape(name)}"{_ask(embed.host)}>{_still(poster)}'
        f'<button class="play js-only" type="button" data-key="embed" aria-label="{label}" title="{label}">'
        f"{render_icon('play')}</button>"
        f'<p class="what"><strong dir="auto">{escape(name)}</strong>'
        f'<a class="small" href="{link}" target="_blank" rel="noopener noreferrer">'
        f"{there}</a></p></div>"
    )


def _still(poster: str) -> str:
    """Return a poster that isn't enlarged by a click."""
    if not poster.startswith("<img "):
        return ""
    return poster.replace("<img ", '<img data-poster="" ', 1)
