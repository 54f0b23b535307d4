"""tus 1.0 over raw sockets: tusd's own sub-tests by their names (U03), and what they leave out."""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import datetime as dt
import email.utils
import hashlib
import itertools
from collections.abc import Iterator
from typing import Any

import pytest

from app import clock, create_app
from app.bootstrap.services import Services
from app.models.accounts.actor import Actor
from app.models.accounts.token import Scope
from app.models.operations.disk_space import DiskSpace
from app.services.accounts.sign_in import Client
from app.services.free_space import FreeSpace
from app.web.security import csrf
from app.web.security.sessions import get_cookie_name
from tests.media.test_uploads import rebuild
from tests.media.wire import Answer, Wire, serve
from tests.support.reader import PASSWORD, add_user

PART = "application/offset+octet-stream"


@dataclasses.dataclass
class Tus:
    """A client of one of the two addresses."""

    wire: Wire
    place: str
    actor: Actor
    services: Services

    def send(self, method: str, url: str = "", body: bytes | None = None, **headers: Any) -> Answer:
        if method == "PATCH":
            headers = {"Content-Type": PART, **headers}
        return self.wire.send(method, url or self.place, body, **headers)

    def create(self, size: int | None = 10, **headers: Any) -> str:
        given = {"Upload-Defer-Length": 1} if size is None else {"Upload-Length": size}
        answer = self.send("POST", **{**given, **headers})
        assert answer.status == 201, answer
        return answer.headers["location"]

    def offset(self, url: str) -> int:
        return int(self.send("HEAD", url).headers["upload-offset"])


def make_token(services: Services, actor: Actor, *scopes: Scope) -> str:
    sessions = services.gateways.sessions
    found = sessions.find_session(sessions.open_session(actor.user_id, agent="", address=""))
    assert found is not None
    return services.tokens.make_api_token(actor, found[0], "A script", scopes)[1]


@pytest.fixture
def tus(services: Services, request: pytest.FixtureRequest) -> Iterator[Tus]:
    """A client that is logged in; with BOTH, another one that has a token."""
    with connect(services, getattr(request, "param", "session")) as found:
        yield found


BOTH = pytest.mark.parametrize("tus", ["session", "bearer"], indirect=True)


@pytest.fixture
def api(services: Services) -> Iterator[Tus]:
    """A client with a token."""
    with connect(services, "bearer") as found:
        yield found


@contextlib.contextmanager
def connect(services: Services, kind: str, **changes: Any) -> Iterator[Tus]:
    actor = add_user(services, "ann")
    few = rebuild(services, **changes) if changes else services
    app = create_app(few.settings, few)
    headers = {"Tus-Resumable": "1.0.0"}
    if kind == "bearer":
        headers["Authorization"] = f"Bearer {make_token(services, actor, Scope.FILES)}"
    else:
        token = services.sign_in.log_in("ann", PASSWORD, Client("127.0.0.1", "A browser"))
        key = app.extensions["eventr"].secret_key
        headers["Cookie"] = f"{get_cookie_name(secure=False)}={token}"
        headers["X-CSRF-Token"] = csrf.make_token(key, token)
        headers["Sec-Fetch-Site"] = "same-origin"
    with serve(app) as port:
        yield Tus(Wire(port, headers), "/uploads" if kind == "session" else "/api/v1/uploads", actor, few)


def encode(**values: str) -> str:
    return ",".join(f"{name} {base64.b64encode(value.encode()).decode()}" for name, value in values.items())


def checksum(data: bytes, algorithm: str = "sha1") -> str:
    digest = hashlib.new(algorithm, data, usedforsecurity=False).digest()
    return f"{algorithm} {base64.b64encode(digest).decode()}"


# -- options_test.go
@BOTH
def test_options_Discovery(tus: Tus) -> None:
    for url in (tus.place, f"{tus.place}/{'0' * 32}"):
        answer = tus.send("OPTIONS", url, Tus_Resumable=None)
        assert answer.status == 204
        assert answer.headers["tus-version"] == answer.headers["tus-resumable"] == "1.0.0"
        assert answer.headers["tus-max-size"] == str(2 << 30)
        assert answer.headers["tus-checksum-algorithm"] == "sha256,sha1"
        extensions = set(answer.headers["tus-extension"].split(","))
        assert extensions >= {"creation", "creation-with-upload", "creation-defer-length", "termination"}
        assert extensions >= {"checksum", "expiration"}


def test_options_InvalidVersion(tus: Tus) -> None:
    url = tus.create()
    for method, place in (("POST", tus.place), ("HEAD", url), ("PATCH", url), ("DELETE", url)):
        for version in (None, "0.2.1", "1.0.1", ""):
            answer = tus.send(method, place, Tus_Resumable=version, Upload_Length=10, Upload_Offset=0)
            assert answer.status == 412
            assert answer.headers["tus-resumable"] == "1.0.0"
    assert tus.offset(url) == 0


# -- post_test.go
@BOTH
def test_post_Create(tus: Tus) -> None:
    metadata = encode(filename="Größe.mp3", type="audio/mpeg") + ",empty"
    answer = tus.send("POST", Upload_Length=300, Upload_Metadata=metadata)
    assert answer.status == 201
    assert answer.headers["location"].startswith(f"{tus.place}/")
    expires = email.utils.parsedate_to_datetime(answer.headers["upload-expires"])
    assert abs(expires - clock.now() - dt.timedelta(days=1)) < dt.timedelta(minutes=10)
    head = tus.send("HEAD", answer.headers["location"])
    assert head.headers["upload-metadata"] == metadata
    (status,) = tus.services.uploads.list_active(tus.actor)
    assert (status.upload.name, status.upload.size) == ("Größe.mp3", 300)


def test_post_CreateEmptyUpload(tus: Tus) -> None:
    url = tus.create(0)
    head = tus.send("HEAD", url)
    assert (head.headers["upload-offset"], head.headers["upload-length"]) == ("0", "0")
    tus.services.sealing.seal_upload(url.rpartition("/")[2])
    assert tus.send("HEAD", url).headers["upload-result"].startswith("/api/v1/files/")


def test_post_CreateExceedingMaxSizeFail(tus: Tus) -> None:
    assert tus.send("POST", Upload_Length=(2 << 30) + 1).status == 413


_INVALID: list[dict[str, str]] = [
    {"Upload-Length": "-5"},
    {"Upload-Length": "ten"},
    {"Upload-Length": ""},
    {"Upload-Length": "9" * 16},
    {"Upload-Length": "10", "Upload-Defer-Length": "1"},  # UploadLengthAndUploadDeferLengthFail
    {},  # NeitherUploadLengthNorUploadDeferLengthFail
    {"Upload-Defer-Length": "bad"},  # InvalidUploadDeferLengthFail
    {"Upload-Defer-Length": "0"},
    {"Upload-Length": "10", "Upload-Metadata": "filename !!!"},
    {"Upload-Length": "10", "Upload-Metadata": "x " + "A" * 4096},
    {"Upload-Length": "10", "Upload-Metadata": encode(purpose="icon")},
    {"Upload-Length": "10", "Upload-Metadata": encode(sha256="12")},
    {"Upload-Length": "10", "Upload-Concat": "partial"},
    {"Upload-Concat": "final;../../x /uploads/a"},
]


def test_post_InvalidHeadersFail(tus: Tus) -> None:
    for headers in _INVALID:
        assert tus.send("POST", **headers).status == 400, headers
    assert tus.services.uploads.list_active(tus.actor) == []


@BOTH
def test_post_WithUpload_Create(tus: Tus) -> None:
    answer = tus.send("POST", body=b"hello", Upload_Length=10, Content_Type=PART)
    assert (answer.status, answer.headers["upload-offset"]) == (201, "5")
    assert tus.offset(answer.headers["location"]) == 5
    whole = tus.send("POST", body=b"hello", Upload_Length=5, Content_Type=PART)
    assert (whole.status, whole.headers["upload-offset"]) == (201, "5")


def test_post_WithUpload_CreateExceedingUploadSizeFail(tus: Tus) -> None:
    assert tus.send("POST", body=b"hello!", Upload_Length=5, Content_Type=PART).status == 413
    assert tus.services.uploads.list_active(tus.actor) == []


def test_post_WithUpload_IncorrectContentType(tus: Tus) -> None:
    assert tus.send("POST", body=b"hello", Upload_Length=5, Content_Type="application/false").status == 415
    assert tus.services.uploads.list_active(tus.actor) == []


# -- head_test.go
@BOTH
def test_head_Status(tus: Tus) -> None:
    url = tus.create(44)
    answer = tus.send("HEAD", url)
    assert answer.status == 200
    assert (answer.headers["upload-offset"], answer.headers["upload-length"]) == ("0", "44")
    assert "no-store" in answer.headers["cache-control"]
    assert answer.body == b""


def test_head_DeferLengthHeader(tus: Tus) -> None:
    answer = tus.send("HEAD", tus.create(None))
    assert answer.headers["upload-defer-length"] == "1"
    assert "upload-length" not in answer.headers
    assert "upload-defer-length" not in tus.send("HEAD", tus.create(5)).headers


def test_U01_UploadNotFoundFail(tus: Tus) -> None:
    names = [
        "0" * 32,
        "x",
        "A" * 32,
        "..%2f..%2fx",
        "%2e%2e",
        "%252e",
        "..%5cx",
        "%00",
        "0" * 5000,
        "%e2%80%ae",
    ]
    for name in names:
        for method in ("HEAD", "PATCH", "DELETE"):
            body = b"x" if method == "PATCH" else None
            answer = tus.send(method, f"{tus.place}/{name}", body, Upload_Offset=0)
            assert answer.status == 404, (method, name)
            assert name == "x" or name not in answer.body.decode()


# -- patch_test.go
@BOTH
def test_patch_UploadChunk(tus: Tus) -> None:
    url = tus.create(10)
    answer = tus.send("PATCH", url, b"hello", Upload_Offset=0)
    assert (answer.status, answer.headers["upload-offset"]) == (204, "5")
    assert "upload-expires" in answer.headers
    answer = tus.send("PATCH", url, b"world", Upload_Offset=5)
    assert (answer.status, answer.headers["upload-offset"]) == (204, "10")
    tus.services.sealing.seal_upload(url.rpartition("/")[2])
    head = tus.send("HEAD", url)
    assert head.headers["upload-offset"] == head.headers["upload-length"] == "10"
    file_id = int(head.headers["upload-result"].rpartition("/")[2])
    assert tus.services.files.get(tus.actor, file_id).blob == hashlib.sha256(b"helloworld").digest()


def test_patch_MethodOverriding(tus: Tus) -> None:
    url = tus.create(5)
    answer = tus.send(
        "POST", url, b"hello", Upload_Offset=0, Content_Type=PART, X_HTTP_Method_Override="PATCH"
    )
    assert (answer.status, answer.headers["upload-offset"]) == (204, "5")
    other = tus.create(5)
    assert tus.send("POST", other, X_HTTP_Method_Override="DELETE").status == 204
    assert tus.send("HEAD", other).status == 410
    assert tus.send("POST", url).status == 404


def test_patch_UploadChunkToFinished(tus: Tus) -> None:
    url = tus.create(5)
    tus.send("PATCH", url, b"hello", Upload_Offset=0)
    answer = tus.send("PATCH", url, b"", Upload_Offset=5)
    assert (answer.status, answer.headers["upload-offset"]) == (204, "5")


@BOTH
def test_patch_MissmatchingOffsetFail(tus: Tus) -> None:
    url = tus.create(10)
    for offset in (1, 4, 999):
        answer = tus.send("PATCH", url, b"x", Upload_Offset=offset)
        assert (answer.status, answer.headers["upload-offset"]) == (409, "0")


def test_patch_ExceedingMaxSizeFail(tus: Tus) -> None:
    url = tus.create(10)
    assert tus.send("PATCH", url, b"hello world", Upload_Offset=0).status == 413
    assert tus.offset(url) == 0


def test_patch_InvalidContentTypeFail(tus: Tus) -> None:
    url = tus.create(10)
    for kind in ("application/fail", "text/plain", "application/json", None):
        assert tus.send("PATCH", url, b"x", Upload_Offset=0, Content_Type=kind).status == 415


def test_patch_InvalidOffsetFail(tus: Tus) -> None:
    url = tus.create(10)
    for offset in ("-5", "x", "", None, "1.0"):
        assert tus.send("PATCH", url, b"x", Upload_Offset=offset).status == 400


def test_patch_ChunkedBodyFail(tus: Tus) -> None:
    """A body without a length that breaks off would look complete; tusd takes it, we ask for the length."""
    url = tus.create(10)
    answer = tus.send(
        "PATCH",
        url,
        b"1\r\nx\r\n0\r\n\r\n",
        Upload_Offset=0,
        Transfer_Encoding="chunked",
        Content_Length=None,
    )
    assert answer.status == 411
    assert tus.offset(url) == 0


@BOTH
def test_patch_DeclareLengthOnFinalChunk(tus: Tus) -> None:
    url = tus.create(None)
    tus.send("PATCH", url, b"hello", Upload_Offset=0)
    answer = tus.send("PATCH", url, b"world", Upload_Offset=5, Upload_Length=10)
    assert (answer.status, answer.headers["upload-offset"]) == (204, "10")
    head = tus.send("HEAD", url)
    assert head.headers["upload-length"] == "10"
    assert "upload-defer-length" not in head.headers


def test_patch_DeclareLengthAfterFinalChunk(tus: Tus) -> None:
    url = tus.create(None)
    tus.send("PATCH", url, b"hello", Upload_Offset=0)
    assert tus.send("PATCH", url, b"", Upload_Offset=5, Upload_Length=5).status == 204
    assert tus.services.sealing.seal_upload(url.rpartition("/")[2])["state"] == "done"


def test_patch_DeclareLengthOnNonFinalChunk(tus: Tus) -> None:
    url = tus.create(None)
    assert tus.send("PATCH", url, b"hello", Upload_Offset=0, Upload_Length=10).status == 204
    assert tus.send("PATCH", url, b"w", Upload_Offset=5, Upload_Length=11).status == 409
    assert tus.send("PATCH", url, b"world", Upload_Offset=5).headers["upload-offset"] == "10"


def test_patch_DeclareLengthOverflowFail(tus: Tus) -> None:
    url = tus.create(None)
    assert tus.send("PATCH", url, b"hello", Upload_Offset=0, Upload_Length=4).status == 413
    assert tus.send("PATCH", url, b"hello", Upload_Offset=0, Upload_Length=(2 << 30) + 1).status == 413
    assert tus.offset(url) == 0


# -- checksum (tusd has no such extension; from the text of tus 1.0)
@pytest.mark.parametrize("algorithm", ["sha1", "sha256"])
def test_checksum(tus: Tus, algorithm: str) -> None:
    url = tus.create(10)
    right, wrong = checksum(b"hello", algorithm), checksum(b"hullo", algorithm)
    answer = tus.send("PATCH", url, b"hello", Upload_Offset=0, Upload_Checksum=wrong)
    assert answer.status == 460
    assert tus.offset(url) == 0
    assert tus.send("PATCH", url, b"hello", Upload_Offset=0, Upload_Checksum=right).status == 204
    for bad in ("md5 " + right.split()[1], "sha1", "sha1 !", algorithm.upper() + " x", ""):
        assert tus.send("PATCH", url, b"world", Upload_Offset=5, Upload_Checksum=bad).status == 400
    made = tus.send("POST", body=b"hello", Upload_Length=5, Content_Type=PART, Upload_Checksum=wrong)
    assert made.status == 460


def test_checksum_of_a_part_in_slices(services: Services) -> None:
    data = bytes(range(256)) * 1024
    with connect(services, "bearer", upload_part_max=64 << 10) as tus:
        url = tus.create(len(data))
        wrong = tus.send("PATCH", url, data, Upload_Offset=0, Upload_Checksum=checksum(b"x"))
        assert wrong.status == 460
        assert tus.offset(url) == 0
        right = tus.send("PATCH", url, data, Upload_Offset=0, Upload_Checksum=checksum(data))
        assert (right.status, right.headers["upload-offset"]) == (204, str(len(data)))
        assert tus.services.sealing.seal_upload(url.rpartition("/")[2])["state"] == "done"


# -- terminate_test.go, expiration
@BOTH
def test_terminate_Terminate(tus: Tus) -> None:
    url = tus.create(10)
    tus.send("PATCH", url, b"hello", Upload_Offset=0)
    assert tus.send("DELETE", url).status == 204
    for method in ("HEAD", "PATCH", "DELETE"):
        assert tus.send(method, url, b"x" if method == "PATCH" else None, Upload_Offset=5).status == 410
    assert tus.services.files.get_usage(tus.actor).reserved == 0


def test_terminate_FinishedFail(tus: Tus) -> None:
    url = tus.create(5)
    tus.send("PATCH", url, b"hello", Upload_Offset=0)
    assert tus.send("DELETE", url).status == 409
    tus.services.sealing.seal_upload(url.rpartition("/")[2])
    assert tus.send("DELETE", url).status == 409


def test_expired_uploads_are_gone(tus: Tus) -> None:
    url = tus.create(5)
    then = clock.now() + dt.timedelta(hours=23)
    with clock.set_source(lambda: then):
        assert tus.send("HEAD", url).status in (200, 303, 401)
    late = clock.now() + dt.timedelta(hours=25)
    with clock.set_source(lambda: late):
        assert tus.send("PATCH", url, b"x", Upload_Offset=0).status == 410


# -- limits, permissions
def test_a_full_quota_is_507(services: Services) -> None:
    with connect(services, "bearer", quota=100) as tus:
        assert tus.send("POST", Upload_Length=101).status == 507
        url = tus.create(100)
        assert tus.send("POST", Upload_Length=1).status == 507
        assert tus.send("PATCH", url, b"x", Upload_Offset=0).status == 204


def test_F09_an_almost_full_disk_is_507(services: Services) -> None:
    with connect(services, "bearer", disk_min_free=5.0) as tus:
        space = [DiskSpace("MongoDB", 50, 100)]
        timer = itertools.count(0, 10)  # each question is later than the last answer is kept
        tus.services.__dict__["free_space"] = FreeSpace(
            tus.services.settings.home, lambda: space[0], percent=5.0, timer=lambda: float(next(timer))
        )
        url = tus.create(10)
        space[0] = DiskSpace("MongoDB", 1, 100)
        assert tus.send("POST", Upload_Length=1).status == 507
        assert tus.send("PATCH", url, b"x", Upload_Offset=0).status == 507
        assert tus.offset(url) == 0
        space[0] = DiskSpace("MongoDB", 50, 100)
        assert tus.send("PATCH", url, b"x", Upload_Offset=0).status == 204


def test_U02_others_uploads_are_404(api: Tus, services: Services) -> None:
    url = api.create(10)
    bob = add_user(services, "bob")
    api.wire.headers["Authorization"] = f"Bearer {make_token(services, bob, Scope.FILES)}"
    for method in ("HEAD", "PATCH", "DELETE"):
        assert api.send(method, url, b"x" if method == "PATCH" else None, Upload_Offset=0).status == 404


@pytest.mark.parametrize(
    "scopes", [(), (Scope.READ, Scope.MARK, Scope.SUBSCRIBE, Scope.SHARE, Scope.SETTINGS)]
)
def test_programs_need_a_token_with_the_scope(
    api: Tus, services: Services, scopes: tuple[Scope, ...]
) -> None:
    url = api.create(10)
    header = f"Bearer {make_token(services, api.actor, *scopes)}" if scopes else None
    for method, place in (("POST", api.place), ("HEAD", url), ("PATCH", url), ("DELETE", url)):
        answer = api.send(method, place, Authorization=header, Upload_Length=5, Upload_Offset=0)
        assert answer.status == (403 if scopes else 401)


def test_W03_browsers_need_the_form_token(services: Services) -> None:
    with connect(services, "session") as tus:
        url = tus.create(10)
        for bad in ({"X-CSRF-Token": None}, {"X-CSRF-Token": "x"}, {"Sec-Fetch-Site": "cross-site"}):
            for method, place in (("POST", tus.place), ("PATCH", url), ("DELETE", url)):
                answer = tus.send(method, place, Upload_Length=5, Upload_Offset=0, **bad)
                assert answer.status == 403, (bad, method)
        answer = tus.send("PATCH", url, b"x", Upload_Offset=0, Cookie=None)
        assert answer.status == 401
        assert tus.offset(url) == 0


# -- cors_test.go
def test_cors_Preflight(api: Tus) -> None:
    asked = {"Origin": "https://app.example", "Access-Control-Request-Method": "PATCH"}
    answer = api.send("OPTIONS", api.place, Authorization=None, Tus_Resumable=None, **asked)
    assert answer.status == 204
    assert answer.headers["access-control-allow-origin"] == "*"
    allowed = answer.headers["access-control-allow-headers"]
    assert {"Upload-Offset", "Upload-Checksum", "Tus-Resumable", "Authorization"} <= set(allowed.split(", "))
    assert {"POST", "HEAD", "PATCH", "DELETE", "OPTIONS"} == set(
        answer.headers["access-control-allow-methods"].split(", ")
    )


def test_cors_Request(api: Tus) -> None:
    answer = api.send("POST", Upload_Length=10, Origin="https://app.example")
    exposed = set(answer.headers["access-control-expose-headers"].split(", "))
    assert {"Location", "Upload-Offset", "Upload-Length", "Upload-Expires", "Tus-Resumable"} <= exposed
    assert "access-control-allow-credentials" not in answer.headers


def test_cors_is_not_for_sessions(services: Services) -> None:
    with connect(services, "session") as tus:
        answer = tus.send("OPTIONS", Origin="https://app.example", Access_Control_Request_Method="PATCH")
        assert not [name for name in answer.headers if name.startswith("access-control")]


# -- the form of the IETF draft
IETF = {"Tus_Resumable": None}


def test_ietf_uploads_are_off(api: Tus) -> None:
    assert api.send("POST", body=b"x", Upload_Complete="?1", **IETF).status == 412


def test_ietf_uploads(services: Services) -> None:
    with connect(services, "bearer", uploads_ietf=True) as api:
        whole = api.send(
            "POST",
            body=b"hello",
            Upload_Complete="?1",
            Content_Disposition='attachment; filename="a.txt"',
            **IETF,
        )
        assert (whole.status, whole.headers["upload-complete"]) == (201, "?1")
        assert whole.headers["upload-limit"].startswith("max-append-size=")
        assert "tus-resumable" not in whole.headers
        url = api.send("POST", body=b"hello ", Upload_Complete="?0", **IETF).headers["location"]
        head = api.send("HEAD", url, **IETF)
        assert (head.status, head.headers["upload-offset"], head.headers["upload-complete"]) == (
            204,
            "6",
            "?0",
        )
        assert "no-store" in head.headers["cache-control"]
        part: dict[str, Any] = {"Content-Type": "application/partial-upload", **IETF}
        wrong = api.send("PATCH", url, b"x", **part, Upload_Offset=5, Upload_Complete="?0")
        assert (wrong.status, wrong.headers["upload-offset"]) == (409, "6")
        assert api.send("PATCH", url, b"x", **IETF, Upload_Offset=6, Upload_Complete="?0").status == 415
        for bad in (None, "1", "?2"):
            assert api.send("PATCH", url, b"x", **part, Upload_Offset=6, Upload_Complete=bad).status == 400
        assert api.send("PATCH", url, b"wor", **part, Upload_Offset=6, Upload_Complete="?0").status == 204
        last = api.send("PATCH", url, b"ld", **part, Upload_Offset=9, Upload_Complete="?1")
        assert (last.status, last.headers["upload-complete"]) == (204, "?1")
        for place in (whole.headers["location"], url):
            assert api.services.sealing.seal_upload(place.rpartition("/")[2])["state"] == "done"
        files = {file.name: file.blob for file in api.services.files.list_files(api.actor)}
        assert files["a.txt"] == hashlib.sha256(b"hello").digest()
        assert files[""] == hashlib.sha256(b"hello world").digest()
        other = api.send("POST", body=b"x", Upload_Complete="?0", **IETF).headers["location"]
        assert api.send("DELETE", other, **IETF).status == 204
        assert api.send("HEAD", other, **IETF).status == 410
        # tus goes on beside it.
        assert api.create(5).startswith("/api/v1/uploads/")


# -- files
def test_a_program_uploads_finds_downloads_and_deletes(api: Tus) -> None:
    data = bytes(range(256)) * 100
    url = api.create(len(data), Upload_Metadata=encode(filename='a"/..\\b\u202e.html'))
    api.send("PATCH", url, data, Upload_Offset=0)
    api.services.sealing.seal_upload(url.rpartition("/")[2])
    place = api.send("HEAD", url).headers["upload-result"]
    whole = api.send("GET", f"{place}/content")
    assert (whole.status, whole.body) == (200, data)
    assert whole.headers["content-disposition"].startswith("attachment")
    assert whole.headers["content-type"] == "application/octet-stream"
    assert whole.headers["x-content-type-options"] == "nosniff"
    assert "sandbox" in whole.headers["content-security-policy"]
    part = api.send("GET", f"{place}/content", Range="bytes=10-19")
    assert (part.status, part.body) == (206, data[10:20])
    assert api.send("GET", f"{place}/content", If_None_Match=whole.headers["etag"]).status == 304
    assert api.send("GET", "/api/v1/me/storage").status == 200
    other = add_user(api.services, "bob")
    token = f"Bearer {make_token(api.services, other, Scope.FILES)}"
    for path in (place, f"{place}/content"):
        assert api.send("GET", path, Authorization=token).status == 404
    assert api.send("DELETE", place, Authorization=token).status == 404
    assert api.send("DELETE", place).status == 204
    assert api.send("GET", f"{place}/content").status == 404


def test_what_other_tabs_and_devices_have_begun_is_listed(services: Services) -> None:
    with connect(services, "session") as tus:
        url = tus.create(10, Upload_Metadata=encode(filename="a.bin", modified="123"))
        tus.send("PATCH", url, b"hello", Upload_Offset=0)
        answer = tus.send("GET", "/uploads")
        assert answer.status == 200
        assert b'"offset":5' in answer.body
        assert b'"modified":"123"' in answer.body
        assert url.encode() in answer.body
