"""Entities that a document declares itself: short texts, expanded within a small budget (security.md X01).

Only internal entities without markup count. Documents beyond the budget are read as if they declared
nothing, so an entity never costs more than the budget.
"""

from __future__ import annotations

import re

#: Most declarations; a document with more (such as a whole table of characters) is left as it is.
_MOST = 100
#: Longest text of an entity, in bytes, with the entities inside it expanded.
_LONGEST = 1024
#: Most bytes that all expansions of a document may add.
_BUDGET = 64 << 10
#: Entities inside an entity, and inside those.
_LEVELS = 2
#: Longest prolog that is searched, in bytes.
_PROLOG = 128 << 10
_NAME = rb"[A-Za-z_][\w.-]{0,63}"
#: Quoted texts and comments are skipped as a whole: a declaration inside them declares nothing.
_DECLARATION = re.compile(
    rb"<!ENTITY\s{1,20}(" + _NAME + rb")\s{1,20}(\"[^\"<]{0,1024}\"|'[^'<]{0,1024}')\s{0,20}>"
    rb"|\"[^\"]*(?:\"|\Z)|'[^']*(?:'|\Z)|<!--(?s:.*?)(?:-->|\Z)"
)
_REFERENCE = re.compile(rb"&(" + _NAME + rb");")
_REFERENCE_IN_TEXT = re.compile(
    rb"<!\[CDATA\[(?s:.*?)(?:\]\]>|\Z)|<!--(?s:.*?)(?:-->|\Z)|&(" + _NAME + rb");"
)
_PREDEFINED = frozenset((b"amp", b"lt", b"gt", b"quot", b"apos"))


def expand_entities(text: bytes, prolog: bytes) -> bytes:
    """Return a document with the entities of its prolog expanded, or unchanged.

    Args:
        text: the document without its prolog.
        prolog: everything before the root element.
    """
    if b"<!ENTITY" not in prolog or len(prolog) > _PROLOG:
        return text
    if prolog.count(b"<!ENTITY") > _MOST or prolog.count(b"<!--") > _MOST:
        return text
    table = _read_table(prolog)
    if not table:
        return text
    found = (table.get(m[1], b"") for m in _REFERENCE_IN_TEXT.finditer(text) if m[1])
    if sum(map(len, found)) > _BUDGET:
        return text
    return _REFERENCE_IN_TEXT.sub(lambda m: table.get(m[1], m[0]) if m[1] else m[0], text)


def _read_table(prolog: bytes) -> dict[bytes, bytes]:
    """Return the texts of the usable entities by name; the first declaration of a name counts."""
    declared: dict[bytes, bytes] = {}
    for found in _DECLARATION.finditer(prolog):
        if found[1] and found[1] not in _PREDEFINED:
            declared.setdefault(found[1], found[2][1:-1])
    texts = {name: _flatten(name, declared, _LEVELS) for name in declared}
    # A quote could end an attribute.
    return {
        name: text.replace(b'"', b"&quot;").replace(b"'", b"&#39;").replace(b">", b"&gt;")
        for name, text in texts.items()
        if text is not None
    }


def _flatten(name: bytes, declared: dict[bytes, bytes], levels: int) -> bytes | None:
    """Return the text of an entity without references to others; None beyond the limits."""
    text = declared[name]
    parts: list[bytes] = []
    at = size = 0
    for found in _REFERENCE.finditer(text):
        if found[1] not in declared:
            continue
        inner = _flatten(found[1], declared, levels - 1) if levels else None
        if inner is None:
            return None
        parts += (text[at : found.start()], inner)
        size += len(inner)
        at = found.end()
        if size > _LONGEST:
            return None
    text = b"".join((*parts, text[at:]))
    return text if len(text) <= _LONGEST else None
