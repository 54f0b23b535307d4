"""Processing of a REST API request: token, scope, validation, idempotency, and the answer's headers."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from typing import Any, cast
from urllib.parse import urlencode

import msgspec
from flask import Response, current_app, g, request
from werkzeug.exceptions import LengthRequired, UnsupportedMediaType

from app.errors import AuthRequiredError, ChangedError, EventrError, ForbiddenError, TooLargeError
from app.models.accounts.token import Caller, Scope
from app.models.sync.idempotency import Answer
from app.web import errors, problems
from app.web.api import long_bodies, tus
from app.web.api.rest import reading
from app.web.api.rest.table import JSON, OPERATIONS, OPML, Operation, Reply
from app.web.context import get_services, get_web
from app.web.security.sessions import get_client

_BEARER = re.compile(r"(?i:bearer) +(evt_[A-Za-z0-9_-]{43})")
#: Headers that a replayed answer keeps.
_LASTING = ("Content-Type", "Location", "Link", "WWW-Authenticate", "Retry-After")
_ALLOWED = "Authorization, Content-Type, Accept-Language, Idempotency-Key, If-Match, If-None-Match"
_EXPOSED = (
    "ETag, Link, Location, Retry-After, RateLimit, RateLimit-Policy, Idempotency-Replayed, WWW-Authenticate"
)


def _plain(value: object) -> object:
    """Convert the store's integer type to a plain int for JSON."""
    if isinstance(value, int):
        return int(value)
    raise TypeError(type(value).__name__)


_ENCODER = msgspec.json.Encoder(enc_hook=_plain)


def answer_request(operation: Operation, path: Mapping[str, Any]) -> Response:
    """Answer a request for an operation; the application's error handlers render the errors it raises."""
    caller = get_caller(operation.scope)
    _limit_body(operation)
    if operation.writes and (unread := long_bodies.accept_body(caller.quota)) is not None:
        return unread
    body = _read_body(operation)
    work = _bound(operation, caller, path, body)
    key = request.headers.get("Idempotency-Key")
    if operation.once and key is not None:
        return _once(operation, caller, key, body, work)
    response = work()
    if not operation.writes and response.status_code == 200:
        response.set_etag(_tag(response.get_data()))
        response.make_conditional(request)
    return response


def get_caller(scope: Scope | None) -> Caller:
    """Return the program that sent this request.

    Raises:
        AuthRequiredError: it sent no valid token.
        ForbiddenError: the token lacks this scope.
    """
    # Only this header counts: no cookie, no part of the address (W08).
    found = _BEARER.fullmatch(request.headers.get("Authorization", "").strip())
    if found is None:
        raise AuthRequiredError("Send an access token in this header: Authorization: Bearer evt_…")
    known = long_bodies.find_quota()
    g.caller = caller = get_services().tokens.get_api_caller(found[1], get_client(), known)
    if scope is not None and scope not in caller.token.scopes:
        raise ForbiddenError(user_id=caller.user.id, scope=scope.value)
    return caller


def _limit_body(operation: Operation) -> None:
    """Refuse a body that is longer than the operation accepts (W16)."""
    if not operation.writes:
        return
    if "Transfer-Encoding" in request.headers:
        raise LengthRequired  # a truncated body would look complete
    settings = get_web().settings
    most = max(settings.api_max_bytes, settings.opml_max_bytes if OPML in operation.takes else 0)
    if (request.content_length or 0) > most:
        raise TooLargeError(
            "The request is larger than this server accepts: at most %(most)s bytes.", most=most
        )
    request.max_content_length = most


def _read_body(operation: Operation) -> bytes:
    """Return the body if the operation accepts its type."""
    if not operation.writes:
        return b""
    body = request.get_data(cache=False)
    if body and operation.body is not None and request.mimetype not in (JSON, *operation.takes):
        raise UnsupportedMediaType
    return body


def _bound(
    operation: Operation, caller: Caller, path: Mapping[str, Any], body: bytes
) -> Callable[[], Response]:
    """Validate the request; return the call that performs the operation."""
    given: dict[str, Any] = {"actor": caller.actor, **reading.read_path(path)}
    if operation.query is None:
        reading.refuse_query(request.args)
    else:
        given["query"] = reading.read_query(request.args, operation.query)
    if operation.body is not None:
        given["body"] = _sent(operation, operation.body, body)

    def call_handler() -> Response:
        _check_unchanged(operation, {name: value for name, value in given.items() if name != "body"})
        return _made(operation, operation.handler(**given))

    return call_handler


def _sent(operation: Operation, kind: type[msgspec.Struct], body: bytes) -> msgspec.Struct:
    if body and request.mimetype in operation.takes:
        # The file itself declares its charset, so its bytes must stay unchanged.
        return kind(**{operation.raw: body.decode("utf-8", "surrogateescape")})
    return reading.read_body(body, kind)


def _check_unchanged(operation: Operation, given: dict[str, Any]) -> None:
    """Compare ``If-Match`` with the current state (RFC 9110 section 13.1.1)."""
    if not operation.guarded or "If-Match" not in request.headers:
        return
    now = next(o for o in OPERATIONS if o.path == operation.path and o.method == "GET")
    tags = request.if_match
    if tags.star_tag:
        now.handler(**given)  # raises if the resource doesn't exist
    elif not tags.contains(_tag(_made(now, now.handler(**given)).get_data())):
        raise ChangedError


def _made(operation: Operation, found: Any) -> Response:
    """Return a handler's result as a response."""
    reply = found if isinstance(found, Reply) else Reply(found, operation.statuses[0])
    if reply.body is None:
        response = Response(status=204)
        del response.headers["Content-Type"]
        return response
    data = reply.body if isinstance(reply.body, bytes) else _ENCODER.encode(reply.body)
    response = Response(data, reply.status, content_type=operation.gives or JSON)
    if reply.location:
        response.headers["Location"] = f"/api/v1{reply.location}"
    if reply.retry_after:
        response.headers["Retry-After"] = str(reply.retry_after)
    if cursor := getattr(reply.body, "next", None):
        query = urlencode({**request.args.to_dict(), "cursor": cursor})
        response.headers["Link"] = f'<{get_web().base_url}{request.path}?{query}>; rel="next"'
    return response


def _tag(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()[:32]


def _once(
    operation: Operation, caller: Caller, key: str, body: bytes, work: Callable[[], Response]
) -> Response:
    if len(key) > 1 and key[0] == key[-1] == '"':
        key = key[1:-1]  # a string of structured fields (RFC 8941), the draft's form
    parts = (
        request.method,
        request.full_path,
        request.headers.get("If-Match", ""),
        request.mimetype,
    )
    digest = hashlib.sha256("\0".join(parts).encode() + b"\0" + body).digest()

    def answer_once() -> Answer:
        try:
            response = work()
        except EventrError as e:
            response = errors.answer_error(e)
        kept = [(name, response.headers[name]) for name in _LASTING if name in response.headers]
        return Answer(response.status_code, tuple(kept), response.get_data())

    found, again = get_services().idempotency.run_once(caller.actor, key, digest, answer_once)
    response = Response(found.body, found.status)
    response.headers.pop("Content-Type", None)
    for name, value in found.headers:
        response.headers[name] = value
    if again:
        response.headers["Idempotency-Replayed"] = "true"
    return response


def answer_preflight() -> Response | None:
    """Answer a CORS preflight request. Every site may call the API, since cookies don't count."""
    if request.method != "OPTIONS":
        return None
    here = str(request.url_rule)
    rules = [rule for rule in current_app.url_map.iter_rules() if rule.rule == here]
    methods = sorted({method for rule in rules for method in rule.methods or ()})
    response = Response(status=204)
    response.headers["Access-Control-Allow-Methods"] = ", ".join(methods)
    response.headers["Access-Control-Allow-Headers"] = _ALLOWED
    response.headers["Access-Control-Max-Age"] = "600"
    return response


def add_api_headers(response: Response) -> Response:
    """Add the headers of every API answer, including errors and unknown addresses."""
    if not problems.is_rest_request():
        return response
    response.headers["Access-Control-Allow-Origin"] = "*"
    response.headers["Access-Control-Expose-Headers"] = f"{_EXPOSED}, {tus.RESPONSE_HEADERS}"
    response.vary.update(("Authorization", "Accept-Language"))
    caller = cast("Caller | None", g.get("caller"))
    if caller is not None and (quota := caller.quota) is not None:
        response.headers["RateLimit-Policy"] = f'"user";q={quota.limit};w={quota.window}'
        response.headers["RateLimit"] = f'"user";r={quota.left};t={quota.reset}'
    elif response.status_code == 429:
        response.headers["RateLimit-Policy"] = f'"user";q={get_web().settings.api_per_minute};w=60'
        response.headers["RateLimit"] = f'"user";r=0;t={response.headers.get("Retry-After", "60")}'
    return response
