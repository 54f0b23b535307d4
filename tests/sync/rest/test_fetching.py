"""How a feed is fetched, through the API: secrets go in, and never come out."""

from __future__ import annotations

from app.bootstrap.services import Services
from app.models.accounts.actor import Actor
from tests.sync.rest.conftest import Program

URL = "https://paid.example/feed"


def test_options_are_set_kept_and_removed(mine: Program, services: Services, ann: Actor) -> None:
    feed_id = services.subscriptions.subscribe(ann, URL).subscription.feed_id
    sent = {"login": "ann", "password": "s3cret-canary", "cookie": "sid=canary", "min_minutes": 60}
    moved = mine.post(f"/subscriptions/{feed_id}/fetching", sent)
    assert moved.status_code == 200
    own = moved.get_json()["feed_id"]
    assert (own != feed_id, moved.get_json()["undo"][:5]) == (True, "feed.")
    said = mine.get(f"/subscriptions/{own}/fetching")
    assert said.get_json() == {
        "login": "ann",
        "has_password": True,
        "has_token": False,
        "has_cookie": True,
        "has_headers": False,
        "user_agent": "",
        "time_limit": None,
        "min_minutes": 60,
        "max_minutes": None,
    }
    assert "canary" not in said.text
    kept = mine.post(f"/subscriptions/{own}/fetching", {"user_agent": "Mine/1", "cookie": ""}).get_json()
    assert (kept["feed_id"], kept["undo"]) == (own, "")
    assert services.subscriptions.get_fetch_options(ann, own).password == "s3cret-canary"
    gone = {"login": "", "user_agent": "", "min_minutes": None}
    assert mine.post(f"/subscriptions/{own}/fetching", gone).get_json()["feed_id"] == feed_id
    assert mine.post(f"/subscriptions/{feed_id}/fetching", {"login": "a:b"}).status_code == 400
    assert mine.post(f"/subscriptions/{feed_id}/fetching", {"min_minutes": 0}).status_code == 400


def test_a_feed_is_hidden_and_opened_at_its_site(mine: Program, services: Services, ann: Actor) -> None:
    feed_id = services.subscriptions.subscribe(ann, URL).subscription.feed_id
    changed = mine.patch(f"/subscriptions/{feed_id}", {"hidden": True, "original": True}).get_json()
    assert (changed["hidden"], changed["original"]) == (True, True)
    changed = mine.patch(f"/subscriptions/{feed_id}", {"hidden": False}).get_json()
    assert (changed["hidden"], changed["original"]) == (False, True)
