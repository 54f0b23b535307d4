"""The OpenAPI 3.1 document, built from the table of operations and the types that validate requests."""

from __future__ import annotations

import functools
from typing import Any

import msgspec

from app.errors import EventrError
from app.web.api.rest.shapes import PARTS
from app.web.api.rest.table import EXAMPLES, JSON, OPERATIONS, Operation, list_tags
from app.web.problems import TYPE

VERSION = "1.0.0"
_REF = "#/components/schemas/{name}"
#: The meaning of each error status.
MEANINGS = {
    400: "The request isn't valid; `field` names the field at fault.",
    401: "The access token is missing or isn't valid.",
    403: "The access token lacks a scope, or this action isn't allowed at all.",
    404: "The object doesn't exist, or you don't have access to it.",
    409: "The object already exists, or the request conflicts with its current state.",
    411: "The request has no Content-Length header. Send the body in one piece.",
    412: "The object has changed: `If-Match` doesn't match its current version.",
    413: "The request exceeds a limit of this server.",
    415: "The content type of the body isn't supported.",
    422: "This Idempotency-Key was already used for a different request.",
    429: "Too many requests. `Retry-After` says how many seconds to wait.",
    500: "An internal error. The server has logged it.",
    503: "MongoDB or Redis isn't responding. Try again in a moment.",
    507: "Your storage is full. Delete files that you don't need.",
}
#: The name of the error 503 of operations that a full disk stops.
NO_SPACE = "ProblemNoSpace"

#: Headers of answers, and their meaning.
HEADERS = {
    "ETag": "Version of this response, for `If-None-Match` and `If-Match`.",
    "Idempotency-Replayed": "`true` if this is the stored response to an earlier request with the same key.",
    "Link": 'Address of the next page, with `rel="next"`.',
    "Location": "Address of the result.",
    "RateLimit": "Requests left (`r`) and seconds until the limit resets (`t`).",
    "RateLimit-Policy": "Requests allowed (`q`) per window of seconds (`w`).",
    "Retry-After": "Seconds to wait before the next request.",
}


class Problem(msgspec.Struct, kw_only=True):
    """A problem (RFC 9457).

    `word` is a stable error code. `field` names the field at fault, `scope` the missing scope.
    """

    type: str
    title: str
    status: int
    detail: str
    word: str
    field: str | msgspec.UnsetType = msgspec.UNSET
    scope: str | msgspec.UnsetType = msgspec.UNSET
    retry_after: int | msgspec.UnsetType = msgspec.UNSET


EXAMPLES[Problem] = Problem(
    type="/api/docs#error-not_found",
    title="Not found",
    status=404,
    detail="This doesn't exist, or you don't have access to it.",
    word="not_found",
)


@functools.cache
def build_document() -> bytes:
    """Return the document as JSON; it is the same for everyone."""
    kinds: list[Any] = [Problem]
    for operation in OPERATIONS:
        kinds += [k for k in (operation.body, operation.query) if k]
        if operation.answer is not None and operation.gives is None:
            kinds.append(operation.answer)
    kinds = list(dict.fromkeys(kinds))
    refs, components = msgspec.json.schema_components(kinds, ref_template=_REF)
    known = dict(zip(kinds, refs, strict=True))
    queries = {
        k: components.pop(k.__name__) for o in OPERATIONS if (k := o.query) and k.__name__ in components
    }
    paths: dict[str, dict[str, Any]] = {}
    for operation in OPERATIONS:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _operation(operation, known, queries)
    return msgspec.json.encode(
        {
            "openapi": "3.1.0",
            "info": {
                "title": "Eventr",
                "version": VERSION,
                "description": (
                    "Everything that people can do on the pages of Eventr. IDs are whole numbers "
                    "below 2^53. Times are in UTC, in RFC 3339 format."
                ),
                "license": {"name": "MIT", "identifier": "MIT"},
            },
            "servers": [{"url": "/api/v1"}],
            "security": [{"token": []}],
            "tags": [{"name": tag} for tag in list_tags()],
            "paths": paths,
            "components": {
                "schemas": components,
                "responses": _problems(known),
                "headers": {
                    name: {"description": said, "schema": {"type": "string"}}
                    for name, said in HEADERS.items()
                },
                "securitySchemes": {
                    "token": {
                        "type": "http",
                        "scheme": "bearer",
                        "bearerFormat": "evt_…",
                        "description": "Create an access token in Settings → Apps, with the scopes you need.",
                    }
                },
            },
        }
    )


def _operation(o: Operation, known: dict[Any, Any], queries: dict[Any, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {
        "operationId": o.name,
        "summary": o.summary,
        "description": f"{o.about} Scope: {f'`{o.scope.value}`' if o.scope else 'any'}.".strip(),
        "tags": [o.tag],
        "security": [{"token": [o.scope.value] if o.scope else []}],
        "responses": _responses(o, known),
    }
    if parameters := [*_path(o), *_query(o, queries), *_headers(o)]:
        found["parameters"] = parameters
    if o.body is not None:
        content: dict[str, Any] = {JSON: {"schema": known[o.body], "example": build_example(o.body)}}
        for kind in o.takes:
            content[kind] = {"schema": {"type": "string"}, "example": build_example(o.body)[o.raw]}
        found["requestBody"] = {"required": o.needs_body, "content": content}
    return found


def build_example(kind: Any) -> Any:
    """Return the example of a type as JSON values."""
    return msgspec.to_builtins(EXAMPLES[kind])


def _path(o: Operation) -> list[dict[str, Any]]:
    return [
        {
            "name": name,
            "in": "path",
            "required": True,
            "description": PARTS[name][2],
            "schema": _plain(msgspec.json.schema(PARTS[name][0])),
            "example": PARTS[name][1],
        }
        for name in o.path_fields
    ]


def _query(o: Operation, queries: dict[Any, Any]) -> list[dict[str, Any]]:
    if o.query is None:
        return []
    schema = queries[o.query]
    required = set(schema.get("required", ()))
    return [
        {
            "name": name,
            "in": "query",
            "required": name in required,
            "description": of.get("description", ""),
            "schema": _plain(of),
            **({"example": build_example(o.query)[name]} if name in required else {}),
        }
        for name, of in schema["properties"].items()
    ]


def _headers(o: Operation) -> list[dict[str, Any]]:
    if not o.writes:
        return [
            _header(
                "If-None-Match", "ETag of a response you already have. Returns 304 if nothing has changed."
            )
        ]
    found = []
    if o.once:
        found.append(
            _header(
                "Idempotency-Key",
                ("Unique key for this request. A repeated request with the same key runs only once."),
                64,
            )
        )
    if o.guarded:
        found.append(
            _header("If-Match", "ETag from GET on this path. Returns 412 if the object has changed since.")
        )
    return found


def _header(name: str, about: str, limit: int = 512) -> dict[str, Any]:
    # Printable ASCII without quotes and spaces.
    schema = {"type": "string", "pattern": "^[!#-~]+$", "maxLength": limit, "minLength": 1}
    return {"name": name, "in": "header", "required": False, "description": about, "schema": schema}


def _plain(schema: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in schema.items() if name != "description"}


def list_error_statuses(o: Operation) -> list[int]:
    """Return the error statuses that an operation may answer, in ascending order."""
    found = {401, 403, 429, 500, 503, 400, *o.errors}
    if o.path_fields:
        found.add(404)
    if o.writes:
        found |= {411, 413}
    if o.once:
        found |= {409, 422}
    if o.body is not None:
        found.add(415)
    if o.guarded:
        found.add(412)
    return sorted(found)


def _responses(o: Operation, known: dict[Any, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for status in o.statuses:
        said = "Success." if status != 202 else "Accepted. The work continues in the background."
        found[str(status)] = {"description": said, "headers": _success(o)}
        if o.gives:
            found[str(status)]["content"] = {o.gives.partition(";")[0]: {"schema": {"type": "string"}}}
        elif o.answer is not None:
            shown = {"schema": known[o.answer], "example": build_example(o.answer)}
            found[str(status)]["content"] = {JSON: shown}
    if not o.writes:
        found["304"] = {"description": "Not modified."}
    for status in list_error_statuses(o):
        name = NO_SPACE if status == 503 and o.needs_space else f"Problem{status}"
        found[str(status)] = {"$ref": f"#/components/responses/{name}"}
    return found


def _problems(known: dict[Any, Any]) -> dict[str, Any]:
    content = {TYPE: {"schema": known[Problem], "example": build_example(Problem)}}
    found: dict[str, Any] = {
        f"Problem{status}": {"description": said, "content": content} for status, said in MEANINGS.items()
    }
    full = (
        "The word is `no_space`: a disk of the server is almost full, so it fetches and imports nothing. "
        f"Reading still works. With another word: {MEANINGS[503]}"
    )
    found[NO_SPACE] = {"description": full, "content": content}
    for name in ("Problem429", "Problem503", NO_SPACE):
        found[name]["headers"] = _told("Retry-After")
    return found


def _told(*names: str) -> dict[str, Any]:
    return {name: {"$ref": f"#/components/headers/{name}"} for name in names}


def _success(o: Operation) -> dict[str, Any]:
    """Return the headers of successful answers."""
    names = ["RateLimit", "RateLimit-Policy"]
    if o.once:
        names.append("Idempotency-Replayed")
    elif not o.writes:
        names.append("ETag")
    if {201, 202} & set(o.statuses) and o.once:
        names.append("Location")
    if "resting" in getattr(o.answer, "__struct_fields__", ()):
        names.append("Retry-After")
    if "next" in getattr(o.answer, "__struct_fields__", ()):
        names.append("Link")
    return _told(*names)


def list_errors() -> list[tuple[str, int, str]]:
    """Return all error codes with their status and message."""

    def list_subclasses(kind: type[EventrError]) -> list[type[EventrError]]:
        return [kind, *(k for sub in kind.__subclasses__() for k in list_subclasses(sub))]

    ours = {
        k.code: (k.http_status, k.default) for k in list_subclasses(EventrError) if k.http_status in MEANINGS
    }
    return [(word, *what) for word, what in ours.items()]
