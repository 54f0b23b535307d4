"""Addresses of media stores, as EVENTR_MEDIA_STORES has them.

disk:/srv/eventr/media
dav:https://USER:PASSWORD@dav.example.org/media
s3:https://KEY:SECRET@s3.example.org/BUCKET/FOLDER?region=eu-central-1
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit


class StoreKind(enum.StrEnum):
    """Kinds of media stores."""

    DISK = "disk"
    DAV = "dav"
    S3 = "s3"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class StoreAddress:
    """The address of a media store.

    Attributes:
        name: the address without user, password and options; blobs name their stores by it.
        folder: of a disk store.
        url: of a WebDAV folder or an S3 server, without user, password and options.
        user, password: of WebDAV; the access key and its secret of S3. Empty: none.
        bucket, prefix: of S3; the prefix is empty or ends with a slash.
        region: of S3; empty: none.
    """

    kind: StoreKind
    name: str
    folder: Path = Path()
    url: str = ""
    user: str = ""
    password: str = dataclasses.field(default="", repr=False)
    bucket: str = ""
    prefix: str = ""
    region: str = ""


def parse_store(text: str) -> StoreAddress:
    """Return the parts of a store's address.

    Raises:
        ValueError: it isn't an address; the message doesn't quote it.
    """
    kind, _, rest = text.partition(":")
    if kind == StoreKind.DISK and rest and rest.isprintable():
        return StoreAddress(kind=StoreKind.DISK, name=text, folder=Path(rest))
    parts = urlsplit(rest)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.port == 0 or parts.fragment:
        raise ValueError("not the address of a store")
    place = parts.netloc.rpartition("@")[2]
    path = parts.path.strip("/")
    user, password = unquote(parts.username or ""), unquote(parts.password or "")
    name = f"{kind}:{place}/{path}".rstrip("/")
    if kind == StoreKind.DAV and not parts.query:
        url = f"{parts.scheme}://{place}/{path}".rstrip("/")
        return StoreAddress(kind=StoreKind.DAV, name=name, url=url, user=user, password=password)
    bucket, _, prefix = path.partition("/")
    options = parse_qs(parts.query)
    if kind != StoreKind.S3 or not bucket or set(options) - {"region"}:
        raise ValueError("not the address of a store")
    return StoreAddress(
        kind=StoreKind.S3,
        name=name,
        url=f"{parts.scheme}://{place}",
        user=user,
        password=password,
        bucket=bucket,
        prefix=f"{prefix}/" if prefix else "",
        region=options.get("region", [""])[0],
    )


def parse_stores(texts: Sequence[str]) -> list[StoreAddress]:
    """Return the parts of several stores' addresses.

    Raises:
        ValueError: one isn't an address, or two name the same place; the message quotes none.
    """
    stores = [parse_store(text) for text in texts]
    if len({store.name for store in stores}) < len(stores):
        raise ValueError("the same store twice")
    return stores
