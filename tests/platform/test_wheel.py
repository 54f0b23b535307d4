"""The wheel and the source archive are complete, and an installed wheel runs without the checkout."""

from __future__ import annotations

import email.message
import email.parser
import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import tomllib
import urllib.request
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.faults.browser import Browser
from tests.support.imports import OURS, REPO
from tests.support.rawserver import RawServer, Reply
from tests.support.up import Up

Eventually = Callable[..., Any]

#: Everything that a build may read.
SOURCES = (*OURS, "static", "deploy", "docs", "requirements", "wsgi.py", "pyproject.toml", "MANIFEST.in")
TEXTS = ("README.md", "LICENSE", "CHANGES.md")
#: Only `make words` reads this file.
NOT_INSTALLED = {"app/web/translations/babel.cfg"}
PASSWORD = "correct horse battery"
FEED = b"""<rss version="2.0"><channel><title>Tides</title><link>https://example.org/</link>
<item><title>High water at noon</title><guid>1</guid><description>At the quay.</description></item>
</channel></rss>"""
#: Logs each file and folder of the checkout that a Python process opens.
AUDIT = """
import os, sys
def watch(event, args):
    if event in ("open", "os.listdir", "os.scandir") and isinstance(args[0], (str, bytes, os.PathLike)):
        path = os.path.abspath(os.fsdecode(args[0]))
        if path == {checkout!r} or path.startswith({checkout!r} + os.sep):
            log = os.open({log!r}, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
            os.write(log, os.fsencode(path) + b"\\n")
            os.close(log)
sys.addaudithook(watch)
"""


@pytest.fixture(scope="module")
def sources() -> Iterator[Path]:
    """A copy of the sources, because a build writes into their folder."""
    with tempfile.TemporaryDirectory(prefix="eventr-build-") as folder:
        copy = Path(folder) / "eventr"
        copy.mkdir()
        for name in (*SOURCES, *TEXTS):
            if (REPO / name).is_dir():
                # Pictures of the documentation aren't part of any package.
                pictures = ("*.png",) if name == "docs" else ()
                ignored = shutil.ignore_patterns("__pycache__", *pictures)
                shutil.copytree(REPO / name, copy / name, symlinks=True, ignore=ignored)
            else:
                shutil.copy2(REPO / name, copy / name)
        yield copy


@pytest.fixture(scope="module")
def archive(sources: Path) -> Path:
    """The source archive."""
    return _build("sdist", sources)


@pytest.fixture(scope="module")
def unpacked(archive: Path) -> Path:
    """The unpacked source archive."""
    folder = archive.parent / "unpacked"
    with tarfile.open(archive) as tar:
        # Python 3.11.4 and later.
        tar.extraction_filter = getattr(tarfile, "data_filter", lambda member, path: member)
        tar.extractall(folder)
    (top,) = folder.iterdir()
    return top


@pytest.fixture(scope="module")
def wheel(unpacked: Path) -> Path:
    """The wheel, built from the source archive."""
    return _build("wheel", unpacked)


def _build(kind: str, folder: Path) -> Path:
    output = folder.parent / f"{kind}-of-{folder.name}"
    output.mkdir()
    code = f"from setuptools import build_meta as b; print(b.build_{kind}({str(output)!r}))"
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "Deprecat" not in done.stderr, done.stderr
    return output / done.stdout.splitlines()[-1]


def _names(wheel: Path) -> set[str]:
    return set(zipfile.ZipFile(wheel).namelist())


def _metadata(wheel: Path) -> email.message.Message:
    with zipfile.ZipFile(wheel) as packed:
        (name,) = (n for n in packed.namelist() if n.endswith(".dist-info/METADATA"))
        return email.parser.BytesParser().parsebytes(packed.read(name))


def _files(folder: Path) -> set[str]:
    """Return the relative paths of all files below a folder, without following links to folders."""
    files = {path.relative_to(folder) for path in folder.rglob("*") if path.is_file()}
    return {str(file) for file in files if "__pycache__" not in file.parts}


def test_the_wheel_contains_every_file_of_the_packages_and_of_static(wheel: Path) -> None:
    wanted = {f"{top}/{name}" for top in OURS for name in _files(REPO / top)} - NOT_INSTALLED
    wanted |= {f"app/web/static/{name}" for name in _files(REPO / "static")} | {"wsgi.py"}
    assert {
        "app/web/static/css/base.css",
        "queue_manager/queues.toml",
        "app/web/templates/base.html",
    } <= wanted
    found = {name for name in _names(wheel) if ".dist-info/" not in name}
    assert found == wanted


def test_the_wheel_has_complete_metadata(wheel: Path) -> None:
    project = tomllib.loads((REPO / "pyproject.toml").read_text("utf-8"))["project"]
    metadata = _metadata(wheel)
    assert metadata["Name"] == "eventr"
    assert metadata["Requires-Python"] == ">=3.11"
    assert metadata["License-Expression"] == "MIT"
    assert "Typing :: Typed" in metadata.get_all("Classifier", ())
    assert set(metadata.get_all("Provides-Extra", ())) == {"embedded", "dev", "s3"}
    wanted = {_bare(line) for line in project["dependencies"]}
    assert {_bare(line) for line in metadata.get_all("Requires-Dist", ()) if "extra" not in line} == wanted
    names = _names(wheel)
    assert {f"{top}/py.typed" for top in OURS} <= names
    info = f"eventr-{project['version']}.dist-info"
    assert f"{info}/licenses/LICENSE" in names
    vendored = [name for name in names if re.fullmatch(r"app/web/static/vendor/[^/]+/LICENSE", name)]
    assert len(vendored) == len({name.split("/")[4] for name in names if re.search(r"vendor/.+/", name)}) > 0
    with zipfile.ZipFile(wheel) as packed:
        assert packed.read(f"{info}/entry_points.txt").decode().split("\n") == [
            "[console_scripts]",
            "eventr = app.cli:main",
            "",
        ]


def _bare(line: str) -> str:
    """Return a requirement in its normal form."""
    requirement = Requirement(line)
    return f"{canonicalize_name(requirement.name)}{requirement.specifier}"


def test_the_source_archive_makes_the_same_wheel_as_the_checkout(
    sources: Path, unpacked: Path, wheel: Path
) -> None:
    assert _names(_build("wheel", sources)) == _names(wheel)
    assert {"pyproject.toml", "MANIFEST.in", "docs/production.md", *TEXTS} <= _files(unpacked)
    assert not (unpacked / "tests").exists()


class Fresh:
    """A virtual environment with the wheel, independent of the checkout, in a folder with an awkward name.

    ``pip`` installs the wheel without the network. The libraries are hard links to those installed for the
    tests.
    """

    def __init__(self, folder: Path, wheel: Path) -> None:
        self.folder, self._log = folder, folder / "opened"
        self._environment = folder / "env"
        _run(sys.executable, "-m", "venv", "--without-pip", str(self._environment))
        self.packages = (
            self._environment / "lib" / f"python{sysconfig.get_python_version()}" / "site-packages"
        )
        for name in sorted(needed(_metadata(wheel), {"embedded"})):
            _link(importlib.metadata.distribution(name), self.packages)
        pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", self.program("python"))
        _run(*pip, "install", "--quiet", "--no-index", f"{wheel}[embedded]")
        (self.packages / "eventr_audit.py").write_text(AUDIT.format(checkout=str(REPO), log=str(self._log)))
        (self.packages / "eventr_audit.pth").write_text("import eventr_audit\n")

    def program(self, name: str) -> str:
        """Return the path of one of its programs."""
        return str(self._environment / "bin" / name)

    def opened(self) -> list[str]:
        """Return the files of the checkout that its processes have opened since the last call."""
        found = self._log.read_text("utf-8").splitlines() if self._log.exists() else []
        self._log.unlink(missing_ok=True)
        return found


def needed(metadata: email.message.Message, extras: set[str]) -> set[str]:
    """Return the names of all distributions that a distribution requires, directly or indirectly."""
    found: set[str] = set()
    waiting = [(line, extras) for line in metadata.get_all("Requires-Dist", ())]
    while waiting:
        line, wanted = waiting.pop()
        requirement = Requirement(line)
        marker = requirement.marker
        if marker and not any(marker.evaluate({"extra": extra}) for extra in wanted | {""}):
            continue
        name = canonicalize_name(requirement.name)
        if name not in found:
            found.add(name)
            its = importlib.metadata.requires(name) or ()
            waiting += [(each, requirement.extras) for each in its]
    return found


def _link(distribution: importlib.metadata.Distribution, packages: Path) -> None:
    home = Path(str(distribution.locate_file("")))
    for source in _installed(distribution, home):
        # Programs are outside, and their first line names another environment.
        if not source.is_relative_to(home):
            continue
        target = packages / source.relative_to(home)
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            os.link(source, target)
        except OSError:  # another file system
            shutil.copy2(source, target)


def _installed(distribution: importlib.metadata.Distribution, home: Path) -> list[Path]:
    listed = distribution.read_text("installed-files.txt")
    if listed is None:
        return [Path(os.path.normpath(home / file)) for file in distribution.files or ()]
    # Installed by its own setup.py: the paths are relative to its metadata folder.
    (top,) = home.glob(f"{distribution.name.replace('-', '_')}-*.egg-info")
    return [Path(os.path.normpath(top / line)) for line in listed.splitlines()]


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture
def fresh(wheel: Path) -> Iterator[Fresh]:
    """An environment with the wheel."""
    # It contains unix sockets, whose paths must be short.
    with tempfile.TemporaryDirectory(prefix="eventr ü ") as folder:
        yield Fresh(Path(folder), wheel)


@pytest.mark.timeout(400)
def test_the_wheel_runs_without_the_checkout(fresh: Fresh, eventually: Eventually) -> None:
    _run(fresh.program("python"), "-c", f"open({str(REPO / 'README.md')!r}).close()")
    assert fresh.opened() == [str(REPO / "README.md")], "the audit hook sees opened files"
    with RawServer({"/tides.xml": Reply(body=FEED)}) as site:
        up = Up(
            fresh.folder / "var",
            command=(fresh.program("eventr"), "up"),
            folder=fresh.folder,
            EVENTR_FETCH_ALLOW=site.origin,
            PATH=os.defpath,
            PYTHONUNBUFFERED="1",
        )
        try:
            up.wait_ready()
            _use(up.port, site.url("/tides.xml"), eventually)
            assert not [line for process in up.processes() for line in _held(process)]
            assert up.stop() == 0, up.report()
        finally:
            up.kill()
    assert fresh.opened() == []


def _use(port: int, address: str, eventually: Eventually) -> None:
    """Sign up, subscribe and read; request every kind of data file: styles, scripts, packs, translations."""
    browser = Browser(port)
    browser.get("/signup")
    person = {"name": "ann", "email": "ann@example.org"}
    assert browser.post("/signup", password="password123", **person) == 400, "common passwords are rejected"
    assert browser.post("/signup", password=PASSWORD, **person) == 303
    assert browser.get("/packs") == 200
    assert "/packs/science" in browser.text
    for linked in re.findall(r'(?:href|src)="(/static/[^"]+)"', browser.text):
        assert browser.get(linked) == 200
    german = urllib.request.Request(f"http://127.0.0.1:{port}/login", headers={"Accept-Language": "de"})
    with urllib.request.urlopen(german, timeout=60) as answer:
        assert "Passwort" in answer.read().decode()
    browser.get("/settings/display")
    assert browser.post("/subscribe", url=address) == 303, browser.text
    title = "High water at noon"
    eventually(lambda: browser.get("/read/all") == 200 and title in browser.text, message="the feed is read")


def _held(process: psutil.Process) -> list[str]:
    """Return the files of the checkout that a process has open or loaded, and its folder if it is there."""
    with process.oneshot():
        held = [process.exe(), process.cwd(), *(file.path for file in process.open_files())]
        held += [line.path for line in process.memory_maps()]
    return [f"{process.name()}: {path}" for path in held if path.startswith(f"{REPO}{os.sep}")]
