"""tus through the real web server, which receives long bodies without a thread (U03, U04)."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import random
import socket
from collections.abc import Iterator

import pytest

from app.bootstrap import services as bootstrap
from app.bootstrap.services import Services
from app.config import Settings
from app.models.accounts.token import Scope
from tests.conftest import Eventually
from tests.media.test_tus import PART, Tus, checksum, make_token
from tests.media.wire import Wire, parse, read_all
from tests.support import live
from tests.support.reader import add_user

SLICE = 64 << 10
DATA = random.Random(5).randbytes(5 * SLICE + 999)


@pytest.fixture
def server(services: Services, settings: Settings) -> Iterator[Tus]:
    """A client with a token; the web server stores 64 KiB at a time."""
    with live.homed(settings) as own:
        few = dataclasses.replace(own, upload_part_max=SLICE, base_url="")
        actor = add_user(services, "ann")
        token = make_token(services, actor, Scope.FILES)
        headers = {"Tus-Resumable": "1.0.0", "Authorization": f"Bearer {token}"}
        part = live.web(few)
        try:
            with contextlib.closing(bootstrap.build(few)) as there:
                yield Tus(Wire(few.port, headers), "/api/v1/uploads", actor, there)
        finally:
            part.stop()


def test_U03_long_bodies_are_stored_in_slices_and_cut_ones_go_on(server: Tus, eventually: Eventually) -> None:
    # Creation with the whole file: one upload for all slices, whose address is answered once.
    made = server.send(
        "POST", body=DATA, Upload_Length=len(DATA), Content_Type=PART, Upload_Checksum=checksum(DATA)
    )
    assert (made.status, made.headers["upload-offset"]) == (201, str(len(DATA)))
    (status,) = server.services.uploads.list_active(server.actor)
    assert made.headers["location"].endswith(status.upload.id)
    assert server.services.sealing.seal_upload(status.upload.id)["state"] == "done"
    (file,) = server.services.files.list_files(server.actor)
    assert file.blob == hashlib.sha256(DATA).digest()

    # Refused before the body is sent.
    url = server.create(len(DATA))
    for headers, wanted in (
        ({"Upload-Offset": 5}, 409),
        ({"Upload-Offset": 0, "Content-Type": "text/plain"}, 415),
        ({"Upload-Offset": 0, "Content-Length": len(DATA) + 1}, 413),
        ({"Upload-Offset": 0, "Authorization": "Bearer x"}, 401),
        ({"Upload-Offset": 0, "Tus-Resumable": None}, 412),
    ):
        given = {"Content-Length": len(DATA), **headers}
        assert server.send("PATCH", url, **given).status == wanted, headers

    # A checksum that is wrong at the end takes all slices with it.
    wrong = server.send("PATCH", url, DATA, Upload_Offset=0, Upload_Checksum=checksum(b"x"))
    assert wrong.status == 460
    assert server.offset(url) == 0

    # A line that breaks: what came stays, unless the part has a checksum.
    _send_cut(server, url, DATA[: 2 * SLICE + 77], f"Upload-Checksum: {checksum(DATA)}\r\n")
    _send_cut(server, url, DATA[: 3 * SLICE + 5], "")
    eventually(lambda: server.offset(url) == 3 * SLICE + 5)
    rest = server.send("PATCH", url, DATA[3 * SLICE + 5 :], Upload_Offset=3 * SLICE + 5)
    assert (rest.status, rest.headers["upload-offset"]) == (204, str(len(DATA)))
    assert server.services.sealing.seal_upload(url.rpartition("/")[2])["state"] == "done"
    files = server.services.files.list_files(server.actor)
    assert {file.blob for file in files} == {hashlib.sha256(DATA).digest()}
    assert len(files) == 2
    folder = server.services.settings.home / "media" / "up"
    assert not [path for path in folder.rglob("*") if path.is_file()]


def _send_cut(server: Tus, url: str, data: bytes, header: str) -> None:
    """Begin to send the whole file, and hang up after a part of it; wait until the server has noticed."""
    before = server.offset(url)
    usual = "".join(f"{name}: {value}\r\n" for name, value in server.wire.headers.items())
    head = (
        f"PATCH {url} HTTP/1.1\r\nHost: 127.0.0.1:{server.wire.port}\r\n{usual}{header}"
        f"Upload-Offset: {before}\r\n"
        f"Content-Type: {PART}\r\nContent-Length: {len(DATA) - before}\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", server.wire.port), timeout=60) as connection:
        connection.sendall(head.encode() + data)
        connection.shutdown(socket.SHUT_WR)
        with contextlib.suppress(AssertionError):  # no answer: nobody would read it
            parse(read_all(connection))
