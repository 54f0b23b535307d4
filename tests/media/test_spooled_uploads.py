"""Uploads through the real web server and its real routes (security.md W17, U03)."""

from __future__ import annotations

import contextlib
import dataclasses
import hmac
import random
import re
import signal
from collections.abc import Iterator
from typing import Any

import psutil
import pytest

from app import clock, embedded
from app.bootstrap import services as bootstrap
from app.bootstrap.services import Services
from app.commands import gunicorn_worker
from app.models.accounts.actor import Actor
from app.models.accounts.token import Scope
from tests.media.test_tus import make_token
from tests.support import live
from tests.support.reader import add_user
from tests.support.upload_client import START, Content, UploadClient
from tests.support.upload_server import Eventually, read_answer, read_rest


@dataclasses.dataclass
class Web:
    """A real web server with one process of two threads, and a user's program."""

    services: Services
    pid: int
    actor: Actor
    client: UploadClient

    def kill_worker(self) -> None:
        """Kill the process that answers; the server starts another one."""
        for child in psutil.Process(self.pid).children():
            child.send_signal(signal.SIGKILL)


@pytest.fixture(scope="module")
def web(servers: embedded.EmbeddedServers, eventually: Eventually) -> Iterator[Web]:
    """A server that receives any number of uploads."""
    with live.homed(servers.settings) as homed:
        settings = dataclasses.replace(
            homed,
            mongodb_name="test_spooled_uploads",
            secret_key="pK3v9sXq7Lw2Zr8Tn5Yb1Hd6Jf4Gm0Ca",
            argon2_memory_kib=19456,
            argon2_time=1,
            disk_min_free=0.0,
            web_threads=2,
            upload_spools=200,
            upload_spools_per_address=200,
            upload_part_max=256 << 10,
            uploads_open=100,
            websub="on",
        )
        with contextlib.closing(bootstrap.build(settings)) as services:
            services.migrate()
            actor = add_user(services, "ann")
            client = UploadClient(settings.port, make_token(services, actor, Scope.FILES))
            part = live.web(settings)
            try:
                eventually(client.is_served, START)
                yield Web(services, part.pid, actor, client)
            finally:
                part.stop()
                services.store.database.client.drop_database(settings.mongodb_name)


def test_W17_slow_senders_of_real_uploads_take_no_thread(web: Web) -> None:
    client, data = web.client, random.Random(3).randbytes(128 << 10)
    half = len(data) // 2
    paths = [client.create(len(data)) for _ in range(30)]
    senders = [client.connect() for _ in paths]
    for sock, path in zip(senders, paths, strict=True):
        sock.sendall(client.build_part(path, 0, len(data)) + data[:half])
    # The server has two threads, and these senders hold them all until they have sent the rest.
    assert all(client.is_served() for _ in range(10))
    assert {client.read_progress(path)["upload-offset"] for path in paths[:3]} == {"0"}
    for sock in senders:
        sock.sendall(data[half:])
    answers = [read_answer(sock) for sock in senders]
    assert {(status, fields["upload-offset"]) for status, fields, _ in answers} == {(204, str(len(data)))}
    for sock in senders:
        sock.close()


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"token": "evt_none"}, 401),
        ({"path": "/api/v1/uploads/" + "0" * 32}, 404),
        ({"path": "/uploads/" + "0" * 32}, 401),
        ({"offset": 1}, 409),
        ({"fields": ("Transfer-Encoding: chunked",), "length": None}, 411),
    ],
)
def test_W17_a_refused_part_costs_no_byte(web: Web, change: dict[str, Any], status: int) -> None:
    path = web.client.create(1 << 20)
    given: dict[str, Any] = {"path": path, "offset": 0, "length": 1 << 20, **change}
    with contextlib.closing(web.client.connect()) as sock:
        sock.sendall(web.client.build_part(**given) + b"x" * 1000)
        found, fields, _ = read_answer(sock)
        assert (found, fields["connection"]) == (status, "close")
        assert read_rest(sock) == b""
    assert web.client.read_progress(path)["upload-offset"] == "0"


def test_W17_slow_forms_with_a_file_take_no_thread(web: Web) -> None:
    earlier = len(web.services.imports.list_recent(web.actor))
    token = web.services.gateways.sessions.open_session(web.actor.user_id, agent="", address="")
    cookie = f"Cookie: eventr={token}"
    with contextlib.closing(web.client.connect()) as sock:
        sock.sendall(web.client.build("GET", "/imports", cookie))
        page = read_answer(sock)[2].decode()
    found = re.search(r'name="csrf_token" value="([^"]+)"', page)
    assert found
    outlines = "".join(
        f'<outline type="rss" text="{n}" xmlUrl="https://{n}.example/f"/>' for n in range(3000)
    )
    parts = {"csrf_token": found[1], "file": f'<opml version="2.0"><body>{outlines}</body></opml>'}
    body = "".join(
        f'--x\r\nContent-Disposition: form-data; name="{name}"'
        + ('; filename="a.opml"' if name == "file" else "")
        + f"\r\n\r\n{text}\r\n"
        for name, text in parts.items()
    )
    data = f"{body}--x--\r\n".encode()
    fields = (cookie, "Sec-Fetch-Site: same-origin", "Content-Type: multipart/form-data; boundary=x")
    head = web.client.build("POST", "/imports", *fields, f"Content-Length: {len(data)}")
    senders = [web.client.connect() for _ in range(4)]
    for sock in senders:
        sock.sendall(head + data[: len(data) // 2])
    assert all(web.client.is_served() for _ in range(5))
    for sock in senders[:2]:
        sock.sendall(data[len(data) // 2 :])
        assert read_answer(sock)[0] == 303
    for sock in senders:
        sock.close()
    imports = web.services.imports.list_recent(web.actor)
    assert [one.total for one in imports[: len(imports) - earlier]] == [3000] * 2


def build_opml(feeds: int) -> bytes:
    """Return a subscription list, longer than what the loop waits for as with any request."""
    outlines = "".join(
        f'<outline type="rss" text="{n}" xmlUrl="https://{n}.example/feed"/>' for n in range(feeds)
    )
    found = f'<opml version="2.0"><body>{outlines}</body></opml>'.encode()
    assert len(found) > 2 * gunicorn_worker.BODY_BYTES
    return found


def subscribe_to_hub(web: Web, token: str, secret: str) -> int:
    """Subscribe to a feed whose hub pushes to a callback; return the subscription's id."""
    feed = web.services.subscriptions.subscribe(web.actor, f"https://{token}.example/feed")
    hubs = web.services.mappers.websubs
    assert hubs.add(
        feed.subscription.feed_id, "https://hub.example/", "https://a.example/", token=token, secret=secret,
        now=clock.now(),
    )  # fmt: skip
    found = hubs.find_by_token(token)
    assert found is not None
    return found.id


def test_W17_slow_programs_and_hubs_take_no_thread(web: Web) -> None:
    client, opml, push = web.client, build_opml(3000), b"<rss>" + b"x" * (200 << 10) + b"</rss>"
    begun, secret = clock.now(), "0123456789"
    hub = subscribe_to_hub(web, "callback1", secret)
    signed = f"X-Hub-Signature: sha256={hmac.new(secret.encode(), push, 'sha256').hexdigest()}"
    sessions = web.services.gateways.sessions
    session = sessions.find_session(sessions.open_session(web.actor.user_id, agent="", address=""))
    assert session is not None
    _, password = web.services.tokens.make_app_password(web.actor, session[0], "An app")
    reader = f"Authorization: GoogleLogin auth={web.services.tokens.build_reader_auth(password)}"
    token = make_token(web.services, web.actor, Scope.SUBSCRIBE)
    requests = [
        ("/api/v1/imports", (f"Authorization: Bearer {token}", "Content-Type: text/x-opml"), opml, 201),
        ("/reader/api/0/subscription/import", (reader, "Content-Type: text/xml"), opml, 200),
        ("/websub/callback1", (signed,), push, 202),
    ]
    senders = []
    for path, fields, body, status in requests * 2:
        sock = client.connect()
        sock.sendall(build_head(web, path, *fields, f"Content-Length: {len(body)}") + body[: len(body) // 2])
        senders.append((sock, body, status))
    # The server has two threads, and these senders hold them all until they have sent the rest.
    assert all(client.is_served() for _ in range(10))
    # Those who began last are answered first: they don't wait for the others either.
    for sock, body, status in reversed(senders[3:]):
        sock.sendall(body[len(body) // 2 :])
        found, _, answer = read_answer(sock)
        assert found == status, answer
    for sock, _, _ in senders:
        sock.close()
    lists = [found.total for found in web.services.imports.list_recent(web.actor) if found.created >= begun]
    assert lists == [3000, 3000]
    row = web.services.mappers.websubs.find(hub)
    assert row is not None
    assert (row.pushes, row.forged) == (1, 0)


def build_head(web: Web, path: str, *fields: str) -> bytes:
    lines = (f"POST {path} HTTP/1.1", f"Host: 127.0.0.1:{web.client.port}", *fields)
    return "".join(f"{line}\r\n" for line in (*lines, "")).encode()


@pytest.mark.parametrize(
    ("path", "field", "status"),
    [
        ("/api/v1/imports", "Authorization: Bearer evt_none", 401),
        ("/api/v1/imports", "Content-Length: 999999999", 413),
        ("/api/v1/nothing", "", 404),
        ("/reader/api/0/subscription/import", "Authorization: GoogleLogin auth=ann/0", 401),
        ("/reader/api/0/subscription/edit", "Content-Length: 99999999", 413),
        ("/websub/unknown", "", 410),
        ("/websub/callback2", "Content-Length: 99999999", 413),
    ],
)
def test_W17_a_refused_body_of_a_program_costs_no_byte(web: Web, path: str, field: str, status: int) -> None:
    if path.endswith("callback2"):
        subscribe_to_hub(web, "callback2", "0123456789")
    length = field if field.startswith("Content-Length") else "Content-Length: 1000000"
    token = make_token(web.services, web.actor, Scope.SUBSCRIBE)
    known = field if field.startswith("Authorization") else f"Authorization: Bearer {token}"
    with contextlib.closing(web.client.connect()) as sock:
        sock.sendall(build_head(web, path, length, known, "Content-Type: text/x-opml") + b"x" * 1000)
        found, fields, _ = read_answer(sock)
        assert (found, fields["connection"]) == (status, "close")
        assert read_rest(sock) == b""


def test_a_long_body_counts_as_one_request(web: Web) -> None:
    token = f"Authorization: Bearer {make_token(web.services, web.actor, Scope.READ, Scope.SUBSCRIBE)}"
    opml, left = build_opml(3000), list[int]()
    for method, path, body in (("GET", "/api/v1/imports", b""), ("POST", "/api/v1/imports", opml)) * 2:
        with contextlib.closing(web.client.connect()) as sock:
            size = f"Content-Length: {len(body)}"
            head = build_head(web, path, token, size, "Content-Type: text/x-opml")
            sock.sendall(head.replace(b"POST", method.encode(), 1) + body)
            status, fields, _ = read_answer(sock)
        assert status in (200, 201)
        (found,) = re.findall(r"r=(\d+)", fields["ratelimit"])
        left.append(int(found))
    assert left == [left[0], left[0] - 1, left[0] - 2, left[0] - 3]


def test_U03_F03_an_upload_survives_cuts_and_killed_web_processes(web: Web, eventually: Eventually) -> None:
    content, chance = Content.make(11, 64 << 20), random.Random(11)
    path = web.client.create(content.size)
    cuts = chance.sample(range(1, content.size), 50)
    web.client.send_with_cuts(
        path, content, 4 << 20, cuts, chance.sample(cuts, 5), web.kill_worker, eventually
    )
    upload_id = path.rpartition("/")[2]
    assert web.services.sealing.seal_upload(upload_id)["state"] == "done"
    assert [file.blob for file in web.services.files.list_files(web.actor)] == [content.hash()]
