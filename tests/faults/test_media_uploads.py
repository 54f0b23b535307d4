"""F01, U05: processes that upload, store and delete are killed at any moment, and all counts stay right."""

from __future__ import annotations

import contextlib
import multiprocessing
import random
from pathlib import Path

import pytest

from app.bootstrap import services as bootstrap
from app.bootstrap.services import Services
from app.config import Settings
from app.errors import EventrError
from app.models.accounts.actor import Actor
from app.models.media.upload import NewUpload, UploadState, Usage
from tests.conftest import Eventually
from tests.support.media import find_faults

ANN = Actor(11)
PART = 10_000


def churn(settings: Settings, begun: str) -> None:
    """Upload, count, store and delete until killed."""
    rng = random.Random(begun)
    with contextlib.closing(bootstrap.build(settings)) as services:
        Path(begun).touch()
        while True:
            with contextlib.suppress(EventrError):
                _take_step(services, rng)


def count_commits(services: Services) -> int:
    """Return how many transactions MongoDB has committed."""
    return int(services.store.database.command("serverStatus")["transactions"]["totalCommitted"])


def count_open_transactions(services: Services) -> int:
    """Return how many transactions are open; those of killed processes end by themselves."""
    return int(services.store.database.command("serverStatus")["transactions"]["currentOpen"])


def _take_step(services: Services, rng: random.Random) -> None:
    active = services.uploads.list_active(ANN)
    if len(active) < 4:
        services.uploads.create(ANN, NewUpload(size=rng.randrange(1, 5) * PART))
        return
    status = rng.choice(active)
    upload = status.upload
    if upload.state is UploadState.SEALING:
        services.sealing.seal_upload(upload.id)
    elif rng.random() < 0.1:
        services.uploads.delete(ANN, upload.id)
    elif rng.random() < 0.2:
        services.uploads.flush(ANN.user_id)
    else:
        services.uploads.append(ANN, upload.id, status.offset, rng.randbytes(PART))
    for file in services.files.list_files(ANN)[3:]:
        services.files.delete(ANN, file.id)


@pytest.mark.parametrize("seed", range(3))
def test_F01_uploads_survive_killed_processes(
    services: Services, tmp_path: Path, eventually: Eventually, seed: int
) -> None:
    rng, context = random.Random(seed), multiprocessing.get_context("spawn")
    for number in range(5):
        begun = tmp_path / f"begun-{seed}-{number}"
        process = context.Process(target=churn, args=(services.settings, str(begun)), daemon=True)
        process.start()
        eventually(begun.exists)
        # Not a wait for anything: so many changes are made before the blow.
        goal = count_commits(services) + rng.randrange(3, 40)
        eventually(lambda goal=goal: count_commits(services) >= goal)
        process.kill()
        process.join()
        eventually(lambda: not count_open_transactions(services))
        assert services.gateways.quota.recount_usage(ANN.user_id) is None
    for status in services.uploads.list_active(ANN):
        upload = status.upload
        if upload.state is UploadState.OPEN:
            rest = (upload.size or 0) - services.uploads.find(ANN, upload.id).offset
            services.uploads.append(ANN, upload.id, (upload.size or 0) - rest, b"x" * rest)
        assert services.sealing.seal_upload(upload.id)["state"] == "done"
    total = sum(file.size for file in services.files.list_files(ANN))
    assert services.gateways.quota.find(ANN.user_id) == Usage(total, 0, 0, services.settings.quota)
    assert list(find_faults(services)) == []
    for file in services.files.list_files(ANN):
        services.files.delete(ANN, file.id)
    assert services.gateways.quota.find(ANN.user_id).finished == 0
