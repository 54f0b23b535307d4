"""G01: all that is somebody's own as one file, and nothing that is anybody else's."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime as dt
import io
import json
import re
import zipfile
from typing import Any

import pytest

from app import clock
from app.bootstrap import services as bootstrap
from app.bootstrap.services import Services
from app.errors import InvalidError, NoSpaceError, NotFoundError, RateLimitedError
from app.feeds.opml import opml
from app.gateways.privacy import exports as gateway
from app.gateways.privacy import personal_data, zip_writer
from app.gateways.privacy.erasure import STRAGGLERS
from app.gateways.privacy.exports import ExportLostError
from app.mappers.privacy.erasure import list_owned_collections
from app.models.accounts.actor import Actor
from app.models.accounts.token import Token, TokenKind
from app.models.discussion.moderation import Reason
from app.models.feeds.crawl import Crawl
from app.models.jobs.jobs import State, Task
from app.models.privacy.export import ExportState, PersonalExport
from app.models.reading.rules import Rule
from app.models.reading.targets import TargetKind
from app.models.sharing.sharing import Audience
from app.models.subscriptions.subscription import Subscription
from app.services import free_space
from app.services.privacy.export import make_export_job
from tests.sharing.conftest import People
from tests.sharing.visiting import Doors
from tests.support.reader import PASSWORD
from tests.support.small_disk import mount_small_disk, with_mounts
from workers import registry

MEMBERS = {
    *("README.txt", "account.json", "subscriptions.opml", "subscriptions.json", "folders.json"),
    *(
        "starred.json",
        "tagged.json",
        "searches.json",
        "rules.json",
        "positions.json",
        "statistics.json",
        "lists.json",
        "services.json",
        "recent.json",
        "saved.json",
        "notes.json",
        "notes.md",
        "states.json",
        "hidden.json",
        "highlighted.json",
        "tags.json",
        "sent.json",
        "shares.json",
        "comments.json",
        "likes.json",
    ),
    *("people.json", "notifications.json", "files.json"),
}
#: Collections with documents of a user → the members with them; none: why they aren't exported.
WHERE: dict[str, tuple[str, ...]] = {
    "users": ("account.json",),
    "sessions": ("account.json",),
    "profiles": ("account.json",),
    "devices": ("account.json",),
    "tokens": ("account.json",),
    "reports": ("account.json",),
    "streamviews": ("account.json",),
    "crawl_askers": ("account.json",),
    "subscriptions": (
        *("subscriptions.opml", "subscriptions.json", "states.json", "hidden.json", "highlighted.json"),
        *("people.json", "saved.json"),
    ),
    "folders": ("folders.json", "subscriptions.json", "subscriptions.opml"),
    "marks": ("starred.json", "tagged.json", "likes.json", "notes.json", "notes.md"),
    "tags": ("tags.json", "tagged.json"),
    "searches": ("searches.json",),
    "rules": ("rules.json",),
    "playback": ("positions.json",),
    "followedlists": ("lists.json",),
    "targets": ("services.json",),
    "deliveries": ("sent.json",),
    "readingdays": ("statistics.json",),
    "recentreads": ("recent.json",),
    "shares": ("shares.json",),
    "comments": ("comments.json",),
    "likes": ("likes.json",),
    "ties": ("people.json",),
    "notifications": ("notifications.json",),
    "files": ("files.json",),
}
#: Collections that the export leaves out, and why.
LEFT_OUT = {
    "usage": "the sum of the sizes in files.json",
    "invites": "hashes of links, which expire; nothing says who used them",
    "resets": "hashes of links to new passwords, which expire",
    "idempotency": "answers for repeated requests, kept for a day",
    "changes": "what apps ask for, which follows from the marks, and expires",
    "short_ids": "numbers of entries for apps, without any other content",
    "snapshots": "lists as they were when they were opened, kept for a day",
    "undos": "what can be undone, kept for a day",
    "removals": "what can be undone, kept for a day",
    "comment_undos": "comments that the person deleted, kept for the undo",
    "ruleruns": "what a run of a rule has changed, kept for the undo",
    "imports": "progress of imports, which expire; what they brought is in the other members",
    "import_parts": "the same",
    "import_marks": "the same",
    "uploads": "unfinished uploads, which expire within a day",
    "personal_exports": "the file itself",
    "personal_export_parts": "the file itself",
    "hubsubs": "addresses of other servers that read the person's page",
}
#: Fields of a subscription that subscriptions.json has under the same name.
_PLAIN = {"title", "paused", "private", "notify", "full_text", "reopen", "read_after", "keep_newest"}
#: Its other fields → where they are, or why they are left out.
FIELDS = {
    "id": "an internal number",
    "user_id": "the person",
    "feed_id": "address, or name of the person",
    "folder_ids": "folders",
    "orders": "subscriptions.opml is in this order",
    "state": "unread, read_upto, and states.json",
    "rev": "a count of writes",
    "mass": "an internal number, for the undo",
    "person": "kind",
    "muted": "hidden of feeds, muted of people",
    "original": "opens_original",
    "hidden": "hidden.json",
    "highlighted": "highlighted.json",
    "highlighted_by": "rule in highlighted.json",
    "ruled": "how far the rules have been tried",
    "read_after_done": "how far read_after has been applied",
}
#: Stands in each word that somebody else has typed for others than ann.
SECRET = "quixotic"


@pytest.fixture
def doors(services: Services) -> Doors:
    return Doors(services)


class Zip:
    """A file as a program reads it."""

    def __init__(self, data: bytes) -> None:
        self.data, self._zip = data, zipfile.ZipFile(io.BytesIO(data))
        assert self._zip.testzip() is None
        self.names = self._zip.namelist()

    def text(self, name: str) -> str:
        return self._zip.read(name).decode()

    def json(self, name: str) -> Any:
        return json.loads(self.text(f"{name}.json"))


def _make(services: Services, who: Actor) -> PersonalExport:
    assert services.gateways.personal_exports.request_export(who.user_id, clock.now())
    assert services.personal_exports.run(who.user_id) == {"state": "ready"}
    found = services.personal_exports.find_latest(who)
    assert found is not None
    return found


def read_export(services: Services, who: Actor) -> Zip:
    """Make the data export of a user, and return it."""
    made = _make(services, who)
    data = b"".join(services.gateways.personal_exports.iter_parts(made))
    assert len(data) == made.size
    return Zip(data)


def test_what_was_taken_back_is_in_no_number(
    services: Services, people: People, ann: Actor, bob: Actor
) -> None:
    first, second = people.blog([ann], 2)
    people.open(ann)
    people.follow(bob, "ann")
    services.sharing.share(ann, first)
    services.sharing.remove_share(ann, services.sharing.share(ann, second).share.id)
    (row,) = read_export(services, bob).json("subscriptions")
    assert (row["entries"], row["unread"]) == (1, 1)


def _full(people: People, ann: Actor, bob: Actor, cleo: Actor) -> None:
    """Let ann have something of everything, and the others talk with her and beside her."""
    services, db = people.services, people.services.store.database
    for who in (ann, bob, cleo):
        people.open(who)
    one, two, three, four, five = people.blog([ann, bob, cleo], 5)
    (hers,) = people.blog([bob], name=f"{SECRET}-paid")  # nobody else reads it
    folder = services.folders.create(ann, "Outer")
    inner = services.folders.create(ann, "Inner", parent=folder.id)
    services.folders.create(ann, "Empty")
    feed_id = db.entries.find_one({"_id": one})["feed_id"]
    services.subscriptions.update(ann, feed_id, title="My title", folder_ids=[inner.id])
    services.statistics.set_enabled(ann, True)
    services.followed_lists.add(ann, "https://list.example/")
    services.sending.add(ann, TargetKind.GOTIFY, "https://gotify.example/", secret="Geheim-7")
    services.reading.set_starred(ann, one, True)
    services.reading.set_starred(ann, two, True)
    services.tags.change_tags(ann, two, add=["Später", "Read later"])
    services.discussion.set_liked(ann, three)
    services.tags.save_search(ann, "Trains", "title:rail")
    sharing, talk = services.sharing, services.discussion
    root = sharing.share(cleo, one, note="seen by all").share
    people.follow(bob, "cleo")
    closed = sharing.share(bob, root.id, note=f"{SECRET} of bob", audience=Audience.FOLLOWERS).share
    people.follow(ann, "cleo")
    people.follow(ann, "bob")
    sharing.share(ann, closed.id, note="words of ann", audience=Audience.FOLLOWERS)
    sharing.share(ann, four, note="for me alone", audience=Audience.PRIVATE)
    post = sharing.publish_post(ann, "", "A post of ann")
    services.following.unfollow(ann, "bob")  # what is for his followers is hers to see no more
    sharing.share(bob, two, note=f"{SECRET} alone", audience=Audience.PRIVATE)
    sharing.share(bob, hers, note="")
    sharing.publish_post(bob, "", f"A {SECRET} post", audience=Audience.PRIVATE)
    talk.comment(ann, root.id, "a comment of ann")
    talk.comment(bob, post.id, f"a {SECRET} comment")
    talk.set_liked(ann, root.id)
    talk.set_liked(bob, post.id)
    people.follow(cleo, "ann")
    people.join("dora")
    people.follow(people.join("emil"), "ann")
    services.following.set_muted(ann, "cleo", True)
    services.following.block(ann, "dora")
    services.following.update_profile(
        ann, display="Ann E.", bio="I read.", links=("https://ann.example/",), audience=Audience.PUBLIC,
        listed=True, open_lists=False,
    )  # fmt: skip
    services.following.update_profile(
        bob, display=f"{SECRET} bob", bio=f"{SECRET} bio", links=(), audience=Audience.PUBLIC,
        listed=False, open_lists=False,
    )  # fmt: skip
    services.tags.change_tags(bob, three, add=[f"{SECRET} tag"])
    services.tags.save_search(bob, f"{SECRET} search", SECRET)
    services.folders.create(bob, f"{SECRET} folder")
    services.moderation.report(
        bob, services.moderation.describe_share(bob, post.id), Reason.SPAM, f"{SECRET} report"
    )
    services.reading.mark(ann, [five], True)
    services.gateways.sessions.open_session(ann.user_id, agent="Firefox of ann", address="192.0.2.0/24")
    services.gateways.sessions.open_session(bob.user_id, agent=f"{SECRET} agent", address="198.51.100.0/24")
    for who, name in ((ann, "Phone of ann"), (bob, f"{SECRET} phone")):
        user = services.gateways.accounts.find_user(who.user_id)
        assert user is not None
        token = Token(0, user.id, TokenKind.APP, name, clock.now(), fever=True)
        services.gateways.tokens.make(token, user)


def test_saved_pages_are_in_the_file_with_their_marks(services: Services, ann: Actor, bob: Actor) -> None:
    saved = services.saved_pages.save(ann, "https://magazine.example/roofs", title="Roofs", text="Curved.")
    services.saved_pages.save(ann, "https://magazine.example/walls")
    services.saved_pages.save(bob, f"https://magazine.example/{SECRET}")
    services.reading.mark(ann, [saved.entry_id], read=True)
    services.reading.set_starred(ann, saved.entry_id, True)
    services.tags.change_tags(ann, saved.entry_id, add=["kyoto"])
    found = read_export(services, ann)
    first, second = found.json("saved")
    assert (first["title"], first["link"]) == ("Roofs", "https://magazine.example/roofs")
    assert (first["read"], first["starred"], first["tags"]) == (True, True, ["kyoto"])
    assert first["html"] == "<p>Curved.</p>"
    assert (second["read"], second["starred"], second["tags"]) == (False, False, [])
    assert not any(SECRET in found.text(name) for name in found.names)


def test_G01_all_that_is_ones_own_is_in_the_file(people: People, ann: Actor, bob: Actor, cleo: Actor) -> None:
    _full(people, ann, bob, cleo)
    found = read_export(people.services, ann)
    account = found.json("account")
    assert (account["name"], account["email"]) == ("ann", "ann@example.org")
    assert account["settings"]["density"] == "cozy"
    assert [(s["agent"], s["network"]) for s in account["sessions"]] == [("Firefox of ann", "192.0.2.0/24")]
    (app,) = account["apps"]
    assert (app["kind"], app["name"], sorted(app)) == (
        "app",
        "Phone of ann",
        ["created", "kind", "name", "scopes"],
    )
    profile = account["profile"]
    assert (profile["display"], profile["bio"], profile["followers"]) == ("Ann E.", "I read.", 2)
    (feed,) = (s for s in found.json("subscriptions") if s["kind"] == "feed")
    assert (feed["title"], feed["own_title"], feed["paused"]) == ("My title", "My title", False)
    assert feed["folders"] == [["Outer", "Inner"]]
    assert (feed["unread"], feed["entries"]) == (4, 5)
    assert [f["path"] for f in found.json("folders")] == [["Empty"], ["Outer"], ["Outer", "Inner"]]
    starred = found.json("starred")
    assert [(s["title"], sorted(s["tags"])) for s in starred] == [
        ("blog 5", []),
        ("blog 4", ["Read later", "Später"]),
    ]
    assert starred[0]["html"] == "<p>The text of blog 5</p>"
    assert starred[0]["link"] == "https://blog.example.org/5"
    assert starred[0]["feed"]["address"] == "https://blog.example.org/feed"
    assert [t["title"] for t in found.json("tagged")] == ["blog 4"]
    (read,) = found.json("recent")
    assert (read["title"], read["link"]) == ("blog 1", "https://blog.example.org/1")
    assert [one["url"] for one in found.json("lists")] == ["https://list.example/"]
    assert found.json("tags") == [{"name": "Read later", "entries": 1}, {"name": "Später", "entries": 1}]
    assert [(one["kind"], one["address"]) for one in found.json("services")] == [
        ("gotify", "https://gotify.example/")
    ]
    (day,) = found.json("statistics")
    assert (day["read"], day["starred"], day["shared"]) == (1, 2, 2)
    assert found.json("searches") == [{"name": "Trains", "query": "title:rail", "notify": False}]
    shares = {s["note"]: s for s in found.json("shares")}
    assert shares["words of ann"]["way"] == ["cleo", None], "bob's was for his followers"
    assert shares["words of ann"]["title"] == "blog 5"
    assert shares["for me alone"]["audience"] == "private"
    assert [s["note"] for s in shares.values() if s["kind"] == "post"] == ["A post of ann"]
    (comment,) = found.json("comments")
    assert (comment["text"], comment["on"]["by"], comment["on"]["title"]) == (
        *("a comment of ann", "cleo", "blog 5"),
    )
    assert [(one["kind"], one.get("title") or one["on"]["title"]) for one in found.json("likes")] == [
        ("entry", "blog 3"),
        ("share", "blog 5"),
    ]
    ties = {(one["kind"], one["name"]) for one in found.json("people")}
    assert ties == {("follows", "cleo"), ("mute", "cleo"), ("block", "dora")}
    told = {one["kind"]: one for one in found.json("notifications")}
    assert (told["follower"]["count"], told["like"]["count"], told["comment"]["count"]) == (1, 1, 1)


def test_G01_nothing_of_anybody_else_is_in_it(people: People, ann: Actor, bob: Actor, cleo: Actor) -> None:
    _full(people, ann, bob, cleo)
    found = read_export(people.services, ann)
    for name in found.names:
        text = found.text(name)
        assert SECRET not in text.casefold(), name
        for other in ("bob", "emil"):
            assert not re.search(rf"\b{other}\b", text), (name, other)
        assert not re.search(r"(bob|cleo|dora|emil)@example\.org", text), name
        assert "$argon2" not in text, name
        for who in (bob, cleo):
            assert str(who.user_id) not in text, name
    # Hers are in bob's only as far as he sees them, too.
    bobs = read_export(people.services, bob)
    whole = "".join(bobs.text(name) for name in bobs.names)
    assert SECRET in whole
    assert "for me alone" not in whole
    assert "a comment of ann" not in whole


def test_G01_a_feed_of_others_gives_its_address_away_to_nobody(
    people: People, ann: Actor, bob: Actor
) -> None:
    """Some addresses of feeds are secrets of who reads them; what he shares of them is not."""
    people.open(bob)
    (entry,) = people.blog([bob], name="paid")
    share = people.services.sharing.share(bob, entry).share
    people.follow(ann, "bob")
    people.services.reading.set_starred(ann, share.id, True)
    found = read_export(people.services, ann)
    (row,) = found.json("starred")
    assert row["title"] == "paid 1"
    assert row["feed"]["address"] is None
    assert not any("paid.example.org/feed" in found.text(name) for name in found.names)


def test_G01_what_others_show_no_more_is_left_out(people: People, ann: Actor, bob: Actor) -> None:
    people.open(bob)
    people.follow(ann, "bob")
    services = people.services
    post = services.sharing.publish_post(bob, "", f"A {SECRET} post")
    services.reading.set_starred(ann, post.id, True)
    services.tags.change_tags(ann, post.id, add=["kept"])
    services.discussion.set_liked(ann, post.id)
    services.discussion.comment(ann, post.id, "my own words")
    services.following.update_profile(
        bob, display="", bio="", links=(), audience=Audience.PRIVATE, listed=False, open_lists=False
    )
    found = read_export(services, ann)
    assert not any(SECRET in found.text(name) for name in found.names)
    assert (found.json("starred"), found.json("tagged")) == ([], [])
    assert [(c["text"], c["on"]) for c in found.json("comments")] == [("my own words", None)]


def test_G01_hidden_and_highlighted_entries_that_others_show_no_more_are_left_out(
    services: Services, people: People, ann: Actor, bob: Actor
) -> None:
    people.open(bob)
    people.follow(ann, "bob")
    posts = [services.sharing.publish_post(bob, f"Post {number}", "Text") for number in (1, 2)]
    services.rules.save(ann, Rule(0, "All", "title:/Post/", highlight=True))
    run = services.rule_runs.begin(ann, services.rules.list_rules(ann).rules[0].id)
    services.rule_runs.continue_run(ann.user_id, run.id, seconds=30)
    for post in posts:
        services.hiding.hide_entry(ann, post.id)

    def count() -> list[int]:
        found = read_export(services, ann)
        return [len(found.json(name)) for name in ("hidden", "highlighted")]

    assert count() == [2, 2]
    services.sharing.update_share(bob, posts[0].id, audience=Audience.PRIVATE)
    assert count() == [1, 1]
    services.following.update_profile(
        bob, display="", bio="", links=(), audience=Audience.PRIVATE, listed=False, open_lists=False
    )
    assert count() == [0, 0]


def test_G01_names_in_the_file_are_ours_alone(people: People, ann: Actor) -> None:
    services = people.services
    services.folders.create(ann, "../../etc/passwd")
    services.tags.save_search(ann, "..\\x", "y")
    found = read_export(services, ann)
    assert len(found.names) == len(MEMBERS)
    assert set(found.names) == MEMBERS
    made = services.personal_exports.find_latest(ann)
    assert made is not None
    assert re.fullmatch(r"eventr-\d{4}-\d\d-\d\d\.zip", made.name)


def test_G01_its_subscriptions_imported_anew_give_the_same_list(
    people: People, ann: Actor, bob: Actor, cleo: Actor
) -> None:
    _full(people, ann, bob, cleo)
    services = people.services
    before = read_export(services, ann).text("subscriptions.opml")
    new = people.join("fresh")
    kept = services.imports.preview(new, before.encode(), "subscriptions.opml")
    items = services.imports.list_items(new, kept.id)
    assert [f.name for f in kept.folders] == ["Empty", "Outer", "Inner"]
    made: list[int] = []
    for folder in kept.folders:
        parent = None if folder.parent is None else made[folder.parent]
        made.append(services.folders.create(new, folder.name, parent=parent).id)
    for item in items:
        done = services.subscriptions.subscribe(new, item.url, title=item.title)
        services.subscriptions.update(
            new, done.subscription.feed_id, folder_ids=[made[place] for place in item.folders]
        )
    after = read_export(services, new).text("subscriptions.opml")
    one, two = opml.read(before.encode()), opml.read(after.encode())
    assert len(one.feeds) == 2, "the blog, and cleo by her Atom feed"
    assert [(f.url, f.title, f.folders) for f in one.feeds] == [
        (f.url, f.title, f.folders) for f in two.feeds
    ]
    assert one.folders == two.folders


def test_G01_many_entries_go_through_in_batches(
    people: People, ann: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    entries = people.blog([ann], 7)
    for entry in entries:
        people.services.reading.set_starred(ann, entry, True)
    monkeypatch.setattr(personal_data, "ENTRIES", 2)
    monkeypatch.setattr(zip_writer, "PIECE", 500)
    monkeypatch.setattr(gateway, "SIGN", 1)
    made = _make(people.services, ann)
    parts = list(people.services.gateways.personal_exports.iter_parts(made))
    assert len(parts) == made.parts > 3
    assert {len(p) for p in parts[:-1]} == {500}
    rows = Zip(b"".join(parts)).json("starred")
    assert sorted(r["title"] for r in rows) == [f"blog {n}" for n in range(1, 8)]


@pytest.mark.parametrize("at", [1, 2, 3])
def test_G01_a_run_that_is_killed_is_begun_again_and_its_rest_never_served(
    people: People, ann: Actor, at: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    services = people.services
    people.blog([ann])
    exports, db = services.mappers.personal_exports, services.store.database
    assert services.gateways.personal_exports.request_export(ann.user_id, clock.now())
    monkeypatch.setattr(zip_writer, "PIECE", 300)
    real, calls = exports.add_part, 0

    def killed(*args: Any) -> None:
        nonlocal calls
        calls += 1
        if calls == at:
            raise KeyboardInterrupt
        real(*args)

    with monkeypatch.context() as patch:
        patch.setattr(exports, "add_part", killed)
        with pytest.raises(KeyboardInterrupt):
            services.personal_exports.run(ann.user_id)
    waiting = services.personal_exports.find_latest(ann)
    assert waiting is not None
    assert waiting.state is ExportState.MAKING
    with pytest.raises(NotFoundError):
        services.personal_exports.get(ann, waiting.id)
    # The updater finds that nobody works on it, as it does when Redis lost the job.
    assert services.personal_exports.find_due_jobs(clock.now()) == []
    later = clock.now() + dt.timedelta(seconds=gateway.SILENT + 1)
    assert services.personal_exports.find_due_jobs(later) == [make_export_job(ann.user_id)]
    assert services.personal_exports.run(ann.user_id) == {"state": "ready"}
    made = services.personal_exports.get(ann, waiting.id)
    assert set(Zip(b"".join(services.gateways.personal_exports.iter_parts(made))).names) == MEMBERS
    assert db.personal_export_parts.count_documents({}) == made.parts, "the rest of the first run is gone"
    assert services.personal_exports.find_due_jobs(later) == []
    assert services.personal_exports.run(ann.user_id) == {"state": "left"}, "once more is nothing more"


def test_G01_of_two_runs_at_once_one_makes_the_file(
    people: People, ann: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    services, exports = people.services, people.services.mappers.personal_exports
    assert services.gateways.personal_exports.request_export(ann.user_id, clock.now())
    real = exports.save_result

    def overtaken(one: PersonalExport) -> bool:
        monkeypatch.setattr(exports, "save_result", real)
        assert services.personal_exports.run(ann.user_id) == {"state": "ready"}
        return real(one)

    monkeypatch.setattr(exports, "save_result", overtaken)
    assert services.personal_exports.run(ann.user_id) == {"state": "left"}
    made = services.personal_exports.find_latest(ann)
    assert made is not None
    assert set(Zip(b"".join(services.gateways.personal_exports.iter_parts(made))).names) == MEMBERS
    assert services.store.database.personal_export_parts.count_documents({}) == made.parts


def test_G01_what_cannot_be_made_is_given_up_and_said(people: People, ann: Actor, doors: Doors) -> None:
    services = people.services
    assert services.gateways.personal_exports.request_export(ann.user_id, clock.now())
    for _ in range(gateway.TRIES):
        services.mappers.personal_exports.begin(ann.user_id, clock.now())
    assert services.personal_exports.run(ann.user_id) == {"state": "left"}
    assert "Couldn't create the export." in doors(ann).get("/settings/account").text
    assert services.gateways.personal_exports.request_export(ann.user_id, clock.now()), "they may try again"


def test_G01_there_is_a_limit_to_its_size(people: People, ann: Actor, doors: Doors) -> None:
    small = bootstrap.build(dataclasses.replace(people.services.settings, export_max=1024))
    try:
        assert small.gateways.personal_exports.request_export(ann.user_id, clock.now())
        assert small.personal_exports.run(ann.user_id) == {"state": "too_large"}
    finally:
        small.close()
    assert (
        "Your data is too large for this server's export limit." in doors(ann).get("/settings/account").text
    )
    assert people.services.store.database.personal_export_parts.count_documents({}) == 0


def test_G01_erasure_takes_it_along_made_or_being_made(
    people: People, ann: Actor, bob: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    services, db = people.services, people.services.store.database
    _make(services, ann)
    _make(services, bob)
    begun = clock.now()
    services.gateways.erasure.begin(ann.user_id, begun)
    later = begun + STRAGGLERS + dt.timedelta(seconds=1)
    assert services.gateways.erasure.finish(ann.user_id, later)
    for name in ("personal_exports", "personal_export_parts"):
        assert {d["user_id"] for d in db[name].find()} == {bob.user_id}, name
    # In the midst of it: whoever makes it finds out and clears up after himself.
    assert services.gateways.personal_exports.request_export(bob.user_id, clock.now())
    monkeypatch.setattr(zip_writer, "PIECE", 300)
    exports = services.mappers.personal_exports
    real = exports.add_part

    def late(one: PersonalExport, *args: Any) -> None:
        services.mappers.erasure.stop(bob.user_id)
        real(one, *args)

    monkeypatch.setattr(exports, "add_part", late)
    assert services.personal_exports.run(bob.user_id) == {"state": "left"}
    for name in ("personal_exports", "personal_export_parts"):
        assert not db[name].count_documents({}), name


# -- who gets it
def test_G01_it_is_asked_for_and_downloaded_with_the_password(
    people: People, ann: Actor, doors: Doors, monkeypatch: pytest.MonkeyPatch
) -> None:
    services = people.services
    services.gateways.accounts.set_password(ann.user_id, services.hasher.hash(PASSWORD))
    late = clock.now() + dt.timedelta(seconds=services.settings.proof_ttl + 1)
    visitor = doors(ann)
    with clock.set_source(lambda: late):
        assert "Create export" in visitor.get("/settings/account").text
        for wrong in ("", "not mine 12345"):
            refused = visitor.post("/settings/account/export", {"proof": wrong})
            assert refused.status_code == 400
        assert services.personal_exports.find_latest(ann) is None
        done = visitor.post("/settings/account/export", {"proof": PASSWORD})
        assert (done.status_code, done.headers["Location"]) == (303, "/settings/account#export")
        assert "Your export is being created (started " in visitor.get("/settings/account").text
        waiting = services.jobs.enqueue(make_export_job(ann.user_id))
        assert (waiting.fresh, services.jobs.get_status(waiting.id).state) == (False, State.QUEUED)
        assert services.personal_exports.run(ann.user_id) == {"state": "ready"}
        made = services.personal_exports.find_latest(ann)
        assert made is not None
        address = f"/settings/account/export/{made.id}"
        assert f'href="{address}"' in visitor.get("/settings/account").text
    # Later the password is asked for again.
    later = late + dt.timedelta(seconds=services.settings.proof_ttl + 1)
    with clock.set_source(lambda: later):
        sent = visitor.get(address)
        assert (sent.status_code, sent.headers["Location"]) == (303, "/settings/account#export")
        page = visitor.get("/settings/account").text
        assert f'href="{address}"' not in page
        assert f'action="{address}#export"' in page
        assert visitor.post(address, {"proof": "not mine 12345"}).status_code == 400
        unlocked = visitor.post(address, {"proof": PASSWORD})
        assert (unlocked.status_code, unlocked.headers["Location"]) == (303, address)
        answer = visitor.get(address)
    assert answer.status_code == 200
    assert answer.headers["Cache-Control"] == "no-store"
    assert answer.headers["Content-Type"] == "application/zip"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["Content-Disposition"] == f'attachment; filename="{made.name}"'
    assert int(answer.headers["Content-Length"]) == len(answer.data) == made.size
    assert set(Zip(answer.data).names) == MEMBERS


def test_G01_others_find_nothing(people: People, ann: Actor, bob: Actor, doors: Doors) -> None:
    made = _make(people.services, ann)
    address = f"/settings/account/export/{made.id}"
    assert doors(ann).get(address).status_code == 200
    for path in (address, f"/settings/account/export/{'0' * 32}", "/settings/account/export/x"):
        assert doors(bob).get(path).status_code == 404, path
        assert doors(bob).post(path, {"proof": PASSWORD}).status_code == 404, path
    assert doors(None).get(address).headers["Location"].startswith("/login")


def test_G01_it_goes_after_a_day_and_with_a_new_one(people: People, ann: Actor, doors: Doors) -> None:
    services, db = people.services, people.services.store.database
    made = _make(services, ann)
    visitor, address = doors(ann), f"/settings/account/export/{made.id}"
    assert made.expires - (made.ready or made.asked) == dt.timedelta(days=1)
    with clock.set_source(lambda: made.expires):
        assert visitor.get(address).status_code == 404
        assert "Your export is ready" not in visitor.get("/settings/account").text
    assert all(d["expires"] >= made.expires for d in db.personal_export_parts.find()), "no part goes before"
    newer = _make(services, ann)
    assert visitor.get(address).status_code == 404
    assert visitor.get(f"/settings/account/export/{newer.id}").status_code == 200
    assert {d["export_id"] for d in db.personal_export_parts.find()} == {newer.id}
    for name in ("personal_exports", "personal_export_parts"):
        assert db[name].index_information()["expires"]["expireAfterSeconds"] == 0


def test_G01_he_may_have_some_a_day(people: People, ann: Actor) -> None:
    services = people.services
    token = services.gateways.sessions.open_session(ann.user_id, agent="", address="")
    session, _ = services.gateways.sessions.find_session(token) or (None, None)
    assert session is not None
    for _ in range(services.settings.exports_per_day):
        services.personal_exports.request_export(ann, session)
        services.personal_exports.request_export(ann, session)  # while one is made it is the same one
        services.personal_exports.run(ann.user_id)
    with pytest.raises(RateLimitedError):
        services.personal_exports.request_export(ann, session)
    stale = dataclasses.replace(session, created=clock.now() - dt.timedelta(days=1))
    made = services.personal_exports.find_latest(ann)
    assert made is not None
    with pytest.raises(InvalidError):
        services.personal_exports.open_download(ann, stale, made.id)


def test_G01_making_and_downloading_are_in_the_log(
    people: People, ann: Actor, doors: Doors, caplog: pytest.LogCaptureFixture
) -> None:
    visitor = doors(ann)
    with caplog.at_level("INFO"):
        visitor.post("/settings/account/export")
        people.services.personal_exports.run(ann.user_id)
        made = people.services.personal_exports.find_latest(ann)
        assert made is not None
        visitor.get(f"/settings/account/export/{made.id}")
    events = ["export_asked", "export_made", "export_downloaded"]
    assert [m for m in caplog.messages if m in events] == events
    assert made.id not in caplog.text


def test_G01_the_job_runs_in_a_worker_of_its_own() -> None:
    registry.load_tasks()
    spec = registry.find_task(Task.EXPORT)
    assert spec is not None
    assert spec.mode == "solo"


def test_G01_a_run_whose_file_is_wanted_no_more_ends(people: People, ann: Actor) -> None:
    services = people.services
    assert services.gateways.personal_exports.request_export(ann.user_id, clock.now())
    begun = services.gateways.personal_exports.begin(ann.user_id, clock.now())
    user = services.gateways.accounts.find_user(ann.user_id)
    assert begun is not None
    assert user is not None
    services.mappers.erasure.stop(ann.user_id)
    with pytest.raises(ExportLostError):
        services.gateways.personal_exports.make(begun, user)


@with_mounts
def test_F09_no_export_is_made_while_a_disk_is_full(
    people: People, ann: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(free_space, "KEPT", 0.0)
    token = people.services.gateways.sessions.open_session(ann.user_id, agent="", address="")
    session, _ = people.services.gateways.sessions.find_session(token) or (None, None)
    assert session is not None
    with mount_small_disk(8 << 20) as disk:
        own = dataclasses.replace(people.services.settings, home=disk.folder, disk_min_free=5.0)
        with contextlib.closing(bootstrap.build(own)) as here:
            disk.fill()
            with pytest.raises(NoSpaceError):
                here.personal_exports.request_export(ann, session)
            disk.clear()
            here.personal_exports.request_export(ann, session)


def test_notes_are_in_the_file_as_data_and_as_text(
    services: Services, people: People, ann: Actor, bob: Actor
) -> None:
    (entry_id,) = people.blog([ann, bob], 1)
    services.notes.set_text(ann, entry_id, "For the trip")
    services.notes.add_quote(ann, entry_id, "The text", note="Why?", color="blue")
    services.notes.set_text(bob, entry_id, f"{SECRET} note")
    found = read_export(services, ann)
    (row,) = found.json("notes")
    assert (row["text"], row["title"]) == ("For the trip", "blog 1")
    (highlight,) = row["highlights"]
    assert (highlight["exact"], highlight["note"], highlight["color"]) == ("The text", "Why?", "blue")
    assert "> The text\n\nWhy?\n" in found.text("notes.md")
    assert not any(SECRET in found.text(name) for name in found.names)


def test_G01_the_readme_names_every_member_and_no_other(services: Services, ann: Actor) -> None:
    found = read_export(services, ann)
    name = r"[a-z]+(?:\.[a-z]+|/)"
    told = re.findall(rf"^({name}(?:, {name})*) +\S", found.text("README.txt"), re.MULTILINE)
    named = [name for line in told for name in line.split(", ")]
    assert len(named) == len(set(named))
    # Files are in a folder, if there are any.
    assert {*named, "README.txt"} == {*found.names, "files/"}


def test_G01_each_collection_of_a_person_is_exported_or_left_out_on_purpose() -> None:
    owned = {*list_owned_collections(), "users", "usage", "invites"}
    assert not WHERE.keys() & LEFT_OUT.keys()
    assert owned == WHERE.keys() | LEFT_OUT.keys()
    assert {name for members in WHERE.values() for name in members} == MEMBERS - {"README.txt"}


def test_G01_each_field_of_a_subscription_is_exported_or_left_out_on_purpose(
    services: Services, people: People, ann: Actor
) -> None:
    people.blog([ann], 1)
    (row,) = read_export(services, ann).json("subscriptions")
    assert row.keys() >= _PLAIN
    assert not _PLAIN & FIELDS.keys()
    assert set(Subscription._fields) == _PLAIN | FIELDS.keys()


def test_G01_hidden_entries_are_in_the_file(
    services: Services, people: People, ann: Actor, bob: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those hidden by hand and by a rule, even beyond the newest entries whose states are exported."""
    monkeypatch.setattr(personal_data, "BATCH", 2)
    monkeypatch.setattr(personal_data, "STATES", 1)
    entries = people.blog([ann, bob], 6)
    for entry_id in entries[:3]:
        services.hiding.hide_entry(ann, entry_id)
    services.hiding.hide_entry(bob, entries[4])
    services.rules.save(ann, Rule(0, "", "title:/ 1$/", hide=True))
    run = services.rule_runs.begin(ann, services.rules.list_rules(ann).rules[0].id)
    services.rule_runs.continue_run(ann.user_id, run.id, seconds=30)
    found = read_export(services, ann)
    rows = found.json("hidden")
    assert [row["title"] for row in rows] == ["blog 6", "blog 5", "blog 4", "blog 1"]
    assert rows[0] == {
        "title": "blog 6",
        "link": "https://blog.example.org/6",
        "hidden": True,
        "feed": {"title": "blog", "address": "https://blog.example.org/feed"},
    }
    services.hiding.show_entry(ann, entries[0])
    assert [row["title"] for row in read_export(services, ann).json("hidden")] == [
        "blog 5",
        "blog 4",
        "blog 1",
    ]
    assert [row["title"] for row in read_export(services, bob).json("hidden")] == ["blog 2"]


def test_G01_highlighted_entries_are_in_the_file_with_their_rules(
    services: Services, people: People, ann: Actor, bob: Actor
) -> None:
    people.blog([ann, bob], 3)
    rules = [
        services.rules.save(ann, Rule(0, "Ones", "title:/ 1$/", highlight=True)),
        services.rules.save(ann, Rule(0, "", "title:/ 2$/", highlight=True)),
        services.rules.save(ann, Rule(0, "Gone", "title:/ 3$/", highlight=True)),
    ]
    for rule in rules:
        run = services.rule_runs.begin(ann, rule.id)
        services.rule_runs.continue_run(ann.user_id, run.id, seconds=30)
    services.rules.delete(ann, rules[2].id)
    rows = read_export(services, ann).json("highlighted")
    assert [(row["title"], row["rule"]) for row in rows] == [
        ("blog 3", None),
        ("blog 2", "title:/ 2$/"),
        ("blog 1", "Ones"),
    ]
    assert (rows[2]["link"], rows[2]["feed"]["title"]) == ("https://blog.example.org/1", "blog")
    assert read_export(services, bob).json("highlighted") == []


def test_G01_sites_that_are_searched_for_a_person_are_in_the_file(
    services: Services, ann: Actor, bob: Actor
) -> None:
    now = clock.now()
    crawls = services.mappers.crawls
    for number, host in enumerate(("one.example.org", "two.example.org")):
        crawls.add(
            Crawl(id=0, host=host, url=f"https://{host}/", next_at=now), now + dt.timedelta(days=number + 1)
        )
    for who, host in ((ann, "one.example.org"), (bob, "two.example.org")):
        crawl = crawls.find_by_host(host)
        assert crawl is not None
        crawls.add_asker(crawl.id, who.user_id, now + dt.timedelta(days=1))
    (site,) = read_export(services, ann).json("account")["looked_for"]
    assert (site["site"], sorted(site)) == ("one.example.org", ["expires", "site"])


def test_G01_what_was_sent_to_services_is_in_the_file(
    services: Services, people: People, ann: Actor, bob: Actor
) -> None:
    entries = people.blog([ann, bob], 2)
    for who, name, entry_id in ((ann, "Hook", entries[0]), (bob, SECRET, entries[1])):
        target = services.sending.add(who, TargetKind.WEBHOOK, "https://hook.example.org/x", name=name)
        services.sending.send(who, entry_id, target.id)
    found = read_export(services, ann)
    (row,) = found.json("sent")
    assert (row["service"], row["title"], row["state"], row["error"]) == ("Hook", "blog 2", "waiting", "")
    assert not any(SECRET in found.text(name) for name in found.names)
