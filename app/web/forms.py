"""Input by schema: a frozen dataclass declares the fields, their types and lengths (W14, W15).

    @dataclass(frozen=True, slots=True)
    class Mark:
        entry: tuple[int, ...]
        read: bool = True
        next: str = declare_text(max=2048, default="")

Only strings come in and only the declared types go on, so store operators can't be injected.
"""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Callable, Iterator
from typing import Annotated, Any, Literal, TypeVar, get_type_hints

import msgspec
from flask import Request
from msgspec import Meta
from werkzeug.datastructures import MultiDict

from app.errors import InvalidError, TooLargeError
from app.web.security.csrf import FIELD

T = TypeVar("T")

MAX_FIELDS = 1000
MAX_TEXT = 4096
_WORDS = {"1": True, "true": True, "on": True, "yes": True}
_WORDS |= {"0": False, "false": False, "off": False, "no": False, "": False}
#: Ids are 53-bit (design.md §3).
_Id = Annotated[int, Meta(ge=0, le=1 << 53)]
_FIELD = re.compile(r"`\$\.(\w+)|required field `(\w+)`")
_LENGTH = re.compile(r"length <= (\d+)")


def declare_text(*, max: int, default: str | None = None, one_of: tuple[str, ...] = ()) -> Any:
    """Declare a text field: its maximum length, its default (None: required), the allowed values."""
    extra: dict[str, Any] = {} if default is None else {"default": default}
    return dataclasses.field(metadata={"max": max, "one_of": one_of}, **extra)


@dataclasses.dataclass(frozen=True, slots=True)
class Empty:
    """A form without fields, such as a single button."""


def read_form(request: Request, schema: type[T]) -> T:
    """Read a form.

    Raises:
        InvalidError: A field is unknown, missing, repeated or of the wrong type; the error names the field.
        TooLargeError: The form has more than 1,000 values.
    """
    sent = request.form
    unknown = set(sent) - {FIELD} - _names(schema)
    if unknown:
        raise InvalidError(
            "The form contains an unknown field. Reload the page and try again.", field=min(unknown)
        )
    return _read(sent, schema)


def read_query(request: Request, schema: type[T]) -> T:
    """Read the query string of an address; ignore parameters that others append to links (utm_…).

    Raises:
        InvalidError: A field is of the wrong type.
    """
    return _read(request.args, schema)


def _names(schema: type[Any]) -> set[str]:
    return {f.name for f in dataclasses.fields(schema)}


def _read(sent: MultiDict[str, str], schema: type[T]) -> T:
    if sum(len(values) for _, values in sent.lists()) > MAX_FIELDS:
        raise TooLargeError
    shape, readers = _shape(schema)  # type: ignore[arg-type]
    try:
        found = msgspec.convert(dict(_values(sent, readers)), shape)
    except msgspec.ValidationError as e:
        raise _error(str(e), shape) from e
    # Fields that weren't sent keep the schema's default.
    return schema(**{name: value for name, value in msgspec.structs.asdict(found).items() if name in sent})


def _values(sent: MultiDict[str, str], readers: dict[str, Callable[[str], Any]]) -> Iterator[tuple[str, Any]]:
    for name, read in readers.items():
        raw = sent.getlist(name)
        if read in (_number, str) and raw:
            yield name, [read(value) for value in raw]
        elif len(raw) > 1:
            raise InvalidError("The field “%(field)s” was sent more than once.", field=name)
        elif raw:
            yield name, read(raw[0])


@functools.cache
def _shape(schema: type[Any]) -> tuple[type[msgspec.Struct], dict[str, Callable[[str], Any]]]:
    """Return what msgspec checks the values of a schema by, and how each is read from its text."""
    hints = get_type_hints(schema)
    fields: list[Any] = []
    readers: dict[str, Callable[[str], Any]] = {}
    for field in dataclasses.fields(schema):
        kind, readers[field.name] = _KINDS[hints[field.name]](field)
        required = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        fields.append(
            (field.name, kind) if required else (field.name, kind | msgspec.UnsetType, msgspec.UNSET)
        )
    return msgspec.defstruct(schema.__name__, fields, kw_only=True), readers


def _error(message: str, shape: type[msgspec.Struct]) -> InvalidError:
    """Return our sentence for what msgspec says of a field."""
    where = _FIELD.search(message)
    name = (where[1] or where[2]) if where else ""
    if "missing required" in message:
        return InvalidError("The field “%(field)s” is missing.", field=name)
    if limit := _LENGTH.search(message):
        return InvalidError(
            "The field “%(field)s” can have at most %(limit)s characters.", field=name, limit=int(limit[1])
        )
    if "matching regex" in message:
        return InvalidError(
            "The field “%(field)s” contains a character that can't be stored. Remove it and try again.",
            field=name,
        )
    if "`bool`" in message:
        return InvalidError("The field “%(field)s” must be yes or no.", field=name)
    if "`int" in message:
        return InvalidError("The field “%(field)s” must be a number.", field=name)
    return InvalidError("The field “%(field)s” has an invalid value.", field=name)


def parse_id(raw: str) -> int:
    """Read an id that is part of a text.

    Raises:
        InvalidError: it isn't an id.
    """
    try:
        return msgspec.convert(_number(raw), _Id)
    except msgspec.ValidationError:
        raise InvalidError("The field “%(field)s” must be a number.", field="id") from None


def _number(raw: str) -> int | str:
    return int(raw) if raw.isascii() and raw.isdigit() and len(raw) <= 16 else raw


def _text(field: dataclasses.Field[Any]) -> Any:
    if words := field.metadata.get("one_of"):
        return Literal[words]
    limit = field.metadata.get("max", MAX_TEXT)
    return Annotated[str, Meta(max_length=limit, pattern=r"\A[^\x00]*\Z")]


#: Type of a field → what msgspec takes it for, and how it is read; several numbers are read one by one.
_KINDS: dict[Any, Callable[[dataclasses.Field[Any]], tuple[Any, Callable[[str], Any]]]] = {
    tuple[int, ...]: lambda _: (tuple[_Id, ...], _number),
    tuple[str, ...]: lambda field: (tuple[_text(field), ...], str),  # type: ignore[misc]
    int: lambda _: (_Id, lambda raw: _number(raw)),
    int | None: lambda _: (_Id | None, lambda raw: _number(raw) if raw else None),
    bool: lambda _: (bool, lambda raw: _WORDS.get(raw.lower(), raw)),
    str: lambda field: (_text(field), lambda raw: raw),
}
