"""The HTTP server as we run it: bad requests refused, slow clients in nobody's way (security.md W17)."""

from __future__ import annotations

import contextlib
import functools
import http.client
import os
import select
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from gunicorn.config import Config
from gunicorn.http.wsgi import Response
from gunicorn.workers.gthread import TConn

from app import embedded
from app.commands.gunicorn_worker import BODY_BYTES, HEAD_BYTES, is_complete, is_surely_complete
from app.commands.unread import UNSENT_BYTES, Answer, Outbox, UnreadLimits, UnreadTable
from app.config import Settings
from tests.support.imports import REPO
from tests.support.up import free_port

Eventually = Callable[..., Any]
_ESTABLISHED = 1  # TCP_ESTABLISHED
_PATIENCE = 60.0
#: Answers with the body it got; the limits of the worker are arguments.
_SERVER = """
import os, sys, threading
from app import application
from app.commands import gunicorn_worker, processes
from app.config import Settings
gunicorn_worker.LINGER_SECONDS = 1e6  # who stays, stays
limits = gunicorn_worker
port, limits.ARRIVE_SECONDS, limits.READ_SECONDS, limits.ANSWER_SECONDS = map(float, sys.argv[1:])
inside, busiest, lock = 0, 0, threading.Lock()
def stream():
    for _ in range(1024):
        yield b"x" * (64 << 10)
def echo(environ, start):
    global inside, busiest
    with lock:
        inside += 1
        busiest = max(busiest, inside) if environ["PATH_INFO"] == "/page" else busiest
    try:
        return answer(environ, start)
    finally:
        with lock:
            inside -= 1
def answer(environ, start):
    if environ["PATH_INFO"] == "/busiest":
        start("200 OK", [("Content-Length", str(len(str(busiest))))])
        return [str(busiest).encode()]
    if environ["PATH_INFO"] in ("/stream", "/chunks"):
        start("200 OK", [("Content-Length", str(64 << 20))] if environ["PATH_INFO"] == "/stream" else [])
        return stream()
    if environ["PATH_INFO"] == "/page":
        sum(range(100_000))  # other threads get their turn
        start("200 OK", [("Content-Length", str(1 << 18))])
        return [b"p" * (1 << 18)]
    body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
    # More than the buffers of a connection hold, for clients that do not read.
    large = b"x" * (64 << 20) if environ["PATH_INFO"] == "/large" else body
    start("200 OK", [("Content-Length", str(len(large)))])
    return [large]
if "EVENTR_MONGODB_URI" not in os.environ:
    application.build = lambda settings: echo
os.environ |= {"EVENTR_PORT": f"{port:.0f}", "EVENTR_WEB_WORKERS": "1", "EVENTR_WEB_THREADS": "2"}
processes._gunicorn(Settings.from_env())
"""


class Web:
    """One real gunicorn with two threads, and raw clients for it; with ``environment`` the real Eventr."""

    def __init__(self, port: int, *limits: float, **environment: str) -> None:
        self.port = port
        arguments = [str(each) for each in (port, *limits)]
        self.process = subprocess.Popen(
            [sys.executable, "-c", _SERVER, *arguments],
            cwd=REPO,
            env={**os.environ, **environment},
            stderr=subprocess.DEVNULL,
        )
        self._open: list[socket.socket] = []

    def connect(self, data: bytes = b"") -> socket.socket:
        sock = socket.create_connection(("127.0.0.1", self.port), timeout=_PATIENCE)
        self._open.append(sock)
        sock.sendall(data)
        return sock

    def status(self) -> int | None:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=_PATIENCE)
        try:
            connection.request("GET", "/")
            return connection.getresponse().status
        except ConnectionError:
            return None
        finally:
            connection.close()

    def close(self) -> None:
        for sock in self._open:
            sock.close()
        self.process.terminate()
        self.process.wait(_PATIENCE)


def _web(eventually: Eventually, *limits: float, **environment: str) -> Iterator[Web]:
    web = Web(free_port(), *limits, **environment)
    try:
        eventually(lambda: web.status() == 200, _PATIENCE)
        yield web
    finally:
        web.close()


#: Room for clients that don't read, where a test isn't about this limit.
_ROOM = {"EVENTR_WEB_UNREAD_PER_ADDRESS": "500", "EVENTR_WEB_UNREAD_TOTAL": str(1 << 34)}


@pytest.fixture(scope="module")
def patient(eventually: Eventually) -> Iterator[Web]:
    """Waits for ever: a client that blocks a thread blocks it until the test fails."""
    yield from _web(eventually, 1e6, 1e6, 1e6, EVENTR_WEB_UNREAD_SECONDS="600", **_ROOM)


@pytest.fixture(scope="module")
def strict(eventually: Eventually) -> Iterator[Web]:
    """Ends what is slow almost at once."""
    yield from _web(eventually, 0.1, 0.1, 0.2, EVENTR_WEB_UNREAD_SECONDS="0.2", **_ROOM)


@pytest.fixture(scope="module")
def eventr(eventually: Eventually, servers: embedded.EmbeddedServers) -> Iterator[Web]:
    """The real application, as patient as the echo."""
    yield from _web(
        eventually, 1e6, 1e6, 1e6,
        EVENTR_MONGODB_URI=servers.mongodb_uri,
        EVENTR_MONGODB_NAME="test_web_tier",
        EVENTR_REDIS_URL=servers.redis_url,
        EVENTR_SECRET_KEY="pK3v9sXq7Lw2Zr8Tn5Yb1Hd6Jf4Gm0Ca",
    )  # fmt: skip


def _all(sock: socket.socket) -> bytes:
    """Return all that comes until the end; a reset is one too, where the server gave a client up."""
    parts: list[bytes] = []
    with contextlib.suppress(ConnectionResetError):
        parts += iter(functools.partial(sock.recv, 1 << 16), b"")
    return b"".join(parts)


_POST = b"POST / HTTP/1.1\r\nHost: x\r\n"


_FORM = b"POST /login HTTP/1.1\r\nHost: 127.0.0.1\r\nSec-Fetch-Site: same-origin\r\n" + (
    b"Content-Type: application/x-www-form-urlencoded\r\n"
)
_CHUNKS = b"Transfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize("name", ["patient", "eventr"])
@pytest.mark.parametrize(
    "start",
    [
        b"",
        b"GET / HT",
        b"GET / HTTP/1.1\r\nHost: x\r\n",
        b"GET / HTTP/1.1\r\nHost: x\n\n",
        _FORM + b"Content-Length: 100\r\n\r\nabc",
        _FORM + b"Content-Length: %d\r\n\r\nabc" % (BODY_BYTES + 1),
        _FORM + _CHUNKS + b"5\r\nab",
        b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\nGET / HT",
    ],
    ids=["nothing", "line", "head", "line ends", "body", "long body", "chunk", "behind another"],
)
def test_W17_clients_that_send_half_a_request_stop_nobody(
    request: pytest.FixtureRequest, name: str, start: bytes
) -> None:
    server: Web = request.getfixturevalue(name)
    slow = [server.connect(start) for _ in range(100)]
    assert [server.status() for _ in range(5)] == [200] * 5
    for sock in slow:
        sock.close()
    assert server.status() == 200


@pytest.mark.parametrize(
    "size", [b"5;a\nb", b"-5", b"0x5", b"zz", b"", b"5\r\nabcdeX", b"100\r\nabc", b"f" * 40]
)
def test_W17_bad_chunks_are_refused_and_nothing_follows(eventr: Web, size: bytes) -> None:
    answer = _all(eventr.connect(_FORM + _CHUNKS + size + b"\r\nGET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"))
    assert answer.startswith(b"HTTP/1.1 411 "), answer[:100]
    assert b"\r\nConnection: close\r\n" in answer
    assert answer.count(b"HTTP/1.1 ") == 1


@pytest.mark.parametrize("method", [b"GET /healthz", b"GET /static/x", b"POST /nope", b"PUT /login"])
def test_W16_a_body_above_the_limit_is_refused_unread(eventr: Web, method: bytes) -> None:
    head = method + b" HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: %d\r\n\r\n" % (
        Settings().max_request_bytes + 1
    )
    answer = _all(eventr.connect(head))
    assert answer.startswith(b"HTTP/1.1 413 "), answer[:100]
    assert b"\r\nConnection: close\r\n" in answer


def test_W10_a_request_without_a_host_is_refused(eventr: Web) -> None:
    for version in (b"1.1", b"1.0"):
        request = b"GET /login HTTP/%s\r\nConnection: close\r\n\r\n" % version
        assert b" 400 " in _all(eventr.connect(request)).partition(b"\r\n")[0]


def test_W16_what_the_application_reads_has_arrived_before() -> None:
    assert Settings().max_request_bytes <= BODY_BYTES


def test_W17_clients_that_stay_after_their_answer_stop_nobody(patient: Web) -> None:
    answered = b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    wrong = b"GET / HTTP/9.9\r\n\r\n"
    staying = [patient.connect(request) for request in [answered, wrong] * 50]
    assert [patient.status() for _ in range(5)] == [200] * 5
    assert all(_all(sock).startswith(b"HTTP/1.1 ") for sock in staying)


@pytest.mark.parametrize(
    "start",
    [
        b"",
        b"GET / HTTP/1.1\r\nHost: x\r\n",
        _POST + b"Content-Length: %d\r\n\r\nabc" % (BODY_BYTES + 1),
        _POST + b"Transfer-Encoding: chunked\r\n\r\n3\r\n",
    ],
    ids=["nothing", "head", "long body", "chunks"],
)
def test_W17_slow_requests_are_ended(strict: Web, eventually: Eventually, start: bytes) -> None:
    for sock in [strict.connect(start) for _ in range(8)]:
        _all(sock)  # returns at the end of the stream
    # Asked again: so strict a server ends who is only held up, too.
    eventually(lambda: strict.status() == 200, _PATIENCE)


_UNREAD = {
    "pages": b"GET /page HTTP/1.1\r\nHost: x\r\n\r\n" * 200,
    "large": b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n",
    "stream": b"GET /stream HTTP/1.1\r\nHost: x\r\n\r\n",
    "chunks": b"GET /chunks HTTP/1.1\r\nHost: x\r\n\r\n",
}


@pytest.mark.parametrize("kind", ["pages", "stream", "chunks"])
def test_W17_clients_that_never_read_their_answers_stop_nobody(patient: Web, kind: str) -> None:
    unread = [patient.connect(_UNREAD[kind]) for _ in range(40)]
    # This server waits for ever: a client that held one of the two threads would hold it until the end.
    assert [patient.status() for _ in range(20)] == [200] * 20
    for sock in unread:
        sock.close()
    assert patient.status() == 200


def test_W17_an_answer_in_one_piece_above_the_limit_holds_few_threads(patient: Web) -> None:
    unread = [patient.connect(_UNREAD["large"]) for _ in range(8)]
    assert [patient.status() for _ in range(20)] == [200] * 20
    # One of the two threads may wait, and the others of these clients lose their answers.
    assert sum(len(_all(sock)) > 64 << 20 for sock in unread) == 1


def test_W17_requests_sent_ahead_of_their_answers_get_few_threads(patient: Web) -> None:
    ahead = [patient.connect(_UNREAD["pages"]) for _ in range(10)]
    for sock in ahead:
        got = 0
        while got < 20 << 18:  # twenty of its pages
            got += len(sock.recv(1 << 20))
    assert _get(patient, "/busiest") == b"1"


@pytest.mark.parametrize("kind", ["large", "stream", "chunks"])
def test_W17_an_answer_that_is_read_late_is_whole(patient: Web, kind: str) -> None:
    sock = patient.connect(_UNREAD[kind])
    assert patient.status() == 200
    answer = http.client.HTTPResponse(sock)
    answer.begin()
    parts = 0
    while part := answer.read(1 << 20):
        assert part == b"x" * len(part)
        parts += len(part)
    assert parts == 64 << 20


def test_W17_a_reader_slower_than_its_answer_is_not_cut_off(strict: Web) -> None:
    sock = strict.connect(_UNREAD["stream"])
    seconds, got, began = 0.2, 0, time.monotonic()
    # Reads for many times the limit, but more than the least amount each time it may be looked at.
    while got < 16 << 20:
        part = sock.recv(1 << 18)
        assert part, "the server ended it"
        got += len(part)
        select.select([], [], [], seconds / 20)
    assert time.monotonic() - began > seconds


class Table:
    """Real connections of clients that don't read, in a table of this process."""

    def __init__(self, **limits: Any) -> None:
        self.cut: list[str] = []
        given: dict[str, Any] = {"per_address": 0, "bytes_each": 0, "bytes_all": 1 << 30, "clients": 500}
        self._rows = UnreadTable(UnreadLimits(**{"seconds": 1e6, "threads": 1, **given, **limits}), self._cut)
        self._names: dict[TConn, str] = {}
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, UNSENT_BYTES)
        self._open = [self._listener]

    def close(self) -> None:
        for sock in self._open:
            sock.close()

    def add(self, name: str, address: str, *, size: int = 8 << 20) -> socket.socket:
        client = socket.create_connection(self._listener.getsockname())
        sock, _ = self._listener.accept()
        self._open += client, sock
        conn = TConn(Config(), sock, (address, 1), ("127.0.0.1", 2))
        self._names[conn] = name
        request: Any = SimpleNamespace(method="GET", version=(1, 1), should_close=lambda: False)
        response = Response(request, Outbox(sock), Config())  # type: ignore[arg-type]
        response.start_response("200 OK", [("Content-Length", str(size))])
        answer = Answer(response.sock, response, [b"x" * size])  # type: ignore[arg-type]
        answer.write()
        self._rows.add(conn, answer)
        return client

    def check(self) -> None:
        self._rows._next_check = 0.0
        self._rows.check()

    def get_order(self) -> list[str]:
        self.check()
        return [self._names[conn] for conn in self._rows._rows]

    def _cut(self, conn: TConn) -> None:
        self._rows.remove(conn)
        self.cut.append(self._names[conn])


@pytest.fixture
def tables() -> Iterator[Callable[..., Table]]:
    with contextlib.ExitStack() as stack:

        def build(**limits: float) -> Table:
            table = Table(**limits)
            stack.callback(table.close)
            return table

        yield build


def test_W17_the_oldest_unread_answer_of_an_address_makes_room(tables: Callable[..., Table]) -> None:
    table = tables(per_address=2)
    for name, address in [("a", "192.0.2.1"), ("b", "192.0.2.2"), ("c", "192.0.2.1"), ("d", "192.0.2.1")]:
        table.add(name, address)
    assert table.cut == ["a"]
    for name, address in [("e", "2001:db8::1"), ("f", "2001:db8::2"), ("g", "2001:db8:0:0:1::1")]:
        table.add(name, address)
    assert table.cut == ["a", "e"]


@pytest.mark.parametrize("limit", [{"clients": 2}, {"bytes_all": 20 << 20}])
def test_W17_unread_answers_of_a_process_are_limited(
    tables: Callable[..., Table], limit: dict[str, int]
) -> None:
    table = tables(**limit)
    for number in range(4):
        table.add(str(number), f"192.0.2.{number}")
    assert table.cut == ["0", "1"]


def test_W17_a_client_that_reads_goes_behind_those_that_do_not(
    tables: Callable[..., Table], eventually: Eventually
) -> None:
    table = tables(clients=2)
    reads, _ = table.add("reads", "192.0.2.1"), table.add("stays", "192.0.2.2")

    def read_on() -> list[str]:
        with contextlib.suppress(BlockingIOError):
            reads.recv(32 << 10, socket.MSG_DONTWAIT)
        return table.get_order()

    eventually(lambda: read_on() == ["stays", "reads"], _PATIENCE)
    table.add("new", "192.0.2.3")
    assert table.cut == ["stays"]


def test_W17_a_client_must_go_on_reading(tables: Callable[..., Table]) -> None:
    table = tables(seconds=0.0)
    table.add("stays", "192.0.2.2")
    table.check()
    assert table.cut == ["stays"]


def _is_cut(sock: socket.socket) -> bool:
    return bool(sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)) or _state(sock) != _ESTABLISHED


def _get(web: Web, path: str) -> bytes:
    connection = http.client.HTTPConnection("127.0.0.1", web.port, timeout=_PATIENCE)
    connection.request("GET", path)
    body = connection.getresponse().read()
    connection.close()
    return body


def _state(sock: socket.socket) -> int:
    return sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0]


@pytest.mark.parametrize("kind", _UNREAD)
def test_W17_a_client_that_does_not_read_its_answer_is_cut_off(
    strict: Web, eventually: Eventually, kind: str
) -> None:
    unread = [strict.connect(_UNREAD[kind]) for _ in range(4 if kind == "large" else 40)]
    eventually(lambda: all(map(_is_cut, unread)), _PATIENCE)
    eventually(lambda: strict.status() == 200, _PATIENCE)


@pytest.mark.parametrize(
    "request_bytes",
    [
        _POST + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        _POST + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nabcdef",
        _POST + b"Content-Length: +5\r\n\r\nabcde",
        _POST + b"Content-Length: 5, 5\r\n\r\nabcde",
        _POST + b"Transfer-Encoding: xchunked\r\n\r\n",
        _POST + b"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
        _POST + b"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
        _POST + b"X_Forwarded_For: 1.2.3.4\r\nContent-Length: 0\r\n\r\n",
        _POST + b"Content-Length: 0\r\n folded: x\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nA: \x00\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nA: b\rC: d\r\n\r\n",
        b"GET / HTTP/9.9\r\nHost: x\r\n\r\n",
        b"GET / HTTP/1.1\nHost: x\n\n",
        b"GET /" + b"a" * 9000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 200 + b"\r\n",
        b"GET / HTTP/1.1\r\nA: " + b"b" * HEAD_BYTES,
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
    ],
)
def test_W17_requests_that_could_be_read_in_two_ways_are_refused(patient: Web, request_bytes: bytes) -> None:
    answer = _all(patient.connect(request_bytes))
    assert answer.split(b" ")[1][:1] in (b"4", b"5"), answer[:100]
    assert answer.count(b"HTTP/1.1 ") == 1, "and nothing behind it is taken for a second request"


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"GET /\x00<script>alert(1)</script> HTTP/1.1\r\nHost: x\r\n\r\n", b"400"),
        (b"<script>alert(1)</script>\r\n\r\n", b"400"),
        (b"GET / HTTP/1.1\r\nHost: x\r\n<script>: y\r\n\r\n", b"400"),
        (_POST + b"Content-Length: 1\r\nContent-Length: <script>\r\n\r\nab", b"400"),
        (_POST + b"Transfer-Encoding: <script>\r\n\r\n", b"501"),
        (b"GET /" + b"<script>" * 1200 + b" HTTP/1.1\r\nHost: x\r\n\r\n", b"414"),
        (b"GET / HTTP/1.1\r\n" + b"A: <script>\r\n" * 200 + b"\r\n", b"431"),
        (b"GET / HTTP/1.1\r\nA: " + b"<script>" * (HEAD_BYTES // 8), b"431"),
    ],
)
def test_V03_H11_what_cannot_be_read_is_not_repeated(
    patient: Web, request_bytes: bytes, status: bytes
) -> None:
    head, _, body = _all(patient.connect(request_bytes)).partition(b"\r\n\r\n")
    first, *fields = head.split(b"\r\n")
    told = dict(field.split(b": ", 1) for field in fields)
    assert first.split(b" ")[1] == status
    assert b"script" not in head + body
    assert (told[b"Content-Type"], told[b"X-Content-Type-Options"]) == (b"text/plain", b"nosniff")
    assert told[b"Content-Security-Policy"] == b"default-src 'none'"
    assert (told[b"Connection"], int(told[b"Content-Length"])) == (b"close", len(body))


def test_W17_no_answer_names_the_server(patient: Web) -> None:
    for request in (b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", b"GET\r\n\r\n"):
        sock = patient.connect(request)
        answer = b"".join(iter(functools.partial(sock.recv, 1 << 16), b"")).lower()
        head = answer.partition(b"\r\n\r\n")[0]
        assert head.startswith(b"http/1.1 ")
        assert b"\r\nserver:" not in head
        assert b"gunicorn" not in head


def test_a_request_may_come_byte_by_byte(patient: Web) -> None:
    sock = patient.connect()
    for byte in _POST + b"Content-Length: 3\r\nConnection: close\r\n\r\nabc":
        sock.sendall(bytes([byte]))
    assert _all(sock).endswith(b"\r\n\r\nabc")


def test_a_connection_takes_one_request_after_the_other(patient: Web) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", patient.port, timeout=_PATIENCE)
    for body in (b"first", b"y" * (2 * BODY_BYTES), b"", b"last"):
        connection.request("POST", "/", body)
        assert connection.getresponse().read() == body
    connection.close()
    both = (
        _POST + b"Content-Length: 3\r\n\r\none" + _POST + b"Content-Length: 3\r\nConnection: close\r\n\r\ntwo"
    )
    answer = _all(patient.connect(both))
    assert answer.count(b"HTTP/1.1 200") == 2
    assert b"one" in answer
    assert answer.endswith(b"two")


def test_a_client_that_ends_its_side_gets_its_answer(patient: Web) -> None:
    sock = patient.connect(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    sock.shutdown(socket.SHUT_WR)
    assert _all(sock).startswith(b"HTTP/1.1 200")
    half = patient.connect(b"GET / HTTP/1.1\r\nHost")
    half.shutdown(socket.SHUT_WR)
    assert _all(half) == b""


def test_a_server_that_stops_does_not_wait_for_slow_clients(eventually: Eventually) -> None:
    web = Web(free_port(), 1e6, 1e6, 1e6)
    try:
        eventually(lambda: web.status() == 200, _PATIENCE)
        sock = web.connect(b"GET / HTTP/1.1\r\n")
        assert web.status() == 200
        web.process.terminate()
        assert _all(sock) == b""
        assert web.process.wait(_PATIENCE) == 0
    finally:
        web.close()


@pytest.mark.parametrize(
    ("seen", "complete"),
    [
        (b"", False),
        (b"GET / HTTP/1.1\r\nHost: x\r\n", False),
        (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", True),
        (b"POST / HTTP/1.1\r\ncontent-LENGTH:  3 \r\n\r\nab", False),
        (b"POST / HTTP/1.1\r\ncontent-LENGTH:  3 \r\n\r\nabc", True),
        (b"POST / HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % (BODY_BYTES + 1), True),
        (b"POST / HTTP/1.1\r\nX-Content-Length: 9\r\n\r\n", True),
        (b"GET / HTTP/1.1\n\n", True),
    ],
)
def test_what_a_thread_is_given(seen: bytes, complete: bool) -> None:
    assert is_complete(seen) is complete


@pytest.mark.parametrize(
    ("seen", "whole"),
    [
        (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", True),
        (_POST + b"Content-Length: 3\r\n\r\nabc", True),
        (_POST + b"Content-Length: %d\r\n\r\n" % (BODY_BYTES + 1), False),
        (_POST + b"Content-Length: %s3\r\n\r\nabc" % (b"0" * 30), True),
        (_POST + b"Content-Length: %s100\r\n\r\n" % (b"0" * 30), False),
        (_POST + b"Content-Length: %s\r\n\r\n" % (b"1" * 30), False),
        (_POST + b"transfer-ENCODING: chunked\r\n\r\n0\r\n\r\n", False),
        (b"GET / HTTP/1.1\r\nHost: x\n\n", False),
    ],
)
def test_what_a_thread_never_waits_for(seen: bytes, whole: bool) -> None:
    assert is_surely_complete(seen) is whole
