"""W04 for people: who may see and do what to whom, over all routes that there are for that."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator

import pytest

from app.bootstrap.services import Services
from app.models.accounts.actor import Actor, Role
from app.models.accounts.user import NewUser
from app.models.discussion.moderation import Reason
from app.models.sharing.sharing import Audience
from tests.sharing.conftest import FOLLOWING, People
from tests.sharing.visiting import Doors
from tests.web.conftest import ORIGIN

VIEWERS = ("anonymous", "follower", "stranger", "blocked", "blocker", "owner", "admin")
LOGGED_IN = frozenset(VIEWERS) - {"anonymous"}
#: A route of people, reports or moderation → the form, and who is let in with a public stream and open lists,
#: with one for followers, a closed one, and while its owner is suspended. Others find nothing.
Allowed = frozenset[str]
_ALL = frozenset(VIEWERS)
_OTHERS = frozenset(("follower", "stranger", "admin"))
_OWNER, _ADMIN = frozenset(("owner",)), frozenset(("admin",))


@dataclasses.dataclass(frozen=True)
class Rule:
    """Who gets something else than "nothing here" (404), by the state of the stream."""

    form: dict[str, str]
    public: Allowed
    followers: Allowed | None = None
    private: Allowed = frozenset()
    suspended: Allowed = frozenset()

    def allowed(self, state: str) -> Allowed:
        if state == "followers":
            return self.public if self.followers is None else self.followers
        return {"public": self.public, "private": self.private, "suspended": self.suspended}[state]


_PAGE = Rule({}, _ALL - {"blocked"}, private=_OWNER)
#: Names of accounts are no secret, and whoever was followed or blocked must be let go of in any state.
_ANY = Rule({"name": "owner"}, LOGGED_IN, private=LOGGED_IN, suspended=LOGGED_IN - {"owner"})
_NOTED = LOGGED_IN - {"blocked"}
RULES: dict[tuple[str, str], Rule] = {
    ("/people", "GET"): Rule({}, LOGGED_IN, private=LOGGED_IN, suspended=LOGGED_IN - {"owner"}),
    ("/@<name>/followers", "GET"): _PAGE,
    ("/@<name>/following", "GET"): _PAGE,
    # To whom it is refused with a reason: himself, and who blocks.
    ("/people/follow", "POST"): Rule({"name": "owner"}, _NOTED, private=_OWNER, suspended=frozenset()),
    # Whoever follows, or asked to, may end it whatever has become of the stream.
    ("/people/unfollow", "POST"): Rule(
        {"name": "owner"},
        _NOTED,
        private=frozenset(("owner", "follower")),
        suspended=frozenset(("follower",)),
    ),
    ("/people/mute", "POST"): Rule({"name": "owner"}, _NOTED, private=_OWNER),
    ("/people/unmute", "POST"): _ANY,
    ("/people/answer", "POST"): dataclasses.replace(_ANY, form={"name": "owner", "yes": "1"}),
    ("/people/dismiss", "POST"): _ANY,
    ("/people/block", "POST"): _ANY,
    ("/people/unblock", "POST"): _ANY,
    ("/report", "GET"): Rule({"person": "owner"}, _NOTED, private=_OWNER),
    ("/report", "POST"): Rule({"person": "owner", "reason": "spam"}, _NOTED, private=_OWNER),
    ("/admin/moderation", "GET"): Rule({}, _ADMIN, private=_ADMIN, suspended=_ADMIN),
    ("/admin/moderation/<any(dismiss, remove, suspend, lift):act>", "POST"): Rule(
        {"thing": "17"}, _ADMIN, private=_ADMIN, suspended=_ADMIN
    ),
}
STATES = ("public", "followers", "private", "suspended")
#: Of these the forms are sent last, as they end what the others need.
_LAST = ("unfollow", "block", "unblock")


class World:
    """One owner, and each kind of viewer."""

    def __init__(self, people: People, state: str) -> None:
        services = people.services
        self.services = services
        self.owner = people.join("owner")
        boss = NewUser("admin@example.org", "admin", "$argon2id$none")
        self.viewers: dict[str, Actor | None] = {
            n: people.join(n) for n in ("follower", "stranger", "blocked")
        }
        self.viewers |= {"blocker": people.join("blocker"), "owner": self.owner, "anonymous": None}
        self.viewers["admin"] = services.gateways.accounts.add_user(boss, Role.ADMIN).actor
        self.edit(Audience.PUBLIC)
        people.follow(self.actor("follower"), "owner")
        services.following.block(self.owner, "blocked")
        services.following.block(self.actor("blocker"), "owner")
        if state in ("followers", "private"):
            self.edit(Audience(state))
        elif state == "suspended":
            services.gateways.admin_accounts.set_disabled(self.owner.user_id, True)
            services.gateways.profiles.set_suspended(self.owner.user_id, True)

    def actor(self, name: str) -> Actor:
        found = self.viewers[name]
        assert found is not None
        return found

    def edit(self, audience: Audience) -> None:
        self.services.following.update_profile(
            self.owner, display="", bio="", links=(), audience=audience, listed=False, open_lists=True
        )


@pytest.fixture
def doors(services: Services) -> Doors:
    return Doors(services)


def _routes(doors: Doors) -> Iterator[tuple[str, str]]:
    for rule in doors.app.url_map.iter_rules():
        for method in (rule.methods or set()) & {"GET", "POST"}:
            yield rule.rule, method


def _is_mine(rule: str) -> bool:
    return rule.startswith(("/people", "/report", "/admin/moderation")) or bool(
        re.fullmatch(r"/@<name>/(followers|following)", rule)
    )


def test_W04_every_route_of_people_is_in_the_table(doors: Doors) -> None:
    assert {r for r in _routes(doors) if _is_mine(r[0])} == set(RULES)


@pytest.mark.parametrize("state", STATES)
def test_W04_who_may_see_and_do_what(people: People, doors: Doors, state: str) -> None:
    world = World(people, state)
    found = []
    for viewer, actor in world.viewers.items():
        visitor = doors(actor)
        token = visitor.token()
        order = sorted(RULES.items(), key=lambda r: any(word in r[0][0] for word in _LAST))
        for (rule, method), expected in order:
            path = rule.replace("<name>", "owner").replace(
                "<any(dismiss, remove, suspend, lift):act>", "remove"
            )
            if method == "GET":
                answer = visitor.get(path, query_string=expected.form)
            else:
                form = {"csrf_token": token, **expected.form}
                answer = visitor.client.post(path, data=form, headers=ORIGIN)
            if viewer in expected.allowed(state) and path != "/admin/moderation/remove":
                good = answer.status_code in (200, 303, 400, 403, 409)
            elif _away(viewer, state) and not path.startswith("/@"):
                good = answer.status_code in (303, 401)  # he is sent to the log-in
            else:
                good = answer.status_code == 404
            if not good:
                found.append((state, viewer, method, path, answer.status_code))
    assert not found, "\n".join(map(str, found))


def _away(viewer: str, state: str) -> bool:
    return viewer == "anonymous" or (viewer, state) == ("owner", "suspended")


@pytest.mark.parametrize("state", STATES)
def test_W04_pages_of_a_person_are_closed_to_whom_they_are_not_for(
    people: People, doors: Doors, state: str
) -> None:
    """Whatever pages there are below ``/@name``: who is blocked, or all where it is closed, finds none."""
    world = World(people, state)
    paths = [r.replace("<name>", "owner") for r, m in _routes(doors) if m == "GET" and _only_name(r)]
    closed = VIEWERS if state in ("private", "suspended") else ("blocked",)
    for viewer in closed:
        if viewer == "owner":
            continue
        for path in paths:
            # A public feed is the same for everybody, whoever asks: it may be kept by caches.
            if viewer == "blocked" and state == "public" and path.endswith((".xml", ".json")):
                continue
            assert doors(world.viewers[viewer]).get(path).status_code == 404, (viewer, path)


def _only_name(rule: str) -> bool:
    return rule.startswith("/@<name>") and rule.count("<") == 1


def test_who_is_blocked_neither_follows_nor_sees_nor_finds(people: People, doors: Doors) -> None:
    (entry,) = people.blog([people.join("reader")])
    world = World(people, "public")
    owner, blocked = world.owner, world.actor("blocked")
    post = people.services.sharing.publish_post(owner, "A peculiar day", "words")
    visitor = doors(blocked)
    for typed in ("@owner", f"{people.services.settings.own_origin}/@owner"):
        answer = visitor.post("/add", {"address": typed})
        assert answer.status_code == 404
        assert "/people/follow" not in answer.text
    assert visitor.post("/people/follow", {"name": "owner"}).status_code == 404
    assert visitor.get(f"/report?share={post.id}").status_code == 404
    assert visitor.get(f"/entries/{post.id}", follow_redirects=True).status_code == 404
    assert people.rows(blocked, FOLLOWING) == ()
    assert entry


def test_what_is_for_followers_is_reported_by_followers_alone(people: People, doors: Doors) -> None:
    world = World(people, "public")
    post = people.services.sharing.publish_post(world.owner, "For few", "words", audience=Audience.FOLLOWERS)
    seen = {
        name
        for name, actor in world.viewers.items()
        if doors(actor).get(f"/report?share={post.id}").status_code not in (303, 404)
    }
    assert seen == {"follower", "owner"}
    moderation = people.services.moderation
    thing = moderation.describe_share(world.actor("follower"), post.id)
    moderation.report(world.actor("follower"), thing, Reason.SPAM, "")
    assert "For few" in doors(world.actor("admin")).get("/admin/moderation").text
