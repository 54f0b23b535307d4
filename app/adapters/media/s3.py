"""Files in an S3 bucket, by obstore (the extra ``eventr[s3]``)."""

from __future__ import annotations

import contextlib
import datetime as dt
from collections.abc import Iterator
from typing import BinaryIO

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError
from obstore.store import S3Store as Bucket

from app.errors import MediaStoreError, NotFoundError
from app.models.media.store import (
    SHARD,
    Piece,
    StoredFile,
    StoreSpace,
    clamp_range,
    from_file_name,
    to_file_name,
)
from app.models.media.store_address import StoreAddress

#: Bytes of a file that one request reads. A slow reader holds no connection between two of them.
READ_BYTES = 1 << 20
#: Files up to this size are sent in one request, which stores nothing if the name is taken.
_WHOLE_BYTES = 8 << 20
#: How much longer than a read a write may take, per 8 MiB.
WRITE_PATIENCE = 5


class S3Store:
    """Implements :class:`app.ports.MediaStore` on an S3 bucket, which shows only complete objects.

    Args:
        timeout: seconds for connecting, and for one read.
    """

    is_local = False

    def __init__(self, address: StoreAddress, *, timeout: float) -> None:
        self._address = address
        self._reading = _open_bucket(address, timeout, timeout)
        self._writing = _open_bucket(address, timeout, timeout * WRITE_PATIENCE)

    @property
    def name(self) -> str:
        """The name of the store."""
        return self._address.name

    def put(self, key: str, source: BinaryIO, size: int) -> None:
        """Store a file.

        Raises:
            MediaStoreError: the server isn't responding, or refuses.
        """
        path = self._build_path(key)
        with _translate_errors():
            if size > _WHOLE_BYTES:
                obstore.put(self._writing, path, _read_all(source, size), chunk_size=_WHOLE_BYTES)
                return
            body = source.read(size + 1)
            if len(body) != size:
                raise MediaStoreError
            # A key names one content only, so what is there is this file.
            with contextlib.suppress(AlreadyExistsError):
                obstore.put(self._writing, path, body, mode="create", use_multipart=False)

    def open(self, key: str, first: int = 0, last: int | None = None) -> Piece:
        """Return a file, or its bytes from ``first`` to ``last`` inclusive.

        Raises:
            NotFoundError: there is no such file.
            MediaStoreError: the server isn't responding, or refuses.
        """
        path = self._build_path(key)
        with _translate_errors():
            total = obstore.head(self._reading, path)["size"]
        length = clamp_range(first, last, total)
        return Piece(length, total, first=first, chunks=self._read(path, first, first + length))

    def _read(self, path: str, position: int, end: int) -> Iterator[bytes]:
        while position < end:
            with _translate_errors():
                stop = min(end, position + READ_BYTES)
                chunk = bytes(obstore.get_range(self._reading, path, start=position, end=stop))
            if not chunk:
                raise MediaStoreError
            yield chunk
            position += len(chunk)

    def delete(self, key: str) -> None:
        """Delete a file; a missing one is a success.

        Raises:
            MediaStoreError: the server isn't responding, or refuses.
        """
        with _translate_errors(), contextlib.suppress(FileNotFoundError):
            obstore.delete(self._writing, self._build_path(key))

    def list_files(self, shard: str) -> Iterator[StoredFile]:
        """Yield all files of a shard.

        Raises:
            MediaStoreError: the server isn't responding, or refuses.
        """
        if not SHARD.fullmatch(shard):
            raise ValueError("not a shard")
        with _translate_errors():
            for batch in obstore.list(self._reading, f"{self._address.prefix}{shard}/"):
                for row in batch:
                    key = from_file_name(shard, row["path"].rpartition("/")[2])
                    if key is not None:
                        yield StoredFile(key, row["size"], row["last_modified"].astimezone(dt.UTC))

    def measure_space(self) -> StoreSpace | None:
        """Return None: a bucket has no limit."""
        return None

    def _build_path(self, key: str) -> str:
        return self._address.prefix + "/".join(to_file_name(key))


def _read_all(source: BinaryIO, size: int) -> Iterator[bytes]:
    """Yield the bytes of a file that must have a size; otherwise the upload fails, and nothing is stored."""
    rest = size
    while chunk := source.read(READ_BYTES):
        rest -= len(chunk)
        if rest < 0:
            break
        yield chunk
    if rest:
        raise OSError("the source has another size")


def _open_bucket(address: StoreAddress, connect: float, whole: float) -> Bucket:
    return Bucket(
        address.bucket,
        endpoint=address.url,
        region=address.region or "us-east-1",
        access_key_id=address.user,
        secret_access_key=address.password,
        skip_signature=not address.user,
        virtual_hosted_style_request=False,
        client_options={
            "allow_http": True,
            "connect_timeout": dt.timedelta(seconds=connect),
            "timeout": dt.timedelta(seconds=whole),
        },
        retry_config={"max_retries": 0},
    )


@contextlib.contextmanager
def _translate_errors() -> Iterator[None]:
    try:
        yield
    except FileNotFoundError as e:
        raise NotFoundError from e
    except (BaseError, OSError) as e:
        # Its message quotes whole answers of the server.
        raise MediaStoreError(reason=type(e).__name__) from e
