"""Finds code that opens collections of people's data past the cells' routing.

All code is annotated, so a database is known by its type: what is annotated with it, what a function returns
that is, and what is named ``database``. Collections are opened by subscript, attribute, ``get_collection``, a
constructor, a command, or a stage of a pipeline.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

#: Stages name other collections with these keys.
_STAGE_KEYS = {"from", "coll", "into", "$out", "$merge", "$unionWith"}
_CONSTRUCTORS = {"Table", "Collection", "PersonTable"}
_FOR_ALL = {"read_each()", "iterate_tables()", "iterate_stores()"}
_Function = ast.FunctionDef | ast.AsyncFunctionDef


class Names(NamedTuple):
    """What all modules define.

    Attributes:
        databases: attributes that are databases; functions that return one, with ``()``.
        constants: names of constants → the texts that they have in some module.
    """

    databases: set[str]
    constants: dict[str, set[str]]


def collect_names(trees: Collection[ast.AST]) -> Names:
    """Return the databases and constants that modules define."""
    names = Names({"database"}, {})
    for tree in trees:
        for node in ast.walk(tree):
            if isinstance(node, _Function) and _is_database_type(node.returns):
                is_property = any("property" in ast.unparse(each) for each in node.decorator_list)
                names.databases.add(node.name if is_property else f"{node.name}()")
            elif isinstance(node, ast.AnnAssign) and _is_database_type(node.annotation):
                names.databases.add(_get_name(node.target))
        for statement in getattr(tree, "body", ()):
            if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Constant):
                for target in statement.targets:
                    _add_constant(names.constants, target, statement.value.value)
    return names


def _add_constant(constants: dict[str, set[str]], target: ast.expr, value: object) -> None:
    if isinstance(target, ast.Name) and isinstance(value, str):
        constants.setdefault(target.id, set()).add(value)


def _is_database_type(annotation: ast.expr | None) -> bool:
    return annotation is not None and ast.unparse(annotation).startswith("Database[")


def _get_name(node: ast.expr) -> str:
    if isinstance(node, ast.Call):
        return f"{_get_name(node.func)}()"
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def find_shortcuts(tree: ast.AST, people: Collection[str], names: Names) -> tuple[set[str], set[str]]:
    """Return the functions that may open a collection of people, and those that ask every store.

    Code outside of functions has the name ``-``.
    """
    past, for_all = set(), set()
    functions = list(_iterate_functions(tree))
    # What one method assigns to ``self`` is used by others.
    assigned = {
        local
        for _, nodes in functions
        for local in _find_local_databases(nodes, names.databases)
        if local.startswith("_")
    }
    for name, nodes in functions:
        known = names.databases | assigned
        known |= _find_local_databases(nodes, known)
        for node in nodes:
            if _opens_people(node, people, known, names.constants):
                past.add(name)
            if isinstance(node, ast.Call) and _get_name(node) in _FOR_ALL:
                for_all.add(name)
    return past, for_all


def _iterate_functions(tree: ast.AST) -> Iterator[tuple[str, list[ast.AST]]]:
    """Yield each function and method with its nodes, including nested functions, and what lies outside."""
    outside = list[ast.AST]()
    waiting = [tree]
    while waiting:
        for child in ast.iter_child_nodes(waiting.pop()):
            if isinstance(child, _Function):
                yield child.name, list(ast.walk(child))
            else:
                outside.append(child)
                waiting.append(child)
    yield "-", outside


def _find_local_databases(nodes: list[ast.AST], databases: set[str]) -> set[str]:
    found = {node.arg for node in nodes if isinstance(node, ast.arg) and _is_database_type(node.annotation)}
    while True:
        known = databases | found
        more = {
            name
            for node in nodes
            for target, value in _iterate_assignments(node)
            if _is_database(value, known)
            if (name := _get_name(target))
        }
        if more <= found:
            return found
        found |= more


def _iterate_assignments(node: ast.AST) -> Iterator[tuple[ast.expr, ast.expr]]:
    match node:
        case ast.Assign(targets=targets, value=value):
            for target in targets:
                if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
                    yield from zip(target.elts, value.elts, strict=False)
                else:
                    yield target, value
        case ast.NamedExpr(target=target, value=value):
            yield target, value
        case ast.For(target=target, iter=ast.Tuple(elts=values) | ast.List(elts=values)):
            yield from ((target, value) for value in values)
        case ast.comprehension(target=target, iter=ast.Tuple(elts=values) | ast.List(elts=values)):
            yield from ((target, value) for value in values)


def _is_database(node: ast.expr, known: Collection[str]) -> bool:
    if isinstance(node, ast.Subscript):  # a client's
        return _get_name(node.value).endswith("client")
    if isinstance(node, ast.IfExp):
        return _is_database(node.body, known) or _is_database(node.orelse, known)
    name = _get_name(node)
    return name in known or name.endswith("database")


def _opens_people(
    node: ast.AST, people: Collection[str], known: set[str], constants: Mapping[str, set[str]]
) -> bool:
    def may_be(name: ast.expr | None) -> bool:
        if isinstance(name, ast.Constant):
            return name.value in people
        texts = constants.get(_get_name(name)) if isinstance(name, ast.Name | ast.Attribute) else None
        return texts is None or not texts.isdisjoint(people)

    match node:
        case ast.Subscript(value=base, slice=name):
            return _is_database(base, known) and may_be(name)
        case ast.Attribute(value=base, attr=name):
            return _is_database(base, known) and name in people
        case ast.Call(func=ast.Attribute(attr="get_collection"), args=args, keywords=keywords):
            given = [*args, *(each.value for each in keywords if each.arg == "name")]
            return may_be(given[0] if given else None)
        case ast.Call(func=ast.Attribute(value=base, attr="command"), args=[_, target, *_]):
            return _is_database(base, known) and may_be(target)
        case ast.Call(func=ast.Name(id=name), args=[_, target, *_]) if name in _CONSTRUCTORS:
            return may_be(target)
        case ast.Dict(keys=keys, values=values):
            return any(
                isinstance(key, ast.Constant)
                and key.value in _STAGE_KEYS
                and isinstance(value, ast.Constant)
                and value.value in people
                for key, value in zip(keys, values, strict=True)
            )
    return False
