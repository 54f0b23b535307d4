"""Uploads are received without a thread (security.md W17)."""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import signal
import socket
import struct
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.commands.gunicorn_worker import BODY_BYTES, is_spooled
from app.commands.spool import Pace, Spool, SpoolLimits
from tests.support.small_disk import mount_small_disk, with_mounts
from tests.support.upload_server import (
    PATIENCE,
    Eventually,
    UploadServer,
    build_head,
    read_answer,
    read_rest,
    run_upload_server,
)

SIZE = 128 << 10
DATA = random.Random(7).randbytes(1 << 20)
_NAMES = (f"u{number}" for number in itertools.count())


@pytest.fixture(scope="module")
def patient(tmp_path_factory: pytest.TempPathFactory, eventually: Eventually) -> Iterator[UploadServer]:
    """Waits for ever, and receives any number of uploads."""
    with run_upload_server(
        tmp_path_factory.mktemp("patient"),
        eventually,
        upload_spools="200",
        upload_spools_per_address="200",
        upload_idle_seconds="600",
        upload_rate="0",
    ) as server:
        yield server


@pytest.fixture(scope="module")
def narrow(tmp_path_factory: pytest.TempPathFactory, eventually: Eventually) -> Iterator[UploadServer]:
    """Receives two uploads at a time, one of each address."""
    with run_upload_server(
        tmp_path_factory.mktemp("narrow"),
        eventually,
        upload_spools="2",
        upload_spools_per_address="1",
        trusted_proxies="1",
        upload_idle_seconds="600",
        upload_rate="0",
    ) as server:
        yield server


@pytest.fixture(scope="module")
def strict(tmp_path_factory: pytest.TempPathFactory, eventually: Eventually) -> Iterator[UploadServer]:
    """Receives one upload at a time, and ends it almost at once."""
    with run_upload_server(
        tmp_path_factory.mktemp("strict"), eventually, upload_spools="1", upload_idle_seconds="1"
    ) as server:
        yield server


@pytest.fixture
def name() -> str:
    """The name of an upload that no other test uses."""
    return next(_NAMES)


def _list_spooled(server: UploadServer) -> list[int]:
    """Return the sizes of the server's files without a name: one for each upload that has sent something."""
    pid = server.process.pid
    sizes = []
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text("ascii").split():
        for link in Path(f"/proc/{child}/fd").iterdir():
            with contextlib.suppress(OSError):  # closed meanwhile
                if "/media/up/" in os.readlink(link):
                    sizes.append(link.stat().st_size)
    return sizes


# -- receiving


def test_W17_slow_senders_take_no_thread_and_all_arrive(
    patient: UploadServer, eventually: Eventually
) -> None:
    names = [f"slow{number}" for number in range(100)]
    senders = [patient.connect(build_head(name, SIZE) + DATA[: SIZE // 2]) for name in names]
    eventually(lambda: len(_list_spooled(patient)) == 100, PATIENCE)
    # The server has two threads and waits for ever: a sender that held one would hold it until the end.
    assert [patient.get("/healthz")[0] for _ in range(20)] == [200] * 20
    assert patient.read_state()["inside"] == 1
    for sock in senders:
        sock.sendall(DATA[SIZE // 2 : SIZE])
    assert [read_answer(sock)[0] for sock in senders] == [204] * 100
    assert all(patient.read_kept(name) == DATA[:SIZE] for name in names)
    assert all(patient.read_log(name) == ["head", [0, SIZE, True, False]] for name in names[:3])
    assert _list_spooled(patient) == [], "no file stays open"


def test_an_upload_may_come_in_small_pieces(patient: UploadServer, name: str) -> None:
    data = build_head(name, BODY_BYTES + 1) + DATA[: BODY_BYTES + 1]
    sock = patient.connect()
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for start in range(0, len(data), 997):
        sock.sendall(data[start : start + 997])
    assert read_answer(sock)[0] == 204
    assert patient.read_kept(name) == DATA[: BODY_BYTES + 1]


def test_a_short_body_comes_the_usual_way(patient: UploadServer, name: str) -> None:
    sock = patient.connect(build_head(name, BODY_BYTES) + DATA[:BODY_BYTES])
    assert read_answer(sock)[2] == DATA[:BODY_BYTES]
    assert patient.read_log(name) == [BODY_BYTES]


@pytest.mark.parametrize("limit", [1 << 20, 300_000, 65_536, 4096])
def test_a_long_body_is_committed_in_slices(patient: UploadServer, name: str, limit: int) -> None:
    sock = patient.connect(build_head(name, len(DATA), f"X-Limit: {limit}") + DATA)
    assert read_answer(sock)[0] == 204
    assert patient.read_kept(name) == DATA
    starts = range(0, len(DATA), limit)
    sizes = [min(limit, len(DATA) - start) for start in starts]
    assert patient.read_log(name) == [
        "head",
        *([start, size, start == starts[-1], False] for start, size in zip(starts, sizes, strict=True)),
    ]


def test_W17_commits_leave_a_thread_to_readers_and_nothing_is_read_meanwhile(
    tmp_path: Path, eventually: Eventually
) -> None:
    with run_upload_server(tmp_path, eventually) as server:
        head = (64 << 20, "X-Limit: 1048576", "X-Wait: 1")
        senders = [server.connect(build_head(f"wait{number}", *head)) for number in range(3)]
        for sock in senders:
            sock.setblocking(False)
        eventually(lambda: _fill(senders) and _list_spooled(server) == [1 << 20] * 3, PATIENCE)
        assert [server.get("/healthz")[0] for _ in range(5)] == [200] * 5
        _fill(senders)
        assert _list_spooled(server) == [1 << 20] * 3
        assert sum(len(server.read_log(f"wait{number}")) == 2 for number in range(3)) == 1
        server.get("/open")


def _fill(senders: list[socket.socket]) -> bool:
    """Send what the kernel takes."""
    for sock in senders:
        with contextlib.suppress(BlockingIOError):
            while True:
                sock.send(DATA)
    return True


# -- refusing


def test_a_refused_head_costs_no_byte(patient: UploadServer, name: str) -> None:
    sock = patient.connect(build_head(name, 1 << 40, "X-Refuse: 403", "Expect: 100-continue"))
    head, _, body = read_rest(sock).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 403 "), "and no permission to send"
    assert b"\r\nConnection: close\r\n" in head
    assert body == b"judged"
    assert patient.read_log(name) == ["head"]
    assert _list_spooled(patient) == []


def test_an_upload_that_fails_after_it_was_accepted_is_refused(patient: UploadServer, name: str) -> None:
    sock = patient.connect(build_head(name, SIZE, "X-Change: 500") + DATA[:1000])
    assert read_answer(sock)[:1] == (500,)
    assert read_rest(sock) == b""
    assert patient.read_log(name) == ["head"]


def test_an_application_that_crashes_ends_the_upload(patient: UploadServer, name: str) -> None:
    sock = patient.connect(build_head(name, SIZE, "X-Crash: 1"))
    assert read_rest(sock).startswith(b"HTTP/1.1 500 ")


@pytest.mark.parametrize(("at", "count"), [(0, 1), (65_536, 2)])
def test_a_slice_that_is_refused_ends_the_upload(
    patient: UploadServer, name: str, at: int, count: int
) -> None:
    sock = patient.connect(build_head(name, 1 << 40, "X-Limit: 65536", f"X-Fail-At: {at}") + DATA)
    status, fields, _ = read_answer(sock)
    assert (status, fields["connection"]) == (409, "close")
    assert len(patient.read_log(name)) == 1 + count
    assert patient.read_kept(name) == DATA[:at]


def test_a_client_may_wait_for_the_permission_to_send(patient: UploadServer, name: str) -> None:
    sock = patient.connect(build_head(name, SIZE, "Expect: 100-continue"))
    assert _read_continue(sock)
    sock.sendall(DATA[:SIZE])
    assert read_answer(sock)[0] == 204
    assert patient.read_kept(name) == DATA[:SIZE]


def _read_continue(sock: socket.socket) -> bool:
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        head += sock.recv(1)
    return head == b"HTTP/1.1 100 Continue\r\n\r\n"


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        (("Content-Length: 200000",), b"400"),
        (("Transfer-Encoding: chunked",), b"400"),
        (("Content-Length : 5",), b"400"),
        (("X_Under: 1",), b"400"),
        (("Transfer-Encoding: xchunked",), b"501"),
    ],
)
def test_W17_uploads_that_could_be_read_in_two_ways_are_refused(
    patient: UploadServer, name: str, fields: tuple[str, ...], status: bytes
) -> None:
    sock = patient.connect(build_head(name, SIZE, *fields) + DATA[:2000])
    answer = read_rest(sock)
    assert answer.split(b" ")[1] == status
    assert answer.count(b"HTTP/1.1 ") == 1
    assert patient.read_log(name) == []


def test_W17_chunked_uploads_are_not_received_by_the_loop(patient: UploadServer) -> None:
    head = b"PATCH /uploads/x HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab"
    slow = [patient.connect(head) for _ in range(20)]
    assert [patient.get("/healthz")[0] for _ in range(5)] == [200] * 5
    for sock in slow:
        sock.close()


# -- connections


def test_a_connection_goes_on_after_an_upload(patient: UploadServer, name: str) -> None:
    sock = patient.connect(build_head(name, SIZE) + DATA[:SIZE])
    assert read_answer(sock)[0] == 204
    sock.sendall(b"GET /one HTTP/1.1\r\nHost: x\r\n\r\n")
    assert read_answer(sock)[0] == 200
    sock.sendall(build_head(name, SIZE, "X-Limit: 70000") + DATA[SIZE : 2 * SIZE])
    assert read_answer(sock)[0] == 204
    assert patient.read_kept(name) == DATA[: 2 * SIZE]


@pytest.mark.parametrize("size", [BODY_BYTES + 1, SIZE, 1 << 20])
def test_a_request_that_was_sent_behind_an_upload_is_answered(
    patient: UploadServer, name: str, size: int
) -> None:
    second = build_head(f"{name}-second", SIZE) + DATA[:SIZE]
    last = b"POST /last HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nConnection: close\r\n\r\nlast"
    sock = patient.connect(build_head(name, size) + DATA[:size] + second + last)
    answer = read_rest(sock)
    assert [part[:3] for part in answer.split(b"HTTP/1.1 ")[1:]] == [b"204", b"204", b"200"]
    assert answer.endswith(b"\r\n\r\nlast")
    assert patient.read_kept(name) == DATA[:size]
    assert patient.read_kept(f"{name}-second") == DATA[:SIZE]


def test_bytes_behind_the_declared_length_are_no_part_of_the_body(patient: UploadServer, name: str) -> None:
    sock = patient.connect(build_head(name, SIZE) + DATA[:SIZE] + b"rest\r\n\r\n")
    assert [part[:3] for part in read_rest(sock).split(b"HTTP/1.1 ")[1:]] == [b"204", b"400"]
    assert patient.read_kept(name) == DATA[:SIZE]


def test_a_client_that_ends_its_side_gets_its_answer(patient: UploadServer, name: str) -> None:
    sock = patient.connect(build_head(name, SIZE) + DATA[:SIZE])
    sock.shutdown(socket.SHUT_WR)
    assert read_answer(sock)[0] == 204


def test_W17_the_answer_to_an_upload_is_read_without_a_thread(patient: UploadServer) -> None:
    names = [next(_NAMES) for _ in range(8)]
    unread = [patient.connect(build_head(name, SIZE, "X-Large: 1") + DATA[:SIZE]) for name in names]
    assert [patient.get("/healthz")[0] for _ in range(20)] == [200] * 20
    assert [len(read_answer(sock)[2]) for sock in unread] == [4 << 20] * 8


@pytest.mark.parametrize("sent", [200_000, 65_536 + 1, 10])
def test_a_line_that_breaks_commits_what_came(
    patient: UploadServer, eventually: Eventually, name: str, sent: int
) -> None:
    sock = patient.connect(build_head(name, 1 << 30, "X-Limit: 65536") + DATA[:sent])
    sock.shutdown(socket.SHUT_WR)
    assert read_rest(sock) == b"", "nobody reads an answer"
    assert patient.read_kept(name) == DATA[:sent]
    rest = sent % 65_536
    assert eventually(lambda: patient.read_log(name))[-1] == [sent - rest, rest, True, True]


def test_a_line_that_is_reset_commits_what_was_received(
    patient: UploadServer, eventually: Eventually, name: str
) -> None:
    sock = patient.connect(build_head(name, 1 << 30) + DATA[:SIZE])
    eventually(lambda: _list_spooled(patient) == [SIZE], PATIENCE)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sock.close()
    eventually(lambda: patient.read_kept(name) == DATA[:SIZE], PATIENCE)
    assert patient.read_log(name) == ["head", [0, SIZE, True, True]]


def test_a_line_that_breaks_before_the_first_byte_commits_nothing(
    patient: UploadServer, eventually: Eventually, name: str
) -> None:
    sock = patient.connect(build_head(name, SIZE))
    eventually(lambda: patient.read_log(name) == ["head"], PATIENCE)
    sock.shutdown(socket.SHUT_WR)
    assert read_rest(sock) == b""
    assert patient.read_log(name) == ["head"]


# -- forms

_MULTIPART = "Content-Type: multipart/form-data; boundary=x"


def _build_form(size: int) -> bytes:
    return _request("POST /imports/x HTTP/1.1", f"Content-Length: {size}", _MULTIPART)


def test_W17_forms_with_a_file_take_no_thread_and_come_as_a_whole(
    patient: UploadServer, eventually: Eventually
) -> None:
    senders = [patient.connect(_build_form(SIZE) + DATA[: SIZE // 2]) for _ in range(20)]
    eventually(lambda: len(_list_spooled(patient)) == 20, PATIENCE)
    assert [patient.get("/healthz")[0] for _ in range(20)] == [200] * 20
    for sock in senders:
        sock.sendall(DATA[SIZE // 2 : SIZE])
    assert all(read_answer(sock)[2] == DATA[:SIZE] for sock in senders)
    # The connections go on.
    for sock in senders:
        sock.sendall(_build_form(SIZE) + DATA[:SIZE])
    assert all(read_answer(sock)[2] == DATA[:SIZE] for sock in senders)


def test_a_form_whose_line_breaks_is_dropped(patient: UploadServer) -> None:
    before = patient.read_state()["log"].get("/imports/x", [])
    sock = patient.connect(_build_form(SIZE) + DATA[: SIZE // 2])
    sock.shutdown(socket.SHUT_WR)
    assert read_rest(sock) == b""
    assert patient.read_state()["log"]["/imports/x"] == [*before, "head"]


# -- limits


def test_W17_uploads_above_a_limit_wait_for_their_turn(narrow: UploadServer, eventually: Eventually) -> None:
    names = [f"turn{number}" for number in range(5)]
    addresses = ["127.0.0.2", "127.0.0.2", "127.0.0.3", "127.0.0.4", "127.0.0.2"]
    senders = []
    for name, address in zip(names, addresses, strict=True):
        senders.append(narrow.connect(build_head(name, SIZE) + DATA[: SIZE // 2], address))
        if len(senders) == 1:  # the server may read those that arrive together in any order
            eventually(lambda: narrow.read_log(names[0]), PATIENCE)
    eventually(lambda: len(_list_spooled(narrow)) == 2, PATIENCE)
    assert [narrow.read_log(name) for name in names] == [["head"], [], ["head"], [], []]
    assert narrow.get("/healthz")[0] == 200

    senders[2].sendall(DATA[SIZE // 2 : SIZE])
    assert read_answer(senders[2])[0] == 204
    eventually(lambda: narrow.read_log(names[3]), PATIENCE)
    assert narrow.read_log(names[1]) == [], "its address has an upload already"

    for number in (3, 0, 1, 4):
        senders[number].sendall(DATA[SIZE // 2 : SIZE])
        assert read_answer(senders[number])[0] == 204
    assert [narrow.read_kept(name) for name in names] == [DATA[:SIZE]] * 5


def test_W17_a_proxy_tells_whose_upload_waits(narrow: UploadServer, eventually: Eventually) -> None:
    names = [f"proxied{number}" for number in range(3)]
    # Only the last address is the proxy's word; a client may have sent the others.
    fields = [
        "X-Forwarded-For: 192.0.2.9, 192.0.2.1",
        "X-Forwarded-For: 192.0.2.1",
        "X-Forwarded-For: 192.0.2.9",
    ]
    senders = []
    for name, field in zip(names, fields, strict=True):
        senders.append(narrow.connect(build_head(name, SIZE, field) + DATA[: SIZE // 2]))
        if len(senders) == 1:
            eventually(lambda: narrow.read_log(names[0]), PATIENCE)
    eventually(lambda: len(_list_spooled(narrow)) == 2, PATIENCE)
    assert [narrow.read_log(name) for name in names] == [["head"], [], ["head"]]
    for sock in senders:
        sock.sendall(DATA[SIZE // 2 : SIZE])
        assert read_answer(sock)[0] == 204


def test_W17_a_refused_upload_makes_room(narrow: UploadServer) -> None:
    for _ in range(5):
        assert read_answer(narrow.connect(build_head("refused", SIZE, "X-Refuse: 413")))[0] == 413
    assert _list_spooled(narrow) == []


def test_W17_a_sender_that_stops_is_ended_and_what_came_is_kept(strict: UploadServer, name: str) -> None:
    sock = strict.connect(build_head(name, SIZE) + DATA[:100])
    status, fields, _ = read_answer(sock)
    assert (status, fields["connection"]) == (408, "close")
    assert strict.read_log(name) == ["head", [0, 100, True, True]]
    assert strict.read_kept(name) == DATA[:100]


def test_W17_an_upload_that_gets_no_turn_is_told_to_come_again(
    strict: UploadServer, eventually: Eventually, name: str
) -> None:
    half = SIZE // 2
    first = strict.connect(build_head(name, SIZE, "X-Wait: 1", f"X-Limit: {half}") + DATA[:half])
    eventually(lambda: len(strict.read_log(name)) == 2, PATIENCE)
    second = strict.connect(build_head(f"{name}-late", SIZE))
    status, fields, _ = read_answer(second)
    assert (status, fields["connection"]) == (503, "close")
    assert int(fields["retry-after"]) > 0
    strict.get("/open")
    # However long a commit takes, the rest is read.
    eventually(lambda: _list_spooled(strict) == [0], PATIENCE)
    first.sendall(DATA[half:SIZE])
    assert read_answer(first)[0] == 204
    assert strict.read_log(f"{name}-late") == []


def _limits(folder: Path = Path(), **changes: float) -> SpoolLimits:
    given = {"idle_seconds": 20.0, "rate": 1024.0, "rate_seconds": 60.0, **changes}
    return SpoolLimits(folder=folder, count=1, per_address=1, proxies=0, **given)


@pytest.mark.parametrize(
    ("step", "count", "ends"),
    [(1.0, 1050, None), (1.0, 1000, 60.0), (19.0, 40 << 10, None), (20.0, 1 << 20, 20.0), (10.0, 1, 60.0)],
)
def test_W17_the_slowest_pace_of_an_upload(step: float, count: int, ends: float | None) -> None:
    pace, now = Pace(_limits(), 0.0), 0.0
    while now < 300:
        now += step
        if pace.is_too_slow(now):
            assert now == ends
            return
        pace.add_received(count, now)
    assert ends is None


def test_W17_a_pause_of_ours_is_not_the_sender_s() -> None:
    pace = Pace(_limits(), 0.0)
    pace.start_again(100.0)
    assert not pace.is_too_slow(119.0)
    assert pace.is_too_slow(120.0)


@pytest.mark.parametrize("has_unnamed_files", [True, False])
def test_W17_an_upload_has_no_name_on_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_unnamed_files: bool
) -> None:
    if not has_unnamed_files:
        monkeypatch.setattr(tempfile, "_O_TMPFILE_WORKS", False)
    folder = tmp_path / "media" / "up"
    spool = Spool("", Pace(_limits(), 0.0))
    spool.accept(100)
    spool.remaining = 3
    spool.write(b"abc", folder)
    part = spool.build_slice()
    assert os.pread(part.descriptor, 10, 0) == b"abc"
    assert os.fstat(part.descriptor).st_dev == folder.stat().st_dev
    assert os.fstat(part.descriptor).st_mode & 0o77 == 0
    assert folder.stat().st_mode & 0o77 == 0
    assert list(folder.iterdir()) == []
    spool.close()
    with pytest.raises(OSError, match="Bad file"):
        os.fstat(part.descriptor)


# -- the disk


@with_mounts
def test_F09_an_upload_that_the_disk_does_not_take_is_refused(eventually: Eventually, name: str) -> None:
    with (
        mount_small_disk(1 << 20) as disk,
        run_upload_server(disk.folder, eventually, upload_idle_seconds="600") as server,
    ):
        disk.leave(SIZE)
        sock = server.connect(build_head(name, 1 << 20) + DATA)
        status, fields, _ = read_answer(sock)
        assert (status, fields["connection"]) == (507, "close")
        assert server.read_log(name) == ["head"]
        assert server.get("/healthz")[0] == 200
        disk.clear()
        (server.home / "media").rename(server.home / "away")
        (server.home / "media").write_bytes(b"not a folder")
        sock = server.connect(build_head(name, SIZE) + DATA[:SIZE])
        status, fields, _ = read_answer(sock)
        assert (status, fields["connection"]) == (500, "close")
        (server.home / "media").unlink()
        sock = server.connect(build_head(name, SIZE) + DATA[:SIZE])
        assert read_answer(sock)[0] == 204


# -- the end of a process


@pytest.mark.parametrize("sign", [signal.SIGTERM, signal.SIGHUP])
def test_W17_a_server_that_stops_keeps_what_came(
    tmp_path: Path, eventually: Eventually, name: str, sign: signal.Signals
) -> None:
    with run_upload_server(tmp_path, eventually, upload_idle_seconds="600", upload_spools="1") as server:
        sending = server.connect(build_head(name, 1 << 30) + DATA[:SIZE])
        eventually(lambda: _list_spooled(server) == [SIZE], PATIENCE)
        waiting = server.connect(build_head("waiting", SIZE))
        assert server.get("/healthz")[0] == 200
        os.kill(server.process.pid, sign)
        assert [read_answer(sock)[0] for sock in (sending, waiting)] == [503, 503]
        assert server.read_kept(name) == DATA[:SIZE]
        if sign == signal.SIGTERM:
            assert server.process.wait(PATIENCE) == 0
        else:
            assert server.get("/healthz")[0] == 200
            sock = server.connect(build_head(name, SIZE) + DATA[SIZE : 2 * SIZE])
            assert read_answer(sock)[0] == 204
            assert server.read_kept(name) == DATA[: 2 * SIZE]


# -- which requests


def _request(line: str, *fields: str) -> bytes:
    return "".join(f"{each}\r\n" for each in (line, "Host: x", *fields, "")).encode()


_LONG = f"Content-Length: {BODY_BYTES + 1}"


@pytest.mark.parametrize(
    ("line", "fields", "spooled"),
    [
        ("PATCH /uploads/0 HTTP/1.1", (_LONG,), True),
        ("POST /uploads HTTP/1.1", (_LONG,), True),
        ("POST /uploads?x=1 HTTP/1.0", (_LONG,), True),
        ("PATCH /api/v1/uploads/0 HTTP/1.1", (_LONG,), True),
        ("PATCH /uploads/0 HTTP/1.1", (f"Content-Length: {BODY_BYTES}",), False),
        ("PATCH /uploads/0 HTTP/1.1", (), False),
        ("PATCH /uploads/0 HTTP/1.1", (_LONG, "transfer-encoding: chunked"), False),
        ("PUT /uploads/0 HTTP/1.1", (_LONG,), False),
        ("PATCH /uploadsx HTTP/1.1", (_LONG,), False),
        ("PATCH /x/uploads/0 HTTP/1.1", (_LONG,), False),
        ("PATCH /api/v2/uploads/0 HTTP/1.1", (_LONG,), False),
        ("PATCH http://x/uploads/0 HTTP/1.1", (_LONG,), False),
        ("POST /login HTTP/1.1", (_LONG, "X: PATCH /uploads/0 HTTP/1.1"), False),
        ("POST /imports HTTP/1.1", (_LONG, _MULTIPART), True),
        ("POST /packs/a-b?x HTTP/1.1", (_LONG, _MULTIPART), True),
        ("POST /settings/avatar HTTP/1.1", (_MULTIPART, _LONG), True),
        ("POST /imports HTTP/1.1", (_MULTIPART,), False),
        ("POST /imports HTTP/1.1", (_LONG, "Content-Type: application/x-www-form-urlencoded"), False),
        ("POST /login HTTP/1.1", (_LONG, _MULTIPART), False),
        ("POST /api/v1/imports HTTP/1.1", (_LONG,), True),
        ("PUT /api/v1/folders/1 HTTP/1.1", (_LONG, _MULTIPART), True),
        ("POST /api/v1/imports HTTP/1.1", (), False),
        ("POST /api/v1/imports HTTP/1.1", (_LONG, "Transfer-Encoding: chunked"), False),
        ("GET /api/v1/imports HTTP/1.1", (_LONG,), False),
        ("POST /reader/api/0/subscription/import HTTP/1.1", (_LONG,), True),
        ("POST /api/greader.php/reader/api/0/edit-tag HTTP/1.1", (_LONG,), True),
        ("POST /accounts/ClientLogin HTTP/1.1", (_LONG,), False),
        ("POST /websub/token HTTP/1.1", (_LONG,), True),
        ("POST /websubs HTTP/1.1", (_LONG,), False),
    ],
)
def test_which_requests_the_loop_receives(line: str, fields: tuple[str, ...], spooled: bool) -> None:
    assert is_spooled(_request(line, *fields)) is spooled
