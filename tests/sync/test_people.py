"""People through the Google Reader API: shares as items of their own, and nothing of what is closed."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from app.bootstrap.services import Services
from app.models.accounts.actor import Actor
from app.models.sharing.sharing import Audience
from tests.support.reader import add_user, follow
from tests.sync.conftest import READING, Reader

Connect = Callable[..., Reader]
BROADCAST = "user/-/state/com.google/broadcast"
FRIENDS = "user/-/state/com.google/broadcast-friends"


@pytest.fixture
def bob(services: Services, connect: Connect) -> Reader:
    """Somebody with a feed, and his app."""
    actor = add_user(services, "bob")
    follow(services, actor, ["feeds/rss/zerokspot.com-71d236.xml"])
    return connect(actor, "bob")


def test_a_share_flag_shares_and_takes_back(bob: Reader, reader: Reader) -> None:
    (entry, *_) = bob.ids()
    for _ in range(2):
        bob.do("edit-tag", i=str(entry), a=BROADCAST, annotation="worth <b>it</b>")
    reader.do("friend/edit", action="addfollowing", u="bob")
    (own,) = bob.ids(BROADCAST)
    assert own != entry
    assert BROADCAST in bob.categories(entry)
    (friend,) = reader.json("friend/list")["friends"][1:]
    assert friend["displayName"] == "bob"
    (item,) = reader.json("stream/contents", s=FRIENDS)["items"]
    assert item["origin"]["streamId"] == friend["stream"]
    assert item["summary"]["content"].startswith('<p>via <a href="')
    assert "worth &lt;b&gt;it&lt;/b&gt;" in item["summary"]["content"]
    assert reader.ids(friend["stream"]) == reader.ids(FRIENDS, xt="user/-/state/com.google/read") == [own]
    counts = {c["id"]: c["count"] for c in reader.json("unread-count")["unreadcounts"]}
    assert counts[friend["stream"]] == counts[FRIENDS] == 1
    (feed,) = [f for f in reader.json("subscription/list")["subscriptions"] if f["title"] == "bob"]
    (listed,) = [
        i for i in reader.json("stream/contents", s=READING, n=900)["items"] if i["id"] == item["id"]
    ]
    assert listed["origin"]["streamId"] == feed["id"], "as apps that know nothing of people look for it"
    for _ in range(2):
        bob.do("edit-tag", i=str(entry), r=BROADCAST)
    assert reader.ids(FRIENDS) == []
    reader.do("friend/edit", action="removefollowing", u="bob")
    assert len(reader.json("friend/list")["friends"]) == 1


def test_W04_what_is_closed_is_not_even_counted(
    bob: Reader, reader: Reader, services: Services, db: object
) -> None:
    (first, second, third, *_) = bob.ids()
    him = services.gateways.accounts.find_by_name("bob")
    assert him is not None
    actor = Actor(him)
    services.sharing.share(actor, first)
    services.sharing.share(actor, second, audience=Audience.FOLLOWERS)
    services.sharing.share(actor, third, audience=Audience.PRIVATE)
    profile = services.following.get_or_create_profile(actor)
    shared = {key.of.entry_id: i for i, key in _shares(services, him)}
    stream = f"user/{him}/state/com.google/broadcast"
    for name in (stream, f"feed/{profile.feed_id}", "user/bob/state/com.google/broadcast"):
        assert reader.ids(name) == [shared[first]]
        assert reader.get("stream/items/count", s=name).text == "1"
    assert reader.get("stream/items/ids", s=f"feed/{profile.private_feed_id}").status_code == 400
    assert reader.items(*shared.values())[0]["id"].endswith(f"{shared[first]:016x}")
    assert len(reader.items(*shared.values())) == 1
    services.following.update_profile(
        actor, display="", bio="", links=[], audience=Audience.PRIVATE, listed=False, open_lists=False
    )
    for name in (stream, f"feed/{profile.feed_id}"):
        assert reader.get("stream/items/ids", s=name).status_code == 400
    assert reader.items(*shared.values()) == []
    assert sorted(bob.ids(BROADCAST)) == sorted(shared.values())


def _shares(services: Services, user_id: int) -> list[tuple[int, object]]:
    ids = services.mappers.shares.find_ids_by_user(user_id)
    return list(services.mappers.shares.find_many(ids).items())
