"""The documents of set T as a server would serve them later: unchanged, or with one entry more."""

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
        name: path in the corpus.
        body: as captured.
        entries: how many different entries ours finds in it.
    """

    name: str
    body: bytes
    entries: int

    @property
    def is_json(self) -> bool:
        """Whether it is a JSON Feed, which feedparser cannot read."""
        return self.body.lstrip()[:1] == b"{"

    def with_new(self, number: int) -> bytes:
        """Return the document with its first entry once more in front, under another identity."""
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
    """Return set T, JSON Feeds last, without those that cannot take part, and the names of these.

    Left out is what is no feed on its own (none at present) and what cannot be given exactly one
    entry more by editing bytes: wide encodings, broken markup around the first entry.
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
    """Return the number of entries; ValueError when a new one is not seen as the only new one."""
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
