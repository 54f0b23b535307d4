"""Input by schema: a frozen dataclass says which fields there are, of which type and how long (W14, W15).

    @dataclass(frozen=True, slots=True)
    class Mark:
        entry: tuple[int, ...]
        read: bool = True
        next: str = text(max=2048, default="")

Only strings come in, only the declared types go on: no operator of the store can be smuggled in.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, TypeVar, get_type_hints

from flask import Request
from werkzeug.datastructures import MultiDict

from app.errors import InvalidError, TooLargeError
from app.web.security.csrf import FIELD

T = TypeVar("T")

MAX_FIELDS = 1000
MAX_TEXT = 4096
_TRUE, _FALSE = {"1", "true", "on", "yes"}, {"0", "false", "off", "no", ""}
#: Ids are 53-bit (design.md §3).
_MAX_ID = 1 << 53


def declare_text(*, max: int, default: str | None = None, one_of: tuple[str, ...] = ()) -> Any:
    """Declare a text field: its longest length, its default (None: required), the words allowed."""
    extra: dict[str, Any] = {} if default is None else {"default": default}
    return dataclasses.field(metadata={"max": max, "one_of": one_of}, **extra)


@dataclasses.dataclass(frozen=True, slots=True)
class Empty:
    """A form without fields: a button."""


def read_form(request: Request, schema: type[T]) -> T:
    """Read a form.

    Raises:
        InvalidError: a field is unknown, missing, doubled or of the wrong type; names it.
        TooLargeError: more than 1,000 values.
    """
    sent = request.form
    unknown = set(sent) - {FIELD} - _names(schema)
    if unknown:
        raise InvalidError(
            "The form contains an unknown field. Reload the page and try again.", field=min(unknown)
        )
    return _read(sent, schema)


def read_query(request: Request, schema: type[T]) -> T:
    """Read the query part of an address; what others append to links (utm_…) is passed over.

    Raises:
        InvalidError: a field is of the wrong type.
    """
    return _read(request.args, schema)


def _names(schema: type[Any]) -> set[str]:
    return {f.name for f in dataclasses.fields(schema)}


def _read(sent: MultiDict[str, str], schema: type[T]) -> T:
    if sum(len(values) for _, values in sent.lists()) > MAX_FIELDS:
        raise TooLargeError
    hints = get_type_hints(schema)
    values: dict[str, Any] = {}
    for field in dataclasses.fields(schema):  # type: ignore[arg-type]
        raw = sent.getlist(field.name)
        if raw:
            values[field.name] = _convert(field, hints[field.name], raw)
        elif field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            raise InvalidError("The field “%(field)s” is missing.", field=field.name)
    return schema(**values)


def _convert(field: dataclasses.Field[Any], kind: Any, raw: list[str]) -> Any:
    if kind == tuple[int, ...]:
        return tuple(_int(field.name, value) for value in raw)
    if len(raw) > 1:
        raise InvalidError("The field “%(field)s” was sent more than once.", field=field.name)
    return _READERS[kind](field, raw[0])


def _int(name: str, raw: str) -> int:
    if not raw.isascii() or not raw.isdigit() or len(raw) > 16 or int(raw) > _MAX_ID:
        raise InvalidError("The field “%(field)s” must be a number.", field=name)
    return int(raw)


def parse_id(raw: str) -> int:
    """Read an id that is a part of a text.

    Raises:
        InvalidError: it is none.
    """
    return _int("id", raw)


def _optional_int(field: dataclasses.Field[Any], raw: str) -> int | None:
    return _int(field.name, raw) if raw else None


def _bool(field: dataclasses.Field[Any], raw: str) -> bool:
    if raw.lower() not in _TRUE | _FALSE:
        raise InvalidError("The field “%(field)s” must be yes or no.", field=field.name)
    return raw.lower() in _TRUE


def _text(field: dataclasses.Field[Any], raw: str) -> str:
    limit = field.metadata.get("max", MAX_TEXT)
    if len(raw) > limit:
        raise InvalidError(
            "The field “%(field)s” can have at most %(limit)s characters.", field=field.name, limit=limit
        )
    if "\x00" in raw:
        raise InvalidError(
            "The field “%(field)s” contains a character that can't be stored. Remove it and try again.",
            field=field.name,
        )
    if field.metadata.get("one_of") and raw not in field.metadata["one_of"]:
        raise InvalidError("The field “%(field)s” has an invalid value.", field=field.name)
    return raw


_READERS: dict[Any, Callable[[dataclasses.Field[Any], str], Any]] = {
    int: lambda field, raw: _int(field.name, raw),
    int | None: _optional_int,
    bool: _bool,
    str: _text,
}
