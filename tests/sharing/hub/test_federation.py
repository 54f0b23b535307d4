"""Two servers: somebody of one reads what somebody of the other shares, at once and with its chain."""

from __future__ import annotations

import contextlib
import dataclasses
import uuid
from collections.abc import Iterator

import pytest
import redis

from app.bootstrap import services as bootstrap
from app.bootstrap.services import Services
from app.config import Settings
from app.errors import InvalidError
from app.models.feeds.chain import Chain, make_share_id
from app.models.feeds.websub import HubState
from app.models.sharing.sharing import Audience
from tests.sharing.conftest import People
from tests.support.servers import Server
from tests.support.wire import Wire


@pytest.fixture(scope="module")
def wires() -> Iterator[tuple[Wire, Wire]]:
    with Wire() as one, Wire() as two:
        yield one, two


@pytest.fixture
def settings(settings: Settings, wires: tuple[Wire, Wire]) -> Settings:
    one, two = wires
    allow = (one.host, two.host)
    return dataclasses.replace(
        settings,
        base_url=one.url(),
        hub="on",
        websub="on",
        websub_interval=1,
        fetch_allow=allow,
        hub_allow=allow,
    )


@pytest.fixture
def here(services: Services, wires: tuple[Wire, Wire]) -> Iterator[Server]:
    with contextlib.closing(Server(services, wires[0])) as made:
        yield made


@pytest.fixture
def there(settings: Settings, wires: tuple[Wire, Wire], redis_client: redis.Redis) -> Iterator[Server]:
    """Another server: its own database, and its own part of Redis."""
    own = dataclasses.replace(
        settings,
        base_url=wires[1].url(),
        mongodb_name=f"test_{uuid.uuid4().hex[:12]}",
        redis_url=settings.redis_url.replace("db=0", "db=1"),
        secret_key="2Fh5zQw8Xn4Kc7Vt1Lb6Rj9Dm3Gs0PyE",
    )
    with contextlib.closing(bootstrap.build(own)) as services:
        services.migrate()
        with contextlib.closing(Server(services, wires[1])) as made:
            yield made
        services.store.database.client.drop_database(own.mongodb_name)


def test_a_share_goes_from_server_to_server_with_its_chain(here: Server, there: Server) -> None:
    people, others = People(here.services), People(there.services)
    ann, bob, cleo = people.join("ann"), others.join("bob"), people.join("cleo")
    people.open(ann)
    entries = people.blog([ann], 2)

    # Bob follows Ann as he follows any site; her server's hub is found, asked, and asks back.
    feed_id = there.services.subscriptions.subscribe(bob, here.topic("ann")).subscription.feed_id
    there.pull(feed_id)
    there.work()
    here.work()
    (row,) = there.services.mappers.websubs.find_current([feed_id]).values()
    assert row.state is HubState.ACTIVE

    share = here.services.sharing.share(ann, entries[0], note="Look").share
    here.work()
    there.work()
    row = there.services.mappers.websubs.find_current([feed_id])[feed_id]
    assert (row.pushes, row.forged) == (1, 0)
    (key,) = _entries(there, feed_id)
    entry = there.services.gateways.entries.get(bob.user_id, key)
    assert "Look" in entry.content
    chain = _known(entry.remote)
    (hop,) = chain.hops
    origin = here.services.settings.own_origin
    assert (hop.id, hop.name, hop.url) == (
        make_share_id(origin, share.id),
        "ann",
        f"{origin}/@ann/{share.id}",
    )
    assert (hop.at, hop.state) == (share.at.replace(microsecond=0), "")
    root = here.services.gateways.entries.get(ann.user_id, entries[0])
    assert (chain.url, chain.title) == (root.url, root.title)

    # He passes it on: his chain begins with hers, and says so to the next server, which is hers.
    mine = there.services.sharing.share(bob, key).share
    page = there.services.sharing.list_chain(bob, mine.id)
    assert page.remote == chain
    assert [node.share_id for node in page.nodes] == [mine.id]
    way = there.services.sharing.build_chain(None, mine)
    assert way.hops[0] == hop
    assert [h.name for h in way.hops] == ["ann", "bob"]
    assert (way.url, way.title) == (chain.url, chain.title)
    back = here.services.subscriptions.subscribe(cleo, there.topic("bob", "feed.json"))
    here.pull(back.subscription.feed_id)
    (key,) = _entries(here, back.subscription.feed_id)
    assert here.services.gateways.entries.get(cleo.user_id, key).remote == _seconds(way)

    # What she changes comes with the next push.
    here.services.sharing.update_share(ann, share.id, note="Look again")
    here.work()
    assert there.services.mappers.websubs.find_current([feed_id])[feed_id].pushes == 2


def test_hops_that_nobody_may_see_have_no_name(people: People) -> None:
    sharing = people.services.sharing
    ann, bob, cleo, dan = (people.join(name) for name in ("ann", "bob", "cleo", "dan"))
    for who in (ann, bob, cleo, dan):
        people.open(who)
    people.follow(bob, "ann")
    people.follow(cleo, "bob")
    people.follow(dan, "cleo")
    (entry,) = people.blog([ann])
    first = sharing.share(ann, entry).share
    second = sharing.share(bob, first.id).share
    third = sharing.share(cleo, second.id).share
    last = sharing.share(dan, third.id).share
    assert [h.name for h in sharing.build_chain(None, last).hops] == ["ann", "bob", "cleo", "dan"]
    sharing.update_share(ann, first.id, note="", audience=Audience.FOLLOWERS)
    sharing.remove_share(cleo, third.id)
    assert [h.name or h.state for h in sharing.build_chain(None, last).hops] == [
        "private",
        "bob",
        "removed",
        "dan",
    ]
    assert [h.name or h.state for h in sharing.build_chain(bob, last).hops] == [
        "ann",
        "bob",
        "removed",
        "dan",
    ]
    assert not any(h.id or h.url or h.at for h in sharing.build_chain(None, last).hops if h.state)


def test_a_post_is_the_root_of_its_chain(people: People) -> None:
    sharing = people.services.sharing
    ann, bob = people.join("ann"), people.join("bob")
    people.open(ann)
    people.open(bob)
    people.follow(bob, "ann")
    post = sharing.publish_post(ann, "Title", "Words")
    passed = sharing.share(bob, post.id).share
    origin = people.services.settings.own_origin
    for share in (post, passed):
        way = sharing.build_chain(None, share)
        assert (way.url, way.title) == (f"{origin}/@ann/{post.id}", "Title")
    sharing.update_share(ann, post.id, note="Words", audience=Audience.FOLLOWERS)
    way = sharing.build_chain(None, passed)
    assert (way.url, way.title, way.hops[0].state) == ("", "", "private")


def test_hands_on_other_servers_count(people: People, settings: Settings) -> None:
    few = dataclasses.replace(settings, chain_depth=3)
    with contextlib.closing(bootstrap.build(few)) as services:
        own = People(services)
        ann, bob = own.join("ann"), own.join("bob")
        entries = own.blog([ann], 2)
        remote = {"url": "", "title": "", "hops": [{"state": "private"}] * 2}
        services.store.database["entries"].update_one({"_id": entries[0]}, {"$set": {"remote": remote}})
        share = services.sharing.share(ann, entries[0]).share
        own.follow(bob, "ann")
        with pytest.raises(InvalidError):
            services.sharing.share(bob, share.id)
        remote["hops"] = [{"state": "private"}] * 3
        services.store.database["entries"].update_one({"_id": entries[1]}, {"$set": {"remote": remote}})
        with pytest.raises(InvalidError):
            services.sharing.share(ann, entries[1])


def _entries(server: Server, feed_id: int) -> list[int]:
    found = server.services.store.database["entries"].find({"feed_id": feed_id}).sort("seq")
    return [d["_id"] for d in found]


def _known(chain: Chain | None) -> Chain:
    assert chain is not None
    return chain


def _seconds(chain: Chain) -> Chain:
    """Return a chain as it is written: times to the second."""
    return chain._replace(
        hops=tuple(h._replace(at=h.at.replace(microsecond=0) if h.at else None) for h in chain.hops)
    )
