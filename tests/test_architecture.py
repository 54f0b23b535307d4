"""Rules that hold for all of the source, each with a proof that a breach is caught."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import imports
from tests.support.imports import REPO

#: The one template in which sanitised HTML is marked as safe (security.md H04).
SAFE_TEMPLATE = "macros/"
#: The modules that build HTML from escaped parts themselves: rows of trees and lists cost too much
#: as a template.
SAFE_MODULES = tuple(f"app.web.view.{name}" for name in ("faces", "pictures", "players", "rows", "tree"))


def test_nobody_imports_what_his_layer_may_not() -> None:
    found = [
        str(breach)
        for module, path in imports.modules()
        for breach in imports.breaches(module, path.read_text("utf-8"), is_package=path.stem == "__init__")
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("module", "line"),
    [
        ("app.models.feeds.feed", "from app.feeds import urls"),
        ("app.errors", "import app.mappers.feeds.feeds"),
        ("app.feeds.parse.core", "from app.mappers import feeds"),
        ("app.feeds.schedule", "import pymongo"),
        ("app.feeds.identity", "def f():\n    import socket"),
        ("app.feeds.html.sanitize", "import pycurl"),
        ("app.mappers.feeds.feeds", "from app.gateways.feeds.feeds import FeedGateway"),
        ("app.mappers.feeds.feeds", "from ...gateways import feeds"),
        ("app.gateways.feeds.feeds", "from pymongo import MongoClient"),
        ("app.gateways.feeds.feeds", "from app import services"),
        ("app.services.reading.reading", "from app.mappers import subscriptions"),
        ("app.services.reading.reading", "from flask import abort"),
        ("app.services.reading.reading", "import redis"),
        ("app.web.pages.read", "from app.gateways import feeds"),
        ("app.web.pages.read", "from app.bootstrap.services import build"),
        ("app.web.pages.read", "import rq"),
        ("workers.tasks.feeds", "from app.mappers import feeds"),
        ("workers.tasks.feeds", "from controller import hub"),
        ("workers.tasks.feeds", "import pickle"),
        ("queue_manager.main", "from app.bootstrap.services import build"),
        ("queue_manager.main", "import workers.registry"),
        ("controller.main", "from app.services import reading"),
        ("controller.main", "import rq.job"),
        ("app", "from app.gateways import feeds"),
        ("app.unlisted", "import app.models"),
    ],
)
def test_a_forbidden_import_is_caught(module: str, line: str) -> None:
    assert imports.breaches(module, line)


@pytest.mark.parametrize(
    ("module", "line"),
    [
        (
            "app.feeds.parse.core",
            "from app.feeds.html.text import plain\nfrom app import errors\nimport json",
        ),
        ("app.feeds.fetch.curl_loop", "import pycurl, socket"),
        ("app.mappers.feeds.feeds", "import pymongo.errors\nfrom . import ids"),
        ("app.gateways.feeds.feeds", "from app.feeds import identity\nfrom app.mappers import feeds"),
        ("app.web.context", "from app.bootstrap.services import Services\nfrom flask import g"),
        ("app.commands.up", "from workers import updater\nimport pymongo"),
        (
            "workers.tasks.feeds",
            "from app.bootstrap.services import build\nfrom controller.client import ResultReader",
        ),
        ("app", "from flask import Flask\nfrom app import bootstrap"),
    ],
)
def test_an_allowed_import_passes(module: str, line: str) -> None:
    assert imports.breaches(module, line) == []


def test_domains_import_only_what_comes_after_them() -> None:
    found = {
        backward
        for module, path in imports.modules()
        for backward in imports.find_backward_imports(
            module, path.read_text("utf-8"), is_package=path.stem == "__init__"
        )
    }
    assert found - imports.BACKWARD == set(), "a domain imports one that stands before it"
    assert imports.BACKWARD - found == set(), "mended: take it off the list, which may only shrink"
    assert len(imports.BACKWARD) <= 10
    assert len(imports.LAYERS) <= 26


#: Who else may read the flag: they store it, show it, or copy it from the relationship.
_MUTE_FIELDS = {
    "app.models.subscriptions.muting",
    "app.gateways.privacy.personal_data",
    "app.gateways.sharing.follows",
    "app.gateways.sharing.trends",
    "app.gateways.subscriptions.subscriptions",
    "app.mappers.subscriptions.undo",
    "app.web.api.rest.people",
}


def test_what_a_mute_hides_is_decided_in_one_module() -> None:
    readers = {
        module
        for module, path in imports.modules()
        for node in _nodes(path, {".muted"})
        if isinstance(node, ast.Attribute) and node.attr == "muted"
    }
    assert readers == _MUTE_FIELDS


def test_every_folder_of_gateways_and_services_is_a_domain() -> None:
    for layer in ("gateways", "services"):
        folders = {p.name for p in (REPO / "app" / layer).iterdir() if p.is_dir() and p.name != "__pycache__"}
        assert folders <= set(imports.DOMAINS)


@pytest.mark.parametrize(
    ("module", "line", "found"),
    [
        ("app.gateways.feeds.feeds", "from app.gateways.reading.tags import TagGateway", True),
        ("app.services.reading.tags", "from app.services.sync import marks", True),
        ("app.gateways.reading.tags", "from app.gateways.feeds.feeds import FeedGateway", False),
        ("app.services.reading.tags", "from app.gateways.sync.items import SyncItemGateway", False),
    ],
)
def test_an_import_against_the_order_of_domains_is_caught(module: str, line: str, found: bool) -> None:
    assert bool(imports.find_backward_imports(module, line)) is found


_IMPORT_ALL = """
import importlib, pkgutil, sys, threading
BAD = {"socket.connect", "socket.bind", "socket.getaddrinfo", "subprocess.Popen", "os.fork", "os.posix_spawn"}
def watch(event, args):
    # ctypes and platform ask the linker at import, in libraries of others; that reaches no network.
    if event in BAD:
        print(f"{importing}: {event} {args!r}", file=sys.stderr)
        raise RuntimeError(event)
importing = ""
sys.addaudithook(watch)
count = 0
for top in ("app", "workers", "queue_manager", "controller"):
    package = importlib.import_module(top)
    for info in pkgutil.walk_packages(package.__path__, top + "."):
        if not info.name.endswith("__main__"):
            importing = info.name
            importlib.import_module(info.name)
            count += 1
assert threading.active_count() == 1, threading.enumerate()
print(count)
"""


def _import_all(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code], cwd=REPO, capture_output=True, text=True, timeout=120, check=False
    )


def test_nothing_connects_or_starts_at_import() -> None:
    done = _import_all(_IMPORT_ALL)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 50


def test_a_connection_at_import_is_caught() -> None:
    probe = "import socket\ntry: socket.socket().connect(('127.0.0.1', 9))\nexcept OSError: pass\n"
    done = _import_all(_IMPORT_ALL.replace("count = 0\n", f"count = 0\n{probe}"))
    assert "socket.connect" in done.stderr
    assert done.returncode != 0


def test_a_worker_holds_nothing_that_only_other_processes_use() -> None:
    code = "import sys, workers.main, workers.registry; workers.registry.load_tasks(); print(*sys.modules)"
    done = _import_all(code)
    assert done.returncode == 0, done.stderr
    loaded = set(done.stdout.split())
    assert "feedparser" in loaded
    heavy = {"flask", "jinja2", "bleach", "cryptography.x509", "apprise", "prompt_toolkit", "msgspec"}
    assert loaded & heavy == set()


def _templates() -> Iterator[tuple[str, str]]:
    folder = REPO / "app" / "web" / "templates"
    for path in sorted(folder.rglob("*.html")):
        yield str(path.relative_to(folder)), path.read_text("utf-8")


_UNSAFE = re.compile(r"\|\s*safe\b|autoescape\s+false|\bMarkup\(")


def test_H04_html_is_marked_safe_in_one_macro_only() -> None:
    places = [(name, m.start()) for name, text in _templates() for m in _UNSAFE.finditer(text)]
    assert len(places) <= 1, places
    assert all(name.startswith(SAFE_TEMPLATE) for name, _ in places), places
    assert list(_templates()), "there are templates to look at"


def test_H04_python_marks_no_html_as_safe_beside_the_templates() -> None:
    found = [
        f"{module}:{node.lineno}"
        for module, path in imports.modules()
        if module not in SAFE_MODULES
        for node in _nodes(path, {"Markup"})
        if isinstance(node, ast.Call)
        and _name(node.func) == "Markup"
        # A literal of ours is no foreign HTML; what is put into it by format() is escaped.
        and not all(isinstance(arg, ast.Constant) for arg in node.args)
    ]
    assert not found


@pytest.mark.parametrize(
    "text", ["{{ x|safe }}", "{{ x | safe }}", "{% autoescape false %}", "{{ Markup(x) }}"]
)
def test_an_unsafe_template_is_caught(text: str) -> None:
    assert _UNSAFE.search(text)


def _nodes(path: Path, words: set[str]) -> Iterator[ast.AST]:
    """Yield the nodes of a file, if it has one of the words; a name is written out wherever it is used."""
    text = path.read_text("utf-8")
    if any(word in text for word in words):
        yield from ast.walk(ast.parse(text))


def _tests(words: set[str]) -> Iterator[tuple[Path, ast.Module]]:
    """Yield the test files that have one of the words; to parse them all takes ten times as long."""
    for path in sorted((REPO / "tests").rglob("*.py")):
        text = path.read_text("utf-8")
        if any(word in text for word in words):
            yield path.relative_to(REPO), ast.parse(text)


def _name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


_SKIPS = {"skip", "skipif", "xfail", "importorskip", "skipTest", "skipIf", "skipUnless"}


def _skips(tree: ast.Module) -> list[int]:
    return [
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and node.attr in _SKIPS
        and _name(node.value) in {"pytest", "mark", "unittest", "self"}
    ]


def _sleeps(tree: ast.Module) -> list[int]:
    # Between two looks at a condition a pause is no guess about how long something takes.
    polls = {
        id(node)
        for loop in ast.walk(tree)
        if isinstance(loop, ast.While) and not isinstance(loop.test, ast.Constant)
        for node in ast.walk(loop)
    }
    return [
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and _name(node.func) == "sleep"
        and id(node) not in polls
        # sleep(0) lets another task run; that is no waiting for time to pass.
        and not (node.args and isinstance(node.args[0], ast.Constant) and node.args[0].value == 0)
    ]


def test_no_test_is_skipped() -> None:
    found = [f"{path}:{line}" for path, tree in _tests(_SKIPS) for line in _skips(tree)]
    assert not found


def test_no_test_sleeps() -> None:
    # Servers in tests/support may be slow on purpose.
    tests = [(path, tree) for path, tree in _tests({"sleep"}) if "support" not in path.parts]
    found = [f"{path}:{line}" for path, tree in tests for line in _sleeps(tree)]
    assert not found


def test_skips_and_sleeps_are_caught() -> None:
    code = "import pytest, time\n@pytest.mark.skip\ndef test_a(): time.sleep(1)\npytest.skip('x')\n"
    assert len(_skips(ast.parse(code))) == 2
    assert len(_sleeps(ast.parse(code))) == 1
    assert _sleeps(ast.parse("while not seen: time.sleep(0.01)")) == []
    assert _sleeps(ast.parse("while True: time.sleep(0.01)")) == [1]


def test_errors_of_the_store_are_translated() -> None:
    asks = {"find", "find_one", "aggregate", "count_documents", "distinct", "bulk_write"}
    asks |= {f"{verb}_{n}" for verb in ("insert", "update", "delete") for n in ("one", "many")}
    bare = []
    for path in sorted((REPO / "app" / "mappers").rglob("*.py")):
        for made in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(made, ast.FunctionDef) or made.name.startswith("_"):
                continue
            called = {n.attr for n in ast.walk(made) if isinstance(n, ast.Attribute)}
            marked = any(isinstance(d, ast.Name) and d.id == "translate_errors" for d in made.decorator_list)
            if called & asks and not marked:
                bare.append(f"{path.stem}.{made.name}")
    assert bare == []


def test_gateways_delegate_no_more_than_today() -> None:
    found = [
        name
        for module, path in imports.modules()
        if module.startswith("app.gateways.")
        for name in imports.find_delegates(path.read_text("utf-8"))
    ]
    assert len(found) == imports.DELEGATES, f"lower the number, or do without the new method: {found}"


@pytest.mark.parametrize(
    ("body", "delegates"),
    [
        ('"""Return it."""\n        return self._rows.find(one, limit=limit)', True),
        ("self._rows.remove(one)", True),
        ("return self._rows.find(one, limit=limit + 1)", False),
        ("return self._shape(self._rows.find(one))", False),
        ("self._rows.remove(one)\n        self._log.remove(one)", False),
    ],
)
def test_a_method_that_only_delegates_is_found(body: str, delegates: bool) -> None:
    source = f"class Gateway:\n    def find(self, one, limit):\n        {body}\n"
    assert imports.find_delegates(source) == (["Gateway.find"] if delegates else [])
