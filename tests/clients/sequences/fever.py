"""Apps that speak Fever: Reeder, FeedMe, ReadKit, Unread, Fluent Reader, NewsFlash."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.clients.sequences.wire import FORM, INT, STR, TITLE, App, Maybe, Shown

Ask = Callable[[str], Any]
UNFILED = (1 << 31) - 1
_HEAD = {"api_version": INT, "auth": 1}
#: Read You, Readrops and others read the ids of feeds and groups as 32-bit integers, those of items as text.
INT32 = lambda v: type(v) is int and 0 < v < 1 << 31  # noqa: E731 — a shape
DIGITS = lambda v: isinstance(v, str) and v.isdecimal()  # noqa: E731
_ITEM = {"id": DIGITS, "feed_id": INT32, "title": TITLE, "author": STR, "html": STR, "url": STR,
         "is_saved": lambda v: v in (0, 1), "is_read": lambda v: v in (0, 1), "created_on_time": INT}  # fmt: skip  # noqa: E501
_FEED = {"id": INT32, "favicon_id": INT32, "title": STR, "url": STR, "site_url": STR, "is_spark": INT,
         "last_updated_on_time": INT}  # fmt: skip
_MEMBERS = {"feeds_groups": [{"group_id": INT32, "feed_ids": STR}]}
_ITEMS = {**_HEAD, "items": [_ITEM], "total_items": INT, "last_refreshed_on_time": INT}


def _ids(text: str) -> set[int]:
    assert isinstance(text, str), "Fluent Reader throws otherwise"
    return {int(each) for each in text.split(",")} if text else set()


def _page(answer: Any) -> list[Any]:
    return [{**item, "id": int(item["id"])} for item in answer.json(_ITEMS)["items"]]


def _upward(ask: Ask) -> dict[int, Any]:
    found: dict[int, Any] = {}
    since = 0
    while page := _page(ask(f"items&since_id={since}")):
        assert len(page) <= 50
        assert [item["id"] for item in page] == sorted(item["id"] for item in page)
        found |= {item["id"]: item for item in page}
        since = page[-1]["id"]
    return found


def _whole(ask: Ask) -> tuple[Shown, dict[int, Any]]:
    """Take feeds, items and states, and look whether they fit each other."""
    groups = ask("groups").json({**_HEAD, "groups": [{"id": INT32, "title": TITLE}], **_MEMBERS})
    feeds = ask("feeds").json({**_HEAD, "feeds": [_FEED], **_MEMBERS})["feeds"]
    ask("favicons").json({"favicons": [{"id": INT, "data": lambda v: v.startswith("image/")}]})
    items = _upward(ask)
    unread = _ids(ask("unread_item_ids").json(_HEAD)["unread_item_ids"])
    saved = _ids(ask("saved_item_ids").json(_HEAD)["saved_item_ids"])
    assert unread <= items.keys()
    assert {i for i, item in items.items() if not item["is_read"]} == unread
    assert {i for i, item in items.items() if item["is_saved"]} == saved & items.keys()
    assert {item["feed_id"] for item in items.values()} <= {feed["id"] for feed in feeds}
    # Apps show feeds below their groups only, and groups that have a name.
    members = {each["group_id"]: _ids(each["feed_ids"]) for each in groups["feeds_groups"]}
    assert set().union(*members.values()) == {feed["id"] for feed in feeds}
    assert members.keys() <= {group["id"] for group in groups["groups"]}
    folders = {group["title"] for group in groups["groups"] if group["id"] != UNFILED}
    return (
        Shown(unread, saved, {f["title"] for f in feeds}, folders),
        items,
    )


def _mark(ask: Ask, shown: Shown, items: dict[int, Any]) -> Shown:
    assert shown.unread is not None
    assert shown.starred is not None
    first, second, *_ = sorted(shown.unread)
    left = ask(f"mark=item&as=read&id={first}").json({**_HEAD, "unread_item_ids": Maybe(STR)})
    assert first not in _ids(left["unread_item_ids"])
    for _ in range(2):  # it is sent again where no answer came
        ask(f"mark=item&as=saved&id={second}").json(_HEAD)
    ask(f"mark=item&as=read&id={second}").json(_HEAD)
    ask(f"mark=item&as=unread&id={second}").json(_HEAD)
    newest = max(shown.unread)
    feed = items[newest]["feed_id"]
    ask(f"mark=feed&as=read&id={feed}&before={newest // 1_000_000 + 1}").json(_HEAD)
    gone = {i for i in shown.unread if items[i]["feed_id"] == feed}
    return Shown(shown.unread - {first} - gone, shown.starred | {second}, shown.titles, shown.folders)


def reeder(app: App) -> Shown:
    """``POST …/?api``, all questions in the address, the key in the body."""
    app.agent = "Reeder/4.2 (macOS)"

    def ask(words: str) -> Any:
        return app.post(f"/fever/?api&{words}", f"api_key={app.fever_key}")

    return _mark(ask, *_whole(ask))


def feedme(app: App) -> Shown:
    """Everything in the address of a POST, without a media type and without a body."""
    app.agent = "okhttp/4.12.0"

    def ask(words: str) -> Any:
        return app.send("POST", f"/fever/?api&api_key={app.fever_key}&{words}", b"", None)

    return _mark(ask, *_whole(ask))


def feedme_body(app: App) -> Shown:
    """The same in a body without a media type."""
    app.agent = "okhttp/4.12.0"

    def ask(words: str) -> Any:
        return app.send("POST", "/api/fever.php?api", f"api_key={app.fever_key}&{words}", None)

    return _mark(ask, *_whole(ask))


def readkit(app: App) -> Shown:
    """The key in upper case."""
    app.agent = "ReadKit/3.1"

    def ask(words: str) -> Any:
        return app.post(f"/fever?api&{words}", f"api_key={app.fever_key.upper()}")

    return _mark(ask, *_whole(ask))


def unread_app(app: App) -> Shown:
    """Everything by GET."""
    app.agent = "Unread/4.0"

    def ask(words: str) -> Any:
        return app.get(f"/fever/?api&api_key={app.fever_key}&{words}")

    return _mark(ask, *_whole(ask))


def raven(app: App) -> Shown:
    """The body as multipart."""
    app.agent = "RavenReader"

    def ask(words: str) -> Any:
        fields = [("api_key", app.fever_key), *(part.partition("=")[::2] for part in words.split("&"))]
        body = "".join(
            f'--e\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'
            for name, value in fields
        )
        return app.post("/fever/?api", f"{body}--e--\r\n", "multipart/form-data; boundary=e")

    return _mark(ask, *_whole(ask))


def fluent_reader(app: App) -> Shown:
    """From 2^53 - 1 downwards; a page of fewer than 50 is the last one."""
    app.agent = "Mozilla/5.0 FluentReader/1.1.4"

    def ask(words: str) -> Any:
        return app.post(f"/fever/?api&{words}", f"api_key={app.fever_key}", FORM)

    shown, items = _whole(ask)
    found: dict[int, Any] = {}
    below = (1 << 53) - 1
    while True:
        page = _page(ask(f"items&max_id={below}"))
        found |= {item["id"]: item for item in page}
        if len(page) < 50:
            break
        below = min(item["id"] for item in page)
    assert found == items
    return _mark(ask, shown, items)


def newsflash(app: App) -> Shown:
    """Typed fields; an empty ``since_id``; several questions at once; fifty ids."""
    app.agent = "NewsFlash"

    def ask(words: str) -> Any:
        return app.post(f"/api/fever.php/?api&{words}", f"api_key={app.fever_key}")

    ask("items&since_id=").json(_ITEMS)
    both = ask("feeds&groups&unread_item_ids&saved_item_ids&links").json(
        {**_HEAD, "feeds": [_FEED], **_MEMBERS}
    )
    assert both["links"] == []
    shown, items = _whole(ask)
    wanted = sorted(items)[:60]
    page = _page(ask("items&with_ids=" + ",".join(map(str, wanted))))
    assert [item["id"] for item in page] == wanted[:50] or {i["id"] for i in page} == set(wanted[:50])
    return _mark(ask, shown, items)
