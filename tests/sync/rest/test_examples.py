"""The commands of docs/api.md, as curl would send them."""

from __future__ import annotations

import argparse
import re
import shlex
from collections.abc import Iterator

import pytest

from app.models.accounts.actor import Actor
from tests.sharing.conftest import People
from tests.support.imports import REPO
from tests.sync.rest.conftest import Program

_OPML = b'<opml version="2.0"><body><outline text="One" xmlUrl="https://one.example.org/feed"/></body></opml>'
_ENTRY = "1780000000000004"


def _commands() -> Iterator[str]:
    text = (REPO / "docs/api.md").read_text("utf-8")
    for block in re.findall(r"```sh\n(.*?)```", text, re.DOTALL):
        yield from (line for line in block.replace("\\\n", " ").splitlines() if line.startswith("curl "))


def _curl(line: str, program: Program, entry: int) -> tuple[int, bytes]:
    parser = argparse.ArgumentParser()
    for name in ("-X", "--json", "-d", "--data-binary", "-o"):
        parser.add_argument(name, dest=name.strip("-").replace("-", "_"))
    parser.add_argument("-H", dest="headers", action="append", default=[])
    parser.add_argument("-N", action="store_true")
    parser.add_argument("url")
    line = line.replace("$EVENTR", "").replace("$TOKEN", program.secret).replace(_ENTRY, str(entry))
    asked = parser.parse_args(shlex.split(line)[1:])
    headers = dict(header.split(": ", 1) for header in asked.headers)
    assert headers.pop("Authorization") == f"Bearer {program.secret}"
    data = asked.json or asked.d
    if asked.json:
        headers["Content-Type"] = "application/json"
    if asked.data_binary:
        assert asked.data_binary == "@mine.opml"
        data = _OPML
    method = asked.X or ("POST" if data else "GET")
    kind = headers.pop("Content-Type", None)
    answer = program.send(method, asked.url, data=data, content_type=kind, headers=headers)
    return answer.status_code, answer.data


@pytest.mark.parametrize("line", [line for line in _commands() if "events/pass" not in line])
def test_the_commands_of_the_documentation_work(line: str, mine: Program, people: People, ann: Actor) -> None:
    (entry,) = people.blog([ann], entries=1)
    status, body = _curl(line, mine, entry)
    assert status in (200, 201, 202), body


def test_the_documentation_has_commands() -> None:
    assert len(list(_commands())) >= 8
