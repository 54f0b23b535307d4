"""Tag patterns: expressions for tags in unparsed markup, good enough for markup that is parsed later."""

from __future__ import annotations

import functools
import html
import re
from collections.abc import Callable, Mapping

from app.feeds.html.patterns import build_possessive

#: The text between an element's name and the end of its tag; INNER is the same as a group.
INSIDE = build_possessive(r"""[^<>"']++|"[^"<]*"|'[^'<]*'""")
INNER = f"({INSIDE})"
#: The content and the end tag of a link.
LINK_END = "[^<]*+" + build_possessive(r"<(?!/?a[\s/>])[^<]*+") + r"</a\s*+>"
_ATTRIBUTE = re.compile(r"""([^\s"'<>/=]+)(?:\s*+=\s*+(?:"([^"]*)"|'([^']*)'|([^\s"'>]+)))?""")
#: An attribute in a tag that the sanitizer wrote, which escapes quotes in all values.
_WRITTEN = re.compile(r' ([a-z-]+)="([^"]*)"')


def compile_tag_pattern(names: str) -> re.Pattern[str]:
    """Return the expression of a tag; its name (itself an expression) and its inside are groups."""
    return re.compile(rf"<({names})(?=[\s/>]){INNER}>", re.IGNORECASE)


def parse_attributes(inner: str) -> dict[str, str]:
    """Return the attributes by lower-case name; of duplicate names the first counts, as in parsers."""
    found: dict[str, str] = {}
    for name, *values in _ATTRIBUTE.findall(inner):
        found.setdefault(name.lower(), html.unescape("".join(values)).strip())
    return found


def parse_clean_attributes(inner: str) -> dict[str, str]:
    """Return the attributes of a tag that the sanitizer wrote, with their values unchanged."""
    return dict(_WRITTEN.findall(inner))


def write_attributes(attributes: Mapping[str, str]) -> str:
    """Return the inside of a tag, as :func:`parse_clean_attributes` reads it."""
    return "".join([f' {name}="{value}"' for name, value in attributes.items()])


@functools.cache
def _pair(name: str) -> tuple[re.Pattern[str], re.Pattern[str]]:
    flags = re.IGNORECASE | re.DOTALL
    end = rf"</{name}\s*>"
    return re.compile(rf"<{name}(?=[\s/>]){INNER}>(.*?){end}", flags), re.compile(end, flags)


def replace_elements(name: str, markup: str, replacement: Callable[[re.Match[str]], str]) -> str:
    """Return the HTML with a name's elements replaced; groups: inside of the start tag, of the element."""
    whole, end = _pair(name)
    # Only up to the last end tag, so that no unclosed element makes each search run to the end.
    last = max((m.end() for m in end.finditer(markup)), default=0)
    return whole.sub(replacement, markup[:last]) + markup[last:] if last else markup
