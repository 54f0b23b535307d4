"""Writes docs/reliability.md from a long run."""

from __future__ import annotations

import pathlib

from bench.harness import machine
from tests.faults.system import System, summary
from tests.support.imports import REPO

PAGE = REPO / "docs" / "reliability.md"
BEGIN, END = "<!-- run: begin -->", "<!-- run: end -->"


def write(system: System, page: pathlib.Path = PAGE) -> None:
    """Put what was done to the system, and how long it took to recover, into the page."""
    rows = [
        f"| {part} | {kills} | {median:.1f} s | {longest:.1f} s |"
        for part, (kills, median, longest) in summary(system.blows).items()
    ]
    told = [
        f"Measured on {machine()}, seed {system.seed}.",
        "",
        f"{len(system.blows)} blows; all checks held after each of {system.checked} tests.",
        "",
        "| what was killed | times | back after, median | longest |",
        "|---|---:|---:|---:|",
        *rows,
    ]
    text = page.read_text("utf-8")
    before, rest = text.split(BEGIN)
    lines = "\n".join(told)
    page.write_text(f"{before}{BEGIN}\n{lines}\n{END}{rest.split(END)[1]}", "utf-8")
