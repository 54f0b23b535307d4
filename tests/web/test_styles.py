"""The style sheets of single screens beside those of all pages."""

from __future__ import annotations

import re
from pathlib import Path

CSS = Path(__file__).resolve().parents[2] / "static/css"


def test_screen_styles_leave_classes_of_all_pages_alone() -> None:
    """A screen whose own class has the name of a common one gets the rules of both."""
    common = {name for path in CSS.glob("*.css") for name in _find_bare_classes(path)}
    clashes = {
        (path.name, name)
        for path in CSS.joinpath("screens").glob("*.css")
        for name in _find_bare_classes(path) & common
    }
    # These change a common one on purpose, or the page has no common styles.
    assert clashes == {
        ("feed.css", ".actions"),
        ("shared.css", ".facts"),
        ("shared.css", ".more"),
    }


def _find_bare_classes(path: Path) -> set[str]:
    """Return the classes that a stylesheet styles wherever they stand."""
    text = re.sub(r"/\*.*?\*/", "", path.read_text(), flags=re.S)
    # What stands in ":is(…)" isn't a selector of its own.
    rules = (re.sub(r"\([^()]*\)", "()", rule) for rule in re.findall(r"([^{}]+)\{", text))
    selectors = (one.strip() for rule in rules for one in rule.split(","))
    return {one for one in selectors if re.fullmatch(r"\.[\w-]+", one)}
