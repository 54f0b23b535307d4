"""Formats of archives: which one a file has, and the entries in it. Their texts are as hostile as any (V23).

The formats are those that the programs' own code writes:

 FreshRSS    ZIP of ``feeds_DAY.opml.xml``, ``starred_DAY.json`` and ``feed_DAY_N_N.json``: Google Reader's
             format with ``origin.feedUrl``, and with ``guid`` in newer versions
 tt-rss      ZIP of ``00000000.json`` and so on with ``articles`` (plugin data_migration), or
             ``<articles schema-version="…">`` of ``<article>``, packed with gzip or not (import_export)
 Pocket      ``part_000000.csv`` with ``title,url,time_added,tags,status``, or the older HTML page
 Instapaper  CSV with ``URL,Title,Selection,Folder`` and, in newer exports, ``Timestamp,Tags``
 Miniflux    answers of its API ``/v1/entries``: ``{"total": …, "entries": [{"status": …, "feed": {…}}]}``
 Feedbin     ``starred.json``: a list of ``{"title": …, "url": …, "published": …}``
 bookmarks   HTML pages of browsers, Pinboard, Shaarli and others: ``<!DOCTYPE NETSCAPE-Bookmark-file-1>``
 Eventr      ZIP with ``subscriptions.opml``, ``starred.json``, ``tagged.json``, ``saved.json``,
             ``notes.json``, ``states.json`` and ``hidden.json``
"""

from __future__ import annotations

import codecs
import csv
import enum
import json
import re
from collections.abc import Callable, Iterator
from typing import Any, Final

from lxml import etree

from app import clock
from app.feeds.archives.json_rows import iter_rows
from app.feeds.archives.markup import iter_elements
from app.feeds.archives.unpack import Readable, build_damage_error
from app.feeds.archives.values import (
    get_address,
    get_dict,
    get_list,
    get_markup,
    get_text,
    read_seconds,
    read_time,
    replace_halves,
)
from app.models.imports.archives import SHARED_TAG, ArchiveKind, SavedEntry
from app.models.imports.opml import MINIFLUX_ROOT
from app.models.reading.notes import (
    CONTEXT_MAX,
    EXACT_MAX,
    NOTE_MAX,
    QUOTES_MAX,
    Color,
    Quote,
    squeeze_spaces,
)

#: Bytes that tell a format.
HEAD: Final = 4096
#: Bytes at the end of a list of articles that show whether it is complete.
_TAIL: Final = 64
#: Articles that the plugin of tt-rss writes at a time.
_TTRSS_PAGE: Final = 250
#: Longest line of a CSV file, characters.
_LINE_MAX: Final = 1 << 20
_READ, _UNREAD, _STARRED = (f"user/-/state/com.google/{state}" for state in ("read", "unread", "starred"))
#: Prefix of the names of labels.
LABEL: Final = "user/-/label/"
#: Some programs write the number of the user.
_USER = re.compile(r"user/[^/]{1,64}/")


class Format(enum.StrEnum):
    """The format of one file."""

    OPML = "opml"
    GOOGLE = "google"
    TTRSS = "ttrss"
    TTRSS_JSON = "ttrss_json"
    POCKET_CSV = "pocket_csv"
    POCKET_HTML = "pocket_html"
    INSTAPAPER = "instapaper"
    MINIFLUX = "miniflux"
    BOOKMARKS = "bookmarks"
    EVENTR = "eventr"


#: Format of entries → the program that writes it.
KINDS: Final = {
    Format.GOOGLE: ArchiveKind.FRESHRSS,
    Format.TTRSS: ArchiveKind.TTRSS,
    Format.TTRSS_JSON: ArchiveKind.TTRSS,
    Format.POCKET_CSV: ArchiveKind.POCKET,
    Format.POCKET_HTML: ArchiveKind.POCKET,
    Format.INSTAPAPER: ArchiveKind.INSTAPAPER,
    Format.MINIFLUX: ArchiveKind.MINIFLUX,
    Format.BOOKMARKS: ArchiveKind.BOOKMARKS,
    Format.EVENTR: ArchiveKind.EVENTR,
}

_ELEMENT = re.compile(r"<([A-Za-z][\w:.-]{0,30})([^>]{0,200})")
_POCKET_PAGE = re.compile(r"<title>\s*Pocket Export\s*</title>", re.IGNORECASE)
_BOOKMARKS = re.compile(r"<!DOCTYPE\s+NETSCAPE-Bookmark-file-1", re.IGNORECASE)
_MINIFLUX = re.compile(r'"entries"\s*:\s*\[\s*\{.{0,2000}"(?:user_id|feed_id)"\s*:', re.DOTALL)
_READER_ID = re.compile(r'"id"\s*:\s*"user/')
_BATCH = re.compile(r'"schema-version"\s*:[^"]{0,20},\s*"articles"\s*:')
#: Fields of entries, and of feeds, at the beginning of a list without a name. An escaped quote is in a text.
_ENTRY_FIELDS = re.compile(r'(?<!\\)"(?:published|content|starred|saved)"\s*:')
_FEED_FIELDS = re.compile(r'(?<!\\)"(?:xmlUrl|xml_url|feed_url|feedUrl)"\s*:')
_FEED_OF_ENTRY = re.compile(r'(?<!\\)"feed"\s*:\s*\{')
_ROWS = re.compile(r"\[\s*\{")
#: Names of Eventr's own lists.
_OWN_LISTS = ("starred.json", "tagged.json", "saved.json", "notes.json", "states.json", "hidden.json")


def detect_format(name: str, head: bytes) -> Format | None:
    """Return the format of a file from its first bytes; None: it's none of these.

    Args:
        name: last part of its name in an archive, in lower case; it tells Eventr's own lists from others.
            Empty: it isn't in an archive.
    """
    text = head.decode("utf-8-sig", "replace").lstrip()
    if text.startswith("{"):
        if _BATCH.search(text):
            return Format.TTRSS_JSON
        if _MINIFLUX.search(text):
            return Format.MINIFLUX
        return Format.GOOGLE if _READER_ID.search(text) else None
    if text.startswith("["):
        return Format.EVENTR if name in _OWN_LISTS or (not name and _lists_entries(text)) else None
    if text.startswith("<"):
        return _detect_markup(text)
    columns = {part.strip().strip('"').lower() for part in text.partition("\n")[0].split(",")}
    if {"url", "time_added"} <= columns:
        return Format.POCKET_CSV
    return Format.INSTAPAPER if {"url", "title", "selection", "folder"} <= columns else None


def _lists_entries(text: str) -> bool:
    """Return whether a JSON list without a name has entries rather than feeds."""
    is_feed = _FEED_FIELDS.search(text) and not _FEED_OF_ENTRY.search(text)
    return bool(_ROWS.match(text) and _ENTRY_FIELDS.search(text) and not is_feed)


def _detect_markup(text: str) -> Format | None:
    if _POCKET_PAGE.search(text):
        return Format.POCKET_HTML
    if _BOOKMARKS.match(text):
        return Format.BOOKMARKS
    if "<!DOCTYPE" in text or "<!ENTITY" in text:
        return Format.OPML if "<opml" in text else None
    element = _ELEMENT.search(text)
    if element and element[1] == "opml":
        return Format.OPML
    return Format.TTRSS if element and element[1] == "articles" and "schema-version" in element[2] else None


def iter_entries(found: Format, source: Readable) -> Iterator[SavedEntry]:
    """Yield the entries of a file.

    Raises:
        InvalidError: it is damaged, or something else.
        TooLargeError: it unpacks to too much.
    """
    return _READERS[found](source)


# -- FreshRSS, and others that write Google Reader's format


def _iter_google(source: Readable) -> Iterator[SavedEntry]:
    return map(read_google_item, iter_rows(source))


def read_google_item(row: dict[str, Any]) -> SavedEntry:
    """Return an item of Google Reader's format."""
    categories = [normalise_category(one) for one in get_list(row.get("categories")) if isinstance(one, str)]
    origin = get_dict(row.get("origin"))
    own = get_text(row.get("id"))
    return SavedEntry(
        _unescape(get_address(origin.get("feedUrl"))),
        # No feed knows the program's own id, but it tells entries with one link apart.
        get_text(row.get("guid")) or own,
        _first_link(row, "canonical") or _first_link(row, "alternate"),
        _STARRED in categories,
        True if _READ in categories else False if _UNREAD in categories else None,
        tuple(_unescape(one.removeprefix(LABEL)) for one in categories if one.startswith(LABEL)),
        _unescape(get_text(origin.get("title"))),
        title=_unescape(get_text(row.get("title"))),
        at=read_seconds(row.get("published")),
        html=_get_content(row, "content") or _get_content(row, "summary"),
    )


def _get_content(row: dict[str, Any], name: str) -> str:
    return get_markup(get_dict(row.get(name)).get("content"))


def normalise_category(name: str) -> str:
    """Return the name of a state or label with ``-`` for the number of the user."""
    return _USER.sub("user/-/", name, count=1) if name.startswith("user/") else name


def _unescape(text: str) -> str:
    """Return a text of FreshRSS, whose older versions wrote it as HTML; in addresses ``&copy`` stays."""
    return text.replace("&amp;", "&")


def _first_link(row: dict[str, Any], name: str) -> str:
    return next(
        filter(None, (get_address(get_dict(link).get("href")) for link in get_list(row.get(name)))), ""
    )


# -- tt-rss


def _iter_ttrss(source: Readable) -> Iterator[SavedEntry]:
    parser = etree.XMLPullParser(
        ("end",),
        tag="article",
        resolve_entities=False,
        load_dtd=False,
        no_network=True,
        huge_tree=False,
        remove_comments=True,
        remove_pis=True,
    )
    try:
        for article in _iter_articles(parser, source):
            yield _read_article(article)
            article.clear()
            # The root would keep all empty articles.
            root = article.getparent()
            while root is not None and (before := article.getprevious()) is not None:
                root.remove(before)
        parser.close()
    except etree.XMLSyntaxError as e:
        raise build_damage_error() from e


def _iter_articles(parser: etree.XMLPullParser, source: Readable) -> Iterator[etree._Element]:
    tail, count = b"", 0
    while piece := source.read():
        tail = (tail + piece)[-_TAIL:]
        parser.feed(piece)
        for _, element in parser.read_events():
            if isinstance(element, etree._Element):
                count += 1
                yield element
    # The plugin writes no end if its last page is full; any other file without one was cut off.
    if count % _TTRSS_PAGE == 0 and tail.rstrip().endswith(b"</article>"):
        parser.feed(b"</articles>")


def _read_article(article: etree._Element) -> SavedEntry:
    return _build_article({str(child.tag): child.text or "" for child in article})


def _iter_ttrss_json(source: Readable) -> Iterator[SavedEntry]:
    return map(_build_article, iter_rows(source))


def _build_article(fields: dict[str, Any]) -> SavedEntry:
    return SavedEntry(
        get_address(fields.get("feed_url")),
        get_text(fields.get("guid")),
        get_address(fields.get("link")),
        _is_true(fields.get("marked")),
        None if fields.get("unread") is None else not _is_true(fields["unread"]),
        (*_read_labels(fields.get("label_cache")), *_read_published(fields.get("published"))),
        get_text(fields.get("feed_title")),
        title=get_text(fields.get("title")),
        at=read_time(fields.get("updated")),
        note=get_markup(fields.get("note")).strip()[:NOTE_MAX],
        html=get_markup(fields.get("content")),
    )


def _read_published(value: object) -> tuple[str, ...]:
    return (SHARED_TAG,) if _is_true(value) else ()


def _is_true(value: object) -> bool:
    """Return a value of PostgreSQL or MySQL: a number, or a word."""
    return value is True or str(value).strip().lower() in ("1", "t", "true")


def _read_labels(text: object) -> tuple[str, ...]:
    """Return the names in a list of labels: number, name and colors of each."""
    try:
        found = replace_halves(json.loads(text)) if isinstance(text, str) and text else []
    except (ValueError, RecursionError):
        return ()
    rows = found if isinstance(found, list) else []
    return tuple(row[1] for row in rows if isinstance(row, list) and len(row) > 1 and isinstance(row[1], str))


# -- lists of pages


def _iter_csv(source: Readable) -> Iterator[dict[str, str]]:
    """Yield the rows of a CSV file by the names of its columns, in lower case."""
    try:
        rows = csv.reader(_iter_lines(source))
        names = [name.strip().lower() for name in next(rows, [])]
        for row in rows:
            yield dict(zip(names, row, strict=False))
    except csv.Error as e:
        raise build_damage_error() from e


def _iter_lines(source: Readable) -> Iterator[str]:
    decode = codecs.getincrementaldecoder("utf-8-sig")("replace").decode
    rest, ended = "", False
    while not ended:
        piece = source.read()
        ended = not piece
        *lines, rest = (rest + decode(piece, ended)).split("\n")
        if len(rest) > _LINE_MAX:
            raise build_damage_error()
        yield from (f"{line}\n" for line in lines)
    if rest:
        yield rest


def _iter_pocket(source: Readable) -> Iterator[SavedEntry]:
    for row in _iter_csv(source):
        if link := get_address(row.get("url")):
            tags = tuple(filter(None, re.split(r"[|,]", row.get("tags", ""))))
            yield SavedEntry(
                link=link,
                read=row.get("status") == "archive",
                tags=tags,
                title=get_text(row.get("title")),
                at=read_seconds(row.get("time_added")),
            )


def _iter_pocket_page(source: Readable) -> Iterator[SavedEntry]:
    is_read = False
    for element in iter_elements(source):
        if element.name == "h1":
            is_read = "read" in element.text.lower().split()
        elif element.name == "a" and (link := get_address(element.attributes.get("href"))):
            tags = tuple(filter(None, element.attributes.get("tags", "").split(",")))
            at = read_seconds(element.attributes.get("time_added"))
            yield SavedEntry(link=link, read=is_read, tags=tags, title=get_text(element.text), at=at)


#: Folders of Instapaper that everyone has.
_INSTAPAPER_FOLDERS: Final = ("Unread", "Archive", "Starred")


def _iter_instapaper(source: Readable) -> Iterator[SavedEntry]:
    for row in _iter_csv(source):
        if link := get_address(row.get("url")):
            folder = row.get("folder", "")
            is_read = folder in ("Archive", "Starred")
            tags = _read_tags(row)
            if folder and folder not in _INSTAPAPER_FOLDERS:
                tags = (*tags, folder)
            yield SavedEntry(
                link=link,
                starred=folder == "Starred",
                read=is_read,
                tags=tags,
                title=get_text(row.get("title")),
                at=read_seconds(row.get("timestamp")),
            )


def _read_tags(row: dict[str, str]) -> tuple[str, ...]:
    try:
        found = json.loads(row.get("tags") or "[]")
    except (ValueError, RecursionError):
        return ()
    return tuple(name for name in found if isinstance(name, str)) if isinstance(found, list) else ()


def _iter_bookmarks(source: Readable) -> Iterator[SavedEntry]:
    """Yield bookmarks. They count as read, except those that are marked to be read; folders become tags."""
    folders, heading = list[str](), ""
    for element in iter_elements(source):
        given = element.attributes
        if element.name == "h3":
            known = given.get("personal_toolbar_folder") or given.get("unfiled_bookmarks_folder")
            heading = "" if known else element.text
        elif element.name == "dl":
            folders.append(heading)
            heading = ""
        elif element.name == "/dl":
            folders.pop()
        elif element.name == "a" and (link := get_address(given.get("href"))):
            tags = [name.strip() for name in given.get("tags", "").split(",")]
            yield SavedEntry(
                link=link,
                read=given.get("toread") != "1",
                tags=tuple(dict.fromkeys(filter(None, (*tags, folders[-1] if folders else "")))),
                title=get_text(element.text),
                at=read_seconds(given.get("add_date")),
            )


# -- Miniflux


def _iter_miniflux(source: Readable) -> Iterator[SavedEntry]:
    return map(read_miniflux_entry, iter_rows(source))


#: Status of an entry → whether it is read. Until 2.2, the history that was cleared is listed as removed.
_MINIFLUX_READ: Final = {"read": True, "unread": False, "removed": True}


def read_miniflux_entry(row: dict[str, Any]) -> SavedEntry:
    """Return an entry of Miniflux's API."""
    feed, status = get_dict(row.get("feed")), row.get("status")
    return SavedEntry(
        get_address(feed.get("feed_url")),
        get_text(row.get("hash")),
        get_address(row.get("url")),
        # Starring is the last change of most starred entries; the interface has no other time of it.
        row.get("starred") is True and (read_time(row.get("changed_at")) or True),
        _MINIFLUX_READ.get(status) if isinstance(status, str) else None,
        feed_title=get_text(feed.get("title")),
        feed_folders=read_miniflux_folders(feed),
        title=get_text(row.get("title")),
        at=read_time(row.get("published_at")),
        html=get_markup(row.get("content")),
    )


def read_miniflux_folders(feed: dict[str, Any]) -> tuple[str, ...]:
    """Return the path of the folder that a feed of Miniflux's API is in; empty: in none."""
    folder = get_text(get_dict(feed.get("category")).get("title"))
    return (folder,) if folder and folder != MINIFLUX_ROOT else ()


# -- Eventr, and Feedbin, whose list of stars has the same name


def _iter_own(source: Readable) -> Iterator[SavedEntry]:
    for row in iter_rows(source):
        feed = get_dict(row.get("feed"))
        if "link" not in row and "url" in row:
            yield SavedEntry(
                get_address(feed.get("feed_url")),
                link=get_address(row.get("url")),
                starred=True,
                title=get_text(row.get("title")),
                at=read_time(row.get("published")),
                html=get_markup(row.get("content")),
            )
            continue
        read = row.get("read")
        yield SavedEntry(
            get_address(feed.get("address")),
            "",
            get_address(row.get("link")),
            read_time(row.get("starred")) or bool(row.get("starred")),
            read if isinstance(read, bool) else None,
            tuple(name for name in get_list(row.get("tags")) if isinstance(name, str)),
            get_text(feed.get("title")),
            title=get_text(row.get("title")),
            at=read_time(row.get("saved")) or read_time(row.get("date")),
            note=_get_note(row.get("text")),
            quotes=tuple(_iter_highlights(row.get("highlights"))),
            html=get_markup(row.get("html")),
            hidden=row.get("hidden") is True,
        )


def _get_note(value: object) -> str:
    return value[:NOTE_MAX] if isinstance(value, str) else ""


def _iter_highlights(value: object) -> Iterator[Quote]:
    """Yield highlights with the text around them, by which they are found again."""
    for row in map(get_dict, get_list(value)[:QUOTES_MAX]):
        exact, prefix, suffix = (squeeze_spaces(_get_note(row.get(n))) for n in ("exact", "prefix", "suffix"))
        color = row.get("color")
        if exact:
            yield Quote(
                "",
                exact[:EXACT_MAX],
                prefix[-CONTEXT_MAX:],
                suffix[:CONTEXT_MAX],
                color if color in tuple(Color) else Color.YELLOW.value,
                _get_note(row.get("note")),
                read_time(row.get("at")) or clock.now(),
            )


_READERS: Final[dict[Format, Callable[[Readable], Iterator[SavedEntry]]]] = {
    Format.GOOGLE: _iter_google,
    Format.TTRSS: _iter_ttrss,
    Format.TTRSS_JSON: _iter_ttrss_json,
    Format.POCKET_CSV: _iter_pocket,
    Format.POCKET_HTML: _iter_pocket_page,
    Format.INSTAPAPER: _iter_instapaper,
    Format.MINIFLUX: _iter_miniflux,
    Format.BOOKMARKS: _iter_bookmarks,
    Format.EVENTR: _iter_own,
}
