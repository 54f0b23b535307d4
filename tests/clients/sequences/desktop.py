"""newsboat, Liferea, RSS Guard, Fluent Reader, Vienna, NewsFlash: programs of desktops and terminals."""

from __future__ import annotations

from typing import Any

from lxml import etree

from tests.clients.sequences.wire import (
    FEED,
    INT,
    ITEM,
    LABEL,
    READ,
    READING,
    REFS,
    STARRED,
    STATE,
    STR,
    STREAM,
    SUBSCRIPTIONS,
    TAGS,
    App,
    Maybe,
    Shown,
    escaped,
    fit,
    log_in,
    long,
    numbers,
    pages,
    read_of,
    short,
)

_ATOM = "{http://www.w3.org/2005/Atom}"
_API = "/reader/api/0"


def newsboat_feedhq(app: App) -> Shown:
    """newsboat 2.21, captured: base address with a slash at its end, so each path begins with two."""
    app.agent = "newsboat/2.21.0 (Linux x86_64; +https://newsboat.org/)"
    log_in(
        app,
        "//accounts/ClientLogin",
        f"service=reader&Email={escaped(app.email)}&Passwd={app.password}&source=newsboat0.000000"
        "&accountType=HOSTED_OR_GOOGLE&continue=http://www.google.com/",
    )
    feeds = app.get(f"/{_API}/subscription/list?output=json").json()["subscriptions"]
    titles, unread, seen, tags = set(), set[int](), list[int](), {}
    for feed in feeds:
        titles.add(fit(feed["title"], STR))
        target = f"//reader/atom/{escaped(feed['id'])}?n=20"
        answer = app.get(target, A_IM="feed")
        tags[target] = answer.headers["ETag"]
        tree = etree.fromstring(answer.text.encode())
        for entry in tree.findall(f"{_ATOM}entry"):
            number = short(entry.findtext(f"{_ATOM}id") or "")
            labels = {
                c.get("label")
                for c in entry.findall(f"{_ATOM}category")
                if c.get("scheme") == "http://www.google.com/reader/"
            }
            assert len(labels & {"read", "fresh", "kept-unread"}) == 1, "else the local state stays"
            seen.append(number)
            unread |= set() if "read" in labels else {number}
            assert entry.find(f"{_ATOM}link[@rel='alternate']") is not None
            assert entry.findtext(f"{_ATOM}updated", "").endswith("Z")
    for target, tag in tags.items():
        assert app.get(target, A_IM="feed", If_None_Match=tag).status == 304

    def change(words: str) -> None:
        token = app.get(f"/{_API}/token").text  # before each change, pasted as it came
        app.post(f"/{_API}/edit-tag", f"{words}&ac=edit&T={token}").done()

    first, second, third = sorted(unread)[:3]
    change(f"i={long(first)}&a={READ}&r={STATE}kept-unread")
    change(f"i={long(second)}&a={READ}&r={STATE}kept-unread")
    change(f"i={long(second)}&r={READ}&a={STATE}kept-unread&a={STATE}tracking-kept-unread")
    change(f"i={long(third)}&a={STARRED}")
    change(f"i={long(first)}&a={STARRED}")
    change(f"i={long(first)}&r={STARRED}")
    change(f"i={long(third)}&a={STATE}broadcast")
    token = app.get(f"/{_API}/token").text
    last = feeds[-1]["id"]
    app.post(f"/{_API}/mark-all-as-read", f"s={last}&T={token}").done()
    tree = etree.fromstring(app.get(f"//reader/atom/{escaped(last)}?n=20").text.encode())
    gone = {short(each.text or "") for each in tree.findall(f"{_ATOM}entry/{_ATOM}id")}
    return Shown(unread - {first} - gone, titles=titles, shared={third})


def newsboat_freshrss(app: App) -> Shown:
    """newsboat from 2.24 on: JSON, and the exact id of the state."""
    base = f"/api/greader.php{_API}"
    app.agent = "newsboat/2.35 (Linux x86_64; +https://newsboat.org/)"
    log_in(
        app,
        "/api/greader.php/accounts/ClientLogin",
        f"service=reader&Email={app.user}&Passwd={app.password}&source=newsboat2.35"
        "&accountType=HOSTED_OR_GOOGLE&continue=http://www.google.com/",
    )
    feeds = app.get(f"{base}/subscription/list?output=json").json(SUBSCRIPTIONS)["subscriptions"]
    unread: set[int] = set()
    for feed in feeds:
        stream = app.get(f"{base}/stream/contents/{escaped(feed['id'])}?n=20").json(STREAM)
        for item in stream["items"]:
            assert next(iter(item["summary"])) in ("content", "direction")
            assert item["canonical"][0]["href"].startswith("http")
            unread |= set() if READ in item["categories"] else {short(item["id"])}
    first = min(unread)
    token = app.get(f"{base}/token").text
    app.post(f"{base}/edit-tag", f"i={long(first)}&a={READ}&r={STATE}kept-unread&ac=edit&T={token}").done()
    return Shown(unread - {first}, titles={feed["title"] for feed in feeds})


def _liferea(app: App, *, signed: bool) -> Shown:
    log_in(
        app,
        "/accounts/ClientLogin",
        f"service=reader&Email={app.email}&Passwd={app.password}&source=liferea&continue=http://www.google.com",
    )
    feeds = app.get(f"{_API}/subscription/list?output=json").json(SUBSCRIPTIONS)["subscriptions"]
    assert all(feed["url"] for feed in feeds), "else the feed is ignored"
    known: dict[str, set[int]] = {}
    for feed in feeds:
        refs = app.get(
            f"{_API}/stream/items/ids?s={escaped(feed['id'])}&client=liferea&n=50&output=json&merge=true"
        ).json(REFS)["itemRefs"]
        known[feed["id"]] = numbers(refs)
        if not refs:
            continue
        body = f"output=json&mediaRss=true&T={app.auth}" + "".join(f"&i={ref['id']}" for ref in refs)
        answer = app.post(f"{_API}/stream/items/contents", body, **({} if signed else {"Authorization": ""}))
        for item in answer.json(STREAM)["items"]:
            assert item["categories"], "an item with none would be shown as read"
            assert item["updated"] > 1
            assert short(item["id"]) in known[feed["id"]]
    feed, ids = next((f, k) for f, k in known.items() if len(k) > 2)
    first, second = sorted(ids)[-2:]
    url = escaped(f"feed/{next(each['url'] for each in feeds if each['id'] == feed)}")

    def change(item: int, words: str) -> None:
        token = app.get(f"{_API}/token").text
        app.post(
            f"{_API}/edit-tag?client=liferea",
            f"i={long(item)}&s={url}&{words}&ac=edit-tags&T={token}&async=true",
        ).done()

    change(first, f"a={READ}&r={STATE}kept-unread")
    change(second, f"a={READ}&r={STATE}kept-unread")
    change(second, f"r={READ}&a={STATE}kept-unread")
    change(second, f"a={STATE}tracking-kept-unread")
    change(second, f"a={STARRED}")
    left = app.get(f"{_API}/stream/items/ids?s={escaped(feed)}&n=50&output=json&xt={READ}").json(REFS)
    assert first not in numbers(left["itemRefs"])
    assert second in numbers(left["itemRefs"])
    token = app.get(f"{_API}/token").text
    app.post(f"{_API}/subscription/edit?client=liferea", f"s={feed}&i=null&ac=unsubscribe&T={token}").done()
    app.post(f"{_API}/subscription/edit?client=liferea", f"s={url}&i=null&ac=subscribe&T={token}").done()
    return Shown(titles={each["title"] for each in feeds})


def liferea_1_14(app: App) -> Shown:
    """The call for texts comes without the header, with the token in its body."""
    app.agent = "Liferea/1.14.4 (Linux; https://lzone.de/liferea/) AppleWebKit (KHTML, like Gecko)"
    return _liferea(app, signed=False)


def liferea_master(app: App) -> Shown:
    """As before, with the header."""
    app.agent = "Liferea/1.16 (Linux; https://lzone.de/liferea/) AppleWebKit (KHTML, like Gecko)"
    return _liferea(app, signed=True)


def _rss_guard(app: App, base: str, most: int) -> Shown:
    app.agent = "RSS Guard/4.5.1 (github.com/martinrotter/rssguard)"
    log_in(app, f"{base}accounts/ClientLogin", f"Email={app.user}&Passwd={app.password}")
    api = f"{base}reader/api/0"
    tags = app.get(f"{api}/tag/list?output=json").json(TAGS)["tags"]
    folders = {tag["id"] for tag in tags if tag.get("type") == "folder"}
    feeds = app.get(f"{api}/subscription/list?output=json").json(SUBSCRIPTIONS)["subscriptions"]
    for feed in feeds:
        for category in feed["categories"]:
            assert category["id"] in folders, "the feed would hang nowhere"

    def ids(query: str) -> set[int]:
        return numbers(
            pages(
                lambda c: app.get(
                    f"{api}/stream/items/ids?output=json&n=200000&{query}" + (f"&c={c}" if c else "")
                ).json(REFS)
            )
        )

    starred = ids(f"s={STARRED}")
    whole = ids(f"s={READING}&ot=1700000000")
    unread = ids(f"s={READING}&xt={READ}&ot=1700000000")
    wanted = [long(each) for each in sorted(whole | starred)]
    got: set[int] = set()
    for start in range(0, len(wanted), most):
        body = "&".join(f"i={each}" for each in wanted[start : start + most])
        answer = app.post(f"{api}/stream/items/contents?output=json&n=200000", body)
        stream = answer.json(STREAM)
        assert "continuation" not in stream, "it would ask for ever"
        for item in stream["items"]:
            got.add(short(item["id"]))
            assert read_of(item) == (short(item["id"]) not in unread)
    assert got == whole | starred
    some = sorted(unread)[:5]
    app.post(f"{api}/edit-tag", "&".join(f"i={long(each)}" for each in some) + f"&a={READ}").done()
    app.post(f"{api}/edit-tag", f"i={long(some[0])}&r={READ}").done()
    app.post(f"{api}/edit-tag", "&".join(f"i={long(each)}" for each in some[:2]) + f"&a={STARRED}").done()
    feed = feeds[0]["id"]
    app.post(
        f"{api}/subscription/edit?ac=edit&s={feed}&t=Named by RSS Guard&a={LABEL}News".replace(" ", "%20"),
        "T=",
    ).done()
    body = app.get(f"{api}/subscription/export").text
    assert body.startswith("<?xml")
    titles = {each["title"] for each in feeds} - {feeds[0]["title"]} | {"Named by RSS Guard"}
    return Shown(
        unread - set(some[1:]), starred | set(some[:2]), titles, {f.removeprefix(LABEL) for f in folders}
    )


def rss_guard_freshrss(app: App) -> Shown:
    """9,999 ids per call, below the address that FreshRSS has."""
    return _rss_guard(app, "/api/greader.php/", 9_999)


def rss_guard_other(app: App) -> Shown:
    """999 ids per call."""
    return _rss_guard(app, "/", 999)


def fluent_reader(app: App) -> Shown:
    """No T, no stream id; a page of fewer than 1,000 is the last one."""
    app.agent = "Mozilla/5.0 FluentReader/1.1.4"
    log_in(app, "/accounts/ClientLogin", f"Email={escaped(app.user)}&Passwd={escaped(app.password)}")
    app.get(f"{_API}/user-info").json({"userId": STR})
    feeds = app.get(f"{_API}/subscription/list?output=json").json(SUBSCRIPTIONS)["subscriptions"]

    def ids(query: str) -> set[int]:
        found, c = set[int](), ""
        while True:
            page = app.get(f"{_API}/stream/items/ids?output=json&{query}&n=1000{c}").json(REFS)
            found |= numbers(page["itemRefs"])
            if "continuation" not in page or len(page["itemRefs"]) < 1000:
                assert "continuation" not in page, "it stops here, though there is more"
                return found
            c = f"&c={page['continuation']}"

    unread, starred = ids(f"xt={READ}&s={READING}"), ids(f"s={STARRED}")
    items: list[Any] = []
    c = ""
    while True:
        stream = app.get(f"{_API}/stream/contents?output=json&n=125{c}").json(STREAM)
        items += stream["items"]
        if "continuation" not in stream:
            break
        c = f"&c={stream['continuation']}"
    for item in items:
        assert item["canonical"][0]["href"]
        assert item["summary"]["content"] is not None
        assert (READ in item["categories"]) == (short(item["id"]) not in unread)
    newest = max(int(item["crawlTimeMsec"]) for item in items) // 1000
    assert app.get(f"{_API}/stream/contents?output=json&n=125&ot={newest}").status == 200
    some = sorted(unread)[-4:]
    app.post(f"{_API}/edit-tag", "".join(f"i={each}&" for each in some) + f"a={READ}").done()
    app.post(f"{_API}/edit-tag", f"i={some[0]}&r={READ}").done()
    app.post(f"{_API}/edit-tag", f"i={some[1]}&a={STARRED}").done()
    app.post(f"{_API}/mark-all-as-read", f"s={feeds[0]['id']}").done()
    gone = ids(f"s={feeds[0]['id']}")
    return Shown(unread - set(some[1:]) - gone, starred | {some[1]}, {feed["title"] for feed in feeds})


def vienna(app: App) -> Shown:
    """Log-in in the address; counts say which feeds are asked for; stars by ``it``."""
    app.agent = "Vienna/3.9.0"
    target = f"/api/greader.php/accounts/ClientLogin?accountType=GOOGLE&service=reader&Email={app.user}"
    log_in(app, f"{target}&Passwd={app.password}", b"", None)
    api = f"/api/greader.php{_API}"
    token = app.get(f"{api}/token").text
    assert "\n" not in token
    feeds = app.get(f"{api}/subscription/list?client=vienna&output=json").json(SUBSCRIPTIONS)["subscriptions"]
    counts = app.get(f"{api}/unread-count?client=vienna&allcomments=false&output=json&ck=1").json(
        {"unreadcounts": [{"id": STR, "count": INT, "newestItemTimestampUsec": lambda v: v.isdecimal()}]}
    )["unreadcounts"]
    unread, starred = set[int](), set[int]()
    for feed in feeds:
        counted = {each["id"]: each["count"] for each in counts}.get(feed["id"], 0)
        name = escaped(feed["id"])
        stream = app.get(
            f"{api}/stream/contents/{name}?client=vienna&comments=false&likes=false&r=n&n=1000&ck=2&ot=1&T={token}"
            "&access_token=x&output=json"
        ).json({**STREAM, "updated": INT})
        left = numbers(
            app.get(f"{api}/stream/items/ids?ck=3&client=vienna&s={name}&xt={READ}&n=1000&output=json").json(
                REFS
            )["itemRefs"]
        )
        assert len(left) == counted
        assert {short(i["id"]) for i in stream["items"] if not read_of(i)} == left
        unread |= left
        starred |= numbers(
            app.get(f"{api}/stream/items/ids?s={name}&it={STARRED}&n=1000&output=json").json(REFS)["itemRefs"]
        )
    first = min(unread)
    app.post(f"{api}/edit-tag", f"i={long(first)}&a={READ}&async=true&T={token}").done()
    app.post(f"{api}/edit-tag", f"i={long(first)}&a={STARRED}&async=true&T={token}").done()
    return Shown(unread - {first}, starred | {first}, {feed["title"] for feed in feeds})


#: greader_api 0.6: one item that does not fit fails the page.
_FLASH_ITEM = {
    **ITEM,
    "author": Maybe(STR),
    "alternate": [{"href": STR, "type": Maybe(STR)}],
    "likingUsers": Maybe([{}]),
    "comments": Maybe([{}]),
    "annotations": Maybe([{}]),
}
_FLASH_STREAM = {
    "id": STR,
    "updated": INT,
    "title": Maybe(STR),
    "direction": Maybe(STR),
    "author": Maybe(STR),
    "continuation": Maybe(STR),
    "items": [_FLASH_ITEM],
}


def newsflash(app: App) -> Shown:
    """Each field typed; no object may have both ``summary`` and ``content``."""
    app.agent = "NewsFlash"
    base = "/api/greader.php"
    log_in(app, f"{base}/accounts/ClientLogin?Email={app.user}&Passwd={app.password}", b"", None)
    api = f"{base}{_API}"
    token = app.send("GET", f"{api}/token").text
    info = {"userId": STR, "userName": STR, "userProfileId": STR, "userEmail": STR, "isBloggerUser": bool,
            "signupTimeSec": INT, "isMultiLoginEnabled": bool}  # fmt: skip
    app.get(f"{api}/user-info").json(info)
    feeds = app.get(f"{api}/subscription/list?output=json").json(
        {"subscriptions": [{**FEED, "iconUrl": STR, "firstitemmsec": Maybe(STR)}]}
    )["subscriptions"]
    tags = app.get(f"{api}/tag/list?output=json").json(
        {"tags": [{"id": STR, "sortid": Maybe(STR), "type": Maybe(STR), "unread_count": Maybe(INT)}]}
    )["tags"]
    unread_shape = {"max": INT, "unreadcounts": [{"id": STR, "count": INT, "newestItemTimestampUsec": STR}]}
    app.get(f"{api}/unread-count?output=json").json(unread_shape)

    def stream(query: str) -> list[Any]:
        found = pages(
            lambda c: app.get(f"{api}/stream/contents/{query}&output=json" + (f"&c={c}" if c else "")).json(
                _FLASH_STREAM
            ),
            "items",
        )
        assert all("content" not in item for item in found)
        return found

    fresh = stream(f"{READING}?n=30&xt={READ}")
    unread = {short(item["id"]) for item in fresh}
    starred = {short(item["id"]) for item in stream(f"{STARRED}?n=100")}
    ids = app.get(f"{api}/stream/items/ids?output=json&s={READING}&xt={READ}&n=1000").json(
        {"itemRefs": Maybe([{"id": STR}]), "continuation": Maybe(STR)}
    )
    assert numbers(ids["itemRefs"]) == unread
    some = sorted(unread)[:3]
    for state in (READ, STARRED):
        app.send(
            "POST",
            f"{api}/edit-tag?a={state}",
            "&".join(f"i={each}" for each in some) + f"&T={token}",
            FORM_TYPE,
        ).done()
    app.post(f"{api}/subscription/quickadd", f"quickadd={escaped(feeds[0]['url'])}&T={token}").json(
        {
            "numResults": INT,
            "query": STR,
            "streamId": Maybe(STR),
            "streamName": Maybe(STR),
            "error": Maybe(STR),
        }
    )
    app.post(f"{api}/mark-all-as-read", f"s={feeds[1]['id']}&T={token}").done()
    gone = numbers(app.get(f"{api}/stream/items/ids?s={feeds[1]['id']}&n=1000").json(REFS)["itemRefs"])
    folders = {tag["id"].removeprefix(LABEL) for tag in tags if tag.get("type") == "folder"}
    return Shown(unread - set(some) - gone, starred | set(some), {f["title"] for f in feeds}, folders)


FORM_TYPE = "application/x-www-form-urlencoded; charset=utf-8"
