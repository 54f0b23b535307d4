"""People around the demo's ann: who follows, asks, is muted or blocked, and what was reported."""

from __future__ import annotations

from app.errors import ExistsError
from app.models.accounts.actor import Actor
from app.models.discussion.moderation import Reason
from app.models.reading.stream import StreamQuery, StreamRef
from app.models.sharing.sharing import Audience
from tests.support.ago import ago
from tests.support.demo import Demo
from tests.support.reader import add_user

_NAMES = {
    "bob": "",
    "dana": "Dana Weiß",
    "emir": "أمير",
    "fjodor": "Фёдор",
    "gwen": "",
    "hugo": "Hugo the Long-Named of the Mountains",
}


def around(demo: Demo) -> Demo:
    """Fill ann's page of people, once."""
    services, ann = demo.services, demo.ann
    following = services.following
    try:
        people = {name: add_user(services, name) for name in list(_NAMES)[1:]}
    except ExistsError:
        return demo
    people["bob"] = Actor(demo.bob)
    for name, display in _NAMES.items():
        _open(demo, people[name], display)
    _open(demo, ann, "Ann Example", Audience.FOLLOWERS)
    for name in ("bob", "dana", "emir", "hugo"):
        following.follow(ann, name)
    for name in ("dana", "fjodor", "gwen"):
        following.follow(people[name], "ann")
    following.follow(people["hugo"], "dana")
    following.answer_request(ann, "dana", True)
    following.answer_request(ann, "gwen", True)
    following.set_muted(ann, "emir", True)
    following.block(ann, "bob")
    services.reading.set_starred(ann, demo.entry, True)
    _report(demo, people["dana"])
    services.gateways.profiles.set_suspended(people["gwen"].user_id, True)
    return demo


def _open(demo: Demo, who: Actor, display: str, audience: Audience = Audience.PUBLIC) -> None:
    demo.services.following.update_profile(
        who,
        display=display,
        bio="Reads about design, maps and bread.\nWrites rarely.",
        links=("https://example.org/",),
        audience=audience,
        listed=False,
        open_lists=True,
    )


def _report(demo: Demo, dana: Actor) -> None:
    services, moderation = demo.services, demo.services.moderation
    share = services.sharing.share(demo.ann, demo.entry, note="Look at this.\nIt is worth the time.").share
    moderation.report(dana, moderation.describe_share(dana, share.id), Reason.OTHER, "This picture is mine.")
    moderation.report(demo.ann, moderation.describe_person(demo.ann, "hugo"), Reason.SPAM, "")


def shared(demo: Demo) -> int:
    """Return a share that ann may report."""
    services = demo.services
    around(demo)
    dana = services.gateways.accounts.find_by_name("dana")
    assert dana is not None
    post = services.sharing.publish_post(
        Actor(dana), "A day in the hills", "Cold, and clear.\nBread with honey."
    )
    return post.id


def passed_on(demo: Demo) -> Demo:
    """Let those whom ann follows share: one article both, one with a long note."""
    services = around(demo).services
    feed_id = demo.feeds["restofworld.org-e04770"]
    found = services.reading.load_page(
        demo.ann, StreamQuery(StreamRef.parse(f"feed/{feed_id}"), limit=3)
    ).rows
    people = [services.gateways.accounts.find_by_name(name) for name in ("dana", "hugo")]
    url = services.subscriptions.get_health(demo.ann, feed_id).feed.url
    notes = iter(("Worth an evening.", _LONG, "", "I tried the same and ended up at the wrong station."))
    for n, person in enumerate(Actor(user_id) for user_id in people if user_id is not None):
        services.subscriptions.subscribe(person, url)
        for m, row in enumerate(found[:2]):
            with ago(400 - 190 * n - 35 * m):
                services.sharing.share(person, row.id, note=next(notes))
    return demo


def own_shares(demo: Demo) -> Demo:
    """Let ann share more, once: one that others speak of, one without a note, one for herself."""
    services, ann = around(demo).services, demo.ann
    dana, hugo = (
        Actor(user_id)
        for name in ("dana", "hugo")
        if (user_id := services.gateways.accounts.find_by_name(name)) is not None
    )
    found = [find_titled(demo, *one) for one in _SHARED]
    if services.gateways.sharing.find_own_share(ann.user_id, found[0]):
        return demo
    services.following.follow(hugo, "ann")
    services.following.answer_request(ann, "hugo", True)
    # What a stream for followers alone has is not passed on.
    _open(demo, ann, "Ann Example")
    with ago(190):
        talked = services.sharing.share(ann, found[0], note=_ADVICE, audience=Audience.PUBLIC).share
    with ago(60 * 27):
        services.sharing.share(ann, found[1], audience=Audience.PUBLIC)
    with ago(60 * 52):
        services.sharing.share(ann, found[2], note="For the talk in May.", audience=Audience.PRIVATE)
    with ago(120):
        for who in (dana, hugo):
            services.discussion.set_liked(who, talked.id)
            services.discussion.comment(who, talked.id, "Thanks, I would have missed it.")
        services.sharing.share(dana, talked.id)
    return demo


def find_titled(demo: Demo, feed: str, words: str) -> int:
    """Return the entry of a feed whose title has these words."""
    query = StreamQuery(StreamRef.parse(f"feed/{demo.feeds[feed]}"), limit=50)
    return next(row.id for row in demo.services.reading.load_page(demo.ann, query).rows if words in row.title)


#: The feeds of what ann shares, and words of the titles.
_SHARED = (
    ("restofworld.org-e04770", "catapulted Kenya"),
    ("spoon-tamago.com-d94f47", "New Architecture"),
    ("markgreville.ie-d8f87a", "Designing for humans"),
)
_ADVICE = (
    "The best piece on phones I have read this year. The part on repairs in the market is worth it alone: a "
    "phone lives there for nine years."
)
_LONG = (
    "There is more to it than the title says: the agent books trains well, but forgets that people eat, "
    "sleep and change their minds. Read on to the end, where the author drops the plan, takes a bus to the "
    "coast and has the best day of the trip. I'd still let it choose restaurants, if somebody checks that "
    "they're open."
)
