"""One identity map per request and job: what was read is read once, and never older than one's own writes."""

from __future__ import annotations

import ast
import asyncio
import contextvars
import random
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from flask import Flask, Response, stream_with_context
from pymongo.errors import DuplicateKeyError

from app import clock
from app.bootstrap.services import Services
from app.errors import AuthRequiredError, EventrError, ExistsError, NotFoundError
from app.models.accounts.actor import Actor
from app.models.accounts.token import Scope
from app.models.reading.stream import StreamQuery, StreamRef
from app.models.sharing.sharing import Audience, RelationshipKind
from app.models.subscriptions.folder import FolderEditMode
from app.runtime import identity_map
from app.web import request_scope
from tests.sharing.conftest import People
from tests.support import imports
from tests.support.commands import CommandLog, build_logged_services
from tests.support.meanwhile import after
from workers.middleware.read_once import read_once

Logged = tuple[Services, CommandLog]


@pytest.fixture
def logged(services: Services, monkeypatch: pytest.MonkeyPatch) -> Iterator[Logged]:
    with build_logged_services(services.settings, monkeypatch) as both:
        yield both


def count(log: CommandLog, call: Callable[[], object]) -> int:
    log.clear()
    call()
    return len(log.commands)


def test_a_scope_reads_once_and_nothing_outlives_it(ann: Actor, logged: Logged) -> None:
    built, log = logged
    users = built.mappers.users
    assert count(log, lambda: [users.find(ann.user_id), users.find(ann.user_id)]) == 2
    for _ in range(2):
        with identity_map.open_scope():
            assert count(log, lambda: [users.find(ann.user_id), users.find(ann.user_id)]) == 1
            assert users.find(7) is None
            assert count(log, lambda: users.find(7)) == 0
    assert identity_map.get_scope() is None


def test_of_many_only_those_are_fetched_that_were_not_read(people: People, logged: Logged) -> None:
    built, log = logged
    ids = [people.join(f"p{n}").user_id for n in range(4)]
    profiles = built.mappers.profiles
    with identity_map.open_scope():
        profiles.find_summaries(ids[:2])
        assert count(log, lambda: profiles.find_summaries(ids)) == 1
        assert str(ids[0]) not in log.commands[0]
        assert count(log, lambda: profiles.find_many(ids)) == 0


def test_all_subscriptions_answer_for_single_ones(people: People, ann: Actor, logged: Logged) -> None:
    built, log = logged
    people.blog([ann], name="one")
    people.blog([ann], name="two")
    mapper = built.mappers.subscriptions
    with identity_map.open_scope():
        every = mapper.find_by_user(ann.user_id)
        one = every[0].feed_id
        assert len(every) == 2
        assert count(log, lambda: mapper.find(ann.user_id, one)) == 0
        assert mapper.find_by_user(ann.user_id, [one, 7]) == [every[0]]
        assert mapper.find(ann.user_id, 7) is None
        assert mapper.find_people(ann.user_id) == []
        assert sorted(mapper.find_feed_ids(ann.user_id)) == sorted(s.feed_id for s in every)
        assert len(log.commands) == 0


# -- read your writes
def test_what_one_writes_is_read_anew(ann: Actor, services: Services) -> None:
    users = services.mappers.users
    with identity_map.open_scope():
        before = users.find(ann.user_id)
        users.set_synced(ann.user_id)
        after = users.find(ann.user_id)
    assert before is not None
    assert after is not None
    assert (before.synced, after.synced) == (False, True)


def test_a_failed_write_drops_too(people: People, ann: Actor, services: Services) -> None:
    """Who is told that something is there already looks for it."""
    sharing, (entry,) = services.sharing, people.blog([ann])
    with identity_map.open_scope():
        assert services.mappers.shares.find_own(ann.user_id, [entry]) == {}
        made: list[int] = []

        elsewhere(lambda: made.append(sharing.share(ann, entry).share.id))
        with identity_map.bypass():
            profile = services.gateways.profiles.find(ann.user_id)
            assert profile is not None
            seen = services.gateways.entries.get(ann.user_id, entry)
        with pytest.raises(EventrError):
            services.gateways.sharing.share(profile, seen, "", Audience.PUBLIC, seen.at)
        assert services.mappers.shares.find_own(ann.user_id, [entry])[entry].id == made[0]


def test_a_write_that_the_server_refuses_drops_too(people: People, logged: Logged) -> None:
    """The driver can't tell a refused write from one whose answer was lost."""
    built, log = logged
    one, _ = (people.join(f"p{n}").user_id for n in range(2))
    users = built.mappers.users
    with identity_map.open_scope():
        users.find(one)
        with pytest.raises(DuplicateKeyError):
            built.store.database["users"].find_one_and_update({"_id": one}, {"$set": {"name_key": "p1"}})
        assert count(log, lambda: users.find(one)) == 1


def test_a_write_that_names_its_documents_leaves_the_others(people: People, logged: Logged) -> None:
    built, log = logged
    one, two = (people.join(f"p{n}").user_id for n in range(2))
    users = built.mappers.users
    with identity_map.open_scope():
        users.find(one), users.find(two)
        users.set_synced(one)
        assert count(log, lambda: users.find(two)) == 0
        assert count(log, lambda: users.find(one)) == 1


def test_what_is_read_while_it_is_written_is_not_kept(ann: Actor, services: Services) -> None:
    users = services.mappers.users
    with identity_map.open_scope():

        def fetch() -> Any:
            found = users.find(ann.user_id)
            users.set_synced(ann.user_id)
            return found

        old = identity_map.find_once("users", "slow", ann.user_id, fetch)
        new = identity_map.find_once("users", "slow", ann.user_id, fetch)
    assert (old.synced, new.synced) == (False, True)


def test_a_transaction_is_dropped_at_its_end(ann: Actor, services: Services) -> None:
    """Until then another thread of the same job reads, and keeps, what was there before."""
    users, store = services.mappers.users, services.store

    with identity_map.open_scope():
        beside = contextvars.copy_context()

        def rename(session: Any) -> None:
            store.database["users"].update_one(
                {"_id": ann.user_id}, {"$set": {"name": "Anna"}}, session=session
            )
            found: list[Any] = []
            thread = threading.Thread(target=lambda: found.append(beside.run(users.find, ann.user_id)))
            thread.start()
            thread.join()
            assert found[0].name == "ann"

        store.run_in_transaction(rename)
        now = users.find(ann.user_id)
    assert now is not None
    assert now.name == "Anna"


def test_a_transaction_that_failed_leaves_nothing_behind(ann: Actor, services: Services) -> None:
    users, store = services.mappers.users, services.store

    def rename(session: Any) -> None:
        where = {"_id": ann.user_id}
        store.database["users"].update_one(where, {"$set": {"name": "Anna"}}, session=session)
        found = store.database["users"].find_one(where, session=session)
        assert found is not None
        assert found["name"] == "Anna"
        assert users.find_names([ann.user_id]) == {ann.user_id: "ann"}
        raise NotFoundError

    with identity_map.open_scope():
        with pytest.raises(NotFoundError):
            store.run_in_transaction(rename)
        assert users.find_names([ann.user_id]) == {ann.user_id: "ann"}


def test_writes_in_threads_of_a_mapper_are_dropped(
    people: People, ann: Actor, services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.mappers.subscriptions.subscriptions.PLACES", 1)
    for name in ("one", "two", "three"):
        people.blog([ann], name=name)
    mapper = services.mappers.subscriptions
    with identity_map.open_scope():
        before = {s.feed_id: s.state for s in mapper.find_by_user(ann.user_id)}
        services.reading.mark_all(ann, StreamRef.parse("all"))
        after = {s.feed_id: s.state for s in mapper.find_by_user(ann.user_id)}
    assert len(after) == 3
    assert all(after[feed] != before[feed] for feed in before)


def test_threads_of_the_layers_below_run_in_the_context_of_their_caller() -> None:
    """A thread without it would write past the identity map."""
    starts = {"Thread", "ThreadPoolExecutor", "run_in_executor"}
    bare = []
    for module, path in imports.modules():
        if module.startswith(("app.mappers.", "app.gateways.", "app.services.", "workers.tasks.")):
            names = {
                n.attr if isinstance(n, ast.Attribute) else n.id
                for n in ast.walk(ast.parse(path.read_text("utf-8")))
                if isinstance(n, ast.Attribute | ast.Name)
            }
            if names & starts and "copy_context" not in names:
                bare.append(module)
    # They renew a lock and leases, ping cells, and note what was read, which the same request never reads.
    assert sorted(bare) == [
        "app.gateways.reading.recent_reads",
        "app.mappers.mongo.cell_watch",
        "app.mappers.mongo.cells",
        "app.mappers.mongo.migrations.migrator",
        "app.services.sync.idempotency",
    ]


def test_reads_in_a_transaction_bypass_the_map(ann: Actor, logged: Logged) -> None:
    built, log = logged
    users = built.mappers.users
    with identity_map.open_scope():
        users.find(ann.user_id)
        assert count(log, lambda: built.store.run_in_transaction(lambda _: users.find(ann.user_id))) == 1


def test_a_job_that_waited_for_another_process_reads_anew(ann: Actor, logged: Logged) -> None:
    built, log = logged
    with identity_map.open_scope():
        built.mappers.users.find(ann.user_id)
        assert list(built.jobs.await_many([], 0)) == []
        assert count(log, lambda: built.mappers.users.find(ann.user_id)) == 1


def test_a_map_is_bound_in_age_and_size(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def fetch(missing: list[int]) -> dict[int, int]:
        asked.extend(missing)
        return dict(zip(missing, missing, strict=True))

    with identity_map.open_scope(max_age=-1.0):
        for _ in range(2):
            identity_map.find_each("users", "user", [1], fetch)
    assert asked == [1, 1]
    asked.clear()
    monkeypatch.setattr(identity_map, "VALUES_MAX", 2)
    with identity_map.open_scope():
        for number in (1, 2, 3, 1):
            identity_map.find_each("users", "user", [number], fetch)
    assert asked == [1, 2, 3, 1]


def test_a_job_that_has_waited_reads_anew(ann: Actor, services: Services) -> None:
    users, seen = services.mappers.users, list[bool]()

    def look() -> None:
        for _ in range(2):
            user = users.find(ann.user_id)
            assert user is not None
            seen.append(user.synced)
            if len(seen) == 1:
                elsewhere(lambda: users.set_synced(ann.user_id))

    async def call(job: Any, ctx: Any) -> str:
        await asyncio.to_thread(look)
        await asyncio.to_thread(look)
        return "done"

    assert asyncio.run(run_job(call)) == "done"
    assert seen == [False, False, True, True]


@pytest.mark.parametrize("turns", [True, False])
def test_a_canceled_job_ends_as_without_a_map(turns: bool) -> None:
    ended: list[str] = []

    async def call(job: Any, ctx: Any) -> None:
        try:
            # Either in its turn, or waiting for something.
            await (asyncio.sleep(0) if turns else asyncio.Event().wait())
        except asyncio.CancelledError:
            await asyncio.sleep(0)
            ended.append("canceled")
            raise

    async def run() -> None:
        running = asyncio.create_task(run_job(call))
        await asyncio.sleep(0)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    asyncio.run(run())
    assert ended == ["canceled"]
    assert identity_map.get_scope() is None


def test_a_failed_job_raises_its_error() -> None:
    async def call(job: Any, ctx: Any) -> None:
        await asyncio.sleep(0)
        raise NotFoundError

    with pytest.raises(NotFoundError):
        asyncio.run(run_job(call))


async def run_job(call: Any) -> Any:
    return await read_once(None, None, call)  # type: ignore[arg-type]


def test_what_outlives_a_job_keeps_none_of_its_values() -> None:
    timers: list[asyncio.TimerHandle] = []

    async def call(job: Any, ctx: Any) -> None:
        identity_map.keep_values("users", identity_map.get_version("users"), "user", {1: "ann"})
        assert identity_map.find_kept("users", "user", [1]) == {1: "ann"}
        timers.append(asyncio.get_running_loop().call_later(3600, print))
        timers[0].cancel()

    async def run() -> dict[int, Any]:
        await asyncio.create_task(run_job(call))
        # asyncio keeps the context of a canceled timer until its time has come.
        kept = timers[0]._context  # type: ignore[attr-defined]
        assert kept.run(identity_map.is_active)
        return kept.run(identity_map.find_kept, "users", "user", [1])

    assert asyncio.run(run()) == {}


def test_each_job_has_a_map_of_its_own() -> None:
    seen: list[Any] = []

    async def call(job: Any, ctx: Any) -> None:
        seen.append(identity_map.get_scope())

    async def run() -> None:
        await asyncio.gather(*(run_job(call) for _ in range(2)))

    asyncio.run(run())
    assert None not in seen
    assert seen[0] is not seen[1]
    assert identity_map.get_scope() is None


# -- what others change at the same moment
def elsewhere(act: Callable[[], object]) -> None:
    """Do something as another request does it, which has no part in this one's map."""
    thread = threading.Thread(target=act)
    thread.start()
    thread.join()


def test_a_stream_that_is_narrowed_meanwhile_narrows_what_was_written(people: People, ann: Actor) -> None:
    (entry,) = people.blog([ann])
    people.open(ann)
    services = people.services
    with identity_map.open_scope():
        profile = services.gateways.profiles.find(ann.user_id)
        assert profile is not None
        share = services.sharing.share(ann, entry).share
        elsewhere(lambda: people.open(ann, Audience.FOLLOWERS))
        services.store.database["shares"].update_one({"_id": share.id}, {"$unset": {"stream": ""}})
        services.gateways.profiles.apply_audience_changes(profile)
    assert services.store.database["shares"].find_one({"_id": share.id})["stream"] == "followers"


def test_an_edit_that_was_overtaken_begins_with_what_there_is_now(people: People, ann: Actor) -> None:
    people.open(ann)
    services = people.services
    post = services.sharing.publish_post(ann, "A day", "wrods")
    with identity_map.open_scope():
        services.sharing.get_share(ann, post.id)
        elsewhere(lambda: services.sharing.update_share(ann, post.id, audience=Audience.PRIVATE))
        services.sharing.update_share(ann, post.id, note="words")
    now = services.sharing.get_share(ann, post.id)
    assert (now.audience, now.note) == (Audience.PRIVATE, "words")


def test_an_edit_of_what_was_taken_back_meanwhile_finds_nothing(people: People, ann: Actor) -> None:
    people.open(ann)
    services = people.services
    post = services.sharing.publish_post(ann, "A day", "wrods")
    with identity_map.open_scope():
        services.sharing.get_share(ann, post.id)
        elsewhere(lambda: services.sharing.remove_share(ann, post.id))
        with pytest.raises(NotFoundError):
            services.sharing.update_share(ann, post.id, note="words")


def test_a_person_who_blocks_meanwhile_is_not_followed(
    people: People, ann: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    people.open(ann)
    bob, services = people.join("bob"), people.services
    # All of a block but its last step, which finds no subscription yet.
    after(
        monkeypatch,
        services.mappers.users,
        "set_social",
        lambda: services.mappers.ties.add(ann.user_id, RelationshipKind.BLOCK, bob.user_id, clock.now()),
    )
    with identity_map.open_scope(), pytest.raises(NotFoundError):
        services.following.follow(bob, "ann")
    assert services.mappers.subscriptions.find_people(bob.user_id) == []


def test_a_folder_that_another_request_made_meanwhile_is_not_made_again(people: People, ann: Actor) -> None:
    folders = people.services.folders
    with identity_map.open_scope():
        assert folders.list_folders(ann) == []
        elsewhere(lambda: folders.create(ann, "News"))
        with pytest.raises(ExistsError):
            folders.create(ann, "News")
        assert [f.name for f in folders.list_folders(ann)] == ["News"]


@pytest.mark.parametrize(("kind", "end"), [("session", "disable"), ("token", "disable"), ("token", "revoke")])
def test_a_credential_that_ends_meanwhile_gets_no_pass_for_events(
    people: People, ann: Actor, kind: str, end: str
) -> None:
    services = people.services
    with identity_map.open_scope():
        sessions = services.gateways.sessions
        found = sessions.find_session(sessions.open_session(ann.user_id, agent="", address=""))
        assert found is not None
        session, _ = found
        token, _ = services.tokens.make_api_token(ann, session, "A script", [Scope.READ])
        credential = session if kind == "session" else token
        assert services.tokens.list_tokens(ann) == [token]
        assert services.event_passes.create_pass(ann, credential)
        if end == "disable":
            elsewhere(lambda: services.gateways.admin_accounts.set_disabled(ann.user_id, True))
        else:
            elsewhere(lambda: services.tokens.revoke(ann, token.id))
        with pytest.raises(AuthRequiredError):
            services.event_passes.create_pass(ann, credential)


# -- web requests
def test_a_request_has_a_map_that_ends_with_it_even_after_an_error() -> None:
    seen: list[Any] = []
    app = Flask(__name__)
    app.before_request(lambda: seen.append(identity_map.get_scope()))
    app.teardown_request(lambda error: seen.append(identity_map.get_scope()))

    @app.get("/")
    def fail() -> str:
        seen.append(identity_map.get_scope())
        raise ZeroDivisionError

    request_scope.install(app)
    for _ in range(2):
        assert app.test_client().get("/").status_code == 500
        assert identity_map.get_scope() is None
    assert None not in seen
    assert len(seen) == 6
    assert len({id(scope) for scope in seen[:3]}) == len({id(scope) for scope in seen[3:]}) == 1
    assert seen[0] is not seen[3]


def test_a_streamed_body_reads_what_there_is_when_it_is_sent(ann: Actor, services: Services) -> None:
    users, app = services.mappers.users, Flask(__name__)

    @app.get("/")
    def stream() -> Response:
        before = users.find(ann.user_id)
        assert before is not None
        assert not before.synced

        def body() -> Iterator[str]:
            yield str(identity_map.get_scope())
            now = users.find(ann.user_id)
            yield f" {now is not None and now.synced}"

        return Response(stream_with_context(body()))

    request_scope.install(app)
    answer = app.test_client().get("/", buffered=False)
    users.set_synced(ann.user_id)
    assert answer.text == "None True"


# -- the map says what the store says
class Life:
    """Two people who follow each other, and all that one of them may do within one request."""

    def __init__(self, people: People, seed: int) -> None:
        self.services, self.chance = people.services, random.Random(seed)
        self.ann, self.bob = people.join("ann"), people.join("bob")
        self.entries = people.blog([self.ann, self.bob], 3)
        for who in (self.ann, self.bob):
            people.open(who)
        people.follow(self.ann, "bob")
        people.follow(self.bob, "ann")
        share = self.services.sharing.share
        self.shares = [share(self.bob, self.entries[0]).share.id, share(self.ann, self.entries[1]).share.id]
        self.folder = self.services.folders.create(self.ann, "News").id

    def write(self) -> None:
        """Do something, or find that it is not possible at the moment."""
        s, who, pick = self.services, self.ann, self.chance.choice
        entry, share, feed = pick(self.entries), pick(self.shares), self._feed()
        acts: list[Callable[[], object]] = [
            lambda: self.shares.append(s.sharing.share(who, pick([entry, share])).share.id),
            lambda: s.sharing.remove_share(who, share),
            lambda: s.sharing.update_share(who, share, note=pick("abc")),
            lambda: s.sharing.update_share(who, share, audience=pick(list(Audience))),
            lambda: s.discussion.set_liked(who, pick([entry, share]), pick([True, False])),
            lambda: s.discussion.comment(self.bob, share, "Hm."),
            lambda: s.following.update_profile(who, bio=pick("abc"), audience=pick(list(Audience))),
            lambda: s.following.update_profile(self.bob, audience=pick(list(Audience))),
            lambda: s.following.follow(who, "bob"),
            lambda: s.following.unfollow(who, "bob"),
            lambda: s.following.set_muted(who, "bob", pick([True, False])),
            lambda: s.following.block(who, "bob"),
            lambda: s.following.unblock(who, "bob"),
            lambda: s.reading.mark(who, [entry], pick([True, False])),
            lambda: s.reading.mark_all(who, StreamRef.parse("all")),
            lambda: s.reading.set_starred(who, entry, pick([True, False])),
            lambda: s.tags.change_tags(who, entry, add=[pick("xyz")]),
            lambda: s.subscriptions.update(who, feed, title=pick("abc")),
            lambda: s.folders.place_feeds(who, [feed], [self.folder], pick(list(FolderEditMode))),
            lambda: s.gateways.admin_accounts.set_disabled(self.bob.user_id, pick([True, False])),
        ]
        try:
            pick(acts)()
        except EventrError:
            return

    def _feed(self) -> int:
        return int(self.services.store.database["entries"].find_one({"_id": self.entries[0]})["feed_id"])

    def read(self) -> list[object]:
        """Return what all mappers with a map say, and what a page is made of."""
        m, me, you = self.services.mappers, self.ann.user_id, self.bob.user_id
        v = self.services.gateways.visibility
        shares = list(m.shares.find_many(self.shares).values())
        feeds = m.subscriptions.find_feed_ids(me)
        page = self.services.reading.load_page(self.ann, StreamQuery(StreamRef.parse("all")))
        return [
            [m.users.find(i) for i in (me, you)],
            m.users.find_names([me, you]),
            m.profiles.find_many([me, you]),
            m.profiles.find_summaries([me, you]),
            m.profiles.find_by_name("Bob"),
            m.ties.find_between(me, [you]),
            m.ties.find_between(you, [me]),
            sorted(m.subscriptions.find_by_user(me)),
            sorted(m.subscriptions.find_by_user(me, feeds[:1])),
            sorted(s.feed_id for s in m.subscriptions.find_people(me)),
            sorted(feeds),
            m.subscriptions.filter_followed(me, feeds),
            m.feeds.find_cards(feeds),
            {s.id: s for s in shares},
            m.shares.find_own(me, self.entries),
            m.shares.find_among(self.entries, feeds, me),
            m.marks.find_marks(me, self.entries),
            m.marks.find_liked(me, self.entries),
            m.tags.find_by_user(me),
            self.services.notifications.count_unread(self.ann),
            {i: by.handle for i, by in v.find_visible_profiles(me, shares).items()},
            {i: by.handle for i, by in v.find_visible_profiles(you, shares).items()},
            [(row.id, row.read, row.starred, row.sharers, row.tags) for row in page.rows],
        ]


@pytest.mark.parametrize("seed", range(4))
def test_with_the_map_and_without_it_answers_are_the_same(people: People, seed: int) -> None:
    life = Life(people, seed)
    with identity_map.open_scope():
        for step in range(25):
            life.read()
            life.write()
            kept = life.read()
            with identity_map.bypass():
                assert kept == life.read(), step
