"""Parts of Atom documents (RFC 4287) that this server publishes."""

from __future__ import annotations

import datetime as dt
import re
from typing import Final

from lxml import etree

NAMESPACE: Final = "http://www.w3.org/2005/Atom"
LANGUAGE: Final = "{http://www.w3.org/XML/1998/namespace}lang"
_NO_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def add_element(parent: etree._Element, tag: str, text: str, **attributes: str) -> etree._Element:
    """Append an Atom element with a text, and return it."""
    node = etree.SubElement(parent, f"{{{NAMESPACE}}}{tag}", attributes)
    node.text = clean_text(text)
    return node


def add_author(parent: etree._Element, name: str, url: str = "") -> None:
    """Append an author."""
    node = etree.SubElement(parent, f"{{{NAMESPACE}}}author")
    add_element(node, "name", name)
    if url:
        add_element(node, "uri", url)


def add_link(
    parent: etree._Element, rel: str, url: str, media_type: str = "", **attributes: str
) -> etree._Element:
    """Append a link, and return it."""
    node = etree.SubElement(parent, f"{{{NAMESPACE}}}link", rel=rel, href=clean_text(url))
    if media_type:
        node.set("type", clean_text(media_type))
    for name, value in attributes.items():
        node.set(name, clean_text(value))
    return node


def clean_text(text: str) -> str:
    """Return the text without characters that XML can't hold."""
    return _NO_XML.sub("", text)


def format_time(when: dt.datetime) -> str:
    """Return a time in RFC 3339, in UTC, to the second."""
    return when.astimezone(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
