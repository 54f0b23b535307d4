"""People who share what the demo's account reads: a stream, and a share that came through many hands."""

from __future__ import annotations

import dataclasses

from app.bootstrap.services import Services
from app.models.accounts.actor import Actor
from app.models.accounts.user import NewUser
from app.models.sharing.sharing import Audience
from tests.support.ago import ago


@dataclasses.dataclass(frozen=True)
class Streams:
    """Whom there is to look at, and a share of hers that came through others' hands."""

    handle: str
    share: int


_PEOPLE = {
    "mira": ("Mira Holm", "Maps, trains and old houses.\nMore at https://mira.example.org"),
    "jonas": ("Jonas", ""),
    "aylin": ("Aylin Demir", ""),
    "tomas": ("Tomás", ""),
    "wen": ("Wen", ""),
    "quiet": ("Quiet", ""),
    "gone": ("Gone", ""),
}


def streams(services: Services, feed_id: int) -> Streams:
    """Let people share entries of a feed; once per demo."""
    known = services.gateways.accounts.find_by_name("mira")
    if known is None:
        return _fill(services, feed_id)
    actor = Actor(known, services.gateways.accounts.find_user(known).role)  # type: ignore[union-attr]  # it is there
    return Streams("mira", _passed_on(services, actor))


def _passed_on(services: Services, mira: Actor) -> int:
    page = services.public_pages.get_person_page(mira, "mira")
    return next(i.id for i in page.part.items if len(i.way) > 1)


def _fill(services: Services, feed_id: int) -> Streams:
    who = {name: _join(services, name, *said) for name, said in _PEOPLE.items()}
    url = services.gateways.feeds.get(feed_id).url
    services.subscriptions.subscribe(who["aylin"], url)
    services.subscriptions.subscribe(who["mira"], url)
    found = services.store.database["entries"].find({"feed_id": feed_id}).sort("at", -1).limit(4)
    one, two, three, four = (doc["_id"] for doc in found)
    sharing = services.sharing
    with ago(14_000):
        sharing.share(who["mira"], four)
    with ago(9_000):
        sharing.share(who["mira"], three, note="Two things here that I did not know.")
    with ago(5_800):
        sharing.share(who["mira"], two, note="For those who know me.", audience=Audience.FOLLOWERS)
    with ago(4_000):
        first = sharing.share(
            who["aylin"], one, note="Read this to the end; the last picture is the best."
        ).share
        quiet = sharing.share(who["quiet"], first.id).share
    with ago(3_500):
        sharing.share(who["wen"], quiet.id, note="Thank you.")
        gone = sharing.share(who["gone"], first.id).share
    with ago(2_900):
        second = sharing.share(who["jonas"], gone.id, note="Aylin is right.").share
        _open(services, who["quiet"], "quiet", Audience.FOLLOWERS)
        sharing.remove_share(who["gone"], gone.id)
    with ago(1_600):
        sharing.publish_post(
            who["mira"], "", "Does anybody know a good atlas of night trains? Mine is from 1987."
        )
    with ago(200):
        third = sharing.share(
            who["mira"],
            second.id,
            note="What a way to look at a staircase. I went there once, in the rain, and saw none of this.",
        ).share
    sharing.share(who["tomas"], third.id, note="Wonderful!")
    return Streams("mira", third.id)


def _join(services: Services, name: str, display: str, bio: str) -> Actor:
    new = NewUser(f"{name}@example.org", name, "$argon2id$none")
    actor = services.gateways.accounts.add_user(new).actor
    _open(services, actor, name, Audience.PUBLIC, display, bio)
    return actor


def _open(
    services: Services, actor: Actor, name: str, audience: Audience, display: str = "", bio: str = ""
) -> None:
    services.following.update_profile(
        actor,
        display=display or name,
        bio=bio,
        links=["https://mira.example.org/", "https://trains.example.org/@mira"] if bio else [],
        audience=audience,
        listed=False,
        open_lists=False,
    )
