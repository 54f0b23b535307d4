"""The Google Reader API on the wire: authentication, request fields, answers and errors (docs/clients.md)."""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec
from flask import Blueprint, Response, g, request
from werkzeug.datastructures import MultiDict
from werkzeug.exceptions import HTTPException

from app import logs
from app.errors import AuthRequiredError, EventrError, InvalidError, RateLimitedError, StoreError
from app.models.accounts.actor import Actor
from app.models.accounts.token import Caller
from app.web.api import long_bodies, programs
from app.web.context import get_services, get_web
from app.web.security.sessions import for_programs, get_client
from app.web.view import i18n

log = logs.get(__name__)

View = TypeVar("View", bound=Callable[..., Response])
_AUTH = re.compile(r"\s*GoogleLogin\s+auth\s*=\s*([A-Za-z0-9._/-]{1,256})\s*", re.IGNORECASE)
_ENCODER = msgspec.json.Encoder(enc_hook=int)  # the store's integer type
OK = "OK"
JSON = "application/json; charset=utf-8"


class BadTokenError(AuthRequiredError):
    """The post token belongs to another caller; apps fetch a new one when they get this error."""

    code = "bad_token"


def answer_text(body: str, status: int = 200) -> Response:
    """Answer with plain text and no trailing newline: apps use the text as it is."""
    return Response(body, status, content_type="text/plain; charset=utf-8")


def answer_json(body: Any) -> Response:
    """Answer with JSON."""
    return Response(encode_json(body), content_type=JSON)


def encode_json(body: Any) -> bytes:
    """Return the JSON of an answer or of a part of it."""
    return _ENCODER.encode(body)


def answer_json_if_changed(body: Any) -> Response:
    """Answer with JSON and an ETag, so that the app needn't download an unchanged answer again.

    Args:
        body: the answer, or its encoded JSON.
    """
    response = Response(body, content_type=JSON) if isinstance(body, bytes) else answer_json(body)
    return set_etag(response, hashlib.sha256(response.get_data()).hexdigest()[:32])


def set_etag(response: Response, etag: str) -> Response:
    """Set the ETag of an answer; answer 304 if the app has this version."""
    if is_liferea():
        return response
    response.set_etag(etag, weak=True)
    response.headers["Cache-Control"] = "private, no-cache"
    if request.if_none_match.contains_weak(etag):  # apps send it back as a weak ETag
        response.set_data(b"")
        response.status_code = 304
    return response


def is_liferea() -> bool:
    """Return whether the app is Liferea, which takes a 304 for a list as a failure and updates nothing."""
    return request.headers.get("User-Agent", "").startswith("Liferea/")


def is_newsflash() -> bool:
    """Return whether the app is NewsFlash, which rejects a list of feeds with a null icon."""
    if "is_newsflash" not in g:  # once, as each feed of a list asks
        g.is_newsflash = "newsflash" in request.headers.get("User-Agent", "").lower()
    return bool(g.is_newsflash)


def read_fields() -> MultiDict[str, str]:
    """Return the fields of this request."""
    if "given" not in g:
        g.given = programs.read_parameters()
    return g.given  # type: ignore[no-any-return]  # set above


def read_field(name: str, default: str = "") -> str:
    """Return a field, stripped."""
    return read_fields().get(name, default).strip()


def read_values(*names: str) -> list[str]:
    """Return all non-empty values of these fields."""
    return [value for name in names for value in read_fields().getlist(name) if value.strip()]


def read_number(name: str, default: int | None = None) -> int | None:
    """Return a field that is a whole number.

    Raises:
        InvalidError: The field isn't a number.
    """
    raw = read_field(name)
    if not raw:
        return default
    if not re.fullmatch(r"[0-9]{1,20}", raw, re.ASCII):
        raise InvalidError("The field “%(field)s” must be a number.", field=name)
    return int(raw)


def get_caller() -> Caller:
    """Return the caller.

    Raises:
        AuthRequiredError: The request has no valid token.
    """
    found = g.get("caller")
    if found is None:
        raise AuthRequiredError
    return found  # type: ignore[no-any-return]  # set by recognise_caller


def get_actor() -> Actor:
    """Return the actor that services expect for the caller."""
    return get_caller().actor


def recognise_caller() -> Response | None:
    """Identify the caller before each view, except for views marked with `allow_strangers`."""
    if request.method == "OPTIONS":
        return Response(status=204)
    most = max(programs.get_body_limit(), get_web().settings.opml_max_bytes if _takes_file() else 0)
    programs.check_body(most)
    if getattr(_view(), "stranger", False):
        return long_bodies.accept_body()
    found = _AUTH.fullmatch(request.headers.get("Authorization", ""))
    auth = found[1] if found else ""
    if not auth and getattr(_view(), "token_will_do", False):
        if (unread := long_bodies.accept_body()) is not None:
            return unread
        auth = read_field("T")
    if not auth:
        raise AuthRequiredError
    known = long_bodies.find_quota()
    g.caller = get_services().tokens.get_reader_caller(auth, get_client(), known)
    g.user, g.auth = g.caller.user, auth
    if (unread := long_bodies.accept_body(g.caller.quota)) is not None:
        return unread
    if request.method == "POST" and not _is_good(read_field("T"), auth):
        raise BadTokenError
    if read_field("output") == "xml":
        return answer_text("This API supports only JSON and Atom output.", 501)
    return None


def _view() -> Callable[..., Any] | None:
    from app.web.security.sessions import find_view

    return find_view()


def _takes_file() -> bool:
    return bool(getattr(_view(), "takes_document", False))


def _is_good(sent: str, auth: str) -> bool:
    """Return whether a post token may pass. Cookies don't count here, so an absent token may pass too."""
    return sent in ("", "x", auth) or hmac.compare_digest(sent.encode(), build_post_token(auth).encode())


def build_post_token(auth: str) -> str:
    """Return the token that an app sends with each change, as old apps expect it: 57 letters and digits."""
    return hashlib.sha256(f"post|{auth}".encode()).hexdigest()[:57]


def allow_strangers(view: View) -> View:
    """Mark a view that needs no login."""
    view.stranger = True  # type: ignore[attr-defined]
    return view


def allow_body_token(view: View) -> View:
    """Mark the view to which an app may send its token in the body only (Liferea 1.14)."""
    view.token_will_do = True  # type: ignore[attr-defined]
    return view


def accept_document(view: View) -> View:
    """Mark a view whose body may be as large as an OPML file."""
    view.takes_document = True  # type: ignore[attr-defined]
    return view


class Api:
    """The routes, to be registered below each address that apps try."""

    def __init__(self) -> None:
        self._routes: list[tuple[str, tuple[str, ...], Callable[..., Response]]] = []

    def register_view(self, *rules: str, methods: tuple[str, ...] = ("GET",)) -> Callable[[View], View]:
        """Register a view for programs at these paths. Where GET is accepted, so is POST, as in FreshRSS."""
        if "GET" in methods and "POST" not in methods:
            methods = (*methods, "POST")

        def store_view(view: View) -> View:
            self._routes += [(rule, methods, for_programs(view)) for rule in rules]
            return view

        return store_view

    def build_blueprint(self, name: str, prefix: str) -> Blueprint:
        """Return a blueprint with all routes below an address."""
        made = Blueprint(name, __name__, url_prefix=prefix or None)
        made.before_request(recognise_caller)
        made.after_request(programs.allow_all_origins)
        made.register_error_handler(EventrError, answer_error)
        made.register_error_handler(HTTPException, answer_http_error)
        for rule, methods, view in self._routes:
            if rule.startswith("/check/") and not prefix:
                continue  # Eventr's own page is there
            # Ids contain addresses, whose double slashes must stay.
            made.add_url_rule(
                rule,
                view.__name__,
                view,
                methods=[*methods, "OPTIONS"],
                provide_automatic_options=False,
                strict_slashes=False,
                merge_slashes=False,
            )
        return made


def answer_error(error: Exception) -> Response:
    """Answer an EventrError as plain text; 401 is only for authentication, 404 only for a wrong address."""
    assert isinstance(error, EventrError)  # noqa: S101 — registered for this class only
    path, status = str(request.url_rule), error.http_status
    log.info("app_refused", error=error.word, status=status, path=path, **error.logged_ids)
    if isinstance(error, AuthRequiredError):
        answer = answer_text("Unauthorized", 401)
        answer.headers["Google-Bad-Token"] = "true"
        if isinstance(error, BadTokenError):
            answer.headers["X-Reader-Google-Bad-Token"] = "true"
        return answer
    # On 403 NetNewsWire would log in again; 404 means a wrong address.
    answer = answer_text(i18n.translate_error(error), 400 if status in (403, 404, 409, 422) else status)
    if isinstance(error, RateLimitedError):
        answer.headers["Retry-After"] = str(error.ids.get("retry_after", 60))
    if isinstance(error, StoreError):
        answer.headers["Retry-After"] = "10"
    return answer


def answer_http_error(error: Exception) -> Response:
    """Answer an HTTP error as plain text."""
    assert isinstance(error, HTTPException)  # noqa: S101 — registered for this class only
    answer = answer_text(error.name, error.code or 500)
    for name, value in error.get_headers():
        if name in ("Allow", "Retry-After"):
            answer.headers[name] = value
    return answer
