"""Cookies of one redirect chain (RFC 6265, without domains): kept per host, never sent to another one.

Consent pages set a cookie and redirect back, in a loop without it. A jar lives as long as one fetch.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

#: Most cookies of one fetch, and the most bytes of one cookie's name and value.
MAX_COOKIES: Final = 20
MAX_COOKIE: Final = 4096
#: Most bytes of the Cookie header of one hop.
MAX_HEADER: Final = 8000

_PAIR = re.compile(r"([!#$%&'*+.^_`|~0-9A-Za-z-]{1,256})=([\x20-\x3a\x3c-\x7e]*)")
#: Sites delete a cookie by a life of zero, or by a date long ago.
_ENDED = re.compile(
    r";\s*max-age\s*=\s*(?:0+\s*(?:;|$)|-)|;\s*expires\s*=[^;]*\b(?:19\d\d|200\d)\b", re.IGNORECASE
)
_SECURE = re.compile(r";\s*secure\s*(?:;|$)", re.IGNORECASE)
_PATH = re.compile(r";\s*path\s*=\s*(/[^;\s]*)", re.IGNORECASE)


class CookieJar:
    """The cookies of one fetch: those of a host go to that host alone, whatever ``Domain`` they state."""

    __slots__ = ("_found",)

    def __init__(self) -> None:
        #: (host, name, path) → value, and whether it needs https
        self._found: dict[tuple[str, str, str], tuple[str, bool]] = {}

    def store_cookies(self, host: str, lines: Sequence[bytes]) -> None:
        """Read the ``Set-Cookie`` fields of a response; ignore those that are malformed or too long."""
        for line in lines:
            if line[:11].lower() == b"set-cookie:":
                self._set(host, line[11:].decode("latin-1").strip())

    def _set(self, host: str, text: str) -> None:
        first, _, _ = text.partition(";")
        match = _PAIR.fullmatch(first.strip())
        if match is None or len(first) > MAX_COOKIE:
            return
        path = _PATH.search(text)
        key = (host, match[1], path[1] if path else "/")
        if _ENDED.search(text):
            self._found.pop(key, None)
        elif key in self._found or len(self._found) < MAX_COOKIES:
            self._found[key] = match[2], _SECURE.search(text) is not None

    def build_header(self, scheme: str, host: str, path: str) -> str:
        """Return the value of the ``Cookie`` header for a request; empty: none."""
        parts: list[str] = []
        for (of, name, below), (value, is_secure) in self._found.items():
            if of == host and _is_below(path, below) and (scheme == "https" or not is_secure):
                parts.append(f"{name}={value}")
        while sum(map(len, parts)) + 2 * len(parts) > MAX_HEADER:
            parts.pop()
        return "; ".join(parts)


def _is_below(path: str, folder: str) -> bool:
    """Return whether a cookie for ``folder`` goes to ``path`` (RFC 6265 §5.1.4)."""
    return path == folder or path.startswith(folder if folder.endswith("/") else folder + "/")
