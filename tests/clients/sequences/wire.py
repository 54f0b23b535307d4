"""An app on the wire: requests go out as they are written, answers are read as strictly as there."""

from __future__ import annotations

import dataclasses
import hashlib
import http.client
import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any
from urllib.parse import quote

FORM = "application/x-www-form-urlencoded"
LONG = "tag:google.com,2005:reader/item/"
STATE, LABEL = "user/-/state/com.google/", "user/-/label/"
READ, STARRED, READING = f"{STATE}read", f"{STATE}starred", f"{STATE}reading-list"


class Maybe:
    """A field that may be missing; where it is there, it has to fit."""

    def __init__(self, shape: Any) -> None:
        self.shape = shape


def fit(value: Any, shape: Any, at: str = "$") -> Any:
    """Return a value that has the shape which a typed decoder wants; ``[shape]``: a list of such."""
    if isinstance(shape, Mapping):
        assert isinstance(value, dict), f"{at} is no object: {value!r}"
        for name, part in shape.items():
            if isinstance(part, Maybe):
                if name in value:
                    fit(value[name], part.shape, f"{at}.{name}")
            else:
                assert name in value, f"{at}.{name} is missing"
                fit(value[name], part, f"{at}.{name}")
    elif isinstance(shape, list):
        assert isinstance(value, list), f"{at} is no list: {value!r}"
        for n, each in enumerate(value):
            fit(each, shape[0], f"{at}[{n}]")
    elif isinstance(shape, type):
        assert type(value) is shape, f"{at} is no {shape.__name__}: {value!r}"
    elif callable(shape):
        assert shape(value), f"{at} does not fit: {value!r}"
    else:
        assert value == shape, f"{at} is not {shape!r}: {value!r}"
    return value


@dataclasses.dataclass
class Answer:
    """What came back."""

    status: int
    headers: http.client.HTTPMessage
    body: bytes

    @property
    def text(self) -> str:
        assert self.status == 200, (self.status, self.body[:300])
        return self.body.decode()

    def json(self, shape: Any = None) -> Any:
        assert self.headers.get_content_type() == "application/json"
        found = json.loads(self.text)
        return found if shape is None else fit(found, shape)

    def done(self) -> None:
        """Newsboat, Liferea and others compare the whole body."""
        assert self.text == "OK", self.body[:300]


@dataclasses.dataclass
class Shown:
    """What the app shows at its end; None: it does not show that, or not all of it."""

    unread: set[int] | None = None
    starred: set[int] | None = None
    titles: set[str] | None = None
    folders: set[str] | None = None
    shared: set[int] | None = None


class App:
    """One app with an app password.

    Attributes:
        auth: what it got at its log-in; sent with each request from then on.
    """

    def __init__(self, port: int, user: str, password: str) -> None:
        self.user, self.password, self.auth = user, password, ""
        self.agent = "app"
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)

    @property
    def email(self) -> str:
        return f"{self.user}@example.org"

    @property
    def fever_key(self) -> str:
        return hashlib.md5(f"{self.user}:{self.password}".encode()).hexdigest()

    def send(
        self, method: str, target: str, body: str | bytes | None = None, kind: str | None = None, **more: str
    ) -> Answer:
        """Send a request; ``kind``: of the body, None: it goes without. ``more``: headers, with ``_``."""
        sent = body.encode() if isinstance(body, str) else body
        connection = self._connection
        connection.putrequest(method, target, skip_accept_encoding=True)
        headers = {"User_Agent": self.agent, "Accept": "*/*", **more}
        if self.auth and "Authorization" not in headers:
            headers["Authorization"] = f"GoogleLogin auth={self.auth}"
        if kind is not None:
            headers["Content_Type"] = kind
        if sent is not None or method == "POST":
            headers["Content_Length"] = str(len(sent or b""))
        for name, value in headers.items():
            if value:
                connection.putheader(name.replace("_", "-"), value)
        connection.endheaders(sent)
        answer = connection.getresponse()
        return Answer(answer.status, answer.headers, answer.read())

    def get(self, target: str, **headers: str) -> Answer:
        return self.send("GET", target, **headers)

    def post(self, target: str, body: str = "", kind: str | None = FORM, **headers: str) -> Answer:
        return self.send("POST", target, body, kind, **headers)

    def close(self) -> None:
        self._connection.close()


def log_in(app: App, target: str, body: str | bytes, kind: str | None = FORM) -> None:
    """Log in and keep the token, as most apps read it: the line that begins with ``Auth=``."""
    lines = app.send("POST", target, body, kind).text.splitlines()
    app.auth = next(line for line in lines if line.startswith("Auth=")).removeprefix("Auth=")
    # RSS Guard takes these words for "there is none".
    assert app.auth not in ("", "NA", "unused", "none", "null")


def pages(ask: Callable[[str], Any], name: str = "itemRefs") -> list[Any]:
    """Follow ``continuation`` to its end, as RSS Guard and Capy do."""
    found, c = [], ""
    while True:
        page = ask(c)
        found += page[name]
        assert page.get("continuation") != "", "RSS Guard and Reeder want none or some"
        if "continuation" not in page:
            return found
        assert isinstance(page["continuation"], str)
        c = page["continuation"]


def numbers(refs: Iterable[Mapping[str, Any]]) -> set[int]:
    """Return the ids of ``itemRefs``: unsigned decimal numbers in text."""
    found = [ref["id"] for ref in refs]
    assert all(isinstance(each, str) and each.isdecimal() for each in found)
    assert len(set(found)) == len(found)
    return {int(each) for each in found}


def short(item_id: str) -> int:
    """Return the number of a long id, parsed as a signed 64-bit integer, which must not be negative."""
    assert item_id.startswith(LONG)
    digits = item_id.removeprefix(LONG)
    assert len(digits) == 16
    number = int(digits, 16)
    assert 0 < number < 1 << 63
    return number


def long(number: int) -> str:
    return f"{LONG}{number:016x}"


def escaped(words: str) -> str:
    return quote(words, safe="")


def read_of(item: Mapping[str, Any]) -> bool:
    """Whether an item is read, as RSS Guard and Capy look at it."""
    return any(each.endswith("state/com.google/read") for each in item["categories"])


STR, INT = str, int
CATEGORY = {"id": STR, "label": STR}
FEED = {"id": STR, "title": bool, "url": STR, "htmlUrl": STR, "iconUrl": bool, "categories": [CATEGORY]}
#: Apps have nothing to show or to click for an empty title.
TITLE = FEED["title"] = lambda value: isinstance(value, str) and value
FEED["iconUrl"] = lambda value: value is None or (isinstance(value, str) and value)
ITEM = {
    "id": STR,
    "title": TITLE,
    "published": INT,
    "updated": INT,
    "crawlTimeMsec": STR,
    "timestampUsec": STR,
    "categories": [STR],
    "origin": {"streamId": STR, "title": STR, "htmlUrl": STR},
    "alternate": [{"href": STR, "type": STR}],
    "canonical": [{"href": STR}],
    "summary": {"content": STR, "direction": Maybe(STR)},
    "enclosure": Maybe([{"href": STR, "type": STR}]),
}
STREAM = {"id": STR, "updated": INT, "items": [ITEM]}
REFS = {"itemRefs": [{"id": STR}]}
SUBSCRIPTIONS = {"subscriptions": [FEED]}
TAG = {"id": STR, "type": Maybe(lambda value: value in ("folder", "tag"))}
TAGS = {"tags": [TAG]}
