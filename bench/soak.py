"""A long run of the whole system: does any process grow while people read and feeds publish?

``make soak`` starts ``eventr up`` with a farm of feeds. Readers listen to the event stream and read pages and
entries; feeds publish new entries all the time. Memory, open files, logs and data are sampled, and the growth
after the warm-up is written to docs/reliability.md.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import statistics
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import click

from app.models.accounts.actor import Actor
from bench.farm import Farm
from bench.harness import machine
from bench.whole import Client, Whole
from tests.faults.browser import Browser
from tests.faults.ears import Crowd, Ear

PAGE = Path(__file__).parents[1] / "docs" / "reliability.md"
BEGIN, END = "<!-- soak: begin -->", "<!-- soak: end -->"
#: Part of the run that doesn't count: caches fill and the stores reach their size.
WARM_UP = 1 / 3
#: Fastest growth after the warm-up that isn't a fault, in MB per hour and process kind.
SLOPE_MAX = 1.0
#: Samples in a run; seconds between two pages of a reader, and between two publications of all feeds.
SAMPLES, READ_EVERY, PUBLISH_EVERY = 120, 1.0, 60.0
#: These grow with the data until they reach their limit, so a short run says nothing about a leak.
STORES = ("mongod", "redis-server")
_LINE = "| {} | {} | {} | {} | {} |"


@dataclasses.dataclass(frozen=True, slots=True)
class Sample:
    """The system at a time.

    Attributes:
        at: seconds since the start of the run.
        memory: MB by kind of process that no other process shares, without pages of files.
        files: open files by kind of process.
        logs: bytes in logs, rotated ones included, by name.
        data: bytes in the data folders.
    """

    at: float
    memory: Mapping[str, float]
    files: Mapping[str, int]
    logs: Mapping[str, int]
    data: int


def compute_slope(points: Sequence[tuple[float, float]]) -> float:
    """Return the growth per hour of values at times in seconds: the slope of a line through them."""
    if len({at for at, _ in points}) < 2:
        return 0.0
    return 3600 * statistics.linear_regression(*zip(*points, strict=True)).slope


def drop_warm_up(samples: Sequence[Sample]) -> list[Sample]:
    """Return the samples after the warm-up."""
    start = samples[0].at + WARM_UP * (samples[-1].at - samples[0].at)
    return [sample for sample in samples if sample.at >= start]


def find_growing(samples: Sequence[Sample]) -> dict[str, float]:
    """Return the kinds of processes that grow too fast, with their growth in MB per hour."""
    late = drop_warm_up(samples)
    slopes = {
        kind: compute_slope([(sample.at, sample.memory.get(kind, 0.0)) for sample in late])
        for kind in late[-1].memory
    }
    return {kind: slope for kind, slope in slopes.items() if kind not in STORES and slope > SLOPE_MAX}


def render_table(samples: Sequence[Sample]) -> str:
    """Return a table of all kinds of processes: memory, its growth, and open files."""
    first, late = samples[0], drop_warm_up(samples)
    last, growing = late[-1], find_growing(samples)
    rows = ["| process | memory at the start, MB | at the end | growth, MB/h | open files |"]
    rows.append("|---|---:|---:|---:|---:|")
    for kind in sorted(last.memory):
        slope = compute_slope([(sample.at, sample.memory.get(kind, 0.0)) for sample in late])
        files = f"{late[0].files.get(kind, 0)} → {last.files.get(kind, 0)}"
        mark = " **too fast**" if kind in growing else ""
        before = first.memory.get(kind, 0.0)
        rows.append(
            _LINE.format(kind, f"{before:.0f}", f"{last.memory[kind]:.0f}", f"{slope:.1f}{mark}", files)
        )
    logs = {
        name: compute_slope([(sample.at, sample.logs.get(name, 0)) for sample in late]) / 1000
        for name in last.logs
    }
    grown = ", ".join(f"{name} {slope:.0f}" for name, slope in sorted(logs.items()) if slope >= 1)
    data = compute_slope([(sample.at, sample.data) for sample in late]) / 1e6
    return "\n".join([*rows, "", f"Logs, KB/h: {grown or 'none'}. Data on disk: {data:.0f} MB/h."])


def write_page(text: str, page: Path = PAGE) -> None:
    """Write the result of a run into the page."""
    before, rest = page.read_text("utf-8").split(BEGIN)
    page.write_text(f"{before}{BEGIN}\n{text}\n{END}{rest.split(END)[1]}", "utf-8")


def _sample(whole: Whole, started: float) -> Sample:
    home = whole.home / "var"
    logs: dict[str, int] = {}
    for path in (home / "log").iterdir():
        name = path.name.split(".")[0]
        logs[name] = logs.get(name, 0) + path.stat().st_size
    data = sum(map(_size, [*(home / "data").rglob("*"), *(home / "search").rglob("*")]))
    family = whole.family
    return Sample(time.monotonic() - started, family.own_memory_by_name(), family.files_by_name(), logs, data)


def _size(path: Path) -> int:
    try:
        return path.stat().st_blocks * 512
    except FileNotFoundError:  # a store has just replaced it
        return 0


@contextlib.contextmanager
def _repeating(work: Callable[[int], None], every: float) -> Iterator[list[Exception]]:
    """Call ``work`` with 0, 1, 2 … in a thread while the block runs; yield the list of its errors."""
    ended, errors = threading.Event(), list[Exception]()

    def repeat() -> None:
        number = 0
        while not ended.wait(every):
            try:
                work(number)
            except (OSError, RuntimeError, ValueError) as e:
                errors.append(e)
            number += 1

    thread = threading.Thread(target=repeat)
    thread.start()
    try:
        yield errors
    finally:
        ended.set()
        thread.join()


def make_reader(whole: Whole, seed: int) -> Callable[[int], None]:
    """Return what a reader does each second: read the list, an entry, a feed or all feeds; mark an entry."""
    browser, program = whole.open_browser(), whole.open_program()

    def read(number: int) -> None:
        page = json.loads(program.get("/streams/all/entries?show=all&limit=100"))["items"]
        item = page[(seed * 7 + number) % len(page)]
        step = number % 5
        if step == 4:
            _mark(program, item["id"], read=number % 10 == 4)
        else:
            entry = browser.locate(f"/entries/{item['id']}")
            browser.get(("/read/all", entry, f"/read/feed/{item['feed_id']}", "/subscriptions")[step])

    return read


def _mark(program: Client, entry_id: str, *, read: bool) -> None:
    program.send("PATCH", f"/entries/{entry_id}", json.dumps({"read": read}).encode())


def run(minutes: float, feeds: int, readers: int) -> list[Sample]:
    """Run the system and return its samples; errors of readers are printed."""
    with Farm(feeds) as farm, Whole(farm) as whole:
        whole.sign_up()
        whole.import_all()
        whole.settle()
        tabs = [Browser(whole.port, whole.session) for _ in range(readers)]
        ears = [Ear(Actor(0), tab, seed=number) for number, tab in enumerate(tabs)]
        for tab in tabs:
            tab.get("/subscriptions")  # for the token of its forms

        def publish(number: int) -> None:
            farm.publish()
            whole.refresh_all()

        started, samples = time.monotonic(), list[Sample]()
        with contextlib.ExitStack() as stack:
            stack.enter_context(Crowd(ears))
            errors = [
                stack.enter_context(_repeating(make_reader(whole, number), READ_EVERY))
                for number in range(readers)
            ]
            errors.append(stack.enter_context(_repeating(publish, PUBLISH_EVERY)))
            while (passed := time.monotonic() - started) < 60 * minutes or not samples:
                samples.append(_sample(whole, started))
                time.sleep(min(60 * minutes / SAMPLES, max(0.0, 60 * minutes - passed)))
            samples.append(_sample(whole, started))
            heard, listening = sum(ear.told.total() for ear in ears), sum(ear.listens for ear in ears)
        failed = [error for found in errors for error in found]
        click.echo(f"{heard} new entries announced, {listening} of {readers} readers listening")
        click.echo(f"{len(failed)} failed requests")
        for error in failed[:5]:
            click.echo(f"  {error!r:.300}")
    return samples


@click.command()
@click.option("--minutes", default=30.0, show_default=True, help="Length of the run.")
@click.option("--feeds", default=500, show_default=True, help="Feeds that publish.")
@click.option("--readers", default=10, show_default=True, help="Readers that listen and read.")
@click.option("--write", is_flag=True, help="Write the table to docs/reliability.md.")
def main(minutes: float, feeds: int, readers: int, write: bool) -> None:
    """Run the system for a long time; exit code 1 if a process grows too fast."""
    samples = run(minutes, feeds, readers)
    table = render_table(samples)
    head = f"Measured on {machine()}: {minutes:g} minutes, {feeds} feeds, {readers} readers."
    click.echo(f"{head}\n{table}")
    if write:
        write_page(f"{head}\n\n{table}")
    sys.exit(1 if find_growing(samples) else 0)


if __name__ == "__main__":
    main()
