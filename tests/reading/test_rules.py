"""Rules: tried on new entries once, whatever happens; what they hide, mark, tag; their preview."""

from __future__ import annotations

from app import clock
from app.bootstrap.services import Services
from app.models.accounts.actor import Actor
from app.models.reading.rules import Rule
from tests.support.reader import add_user, pull, rss

URL = "https://feeds.example/one"


def subscribe(services: Services, actor: Actor, url: str = URL) -> int:
    return services.subscriptions.subscribe(actor, url).subscription.feed_id


def bring(services: Services, feed_id: int, *titles: str, url: str = URL) -> None:
    """Pull a feed with these entries."""
    pull(services, [feed_id], {url: rss("One", [(title, f"<p>About {title}.</p>") for title in titles])})


def _try(services: Services) -> dict[str, int]:
    return services.rule_runner.run(clock.now(), seconds=30)


def _states(services: Services, actor: Actor, feed_id: int) -> dict[str, str]:
    """Return title → marks of the entries of a feed."""
    (mine,) = services.gateways.subscriptions.find_by_user(actor.user_id, [feed_id])
    found = {}
    for entry in services.mappers.entries.find_range(feed_id, 0, 1 << 40, 1000):
        mark = services.gateways.tags.find_marks(actor.user_id, [entry.id]).get(entry.id)
        words = [
            "read" if mine.state.is_read(entry.seq) else "",
            "hidden" if mine.hidden.has_seq(entry.seq) else "",
            "highlighted" if mine.highlighted.has_seq(entry.seq) else "",
            "starred" if mark and mark.starred else "",
            "tagged" if mark and mark.tags else "",
        ]
        found[entry.title] = " ".join(filter(None, words))
    return found


def test_rules_mark_new_entries(services: Services) -> None:
    ann = add_user(services)
    feed_id = subscribe(services, ann)
    bring(services, feed_id, "Old football")
    rules = services.rules
    rules.save(ann, Rule(0, "", "football", read=True, tag="sport"))
    rules.save(ann, Rule(0, "", "title:/^climate/", star=True, highlight=True))
    rules.save(ann, Rule(0, "", "advert", hide=True))
    bring(services, feed_id, "Old football", "New football", "Climate news", "An advert", "Else")
    assert _try(services)["matches"] == 3
    assert _states(services, ann, feed_id) == {
        "Old football": "",
        "New football": "read tagged",
        "Climate news": "highlighted starred",
        "An advert": "read hidden",
        "Else": "",
    }
    assert _try(services)["matches"] == 0
    today = clock.now().date()
    found = rules.list_rules(ann)
    assert [found.count_hits(rule.id, today) for rule in found.rules] == [1, 1, 1]
