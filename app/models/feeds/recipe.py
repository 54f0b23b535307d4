"""Recipes: how the entries of a feed are read from a page that isn't a feed. Pure.

A recipe is the end of a feed's address, after :data:`MARK`. So those who choose the same recipe for the same
page share the feed, and lists of subscriptions in OPML carry it to other servers. Sites never see it,
because it is a fragment.
"""

from __future__ import annotations

import dataclasses
import enum
from urllib.parse import parse_qsl, quote, urlencode

from app.errors import InvalidError

#: Between the address of a page and its recipe.
MARK = "#eventr-page:"
#: Characters of the longest selector, and of the longest address with a recipe.
SELECTOR_MAX, ADDRESS_MAX = 200, 2048


class RecipeKind(enum.StrEnum):
    """The language of a recipe's selectors."""

    CSS = "css"
    XPATH = "xpath"
    JSON = "json"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """Selectors of a page's entries; those other than ``item`` are relative to it.

    Attributes:
        item: selects the entries.
        title, link, date, author, body, image: select their parts; empty: the usual places.
    """

    kind: RecipeKind = RecipeKind.CSS
    item: str
    title: str = ""
    link: str = ""
    date: str = ""
    author: str = ""
    body: str = ""
    image: str = ""

    @property
    def parts(self) -> dict[str, str]:
        """The selectors that are set, by the name of the part."""
        names = ("item", "title", "link", "date", "author", "body", "image")
        return {name: value for name in names if (value := getattr(self, name))}

    def to_fragment(self) -> str:
        """Return the end of an address that :func:`split_recipe` reads; equal recipes give equal ends."""
        kind = {} if self.kind is RecipeKind.CSS else {"kind": self.kind.value}
        return MARK + urlencode(kind | self.parts, quote_via=quote, safe="")


def add_recipe(url: str, recipe: Recipe) -> str:
    """Return the address of the feed that a recipe reads from a page.

    Raises:
        InvalidError: a selector is missing or too long.
    """
    if not recipe.item:
        raise InvalidError("Enter a selector for the entries.", field="item")
    for name, value in recipe.parts.items():
        if len(value) > SELECTOR_MAX or not value.isprintable():
            raise InvalidError(
                "Enter a selector of at most %(most)s characters in one line.", field=name, most=SELECTOR_MAX
            )
    address = url.partition("#")[0] + recipe.to_fragment()
    if len(address) > ADDRESS_MAX:
        raise InvalidError("These selectors are too long together. Shorten them.", field="item")
    return address


def split_recipe(url: str) -> tuple[str, Recipe | None]:
    """Return the address of a page and its recipe; None: the address has none."""
    page, mark, text = url.partition(MARK)
    if not mark:
        return url, None
    known = {field.name for field in dataclasses.fields(Recipe)}
    found = {name: value[:SELECTOR_MAX] for name, value in parse_qsl(text) if name in known}
    kind = found.pop("kind", "")
    if not found.get("item"):
        return page, None
    valid = kind if kind in tuple(RecipeKind) else RecipeKind.CSS
    return page, Recipe(kind=RecipeKind(valid), **found)


def get_fragment(url: str) -> str:
    """Return the end of an address that is a recipe in its one form; empty: it has none."""
    recipe = split_recipe(url)[1]
    return recipe.to_fragment() if recipe else ""
