"""QR codes, drawn into the page: no picture has an address that would say what is in it."""

from __future__ import annotations

import functools
from urllib.parse import urlsplit

import segno
from markupsafe import Markup

from app.web.security.headers import LOOPBACK

#: Modules of white around a code, as the standard asks.
_QUIET = 4


def is_reachable_by_phones(base_url: str) -> bool:
    """Return whether another device can open the address of this server: not if it means "this machine"."""
    return urlsplit(base_url).hostname not in LOOPBACK


@functools.lru_cache(maxsize=64)
def render_qr_code(text: str, label: str) -> Markup:
    """Return a QR code as SVG; ``label`` says what it contains.

    Put only addresses into codes. Phones offer to search the web for any other text, and would send a
    secret there.
    """
    rows = segno.make(text, error="m", micro=False).matrix
    side = len(rows) + 2 * _QUIET
    path = "".join(
        f"M{x + _QUIET} {y + _QUIET}h1v1h-1z"
        for y, row in enumerate(rows)
        for x, module in enumerate(row)
        if module
    )
    svg = Markup(
        '<svg class="qr" viewBox="0 0 {0} {0}" role="img" aria-label="{1}" shape-rendering="crispEdges">'
        '<path fill="#fff" d="M0 0h{0}v{0}H0z"/><path d="{2}"/></svg>'
    )
    return svg.format(side, label, path)
