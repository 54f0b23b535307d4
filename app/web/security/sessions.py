"""The session cookie, which identifies the user on each request (security.md W01, W02)."""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable
from typing import TypeVar

from flask import Flask, Response, g, request

from app.errors import AuthRequiredError, InvalidError
from app.models.media.spooled import WANTED
from app.services.accounts.sign_in import Client
from app.web import problems
from app.web.api import programs
from app.web.context import get_web
from app.web.security import csrf, devices, hosts

_TOKEN = re.compile(r"[A-Za-z0-9_-]{43}")
View = TypeVar("View", bound=Callable[..., object])


def get_cookie_name(secure: bool) -> str:
    """Return the cookie's name; the prefix binds the cookie to this exact host and to HTTPS."""
    return "__Host-eventr" if secure else "eventr"


def allow_strangers(view: View) -> View:
    """Mark a view that needs no login; all other views do."""
    view.public = True  # type: ignore[attr-defined]
    return view


def for_programs(view: View) -> View:
    """Mark a public view for programs: no cookie, no form token, bodies other than forms.

    The view must authorize the caller and limit the body itself.
    """
    view.for_programs = True  # type: ignore[attr-defined]
    return allow_strangers(view)


def for_anybody(view: View) -> View:
    """Mark a public view that answers everyone alike. It needs no session, so it works without the store."""
    view.for_anybody = True  # type: ignore[attr-defined]
    return allow_strangers(view)


def takes_file(setting: str) -> Callable[[View], View]:
    """Mark a view whose form contains a file; its body may be as long as the setting allows (W16)."""

    def mark(view: View) -> View:
        view.takes_file = setting  # type: ignore[attr-defined]
        return view

    return mark


def takes_upload(view: View) -> View:
    """Mark a view whose body is a part of an upload, of any length; the view itself checks and limits it."""
    view.takes_upload = True  # type: ignore[attr-defined]
    return view


def install(app: Flask) -> None:
    """Identify the user before each request, guard the request, and set the cookie after it."""
    app.before_request(hosts.warn_of_ignored_addresses)
    app.before_request(_recognise)
    app.before_request(_guard)
    app.after_request(devices.set_cookie)
    app.after_request(_set_cookie)


def _recognise() -> None:
    anybody = request.endpoint == "static_files.serve_file" or getattr(find_view(), "for_anybody", False)
    if anybody or _is_for_programs():
        return
    token = request.cookies.get(get_cookie_name(get_web().secure), "")
    g.token = token if _TOKEN.fullmatch(token) else None
    found = get_web().services.sign_in.resume(g.token) if g.token else None
    g.session, g.user = found or (None, None)


def _guard() -> Response | None:
    view = find_view()
    hosts.check_name(request, get_web().settings)
    if _is_for_programs():
        return None
    takes_file: str = getattr(view, "takes_file", "")
    takes_upload: bool = getattr(view, "takes_upload", False)
    if (takes_file or takes_upload) and g.get("user") is None:
        raise AuthRequiredError  # before any part of a long body is read
    if not takes_upload:
        hosts.check_body(request, get_web().settings, takes_file=takes_file)
    if request.mimetype == "multipart/form-data" and not takes_file:
        # werkzeug would parse the parts before any check (W16).
        raise InvalidError("You can't upload files here.")
    csrf.check_origin(request)
    # Before the token: someone whose session has ended must log in; "old page" would mislead them.
    if view is not None and not getattr(view, "public", False) and g.get("user") is None:
        raise AuthRequiredError
    if takes_file and (accept := request.environ.get(WANTED)) is not None:
        # The form hasn't arrived yet. The web server receives it, and then asks again.
        accept(request.content_length or 1)
        return Response(status=204)
    csrf.check_token(request, get_web().secret_key, g.get("token"))
    return None


def _is_for_programs() -> bool:
    # Even where no route of an API matches: the answer doesn't depend on a cookie.
    return (
        bool(getattr(find_view(), "for_programs", False))
        or problems.is_rest_request()
        or programs.is_program_request()
    )


def find_view() -> Callable[..., object] | None:
    """Return the view function of this request; None: no route matches."""
    from flask import current_app

    return current_app.view_functions.get(request.endpoint) if request.endpoint else None


def get_csrf_token() -> str:
    """Return the token for the forms of this page; a visitor without a session gets a cookie to bind it to.

    All forms of a page share one token: a list has a hundred small forms, and random text doesn't compress.
    """
    if g.get("token") is None:
        begin_session(secrets.token_urlsafe(32))
    made: tuple[str, str] | None = g.get("csrf")
    if made is None or made[0] != g.token:
        g.csrf = made = (g.token, csrf.make_token(get_web().secret_key, g.token))
    return made[1]


def begin_session(token: str) -> None:
    """Set the session cookie with the answer."""
    g.token = g.new_token = token


def end_session() -> None:
    """Delete the session cookie with the answer."""
    g.new_token = ""


def get_client() -> Client:
    """Return the origin of this request; forwarded addresses count only behind trusted proxies."""
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
