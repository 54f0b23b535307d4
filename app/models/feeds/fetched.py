"""What goes into a fetch and what comes out of it."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Mapping
from typing import NamedTuple

from app.errors import FetchError


class Target(enum.StrEnum):
    """What is expected at an address; decides the size limit and the ``Accept`` header."""

    FEED = "feed"
    PAGE = "page"


class Validators(NamedTuple):
    """What lets a server or a hash say "unchanged" (RFC 9110 §13).

    ``body_hash`` is the xxh3-128 of the body as it came over the wire, 16 bytes.
    """

    etag: str | None = None
    last_modified: str | None = None
    body_hash: bytes | None = None


@dataclasses.dataclass(slots=True)  # not frozen: that trebles its cost, and each poll makes one
class FetchRequest:
    """One address to fetch; ``key`` is the caller's own mark and comes back untouched.

    Attributes:
        headers: what the person who owns the feed set, credentials included; they are dropped when
            a redirect leaves scheme, host and port of ``url``.
        referred_by: the page or feed of another site that named this address, if one did. Private
            addresses then stay refused, whatever the allow-list says, unless the host is the same.
        form: an encoded form to send by POST. Any 2xx is then a success and its body is not read; of
            redirects only those are followed that keep the method (307, 308).
        follow: False: a redirect is the end, and an error like ``http_301``.
        within: seconds that the whole fetch may take, where that is less than the setting; 0: as it says.
    """

    url: str
    target: Target = Target.FEED
    validators: Validators = Validators()
    key: int = 0
    headers: tuple[tuple[str, str], ...] = ()
    referred_by: str | None = None
    form: bytes | None = None
    follow: bool = True
    within: float = 0.0


@dataclasses.dataclass(slots=True)  # not frozen, as FetchRequest
class Fetched:
    """The end of one fetch: an answer, "unchanged", or an error.

    Attributes:
        status: the last HTTP status, 0 when there was no answer.
        url: the address that answered in the end, after redirects.
        permanent_url: where an unbroken chain of 301/308 led, without tracking parameters; None: nowhere
            else.
        body: decoded body; None when unchanged or on an error.
        unchanged: 304, or the same body hash as in the request's validators.
        headers: of the last answer, names in lower case, values of equal names joined by ", ".
        retry_after: seconds the server asked to wait (429, 503), clamped to 24 h.
        ms: wall time of the whole fetch in milliseconds.
        wire_bytes: body bytes received, before decoding.
    """

    request: FetchRequest
    status: int
    url: str
    permanent_url: str | None = None
    body: bytes | None = None
    unchanged: bool = False
    content_type: str | None = None
    validators: Validators = Validators()
    headers: Mapping[str, str] = dataclasses.field(default_factory=dict)
    retry_after: int | None = None
    ms: int = 0
    wire_bytes: int = 0
    error: FetchError | None = None
