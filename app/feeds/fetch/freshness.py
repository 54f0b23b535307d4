"""Freshness of an HTTP response: how long it says it stays fresh (RFC 9111 §4.2.1). Pure."""

from __future__ import annotations

import datetime as dt
import email.utils
from collections.abc import Mapping
from typing import Final

#: Longest freshness accepted, in seconds; a schedule limits it further.
LONGEST: Final = 86400


def read_max_age(headers: Mapping[str, str]) -> int | None:
    """Return how many seconds a response stays fresh, 0 to :data:`LONGEST`.

    ``Cache-Control: max-age`` (RFC 9111 §5.2.2.1) takes precedence over ``Expires`` (§5.3). ``Expires``
    counts from the response's own ``Date``: a server's clock may be wrong, but differences are right.

    Args:
        headers: of the response, names in lower case.

    Returns:
        Seconds, or None when the response has no readable freshness.
    """
    control = headers.get("cache-control")
    directives = control.lower().split(",") if control else []
    for directive in (part.strip() for part in directives):
        if directive in ("no-cache", "no-store"):
            return 0
        name, _, value = directive.partition("=")
        if name == "max-age" and value.strip('"').isdecimal():
            return min(int(value.strip('"')[:9]), LONGEST)
    if "expires" not in headers or "date" not in headers:
        return None
    expires, date = _moment(headers["expires"]), _moment(headers["date"])
    if expires is None or date is None:
        return None
    return min(max(int((expires - date).total_seconds()), 0), LONGEST)


def _moment(text: str) -> dt.datetime | None:
    try:
        moment = email.utils.parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)
