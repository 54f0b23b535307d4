"""Library checks: are the required Python libraries installed, new enough and loadable?"""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator, Sequence
from importlib import metadata

from app.errors import StartupError

#: Modules that need a shared library of their own or of the system, so an installed one may not load.
NATIVE = ("argon2", "hiredis", "isal.igzip", "lxml.etree", "nh3", "psutil", "pycurl", "xxhash")
_REQUIREMENT = re.compile(r"(?P<name>[\w.-]+).*?>=(?P<floor>[\d.]+)")
_HOW = "Run 'make run', or pip install -e '.[embedded]' in your environment."


def require_libraries() -> None:
    """Check all libraries, before any process starts that would fail without them.

    Raises:
        StartupError: a library is missing, too old or can't be loaded; the message names it and what to do.
    """
    problems = list(find_library_problems())
    if problems:
        raise StartupError(f"{problems[0]} {_HOW}")


def find_library_problems(native: Sequence[str] = NATIVE) -> Iterator[str]:
    """Yield a sentence for each library that is missing, too old or can't be loaded."""
    for line in metadata.requires("eventr") or ():
        if "extra ==" not in line and (match := _REQUIREMENT.match(line)):
            yield from _installed(match["name"], match["floor"])
    for module in native:
        try:
            importlib.import_module(module)
        except ImportError as e:
            yield f"The Python library {module.split('.')[0]} can't be loaded ({e})."


def _installed(name: str, floor: str) -> Iterator[str]:
    try:
        found = metadata.version(name)
    except metadata.PackageNotFoundError:
        yield f"The Python library {name} is missing."
        return
    if _numbers(found) < _numbers(floor):
        yield f"The Python library {name} is version {found}. Eventr needs {floor} or newer."


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version.split("+")[0])[:3])
