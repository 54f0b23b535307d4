"""What people do with each other's streams, against a naive reference: sets of ids."""

from __future__ import annotations

import collections
import dataclasses
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from app.bootstrap.services import Services
from app.errors import ForbiddenError, InvalidError, NotFoundError
from app.models.accounts.actor import Actor
from app.models.reading.stream import StreamKind, StreamRef
from app.models.sharing.sharing import Audience
from tests.sharing.conftest import ALL, FOLLOWING, People, names

NAMES = ("ann", "bob", "cleo")
who = st.sampled_from(NAMES)
pairs = st.permutations(NAMES).map(lambda found: (found[0], found[1]))
audiences = st.sampled_from(Audience)


@dataclasses.dataclass
class Known:
    """A share as the reference knows it."""

    id: int
    by: str
    root: int
    path: tuple[int, ...]
    audience: Audience
    live: bool = True


class Reference:
    """The naive model: who follows whom, what is shared, and one set of unread ids for each person."""

    def __init__(self, blog: list[int]) -> None:
        self.blog = blog
        self.streams = dict.fromkeys(NAMES, Audience.PUBLIC)
        self.follows: set[tuple[str, str]] = set()
        self.asked: set[tuple[str, str]] = set()
        self.muted: set[tuple[str, str]] = set()
        self.blocked: set[tuple[str, str]] = set()
        self.shares: dict[int, Known] = {}
        self.unread: dict[str, set[int]] = {name: set(blog) for name in NAMES}
        self.stars: dict[str, set[int]] = {name: set() for name in NAMES}

    def barred(self, one: str, other: str) -> bool:
        return bool({(one, other), (other, one)} & self.blocked)

    def sees(self, viewer: str | None, share: Known) -> bool:
        if not share.live or viewer == share.by:
            return share.live
        if viewer is not None and self.barred(viewer, share.by):
            return False
        shown = share.audience.narrow_to(self.streams[share.by])
        follows = (viewer, share.by) in self.follows
        return shown is Audience.PUBLIC or (shown is Audience.FOLLOWERS and follows)

    def stream(self, reader: str, by: str) -> set[int]:
        """Return what somebody who follows a person has from him, whether it is shown now or not."""
        if (reader, by) not in self.follows:
            return set()
        shares = self.shares.values()
        return {s.id for s in shares if s.by == by and s.live and s.audience is not Audience.PRIVATE}

    def open(self, reader: str, by: str) -> set[int]:
        return set() if self.streams[by] is Audience.PRIVATE else self.stream(reader, by)

    def heard(self, reader: str) -> set[int]:
        """Return all shares of whom somebody follows and does not mute."""
        loud = [by for by in NAMES if (reader, by) not in self.muted]
        return set().union(*(self.open(reader, by) for by in loud))

    def listed(self, reader: str, ref: StreamRef) -> set[int]:
        return self.heard(reader) | (set(self.blog) if ref == ALL else set())

    def root(self, entry: int) -> int:
        return self.shares[entry].root if entry in self.shares else entry

    def rows(self, reader: str, ref: StreamRef) -> dict[int, tuple[bool, list[str]]]:
        """Return the articles of a list: whether each is read, and who shared it."""
        groups = collections.defaultdict(list)
        for entry in self.listed(reader, ref):
            groups[self.root(entry)].append(entry)
        heard = self.heard(reader)
        return {
            root: (
                not self.unread[reader] & set(entries),
                sorted(self.shares[s].by for s in heard if self.root(s) == root),
            )
            for root, entries in groups.items()
        }

    def same(self, reader: str, entry: int) -> set[int]:
        """Return all that is the same article in the feeds of a person."""
        mine = set(self.blog).union(*(self.stream(reader, by) for by in NAMES))
        return {e for e in mine if self.root(e) == self.root(entry)}

    def put(self, share: Known) -> None:
        """Let a share be there, new to all who follow."""
        self.shares[share.id] = share
        if share.audience is not Audience.PRIVATE:
            for reader in self.readers(share.by):
                self.unread[reader].add(share.id)

    def readers(self, by: str) -> list[str]:
        return [reader for reader in NAMES if (reader, by) in self.follows]

    def chain(self, viewer: str | None, root: int) -> list[tuple[int, str]]:
        """Return the tree of shares, the oldest first below each, as far as somebody may see it."""
        return self._below(viewer, [s for s in self.shares.values() if s.root == root], ())

    def _below(self, viewer: str | None, shares: list[Known], path: tuple[int, ...]) -> list[tuple[int, str]]:
        found = []
        for share in sorted((s for s in shares if s.path == path), key=lambda s: s.id):
            below = self._below(viewer, shares, (*path, share.id))
            if self.sees(viewer, share):
                found += [(len(path), share.by), *below]
            elif below:
                found += [(len(path), "private" if share.live else "removed"), *below]
        return found


class Sharing(RuleBasedStateMachine):
    """Drives the real services and the reference alike; ``services`` are set by the test."""

    services: Services

    def __init__(self) -> None:
        super().__init__()
        for name in (database := self.services.store.database).list_collection_names():
            database[name].delete_many({})
        self.people = People(self.services)
        ids = {name: self.people.join(name).user_id for name in NAMES}
        self.ids = ids
        self.ref = Reference(self.people.blog([self.actor(name) for name in NAMES], 2))
        for name in NAMES:
            self.people.open(self.actor(name))
        self.feeds = {
            name: self.services.following.get_or_create_profile(self.actor(name)).feed_id for name in NAMES
        }
        self.gone: list[tuple[str, str, Known]] = []
        self.left: list[tuple[str, str, str, set[int]]] = []
        self.undos: dict[str, list[tuple[str, set[int]]]] = {name: [] for name in NAMES}

    def actor(self, name: str) -> Actor:
        """Return somebody as his next request makes him."""
        user = self.services.gateways.accounts.find_user(self.ids[name])
        assert user
        return user.actor

    # -- what people are to each other
    @rule(name=who, audience=audiences)
    def open(self, name: str, audience: Audience) -> None:
        self.people.open(self.actor(name), audience)
        self.ref.streams[name] = audience

    @rule(pair=pairs)
    def follow(self, pair: tuple[str, str]) -> None:
        reader, by = pair
        ref = self.ref
        try:
            tie = self.services.following.follow(self.actor(reader), by)
        except ForbiddenError:
            assert pair in ref.blocked
            return
        except NotFoundError:
            assert ref.streams[by] is Audience.PRIVATE or (by, reader) in ref.blocked
            return
        assert not ref.barred(reader, by)
        if pair in ref.follows:
            assert tie.follows
        elif ref.streams[by] is Audience.PUBLIC:
            assert tie.follows
            self._begin(reader, by)
        else:
            assert tie.requested
            assert not tie.follows
            ref.asked.add(pair)

    def _begin(self, reader: str, by: str) -> None:
        self.ref.follows.add((reader, by))
        self.ref.asked.discard((reader, by))
        self.ref.unread[reader] |= self.ref.stream(reader, by)

    def _end(self, reader: str, by: str) -> set[int]:
        """Let somebody read no longer what another one shares; return what was unread of it."""
        mine = self.ref.stream(reader, by)
        unread = self.ref.unread[reader] & mine
        self.ref.unread[reader] -= mine
        self.ref.follows.discard((reader, by))
        self._no_undo(reader, mine)
        return unread

    def _no_undo(self, reader: str, entries: set[int]) -> None:
        self.undos[reader] = [(token, done - entries) for token, done in self.undos[reader]]

    @rule(pair=pairs)
    def unfollow(self, pair: tuple[str, str]) -> None:
        reader, by = pair
        try:
            token = self.services.following.unfollow(self.actor(reader), by)
        except NotFoundError:
            assert pair not in self.ref.follows | self.ref.asked
            return
        if pair in self.ref.follows:
            assert token
            before = self.ref.stream(reader, by)
            self.left.append((token, reader, by, before - self._end(reader, by)))
        self.ref.asked.discard(pair)

    @precondition(lambda self: self.left)
    @rule()
    def come_back(self) -> None:
        token, reader, by, read = self.left.pop()
        ref, pair = self.ref, (reader, by)
        if pair in ref.follows or ref.barred(reader, by) or ref.streams[by] is not Audience.PUBLIC:
            return
        assert self.services.subscriptions.restore(self.actor(reader), token)
        self._begin(reader, by)
        ref.unread[reader] -= read
        self.undos[reader].clear()

    @rule(pair=pairs, yes=st.booleans())
    def answer(self, pair: tuple[str, str], yes: bool) -> None:
        reader, by = pair
        assert self.services.following.answer_request(self.actor(by), reader, yes) is (pair in self.ref.asked)
        if pair in self.ref.asked and yes:
            self._begin(reader, by)
        self.ref.asked.discard(pair)

    @rule(pair=pairs, on=st.booleans())
    def mute(self, pair: tuple[str, str], on: bool) -> None:
        reader, by = pair
        try:
            self.services.following.set_muted(self.actor(reader), by, on)
        except NotFoundError:
            assert on
            return
        (self.ref.muted.add if on else self.ref.muted.discard)(pair)

    @rule(pair=pairs)
    def block(self, pair: tuple[str, str]) -> None:
        one, other = pair
        self.services.following.block(self.actor(one), other)
        self.ref.blocked.add(pair)
        for reader, by in (pair, (other, one)):
            self._end(reader, by)
            self.ref.asked.discard((reader, by))
            self.left = [each for each in self.left if each[1:3] != (reader, by)]

    @rule(pair=pairs)
    def unblock(self, pair: tuple[str, str]) -> None:
        assert self.services.following.unblock(self.actor(pair[0]), pair[1]) is (pair in self.ref.blocked)
        self.ref.blocked.discard(pair)

    @rule(pair=pairs)
    def dismiss(self, pair: tuple[str, str]) -> None:
        reader, by = pair
        assert self.services.following.remove_follower(self.actor(by), reader) is (pair in self.ref.follows)
        self._end(reader, by)
        self.left = [each for each in self.left if each[1:3] != pair]

    # -- what they share
    @rule(data=st.data(), name=who, audience=st.none() | audiences)
    def share(self, data: st.DataObject, name: str, audience: Audience | None) -> None:
        ref = self.ref
        of = data.draw(
            st.sampled_from([*ref.blog, *(s.id for s in ref.shares.values() if ref.sees(name, s))])
        )
        mine = [s for s in ref.shares.values() if s.live and s.by == name and s.root == ref.root(of)]
        try:
            shared = self.services.sharing.share(self.actor(name), of, audience=audience)
        except (InvalidError, NotFoundError):
            assert self._is_closed_post(name, ref.shares[of])
            return
        assert shared.existed is bool(mine)
        if mine:
            assert shared.share.id == mine[0].id
            return
        source, share = ref.shares.get(of), shared.share
        wanted = audience or ref.streams[name]
        path: tuple[int, ...] = ()
        if source:
            wanted = wanted.narrow_to(source.audience.narrow_to(ref.streams[source.by]))
            path = (*source.path, source.id)
        assert (share.audience, share.path) == (wanted, path)
        ref.put(Known(share.id, name, ref.root(of), path, wanted))

    def _is_closed_post(self, name: str, source: Known) -> bool:
        ref = self.ref
        root = ref.shares[source.root]
        within = source.audience.narrow_to(ref.streams[source.by])
        return within is not Audience.PUBLIC or not root.live or not ref.sees(None, root)

    @rule(name=who, audience=st.none() | audiences)
    def post(self, name: str, audience: Audience | None) -> None:
        share = self.services.sharing.publish_post(self.actor(name), "A day", "words", audience=audience)
        self.ref.put(Known(share.id, name, share.id, (), audience or self.ref.streams[name]))

    @precondition(lambda self: any(s.live for s in self.ref.shares.values()))
    @rule(data=st.data(), audience=audiences)
    def edit(self, data: st.DataObject, audience: Audience) -> None:
        share = data.draw(st.sampled_from([s for s in self.ref.shares.values() if s.live]))
        edited = self.services.sharing.update_share(
            self.actor(share.by), share.id, note="other", audience=audience
        )
        assert edited.audience.width <= audience.width
        was, share.audience = share.audience, edited.audience
        if Audience.PRIVATE in {was, share.audience} and was is not share.audience:
            self._forget(share)
            self.ref.put(share)

    def _forget(self, share: Known) -> None:
        for reader in NAMES:
            self.ref.unread[reader].discard(share.id)
            self._no_undo(reader, {share.id})
        self.left = [(*each, read - {share.id}) for *each, read in self.left]

    @precondition(lambda self: any(s.live for s in self.ref.shares.values()))
    @rule(data=st.data())
    def unshare(self, data: st.DataObject) -> None:
        share = data.draw(st.sampled_from([s for s in self.ref.shares.values() if s.live]))
        self.gone.append(
            (self.services.sharing.remove_share(self.actor(share.by), share.id), share.by, share)
        )
        share.live = False
        self._forget(share)

    @precondition(lambda self: self.gone)
    @rule()
    def restore(self) -> None:
        token, name, share = self.gone.pop()
        if any(s.live and s.by == name and s.root == share.root for s in self.ref.shares.values()):
            return
        assert self.services.sharing.restore_share(self.actor(name), token).id == share.id
        share.live = True
        self.ref.put(share)

    # -- what they read
    @rule(data=st.data(), name=who, read=st.booleans())
    def mark(self, data: st.DataObject, name: str, read: bool) -> None:
        chosen = data.draw(st.sampled_from(sorted(self.ref.listed(name, ALL))))
        same = self.ref.same(name, chosen)
        self.services.reading.mark(self.actor(name), [chosen], read)
        unread = self.ref.unread[name]
        self.ref.unread[name] = unread - same if read else unread | same
        self._no_undo(name, same)

    @rule(data=st.data(), name=who)
    def mark_all(self, data: st.DataObject, name: str) -> None:
        ref = self.ref
        by = data.draw(st.sampled_from([None, *(b for r, b in sorted(ref.follows) if r == name)]))
        some = ALL if data.draw(st.booleans()) else FOLLOWING
        stream = some if by is None else StreamRef(StreamKind.FEED, self.feeds[by])
        seen = ref.listed(name, some) if by is None else ref.open(name, by)
        if by is not None and ref.streams[by] is Audience.PRIVATE:
            return
        done = ref.unread[name] & seen
        marked = self.services.reading.mark_all(self.actor(name), stream)
        assert marked.count == len(done)
        ref.unread[name] -= done
        self.undos[name].append((marked.undo, done))

    @rule(name=who)
    def undo(self, name: str) -> None:
        if self.undos[name]:
            token, done = self.undos[name].pop()
            self.services.reading.undo_mass_mark(self.actor(name), token)
            self.ref.unread[name] |= done

    @rule(data=st.data(), name=who)
    def star(self, data: st.DataObject, name: str) -> None:
        ref = self.ref
        seen = {s.id for s in ref.shares.values() if ref.sees(name, s)} & ref.listed(name, ALL)
        chosen = data.draw(st.sampled_from([*ref.blog, *sorted(seen)]))
        root, stars = ref.root(chosen), ref.stars[name]
        on = root not in stars
        try:
            assert self.services.reading.set_starred(self.actor(name), chosen, on)
        except NotFoundError:
            assert on
            assert not ref.sees(name, ref.shares[root])
            return
        assert not self.services.reading.set_starred(self.actor(name), chosen, on)
        (stars.add if on else stars.discard)(root)

    # -- what must agree
    @invariant()
    def stars_agree(self) -> None:
        ref, database = self.ref, self.services.store.database
        for name in NAMES:
            rows = self.people.rows(self.actor(name), StreamRef(StreamKind.STARRED))
            shown = {r.id for r in rows if not r.lost}
            assert {r.id for r in rows} <= ref.stars[name]
            assert shown == {
                root for root in ref.stars[name] if root in ref.blog or ref.sees(name, ref.shares[root])
            }, name
        for doc in database["entries"].find():
            starred = sum(doc["_id"] in stars for stars in ref.stars.values())
            shared = sum(s.live and s.root == doc["_id"] != s.id for s in ref.shares.values())
            assert doc.get("stars", 0) == starred + shared, doc

    @invariant()
    def lists_agree(self) -> None:
        for name in NAMES:
            actor, ref = self.actor(name), self.ref
            tree = self.services.reading.get_tree(actor)
            counts = {f.title: f.unread for f in tree.feeds if f.feed_id in self.feeds.values()}
            followed = {by: ref.open(name, by) for r, by in ref.follows if r == name}
            assert {b: n for b, n in counts.items() if n} == {
                b: len(s & ref.unread[name]) for b, s in followed.items() if s & ref.unread[name]
            }, name
            assert tree.unread == len(ref.unread[name] & ref.listed(name, ALL)), name
            for stream in (ALL, FOLLOWING):
                expected = ref.rows(name, stream)
                rows = self.people.rows(actor, stream)
                assert len(rows) == len(expected), (name, stream)
                assert {ref.root(r.id): (r.read, sorted(names(r))) for r in rows} == expected, name
            unread = sum(not read for read, _ in ref.rows(name, FOLLOWING).values())
            assert (tree.following or 0) == unread, name

    @invariant()
    def sight_agrees(self) -> None:
        for name in (*NAMES, None):
            viewer = self.actor(name) if name else None
            shown: dict[int, int] = {}
            for share in self.ref.shares.values():
                if self.ref.sees(name, share):
                    shown[share.root] = share.id
                    continue
                with pytest.raises(NotFoundError):
                    self.services.sharing.get_share(viewer, share.id)
            for root, share_id in shown.items():
                expected = self.ref.chain(name, root)
                assert self.people.chain(viewer, share_id) == expected, (name, root)
                total = self.services.sharing.list_chain(viewer, share_id).total
                assert total == sum(said in NAMES for _, said in expected), (name, root)


def test_model(services: Services) -> None:
    """Random histories of three people and two articles."""
    Sharing.services = services
    options: dict[str, Any] = {
        "stateful_step_count": 30,
        "deadline": None,
        "suppress_health_check": list(HealthCheck),
    }
    run_state_machine_as_test(Sharing, settings=settings(max_examples=4, **options))
