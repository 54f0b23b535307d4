"""Hidden content: what a page hides from its readers stays hidden, and doesn't come to light as text.

The sanitizer marks such elements while it drops their styles; :func:`remove_hidden` removes them from its
output, where each element has its end tag.
"""

from __future__ import annotations

import re
from typing import NamedTuple

#: Attributes that may hide an element. They are only read if :func:`is_needed`.
NAMES = frozenset(["hidden", "style", "aria-hidden"])
#: Most characters of markup that only screen readers skip. More is probably the whole page behind a dialog.
MAX_DECORATION = 1000

#: Signs of hidden content in lower-case HTML. Each begins with a word, which the search finds fast.
_SIGNS = tuple(
    re.compile(sign)
    for sign in (
        r"hidden(?<=[\s-]hidden)(?=[\s=>/])",
        r"display\s*+:\s*+none",
        r"visibility\s*+:\s*+(?:hidden|collapse)",
        r"mso-hide\s*+:\s*+all",
    )
)
_NOT_SHOWN = re.compile(r"(?:^|[;\s])(?:display\s*+:\s*+none|mso-hide\s*+:\s*+all)", re.IGNORECASE)
_INVISIBLE = re.compile(r"(?:^|[;\s])visibility\s*+:\s*+(?:hidden|collapse)", re.IGNORECASE)
_TAG = re.compile(r"<(/?)([a-z0-9-]+)((?: [^<>]*)?)>")
_MARK = re.compile(r' (?:hidden|style|aria-hidden)="([a-z]*)"')
_VOID = frozenset(["br", "col", "hr", "img", "source", "wbr"])
#: Pictures of these attributes wait for a script, which also shows them.
_LAZY = " data-"
#: KaTeX hides its visual copy from screen readers even where it is the only one.
_ONLY_COPY = re.compile(r'(class="katex-html") aria-hidden="true"')


def is_needed(markup: str) -> bool:
    """Return whether published HTML may hide anything."""
    lower = markup.lower()
    return any(sign.search(lower) for sign in _SIGNS)


def show_only_copies(markup: str) -> str:
    """Return published HTML with formulas that exist only as visual pieces not hidden."""
    return _ONLY_COPY.sub(r"\1", markup)


def find_mark(tag: str, name: str, value: str) -> str | None:
    """Return the mark of an attribute that hides its element, else None."""
    if name == "hidden":
        return None if value.lower() == "until-found" else "yes"
    if name == "aria-hidden":
        return "aside" if value.strip().lower() == "true" and tag != "img" else None
    if _NOT_SHOWN.search(value) or (tag != "img" and _INVISIBLE.search(value)):
        return "yes"
    return None


def remove_hidden(markup: str) -> str:
    """Return sanitized HTML without marked elements and marks.

    Elements that are hidden only from screen readers stay if they contain pictures or much text.
    """
    return _Remover(markup).run() if _MARK.search(markup) else markup


class _Open(NamedTuple):
    """A marked element that is open: its depth, its mark, the parts kept before it, and its start."""

    depth: int
    mark: str
    before: int
    begin: int


class _Remover:
    """One pass over the tags of sanitized HTML."""

    def __init__(self, markup: str) -> None:
        self._markup = markup
        self._kept: list[str] = []
        self._at = 0  # up to here, the markup is kept or removed
        self._depth = 0
        self._pictured = -1  # the deepest element that contains a picture
        self._open: list[_Open] = []

    def run(self) -> str:
        for tag in _TAG.finditer(self._markup):
            if tag[1]:
                self._end(tag)
            else:
                self._start(tag)
        return "".join(self._kept) + self._markup[self._at :]

    def _start(self, tag: re.Match[str]) -> None:
        name, given = tag[2], tag[3]
        marks = _MARK.findall(given) if given else []
        is_void = name in _VOID
        if name == "img" and "yes" not in marks:
            self._pictured = self._depth
        if marks:
            self._keep_up_to(tag)
            if not is_void:
                mark = "yes" if "yes" in marks else "aside"
                self._open.append(_Open(self._depth, mark, len(self._kept), tag.end()))
            if not is_void or "yes" not in marks or _LAZY in given:
                self._kept.append(f"<{name}{_MARK.sub('', given)}>")
        self._depth += not is_void

    def _end(self, tag: re.Match[str]) -> None:
        self._depth -= 1
        if self._open and self._open[-1].depth == self._depth:
            element = self._open.pop()
            self._keep_up_to(tag)
            is_long = tag.start() - element.begin > MAX_DECORATION
            if element.mark == "aside" and (self._pictured > self._depth or is_long):
                self._kept.append(tag[0])
            else:
                del self._kept[element.before :]
        self._pictured = min(self._pictured, self._depth)

    def _keep_up_to(self, tag: re.Match[str]) -> None:
        self._kept.append(self._markup[self._at : tag.start()])
        self._at = tag.end()
