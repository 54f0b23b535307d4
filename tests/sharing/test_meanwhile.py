"""Two changes of the same at one moment: neither takes back what the other has made of it."""

from __future__ import annotations

import dataclasses

import pytest

from app.errors import ConflictError, NotFoundError
from app.models.accounts.actor import Actor
from app.models.sharing.sharing import Audience, Share
from tests.sharing.conftest import SHARES, People
from tests.support.meanwhile import after

#: Reads of a share by one edit, after each of which another edit may come.
READS = (1, 2)


# -- a share
@pytest.fixture
def post(people: People, ann: Actor) -> Share:
    people.open(ann)
    return people.services.sharing.publish_post(ann, "A day", "wrods")


@pytest.mark.parametrize("read", READS)
@pytest.mark.parametrize("audience", [Audience.FOLLOWERS, Audience.PRIVATE])
def test_new_words_do_not_widen_what_was_narrowed_meanwhile(
    people: People, ann: Actor, post: Share, monkeypatch: pytest.MonkeyPatch, audience: Audience, read: int
) -> None:
    services = people.services
    sharing, shares = services.sharing, services.mappers.shares
    after(monkeypatch, shares, "find", lambda: sharing.update_share(ann, post.id, audience=audience), read)
    sharing.update_share(ann, post.id, note="words")
    now = sharing.get_share(ann, post.id)
    assert (now.audience, now.note) == (audience, "words")
    with pytest.raises(NotFoundError):
        sharing.get_share(None, post.id)
    assert [(row.id, row.title) for row in people.rows(ann, SHARES)] == [(post.id, "A day")]
    assert services.reading.get_article(ann, post.id).entry.content == "<p>words</p>"


@pytest.mark.parametrize("read", READS)
@pytest.mark.parametrize("audience", [Audience.FOLLOWERS, Audience.PRIVATE])
def test_another_audience_does_not_take_back_the_words_of_meanwhile(
    people: People, ann: Actor, post: Share, monkeypatch: pytest.MonkeyPatch, audience: Audience, read: int
) -> None:
    services = people.services
    sharing, shares = services.sharing, services.mappers.shares
    after(monkeypatch, shares, "find", lambda: sharing.update_share(ann, post.id, note="words"), read)
    now = sharing.update_share(ann, post.id, audience=audience)
    assert (now.audience, now.note, now.edited is not None) == (audience, "words", True)
    assert services.reading.get_article(ann, post.id).entry.content == "<p>words</p>"


def test_each_of_two_edits_tells_of_what_it_has_changed_itself(
    people: People, ann: Actor, post: Share, monkeypatch: pytest.MonkeyPatch
) -> None:
    services, told = people.services, list[tuple[Audience, Audience]]()
    sharing, shares = services.sharing, services.mappers.shares
    monkeypatch.setattr(
        services.notifier,
        "notify_share_edited",
        lambda was, share: told.append((was.audience, share.audience)),
    )
    after(monkeypatch, shares, "find", lambda: sharing.update_share(ann, post.id, audience=Audience.PRIVATE))
    sharing.update_share(ann, post.id, note="words")
    assert told == [(Audience.PUBLIC, Audience.PRIVATE), (Audience.PRIVATE, Audience.PRIVATE)]


def test_new_words_do_not_bring_back_what_is_taken_back_meanwhile(
    people: People, ann: Actor, post: Share, monkeypatch: pytest.MonkeyPatch
) -> None:
    services = people.services
    after(
        monkeypatch,
        services.mappers.shares,
        "find",
        lambda: services.sharing.remove_share(ann, post.id),
        READS[-1],
    )
    with pytest.raises(NotFoundError):
        services.sharing.update_share(ann, post.id, note="words")
    assert people.rows(ann, SHARES) == ()


def test_an_edit_that_is_overtaken_each_time_ends_and_changes_nothing(
    people: People, ann: Actor, post: Share, monkeypatch: pytest.MonkeyPatch
) -> None:
    services, store = people.services, people.services.store.database["shares"]
    real = services.mappers.shares.find

    def overtaken(share_id: int) -> Share | None:
        found = real(share_id)
        store.update_one({"_id": share_id}, {"$inc": {"left": 1}})
        return found

    monkeypatch.setattr(services.mappers.shares, "find", overtaken)
    with pytest.raises(ConflictError):
        services.sharing.update_share(ann, post.id, note="words")
    monkeypatch.undo()
    assert services.sharing.get_share(ann, post.id).note == "wrods"


# -- a profile
@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("display", "Annie"),
        ("display", ""),
        ("bio", ""),
        ("links", ()),
        ("audience", Audience.PUBLIC),
        ("listed", False),
        ("open_lists", False),
        ("similar", False),
    ],
)
def test_a_change_of_one_field_of_a_profile_leaves_all_others(
    people: People, ann: Actor, field: str, value: object
) -> None:
    following = people.services.following
    before = following.update_profile(
        ann,
        display="Ann",
        bio="Reads much.",
        links=["https://ann.example.org/"],
        audience=Audience.FOLLOWERS,
        listed=True,
        open_lists=True,
        similar=True,
    )
    changed = following.update_profile(ann, **{field: value})  # type: ignore[arg-type]
    assert changed == following.preview_profile(ann) == dataclasses.replace(before, **{field: value})  # type: ignore[arg-type]


def test_other_words_do_not_open_a_stream_that_is_closed_meanwhile(
    people: People, ann: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    people.open(ann)
    services, told = people.services, list[dict[int, int]]()
    monkeypatch.setattr(services.events, "notify_new_entries", lambda entries: told.append(dict(entries)))
    after(
        monkeypatch,
        services.mappers.profiles,
        "find",
        lambda: services.following.update_profile(ann, audience=Audience.PRIVATE),
    )
    changed = services.following.update_profile(ann, bio="Reads much.")
    assert (changed.audience, changed.bio) == (Audience.PRIVATE, "Reads much.")
    assert told == [{changed.feed_id: 0}]  # by the one that has closed it
