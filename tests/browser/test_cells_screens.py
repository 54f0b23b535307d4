"""The screens of a server with several cells: the page of admins, and a change while an account moves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Page, expect
from pymongo.database import Database

from app.models.accounts.actor import Role
from app.models.operations.cells import HOME, Place, PlaceState
from tests.browser import axe
from tests.browser.axe import RULES
from tests.browser.conftest import PHONE, WIDE, Site
from tests.support.cells import CELL, cell_db, second_cell, settings
from tests.support.reader import add_user

__all__ = ["cell_db", "second_cell", "settings"]
Visit = Callable[..., Page]


def _look(page: Page) -> None:
    # As high as the page: what a bar covers at one moment is reached by scrolling.
    width = page.evaluate("innerWidth")
    page.set_viewport_size({"width": width, "height": page.evaluate("document.documentElement.scrollHeight")})
    page.evaluate(axe.AXE)
    assert list(axe.faults(page, RULES)) == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "too wide"


@pytest.mark.parametrize(("size", "language"), [(WIDE, "en-GB"), (PHONE, "en-GB"), (PHONE, "ar")])
def test_the_page_of_cells_is_accessible(
    site: Site, cell_db: Database[Any], visit: Visit, size: tuple[int, int], language: str
) -> None:
    root = add_user(site.services, "root", Role.ADMIN)
    ann = add_user(site.services, "ann")
    page = visit(login="root", size=size, language=language)
    page.goto("/admin/cells")
    expect(page.locator("tbody tr")).to_have_count(2)
    _look(page)
    place = site.services.cells.places.read_place(ann.user_id)
    site.services.moves.start(root, "ann", HOME if place and place.cell == CELL else CELL)
    page.reload()
    expect(page.locator("main .lines")).to_contain_text("ann")
    _look(page)


@pytest.mark.parametrize("size", [WIDE, PHONE])
def test_a_change_while_an_account_moves_is_kept_and_sent_again(
    site: Site, cell_db: Database[Any], visit: Visit, size: tuple[int, int]
) -> None:
    ann = add_user(site.services, "ann")
    page = visit(login="ann", size=size, expect="503")
    page.goto("/subscriptions")
    cells = site.services.cells
    place = cells.places.read_place(ann.user_id) or Place(ann.user_id, HOME)
    moving = cells.places.update(place, state=PlaceState.MIGRATING, to=CELL if place.cell == HOME else HOME)
    assert moving is not None
    cells.forget_places()
    page.locator("form[action='/folders'] input[name=name]").fill("Later")
    with page.expect_response(lambda answer: answer.status == 503) as refused:
        page.locator("form[action='/folders'] button").click()
    assert refused.value.headers["retry-after"] == "5"
    expect(page.locator(".foot")).to_have_text("503")
    _look(page)
    assert cells.places.update(moving, state=PlaceState.NORMAL, to="")
    cells.forget_places()
    page.get_by_role("button", name="Try again").click()
    page.wait_for_url("**/subscriptions*")
    assert [folder.name for folder in site.services.folders.list_folders(ann)] == ["Later"]
