"""Later versions of the documents of set T: unchanged, or with one more entry."""

from __future__ import annotations

import dataclasses
import json
import re

from app.errors import ParseError
from app.feeds import identity
from app.feeds.parse import parse
from bench.harness import timing_set

_ITEM = re.compile(rb"<((?:\w+:)?(?:item|entry))[\s>].*?</\1\s*>", re.S)
_NAMED = re.compile(rb"(<(?:\w+:)?(?:guid|id|title|identifier)(?:\s[^>]*)?>\s*(?:<!\[CDATA\[)?\s*)(?=[^<\s])")
_LINK = re.compile(rb"([^\s>\]])(\s*(?:\]\]>)?\s*</link>)")
_HREF = re.compile(rb"(<(?:\w+:)?link\s[^>]*href=[\"'][^\"'#?]*)")
_ABOUT = re.compile(rb"(<(?:\w+:)?item\s[^>]*about=[\"'][^\"'#?]*)")


@dataclasses.dataclass(frozen=True, slots=True)
class Document:
    """One feed of set T.

    Attributes:
        name: Path in the corpus.
        body: The captured bytes.
        entries: Number of different entries that our parser finds.
    """

    name: str
    body: bytes
    entries: int

    @property
    def is_json(self) -> bool:
        """Whether this is a JSON Feed, which feedparser can't read."""
        return self.body.lstrip()[:1] == b"{"

    def with_new(self, number: int) -> bytes:
        """Return the document with its first entry repeated in front, under a new identity."""
        if self.is_json:
            return _json_with_new(self.body, number)
        mark = b"n%d-" % number
        found = _ITEM.search(self.body)
        if found is None:
            raise ValueError(f"{self.name}: no entry")
        item = _NAMED.sub(rb"\g<1>" + mark, found.group())
        item = _LINK.sub(rb"\g<1>?" + mark + rb"\g<2>", item)
        for pattern in (_HREF, _ABOUT):
            item = pattern.sub(rb"\g<1>" + mark, item)
        return self.body[: found.start()] + item + self.body[found.start() :]


def documents() -> tuple[list[Document], list[str]]:
    """Return set T, JSON Feeds last, without unsuitable documents, and the names of these.

    Unsuitable are documents that aren't feeds on their own (none at present), and documents to which editing
    bytes can't add exactly one entry: wide encodings, broken markup around the first entry.
    """
    kept, left_out = [], []
    for row in timing_set():
        document = Document(row.path, row.read(), 0)
        try:
            entries = _entries(document)
        except (ParseError, ValueError):
            left_out.append(row.path)
            continue
        kept.append(dataclasses.replace(document, entries=entries))
    return sorted(kept, key=lambda document: document.is_json), left_out


def _entries(document: Document) -> int:
    """Return the number of entries; raise ValueError if an added entry isn't the only new one."""
    url = "http://feed.example/feed"
    first = identity.diff_feed(parse(document.body, url=url), b"")
    second = identity.diff_feed(parse(document.with_new(1), url=url), first.seen, volatile=first.volatile)
    third = identity.diff_feed(parse(document.with_new(2), url=url), second.seen, volatile=second.volatile)
    for diff in (second, third):
        if len(diff.new) != 1 or diff.changed:
            raise ValueError(f"{document.name}: {len(diff.new)} new, {len(diff.changed)} changed")
    return len(first.new)


def _json_with_new(body: bytes, number: int) -> bytes:
    feed = json.loads(body)
    first = dict(feed["items"][0])
    for name in ("id", "url", "title"):
        if name in first:
            first[name] = f"{first[name]}?n{number}"
    feed["items"].insert(0, first)
    return json.dumps(feed, ensure_ascii=False).encode()
