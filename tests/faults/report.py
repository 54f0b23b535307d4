"""Writes the results of a long run into docs/reliability.md."""

from __future__ import annotations

import pathlib

from bench.harness import machine
from tests.faults.system import System, summary
from tests.support.imports import REPO

PAGE = REPO / "docs" / "reliability.md"
BEGIN, END = "<!-- run: begin -->", "<!-- run: end -->"


def write(system: System, page: pathlib.Path = PAGE) -> None:
    """Write the kills of a run and the time to recover from them into the page."""
    rows = [
        f"| {part} | {kills} | {median:.1f} s | {longest:.1f} s |"
        for part, (kills, median, longest) in summary(system.blows).items()
    ]
    report = [
        f"Measured on {machine()}, seed {system.seed}.",
        "",
        f"{len(system.blows)} kills; all checks passed after each of {system.checked} tests.",
        "",
        "| part | kills | median recovery | longest |",
        "|---|---:|---:|---:|",
        *rows,
    ]
    text = page.read_text("utf-8")
    before, rest = text.split(BEGIN)
    lines = "\n".join(report)
    page.write_text(f"{before}{BEGIN}\n{lines}\n{END}{rest.split(END)[1]}", "utf-8")
