"""``eventr doctor``: check the whole installation, and say what to do about problems."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import io
import os
import secrets
import sys
from collections.abc import Iterable, Iterator

import click

from app import config, embedded
from app.adapters.media.building import build_stores
from app.adapters.media.store_set import explain_failure
from app.cli import print_json
from app.commands import check, web_address
from app.commands.requirements import find_library_problems
from app.commands.settings_check import require_usable
from app.config import Settings
from app.errors import EventrError, MediaStoreError, NoSpaceError
from app.models.media.blob import ORIGINAL, build_key, draw_generation
from app.models.operations.check_result import CheckResult, Severity
from app.monitoring import health
from app.ports import MediaStore
from app.runtime import sockets
from app.runtime.pieces import read_piece

#: Bytes of the file that is written to each media store.
_PROBE_BYTES = 1000


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def doctor(as_json: bool) -> None:
    """Check servers, versions, indexes, disk, settings and processes. Exit with code 1 if a check fails."""
    findings = list(run_checks())
    if as_json:
        print_json({"ok": not _failed(findings), "checks": [dataclasses.asdict(f) for f in findings]})
    else:
        for finding in findings:
            click.echo(f"{finding.word:4}  {finding.check:10}  {finding.text}")
    sys.exit(1 if _failed(findings) else 0)


def run_checks() -> Iterator[CheckResult]:
    """Run all checks in order; no check changes anything, but each media store gets a file for a moment."""
    yield from (CheckResult("settings", Severity.WARN, text) for text in config.find_unknown_settings())
    try:
        settings = embedded.resolve_addresses(Settings.from_env())
        require_usable(settings)
    except EventrError as e:
        yield CheckResult("settings", Severity.FAIL, e.message)
        return
    yield from check_libraries()
    yield from check_run_folder(settings)
    yield from health.run_checks(settings)
    yield from check_media_stores(settings)
    yield check_web(settings)
    yield from check_proxies(settings)


def check_run_folder(settings: Settings) -> Iterator[CheckResult]:
    """Check the folder of the sockets, if it exists: Eventr refuses a folder that isn't private."""
    layout = embedded.Layout.from_settings(settings)
    if os.path.exists(layout.run):
        try:
            # Root checks the folder on behalf of its owner.
            sockets.require_private(layout.run, layout.home.stat().st_uid if os.geteuid() == 0 else None)
        except EventrError as e:
            yield CheckResult("disk", Severity.FAIL, e.message)


def check_media_stores(settings: Settings) -> Iterator[CheckResult]:
    """Check each media store by writing, reading and deleting a file."""
    try:
        stores = build_stores(settings)
    except EventrError as e:
        yield CheckResult("media", Severity.FAIL, e.message)
        return
    if not settings.media_stores and not (settings.home / "media").exists():
        text = "Pictures and files are stored in EVENTR_HOME. There are none yet."
        yield CheckResult("media", Severity.OK, text)
        return
    with contextlib.closing(stores):
        for store in stores.stores:
            problem = _find_store_problem(store)
            text = f"{store.name} can't be used ({problem})." if problem else f"{store.name} works."
            yield CheckResult("media", Severity.FAIL if problem else Severity.OK, text)


def _find_store_problem(store: MediaStore) -> str:
    body = secrets.token_bytes(_PROBE_BYTES)
    key = build_key(hashlib.sha256(body).digest(), draw_generation(), ORIGINAL)
    action = "writing"
    try:
        store.put(key, io.BytesIO(body), len(body))
        action = "reading"
        if b"".join(read_piece(store.open(key, 1, 9))) != body[1:10]:
            return "reading: a part of a file isn't the part"
        action = "deleting"
        store.delete(key)
    except NoSpaceError:
        return f"{action}: the store is full"
    except (EventrError, OSError) as e:
        with contextlib.suppress(EventrError):
            store.delete(key)
        reason = explain_failure(e) if isinstance(e, MediaStoreError) else "the file isn't there"
        return f"{action}: {reason}"
    return ""


def check_web(settings: Settings) -> CheckResult:
    """Check the web tier of this machine."""
    if web_address.is_responding(settings):
        return CheckResult("processes", Severity.OK, f"web is running on port {settings.port}.")
    text = f"web isn't responding on port {settings.port}. Start it with 'eventr up' or 'eventr web'."
    return CheckResult("processes", Severity.WARN, text)


def check_proxies(settings: Settings) -> Iterator[CheckResult]:
    """Check that the settings count all proxies between the public address and the web tier (W06)."""
    if settings.base_url and check.count_ignored_addresses(settings):
        yield CheckResult("settings", Severity.WARN, check.IGNORED)


def check_libraries() -> Iterator[CheckResult]:
    """Check for libraries that are missing, too old or can't be loaded."""
    problems = [
        CheckResult("libraries", Severity.FAIL, f"{p} Run 'make run'.") for p in find_library_problems()
    ]
    yield from problems or [CheckResult("libraries", Severity.OK, "All required libraries are installed.")]


def _failed(findings: Iterable[CheckResult]) -> bool:
    return any(finding.word is Severity.FAIL for finding in findings)
