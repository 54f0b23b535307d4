"""Tags in markup that no HTML parser has seen yet: good enough for what a parser judges afterwards."""

from __future__ import annotations

import html
import re

#: What stands between an element's name and the end of its tag.
INNER = r"""((?:[^<>"']++|"[^"<]*"|'[^'<]*')*+)"""
_ATTRIBUTE = re.compile(r"""([^\s"'<>/=]+)(?:\s*+=\s*+(?:"([^"]*)"|'([^']*)'|([^\s"'>]+)))?""")


def tag(names: str) -> re.Pattern[str]:
    """Return the expression of such a tag: its name (an expression) and what else is in it are groups."""
    return re.compile(rf"<({names})(?=[\s/>]){INNER}>", re.IGNORECASE)


def attributes(inner: str) -> dict[str, str]:
    """Return the attributes by their lower-case names; of two with one name the first, as parsers do."""
    found: dict[str, str] = {}
    for name, *values in _ATTRIBUTE.findall(inner):
        found.setdefault(name.lower(), html.unescape("".join(values)).strip())
    return found
