"""Element trees: parse bytes with libxml2, without losing data.

Strict first. ``recover=True`` is used only if the only errors are an undeclared prefix or text
after the end of the document. After any other fatal error libxml2 silently drops every escaped ``<``,
``>`` and ``&`` that follows (libxml2 issue 270). Otherwise the bytes are repaired and parsed
strictly again. No DOCTYPE gets here, so libxml2 expands no entities and loads nothing (X01).
Never pass ``collect_ids=False``: with it, libxml2 loads the external DTD.
"""

from __future__ import annotations

import dataclasses
import functools
import re
import threading

from lxml import etree

from app.errors import ParseError
from app.feeds.parse.limits import Limits
from app.feeds.parse.repair import repair
from app.feeds.safe_xml import build_safe_parser
from app.models.feeds.parsed import ParserPath

#: Namespace errors don't stop libxml2, and after the end of the document there is nothing to lose.
_LOSSLESS = {
    "NS_ERR_UNDEFINED_NAMESPACE",
    "NS_ERR_XML_NAMESPACE",
    "NS_ERR_QNAME",
    "NS_ERR_COLON",
    "NS_ERR_EMPTY",
    "WAR_NS_URI",
    "WAR_NS_URI_RELATIVE",
    "ERR_DOCUMENT_END",
}
#: The document ends early: no text follows that could be damaged.
_CUT = {"ERR_TAG_NOT_FINISHED"}
_LAST = re.compile(rb"</(?:[\w.-]{1,20}:)?(channel|item|entry)\s*>\Z")
#: Only comments may follow the last tag.
_TAIL = 1 << 16
_LIMIT = etree.ErrorTypes.ERR_RESOURCE_LIMIT
_local = threading.local()


def _parser(recover: bool) -> etree.XMLParser:
    """Return this thread's parser: running threads may not share one."""
    name = "recovering" if recover else "strict"
    found = getattr(_local, name, None)
    if found is None:
        found = build_safe_parser(recover=recover)
        setattr(_local, name, found)
    parser: etree.XMLParser = found
    return parser


@dataclasses.dataclass(frozen=True, slots=True)
class Tree:
    """A document that libxml2 read without loss.

    Attributes:
        is_truncated: whether the document ends in the middle; it is complete up to that point. A document
            that only lacks its last end tags isn't truncated.
        ends_in_entry: whether the cut goes through the last entry.
    """

    root: etree._Element
    path: ParserPath
    is_truncated: bool = False
    ends_in_entry: bool = False


def parse_tree(body: bytes, limits: Limits) -> Tree | None:
    """Return the tree of a document; None if libxml2 can't read it without loss.

    Args:
        body: UTF-8 without a byte order mark and leading white space, and without a DOCTYPE.

    Raises:
        ParseError: ``too_large`` when it is nested too deep.
    """
    root = _strict(body)
    tree = Tree(root, ParserPath.STRICT) if root is not None else _recovered(body) or _mended(body)
    if tree is not None:
        _check(tree.root, limits)
    return tree


def _mended(body: bytes) -> Tree | None:
    mended = repair(body)
    if mended is None:
        return None
    root = _strict(mended)
    return Tree(root, ParserPath.REPAIRED) if root is not None else _recovered(mended, _until_open(body))


def _strict(body: bytes) -> etree._Element | None:
    """Return the root of a well-formed document, None for any other.

    Raises:
        ParseError: ``too_large``; libxml2 reached a limit of its own (depth 256, text 10 MB).
    """
    try:
        return etree.fromstring(body, _parser(False))
    except etree.XMLSyntaxError as e:
        if getattr(e, "code", None) == _LIMIT:  # the stubs don't declare it
            raise ParseError("too_large", f"libxml2: {e.msg}"[:120]) from e
        return None


def _recovered(body: bytes, said: bytes | None = None) -> Tree | None:
    """Return the recovered tree if nothing was lost, or only the text after a cut.

    ``said`` is the original document; without it, a document that was cut is refused.
    """
    parser = _parser(True)
    try:
        root = etree.fromstring(body, parser)
    except etree.XMLSyntaxError:
        return None
    errors = {error.type_name for error in parser.error_log}
    if root is None or errors - _LOSSLESS - (_CUT if said is not None else set()):
        return None
    is_cut = said is not None and not errors.isdisjoint(_CUT) and not _ends_behind_entries(root, said)
    return Tree(root, ParserPath.REPAIRED, is_cut, is_cut and _ends_in_entry(said or b""))


def _until_open(body: bytes) -> bytes:
    """Return a document up to a CDATA section that is still open at its end: tags inside are text."""
    start = body.rfind(b"<![CDATA[")
    return body[:start] if start > body.rfind(b"]]>") else body


def _ends_behind_entries(root: etree._Element, body: bytes) -> bool:
    """Return whether the last tag of a document ends an entry, or a channel that contains entries."""
    body = body[-_TAIL:].rstrip()
    while body.endswith(b"-->") and b"<!--" in body:
        body = body[: body.rfind(b"<!--")].rstrip()
    found = _LAST.search(body, max(0, len(body) - 100))
    # in RSS 1.0, the entries follow the channel
    return found is not None and (found[1] != b"channel" or etree.QName(root).localname != "RDF")


def _ends_in_entry(body: bytes) -> bool:
    return any(body.rfind(b"<" + name) > body.rfind(b"</" + name) for name in (b"item", b"entry"))


@functools.lru_cache(maxsize=8)
def _deeper_than(depth: int) -> etree.XPath:
    return etree.XPath("boolean(" + "/*" * (depth + 1) + ")")


def _check(root: etree._Element, limits: Limits) -> None:
    """Refuse trees beyond the depth limit; attributes cost libxml2 no more than their bytes.

    Raises:
        ParseError: ``too_large``.
    """
    if _deeper_than(limits.depth)(root):
        raise ParseError("too_large", f"elements nested deeper than {limits.depth}")
