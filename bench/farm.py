"""A deterministic farm of feeds in a process of its own, for benchmarks of the whole system.

Feed n has its own loopback address, so that limits per host never apply, and the server closes each
connection. Two fifths of the feeds are Atom, the others RSS. They have 5 to 60 entries of 0.9 to 8 KB of
HTML, 25 entries and 3.5 KB on average, unless every feed has the same number of shorter entries.

Bytes depend only on the number of the feed and on how often :meth:`Farm.publish` was called, except for the
dates, which count back from the start of the farm. Documents are rendered when they are fetched: a farm of
20,000 feeds needs no memory for them.
"""

from __future__ import annotations

import asyncio
import dataclasses
import email.utils
import html
import itertools
import multiprocessing
import random
import socket
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Any, Self

#: Numbers of entries of the feeds, in turn.
COUNTS = (5, 10, 10, 15, 20, 20, 25, 25, 30, 30, 50, 60)
#: Shortest and longest HTML of an entry; of an entry in a farm whose feeds all have the same length.
HTML_BYTES, SHORT_BYTES = (900, 8200), (400, 2000)
#: Feeds whose entries have the same marks: a search for a mark has few enough results for one page.
GROUP = 400
#: A word that about one entry in twenty contains.
COMMON_WORD = "harbour"
_FRAGMENTS, _WORDS = 1500, 6000
_SYLLABLES = "ba cer di fo gra hul jin kel lo mar nes or pil que ras sol tem ur vin wex yor zan"
_FREQUENT = (
    "the of and to a in is that for it as was with be by on not this are from have or had but which one you "
    "were all there would their we been has when will no more if out so up what its about than into them can "
    "only other time new some could these two may first then do any like now over such our most made after"
)


@dataclasses.dataclass(frozen=True, slots=True)
class Served:
    """Responses so far: with a document, and with 304."""

    documents: int
    unchanged: int

    @property
    def total(self) -> int:
        return self.documents + self.unchanged


class Corpus:
    """The text of all entries, out of a fixed pool of HTML fragments."""

    def __init__(self, feeds: int, entries: int | None, now: float) -> None:
        self.feeds, self._entries, self._now = feeds, entries, now
        rng, syllables = random.Random(7), _SYLLABLES.split()
        made = ("".join(rng.choices(syllables, k=rng.randint(2, 4))) for _ in itertools.count())
        self._words = list(dict.fromkeys([*_FREQUENT.split(), *itertools.islice(made, _WORDS)]))
        self._fragments = [self._fragment(rng) for _ in range(_FRAGMENTS)]
        self._escaped = [html.escape(fragment, quote=False) for fragment in self._fragments]

    def count(self, feed: int) -> int:
        """Return the number of entries in a feed's document."""
        return self._entries or COUNTS[feed % len(COUNTS)]

    def total(self) -> int:
        """Return the number of entries in all documents."""
        return sum(map(self.count, range(self.feeds)))

    def render(self, feed: int, epoch: int) -> bytes:
        """Return a feed's document after this many publications; newest entry first."""
        atom = feed % 5 < 2
        newest = self.count(feed) + epoch - 1
        entries = (self._entry(feed, n, epoch, atom) for n in range(newest, epoch - 1, -1))
        head, foot = (_ATOM, "</feed>") if atom else (_RSS, "</channel></rss>")
        return (head.format(n=feed, title=self.title(feed)) + "".join(entries) + foot).encode()

    def title(self, feed: int) -> str:
        """Return the title of a feed."""
        rng = random.Random(f"title {feed}")
        return f"{' '.join(self._sentence(rng, rng.randint(1, 4)))} {feed}".capitalize()

    def _entry(self, feed: int, n: int, epoch: int, atom: bool) -> str:
        rng = random.Random((feed << 20) + n)
        texts = self._escaped if atom else self._fragments
        low, high = SHORT_BYTES if self._entries else HTML_BYTES
        wanted, body = low * (high / low) ** rng.random(), ""
        while len(body) < wanted:
            body += texts[rng.randrange(_FRAGMENTS)]
        first = self.count(feed)
        # The first and the last entry of the first document, and every later entry.
        if n in (0, first - 1) or n >= first:
            body += f" {mark(feed, max(0, n - first + 1))}"
        title = " ".join(self._sentence(rng, rng.randint(4, 12))).capitalize()
        # Later entries are newer by a minute each; older ones are evenly spread over 25 days.
        age = (first - n) * 25 * 86400 / (first + 1) if n < first else 60.0 / (n - first + 1)
        at = self._now - age
        date = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at)) if atom else email.utils.formatdate(at)
        return (_ATOM_ENTRY if atom else _RSS_ITEM).format(feed=feed, n=n, title=title, date=date, body=body)

    def _sentence(self, rng: random.Random, words: int) -> list[str]:
        # The rank of a word is exponential in a uniform number: nearly Zipf's law, as in real texts.
        return [self._words[int(len(self._words) ** rng.random()) - 1] for _ in range(words)]

    def _fragment(self, rng: random.Random) -> str:
        text = " ".join(self._sentence(rng, rng.randint(15, 60)))
        word = COMMON_WORD if rng.random() < 0.005 else rng.choice(self._words)
        kind, address = rng.randrange(10), f"https://{word}.example/{rng.randrange(10**6)}"
        if kind < 6:
            return f'<p>{text} <a href="{address}?utm_source=rss" rel="noopener">{word}</a>.</p>\n'
        if kind == 6:
            return f'<figure><img src="{address}.jpg" alt="{word}" width="640" height="480"></figure>\n'
        if kind == 7:
            return f"<ul><li>{text}</li><li><strong>{word}</strong> <code>{word}()</code></li></ul>\n"
        if kind == 8:
            return f'<blockquote cite="{address}"><p>{text}, {word}.</p></blockquote>\n'
        return f'<h2>{word}</h2>\n<p style="margin:0 0 1em">{text} &amp; more.</p>\n'


def mark(feed: int, epoch: int) -> str:
    """Return the word by which the search finds what the feeds of a group published in an epoch.

    Epoch 0 is the first document: its first and its last entry contain the mark.
    """
    return f"farmmark{epoch}g{feed // GROUP}"


def count_marked(feeds: int, epoch: int) -> dict[str, int]:
    """Return mark → number of entries that contain it."""
    found: dict[str, int] = {}
    for feed in range(feeds):
        found[mark(feed, epoch)] = found.get(mark(feed, epoch), 0) + (1 if epoch else 2)
    return found


class Farm:
    """The farm's process, and its controls.

    Args:
        feeds: number of feeds.
        entries: entries of each feed; by default, 5 to 60.
    """

    def __init__(self, feeds: int, entries: int | None = None) -> None:
        self.feeds, self.epoch = feeds, 0
        self._now = time.time()
        self.corpus = Corpus(feeds, entries, self._now)
        self._listener = socket.socket()
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._listener.bind(("0.0.0.0", 0))
        self._listener.listen(4096)
        self.port: int = self._listener.getsockname()[1]
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(
            target=_serve, args=(self._listener, theirs, feeds, entries, self._now), daemon=True
        )

    def opml(self) -> bytes:
        """Return all feeds in 20 folders."""
        by_folder = (range(folder, self.feeds, 20) for folder in range(20))
        folders = (
            f'<outline text="Folder {number}">{"".join(map(self._outline, feeds))}</outline>'
            for number, feeds in enumerate(by_folder)
            if feeds
        )
        return f'<opml version="2.0"><head/><body>{"".join(folders)}</body></opml>'.encode()

    def publish(self) -> None:
        """Let every feed have one new entry from now on; the oldest one leaves its document."""
        self.epoch += 1
        self._ask("epoch", self.epoch)

    def use_validators(self, used: bool) -> None:
        """Send ETags and answer with 304 from now on, or send every document again."""
        self._ask("validators", used)

    def count(self) -> Served:
        """Return the responses so far."""
        return Served(*self._ask("count", None))

    def _outline(self, feed: int) -> str:
        return f'<outline type="rss" text="{self.corpus.title(feed)}" xmlUrl="{self.url(feed)}"/>'

    def url(self, feed: int) -> str:
        """Return the address of a feed."""
        host = f"127.{1 + feed // 62_500}.{feed // 250 % 250}.{feed % 250 + 1}"
        return f"http://{host}:{self.port}/{feed}.xml"

    def _ask(self, word: str, value: object) -> Any:
        self._pipe.send((word, value))
        return self._pipe.recv()

    def __enter__(self) -> Self:
        self._process.start()
        self._pipe.recv()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        self._process.kill()
        self._process.join()
        self._listener.close()
        self._pipe.close()


@dataclasses.dataclass(slots=True)
class _State:
    corpus: Corpus
    epoch: int = 0
    validators: bool = True
    documents: int = 0
    unchanged: int = 0


class _Connection(asyncio.Protocol):
    """One request, one response."""

    def __init__(self, state: _State) -> None:
        self._state, self._head = state, b""
        self._transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._head += data
        if b"\r\n\r\n" in self._head:
            self._transport.write(self._respond())
            self._transport.close()

    def _respond(self) -> bytes:
        name = self._head.split(b" ", 2)[1].removeprefix(b"/").removesuffix(b".xml")
        state = self._state
        if not name.isdigit() or int(name) >= state.corpus.feeds:
            return b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        etag = b'"%s-%d"' % (name, state.epoch)
        more = b"ETag: %s\r\n" % etag if state.validators else b""
        if state.validators and etag in self._head:
            state.unchanged += 1
            return b"HTTP/1.1 304 Not Modified\r\n%sConnection: close\r\n\r\n" % more
        state.documents += 1
        body = state.corpus.render(int(name), state.epoch)
        head = b"HTTP/1.1 200 OK\r\nContent-Type: application/xml\r\nContent-Length: %d\r\n" % len(body)
        return b"%s%sConnection: close\r\n\r\n%s" % (head, more, body)


def _serve(listener: socket.socket, pipe: Connection, feeds: int, entries: int | None, now: float) -> None:
    state = _State(Corpus(feeds, entries, now))

    async def run() -> None:
        loop, ended = asyncio.get_running_loop(), asyncio.Event()
        listener.setblocking(False)
        server = await loop.create_server(lambda: _Connection(state), sock=listener, backlog=4096)
        loop.add_reader(pipe.fileno(), _control, state, pipe, ended.set)
        pipe.send(True)
        await ended.wait()
        server.close()

    asyncio.run(run())


def _control(state: _State, pipe: Connection, end: Callable[[], None]) -> None:
    try:
        word, value = pipe.recv()
    except (EOFError, OSError):
        end()
        return
    if word == "count":
        pipe.send((state.documents, state.unchanged))
        return
    setattr(state, word, value)
    pipe.send(True)


_RSS = '<?xml version="1.0"?><rss version="2.0"><channel><title>{title}</title><link>https://f{n}.example/</link>'
_RSS_ITEM = (
    '<item><guid isPermaLink="false">farm-{feed}-{n}</guid><title>{title}</title><pubDate>{date}</pubDate>'
    "<link>https://f{feed}.example/{n}</link><category>notes</category>"
    "<description><![CDATA[{body}]]></description></item>"
)
_ATOM = (
    '<?xml version="1.0"?><feed xmlns="http://www.w3.org/2005/Atom"><id>urn:farm:{n}</id>'
    '<title>{title}</title><link href="https://f{n}.example/"/>'
)
_ATOM_ENTRY = (
    "<entry><id>urn:farm:{feed}:{n}</id><title>{title}</title><published>{date}</published>"
    '<updated>{date}</updated><link rel="alternate" href="https://f{feed}.example/{n}"/>'
    '<author><name>Jo Doe</name></author><content type="html">{body}</content></entry>'
)
