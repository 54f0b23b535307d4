"""What arrives at a device: encrypted, signed, in its language, not too often, and only what may be seen."""

from __future__ import annotations

import base64
import dataclasses
import json
from collections.abc import Callable
from typing import Any

import pytest
import redis
from py_vapid import Vapid02
from werkzeug.wrappers import Request, Response

from app.bootstrap import services as bootstrap
from app.bootstrap.services import Services
from app.config import Settings
from app.feeds.webpush import push as rules
from app.models.accounts.actor import Actor
from app.models.discussion.comments import NotificationKind, NotificationRow, PersonSummary
from app.models.jobs.jobs import Job, Queue, Task
from app.models.notifications.push import Message
from app.models.sharing.sharing import Audience, Share
from app.services.notifications import texts
from tests.notifications.conftest import Crew, Post, PushService, base64url
from tests.sharing.conftest import People
from tests.sharing.hub.conftest import Now
from tests.support import manager

Eventually = Callable[..., Any]


def claims(request: Request) -> dict[str, Any]:
    """Return what a token says, its signature verified with the key that came along (RFC 8292 §3)."""
    header = request.headers["Authorization"]
    assert Vapid02.verify(header)
    token = header.split("t=")[1].split(",")[0]
    part = token.split(".")[1]
    found: dict[str, Any] = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    return found


def said(message: dict[str, Any]) -> str:
    """Return the words of a message without the marks of direction."""
    return str(message["body"]).replace("\u2068", "").replace("\u2069", "")


def test_a_comment_arrives(
    crew: Crew, post: Post, service: PushService, ann: Actor, bob: Actor, share: Share, now: Now
) -> None:
    services = crew.services
    browser, device = crew.device(ann)
    comment = services.discussion.comment(bob, share.id, "Hello")
    assert service.messages == [], "never in the request"
    assert post.work() == ["sent"]
    (request,) = service.messages
    message = browser.read(request)
    assert said(message) == "bob commented on “blog 1”"
    assert message["title"] == "New comment"
    assert message["url"] == f"/shares/{share.id}/comments?at={comment.id}#c{comment.id}"
    assert (message["tag"], message["lang"], message["dir"]) == (f"comment.{share.id}", "en", "ltr")
    assert (request.headers["TTL"], request.headers["Urgency"]) == ("86400", "normal")
    assert len(request.headers["Topic"]) == 32
    # Who sends is known by the key that the page gave its browser.
    key = services.push.get_public_key(ann)
    assert request.headers["Authorization"].endswith(f"k={key}")
    told = claims(request)
    assert told["aud"] == service.wire.url()
    assert 0 < told["exp"] - now.at.timestamp() <= 86400
    assert told["sub"] == "mailto:admin@localhost"
    known = services.mappers.devices.find(device.id)
    assert known is not None
    assert known.used == now.at


def test_nobody_else_can_read_it(
    crew: Crew, post: Post, service: PushService, ann: Actor, bob: Actor, share: Share
) -> None:
    crew.device(ann)
    crew.services.discussion.comment(bob, share.id, "Hello")
    post.work()
    (request,) = service.messages
    assert b"bob" not in request.get_data()
    assert b"comment" not in request.get_data()
    assert str(share.id) not in str(request.headers)
    with pytest.raises(Exception, match=r"Decryption error"):
        service.browser("another").read(request)


def test_two_messages_are_encrypted_each_with_a_key_of_its_own(
    crew: Crew, post: Post, service: PushService, ann: Actor
) -> None:
    browser, _ = crew.device(ann)
    crew.services.push.send_test(ann)
    assert post.work() == ["sent"]
    crew.services.push.send_test(ann)
    post.work()
    one, two = (r.get_data() for r in service.messages)
    assert one[:16] != two[:16]
    assert one[21:86] != two[21:86]
    assert browser.read(service.messages[0])["always"] is True


@pytest.mark.parametrize(
    ("chosen", "page", "words", "direction"),
    [
        ("", "de", "bob hat „blog 1“ kommentiert", "ltr"),
        ("de", "en", "bob hat „blog 1“ kommentiert", "ltr"),
        ("", "ar", None, "rtl"),
        ("ru", "ar", None, "ltr"),
    ],
)
def test_it_speaks_the_language_of_who_is_told(
    crew: Crew,
    post: Post,
    service: PushService,
    ann: Actor,
    bob: Actor,
    share: Share,
    chosen: str,
    page: str,
    words: str | None,
    direction: str,
) -> None:
    if chosen:
        crew.services.accounts.set_preferences(ann, {"language": chosen})
    browser, _ = crew.device(ann, language=page)
    crew.services.discussion.comment(bob, share.id, "Hello")
    post.work()
    message = browser.read(service.messages[0])
    assert (message["lang"], message["dir"]) == (chosen or page, direction)
    assert words is None or said(message) == words
    assert "commented" not in said(message)


def test_the_kinds_are_chosen_one_by_one(
    crew: Crew, post: Post, service: PushService, ann: Actor, bob: Actor, share: Share
) -> None:
    services = crew.services
    browser, _ = crew.device(ann)
    services.discussion.set_liked(bob, share.id)
    crew.people.follow(bob, "ann")
    assert post.queued() == 0, "likes and followers are on the page, and silent"
    services.discussion.comment(bob, share.id, "Hello @ann")
    services.accounts.set_preferences(ann, {"push_comment": False})
    assert post.work() == [], "switched off while it waited"
    services.accounts.set_preferences(ann, {"push_like": True})
    services.discussion.set_liked(bob, share.id, False)
    services.discussion.set_liked(bob, share.id)
    assert post.work() == ["sent"]
    assert said(browser.read(service.messages[0])) == "bob liked “blog 1”"


def test_a_row_that_grows_rings_once_in_a_while(
    crew: Crew, post: Post, service: PushService, ann: Actor, bob: Actor, share: Share, now: Now
) -> None:
    browser, _ = crew.device(ann)
    for words in ("one", "two"):
        crew.services.discussion.comment(bob, share.id, words)
        now.go(seconds=1)
    post.work()
    assert len(service.messages) == 1
    now.go(seconds=200)
    crew.services.discussion.comment(bob, share.id, "three")
    post.work()
    assert len(service.messages) == 1
    now.go(seconds=200)
    crew.services.discussion.comment(bob, share.id, "four")
    post.work()
    assert len(service.messages) == 2
    assert said(browser.read(service.messages[1])) == "bob posted 4 comments on “blog 1”"
    assert service.messages[0].headers["Topic"] == service.messages[1].headers["Topic"]


def test_a_job_whose_worker_died_rings_all_the_same(
    crew: Crew, post: Post, ann: Actor, bob: Actor, share: Share, now: Now
) -> None:
    crew.device(ann)
    crew.services.discussion.comment(bob, share.id, "one")
    at = int(now.at.timestamp() * 1000)
    for _ in range(2):
        assert crew.services.push.enqueue_messages(ann.user_id, NotificationKind.COMMENT, share.id, at) == 1
    assert crew.services.push.enqueue_messages(ann.user_id, NotificationKind.COMMENT, share.id, at + 1) == 0


@pytest.mark.parametrize("late", [False, True], ids=["before it rings", "before it is sent"])
@pytest.mark.parametrize(
    "end",
    [
        lambda crew, ann, share: crew.services.sharing.remove_share(ann, share.id),
        lambda crew, ann, share: crew.services.notifications.mark_all_read(ann),
        lambda crew, ann, share: crew.services.following.block(ann, "bob"),
        lambda crew, ann, share: crew.services.following.set_muted(ann, "bob", True),
        lambda crew, ann, share: crew.services.discussion.remove_comment(
            ann, crew.services.discussion.get_thread(ann, share).comments[0].id
        ),
        lambda crew, ann, share: crew.services.store.database["users"].update_one(
            {"_id": ann.user_id}, {"$set": {"disabled": True}}
        ),
        lambda crew, ann, share: crew.services.gateways.sessions.end_sessions(ann.user_id),
    ],
    ids=["taken back", "read", "blocked", "muted", "comment removed", "closed", "logged out"],
)
def test_what_is_no_more_to_be_told_is_not_sent(
    crew: Crew,
    post: Post,
    service: PushService,
    ann: Actor,
    bob: Actor,
    share: Share,
    end: Callable[[Crew, Actor, Share], object],
    late: bool,
) -> None:
    crew.people.open(bob)
    crew.device(ann)
    service.answer = Response(status=503)
    crew.services.discussion.comment(bob, share.id, "Hello")
    if late:
        assert post.work() == ["later"]
        service.messages.clear()
    service.answer = None
    end(crew, ann, share)
    assert post.work() in ([], ["nothing"])
    assert service.messages == []


def test_a_share_that_is_for_fewer_now_rings_for_none_of_the_others(
    crew: Crew, post: Post, service: PushService, ann: Actor, bob: Actor
) -> None:
    crew.people.open(ann)
    crew.device(bob)
    shared = crew.services.sharing.publish_post(ann, "", "Hello @bob")
    crew.services.sharing.update_share(ann, shared.id, note="Hello @bob", audience=Audience.PRIVATE)
    assert post.work() == []
    assert service.messages == []


def test_it_is_all_devices_of_one_person_and_nobody_elses(
    crew: Crew, post: Post, service: PushService, ann: Actor, bob: Actor, share: Share
) -> None:
    crew.device(ann, "phone")
    crew.device(ann, "desk")
    crew.device(bob, "bobs")
    crew.services.discussion.comment(bob, share.id, "Hello")
    assert post.work() == ["sent", "sent"]
    assert {r.path for r in service.messages} == {"/send/phone", "/send/desk"}
    assert len({r.headers["Topic"] for r in service.messages}) == 2, "nobody sees whose they are"


def test_a_real_worker_sends_it(people: People, service: PushService, eventually: Eventually) -> None:
    services, crew = people.services, Crew(people, service)
    ann, bob = people.join("ann"), people.join("bob")
    people.open(ann)
    (entry,) = people.blog([ann])
    share = services.sharing.share(ann, entry).share
    browser, _ = crew.device(ann)
    service.answer = Response(status=503, headers={"Retry-After": "1"})
    with manager.running(dataclasses.replace(services.settings, push_backoff_min=1)):
        services.push.send_test(ann)
        eventually(lambda: service.messages)
        services.discussion.comment(bob, share.id, "Hello")
        service.answer = None

        def used() -> bool:
            (device,) = services.push.list_devices(ann)
            return device.used is not None

        eventually(used)
        tags = [f"comment.{share.id}", "test", "test"]
        eventually(lambda: len(service.messages) >= len(tags))
    found = [str(browser.read(r)["tag"]) for r in service.messages]
    assert set(found) == set(tags)
    assert found.count("test") >= 2, "the queue has tried it again"


# -- without the stores, and words
def test_a_comment_does_not_wait_for_a_queue_that_is_away(
    crew: Crew, ann: Actor, bob: Actor, share: Share, settings: Settings
) -> None:
    crew.device(ann)
    away = dataclasses.replace(settings, redis_url="redis://127.0.0.1:1/0")
    services = bootstrap.build(away)
    try:
        services.discussion.comment(bob, share.id, "Hello")
    finally:
        services.close()
    assert [n.kind for n in crew.services.notifications.list_notifications(ann).notes] == [
        NotificationKind.COMMENT
    ]


def test_words_are_cut_where_they_would_not_fit() -> None:
    long = Message("New comment", "я" * 5000, "/shares/1/comments", "comment.1")
    for most in (256, 700, 3993):
        body = rules.pack_message(long, most)
        assert len(body) <= most
        read = json.loads(body)
        assert read["body"].endswith("…")
        assert set(read["body"][:-1]) == {"я"}
    assert json.loads(rules.pack_message(long._replace(title="x" * 4000), 256))["body"] == ""
    short = rules.pack_message(Message("a", "b", "/c", "d"), 2048)
    assert len(short) == 256, "its length tells little"


@pytest.mark.parametrize("kind", [k for k in NotificationKind if k.push_setting])
@pytest.mark.parametrize("language", ["en", "de", "ru", "ar", "en-XA"])
def test_each_kind_has_its_words_in_each_language(kind: NotificationKind, language: str, now: Now) -> None:
    faces = (
        PersonSummary(1, "bob", "Bob", True),
        PersonSummary(2, "cleo", "100 % Cleo"),
        PersonSummary(3, "dora", "Dora"),
    )
    for count in (1, 2, 5):
        note = NotificationRow(
            user_id=9,
            kind=kind,
            subject=4,
            at=now.at,
            share_id=4,
            faces=faces[:count],
            count=count,
            last=((1, 7),),
            title="t" * 1000,
        )
        message = texts.build_message(note, language)
        assert message.title
        assert message.body
        assert "%(" not in message.body
        assert message.url.startswith("/")
        assert len(message.body) < 500


def test_a_job_names_ids_alone(redis_client: redis.Redis, services: Services) -> None:
    job = Job(Task.PUSH_SEND, {"id": 1, "kind": "like", "subject": 2, "at": 3}, Queue.PULL_SYSTEM)
    assert services.jobs.enqueue(job).fresh


def test_the_form_of_keys(crew: Crew, ann: Actor) -> None:
    key = crew.services.push.make_key(ann)
    assert len(key) == 87
    assert base64url(base64.urlsafe_b64decode(key + "=")) == key


def test_a_like_that_comes_and_goes_rings_once_within_a_pause(
    crew: Crew, post: Post, service: PushService, ann: Actor, bob: Actor, share: Share, now: Now
) -> None:
    crew.device(ann)
    crew.services.accounts.set_preferences(ann, {"push_like": True})
    for _ in range(4):
        crew.services.discussion.set_liked(bob, share.id)
        post.work()
        crew.services.discussion.set_liked(bob, share.id, False)
        now.go(seconds=2)
    assert len(service.messages) == 1
    now.go(seconds=crew.services.settings.push_pause)
    crew.services.discussion.set_liked(bob, share.id)
    post.work()
    assert len(service.messages) == 2
