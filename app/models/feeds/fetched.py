"""Fetch requests and their results."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Mapping
from typing import NamedTuple

from app.errors import FetchError


class Target(enum.StrEnum):
    """The expected kind of document; decides the size limit and the ``Accept`` header."""

    FEED = "feed"
    PAGE = "page"
    PICTURE = "picture"
    ICON = "icon"
    CHAPTERS = "chapters"
    DATA = "data"


#: Targets that are pictures: any bytes, requested in a queue of their own at each host.
PICTURES = frozenset({Target.PICTURE, Target.ICON})


class Purpose(enum.StrEnum):
    """The reason for a request; decides which private addresses it may reach (S11)."""

    FETCH = "fetch"
    HUB = "hub"
    PUSH = "push"
    SEND = "send"


class Validators(NamedTuple):
    """The values that let a server or a hash report "unchanged" (RFC 9110 §13).

    ``body_hash`` is the xxh3-128 of the body as received, 16 bytes.
    """

    etag: str | None = None
    last_modified: str | None = None
    body_hash: bytes | None = None


@dataclasses.dataclass(slots=True)  # not frozen: that triples its cost, and each poll makes one
class FetchRequest:
    """One address to fetch; ``key`` is the caller's own mark and is returned unchanged.

    Attributes:
        headers: set by the feed's owner, credentials included; they are dropped when
            a redirect leaves scheme, host and port of ``url``.
        referred_by: the page or feed of another site that named this address, if any. Then private
            addresses stay refused, whatever the allow-list says, unless the host is the same.
        form: an encoded form to send by POST. Then any 2xx is a success and its body isn't read; only
            redirects that keep the method (307, 308) are followed.
        reads_reply: the body of the response to a form is read, and must be there.
        follow: False: a redirect is the end, and an error like ``http_301``.
        within: most seconds of the whole fetch, if less than the setting; 0: the setting.
        slow: the server answered slowly before, so the longer limits apply.
        purpose: private addresses are allowed by the list for this purpose alone.
    """

    url: str
    target: Target = Target.FEED
    validators: Validators = Validators()
    key: int = 0
    headers: tuple[tuple[str, str], ...] = ()
    referred_by: str | None = None
    form: bytes | None = None
    reads_reply: bool = False
    follow: bool = True
    within: float = 0.0
    slow: bool = False
    purpose: Purpose = Purpose.FETCH


@dataclasses.dataclass(slots=True)  # not frozen, as FetchRequest
class Fetched:
    """The result of one fetch: a response, "unchanged", or an error.

    Attributes:
        status: the last HTTP status, 0 without a response.
        url: the final address, after redirects.
        permanent_url: the target of an unbroken chain of 301/308, without tracking parameters; None: the
            feed didn't move.
        body: decoded body; None if unchanged or on an error.
        unchanged: 304, or the same body hash as in the request's validators.
        headers: of the last response, names in lower case, values of equal names joined by ", ".
        retry_after: seconds that the server asked to wait (429, 503), at most 24 h.
        ms: wall time of the whole fetch in milliseconds.
        seconds: the part of it that counts for the time limit: without waiting for a free connection.
        wire_bytes: body bytes received, before decoding.
        limit: the size limit in bytes if the body is only the start of a longer one, else 0.
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
    limit: int = 0
    seconds: float = 0.0
