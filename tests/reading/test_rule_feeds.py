"""The feeds that a rule names, after one was merged, has got another address, or is gone."""

from __future__ import annotations

import dataclasses

import pytest

from app import clock
from app.bootstrap.services import Services
from app.errors import ConflictError, InvalidError, StoreError
from app.gateways.reading.rules import RuleGateway
from app.mappers.subscriptions.subscriptions import SubscriptionMapper
from app.models.accounts.actor import Actor
from app.models.reading.rules import Rule
from tests.reading.test_rules import bring, subscribe
from tests.support.reader import add_user

URLS = [f"https://feeds{n}.example/feed" for n in range(3)]


@pytest.fixture
def ann(services: Services) -> Actor:
    return add_user(services, "ann")


def _get_feeds(services: Services, actor: Actor) -> list[set[int]]:
    return [set(rule.feeds) for rule in services.rules.list_rules(actor).rules]


def test_a_rule_follows_its_feed_to_another_address_and_back(services: Services, ann: Actor) -> None:
    one, two = (subscribe(services, ann, url) for url in URLS[:2])
    services.rules.save(ann, Rule(0, "", "football", feeds=(one, two), read=True))
    services.rules.save(ann, Rule(0, "", "chess", feeds=(two,), read=True))
    before = services.rules.list_rules(ann)
    done = services.subscriptions.change_address(ann, one, URLS[2])
    assert _get_feeds(services, ann) == [{done.feed_id, two}, {two}]
    with pytest.raises(ConflictError):  # a page that was opened before names the old feed
        services.gateways.rules.replace_rules(ann.user_id, before.rules, before, clock.now().date())
    bring(services, done.feed_id, "football", url=URLS[2])
    services.rule_runner.run(clock.now(), seconds=30)
    (mine,) = services.gateways.subscriptions.find_by_user(ann.user_id, [done.feed_id])
    assert mine.state.is_read(1)
    services.subscriptions.restore(ann, done.undo)
    assert _get_feeds(services, ann) == [{one, two}, {two}]


def test_undo_of_an_address_leaves_rules_alone_that_it_did_not_move(services: Services, ann: Actor) -> None:
    one, two = (subscribe(services, ann, url) for url in URLS[:2])
    for feeds in ((two,), (one, two), (one,), (one,)):
        services.rules.save(ann, Rule(0, "", "chess", feeds=feeds, read=True))
    before = _get_feeds(services, ann)
    services.subscriptions.unsubscribe(ann, two)
    done = services.subscriptions.change_address(ann, one, URLS[1])
    assert _get_feeds(services, ann) == [{two}] * 4
    last = services.rules.list_rules(ann).rules[-1]
    services.rules.save(ann, dataclasses.replace(last, feeds=()))
    services.subscriptions.restore(ann, done.undo)
    assert _get_feeds(services, ann) == [*before[:3], set()]


@pytest.mark.parametrize("has_both", [False, True])
def test_a_rule_follows_a_merged_feed(services: Services, ann: Actor, has_both: bool) -> None:
    ben = add_user(services, "ben")
    source, target = subscribe(services, ann, URLS[0]), subscribe(services, ben, URLS[1])
    if has_both:
        subscribe(services, ann, URLS[1])
    services.rules.save(ann, Rule(0, "", "football", feeds=(source, target), read=True))
    services.rules.save(ben, Rule(0, "", "football", feeds=(target,), read=True))
    feeds = services.gateways.feeds
    feeds._merger.merge(feeds.get(source), feeds.get(target))
    (rule,) = services.rules.list_rules(ann).rules
    assert rule.feeds == (target,), "once"
    assert _get_feeds(services, ben) == [{target}]


def test_a_rule_follows_a_feed_that_was_merged_while_nobody_read_it(services: Services, ann: Actor) -> None:
    source, target = (
        subscribe(services, ann, URLS[0]),
        subscribe(services, add_user(services, "ben"), URLS[1]),
    )
    services.rules.save(ann, Rule(0, "", "football", feeds=(source,), read=True))
    undo = services.subscriptions.unsubscribe(ann, source)
    feeds = services.gateways.feeds
    feeds._merger.merge(feeds.get(source), feeds.get(target))
    services.subscriptions.restore(ann, undo)
    assert _get_feeds(services, ann) == [{target}]


def test_rules_that_are_stored_are_tried_whatever_fails_next(
    services: Services, ann: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed = subscribe(services, ann, URLS[0])
    watch = RuleGateway.watch_user

    def fail(*_: object) -> None:
        raise StoreError

    monkeypatch.setattr(RuleGateway, "watch_user", fail)
    with pytest.raises(StoreError):
        services.rules.save(ann, Rule(0, "", "football", read=True))
    monkeypatch.setattr(RuleGateway, "watch_user", watch)
    assert len(services.rules.list_rules(ann).rules) == 1
    assert services.mappers.subscriptions.find_by_user(ann.user_id, [feed])[0].ruled is not None


def test_rules_that_cannot_be_watched_are_not_stored(
    services: Services, ann: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    subscribe(services, ann, URLS[0])

    def fail(*_: object) -> None:
        raise StoreError

    monkeypatch.setattr(SubscriptionMapper, "start_rules", fail)
    with pytest.raises(StoreError):
        services.rules.save(ann, Rule(0, "", "football", read=True))
    assert services.rules.list_rules(ann).rules == ()


def test_a_rule_whose_feeds_are_all_gone_does_not_become_one_for_all(services: Services, ann: Actor) -> None:
    feed = subscribe(services, ann, URLS[0])
    rule = services.rules.save(ann, Rule(0, "", "football", feeds=(feed,), read=True))
    services.rules.save(ann, Rule(rule.id, "", "football", read=True))
    services.rules.save(ann, Rule(rule.id, "", "football", feeds=(feed,), read=True))
    services.subscriptions.unsubscribe(ann, feed)
    with pytest.raises(InvalidError, match="feeds and folders of this rule are gone"):
        services.rules.save(ann, Rule(rule.id, "", "football", read=True))
    assert services.rules.get(ann, rule.id).feeds == (feed,)
    other = subscribe(services, ann, URLS[1])
    services.rules.save(ann, Rule(rule.id, "", "football", feeds=(feed,), read=True, enabled=False))
    services.rules.save(ann, Rule(rule.id, "", "football", feeds=(other,), read=True))
