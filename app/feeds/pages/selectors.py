"""Selectors that people type: a part of CSS and XPath, each matched in one pass over the page.

Strangers' selectors run on strangers' pages, and lxml can't interrupt a search. So neither CSS nor XPath is
given to it: a selector is a row of steps, and one pass finds all elements that they reach. The time is the
number of elements times the number of steps, whatever is typed.

CSS: ``tag``, ``*``, ``.class``, ``#id``, ``[attr]`` with ``= ^= $= *= ~=``, and the combinators space and
``>``. XPath: ``/`` and ``//`` with a name or ``*``, and ``[@attr]``, ``[@attr='…']``,
``[contains(@attr,'…')]``, ``[starts-with(@attr,'…')]``, ``[2]``. Both may end with ``@attr`` (CSS, after a
space or alone) or ``/@attr`` (XPath), for the value of an attribute.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import re
from collections.abc import Callable, Iterator
from typing import Any

from app.errors import InvalidError
from app.models.feeds.recipe import RecipeKind

#: Most steps of a selector.
MAX_STEPS = 16
_NAME = r"[A-Za-z_][\w-]*"
_COMPOUND = re.compile(
    rf"""(?P<tag>\*|{_NAME})|\.(?P<class>-?[\w-]+)|\#(?P<id>-?[\w-]+)
    |\[\s*(?P<attr>[\w:-]+)\s*(?:(?P<op>[~^$*]?=)\s*(?:"(?P<double>[^"]*)"|'(?P<single>[^']*)'|(?P<bare>[\w-]+))\s*)?\]""",
    re.VERBOSE,
)
_LAST = re.compile(r"(?:^|(?<=[\s\w\])]))@(?P<attr>[\w:-]+)$")
_XSTEP = re.compile(rf"(?P<slash>//|/)?(?P<tag>\*|{_NAME}|\.)(?P<tests>(?:\[[^\[\]]*\])*)")
_XTEST = re.compile(
    r"""\[\s*(?:(?P<nth>[1-9]\d{0,4})
    |@(?P<attr>[\w:-]+)\s*(?:=\s*(?:"(?P<double>[^"]*)"|'(?P<single>[^']*)')\s*)?
    |(?P<function>contains|starts-with)\(\s*@(?P<of>[\w:-]+)\s*,\s*(?:"(?P<two>[^"]*)"|'(?P<one>[^']*)')\s*\)\s*)\]""",
    re.VERBOSE,
)


@dataclasses.dataclass(frozen=True, slots=True)
class Test:
    """A condition on an attribute; ``op`` is empty if it only has to be there."""

    attr: str
    op: str = ""
    value: str = ""

    def is_true_for(self, element: Any) -> bool:
        """Return whether an element fulfils the condition."""
        found = element.get(self.attr)
        if found is None:
            return False
        match self.op:
            case "":
                return True
            case "=":
                return bool(found == self.value)
            case "~=":
                return self.value in found.split()
            case "^=":
                return bool(self.value) and found.startswith(self.value)
            case "$=":
                return bool(self.value) and found.endswith(self.value)
            case _:
                return bool(self.value) and self.value in found


@dataclasses.dataclass(frozen=True, slots=True)
class Step:
    """One step of a selector.

    Attributes:
        deep: whether it goes to all descendants, not only to children.
        nth: the number of the element among those of its parent that fulfil the tests; 0: any.
    """

    deep: bool
    tag: str
    tests: tuple[Test, ...] = ()
    nth: int = 0

    def is_match(self, element: Any) -> bool:
        """Return whether an element has the name and fulfils the tests."""
        return self.tag in ("*", element.tag) and all(test.is_true_for(element) for test in self.tests)


@dataclasses.dataclass(frozen=True, slots=True)
class Selector:
    """A row of steps; without steps, it is the element itself. ``attr``: the attribute to read, if any."""

    steps: tuple[Step, ...]
    attr: str = ""

    def find_below(self, scope: Any, limit: int, visit: Callable[[], None] | None = None) -> list[Any]:
        """Return the first elements below ``scope`` that the steps reach, in the order of the page.

        Args:
            visit: is called for each element that is looked at.
        """
        return list(itertools.islice(self._walk(iter(scope), visit), limit)) if self.steps else [scope]

    def find_in_page(self, root: Any, limit: int) -> list[Any]:
        """Return the first elements of a page that the steps reach; ``root`` may be one of them."""
        return list(itertools.islice(self._walk(iter([root])), limit)) if self.steps else [root]

    def _walk(self, first: Iterator[Any], visit: Callable[[], None] | None = None) -> Iterator[Any]:
        last = 1 << len(self.steps)
        # Bit n: the first n steps lead to an element. Per level: the bits of the element, those of all
        # elements above, the children to come, and how many children each step has reached.
        stack: list[tuple[int, int, Iterator[Any], dict[int, int]]] = [(1, 1, first, {})]
        while stack:
            own, above, children, counts = stack[-1]
            element = next(children, None)
            if element is None:
                stack.pop()
                continue
            if visit is not None:
                visit()
            if not isinstance(element.tag, str):
                continue  # a comment
            reached = self._reach(element, own, above, counts)
            if reached & last:
                yield element
            stack.append((reached, above | reached, iter(element), {}))

    def _reach(self, element: Any, own: int, above: int, counts: dict[int, int]) -> int:
        reached = 0
        for number, step in enumerate(self.steps):
            if (above if step.deep else own) >> number & 1 and step.is_match(element):
                counts[number] = counts.get(number, 0) + 1
                if step.nth in (0, counts[number]):
                    reached |= 2 << number
        return reached


@functools.lru_cache(maxsize=512)
def parse_selector(kind: RecipeKind, text: str, name: str = "item") -> Selector:
    """Return a typed selector.

    Args:
        name: of the field, for the error.

    Raises:
        InvalidError: it isn't in the part of the language that is understood.
    """
    steps, attr = _parse_css(text) if kind is RecipeKind.CSS else _parse_xpath(text)
    if steps is None or len(steps) > MAX_STEPS:
        raise InvalidError(
            "“%(text)s” isn't a selector that Eventr understands. Use tags, classes and attributes, "
            "such as ul.news > li or //ul[@class='news']/li.",
            field=name,
            text=text[:80],
        )
    return Selector(tuple(steps), attr)


def _parse_css(text: str) -> tuple[list[Step] | None, str]:
    text = text.strip()
    attr = ""
    if found := _LAST.search(text):
        attr, text = found["attr"].lower(), text[: found.start()].strip()
    steps: list[Step] = []
    at, deep = 0, True
    while at < len(text):
        if text[at].isspace() or text[at] == ">":
            gap = re.match(r"[\s>]+", text[at:])
            assert gap is not None  # noqa: S101 — the first character matches
            if gap[0].count(">") > 1 or (not steps and ">" in gap[0]):
                return None, ""
            deep, at = ">" not in gap[0], at + gap.end()
            if at == len(text):
                return None, ""
            continue
        tag, tests, end = _parse_compound(text, at)
        if end == at:
            return None, ""
        steps.append(Step(deep, tag, tuple(tests)))
        at = end
        if at < len(text) and not (text[at].isspace() or text[at] == ">"):
            return None, ""
    return (steps, attr) if steps or attr else (None, "")


def _parse_compound(text: str, at: int) -> tuple[str, list[Test], int]:
    tag, tests, start = "*", list[Test](), at
    while found := _COMPOUND.match(text, at):
        if found["tag"]:
            if at != start:
                break
            tag = found["tag"].lower()
        elif found["class"]:
            tests.append(Test("class", "~=", found["class"]))
        elif found["id"]:
            tests.append(Test("id", "=", found["id"]))
        else:
            value = next((v for v in (found["double"], found["single"], found["bare"]) if v is not None), "")
            tests.append(Test(found["attr"].lower(), found["op"] or "", value))
        at = found.end()
    return tag, tests, at


def _parse_xpath(text: str) -> tuple[list[Step] | None, str]:
    text = text.strip()
    attr = ""
    if found := re.search(r"(?:^|/)@([\w:-]+)$", text):
        attr, text = found[1].lower(), text[: found.start()]
    text = re.sub(r"/text\(\)$", "", text)
    steps: list[Step] = []
    at = 0
    while at < len(text):
        found = _XSTEP.match(text, at)
        if found is None or (at > 0 and not found["slash"]):
            return None, ""
        at = found.end()
        if found["tag"] == ".":
            if steps or found["slash"] or found["tests"]:
                return None, ""
            continue
        tests = _parse_tests(found["tests"])
        if tests is None:
            return None, ""
        steps.append(Step(found["slash"] == "//", found["tag"].lower(), *tests))
    return (steps, attr) if steps or attr or text == "." else (None, "")


def _parse_tests(text: str) -> tuple[tuple[Test, ...], int] | None:
    tests, nth, at = list[Test](), 0, 0
    while at < len(text):
        found = _XTEST.match(text, at)
        if found is None or nth:
            return None  # a test after a number would count anew
        if found["nth"]:
            nth = int(found["nth"])
        elif found["attr"]:
            value = found["double"] if found["double"] is not None else found["single"]
            tests.append(Test(found["attr"].lower(), "" if value is None else "=", value or ""))
        else:
            value = found["two"] if found["two"] is not None else found["one"]
            op = "*=" if found["function"] == "contains" else "^="
            tests.append(Test(found["of"].lower(), op, value or ""))
        at = found.end()
    return tuple(tests), nth
