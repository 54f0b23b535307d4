"""The account in the pictures of the landing page: a few made-up sites, so that nobody's texts are shown."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from email.utils import format_datetime
from xml.sax.saxutils import escape

from app import clock
from app.bootstrap.services import Services
from app.models.accounts.actor import Role
from app.models.sharing.sharing import Audience
from tests.support.demo import NOW, Demo
from tests.support.reader import add_user, pull

#: Folder → site → titles and first sentences, the newest first. A site's entries are some hours apart.
SITES: dict[str, dict[str, tuple[tuple[str, str], ...]]] = {
    "Design": {
        "Cartographer's Desk": (
            ("Maps that lie, and why we like them", "Every map leaves things out. The good ones know which."),
            ("A city drawn by its bus drivers", "Forty drivers, one sheet of paper and no ruler."),
            ("The color of depth", "How blue came to mean water."),
        ),
        "Small Type": (
            ("An alphabet for train windows", "Letters that can be read at 140 km/h."),
            ("Italics are older than you think", "A printer, a pope and a shortage of paper."),
        ),
    },
    "Kitchen": {
        "The Small Kitchen": (
            ("Bread for people in a hurry", "Four ingredients, one bowl and a cold night."),
            ("What to do with too many lemons", "Salt them. Then wait until February."),
        ),
        "Market Day": (
            ("Nobody buys the ugly pears", "They are the sweet ones, and they are half the price."),
        ),
    },
    "Science": {
        "Tide Pool Notes": (
            (
                "The snail that waits for the moon",
                "A shell the size of a grain of rice keeps better time than we do.",
            ),
            ("Counting birds from a kitchen chair", "Thirty years, one window, and a notebook for each."),
        ),
        "Quiet Machines": (
            (
                "Why our compiler got slower, and what we did",
                "The profile pointed at a cache that never hit.",
            ),
            ("A clock made of water", "It loses a minute each day, and nobody minds."),
        ),
    },
    "Walking": {
        "Slow Streets": (
            (
                "A walk along the canal, one year on",
                "Last spring the towpath closed. This is what grew there.",
            ),
            ("Letters: on keeping things simple", "A reader writes about a bench, and we answer."),
            ("The last ferry of the evening", "Two passengers, a bicycle and a dog."),
        ),
    },
}
#: The one that is open, and the one with a friend's note.
OPEN, SHARED = "A walk along the canal, one year on", "The snail that waits for the moon"
_TEXT = """<p>Last spring the towpath closed. The wall had given way near the second lock, and for a year
nobody but the herons came through. On Sunday the gates opened again, and half the town was there.</p>
<p><img src="https://walking.example/town/canal-1.png" alt="Houses by the canal" width="960" height="540"></p>
<p>The first thing you notice is the quiet. Then the willows: they have leaned so far over the water that you
walk through them as through a curtain. Somebody has left a <a href="https://walking.example/map">hand-drawn
map</a> under a stone at the bridge.</p>
<blockquote><p>We had forgotten how slow it is. Nothing on this path wants you to hurry.</p></blockquote>
<p>Three things to look for on the way: the numbers that the bargemen cut into the bridge, the garden behind
lock four, and the bench that faces the wrong way. Sit on it. It looks at the only straight line in the
valley.</p>"""


def fill(services: Services) -> Demo:
    """Make the user ``ann``, who follows these sites and one person."""
    with clock.set_source(lambda: NOW):
        ann, mira = add_user(services, "ann", Role.USER), add_user(services, "mira")
        folders: dict[str, int] = {}
        feeds: dict[str, int] = {}
        bodies: dict[str, bytes] = {}
        for number, (folder, sites) in enumerate(SITES.items()):
            folders[folder] = services.folders.create(ann, folder).id
            for place, (site, entries) in enumerate(sites.items()):
                url = f"https://{site.lower().replace(' ', '-').replace(chr(39), '')}.example/feed"
                bodies[url] = "".join(_write(site, entries, 3 * number + place)).encode()
                done = services.subscriptions.subscribe(ann, url, folder_id=folders[folder])
                feeds[site] = done.subscription.feed_id
                services.subscriptions.subscribe(mira, url)
        pull(services, list(feeds.values()), bodies)
        entries = {
            doc["title"]: doc["_id"] for doc in services.store.database["entries"].find({}, {"title": 1})
        }
        services.following.update_profile(
            mira, display="Mira", bio="", links=(), audience=Audience.PUBLIC, listed=False, open_lists=False
        )
        services.following.follow(ann, "mira")
        services.sharing.share(mira, entries[SHARED], note="I have walked past these for years.")
        services.tags.change_tags(ann, entries["Bread for people in a hurry"], add=["To try"])
        for title in ("The color of depth", "A clock made of water", "The last ferry of the evening"):
            services.reading.mark(ann, [entries[title]], True)
    return Demo(services, ann, feeds, folders, entries[OPEN], mira.user_id, "")


#: What the drawings of a site's entries show (tests/browser/drawings.py), its newest first; "": no picture.
_SCENES = {
    "Cartographer's Desk": ("hills", "town", "sea"),
    "Small Type": ("shapes", ""),
    "The Small Kitchen": ("", "fruit"),
    "Market Day": ("fruit",),
    "Tide Pool Notes": ("night", "leaves"),
    "Quiet Machines": ("", "mountains"),
    "Slow Streets": ("town", "", "sea"),
}


def _write(site: str, entries: tuple[tuple[str, str], ...], hours: int) -> Iterator[str]:
    yield f"<rss version='2.0'><channel><title>{escape(site)}</title>"
    for number, (title, first) in enumerate(entries):
        at = NOW - dt.timedelta(hours=hours + 11 * number, minutes=17 * number + 5)
        host = site.lower().replace(" ", "-")
        scene = _SCENES[site][number]
        address = f"https://pictures.example/{scene}/{host}-{number}.png"
        picture = f'<p><img src="{address}" alt=""></p>' if scene else ""
        html = _TEXT if title == OPEN else f"<p>{first}</p>{picture}" + f"<p>{first}</p>" * 9
        yield (
            f"<item><title>{escape(title)}</title><guid>{escape(title)}</guid><link>https://{escape(host)}.example/"
            f"{number}</link><pubDate>{format_datetime(at)}</pubDate><description>{escape(html)}</description></item>"
        )
    yield "</channel></rss>"
