"""The head of an HTTP response: parse its raw lines and the fields that Eventr uses.

Formats: RFC 9112 §5 (fields), RFC 9110 §10.2.3 (Retry-After), §8.4 (Content-Encoding), §15 (status).
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import email.utils
import re
from collections.abc import Sequence

from app import clock
from app.errors import FetchError

MAX_RETRY_AFTER = 86400
#: A validator longer than this isn't stored; ETags in the wild are far shorter.
MAX_VALIDATOR = 512

REDIRECTS = frozenset([301, 302, 303, 307, 308])
PERMANENT = frozenset([301, 308])
#: RFC 9110 §15.4.8 and §15.4.9; the other redirects turn a POST into a GET, or may.
KEEP_METHOD = frozenset([307, 308])

# Values of Content-Encoding in the wild that name no coding; browsers and curl accept them too.
_NO_CODING = frozenset(["", "identity", "none", "utf-8", "utf8"])
#: The status line of most responses, whose head is all there is: no 1xx head, no trailers.
_LAST = b"HTTP/1.1 304 "
_STATUS = re.compile(rb"HTTP/[0-9.]+ ([0-9]{3})(?: |\r|\n|$)")
_DIGITS = re.compile(r"[0-9]+")


@dataclasses.dataclass(frozen=True, slots=True)
class Head:
    """The status and fields of a response; names in lower case, equal names joined by ", "."""

    status: int
    fields: dict[str, str]

    @property
    def redirect(self) -> bool:
        return self.status in REDIRECTS

    def get_validator(self, name: str) -> str | None:
        """Return ETag or Last-Modified if it can be sent back unchanged, else None."""
        value = self.fields.get(name)
        return value if value and len(value) <= MAX_VALIDATOR and value.isprintable() else None


def read_lines(lines: list[bytes]) -> tuple[int, list[bytes]]:
    """Return the status and the field lines of the last head among the lines of a response.

    1xx heads may come before it, and trailers of a chunked body after its empty line.
    """
    if len(lines) > 1 and lines[0].startswith(_LAST) and len(lines[-1]) <= 2 and b"\r\n" not in lines[1:-1]:
        return 304, lines[1:-1]
    start = len(lines) - 1
    while start >= 0 and not lines[start].startswith(b"HTTP/"):
        start -= 1
    if start < 0:
        return 0, []
    match = _STATUS.match(lines[start])
    fields = lines[start + 1 :]
    for number, line in enumerate(fields):
        if len(line) <= 2:
            del fields[number:]
            break
    return int(match[1]) if match else 0, fields


def read_head(status: int, lines: Sequence[bytes]) -> Head:
    """Parse the field lines of a response, without status line and empty line."""
    fields: dict[str, str] = {}
    for line in lines:
        name, _, value = line.decode("latin-1").partition(":")
        name, value = name.lower(), value.strip()
        fields[name] = f"{fields[name]}, {value}" if name in fields else value
    return Head(status, fields)


def read_location(lines: Sequence[bytes]) -> str:
    """Return the target of a redirect, as text.

    Raises:
        FetchError: ``bad_redirect``: there is no Location header, or several different ones.
    """
    found = {line.partition(b":")[2].strip() for line in lines if line[:9].lower() == b"location:"}
    raw = found.pop() if len(found) == 1 else b""
    if not raw:
        raise FetchError("bad_redirect", "no Location header, or several different ones")
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return raw.decode("latin-1")


def read_coding(fields: dict[str, str]) -> str | None:
    """Return ``gzip``, or None for an uncompressed body.

    Raises:
        FetchError: ``bad_encoding`` for more than one coding or one that wasn't requested (X05).
    """
    value = fields.get("content-encoding")
    if value is None:
        return None
    names = [n for part in value.split(",") if (n := part.strip().lower()) not in _NO_CODING]
    if not names:
        return None
    if len(names) > 1 or names[0] not in ("gzip", "x-gzip"):
        raise FetchError("bad_encoding", f"Content-Encoding {value[:80]!r} wasn't requested")
    return "gzip"


def read_retry_after(head: Head) -> int | None:
    """Return the seconds that a 429 or 503 asks to wait, 0…86400; None if it doesn't say (V08)."""
    value = head.fields.get("retry-after")
    if value is None or head.status not in (429, 503):
        return None
    if _DIGITS.fullmatch(value):
        # More than six digits exceed the limit, and int() of a long text is slow.
        return min(int(value), MAX_RETRY_AFTER) if len(value) < 7 else MAX_RETRY_AFTER
    try:
        moment = email.utils.parsedate_to_datetime(value)
    except (ValueError, TypeError, OverflowError, IndexError):
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=dt.UTC)
    try:
        seconds = int((moment - clock.now()).total_seconds())
    except OverflowError:
        return MAX_RETRY_AFTER
    return max(0, min(seconds, MAX_RETRY_AFTER))
