"""Large trees: a page shows a part of the feeds and leads to the rest."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from flask import Flask

from app.models.reading.stream import Tree, TreeFeed, TreeFolder
from app.web.view import i18n
from app.web.view.tree import BRANCH_LINES, PART_LINES, WHOLE_LINES, Icons, TreeRenderer

ICONS = Icons("en", "<svg></svg>", "<svg></svg>")
#: The target for a page is 150 kB; the rest of it, with 50 rows, takes up to 85.
BYTES_MAX = 65_000
MANY = 10_000


@pytest.fixture(autouse=True)
def request_context() -> Iterator[None]:
    app = Flask(__name__)
    i18n.install(app)
    with app.test_request_context("/"):
        yield


def _make_feeds(first: int, count: int, unread: frozenset[int] = frozenset()) -> tuple[TreeFeed, ...]:
    ids = range(first, first + count)
    return tuple(TreeFeed(n, f"Notes of site {n}", None, None, int(n in unread), None, ()) for n in ids)


def _make_tree(loose: int, folders: int = 0, unread: frozenset[int] = frozenset()) -> Tree:
    """Return a tree with feeds from 1 on the top level, and others from 100,001 in folders of ten."""
    made = (
        TreeFolder(n, f"Folder {n}", None, 0, _make_feeds(100_001 + 10 * n, 10, unread), ())
        for n in range(1, folders + 1)
    )
    return Tree(tuple(made), _make_feeds(1, loose, unread), len(unread), None)


def _render(tree: Tree, current: str = "all", *, whole: bool = False) -> str:
    return str(TreeRenderer(20_000).render(1, tree, current, ICONS, whole=whole))


def _shown(html: str) -> list[int]:
    return [int(n) for n in re.findall(r'data-feed="(\d+)"', html)]


def test_a_usual_tree_is_whole() -> None:
    html = _render(_make_tree(WHOLE_LINES))
    assert len(_shown(html)) == WHOLE_LINES
    assert "/subscriptions" not in html


@pytest.mark.parametrize(("loose", "folders"), [(MANY, 0), (0, MANY // 10), (MANY // 2, 100)])
def test_a_large_tree_stays_small_and_leads_to_the_rest(loose: int, folders: int) -> None:
    tree = _make_tree(loose, folders)
    html = _render(tree)
    shown = _shown(html)
    assert len(shown) == PART_LINES
    assert shown == [n for n in _shown(_render(tree, whole=True)) if n in set(shown)]
    left = re.findall(r'href="/subscriptions\?folder=(\d+)"><span>([\d,]+) more', html)
    assert sum(int(count.replace(",", "")) for _, count in left) == loose + 10 * folders - PART_LINES
    assert ("0" in dict(left)) == (loose > 0)
    assert html.count('class="folder"') == folders
    # Each folder is a line, too, and can't be left out.
    assert len(html.encode()) < BYTES_MAX + 500 * folders


def test_the_current_feed_or_folder_is_in_a_large_tree() -> None:
    tree = _make_tree(MANY, 100)
    shown = _shown(html := _render(tree, f"feed/{MANY - 5}"))
    assert 'data-feed="9995" aria-current="page"' in html
    assert {MANY - 5 - BRANCH_LINES // 2, MANY} <= set(shown)
    assert len(shown) == PART_LINES
    assert set(range(100_991, 101_001)) <= set(_shown(_render(tree, "folder/99")))


def test_feeds_with_unread_entries_come_first_in_a_large_tree() -> None:
    unread = frozenset(range(9_000, 9_200))
    assert unread <= set(_shown(_render(_make_tree(MANY, unread=unread))))


def test_one_renderer_keeps_parts_of_different_streams_apart() -> None:
    renderer, tree = TreeRenderer(20_000), _make_tree(MANY)
    for current, whole in (("all", False), ("feed/9000", False), ("all", True), ("all", False)):
        assert str(renderer.render(1, tree, current, ICONS, whole=whole)) == _render(
            tree, current, whole=whole
        )
