"""The table of docs/performance.md: written by the benchmarks, so that it always matches the measurements."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from bench.harness import Figure

PAGE = Path(__file__).parents[1] / "docs" / "performance.md"
BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"
_HEAD = "| figure | value | unit | target | runs |\n|---|---:|---|---:|---|\n"


def write(figures: Mapping[str, Figure], machine: str, page: Path = PAGE) -> None:
    """Write the figures into the page's table; rows of other figures stay."""
    text = page.read_text("utf-8")
    before, rest = text.split(BEGIN)
    old, after = rest.split(END)
    rows = {name: f"{line}\n" for name, line in _rows(old).items()}
    rows.update({name: _row(figure) for name, figure in figures.items()})
    table = _HEAD + "".join(rows[name] for name in sorted(rows))
    page.write_text(f"{before}{BEGIN}\nMeasured on {machine}.\n\n{table}{END}{after}", "utf-8")


def names(page: Path = PAGE) -> set[str]:
    """Return the names of the figures in the page's table."""
    return set(_rows(page.read_text("utf-8").split(BEGIN)[1].split(END)[0]))


def _rows(table: str) -> dict[str, str]:
    lines = [line for line in table.splitlines() if line.startswith("| `")]
    return {line.split("`")[1]: line for line in lines}


def _row(figure: Figure) -> str:
    target = f"{figure.target}{'' if figure.met else ' **missed**'}"
    spread = (
        f"{len(figure.runs)}: {min(figure.runs):,g} … {max(figure.runs):,g}" if len(figure.runs) > 1 else ""
    )
    return f"| `{figure.name}` | {figure.value:,g} | {figure.unit} | {target} | {spread} |\n"
