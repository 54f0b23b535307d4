"""Finds the tests of what changed, the nearest first, and runs those that fit into a time: ``make quick``.

A file uses those that it imports, a template those that it includes or loads, a test those that serve the
addresses it visits, and any module the files that it names. So each test file has a distance to what changed.
A test file that bears the name of a changed file (``test_tree.py`` and ``tree.css``) is as near as one that
imports it: scripts and styles are loaded by nearly every page.
"""

from __future__ import annotations

import argparse
import ast
import dataclasses
import functools
import heapq
import itertools
import json
import os
import re
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Final

import pytest

from tests.support.imports import OURS, REPO

#: Folders of Python files.
_CODE: Final = (*OURS, "tests", "bench")
#: Folders of other files that code names.
_NAMED: Final = (*OURS, "static", "docs", ".ci")
#: Tests of what no code names: pattern of a changed file → test files.
_BY_PATTERN: Final = {
    "*.md": ("tests/test_docs.py",),
    "*.po": ("tests/test_words.py", "tests/web/test_i18n.py"),
    ".ci/*": ("tests/platform/test_chromium_script.py", "tests/platform/test_clients_script.py"),
    "*.html": ("tests/test_words.py",),
    "*.js": ("tests/test_words.py", "tests/browser/test_weight.py"),
    "*.css": ("tests/browser/test_weight.py",),
    "*.py": ("tests/test_architecture.py", "tests/test_words.py"),
}
#: How much further a file is by an edge: fixtures come to many tests that don't need what is behind them.
_IMPORT, _FIXTURE = 1, 2
#: Expected seconds of a test that no run has measured, by whether its folder starts processes or browsers.
_QUICK_TEST, _SLOW_TEST, _LONG_TEST = 0.1, 3.0, 40.0
_SLOW: Final = frozenset(
    {"acceptance", "browser", "clients", "faults", "jobs", "operations", "platform", "programs"}
)
#: Seconds until the first test runs, and after the last one has begun.
_START: Final = 15.0
_QUOTED: Final = re.compile(r"""["']([\w./-]+\.(?:html|css|js|svg|txt|toml|lua|opml))["']""")
_VERBS: Final = frozenset({"get", "post", "put", "patch", "delete", "route"})
#: Where the seconds of each test are kept between runs, below .pytest_cache.
_CACHE: Final = "eventr/seconds"


@dataclasses.dataclass(frozen=True, slots=True)
class Source:
    """What a Python file says of others.

    Attributes:
        names: dotted names that it imports or has as texts.
        texts: its other texts: names of files, addresses.
        routes: addresses that it serves.
        tests: how many test functions it holds. long: how many of them are marked so.
    """

    names: frozenset[str] = frozenset()
    texts: frozenset[str] = frozenset()
    routes: frozenset[str] = frozenset()
    tests: int = 0
    long: int = 0


def read_source(text: str, module: str, *, is_package: bool = False) -> Source:
    """Read a Python file of this dotted name."""
    names, texts, routes = set(), set(), set()
    tests = long = 0
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            origin = _origin(module, node, is_package)
            names |= {origin, *(f"{origin}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and len(node.value) < 200:
            texts.add(node.value)
        elif isinstance(node, ast.FunctionDef):
            routes |= set(_routes(node))
            tests += node.name.startswith("test_")
            long += any(ast.unparse(each) == "pytest.mark.long" for each in node.decorator_list)
    return Source(frozenset(names), frozenset(texts), frozenset(routes), tests, long)


def _origin(module: str, node: ast.ImportFrom, is_package: bool) -> str:
    if not node.level:
        return node.module or ""
    parts = module.split(".")
    base = parts[: len(parts) - node.level + (1 if is_package else 0)]
    return ".".join([*base, *([node.module] if node.module else [])])


def _routes(function: ast.FunctionDef) -> Iterator[str]:
    for each in function.decorator_list:
        if isinstance(each, ast.Call) and isinstance(each.func, ast.Attribute) and each.func.attr in _VERBS:
            for given in each.args[:1]:
                if isinstance(given, ast.Constant) and isinstance(given.value, str):
                    yield given.value


class Tree:
    """The files of the repository and who uses whom.

    Args:
        texts: path below the root → text, of all files that matter.
    """

    def __init__(self, texts: Mapping[str, str]) -> None:
        self._paths = frozenset(texts)
        self._modules = {_module(path): path for path in texts if path.endswith(".py")}
        self.sources = {
            path: read_source(texts[path], module, is_package=path.endswith("__init__.py"))
            for module, path in self._modules.items()
        }
        self._by_name: defaultdict[str, set[str]] = defaultdict(set)
        for path in texts:
            pure = PurePosixPath(path)
            # A script of Redis is named without its ending.
            for name in (pure.name, pure.stem) if pure.suffix == ".lua" else (pure.name,):
                self._by_name[name].add(path)
        self._users: defaultdict[str, list[tuple[str, int]]] = defaultdict(list)
        serving = _Serving({path: source.routes for path, source in self.sources.items() if source.routes})
        for path, source in self.sources.items():
            self._note(path, self._imported(source), _IMPORT)
            self._note(path, itertools.chain.from_iterable(map(self._named, source.texts)), _IMPORT)
            if is_test(path):
                self._note(path, self._fixtures(path), _FIXTURE)
                self._note(path, serving.of(source.texts), _IMPORT)
        for path in texts:
            if not path.endswith(".py"):
                found = itertools.chain.from_iterable(map(self._named, _QUOTED.findall(texts[path])))
                self._note(path, found, _IMPORT)

    @property
    def tests(self) -> list[str]:
        """All test files."""
        return sorted(filter(is_test, self._paths))

    def distances(self, changed: Collection[str]) -> dict[str, int]:
        """Return how far each test file that depends on one of these files is from the nearest of them."""
        best: dict[str, int] = {}
        queue = [(0, path) for path in changed]
        while queue:
            distance, path = heapq.heappop(queue)
            if path in best:
                continue
            best[path] = distance
            users = self._users[path]
            if path.endswith("/__init__.py"):
                # Whoever imports a part of a package runs this as well.
                users = [*users, *((part, _IMPORT) for part in self._paths if self._is_in(part, path))]
            for user, further in users:
                heapq.heappush(queue, (distance + further, user))
        for path in changed:
            best |= {test: min(_IMPORT, best.get(test, _IMPORT)) for test in self._namesakes(path)}
        return {path: distance for path, distance in best.items() if is_test(path) and path in self._paths}

    def _note(self, user: str, used: Iterable[str], further: int) -> None:
        for path in set(used) - {user}:
            self._users[path].append((user, further))

    def _imported(self, source: Source) -> Iterator[str]:
        for name in source.names | {text for text in source.texts if "." in text}:
            if name in self._modules:
                yield self._modules[name]

    def _named(self, text: str) -> Iterator[str]:
        """Yield the files that a text names: by their name, or by the end of their path."""
        for path in self._by_name.get(text.rsplit("/", 1)[-1], ()):
            if not path.endswith(".py") and f"/{path}".endswith((f"/{text}", f"/{text}.lua")):
                yield path

    def _fixtures(self, test: str) -> Iterator[str]:
        for folder in PurePosixPath(test).parents:
            if (path := f"{folder}/conftest.py") in self._paths:
                yield path

    def _is_in(self, path: str, package: str) -> bool:
        return path != package and path.startswith(package.removesuffix("__init__.py"))

    def _namesakes(self, changed: str) -> Iterator[str]:
        stem = _flat(changed)
        yield from (test for test in self.tests if _alike(stem, _flat(test).removeprefix("test")))
        for pattern, tests in _BY_PATTERN.items():
            if PurePosixPath(changed).match(pattern):
                yield from (test for test in tests if test in self._paths)


class _Serving:
    """Which modules serve an address."""

    def __init__(self, routes: Mapping[str, Iterable[str]]) -> None:
        self._by_head: defaultdict[str, set[str]] = defaultdict(set)
        for path, rules in routes.items():
            for rule in rules:
                self._by_head[_head(rule)].add(path)

    def of(self, texts: Iterable[str]) -> set[str]:
        heads = {_head(text) for text in texts if text.startswith("/") and len(text) > 1}
        return set().union(*(self._by_head.get(head, ()) for head in heads - {""}))


def _head(address: str) -> str:
    """Return what of an address is the same for all that one rule serves."""
    return re.split(r"[<?#{@]|/\d", address, maxsplit=1)[0].rstrip("/")


def _flat(path: str) -> str:
    return re.sub(r"[_-]", "", PurePosixPath(path).stem)


def _alike(one: str, other: str) -> bool:
    """Whether one name begins with the other: ``treemove.js`` belongs to ``test_tree.py``."""
    short, long = sorted((one.removesuffix("s"), other.removesuffix("s")), key=len)
    return len(short) > 2 and long.startswith(short)


def is_test(path: str) -> bool:
    return path.startswith("tests/") and PurePosixPath(path).name.startswith("test_") and path.endswith(".py")


def _module(path: str) -> str:
    parts = PurePosixPath(path).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@functools.cache
def tree() -> Tree:
    """Return the tree of this repository."""
    paths = [p for folder in _CODE for p in (REPO / folder).rglob("*.py")]
    paths += [
        p for folder in _NAMED for p in (REPO / folder).rglob("*") if p.suffix in _TEXTS and p.is_file()
    ]
    return Tree({str(p.relative_to(REPO)): p.read_text("utf-8") for p in paths if "vendor" not in p.parts})


_TEXTS: Final = frozenset({".html", ".css", ".js", ".svg", ".txt", ".toml", ".lua", ".opml", ".md"})


def choose(
    distances: Mapping[str, int], seconds: Mapping[str, float], budget: float
) -> tuple[list[str], list[str]]:
    """Return the test files that fit into a budget of seconds, the nearest first, and those that do not.

    The nearest is run whatever it takes: its tests end with the time, in their order.
    """
    ordered = sorted(distances, key=lambda path: (distances[path], seconds[path], path))
    chosen: list[str] = []
    left: list[str] = []
    for path in ordered:
        if not chosen or seconds[path] <= budget:
            budget -= seconds[path]
            chosen.append(path)
        else:
            left.append(path)
    return chosen, left


def expected(path: str, source: Source, measured: Mapping[str, float]) -> float:
    """Return how many seconds a test file takes: what a run measured, else by its kind and size."""
    if path in measured:
        return measured[path]
    each = _SLOW_TEST if _SLOW & set(PurePosixPath(path).parts) else _QUICK_TEST
    return each * (source.tests - source.long) + _LONG_TEST * source.long


def changed(root: Path = REPO) -> list[str]:
    """Return the files that differ from where this branch left its upstream, new ones among them.

    Without an upstream those that are not committed count; without any, those of the last commit.
    """
    upstream = _git(root, "rev-parse", "--abbrev-ref", "--symbolic-full-name", "@{upstream}")
    base = (upstream and _git(root, "merge-base", "HEAD", upstream[0])) or ["HEAD"]
    new = _git(root, "ls-files", "--others", "--exclude-standard")
    found = _git(root, "diff", "--name-only", "--no-renames", base[0]) + new
    return sorted(set(found or _git(root, "diff", "--name-only", "--no-renames", "HEAD~1", "HEAD")))


def _git(root: Path, *arguments: str) -> list[str]:
    done = subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, text=True)
    return done.stdout.splitlines() if done.returncode == 0 else []


class Seconds:
    """Keeps how long each test file took, for the next choice."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._spent: defaultdict[str, float] = defaultdict(float)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._spent[report.nodeid.split("::")[0]] += report.duration

    def pytest_sessionfinish(self) -> None:
        cache = getattr(self._config, "cache", None)
        if cache is None:
            return
        known = cache.get(_CACHE, {})
        whole = _runs_whole_files(self._config)
        spent = {
            path: round(seconds if whole else max(seconds, known.get(path, 0.0)), 2)
            for path, seconds in self._spent.items()
        }
        cache.set(_CACHE, known | spent)


def _runs_whole_files(config: pytest.Config) -> bool:
    left_out = [config.getoption(name, None) for name in ("keyword", "markexpr", "until", "maxfail")]
    return not any(left_out) and not any("::" in each for each in config.args)


class Deadline:
    """Begins no test after a moment, seconds since 1970, and says how many that are."""

    def __init__(self, until: float) -> None:
        self._until = until
        self._found = self._begun = 0

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self) -> bool | None:
        return True if time.time() > self._until else None

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self._found = max(self._found, len(session.items))

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: Sequence[str]) -> None:
        self._found = max(self._found, len(ids))

    def pytest_runtest_logstart(self) -> None:
        self._begun += 1

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if left := self._found - self._begun:
            terminalreporter.write_line(f"{left} of {self._found} tests were not begun")


def plan(changed: Sequence[str], measured: Mapping[str, float], budget: float) -> tuple[list[str], list[str]]:
    """Return the test files of these changes to run within a budget, and those that are left out."""
    found = tree()
    distances = found.distances(changed)
    seconds = {path: expected(path, found.sources[path], measured) for path in distances}
    return choose(distances, seconds, budget)


def main(arguments: Sequence[str]) -> int:
    """Run pytest on the tests of what changed; what follows ``--`` is for pytest."""
    parser = argparse.ArgumentParser(prog="affected", description="Run the tests of what changed.")
    parser.add_argument("--seconds", type=float, default=90.0, help="the time there is")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--list", action="store_true", help="only print the test files")
    parser.add_argument("rest", nargs="*", help="for pytest")
    given = parser.parse_args(arguments)
    started = time.time()
    files = changed()
    cache = REPO / ".pytest_cache" / "v" / _CACHE
    measured = read_seconds(cache)
    cores = min(given.jobs, os.cpu_count() or 1)
    chosen, left = plan(files, measured, max(1.0, given.seconds - _START) * cores)
    if given.list:
        print("\n".join(chosen))
        return 0
    print(
        f"{len(files)} files changed: {len(chosen)} test files to run, {len(left)} further away are left out"
    )
    if not chosen:
        return 0
    # Whole files in their order: the nearest first, and neighbours share what they start.
    command = ["-n", str(cores), "--dist", "loadfile", "--no-loadscope-reorder", "-p", "no:randomly"]
    command += ["-x", "--failed-first", "-q", f"--until={started + given.seconds - _START}"]
    code = pytest.main([*command, *given.rest, *chosen])
    return 0 if code == pytest.ExitCode.NO_TESTS_COLLECTED else int(code)


def read_seconds(cache: Path) -> dict[str, float]:
    """Return the seconds that test files took, by path."""
    return dict(json.loads(cache.read_text())) if cache.exists() else {}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
