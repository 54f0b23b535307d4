"""How one reader has a feed fetched: login, cookie, headers, time limit and interval limits. Pure.

A reader who sets one of these gets a copy of the feed of their own. Nobody else can find or subscribe to the
copy, so one reader's login, cookie or pace never changes what others get (security.md V08).
"""

from __future__ import annotations

import base64
import dataclasses


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FetchOptions:
    """The options of one feed; empty ones aren't set.

    Attributes:
        login, password: for HTTP Basic; both are only sent to the origin of the feed's address, and so is
            everything else here.
        token: for HTTP Bearer, instead of a login.
        cookie: the value of the Cookie header.
        user_agent: instead of Eventr's.
        headers: more headers, one in each line: ``Name: value``.
        time_limit: most seconds of a fetch; more than usual makes Eventr wait for a slow server.
        min_minutes, max_minutes: the shortest and the longest time between two checks.
    """

    login: str = ""
    password: str = dataclasses.field(default="", repr=False)
    token: str = dataclasses.field(default="", repr=False)
    cookie: str = dataclasses.field(default="", repr=False)
    user_agent: str = ""
    headers: str = dataclasses.field(default="", repr=False)
    time_limit: int | None = None
    min_minutes: int | None = None
    max_minutes: int | None = None

    @property
    def is_set(self) -> bool:
        """Whether a reader with these options needs a copy of the feed."""
        return self != _NONE

    @property
    def has_secret(self) -> bool:
        """Whether a request with these options proves who the reader is."""
        return bool(self.login or self.token or self.cookie or self.headers)

    def build_headers(self) -> tuple[tuple[str, str], ...]:
        """Return the headers of a request."""
        headers = []
        if self.login:
            pair = base64.b64encode(f"{self.login}:{self.password}".encode()).decode()
            headers.append(("Authorization", f"Basic {pair}"))
        if self.token:
            headers.append(("Authorization", f"Bearer {self.token}"))
        if self.cookie:
            headers.append(("Cookie", self.cookie))
        if self.user_agent:
            headers.append(("User-Agent", self.user_agent))
        return *headers, *self.parse_headers()

    def parse_headers(self) -> tuple[tuple[str, str], ...]:
        """Return name and value of each line of ``headers``; empty lines are skipped."""
        lines = (line.partition(":") for line in self.headers.splitlines() if line.strip())
        return tuple((name.strip(), value.strip()) for name, _, value in lines)

    def mask_headers(self) -> str:
        """Return ``headers`` without the values, for a form."""
        return "\n".join(f"{name}: {MASK}" for name, _ in self.parse_headers())

    def fill_headers(self, masked: str) -> str:
        """Return headers as a form sent them, with the values from here where it sent a mask."""
        known: dict[str, list[str]] = {}
        for name, value in reversed(self.parse_headers()):
            known.setdefault(name.lower(), []).append(value)
        filled = []
        for name, value in FetchOptions(headers=masked).parse_headers():
            stored = known.get(name.lower())  # of equal names, each has its own value
            before = stored.pop() if stored else ""
            filled.append(f"{name}: {before if value == MASK else value}")
        return "\n".join(filled)


#: Stands for the stored value of a header.
MASK = "•" * 8
_NONE = FetchOptions()
