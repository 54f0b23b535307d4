"""Each condition of the visibility rule, as the rule itself and as the queries that must agree with it."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from app import clock
from app.errors import ForbiddenError, NotFoundError
from app.gateways.sharing.visibility import VisibilityGateway
from app.models.accounts.actor import Actor
from app.models.discussion.comments import PersonSummary
from app.models.sharing.sharing import (
    STRANGER,
    Audience,
    Profile,
    Relationship,
    RelationshipKind,
    Share,
    ShareBox,
)
from app.runtime import identity_map
from tests.sharing.conftest import People

PUBLIC, FOLLOWERS, PRIVATE = Audience
FOLLOWER, OWNER = Relationship(follows=True), Relationship(own=True)
BLOCKED = Relationship(blocked=True)
BLOCKER = Relationship(blocked=True, blocks=True)
ANYBODY = Profile(user_id=1, feed_id=2, private_feed_id=3, handle="ann")


def _profile(audience: Audience = PUBLIC, *, hidden: bool = False) -> Profile:
    return dataclasses.replace(ANYBODY, audience=audience, hidden=hidden)


@pytest.fixture
def visibility(people: People) -> VisibilityGateway:
    found: VisibilityGateway = people.services.gateways.visibility
    return found


def _handles(shares: dict[int, Profile]) -> list[str]:
    return sorted(profile.handle for profile in shares.values())


# -- the rule


@pytest.mark.parametrize(
    ("stream", "share", "stranger", "follower"),
    [
        (PUBLIC, PUBLIC, True, True),
        (PUBLIC, FOLLOWERS, False, True),
        (PUBLIC, PRIVATE, False, False),
        (FOLLOWERS, PUBLIC, False, True),
        (FOLLOWERS, FOLLOWERS, False, True),
        (FOLLOWERS, PRIVATE, False, False),
        (PRIVATE, PUBLIC, False, False),
        (PRIVATE, FOLLOWERS, False, False),
        (PRIVATE, PRIVATE, False, False),
    ],
)
def test_the_narrower_of_stream_and_share_decides_who_sees_it(
    stream: Audience, share: Audience, stranger: bool, follower: bool
) -> None:
    profile = _profile(stream)
    assert profile.allows_view(share, STRANGER) is stranger
    assert profile.allows_view(share, FOLLOWER) is follower
    assert profile.allows_view(share, OWNER)
    for blocked in (BLOCKED, BLOCKER, FOLLOWER._replace(blocked=True)):
        assert not profile.allows_view(share, blocked)
    suspended = _profile(stream, hidden=True)
    assert [suspended.allows_view(share, tie) for tie in (STRANGER, FOLLOWER, OWNER)] == [False, False, True]
    assert suspended.visible_to is PRIVATE
    assert profile.visible_to is stream


def test_a_page_is_hidden_from_those_its_owner_blocks_and_shown_to_those_who_block() -> None:
    ties = (STRANGER, FOLLOWER, BLOCKED, BLOCKER, OWNER)
    assert [_profile().has_page(tie) for tie in ties] == [True, True, False, True, True]
    for closed in (_profile(PRIVATE), _profile(hidden=True)):
        assert [closed.has_page(tie) for tie in ties] == [False, False, False, False, True]


def test_nothing_is_shared_more_widely_than_the_stream_or_the_source() -> None:
    def choices(audience: Audience, widest: Audience) -> tuple[Audience, ...]:
        return ShareBox(mine=None, audience=audience, widest=widest).choices

    assert choices(PUBLIC, PUBLIC) == (PUBLIC, FOLLOWERS, PRIVATE)
    assert choices(PUBLIC, FOLLOWERS) == choices(FOLLOWERS, PUBLIC) == (FOLLOWERS, PRIVATE)
    assert choices(PRIVATE, PUBLIC) == (PRIVATE,)


@pytest.mark.parametrize(
    ("profile", "relationship", "error"),
    [
        (_profile(), OWNER, ForbiddenError),
        (_profile(hidden=True), FOLLOWER, NotFoundError),
        (_profile(PRIVATE), FOLLOWER, NotFoundError),
        (_profile(), BLOCKED, NotFoundError),
        (_profile(), BLOCKER, ForbiddenError),
    ],
)
def test_nobody_follows_themselves_or_somebody_hidden_private_or_blocked(
    visibility: VisibilityGateway, profile: Profile, relationship: Relationship, error: type[Exception]
) -> None:
    with pytest.raises(error) as raised:
        visibility.can_follow_directly(profile, relationship)
    assert type(raised.value) is error


def test_a_stream_for_followers_has_to_be_asked_first(visibility: VisibilityGateway) -> None:
    assert visibility.can_follow_directly(_profile(), STRANGER)
    assert not visibility.can_follow_directly(_profile(FOLLOWERS), STRANGER)
    assert visibility.can_follow_directly(_profile(FOLLOWERS), FOLLOWER)


# -- what one person is to another


def _lay(people: People, who: Actor, kind: RelationshipKind, whom: Actor) -> None:
    people.services.mappers.ties.add(who.user_id, kind, whom.user_id, clock.now())


def _find(people: People, who: Actor) -> Profile:
    found: Profile | None = people.services.mappers.profiles.find(who.user_id)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("kind", "by_viewer", "by_other"),
    [
        (RelationshipKind.REQUEST, {"requested": True}, {}),
        (RelationshipKind.MUTE, {"muted": True}, {}),
        (RelationshipKind.BLOCK, {"blocked": True, "blocks": True}, {"blocked": True}),
    ],
)
def test_a_tie_counts_for_the_one_who_laid_it_down_and_a_block_for_both(
    people: People,
    ann: Actor,
    bob: Actor,
    cleo: Actor,
    visibility: VisibilityGateway,
    kind: RelationshipKind,
    by_viewer: dict[str, bool],
    by_other: dict[str, bool],
) -> None:
    people.open(ann, FOLLOWERS)
    _lay(people, bob, kind, ann)
    people.open(bob, FOLLOWERS)
    people.open(cleo)
    assert visibility.find_relationship(bob.user_id, _find(people, ann)) == Relationship(**by_viewer)
    assert visibility.find_relationship(ann.user_id, _find(people, bob)) == Relationship(**by_other)
    # Neither a third person nor a stranger is touched.
    assert visibility.find_relationship(bob.user_id, _find(people, cleo)) == STRANGER
    assert visibility.find_relationship(cleo.user_id, _find(people, ann)) == STRANGER
    assert visibility.find_relationship(None, _find(people, ann)) == STRANGER
    assert visibility.find_relationship(ann.user_id, _find(people, ann)).own


def test_a_request_to_a_stream_that_is_public_by_now_is_no_longer_pending(
    people: People, ann: Actor, bob: Actor, visibility: VisibilityGateway
) -> None:
    people.open(ann)
    _lay(people, bob, RelationshipKind.REQUEST, ann)
    assert not visibility.find_relationship(bob.user_id, _find(people, ann)).requested


def test_only_an_accepted_subscription_to_the_person_makes_a_follower(
    people: People, ann: Actor, bob: Actor, visibility: VisibilityGateway
) -> None:
    people.open(ann)
    people.follow(bob, "ann")
    assert visibility.find_relationship(bob.user_id, _find(people, ann)).follows
    subscriptions = people.services.store.database["subscriptions"]
    assert subscriptions.update_many({"user_id": bob.user_id}, {"$unset": {"person": ""}}).modified_count == 1
    assert not visibility.find_relationship(bob.user_id, _find(people, ann)).follows


def test_comments_come_from_neither_muted_nor_blocked_nor_suspended_people(
    people: People, ann: Actor, visibility: VisibilityGateway
) -> None:
    names = (
        "muted",
        "mutes",
        "blocked",
        "blocks",
        "asks",
        "asked",
        "suspended",
        "disabled",
        "leaving",
        "plain",
    )
    others = {name: people.join(name) for name in names}
    _lay(people, ann, RelationshipKind.MUTE, others["muted"])
    _lay(people, others["mutes"], RelationshipKind.MUTE, ann)
    _lay(people, ann, RelationshipKind.BLOCK, others["blocked"])
    _lay(people, others["blocks"], RelationshipKind.BLOCK, ann)
    # What others lay down about each other is none of ann's concern.
    _lay(people, others["plain"], RelationshipKind.BLOCK, others["mutes"])
    _lay(people, others["asks"], RelationshipKind.REQUEST, ann)
    _lay(people, ann, RelationshipKind.REQUEST, others["asked"])
    people.open(others["suspended"])
    people.services.mappers.profiles.update(others["suspended"].user_id, {"hidden": True})
    users = people.services.store.database["users"]
    users.update_one({"_id": others["disabled"].user_id}, {"$set": {"disabled": True}})
    users.update_one({"_id": others["leaving"].user_id}, {"$set": {"leaving": clock.now()}})

    def heard(viewer: int | None) -> set[str]:
        ids = [who.user_id for who in others.values()]
        return {face.handle for face in visibility.find_unmuted_people(viewer, ids).values()}

    assert heard(ann.user_id) == {"mutes", "asks", "asked", "plain"}
    assert heard(None) == {"muted", "mutes", "blocked", "blocks", "asks", "asked", "plain"}


def test_people_appear_under_their_display_name_or_else_under_their_user_name(
    people: People, ann: Actor, visibility: VisibilityGateway
) -> None:
    named, unnamed, private, new = (people.join(name) for name in ("named", "unnamed", "private", "new"))
    for who, display, audience in (
        (named, "Ned the Reader", Audience.PUBLIC),
        (unnamed, "", Audience.FOLLOWERS),
        (private, "Priscilla", Audience.PRIVATE),
    ):
        people.services.following.update_profile(
            who, display=display, bio="", links=(), audience=audience, listed=False, open_lists=False
        )
    ids = [who.user_id for who in (named, unnamed, private, new)]
    assert visibility.find_unmuted_people(ann.user_id, ids) == {
        named.user_id: PersonSummary(named.user_id, "named", "Ned the Reader", page=True),
        unnamed.user_id: PersonSummary(unnamed.user_id, "unnamed", "unnamed", page=True),
        private.user_id: PersonSummary(private.user_id, "private", "Priscilla", page=False),
        new.user_id: PersonSummary(new.user_id, "new", "new", page=False),
    }, "only streams that someone may read have a page"


def test_who_leaves_has_no_profile_and_no_name(
    people: People, ann: Actor, bob: Actor, visibility: VisibilityGateway
) -> None:
    people.open(ann)
    profiles = people.services.mappers.profiles
    assert profiles.find_by_name("bob") is None, "no profile"
    assert profiles.find_ids_by_name(["ANN", "nobody"]) == {"ann": ann.user_id}
    assert (profiles.find_by_name("ANN"), list(visibility.find_pages(["ann"]))) == (
        _find(people, ann),
        ["ann"],
    )
    people.services.store.database["users"].update_one(
        {"_id": ann.user_id}, {"$set": {"leaving": clock.now()}}
    )
    assert profiles.find(ann.user_id) is None
    assert profiles.find_by_name("ann") is None
    assert profiles.find_ids_by_name(["ann"]) == {}
    assert visibility.find_pages(["ann"]) == {}


def test_a_closed_account_is_hidden_like_a_suspended_person(people: People, ann: Actor, bob: Actor) -> None:
    people.open(ann)
    people.open(bob)
    assert not _find(people, ann).hidden
    people.services.mappers.profiles.update(bob.user_id, {"hidden": True})
    assert _find(people, bob).hidden
    people.services.store.database["users"].update_one({"_id": ann.user_id}, {"$set": {"disabled": True}})
    assert _find(people, ann).hidden


def test_a_name_links_to_a_page_unless_the_stream_is_private(
    people: People, ann: Actor, bob: Actor, cleo: Actor, visibility: VisibilityGateway
) -> None:
    people.open(ann, PRIVATE)
    people.open(bob, FOLLOWERS)
    assert visibility.find_pages(["ann", "bob", " BOB", "cleo", "nobody"]) == {"bob": "bob", " BOB": "bob"}


def test_a_name_means_only_people_who_may_see_the_share(
    people: People, ann: Actor, bob: Actor, cleo: Actor, visibility: VisibilityGateway
) -> None:
    people.open(ann)
    people.follow(bob, "ann")
    post = people.services.sharing.publish_post(ann, "a", "b", audience=FOLLOWERS)
    found = visibility.find_mentioned(["bob", "cleo", "nobody"], post)
    assert [face.handle for face in found.values()] == ["bob"]


def test_only_streams_whose_page_is_visible_are_open(
    people: People, ann: Actor, bob: Actor, cleo: Actor, visibility: VisibilityGateway
) -> None:
    (entry,) = people.blog([ann])
    blog = people.services.store.database["entries"].find_one({"_id": entry})["feed_id"]
    for who, audience in ((ann, PUBLIC), (bob, PRIVATE), (cleo, PUBLIC)):
        people.open(who, audience)
    dora = people.join("dora")
    people.services.following.block(cleo, "dora")
    feeds = [_find(people, who).feed_id for who in (ann, bob, cleo)]
    assert set(visibility.find_streamers([*feeds, blog])) == set(feeds)
    assert visibility.filter_open_streams(dora.user_id, [*feeds, blog]) == [feeds[0]]
    assert visibility.filter_open_streams(ann.user_id, [blog]) == []


# -- the queries agree with the rule


class Chain:
    """One entry that people of each kind have shared, and people of each kind who look at it."""

    def __init__(self, people: People) -> None:
        self.services: Any = people.services
        names = ("open", "closed", "narrow", "shut", "gone", "muter", "withdrawn")
        sharers = {name: people.join(name) for name in names}
        names = ("follower", "follower of open", "stranger", "blocked", "blocker")
        self.viewers = {name: people.join(name.replace(" ", "")) for name in names}
        self.entry, self.other = people.blog([*sharers.values()], 2)
        for who in sharers.values():
            people.open(who)
        for name in sharers:
            people.follow(self.viewers["follower"], name)
        people.follow(self.viewers["follower of open"], "open")
        _lay(people, sharers["open"], RelationshipKind.BLOCK, self.viewers["blocked"])
        _lay(people, self.viewers["blocker"], RelationshipKind.BLOCK, sharers["open"])
        # A mute hides no share from a chain, whichever of the two mutes the other.
        _lay(people, self.viewers["stranger"], RelationshipKind.MUTE, sharers["muter"])
        _lay(people, sharers["muter"], RelationshipKind.MUTE, self.viewers["stranger"])
        audiences = {"narrow": FOLLOWERS, "shut": PRIVATE}
        self.shares: dict[str, Share] = {
            name: people.services.sharing.share(who, self.entry, audience=audiences.get(name)).share
            for name, who in sharers.items()
        }
        people.services.sharing.share(sharers["open"], self.other)
        people.open(sharers["closed"], FOLLOWERS)
        people.open(sharers["withdrawn"], PRIVATE)
        people.services.sharing.remove_share(sharers["gone"], self.shares["gone"].id)
        self.shares = self.services.mappers.shares.find_many([s.id for s in self.shares.values()])
        self.viewers["shut"] = sharers["shut"]
        self.sharers = sharers

    def ids(self) -> dict[str | None, int | None]:
        return {None: None, **{name: who.user_id for name, who in self.viewers.items()}}


def test_the_queries_for_a_chain_agree_with_the_rule_for_each_viewer(
    people: People, visibility: VisibilityGateway
) -> None:
    chain = Chain(people)
    shares, entries = chain.services.mappers.shares, chain.services.gateways.entries
    expected = {
        None: ["muter", "open"],
        "stranger": ["muter", "open"],
        "follower": ["closed", "muter", "narrow", "open"],
        "follower of open": ["muter", "open"],
        "blocked": ["muter"],
        "blocker": ["muter"],
        "shut": ["muter", "open", "shut"],
    }
    for viewer, user_id in chain.ids().items():
        found = visibility.find_visible_profiles(user_id, list(chain.shares.values()))
        assert _handles(found) == expected[viewer], viewer
        query = visibility.build_filter(user_id)
        listed = shares.list_chain(chain.entry, query, "", 50)
        assert sorted(share.id for share, _ in listed) == sorted(found), viewer
        assert shares.list_chain(chain.entry, query, listed[0][1], 50) == listed[1:]
        assert shares.count(chain.entry, query, 50) == len(found)
        assert visibility.find_hidden(user_id, [*chain.shares, 17]) == {*chain.shares, 17} - set(found)
        assert set(visibility.find_sharers(user_id, list(chain.shares.values()))) == set(found)
        for share in chain.shares.values():
            assert visibility.can_see(user_id, share) is (share.id in found)
            if user_id is not None and share.id in found:
                assert entries.get(user_id, share.id).feed_id == share.feed_id
            elif user_id is not None:
                with pytest.raises(NotFoundError):
                    entries.get(user_id, share.id)
    last, counts = shares.find_last([chain.entry, 17], 50, 50)
    assert sorted(_handles(visibility.find_visible_profiles(None, last[chain.entry]))) == ["muter", "open"]
    assert (len(last[chain.entry]), last[17], counts) == (2, [], {chain.entry: 2})
    assert shares.find_last([chain.entry], 1, 1) == ({chain.entry: last[chain.entry][:1]}, {chain.entry: 1})


def test_people_who_were_read_before_are_judged_the_same(
    people: People, visibility: VisibilityGateway
) -> None:
    chain = Chain(people)
    shares, viewer = list(chain.shares.values()), chain.viewers["follower"].user_id
    visible, hidden = (
        visibility.find_visible_profiles(viewer, shares),
        visibility.find_hidden(viewer, chain.shares),
    )
    with identity_map.open_scope():
        visibility.build_filter(viewer)
        first = visibility.find_visible_profiles(viewer, shares[:2])
        assert visibility.find_visible_profiles(viewer, shares[:2]) == first
        assert visibility.find_visible_profiles(viewer, shares) == visible
        assert visibility.find_hidden(viewer, chain.shares) == hidden


def test_queries_by_person_or_feed_leave_out_removed_shares(
    people: People, visibility: VisibilityGateway
) -> None:
    chain = Chain(people)
    shares, by_name = chain.services.mappers.shares, {s.user_id: s for s in chain.shares.values()}
    gone, live = (by_name[chain.sharers[name].user_id] for name in ("gone", "open"))
    feeds = [s.feed_id for s in chain.shares.values()]
    among = shares.find_among([chain.entry], feeds)
    assert [s.id for s in among] == sorted(s.id for s in chain.shares.values() if s.id != gone.id)
    assert [s.id for s in shares.find_among([chain.entry], [live.feed_id])] == [live.id]
    assert [s.id for s in shares.find_among([chain.entry], [], live.user_id)] == [live.id]
    assert shares.find_among([chain.entry], [], gone.user_id) == []
    assert shares.find_among([17], feeds) == shares.find_among([chain.entry], []) == []
    for share, found in ((gone, []), (live, [live.id])):
        assert [s.id for s in shares.find_own(share.user_id, [chain.entry]).values()] == found
        assert shares.find_own(share.user_id, [17]) == {}
        stream = [s.id for s in shares.list_stream(share.user_id, list(Audience), None, 9)]
        assert [i for i in stream if i in chain.shares] == found
        assert {s.id for s in shares.find_by_user(share.user_id, 9)} == set(stream)
        assert shares.count_stream(share.user_id, list(Audience), 9) == len(stream) == 2 * len(found)
    assert shares.find_ids_by_user(gone.user_id) == [gone.id]


def test_a_stream_lists_and_counts_only_the_audiences_asked_for(people: People, ann: Actor) -> None:
    people.open(ann)
    posts = {a: people.services.sharing.publish_post(ann, str(a), "x", audience=a).id for a in Audience}
    shares = people.services.mappers.shares
    for wanted in ([], [PUBLIC], [FOLLOWERS], [PUBLIC, FOLLOWERS], list(Audience)):
        found = [s.id for s in shares.list_stream(ann.user_id, wanted, None, 9)]
        assert found == sorted((posts[a] for a in wanted), reverse=True)
        rest = shares.list_stream(ann.user_id, wanted, found[0], 9) if found else []
        assert [s.id for s in rest] == found[1:]
        assert shares.count_stream(ann.user_id, wanted, 9) == len(wanted)


def test_only_public_live_descendants_of_a_share_are_public(
    people: People, ann: Actor, bob: Actor, cleo: Actor
) -> None:
    dora = people.join("dora")
    for who in (ann, bob, cleo, dora):
        people.open(who)
    sharing, shares = people.services.sharing, people.services.mappers.shares
    root, other = (sharing.publish_post(ann, title, "x") for title in "ab")
    public = sharing.share(bob, root.id).share
    narrow = sharing.share(cleo, root.id, audience=FOLLOWERS).share
    gone = sharing.share(dora, root.id).share
    sharing.remove_share(dora, gone.id)
    found = shares.find_public_descendants([root, other], 9)
    assert {i: [s.id for s in below] for i, below in found.items()} == {root.id: [public.id], other.id: []}
    assert {s.id for s in shares.find_descendants(root, 9)} == {public.id, narrow.id}
    assert shares.find_descendants(public, 9) == shares.find_descendants(narrow, 9) == []
    people.open(bob, FOLLOWERS)
    assert shares.find_public_descendants([root], 9) == {root.id: []}
    people.open(bob, PUBLIC)
    assert [s.id for s in shares.find_public_descendants([root], 9)[root.id]] == [public.id]


def test_only_its_owner_removes_a_share_and_only_once(people: People, ann: Actor, bob: Actor) -> None:
    people.open(ann)
    post = people.services.sharing.publish_post(ann, "a", "b")
    people.services.sharing.update_share(ann, post.id, note="edited")
    store, shares = people.services.store, people.services.mappers.shares

    def remove(who: Actor) -> Share | None:
        found: Share | None = store.run_in_transaction(
            lambda session: shares.remove(post.id, who.user_id, clock.now(), session)
        )
        return found

    assert remove(bob) is None
    removed = remove(ann)
    assert removed is not None
    assert (removed.id, removed.live, removed.note) == (post.id, True, "edited"), "as it was"
    assert remove(ann) is None
    left = shares.find(post.id)
    assert (left.live, left.note, left.edited) == (False, "", None)
    assert store.database["shares"].find_one({"_id": post.id})["removed"] is not None
