"""Damage to feeds, as networks, publishers and attackers do it; seeded, so that a failure can be repeated."""

from __future__ import annotations

import random

_PIECES = (
    b"<", b">", b"&", b"&#", b"&#0;", b"&#x110000;", b"]]>", b"<![CDATA[", b"<!--", b"-->", b"<?xml", b"?>",
    b"\0", b"\xff\xfe", b"\xef\xbb\xbf", b"\x1b$B", b"<!DOCTYPE a [<!ENTITY x 'y'>]>", b"&x;", b"</item>",
    b"</rss>", b"<item>", b"<entry>", b'"', b"'", b"\r", b"{", b"}", b"[", b"1e400", b"NaN", b"\\ud800",
    b"<a:b/>", b" encoding='utf-7'", b" encoding='utf-16'", b" isPermaLink='maybe'", b" type='xhtml'",
    b" mode='base64'", b" src='javascript:x'", b" xml:base='http://['", b" href='http://[::1'",
    b" xmlns:a=''",
    b"<pubDate>Thu, 99 Foo 0000 99:99</pubDate>",
)  # fmt: skip


def mutate(body: bytes, rng: random.Random) -> bytes:
    """Return the body with one to eight damages."""
    for _ in range(rng.randint(1, 8)):
        a, b = sorted((rng.randrange(len(body) + 1), rng.randrange(len(body) + 1)))
        b = min(b, a + rng.choice((1, 4, 64, 4096)))
        match rng.randrange(7):
            case 0:
                body = body[:a] + body[b:]
            case 1:
                body = body[:a] + rng.choice(_PIECES) + body[a:]
            case 2:
                body = body[:a] + rng.randbytes(rng.randint(1, 8)) + body[b:]
            case 3:
                body = body[:a] + body[a:b] * rng.randint(2, 9) + body[b:]
            case 4:
                body = body[:b]
            case 5:
                body = body[:a] + body[a:b].swapcase() + body[b:]
            case _:
                body = body[:a] + body[a:b][::-1] + body[b:]
    return body
