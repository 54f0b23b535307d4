"""Record the database and the API responses of an older version: run its ``eventr up`` and use it.

    git worktree add ../old b678f00
    python -m tests.upgrade.make_home ../old tests/upgrade/data/b678f00.json.gz

The script uses HTTP only, so it works with any version that has the REST API. The file is gzipped MongoDB
Extended JSON: ``documents`` and ``indexes`` by collection, ``answers`` of the REST API by user and path,
``tokens`` by user, and ``taken``, the time in seconds since 1970.
"""

from __future__ import annotations

import gzip
import json
import re
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pymongo
from bson import json_util

from app import embedded
from app.config import Settings
from tests.faults.browser import Browser
from tests.support.rawserver import RawServer, Reply
from tests.support.up import Up

#: Signs values in the responses.
SECRET_KEY = "pK3v9sXq7Lw2Zr8Tn5Yb1Hd6Jf4Gm0Ca"
PASSWORD = "correct horse battery"
#: Requested from both versions for each user. All lists fit on one page.
PATHS = (
    "/me",
    "/me/settings",
    "/me/profile",
    "/counts",
    "/subscriptions",
    "/folders",
    "/tags",
    "/searches",
    "/imports",
    "/notifications",
    "/streams/all/entries?limit=100",
    "/streams/all/entries?limit=100&show=unread",
    "/streams/starred/entries?limit=100",
    "/streams/following/entries?limit=100",
    "/streams/shares/entries?limit=100",
    "/streams/all/look",
    "/people/ann/shares",
    "/people/bob/shares",
    "/people/ann",
    "/people/bob",
    "/history",
)
#: Feeds of the site: path → number of entries.
FEEDS = {"/rivers.xml": 30, "/birds.xml": 12, "/stones.xml": 5}
_SECRET = re.compile(r'id="v-secret"[^>]*>([^<]+)<')


class Api:
    """The REST API for one user."""

    def __init__(self, port: int, token: str) -> None:
        self._base, self.token = f"http://127.0.0.1:{port}/api/v1", token

    def __call__(self, method: str, path: str, body: Any = None, kind: str = "application/json") -> Any:
        data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": kind}
        request = urllib.request.Request(f"{self._base}{path}", data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return json.loads(answer.read() or b"null")
        except urllib.error.HTTPError as e:
            raise RuntimeError(f"{method} {path}: {e.code} {e.read().decode()}") from e


def feed(name: str, count: int) -> bytes:
    """Return an Atom feed with one entry per hour."""
    now = time.time()
    entries = "".join(
        f"<entry><id>urn:{name}:{n}</id><title>{name} {n}</title>"
        f'<link href="https://example.org/{name}/{n}"/>'
        f"<updated>{time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime(now - 3600 * (count - n + 1)))}</updated>"
        f'<content type="html">&lt;p&gt;The {n}th text about {name}.&lt;/p&gt;</content></entry>'
        for n in range(1, count + 1)
    )
    head = f'<feed xmlns="http://www.w3.org/2005/Atom"><id>urn:{name}</id><title>All about {name}</title>'
    return f"{head}{entries}</feed>".encode()


def sign_up(port: int, name: str) -> Api:
    """Create an account with an access token and an app password."""
    browser = Browser(port)
    browser.get("/signup")
    assert browser.post("/signup", name=name, email=f"{name}@example.org", password=PASSWORD) == 303
    browser.get("/settings/apps")
    scopes = dict.fromkeys(("read", "mark", "subscribe", "share", "settings"), "1")
    assert browser.post("/settings/apps/token", name="Recorder", proof=PASSWORD, **scopes) == 200, (
        browser.text
    )
    found = _SECRET.search(browser.text)
    assert found, browser.text
    browser.get("/settings/apps")
    assert browser.post("/settings/apps/password", name="Phone", fever="1", proof=PASSWORD) == 200
    return Api(port, found[1].strip())


def subscribe(api: Api, url: str, count: int, **more: Any) -> int:
    """Subscribe and wait for the entries."""
    made = int(api("POST", "/subscriptions", {"url": url, **more})["feed_id"])
    pause = threading.Event()
    while len(api("GET", f"/streams/feed:{made}/entries?limit=100")["items"]) < count:
        pause.wait(0.2)
    return made


def use(ann: Api, bob: Api, cem: Api, site: RawServer) -> tuple[str, ...]:
    """Use every part of Eventr; return the paths of a share that all three users may see."""
    nature = ann("POST", "/folders", {"name": "Nature"})["id"]
    water = ann("POST", "/folders", {"name": "Water", "parent": nature})["id"]
    rivers = subscribe(ann, site.url("/rivers.xml"), 30, folder_id=water, title="My rivers")
    birds = subscribe(ann, site.url("/birds.xml"), 12, folder_id=nature)
    stones = subscribe(ann, site.url("/stones.xml"), 5)
    read = entries(ann, f"feed:{rivers}")
    ann("POST", "/entries/mark", {"ids": read[3:9], "read": True})
    ann("POST", f"/streams/feed:{birds}/mark-all-read", {})
    kept = entries(ann, f"feed:{birds}")
    ann("PATCH", f"/entries/{kept[2]}", {"read": False, "starred": True, "tags": ["Wings", "Later"]})
    ann("PATCH", f"/entries/{read[0]}", {"starred": True, "tags": ["Later"]})
    ann("POST", "/searches", {"query": "rivers is:unread", "name": "River news"})
    ann("PATCH", f"/subscriptions/{stones}", {"paused": True})
    ann("PATCH", "/me/profile", {"audience": "public", "display": "Ann of the Rivers", "bio": "Wet feet."})
    bob("PATCH", "/me/profile", {"audience": "public"})
    cem("PATCH", "/me/profile", {"audience": "followers"})
    first = ann("POST", f"/entries/{read[1]}/share", {"note": "Look at this river."})["id"]
    ann("POST", "/posts", {"note": "A word of my own.", "title": "Good morning"})
    bob("PUT", "/people/ann/follow")
    cem("PUT", "/people/ann/follow")
    ann("PUT", "/people/cem/follow")
    bob("PUT", f"/shares/{first}/like")
    bob("POST", f"/entries/{shared(bob, 'ann', first)}/share", {"note": "Taken from Ann."})
    said = bob("POST", f"/shares/{first}/comments", {"text": "Where is that?"})["id"]
    ann("POST", f"/shares/{first}/comments", {"text": "Upstream.", "parent": said})
    bob("POST", "/imports", OPML, kind="text/x-opml")
    loose = subscribe(bob, site.url("/birds.xml"), 12)
    bob("DELETE", f"/subscriptions/{loose}")
    subscribe(cem, site.url("/stones.xml"), 5)
    return f"/shares/{first}", f"/shares/{first}/chain", f"/shares/{first}/comments"


OPML = (
    b'<opml version="2.0"><head><title>Mine</title></head><body><outline text="Later">'
    b'<outline type="rss" text="Nowhere" xmlUrl="http://127.0.0.1:9/nowhere.xml"/></outline></body></opml>'
)


def entries(api: Api, stream: str) -> list[int]:
    """Return the ids of a stream's entries, newest first."""
    return [int(row["id"]) for row in api("GET", f"/streams/{stream}/entries?limit=100")["items"]]


def shared(api: Api, name: str, share: int) -> int:
    """Return the entry that shows a share in the lists of the author's followers."""
    rows = api("GET", "/streams/following/entries?limit=100")["items"]
    found = [row["id"] for row in rows if any(s["share_id"] == share for s in row["shared_by"])]
    assert found, (name, rows)
    return int(found[0])


def main(checkout: str, output: str) -> None:
    """Record a home and write the file."""
    pages = {path: Reply(body=feed(path[1:-4], count)) for path, count in FEEDS.items()}
    with tempfile.TemporaryDirectory(prefix="eventr-old-") as home, RawServer(pages) as site:
        up = Up(
            Path(home),
            folder=Path(checkout),
            EVENTR_SECRET_KEY=SECRET_KEY,
            EVENTR_FETCH_ALLOW=site.origin,
            EVENTR_ARGON2_MEMORY_KIB="19456",
            EVENTR_ARGON2_TIME="1",
        )
        try:
            up.wait_ready()
            people = {name: sign_up(up.port, name) for name in ("ann", "bob", "cem")}
            paths = (*PATHS, *use(people["ann"], people["bob"], people["cem"], site))
            answers = {who: {path: api("GET", path) for path in paths} for who, api in people.items()}
            kept = {
                "taken": time.time(),
                "tokens": {who: api.token for who, api in people.items()},
                "answers": answers,
                **dump(Path(home)),
            }
            assert up.stop() == 0, up.report()
        finally:
            up.kill()
    text = json_util.dumps(kept, json_options=json_util.CANONICAL_JSON_OPTIONS, ensure_ascii=False)
    Path(output).write_bytes(gzip.compress(text.encode(), 9, mtime=0))
    print(f"{output}: {Path(output).stat().st_size} bytes")


def dump(home: Path) -> dict[str, Any]:
    """Return all documents and indexes in the database of a running home."""
    settings = embedded.Running(Settings(home=home)).settings
    with pymongo.MongoClient[dict[str, Any]](settings.mongodb_uri, tz_aware=True) as client:
        database = client[settings.mongodb_name]
        names = sorted(database.list_collection_names())
        return {
            "documents": {name: list(database[name].find()) for name in names},
            "indexes": {name: list(database[name].list_indexes()) for name in names},
        }


if __name__ == "__main__":
    main(*sys.argv[1:])
