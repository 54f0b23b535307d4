"""Finds the article of a page by the selectors of a rule of the admins.

They are the selectors of :mod:`app.feeds.pages.selectors`, each matched in one pass over the page.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from lxml import etree

from app.errors import InvalidError
from app.feeds.pages.selectors import Selector, parse_selector
from app.models.feeds.recipe import RecipeKind
from app.models.reading.text_rules import TextRule

#: Most selectors of a list, characters of it, and elements that it may select: as many as a page may have.
SELECTORS_MAX: Final = 10
LENGTH_MAX: Final = 500
FOUND_MAX: Final = 50_000
#: A selector in a list; commas within quotes are its own.
_PART: Final = re.compile(r"""(?:"[^"]*"|'[^']*'|[^,])*""")


def check_selectors(text: str, field: str) -> list[Selector]:
    """Return the selectors of a list that is separated by commas.

    Raises:
        InvalidError: one of them isn't understood, or there are too many.
    """
    parts = list(_split(text)) if text.strip() and len(text) <= LENGTH_MAX else []
    if len(parts) > SELECTORS_MAX or len(text) > LENGTH_MAX:
        raise InvalidError("Enter at most %(most)s selectors.", field=field, most=SELECTORS_MAX)
    found = [parse_selector(RecipeKind.CSS, part, field) for part in parts]
    if any(selector.attr or not selector.steps for selector in found):
        raise InvalidError("Enter selectors of elements, such as article.post.", field=field)
    return found


def _split(text: str) -> Iterator[str]:
    at = 0
    while at <= len(text) and (found := _PART.match(text, at)):
        yield found[0].strip()
        at = found.end() + 1  # behind the comma


def apply_rule(tree: etree._Element, rule: TextRule) -> str:
    """Remove what a rule removes from a page, and return the HTML of its article; empty: it isn't there."""
    for element in _find(tree, rule.remove, "remove"):
        parent = element.getparent()
        if parent is not None:
            _drop(element, parent)
    chosen, inside = list[Any](), set[Any]()
    for element in _find(tree, rule.content, "content"):
        if element not in inside:  # parts of one that was chosen come with it
            chosen.append(element)
            inside.update(element.iter())
    return "".join(etree.tostring(one, encoding="unicode", method="html", with_tail=False) for one in chosen)


def _find(tree: etree._Element, text: str, field: str) -> list[Any]:
    """Return the elements in the order of the page."""
    found = list[Any]()
    for selector in check_selectors(text, field):
        found += selector.find_in_page(tree, FOUND_MAX)
    if len(found) < 2:
        return found
    wanted = set(found)
    return [element for element in tree.iter() if element in wanted]


def _drop(element: Any, parent: Any) -> None:
    """Remove an element, but not the text behind it."""
    if element.tail:
        before = element.getprevious()
        if before is not None:
            before.tail = (before.tail or "") + element.tail
        else:
            parent.text = (parent.text or "") + element.tail
    parent.remove(element)
