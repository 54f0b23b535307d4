"""A search that found nothing says which of its parts did, with few further searches."""

from __future__ import annotations

import pytest

from app.errors import ForbiddenError, SearchUnavailableError
from app.models.accounts.actor import Actor, Permission
from app.models.reading.stream import Page, StreamQuery
from app.services.reading import wider_searches
from tests.reading.test_search import library
from tests.support.database import World

__all__ = ["library"]


def _find(world: World, actor: Actor, query: str) -> list[tuple[str, str, int]]:
    found = world.services.wider_searches.find_wider(actor, query)
    return [(one.without, one.query, one.count) for one in found]


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("sea tag:gone", [("tag:gone", "sea", 2)]),
        ("ice tag:gone feed:sport", [("tag:gone", "ice feed:sport", 1)]),
        ("title:melting", [("title:", "melting", 1)]),
        ("hockey cores", [("hockey", "cores", 1), ("cores", "hockey", 1)]),
        ("hockey cores melting", [("", word, 1) for word in ("hockey", "cores", "melting")]),
        ("nothing", []),
        ("nothing tag:gone", []),
    ],
)
def test_the_part_that_found_nothing_is_named(
    library: World, alice: Actor, query: str, found: list[tuple[str, str, int]]
) -> None:
    assert _find(library, alice, query) == found


def test_only_so_many_results_are_counted(
    library: World, alice: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wider_searches, "COUNTED_MAX", 1)
    (found,) = library.services.wider_searches.find_wider(alice, "sea tag:gone")
    assert (found.count, found.is_more) == (1, True)


def test_only_so_many_searches_run(library: World, alice: Actor, monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[str] = []
    load = library.services.reading.load_page

    def load_page(actor: Actor, query: StreamQuery) -> Page:
        tried.append(query.ref.query)
        assert query.once, "nothing is stored"
        return load(actor, query)

    monkeypatch.setattr(library.services.reading, "load_page", load_page)
    _find(library, alice, " ".join(f"word{n}" for n in range(20)))
    assert len(tried) == wider_searches.TRIES_MAX
    tried.clear()
    monkeypatch.setattr(wider_searches, "SECONDS_MAX", 0.0)
    assert _find(library, alice, "sea tag:gone") == []
    assert tried == []


def test_without_an_index_nothing_is_said(
    library: World, alice: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    def load_page(actor: Actor, query: StreamQuery) -> Page:
        raise SearchUnavailableError

    monkeypatch.setattr(library.services.reading, "load_page", load_page)
    assert _find(library, alice, "sea tag:gone") == []


def test_a_token_that_may_not_read_finds_nothing(library: World, alice: Actor) -> None:
    limited = Actor(alice.user_id, limits=frozenset({Permission.SUBSCRIPTION_SEE}))
    with pytest.raises(ForbiddenError):
        library.services.wider_searches.find_wider(limited, "sea")
