"""Your files and storage. Uploads themselves use tus, see :mod:`app.web.api.rest.uploads`."""

from __future__ import annotations

import datetime as dt
from typing import Annotated

from msgspec import Meta

from app.models.accounts.actor import Actor
from app.models.accounts.token import Scope
from app.models.media.user_file import UserFile
from app.services.media.files import PAGE
from app.web.api.rest.shapes import FILE, Body, Id, Id0, Query, Shape
from app.web.api.rest.table import Reply, add_example, add_operation
from app.web.context import get_services, get_web

TAG = "Files"


class File(Shape, frozen=True):
    """A file of yours. `size` is in bytes. `used`: whether a share, a comment or your profile uses it.

    Files that nothing uses are deleted after a while.
    """

    id: Id
    name: str
    size: int
    sha256: str
    created: dt.datetime
    used: bool


class FileList(Shape, frozen=True):
    """A page of your files, newest first."""

    items: tuple[File, ...]
    next: str | None


class FileQuery(Query, frozen=True):
    """The page to return: `next` from the previous page."""

    cursor: Annotated[Id0, Meta(description="The value from the previous response.")] = 0


class KnownFile(Body, frozen=True):
    """The SHA-256 and size of a file that you may have uploaded before."""

    sha256: Annotated[str, Meta(pattern=r"^[0-9a-f]{64}$")]
    size: Annotated[int, Meta(ge=0, le=1 << 50)]
    name: Annotated[str, Meta(max_length=255)] = ""


class Challenge(Shape, frozen=True):
    """What to hash: the bytes of `nonce`, then those of all `ranges`, first and last byte inclusive."""

    token: str
    nonce: str
    ranges: tuple[tuple[int, int], ...]


class ProvenFile(KnownFile, frozen=True):
    """The answer to a challenge: `proof` is the SHA-256 of the nonce and the ranges."""

    token: Annotated[str, Meta(max_length=100)] = ""
    proof: Annotated[str, Meta(pattern=r"^[0-9a-f]{64}$")] = "0" * 64


class Storage(Shape, frozen=True):
    """Your storage, in bytes.

    `used`: all your files. `reserved`: declared sizes of your unfinished uploads. `received`: what has
    arrived of these. `quota`: the most that `used` and `reserved` may be together; 0 means no limit.
    """

    used: int
    reserved: int
    received: int
    quota: int


_AT = dt.datetime(2026, 11, 1, 8, 30, tzinfo=dt.UTC)
#: Of a mebibyte of zeros.
_HASH = "30e14955ebf1352266dc2ff8067e68104607e750abb9d3b36582b8af909fcb58"
#: Of the examples; a real challenge has others.
TOKEN, PROOF = "AAAA", "0f" * 32
_ONE = add_example(File(id=FILE, name="talk.mp3", size=1 << 20, sha256=_HASH, created=_AT, used=False))
add_example(FileList(items=(_ONE,), next=None))
KNOWN = add_example(KnownFile(sha256=_HASH, size=1 << 20, name="talk.mp3"))
add_example(Challenge(token=TOKEN, nonce="00" * 16, ranges=((0, (1 << 20) - 1),)))
add_example(ProvenFile(sha256=_HASH, size=1 << 20, name="talk.mp3", token=TOKEN, proof=PROOF))
add_example(Storage(used=1 << 20, reserved=0, received=0, quota=1 << 30))


def build_file(file: UserFile) -> File:
    """Return a file as the API shows it."""
    return File(
        id=file.id,
        name=file.name,
        size=file.size,
        sha256=file.blob.hex(),
        created=dt.datetime.fromtimestamp(file.id // 1_000_000, dt.UTC),
        used=bool(file.owners),
    )


@add_operation("GET", "/files", "List your files", scope=Scope.FILES, tag=TAG)
def list_files(actor: Actor, query: FileQuery) -> FileList:
    """Returns up to 100 files per page."""
    found = get_services().files.list_files(actor, query.cursor or None)
    more = str(found[-1].id) if len(found) == PAGE else None
    return FileList(items=tuple(map(build_file, found)), next=more)


@add_operation("POST", "/files/known", "Add a file without uploading it", scope=Scope.FILES, tag=TAG,
               status=201, errors=(404, 507))  # fmt: skip
def add_known_file(actor: Actor, body: KnownFile) -> Reply[File]:
    """Works if you have a file with this content already. Otherwise the answer is 404: upload the file.

    Files under 1 MiB are always uploaded. Other people's files never count.
    """
    digest = bytes.fromhex(body.sha256)
    file = get_services().files.add_known(actor, digest, body.size, body.name)
    return Reply(build_file(file), 201, f"/files/{file.id}")


@add_operation("POST", "/files/known/challenge", "Ask for a challenge", scope=Scope.FILES, tag=TAG,
               errors=(404,), once=False)  # fmt: skip
def challenge_file(actor: Actor, body: KnownFile) -> Challenge:
    """Begins to prove that you have a file, which the server may have from other people.

    The challenge says nothing about whether it does. Answer it within a minute.
    """
    key, digest = get_web().secret_key, bytes.fromhex(body.sha256)
    found = get_services().possession.create_challenge(actor, digest, body.size, key)
    return Challenge(token=found.token, nonce=found.nonce.hex(), ranges=found.ranges)


@add_operation("POST", "/files/known/proof", "Prove that you have a file", scope=Scope.FILES, tag=TAG,
               status=201, errors=(404, 507))  # fmt: skip
def prove_file(actor: Actor, body: ProvenFile) -> Reply[File]:
    """Adds the file without an upload. Each challenge can be answered once.

    If the answer is 404, upload the file: the proof is wrong, or the server doesn't offer the file. Other
    people's files are only offered if the server allows it and several people have them.
    """
    file = get_services().possession.add_proven(
        actor,
        bytes.fromhex(body.sha256),
        body.size,
        body.name,
        token=body.token,
        answer=bytes.fromhex(body.proof),
        key=get_web().secret_key,
    )
    return Reply(build_file(file), 201, f"/files/{file.id}")


@add_operation("GET", "/files/{file_id}", "Get a file's details", scope=Scope.FILES, tag=TAG)
def get_file(actor: Actor, file_id: int) -> File:
    """The file itself is at `/files/{file_id}/content`."""
    return build_file(get_services().files.get(actor, file_id))


@add_operation("DELETE", "/files/{file_id}", "Delete a file", scope=Scope.FILES, tag=TAG, status=204)
def delete_file(actor: Actor, file_id: int) -> None:
    """The file disappears wherever it's used. Its space is free at once."""
    get_services().files.delete(actor, file_id)


@add_operation("GET", "/me/storage", "Get your storage", scope=Scope.FILES, tag=TAG)
def get_storage(actor: Actor) -> Storage:
    """Returns the space that your files take, and your quota."""
    usage = get_services().files.get_usage(actor)
    return Storage(
        used=usage.finished, reserved=usage.reserved, received=usage.unfinished, quota=usage.quota or 0
    )
