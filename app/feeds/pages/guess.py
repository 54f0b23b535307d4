"""Guesses which repeated parts of a page are its list of entries.

Children of one element that hold links in the same place are a row of entries.
Long titles, paragraphs, pictures, headings, dates and deep addresses speak for a
list of entries; names such as "nav" and "footer" speak against it. A person confirms the guess.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from app.errors import InvalidError, ParseError
from app.feeds.pages.budget import Budget
from app.feeds.pages.extract import MAX_ITEMS, PageTree, clean_text, find_main_link, is_link, read_page
from app.feeds.pages.selectors import parse_selector
from app.models.feeds.parsed import ParsedFeed
from app.models.feeds.recipe import SELECTOR_MAX, Recipe, RecipeKind

#: Most links of a page that are examined, elements above each, rows that are rated and selectors built.
MAX_LINKS, MAX_HEIGHT, MAX_ROWS, MAX_TRIED = 3000, 7, 150, 40
#: Budgets of one reading that rating all rows may use: one element is in many rows.
RATED = 4
#: Fewest entries of a list.
FEWEST = 3
#: Guesses that are returned.
GUESSES = 3
#: Lists below this score are navigation nearly always.
MIN_SCORE = 0.1
_AWAY = re.compile(
    r"(?:^|[-_\s])(?:nav|navigation|menu|footer|foot|header|breadcrumbs?|pagination|pager|social|share|sharing"
    r"|sidebar|aside|widget|related|tags?|tagcloud|cookie|legal|comments?|login|lang|languages?|toolbar|secondary"
    r"|recent|popular|most|blogroll|archive-list|categories|cat-item|meta|credits?|partner|sponsor)s?(?:$|[-_\s\d])",
    re.IGNORECASE,
)
_STRONG = re.compile(
    r"(?:^|[-_\s])(?:posts?|entry|entries|articles?|news|item|teaser|story|stories|blog|hentry|card|result|event|list)"
    r"s?(?:$|[-_\s\d])",
    re.IGNORECASE,
)
_DATED = re.compile(r"/(?:19|20)\d\d/\d{1,2}(?:/|$)|(?:19|20)\d\d-\d\d-\d\d")
#: Classes that differ from entry to entry, or that scripts set.
_VARIABLE = re.compile(
    r"\d|^(?:first|last|odd|even|active|current|sticky|clearfix|left|right)$|^(?:tag|category|author|status|format|type)-",
    re.IGNORECASE,
)
_CLASS = re.compile(r"-?[A-Za-z_][\w-]{0,60}")


class Weights(NamedTuple):
    """How much speaks for a row being the list of entries; ``away`` is the power of what speaks against.

    ``few`` is what a row without any title of three words still counts.
    """

    few: float = 0.3
    heading: float = 0.5
    paragraph: float = 0.6
    picture: float = 0.3
    time: float = 0.5
    dated: float = 0.5
    depth: float = 0.2
    away: float = 1.5
    strong: float = 0.3


WEIGHTS = Weights()


@dataclasses.dataclass(frozen=True, slots=True)
class Row:
    """Elements of a page that may be its entries, and what is known of them.

    Attributes:
        links: the addresses of their main links.
        length: letters of a title on average, at most 80 of each.
        shares: how many of them have what a weight is for, 0…1; ``depth``: 0…3 levels of their addresses.
        away: names of elements around them that speak against a list.
        strong: whether a name speaks for a list.
    """

    items: list[Any]
    links: set[str]
    length: float = 0.0
    shares: dict[str, float] = dataclasses.field(default_factory=dict)
    away: int = 0
    strong: bool = False

    def calculate_score(self, weights: Weights = WEIGHTS) -> float:
        """Return how likely this is the list of entries; see :data:`MIN_SCORE`."""
        if len(self.links) < FEWEST:
            return 0.0
        shares = self.shares
        score = math.log2(len(self.links)) * self.length / 20 * (weights.few + shares["titled"])
        score *= 1 + weights.heading * shares["heading"] + weights.paragraph * shares["paragraph"]
        score *= (
            1
            + weights.picture * shares["picture"]
            + weights.time * shares["time"]
            + weights.dated * shares["dated"]
        )
        score *= 1 + weights.depth * shares["depth"]
        against: float = (1 + self.away) ** weights.away
        score /= against
        return score * (1 + weights.strong) if self.strong else score


@dataclasses.dataclass(frozen=True, slots=True)
class Guess:
    """A list that a page may have been made for, and what its recipe reads."""

    recipe: Recipe
    score: float
    feed: ParsedFeed


def guess_lists(
    body: bytes, url: str, content_type: str | None = None, *, limit: int = GUESSES
) -> list[Guess]:
    """Return the most likely lists of a page, the best first.

    Raises:
        ParseError: ``too_large`` or ``empty``.
    """
    tree = PageTree(body, url, content_type)
    scored = [(score, row) for row in measure_rows(tree) if (score := row.calculate_score()) >= MIN_SCORE]
    guesses: list[Guess] = []
    taken: list[set[str]] = []
    for score, row in sorted(scored, key=lambda one: -one[0])[:MAX_TRIED]:
        if is_taken(row.links, taken):
            continue
        selector = _build_selector(tree, row.items)
        if not selector:
            continue
        recipe = Recipe(item=selector)
        try:
            feed = read_page(body, recipe, url=url, content_type=content_type)
        except ParseError:
            continue  # the other lists may be fine
        taken.append(row.links)
        guesses.append(Guess(recipe, round(score, 2), feed))
        if len(guesses) == limit:
            break
    return guesses


def is_taken(links: set[str], taken: Iterable[set[str]]) -> bool:
    """Return whether links are mostly those of a guess: another selector for them isn't a second guess."""
    return any(len(links & other) > 0.6 * min(len(links), len(other)) for other in taken)


def measure_rows(tree: PageTree) -> list[Row]:
    """Return the rows of a page that may be its list, the longest first, as far as the budget reaches."""
    budget, rows = Budget(RATED), list[Row]()
    for items in _find_candidates(tree):
        try:
            rows.append(_measure(tree, items, budget))
        except ParseError:
            break  # the longest rows are measured
    return rows


def _find_candidates(tree: PageTree) -> list[list[Any]]:
    """Return rows of children of one element that hold links in the same place, the longest first."""
    rows: dict[tuple[int, tuple[str, ...]], dict[Any, None]] = defaultdict(dict)
    here = tree.base.partition("#")[0]
    for link in itertools.islice(tree.root.iter("a"), MAX_LINKS):
        if not is_link(link) or tree.resolve(link.get("href")) in ("", here):
            continue
        names = [str(link.tag)]
        child = link
        for parent in itertools.islice(link.iterancestors(), MAX_HEIGHT):
            rows[id(parent), tuple(names)][child] = None
            names.append(_name(parent))
            child = parent
    found = {tuple(map(id, items)): list(items) for items in rows.values() if len(items) >= FEWEST}
    return sorted(found.values(), key=len, reverse=True)[:MAX_ROWS]


def _name(element: Any) -> str:
    found = _stable_classes(element)
    return f"{element.tag}.{found[0]}" if found else str(element.tag)


def _stable_classes(element: Any) -> list[str]:
    classes = (element.get("class") or "").split()
    return [name for name in classes if _CLASS.fullmatch(name) and not _VARIABLE.search(name)]


def _build_selector(tree: PageTree, items: list[Any]) -> str:
    """Return the shortest selector that finds these items and hardly any other; empty: there is none."""
    tag = Counter(item.tag for item in items).most_common(1)[0][0]
    same = [item for item in items if item.tag == tag]
    if len(same) < FEWEST:
        return ""
    shared = set.intersection(*(set(_stable_classes(item)) for item in same))
    order = [name for name in _stable_classes(same[0]) if name in shared]
    own = str(tag) + "".join(f".{name}" for name in order[:2])
    parents = [e for e in same[0].iterancestors() if e.tag not in ("body", "html")]
    wanted = set(map(id, same))
    best, fewest = "", 1.5 * len(same) + 2
    for exact in (False, True):
        parts = [own]
        for element in [None, *parents[:MAX_HEIGHT]]:
            if element is not None:
                parts.append(_describe(element, exact=exact))
            selector = " > ".join(reversed(parts))
            if len(selector) > SELECTOR_MAX:
                break
            try:
                parsed = parse_selector(RecipeKind.CSS, selector)
            except InvalidError:
                break  # no selector has such a name of an element, as "x:card"
            found = parsed.find_in_page(tree.root, MAX_ITEMS + len(same))
            if not wanted <= set(map(id, found)):
                break
            count = len(same) + sum(
                id(item) not in wanted and not _is_beside(item, same[0]) for item in found
            )
            if count == len(same):
                return selector
            if count < fewest:
                best, fewest = selector, count
    return best


def _is_beside(item: Any, one: Any) -> bool:
    """Tell whether an element only lacks the link of those that it stands among, as older entries may."""
    return item.getparent() is one.getparent() and not any(is_link(link) for link in item.iter("a"))


def _describe(element: Any, *, exact: bool) -> str:
    """Return the name of an element with its id or classes; ``exact``: also those that look made up."""
    identifier = element.get("id") or ""
    if _CLASS.fullmatch(identifier) and (exact or not re.search(r"\d", identifier)):
        return f"{element.tag}#{identifier}"
    classes = _stable_classes(element)[: 3 if exact else 1]
    return str(element.tag) + "".join(f".{name}" for name in classes)


def _measure(tree: PageTree, items: list[Any], budget: Budget) -> Row:
    links: dict[str, int] = {}
    marks: Counter[str] = Counter()
    depth = titled = 0
    for item in items:
        link = find_main_link(item, budget)
        if link is None:
            continue
        address = tree.resolve(link.get("href"))
        title = clean_text(link, budget) or (link.get("title") or "")
        heading = next(iter(item.iter("h1", "h2", "h3", "h4", "h5", "h6")), None)
        if heading is not None:
            marks["heading"] += 1
            title = clean_text(heading, budget) or title
        if not address or address in links:
            continue
        links[address] = min(len(title), 80)
        titled += len(title.split()) >= 3
        marks["paragraph"] += any(len(clean_text(p, budget)) > 40 for p in budget.find_elements(item, "p"))
        marks["picture"] += next(iter(item.iter("img")), None) is not None
        marks["time"] += next(iter(item.iter("time")), None) is not None
        marks["dated"] += bool(_DATED.search(address))
        depth += urlsplit(address).path.strip("/").count("/") + bool(urlsplit(address).query)
    count = len(links)
    if count < FEWEST:
        return Row(items, set(links))
    shares = {name: marks[name] / count for name in ("heading", "paragraph", "picture", "time", "dated")}
    shares |= {"titled": titled / count, "depth": min(depth / count, 3)}
    names = " ".join(
        f"{element.tag} {element.get('class') or ''} {element.get('id') or ''} {element.get('role') or ''}"
        for element in (items[0], *items[0].iterancestors())
        if element.tag not in ("body", "html")
    )
    away = len(_AWAY.findall(names)) + sum(
        element.tag in ("nav", "footer", "aside", "header") for element in items[0].iterancestors()
    )
    is_strong = bool(_STRONG.search(names))
    return Row(items, set(links), sum(links.values()) / count, shares, away, is_strong)
