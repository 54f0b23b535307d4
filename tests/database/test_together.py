"""Short lists that a page reads in one command."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from app.bootstrap.services import Services
from app.models.accounts.actor import Actor
from app.models.reading.stream import StreamQuery, StreamRef
from app.runtime import identity_map
from tests.support.commands import build_logged_services
from tests.support.reader import add_user, follow

ALL = StreamRef.parse("all")


@pytest.fixture
def ann(services: Services) -> Actor:
    ann = add_user(services, "ann")
    (feed,) = follow(services, ann, ["feeds/rss/zerokspot.com-71d236.xml"])
    for name in ("b", "a"):
        services.folders.create(ann, name)
        services.tags.save_search(ann, name, "words")
    entry = services.reading.load_page(ann, StreamQuery(StreamRef.parse(f"feed/{feed}"))).rows[0].id
    services.tags.change_tags(ann, entry, add=["second", "first"])
    services.stream_views.set(
        ann, ALL, services.mappers.users.find(ann.user_id).preferences, {"sort": "oldest"}
    )
    return ann


def _reads(services: Services, user_id: int) -> dict[str, Callable[[], Any]]:
    m = services.mappers
    return {
        "folders": lambda: m.folders.find_by_user(user_id),
        "tags": lambda: m.tags.find_by_user(user_id),
        "searches": lambda: m.searches.find_by_user(user_id),
        "view": lambda: m.stream_views.get(user_id, ALL),
        "import": lambda: m.imports.find_active_by_user(user_id),
        "notes": lambda: m.notifications.find_unread(user_id, 99),
    }


def test_lists_read_together_are_those_read_alone(
    services: Services, ann: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = {name: read() for name, read in _reads(services, ann.user_id).items()}
    assert [len(alone[name]) for name in ("folders", "tags", "searches", "view")] == [2, 2, 2, 1]
    with build_logged_services(services.settings, monkeypatch) as (built, log), identity_map.open_scope():
        built.page_frame.prefetch_stream(ann, ALL)
        assert {name: read() for name, read in _reads(built, ann.user_id).items()} == alone
        assert len(log.commands) == 1
        built.page_frame.prefetch_stream(ann, ALL)
        assert len(log.commands) == 1


def test_a_write_after_the_common_read_is_seen(services: Services, ann: Actor) -> None:
    with identity_map.open_scope():
        services.page_frame.prefetch_stream(ann, ALL)
        services.folders.create(ann, "c")
        services.stream_views.set(
            ann, ALL, services.mappers.users.find(ann.user_id).preferences, {"sort": "newest"}
        )
        assert [f.name for f in services.folders.list_folders(ann)] == ["a", "b", "c"]
        assert services.mappers.stream_views.get(ann.user_id, ALL)["sort"] == "newest"
