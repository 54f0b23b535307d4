"""Servers of other readers, behind real sockets: they answer in the forms that their own code writes."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from typing import Any

from werkzeug.wrappers import Request, Response

from tests.imports.archives import HOST

TOKEN, NAME, PASSWORD = "0123456789abcdef", "ann", "app password"
#: Number of the user on NewsBlur.
NUMBER = 17
READ, STARRED = "user/-/state/com.google/read", "user/-/state/com.google/starred"


@dataclasses.dataclass
class Item:
    """An entry of a feed, with what its reader did with it."""

    feed: str
    number: int
    read: bool = False
    starred: bool = False
    tags: tuple[str, ...] = ()
    note: str = ""
    highlights: tuple[str, ...] = ()
    shared: str | None = None

    @property
    def link(self) -> str:
        return f"{HOST}/{self.feed}/{self.number}"

    @property
    def title(self) -> str:
        return f"{self.feed} {self.number}"


def answer(body: Any, status: int = 200, **headers: str) -> Response:
    return Response(json.dumps(body), status, headers, content_type="application/json")


def read_item_id(text: str) -> int:
    """Return the number of an item of Google Reader's interface, from its long form or its short one."""
    long = text.startswith("tag:google.com,2005:reader/item/")
    return int(text.rpartition("/")[2], 16) if long else int(text)


@dataclasses.dataclass
class OtherReader:
    """What an account has; :attr:`refuse` may answer a request in its place.

    Attributes:
        feeds: name of a feed → its folder, empty for none.
        items: the newest last; their places are their ids.
    """

    feeds: dict[str, str]
    items: list[Item]
    refuse: Callable[[Request], Response | None] = lambda request: None
    text: str = "<p>Text</p>"

    def __call__(self, request: Request) -> Response:
        return self.refuse(request) or self.serve(request)

    def serve(self, request: Request) -> Response:
        raise NotImplementedError

    def number_of(self, feed: str) -> int:
        return 40 + list(self.feeds).index(feed) if feed in self.feeds else 99


class Miniflux(OtherReader):
    """``/v1`` of Miniflux (internal/api/entry_handlers.go, internal/model)."""

    def serve(self, request: Request) -> Response:
        if request.headers.get("X-Auth-Token") != TOKEN:
            return answer({"error_message": "Access Unauthorized"}, 401)
        if request.path == "/v1/feeds":
            return answer([self._feed(name) for name in self.feeds])
        if request.path != "/v1/entries":
            return answer({"error_message": "Resource Not Found"}, 404)
        given = request.args
        assert (given["order"], given["direction"]) == ("id", "desc")
        found = list(enumerate(self.items, 1))[::-1]
        found = [(n, i) for n, i in found if n < int(given.get("before_entry_id", 1 << 40))]
        found = [(n, i) for n, i in found if i.starred or given.get("starred") != "true"]
        page = [self._entry(number, item) for number, item in found[: int(given["limit"])]]
        return answer({"total": len(found), "entries": page})

    def _feed(self, name: str) -> dict[str, Any]:
        return {
            "id": self.number_of(name),
            "user_id": 1,
            "feed_url": f"{HOST}/{name}",
            "site_url": HOST,
            "title": f"Feed {name}",
            "parsing_error_count": 0,
            "category": {"id": 2, "title": self.feeds.get(name) or "All", "user_id": 1},
        }

    def _entry(self, number: int, item: Item) -> dict[str, Any]:
        return {
            "id": number,
            "user_id": 1,
            "feed_id": self.number_of(item.feed),
            "status": "read" if item.read else "unread",
            "hash": f"{number:064x}",
            "title": item.title,
            "url": item.link,
            "published_at": "2027-05-10T10:00:00Z",
            "content": self.text,
            "starred": item.starred,
            "feed": self._feed(item.feed),
        }


class FreshRSS(OtherReader):
    """``p/api/greader.php`` of FreshRSS; with ``base`` empty as other servers have it."""

    base = "/api/greader.php"

    def serve(self, request: Request) -> Response:
        if not request.path.startswith(self.base):
            return Response("Not Found", 404)
        path = request.path.removeprefix(self.base)
        if path == "/accounts/ClientLogin":
            if (request.form.get("Email"), request.form.get("Passwd")) != (NAME, PASSWORD):
                return Response("Unauthorized!", 401)
            return Response(
                f"SID={NAME}/8e6845e0\nLSID=null\nAuth={NAME}/8e6845e0\n", content_type="text/plain"
            )
        if request.headers.get("Authorization") != f"GoogleLogin auth={NAME}/8e6845e0":
            return Response("Unauthorized!", 401)
        name = path.removeprefix("/reader/api/0/").replace("/", "_").replace("-", "_")
        found: Response = getattr(self, f"_{name}")(request)
        return found

    def _token(self, request: Request) -> Response:
        return Response("8e6845e089457af25303abc6f53356eb60bdb5f8ZZZZZZZZZZZZZZZZZ\n")

    def _subscription_list(self, request: Request) -> Response:
        rows = [
            {
                "id": f"feed/{self.number_of(name)}",
                "title": f"Feed {name}",
                "categories": [{"id": f"user/-/label/{folder}", "label": folder}] if folder else [],
                "url": f"{HOST}/{name}",
                "htmlUrl": HOST,
            }
            for name, folder in self.feeds.items()
        ]
        return answer({"subscriptions": rows})

    def _tag_list(self, request: Request) -> Response:
        folders = [{"id": f"user/-/label/{f}", "type": "folder"} for f in filter(None, self.feeds.values())]
        tags = dict.fromkeys(tag for item in self.items for tag in item.tags)
        rows = [{"id": f"user/-/label/{tag}", "type": "tag", "unread_count": 0} for tag in tags]
        return answer({"tags": [{"id": STARRED}, *folders, *rows]})

    def _stream_items_ids(self, request: Request) -> Response:
        stream, count = request.args["s"], int(request.args["n"])
        found = [(n, i) for n, i in enumerate(self.items, 1) if self._is_in(i, stream)][::-1]
        before = int(request.args.get("c", 1 << 40))
        found = [(n, i) for n, i in found if n < before]
        refs = [{"id": str(number)} for number, _ in found[:count]]
        more = {"continuation": refs[-1]["id"]} if len(refs) >= count else {}
        return answer({"itemRefs": refs, **more})

    def _is_in(self, item: Item, stream: str) -> bool:
        name = stream.rpartition("/")[2]
        kept = {"starred": item.starred, "reading-list": item.feed in self.feeds}
        return name in item.tags if "/label/" in stream else kept[name]

    def _stream_items_contents(self, request: Request) -> Response:
        assert request.method == "POST"
        rows = [self._item(read_item_id(i)) for i in request.form.getlist("i")]
        return answer({"id": "user/-/state/com.google/reading-list", "updated": 1, "items": rows})

    def _item(self, number: int) -> dict[str, Any]:
        item = self.items[number - 1]
        folder = self.feeds.get(item.feed, "")
        states = [*([READ] if item.read else []), *([STARRED] if item.starred else [])]
        labels = [f"user/-/label/{name}" for name in (folder, *item.tags) if name]
        return {
            "id": f"tag:google.com,2005:reader/item/{number:016x}",
            "timestampUsec": "1600000000000000",
            "published": 1_600_000_000,
            "title": item.title,
            "summary": {"content": self.text},
            "alternate": [{"href": item.link}],
            "categories": ["user/-/state/com.google/reading-list", *labels, *states],
            "origin": {"streamId": f"feed/{self.number_of(item.feed)}", "title": f"Feed {item.feed}"},
        }


class NewsBlur(OtherReader):
    """``/api/login``, ``/reader`` and ``/social`` of NewsBlur (``views.py`` of its apps)."""

    #: Most shared stories that it sends at once, whatever was asked for.
    most_shared = 6

    def serve(self, request: Request) -> Response:
        if request.path == "/api/login":
            if (request.form.get("username"), request.form.get("password")) != (NAME, PASSWORD):
                return answer(
                    {"code": -1, "authenticated": False, "errors": {"__all__": ["No."]}, "result": "ok"}
                )
            cookie = "newsblur_sessionid=k2p0; Domain=newsblur.com; HttpOnly; Path=/, nb_other=1; Path=/"
            return answer({"code": 1, "authenticated": True, "errors": None}, **{"Set-Cookie": cookie})
        if request.cookies.get("newsblur_sessionid") != "k2p0":
            return answer({"message": "You must be logged in"}, 403)
        if request.path == "/reader/feeds":
            folders: list[Any] = [self.number_of(name) for name, folder in self.feeds.items() if not folder]
            for folder in filter(None, self.feeds.values()):
                inside = [self.number_of(n) for n, f in self.feeds.items() if f == folder]
                folders.append({folder: inside})
            profile = {"id": f"social:{NUMBER}", "user_id": NUMBER, "username": NAME, "private": False}
            return answer(
                {
                    "feeds": {str(self.number_of(n)): self._feed(n) for n in self.feeds},
                    "folders": folders,
                    "social_profile": profile,
                    "user": NAME,
                }
            )
        if request.path == f"/social/stories/{NUMBER}/":
            return self.list_shared(int(request.args["offset"]), int(request.args["limit"]))
        saved = {f"{self.number_of(i.feed)}:{n:06x}": i for n, i in enumerate(self.items) if i.starred}
        if request.path == "/reader/starred_story_hashes":
            return answer({"starred_story_hashes": list(saved)[::-1]})
        assert request.path == "/reader/starred_stories"
        stories = [self._story(one, saved[one]) for one in request.args.getlist("h")]
        gone = {i.feed for i in saved.values()} - set(self.feeds)
        return answer({"stories": stories, "feeds": {str(self.number_of(n)): self._feed(n) for n in gone}})

    def list_shared(self, offset: int, limit: int) -> Response:
        shared = [(n, i) for n, i in enumerate(self.items) if i.shared is not None][::-1]
        page = shared[offset : offset + min(limit, self.most_shared)]
        if not page:
            return answer({"stories": [], "message": None})
        stories = [self._shared_story(number, item) for number, item in page]
        gone = {item.feed for _, item in page} - set(self.feeds)
        feeds = [self._feed(name) for name in gone]
        return answer({"stories": stories, "user_profiles": [], "feeds": feeds, "classifiers": {}})

    def _shared_story(self, number: int, item: Item) -> dict[str, Any]:
        return {
            "story_hash": f"{self.number_of(item.feed)}:{number:06x}",
            "story_feed_id": self.number_of(item.feed),
            "id": f"guid-{item.feed}-{item.number}",
            "guid_hash": f"{number:06x}",
            "story_permalink": item.link,
            "story_title": item.title,
            "story_timestamp": "1600000000",
            "story_content": self.text,
            "user_id": NUMBER,
            "shared_date": "2024-05-06 07:08:09.123000",
            "comments": item.shared,
            "has_comments": bool(item.shared),
            "source_user_id": None,
            "social_user_id": NUMBER,
            "shared": True,
            "shared_comments": item.shared,
            "read_status": 1,
            "public_comments": [{"user_id": 99, "comments": "of someone else", "replies": []}],
        }

    def _feed(self, name: str) -> dict[str, Any]:
        return {"id": self.number_of(name), "feed_title": f"Feed {name}", "feed_address": f"{HOST}/{name}"}

    def _story(self, own: str, item: Item) -> dict[str, Any]:
        return {
            "story_hash": own,
            "story_feed_id": self.number_of(item.feed),
            "id": f"guid-{item.feed}-{item.number}",
            "story_permalink": item.link,
            "story_title": item.title,
            "story_timestamp": "1600000000",
            "story_content": self.text,
            "starred_timestamp": 1_700_000_000,
            "user_tags": list(item.tags),
            "user_notes": item.note or None,
            "highlights": list(item.highlights),
        }
