"""A publisher for tests of identity: it edits, re-issues, moves and withdraws articles as real ones do."""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum

from app.models.feeds.parsed import Format, ParsedEntry, ParsedFeed, ParserPath

START = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
DAY = dt.timedelta(days=1)
#: Below this many listed entries, no feed can show that all its guids or links have changed.
FULL = 8


class Guids(enum.Enum):
    """How a publisher makes guids."""

    OWN = "own"
    LINK = "link"
    NONE = "none"
    EMPTY = "empty"


@dataclasses.dataclass(slots=True)
class Article:
    """One article, whatever its publisher calls it."""

    number: int
    date: dt.datetime
    path: str
    title: str
    text: str
    issue: int = 0
    #: The article whose guid it has, by mistake.
    twin: Article | None = None


class Publisher:
    """A site with a feed of its newest articles, and a clock that goes on by a day with each fetch."""

    def __init__(self, guids: Guids, window: int) -> None:
        self.guids, self.window, self.full = guids, window, window
        self.articles: list[Article] = []
        self.hidden: list[Article] = []
        self.scheme, self.host, self.prefix = "http", "news.example", ""
        self.counter: str | None = None
        self.generation = self.fetches = self.count = 0
        self.backwards = False
        self.now = START
        #: The articles that were ever listed.
        self.listed_ever: set[int] = set()
        self.publish(window)

    @property
    def listed(self) -> list[Article]:
        return self.articles[: self.window]

    @property
    def is_full(self) -> bool:
        """Whether so many articles are listed that all their guids or links may change at once."""
        return self.window == self.full and len(self.listed) >= FULL and not self.has_shared_guids

    @property
    def has_shared_guids(self) -> bool:
        """Whether only links and titles tell articles apart, so that nothing else must change."""
        return any(article.twin for article in self.articles)

    def publish(self, many: int) -> None:
        for _ in range(many):
            self.count += 1
            n = self.count
            date = self.now - DAY + dt.timedelta(minutes=n)
            self.articles.insert(0, Article(n, date, f"/articles/{n}", f"Title {n}", f"Text of number {n}"))

    def edit_title(self, at: int) -> None:
        if not self.has_shared_guids:
            self._pick(at).title += " (updated)"

    def edit_text(self, at: int) -> None:
        self._pick(at).text += " Updated."

    def edit_link(self, at: int) -> None:
        if self.guids is Guids.OWN and not self.has_shared_guids:  # else the link is the identity
            self._pick(at).path += "-moved"

    def edit_date(self, at: int) -> None:
        self._pick(at).date = self.now

    def reissue(self, at: int) -> None:
        """Give one article another guid, as the BBC does with each correction."""
        if self.guids is Guids.OWN and len(self.listed) >= 3 and not self.has_shared_guids:
            article = self._pick(at)
            article.issue += 1
            article.date = self.now

    def reissue_all(self, at: int) -> None:
        if self.is_full:
            self.generation += 1

    def count_links(self, at: int) -> None:
        """Begin with links that differ at each fetch, or end it."""
        if self.counter or self.is_full:
            self.counter = None if self.counter else ("n", "utm_campaign", "PHPSESSID")[at % 3]

    def shrink(self, at: int) -> None:
        if not self.has_shared_guids:  # else it may be forgotten which of them is which
            self.window = 1 + at % (self.full - 1)

    def grow(self, at: int) -> None:
        self.window = self.full

    def reorder(self, at: int) -> None:
        self.backwards = not self.backwards

    def use_https(self, at: int) -> None:
        if self.is_full:
            self.scheme = "https"

    def move(self, at: int) -> None:
        if self.is_full:
            self.host = f"www{self.fetches}.news.example"

    def repeat_guid(self, at: int) -> None:
        """Publish an article under the guid of another one, which stays listed for a while."""
        if self.guids is Guids.OWN and self.is_full and not self.counter:
            twin = self.listed[at % 3]
            self.publish(1)
            self.articles[0].twin = twin.twin or twin

    def withdraw(self, at: int) -> None:
        """Take an article back, as a draft that was published by mistake."""
        if len(self.listed) > 2 and not self.has_shared_guids:
            self.hidden.append(self._pick(at))
            self.articles.remove(self.hidden[-1])

    def restore(self, at: int) -> None:
        while self.hidden:
            article = self.hidden.pop()
            article.date = self.now
            self.articles.insert(0, article)

    def change_template(self, at: int) -> None:
        """Put the name of the site before all titles."""
        if not self.has_shared_guids and not self.counter:
            self.prefix = f"{self.host}: " if not self.prefix else ""

    def rest(self, at: int) -> None:
        """Change nothing."""

    def fetch(self) -> ParsedFeed:
        """Return the feed as it is now; a day goes by."""
        self.fetches += 1
        self.listed_ever |= {article.number for article in self.listed}
        entries = [self._entry(article) for article in self.listed]
        if self.backwards:
            entries.reverse()
        self.now += DAY
        return ParsedFeed(
            Format.RSS20, ParserPath.STRICT, "News", f"{self.scheme}://{self.host}/", "", None, tuple(entries)
        )

    def _pick(self, at: int) -> Article:
        return self.listed[at % len(self.listed)]

    def _link(self, article: Article) -> str:
        counter = f"?{self.counter}={self.fetches}" if self.counter else ""
        return f"{self.scheme}://{self.host}{article.path}{counter}"

    def _guid(self, article: Article) -> str | None:
        match self.guids:
            case Guids.OWN:
                named = article.twin or article
                return f"{self.generation}:{named.number}#{named.issue}"
            case Guids.LINK:
                return self._link(article)
            case Guids.NONE:
                return None
            case Guids.EMPTY:
                return ""

    def _entry(self, article: Article) -> ParsedEntry:
        return ParsedEntry(
            guid=self._guid(article),
            url=self._link(article),
            title=f"{self.prefix}{article.title}",
            author="",
            published=article.date,
            updated=None,
            content=article.text,
            summary="",
            base_url="http://news.example/",
            # Not a part of any hash: it tells the test which article this is.
            categories=(str(article.number),),
        )


class Series(Publisher):
    """A site that shows one strip after the other behind the same link, above articles pinned long ago."""

    def __init__(self, guids: Guids, pinned: int) -> None:
        super().__init__(guids, pinned)
        for article in self.articles:
            article.date = START - 400 * DAY
        self.articles.insert(0, self._draw())
        self.window = self.full = pinned + 1

    def replace(self, at: int) -> None:
        """Show the next strip instead of the last one."""
        self.articles[0] = self._draw()

    def correct(self, at: int) -> None:
        """Correct the newest strip."""
        if at % 2:
            self.articles[0].title += " (corrected)"
        self.articles[0].text += " Corrected."

    def _draw(self) -> Article:
        self.count += 1
        n, date = self.count, self.now - dt.timedelta(hours=1)
        return Article(n, date, "/latest.html", f"Strip {n}", f"What happens in number {n}")
