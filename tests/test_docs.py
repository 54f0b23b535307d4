"""The documents name what there is: settings, errors, commands, dependencies, security tests."""

from __future__ import annotations

import ast
import dataclasses
import re
import tomllib
from collections.abc import Iterator

import click
import pytest

from app import cli, errors
from app.commands.settings import render_markdown
from app.config import Settings
from tests.support.imports import REPO
from tests.support.language import MAX_WORDS, find_document_faults

#: Every document of the repository.
DOCUMENTS = (
    "README.md",
    "CONTRIBUTING.md",
    "CHANGES.md",
    *sorted(str(path.relative_to(REPO)) for path in (REPO / "docs").rglob("*.md")),
)


def _doc(name: str) -> str:
    return (REPO / name).read_text("utf-8")


def test_settings_are_documented_as_they_are() -> None:
    assert _doc("docs/settings.md") == render_markdown() + "\n", "run: make docs"


def test_common_settings_are_few_and_come_first() -> None:
    common, tuning = _doc("docs/settings.md").split("\n## Tuning\n")
    assert 20 <= len(_rows(common)) <= 30 < len(_rows(tuning))
    assert "EVENTR_BASE_URL" in _rows(common)
    assert "EVENTR_XML_MAX_DEPTH" in _rows(tuning)


def test_every_setting_is_read_somewhere() -> None:
    folders = ("app", "controller", "queue_manager", "workers")
    code = "".join(p.read_text("utf-8") for folder in folders for p in sorted((REPO / folder).rglob("*.py")))
    read = set(re.findall(r"\.(\w+)", code))
    assert not [field.name for field in dataclasses.fields(Settings) if field.name not in read]


def _error_classes(root: type[errors.EventrError] = errors.EventrError) -> Iterator[type[errors.EventrError]]:
    yield root
    for kind in root.__subclasses__():
        yield from _error_classes(kind)


def test_every_error_word_is_documented_with_its_sentence() -> None:
    text = _doc("docs/errors.md")
    ours = {
        k.code: (k.http_status, k.default)
        for k in _error_classes()
        if not issubclass(k, errors.FeedError | errors.PictureError)
    }
    missing = [
        code for code, (status, said) in ours.items() if f"| `{code}` | {status} | {said} |" not in text
    ]
    missing += [w for w, said in errors.PICTURE_MESSAGES.items() if f"| `{w}` | {said} |" not in text]
    missing += [w for w, said in errors.FEED_MESSAGES.items() if f"| `{w}` | {said} |" not in text]
    assert not missing


def _commands(group: click.Group, prefix: str) -> Iterator[str]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from _commands(command, f"{prefix} {name}")
        else:
            yield f"{prefix} {name}"


def test_every_command_is_in_the_readme_or_the_docs_and_has_help() -> None:
    texts = "".join(map(_doc, DOCUMENTS))
    names = list(_commands(cli.cli, "eventr"))
    assert "eventr feed parse" in names
    assert not [name for name in names if name not in texts]


def _rows(text: str) -> dict[str, list[str]]:
    cells = [line.strip("|").split("|") for line in text.splitlines() if line.startswith("| `")]
    return {row[0].strip().strip("`"): [cell.strip() for cell in row[1:]] for row in cells}


def test_every_dependency_has_its_reason_and_licence() -> None:
    project = tomllib.loads(_doc("pyproject.toml"))["project"]
    wanted = [
        *project["dependencies"],
        *(d for group in project["optional-dependencies"].values() for d in group),
    ]
    names = {re.split(r"[<>=!;\[ ]", line)[0] for line in wanted}
    rows = _rows(_doc("docs/dependencies.md"))
    assert set(rows) == names
    assert not [name for name, (why, _, licence) in rows.items() if not why or not licence]


def test_every_word_of_make_is_explained() -> None:
    text = _doc("Makefile")
    for word in ("run", "test", "lint", "types", "bench"):
        assert re.search(rf"^{word}:.*##", text, re.MULTILINE), word


def _test_names() -> set[str]:
    return {
        node.name
        for path in (REPO / "tests").rglob("test_*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_")
    }


def _without_test(ids: tuple[str, ...], names: set[str]) -> list[str]:
    held = {word for name in names for word in name.split("_")}
    return [each for each in ids if each not in held]


#: The length of each series of requirements.
SERIES = {"S": 15, "X": 12, "H": 16, "W": 23, "J": 6, "R": 7, "F": 21, "G": 3, "V": 34, "U": 13}
_RANGE = re.compile(r"\b([A-Z])(\d\d)(?: – [A-Z](\d\d))?")


def _security_ids() -> tuple[list[str], dict[str, str]]:
    """Return the ids that docs/security.md says are tested, and the others with their reasons."""
    tested, others = _doc("docs/security.md").split("\n## Not named by a test\n")
    rows = re.findall(r"^\| ([A-Z]\d\d[^|]*) \|", tested, re.MULTILINE)
    ids = [
        f"{series}{n:02}"
        for first in rows
        for series, low, high in _RANGE.findall(first)
        for n in range(int(low), int(high or low) + 1)
    ]
    return ids, dict(re.findall(r"^\| ([A-Z]\d\d) \|[^|]+\| ([^|]+) \|$", others, re.MULTILINE))


def test_every_security_requirement_has_a_test_or_a_reason() -> None:
    tested, others = _security_ids()
    assert not _without_test(tuple(tested), _test_names())
    every = sorted(f"{series}{n:02}" for series, count in SERIES.items() for n in range(1, count + 1))
    assert sorted([*tested, *others]) == every, "each id once"


def test_a_reason_names_requirements_that_have_tests() -> None:
    tested, others = _security_ids()
    for each, reason in others.items():
        kind, _, rest = reason.partition(" ")
        assert kind in ("covered", "open:", "manual:", "no"), each
        named = [f"{series}{low}" for series, low, _ in _RANGE.findall(rest)]
        assert kind != "covered" or named, each
        assert set(named) <= set(tested), each


def test_a_requirement_that_has_a_test_needs_no_reason() -> None:
    _, others = _security_ids()
    assert sorted(_without_test(tuple(others), _test_names())) == sorted(others)


def test_a_requirement_without_test_is_caught() -> None:
    assert _without_test(("S01", "S02"), {"test_S01_one", "test_s02"}) == ["S02"]


_PRIVATE = re.compile(r"(^|[\s`'\"(=])(/root/|/home/\w+/|/tmp/\w+/)")


@pytest.mark.parametrize("name", [*DOCUMENTS, "LICENSE"])
def test_the_documents_are_there(name: str) -> None:
    text = _doc(name)
    assert len(text) > 200
    assert not _PRIVATE.search(text), "no path of anybody's machine"


@pytest.mark.parametrize("name", DOCUMENTS)
def test_document_is_in_plain_english(name: str) -> None:
    faults = find_document_faults(_doc(name), max_words=MAX_WORDS)
    assert not faults, "\n".join(map(str, faults))


def test_architecture_is_short_enough_to_read() -> None:
    assert len(_doc("docs/architecture.md").split()) <= 1500


def test_first_version_has_at_most_80_lines_of_changes() -> None:
    versions = re.split(r"^## ", _doc("CHANGES.md"), flags=re.MULTILINE)
    [first] = [text for text in versions if text.startswith("0.1.0")]
    assert len(first.splitlines()) <= 80


_PATH = re.compile(r"`((?:app|bench|controller|deploy|docs|queue_manager|static|tests|workers)(?:/[\w.]+)*)`")


def _missing_paths(text: str) -> list[str]:
    return [name for name in _PATH.findall(text) if not (REPO / name).exists()]


@pytest.mark.parametrize("name", DOCUMENTS)
def test_document_names_only_files_that_exist(name: str) -> None:
    assert not _missing_paths(_doc(name))


def test_a_file_that_does_not_exist_is_caught() -> None:
    assert _missing_paths("`app/config.py`, `app/feeds`, `app/sight.py`, `app.sight`") == ["app/sight.py"]


def _table(text: str, heading: str) -> list[list[str]]:
    section = text.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    rows = [line.strip("|").split("|") for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in row] for row in rows[2:]]


def test_folder_map_names_every_package() -> None:
    named = set(_PATH.findall(_doc("docs/architecture.md").split("## Folder map")[1].split("\n## ")[0]))
    packages = {path.parent.relative_to(REPO).as_posix() for path in REPO.glob("app/*/__init__.py")}
    assert packages | {"workers", "queue_manager", "controller"} <= named


def test_each_question_has_one_file() -> None:
    rows = _table(_doc("docs/architecture.md"), "Where decisions live")
    assert len(rows) >= 20
    for question, file in rows:
        assert question.endswith("?")
        assert (REPO / file.strip("`")).is_file(), file


_TARGET = re.compile(r"(?<!!)\[[^\]]*\]\(([^)#\s]+)[^)]*\)")


@pytest.mark.parametrize("name", DOCUMENTS)
def test_links_between_documents_lead_somewhere(name: str) -> None:
    folder = (REPO / name).parent
    targets = [target for target in _TARGET.findall(_doc(name)) if "://" not in target]
    assert not [target for target in targets if not (folder / target).exists()]
