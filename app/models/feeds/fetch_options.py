"""How one reader has a feed fetched: login, cookie, user agent and interval limits. Pure.

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
        login, password: for HTTP Basic; both are only sent to the origin of the feed's address.
        cookie: the value of the Cookie header, for the same origin.
        user_agent: instead of Eventr's.
        min_minutes, max_minutes: the shortest and the longest time between two checks.
    """

    login: str = ""
    password: str = dataclasses.field(default="", repr=False)
    cookie: str = dataclasses.field(default="", repr=False)
    user_agent: str = ""
    min_minutes: int | None = None
    max_minutes: int | None = None

    @property
    def is_set(self) -> bool:
        """Whether a reader with these options needs a copy of the feed."""
        return self != _NONE

    @property
    def has_secret(self) -> bool:
        """Whether a request with these options proves who the reader is."""
        return bool(self.login or self.cookie)

    def build_headers(self) -> tuple[tuple[str, str], ...]:
        """Return the headers of a request."""
        headers = []
        if self.login:
            pair = base64.b64encode(f"{self.login}:{self.password}".encode()).decode()
            headers.append(("Authorization", f"Basic {pair}"))
        if self.cookie:
            headers.append(("Cookie", self.cookie))
        if self.user_agent:
            headers.append(("User-Agent", self.user_agent))
        return tuple(headers)


_NONE = FetchOptions()
