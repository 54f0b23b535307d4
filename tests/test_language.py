"""Plain English everywhere: the table of patterns proves itself, then reads all that we have written."""

from __future__ import annotations

import ast
import dataclasses
import io
import tokenize
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from babel.messages.pofile import read_po

from app.cli import cli
from app.config import Settings
from app.web.view import i18n
from tests.support import imports
from tests.support.language import (
    MAX_WORDS,
    PATTERNS,
    Pattern,
    count_words,
    find_document_faults,
    find_faults,
    paragraphs,
    sentences,
)

every_pattern = pytest.mark.parametrize("pattern", PATTERNS, ids=lambda each: each.name)


@every_pattern
def test_pattern_catches_its_bad_example(pattern: Pattern) -> None:
    assert pattern.name in [fault.name for fault in find_faults(pattern.caught)]


@every_pattern
def test_pattern_passes_its_good_example(pattern: Pattern) -> None:
    assert not find_faults(pattern.passes)


def test_sentence_over_the_limit_is_a_fault() -> None:
    allowed = " ".join(["word"] * MAX_WORDS) + "."
    assert not find_faults(f"{allowed} {allowed.capitalize()}", max_words=MAX_WORDS)
    [fault] = find_faults(f"Short. Word {allowed}", max_words=MAX_WORDS)
    assert (fault.name, fault.why) == ("long sentence", f"{MAX_WORDS + 1} words, {MAX_WORDS} at most")


def test_sentences_end_at_full_stops_and_not_in_abbreviations_or_numbers() -> None:
    assert sentences("One, e.g. this. Two takes 1.5 ms? “Three.” Four") == [
        "One, e.g this.",
        "Two takes 1.5 ms?",
        "“Three.",
        "Four",
    ]


def test_words_are_counted_without_dashes_and_with_placeholders() -> None:
    assert count_words("Next check – at %(time)s, see • …") == 6


def test_document_is_checked_without_its_code_and_by_item() -> None:
    text = "Use `he` here.\n\n```\nhis = 1\n```\n\n- it is fine\n- what is\n  his\n\n| a | him |\n"
    assert [(line, part) for line, part in paragraphs(text)] == [
        (1, "Use • here."),
        (7, "it is fine"),
        (8, "what is his"),
        (11, "a"),
        (11, "him"),
    ]
    assert [(fault.line, fault.text) for fault in find_document_faults(text)] == [(8, "his"), (11, "him")]


def _ui_sentences() -> Iterator[tuple[str, str]]:
    with (i18n.FOLDER / "messages.pot").open("rb") as file:
        for message in read_po(file):
            for text in message.id if isinstance(message.id, tuple) else (message.id,):
                if text:
                    yield message.locations[0][0], text
    for field in dataclasses.fields(Settings):
        yield f"setting {field.name}", field.metadata["help"]


def _commands(command: click.Command, name: str) -> Iterator[tuple[str, click.Command]]:
    yield name, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for each in command.list_commands(context):
            found = command.get_command(context, each)
            assert found is not None
            yield from _commands(found, f"{name} {each}")


def test_sentences_that_people_read_are_plain_english() -> None:
    texts = list(_ui_sentences())
    for name, command in _commands(cli, "eventr"):
        # A block that begins with \b is a table.
        texts += [(name, b) for b in (command.help or "").split("\n\n") if not b.strip(" ").startswith("\b")]
        texts += [(name, p.help or "") for p in command.params if isinstance(p, click.Option)]
    found = [
        f"{where}: {fault.text!r} {fault.why}"
        for where, text in texts
        for fault in find_faults(text, max_words=MAX_WORDS)
    ]
    assert not found, "\n".join(found)
    assert len(texts) > 1700


def _prose(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the docstrings and the comments of a module, each with its line."""
    source = path.read_text("utf-8")
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, documented) and (text := ast.get_docstring(node)):
            yield node.body[0].lineno, text
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT and not token.string.startswith("#!"):
            yield token.start[0], token.string.lstrip("#: ")


def test_prose_of_a_module_is_found(tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text(
        '"""He is here."""\n\n\ndef f():\n    """What is his."""\n    return 1  # that is no feed\n'
    )
    assert [line for line, text in _prose(path) if find_faults(text)] == [1, 5, 6]


def test_docstrings_and_comments_are_plain_english() -> None:
    found = [
        f"{path.relative_to(imports.REPO)}:{line}: {fault.text!r} {fault.why}"
        for _, path in imports.modules()
        for line, text in _prose(path)
        for fault in find_faults(text)
    ]
    assert not found, "\n".join(found)
