"""What a check of the machine found."""

from __future__ import annotations

import dataclasses
import enum


class Severity(enum.StrEnum):
    """How bad it is."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclasses.dataclass(frozen=True, slots=True)
class CheckResult:
    """What one check found: ``text`` says it, and what to do when it is not well."""

    check: str
    word: Severity
    text: str
