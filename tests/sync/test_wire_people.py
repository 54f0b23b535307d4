"""People through the Google Reader API: each share an item, and nothing told of what is closed (W04)."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Callable

import pytest

from app import clock
from app.bootstrap.services import Services
from app.models.accounts.actor import Actor
from app.models.sharing.sharing import Audience
from tests.sharing.conftest import People
from tests.sync.conftest import READ, READING, STARRED, Reader

STATE = "user/-/state/com.google"
OWN, FRIENDS, COMMENTED = (
    f"{STATE}/broadcast",
    f"{STATE}/broadcast-friends",
    f"{STATE}/broadcast-friends-comments",
)
LIKE = f"{STATE}/like"
Connect = Callable[..., Reader]


def of(who: Actor | int) -> str:
    """The stream of what somebody shares."""
    return f"user/{who.user_id if isinstance(who, Actor) else who}/state/com.google/broadcast"


@pytest.fixture
def people(services: Services) -> People:
    return People(services)


@pytest.fixture
def mira(people: People) -> Actor:
    """Somebody with a public stream."""
    actor = people.join("mira")
    people.open(actor)
    return actor


@pytest.fixture
def ann(people: People, mira: Actor) -> Actor:
    """One who follows her, and has an app."""
    actor = people.join("ann")
    people.open(actor)
    people.follow(actor, "mira")
    return actor


def share(
    services: Services, who: Actor, entry_id: int, note: str = "", audience: Audience | None = None
) -> int:
    return services.sharing.share(who, entry_id, note=note, audience=audience).share.id


def post(services: Services, who: Actor, words: str, audience: Audience | None = None) -> int:
    return services.sharing.publish_post(who, "", words, audience=audience).id


# -- what is shared
def test_each_share_is_an_item_of_its_own_with_its_way(
    services: Services, people: People, mira: Actor, ann: Actor, connect: Connect
) -> None:
    (entry,) = people.blog([mira, ann])
    first = people.join("first")
    people.open(first)
    people.services.subscriptions.subscribe(first, "https://blog.example.org/feed")
    root = share(services, first, entry, "Look")
    passed = share(services, mira, root, "See *this*")
    reader = connect(ann)
    assert reader.ids(of(mira)) == reader.ids(FRIENDS) == [passed]
    assert set(reader.ids(READING)) == {entry, passed}
    (item,) = reader.json(f"stream/contents/{of(mira)}")["items"]
    assert item["origin"]["streamId"] == of(mira)
    head = item["summary"]["content"].split("</p>")[0]
    assert head.startswith("<p>via ")
    assert head.index("/@mira/") < head.index("/@first/")
    assert "<blockquote><p>See <em>this</em></p></blockquote>" in item["summary"]["content"]
    assert "The text of blog 1" in item["summary"]["content"]
    assert item["annotations"][0]["content"] == "See *this*"
    (same,) = reader.items(passed)
    assert same["origin"]["streamId"] == f"feed/{services.sync.list_feeds(ann)[1].card.id}" or same["origin"][
        "streamId"
    ].startswith("feed/")
    assert same["origin"]["streamId"] in {s["id"] for s in reader.json("subscription/list")["subscriptions"]}


def test_people_are_counted_and_listed(
    services: Services, people: People, mira: Actor, ann: Actor, connect: Connect
) -> None:
    post(services, mira, "One")
    two = post(services, mira, "Two")
    reader = connect(ann)
    counts = {c["id"]: c["count"] for c in reader.json("unread-count")["unreadcounts"]}
    (feed,) = reader.json("subscription/list")["subscriptions"]
    assert counts == {READING: 2, FRIENDS: 2, of(mira): 2, feed["id"]: 2}
    assert "/@mira" in feed["htmlUrl"]
    reader.do("edit-tag", i=str(two), a=READ)
    assert {c["id"]: c["count"] for c in reader.json("unread-count")["unreadcounts"]}[of(mira)] == 1
    reader.do("mark-all-as-read", s=of(mira))
    assert reader.ids(FRIENDS, xt=READ) == []
    three = post(services, mira, "Three")
    assert reader.ids(FRIENDS, xt=READ) == [three]
    reader.do("mark-all-as-read", s=FRIENDS)
    assert reader.ids(READING, xt=READ) == []
    friends = {f["contactId"]: f for f in reader.json("friend/list")["friends"]}
    assert friends[str(mira.user_id)]["stream"] == of(mira)
    assert friends[str(ann.user_id)]["flags"] == "1"


def test_an_app_shares_with_a_note_edits_it_and_takes_it_back(
    services: Services, people: People, ann: Actor, connect: Connect
) -> None:
    (entry,) = people.blog([ann])
    reader = connect(ann)
    for note in ("Good", "Good", "Better", ""):
        reader.do("edit-tag", i=str(entry), a=OWN, annotation=note)
    (mine,) = reader.ids(OWN)
    assert mine != entry
    assert reader.ids(of(ann)) == reader.ids("user/ann/state/com.google/broadcast") == [mine]
    assert reader.items(mine)[0]["annotations"][0]["content"] == "Better"
    assert OWN in reader.categories(entry)
    for _ in range(2):
        reader.do("edit-tag", i=str(entry), r=OWN)
    assert reader.ids(OWN) == []
    assert OWN not in reader.categories(entry)


def test_an_app_follows_comments_and_likes(
    services: Services, people: People, mira: Actor, connect: Connect
) -> None:
    ann = people.join("ann")
    people.open(ann)
    said = post(services, mira, "Words")
    reader = connect(ann)
    assert reader.ids(FRIENDS) == []
    for who in (str(mira.user_id), "mira", of(mira)):
        reader.do("friend/edit", action="addfollowing", u=who)
    assert reader.ids(FRIENDS) == [said]
    assert reader.ids(COMMENTED) == []
    for _ in range(2):
        reader.do("comment/edit", action="addcomment", i=str(said), comment="I see.")
    assert reader.ids(COMMENTED) == [said]
    share_ = services.discussion.get_share(ann, said)
    assert [c.html for c in services.discussion.get_thread(ann, share_).comments] == ["<p>I see.</p>"]
    for _ in range(2):
        reader.do("edit-tag", i=str(said), a=LIKE)
    (item,) = reader.items(said)
    assert item["likingUsers"] == [{"userId": str(ann.user_id)}]
    assert reader.ids(LIKE) == [said]
    for _ in range(2):
        reader.do("edit-tag", i=str(said), r=LIKE)
    assert reader.ids(LIKE) == []
    for _ in range(2):
        reader.do("friend/edit", action="removefollowing", u=str(mira.user_id))
    assert reader.ids(FRIENDS) == []
    assert reader.ids(of(mira)) == [said], "a public stream may be looked at"


def test_W04_who_likes_a_share_is_told_to_who_shares_alone(
    services: Services, people: People, mira: Actor, ann: Actor, connect: Connect
) -> None:
    bob = people.join("bob")
    people.follow(bob, "mira")
    said = post(services, mira, "Words")
    for who in ann, bob:
        services.discussion.set_liked(who, said)

    def likers(who: Actor, name: str) -> list[str]:
        (item,) = connect(who, name).items(said)
        return sorted(user["userId"] for user in item["likingUsers"])

    assert likers(ann, "ann") == [str(ann.user_id)]
    assert likers(bob, "bob") == [str(bob.user_id)]
    assert likers(mira, "mira") == sorted(str(who.user_id) for who in (ann, bob))


def test_one_follows_by_subscribing_and_ends_it_so(
    services: Services, people: People, mira: Actor, connect: Connect
) -> None:
    ann = people.join("ann")
    said = post(services, mira, "Words")
    reader = connect(ann)
    reader.do("subscription/edit", ac="subscribe", s=of(mira))
    (feed,) = reader.json("subscription/list")["subscriptions"]
    assert reader.ids(feed["id"]) == [said]
    for _ in range(2):
        reader.do("subscription/edit", ac="unsubscribe", s=feed["id"])
    assert reader.json("subscription/list")["subscriptions"] == []


def test_a_star_on_a_share_is_shown_on_it(
    services: Services, people: People, mira: Actor, ann: Actor, connect: Connect
) -> None:
    said = post(services, mira, "Words")
    reader = connect(ann)
    for _ in range(2):
        reader.do("edit-tag", i=str(said), a=STARRED)
    assert reader.ids(STARRED) == [said]
    assert STARRED in reader.categories(said)


def test_a_mark_is_told_of_the_entry_and_of_each_share_of_it(
    services: Services,
    people: People,
    mira: Actor,
    ann: Actor,
    connect: Connect,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A share bears the marks of what it shares: an app that asks what has changed knows both."""
    (entry,) = people.blog([mira, ann])
    passed = share(services, mira, entry)
    reader, later = connect(ann), clock.now()
    monkeypatch.setattr(clock, "now", lambda: later)
    for marked in (entry, passed):
        for tag in (STARRED, "user/-/label/kept", OWN):
            for form in ({"a": tag}, {"r": tag}):
                later += dt.timedelta(hours=1)
                reader.do("edit-tag", i=str(marked), **form)
                assert set(reader.ids(ot=int(later.timestamp()))) == {entry, passed}, form


@pytest.mark.parametrize("how", ["taken back", "private", "stream", "muted"])
def test_a_share_that_comes_to_light_late_is_told_as_a_change(
    services: Services,
    people: People,
    mira: Actor,
    ann: Actor,
    connect: Connect,
    monkeypatch: pytest.MonkeyPatch,
    how: str,
) -> None:
    (entry, other) = people.blog([mira], 2)
    sharing, reader, later = services.sharing, connect(ann), clock.now()
    ann = dataclasses.replace(ann, synced=True)
    monkeypatch.setattr(clock, "now", lambda: later)
    share(services, mira, other)
    if how == "muted":
        services.following.set_muted(ann, "mira", True)
    passed, undo = share(services, mira, entry), ""
    match how:
        case "taken back":
            undo = sharing.remove_share(mira, passed)
        case "private":
            sharing.update_share(mira, passed, note="", audience=Audience.PRIVATE)
        case "stream":
            people.open(mira, Audience.PRIVATE)
    later += dt.timedelta(hours=1)
    asked = int(later.timestamp()) + 60
    assert passed not in reader.ids()
    assert reader.ids(ot=asked) == []
    later += dt.timedelta(seconds=10)
    match how:
        case "taken back":
            sharing.restore_share(mira, undo)
        case "private":
            sharing.update_share(mira, passed, note="", audience=Audience.FOLLOWERS)
        case "stream":
            people.open(mira, Audience.FOLLOWERS)
        case _:
            services.following.set_muted(ann, "mira", False)
    assert passed in reader.ids()
    assert passed in reader.ids(ot=asked)
    assert passed in reader.ids(ot=asked, xt=READ)
    later += dt.timedelta(hours=1)
    people.open(mira, Audience.FOLLOWERS)
    assert reader.ids(ot=int(later.timestamp())) == [], "what is not new is told once"


def test_who_gets_what_came_through_a_share_is_told_when_that_goes_or_comes(
    services: Services,
    people: People,
    mira: Actor,
    ann: Actor,
    connect: Connect,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The way stands in the text: an app would go on naming who took his share back."""
    (entry,) = people.blog([mira])
    bob, cleo = people.join("bob"), people.join("cleo")
    people.open(bob)
    people.follow(bob, "mira")
    people.follow(cleo, "bob")
    sharing, reader, later = services.sharing, connect(cleo, "cleo"), clock.now()
    monkeypatch.setattr(clock, "now", lambda: later)
    first = share(services, mira, entry)
    passed = share(services, bob, first)
    undos: list[str] = []
    changes: list[tuple[Callable[[], object], bool]] = [
        (lambda: undos.append(sharing.remove_share(mira, first)), False),
        (lambda: sharing.restore_share(mira, undos[0]), True),
        (lambda: sharing.update_share(mira, first, note="", audience=Audience.PRIVATE), False),
        (lambda: sharing.update_share(mira, first, note="", audience=Audience.PUBLIC), True),
        (lambda: sharing.update_share(mira, first, note="", audience=Audience.FOLLOWERS), False),
        (lambda: sharing.update_share(mira, first, note="", audience=Audience.PUBLIC), True),
        (lambda: services.gateways.sharing.erase(mira.user_id, later), False),
    ]
    for change, named in changes:
        later += dt.timedelta(hours=1)
        asked = int(later.timestamp())
        assert reader.ids(ot=asked) == []
        change()
        (item,) = reader.json("stream/contents", s=READING, ot=asked)["items"]
        assert item["id"].endswith(f"{passed:016x}")
        assert ("/@mira/" in item["summary"]["content"]) is named


# -- W04: what is closed
def _refused_or_empty(reader: Reader, stream: str) -> None:
    for path in (f"stream/contents/{stream}", "stream/items/ids", "stream/items/count"):
        answer = reader.get(path, s=stream, n=100)
        assert (
            answer.status_code == 400
            or answer.text == "0"
            or not (answer.get_json().get("itemRefs") or answer.get_json().get("items"))
        ), (path, answer.text)


@pytest.mark.parametrize("audience", [Audience.FOLLOWERS, Audience.PRIVATE])
def test_W04_ids_of_what_is_not_for_him_are_not_told(
    services: Services, people: People, mira: Actor, connect: Connect, audience: Audience
) -> None:
    """Neither by the person, nor by the number of the feed that her stream is."""
    bob = people.join("bob")
    closed = post(services, mira, "For few", audience)
    feed_id = services.gateways.profiles.get_by_name("mira").feed_id
    reader = connect(bob, "bob")
    for stream in (of(mira), "user/mira/state/com.google/broadcast", f"feed/{feed_id}"):
        _refused_or_empty(reader, stream)
    assert reader.items(closed) == []
    opened = post(services, mira, "For all")
    assert reader.ids(of(mira)) == [opened]
    assert reader.get("stream/items/count", s=of(mira)).text == "1"
    (item,) = reader.json(f"stream/contents/{of(mira)}")["items"]
    assert "For all" in item["summary"]["content"]


@pytest.mark.parametrize("how", ["closed", "for followers", "suspended", "blocked", "blocks"])
def test_W04_a_stream_that_is_closed_gives_nothing_away(
    services: Services, people: People, mira: Actor, connect: Connect, how: str
) -> None:
    bob = people.join("bob")
    people.open(bob)
    said = post(services, mira, "Secret words")
    feed_id = services.gateways.profiles.get_by_name("mira").feed_id
    match how:
        case "closed":
            people.open(mira, Audience.PRIVATE)
        case "for followers":
            people.open(mira, Audience.FOLLOWERS)
        case "suspended":
            services.gateways.profiles.set_suspended(mira.user_id, True)
        case "blocked":
            services.following.block(mira, "bob")
        case _:
            services.following.block(bob, "mira")
    reader = connect(bob, "bob")
    for stream in (of(mira), "user/mira/state/com.google/broadcast", f"feed/{feed_id}"):
        _refused_or_empty(reader, stream)
        assert "Secret" not in reader.client.get(f"/reader/atom/{stream}", headers=reader.headers).text
    both = reader.get("stream/items/ids", s=[READING, f"feed/{feed_id}"], n=100)
    assert both.status_code == 400 or both.get_json()["itemRefs"] == []
    assert reader.items(said) == []
    before = services.discussion.count_reactions(mira, [services.discussion.get_share(mira, said)])[said]
    for change in ({"a": STARRED}, {"a": LIKE}, {"a": READ}, {"a": OWN}, {"a": "user/-/label/x"}):
        reader.do("edit-tag", i=str(said), **change)
    assert reader.post("comment/edit", action="addcomment", i=str(said), comment="?").status_code == 400
    assert (
        services.discussion.count_reactions(mira, [services.discussion.get_share(mira, said)])[said] == before
    )
    assert reader.ids(STARRED) == reader.ids(LIKE) == reader.ids(OWN) == []
    mark = reader.post("mark-all-as-read", s=f"feed/{feed_id}")
    assert (mark.status_code, mark.text) in ((200, "OK"), (400, mark.text))


def test_W04_what_a_followed_person_closes_is_gone_from_apps(
    services: Services, people: People, mira: Actor, ann: Actor, connect: Connect
) -> None:
    said = post(services, mira, "Words")
    kept = post(services, mira, "Others")
    reader = connect(ann)
    path = f"stream/contents/{of(mira)}"
    tag = reader.get(path).headers["ETag"]

    def again() -> int:
        headers = {**reader.headers, "If-None-Match": tag}
        return reader.client.get(f"/reader/api/0/{path}?output=json", headers=headers).status_code

    assert again() == 304
    services.sharing.remove_share(mira, said)
    assert [i["id"][-16:] for i in reader.json(path)["items"]] == [f"{kept:016x}"]
    assert reader.items(said) == []
    assert again() == 200
    people.open(mira, Audience.PRIVATE)
    assert reader.ids(FRIENDS) == []
    assert reader.ids(READING) == []
    assert reader.items(kept) == []
    counts = reader.json("unread-count")["unreadcounts"]
    assert {c["count"] for c in counts} == {0}, counts


def test_who_is_muted_is_not_in_the_list_of_all(
    services: Services, people: People, mira: Actor, ann: Actor, connect: Connect
) -> None:
    said = post(services, mira, "Words")
    services.following.set_muted(ann, "mira", True)
    reader = connect(ann)
    assert reader.ids(READING) == reader.ids(FRIENDS) == []
    assert reader.ids(of(mira)) == [said]
    counts = {c["id"]: c["count"] for c in reader.json("unread-count")["unreadcounts"]}
    assert counts[READING] == 0
    for name in (READING, FRIENDS):
        reader.do("mark-all-as-read", s=name)
    services.following.set_muted(ann, "mira", False)
    assert reader.ids(READING, xt=READ) == [said], "it was not marked with what stood in these lists"


def test_own_stream_and_others_are_not_mixed(
    services: Services, people: People, mira: Actor, connect: Connect
) -> None:
    bob = people.join("bob")
    people.open(bob)
    hers, his = post(services, mira, "Hers"), post(services, bob, "His")
    reader = connect(bob, "bob")
    assert reader.ids([of(mira), OWN]) == [his, hers]
    assert reader.ids([of(mira), OWN], xt=OWN) == [hers]
    assert reader.ids([of(mira), OWN], it=OWN) == [his]
    assert reader.ids(f"splice/{of(mira)}|{OWN}") == [his, hers]


@pytest.mark.parametrize("who", ["nobody", "99999999", "9" * 30, "²", "-1", "%00"])
def test_nobody_is_an_error_of_400(people: People, connect: Connect, who: str) -> None:
    reader = connect(people.join("ann"))
    for answer in (
        reader.get("stream/items/ids", s=f"user/{who}/state/com.google/broadcast"),
        reader.post("friend/edit", action="addfollowing", u=who),
        reader.post("friend/edit", action="removefollowing", u=who),
        reader.post("subscription/edit", ac="subscribe", s=f"user/{who}/state/com.google/broadcast"),
    ):
        assert answer.status_code == 400, answer.text


def test_one_cannot_follow_oneself(people: People, ann: Actor, connect: Connect) -> None:
    reader = connect(ann)
    assert reader.post("friend/edit", action="addfollowing", u=str(ann.user_id)).status_code == 400


def test_W04_what_somebody_else_has_on_his_screen_is_not_told_by_its_id(
    services: Services, people: People, ann: Actor, connect: Connect
) -> None:
    (entry,) = people.blog([ann])
    assert people.page(ann).rows
    bob = people.join("bob")
    assert connect(bob, "bob").items(entry) == []
