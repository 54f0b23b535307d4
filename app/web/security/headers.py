"""Security headers of every answer, errors included (security.md H08, H11, W18)."""

from __future__ import annotations

from urllib.parse import urlsplit

from flask import Flask, Response, g, request

from app.web.context import find_user, get_web
from app.web.view.embeds import FRAME_HOSTS
from app.web.view.pictures import DIRECT, get_choice

#: Pictures come from this server (H05), or for people who chose so from any site.
IMAGE_SOURCES, FOREIGN_IMAGE_SOURCES = "'self' data:", "'self' data: https: http:"

#: Recordings and players come from other sites, after a click and a question (:mod:`app.web.view.players`).
#: The header can't name the sites of recordings: a player goes on while the page shows entries of others.
FRAMES = " ".join(f"https://{host}" for host in FRAME_HOSTS)
PLAYERS = f"media-src 'self' https: http:; frame-src 'self' {FRAMES}"
NO_PLAYERS = "media-src 'self'; frame-src 'self'"

#: For pages that can show a player.
CSP = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        f"img-src {IMAGE_SOURCES}",
        "font-src 'self'",
        "connect-src 'self'",
        PLAYERS,
        "manifest-src 'self'",
        "worker-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types eventr",
    )
)

#: For bytes that strangers sent, and for errors of their routes (H09): nothing runs, loads or is sent.
MEDIA_CSP = "default-src 'none'; form-action 'none'; sandbox"

FOREIGN_CSP = CSP.replace(f"img-src {IMAGE_SOURCES}", f"img-src {FOREIGN_IMAGE_SOURCES}")

#: For pages of people without an account that have no player, and whatever isn't a page.
SILENT_CSP = CSP.replace(PLAYERS, NO_PLAYERS)

LOOPBACK = {"127.0.0.1", "localhost", "::1"}


def install(app: Flask, base_url: str) -> None:
    """Set the headers after each request of ``app``."""
    fixed = {
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": get_referrer_policy(base_url),
        "X-Frame-Options": "DENY",
        "Cross-Origin-Opener-Policy": "same-origin",
        "Permissions-Policy": "camera=(), microphone=(), geolocation=()",
    }
    if base_url.startswith("https://"):
        fixed["Strict-Transport-Security"] = "max-age=31536000"

    @app.after_request
    def add_headers(response: Response) -> Response:
        for name, value in fixed.items():
            response.headers[name] = value
        policy = FOREIGN_CSP if get_choice() == DIRECT else CSP
        # Someone who is logged in goes on to entries without loading a new page.
        if find_user() is None and not g.get("has_player"):
            policy = policy.replace(PLAYERS, NO_PLAYERS)
        response.headers["Content-Security-Policy"] = policy
        if g.get("media_bytes"):
            response.headers["Content-Security-Policy"] = MEDIA_CSP
            response.headers.setdefault("Cross-Origin-Resource-Policy", "same-origin")
        _caching(response)
        _hurry(response)
        return response


def _hurry(response: Response) -> None:
    # A page shows nothing until its style sheet has arrived. The preload header makes browsers fetch the
    # style sheet before the scripts, which share the connection.
    whole = response.mimetype == "text/html" and "HX-Request" not in request.headers
    if whole and not 300 <= response.status_code < 400:
        response.headers["Link"] = f"<{get_web().assets.get_url('app.css')}>; rel=preload; as=style"


def get_referrer_policy(base_url: str) -> str:
    """Return a policy that reveals no address to other sites but lets our own forms through.

    Under ``no-referrer`` browsers send ``Origin: null`` with forms. With HTTPS and on loopback this is
    harmless, since they also send ``Sec-Fetch-Site``. On a plain-HTTP name they don't, and every form would
    fail the origin check; ``same-origin`` reveals no more to other sites.
    """
    parts = urlsplit(base_url)
    return "no-referrer" if parts.scheme == "https" or parts.hostname in LOOPBACK else "same-origin"


def _caching(response: Response) -> None:
    # Answers that depend on the user are stored nowhere (W18), except pages that guard themselves
    # (:mod:`app.web.security.kept_pages`). Static files set their own header.
    if "Cache-Control" not in response.headers:
        response.headers["Cache-Control"] = "no-store"
    if not g.get("public_bytes"):
        response.vary.add("Cookie")
