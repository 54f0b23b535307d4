"""Markup inside feed elements: escaped, inline, or as Atom's text constructs (RFC 4287 §3.1, §4.1.3)."""

from __future__ import annotations

import base64
import binascii
import html

from lxml import etree

_HTML_TYPES = {"html", "text/html", "application/html"}
_XHTML = "{http://www.w3.org/1999/xhtml}"


def text_of(el: etree._Element) -> str:
    """Return the text of an element; children, which do not belong there, come out as markup."""
    return inner(el) if len(el) else el.text or ""


def inner(el: etree._Element) -> str:
    """Return what is inside an element as HTML, namespaces stripped.

    The leading text stays as it is (publishers who forget to escape a child still escape the rest).
    """
    for child in el.iterdescendants():
        tag = child.tag
        if tag[0] == "{":
            child.tag = tag.rpartition("}")[2]
        elif ":" in tag:
            child.tag = tag.rpartition(":")[2] or "span"
    etree.cleanup_namespaces(el)
    parts = [etree.tostring(child, method="html", encoding="unicode") for child in el]
    return (el.text or "") + "".join(parts)


def xhtml(el: etree._Element) -> str:
    """Return inline XHTML as HTML; the ``div`` that Atom demands around it is taken off."""
    if len(el) == 1 and not (el.text or "").strip() and not (el[0].tail or "").strip():
        child = el[0]
        if child.tag in (_XHTML + "div", "div", "xhtml:div"):
            el = child
    lead = html.escape(el.text or "", quote=False)
    el.text = None
    return lead + inner(el)


def construct(el: etree._Element) -> tuple[str, bool]:
    """Return an Atom text or content construct as (text, it is HTML).

    Reads 1.0's ``type`` (text, html, xhtml or a MIME type) and 0.3's ``mode`` (xml, escaped, base64).
    Content that is not text gives "".
    """
    kind = (el.get("type") or "text").strip().lower()
    if el.get("mode") == "base64":
        return _decoded(el.text or ""), kind in _HTML_TYPES
    if len(el):
        return xhtml(el), True
    text = el.text or ""
    if kind in _HTML_TYPES or kind == "xhtml" or kind.endswith(("+xml", "/xml")):
        return text, True
    if kind in ("text", "plain") or kind.startswith("text/"):
        return text, False
    return _decoded(text) if kind.startswith("html") else "", True


def escape(text: str) -> str:
    """Return plain text as HTML, its line breaks kept."""
    return html.escape(text.strip(), quote=False).replace("\n", "<br>\n")


def _decoded(text: str) -> str:
    try:
        return base64.b64decode(text, validate=False).decode("utf-8", "replace")
    except (binascii.Error, ValueError):
        return ""
