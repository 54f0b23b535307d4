"""Results of machine checks."""

from __future__ import annotations

import dataclasses
import enum


class Severity(enum.StrEnum):
    """The severity of a result."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclasses.dataclass(frozen=True, slots=True)
class CheckResult:
    """The result of one check: ``text`` describes it, and what to do if it isn't OK."""

    check: str
    word: Severity
    text: str
