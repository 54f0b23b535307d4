"""The corpus of real feeds, pages, OPML files and attacks that the tests read.

It is not part of this repository: ``EVENTR_CORPUS`` names its folder, by default
``shared/corpus`` beside the checkout. A missing corpus fails the tests; it never skips them.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import os
from pathlib import Path
from typing import Any

_REPO = Path(__file__).resolve().parents[2]


@functools.cache
def root() -> Path:
    """Return the corpus folder.

    Raises:
        RuntimeError: there is no corpus; says what to set.
    """
    path = Path(os.environ.get("EVENTR_CORPUS", _REPO.parent / "shared" / "corpus"))
    if not (path / "manifest.jsonl").is_file():
        raise RuntimeError(f"No corpus at {path}: set EVENTR_CORPUS to the folder with manifest.jsonl.")
    return path


@dataclasses.dataclass(frozen=True)
class Row:
    """One line of the manifest: ``data`` holds all its fields as they are."""

    path: str
    kind: str
    genuine: bool
    data: dict[str, Any]

    def read(self) -> bytes:
        return (root() / self.path).read_bytes()

    @property
    def expect(self) -> dict[str, Any] | None:
        return self.data.get("expect")

    def __str__(self) -> str:
        return self.path


@functools.cache
def rows(*kinds: str) -> tuple[Row, ...]:
    """Return the manifest's rows in its order, of the given kinds or all."""
    lines = (root() / "manifest.jsonl").read_text("utf-8").splitlines()
    parsed = (json.loads(line) for line in lines)
    found = (Row(d["path"], d["kind"], bool(d.get("genuine")), d) for d in parsed)
    return tuple(r for r in found if not kinds or r.kind in kinds)


def genuine_feeds() -> tuple[Row, ...]:
    """Return the rows that are captured real feeds."""
    return tuple(r for r in rows("atom", "rss", "rdf", "json", "encoding") if r.genuine)
