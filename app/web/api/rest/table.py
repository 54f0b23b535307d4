"""The table of operations: scopes, request and answer types. Routes and OpenAPI document derive from it.

    @add_operation("PATCH", "/folders/{folder_id}", "Rename a folder", scope=Scope.SUBSCRIBE, tag="Folders")
    def rename(actor: Actor, folder_id: int, body: FolderName) -> Folder: ...

A handler's parameters declare the request: ``actor`` is the caller, ``query`` and ``body`` are validated by
their types, every other name is a part of the path. The return type declares the answer.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable
from typing import Any, Generic, TypeVar, get_args, get_origin, get_type_hints

import msgspec

from app.models.accounts.token import Scope

T = TypeVar("T")
Handler = TypeVar("Handler", bound=Callable[..., Any])
JSON = "application/json"
OPML = "text/x-opml"

#: Methods that write.
WRITES = frozenset({"POST", "PUT", "PATCH", "DELETE"})


@dataclasses.dataclass(frozen=True, slots=True)
class Reply(Generic[T]):
    """An answer with its own status.

    Attributes:
        location: the API path of the created resource.
        retry_after: seconds until it is worth repeating the request; 0: no such time.
    """

    body: T
    status: int = 200
    location: str = ""
    retry_after: int = 0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One row of the table.

    Attributes:
        name: The ``operationId``.
        path: The path below ``/api/v1``.
        scope: The scope that a token needs; None: any token is enough.
        takes: Media types of a body other than JSON.
        raw: The field that such a body becomes.
        gives: The media type of an answer other than JSON, else None.
        statuses: The statuses of successful answers.
        errors: Error statuses beyond those that all operations may answer.
        guarded: ``If-Match`` is compared with the answer of GET at the same path.
        once: The operation accepts an Idempotency-Key; False if its answer is soon worthless.
        needs_space: It answers 503 with the word ``no_space`` while a disk of the server is almost full.
    """

    name: str
    method: str
    path: str
    summary: str
    about: str
    tag: str
    scope: Scope | None
    handler: Callable[..., Any]
    path_fields: tuple[str, ...]
    query: type[msgspec.Struct] | None
    body: type[msgspec.Struct] | None
    answer: Any
    statuses: tuple[int, ...]
    errors: tuple[int, ...]
    takes: tuple[str, ...] = ()
    raw: str = ""
    gives: str | None = None
    guarded: bool = False
    once: bool = True
    needs_space: bool = False

    @property
    def writes(self) -> bool:
        """Whether the operation changes anything."""
        return self.method in WRITES

    @property
    def needs_body(self) -> bool:
        """Whether the body has a required field."""
        if self.body is None:
            return False
        return any(field.required for field in msgspec.structs.fields(self.body))


OPERATIONS: list[Operation] = []
#: The order of the groups in the document: what programs need first comes first.
_ORDER = (
    "Account",
    "Streams",
    "Entries",
    "Subscriptions",
    "Folders",
    "Tags and searches",
    "Discover",
    "Shares",
    "Comments",
    "People",
    "Notifications",
    "Imports",
    "Files",
    "Events",
    "Settings",
)
#: An example of each body and answer type for the document.
EXAMPLES: dict[Any, Any] = {}


def add_example(value: T) -> T:
    """Register this value as the example of its type."""
    EXAMPLES[type(value)] = value
    return value


def add_operation(
    method: str,
    path: str,
    summary: str,
    *,
    scope: Scope | None,
    tag: str,
    status: int | tuple[int, ...] = 200,
    errors: tuple[int, ...] = (),
    request_headers: tuple[str, ...] = (),
    raw_body: str = "",
    answer_type: str | None = None,
    guarded: bool = False,
    once: bool = True,
    needs_space: bool = False,
) -> Callable[[Handler], Handler]:
    """Register a handler as an operation."""

    def register(handler: Handler) -> Handler:
        hints = get_type_hints(handler)
        names = list(inspect.signature(handler).parameters)
        answer = hints["return"]
        if get_origin(answer) is Reply:
            (answer,) = get_args(answer)
        OPERATIONS.append(
            Operation(
                name=_camel(handler.__name__),
                method=method,
                path=path,
                summary=summary,
                about=" ".join((inspect.getdoc(handler) or "").split()),
                tag=tag,
                scope=scope,
                handler=handler,
                path_fields=tuple(n for n in names if n not in ("actor", "query", "body")),
                query=hints.get("query"),
                body=hints.get("body"),
                answer=None if answer is type(None) else answer,
                statuses=status if isinstance(status, tuple) else (status,),
                errors=errors,
                takes=request_headers,
                raw=raw_body,
                gives=answer_type,
                guarded=guarded,
                once=once and method in WRITES,
                needs_space=needs_space,
            )
        )
        return handler

    return register


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(map(str.capitalize, rest))


def list_tags() -> list[str]:
    """Return the groups of operations in the order of the document."""
    found = dict.fromkeys(each.tag for each in OPERATIONS)
    return sorted(found, key=lambda tag: _ORDER.index(tag) if tag in _ORDER else len(_ORDER))
