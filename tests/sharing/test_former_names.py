"""Former names: they lead to their owner's page for a while, and to nobody else's."""

from __future__ import annotations

import datetime as dt

import pytest

from app import clock
from app.bootstrap.services import Services
from app.errors import ExistsError
from app.models.accounts.actor import Actor
from app.models.accounts.user import NewUser
from app.models.sharing.sharing import Audience
from tests.privacy.test_export import read_export
from tests.sharing.conftest import FOLLOWING, People
from tests.sharing.visiting import Doors

DAYS = 90


@pytest.fixture
def doors(services: Services) -> Doors:
    return Doors(services)


def _rename(people: People, who: Actor, name: str) -> None:
    people.services.gateways.accounts.set_identity(who.user_id, name, f"{name}@example.org")


def _join(people: People, name: str) -> Actor:
    return Actor(
        people.services.gateways.accounts.add_user(NewUser("x@example.org", name, "$argon2id$none")).id
    )


def test_all_below_an_old_name_leads_to_the_new_one(people: People, doors: Doors, ann: Actor) -> None:
    people.open(ann)
    post = people.services.sharing.publish_post(ann, "A day", "words")
    _rename(people, ann, "Änne")
    stranger = doors(None)
    new = "/@%C3%84nne"
    for rest in ("", "?before=17", f"/{post.id}", f"/{post.id}/chain", "/atom.xml", "/feed.json"):
        for old in ("/@ann", "/@ANN"):
            answer = stranger.get(old + rest)
            assert (answer.status_code, answer.headers["Location"]) == (301, new + rest), rest
        # What takes the name over later must not be hidden by an answer that was kept.
        assert answer.headers["Cache-Control"] == "no-store"
    assert stranger.get(f"{new}/{post.id}").status_code == 200
    assert stranger.get("/@ann/17").status_code == 404
    assert stranger.get("/@ann/followers").status_code == 404
    assert doors(ann).get("/@ann/followers").headers["Location"] == f"{new}/followers"


@pytest.mark.parametrize("how", ["closed", "suspended", "disabled", "leaving", "blocked"])
def test_who_has_no_page_is_found_by_no_name(
    people: People, doors: Doors, ann: Actor, bob: Actor, how: str
) -> None:
    people.open(ann)
    _rename(people, ann, "anna")
    services, viewer = people.services, doors(bob)
    assert viewer.get("/@ann").status_code == 301
    match how:
        case "closed":
            people.open(ann, Audience.PRIVATE)
        case "suspended":
            services.gateways.profiles.set_suspended(ann.user_id, True)
        case "disabled":
            services.gateways.admin_accounts.set_disabled(ann.user_id, True)
        case "leaving":
            services.store.database["users"].update_one(
                {"_id": ann.user_id}, {"$set": {"leaving": clock.now()}}
            )
        case _:
            services.following.block(ann, "bob")
    unknown = viewer.get("/@nobody")
    for path in ("/@ann", "/@anna"):
        answer = viewer.get(path)
        assert answer.status_code == 404
        assert answer.text.count("\n") == unknown.text.count("\n")


def test_an_old_name_is_kept_for_its_owner(
    people: People, doors: Doors, monkeypatch: pytest.MonkeyPatch, ann: Actor, bob: Actor
) -> None:
    people.open(ann)
    _rename(people, ann, "anna")
    for taken in ("ann", "ANN", "anna"):
        with pytest.raises(ExistsError, match="taken"):
            _join(people, taken)
        with pytest.raises(ExistsError, match="taken"):
            _rename(people, bob, taken)
    assert people.services.gateways.accounts.find_names([bob.user_id]) == {bob.user_id: "bob"}
    assert people.services.store.database["users"].count_documents({}) == 2
    _rename(people, ann, "ann")
    stranger = doors(None)
    assert stranger.get("/@ann").status_code == 200
    assert stranger.get("/@anna").headers["Location"] == "/@ann"
    _rename(people, ann, "anna")
    later = clock.now() + dt.timedelta(days=DAYS, seconds=1)
    monkeypatch.setattr(clock, "now", lambda: later)
    assert stranger.get("/@ann").status_code == 404
    _rename(people, bob, "ann")
    people.open(bob)
    assert stranger.get("/@ann").status_code == 200
    # Both of one name: the first who has it, then who had it last.
    _rename(people, bob, "robert")
    assert stranger.get("/@ann").headers["Location"] == "/@robert"


def test_the_last_names_are_kept_and_go_with_the_account(people: People, ann: Actor) -> None:
    people.open(ann)
    for n in range(7):
        _rename(people, ann, f"ann{n}")
    accounts = people.services.gateways.accounts
    kept = [name for name in ("ann", *(f"ann{n}" for n in range(6))) if accounts.find_by_former_name(name)]
    assert kept == [f"ann{n}" for n in range(1, 6)]
    # Another case is no other name, another address neither.
    _rename(people, ann, "ANN6")
    assert accounts.find_by_former_name("ann6") is None
    people.services.mappers.erasure.erase(ann.user_id, clock.now())
    people.services.store.database["users"].delete_one({"_id": ann.user_id})
    assert accounts.find_by_former_name("ann5") is None
    assert _join(people, "ann5")


def test_a_post_bears_the_name_that_its_author_has_now(people: People, ann: Actor, bob: Actor) -> None:
    for who in (ann, bob):
        people.open(who)
    people.follow(bob, "ann")
    services = people.services
    post = services.sharing.publish_post(ann, "A day", "Words")
    passed = services.sharing.share(bob, post.id).share
    _rename(people, ann, "anna")
    for who, entry_id in ((ann, post.id), (bob, post.id), (bob, passed.id)):
        assert services.reading.get_article(who, entry_id).entry.author == "anna"
    assert [row.author for row in people.rows(bob, FOLLOWING)] == ["anna"]


def test_a_topic_of_the_hub_is_the_new_address_alone(people: People, ann: Actor) -> None:
    people.open(ann)
    _rename(people, ann, "anna")
    origin = people.services.settings.own_origin
    assert people.services.public_pages.find_document(f"{origin}/@ann/atom.xml") is None
    assert people.services.public_pages.find_document(f"{origin}/@anna/atom.xml")


def test_G01_they_are_in_the_file_of_all_that_is_somebodys_own(
    people: People, ann: Actor, bob: Actor
) -> None:
    _rename(people, ann, "anna")
    (hers,) = read_export(people.services, ann).json("account")["former_names"]
    assert (hers["name"], hers["until"] > clock.now().isoformat()) == ("ann", True)
    assert read_export(people.services, bob).json("account")["former_names"] == []
