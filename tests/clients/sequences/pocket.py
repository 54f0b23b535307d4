"""NetNewsWire, Reeder, FeedMe, Unread, Capy Reader, Read You, Readrops: apps of phones and macOS."""

from __future__ import annotations

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
    log_in,
    long,
    numbers,
    pages,
    read_of,
    short,
)

_BASE = "/api/greader.php"
_API = f"{_BASE}/reader/api/0"


def netnewswire(app: App) -> Shown:
    """Each line of the log-in has two parts; all since then is read, but for what the list of unread names."""  # noqa: E501
    app.agent = "NetNewsWire (RSS Reader; https://netnewswire.com/)"
    answer = app.post(
        f"{_BASE}/accounts/ClientLogin", f"Email={escaped(app.email)}&Passwd={escaped(app.password)}"
    )
    parts = [line.split("=") for line in answer.text.split("\n") if line]
    assert all(len(each) == 2 for each in parts)
    app.auth = dict(parts)["Auth"]
    tags = app.get(f"{_API}/tag/list?output=json")
    names = {tag["id"].removeprefix(LABEL) for tag in tags.json(TAGS)["tags"] if LABEL in tag["id"]}
    feeds = app.get(f"{_API}/subscription/list?output=json")
    listed = feeds.json(SUBSCRIPTIONS)["subscriptions"]
    for path, first in (("tag/list", tags), ("subscription/list", feeds)):
        again = app.get(f"{_API}/{path}?output=json", If_None_Match=first.headers["ETag"])
        assert again.status == 304
    assert feeds.headers["Date"], "the next ot comes from it"

    def ids(query: str) -> set[int]:
        return numbers(
            pages(lambda c: app.get(f"{_API}/stream/items/ids?{query}&n=1000&output=json&c={c}").json(REFS))
        )

    whole = ids(f"s={READING}&ot=1700000000")
    unread = ids(f"s={READING}&xt={READ}")
    starred = ids(f"s={STARRED}")
    assert unread <= whole
    token = app.post(f"{_API}/token").text.rstrip("\n")
    wanted = sorted(whole | starred)
    for start in range(0, len(wanted), 150):
        body = f"T={token}&output=json&" + "&".join(f"i={long(each)}" for each in wanted[start : start + 150])
        stream = app.post(f"{_API}/stream/items/contents", body).json(STREAM)
        got = {int(item["id"].split("/")[-1], 16) for item in stream["items"]}
        assert got == set(wanted[start : start + 150])
    some = sorted(unread)[:20]
    marks = "&".join(f"i={each}" for each in some)
    app.post(f"{_API}/edit-tag", f"T={token}&{marks}&a={READ}").done()
    app.post(f"{_API}/edit-tag", f"T={token}&i={some[0]}&r={READ}").done()
    app.post(f"{_API}/edit-tag", f"T={token}&i={some[1]}&a={STARRED}").done()
    feed = listed[0]["id"]
    app.post(f"{_API}/subscription/edit", f"T={token}&s={feed}&ac=edit&t={escaped('A name & more')}").done()
    app.post(f"{_API}/subscription/edit", f"T={token}&s={feed}&ac=edit&a={LABEL}Updates").done()
    app.post(f"{_API}/rename-tag", f"T={token}&s={LABEL}Updates&dest={LABEL}Newer").done()
    app.post(f"{_API}/disable-tag", f"T={token}&s={LABEL}Newer").done()
    known = app.post(f"{_API}/subscription/quickadd", f"T={token}&quickadd={escaped(listed[1]['url'])}")
    known.json({"numResults": INT})
    opml = b'<?xml version="1.0"?><opml version="1.1"><body></body></opml>'
    assert app.send("POST", f"{_API}/subscription/import", opml, "text/xml").status in (200, 400)
    titles = {each["title"] for each in listed[1:]} | {"A name & more"}
    # What is a tag of articles would be an empty folder.
    return Shown(unread - set(some[1:]), starred | {some[1]}, titles, names)


def reeder(app: App) -> Shown:
    """``T=x``; times of arrival from ``timestampUsec``; counts."""
    app.agent = "Reeder/5.4 (macOS)"
    log_in(
        app,
        f"{_BASE}/accounts/ClientLogin",
        f"accountType=GOOGLE&Email={escaped(app.user)}&Passwd={app.password}&service=reader&source=Reeder",
    )
    feeds = app.get(f"{_API}/subscription/list?output=json&ck=1").json(SUBSCRIPTIONS)["subscriptions"]
    app.get(f"{_API}/tag/list?output=json").json(TAGS)
    app.get(f"{_API}/unread-count?output=json&all=true").json({"unreadcounts": [{"id": STR, "count": INT}]})
    app.get(f"{_API}/preference/stream/list?output=json").json({"streamprefs": {}})
    unread = numbers(
        pages(
            lambda c: app.get(
                f"{_API}/stream/items/ids?output=json&s={escaped(READING)}&n=10000&xt={escaped(READ)}&c={c}"
            ).json({**REFS, "continuation": Maybe(STR)})
        )
    )
    starred = numbers(app.get(f"{_API}/stream/items/ids?s={escaped(STARRED)}&n=10000").json(REFS)["itemRefs"])
    body = "&".join(f"i={each}" for each in sorted(unread)) + "&T=x"
    for item in app.post(f"{_API}/stream/items/contents?output=json", body).json(STREAM)["items"]:
        assert int(item["timestampUsec"]) // 1000 == int(item["crawlTimeMsec"])
    first, second = sorted(unread)[:2]
    app.post(f"{_API}/edit-tag", f"i={first}&i={second}&a={escaped(READ)}&T=x").done()
    app.post(
        f"{_API}/edit-tag", f"i={second}&r={escaped(READ)}&a={escaped(STATE + 'kept-unread')}&T=x"
    ).done()
    newest = max(unread)
    app.post(f"{_API}/mark-all-as-read", f"s={escaped(feeds[0]['id'])}&ts={newest}&T=x").done()
    gone = numbers(app.get(f"{_API}/stream/items/ids?s={feeds[0]['id']}&n=10000").json(REFS)["itemRefs"])
    return Shown(unread - {first} - gone, starred, {feed["title"] for feed in feeds})


def feedme(app: App) -> Shown:
    """No ``output`` for the user, an empty ``T``."""
    app.agent = "okhttp/4.12.0"
    log_in(app, f"{_BASE}/accounts/ClientLogin", f"Email={app.user}&Passwd={app.password}&service=reader")
    app.get(f"{_API}/user-info").json({"userId": STR, "userName": STR, "userEmail": STR})
    feeds = app.get(f"{_API}/subscription/list?output=json").json(SUBSCRIPTIONS)["subscriptions"]
    app.get(f"{_API}/tag/list?output=json").json(TAGS)
    items = pages(
        lambda c: app.get(
            f"{_API}/stream/contents?output=json&n=100&xt={READ}&ot=0&s={READING}" + (f"&c={c}" if c else "")
        ).json(STREAM),
        "items",
    )
    unread = {short(item["id"]) for item in items}
    starred = numbers(
        app.get(f"{_API}/stream/items/ids?output=json&n=1000&s={STARRED}").json(REFS)["itemRefs"]
    )
    app.post(f"{_API}/stream/items/contents", "T=&" + "&".join(f"i={i['id']}" for i in items)).json(STREAM)
    some = sorted(unread)[:2]
    app.post(f"{_API}/edit-tag", f"a={READ}&T=&" + "&".join(f"i={long(i)}" for i in some)).done()
    app.post(f"{_API}/edit-tag", f"a={STARRED}&T=&i={long(some[0])}").done()
    return Shown(unread - set(some), starred | {some[0]}, {feed["title"] for feed in feeds})


def unread_app(app: App) -> Shown:
    """Unread 5: the list of feeds, then texts by id in parts."""
    app.agent = "Unread/5.0"
    log_in(app, f"{_BASE}/accounts/ClientLogin", f"Email={escaped(app.user)}&Passwd={escaped(app.password)}")
    feeds = app.get(f"{_API}/subscription/list?output=json").json(SUBSCRIPTIONS)["subscriptions"]
    refs = app.get(f"{_API}/stream/items/ids?output=json&s={escaped(READING)}&n=10000&xt={escaped(READ)}")
    unread = numbers(refs.json(REFS)["itemRefs"])
    wanted = sorted(unread)
    for start in range(0, len(wanted), 20):
        body = "output=json&" + "&".join(f"i={escaped(long(each))}" for each in wanted[start : start + 20])
        found = app.post(f"{_API}/stream/items/contents", body).json(STREAM)["items"]
        assert {short(item["id"]) for item in found} == set(wanted[start : start + 20])
    token = app.get(f"{_API}/token").text
    app.post(f"{_API}/edit-tag", f"T={token}&a={escaped(READ)}&i={escaped(long(wanted[0]))}").done()
    return Shown(unread - {wanted[0]}, titles={feed["title"] for feed in feeds})


def capy(app: App) -> Shown:
    """Ids 10,000 at once until there is no ``continuation``; other types of tags than two fail."""
    app.agent = "CapyReader/1.0"
    log_in(app, f"{_BASE}/accounts/ClientLogin?Email={app.user}&Passwd={app.password}", b"", None)
    token = app.get(f"{_API}/token").text
    feeds = app.get(f"{_API}/subscription/list?output=json").json({"subscriptions": [FEED]})["subscriptions"]
    tags = app.get(f"{_API}/tag/list?output=json").json(TAGS)["tags"]

    def ids(stream: str, more: str = "") -> set[int]:
        return numbers(
            pages(
                lambda c: app.get(
                    f"{_API}/stream/items/ids?s={escaped(stream)}&output=json&n=10000{more}"
                    + (f"&c={c}" if c else "")
                ).json(REFS)
            )
        )

    unread, starred = ids(READING, f"&xt={escaped(READ)}"), ids(STARRED)
    for tag in tags:
        if tag["id"].startswith(LABEL):
            assert ids(tag["id"])
    wanted = sorted(unread | starred)
    for start in range(0, len(wanted), 250):
        body = f"T={token}&" + "&".join(f"i={each}" for each in wanted[start : start + 250])
        for item in app.post(f"{_API}/stream/items/contents?output=json", body).json(STREAM)["items"]:
            assert item["canonical"]
            assert read_of(item) == (short(item["id"]) not in unread)
    bad = app.post(f"{_API}/edit-tag", f"i={wanted[0]}&a={READ}&T=old")
    assert (bad.status, bad.headers["X-Reader-Google-Bad-Token"]) == (401, "true")
    some = sorted(unread)[:3]
    app.post(f"{_API}/edit-tag", f"T={token}&a={READ}&" + "&".join(f"i={each}" for each in some)).done()
    app.post(f"{_API}/edit-tag", f"T={token}&a={escaped(STARRED)}&i={some[0]}").done()
    again = app.post(f"{_API}/subscription/quickadd", f"T={token}&quickadd={escaped(feeds[0]['url'])}").json()
    assert (again["numResults"], again["error"].startswith("Already subscribed! ")) == (0, True)
    folders = {tag["id"].removeprefix(LABEL) for tag in tags if tag.get("type") == "folder"}
    return Shown(unread - set(some), starred | {some[0]}, {feed["title"] for feed in feeds}, folders)


def read_you(app: App) -> Shown:
    """Log-in as JSON; read items by ``ot``; quickadd in the address and in the body."""
    app.agent = "ReadYou/0.11"
    login = app.post(
        f"{_BASE}/accounts/ClientLogin",
        f"output=json&Email={escaped(app.user)}&Passwd={app.password}&client=ReadYou&accountType=HOSTED_OR_GOOGLE"
        "&service=reader",
    )
    app.auth = login.json({"SID": STR, "LSID": STR, "Auth": STR})["Auth"]
    token = app.get(f"{_API}/token").text
    app.get(f"{_API}/user-info").json(
        {"userId": STR, "userName": STR, "userProfileId": STR, "userEmail": STR}
    )
    feeds = app.get(f"{_API}/subscription/list?output=json").json(SUBSCRIPTIONS)["subscriptions"]

    def ids(query: str) -> set[int]:
        return numbers(
            pages(
                lambda c: app.get(
                    f"{_API}/stream/items/ids?{query}&n=10000&output=json" + (f"&c={c}" if c else "")
                ).json(REFS)
            )
        )

    unread, starred = ids(f"s={READING}&xt={READ}"), ids(f"s={STARRED}")
    done = ids(f"s={READ}&ot=1700000000")
    assert done == ids(f"s={READING}&it={READ}&ot=1700000000")
    assert not done & unread
    for start in range(0, len(unread), 100):
        some = sorted(unread)[start : start + 100]
        body = f"T={token}&output=json&" + "&".join(f"i={each:016x}" for each in some)
        assert len(app.post(f"{_API}/stream/items/contents", body).json(STREAM)["items"]) == len(some)
    address = escaped(feeds[0]["url"])
    app.post(f"{_API}/subscription/quickadd?quickadd={address}", f"T={token}&quickadd={address}").json(
        {"numResults": INT, "query": STR}
    )
    some = sorted(unread)[:2]
    app.post(f"{_API}/edit-tag", f"T={token}&a={READ}&" + "&".join(f"i={each}" for each in some)).done()
    app.post(f"{_API}/edit-tag", f"T={token}&i={some[1]}&a={STARRED}").done()
    app.post(f"{_API}/mark-all-as-read", f"T={token}&s={feeds[1]['id']}&ts={max(unread) + 1}").done()
    gone = ids(f"s={feeds[1]['id']}")
    return Shown(unread - set(some) - gone, starred | {some[1]}, {feed["title"] for feed in feeds})


_PARTS = '--{b}\r\nContent-Disposition: form-data; name="{n}"\r\n\r\n{v}\r\n'


def readrops(app: App) -> Shown:
    """Log-in as multipart; no ``output``; each of ``itemRefs`` has one key; ids padded to 16 digits."""
    app.agent = "okhttp/4.11.0"
    edge = "f3a1b9c2-0d4e"
    body = "".join(
        _PARTS.format(b=edge, n=n, v=v) for n, v in (("Email", app.user), ("Passwd", app.password))
    )
    answer = app.post(
        f"{_BASE}/accounts/ClientLogin", f"{body}--{edge}--\r\n", f"multipart/form-data; boundary={edge}"
    )
    # Java's properties: the first "=" ends the name.
    app.auth = dict(line.split("=", 1) for line in answer.text.splitlines())["Auth"]
    token = app.get(f"{_API}/token").text
    app.get(f"{_API}/user-info").json({"userName": STR})
    tags = app.get(f"{_API}/tag/list?output=json").json(TAGS)["tags"]
    feeds = app.get(f"{_API}/subscription/list?output=json").json(SUBSCRIPTIONS)["subscriptions"]

    def ids(query: str) -> set[int]:
        refs = app.get(f"{_API}/stream/items/ids?{query}").json(REFS)["itemRefs"]
        assert all(list(ref) == ["id"] for ref in refs), "it reads one key and then the object's end"
        # The id of an item is its number, padded with zeros to as many digits as the decimal one has.
        assert all(len(f"{int(ref['id']):x}".rjust(len(ref["id"]), "0")) == 16 for ref in refs)
        return numbers(refs)

    items = app.get(f"{_API}/stream/contents/user/-/state/com.google/reading-list?n=5000&ot=1700000000").json(
        {"items": [ITEM]}
    )["items"]
    unread = ids(f"xt={READ}&s={READING}&n=10000")
    read = ids(f"xt={STATE}unread&s={READING}&n=2000")
    starred = ids(f"s={STARRED}&n=10000")
    assert {short(item["id"]) for item in items} == unread | read
    assert {short(item["id"]) for item in items if READ in item["categories"]} == read
    some = sorted(unread)[:2]
    app.post(f"{_API}/edit-tag", f"T={token}&a={READ}&" + "&".join(f"i={long(each)}" for each in some)).done()
    app.post(f"{_API}/edit-tag", f"T={token}&r={READ}&i={long(some[1])}").done()
    app.post(f"{_API}/edit-tag", f"T={token}&a={STARRED}&i={long(some[0])}").done()
    app.post(f"{_API}/edit-tag", f"T={token}&a={LABEL}Readrops").done()
    app.post(f"{_API}/rename-tag", f"T={token}&s={LABEL}Readrops&dest={LABEL}Renamed").done()
    app.post(
        f"{_API}/subscription/edit", f"T={token}&ac=edit&s={feeds[0]['id']}&t=Mine&a={LABEL}Renamed"
    ).done()
    folders = {tag["id"].removeprefix(LABEL) for tag in tags if tag.get("type") == "folder"} | {"Renamed"}
    titles = {feed["title"] for feed in feeds[1:]} | {"Mine"}
    return Shown(unread - {some[0]}, starred | {some[0]}, titles, folders)
