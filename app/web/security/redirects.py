"""Safe redirects: ``next=`` may only lead to a path of this server (security.md W09)."""

from __future__ import annotations

import re

_PATH = re.compile(r"/(?![/\\])[\x21-\x7e]*")


def get_safe_next(target: str | None, default: str = "/read/all") -> str:
    """Return ``target`` if it is a plain path of this server, else ``default``."""
    if target and _PATH.fullmatch(target) and "\\" not in target and not re.search("%0[9ad]", target, re.I):
        return target
    return default
