"""A real queue manager with workers, under any settings."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import subprocess
import sys
from collections.abc import Iterator

from app.config import Settings, build_env_name
from tests.jobs import support
from tests.support.imports import REPO


def environment(settings: Settings) -> dict[str, str]:
    """Return the variables that make these settings."""
    changed = {f.name: getattr(settings, f.name) for f in dataclasses.fields(settings)}
    defaults = {f.name: f.default for f in dataclasses.fields(settings)}
    return {
        build_env_name(name): ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
        for name, value in changed.items()
        if value != defaults[name] and value is not None
    }


@contextlib.contextmanager
def running(settings: Settings, extra: str = "") -> Iterator[None]:
    """Run a queue manager with one small group of workers, and perhaps others, for the time of a block."""
    own = dataclasses.replace(settings, queues_file=support.groups(settings, extra=extra), stop_grace=1.0)
    log = settings.home / "manager.log"
    with log.open("w") as out:
        process = subprocess.Popen(
            [sys.executable, "-c", support.PROGRAM.format(module="queue_manager.main")],
            cwd=REPO,
            env={**os.environ, **environment(own)},
            stdout=out,
            stderr=out,
        )
    try:
        yield
    except BaseException:
        sys.stderr.write(log.read_text()[-8000:])
        raise
    finally:
        process.terminate()
        process.wait(60)
