"""Markup inside feed elements: escaped, inline, or in Atom's text constructs (RFC 4287 §3.1, §4.1.3)."""

from __future__ import annotations

import base64
import binascii
import html
import re
from collections.abc import Callable
from itertools import pairwise

from lxml import etree

from app.feeds.html.text import ELEMENTS

_XHTML_DIV = "{http://www.w3.org/1999/xhtml}div"
_VOID_ENDS = (
    "</br>", "</img>", "</hr>", "</input>", "</source>", "</area>", "</wbr>", "</col>", "</embed>",
    "</param>", "</track>", "</link>", "</meta>", "</base>",
)  # fmt: skip
#: A valid element name: the rest of a name after an undeclared prefix may be invalid.
_NAME = re.compile(r"[A-Za-z][\w.\-]{0,60}", re.ASCII)
#: A quick search for tags that aren't elements; common elements come first, because all texts are searched.
_USUAL = "p a br span li div img code em strong ul td"
_STRAY = re.compile(
    rf"<(?=[A-Za-z])(?!(?:{'|'.join(dict.fromkeys([*_USUAL.split(), *ELEMENTS]))})[\s/>])", re.ASCII
)
_TAG = re.compile(r"<([A-Za-z][^\s/<>]*+)([^<>]*+>?)")
_END = re.compile(r"</([A-Za-z][^\s/<>]*+)")
#: Elements of other vocabularies: "x-foo", "o:p".
_FOREIGN = re.compile(r"[a-z][\w.]{0,60}-[\w.-]{0,60}|[a-z][\w.-]{0,60}:[a-z][\w.-]{0,60}", re.ASCII)
#: Text that only follows an element's name: an attribute, or the "/>" of an empty element.
_CERTAIN = re.compile(r"""\s[A-Za-z:_-]{1,60}=["']|\A\s*/>""")
#: Without the no-break space, which may be half of a character that was encoded twice.
_SPACE = " \t\r\n"
_NO_BREAK = "\xa0"
#: Most spaces of indentation that are kept.
MAX_INDENT = 40
#: A web address in HTML text; a character reference of a bracket, quote or space ends it.
_ADDRESS = re.compile(
    r"(?<![\w@/:.=-])(?:https?://|www\.(?=[\w-]+\.[a-z]))[^\s<>\"&]"
    r"(?:[^\s<>\"&]|&(?!(?:lt|gt|quot|nbsp|apos|#0*(?:34|39|60|62|160));)){0,2000}",
    re.IGNORECASE,
)
#: Signs that end a sentence, not an address.
_AFTER = ".,;:!?)]}'’»”…*_"
_ANY_TAG = re.compile(r"<[A-Za-z/!?]")
#: The beginning of an item of a list or of a table of times.
_MARK = re.compile(r"[-*+•·‣▪–—]\s|\(?\d{1,3}[.)]\s|[(\[]?\d{1,2}:\d\d\b")
#: Line widths at which programs wrap text; longer lines are paragraphs, shorter ones intentional.
_WIDTHS = range(60, 101)
#: Elements with which an article in HTML begins and ends.
_BLOCKS = (
    "address|article|aside|blockquote|center|dd|details|div|dl|dt|figcaption|figure|footer|h[1-6]|header|li"
    "|main|nav|ol|p|pre|section|table|ul"
)
_BLOCK_START = re.compile(rf"\s{{0,100}}<(?:{_BLOCKS})(?=[\s>])[^<>]{{0,2000}}>", re.IGNORECASE)
_BLOCK_END = re.compile(rf"</(?:{_BLOCKS})\s{{0,9}}>\Z", re.IGNORECASE)
_LONGEST_END_TAG = 24
_REFERENCE = re.compile(r"&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});")
_BASE64 = re.compile(r"[A-Za-z0-9+/]+={0,2}")
#: Types whose files never are text.
_NO_TEXT = ("image/", "audio/", "video/", "font/")
#: A shorter text may be a word that happens to look like Base64.
_LONGEST_WORD = 64


def get_text(el: etree._Element) -> str:
    """Return the text of an element; unexpected children are returned as markup."""
    return get_inner_html(el) if len(el) else el.text or ""


def get_inner_html(el: etree._Element) -> str:
    """Return the content of an element as HTML, without namespaces.

    Publishers who forget to escape one child still escape the rest: text with tags in it is markup.
    """
    return _join_children(el, _loose)


def _join_children(el: etree._Element, convert: Callable[[str], str]) -> str:
    """Return the children of an element as HTML, and the text between them converted to HTML."""
    _strip_namespaces(el)
    parts = [convert(el.text or "")]
    for child in list(el):
        tail = child.tail or ""
        child.tail = ""
        parts += (_serialised([child]), convert(tail))
    return "".join(parts)


def read_xhtml(el: etree._Element) -> str:
    """Return inline XHTML as HTML, without the ``div`` that Atom requires around it."""
    if len(el) == 1 and not (el.text or "").strip() and not (el[0].tail or "").strip():
        if el[0].tag == _XHTML_DIV and not el[0].prefix:
            return _inside_div(el[0])
        if el[0].tag.rpartition("}")[2] == "div":
            el = el[0]
    _strip_namespaces(el)
    return html.escape(el.text or "", quote=False) + _serialised(list(el))


def _inside_div(div: etree._Element) -> str:
    """Serialize unprefixed XHTML without touching each element: only the div shows its namespace."""
    div.attrib.clear()
    text = etree.tostring(div, method="html", encoding="unicode", with_tail=False)
    text = text[text.index(">") + 1 : -len("</div>")]
    # libxml2 only recognizes HTML's void elements without a namespace
    for end in _VOID_ENDS if "</" in text else ():
        if end in text:
            text = text.replace(end, "")
    return text


def _serialised(children: list[etree._Element]) -> str:
    """Return elements as HTML; a separate parent keeps the feed's namespaces out."""
    holder = etree.Element("x")
    holder.extend(children)
    return etree.tostring(holder, method="html", encoding="unicode")[3:-4]


def _strip_namespaces(el: etree._Element) -> None:
    for child in el.iterdescendants():
        tag = child.tag
        if tag[0] == "{" or ":" in tag:
            local = tag.rpartition("}")[2].rpartition(":")[2]
            child.tag = local if _NAME.fullmatch(local) else "span"
    etree.cleanup_namespaces(el)


def _loose(text: str) -> str:
    if "<" not in text or "</" in text or "/>" in text or "<br" in text:
        return text
    return text.replace("<", "&lt;")


def escape_stray_brackets(markup: str) -> str:
    """Return HTML with each "<" escaped that begins no tag: ``n<m``, ``List<T>``, ``<jane@example.org>``.

    Publishers forget to escape plain text, and the text up to the next ``>`` would be lost. Text with end
    tags looks the same in browsers, so its author would have noticed, except in formulas (``$n<m$``).
    """
    # Checking each tag of all texts would take a twentieth of the parsing time.
    if "<" not in markup or ("</" in markup and "$" not in markup) or not _STRAY.search(markup):
        return markup
    ends = {name.lower() for name in _END.findall(markup)}
    return _TAG.sub(lambda m: m[0] if _is_tag(m[1].lower(), m[2], ends) else f"&lt;{m[0][1:]}", markup)


def _is_tag(name: str, rest: str, ends: set[str]) -> bool:
    if not rest:
        return False
    known = name in ELEMENTS or name in ends or _FOREIGN.fullmatch(name)
    return bool(known or _CERTAIN.search(rest))


def read_text_construct(el: etree._Element) -> tuple[str, bool]:
    """Return an Atom text or content construct as (text, whether it is HTML).

    Reads ``type`` of 1.0 (text, html, xhtml or a MIME type) and ``mode`` of 0.3 (xml, escaped, base64).
    """
    kind = el.get("type")
    if len(el) == 0 and el.get("mode") is None:
        text = el.text or ""
        if kind == "html":
            return text, True
        if kind == "text" or (kind is None and not el.attrib):
            return text, "</" in text and is_html_document(text)
    kind = kind or _read_attribute(el, "type") or "text"
    if (_read_attribute(el, "mode") or "").strip().lower() == "base64":
        return _decoded(el.text or ""), _is_html(kind)
    if len(el) == 0:
        return interpret_text(el.text or "", kind)
    direct = (el.text, *(child.tail for child in el))
    if "xhtml" not in kind.lower() and _is_html(kind) and any(text and has_markup(text) for text in direct):
        return _join_children(el, str), True
    return read_xhtml(el), True


def interpret_text(text: str, kind: str) -> tuple[str, bool]:
    """Return the text of a construct without child elements as (text, whether it is HTML).

    Publishers confuse the types. So the text itself decides if its type is unknown, or if a "text" is a
    whole HTML document. Pictures and other files aren't text and give "".

    Args:
        text: with XML's escapes undone.
        kind: the attribute ``type``, as written.
    """
    kind = kind.partition(";")[0].strip().lower()
    if _is_html(kind) or kind.endswith(("+xml", "/xml")):
        return text, True
    if kind in ("text", "plain") or kind.startswith("text/"):
        return text, is_html_document(text)
    if "/" in kind:
        text = _read_file(text, kind)
    return text, has_markup(text)


def is_html_document(text: str) -> bool:
    """Return whether a text begins with a block element of HTML and ends with the end tag of one."""
    return "</" in text and bool(
        _BLOCK_START.match(text) and _BLOCK_END.search(text.rstrip()[-_LONGEST_END_TAG:])
    )


def has_markup(text: str) -> bool:
    """Return whether a text contains a tag of HTML, or a character reference."""
    if "&" in text and _REFERENCE.search(text):
        return True
    return "<" in text and bool(_ANY_TAG.search(escape_stray_brackets(text)))


def _is_html(kind: str) -> bool:
    return "html" in kind.lower()


def _read_attribute(el: etree._Element, name: str) -> str | None:
    """Return the value of an attribute whose name may be written in capitals."""
    value = el.get(name)
    if value is None and el.attrib:
        return next((str(text) for key, text in el.attrib.items() if str(key).lower() == name), None)
    return value


def _read_file(text: str, kind: str) -> str:
    """Return the text of a file in Base64 (RFC 4287 §4.1.3.3), "" if it isn't text; other text as it is."""
    packed = "".join(text.split())
    if len(packed) % 4 or not _BASE64.fullmatch(packed):
        return text
    if kind.startswith(_NO_TEXT):
        return ""
    try:
        return base64.b64decode(packed).decode("utf-8")
    except ValueError:
        return "" if len(packed) > _LONGEST_WORD else text


def escape_text(text: str) -> str:
    """Return plain text as HTML with its line breaks, its indentation, and links for its addresses."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n").rstrip().split("\n")
    while lines and not lines[0].strip():
        del lines[0]
    indented = [_indent(line) for line in lines]
    least = min((spaces for spaces, words in indented if words), default=0)
    text = "<br>\n".join(_NO_BREAK * min(spaces - least, MAX_INDENT) + words for spaces, words in indented)
    return link_addresses(text)


def _indent(line: str) -> tuple[int, str]:
    """Return the indentation of a line in spaces, and the escaped rest."""
    words = line.strip(_SPACE)
    before = line[: line.find(words[0])] if words else ""
    return len(before.expandtabs(4)), html.escape(words, quote=False)


def link_addresses(text: str) -> str:
    """Return HTML without tags with its web addresses as links."""
    return _ADDRESS.sub(_link, text)


def _link(found: re.Match[str]) -> str:
    address = found[0]
    end = len(address.rstrip(_AFTER))
    # A bracket that was opened in the address belongs to it.
    if address[end : end + 1] == ")" and address.count("(", 0, end) > address.count(")", 0, end):
        end += 1
    address, rest = address[:end], address[end:]
    target = address if "://" in address[:8] else f"https://{address}"
    return f'<a href="{target}">{address}</a>{rest}'


def keep_line_breaks(text: str) -> str:
    """Return HTML unchanged, and plain text (text without tags) with its line breaks as ``<br>`` and links.

    In wrapped or indented text only intentional breaks count: blank lines, lists
    and timestamps.
    """
    text = text.strip(_SPACE)
    if "</" in text or ("<" in text and _ANY_TAG.search(escape_stray_brackets(text))):
        return text
    if "\n" in text:
        text = _break_lines(text)
    # Before there are tags: beside tags, a bracket would count as one.
    return link_addresses(escape_stray_brackets(text)) if "://" in text or "www." in text else text


def _break_lines(text: str) -> str:
    lines = [line.rstrip(_SPACE) for line in text.split("\n")]
    wrapped = _are_wrapped(lines)
    parts = [lines[0]]
    for before, line in pairwise(lines):
        words = line.lstrip(_SPACE)
        if not words:
            continue
        if not before:
            parts.append("<br>\n<br>\n")
        else:
            is_soft = (wrapped or line.startswith("  ")) and not _MARK.match(words)
            parts.append("\n" if is_soft else "<br>\n")
        parts.append(words)
    return "".join(parts) if "<br>\n" in parts or "<br>\n<br>\n" in parts else text


def _are_wrapped(lines: list[str]) -> bool:
    """Return whether no line had room for the first word of the next line."""
    width = max(map(len, lines))
    return width in _WIDTHS and all(
        len(before) + 1 + len(line.partition(" ")[0]) > width
        for before, line in pairwise(lines)
        if before and line and not _MARK.match(line)
    )


def _decoded(text: str) -> str:
    try:
        return base64.b64decode(text, validate=False).decode("utf-8", "replace")
    except (binascii.Error, ValueError):
        return ""
