"""Who may see and change what: W04 from the url map, and W21's closed doors."""

from __future__ import annotations

import dataclasses
import datetime as dt
import re
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import pytest
from flask import Flask

from app import clock
from app.bootstrap.services import Services
from app.errors import InvalidError
from app.models.accounts.actor import Actor, Role
from app.models.feeds.feed import FetchRecord
from app.models.media.upload import NewUpload
from app.models.notifications.push import Device
from app.models.reading.rules import Rule
from app.models.reading.search import encode_query
from app.models.reading.stream import StreamRef
from app.models.reading.targets import TargetKind
from app.models.sharing.sharing import Audience
from tests.support.fetches import record_fetches
from tests.support.reader import add_user, follow
from tests.web.conftest import ORIGIN, Visitor, is_for_apps

Make = Callable[[], Visitor]


@dataclasses.dataclass
class World:
    """Two users; bob has a feed that ann has not, a folder and a session."""

    ann: Visitor
    bob: Actor
    feed_id: int
    folder_id: int
    entry_id: int
    import_id: int
    tag_id: int
    search_id: int
    list_id: int
    target_id: int
    rule_id: int
    share_id: int
    comment_id: int
    export_id: str
    device_id: int
    token_id: int
    upload_id: str
    file_id: int


@pytest.fixture
def world(services: Services, ann: Visitor, db: Any) -> World:
    bob = add_user(services, "bob")
    folder = services.folders.create(bob, "Bob's")
    (feed_id,) = follow(services, bob, ["feeds/rss/zerokspot.com-71d236.xml"], folder_id=folder.id)
    entry = db.entries.find_one({"feed_id": feed_id})
    kept = services.imports.preview(bob, services.imports.export(bob), "bob.opml")
    (tag,) = services.tags.change_tags(bob, entry["_id"], add=["Bob's own"])
    services.tags.save_search(bob, "Bob's search", "zerokspot")
    (search,) = services.tags.list_searches(bob)
    rule = services.rules.save(bob, Rule(0, "Bob's rule", "zerokspot", read=True))
    share = services.sharing.share(bob, entry["_id"], audience=Audience.PRIVATE).share
    comment = services.discussion.comment(bob, share.id, "Bob's own")
    services.gateways.personal_exports.request_export(bob.user_id, clock.now())
    services.personal_exports.run(bob.user_id)
    export = services.personal_exports.find_latest(bob)
    assert export is not None
    return World(
        ann,
        bob,
        feed_id,
        folder.id,
        entry["_id"],
        kept.id,
        tag.id,
        search.id,
        services.followed_lists.add(bob, "https://lists.example/bob.opml").id,
        services.sending.add(bob, TargetKind.WEBHOOK, "https://example.org/hook").id,
        rule.id,
        share.id,
        comment.id,
        export.id,
        _device(services, bob),
        _token(services, bob),
        *_upload(services, bob),
    )


def _device(services: Services, who: Actor) -> int:
    sessions, now = services.gateways.sessions, clock.now()
    found = sessions.find_session(sessions.open_session(who.user_id, agent="", address=""))
    assert found is not None
    new = Device(
        id=0,
        user_id=who.user_id,
        session=found[0].key,
        endpoint="https://push.example.org/x",
        p256dh=b"x" * 65,
        auth=b"x" * 16,
        created=now,
    )
    return services.mappers.devices.put(new).id


def _token(services: Services, who: Actor) -> int:
    sessions = services.gateways.sessions
    found = sessions.find_session(sessions.open_session(who.user_id, agent="", address=""))
    assert found is not None
    return services.tokens.make_app_password(who, found[0], "Bob's phone")[0].id


def _upload(services: Services, who: Actor) -> tuple[str, int]:
    """Return an upload in progress, and a file that was uploaded before."""
    done = services.uploads.create(who, NewUpload(size=1, name="Bob's file")).upload.id
    services.uploads.append(who, done, 0, b"x")
    file_id = services.sealing.seal_upload(done)["file_id"]
    return services.uploads.create(who, NewUpload(size=9, name="Bob's upload")).upload.id, file_id


#: (rule, method) → the form; ids are bob's. A new route fails here until it is listed.
#: "silent": ending what is gone already is no error, so it looks done and changes nothing. The
#: address of an entry leads to the list, which says whether there is such an entry.
MATRIX: dict[tuple[str, str], dict[str, str]] = {
    ("/", "GET"): {},
    ("/healthz", "GET"): {},
    ("/readyz", "GET"): {},
    ("/robots.txt", "GET"): {},
    ("/about", "GET"): {},
    ("/manifest.webmanifest", "GET"): {"": "public"},
    ("/offline", "GET"): {"": "public"},
    ("/favicon.ico", "GET"): {"": "public"},
    ("/share-target", "GET"): {},
    ("/entries/<int:entry_id>/note", "POST"): {"": "theirs", "text": "x"},
    ("/entries/<int:entry_id>/highlights", "POST"): {"": "theirs", "exact": "x"},
    ("/entries/<int:entry_id>/highlights/remove", "POST"): {"": "theirs", "quote": "x"},
    ("/notes.md", "GET"): {},
    ("/save", "GET"): {},
    ("/save", "POST"): {"url": "https://site.example/page"},
    ("/saved", "GET"): {},
    ("/saved/remove", "POST"): {"": "theirs", "entry": "ENTRY"},
    ("/static/<name>", "GET"): {"": "public"},
    ("/icon/<name>.png", "GET"): {"": "public"},
    ("/i/<name>/<size>.webp", "GET"): {"": "public"},
    ("/i/u/<signature>/<data>", "GET"): {"": "public"},
    ("/i/states", "GET"): {"": "public"},
    ("/a/<handle>/<size>", "GET"): {"": "public"},
    ("/m/<int:file_id>/<size>", "GET"): {"": "theirs"},
    ("/m/<int:file_id>/get", "GET"): {"": "theirs"},
    ("/login", "GET"): {},
    ("/login", "POST"): {"login": "x", "password": "y"},
    ("/signup", "GET"): {},
    ("/signup", "POST"): {"name": "x", "email": "y", "password": "z"},
    ("/signup/name", "GET"): {},
    ("/logout", "POST"): {},
    ("/read", "GET"): {},
    ("/read/tree", "GET"): {},
    ("/read/nothing", "GET"): {},
    ("/read/<any(today, all, starred, notes, recent, following, shares):kind>", "GET"): {},
    ("/read/<any(feed, folder, tag):kind>/<int:stream_id>", "GET"): {"": "theirs"},
    ("/read/<any(search):kind>/<stream_id>", "GET"): {},
    ("/read/view", "POST"): {"stream": "all", "view": "list"},
    ("/read/mark-above", "POST"): {
        "": "theirs",
        "stream": "feed/FEED",
        "snapshot": "SNAPSHOT",
        "entry": "ENTRY",
    },
    ("/read/mark-below", "POST"): {
        "": "theirs",
        "stream": "feed/FEED",
        "snapshot": "SNAPSHOT",
        "entry": "ENTRY",
    },
    ("/history", "GET"): {},
    ("/search", "GET"): {},
    ("/search/typed", "GET"): {},
    ("/settings/statistics", "GET"): {},
    ("/settings/sending", "GET"): {},
    ("/settings/sending", "POST"): {"kind": "webhook", "address": "https://example.org/hook"},
    ("/settings/sending/<int:target_id>/test", "POST"): {"": "theirs"},
    ("/settings/sending/<int:target_id>/retry", "POST"): {"": "theirs"},
    ("/settings/sending/<int:target_id>/switch", "POST"): {"": "theirs", "on": "0"},
    ("/settings/sending/<int:target_id>/secret", "POST"): {"": "theirs", "secret": "x"},
    ("/settings/sending/<int:target_id>/address", "POST"): {"": "theirs", "address": "https://example.org/x"},
    ("/settings/sending/<int:target_id>/delete", "POST"): {"": "theirs"},
    ("/entries/<int:entry_id>/send", "GET"): {"": "theirs"},
    ("/entries/<int:entry_id>/send", "POST"): {"": "theirs", "target": "7"},
    ("/imports/lists", "GET"): {},
    ("/imports/lists", "POST"): {"url": "https://lists.example/feeds.opml"},
    ("/imports/lists/<int:list_id>/check", "POST"): {"": "theirs"},
    ("/imports/lists/<int:list_id>/answer", "POST"): {"": "theirs", "unsubscribe": "0"},
    ("/imports/lists/<int:list_id>/delete", "POST"): {"": "theirs"},
    ("/settings/statistics", "POST"): {"on": "1"},
    ("/searches", "POST"): {"name": "x", "query": "y"},
    ("/searches/<int:search_id>/notify", "POST"): {"": "theirs", "notify": "1"},
    ("/searches/<int:search_id>/delete", "POST"): {"": "silent"},
    ("/tags", "GET"): {},
    ("/tags/tree", "GET"): {},
    ("/tags/<int:tag_id>/rename", "POST"): {"": "theirs", "name": "mine now"},
    ("/tags/<int:tag_id>/merge", "POST"): {"": "theirs", "into": "17"},
    ("/tags/<int:tag_id>/delete", "POST"): {"": "theirs"},
    ("/entries/<int:entry_id>/tags", "GET"): {"": "theirs"},
    ("/entries/share", "POST"): {"": "theirs", "entry": "ENTRY"},
    ("/entries/<int:entry_id>/share", "GET"): {"": "theirs"},
    ("/entries/<int:entry_id>/chapters", "GET"): {"": "theirs"},
    ("/entries/<int:entry_id>/full-text", "POST"): {"": "theirs"},
    ("/shares/edit", "POST"): {"": "theirs", "share": "SHARE", "note": "mine"},
    ("/shares/remove", "POST"): {"": "theirs", "share": "SHARE"},
    ("/discover", "GET"): {},
    ("/me", "GET"): {},
    ("/compose", "GET"): {},
    ("/compose", "POST"): {"note": "x"},
    ("/entries/tag", "POST"): {"": "theirs", "entry": "ENTRY", "add": "mine"},
    ("/entries/<int:entry_id>", "GET"): {"": "silent"},
    ("/entries/mark", "POST"): {"": "silent", "entry": "ENTRY", "read": "1"},
    ("/entries/states", "POST"): {"entry": "ENTRY"},
    ("/entries/star", "POST"): {"": "theirs", "entry": "ENTRY", "on": "1"},
    ("/entries/apart", "POST"): {"": "theirs", "entry": "ENTRY", "on": "1"},
    ("/entries/hide", "POST"): {"": "theirs", "entry": "ENTRY", "on": "1"},
    ("/read/mark-all", "POST"): {"": "theirs", "stream": "feed/FEED", "snapshot": "SNAPSHOT"},
    ("/undo", "POST"): {"": "theirs", "token": "UNDO"},
    ("/refresh", "POST"): {"": "theirs", "stream": "feed/FEED"},
    ("/add", "GET"): {},
    ("/add", "POST"): {"address": "example.org"},
    ("/add/page", "GET"): {},
    ("/add/page", "POST"): {"address": "example.org"},
    ("/subscribe", "POST"): {"url": "https://site.example/f"},
    ("/feeds/<int:feed_id>", "GET"): {"": "theirs"},
    ("/feeds/<int:feed_id>/edit", "POST"): {"": "theirs", "title": "mine now"},
    ("/feeds/<int:feed_id>/find", "POST"): {"": "theirs"},
    ("/feeds/<int:feed_id>/fetch", "POST"): {"": "theirs", "user_agent": "Mine/1"},
    ("/feeds/<int:feed_id>/unsubscribe", "POST"): {"": "theirs"},
    ("/feeds/<int:feed_id>/rename", "POST"): {"": "theirs", "name": "mine now"},
    ("/feeds/<int:feed_id>/address", "POST"): {"": "theirs", "url": "https://site.example/g"},
    ("/feeds/<int:feed_id>/pause", "POST"): {"": "theirs", "paused": "1"},
    ("/feeds/<int:feed_id>/private", "POST"): {"": "theirs", "private": "1"},
    ("/feeds/<int:feed_id>/icon", "POST"): {"": "theirs"},
    ("/feeds/<int:feed_id>/icon/upload", "POST"): {"": "theirs"},
    ("/feeds/<int:feed_id>/icon/remove", "POST"): {"": "theirs"},
    ("/folders", "GET"): {},
    ("/folders", "POST"): {"name": "x"},
    ("/folders/<int:folder_id>/rename", "POST"): {"": "theirs", "name": "x"},
    ("/folders/<int:folder_id>/delete", "POST"): {"": "theirs"},
    ("/folders/move", "POST"): {"": "theirs", "feed": "FEED", "folder": "FOLDER"},
    ("/imports", "GET"): {},
    ("/imports", "POST"): {"pasted": "x"},
    ("/add/page/outline", "GET"): {"key": "17"},
    ("/imports/server", "GET"): {},
    ("/imports/server", "POST"): {"secret": ""},
    ("/imports/file", "POST"): {"": "theirs", "file": "17"},
    ("/imports/<int:import_id>", "GET"): {"": "theirs"},
    ("/imports/<int:import_id>/choose", "POST"): {"": "theirs"},
    ("/imports/<int:import_id>/cancel", "POST"): {"": "theirs"},
    ("/imports/<int:import_id>/continue", "POST"): {"": "theirs"},
    ("/imports/<int:import_id>/retry", "POST"): {"": "theirs"},
    ("/imports/<int:import_id>/try", "POST"): {"": "theirs"},
    ("/imports/<int:import_id>/remove", "POST"): {"": "theirs"},
    ("/imports/<int:import_id>/unsubscribe", "POST"): {"": "theirs"},
    ("/imports/<int:import_id>/report", "GET"): {"": "theirs"},
    ("/api/imports/<int:import_id>", "GET"): {"": "theirs"},
    ("/export/opml", "GET"): {},
    ("/welcome", "GET"): {},
    ("/packs", "GET"): {},
    ("/packs/<slug>", "GET"): {},
    ("/packs/subscribe", "POST"): {"topic": "science"},
    ("/packs/<slug>/subscribe", "POST"): {"all": "1"},
    ("/packs", "POST"): {"": "pack", "title": "x"},
    ("/packs/<slug>", "POST"): {"": "pack", "title": "x"},
    ("/packs/<slug>/remove", "POST"): {"": "pack"},
    ("/folders/<int:folder_id>/move", "POST"): {"": "theirs", "parent": ""},
    ("/folders/place", "POST"): {"": "theirs", "feed": "FEED", "target": "FOLDER"},
    ("/folders/read", "POST"): {"": "theirs", "stream": "feed/FEED"},
    ("/people", "GET"): {},
    **{
        (f"/people/{act}", "POST"): {
            "": "theirs",
            "name": "nobody",
            **({"yes": "1"} if act == "answer" else {}),
        }
        for act in ("follow", "unfollow", "answer", "mute", "unmute", "block", "unblock", "dismiss")
    },
    ("/@<name>/followers", "GET"): {},
    ("/@<name>/following", "GET"): {},
    ("/report", "GET"): {},
    ("/report", "POST"): {"": "theirs", "share": "ENTRY", "reason": "spam"},
    ("/subscriptions", "GET"): {},
    ("/subscriptions", "POST"): {"": "theirs", "do": "move", "feed": "FEED", "into": "FOLDER"},
    ("/settings", "GET"): {},
    ("/settings/privacy", "GET"): {},
    ("/settings/privacy", "POST"): {},
    ("/settings/rules", "GET"): {},
    ("/settings/rules", "POST"): {"": "theirs", "id": "RULE", "query": "x", "read": "1"},
    ("/settings/rules/new", "GET"): {},
    ("/settings/rules/run", "GET"): {},
    ("/settings/rules/run/undo", "POST"): {"": "theirs", "run": "RUN"},
    ("/settings/rules/<int:rule_id>/run", "POST"): {"": "theirs"},
    ("/settings/rules/file", "GET"): {},
    ("/settings/rules/file", "POST"): {},
    ("/settings/rules/<int:rule_id>", "GET"): {"": "theirs"},
    ("/settings/rules/<int:rule_id>/move", "POST"): {"": "theirs", "by": "up"},
    ("/settings/rules/<int:rule_id>/switch", "POST"): {"": "theirs", "on": "0"},
    ("/settings/rules/<int:rule_id>/delete", "POST"): {"": "theirs"},
    ("/playback", "POST"): {"entry": "ENTRY", "url": "https://pod.example/1.mp3", "seconds": "5"},
    ("/playback/start", "POST"): {"url": "https://pod.example/1.mp3"},
    ("/playback/sites", "POST"): {"site": "pod.example"},
    ("/playback/sites/forget", "POST"): {"site": "pod.example"},
    ("/settings/reading", "GET"): {},
    ("/settings/reading", "POST"): {},
    ("/settings/notifications", "GET"): {},
    ("/settings/notifications", "POST"): {},
    ("/push.js", "GET"): {"": "public"},
    ("/api/push", "GET"): {},
    ("/settings/devices/key", "POST"): {},
    ("/settings/devices", "POST"): {"endpoint": "x", "p256dh": "y", "auth": "z"},
    ("/settings/devices/remove", "POST"): {"": "theirs", "device": "DEVICE"},
    ("/settings/devices/test", "POST"): {},
    ("/notifications", "GET"): {},
    ("/notifications/read", "POST"): {"": "theirs", "row": "feed.FEED"},
    ("/notifications/read-all", "POST"): {},
    ("/entries/like", "POST"): {"": "theirs", "entry": "SHARE", "on": "1"},
    ("/shares/<int:share_id>/like", "POST"): {"": "theirs"},
    ("/shares/<int:share_id>/unlike", "POST"): {"": "theirs"},
    ("/shares/<int:share_id>/likes", "GET"): {"": "theirs"},
    ("/shares/<int:share_id>/comments", "GET"): {"": "theirs"},
    ("/shares/<int:share_id>/comments", "POST"): {"": "theirs", "text": "x"},
    ("/comments/<int:comment_id>/edit", "POST"): {"": "theirs", "text": "x"},
    ("/comments/<int:comment_id>/remove", "POST"): {"": "theirs"},
    ("/settings/display", "GET"): {},
    ("/settings/display", "POST"): {},
    ("/settings/sharing", "GET"): {},
    ("/settings/sharing", "POST"): {"audience": "public"},
    ("/settings/avatar", "POST"): {},
    ("/settings/avatar/remove", "POST"): {},
    ("/settings/files", "GET"): {},
    ("/settings/files", "POST"): {},
    ("/settings/files/cancel", "POST"): {"": "theirs", "upload": "UPLOAD"},
    ("/settings/files/delete", "POST"): {"": "theirs", "file": "FILE"},
    ("/settings/files/<int:file_id>", "GET"): {"": "theirs"},
    ("/settings/files/<int:file_id>/preview", "GET"): {"": "theirs"},
    # tests/media/test_tus.py says who may do what here.
    ("/uploads", "GET"): {},
    ("/uploads", "POST"): {},
    ("/uploads/<upload_id>", "POST"): {},
    ("/uploads/<upload_id>", "PATCH"): {},
    ("/uploads/<upload_id>", "DELETE"): {},
    ("/settings/account", "GET"): {},
    ("/settings/identity", "POST"): {"name": "x", "email": "y", "confirm": "z"},
    ("/settings/delete", "POST"): {"confirm": "x"},
    ("/settings/account/export", "POST"): {"proof": "x"},
    ("/settings/account/export/<export_id>", "GET"): {"": "theirs"},
    ("/settings/account/export/<export_id>", "POST"): {"": "theirs", "proof": "x"},
    ("/settings/sessions", "GET"): {},
    ("/language", "GET"): {},
    ("/settings/password", "POST"): {"old": "x", "password": "y"},
    ("/settings/theme", "POST"): {"theme": "dark"},
    ("/help/keys", "GET"): {},
    ("/settings/keys", "GET"): {},
    ("/settings/keys", "POST"): {"action": "star", "keys": "x"},
    ("/settings/keys/default", "POST"): {"action": "star"},
    ("/settings/keys/reset", "POST"): {},
    ("/settings/keys/single", "POST"): {"on": "0"},
    ("/settings/look", "GET"): {},
    ("/settings/look", "POST"): {"text_size": "20"},
    ("/settings/sessions/end", "POST"): {"": "theirs", "session": "00" * 8},
    ("/settings/sessions/end-others", "POST"): {},
    ("/new-password", "GET"): {},
    ("/new-password", "POST"): {"token": "x", "password": "y"},
    ("/admin", "GET"): {"": "hidden"},
    ("/admin/figures", "GET"): {"": "hidden"},
    ("/admin/feeds", "GET"): {"": "hidden"},
    ("/admin/feeds/<int:feed_id>", "GET"): {"": "hidden"},
    ("/admin/feeds/<int:feed_id>/<any(check, pause, resume, clear):act>", "POST"): {"": "hidden"},
    ("/admin/users", "GET"): {"": "hidden"},
    ("/admin/users", "POST"): {"": "hidden", "name": "eve", "email": "eve@example.org", "role": "admin"},
    ("/admin/users/<int:user_id>", "GET"): {"": "hidden"},
    ("/admin/users/<int:user_id>/<any(admin, user, disable, enable, sessions, link, confirm):act>", "POST"): {
        "": "hidden"
    },
    ("/admin/moderation", "GET"): {"": "hidden"},
    ("/admin/moderation/<any(dismiss, remove, suspend, lift):act>", "POST"): {"": "hidden", "thing": "17"},
    ("/admin/invites", "POST"): {"": "hidden"},
    ("/admin/invites/revoke", "POST"): {"": "hidden", "invite": "0" * 16},
    ("/admin/jobs", "GET"): {"": "hidden"},
    ("/admin/jobs/<job_id>", "GET"): {"": "hidden"},
    ("/admin/jobs/queues/<any(pause, drain, resume):act>", "POST"): {"": "hidden", "queue": "feed-pull"},
    ("/admin/jobs/dead/<any(retry, drop):act>", "POST"): {"": "hidden", "job": "x"},
    ("/admin/cells", "GET"): {"": "hidden"},
    ("/admin/cells/move", "POST"): {"": "hidden"},
    ("/admin/cells/cancel", "POST"): {"": "hidden"},
    ("/admin/media", "GET"): {"": "hidden"},
    ("/admin/texts", "GET"): {"": "hidden"},
    ("/admin/texts", "POST"): {"": "hidden", "host": "example.org", "content": "article"},
    ("/admin/texts/<int:rule_id>", "POST"): {"": "hidden", "host": "example.org", "content": "article"},
    ("/admin/texts/<int:rule_id>/try", "POST"): {"": "hidden", "address": "https://example.org/"},
    ("/admin/texts/<int:rule_id>/delete", "POST"): {"": "hidden"},
    ("/admin/media/clean", "POST"): {"": "hidden"},
    ("/admin/jobs/delayed/<any(run, drop):act>", "POST"): {"": "hidden", "letter": "x"},
    ("/admin/settings", "GET"): {"": "hidden"},
    ("/api/counts", "GET"): {},
    ("/settings/apps", "GET"): {},
    ("/settings/apps/clients", "GET"): {},
    ("/settings/apps/password", "POST"): {"name": "x"},
    ("/settings/apps/feed", "POST"): {"stream": "folder/{folder}", "name": "x"},
    ("/settings/apps/token", "POST"): {"name": "x", "read": "1", "days": "30"},
    ("/settings/apps/revoke", "POST"): {"": "theirs", "token": "TOKEN"},
    ("/check", "GET"): {},
    ("/check/compatibility", "GET"): {},
    **{
        (f"/check/{name}", "GET"): {}
        for name in (
            "origin",
            "secure",
            "slash",
            "query",
            "authorization",
            "body",
            "etag",
            "fresh",
            "forwarded",
        )
    },
    ("/check/path/<path:name>", "GET"): {},
    ("/check/body", "POST"): {},
    ("/api/docs", "GET"): {},
    ("/hub", "POST"): {},
    ("/websub/<token>", "GET"): {},
    ("/websub/<token>", "POST"): {},
    ("/@<name>", "GET"): {},
    ("/@<name>/<int:share_id>", "GET"): {},
    ("/@<name>/<int:share_id>/chain", "GET"): {},
    ("/feed/<secret>/atom.xml", "GET"): {},
    ("/feed/<secret>/feed.json", "GET"): {},
    ("/@<name>/atom.xml", "GET"): {},
    ("/@<name>/feed.json", "GET"): {},
    ("/api/live", "POST"): {},
    ("/api/session", "GET"): {},
    ("/events", "GET"): {},
}


_PERSONAL = (
    *("subscriptions", "folders", "marks", "tags", "searches", "followedlists", "targets", "deliveries"),
    *("shares", "profiles", "likes", "comments", "notifications", "devices", "tokens"),
    *("uploads", "files", "usage", "blobs"),
)


def _routes(app: Flask) -> set[tuple[str, str]]:
    methods = {"GET", "POST", "PUT", "PATCH", "DELETE"}
    rules = [r for r in app.url_map.iter_rules() if not is_for_apps(r.endpoint)]
    return {(r.rule, m) for r in rules for m in (r.methods or set()) & methods}


def _address(rule: str, world: World) -> str:
    values = {
        "<any(today, all, starred, notes, recent, following, shares):kind>": "all",
        "<any(feed, folder, tag):kind>/<int:stream_id>": f"feed/{world.feed_id}",
        "<any(search):kind>/<stream_id>": f"search/{encode_query('zerokspot')}",
        "<int:tag_id>": str(world.tag_id),
        "<int:search_id>": str(world.search_id),
        "<int:list_id>": str(world.list_id),
        "<int:target_id>": str(world.target_id),
        "<int:rule_id>": str(world.rule_id),
        "<int:entry_id>": str(world.entry_id),
        "<int:feed_id>": str(world.feed_id),
        "<int:folder_id>": str(world.folder_id),
        "<int:import_id>": str(world.import_id),
        "<int:file_id>": str(world.file_id),
        "<upload_id>": world.upload_id,
        "<int:share_id>": str(world.share_id),
        "<int:comment_id>": str(world.comment_id),
        "<export_id>": world.export_id,
        "<slug>": "science",
        "<int:user_id>": str(world.bob.user_id),
        "<name>": "x",
        "<handle>": "bob",
        "<size>": "w640",
        "<job_id>": "x",
    }
    rule = re.sub(r"<any\((\w+)[^)]*\):act>", r"\1", rule)
    for pattern, value in values.items():
        rule = rule.replace(pattern, value)
    return rule


def test_W04_every_route_is_in_the_matrix(app: Flask) -> None:
    assert _routes(app) == set(MATRIX)


def test_W04_strangers_see_public_routes_alone(app: Flask, world: World, visitor: Make) -> None:
    for rule, method in sorted(_routes(app)):
        endpoint = next(
            r.endpoint for r in app.url_map.iter_rules() if r.rule == rule and method in (r.methods or ())
        )
        if getattr(app.view_functions[endpoint], "public", False):
            continue
        stranger = visitor()
        if method == "GET":
            answer = stranger.get(_address(rule, world))
            assert answer.status_code in (303, 401), rule
            is_for_programs = rule.startswith(("/api/", "/uploads"))
            assert is_for_programs or answer.headers["Location"].startswith("/login?next=/"), rule
        else:
            token = stranger.token()
            answer = stranger.client.post(_address(rule, world), data={"csrf_token": token}, headers=ORIGIN)
            assert answer.status_code == 401, rule


def test_W04_what_is_anothers_is_not_there(services: Services, world: World, db: Any) -> None:
    ref = StreamRef.parse(f"feed/{world.feed_id}")
    from app.models.reading.stream import StreamQuery

    snapshot = services.reading.load_page(world.bob, StreamQuery(ref)).snapshot
    undo = services.reading.mark_all(world.bob, ref).undo
    names = {
        "ENTRY": world.entry_id,
        "FEED": world.feed_id,
        "SHARE": world.share_id,
        "FOLDER": world.folder_id,
        "SNAPSHOT": snapshot,
        "UNDO": undo,
        "DEVICE": world.device_id,
        "TOKEN": world.token_id,
        "UPLOAD": world.upload_id,
        "RULE": world.rule_id,
        "RUN": services.rule_runs.begin(world.bob, world.rule_id).id,
        "FILE": world.file_id,
    }
    before = {name: list(db[name].find()) for name in _PERSONAL}
    for (rule, method), form in MATRIX.items():
        if form.get("") not in ("theirs", "silent"):
            continue
        fields = {k: _filled(v, names) for k, v in form.items() if k}
        address = _address(rule, world)
        answer = world.ann.get(address) if method == "GET" else world.ann.post(address, fields)
        assert answer.status_code == (404 if form[""] == "theirs" else 303), (rule, method)
        assert "zerokspot" not in answer.text, rule
    assert {name: list(db[name].find()) for name in before} == before
    assert world.ann.get(f"/read/all?entry={world.entry_id}").status_code == 404
    theirs, missing = (world.ann.get(f"/entries/{i}").headers["Location"] for i in (world.entry_id, 17))
    assert theirs.replace(str(world.entry_id), "17") == missing == "/read/all?entry=17"
    assert "zerokspot" not in world.ann.get("/read/all").text


def _filled(value: str, names: dict[str, Any]) -> str:
    for name, found in names.items():
        value = value.replace(name, str(found))
    return value


def test_W04_screens_of_admins_are_not_there_for_others(app: Flask, world: World, db: Any) -> None:
    listed = {rule for (rule, _), form in MATRIX.items() if form.get("") == "hidden"}
    assert listed == {rule for rule, _ in _routes(app) if rule.startswith("/admin")}
    before = {name: list(db[name].find()) for name in ("users", "feeds", "invites", "resets")}
    for (rule, method), form in MATRIX.items():
        if form.get("") == "hidden":
            address, fields = _address(rule, world), {k: v for k, v in form.items() if k}
            answer = world.ann.get(address) if method == "GET" else world.ann.post(address, fields)
            assert answer.status_code == 404, rule
    assert {name: list(db[name].find()) for name in before} == before
    assert "/admin" not in world.ann.get("/settings").text


# -- V14
CANARY = "https://reader:canary@secret.example/canary/feed.xml?token=canary"


def test_V14_no_route_logs_what_was_sent_to_it(
    app: Flask, world: World, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    """In its path, its query, its forms or its JSON: an address of a feed may be a secret."""
    caplog.set_level("DEBUG", logger="app")
    capfd.readouterr()
    extra = dict.fromkeys(("url", "address", "q", "name", "endpoint", "hub.topic", "hub.callback"), CANARY)
    for rule in app.url_map.iter_rules():
        if rule.rule in ("/logout", "/settings/delete", "/settings/sessions/end-others"):
            continue
        path = re.sub(r"<int:\w+>", "17", _address(rule.rule, world))
        path = re.sub(r"<[^>]*>", quote(CANARY, safe=""), path)
        for method in sorted((rule.methods or set()) - {"HEAD", "OPTIONS"}):
            form = {k: CANARY for k in MATRIX.get((rule.rule, method), {}) if k}
            if method == "GET":
                world.ann.client.get(path, query_string=extra)
            elif is_for_apps(rule.endpoint):
                headers = {"Authorization": "Bearer canary", "Idempotency-Key": "canary"}
                world.ann.client.open(path, method=method, json=extra, headers=headers)
            else:
                world.ann.post(path, form)
                world.ann.post(path, {**form, **extra})
    out = capfd.readouterr()
    logged = [str(record.__dict__) for record in caplog.records if record.name.startswith("app.")]
    assert any("request_refused" in line for line in logged)
    assert not [line for line in [*logged, out.out, out.err] if "canary" in line]


def test_V14_of_an_error_only_numbers_and_our_own_words_are_logged() -> None:
    error = InvalidError("No.", feed_id=17, url=CANARY, field="url", limit=CANARY, scope="a b", handle="ann")
    assert error.logged_ids == {"feed_id": 17, "field": "url"}


# -- S13
#: What a port scan by feed would see: a refused address, a closed port, one that swallows everything,
#: and a public page that redirects into the network.
_INSIDE = [
    ("refused", 0, 0, 0),
    ("connect_failed", 0, 1, 0),
    ("timeout", 0, 5003, 0),
    ("refused", 302, 88, 410),
]


def test_S13_the_fetches_of_unreachable_addresses_look_alike(services: Services, visitor: Make) -> None:
    def rows(role: Role) -> set[str]:
        name = f"u{role.name.lower()}"
        actor, seen = add_user(services, name, role), set()
        for number, (word, status, ms, size) in enumerate(_INSIDE):
            address = f"http://10.0.0.{number}/{name}"
            feed_id = services.subscriptions.subscribe(actor, address).subscription.feed_id
            at = dt.datetime(2026, 1, 2, tzinfo=dt.UTC)
            record = FetchRecord(feed_id, at, status, ms, size, error=word)
            record_fetches(services, [record])
            one = visitor()
            one.log_in(name)
            *_, table = re.findall(r"<tbody>(.*?)</tbody>", one.get(f"/feeds/{feed_id}").text, re.DOTALL)
            seen.add(table)
        return seen

    assert len(rows(Role.USER)) == 1
    assert len(rows(Role.ADMIN)) == len(_INSIDE)
