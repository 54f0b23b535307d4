"""F03, U03: an upload arrives as it was sent, whatever is killed or cut meanwhile."""

from __future__ import annotations

import pytest

from app.models.accounts.token import Scope
from tests.conftest import Eventually
from tests.faults.system import LONG, System
from tests.media.test_tus import make_token
from tests.support.upload_client import START, Content, UploadClient

pytestmark = pytest.mark.timeout(3000)

SIZE, CUTS = (1000 << 20, 50) if LONG else (16 << 20, 5)
PART = 4 << 20


def test_F03_U03_an_upload_survives_cuts_and_a_killed_web_tier(
    system: System, eventually: Eventually, in_a_row: int
) -> None:
    actor, _ = system.person()
    client = UploadClient(system.up.port, make_token(system.services, actor, Scope.FILES))
    content = Content.make(system.rng.randrange(1 << 32), SIZE)
    path = client.create(content.size)
    cuts = system.rng.sample(range(1, content.size), CUTS)
    kills = system.rng.sample(cuts, in_a_row)
    client.send_with_cuts(path, content, PART, cuts, kills, lambda: system.strike("web"), eventually)

    eventually(lambda: "upload-result" in client.read_progress(path), START)
    (file,) = system.services.files.list_files(actor)
    assert (file.size, file.blob) == (content.size, content.hash())
