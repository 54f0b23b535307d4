"""The outline of a page, on which a person points at the parts of an entry.

It is a tree of names, classes and texts: no addresses, no scripts, no styles, no markup. So whatever a site
sends, browsers only ever show its words. The nesting is that of the page, because selectors name it.
"""

from __future__ import annotations

import re
from typing import Any, Final

from app.feeds.pages.extract import PageTree

#: Most elements, and most characters of all texts and of one text.
MAX_NODES, MAX_TEXT, MAX_PIECE = 4000, 150_000, 300
#: Most classes of an element, and longest name of a class or an id.
_CLASSES_MAX, _NAME_MAX = 6, 60
#: Deepest nesting that is walked.
_DEPTH_MAX: Final = 60
_LEFT_OUT: Final = frozenset(
    {
        *("script", "style", "noscript", "template", "head", "iframe", "object", "embed", "svg", "canvas"),
        *("audio", "video", "input", "select", "textarea", "button", "option", "dialog", "link", "meta"),
    }
)
_SPACES = re.compile(r"\s+")

#: ``[name, id, classes, children]``; a child is a text or an element. A picture has its text as a child.
Outline = list[Any]


def build_outline(tree: PageTree) -> Outline:
    """Return the outline of a page's body, without elements that show nothing."""
    body = next(iter(tree.root.iter("body")), tree.root)
    return _Builder().build(body, 0) or [str(body.tag), "", "", []]


class _Builder:
    def __init__(self) -> None:
        self._nodes, self._text = MAX_NODES, MAX_TEXT

    def build(self, element: Any, depth: int) -> Outline | None:
        """Return an element; None: it shows nothing, or the page is too long to show more."""
        if self._nodes <= 0 or depth > _DEPTH_MAX:
            return None
        self._nodes -= 1
        children = list[Any]()
        if element.tag == "img":
            children.append(self._take(element.get("alt") or "") or "…")
        else:
            self._add_text(children, element.text)
            for child in element:
                is_shown = isinstance(child.tag, str) and child.tag not in _LEFT_OUT
                if is_shown and (found := self.build(child, depth + 1)) is not None:
                    children.append(found)
                self._add_text(children, child.tail)
        if not children:
            self._nodes += 1
            return None
        classes = [name for name in (element.get("class") or "").split() if len(name) <= _NAME_MAX]
        identifier = element.get("id") or ""
        return [
            str(element.tag),
            identifier if len(identifier) <= _NAME_MAX else "",
            " ".join(classes[:_CLASSES_MAX]),
            children,
        ]

    def _add_text(self, children: list[Any], text: str | None) -> None:
        if text and text.strip() and (taken := self._take(text)):
            children.append(taken)

    def _take(self, text: str) -> str:
        found = _SPACES.sub(" ", text[: 4 * MAX_PIECE]).strip()[: min(MAX_PIECE, self._text)]
        self._text -= len(found)
        return found
