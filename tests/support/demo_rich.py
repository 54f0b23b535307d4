"""The account of :mod:`tests.support.demo` after some years: 80 feeds in a dozen folders.

Comics, podcasts, pictures of all shapes, posts without titles or dates, texts from right to left, code and
long names: what kind data never shows. All entries are real, and moved to the days before ``NOW``.
"""

from __future__ import annotations

import datetime as dt
import email.utils
import re

from app import clock
from app.bootstrap.services import Services
from app.feeds.parse.core import parse
from app.models.accounts.actor import Role
from app.models.reading.stream import StreamKind, StreamRef
from tests.support import corpus, demo
from tests.support.demo import NOW, Demo
from tests.support.reader import pull

__all__ = ["NOW", "Demo", "fill"]

#: Folder → files of the corpus, without ``feeds/`` and suffix.
FOLDERS: dict[str, tuple[str, ...]] = {
    "Comics": ("rss/egscomics.com-70075f", "rss/donthitsave.com-559536", "rss/joshuawright.net-eec568"),
    "Podcasts": (
        "rss/fallthrough.fm-726143",
        "rss/welcometonightvale.com-eb109d",
        "rss/tokyodrift.jp-b28c8a",
    ),
    "Friends and small posts": (
        "rss/mastodon.art-29bf9a",
        "json/micro.blog-ce9dd7",
        "rss/manton.org-f1308b",
        "rss/scripting.com-c3998f",
        "rss/scripting.com-f9ad19",
        "rss/nitter.weiler.rocks-98e014",
        "rss/bugramming.dev-3e4b3f",
    ),
    "News": (
        "rss/cbsnews.com-563945",
        "rss/japantoday.com-31a089",
        "rss/en.mercopress.com-701521",
        "rss/boston.com-da75a3",
        "rss/abcnews.com-5c8768",
        "rss/al-monitor.com-8d502f",
        "rss/csmonitor.com-086db1",
        "rss/allafrica.com-c5135a",
        "rdf/20minutos.es-e1f510",
        "rdf/orf.at-af39f0",
        "rss/leparisien.fr-2a815e",
        "rss/lejdd.fr-be95f6",
        "rss/romatoday.it-049429",
        "rss/faz.net-a91be3",
        "rss/citydog.by-a21231",
        "rss/oren.ru-b45322",
        "rss/koerant.co.za-03f457",
    ),
    "Football": ("rss/bold.dk-ffc3f2", "rss/fcutrecht.net-bae765", "rss/mundodeportivo.com-79fd86"),
    "Technology": (
        "rss/macworld.com-22f4bb",
        "rss/techcrunch.com-9f7097",
        "rss/pcinpact.com-34e67b",
        "rss/pcmag.com-9d532e",
        "atom/golem.de-94f710",
        "atom/9to5linux.com-32beac",
        "atom/hnapp.com-02e608",
        "rss/news.ycombinator.com-c4c315",
        "rss/blog.kagi.com-973eb8",
        "atom/grapheneos.org-1c3b78",
    ),
    "Python, Ruby and Haskell": (
        "atom/simonwillison.net-63366d",
        "rss/djangoproject.com-1b0101",
        "rss/blog.poisson.chat-6e3705",
        "rss/lincolnloop.com-4f0834",
        "rss/thomashoneyman.com-555a79",
        "rss/deepankarm.github.io-7cb40f",
        "rss/blog.drewolson.org-a7b3b3",
        "rss/web-oscard0m.vercel.app-b45c17",
        "atom/robots.thoughtbot.com-d12be4",
        "atom/weblog.rubyonrails.org-7c27e6",
        "atom/github.com-4db791",
        "rss/tenderlovemaking.com-6e607a",
    ),
    "Science": (
        "rdf/biorxiv.org-acc3dd",
        "atom/oceanbites.org-ba6f92",
        "atom/realphysics.blogspot.com-bde681",
        "rss/medscape.com-4bc098",
        "atom/sujitpal.blogspot.com-e969af",
    ),
    "Games": (
        "rss/fz.se-9e9735",
        "atom/us.battle.net-93e644",
        "rss/myanimelist.net-9d592d",
        "rss/anime2you.de-b1c29e",
    ),
    "Long reads for quiet Sunday mornings": (
        "rss/raymondyoo.com-108604",
        "rss/yuxi.ml-b135a6",
        "rss/raywoodcockslatest.wordpress.com-7227a5",
        "atom/afarshadblog.bearblog.dev-e854b9",
        "atom/wiki.xxiivv.com-a6ae1c",
        "json/inessential.com-181a90",
        "json/pxlnv.com-b072c6",
    ),
    "Video": ("rss/rutube.ru-0b8e02", "rss/framatube.org-cadbe4", "atom/youtube.com-4aabda"),
}
#: Every so many feeds have been read to the end.
_READ = 3
_ISO = re.compile(rb"\b(?:19|20)\d\d-\d\d-\d\dT\d\d:\d\d(?=[:Z+-])")
_MAIL = re.compile(rb"\b(?:[A-Z][a-z]{2}, )?\d{1,2} [A-Z][a-z]{2} \d{4} \d\d:\d\d(?=:\d\d|\b)")


def fill(services: Services, *, role: Role = Role.ADMIN) -> Demo:
    """Make the user ``ann`` with all that, and with what the small demo has."""
    filled = demo.fill(services, role=role)
    rows = {row.path: row for row in corpus.genuine_feeds()}
    with clock.set_source(lambda: NOW):
        number = 0
        bodies: dict[str, bytes] = {}
        for name, parts in FOLDERS.items():
            folder = filled.folders[name] = services.folders.create(filled.ann, name).id
            for part in parts:
                path = f"feeds/{part}.{'json' if part.startswith('json') else 'xml'}"
                number += 1
                url = f"https://feeds.example/{path}"
                bodies[url] = move_dates(rows[path].read(), url, NOW - _calculate_age(number))
                done = services.subscriptions.subscribe(filled.ann, url, folder_id=folder)
                filled.feeds[part.rpartition("/")[2]] = done.subscription.feed_id
        added = list(filled.feeds.values())[-number:]
        pull(services, added, bodies)
        for feed_id in added[::_READ]:
            services.reading.mark_all(filled.ann, StreamRef(StreamKind.FEED, feed_id))
        services.indexing.run(NOW + dt.timedelta(days=3650), 600)
    # Not all at one moment, as no server does.
    feeds = services.store.database["feeds"]
    for number, feed_id in enumerate(filled.feeds.values()):
        checked = NOW - dt.timedelta(minutes=number * 7 % 58 + 1)
        feeds.update_one({"_id": feed_id, "checked_at": NOW}, {"$set": {"checked_at": checked}})
    return filled


def move_dates(body: bytes, url: str, newest: dt.datetime) -> bytes:
    """Return a feed whose newest entry is of another time, and all others are as much earlier or later."""
    times = [time for entry in parse(body, url=url).entries if (time := entry.published or entry.updated)]
    if not times:
        return body
    by = newest - max(times)
    return _MAIL.sub(lambda m: _move_mail(m[0], by), _ISO.sub(lambda m: _move_iso(m[0], by), body))


def _move_iso(text: bytes, by: dt.timedelta) -> bytes:
    return (dt.datetime.fromisoformat(text.decode()) + by).isoformat(timespec="minutes").encode()


def _move_mail(text: bytes, by: dt.timedelta) -> bytes:
    try:
        moved = email.utils.parsedate_to_datetime(text.decode()) + by
    except ValueError:
        return text
    return email.utils.format_datetime(moved)[: -len(":00 -0000")].encode()


def _calculate_age(number: int) -> dt.timedelta:
    """Return the age of a feed's newest entry: most are of today, some of long ago."""
    return dt.timedelta(minutes=number * 17 + 4) if number % 9 else dt.timedelta(days=number * 2)
