"""Elements of long HTML lists, one after the other: no tree is built, so no list is too long or too deep."""

from __future__ import annotations

import codecs
import dataclasses
from collections.abc import Iterator, Mapping
from typing import Final

from lxml import etree

from app.feeds.archives.unpack import Readable, build_damage_error
from app.models.imports.archives import NAME_MAX

#: Elements whose text is read.
_TEXTS: Final = ("a", "h1", "h3")
#: Elements that end an open link or heading that has no end of its own.
_BLOCKS: Final = ("dl", "dt", "dd", "li", "ul")
#: Most folders inside each other.
DEPTH_MAX: Final = 10_000
#: Follows the list: the parser has read everything if it comes to this.
_LAST: Final = ("hr", "eventr-last")


@dataclasses.dataclass(frozen=True, slots=True)
class Element:
    """A link or heading, or one end of a folder.

    Attributes:
        name: "a", "h1" or "h3" with attributes and text; "dl" or "/dl".
        text: without the tags in it and with single spaces; cut somewhere after :data:`NAME_MAX` characters.
    """

    name: str
    attributes: Mapping[str, str] = dataclasses.field(default_factory=dict)
    text: str = ""


def iter_elements(source: Readable) -> Iterator[Element]:
    """Yield links, headings and folders in the order in which they end, and the beginnings of folders.

    Raises:
        InvalidError: the list is cut off, or too deep.
    """
    target, decode = _Target(), codecs.getincrementaldecoder("utf-8-sig")("replace").decode
    # The stubs demand a method for comments, which nobody needs.
    parser = etree.HTMLParser(target=target, no_network=True, encoding="utf-8")  # type: ignore[arg-type]
    try:
        ended = False
        while not ended:
            piece = source.read()
            ended = not piece
            # The parser would end at a NUL.
            parser.feed(decode(piece, ended).replace("\0", "\N{REPLACEMENT CHARACTER}").encode())
            yield from target.take_found()
        parser.feed(f'\n<{_LAST[0]} id="{_LAST[1]}">'.encode())
        parser.close()
    except etree.LxmlError as e:
        raise build_damage_error() from e
    if not target.is_whole:
        raise build_damage_error()
    yield from target.take_found()


class _Target:
    """What the parser calls for each tag, see lxml's "parser target interface"."""

    def __init__(self) -> None:
        self.is_whole = False
        self._depth, self._found = 0, list[Element]()
        self._open: tuple[str, dict[str, str]] | None = None
        self._text, self._length = list[str](), 0

    def take_found(self) -> list[Element]:
        found, self._found = self._found, []
        return found

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        if tag == _LAST[0] and attributes.get("id") == _LAST[1]:
            self.is_whole = self._open is None and self._depth == 0
        if tag in _TEXTS or tag in _BLOCKS:
            self._finish()
        if tag in _TEXTS:
            self._open = (tag, dict(attributes))
        elif tag == "dl":
            self._depth += 1
            if self._depth > DEPTH_MAX:
                raise build_damage_error()
            self._found.append(Element("dl"))

    def end(self, tag: str) -> None:
        if tag in _BLOCKS or (self._open and self._open[0] == tag):
            self._finish()
        if tag == "dl" and self._depth:
            self._depth -= 1
            self._found.append(Element("/dl"))

    def data(self, text: str) -> None:
        if self._open and self._length <= NAME_MAX:
            self._text.append(text)
            self._length += len(text)

    def close(self) -> None:
        """Nothing: the events were taken as they came."""

    def _finish(self) -> None:
        if self._open:
            self._found.append(Element(*self._open, " ".join("".join(self._text).split())))
        self._open, self._text, self._length = None, list[str](), 0
