"""F01, R06: processes that store, delete and clean are killed; then no document lacks its files."""

from __future__ import annotations

import contextlib
import datetime as dt
import itertools
import multiprocessing
import random
from pathlib import Path

import pytest

from app import clock
from app.bootstrap import services as bootstrap
from app.bootstrap.services import Services
from app.config import Settings
from app.errors import ConflictError, StoreError
from tests.conftest import Eventually
from tests.support.media import add_file, find_faults, find_strays, make_content

USERS, CONTENTS = (11, 12, 13), 4


def churn(settings: Settings, begun: str) -> None:
    """Store, delete and clean until killed; in its own time, a minute is hours."""
    rng, hours = random.Random(begun), itertools.count()
    with (
        contextlib.closing(bootstrap.build(settings)) as services,
        clock.set_source(lambda: dt.datetime.now(dt.UTC) + next(hours) * dt.timedelta(minutes=20)),
    ):
        Path(begun).touch()
        while True:
            user, content = rng.choice(USERS), make_content(rng.randrange(CONTENTS))
            with contextlib.suppress(StoreError, ConflictError):
                if (found := services.gateways.files.find_by_blob(user, content.id)) is not None:
                    services.gateways.files.delete(user, found.id)
                else:
                    add_file(services, user, content)
                services.media_cleaning.run(seconds=5)


@pytest.mark.timeout(600)
def test_F01_R06_a_killed_process_leaves_no_document_without_files(
    services: Services, tmp_path: Path, eventually: Eventually, scale: int
) -> None:
    context, rng = multiprocessing.get_context("spawn"), random.Random(1)
    for round_number in range(2 * scale):
        marks = [str(tmp_path / f"begun-{round_number}-{n}") for n in range(1 if scale == 1 else 2)]
        children = [context.Process(target=churn, args=(services.settings, mark)) for mark in marks]
        for child in children:
            child.start()
        for mark in marks:
            eventually(Path(mark).exists)
        # Not a wait for anything: so many changes are made before the blow.
        goal = services.store.database.command("serverStatus")["transactions"]["totalCommitted"]
        goal += rng.randrange(5, 40)
        eventually(
            lambda goal=goal: (
                services.store.database.command("serverStatus")["transactions"]["totalCommitted"] >= goal
            )
        )
        for child in children:
            child.kill()
            child.join()
        eventually(lambda: not _open_transactions(services))
        assert list(find_faults(services)) == []
    settle(services)


def settle(services: Services) -> None:
    """End what the killed processes have begun, and find no file that nobody knows."""
    with clock.set_source(lambda: dt.datetime.now(dt.UTC) + dt.timedelta(days=400)):
        services.media_cleaning.run()
        services.gateways.media_cleaning.walk_stores(clock.now(), delete=True, mend=True)
        assert (list(find_faults(services)), find_strays(services)) == ([], set())
        assert services.media_cleaning.recount().wrong == 0


def _open_transactions(services: Services) -> int:
    status = services.store.database.command("serverStatus")["transactions"]
    return int(status["currentOpen"])
