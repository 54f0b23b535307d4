"""Media targets: which addresses a reader's browser or app may load without a click.

A picture in an entry is requested by each reader, inside their own network. So it follows the same rules as
our own fetches (S05, S06): no private address in any spelling, no local name, no unusual port.
"""

from __future__ import annotations

import functools
import re

from app.config import Settings
from app.errors import FetchError
from app.feeds.fetch.address_policy import LOCAL_SUFFIXES, Policy

_ORIGIN = re.compile(r"(https?://[^/?#\\]*?)(:[0-9]{1,5})?(?=[/?#\\]|\Z)")
#: Typical hosts without a port: no IP address, no escape, no user name, no local name.
_USUAL = re.compile(
    rf"https?://(?:[a-z0-9-]+\.)+(?!(?:{'|'.join(sorted(LOCAL_SUFFIXES))}|arpa)(?:[/?#]|\Z))[a-z]{{2,}}(?=[/?#]|\Z)"
)


@functools.cache
def _get_default_policy() -> Policy:
    return Policy(Settings())


def may_load(
    url: str, policy: Policy | None = None, *, requested: bool = False, any_port: bool = False
) -> bool:
    """Return whether a browser may load an absolute http(s) address without a click.

    Args:
        policy: this server's rules; None for the defaults.
        requested: whether the address has the host of its own page, to which the server's list of allowed
            private targets applies (S11).
        any_port: accept unusual ports, for files that aren't loaded into a page.
    """
    if _USUAL.match(url):
        return True
    origin = _ORIGIN.match(url)
    if origin is None:
        return False
    port = "" if any_port else origin[2] or ""
    try:
        (policy or _get_default_policy()).check_url(f"{origin[1]}{port}/", requested=requested)
    except FetchError:
        return False
    return True
