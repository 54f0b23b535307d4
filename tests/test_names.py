"""Names that a stranger can search for: public functions are verbs, parameters say what they hold."""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import imports

#: One-word names that say what a function does once class and module are known.
VERBS = frozenset((Path(__file__).parent / "support/verbs.txt").read_text("utf-8").split())
#: Module → names that another interface dictates: logging, gettext, RQ, random, io, click, pymongo.
FOREIGN = {
    "app.feeds.archives.markup": {"data"},  # lxml
    "app.adapters.media.drawing": {"seek", "tell"},
    "app.cli": {"cli", "feed", "opml"},
    "app.clock": {"now"},  # read as a value everywhere, and replaced under this name in tests
    "app.commands.doctor": {"doctor"},
    "app.commands.processes": {"manager", "controller", "updater", "web"},
    "app.commands.settings": {"settings"},
    "app.commands.media": {"media", "stats"},
    "app.commands.gunicorn_log": {"setup"},
    "app.commands.unread": {"fileno", "sendall"},
    "app.commands.up": {"handleError"},
    "app.commands.user": {"user"},
    "app.feeds.archives.unpack": {"seek", "tell", "seekable"},
    "app.gateways.feeds.digest": {"random"},
    "app.gateways.privacy.zip_writer": {"writable"},
    "app.mappers.mongo.write_listener": {"started", "succeeded", "failed"},
    "app.mappers.mongo.cell_client": {"started", "succeeded", "failed"},
    "app.logs": {"debug", "info", "warning", "error"},
    "app.monitoring.metrics": {"collect"},
    "app.runtime.redis_connections": {"aclose"},
    "app.runtime.pieces": {"readable", "readinto"},
    "app.services.notifications.texts": {"gettext", "ngettext"},
    "app.web.view.i18n": {"gettext", "ngettext"},
    "app.web.view.imports": {"ngettext"},
    "queue_manager.metrics": {"aclose"},
    "workers.worker": {"work"},
}
#: Parameters that hide what they hold → what to call them instead.
VAGUE = {
    "goal": "next_url, target",
    "most": "limit",
    "whom": "recipient, user_id",
}


@dataclasses.dataclass(frozen=True)
class Function:
    """One function or method, ``words`` being its name split at the underscores."""

    module: str
    line: int
    name: str
    parameters: tuple[str, ...]
    is_property: bool

    def __str__(self) -> str:
        return f"{self.module}:{self.line} {self.name}"


_LIKE_ATTRIBUTES = {"property", "cached_property", "lazy"}


def _functions(module: str, source: str) -> Iterator[Function]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            a = node.args
            parameters = tuple(arg.arg for arg in (*a.posonlyargs, *a.args, *a.kwonlyargs))
            decorators = {
                n.id if isinstance(n, ast.Name) else n.attr
                for d in node.decorator_list
                for n in ast.walk(d)
                if isinstance(n, ast.Name | ast.Attribute)
            }
            is_property = bool(decorators & _LIKE_ATTRIBUTES) or "setter" in decorators
            yield Function(module, node.lineno, node.name, parameters, is_property)


def _nouns(module: str, source: str) -> list[str]:
    """Return the public one-word functions that neither are verbs nor stand in for attributes."""
    return [
        str(f)
        for f in _functions(module, source)
        if not f.name.startswith("_")
        and "_" not in f.name
        and not f.is_property
        and f.name not in VERBS
        and f.name not in FOREIGN.get(module, ())
    ]


def _vague(module: str, source: str) -> list[str]:
    return [
        f"{f}: {parameter} → {VAGUE[parameter]}"
        for f in _functions(module, source)
        for parameter in f.parameters
        if parameter in VAGUE
    ]


#: Beyond these a call is a row of values that nobody can read: the rest is passed by keyword.
MOST_POSITIONAL = 5


def _crowded(module: str, source: str) -> list[str]:
    return [
        f"{module}:{node.lineno} {node.name}"
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and len([a for a in (*node.args.posonlyargs, *node.args.args) if a.arg not in ("self", "cls")])
        > MOST_POSITIONAL
    ]


def test_functions_take_few_positional_arguments() -> None:
    found = [line for module, path in imports.modules() for line in _crowded(module, path.read_text("utf-8"))]
    assert not found, "\n".join(found)
    assert _crowded("app.cli", "class A:\n    def f(self, a, b, c, d, e, f): ...")
    assert not _crowded("app.cli", "class A:\n    def f(self, a, b, c, d, e, *, f): ...")


def test_public_functions_are_verbs() -> None:
    found = [line for module, path in imports.modules() for line in _nouns(module, path.read_text("utf-8"))]
    assert not found, "\n".join(found)


def test_parameters_say_what_they_hold() -> None:
    found = [line for module, path in imports.modules() for line in _vague(module, path.read_text("utf-8"))]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    "source",
    [
        "def page(): ...",
        "class A:\n    def of(self): ...",
        "def load():\n    def work(session): ...",
        "async def due(): ...",
    ],
)
def test_a_noun_is_caught(source: str) -> None:
    assert len(_nouns("app.services.feeds.pull", source)) == 1


@pytest.mark.parametrize(
    "source",
    [
        "def load_page(): ...",
        "def _page(): ...",
        "def share(): ...",
        "class A:\n    @property\n    def page(self): ...",
        "class A:\n    @lazy\n    def gateways(self): ...",
    ],
)
def test_a_verb_an_attribute_and_a_helper_pass(source: str) -> None:
    assert _nouns("app.services.feeds.pull", source) == []


def test_a_foreign_name_passes_in_its_module_only() -> None:
    assert _nouns("workers.worker", "def work(): ...") == []
    assert _nouns("workers.loop", "def work(): ...")


def test_each_foreign_name_is_still_needed() -> None:
    used = {
        (module, f.name)
        for module, path in imports.modules()
        for f in _functions(module, path.read_text("utf-8"))
    }
    assert {(module, name) for module, names in FOREIGN.items() for name in names} - used == set()


def test_a_vague_parameter_is_caught() -> None:
    assert _vague("app.services.feeds.pull", "def list_feeds(most): ...")
    assert _vague("app.services.feeds.pull", "def list_feeds(limit): ...") == []
