"""The form of a new service asks only for what its kind needs."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from app import clock
from app.models.reading.targets import Occasion, TargetKind
from tests.browser.conftest import Site
from tests.support.reader import add_user

Visit = Callable[..., Page]


def test_the_fields_follow_the_chosen_kind(site: Site, visit: Visit) -> None:
    add_user(site.services)
    page = visit(login="ann")
    page.goto("/settings/sending")
    address = page.locator("#f-address")
    expect(address).to_be_hidden()
    page.get_by_label("Service").select_option("gotify")
    expect(page.locator("#f-secret")).to_have_accessible_name("Access token")
    assert page.locator("#h-address").inner_text() == "The address of your server."
    page.get_by_label("Service").select_option("webhook")
    expect(page.locator("#f-secret")).to_have_accessible_name("Secret (optional)")
    assert page.locator("#h-address").inner_text() == "Any address that accepts JSON."


@pytest.mark.parametrize("size", [(1440, 900), (390, 844)])
def test_what_was_refused_and_its_button_are_in_sight_together(
    site: Site, visit: Visit, size: tuple[int, int]
) -> None:
    ann = add_user(site.services)
    target = site.services.sending.add(ann, TargetKind.NTFY, "https://ntfy.example/reading")
    site.services.mappers.targets.record_result(ann.user_id, target.id, "unreachable", clock.now())
    page = visit(login="ann", size=size, expect="400")
    page.goto("/settings/sending")
    page.get_by_label("Service", exact=True).select_option("gotify")
    page.locator("#f-address").fill("https://push.example")
    page.get_by_role("button", name="Add", exact=True).click()
    expect(page.locator("#f-secret")).to_be_focused()
    for part in ("#f-secret", "#e-secret", "#h-secret"):
        expect(page.locator(part)).to_be_in_viewport(ratio=1)
    expect(page.locator("#h-secret")).to_contain_text("in Gotify, under “Apps”")
    add = page.get_by_role("button", name="Add", exact=True)
    expect(add).to_be_in_viewport(ratio=1)
    box = add.bounding_box()
    assert box
    # Nothing lies above it.
    at = [box["x"] + 9, box["y"] + box["height"] - 4]
    assert page.evaluate("([x, y]) => document.elementFromPoint(x, y).matches('.primary')", at)


def test_a_service_that_failed_is_tried_again_from_its_line(site: Site, visit: Visit) -> None:
    ann = add_user(site.services)
    target = site.services.sending.add(ann, TargetKind.NTFY, "https://ntfy.example/reading")
    site.services.mappers.targets.record_result(ann.user_id, target.id, "unreachable", clock.now())
    page = visit(login="ann")
    page.goto("/settings/sending")
    line = page.locator("#services li")
    expect(line.locator(".why")).to_have_text("The service doesn't respond.")
    expect(line.locator(".mend").get_by_role("link", name="Change address")).to_be_visible()
    line.get_by_role("button", name="Try again").click()
    page.wait_for_load_state()
    (one,) = site.services.sending.list_deliveries(ann)
    assert one.occasion is Occasion.TEST


def test_a_search_of_the_settings_leads_to_a_field_of_no_chosen_kind(site: Site, visit: Visit) -> None:
    add_user(site.services)
    page = visit(login="ann")
    page.goto("/settings/sending#f-address")
    expect(page.locator("#f-address")).to_be_visible()
    expect(page.locator("#s-star")).to_be_visible()
    expect(page.locator("#f-secret")).to_have_accessible_name("Access token")


def test_a_secret_can_be_shown_while_it_is_entered(site: Site, visit: Visit) -> None:
    ann = add_user(site.services)
    target = site.services.sending.add(ann, TargetKind.NTFY, "https://ntfy.example/reading")
    page = visit(login="ann")
    for path in ("/settings/sending", f"/settings/sending?secret={target.id}"):
        page.goto(path)
        key = "secret"
        if path == "/settings/sending":
            page.get_by_label("Service", exact=True).select_option("gotify")
        else:
            key = f"{target.id}-secret"
        field = page.locator(f"#f-{key}")
        field.fill("Geheim-7")
        page.locator(f"[data-reveal=f-{key}]").click()
        expect(field).to_have_attribute("type", "text")
        page.locator(f"[data-reveal=f-{key}]").click()
        expect(field).to_have_attribute("type", "password")


@pytest.mark.parametrize("size", [(1440, 900), (390, 844)])
def test_the_address_of_a_failed_service_is_changed_from_its_line(
    site: Site, visit: Visit, size: tuple[int, int]
) -> None:
    ann = add_user(site.services)
    target = site.services.sending.add(ann, TargetKind.GOTIFY, "https://old.example/", secret="Geheim-7")
    site.services.mappers.targets.record_result(ann.user_id, target.id, "unreachable", clock.now())
    page = visit(login="ann", size=size, expect="400")
    page.goto("/settings/sending")
    page.locator(".mend").get_by_role("link", name="Change address").click()
    field = page.locator(f"#f-{target.id}-address")
    expect(field).to_be_focused()
    field.fill("https://new.example/")
    change = page.get_by_role("button", name="Change address")
    change.click()
    expect(page.locator(f"#f-{target.id}-secret")).to_be_focused()
    expect(field).to_have_value("https://new.example/")
    for part in ("e", "h"):
        expect(page.locator(f"#{part}-{target.id}-secret")).to_be_in_viewport(ratio=1)
    expect(change).to_be_in_viewport(ratio=1)
    page.locator(f"#f-{target.id}-secret").fill("Neu-8")
    change.click()
    expect(page.locator("#services")).to_contain_text("https://new.example/")
    expect(page.locator(".change-access")).to_have_count(0)


def test_the_password_of_a_feed_can_be_shown_while_it_is_entered(site: Site, visit: Visit) -> None:
    ann = add_user(site.services)
    feed = site.services.subscriptions.subscribe(ann, "https://feeds.example/one").subscription.feed_id
    page = visit(login="ann")
    page.goto(f"/feeds/{feed}")
    field = page.locator("#f-password")
    expect(field).to_have_attribute("type", "password")
    page.locator("[data-reveal=f-password]").dispatch_event("click")
    expect(field).to_have_attribute("type", "text")
