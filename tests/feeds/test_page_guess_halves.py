"""The weights of the guess aren't made for its test pages: half of the pages choose weights, half judge."""

from __future__ import annotations

import functools
import itertools
import random
from typing import Any

from app.errors import ParseError
from app.feeds.pages import guess
from app.feeds.pages.extract import PageTree, read_page
from app.feeds.pages.guess import GUESSES, MAX_TRIED, MIN_SCORE, Row, Weights, is_taken, measure_rows
from app.models.feeds.recipe import Recipe
from tests.feeds.marked_pages import MARKS, read_marked

#: Halves that are drawn, and the values that a weight may take.
DRAWN = 20
VALUES = (0.0, 0.15, 0.3, 0.6, 1.0, 1.5)
#: Says nothing: only the number of entries and the length of their titles count.
NEUTRAL = Weights(1.0, *(0.0,) * 8)


class _Page:
    """A page of the corpus, of which each row is read once."""

    def __init__(self, name: str) -> None:
        self._url, self._body = read_marked(name)
        self._tree = PageTree(self._body, self._url, None)
        self._wanted = set(MARKS[name])
        self._rows = measure_rows(self._tree)
        self._is_right = functools.cache(self._read)

    def _read(self, number: int) -> bool | None:
        """Return whether a row is the list; None: no recipe finds it."""
        selector = guess._build_selector(self._tree, self._rows[number].items)
        try:
            feed = read_page(self._body, Recipe(item=selector), url=self._url) if selector else None
        except ParseError:
            feed = None
        if feed is None:
            return None
        found = {entry.url for entry in feed.entries}
        wanted = self._wanted
        return len(found & wanted) >= 0.95 * len(wanted) and len(found) <= 1.3 * len(wanted) + 1

    @functools.cache  # noqa: B019 — the pages live as long as the test
    def find_place(self, weights: Weights) -> int:
        """Return the place of the list among the guesses, from 1 on; 0: it isn't one of them."""
        rated = [(row.calculate_score(weights), n) for n, row in enumerate(self._rows)]
        best = sorted((one for one in rated if one[0] >= MIN_SCORE), key=lambda one: -one[0])
        taken: list[set[str]] = []
        for _, number in best[:MAX_TRIED]:
            row: Row = self._rows[number]
            if is_taken(row.links, taken) or (is_right := self._is_right(number)) is None:
                continue
            taken.append(row.links)
            if is_right:
                return len(taken)
            if len(taken) == GUESSES:
                break
        return 0


def _count(pages: list[_Page], weights: Weights) -> tuple[int, int]:
    """Return how many lists are among the first three guesses, and how many are the first."""
    places = [page.find_place(weights) for page in pages]
    return sum(place > 0 for place in places), places.count(1)


def _fit(pages: list[_Page]) -> Weights:
    """Return the best weights for these pages, found by changing one weight at a time."""
    best = NEUTRAL
    for _, name in itertools.product(range(2), Weights._fields):
        tried: list[Weights] = [best, *(best._replace(**{name: value}) for value in VALUES)]
        best = max(tried, key=functools.partial(_count, pages))
    return best


def measure_halves() -> dict[str, Any]:
    """Return shares of lists among the first three guesses: in halves that judge, and with our weights."""
    pages = [_Page(name) for name in sorted(MARKS)]
    draw = random.Random(27)
    held, fitted, firsts = list[float](), list[float](), list[float]()
    for _ in range(DRAWN):
        draw.shuffle(pages)
        half = len(pages) // 2
        for chosen, judging in ((pages[:half], pages[half:]), (pages[half:], pages[:half])):
            weights = _fit(chosen)
            fitted.append(_count(chosen, weights)[0] / len(chosen))
            found, first = _count(judging, weights)
            held.append(found / len(judging))
            firsts.append(first / len(judging))
    count = len(held)
    ours, our_firsts = _count(pages, guess.WEIGHTS)
    return {
        "fitted": sum(fitted) / count,
        "held": sum(held) / count,
        "held_first": sum(firsts) / count,
        "worst": min(held),
        "ours": ours / len(pages),
        "ours_first": our_firsts / len(pages),
        "neutral": _count(pages, NEUTRAL)[0] / len(pages),
    }


def test_weights_that_half_of_the_pages_choose_find_the_lists_of_the_other_half() -> None:
    found = measure_halves()
    assert found["held"] >= 0.8, found
    assert found["ours"] - found["held"] <= 0.1, found
