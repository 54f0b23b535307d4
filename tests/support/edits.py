"""What publishers do to a feed between two fetches: bytes in, bytes out, seeded.

The edits find entries by their bytes, so they also make documents that no publisher would write; what
reads feeds has to cope with these, too.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable

Edit = Callable[[bytes, random.Random], bytes]

_ITEM = re.compile(rb"<((?:[\w.]+:)?(?:item|entry))(?=[\s>/]).*?</\1\s*>", re.S)
_NAMED = re.compile(rb"(<(?:\w+:)?(?:guid|id|title|identifier)(?:\s[^>]*)?>\s*(?:<!\[CDATA\[)?\s*)(?=[^<\s])")
_LINK = re.compile(rb"([^\s>\]])(\s*(?:\]\]>)?\s*</link>)")
_ADDRESS = re.compile(rb"(<(?:\w+:)?(?:link|item)\s[^>]*(?:href|about)=[\"'][^\"'#?]*)")
_GUID = re.compile(rb"(<(?:guid|id)(?:\s[^>]*)?>)")
_TEXT = re.compile(rb">[^<>\]]{8,}")
_ROOT = re.compile(rb"<(?:rss|feed|rdf:RDF|channel)\b")
_STAMP = re.compile(rb"(<(?:lastBuildDate|updated|pubDate|dc:date)>)[^<]*")


def cut(body: bytes) -> tuple[bytes, list[bytes], bytes]:
    """Return what stands before the entries, the entries with what follows each, and the rest."""
    spans = [match.span() for match in _ITEM.finditer(body)]
    if not spans:
        return body, [], b""
    ends = [start for start, _ in spans[1:]] + [spans[-1][1]]
    return body[: spans[0][0]], [body[a:b] for (a, _), b in zip(spans, ends, strict=True)], body[ends[-1] :]


def _on_items(change: Callable[[list[bytes], random.Random], None]) -> Edit:
    def edit(body: bytes, rng: random.Random) -> bytes:
        head, items, tail = cut(body)
        if items:
            change(items, rng)
        return b"".join((head, *items, tail))

    return edit


def _on_head(change: Callable[[bytes, random.Random], bytes]) -> Edit:
    def edit(body: bytes, rng: random.Random) -> bytes:
        head, items, tail = cut(body)
        return b"".join((change(head, rng), *items, tail)) if items else body

    return edit


def renamed(item: bytes, rng: random.Random) -> bytes:
    """Return an entry under another guid, title and link."""
    mark = b"n%d-" % rng.randrange(10**6)
    item = _NAMED.sub(rb"\g<1>" + mark, item)
    item = _LINK.sub(rb"\g<1>?" + mark + rb"\g<2>", item)
    return _ADDRESS.sub(rb"\g<1>" + mark, item)


def edited(item: bytes, rng: random.Random) -> bytes:
    """Return an entry with another text in one of its elements."""
    places = list(_TEXT.finditer(item))
    if not places:
        return item
    at = rng.choice(places).end()
    return item[:at] + b" edited%d" % rng.randrange(10**6) + item[at:]


def _insert(place: Callable[[list[bytes]], int]) -> Edit:
    def change(items: list[bytes], rng: random.Random) -> None:
        items.insert(place(items), renamed(rng.choice(items), rng))

    return _on_items(change)


def _edit_one(items: list[bytes], rng: random.Random) -> None:
    at = rng.randrange(len(items))
    items[at] = edited(items[at], rng)


def _space_one(items: list[bytes], rng: random.Random) -> None:
    at = rng.randrange(len(items))
    items[at] = items[at].replace(b"><", b">\n <", 1)


def _in_one(piece: bytes) -> Edit:
    """Put something into an entry, in front of its last end tag."""

    def change(items: list[bytes], rng: random.Random) -> None:
        at = rng.randrange(len(items))
        before, mark, after = items[at].rpartition(b"</")
        items[at] = before + piece + mark + after

    return _on_items(change)


def _behind_one(piece: bytes) -> Edit:
    """Put something between two entries."""

    def change(items: list[bytes], rng: random.Random) -> None:
        items[rng.randrange(len(items))] += piece

    return _on_items(change)


def _swap(items: list[bytes], rng: random.Random) -> None:
    a, b = rng.randrange(len(items)), rng.randrange(len(items))
    items[a], items[b] = items[b], items[a]


def _two_with_one_guid(items: list[bytes], rng: random.Random) -> None:
    item = renamed(rng.choice(items), rng)
    items[0:0] = [item, edited(item, rng)]


def _all_other_guids(items: list[bytes], rng: random.Random) -> None:
    mark = rb"\g<1>v%d-" % rng.randrange(10**6)
    items[:] = [_GUID.sub(mark, item) for item in items]


def _all_but_one_gone(items: list[bytes], rng: random.Random) -> None:
    items[:] = [rng.choice(items)]


def _wide(body: bytes, rng: random.Random) -> bytes:
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError:
        return body
    return re.sub(r"^\ufeff?<\?xml[^>]*\?>", "", text).encode("utf-16")


def _root(attribute: bytes) -> Edit:
    return _on_head(lambda head, _: _ROOT.sub(rb"\g<0> " + attribute, head, count=1))


EDITS: dict[str, Edit] = {
    "nothing": lambda body, rng: body,
    "new_first": _insert(lambda items: 0),
    "new_last": _insert(len),
    "new_middle": _insert(lambda items: len(items) // 2),
    "edited": _on_items(_edit_one),
    "white_space": _on_items(_space_one),
    "first_gone": _on_items(lambda items, rng: items.__delitem__(0)),
    "one_gone": _on_items(lambda items, rng: items.__delitem__(rng.randrange(len(items)))),
    "nearly_all_gone": _on_items(_all_but_one_gone),
    "swapped": _on_items(_swap),
    "reversed": _on_items(lambda items, rng: items.reverse()),
    "twice_the_same": _on_items(lambda items, rng: items.append(rng.choice(items))),
    "two_with_one_guid": _on_items(_two_with_one_guid),
    "all_other_guids": _on_items(_all_other_guids),
    "head_stamp": _on_head(lambda head, rng: _STAMP.sub(rb"\g<1>n%d" % rng.randrange(10**6), head)),
    "head_title": _on_head(lambda head, rng: head.replace(b"<title>", b"<title>n%d " % rng.randrange(99), 1)),
    "head_hints": _on_head(lambda head, rng: head + b"<ttl>77</ttl><skipHours><hour>3</hour></skipHours>"),
    "head_author": _on_head(lambda head, rng: head + b"<author>n%d</author>" % rng.randrange(99)),
    "head_comment": _on_head(lambda head, rng: head + b"<!-- <item> -->"),
    "head_open_comment": _on_head(lambda head, rng: head + b"<!-- "),
    "head_instruction": _on_head(lambda head, rng: head + b"<?x <item>?>"),
    "root_base": _root(b"xml:base='http://other.example/%d/'" % 1),
    "root_space": _root(b"xmlns:new='http://new.example/'"),
    "root_broken": _root(b"broken"),
    "cdata_with_item": _in_one(b"<x><![CDATA[ <item><title>no</title></item> <entry></entry> ]]></x>"),
    "cdata_with_ends": _in_one(b"<x><![CDATA[ </item> </entry> <item> <entry> ]]></x>"),
    "comment_with_item": _in_one(b"<!-- </item><item></entry><entry> -->"),
    "item_in_item": _in_one(b"<x><item><guid>inner</guid></item><entry><id>inner</id></entry></x>"),
    "instruction": _in_one(b"<?php echo '</item><item>' ?>"),
    "undeclared": _in_one(b"<nobody:declared>x</nobody:declared>"),
    "declared_inside": _in_one(b"<n:a xmlns:n='http://purl.org/dc/elements/1.1/'>x</n:a>"),
    "base_inside": _in_one(b"<link xml:base='/b/' href='c'>d</link>"),
    "bare_ampersand": _in_one(b"<category>A & B</category>"),
    "c1_reference": _in_one(b"<category>don&#146;t</category>"),
    "twice_encoded": _in_one(b"<category>\xc3\x83\xc2\xa9</category>"),
    "entity": _in_one(b"<category>&nbsp;</category>"),
    "unclosed": _in_one(b"<b>"),
    "between_element": _behind_one(b"<author>between</author>"),
    "between_comment": _behind_one(b"<!-- between -->"),
    "between_text": _behind_one(b"between"),
    "empty_item": _behind_one(b"<item/><entry/>"),
    "commented_item": _behind_one(b"<!-- <item><guid>c</guid></item> <entry><id>c</id></entry> -->"),
    "other_kind": _behind_one(b"<entry><id>o</id></entry><item><guid>o</guid></item>"),
    "second_channel": _behind_one(b"</channel><channel>"),
    "cut_off": lambda body, rng: body[: rng.randrange(len(body) // 2, len(body))],
    "wide": _wide,
}
