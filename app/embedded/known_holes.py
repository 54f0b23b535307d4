"""Known holes of MongoDB and Redis that matter to Eventr: which releases have them, and what closes them.

A server that other machines can reach and that has a hole is a warning, not a failure: distributions repair
a release without changing its number.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from app.embedded.programs import Version, format_version
from app.models.operations.check_result import CheckResult, Severity


@dataclasses.dataclass(frozen=True, slots=True)
class Hole:
    """A hole of a server.

    Attributes:
        check: the server, as checks name it.
        fixed: release line → its first patch release without the hole. Newer lines never had it, and an
            older line that is missing here never gets a repaired release.
        danger: what it allows, after "Redis 6.2.1 is running, but".
        remedy: what to do where nothing closes it.
        closed: why it does no harm, as a sentence.
    """

    check: str
    cve: str
    fixed: dict[Version, int]
    danger: str
    remedy: str
    closed: str

    def is_in(self, version: Version) -> bool:
        """Return whether a release (major, minor, patch) has this hole."""
        line, patch = version[:2], version[2]
        return line <= max(self.fixed) and patch < self.fixed.get(line, 1 << 16)


HOLES = (
    Hole(
        "mongodb",
        "CVE-2025-14847",
        {(4, 4): 30, (5, 0): 32, (6, 0): 27, (7, 0): 28, (8, 0): 17, (8, 2): 3},
        "anyone who can connect may read parts of its memory through compressed messages",
        "Upgrade MongoDB, or start mongod with --networkMessageCompressors=disabled.",
        "Compressed messages are off, so nobody can use it.",
    ),
    Hole(
        "redis",
        "CVE-2025-49844",
        {(6, 2): 20, (7, 2): 11, (7, 4): 6, (8, 0): 4, (8, 2): 2},
        "clients may be able to run code on its machine",
        "Upgrade Redis, or block other clients.",
        "Only Eventr's own user can connect, so nobody else can use it.",
    ),
)
_TITLES = {"mongodb": "MongoDB", "redis": "Redis"}


def check_version(check: str, version: Version, *, closed: bool) -> Iterator[CheckResult]:
    """Yield a result for each known hole that a release of a server has.

    Args:
        check: ``mongodb`` or ``redis``.
        version: major, minor, patch.
        closed: the way into the hole is closed on this server.
    """
    for hole in HOLES:
        if hole.check == check and hole.is_in(version):
            title = f"{_TITLES[check]} {format_version(version)}"
            if closed:
                text = f"{title} has a known hole ({hole.cve}). {hole.closed}"
                yield CheckResult(check, Severity.OK, text)
            else:
                text = f"{title} is running, but {hole.danger} ({hole.cve}). {hole.remedy}"
                yield CheckResult(check, Severity.WARN, text)
