"""Which tests ``make quick`` runs after a change, and how many of them."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support import affected
from tests.support.affected import Source, Tree
from tests.support.imports import REPO

pytest_plugins = ["pytester"]

_TREE = {
    "app/__init__.py": "",
    "app/feeds/__init__.py": "",
    "app/feeds/schedule.py": "TTL = 60",
    "app/feeds/pull.py": "from app.feeds import schedule",
    "app/feeds/late.py": "def late():\n    from .schedule import TTL",
    "app/jobs.py": "SCRIPT = 'enqueue'",
    "app/enqueue.lua": "return 1",
    "app/web/search.py": "@bp.get('/search/<int:number>')\ndef show(): return render('pages/search.html')",
    "app/web/templates/pages/search.html": "{% include 'parts/row.html' %}{{ asset('search.css') }}",
    "app/web/templates/parts/row.html": "<p>",
    "static/css/search.css": "p {}",
    "static/js/treemove.js": "import './net.js'",
    "static/js/net.js": "",
    "workers/main.py": "from app.feeds.pull import run",
    "tests/conftest.py": "from app import jobs",
    "tests/support/starts.py": "COMMAND = ['-c', 'workers.main']",
    "tests/feeds/test_schedule.py": "from app.feeds.schedule import TTL\ndef test_one(): pass",
    "tests/feeds/test_pull.py": "from app.feeds import pull\ndef test_one(): pass",
    "tests/feeds/test_late.py": "import app.feeds.late",
    "tests/jobs/test_workers.py": "from tests.support import starts",
    "tests/browser/test_tree.py": "",
    "tests/browser/test_find.py": "def test_find(page):\n    page.goto('/search/17?q=x')",
    "tests/test_docs.py": "",
}


@pytest.fixture(scope="module")
def small() -> Tree:
    return Tree(_TREE)


@pytest.mark.parametrize(
    ("changed", "found"),
    [
        ("app/feeds/schedule.py", {"test_schedule": 1, "test_late": 2, "test_pull": 2, "test_workers": 4}),
        ("app/feeds/__init__.py", {"test_pull": 1, "test_schedule": 2, "test_late": 2, "test_workers": 4}),
        ("tests/support/starts.py", {"test_workers": 1}),
        ("tests/feeds/test_late.py", {"test_late": 0}),
        ("app/web/search.py", {"test_find": 1}),
        ("app/web/templates/parts/row.html", {"test_find": 3}),
        ("static/css/search.css", {"test_find": 3}),
        ("static/js/treemove.js", {"test_tree": 1}),
        ("docs/settings.md", {"test_docs": 1}),
        ("app/nowhere.py", {}),
    ],
)
def test_a_change_reaches_the_tests_that_depend_on_it(
    small: Tree, changed: str, found: dict[str, int]
) -> None:
    distances = small.distances([changed])
    assert {Path(path).stem: distance for path, distance in distances.items()} == found


def test_a_fixture_reaches_all_tests_below_its_folder(small: Tree) -> None:
    assert set(small.distances(["tests/conftest.py"])) == set(small.tests)
    assert set(small.distances(["app/enqueue.lua"])) == set(small.tests), "by the module that loads it"


def test_of_several_changes_the_nearest_counts(small: Tree) -> None:
    distances = small.distances(["app/feeds/schedule.py", "app/feeds/pull.py"])
    assert distances["tests/feeds/test_pull.py"] == 1


def test_a_deleted_test_is_not_run(small: Tree) -> None:
    assert small.distances(["tests/feeds/test_gone.py"]) == {}


def test_the_nearest_that_fit_are_chosen() -> None:
    distances = {"far": 3, "near": 1, "also-near": 1, "middle": 2}
    seconds = {"far": 1.0, "near": 20.0, "also-near": 30.0, "middle": 60.0}
    assert affected.choose(distances, seconds, 60) == (["near", "also-near", "far"], ["middle"])


def test_the_nearest_is_run_whatever_it_takes() -> None:
    assert affected.choose({"long": 0, "other": 1}, {"long": 99.0, "other": 1.0}, 60) == (["long"], ["other"])


def test_a_file_takes_as_long_as_measured_or_as_its_kind() -> None:
    source = Source(tests=5, long=1)
    assert affected.expected("tests/web/test_one.py", source, {"tests/web/test_one.py": 7.5}) == 7.5
    quick = affected.expected("tests/web/test_one.py", Source(tests=5), {})
    assert quick < affected.expected("tests/browser/test_one.py", Source(tests=5), {})
    assert affected.expected("tests/browser/test_one.py", source, {}) > 40


def test_every_test_file_of_ours_is_known() -> None:
    tree = affected.tree()
    assert "tests/test_affected.py" in tree.tests
    assert tree.distances(["tests/support/affected.py"])["tests/test_affected.py"] == 1
    assert set(tree.distances(["tests/conftest.py"])) == set(tree.tests)


class _Repository:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.git("init", "--quiet", "--initial-branch=main")
        self.git("config", "user.email", "ann@example.org")
        self.git("config", "user.name", "Ann")

    def git(self, *arguments: str) -> None:
        subprocess.run(["git", "-C", str(self.root), *arguments], check=True, capture_output=True)

    def commit(self, name: str) -> None:
        (self.root / name).write_text(name)
        self.git("add", name)
        self.git("commit", "--quiet", "--message", name)

    def changed(self) -> list[str]:
        return affected.changed(self.root)


def test_what_changed_is_told_by_git(tmp_path: Path) -> None:
    repository = _Repository(tmp_path)
    repository.commit("first")
    repository.commit("second")
    assert repository.changed() == ["second"], "nothing is open: the last commit"
    (tmp_path / "new").write_text("")
    (tmp_path / "first").unlink()
    assert repository.changed() == ["first", "new"], "what is not committed"
    repository.git("checkout", "--quiet", "first")
    repository.git("checkout", "--quiet", "-b", "topic", "--track", "main")
    repository.commit("third")
    repository.commit("fourth")
    assert repository.changed() == ["fourth", "new", "third"], "since the upstream"


_TWO = "def test_one(): pass\ndef test_two(): pass"


@pytest.mark.parametrize(("seconds", "passed"), [(600, 2), (-1, 0)])
def test_no_test_begins_after_the_deadline(pytester: pytest.Pytester, seconds: float, passed: int) -> None:
    pytester.makepyfile(_TWO)
    result = pytester.inline_run("-p", "no:randomly", plugins=[affected.Deadline(time.time() + seconds)])
    assert len(result.getcalls("pytest_runtest_logstart")) == passed


def test_tests_that_were_not_begun_are_told_by_parallel_runs_too(tmp_path: Path) -> None:
    (tmp_path / "test_two.py").write_text(_TWO)
    (tmp_path / "conftest.py").write_text("from tests.conftest import pytest_addoption, pytest_configure")
    command = [sys.executable, "-m", "pytest", "-n", "1", f"--until={time.time() - 1}"]
    options = ["-p", "no:cacheprovider", "--confcutdir", str(tmp_path), str(tmp_path)]
    done = subprocess.run([*command, *options], cwd=REPO, capture_output=True, text=True)
    assert "2 of 2 tests were not begun" in done.stdout, done.stdout + done.stderr


class _Keep:
    """Registers what keeps seconds, in a run inside a test."""

    def pytest_configure(self, config: pytest.Config) -> None:
        config.pluginmanager.register(affected.Seconds(config))


def test_seconds_of_whole_files_are_kept(pytester: pytest.Pytester) -> None:
    test = pytester.makepyfile(_TWO)
    kept = pytester.path / ".pytest_cache" / "v" / "eventr" / "seconds"

    def run(*arguments: str) -> float:
        pytester.inline_run(*arguments, plugins=[_Keep()])
        return affected.read_seconds(kept)[test.name]

    assert run() < 60
    kept.write_text(json.dumps({test.name: 70, "test_other.py": 3}))
    assert run(f"{test.name}::test_one") == 70, "a part of a file says nothing of the whole"
    assert run() < 60
    assert affected.read_seconds(kept)["test_other.py"] == 3
