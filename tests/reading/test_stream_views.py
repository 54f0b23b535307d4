"""How each stream is shown: kept per user and stream, capped, falling back to the person's settings."""

from __future__ import annotations

import dataclasses
import datetime as dt

import pytest

from app import clock
from app.bootstrap import services as bootstrap
from app.bootstrap.services import Services
from app.errors import InvalidError
from app.models.accounts.actor import Actor
from app.models.accounts.preferences import Preferences
from app.models.reading.stream import Show, Sort, StreamQuery, StreamRef
from app.models.reading.stream_view import StreamView
from tests.reading.test_marking import follow
from tests.support.database import World

ALL, ONE = StreamRef.parse("all"), StreamRef.parse("feed/1")
USUAL = Preferences()


def test_a_stream_is_shown_as_it_was_left(services: Services, alice: Actor, bob: Actor) -> None:
    views = services.stream_views
    plain = StreamView("panes", "cozy", "unread-on-top", "all")
    assert views.get(alice, ONE, USUAL) == plain
    views.set(alice, ONE, USUAL, {"view": "list", "sort": "oldest"})
    views.set(alice, ONE, USUAL, {"show": "unread"})
    kept = StreamView("list", "cozy", "oldest", "unread")
    assert views.get(alice, ONE, USUAL) == kept
    assert views.get(alice, ALL, USUAL) == views.get(bob, ONE, USUAL) == plain
    # What was never chosen for the stream goes with the settings; what an address says, before all.
    wish = Preferences(density="compact", sort="newest")
    assert views.get(alice, ONE, wish) == dataclasses.replace(kept, density="compact")
    assert views.get(alice, ONE, USUAL, {"sort": "newest"}).sort == "newest"
    assert views.get(alice, ONE, USUAL).sort == "oldest"


@pytest.mark.parametrize(
    ("steps", "view", "density"),
    [
        ([{"view": "expanded"}], "expanded", "expanded"),
        ([{"density": "expanded"}], "expanded", "expanded"),
        ([{"density": "compact"}, {"view": "expanded"}, {"view": "panes"}], "panes", "compact"),
        ([{"view": "expanded"}, {"density": "card"}], "list", "card"),
        ([{"density": "expanded"}, {"view": "list"}], "list", "cozy"),
        ([{"density": "card"}, {"view": "list"}], "list", "card"),
    ],
)
def test_whole_texts_are_a_view_and_a_density(
    services: Services, alice: Actor, steps: list[dict[str, str]], view: str, density: str
) -> None:
    for step in steps:
        services.stream_views.set(alice, ONE, USUAL, step)
    found = services.stream_views.get(alice, ONE, USUAL)
    assert (found.view, found.density) == (view, density)


def test_settings_of_whole_texts_show_one_column() -> None:
    assert StreamView.resolve(Preferences(density="expanded")).view == "expanded"
    assert StreamView.resolve(Preferences(view="expanded")).density == "expanded"
    assert StreamView.resolve(Preferences(view="expanded"), {"view": "panes"}).density == "cozy"


@pytest.mark.parametrize("changes", [{"view": "grid"}, {"language": "de"}, {"sort": ""}, {"show": "read"}])
def test_a_wrong_view_changes_nothing(services: Services, alice: Actor, changes: dict[str, str]) -> None:
    with pytest.raises(InvalidError):
        services.stream_views.set(alice, ONE, USUAL, {"density": "card", **changes})
    assert services.stream_views.get(alice, ONE, USUAL) == StreamView.resolve(USUAL)


def test_the_views_of_one_person_are_bounded(services: Services, alice: Actor) -> None:
    small = bootstrap.build(dataclasses.replace(services.settings, stream_views_max=3))
    start = clock.now()
    for n in range(5):
        with clock.set_source(lambda n=n: start + dt.timedelta(seconds=n)):
            small.stream_views.set(alice, StreamRef.parse(f"feed/{n + 1}"), USUAL, {"view": "list"})
    shown = [small.stream_views.get(alice, StreamRef.parse(f"feed/{n + 1}"), USUAL).view for n in range(5)]
    small.close()
    assert shown == ["panes", "panes", "list", "list", "list"]


@pytest.mark.parametrize("sort", Sort)
def test_unread_alone_is_a_list_that_stays_as_it_was(world: World, alice: Actor, sort: Sort) -> None:
    reading = world.services.reading
    (feed_id,) = follow(world, alice, list(range(30)))
    everything = reading.load_page(alice, StreamQuery(ALL, sort, limit=100))
    reading.mark(alice, [row.id for row in everything.rows[::2]], True)
    first = reading.load_page(alice, StreamQuery(ALL, sort, limit=8, show=Show.UNREAD))
    assert (first.total, first.unread, first.split) == (15, 15, None)
    reading.mark_all(alice, ALL)
    world.publish(feed_id, world.minutes(0))
    # What is read meanwhile stays in its place, what comes is announced.
    query = StreamQuery(ALL, sort, first.cursor, first.snapshot, 8, Show.UNREAD)
    rest = reading.load_page(alice, query)
    assert [row.id for row in (*first.rows, *rest.rows)] == [row.id for row in everything.rows[1::2]]
    assert (rest.cursor, rest.total) == (None, 15)
    assert all(row.read for row in rest.rows)
    assert reading.count_newer(alice, first.snapshot) == 1
    again = dataclasses.replace(query, cursor=None)
    assert [row.id for row in reading.load_page(alice, again).rows] == [row.id for row in first.rows]
    with pytest.raises(InvalidError):
        reading.load_page(alice, dataclasses.replace(query, show=Show.ALL))


def test_stars_are_listed_read_or_not(world: World, alice: Actor) -> None:
    reading = world.services.reading
    follow(world, alice, [1, 2, 3])
    entry = reading.load_page(alice, StreamQuery(ALL)).rows[0].id
    reading.set_starred(alice, entry, True)
    reading.mark(alice, [entry], True)
    page = reading.load_page(alice, StreamQuery(StreamRef.parse("starred"), show=Show.UNREAD))
    assert ([row.id for row in page.rows], page.total) == ([entry], None)


def test_whole_texts_come_in_bounded_batches(world: World, services: Services, alice: Actor) -> None:
    settings = dataclasses.replace(services.settings, whole_page_size=4, whole_text_max=1000)
    small = bootstrap.build(settings)
    follow(world, alice, list(range(60)))
    page = small.reading.load_page(alice, StreamQuery(ALL, with_bodies=True))
    assert [row.html for row in page.rows] == ["<p>Text</p>"] * 4
    assert small.reading.load_page(alice, StreamQuery(ALL)).rows[0].html is None
    # A place far down is restored by at most ten batches at once.
    assert len(small.reading.load_page(alice, StreamQuery(ALL, with_bodies=True, limit=500)).rows) == 40
    small.close()
