"""``eventr doctor``: is everything well, and if not, what to do."""

from __future__ import annotations

import dataclasses
import os
import sys
from collections.abc import Iterable, Iterator

import click

from app import config, embedded
from app.cli import print_json
from app.commands import web_address
from app.commands.requirements import library_problems
from app.commands.settings_check import require_usable
from app.config import Settings
from app.errors import EventrError
from app.models.operations.check_result import Finding, Word
from app.monitoring import health
from app.runtime import sockets


@click.command()
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
def doctor(as_json: bool) -> None:
    """Check servers, versions, indexes, disk, settings and processes; exit 1 when something fails."""
    findings = list(examine())
    if as_json:
        print_json({"ok": not _failed(findings), "checks": [dataclasses.asdict(f) for f in findings]})
    else:
        for finding in findings:
            click.echo(f"{finding.word:4}  {finding.check:10}  {finding.text}")
    sys.exit(1 if _failed(findings) else 0)


def examine() -> Iterator[Finding]:
    """Run all checks one after the other; none of them changes anything."""
    yield from (Finding("settings", Word.WARN, text) for text in config.strays())
    try:
        settings = embedded.resolved(Settings.from_env())
        require_usable(settings)
    except EventrError as e:
        yield Finding("settings", Word.FAIL, e.message)
        return
    yield from check_libraries()
    yield from check_run(settings)
    yield from health.examine(settings)
    yield check_web(settings)


def check_run(settings: Settings) -> Iterator[Finding]:
    """Look at the folder of the sockets, once there is one: whoever listens there refuses a strange one."""
    layout = embedded.Layout.of(settings)
    if os.path.exists(layout.run):
        try:
            # An administrator looks at the home of whoever runs it.
            sockets.require_own(layout.run, layout.home.stat().st_uid if os.geteuid() == 0 else None)
        except EventrError as e:
            yield Finding("disk", Word.FAIL, e.message)


def check_web(settings: Settings) -> Finding:
    """Look at the web tier of this machine."""
    if web_address.answers(settings):
        return Finding("processes", Word.OK, f"web answers on port {settings.port}.")
    text = f"No web tier answers on port {settings.port}: start 'eventr up' or 'eventr web'."
    return Finding("processes", Word.WARN, text)


def check_libraries() -> Iterator[Finding]:
    """Look for libraries that are missing, too old or cannot be loaded."""
    problems = [Finding("libraries", Word.FAIL, f"{p} Run 'make run'.") for p in library_problems()]
    yield from problems or [Finding("libraries", Word.OK, "All libraries are there and new enough.")]


def _failed(findings: Iterable[Finding]) -> bool:
    return any(finding.word is Word.FAIL for finding in findings)
