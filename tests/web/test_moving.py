"""The pages of a person whose account moves to another server: they can read, and their changes are kept."""

from __future__ import annotations

import contextlib
import html
import re
from typing import Any

import pytest
from pymongo.database import Database

from app import clock, create_app
from app.bootstrap import services as bootstrap
from app.bootstrap.services import Services
from app.config import Settings
from app.errors import CellError, MovingError
from app.mappers.mongo import cell_watch, store
from app.models.operations.cells import HOME, Place, PlaceState
from app.models.reading.stream import StreamQuery, StreamRef
from app.web.api.rest import shapes
from app.web.security.sessions import get_cookie_name
from tests.sharing.conftest import People, people
from tests.support.cells import CELL, SecondCell, cell_db, move, second_cell, settings, wait_until
from tests.sync.rest.world import World
from tests.web.conftest import Visitor
from tests.web.test_access import MATRIX
from tests.web.test_commands import LEFT_OUT, build_social_world, fill

__all__ = ["cell_db", "people", "second_cell", "settings"]


@pytest.fixture
def w(services: Services) -> World:
    world = build_social_world(People(services))
    ref = StreamRef.parse("all")
    world.real["of_snapshot"] = services.reading.load_page(world.who, StreamQuery(ref)).snapshot
    return world


def test_while_an_account_moves_no_read_is_refused(
    services: Services, cell_db: Database[Any], w: World
) -> None:
    visitor = Visitor(create_app(services.settings, services).test_client())
    token = services.gateways.sessions.open_session(w.who.user_id, agent="", address="")
    visitor.client.set_cookie(get_cookie_name(secure=False), token)
    visitor.show_form()
    before = {path: visitor.get(path).status_code for path in _paths(w)}
    user_id = w.who.user_id
    assert services.cells.places.update(Place(user_id, HOME), state=PlaceState.MIGRATING, to=CELL)
    services.cells.forget_places()
    assert {path: visitor.get(path).status_code for path in before} == before
    assert sum(status == 200 for status in before.values()) > 50

    mark = {"entry": w.real["theirs"], "read": "1"}
    refused = visitor.post("/entries/mark", mark, Accept="application/json")
    assert refused.status_code == 503
    assert refused.headers["Retry-After"] == "5"
    assert refused.json == {"error": "moving", "message": MovingError.default}


@pytest.fixture
def ann(services: Services, cell_db: Database[Any], w: World) -> Visitor:
    """Logged in, and being moved."""
    visitor = Visitor(create_app(services.settings, services).test_client())
    token = services.gateways.sessions.open_session(w.who.user_id, agent="", address="")
    visitor.client.set_cookie(get_cookie_name(secure=False), token)
    visitor.show_form()
    assert services.cells.places.update(Place(w.who.user_id, HOME), state=PlaceState.MIGRATING, to=CELL)
    services.cells.forget_places()
    return visitor


def _end_move(services: Services, w: World) -> None:
    place = services.cells.places.read_place(w.who.user_id)
    assert place is not None
    assert services.cells.places.update(place, state=PlaceState.NORMAL, to="")
    services.cells.forget_places()


def test_the_form_of_a_refused_change_can_be_sent_again(services: Services, w: World, ann: Visitor) -> None:
    name = 'a "quoted" <b>&amp; name'
    refused = ann.post("/folders?x=1", {"name": name})
    assert (refused.status_code, refused.headers["Retry-After"]) == (503, "5")
    assert MovingError.default in refused.text
    fields = re.findall(r'<input type="hidden" name="([^"]*)" value="([^"]*)">', refused.text)
    form = {key: html.unescape(value) for key, value in fields}
    assert form.pop("csrf_token")
    assert form == {"name": name}
    assert 'action="/folders?x=1"' in refused.text
    assert "no-store" in refused.headers["Cache-Control"]
    _end_move(services, w)
    assert ann.post("/folders?x=1", form).status_code == 303
    assert name in [folder.name for folder in services.folders.list_folders(w.who)]


@pytest.mark.parametrize(
    ("secret", "value"),
    [("password", "S3cret"), ("token", "S3cret"), ("headers", "X-Key: S3cret"), ("cookie", "a=S3cret")],
)
def test_no_page_repeats_a_secret(w: World, ann: Visitor, secret: str, value: str) -> None:
    url = f"/feeds/{w.real[shapes.FEED]}/fetch"
    refused = ann.post(url, {"login": "ann" if secret == "password" else "", secret: value})
    assert refused.status_code == 503
    assert "S3cret" not in refused.text
    assert "<form" not in refused.text.partition("<main")[2].partition("</main>")[0].partition("<h1")[2]
    assert "Go back in your browser" in refused.text


def _paths(w: World) -> list[str]:
    rules = [rule for rule, method in MATRIX if method == "GET" and rule not in LEFT_OUT]
    return [fill(rule, w) for rule in rules]


#: Pages that read a person's data by different ways: lists, search, counts and settings.
PAGES = (
    "/read",
    "/read/tree",
    "/history",
    "/tags",
    "/add",
    "/subscriptions",
    "/notifications",
    "/api/counts",
)


def test_after_the_first_page_nobody_waits_for_a_cell_that_is_down(
    settings: Settings,
    services: Services,
    cell_db: Database[Any],
    second_cell: SecondCell,
    w: World,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    services.mover.start(w.who.user_id, CELL)
    assert services.mover.run(w.who.user_id, clock.now()).state == "moved"
    token = services.gateways.sessions.open_session(w.who.user_id, agent="", address="")
    monkeypatch.setattr(store, "TIMEOUT_MS", 300)
    monkeypatch.setattr(cell_watch, "PAUSE_SECONDS", 600.0)
    found = dict[str, tuple[int, bool]]()
    second_cell.kill()
    try:
        for path in (*PAGES, f"/entries/{w.real['theirs']}/tags"):
            with contextlib.closing(bootstrap.build(settings)) as built:
                visitor = Visitor(create_app(settings, built).test_client())
                visitor.client.set_cookie(get_cookie_name(secure=False), token)
                found[path] = visitor.get(path).status_code, _is_paused(built)
    finally:
        second_cell.start()
    assert found == dict.fromkeys(found, (503, True))


def _is_paused(services: Services) -> bool:
    try:
        services.cells.get_store(CELL)
    except CellError:
        return True
    return False


def test_a_page_about_someone_whose_cell_is_down_does_not_speak_of_your_data(
    settings: Settings,
    services: Services,
    cell_db: Database[Any],
    second_cell: SecondCell,
    people: People,
) -> None:
    annie, bob = people.join("annie"), people.join("bob")
    move(services, annie.user_id)
    services.following.update_profile(annie, open_lists=True)
    app = create_app(services.settings, services)
    stranger, visitor = Visitor(app.test_client()), Visitor(app.test_client())
    token = services.gateways.sessions.open_session(bob.user_id, agent="", address="")
    visitor.client.set_cookie(get_cookie_name(secure=False), token)
    second_cell.kill()
    try:
        for who in (stranger, visitor):
            assert who.get("/@annie").status_code == 200
            page = who.get("/@annie/following")
            assert page.status_code == 503
            assert CellError.others in html.unescape(page.text)
            assert "your data" not in page.text
    finally:
        second_cell.start()
    wait_until(lambda: services.cells.get_store(CELL) is not None)
    assert visitor.get("/@annie/following").status_code == 200
