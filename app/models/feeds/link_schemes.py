"""Schemes of links that open an app and run nothing in a page."""

from __future__ import annotations

import re
from typing import Final

#: Addresses of people, places and files in other systems. Only a click opens them; none is ever loaded.
LINK_SCHEMES: Final = frozenset(
    [
        *("acct", "bitcoin", "callto", "ed2k", "facetime", "ftp", "ftps", "gemini", "geo", "gopher", "im"),
        *(
            "ipfs",
            "ipns",
            "irc",
            "irc6",
            "ircs",
            "lightning",
            "magnet",
            "mailto",
            "matrix",
            "monero",
            "mumble",
        ),
        *("news", "nntp", "nostr", "sgnl", "signal", "sip", "sips", "skype", "sms", "spartan", "tel", "tg"),
        *("urn", "webcal", "whatsapp", "xmpp"),
    ]
)
_SCHEME: Final = re.compile(r"([a-z][a-z0-9+.-]{1,15}):.", re.ASCII | re.IGNORECASE)


def has_link_scheme(address: str) -> bool:
    """Return whether an address has one of :data:`LINK_SCHEMES`."""
    found = _SCHEME.match(address)
    return found is not None and found[1].lower() in LINK_SCHEMES
