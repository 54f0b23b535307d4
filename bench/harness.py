"""The framework of all benchmarks: registry, servers, CPU clocks, corpus, table and result file.

A module in this folder registers functions; each publishes its figures:

    @benchmark("reading")
    def reading(bench: Bench) -> None:
        with bench.servers() as running:
            ...
            bench.figure("reading.counts_ms", runs, "ms", at_most=20)

``runs`` are repeated measurements in one process; the value is their median unless one is given. Ratios
compare measurements that ran side by side in one run, so that a slow or busy machine affects both.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime as dt
import functools
import importlib
import json
import pkgutil
import platform
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Self

import psutil

import bench
from app import embedded
from app.config import Settings
from app.runtime import identity_map
from tests.support import corpus

RESULTS = Path(__file__).with_name("results.json")
NOT_BENCHMARKS = {"__main__", "harness"}
SMALLEST, LARGEST, FEWEST_ENTRIES = 10_000, 250_000, 5  #: limits for the feeds of set T: bytes and entries


@dataclasses.dataclass(frozen=True, slots=True)
class Figure:
    """One published number; its target is ``at_least`` or ``at_most``."""

    name: str
    value: float
    unit: str
    runs: tuple[float, ...]
    at_least: float | None = None
    at_most: float | None = None

    @property
    def target(self) -> str:
        """The target as text, empty if there is none."""
        if self.at_least is not None:
            return f"≥ {self.at_least:,g}"
        return "" if self.at_most is None else f"≤ {self.at_most:,g}"

    @property
    def met(self) -> bool:
        """Whether the target is met; true without a target."""
        low = self.at_least is None or self.value >= self.at_least
        return low and (self.at_most is None or self.value <= self.at_most)

    def to_doc(self) -> dict[str, Any]:
        """Return the figure's record for the result file."""
        return {"value": self.value, "unit": self.unit, "runs": list(self.runs)}


class Bench:
    """The tools of a benchmark function.

    Attributes:
        repeats: Number of runs for a median.
        quick: A smoke test: the least that shows that the benchmark works. Its figures mean nothing.
        large: Whether sizes that take hours are measured too.
        peer: A command that prints figures of another reader as JSON; empty: none.
    """

    def __init__(self, *, repeats: int = 5, quick: bool = False, large: bool = False, peer: str = "") -> None:
        self.repeats = 1 if quick else repeats
        self.quick, self.large, self.peer = quick, large, peer
        self.figures: dict[str, Figure] = {}

    def figure(
        self,
        name: str,
        runs: Sequence[float],
        unit: str,
        *,
        value: float | None = None,
        at_least: float | None = None,
        at_most: float | None = None,
    ) -> None:
        """Publish a figure and print it at once.

        Args:
            name: The name of the figure.
            runs: The single measurements.
            unit: The unit.
            value: The figure itself; None: the median of the runs.
            at_least: The target, if higher is better.
            at_most: The target, if lower is better.
        """
        chosen = statistics.median(runs) if value is None else value
        rounded = tuple(_rounded(run) for run in runs)
        found = Figure(name, _rounded(chosen), unit, rounded, at_least, at_most)
        self.figures[name] = found
        print(row(found), flush=True)

    def note(self, text: str) -> None:
        """Print a line that isn't a figure."""
        print(f"  {text}", flush=True)

    @contextlib.contextmanager
    def servers(self, **settings: Any) -> Iterator[embedded.EmbeddedServers]:
        """Run temporary MongoDB and Redis servers in a folder that is removed afterwards.

        Args:
            settings: Overrides; ``running.settings`` contains them and the servers' addresses.
        """
        home = Path(tempfile.mkdtemp(prefix="eventr-bench-"))
        try:
            with embedded.start_servers(Settings(home=home, **settings)) as running:
                yield running
        finally:
            shutil.rmtree(home)


Function = Callable[[Bench], None]
_registry: dict[str, Function] = {}


def benchmark(group: str) -> Callable[[Function], Function]:
    """Register a function that publishes the figures ``<group>.*``."""

    def register(function: Function) -> Function:
        if group in _registry:
            raise ValueError(f"{group} is registered twice")
        _registry[group] = function
        return function

    return register


def registered() -> dict[str, Function]:
    """Import all modules of this folder and return the functions they registered, by group."""
    for module in pkgutil.iter_modules(bench.__path__):
        if module.name not in NOT_BENCHMARKS:
            importlib.import_module(f"bench.{module.name}")
    return dict(sorted(_registry.items()))


def time_call(call: Callable[[], object]) -> float:
    """Return the milliseconds of a call; it has an identity map of its own, as each request and job has."""
    started = time.perf_counter()
    with identity_map.open_scope():
        call()
    return (time.perf_counter() - started) * 1000


class Cpu:
    """CPU seconds of this process and of other processes, all threads, user and system.

    >>> with Cpu(mongod_pid) as cpu: ...
    >>> cpu.own, cpu.others, cpu.total
    """

    def __init__(self, *others: int) -> None:
        self._others = others
        self.own = self.others = 0.0

    @property
    def total(self) -> float:
        """The sum of both."""
        return self.own + self.others

    def __enter__(self) -> Self:
        self._others_start = sum(map(_cpu_of, self._others))
        self._own_start = time.process_time()
        return self

    def __exit__(self, *_: object) -> None:
        self.own = time.process_time() - self._own_start
        self.others = sum(map(_cpu_of, self._others)) - self._others_start


def _cpu_of(pid: int) -> float:
    """Return a process's CPU seconds: in nanoseconds on Linux, else in ticks of 10 ms."""
    threads = list(Path(f"/proc/{pid}/task").glob("*/schedstat"))
    if threads:
        return sum(_first_number(thread) for thread in threads) / 1e9
    times = psutil.Process(pid).cpu_times()
    return float(times.user + times.system)


def _first_number(path: Path) -> int:
    try:
        return int(path.read_text("ascii").split()[0])
    except (FileNotFoundError, ProcessLookupError):
        return 0  # the thread ended between listing and reading


def mongod(running: embedded.EmbeddedServers) -> int:
    """Return the process id of the embedded MongoDB."""
    server = next(server for server in running.servers if server.name == "mongodb")
    assert server.process is not None
    return server.process.pid


@functools.cache
def timing_set() -> tuple[corpus.Row, ...]:
    """Return set T: the corpus's genuine feeds with at least 5 entries and 10–250 KB."""
    return tuple(row for row in corpus.genuine_feeds() if _is_timed(row))


def _is_timed(found: corpus.Row) -> bool:
    size: int = found.data["bytes"]
    return SMALLEST <= size <= LARGEST and _entries(found) >= FEWEST_ENTRIES


def _entries(found: corpus.Row) -> int:
    """Return the number of entries, by feedparser's count in the manifest or, for JSON Feeds, by our own."""
    if found.kind == "json":
        return len(json.loads(found.read())["items"])
    entries: int = (found.data.get("feedparser") or {}).get("entries", 0)
    return entries


# -- output


def row(figure: Figure) -> str:
    """Return a figure as one line of the table."""
    mark = "" if not figure.target else "ok" if figure.met else "MISSED"
    spread = f"{min(figure.runs):,g} … {max(figure.runs):,g}" if len(figure.runs) > 1 else ""
    return f"{figure.name:32} {figure.value:>12,g} {figure.unit:12} {figure.target:>12} {mark:7} {spread}"


def save(figures: Iterable[Figure], path: Path = RESULTS) -> dict[str, Any]:
    """Merge the figures into the result file by name; return all of them."""
    found: dict[str, Any] = json.loads(path.read_text("utf-8")) if path.is_file() else {}
    found.update({figure.name: figure.to_doc() for figure in figures})
    found = dict(sorted(found.items()))
    path.write_text(json.dumps(found, indent=1) + "\n", "utf-8")
    return found


def machine() -> str:
    """Describe this machine in one line."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text("utf-8").splitlines() if info.is_file() else []
    model = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "")
    memory = psutil.virtual_memory().total / (1 << 30)
    today = dt.datetime.now(dt.UTC).date().isoformat()
    return (
        f"{psutil.cpu_count()} × {model or platform.machine()}, {memory:.0f} GiB, "
        f"{platform.system()}, CPython {platform.python_version()}, {today}"
    )


def _rounded(number: float) -> float:
    """Return a number with four significant digits, since more are never stable."""
    return float(f"{number:.4g}")
