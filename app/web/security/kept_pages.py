"""Pages that a browser may keep for its Back button, and how log-out takes them away (security.md W18).

A browser keeps a page whole, with its scripts stopped, and shows it again without a request. So the page
itself checks that its session still exists: ``static/js/kept.js`` compares the mark in the page with the mark
in a cookie. Two cookies serve this check. Neither gives access or is derived from the session's token.

- The mark: random text for the session, then random text that changes with each change of settings, feeds or
  the like, so that older pages are loaded again.
- The proof: a script copies the mark, so pages of browsers without scripts are never kept. Its time differs
  for each page. With ``Vary: Cookie``, no page then comes out of the HTTP cache, which may be older.
"""

from __future__ import annotations

import re
import secrets
from urllib.parse import urlsplit

from flask import Flask, Response, g, request

from app.web.context import find_user, get_web
from app.web.security.headers import LOOPBACK

#: First parts of the paths of pages that may be kept. Account, settings, apps and administration aren't here.
KEPT = ("read", "entries", "search", "people", "discover", "notifications", "feeds", "subscriptions")

#: Changes that kept pages learn from events, or don't show.
_UNNOTICED = (
    "/api/",
    "/entries/mark",
    "/entries/star",
    "/entries/states",
    "/read/mark-",
    "/playback",
    "/uploads",
)
_MARK = re.compile(r"[A-Za-z0-9_-]{16}\.[A-Za-z0-9_-]{6}")


def get_mark_name(secure: bool) -> str:
    """Return the name of the mark's cookie; the prefix binds the cookie to this exact host and to HTTPS."""
    return "__Host-eventr-mark" if secure else "eventr-mark"


def get_proof_name(secure: bool) -> str:
    """Return the name of the cookie that ``static/js/kept.js`` sets."""
    return "__Host-eventr-kept" if secure else "eventr-kept"


def install(app: Flask) -> None:
    """Let pages of ``app`` be kept, and keep the mark's cookie up to date."""
    app.jinja_env.globals.update(session_mark=get_mark, session_mark_cookies=get_cookie_names)
    app.after_request(_allow_keeping)
    app.after_request(_set_mark)


def get_mark() -> str:
    """Return the mark for the page that is being rendered; "" for visitors."""
    if find_user() is None:
        return ""
    mark: str | None = g.get("page_mark")
    if mark is None:
        g.page_mark = mark = _find_mark() or _make_mark(secrets.token_urlsafe(12))
    return mark


def get_cookie_names() -> str:
    """Return the names of both cookies, for the script."""
    secure = get_web().secure
    return f"{get_mark_name(secure)} {get_proof_name(secure)}"


def _find_mark() -> str | None:
    mark = request.cookies.get(get_mark_name(get_web().secure), "")
    return mark if _MARK.fullmatch(mark) else None


def _make_mark(session: str) -> str:
    return f"{session}.{secrets.token_urlsafe(6)[:6]}"


def _allow_keeping(response: Response) -> Response:
    if "Cache-Control" not in response.headers and _may_be_kept(response):
        response.headers["Cache-Control"] = "private, no-cache"
    return response


def _may_be_kept(response: Response) -> bool:
    """Return whether the answer is a page with the guard, for a browser that was seen to run the guard."""
    mark = _find_mark()
    return (
        mark is not None
        and g.get("page_mark") == mark
        and _runs_scripts(mark)
        and request.method == "GET"
        and response.status_code == 200
        and response.mimetype == "text/html"
        and "HX-Request" not in request.headers
        and g.get("new_token") is None
        and _is_kept_path(request.path)
        and (get_web().secure or urlsplit(get_web().base_url).hostname in LOOPBACK)
    )


def _runs_scripts(mark: str) -> bool:
    proof = request.cookies.get(get_proof_name(get_web().secure), "")
    return proof.partition(".")[0] == mark.partition(".")[0]


def _is_kept_path(path: str) -> bool:
    first = path.split("/", 2)[1]
    return first in KEPT or first.startswith("@")


def _set_mark(response: Response) -> Response:
    secure, known = get_web().secure, _find_mark()
    new_token = g.get("new_token")
    if new_token is not None:
        # Someone logs in or out, and must not see the pages of the account before.
        for name in (get_mark_name(secure), get_proof_name(secure)):
            if name in request.cookies:
                response.delete_cookie(name, secure=secure, samesite="Lax", path="/")
        if not new_token and secure:
            response.headers["Clear-Site-Data"] = '"cache"'
        return response
    mark = g.get("page_mark")
    if known and _changed_something(response):
        mark = _make_mark(known.partition(".")[0])
    if mark is not None and mark != known:
        response.set_cookie(
            get_mark_name(secure),
            mark,
            max_age=get_web().settings.session_max,
            secure=secure,
            httponly=False,  # the page compares it
            samesite="Lax",
            path="/",
        )
    return response


def _changed_something(response: Response) -> bool:
    return (
        request.method not in ("GET", "HEAD", "OPTIONS")
        and find_user() is not None
        and response.status_code < 400
        and not request.path.startswith(_UNNOTICED)
    )
