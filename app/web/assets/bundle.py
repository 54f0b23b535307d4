"""Joins ES modules into one file at startup, so that a page needs one request and no build step.

The conventions of ``static/js`` reduce this to two patterns. Each import is one line:
``import { a, b } from "./file.js";``, ``import * as file from "./file.js";`` or ``import "./file.js";``.
Imported names keep their names. Exports are ``export function``, ``export async function``,
``export const`` or ``export class``.
Each module keeps its own scope.

Code for a single screen is in ``static/js/screens``, one file per screen, loaded after the main bundle.
There, ``import { t } from "../words.js";`` uses the module that is already running.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

_IMPORT = re.compile(
    r'^import (?:(?:\* as )?(\{ ?\w+(?:, \w+)* ?\}|\w+) from )?"\.{1,2}/([\w-]+)\.js";$', re.M
)
_EXPORT = re.compile(r"^export (?=(?:async function|function|const|class) (\w+))", re.M)
_NAME = re.compile(r"^export (?:async function|function|const|class) (\w+)", re.M)
#: Where the scripts of screens find the modules of the main bundle.
_SHARED = "globalThis.eventrModules"
_COMMENT = re.compile(r"^[ \t]*(?://.*|/\*\*?(?:.|\n)*?\*/)[ \t]*\n", re.M)
_INDENT = re.compile(r"^[ \t]+", re.M)
_BLANK = re.compile(r"\A\n*|\n{2,}")
#: A stylesheet's strings, which stay as they are, and the spaces that say nothing.
_STRING = re.compile(r'("[^"\n]*")')
_SPACES = re.compile(r"\s+")
_EMPTY = re.compile(r" ?([{};]) ?|(:|,) ")


def bundle_javascript(modules: Mapping[str, str], entry: str) -> str:
    """Return one script from modules by name (without ``.js``), the entry module last.

    Raises:
        ValueError: An import doesn't follow the convention, or imports form a cycle.
    """
    order = _order(modules, entry)
    names = ", ".join(_variable(name) for name in order if _NAME.search(modules[name]))
    return "".join(_wrapped(name, modules[name]) for name in order) + f"{_SHARED} = {{ {names} }};\n"


def bundle_screen(modules: Mapping[str, str], entry: str, name: str, source: str) -> str:
    """Return the script of one screen, to be loaded after the bundle of ``entry``.

    Args:
        modules: All modules by name. Those that ``entry`` doesn't include are added to the script.
        entry: The entry module of the main bundle.
        name: The name of the screen.
        source: The source of the screen's script.

    Raises:
        ValueError: As above, or the screen has the name of a module and would be ignored.
    """
    if name in modules:
        raise ValueError(f"static/js/screens/{name}.js has the name of a module")
    running = _order(modules, entry)
    order = _order({**modules, name: source}, name)
    shared = [n for n in order if n in running and _NAME.search(modules[n])]
    taken = "".join(f"const {_variable(n)} = {_SHARED}.{_variable(n)};\n" for n in shared)
    own = {**modules, name: source}
    return taken + "".join(_wrapped(n, own[n]) for n in order if n not in running)


def _order(modules: Mapping[str, str], entry: str) -> list[str]:
    order: list[str] = []
    _visit(entry, modules, order, ())
    return order


def _visit(name: str, modules: Mapping[str, str], order: list[str], path: tuple[str, ...]) -> None:
    if name in path:
        raise ValueError(f"static/js: {' → '.join((*path, name))} is a circle")
    if name in order:
        return
    for match in _IMPORT.finditer(modules[name]):
        _visit(match[2], modules, order, (*path, name))
    order.append(name)


def _wrapped(name: str, source: str) -> str:
    exports = ", ".join(_NAME.findall(source))
    body = _IMPORT.sub(lambda m: f"const {m[1]} = {_variable(m[2])};" if m[1] else "", source)
    body = _EXPORT.sub("", body)
    if re.search(r"^(?:import|export)\b", body, re.M):
        raise ValueError(f"static/js/{name}.js has an import or export that the bundle does not know")
    body = _BLANK.sub("\n", _INDENT.sub("", _COMMENT.sub("", body)))
    if not exports:
        return f"(() => {{{body}}})();\n"
    return f"const {_variable(name)} = (() => {{{body}return {{ {exports} }};\n}})();\n"


def _variable(name: str) -> str:
    return "m_" + name.replace("-", "_")


def bundle_stylesheet(parts: list[str]) -> str:
    """Return one stylesheet without comments and without spaces that say nothing."""
    css = re.sub(r"/\*.*?\*/", "", "".join(parts), flags=re.S)
    pieces = _STRING.split(css)
    pieces[::2] = [_EMPTY.sub(r"\1\2", _SPACES.sub(" ", piece)) for piece in pieces[::2]]
    return "".join(pieces).replace(";}", "}").strip() + "\n"
