"""Reports, and what administrators do about them."""

from __future__ import annotations

import dataclasses
import datetime as dt
from typing import Any

import pytest

from app import clock
from app.bootstrap.services import Services
from app.errors import (
    ExistsError,
    ForbiddenError,
    InvalidError,
    NotFoundError,
    RateLimitedError,
)
from app.gateways.discussion import moderation as gateway
from app.models.accounts.actor import Actor, Role
from app.models.accounts.user import NewUser
from app.models.discussion.moderation import Reason, ReportSubject, Standing
from app.models.reading.search import encode_query
from app.models.reading.stream import StreamKind, StreamQuery, StreamRef
from app.models.sharing.pages import ShareCount
from app.models.sharing.sharing import Audience
from tests.sharing.conftest import ALL, FOLLOWING, SHARES, People
from tests.sharing.visiting import Doors


@pytest.fixture
def doors(services: Services) -> Doors:
    return Doors(services)


@pytest.fixture
def boss(services: Services) -> Actor:
    new = NewUser("boss@example.org", "boss", "$argon2id$none")
    return services.gateways.accounts.add_user(new, Role.ADMIN).actor


def _session(people: People, who: Actor) -> Any:
    token = people.services.gateways.sessions.open_session(who.user_id, agent="", address="")
    found = people.services.sign_in.resume(token)
    assert found
    return found[0]


def _suspend(people: People, boss: Actor, who: Actor) -> None:
    people.services.moderation.suspend(boss, _session(people, boss), who.user_id)


def _report(people: People, who: Actor, share_id: int, text: str = "bad") -> None:
    moderation = people.services.moderation
    moderation.report(who, moderation.describe_share(who, share_id), Reason.ABUSE, text)


def test_a_report_reaches_administrators_and_is_decided(
    people: People, doors: Doors, ann: Actor, bob: Actor, boss: Actor
) -> None:
    (entry,) = people.blog([ann])
    people.open(ann)
    share = people.services.sharing.share(ann, entry, note="Words <i>of</i> ann").share
    visitor, office = doors(bob), doors(boss)
    page = visitor.get(f"/report?share={share.id}").text
    assert "Words &lt;i&gt;of&lt;/i&gt; ann" in page
    form = {"share": str(share.id), "reason": "abuse", "text": "It insults me"}
    assert visitor.post("/report", form).status_code == 303
    assert visitor.post("/report", form).status_code == 409
    found = office.get("/admin/moderation").text
    for words in ("Words &lt;i&gt;of", "It insults me", "reported by @bob"):
        assert words in found
    office.post("/admin/moderation/remove", {"thing": str(share.id), "about": "share"})
    decided = office.get("/admin/moderation").text
    assert "No open reports." in decided
    assert "Decided reports are deleted." in decided
    assert "Suspended accounts" not in decided
    assert people.rows(ann, SHARES) == ()
    with pytest.raises(NotFoundError):
        people.services.sharing.get_share(bob, share.id)


def test_administrators_see_when_the_reported_person_joined_and_how_much_is_shared(
    people: People, ann: Actor, bob: Actor, cleo: Actor, boss: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    entries = people.blog([ann], 3)
    people.open(ann)
    people.follow(bob, "ann")
    sharing, moderation = people.services.sharing, people.services.moderation
    shares = [sharing.share(ann, entries[0]).share, sharing.share(ann, entries[1]).share]
    sharing.share(ann, entries[2], audience=Audience.PRIVATE)
    comment = people.services.discussion.comment(cleo, shares[0].id, "Buy this")
    _report(people, bob, shares[0].id)
    moderation.report(bob, moderation.describe_comment(bob, comment.id), Reason.SPAM, "")
    assert [case.thing.at for case in moderation.list_cases(boss).cases] == [shares[0].at, comment.at]
    first, second = (case.standing for case in moderation.list_cases(boss).cases)
    user = people.services.gateways.accounts.find_user(ann.user_id)
    assert user
    assert first == Standing(user.created, ShareCount(3), 1)
    # Someone who only comments has no stream.
    assert (second.shares, second.followers) == (ShareCount(0), 0)
    monkeypatch.setattr(gateway, "COUNTED", 2)
    assert moderation.list_cases(boss).cases[0].standing.shares == ShareCount(2, True)


def test_a_report_is_dismissed_and_can_be_made_again(
    people: People, ann: Actor, bob: Actor, cleo: Actor, boss: Actor
) -> None:
    people.open(ann)
    moderation = people.services.moderation
    for who in (bob, cleo):
        moderation.report(who, moderation.describe_person(who, "ann"), Reason.SPAM, "")
    (case,) = moderation.list_cases(boss).cases
    assert len(case.reports) == 2
    assert moderation.dismiss(boss, ReportSubject.PERSON, ann.user_id) == 2
    assert moderation.list_cases(boss).cases == ()
    moderation.report(bob, moderation.describe_person(bob, "ann"), Reason.SPAM, "")
    with pytest.raises(ExistsError):
        moderation.report(bob, moderation.describe_person(bob, "ann"), Reason.ILLEGAL, "again")


def test_what_is_reported_is_read_by_administrators_whoever_it_is_for(
    people: People, ann: Actor, bob: Actor, cleo: Actor, boss: Actor
) -> None:
    (entry,) = people.blog([ann])
    people.open(ann)
    people.follow(bob, "ann")
    share = people.services.sharing.share(ann, entry, note="for few", audience=Audience.FOLLOWERS).share
    with pytest.raises(NotFoundError):
        people.services.moderation.describe_share(cleo, share.id)
    _report(people, bob, share.id)
    (case,) = people.services.moderation.list_cases(boss).cases
    assert (case.thing.note, case.thing.audience) == ("for few", Audience.FOLLOWERS)
    people.services.sharing.remove_share(ann, share.id)
    (case,) = people.services.moderation.list_cases(boss).cases
    assert not case.thing.live
    assert "for few" in case.reports[0].quote


def test_reports_have_bounds(
    people: People, monkeypatch: pytest.MonkeyPatch, ann: Actor, bob: Actor, boss: Actor
) -> None:
    entries = people.blog([ann], 3)
    people.open(ann)
    people.open(bob)
    moderation = people.services.moderation
    with pytest.raises(InvalidError):
        moderation.describe_person(bob, "bob")
    with pytest.raises(InvalidError):
        moderation.report(bob, moderation.describe_person(bob, "ann"), Reason.OTHER, " ")
    monkeypatch.setattr(moderation, "_per_hour", 2)
    shares = [people.services.sharing.share(ann, e).share for e in entries]
    for share in shares[:2]:
        _report(people, bob, share.id)
    with pytest.raises(RateLimitedError):
        _report(people, bob, shares[2].id)
    for forbidden in (
        lambda: moderation.list_cases(bob),
        lambda: moderation.dismiss(bob, ReportSubject.PERSON, ann.user_id),
        lambda: moderation.remove_share(bob, shares[0].id),
        lambda: _suspend(people, bob, ann),
    ):
        with pytest.raises(ForbiddenError):
            forbidden()


# -- suspension
def test_who_is_suspended_and_what_he_shared_are_gone_at_once(
    people: People, doors: Doors, ann: Actor, bob: Actor, cleo: Actor, boss: Actor
) -> None:
    (one,) = people.blog([ann])
    for who in (ann, bob):
        people.open(who)
    people.follow(bob, "ann")
    services = people.services
    first = services.sharing.share(ann, one, note="peculiar words").share
    passed = services.sharing.share(bob, first.id).share
    post = services.sharing.publish_post(ann, "A peculiar day", "peculiar post")
    services.reading.set_starred(bob, post.id, True)
    own = doors(ann)
    assert own.get("/people").status_code == 200
    _report(people, bob, first.id)
    assert services.reading.get_tree(bob).unread == 2
    _suspend(people, boss, ann)
    assert own.get("/people").status_code == 303
    assert services.moderation.list_cases(boss).cases == ()
    assert [p.handle for p in services.moderation.list_cases(boss).suspended] == ["ann"]
    assert "Suspended accounts" in doors(boss).get("/admin/moderation").text
    assert services.reading.get_tree(bob).unread == 0
    assert services.reading.get_tree(bob).feeds == ()
    for ref in (FOLLOWING, ALL, StreamRef(StreamKind.STARRED)):
        assert "ann" not in {s.handle for r in people.rows(bob, ref) for s in r.sharers}, ref
        assert not [r for r in people.rows(bob, ref) if r.id in (first.id, post.id)], ref
    assert people.chain(cleo, passed.id) == [(0, "private"), (1, "bob")]
    for read in (services.sharing.get_share, services.reading.get_article):
        for share_id in (first.id, post.id):
            with pytest.raises(NotFoundError):
                read(bob, share_id)
    for gone in (
        lambda: services.following.get_person(bob, "ann"),
        lambda: services.following.follow(cleo, "ann"),
    ):
        with pytest.raises(NotFoundError):
            gone()
    services.moderation.lift_suspension(boss, _session(people, boss), ann.user_id)
    assert services.reading.get_tree(bob).unread == 2
    assert {s.handle for r in people.rows(bob, FOLLOWING) for s in r.sharers} == {"ann"}
    assert people.chain(cleo, passed.id) == [(0, "ann"), (1, "bob")]
    assert not services.gateways.admin_accounts.get_account(ann.user_id).user.disabled


def test_a_search_finds_nothing_of_who_is_suspended(
    people: People, ann: Actor, bob: Actor, boss: Actor
) -> None:
    people.open(ann)
    people.follow(bob, "ann")
    people.services.sharing.publish_post(ann, "A peculiar day", "whatever")
    later = clock.now() + dt.timedelta(days=1)
    people.services.indexing.run(later, 60)
    search = StreamRef.parse(f"search/{encode_query('peculiar')}")
    assert len(people.rows(bob, search)) == 1
    _suspend(people, boss, ann)
    assert people.rows(bob, search) == ()


def test_the_two_reasons_to_be_hidden_are_kept_apart(
    people: People, ann: Actor, bob: Actor, boss: Actor
) -> None:
    (entry,) = people.blog([ann])
    people.open(ann)
    people.follow(bob, "ann")
    people.services.sharing.share(ann, entry)
    people.open(ann, Audience.PRIVATE)
    _suspend(people, boss, ann)
    people.services.moderation.lift_suspension(boss, _session(people, boss), ann.user_id)
    assert people.rows(bob, FOLLOWING) == ()
    _suspend(people, boss, ann)
    people.open(ann, Audience.PUBLIC)
    assert people.rows(bob, FOLLOWING) == ()
    people.services.moderation.lift_suspension(boss, _session(people, boss), ann.user_id)
    assert len(people.rows(bob, FOLLOWING)) == 1


def test_W11_who_suspends_proves_himself_and_is_in_the_log(
    people: People, doors: Doors, ann: Actor, bob: Actor, boss: Actor, caplog: pytest.LogCaptureFixture
) -> None:
    people.open(ann)
    moderation = people.services.moderation
    session = _session(people, boss)
    old = dataclasses.replace(session, created=session.created.replace(year=2020), proved=None)
    with pytest.raises(InvalidError, match="password"):
        moderation.suspend(boss, old, ann.user_id)
    with pytest.raises(InvalidError):
        moderation.suspend(boss, session, boss.user_id)
    with caplog.at_level("INFO"):
        _suspend(people, boss, ann)
        moderation.lift_suspension(boss, session, ann.user_id)
        moderation.dismiss(boss, ReportSubject.PERSON, ann.user_id)
    words = [r.getMessage() for r in caplog.records]
    for word in ("person_suspended", "suspension_lifted", "reports_dismissed"):
        assert any(word in w for w in words), words


def test_G02_reports_go_with_their_people(people: People, ann: Actor, bob: Actor, cleo: Actor) -> None:
    for who in (ann, bob):
        people.open(who)
    moderation = people.services.moderation
    moderation.report(bob, moderation.describe_person(bob, "ann"), Reason.SPAM, "words of bob")
    moderation.report(cleo, moderation.describe_person(cleo, "bob"), Reason.SPAM, "words of cleo")
    erase = people.services.mappers.erasure
    reports = people.services.store.database["reports"]
    erase.forget(ann.user_id)
    assert [r["text"] for r in reports.find()] == ["words of cleo"]
    erase.forget(bob.user_id)
    assert reports.count_documents({}) == 0


def test_a_list_that_was_begun_before_shows_no_more_of_who_is_suspended(
    people: People, ann: Actor, bob: Actor, boss: Actor
) -> None:
    entries = people.blog([ann], 6)
    people.open(ann)
    people.follow(bob, "ann")
    for entry in entries:
        people.services.sharing.share(ann, entry)
    page = people.page(bob, FOLLOWING, limit=2)
    assert page.cursor
    _suspend(people, boss, ann)
    query = StreamQuery(FOLLOWING, cursor=page.cursor, snapshot=page.snapshot, limit=2)
    assert people.services.reading.load_page(bob, query).rows == ()


def test_a_closed_account_shows_nothing_and_is_not_suspended(
    people: People, ann: Actor, bob: Actor, boss: Actor
) -> None:
    (entry,) = people.blog([ann])
    people.open(ann)
    people.follow(bob, "ann")
    share = people.services.sharing.share(ann, entry).share
    people.services.admin_accounts.set_disabled(boss, _session(people, boss), ann.user_id, True)
    assert people.rows(bob, FOLLOWING) == ()
    assert people.services.reading.get_tree(bob).unread == 0
    for who in (None, bob):
        with pytest.raises(NotFoundError):
            people.services.sharing.get_share(who, share.id)
    people.services.admin_accounts.set_disabled(boss, _session(people, boss), ann.user_id, False)
    assert len(people.rows(bob, FOLLOWING)) == 1
    _suspend(people, boss, ann)
    people.services.admin_accounts.set_disabled(boss, _session(people, boss), ann.user_id, False)
    assert people.rows(bob, FOLLOWING) == ()
