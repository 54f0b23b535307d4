"""Input for feedparser: rewrite elements that it confuses, so that it keeps them apart; bytes in, bytes out.

feedparser reads ``media:description`` as a second description, a second description as the article and
``dc:date`` as an update. It keeps only the last author, and resolves ids. Here all of these elements
become ``media:credit``: feedparser keeps each such element, with its attributes and its plain text. An
attribute names the original element.
"""

from __future__ import annotations

import re

from app.feeds.parse.names import RSS, canonicalise_tag

#: Attributes, as feedparser returns them: the original element, the picture it describes, whether a picture
#: is in a group, and whether it was inside Media RSS, so that it hardly belongs to the entry itself.
KIND, PICTURE, GROUPED, INSIDE = "eventr-kind", "eventr-picture", "eventr-grouped", "eventr-inside"
#: The key of the rewritten elements; the ranks are those of :mod:`app.feeds.parse.entry`.
KEPT = "media_credit"
GUIDS = {"atom:id": 5, "guid": 4, "id": 4, "dc:identifier": 1}
AUTHORS = {"dc:creator": 6, "dc:author": 6, "itunes:author": 3, "googleplay:author": 3}
SUMMARIES = {"itunes:summary": 6, "dc:description": 5, "itunes:subtitle": 3, "googleplay:description": 3}
DATE, CAPTION = "dc:date", "media:description"

_APART = frozenset((*GUIDS, *AUTHORS, *SUMMARIES, DATE, CAPTION))
_ENTRIES = frozenset(("item", "entry", "atom:entry"))
#: Each element declares the prefix, because the feed may use any other, or none.
_START = b'<eventr-media:credit xmlns:eventr-media="http://search.yahoo.com/mrss/" '
_END = b"</eventr-media:credit"
_PREFIX = rb"[A-Za-z_][\w.\-]{0,40}"
_DECLARATION = re.compile(rb"\sxmlns:(" + _PREFIX + rb")\s?=\s?[\"']([^\"'<>\s]{1,200})[\"']")
_TOKEN = re.compile(
    rb"<!\[CDATA\[(?s:.*?)(?:\]\]>|\Z)|<(/?)(?:(" + _PREFIX + rb"):)?(item|entry|id|guid|identifier|creator"
    rb"|author|date|title|summary|subtitle|tagline|description|content|group)(?=[\s/>])",
    re.IGNORECASE,
)
_ATTRIBUTES = re.compile(rb"[^<>]*")
_CONSTRUCTS = frozenset(
    f"{prefix}{name}"
    for prefix in ("", "atom:")
    for name in ("title", "summary", "content", "subtitle", "tagline")
)
_TYPE = re.compile(rb"\stype\s?=\s?(\"[^\"]*\"|'[^']*')")
_KNOWN_TYPES = frozenset((b"text", b"plain", b"html", b"xhtml"))
_URL = re.compile(rb"\surl\s?=\s?(\"[^\"]*\"|'[^']*')")


#: The structure of a feed, by whose prefix an undeclared namespace is known.
_STRUCTURE = re.compile(rb"<(" + _PREFIX + rb"):(?:rss|channel|feed|item|entry)(?=[\s/>])", re.IGNORECASE)


def prepare_for_feedparser(body: bytes) -> bytes:
    """Return the document without elements that feedparser confuses; linear passes."""
    return _Writer(_drop_undeclared_prefix(body)).write()


def _drop_undeclared_prefix(body: bytes) -> bytes:
    """Return the document without the prefix of its structure, if nothing declares it.

    feedparser ignores elements with a prefix that it doesn't know.
    """
    found = _STRUCTURE.search(body)
    if found is None or any(prefix == found[1] for prefix, _ in _DECLARATION.findall(body)):
        return body
    return re.sub(rb"(</?)" + re.escape(found[1]) + rb":", rb"\1", body)


class _Writer:
    """A walk over the relevant elements, with its position and state."""

    def __init__(self, body: bytes) -> None:
        self.body = body
        self.spaces = {
            prefix: space.decode("utf-8", "replace") for prefix, space in _DECLARATION.findall(body)
        }
        self.parts: list[bytes] = []
        self.at = 0
        #: The element whose text the next token may end.
        self.opened = ""
        #: Address of the file that a description would describe.
        self.picture = b""
        self.in_file = self.in_group = False

    def write(self) -> bytes:
        for token in _TOKEN.finditer(self.body):
            if not token[3]:  # CDATA contains no elements, and is escaped already
                self.opened = ""
                continue
            kind, is_end = self._kind(token), bool(token[1])
            if kind in _ENTRIES:
                self.opened, self.picture, self.in_file, self.in_group = "", b"", False, False
            elif kind == "media:group":
                self.in_group = not is_end
            elif kind == "media:content":
                self._file(token, is_end)
            elif kind in _CONSTRUCTS and not is_end:
                self._name_type(token)
            elif kind in _APART:
                self._end(token, kind) if is_end else self._start(token, kind)
        self.parts.append(self.body[self.at :])
        return b"".join(self.parts)

    def _kind(self, token: re.Match[bytes]) -> str:
        """Return the name of an element as in the tables."""
        local = token[3].decode()
        if token[2] is None:
            return local.lower()
        prefix, space = token[2].decode("ascii", "replace"), self.spaces.get(token[2])
        return canonicalise_tag(f"{prefix}:{local}" if space is None else f"{{{space}}}{local}", RSS)

    def _start(self, token: re.Match[bytes], kind: str) -> None:
        self.parts += (self.body[self.at : token.start()], _START, f'{KIND}="{kind}"'.encode())
        if self.in_file or self.in_group:
            self.parts.append(f' {INSIDE}=""'.encode())
        if kind == CAPTION and self.picture:
            # the first description is the caption; the others get no address
            self.parts += (f" {PICTURE}=".encode(), self.picture)
            self.picture = b""
        self.at, self.opened = token.end(), kind

    def _end(self, token: re.Match[bytes], kind: str) -> None:
        text = self.body[self.at : token.start()]
        # tags inside, which break many feeds, belong to the text
        self.parts += (text.replace(b"<", b"&lt;") if kind == self.opened else text, _END)
        self.at, self.opened = token.end(), ""

    def _name_type(self, token: re.Match[bytes]) -> None:
        """Call an unknown type HTML: feedparser takes it for that of a file, and its text for Base64."""
        found = _ATTRIBUTES.match(self.body, token.end())
        kind = _TYPE.search(found[0]) if found else None
        if found and kind:
            name = kind[1][1:-1].strip().lower()
            if name not in _KNOWN_TYPES and b"/" not in name:
                self.parts += (
                    self.body[self.at : found.start() + kind.start(1)],
                    b'"html"' if name else b'"text"',
                )
                self.at = found.start() + kind.end(1)

    def _file(self, token: re.Match[bytes], is_end: bool) -> None:
        self.in_file, self.picture = (False, b"") if is_end else _file(self.body, token.end())
        if self.in_group and not is_end:
            self.parts += (self.body[self.at : token.end()], f' {GROUPED}=""'.encode())
            self.at, self.opened = token.end(), ""


def _file(body: bytes, at: int) -> tuple[bool, bytes]:
    """Return whether a file's element has content, and its address, quoted as written."""
    found = _ATTRIBUTES.match(body, at)
    attributes = found[0] if found else b""
    if attributes.endswith(b"/"):
        return False, b""
    url = _URL.search(attributes)
    return True, url[1] if url else b""
