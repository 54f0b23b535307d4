"""How many commands a page sends to MongoDB, and that no request sends one twice."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from app import create_app
from app.bootstrap.services import Services
from app.models.reading.rules import Rule
from app.models.reading.search import encode_query
from app.models.reading.stream import StreamQuery, StreamRef
from app.models.sharing.sharing import Audience
from app.web.api.rest import shapes
from app.web.security.sessions import get_cookie_name
from tests.sharing.conftest import People
from tests.support.commands import CommandLog, build_logged_services
from tests.sync.rest.world import World, join, world
from tests.web.conftest import Visitor
from tests.web.test_access import MATRIX

#: Commands of a page, for somebody who follows people. What only redirects reads next to nothing.
LIST, LIST_WITH_ARTICLE, ARTICLE_PANE, NOTIFICATIONS, COMMENTS, LANDING = 19, 23, 17, 16, 16, 5
RESHARE, REDIRECT, LIST_EXPANDED = 25, 3, 25
#: The list of somebody's own shares says how these were received: two commands more for all its rows, one for
#: likes and comments and one for the people behind them. Muted and blocked people don't count, so the shares
#: themselves can't hold the numbers.
# And two for the feeds that shared entries came from, two for the re-shares and the people who made them.
LIST_OF_SHARES = LIST + 6
#: Pages in the frame of the application: its counts and marks are a dozen of these.
ANY_PAGE = 24
#: Routes of the matrix that need more than a form: files, other servers, streams that never end.
LEFT_OUT = {"/events", "/static/<name>", "/websub/<token>"}


class Browser:
    """Somebody's browser, and the log of what their requests send to MongoDB."""

    def __init__(self, visitor: Visitor, w: World, log: CommandLog) -> None:
        self.visitor, self.world, self.log = visitor, w, log
        self.status = 0

    def get(self, path: str, pane: str = "") -> int:
        """Open a page, or an htmx pane of it; return how many commands that took."""
        headers = {"HX-Request": "true", "HX-Target": f"div#{pane}"} if pane else {}
        self.log.clear()
        answer = self.visitor.get(path, headers=headers)
        assert answer.status_code in (200, 303), (path, answer.status_code)
        self.status = answer.status_code
        return self._count(path)

    def post(self, path: str, form: dict[str, str]) -> int:
        """Send a form as a script does; return how many commands that took."""
        self.visitor.show_form()
        self.log.clear()
        answer = self.visitor.post(path, form, Accept="application/json")
        assert answer.status_code < 500, (path, answer.text)
        self.status = answer.status_code
        return self._count(path)

    def _count(self, path: str) -> int:
        assert not self.log.find_repeats(), (path, self.log.find_repeats())
        return len(self.log.commands)


def build_social_world(people: People) -> World:
    """Make somebody who follows three people that share, re-share, comment, like and mention them."""
    w = world(people, 1)
    services, mine, root = people.services, w.real[shapes.SHARE], w.real[shapes.ENTRY]
    entries = people.blog([w.who, w.other], entries=4, name="second")
    fans = [join(people, f"fan{n}") for n in range(3)]
    shared = []
    for number, name in enumerate(("dora", "emil")):
        friend = join(people, name)
        people.open(friend, Audience.FOLLOWERS if number else Audience.PUBLIC)
        services.subscriptions.subscribe(friend, "https://second.example.org/feed")
        shared.append(services.sharing.share(friend, entries[number], note=f"Look, @{w.name}").share)
        services.following.follow(w.who, name)
        if number:
            services.following.answer_request(friend, w.name, True)
        services.following.follow(friend, w.name)
        services.discussion.comment(friend, mine, f"Well said, @{w.name}")
        services.discussion.set_liked(friend, mine)
    services.sharing.share(join(people, "gus"), mine, note="From you")
    services.following.follow(w.who, w.real[shapes.PERSON])
    services.sharing.share(w.other, root, note="Mine too")
    services.sharing.publish_post(w.other, "A day", "I am here")
    for fan in fans:
        services.discussion.comment(fan, shared[0].id, "Nice")
        services.discussion.set_liked(fan, shared[0].id)
    services.discussion.comment(w.who, shared[0].id, "A word of mine")
    services.discussion.set_liked(w.who, shared[0].id)
    w.real |= {"theirs": shared[0].id, "of_followers": shared[1].id}
    return w


@pytest.fixture
def people(services: Services) -> People:
    return People(services)


@pytest.fixture
def browser(people: People, services: Services, monkeypatch: pytest.MonkeyPatch) -> Iterator[Browser]:
    w = build_social_world(people)
    with build_logged_services(services.settings, monkeypatch) as (built, log):
        visitor = Visitor(create_app(built.settings, built).test_client())
        token = services.gateways.sessions.open_session(w.who.user_id, agent="", address="")
        visitor.client.set_cookie(get_cookie_name(secure=False), token)
        yield Browser(visitor, w, log)


@pytest.fixture
def stranger(browser: Browser) -> Browser:
    """Somebody who is not logged in, on the same pages."""
    return Browser(Visitor(browser.visitor.client.application.test_client()), browser.world, browser.log)


@pytest.mark.parametrize("stream", ["today", "all", "following", "shares", "starred", "recent"])
def test_a_list_stays_within_its_commands(browser: Browser, stream: str) -> None:
    limit = LIST_OF_SHARES if stream == "shares" else LIST
    assert browser.get(f"/read/{stream}") <= limit
    assert browser.get(f"/read/{stream}", pane="stream") <= limit
    assert browser.get(f"/read/{stream}?view=expanded") <= LIST_EXPANDED


@pytest.mark.parametrize("what", [shapes.ENTRY, shapes.SHARE, "theirs", "of_followers"])
def test_an_article_stays_within_its_commands(browser: Browser, what: Any) -> None:
    entry = browser.world.real[what]
    assert browser.get(f"/read/all?entry={entry}", pane="article") <= ARTICLE_PANE
    assert browser.get(f"/read/following?entry={entry}") <= LIST_WITH_ARTICLE


def test_highlighted_entries_cost_one_command(browser: Browser, services: Services) -> None:
    w = browser.world
    entry = w.real[shapes.ENTRY]
    paths = ["/read/all", f"/read/all?entry={entry}"]
    for path in paths:
        browser.get(path)
    before = [browser.get(path) for path in paths]
    folder = services.folders.create(w.who, "Any")
    rule = services.rules.save(w.who, Rule(0, "Here", "title:/./", highlight=True))
    services.rules.save(w.who, Rule(0, "There", "xyz", (), (folder.id,), highlight=True))
    run = services.rule_runs.begin(w.who, rule.id)
    services.rule_runs.continue_run(w.who.user_id, run.id, seconds=30)
    assert "Highlighted by “Here”" in browser.visitor.get("/read/all").text
    assert "Highlighted by the rule" in browser.visitor.get(paths[1]).text
    assert [browser.get(path) - count for path, count in zip(paths, before, strict=True)] == [1, 1]


def test_pages_of_people_stay_within_their_commands(browser: Browser, stranger: Browser) -> None:
    assert browser.get("/notifications") <= NOTIFICATIONS
    for share in (browser.world.real[shapes.SHARE], browser.world.real["theirs"]):
        assert browser.get(f"/shares/{share}/comments") <= COMMENTS
    assert stranger.get("/") <= LANDING


def test_a_topic_needs_two_commands_more_for_the_feeds_that_are_read_here(
    browser: Browser, services: Services
) -> None:
    before = browser.get("/packs/science")
    for who in (browser.world.who, browser.world.other):
        services.subscriptions.subscribe(who, "https://www.nasa.gov/feed/")
    # Which of them the person has, and how often they post.
    assert browser.get("/packs/science") <= before + 2


def test_a_reshare_stays_within_its_commands(browser: Browser) -> None:
    assert browser.post("/entries/share", {"entry": str(browser.world.real["theirs"])}) <= RESHARE
    assert browser.status == 200


@pytest.mark.parametrize("what", [shapes.ENTRY, shapes.SHARE, "theirs", "of_followers", "kept", "missing"])
def test_an_address_of_an_entry_costs_little(browser: Browser, services: Services, what: Any) -> None:
    w = browser.world
    w.real["kept"], w.real["missing"] = w.real[shapes.ENTRY], 17
    if what == "kept":
        services.reading.set_starred(w.who, w.real["kept"], True)
        services.subscriptions.unsubscribe(w.who, w.real[shapes.FEED])
    assert browser.get(f"/entries/{w.real[what]}") <= REDIRECT
    assert browser.status == 303


#: Routes that show several kinds of streams → their addresses.
STREAMS = {
    "<any(today, all, starred, recent, following, shares):kind>": (
        "all",
        "starred",
        "recent",
        "following",
        "shares",
    ),
    "<any(feed, folder, tag):kind>/<int:stream_id>": (
        *("feed/<int:feed_id>", "folder/<int:folder_id>", "tag/<int:tag_id>"),
    ),
}


def fill_all(rule: str, w: World) -> list[str]:
    """Return the addresses of a route for what this person has, one for each kind of stream."""
    found = [rule]
    for pattern, streams in STREAMS.items():
        found = (
            [r.replace(pattern, stream) for r in found for stream in streams] if pattern in rule else found
        )
    return [fill(each, w) for each in found]


def fill(rule: str, w: World) -> str:
    """Return the address of a route for what this person has."""
    values = {
        "<any(search):kind>/<stream_id>": f"search/{encode_query('blog')}",
        "<int:tag_id>": str(w.real[shapes.TAG]),
        "<int:search_id>": str(w.real[shapes.SEARCH]),
        "<int:entry_id>": str(w.real[shapes.ENTRY]),
        "<int:feed_id>": str(w.real[shapes.FEED]),
        "<int:folder_id>": str(w.real[shapes.FOLDER]),
        "<int:import_id>": str(w.real[shapes.IMPORT]),
        "<int:share_id>": str(w.real[shapes.SHARE]),
        "<int:comment_id>": str(w.real[shapes.COMMENT]),
        "<int:user_id>": str(w.other.user_id),
        "<slug>": "science",
        "<name>": w.real[shapes.PERSON],
        "<path:name>": "x",
    }
    rule = re.sub(r"<any\((\w+)[^)]*\):act>", r"\1", rule)
    for pattern, value in values.items():
        rule = rule.replace(pattern, value)
    return rule


def test_no_page_sends_a_command_twice(browser: Browser, stranger: Browser) -> None:
    """Each page that this person finds; of those that they do not find, what they cost until then."""
    done = 0
    for rule, method in sorted(MATRIX):
        if method == "GET" and rule not in LEFT_OUT:
            for address in fill_all(rule, browser.world):
                for visitor in (stranger, browser):
                    visitor.log.clear()
                    answer = visitor.visitor.get(address)
                    assert answer.status_code < 500, address
                    assert not visitor.log.find_repeats(), (address, visitor.log.find_repeats())
                    assert len(visitor.log.commands) <= ANY_PAGE, (address, visitor.log.commands)
                done += answer.status_code == 200
    assert done >= 50


#: What a form names, and what this person has of that kind.
def fill_form(form: dict[str, str], w: World) -> dict[str, str]:
    """Return the fields of a form of the matrix with what this person has."""
    names = {
        "ENTRY": w.real["theirs"],
        "FEED": w.real[shapes.FEED],
        "SHARE": w.real[shapes.SHARE],
        "FOLDER": w.real[shapes.OTHER_FOLDER],
        "SNAPSHOT": w.real["of_snapshot"],
        "UNDO": w.real[shapes.UNDO],
        "nobody": w.real[shapes.PERSON],
    }
    filled = {field: value for field, value in form.items() if field}
    for name, real in names.items():
        filled = {field: value.replace(name, str(real)) for field, value in filled.items()}
    return filled


#: Forms that end the visit, or that take away what others are about: they come last, in this order.
LAST = (
    "/shares/remove",
    "/comments/<int:comment_id>/remove",
    "/imports/<int:import_id>/remove",
    "/tags/<int:tag_id>/delete",
    "/folders/<int:folder_id>/delete",
    "/feeds/<int:feed_id>/fetch",
    "/feeds/<int:feed_id>/address",
    "/feeds/<int:feed_id>/unsubscribe",
    "/people/unfollow",
    "/people/block",
    "/settings/sessions/end-others",
    "/logout",
    "/settings/delete",
)


def test_no_form_sends_a_command_twice(browser: Browser, services: Services) -> None:
    w = browser.world
    ref = StreamRef.parse(f"feed/{w.real[shapes.FEED]}")
    w.real["of_snapshot"] = services.reading.load_page(w.who, StreamQuery(ref)).snapshot
    done = 0
    forms = {rule: form for (rule, method), form in MATRIX.items() if method == "POST"}
    for rule in [r for r in sorted(forms) if r not in LAST] + [r for r in LAST if r in forms]:
        browser.post(fill(rule, w), fill_form(forms[rule], w))
        done += browser.status < 400
    assert done >= 55
