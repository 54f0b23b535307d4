"""The form of a rule: its feeds and folders are found by typing, and what is chosen stays."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from app.models.accounts.actor import Actor
from app.models.reading.rules import Rule
from tests.browser.conftest import Site
from tests.browser.test_list_rules import subscribe
from tests.support.reader import add_user

Visit = Callable[..., Page]


def test_typing_narrows_the_feeds_of_a_rule(site: Site, visit: Visit) -> None:
    ann = add_user(site.services)
    feed_id = subscribe(site, ann, 1)
    folders = [site.services.folders.create(ann, name) for name in ("Éclairs", "Bread")]
    rule = site.services.rules.save(ann, Rule(0, "", "cake", (feed_id,), (), star=True))
    page = visit(login="ann")
    page.goto(f"/settings/rules/{rule.id}")
    summary = page.locator(".scope summary")
    expect(summary).not_to_have_text("All feeds")
    summary.click()
    shown = page.locator("#scopes li:visible")
    expect(shown).to_have_count(3)
    field = page.get_by_role("searchbox", name="Find a feed or folder")
    field.fill("ECL")
    # The chosen feed stays, the other folder doesn't.
    expect(shown).to_have_count(2)
    expect(shown.filter(has_text="Bread")).to_have_count(0)
    # Enter sends nothing.
    field.press("Enter")
    page.get_by_role("checkbox", name="Éclairs").check()
    expect(summary).to_contain_text("Éclairs")
    field.fill("")
    expect(shown).to_have_count(3)
    page.get_by_role("button", name="Save").click()
    expect(page.locator("#rules")).to_be_visible()
    (kept,) = site.services.rules.list_rules(ann).rules
    assert (kept.feeds, kept.folders) == ((feed_id,), (folders[0].id,))


def test_beginnings_of_words_come_first_and_are_marked(site: Site, visit: Visit) -> None:
    ann = add_user(site.services)
    for name in ("Added", "Éditions", "Red dogs", "Ideas"):
        site.services.folders.create(ann, name)
    page = visit(login="ann")
    page.goto("/settings/rules/new")
    summary = page.locator(".scope summary")
    expect(summary).to_have_text("All feeds")
    summary.click()
    names = page.locator("#scopes li:visible span")
    field = page.get_by_role("searchbox", name="Find a feed or folder")
    field.fill("d")
    expect(names).to_have_text(["Red dogs", "Added", "Ideas", "Éditions"])
    field.fill("ed")
    expect(names).to_have_text(["Éditions", "Added", "Red dogs"])
    expect(page.locator("#scopes li:visible mark")).to_have_text(["Éd", "ed", "ed"])
    field.fill("")
    expect(names).to_have_text(["Added", "Ideas", "Red dogs", "Éditions"])
    expect(page.locator("#scopes mark")).to_have_count(0)


def test_a_press_adds_a_part_to_the_condition(site: Site, visit: Visit) -> None:
    add_user(site.services)
    page = visit(login="ann")
    page.goto("/settings/rules/new?query=cake")
    page.get_by_role("group", name="Add to the condition").get_by_role("button", name="Author").click()
    page.keyboard.type("mann")
    expect(page.locator("#f-query")).to_have_value("cake author:mann")


def test_a_rule_is_switched_off_and_moved_in_the_list(site: Site, visit: Visit) -> None:
    ann = add_user(site.services)
    rules = [site.services.rules.save(ann, Rule(0, "", query, star=True)) for query in ("cake", "bread")]
    page = visit(login="ann")
    page.goto("/settings/rules")
    switch = page.get_by_role("switch", name="cake")
    expect(switch).to_be_checked()
    page.evaluate("window.stays = true")
    switch.press("Enter")
    expect(switch).not_to_be_checked()
    # Only the list was fetched, and the next press switches the rule on again.
    assert page.evaluate("window.stays")
    expect(switch).to_be_focused()
    assert [rule.enabled for rule in site.services.rules.list_rules(ann).rules] == [False, True]
    switch.press("Enter")
    expect(switch).to_be_checked()
    line = page.locator("#rules > li").first
    line.locator(".menu > summary").click()
    line.get_by_role("button", name="Move down").click()
    expect(line).to_contain_text("bread")
    assert page.evaluate("window.stays")
    assert [rule.id for rule in site.services.rules.list_rules(ann).rules] == [rules[1].id, rules[0].id]


def two_rules(site: Site) -> tuple[Actor, list[Rule]]:
    """Let a new account have two rules."""
    ann = add_user(site.services)
    return ann, [site.services.rules.save(ann, Rule(0, name, name, star=True)) for name in ("cake", "bread")]


@pytest.mark.parametrize("address", ["switch", "move"])
def test_a_refused_change_leaves_the_list_and_says_why(site: Site, visit: Visit, address: str) -> None:
    ann, (cake, _) = two_rules(site)
    page = visit(login="ann", expect="404")
    page.goto("/settings/rules")
    site.services.rules.delete(ann, cake.id)
    line = page.locator("#rules > li").first
    if address == "move":
        line.locator(".menu > summary").click()
        line.get_by_role("button", name="Move down").click()
    else:
        line.get_by_role("switch").click()
    expect(page.locator(".toast")).to_have_text("You don't have this rule.")
    expect(page.locator("#rules > li")).to_have_count(2)


def test_two_quick_switches_both_show_what_is_stored(site: Site, visit: Visit) -> None:
    ann, (cake, bread) = two_rules(site)
    page = visit(login="ann")
    page.goto("/settings/rules")
    # Held by a route, a request that outlives its page would never come back. So their order is looked at.
    seen: list[str] = []
    page.on("request", lambda request: seen.append(f"asked {request.method} {request.url}"))
    page.on("response", lambda response: seen.append(f"answered {response.request.method} {response.url}"))
    first, second = page.locator(f"#turn-{cake.id}"), page.locator(f"#turn-{bread.id}")
    page.evaluate(
        "(all) => all.forEach((one) => document.querySelector(one).click())",
        [f"#turn-{one.id}" for one in (cake, bread)],
    )
    expect(first).not_to_be_checked()
    expect(second).not_to_be_checked()
    assert [rule.enabled for rule in site.services.rules.list_rules(ann).rules] == [False, False]
    posts = [
        [*one.partition("/settings")[0].split()[:2], one.rpartition("rules/")[2]]
        for one in seen
        if "/switch" in one
    ]
    assert posts == [
        [word, "POST", f"{rule.id}/switch"] for rule in (cake, bread) for word in ("asked", "answered")
    ]


def test_a_moved_rule_keeps_the_focus_and_its_new_place_is_said(site: Site, visit: Visit) -> None:
    _, (_, bread) = two_rules(site)
    page = visit(login="ann")
    page.goto("/settings/rules")
    menu = page.locator(f"#more-{bread.id}")
    menu.press("Enter")
    page.get_by_role("button", name="Move up").press("Enter")
    expect(page.locator("#rules > li").first).to_contain_text("bread")
    expect(menu).to_be_focused()
    expect(page.locator("#say")).to_have_text("“bread” is now number 1 of 2")
