"""Bytes → an element tree by libxml2, without a lossy step.

Strict first. ``recover=True`` is used only when all that was wrong is an undeclared prefix or something
after the end of the document: after any other fatal error libxml2 silently drops every escaped ``<``,
``>`` and ``&`` that follows (libxml2 issue 270). Everything else is mended in the bytes and parsed
strictly again. Entities are never expanded and nothing is ever loaded (security.md X01).
"""

from __future__ import annotations

import threading

from lxml import etree

from app.errors import ParseError
from app.feeds.parse.limits import Limits
from app.feeds.parse.repair import repair
from app.models.parsed import ParserPath

_LOSSLESS = {"NS_ERR_UNDEFINED_NAMESPACE", "ERR_DOCUMENT_END"}
_local = threading.local()


def _parser(recover: bool) -> etree.XMLParser:
    """Return this thread's parser: libxml2's may not be shared by running threads."""
    name = "recovering" if recover else "strict"
    found = getattr(_local, name, None)
    if found is None:
        found = etree.XMLParser(
            encoding="utf-8",
            recover=recover,
            resolve_entities=False,
            load_dtd=False,
            no_network=True,
            huge_tree=False,
            remove_comments=True,
            remove_pis=True,
            collect_ids=False,
        )
        setattr(_local, name, found)
    parser: etree.XMLParser = found
    return parser


def parse_tree(body: bytes, limits: Limits) -> tuple[etree._Element, ParserPath] | None:
    """Return the root element and how it was got; None when libxml2 cannot read it without loss.

    Args:
        body: UTF-8 without a byte order mark and leading white space.

    Raises:
        ParseError: ``too_large`` when it is nested too deep or an element has too many attributes.
    """
    # what a DOCTYPE declares is dropped before libxml2 sees it: no entity is ever defined
    doctype = b"<!DOCTYPE" in body[:4096] or b"<!ENTITY" in body
    root = None if doctype and b"<!ENTITY" in body else _strict(body)
    if root is not None and doctype and next(root.iter(etree.Entity), None) is not None:
        root = None  # &eacute; of an HTML DTD that is not loaded: mended below
    path = ParserPath.STRICT
    if root is None:
        path = ParserPath.REPAIRED
        root = None if doctype else _recovered(body)
        root = _mended(body) if root is None else root
    if root is None:
        return None
    check(root, limits)
    return root, path


def _mended(body: bytes) -> etree._Element | None:
    mended = repair(body)
    if mended is None:
        return None
    root = _strict(mended)
    return _recovered(mended) if root is None else root


def _strict(body: bytes) -> etree._Element | None:
    try:
        return etree.fromstring(body, _parser(False))
    except etree.XMLSyntaxError:
        return None


def _recovered(body: bytes) -> etree._Element | None:
    parser = _parser(True)
    try:
        root = etree.fromstring(body, parser)
    except etree.XMLSyntaxError:
        return None
    if root is None or {error.type_name for error in parser.error_log} - _LOSSLESS:
        return None
    return root


_checks: dict[tuple[int, int], tuple[etree.XPath, etree.XPath]] = {}


def check(root: etree._Element, limits: Limits) -> None:
    """Refuse trees beyond the limits.

    Raises:
        ParseError: ``too_large``.
    """
    key = limits.depth, limits.attributes
    if key not in _checks:
        _checks[key] = (
            etree.XPath("/" + "/".join(["*"] * (limits.depth + 1))),
            etree.XPath(f"//*[@*[{limits.attributes + 1}]]"),
        )
    too_deep, too_many = _checks[key]
    if too_deep(root):
        raise ParseError("too_large", f"elements nested deeper than {limits.depth}")
    if too_many(root):
        raise ParseError("too_large", f"an element with more than {limits.attributes} attributes")
