"""Tags in markup that no HTML parser has seen yet: good enough for what a parser judges afterwards."""

from __future__ import annotations

import functools
import html
import re
from collections.abc import Callable, Mapping

from app.feeds.html.patterns import build_possessive

#: What stands between an element's name and the end of its tag; the second as a group.
INSIDE = build_possessive(r"""[^<>"']++|"[^"<]*"|'[^'<]*'""")
INNER = f"({INSIDE})"
_ATTRIBUTE = re.compile(r"""([^\s"'<>/=]+)(?:\s*+=\s*+(?:"([^"]*)"|'([^']*)'|([^\s"'>]+)))?""")
#: In a tag that the sanitiser wrote, where quotes are escaped in all values.
_WRITTEN = re.compile(r' ([a-z-]+)="([^"]*)"')


def compile_tag_pattern(names: str) -> re.Pattern[str]:
    """Return the expression of such a tag: its name (an expression) and what else is in it are groups."""
    return re.compile(rf"<({names})(?=[\s/>]){INNER}>", re.IGNORECASE)


def parse_attributes(inner: str) -> dict[str, str]:
    """Return the attributes by their lower-case names; of two with one name the first, as parsers do."""
    found: dict[str, str] = {}
    for name, *values in _ATTRIBUTE.findall(inner):
        found.setdefault(name.lower(), html.unescape("".join(values)).strip())
    return found


def parse_clean_attributes(inner: str) -> dict[str, str]:
    """Return the attributes of a tag that the sanitiser wrote, with their values as they stand there."""
    return dict(_WRITTEN.findall(inner))


def write_attributes(attributes: Mapping[str, str]) -> str:
    """Return the inside of a tag, as :func:`written` reads it."""
    return "".join([f' {name}="{value}"' for name, value in attributes.items()])


@functools.cache
def _pair(name: str) -> tuple[re.Pattern[str], re.Pattern[str]]:
    flags = re.IGNORECASE | re.DOTALL
    end = rf"</{name}\s*>"
    return re.compile(rf"<{name}(?=[\s/>]){INNER}>(.*?){end}", flags), re.compile(end, flags)


def replace_elements(name: str, markup: str, replacement: Callable[[re.Match[str]], str]) -> str:
    """Return the HTML with elements of a name replaced; groups: inside of the start tag, of the element."""
    whole, end = _pair(name)
    # Only up to the last end tag, so that no unclosed one makes each search run to the end.
    last = max((m.end() for m in end.finditer(markup)), default=0)
    return whole.sub(replacement, markup[:last]) + markup[last:] if last else markup
