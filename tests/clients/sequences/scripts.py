"""The Python package google-reader 0.0.3, which needs Python 3.12: its requests and how it reads answers."""

from __future__ import annotations

from urllib.parse import urlencode

from tests.clients.sequences.wire import (
    LABEL,
    READ,
    READING,
    REFS,
    STARRED,
    STREAM,
    SUBSCRIPTIONS,
    App,
    Shown,
    log_in,
    long,
    numbers,
    pages,
    read_of,
    short,
)

_API = "/api/greader.php/reader/api/0"


def google_reader(app: App) -> Shown:
    """Builds its tags from all fields of a tag, so that an unknown field would fail it."""
    app.agent = "Google Reader Python Client"
    log_in(
        app, "/api/greader.php/accounts/ClientLogin", urlencode({"Email": app.user, "Passwd": app.password})
    )
    token = app.get(f"{_API}/token").text.strip()
    user = app.get(f"{_API}/user-info?output=json").json({"userId": str, "userName": str})
    assert user["userName"]
    feeds = app.get(f"{_API}/subscription/list?output=json").json(SUBSCRIPTIONS)["subscriptions"]
    tags = app.get(f"{_API}/tag/list?output=json").json({})["tags"]
    known = {"id", "label", "type"}
    assert all(known >= tag.keys() for tag in tags)
    assert all(known >= label.keys() for feed in feeds for label in feed["categories"])

    def ids(**query: str) -> set[int]:
        asked = {"output": "json", "s": READING, "n": "3", **query}
        refs = pages(
            lambda c: app.get(
                f"{_API}/stream/items/ids?{urlencode({**asked, **({'c': c} if c else {})})}"
            ).json(REFS)
        )
        return numbers(refs)

    whole, unread, starred = ids(), ids(xt=READ), ids(it=STARRED)
    assert ids(r="o") == whole
    body = urlencode({"i": [long(i) for i in sorted(whole)], "T": token}, doseq=True)
    items = app.post(f"{_API}/stream/items/contents?output=json", body).json(STREAM)["items"]
    assert {short(item["id"]) for item in items} == whole
    assert {short(item["id"]) for item in items if not read_of(item)} == unread
    first = min(unread)
    for change in ({"a": READ}, {"r": READ}, {"a": READ}):
        sent = urlencode({"i": long(first), "T": token, **change})
        assert app.post(f"{_API}/edit-tag?output=json", sent).status == 200
    folders = {tag["id"].removeprefix(LABEL) for tag in tags if tag.get("type") == "folder"}
    return Shown(unread - {first}, starred, {feed["title"] for feed in feeds}, folders)
