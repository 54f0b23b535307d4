"""Requests of native apps: reading their parameters wherever apps put them, size limits, and CORS."""

from __future__ import annotations

import re
from urllib.parse import parse_qsl

import msgspec
from flask import Flask, Response, request
from werkzeug.datastructures import MultiDict
from werkzeug.exceptions import LengthRequired
from werkzeug.wsgi import ClosingIterator

from app.errors import InvalidError, TooLargeError
from app.web.context import get_web

#: The most fields of one request: 10,000 ids and what apps send with each.
FIELDS_MAX = 20_000
_JsonValue = str | int | float | bool | None
_BLANK = b"\xef\xbb\xbf \t\r\n"
_DOCUMENTS = ("text/xml", "application/xml", "text/x-opml", "text/x-opml+xml", "application/octet-stream")
#: Addresses after which apps may add extra slashes, and the parts that may follow.
_MOUNTS = ("api/greader.php", "api/greader", "api/fever.php")
_WORDS = ("reader/", "accounts/", "check/", "fever")


#: Paths that only native apps request.
_APPS = re.compile(r"/(?:api/greader(?:\.php)?/|reader/|accounts/)")


def is_program_request() -> bool:
    """Return whether this request is for an API of native apps, even if no route matches."""
    return _APPS.match(request.path) is not None


def answer_error(status: int, message: str) -> Response:
    """Answer an error as plain text: apps show it, or look at the status only."""
    return allow_all_origins(Response(message, status, content_type="text/plain; charset=utf-8"))


def check_body(max_bytes: int) -> None:
    """Allow a body of at most ``max_bytes`` bytes.

    Raises:
        LengthRequired: The body has no declared length, so a truncated body would look complete.
        TooLargeError: The body is longer.
    """
    if "Transfer-Encoding" in request.headers:
        raise LengthRequired
    if (request.content_length or 0) > max_bytes:
        raise TooLargeError(
            "The request is larger than this server accepts: at most %(most)s bytes.", most=max_bytes
        )
    request.max_content_length = request.max_form_memory_size = max_bytes
    request.max_form_parts = FIELDS_MAX


def read_parameters() -> MultiDict[str, str]:
    """Return the fields of the body and of the address together, the body's first.

    Apps send forms with no media type or a wrong one (FeedMe, Readrops), or put everything into the address
    of a POST (RSS Guard). Some log in with a JSON object.

    Raises:
        InvalidError: There are too many fields.
    """
    found: MultiDict[str, str] = MultiDict()
    if request.method == "POST" and request.mimetype not in _DOCUMENTS:
        if request.mimetype == "multipart/form-data":
            found.update(request.form)
        elif request.mimetype == "application/json":
            found.update(MultiDict(_read_json(request.get_data(cache=True))))
        else:
            found.update(MultiDict(_fields(request.get_data(cache=True))))
    found.update(request.args)
    return found


def _read_json(body: bytes) -> list[tuple[str, str]]:
    try:
        # A flat object: the decoder rejects anything that is nested deeper.
        fields = msgspec.json.decode(body or b"{}", type=dict[str, _JsonValue | list[_JsonValue]])
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return _fields(body)  # a form with a wrong media type
    return [
        (name, str(one))
        for name, value in fields.items()
        for one in (value if isinstance(value, list) else [value])
        if one is not None
    ]


def _fields(body: bytes) -> list[tuple[str, str]]:
    if body[:64].lstrip(_BLANK).startswith(b"<"):
        return []  # an OPML file sent with a form's media type, as curl does
    try:
        return parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=FIELDS_MAX)
    except ValueError as e:
        raise InvalidError("This request has too many fields.") from e


def allow_all_origins(response: Response) -> Response:
    """Allow scripts of any site to read an answer: a token authorizes the request, cookies don't count."""
    response.headers["Access-Control-Allow-Origin"] = "*"
    response.headers["Access-Control-Allow-Methods"] = "GET, POST, OPTIONS"
    response.headers["Access-Control-Allow-Headers"] = "Authorization, Content-Type, If-None-Match"
    response.headers["Access-Control-Expose-Headers"] = "Date, ETag, Retry-After, X-Reader-Google-Bad-Token"
    response.headers["Access-Control-Max-Age"] = "86400"
    return response


def install(app: Flask) -> None:
    """Make ``app`` accept addresses with extra slashes, as apps build them: ``https://host//reader/…``."""
    inner = app.wsgi_app

    def call_with_straight_path(environ: dict[str, object], start: object) -> ClosingIterator:
        environ["PATH_INFO"] = straighten_path(str(environ.get("PATH_INFO", "")))
        return inner(environ, start)  # type: ignore[arg-type,return-value]  # as WSGI has it

    app.wsgi_app = call_with_straight_path  # type: ignore[method-assign,assignment]


def straighten_path(path: str) -> str:
    """Return a path without extra slashes in the part before an app's own arguments."""
    if "//" not in path:
        return path
    words = path.lstrip("/")
    for mount in _MOUNTS:
        if words.startswith(f"{mount}/"):
            rest = words[len(mount) :].lstrip("/")
            return f"/{mount}/{_inside(rest)}" if rest.startswith(_WORDS) else path
    return f"/{_inside(words)}" if words.startswith(_WORDS) else path


def _inside(rest: str) -> str:
    """Remove double slashes from the fixed beginning; the rest may be an address that contains two."""
    for begin in ("reader/api/0/", "reader/", "accounts/"):
        words = [word for word in begin.split("/") if word]
        left = rest
        for word in words:
            left = left.lstrip("/")
            if not left.startswith(f"{word}/"):
                break
            left = left[len(word) :]
        else:
            return begin + left.lstrip("/")
    return rest


def get_body_limit() -> int:
    """Return the largest body of a program's request, in bytes."""
    return get_web().settings.api_max_bytes
