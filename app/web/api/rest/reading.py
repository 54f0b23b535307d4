"""Strict validation of request data: types, lengths, unknown and repeated fields, depth (W14, W15, W16)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

import msgspec
from werkzeug.datastructures import MultiDict

from app.errors import InvalidError, NotFoundError
from app.web.api.rest.shapes import PARTS, Id

T = TypeVar("T")

DEPTH = 32
_WHERE = re.compile(r" - at `(?:key in )?\$(?:\.\.\.|\.)?([^`]*)`")
_NAMED = re.compile(r"field `([^`]{1,64})`")


def read_body(body: bytes, kind: type[T]) -> T:
    """Return a JSON text as this type.

    Raises:
        InvalidError: The text isn't JSON or doesn't match the type; the error names the field.
    """
    try:
        found = json.loads(
            body.decode("utf-8") or "{}",
            object_pairs_hook=_once,
            parse_constant=_no_number,
            parse_float=_finite,
        )
        _check(found)
    except RecursionError:
        raise InvalidError(
            "The JSON is nested too deeply. Use at most %(most)s levels.", most=DEPTH
        ) from None
    except ValueError as e:
        raise InvalidError("The request body isn't valid JSON. Send a JSON object in UTF-8.") from e
    return _converted(found, kind, strict=True)


def _once(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            # Readers disagree on the meaning of repeated names (RFC 8259 section 4).
            raise InvalidError("The field “%(field)s” was sent more than once.", field=name[:64])
        found[name] = value
    return found


def _no_number(word: str) -> Any:
    raise ValueError(word)


def _finite(text: str) -> float:
    if (number := float(text)) in (float("inf"), float("-inf")):
        raise ValueError(text)
    return number


def _check(found: Any) -> None:
    """Raise InvalidError if a value is nested too deeply or contains text that can't be stored."""
    level, rest = 0, [found]
    while rest:
        if (level := level + 1) > DEPTH + 1:
            raise InvalidError("The JSON is nested too deeply. Use at most %(most)s levels.", most=DEPTH)
        inner: list[Any] = []
        for value in rest:
            if isinstance(value, str):
                _storable(value)
            elif isinstance(value, dict):
                inner += [*value.keys(), *value.values()]
            elif isinstance(value, list):
                inner += value
        rest = inner


def _storable(text: str) -> None:
    # An unpaired surrogate isn't a character (RFC 8259 section 8.2).
    if "\x00" in text or any("\ud800" <= c <= "\udfff" for c in text):
        raise InvalidError("The text contains a character that can't be stored. Remove it and try again.")


def read_query(sent: MultiDict[str, str], kind: type[T]) -> T:
    """Return the query string of an address as this type.

    Raises:
        InvalidError: A field is unknown, repeated or doesn't match the type; the error names the field.
    """
    for name, values in sent.lists():
        if len(values) > 1:
            raise InvalidError("The field “%(field)s” was sent more than once.", field=name[:64])
        _storable(values[0])
    return _converted(sent.to_dict(), kind, strict=False)


def refuse_query(sent: MultiDict[str, str]) -> None:
    """Reject a query string where an operation has none; ignoring it would hide a program's mistake.

    Raises:
        InvalidError: There is a query string; the error names its first field.
    """
    if sent:
        raise InvalidError("Unknown field “%(field)s”.", field=next(iter(sent))[:64])


def read_path(sent: Mapping[str, str]) -> dict[str, Any]:
    """Return the parts of a path.

    Raises:
        NotFoundError: A part can't be an id.
        InvalidError: Another part doesn't match its type; the error names the part.
    """
    found: dict[str, Any] = {}
    for name, value in sent.items():
        kind = PARTS[name][0]
        try:
            if kind is Id:
                found[name] = msgspec.convert(_number(value), kind)
            else:
                _storable(value)
                found[name] = msgspec.convert(value, kind)
        except msgspec.ValidationError:
            if kind is Id:
                raise NotFoundError from None
            raise InvalidError("The field “%(field)s” has an invalid value.", field=name) from None
    return found


def _number(text: str) -> int:
    # Don't convert texts longer than any id: the conversion of long texts is slow.
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 16 and text[0] != "0" else 0


def _converted(found: Any, kind: type[T], *, strict: bool) -> T:
    try:
        return msgspec.convert(found, kind, strict=strict)
    except msgspec.ValidationError as e:
        raise _refusal(str(e)) from None


def _refusal(words: str) -> InvalidError:
    where, named = _WHERE.search(words), _NAMED.search(words)
    inside = where[1] if where else ""
    if named:
        field = f"{inside}.{named[1]}" if inside else named[1]
        if words.startswith("Object contains unknown"):
            return InvalidError("Unknown field “%(field)s”.", field=field)
        return InvalidError("The field “%(field)s” is missing.", field=field)
    if not inside:
        return InvalidError("The request body must be a JSON object.")
    return InvalidError("The field “%(field)s” has an invalid value.", field=inside)
