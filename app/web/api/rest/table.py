"""The one table of operations: what is asked, what is answered, who may; routes and document come of it.

    @operation("PATCH", "/folders/{folder_id}", "Rename a folder", scope=Scope.SUBSCRIBE, tag="Folders")
    def rename(who: Actor, folder_id: int, body: FolderName) -> Folder: ...

What a handler takes says what is sent: ``who`` is the caller, ``query`` and ``body`` are read by the types
that they are declared with, every other name is a part of the path. What it returns is what is answered.
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

#: What writes.
WRITES = frozenset({"POST", "PUT", "PATCH", "DELETE"})


@dataclasses.dataclass(frozen=True, slots=True)
class Reply(Generic[T]):
    """An answer with a status of its own; ``location``: where what was made is found, a path of the API."""

    body: T
    status: int = 200
    location: str = ""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One row.

    Attributes:
        name: its ``operationId``. path: below ``/api/v1``.
        scope: what a token needs for it, None: any token is enough.
        takes: types of a body that is no JSON; raw: the field that it becomes.
        gives: the type of an answer that is no JSON, else None.
        statuses: of answers that are no errors. errors: what it may answer beside what all may.
        guarded: ``If-Match`` is compared with what GET answers at the same path.
        once: it takes an Idempotency-Key; not what answers something that soon is worth nothing.
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

    @property
    def writes(self) -> bool:
        """Whether it changes something."""
        return self.method in WRITES

    @property
    def needs_body(self) -> bool:
        """Whether there is a field that must be sent."""
        if self.body is None:
            return False
        return any(field.required for field in msgspec.structs.fields(self.body))


OPERATIONS: list[Operation] = []
#: The order in which a reader of the document meets what there is: what programs ask first.
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
    "Events",
    "Settings",
)
#: A value of each type of body and answer, as the document shows it.
EXAMPLES: dict[Any, Any] = {}


def add_example(value: T) -> T:
    """Let the document show this value of its type."""
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
) -> Callable[[Handler], Handler]:
    """Register a handler."""

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
