"""The session cookie: who is asking, on each request (security.md W01, W02)."""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable
from typing import TypeVar

from flask import Flask, Response, g, request

from app.errors import AuthRequiredError, InvalidError
from app.services.accounts.sign_in import Client
from app.web import problems
from app.web.api import programs
from app.web.context import get_web
from app.web.security import csrf, hosts

_TOKEN = re.compile(r"[A-Za-z0-9_-]{43}")
View = TypeVar("View", bound=Callable[..., object])


def get_cookie_name(secure: bool) -> str:
    """Return the cookie's name; the prefix binds it to this very host and to HTTPS."""
    return "__Host-eventr" if secure else "eventr"


def allow_strangers(view: View) -> View:
    """Mark a view that strangers may see; all others want a log-in."""
    view.public = True  # type: ignore[attr-defined]
    return view


def for_programs(view: View) -> View:
    """Mark a public view that programs call: no cookie, no form token, bodies that are no forms.

    It must know by itself who may do what, and how long a body may be.
    """
    view.for_programs = True  # type: ignore[attr-defined]
    return allow_strangers(view)


def for_anybody(view: View) -> View:
    """Mark a public view that answers all alike: no session is looked up for it, which the store may be
    too far away for.
    """
    view.for_anybody = True  # type: ignore[attr-defined]
    return allow_strangers(view)


def takes_file(view: View) -> View:
    """Mark a view whose form brings a file of subscriptions; its body may be as long as such a file (W16)."""
    view.takes_file = True  # type: ignore[attr-defined]
    return view


def install(app: Flask) -> None:
    """Recognise the visitor before each request, guard it, and set the cookie after it."""
    app.before_request(_recognise)
    app.before_request(_guard)
    app.after_request(_set_cookie)


def _recognise() -> None:
    anybody = request.endpoint == "static_files.serve_file" or getattr(find_view(), "for_anybody", False)
    if anybody or _is_for_programs():
        return
    token = request.cookies.get(get_cookie_name(get_web().secure), "")
    g.token = token if _TOKEN.fullmatch(token) else None
    found = get_web().services.sign_in.resume(g.token) if g.token else None
    g.session, g.user = found or (None, None)


def _guard() -> None:
    view = find_view()
    hosts.check_name(request, get_web().settings)
    if _is_for_programs():
        return
    takes_file = getattr(view, "takes_file", False)
    if takes_file and g.get("user") is None:
        raise AuthRequiredError  # before anything of a long body is read
    hosts.check_body(request, get_web().settings, takes_file=takes_file)
    if request.mimetype == "multipart/form-data" and not takes_file:
        # Parts would be parsed before anything else is looked at (W16).
        raise InvalidError("You can't upload files here.")
    csrf.check_origin(request)
    # Before the token: whose session has ended is told to log in, and not that a page is old.
    if view is not None and not getattr(view, "public", False) and g.get("user") is None:
        raise AuthRequiredError
    csrf.check_token(request, get_web().secret_key, g.get("token"))


def _is_for_programs() -> bool:
    # Below the APIs' addresses also where no route fits: what is answered there depends on no cookie either.
    return (
        bool(getattr(find_view(), "for_programs", False))
        or problems.is_rest_request()
        or programs.is_program_request()
    )


def find_view() -> Callable[..., object] | None:
    """Return the view function of this request, None when no route fits."""
    from flask import current_app

    return current_app.view_functions.get(request.endpoint) if request.endpoint else None


def get_csrf_token() -> str:
    """Return the token for the forms of this page; a stranger gets a cookie to bind it to.

    One for the whole page: a list has a hundred small forms, and random text does not compress.
    """
    if g.get("token") is None:
        begin_session(secrets.token_urlsafe(32))
    made: tuple[str, str] | None = g.get("csrf")
    if made is None or made[0] != g.token:
        g.csrf = made = (g.token, csrf.make_token(get_web().secret_key, g.token))
    return made[1]


def begin_session(token: str) -> None:
    """Give the browser this session id with the answer."""
    g.token = g.new_token = token


def end_session() -> None:
    """Take the cookie away with the answer."""
    g.new_token = ""


def get_client() -> Client:
    """Return where this request comes from; forwarded addresses count only behind trusted proxies."""
    return Client(request.remote_addr or "", request.headers.get("User-Agent", ""))


def _set_cookie(response: Response) -> Response:
    token = g.get("new_token")
    if token is None:
        return response
    name, secure = get_cookie_name(get_web().secure), get_web().secure
    if token:
        response.set_cookie(
            name,
            token,
            max_age=get_web().settings.session_max,
            secure=secure,
            httponly=True,
            samesite="Lax",
            path="/",
        )
    else:
        response.delete_cookie(name, secure=secure, httponly=True, samesite="Lax", path="/")
    return response
