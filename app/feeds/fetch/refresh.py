"""Meta refresh: the target of a page's ``<meta http-equiv=refresh>`` (HTML §4.2.5.3), without a parser.

Only the start of the page and only short tags are searched, so the cost is bounded (X08).
"""

from __future__ import annotations

import html
import re

_LOOK_AT = 1 << 16
_MAX_TAGS = 64
#: A page with a longer delay, in seconds, is meant to be read first.
_MAX_DELAY = 10

_META = re.compile(rb"<meta\s([^<>]{1,3000})>", re.IGNORECASE)
_REFRESH = re.compile(r"""http-equiv\s{0,9}=\s{0,9}["']?refresh\b""", re.IGNORECASE)
_CONTENT = re.compile(r"""content\s{0,9}=\s{0,9}(?:"([^"]*)"|'([^']*)'|([^\s"'>]+))""", re.IGNORECASE)
_TARGET = re.compile(r"\s*([0-9]{1,4})[0-9.]{0,9}\s*[;,]\s*(?:url\s{0,9}=\s{0,9})?(\S.*)", re.IGNORECASE)


def find_meta_refresh(page: bytes) -> str | None:
    """Return where a page redirects its reader at once; None if it doesn't."""
    for number, tag in enumerate(_META.finditer(page[:_LOOK_AT])):
        if number == _MAX_TAGS:
            return None
        text = tag[1].decode("utf-8", "replace")
        content = _CONTENT.search(text) if _REFRESH.search(text) else None
        if content is None:
            continue
        value = html.unescape(content[1] or content[2] or content[3] or "")
        match = _TARGET.fullmatch(value)
        if match and int(match[1]) <= _MAX_DELAY:
            return match[2].strip().strip("'\"").strip() or None
    return None
