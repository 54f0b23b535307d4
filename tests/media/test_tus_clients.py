"""Clients that others wrote, unmodified: tuspy here, tus-js-client in tests/browser (U03)."""

from __future__ import annotations

import hashlib
import io
import random

import pytest
from tusclient.client import TusClient
from tusclient.exceptions import TusCommunicationError

from app.bootstrap.services import Services
from tests.media.test_tus import connect

DATA = random.Random(7).randbytes(300_000)
SHA256 = hashlib.sha256(DATA).digest()


@pytest.mark.parametrize("chunk", [64 << 10, 100_000, None])
@pytest.mark.parametrize("checksum", [False, True])
def test_U03_tuspy_uploads_a_file(services: Services, chunk: int | None, checksum: bool) -> None:
    with connect(services, "bearer", upload_part_max=128 << 10) as tus:
        client = TusClient(f"http://127.0.0.1:{tus.wire.port}/api/v1/uploads", tus.wire.headers)
        options = {"chunk_size": chunk} if chunk else {}
        uploader = client.uploader(
            file_stream=io.BytesIO(DATA),
            metadata={"filename": "Größe.bin"},
            upload_checksum=checksum,
            **options,
        )
        uploader.upload()
        assert uploader.url is not None
        assert tus.services.sealing.seal_upload(uploader.url.rpartition("/")[2])["state"] == "done"
        (file,) = tus.services.files.list_files(tus.actor)
        assert (file.name, file.blob) == ("Größe.bin", SHA256)


def test_U03_tuspy_goes_on_where_it_was_interrupted(services: Services) -> None:
    cuts = random.Random(3).sample(range(1, len(DATA)), 10)
    url = None
    with connect(services, "bearer") as tus:
        for cut in (*sorted(cuts), len(DATA)):
            # Each run is another process that knows only the address.
            client = TusClient(f"http://127.0.0.1:{tus.wire.port}/api/v1/uploads", tus.wire.headers)
            uploader = client.uploader(file_stream=io.BytesIO(DATA), chunk_size=7919, url=url)
            uploader.upload(stop_at=cut)
            url = uploader.url
        (status,) = tus.services.uploads.list_active(tus.actor)
        assert tus.services.sealing.seal_upload(status.upload.id)["state"] == "done"
        (file,) = tus.services.files.list_files(tus.actor)
        assert file.blob == SHA256


def test_U03_tuspy_learns_that_a_file_does_not_fit(services: Services) -> None:
    with connect(services, "bearer", quota=1000) as tus:
        client = TusClient(f"http://127.0.0.1:{tus.wire.port}/api/v1/uploads", tus.wire.headers)
        with pytest.raises(TusCommunicationError) as e:
            client.uploader(file_stream=io.BytesIO(DATA), chunk_size=64 << 10).upload()
        assert e.value.status_code == 507
